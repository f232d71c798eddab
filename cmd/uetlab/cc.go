package main

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fep/cms"
)

func ccCommand() *cli.Command {
	return verb{name: "cc", args: "[NODE]", usage: "show congestion control contexts of end points", max: 1,
		text: "A context is what an end point knows of its way to a peer in a traffic class; its PDCs share it. It is there from the first message\n" +
			"until the last of them closes. Bytes count headers. WAITING is not sent yet, DELAY the average queueing delay, TARGET what it is to be\n" +
			"(of swift: of the RTT), ECN the share of marked ACKs of late, CREDIT what the receiver lets through, LAST what the latest feedback did.\n" +
			"The counts that follow are those of the four cases of NSCC (FI fair increase, PI proportional and fast increase, MD decrease, NC hold),\n" +
			"of quick adapt (QA), of packets that were trimmed and of packets that were lost; of other algorithms LAST says up or down. JSON and YAML\n" +
			"have more.\n\n" +
			"--trace writes every change of a window as one row: virtual time since the lab came up, node, peer, traffic class, window, bytes in\n" +
			"flight, latest RTT, delay, and why. It ends with the run that is under way, else with the next, or with Ctrl-C; rows of one node are\n" +
			"in order. What finds no room is counted and told, and makes the exit code 7. `uetlab run --series` has the same for one run, with\n" +
			"queues and rates.",
		examples: []string{"uetlab cc", "uetlab cc host0 --watch", "uetlab cc --format json", "uetlab cc --trace cwnd.csv & uetlab run incast", "uetlab cc host1 --trace - # to standard output"},
		flags:    labFlags(watchFlag(), &cli.StringFlag{Name: "trace", Usage: "write changes of windows to `FILE`, CSV, until a run ends or Ctrl-C"}),
		run:      runCC}.command()
}

func runCC(c *call) error {
	if c.IsSet("trace") {
		if c.Bool("watch") || c.String("trace") == "" {
			return usage("--trace: takes a file, and no --watch").WithHint("look with `uetlab cc --watch` in another terminal")
		}
		return c.traceWindows()
	}
	cl, d, err := c.client()
	if err != nil {
		return err
	}
	err = c.watch(func() (func() error, error) {
		all, err := cl.CCs(c.ctx, c.arg(0))
		if err != nil {
			return nil, explain(d, err)
		}
		return func() error { return c.printCCs(&all) }, nil
	})
	return c.endedWatch(err)
}

// endedWatch takes a signal for the way in which --watch ends.
func (c *call) endedWatch(err error) error {
	var sig stopped
	if c.Bool("watch") && err != nil && c.ctx.Err() != nil && errors.As(context.Cause(c.ctx), &sig) {
		return nil
	}
	return err
}

func (c *call) printCCs(all *api.CCs) error {
	if len(all.List) == 0 && c.String("format") == formatTable {
		_, err := fmt.Fprintln(c.out, noCCs(all, c.arg(0)))
		return err
	}
	return c.render(all.List, func() table { return ccTable(all.List) })
}

// noCCs says why there are none, and what can be done.
func noCCs(all *api.CCs, node string) string {
	fixed, managed := 0, map[string]bool{}
	for _, a := range all.Algorithms {
		if a == "" {
			fixed++
		} else {
			managed[a] = true
		}
	}
	where := "no end point"
	if node != "" {
		where = node + " does not"
	}
	if len(all.Algorithms) == 0 {
		return "no congestion control contexts: no end point is there that answers"
	}
	if len(managed) == 0 {
		what := "all end points have"
		if node != "" {
			what = node + " has"
		}
		return "no congestion control contexts: " + what + " a fixed window.\n`uetlab run --cc nscc …`, or `cc: nscc` under `fep:` in the topology file, changes that, except in labs with --time real."
	}
	var names []string
	for a := range managed {
		names = append(names, a)
	}
	slices.Sort(names)
	return fmt.Sprintf("no congestion control contexts (%s): %s %s a PDC open, and contexts go with their PDCs.\n"+
		"Look while a run is under way: with --watch, `uetlab clock cap 100000` slows it down and `uetlab clock pause` stops it;\n"+
		"`uetlab pdc --all` lists PDCs that have ended, `uetlab run … --series FILE` and `uetlab cc --trace FILE` keep all of a run.",
		strings.Join(names, ", "), where, map[bool]string{true: "have", false: "has"}[node != ""])
}

// ccTable has one line a context.
func ccTable(list []api.CC) table {
	t := table{columns: []string{"NODE", "PEER", "TC", "ALGORITHM", "PDCS", "CWND", "MAX", "RATE", "IN FLIGHT", "WAITING", "BASE RTT", "RTT", "DELAY", "TARGET", "ECN",
		"CREDIT", "LAST", "FI", "PI", "MD", "NC", "QA", "TRIMS", "LOSSES"}}
	for _, x := range list {
		n := func(ds ...cms.Decision) (sum uint64) {
			for _, d := range ds {
				sum += x.Decisions[d.String()]
			}
			return sum
		}
		rate := "-"
		if x.RateBps > 0 {
			rate = fmt.Sprintf("%.2fGb/s", x.RateBps/1e9)
		}
		t.add(x.Node, x.Peer, x.TC, x.Algorithm, x.PDCs, x.Cwnd, x.MaxWnd, rate, x.InFlight, x.Waiting, duration(x.BaseRTTNs), duration(x.RTTNs),
			nanos(x.DelayNs), duration(x.TargetNs), fmt.Sprintf("%.1f%%", 100*x.ECNShare), some(x.Credit), x.Last,
			n(cms.DecFair), n(cms.DecProp, cms.DecFast), n(cms.DecMult), n(cms.DecHold), n(cms.DecQuick), x.Trims+x.TrimsLastHop, x.Losses+x.Timeouts)
	}
	return t
}

// windowColumns are the columns of --trace.
var windowColumns = []string{"time_ns", "node", "peer", "tc", "cwnd_bytes", "in_flight_bytes", "rtt_ns", "delay_ns", "decision"}

// traceWindows writes changes of windows to the file of --trace.
func (c *call) traceWindows() error {
	cl, d, err := c.client()
	if err != nil {
		return err
	}
	name := c.String("trace")
	var out io.Writer = c.out
	if name != "-" {
		f, err := os.Create(name)
		if err != nil {
			return fmt.Errorf("--trace: %w", err)
		}
		defer f.Close()
		out = f
	}
	w := windowWriter{csv: csv.NewWriter(out), contexts: map[string]bool{}}
	err = w.csv.Write(windowColumns)
	if err == nil {
		err = cl.Windows(c.ctx, c.arg(0), func(l api.WindowLine) error { return w.take(c, &l) })
	}
	w.csv.Flush()
	if werr := w.csv.Error(); werr != nil {
		return fmt.Errorf("--trace: %w", werr)
	}
	var sig stopped
	if interrupted := errors.As(context.Cause(c.ctx), &sig); err != nil && !interrupted {
		return explain(d, err)
	} else if !interrupted && !w.ended {
		return api.Errorf(api.CodePartial, "cc: the daemon ended the trace before a run was over")
	}
	c.note("%d changes of %d congestion windows written to %s", w.rows, len(w.contexts), name)
	if w.left > 0 || len(w.silent) > 0 {
		return api.Errorf(api.CodePartial, "cc: the trace is not whole: %d changes found no room, %d end points did not tell all", w.left, len(w.silent)).
			WithHint("trace one end point, or write to a faster disk")
	}
	return nil
}

// windowWriter writes rows of --trace.
type windowWriter struct {
	csv      *csv.Writer
	rows     int
	contexts map[string]bool
	ended    bool
	left     int64
	silent   []string
}

func (w *windowWriter) take(c *call, l *api.WindowLine) error {
	if l.Ready && c.String("trace") != "-" {
		c.note("tracing congestion windows to %s until a run ends, or Ctrl-C", c.String("trace"))
	}
	if l.End {
		w.ended, w.left, w.silent = true, l.LeftOut, l.Silent
	}
	num := func(n int64) string { return strconv.FormatInt(n, 10) }
	for _, p := range l.Points {
		if err := w.csv.Write([]string{num(p.AtNs), l.Node, l.Peer, strconv.Itoa(l.TC), num(p.Cwnd), num(p.InFlight), num(p.RTTNs), num(p.DelayNs), p.Decision}); err != nil {
			return err
		}
		w.rows++
		w.contexts[l.Node+" "+l.Peer+" "+strconv.Itoa(l.TC)] = true
	}
	if l.Points != nil {
		w.csv.Flush()
	}
	return w.csv.Error()
}
