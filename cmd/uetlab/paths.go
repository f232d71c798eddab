package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/uetlab/uetlab/fabric/api"
)

// defaultEVs is --evs.
const defaultEVs = 32

func pathsCommand() *cli.Command {
	return verb{name: "paths", args: "NODE PEER", usage: "show the ways between two end points, and how much takes each", min: 2, max: 2,
		text: "The way of an entropy value (EV) is what the switches' own hashes and their ECMP groups make of it now. STATE, SCORE and LAST are\n" +
			"what NODE's load balancer knows of it: SCORE is a penalty of 0 to 15 (bitmap, mixed), an RTT in ns (uccl), rounds with many marks (plb).\n" +
			"HEALTH: good, marked, trimmed or lost by the latest feedback; penalised, passed for a while; frozen, used since packets vanish\n" +
			"elsewhere; dead, a link on the way is down. SHARE is of packets. Asking begins to count the packets that NODE sends to PEER, in\n" +
			"all PDCs from then on: ask before a run. Without an open PDC that knows of EVs, it is the ways of EVs 1 to --evs.",
		examples: []string{"uetlab paths host0 host7", "uetlab paths host0 host7 --watch", "uetlab paths host0 host7 --evs 256 --format json"},
		flags:    labFlags(&cli.IntFlag{Name: "evs", Value: defaultEVs, Usage: "print `N` EVs, the most used first; 0: all"}, watchFlag()), run: runPaths}.command()
}

func runPaths(c *call) error {
	evs := c.Int("evs")
	if evs < 0 || evs > 65535 {
		return usage("--evs (%d): not a number of entropy values", evs).WithHint("give 1 to 65535, or 0 for all")
	}
	ask := evs
	if ask == 0 {
		ask = 65535
	}
	cl, d, err := c.client()
	if err != nil {
		return err
	}
	err = c.watch(func() (func() error, error) {
		p, err := cl.Paths(c.ctx, c.arg(0), c.arg(1), ask)
		if err != nil {
			return nil, explain(d, err)
		}
		return func() error { return c.printPaths(&p, evs) }, nil
	})
	return c.endedWatch(err)
}

func (c *call) printPaths(p *api.Paths, most int) error {
	if c.String("format") != formatTable {
		return c.render(p, nil)
	}
	fmt.Fprintln(c.out, pathsHead(p))
	shown := slices.Clone(p.EVs)
	slices.SortStableFunc(shown, func(a, b api.PathEV) int { return cmp.Compare(b.Packets, a.Packets) })
	if most > 0 && len(shown) > most {
		shown = shown[:most]
	}
	t := table{columns: []string{"PDC", "EV", "ROUTE", "STATE", "SCORE", "HEALTH", "PACKETS", "BYTES", "SHARE", "LAST", "FAULT"}}
	for _, e := range shown {
		t.add(some(int64(e.PDC)), e.EV.EV, routeText(e.Route, e.End), e.State, some(e.Score), e.Health, e.Packets, e.Bytes, percent(e.Share), e.Last, dash(e.Fault))
	}
	if err := t.write(c.out); err != nil {
		return err
	}
	if left := len(p.EVs) - len(shown); left > 0 {
		fmt.Fprintf(c.out, "… and %d more EVs: --evs 0 prints all\n", left)
	}
	fmt.Fprintln(c.out)
	t = table{columns: []string{"ROUTE", "EVS", "PACKETS", "BYTES", "SHARE", "HEALTH", "FAULT"}}
	for _, r := range p.Routes {
		t.add(routeText(r.Route, r.End), r.EVs, r.Packets, r.Bytes, percent(r.Share), r.Health, dash(r.Fault))
	}
	return t.write(c.out)
}

// pathsHead says what the tables are of.
func pathsHead(p *api.Paths) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s to %s: ", p.Node, p.Peer)
	if len(p.PDCs) == 0 {
		b.WriteString("no PDC is open; the ways of EVs, were there one")
	}
	var sent uint64
	for _, x := range p.PDCs {
		sent += x.Packets
	}
	sep := ""
	for _, x := range p.PDCs {
		if sent > 0 && x.Packets == 0 {
			continue // it only receives
		}
		fmt.Fprintf(&b, "%sPDC %d %s %s, %d packets", sep, x.PDC, x.Mode, x.Algorithm, x.Packets)
		sep = "; "
		if x.Frozen {
			b.WriteString(", frozen")
		}
		if x.Moves > 0 {
			fmt.Fprintf(&b, ", %d changes of the EV", x.Moves)
		}
	}
	switch {
	case !p.Counts:
		b.WriteString("; not counted: so many other peers are that there is no room")
	case len(p.PDCs) > 0 && sent == 0:
		b.WriteString("; the count begins now")
	}
	return b.String()
}

func routeText(route []string, end string) string {
	text := strings.Join(route, ">")
	switch {
	case end != "":
		return text + " (" + end + ")"
	case text == "":
		return "direct"
	}
	return text
}

func percent(x float64) string { return fmt.Sprintf("%.1f%%", 100*x) }
