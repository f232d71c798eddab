package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/internal/ctl"
	"github.com/uetlab/uetlab/internal/faults"
	"github.com/uetlab/uetlab/internal/link/llr"
)

func llrCommand() *cli.Command {
	return verb{name: "llr", args: "[LINK…]", usage: "show what link layer retry does, have ports shake hands anew", max: -1,
		text: "A row for each direction of some links, by name or glob, or of all, that has `llr: on` or had it since the run began. STATE is the sending\n" +
			"port's, RX the receiving one's. WAITING are frames without ACK; ACK is how long frames waited for theirs, of the latest run. Counters count\n" +
			"since the node came up.\n" +
			"--detail adds the times in states, deadlines, counters, and the latency as bars. Times are virtual.",
		examples: []string{"uetlab llr", "uetlab llr leaf0-spine0 --detail", "uetlab llr --format json", "uetlab llr reinit leaf0-spine0 --at +30us"},
		flags:    labFlags(&cli.BoolFlag{Name: "detail", Usage: "all that is known of each direction"}, watchFlag()), run: runLLR,
		subs: []*cli.Command{
			verb{name: "reinit", args: "LINK…", usage: "have ports shake hands anew", min: 1, max: -1,
				text: "It is what ends FLUSH where `reInit: false` keeps a port that has given up from doing so by itself. What waits for an ACK is given up. Both sending\n" +
					"ports, or that of --from. The same as link set LINK llr=reinit, which chaos scripts and sim --link take too.",
				examples: []string{"uetlab llr reinit leaf0-spine0", "uetlab llr reinit leaf0-spine0 --from leaf0 --at +30us"},
				flags:    changeFlags(), run: runReInit}.command(),
		}}.command()
}

func runReInit(c *call) error {
	again := true
	return c.change(c.args, api.LinkChange{Op: api.LinkOpSet, Set: faults.Set{ReInit: &again}})
}

func runLLR(c *call) error { return watchLinks(c, (*api.Client).LLR, c.printLLR) }

func (c *call) printLLR(list []api.LLR) error {
	if c.String("format") != formatTable {
		return c.render(list, nil)
	}
	if len(list) == 0 {
		_, err := fmt.Fprintln(c.out, "no link layer retry there: links have it by `link: {llr: on}` in the topology file, or uetlab link set LINK llr=on; labs with --time real have none")
		return err
	}
	ts := tables{llrTable(list)}
	if c.Bool("detail") {
		for i := range list {
			ts = append(ts, llrDetail(&list[i])...)
		}
	}
	return ts.write(c)
}

// llrTable has one line a direction.
func llrTable(list []api.LLR) table {
	t := table{columns: []string{"LINK", "FROM", "TO", "STATE", "RX", "NEXT", "ACKED", "WAITING", "REPLAYS", "TIMEOUTS", "FLUSHES", "ACK P50", "P99", "RTT"}}
	for _, l := range list {
		n := func(c llr.Counter) uint64 { return l.Counters[c.String()] }
		t.add(l.Link, l.From.Node, l.To.Node, l.TX.State, dash(l.RX.State), l.TX.Next, l.TX.Acked, l.TX.Frames, n(llr.TxReplay), n(llr.TxTimeouts), n(llr.TxFlushes),
			orDash(l.TX.Ack.P50Ns), orDash(l.TX.Ack.P99Ns), orDash(int64(l.TX.RTTNs)))
	}
	return t
}

// orDash writes a span that is not known as a dash.
func orDash(ns int64) string {
	if ns == 0 {
		return "-"
	}
	return nanos(ns)
}

// llrDetail has all of one direction.
func llrDetail(l *api.LLR) tables {
	tx, rx, a := &l.TX, &l.RX, &l.TX.Ack
	rows := [][2]string{{"direction", fmt.Sprintf("%s, %s to %s", l.Link, l.From, l.To)},
		{"sends", fmt.Sprintf("%s, next %d, acknowledged up to %d", tx.State, tx.Next, tx.Acked)},
		{"waiting", fmt.Sprintf("%d frames, %d bytes; %d replays without progress", tx.Frames, tx.Bytes, tx.Replays)},
		{"timers", llrTimers(l.NowNs, [][2]any{{"replay", tx.ReplayAtNs}, {"data age", tx.AgeAtNs}, {"LLR_INIT", tx.InitAtNs}, {"link lost", tx.PCSAtNs}, {"ACK", rx.AckAtNs}, {"ACK again", rx.RefreshAtNs}})},
		{"round trip", orDash(int64(tx.RTTNs))},
		{"time in states", llrTimes(tx.InNs, llr.Off, llr.Init, llr.Advance, llr.Replay, llr.Flush)},
		{"receives", fmt.Sprintf("%s, expects %d, %d bytes without ACK, %d spurious replays", dash(rx.State), rx.Next, rx.Unacked, rx.Spurious)},
		{"time in states", llrTimes(rx.InNs, llr.RXOff, llr.SendAcks, llr.SendNack, llr.NackSent)}}
	if a.Count > 0 {
		rows = append(rows, [2]string{"ACK after", fmt.Sprintf("mean %s, p50 %s, p99 %s, max %s; %d frames", nanos(a.SumNs/int64(a.Count)), nanos(a.P50Ns), nanos(a.P99Ns), nanos(a.MaxNs), a.Count)})
	}
	if tx.Draining {
		rows = append(rows, [2]string{"turned off", "what waits is seen through"})
	}
	if tx.NoSignal {
		rows = append(rows, [2]string{"no signal", "the link is down, timers stand still"})
	}
	ts := tables{facts(rows)}
	if len(a.Buckets) > 0 {
		ts = append(ts, latencyTable(a))
	}
	counters := table{columns: []string{"COUNTER OF " + l.From.String(), "VALUE"}}
	for _, name := range slices.Sorted(maps.Keys(l.Counters)) {
		counters.add(name, l.Counters[name])
	}
	return append(ts, counters)
}

// llrTimers lists deadlines that run.
func llrTimers(now int64, timers [][2]any) string {
	var out []string
	for _, t := range timers {
		if at := t[1].(int64); at != 0 {
			out = append(out, fmt.Sprintf("%s in %s", t[0], nanos(max(0, at-now))))
		}
	}
	return dash(strings.Join(out, ", "))
}

// llrTimes lists the times in states, in their order.
func llrTimes[S fmt.Stringer](in map[string]int64, states ...S) string {
	var out []string
	for _, s := range states {
		if ns := in[s.String()]; ns > 0 {
			out = append(out, s.String()+" "+nanos(ns))
		}
	}
	return dash(strings.Join(out, ", "))
}

// latencyTable draws how long frames waited for their ACK.
func latencyTable(a *ctl.LLRLatency) table {
	t := table{columns: []string{"ACK AFTER", "FRAMES", ""}}
	var most uint64
	for _, b := range a.Buckets {
		most = max(most, b.Count)
	}
	for _, b := range a.Buckets {
		name := "below "
		if b.Above {
			name = "from "
		}
		t.add(name+nanos(b.BelowNs), b.Count, bar(b.Count, most))
	}
	return t
}
