package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/topology"
)

func switchCommand() *cli.Command {
	return verb{name: "switch", usage: "show and change the settings of switches, look into their queues",
		text: "Settings have the names, units and bounds of the topology file, sections joined by dots: ecn.kmin, queues.data.weight.\n" +
			"A change takes effect at one virtual time at all switches named, as changes of links do; `uetlab restart` keeps it.",
		examples: []string{"uetlab switch ls", "uetlab switch show leaf0", "uetlab switch set leaf* ecn.kmin=10% ecn.kmax=40%", "uetlab switch queues leaf0"},
		subs: []*cli.Command{
			verb{name: "ls", usage: "list the switches with the settings that matter most",
				examples: []string{"uetlab switch ls", "uetlab switch ls --format json"},
				flags:    labFlags(), run: runSwitchLs}.command(),
			verb{name: "show", args: "NODE", usage: "show all settings of a switch", min: 1, max: 1,
				text:     "In the words of the topology file, each as `switch set` takes it. Sizes are worked out in bytes. Changes that lie ahead follow.",
				examples: []string{"uetlab switch show leaf0", "uetlab switch show leaf0 --changed"},
				flags:    labFlags(&cli.BoolFlag{Name: "changed", Usage: "only what is not as the topology says"}), run: runSwitchShow}.command(),
			verb{name: "set", args: "NODE… KEY=VALUE…", usage: "change settings of switches", min: 2, max: -1,
				text: "NODE is a switch or a pattern such as leaf*. All is checked before anything is scheduled. Keys:\n" + switchKeysText() +
					"QUEUE is besteffort, data, trimmed, control, roce, unreliable, or 0 to 7.",
				examples: []string{"uetlab switch set leaf0 ecn.kmin=10% ecn.kmax=40%", "uetlab switch set leaf* spine* trim.enabled=false buffer=auto --at +30us",
					"uetlab switch set spine0 ecmp.balance=flowlet queues.data.weight=50"},
				flags: labFlags(atFlag()), run: runSwitchSet}.command(),
			verb{name: "reset", args: "NODE…", usage: "give switches the topology's settings back", min: 1, max: -1,
				examples: []string{"uetlab switch reset leaf0", "uetlab switch reset leaf* --at +100us"},
				flags:    labFlags(atFlag()), run: func(c *call) error { return c.changeSwitches(api.SwitchChange{Switches: c.args, Reset: true}) }}.command(),
			verb{name: "queues", args: "[NODE]", usage: "show what waits in egress queues, and what became of frames", max: 1,
				text: "Queues that have seen a frame, of switches and end points. BYTES waits now; PEAK and --hist are of the latest run, the rest counts\n" +
					"since the node came up. DROPPED counts frames that found no room and were not trimmed, TRIMS LOST trimmed ones that found none either.",
				examples: []string{"uetlab switch queues", "uetlab switch queues leaf0 --port eth3", "uetlab switch queues leaf0 --hist"},
				flags: labFlags(&cli.StringFlag{Name: "port", Usage: "only this `PORT`, for example eth3"},
					&cli.BoolFlag{Name: "hist", Usage: "draw how much frames found waiting when they were queued"}), run: runSwitchQueues}.command(),
		}}.command()
}

// switchKeysText lists the keys of settings; those of single queues once for all.
func switchKeysText() string {
	var b strings.Builder
	for _, k := range generalKeys() {
		fmt.Fprintf(&b, "  %-24s %s\n", k.Name, k.Doc)
	}
	return b.String()
}

// generalKeys are the keys of settings, with one queue and one port for all.
func generalKeys() []topology.SwitchKey {
	var keys []topology.SwitchKey
	seen := map[string]bool{}
	for _, k := range topology.SwitchKeys() {
		parts := strings.Split(k.Name, ".")
		switch {
		case parts[0] == "queues" && len(parts) > 1:
			parts[1] = "QUEUE"
		case parts[0] == "weight" && len(parts) > 1:
			parts[1] = "ethN"
		case parts[0] == "classes" && len(parts) > 1:
			parts[1] = "DSCP"
		}
		if k.Name = strings.Join(parts, "."); !seen[k.Name] {
			keys, seen[k.Name] = append(keys, k), true
		}
	}
	return keys
}

// switches asks for one switch, or for all.
func (c *call) switches(name string) ([]api.SwitchStatus, error) {
	cl, d, err := c.client()
	if err != nil {
		return nil, err
	}
	list, err := cl.Switches(c.ctx, name)
	return list, explain(d, err)
}

func runSwitchLs(c *call) error {
	list, err := c.switches("")
	if err != nil {
		return err
	}
	return c.render(list, func() table {
		t := table{columns: []string{"SWITCH", "PORTS", "ROUTES", "BUFFER", "TRIM", "ECN", "HASH", "BALANCE", "PFC", "CHANGED"}}
		for _, s := range list {
			v := brief(s)
			t.add(s.Name, s.Ports, s.Routes, v.buffer, v.trim, v.ecn, v.hash, v.balance, v.pfc, len(s.Changed))
		}
		return t
	})
}

// briefly is what matters most of a switch's settings, each in a cell.
type briefly struct{ buffer, trim, ecn, hash, balance, pfc string }

func brief(s api.SwitchStatus) briefly {
	set := map[string]string{}
	for _, kv := range s.Settings {
		set[kv.Key] = kv.Value
	}
	r := &s.Resolved
	b := briefly{buffer: dash(set["buffer"]), trim: "off", ecn: "off", hash: r.ECMP.Hash, balance: r.ECMP.Balance, pfc: "off"}
	if r.Buffer.Shared > 0 {
		b.buffer += " of " + set["shared.size"]
	}
	if r.Trim.Enabled {
		b.trim = fmt.Sprintf("%dB", r.Trim.Size)
	}
	for _, q := range r.Queues {
		if q.Kmax > 0 && b.ecn == "off" {
			b.ecn = fmt.Sprintf("%d-%dB", q.Kmin, q.Kmax)
		}
		if q.Lossless {
			b.pfc = "on"
		}
	}
	return b
}

func runSwitchShow(c *call) error {
	list, err := c.switches(c.arg(0))
	if err != nil {
		return err
	}
	if len(list) != 1 {
		return usage("switch show: %s means %d switches", c.arg(0), len(list)).WithHint("name one")
	}
	s := list[0]
	if c.Bool("changed") {
		return c.render(s.Changed, func() table { return changedTable(s.Changed) })
	}
	if c.String("format") != formatTable {
		return c.render(s, nil)
	}
	t := table{columns: []string{"SETTING", "VALUE", "TOPOLOGY"}}
	for _, kv := range s.Settings {
		t.add(kv.Key, kv.Value, topologyCell(s, kv.Key))
	}
	for _, ch := range s.Changed {
		if ch.Value == "" {
			t.add(ch.Key, "-", ch.Topology)
		}
	}
	ts := tables{t}
	if len(s.Pending) > 0 {
		ts = append(ts, pendingTable(s.Pending))
	}
	return ts.write(c)
}

// topologyCell is what the topology says of a setting that has been changed; empty where it says the same.
func topologyCell(s api.SwitchStatus, key string) string {
	i := slices.IndexFunc(s.Changed, func(ch api.SettingChange) bool { return ch.Key == key })
	if i < 0 {
		return ""
	}
	return dash(s.Changed[i].Topology)
}

func changedTable(list []api.SettingChange) table {
	t := table{columns: []string{"SETTING", "VALUE", "TOPOLOGY"}}
	for _, ch := range list {
		t.add(ch.Key, dash(ch.Value), dash(ch.Topology))
	}
	return t
}

func pendingTable(list []api.SwitchPending) table {
	t := table{columns: []string{"AHEAD", "AT", "IN THE RUN"}}
	for _, p := range list {
		what := pendingText(p)
		if p.When == api.WhenNextRun {
			t.add(what, "-", "+"+nanos(p.AtNs))
		} else {
			t.add(what, nanos(p.AtNs), "-")
		}
	}
	return t
}

// pendingText says what is going to be done, as one would write it.
func pendingText(p api.SwitchPending) string {
	if len(p.Assignments) == 0 {
		return "reset"
	}
	return strings.Join(p.Assignments, " ")
}

func runSwitchSet(c *call) error {
	var ch api.SwitchChange
	for _, a := range c.args {
		if strings.Contains(a, "=") {
			ch.Assignments = append(ch.Assignments, a)
		} else {
			ch.Switches = append(ch.Switches, a)
		}
	}
	switch {
	case len(ch.Switches) == 0:
		return usage("switch set: of which switch?").WithHint("uetlab switch set leaf0 %s", ch.Assignments[0])
	case len(ch.Assignments) == 0:
		return usage("switch set: nothing to set").WithHint("write KEY=VALUE, for example ecn.kmin=10%%")
	}
	return c.changeSwitches(ch)
}

// changeSwitches asks for new settings and prints when they are in force.
func (c *call) changeSwitches(ch api.SwitchChange) error {
	cl, d, err := c.client()
	if err != nil {
		return err
	}
	ch.At = c.String("at")
	results, err := cl.SetSwitches(c.ctx, ch)
	if err != nil {
		return explain(d, err)
	}
	return c.render(results, func() table {
		t := table{columns: []string{"SWITCH", "WHEN", "AT", "IN THE RUN"}}
		for _, r := range results {
			at, rel := nanos(r.AtNs), "-"
			if r.When == api.WhenNextRun {
				at = "-"
			}
			if r.When != api.WhenNow {
				rel = "+" + nanos(r.RelNs)
			}
			t.add(r.Switch, r.When, at, rel)
		}
		return t
	})
}
