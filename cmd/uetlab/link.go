package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/internal/faults"
)

func linkCommand() *cli.Command {
	return verb{name: "link", usage: "list links, take them down, damage them, mend them",
		text: "LINK is leaf0-spine1, leaf0-spine1#2 for a parallel one, or one of its ports, leaf0:eth3; fail, restore and set take patterns of names, 'leaf*-spine*'. A change takes effect at one\n" +
			"virtual time at both ends, which is printed: as soon as every node can know of it, or --at +50us after the start of\n" +
			"the run that runs (else of the next one), or --at 1.5ms since the lab came up.",
		examples: []string{"uetlab link ls", "uetlab link fail leaf0-spine0", "uetlab link set leaf0-spine0 loss=0.1%", "uetlab link flap leaf0-spine0 --down 20us --period 100us"},
		subs: []*cli.Command{
			verb{name: "ls", usage: "list the links and what is wrong with them",
				examples: []string{"uetlab link ls", "uetlab link ls --format json"},
				flags:    labFlags(), run: runLinkLs}.command(),
			verb{name: "fail", args: "LINK…", usage: "take links down", min: 1, max: -1,
				text:     "The ECMP groups of the switches at the link lose it at once, the rest of the fabric after the topology's routing.convergence.",
				examples: []string{"uetlab link fail leaf0-spine0", "uetlab link fail leaf0-spine0 --at +30us", "uetlab link fail leaf0-spine1 --from leaf0"},
				flags:    changeFlags(), run: func(c *call) error { return c.changeLinks(api.LinkOpFail) }}.command(),
			verb{name: "restore", args: "LINK…", usage: "bring links up again, free of every impairment", min: 1, max: -1,
				examples: []string{"uetlab link restore leaf0-spine0", "uetlab link restore leaf0-spine0 leaf1-spine0 --at +200us"},
				flags:    changeFlags(), run: func(c *call) error { return c.changeLinks(api.LinkOpRestore) }}.command(),
			verb{name: "set", args: "LINK SETTING…", usage: "change what is wrong with a link", min: 2, max: -1,
				text: "Settings, each of which =off ends:\n" +
					"  loss=0.1%                    of frames\n" +
					"  burst=p:1%,r:25%             loss in bursts: a frame in a hundred makes the link bad, one in four good again;\n" +
					"                               bad:100% and good:0%, which may be added, are the losses meanwhile\n" +
					"  ber=1e-7                     of bits arrive wrong, and the frame is dropped for its FCS\n" +
					"  ucr=1e-6                     of codewords cannot be corrected by FEC: all frames in them are damaged\n" +
					"  rawber=2e-4                  of bits are wrong before FEC: most are corrected, see `uetlab phy`\n" +
					"  duplicate=0.1%               of frames arrive twice\n" +
					"  reorder=1%  reorder=1%,2us   of frames are held back, for four frames' time or as long as said, and overtaken\n" +
					"  delay=+2us                   in addition to the link's own\n" +
					"  jitter=1us  jitter=1us,normal\n" +
					"                               random delay in addition: uniform, normal, exponential or pareto\n" +
					"  rate=25%    rate=100Gbps     of the link's rate\n" +
					"  blackhole                    carrier up, nothing arrives\n" +
					"  corrupt=1%  corrupt=1%,payload,3bits\n" +
					"                               of frames arrive with wrong bits: anywhere, or in payload, header, llr or fcs\n" +
					"  poison=0.1%                  of frames arrive as broken before this link\n" +
					"  exact=901:drop,1r:corrupt    the 901st frame from now, or of the run: drop, duplicate, poison, seqskip, seqdup, corrupt or\n" +
					"                               corrupt-REGION; 5-9 stands for five frames, r for what link layer retry sends once more\n" +
					"  setloss=5%  setloss=100%,nack\n" +
					"                               of ordered sets are lost: of all, or of ack, nack, init, echo, cf\n" +
					"  ccloss=100%                  of CC_Updates are lost\n" +
					"  llr=on                       link layer retry, of both directions; llr=reinit as uetlab llr reinit\n" +
					"  cbfc=off                     no credits, of both directions, from now on; what waits is still sent as credits allow. cbfc=on where the\n" +
					"                               topology has them, from the next run on\n" +
					"  cbfc=limit:64KiB             room that a receiver announces, where lldp: on\n" +
					"  down\n" +
					"Where a link negotiates (lldp: on in the topology), llr= and cbfc= are what its ends want, with --from what that node wants.",
				examples: []string{"uetlab link set leaf0-spine0 loss=0.1%", "uetlab link set leaf0-spine0 delay=+2us rate=25% --from leaf0",
					"uetlab link set leaf0:eth3 blackhole --at +50us", "uetlab link set leaf0-spine1 burst=p:0.1%,r:10% ber=1e-7 jitter=1us,normal",
					"uetlab link set leaf0-spine1 exact=901:corrupt-payload setloss=100%,nack --from leaf0 --at +0s", "uetlab link set leaf0-spine1 blackhole=off down", "uetlab link set 'leaf*-spine*' llr=on ber=1e-7"},
				flags: changeFlags(), run: runLinkSet}.command(),
			verb{name: "flap", args: "LINK…", usage: "take links down and up by turns", min: 1, max: -1,
				text: "Every --period the links go down for --down, --count times. All is scheduled at once or nothing. The rest of the fabric follows\n" +
					"every turn after the topology's routing.convergence. A link that comes up is free of every impairment.",
				examples: []string{"uetlab link flap leaf0-spine0 --down 20us --period 100us --count 5 --at +10us", "uetlab link flap leaf0-spine0 leaf1-spine0 --down 1ms --period 10ms"},
				flags:    append(flapFlags(), changeFlags()...), run: runLinkFlap}.command(),
		}}.command()
}

func changeFlags() []cli.Flag {
	return labFlags(&cli.StringFlag{Name: "from", Usage: "only the direction in which `NODE` sends"}, atFlag())
}

func atFlag() cli.Flag {
	return &cli.StringFlag{Name: "at", Usage: "virtual `TIME`: +50us after the start of a run, or 1.5ms since the lab came up", Action: func(_ *cli.Context, s string) error {
		if _, _, err := api.ParseAt(s); err != nil {
			return usage("--at (%s): not a virtual time", s).WithHint("%s", api.AsError(err).Hint)
		}
		return nil
	}}
}

func runLinkLs(c *call) error {
	cl, d, err := c.client()
	if err != nil {
		return err
	}
	links, err := cl.Links(c.ctx)
	if err != nil {
		return explain(d, err)
	}
	return c.render(links, func() table {
		t := table{columns: []string{"LINK", "A", "B", "RATE", "DELAY", "STATE", "LLR", "CBFC", "A TO B", "B TO A"}}
		for _, l := range links {
			t.add(l.Name, l.A, l.B, rate(l.RateBps), nanos(l.DelayNs), l.State, offDash(l.LLRText()), offDash(l.CBFCText()), dash(l.AB.Impair.Text()), dash(l.BA.Impair.Text()))
		}
		return t
	})
}

// offDash writes what is off as a dash.
func offDash(text string) string {
	if text == "off" {
		return "-"
	}
	return text
}

// changeLinks makes the same change to every link named.
func (c *call) changeLinks(op string) error { return c.change(c.args, api.LinkChange{Op: op}) }

func runLinkSet(c *call) error {
	set, err := faults.ParseSettings(c.args[1:])
	if err != nil {
		return faultError(err)
	}
	return c.change(c.args[:1], api.LinkChange{Op: api.LinkOpSet, Set: set})
}

// settingWords are the beginnings of what link set takes, for completion.
func settingWords() []string {
	var words []string
	for _, n := range faults.SettingNames() {
		switch n {
		case "down", "blackhole":
			words = append(words, n)
		case "delay":
			words = append(words, n+"=+")
		default:
			words = append(words, n+"=")
		}
	}
	return words
}

func flapFlags() []cli.Flag {
	return []cli.Flag{
		&cli.DurationFlag{Name: "down", Usage: "how long (virtual `TIME`) the link is down every time"},
		&cli.DurationFlag{Name: "period", Usage: "virtual `TIME` from one failure to the next"},
		&cli.IntFlag{Name: "count", Value: 1, Usage: fmt.Sprintf("how often, `N` up to %d", faults.MaxFlaps)},
	}
}

func runLinkFlap(c *call) error {
	for _, name := range []string{"down", "period"} {
		if !c.IsSet(name) {
			return usage("link flap: --%s is missing", name).WithHint("for example --down 20us --period 100us")
		}
	}
	flap := api.LinkFlap{DownNs: int64(c.Duration("down")), PeriodNs: int64(c.Duration("period")), Count: c.Int("count")}
	if err := flap.Check(); err != nil {
		return faultError(err)
	}
	s := api.FaultScript{At: c.String("at")}
	for _, l := range c.args {
		s.Steps = append(s.Steps, api.FaultStep{Link: l, Op: api.LinkOpFlap, From: c.String("from"), Flap: flap})
	}
	return c.script(s)
}

// script has the lab schedule a list of changes and prints when they take place.
func (c *call) script(s api.FaultScript) error {
	cl, d, err := c.client()
	if err != nil {
		return err
	}
	r, err := cl.Script(c.ctx, s)
	if err != nil {
		return explain(d, err)
	}
	return c.render(r, func() table {
		t := table{columns: []string{"WHEN", "FROM", "IN THE RUN", "CHANGES", "LAST", "ROUTES AT"}}
		from, rel, last := nanos(r.AtNs), "-", nanos(r.LastNs)
		if r.When == api.WhenNextRun {
			from, last = "-", "-"
		}
		if r.When != api.WhenNow {
			rel = "+" + nanos(r.RelNs)
		}
		t.add(r.When, from, rel, r.Changes, last, routesAt(r.RoutesAtNs))
		return t
	})
}

// watchLinks prints what is known of the links that the arguments mean, of all without one, again and again with --watch.
func watchLinks[T any](c *call, ask func(cl *api.Client, ctx context.Context, links ...string) ([]T, error), print func(list []T) error) error {
	cl, d, err := c.client()
	if err != nil {
		return err
	}
	return c.watch(func() (func() error, error) {
		list, err := ask(cl, c.ctx, c.args...)
		if err != nil {
			return nil, explain(d, err)
		}
		return func() error { return print(list) }, nil
	})
}

// spread puts the links that patterns mean in the place of these.
func spread(plan *topology.Plan, args []string) (names []string, err error) {
	for _, arg := range args {
		if !strings.ContainsAny(arg, "*?[") {
			names = append(names, arg)
			continue
		}
		ids, err := plan.FindLinks([]string{arg})
		if err != nil {
			return nil, api.Errorf(api.CodeNotFound, "%w", err)
		}
		for _, id := range ids {
			names = append(names, plan.Links[id].Name)
		}
	}
	return names, nil
}

// change sends a change for each of the links and prints when they take effect.
func (c *call) change(links []string, ch api.LinkChange) error {
	cl, d, err := c.client()
	if err != nil {
		return err
	}
	ch.From, ch.At = c.String("from"), c.String("at")
	if slices.ContainsFunc(links, func(l string) bool { return strings.ContainsAny(l, "*?[") }) {
		plan, err := cl.Plan(c.ctx)
		if err != nil {
			return explain(d, err)
		}
		if links, err = spread(&plan, links); err != nil {
			return err
		}
	}
	var results []api.LinkChangeResult
	for _, l := range links {
		r, err := cl.ChangeLink(c.ctx, l, ch)
		if err != nil && len(results) > 0 {
			e := api.AsError(explain(d, err))
			return api.Errorf(api.CodePartial, "%w", e).WithHint("%d of %d links are changed already, from %s on", len(results), len(links), results[0].Link)
		}
		if err != nil {
			return explain(d, err)
		}
		results = append(results, r)
	}
	return c.render(results, func() table {
		t := table{columns: []string{"LINK", "WHEN", "AT", "IN THE RUN", "ROUTES AT"}}
		for _, r := range results {
			at, rel := nanos(r.AtNs), "-"
			if r.When == api.WhenNextRun {
				at = "-"
			}
			if r.When != api.WhenNow {
				rel = "+" + nanos(r.RelNs)
			}
			t.add(r.Link, r.When, at, rel, routesAt(r.RoutesAtNs))
		}
		return t
	})
}

func routesAt(ns int64) string {
	switch ns {
	case -1:
		return "never"
	case 0:
		return "-"
	}
	return nanos(ns)
}
