package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fep/pds"
)

func pdcCommand() *cli.Command {
	return verb{name: "pdc", args: "[NODE]", usage: "show packet delivery contexts of end points", max: 1,
		text: "Of one end point, or of all. TX is the half that sends, RX the half that receives: the next PSN, CACK and CLEAR as so many packets from\n" +
			"START on, which is the first PSN of both. WINDOW and IN FLIGHT are bytes on the wire, MPR how many PSNs beyond CACK the peer permits\n" +
			"and permits the peer. RETX counts packets sent again, by cause. PDCs that are closed or have failed are listed with --all, as they were\n" +
			"then: the latest 16 of each end point. JSON and YAML have PSNs as they are on the wire, and more.\n\n" +
			"States: " + strings.Join(pdcStates(), ", ") + ".",
		examples: []string{"uetlab pdc", "uetlab pdc host0 --watch", "uetlab pdc --state failed", "uetlab pdc host0 --all --format json"},
		flags: labFlags(&cli.BoolFlag{Name: "all", Usage: "also PDCs that have ended of late"},
			&cli.StringFlag{Name: "state", Usage: "only PDCs in one of these `STATES`, commas between; of those that have ended, too"}, watchFlag()),
		run: runPDC}.command()
}

// pdcStates lists what --state takes.
func pdcStates() []string {
	var out []string
	for s := pds.Opening; s <= pds.CloseSent; s++ {
		out = append(out, s.String())
	}
	return append(out, pds.EndClosed.String(), pds.EndFailed.String(), pds.EndExpired.String())
}

func runPDC(c *call) error {
	var states []string
	if s := c.String("state"); s != "" {
		states = strings.Split(s, ",")
	}
	for _, s := range states {
		if !slices.Contains(pdcStates(), s) {
			return usage("--state (%s): no state of a PDC", s).WithHint("there are %s", strings.Join(pdcStates(), ", "))
		}
	}
	cl, d, err := c.client()
	if err != nil {
		return err
	}
	return c.watch(func() (func() error, error) {
		list, err := cl.PDCs(c.ctx, c.arg(0), c.Bool("all") || len(states) > 0)
		if err != nil {
			return nil, explain(d, err)
		}
		if len(states) > 0 {
			list = slices.DeleteFunc(list, func(p api.PDC) bool { return !slices.Contains(states, p.State) })
		}
		return func() error { return c.printPDCs(list) }, nil
	})
}

func (c *call) printPDCs(list []api.PDC) error {
	if len(list) == 0 && c.String("format") == formatTable {
		_, err := fmt.Fprintln(c.out, c.noPDCs())
		return err
	}
	return c.render(list, func() table { return pdcTable(list) })
}

// noPDCs says that a list is empty, and what else there is to ask.
func (c *call) noPDCs() string {
	where := "no end point"
	if c.arg(0) != "" {
		where = c.arg(0) + " does not have one"
	} else {
		where += " has one"
	}
	switch {
	case c.String("state") != "":
		return "no PDCs: " + where + " in state " + strings.ReplaceAll(c.String("state"), ",", " or ")
	case c.Bool("all"):
		return "no PDCs: " + where + ", or has had one of late"
	}
	return "no PDCs: " + where + " open; --all lists those that have ended"
}

// pdcTable has one line a PDC.
func pdcTable(list []api.PDC) table {
	t := table{columns: []string{"NODE", "PDC", "PEER", "PEER PDC", "ROLE", "MODE", "TC", "JOB", "STATE", "AGE", "START", "TX NEXT", "TX CACK", "TX CLEAR",
		"RX NEXT", "RX CACK", "RX CLEAR", "IN FLIGHT", "WINDOW", "MPR", "RTT", "RTT MIN", "RETX", "LAST ERROR"}}
	for _, p := range list {
		after := func(psn uint32) string { return psnsFrom(p.StartPSN, psn) }
		t.add(p.Node, p.ID, p.Peer, some(int64(p.PeerID)), p.Role, p.Mode, p.TC, p.Job, p.State, nanos(p.AgeNs), p.StartPSN,
			after(p.Tx.Next), after(p.Tx.CACK+1), after(p.Tx.Clear+1), after(p.Rx.Next), after(p.Rx.CACK+1), after(p.Rx.Clear+1),
			p.InFlight, p.Window, fmt.Sprintf("%d/%d", p.Tx.MPR, p.Rx.MPR), duration(p.RTTNs), duration(p.RTTMinNs), causes(p.RetxBy), lastError(&p))
	}
	return t
}

// psnsFrom is how many PSNs there are from start to before psn; they wrap around.
func psnsFrom(start, psn uint32) string { return fmt.Sprint(int32(psn - start)) }

// some is the cell of a number of which 0 says nothing.
func some(n int64) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

// duration is the cell of a time that may not be known.
func duration(ns int64) string {
	if ns == 0 {
		return "-"
	}
	return nanos(ns)
}

// causes writes what was sent again in one cell.
func causes(by map[string]uint32) string {
	counters := make(map[string]uint64, len(by))
	for k, n := range by {
		counters[k] = uint64(n)
	}
	return pairs(counters)
}

// lastError is why a PDC failed, else the latest NACKs.
func lastError(p *api.PDC) string {
	if p.Error != "" {
		return p.Error
	}
	var out []string
	if p.NackRx != "" {
		out = append(out, "got "+p.NackRx)
	}
	if p.NackTx != "" {
		out = append(out, "sent "+p.NackTx)
	}
	return dash(strings.Join(out, ", "))
}

const watchEvery = time.Second

func watchFlag() cli.Flag {
	return &cli.BoolFlag{Name: "watch", Usage: "print again every second until Ctrl-C; JSON and YAML one after the other"}
}

// watch asks and prints, once or, with --watch, every second. What was printed before stands until there is something new.
func (c *call) watch(ask func() (print func() error, err error)) error {
	for {
		print, err := ask()
		if err != nil {
			return err
		}
		if c.Bool("watch") && terminal(c.out) {
			fmt.Fprint(c.out, "\x1b[H\x1b[2J") // home, clear
		}
		if err := print(); err != nil || !c.Bool("watch") {
			return err
		}
		select {
		case <-c.ctx.Done():
			return c.ctx.Err()
		case <-time.After(watchEvery):
		}
	}
}
