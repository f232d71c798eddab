package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/uetlab/uetlab/fabric/api"
)

func linkCommand() *cli.Command {
	return verb{name: "link", usage: "list links, take them down, damage them, mend them",
		text: "LINK is leaf0-spine1, leaf0-spine1#2 for a parallel one, or one of its ports, leaf0:eth3. A change takes effect at one\n" +
			"virtual time at both ends, which is printed: as soon as every node can know of it, or --at +50us after the start of\n" +
			"the run that runs (else of the next one), or --at 1.5ms since the lab came up.",
		examples: []string{"uetlab link ls", "uetlab link fail leaf0-spine0", "uetlab link set leaf0-spine0 loss=0.1%"},
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
				text: "Settings: loss=0.1% (of frames), delay=+2us (in addition), rate=25% (of the link's rate) or rate=100Gbps, blackhole\n" +
					"(carrier up, nothing arrives), down. blackhole=off and down=off end those; loss=0, delay=0 and rate=100% the others.",
				examples: []string{"uetlab link set leaf0-spine0 loss=0.1%", "uetlab link set leaf0-spine0 delay=+2us rate=25% --from leaf0",
					"uetlab link set leaf0:eth3 blackhole --at +50us", "uetlab link set leaf0-spine1 blackhole=off down"},
				flags: changeFlags(), run: runLinkSet}.command(),
		}}.command()
}

func changeFlags() []cli.Flag {
	return labFlags(
		&cli.StringFlag{Name: "from", Usage: "only the direction in which `NODE` sends"},
		&cli.StringFlag{Name: "at", Usage: "virtual `TIME`: +50us after the start of a run, or 1.5ms since the lab came up", Action: func(_ *cli.Context, s string) error {
			if _, _, err := api.ParseAt(s); err != nil {
				return usage("--at (%s): not a virtual time", s).WithHint("%s", api.AsError(err).Hint)
			}
			return nil
		}})
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
		t := table{columns: []string{"LINK", "A", "B", "RATE", "DELAY", "STATE", "A TO B", "B TO A"}}
		for _, l := range links {
			t.add(l.Name, l.A.Node+":"+l.A.Port, l.B.Node+":"+l.B.Port, rate(l.RateBps), nanos(l.DelayNs), l.State, impairText(l.AB.Impair), impairText(l.BA.Impair))
		}
		return t
	})
}

// impairText writes what is wrong with a direction as link set would be told.
func impairText(i api.Impair) string {
	var out []string
	if i.Down {
		out = append(out, "down")
	}
	if i.Blackhole {
		out = append(out, "blackhole")
	}
	if i.Loss > 0 {
		out = append(out, "loss="+percent(i.Loss))
	}
	if i.DelayNs > 0 {
		out = append(out, "delay=+"+nanos(i.DelayNs))
	}
	if i.Rate > 0 && i.Rate < 1 {
		out = append(out, "rate="+percent(i.Rate))
	}
	return dash(strings.Join(out, " "))
}

func percent(v float64) string { return strconv.FormatFloat(v*100, 'g', 6, 64) + "%" }

// changeLinks makes the same change to every link named.
func (c *call) changeLinks(op string) error { return c.change(c.args, api.LinkChange{Op: op}) }

func runLinkSet(c *call) error {
	ch := api.LinkChange{Op: api.LinkOpSet}
	var absolute int64 // rate in bits per second, to be set against the link's own
	for _, s := range c.args[1:] {
		bps, err := setting(&ch.Set, s)
		if err != nil {
			return err
		}
		if bps > 0 {
			absolute = bps
		}
	}
	if absolute > 0 {
		fraction, err := c.fraction(c.args[0], absolute)
		if err != nil {
			return err
		}
		ch.Set.Rate = &fraction
	}
	return c.change(c.args[:1], ch)
}

// change sends a change for each of the links and prints when they take effect.
func (c *call) change(links []string, ch api.LinkChange) error {
	cl, d, err := c.client()
	if err != nil {
		return err
	}
	ch.From, ch.At = c.String("from"), c.String("at")
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
			t.add(r.Link, r.When, at, rel, routesAt(r))
		}
		return t
	})
}

func routesAt(r api.LinkChangeResult) string {
	switch r.RoutesAtNs {
	case -1:
		return "never"
	case 0:
		return "-"
	}
	return nanos(r.RoutesAtNs)
}

// fraction is an absolute rate as a part of the link's own.
func (c *call) fraction(link string, bps int64) (float64, error) {
	cl, d, err := c.client()
	if err != nil {
		return 0, err
	}
	plan, err := cl.Plan(c.ctx)
	if err != nil {
		return 0, explain(d, err)
	}
	id, _, err := plan.FindLink(link)
	if err != nil {
		return 0, notFound(err)
	}
	if own := plan.Links[id].Rate; bps <= own {
		return float64(bps) / float64(own), nil
	}
	return 0, usage("rate (%s): more than the link's own %s", rate(bps), rate(plan.Links[id].Rate)).WithHint("a link can only be slowed down")
}

var settingNames = []string{"loss", "delay", "rate", "blackhole", "down"}

// setting reads one word of link set into s. An absolute rate is handed back in bits per second.
func setting(s *api.LinkSet, word string) (int64, error) {
	name, value, has := strings.Cut(word, "=")
	switch name {
	case "loss":
		v, err := part(word, value, 0)
		s.Loss = &v
		return 0, err
	case "rate":
		if bps, ok := bitsPerSecond(value); ok {
			return bps, nil
		}
		v, err := part(word, value, 1e-6)
		s.Rate = &v
		return 0, err
	case "delay":
		d, err := time.ParseDuration(strings.TrimPrefix(value, "+"))
		if err != nil || d < 0 {
			return 0, usage("%s: not a delay", word).WithHint("write delay=+2us")
		}
		ns := int64(d)
		s.DelayNs = &ns
		return 0, nil
	case "blackhole", "down":
		on, err := onOff(value, has)
		if err != nil {
			return 0, usage("%s: neither on nor off", word).WithHint("write %s or %s=off", name, name)
		}
		if name == "down" {
			s.Down = &on
		} else {
			s.Blackhole = &on
		}
		return 0, nil
	}
	e := usage("%s: no such setting of a link", word)
	if near := nearest(name, settingNames); near != "" {
		return 0, e.WithHint("did you mean %s?", near)
	}
	return 0, e.WithHint("valid are %s", strings.Join(settingNames, ", "))
}

// part reads a share of the whole: 25% or 0.25, at least least.
func part(word, value string, least float64) (float64, error) {
	number, isPercent := strings.CutSuffix(value, "%")
	v, err := strconv.ParseFloat(number, 64)
	if isPercent {
		v /= 100
	}
	if err != nil || !(v >= least && v <= 1) {
		return 0, usage("%s: not a share of the whole", word).WithHint("write it like 0.1%% or 0.001, %s to 100%%", fmt.Sprintf("%g%%", least*100))
	}
	return v, nil
}

func onOff(value string, has bool) (bool, error) {
	switch {
	case !has || value == "on":
		return true, nil
	case value == "off":
		return false, nil
	}
	return strconv.ParseBool(value)
}

// bitsPerSecond reads a rate with its unit: 100Gbps.
func bitsPerSecond(s string) (int64, bool) {
	for _, u := range []struct {
		name string
		size float64
	}{{"Tbps", 1e12}, {"Gbps", 1e9}, {"Mbps", 1e6}, {"kbps", 1e3}} {
		if number, ok := strings.CutSuffix(s, u.name); ok {
			v, err := strconv.ParseFloat(number, 64)
			return int64(v * u.size), err == nil && v*u.size >= 1 && v*u.size < 1e15
		}
	}
	return 0, false
}
