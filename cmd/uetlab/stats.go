package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/uetlab/uetlab/fabric/api"
)

func statsCommand() *cli.Command {
	return verb{name: "stats", args: "[NODE]", usage: "show counters of ports, end points and PDCs", max: 1,
		text:     "Without a node: frames and bytes of every port. With one: every counter that is not 0. --watch prints again every second.",
		examples: []string{"uetlab stats", "uetlab stats leaf0", "uetlab stats host0 --watch", "uetlab stats --format json"},
		flags:    labFlags(watchFlag()),
		run:      runStats}.command()
}

func runStats(c *call) error {
	cl, d, err := c.client()
	if err != nil {
		return err
	}
	return c.watch(func() (func() error, error) {
		nodes, err := cl.Stats(c.ctx, c.arg(0))
		return func() error { return c.printStats(nodes) }, explain(d, err)
	})
}

func (c *call) printStats(nodes []api.NodeStats) error {
	if c.String("format") != formatTable {
		return c.render(nodes, nil)
	}
	if c.arg(0) == "" {
		return portTable(nodes).write(c.out)
	}
	return nodeTables(nodes).write(c)
}

// portTable has one line a port; the drop counters are added up.
func portTable(nodes []api.NodeStats) table {
	t := table{columns: []string{"NODE", "PORT", "LINK", "TX FRAMES", "TX BYTES", "RX FRAMES", "RX BYTES", "QUEUE PEAK", "MARKED", "TRIMMED", "DROPS", "LATE"}}
	for _, n := range nodes {
		for _, p := range n.Ports {
			k := p.Counters
			t.add(n.Name, p.Name, p.Link, k["tx_frames"], k["tx_bytes"], k["rx_frames"], k["rx_bytes"], k["queue_peak_bytes"], k["ecn_marked"], k["trimmed"], drops(k), k["late"])
		}
	}
	return t
}

// drops adds up the counters of lost frames.
func drops(counters map[string]uint64) uint64 {
	var n uint64
	for k, v := range counters {
		if strings.HasPrefix(k, "drop_") {
			n += v
		}
	}
	return n
}

// nodeTables list every counter that is not 0.
func nodeTables(nodes []api.NodeStats) tables {
	ports := table{columns: []string{"NODE", "PORT", "COUNTER", "VALUE"}}
	fep := table{columns: []string{"NODE", "COUNTER", "VALUE"}}
	var pdcs []api.PDC
	for _, n := range nodes {
		for _, p := range n.Ports {
			for _, k := range keys(p.Counters) {
				if v := p.Counters[k]; v != 0 {
					ports.add(n.Name, p.Name, k, v)
				}
			}
		}
		for _, k := range keys(n.FEP) {
			if v := n.FEP[k]; v != 0 {
				fep.add(n.Name, k, v)
			}
		}
		pdcs = append(pdcs, n.PDCs...)
	}
	out := tables{ports}
	for _, t := range []table{fep, pdcTable(pdcs)} {
		if len(t.rows) > 0 {
			out = append(out, t)
		}
	}
	return out
}

// pairs writes the counters that are not 0 in one cell.
func pairs(counters map[string]uint64) string {
	var out []string
	for _, k := range keys(counters) {
		if v := counters[k]; v != 0 {
			out = append(out, fmt.Sprintf("%s=%d", k, v))
		}
	}
	return dash(strings.Join(out, " "))
}

func eventsCommand() *cli.Command {
	return verb{name: "events", usage: "list what happened in a lab",
		text:     "With --format json every event is one line of JSON.",
		examples: []string{"uetlab events", "uetlab events -f", "uetlab events -f --format json"},
		flags:    labFlags(followFlag()), run: runEvents}.command()
}

func runEvents(c *call) error {
	cl, d, err := c.client()
	if err != nil {
		return err
	}
	err = cl.Events(c.ctx, c.Bool("follow"), func(ev api.Event) error {
		switch c.String("format") {
		case formatJSON:
			return json.NewEncoder(c.out).Encode(ev)
		case formatYAML:
			return writeYAML(c.out, []api.Event{ev}) // the pieces make up one list
		}
		_, err := fmt.Fprintf(c.out, "%s  %14s  %-16s  %-14s  %s\n", ev.Wall.UTC().Format("15:04:05.000"), nanos(ev.VirtualNs), ev.Kind, dash(where(ev)), ev.Text)
		return err
	})
	return explain(d, err)
}

// where names what an event is about.
func where(ev api.Event) string {
	if ev.Link != "" && ev.Node != "" {
		return ev.Node + " " + ev.Link
	}
	return ev.Link + ev.Node
}
