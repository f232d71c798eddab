// Package sim runs a whole fabric in one process under a discrete-event loop: the nodes, ports and cores are those of
// the node processes, frames pass by reference instead of through the kernel, and the figures are the same to the
// nanosecond. It reads no clock.
package sim

import (
	"errors"
	"fmt"
	"time"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/fep"
	"github.com/uetlab/uetlab/internal/ctl"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/nodecore"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/workload"
)

// Fabric is a simulated lab. It is not for concurrent use.
type Fabric struct {
	plan    *topology.Plan
	nodes   []*nodecore.Node
	ahead   [][]time.Duration // per node and port: lookahead of the link into it, and its pipeline latency
	now     vt.Time
	results map[int]workload.RankResult
}

// ErrStuck says that no event was left before all ranks had finished.
var ErrStuck = errors.New("nothing is left to happen")

type outlet struct {
	f  *Fabric
	id int
}

// Transmit implements engine.Out: the frame's bytes pass to a frame of the receiver's, as over a wire.
func (o outlet) Transmit(port int, fr *link.Frame) {
	q := &o.f.plan.Nodes[o.id].Ports[port]
	to := o.f.nodes[q.Peer]
	g := to.Pool.Get()
	g.B = append(g.B, fr.B...)
	g.Due = fr.Due
	fr.Release()
	to.Deliver(q.PeerIdx, g)
}

// New builds the fabric of a plan without plain hosts.
func New(plan *topology.Plan, labSeed uint64) (*Fabric, error) {
	f := &Fabric{plan: plan}
	routes := plan.Routes(nil)
	for i := range plan.Nodes {
		n, err := nodecore.New(nodecore.Config(plan, i, labSeed, routes[i]), outlet{f, i}, f.result)
		if err != nil {
			return nil, fmt.Errorf("sim: %w", err)
		}
		f.nodes = append(f.nodes, n)
		var ahead []time.Duration
		for p := range n.Ports {
			ahead = append(ahead, n.Ports[p].Lookahead()+plan.Nodes[i].Latency)
		}
		f.ahead = append(f.ahead, ahead)
	}
	return f, nil
}

func (f *Fabric) result(r workload.RankResult) { f.results[r.Rank] = r }

// step handles everything up to the next moment before which no node can influence another, and says whether there was
// anything.
func (f *Fabric) step(limit vt.Time) bool {
	first := vt.Never
	for _, n := range f.nodes {
		first = min(first, n.Next())
	}
	if first > limit {
		return false
	}
	// A node with its next event at t sends nothing that arrives before t + lookahead.
	for i, n := range f.nodes {
		bound := limit
		for p := range n.Ports {
			bound = min(bound, first.Add(f.ahead[i][p])-1)
		}
		n.Advance(bound)
		f.now = max(f.now, bound)
	}
	return true
}

// Change schedules changes at a node, ahead of virtual time.
func (f *Fabric) Change(node int, changes ...ctl.Change) error {
	for _, c := range changes {
		if err := f.nodes[node].Change(c); err != nil {
			return err
		}
	}
	return nil
}

// Run runs a workload from t0 on, and gives what a lab would give.
func (f *Fabric) Run(spec workload.Spec, t0 vt.Time) (workload.Result, error) {
	f.results = map[int]workload.RankResult{}
	before := f.totals()
	if len(spec.Nodes) != spec.Ranks {
		return workload.Result{}, fmt.Errorf("sim: %d nodes for %d ranks", len(spec.Nodes), spec.Ranks)
	}
	var addrs []string
	rank := map[int]int{}
	for r, id := range spec.Nodes {
		addrs, rank[id] = append(addrs, f.plan.Nodes[id].Addr4.String()), r
	}
	for i, n := range f.nodes {
		m := ctl.Run{At: t0, Seed: spec.Seed, Spec: spec, Rank: -1, Addrs: addrs}
		if r, ok := rank[i]; ok {
			m.Rank = r
		}
		if err := n.StartRun(m); err != nil {
			return workload.Result{}, err
		}
	}
	for len(f.results) < spec.Ranks {
		if !f.step(vt.Never - 1) {
			return workload.Result{}, fmt.Errorf("sim: %w at %v with %d of %d ranks finished", ErrStuck, f.now, len(f.results), spec.Ranks)
		}
	}
	var ranks []workload.RankResult
	var last int64
	for r := range spec.Ranks {
		ranks = append(ranks, f.results[r])
		for _, s := range f.results[r].Iterations {
			last = max(last, s.EndNs, s.AckedNs)
		}
	}
	for f.step(t0.Add(time.Duration(last) + workload.Settle)) {
	}
	t := f.totals()
	t.Packets -= before.Packets
	t.Retransmits -= before.Retransmits
	t.PacketHops -= before.PacketHops
	t.DataPacketHops -= before.DataPacketHops
	t.Drops -= before.Drops
	t.Fidelity = workload.Fidelity{Frames: t.PacketHops, Verdict: "exact"}
	return workload.Summarize(spec, ranks, t, f.plan), nil
}

func (f *Fabric) totals() workload.Totals {
	var t workload.Totals
	for _, n := range f.nodes {
		for _, p := range n.Ports {
			t.PacketHops += p.C[link.RxFrames]
			t.DataPacketHops += p.C[link.RxData]
			t.Drops += p.C.Drops()
		}
		if n.FEP != nil {
			t.Packets += n.FEP.C[fep.DataTx]
			t.Retransmits += n.FEP.C[fep.Retx]
		}
	}
	return t
}
