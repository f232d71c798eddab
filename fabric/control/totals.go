package control

import (
	"strings"

	"github.com/uetlab/uetlab/fep"
	"github.com/uetlab/uetlab/internal/ctl"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/workload"
)

// totals are the fabric's counters at one moment.
type totals struct {
	ports        link.Counters
	data, retx   uint64
	frames, late uint64
	free         uint64 // operations of processes that nodes did not wait for
	deaths       int64
	queues       [][]ctl.Queue // by node
	failed       []uint64      // PDCs, by node
	retries      [][]retries   // by node and port
	starvings    []uint64      // waits for credits that were too long, by node
}

func (d *Daemon) counters() totals {
	t := totals{deaths: d.deaths.Load(), failed: d.failedPDCs(), retries: d.retries(), starvings: d.starvings()}
	for _, n := range d.nodes {
		for i := range d.plan.Nodes[n.id].Ports {
			for c := range t.ports {
				t.ports[c] += n.page.Ports[i][c].Load()
			}
		}
		t.data += n.page.FEP[fep.DataTx].Load()
		t.retx += n.page.FEP[fep.Retx].Load()
		t.frames += n.page.Frames.Load()
		t.late += n.page.Late.Load()
		t.free += n.page.Free.Load()
	}
	return t
}

// totals gives what the run has added to the counters, and the verdict.
func (d *Daemon) totals(before totals) workload.Totals {
	now := d.counters()
	var worst int64
	for _, n := range d.nodes {
		worst = max(worst, n.page.Worst.Load())
	}
	t := workload.Totals{
		Packets: now.data - before.data, Retransmits: now.retx - before.retx,
		PacketHops:     now.ports[link.RxFrames] - before.ports[link.RxFrames],
		DataPacketHops: now.ports[link.RxData] - before.ports[link.RxData],
		Trims:          now.ports[link.Trimmed] - before.ports[link.Trimmed],
		Drops:          now.ports.Drops() - before.ports.Drops(),
		Fidelity:       workload.Fidelity{Frames: now.frames - before.frames, Late: now.late - before.late, WorstLateNs: worst, Verdict: "exact"},
	}
	var reasons []string
	if f := d.fidelityFault(); f != "" {
		reasons = append(reasons, f)
	}
	if now.deaths != before.deaths {
		reasons = append(reasons, "a node died")
	}
	switch {
	case len(reasons) > 0:
		t.Fidelity.Verdict = "invalid: " + strings.Join(reasons, "; ")
	case d.real():
		t.Fidelity.Verdict = "real"
	case d.hasHosts || now.free != before.free:
		t.Fidelity.Verdict = "free"
	}
	return t
}
