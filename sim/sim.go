// Package sim runs a whole fabric in one process under a discrete-event loop: the nodes, ports and cores are those of
// the node processes, frames pass by reference instead of through the kernel, and the figures are the same to the
// nanosecond. It reads no clock.
//
// Every node keeps its own events. The loop goes from window to window: no node can influence another within less than
// the lookahead of the link between them, so all nodes handle what they have in a window one after the other, each with its
// memory at hand.
package sim

import (
	"errors"
	"fmt"
	"slices"
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
	outs    []*outlet
	mem     nodecore.Memory
	ahead   []time.Duration // per node: the shortest time in which anything can reach it, its pipeline latency included
	agents  bool            // a link has LLDP
	now     vt.Time
	results map[int]workload.RankResult
}

// Reasons for which Run ends before the workload does.
var (
	ErrStuck   = errors.New("nothing is left to happen")
	ErrUntil   = errors.New("the time given is over")
	ErrStopped = errors.New("stopped")
)

// Options of Run.
type Options struct {
	Until vt.Time // stop here with ErrUntil and what has happened so far; 0: when the workload is done
	// Progress is called now and then with the bytes that the ranks have done; false stops the run with ErrStopped.
	Progress func(now vt.Time, done, total int64) bool
}

// outlet carries frames from a node to its neighbours.
type outlet struct {
	peers []peer
	taps  []func(f *link.Frame)
}

type peer struct {
	node *nodecore.Node
	port int
}

// Transmit implements engine.Out.
func (o *outlet) Transmit(port int, f *link.Frame) {
	if o.taps != nil && o.taps[port] != nil {
		f.Fill()
		o.taps[port](f)
	}
	to := &o.peers[port]
	to.node.Deliver(to.port, f)
}

// New builds the fabric of a plan without plain hosts.
func New(plan *topology.Plan, labSeed uint64) (*Fabric, error) {
	most := 0
	for i := range plan.Nodes {
		most = max(most, nodecore.MaxFrame(&plan.Nodes[i]))
	}
	f := &Fabric{plan: plan, mem: nodecore.Memory{Pool: link.NewPool(most)}}
	f.agents = slices.ContainsFunc(plan.Links, func(l topology.Link) bool { return l.LLDP })
	routes := plan.Routes(nil)
	for i := range plan.Nodes {
		o := &outlet{}
		f.outs = append(f.outs, o)
		n, err := nodecore.New(nodecore.Config(plan, i, labSeed, routes[i]), o, &f.mem, f.result)
		if err != nil {
			return nil, fmt.Errorf("sim: %w", err)
		}
		f.nodes = append(f.nodes, n)
		f.ahead = append(f.ahead, f.lookahead(i))
	}
	for i, o := range f.outs {
		for p := range plan.Nodes[i].Ports {
			far := plan.Nodes[i].Ports[p].Far()
			o.peers = append(o.peers, peer{f.nodes[far.Node], far.Port})
		}
	}
	return f, nil
}

// lookahead is the shortest time in which anything can reach a node.
func (f *Fabric) lookahead(node int) (ahead time.Duration) {
	for i := range f.nodes[node].Ports {
		if a := f.nodes[node].Ahead(i); i == 0 || a < ahead {
			ahead = a
		}
	}
	return ahead
}

// Arena has the frames lie in memory that take gives, n zeroed bytes at a time. A large fabric has so many frames under way
// that a processor loses time with looking their pages up, unless these are large.
func (f *Fabric) Arena(take func(n int) []byte) { f.mem.Pool.Arena = take }

// Tap shows every frame that a node sends on a port to fn, with its Due, in the order of sending. fn must not keep it.
func (f *Fabric) Tap(node, port int, fn func(f *link.Frame)) {
	o := f.outs[node]
	if o.taps == nil {
		o.taps = make([]func(*link.Frame), len(o.peers))
	}
	o.taps[port] = fn
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
		if bound := min(limit, first.Add(f.ahead[i])-1); n.Next() <= bound {
			n.Advance(bound)
			f.now = max(f.now, bound)
		}
	}
	return true
}

// Now is how far virtual time has come: nothing can be scheduled up to here any more.
func (f *Fabric) Now() vt.Time { return f.now }

// Change schedules changes at a node, ahead of virtual time.
func (f *Fabric) Change(node int, changes ...ctl.Change) error {
	for _, c := range changes {
		if err := f.nodes[node].Change(c); err != nil {
			return err
		}
	}
	f.ahead[node] = f.lookahead(node)
	return nil
}

// Queues tells of the egress queues of a node that have seen a frame.
func (f *Fabric) Queues(node int) []ctl.Queue { return f.nodes[node].Queues() }

// Retries tells of the ports of a node that have link layer retry, as they are now.
func (f *Fabric) Retries(node int) []ctl.LLRPort { return f.nodes[node].Retries(f.now) }

// Run runs a workload from t0 on, and gives what a lab would give, but for wall times.
func (f *Fabric) Run(spec workload.Spec, t0 vt.Time, opt Options) (workload.Result, error) {
	if len(spec.Nodes) != spec.Ranks {
		return workload.Result{}, fmt.Errorf("sim: %d nodes for %d ranks", len(spec.Nodes), spec.Ranks)
	}
	for f.step(t0 - 1) { // what is left of a run before this one is none of this one's
	}
	f.results = map[int]workload.RankResult{}
	before, queues := f.totals(), f.queues()
	if err := f.begin(spec, t0); err != nil {
		return workload.Result{}, err
	}
	err := f.play(spec, opt)
	if err == nil {
		for f.step(f.end(t0)) {
		}
	}
	var ranks []workload.RankResult
	for r := range spec.Ranks {
		if res, ok := f.results[r]; ok {
			ranks = append(ranks, res)
		}
	}
	t := f.totals()
	t.Packets -= before.Packets
	t.Retransmits -= before.Retransmits
	t.PacketHops -= before.PacketHops
	t.DataPacketHops -= before.DataPacketHops
	t.Trims -= before.Trims
	t.Drops -= before.Drops
	t.Fidelity.Frames -= before.Fidelity.Frames
	t.Fidelity.Verdict = "exact"
	r := workload.Summarize(spec, ranks, t, f.plan)
	after := f.queues()
	r.Queues, r.PeakQueue = nodecore.QueueResults(f.plan, queues, after), nodecore.PeakQueue(f.plan, after)
	if spec.Every > 0 {
		r.Series = nodecore.Collect(f.plan, spec.Every, func(node, from int) (ctl.SeriesPart, error) { return f.nodes[node].Series(from), nil })
	}
	return r, err
}

// queues are those of all nodes.
func (f *Fabric) queues() [][]ctl.Queue {
	all := make([][]ctl.Queue, len(f.nodes))
	for i := range f.nodes {
		all[i] = f.Queues(i)
	}
	return all
}

// begin schedules the start of a run at all nodes.
func (f *Fabric) begin(spec workload.Spec, t0 vt.Time) error {
	ranks := map[int][]int{}
	for r, id := range spec.Nodes {
		ranks[id] = append(ranks[id], r)
	}
	peers, keep := spec.Peers(f.plan), nodecore.SeriesRoom(f.plan)
	for i, n := range f.nodes {
		own, err := f.plan.OverrideFEP(i, spec.FEP)
		if err != nil {
			return fmt.Errorf("sim: %w", err)
		}
		if err := n.StartRun(ctl.Run{At: t0, Seed: spec.Seed, Spec: spec, Ranks: ranks[i], Peers: peers, FEP: own, Keep: keep}); err != nil {
			return err
		}
	}
	return nil
}

// often is how many steps of the loop pass between two calls of Progress.
const often = 16

// play goes on until all ranks have finished, or there is a reason to stop.
func (f *Fabric) play(spec workload.Spec, opt Options) error {
	limit := vt.Never - 1
	if opt.Until > 0 {
		limit = opt.Until
	}
	for steps := 0; len(f.results) < spec.Ranks; steps++ {
		if !f.step(limit) || len(f.results) < spec.Ranks && f.idle() {
			if opt.Until > 0 {
				return fmt.Errorf("sim: %w at %v with %d of %d ranks finished", ErrUntil, opt.Until, len(f.results), spec.Ranks)
			}
			return fmt.Errorf("sim: %w at %v with %d of %d ranks finished", ErrStuck, f.now, len(f.results), spec.Ranks)
		}
		if opt.Progress == nil || steps%often != 0 {
			continue
		}
		var done, total int64
		for _, n := range f.nodes {
			d, t := n.Progress()
			done, total = done+d, total+t
		}
		if !opt.Progress(f.now, done, total) {
			return fmt.Errorf("sim: %w at %v with %d of %d ranks finished", ErrStopped, f.now, len(f.results), spec.Ranks)
		}
	}
	return nil
}

// idle says whether nothing but LLDP agents has anything left to do.
func (f *Fabric) idle() bool {
	if !f.agents {
		return false
	}
	for _, n := range f.nodes {
		if !n.Settled() {
			return false
		}
	}
	return true
}

// end is when the counters of a run are read: after the last rank's end, once the last acknowledgements have arrived.
func (f *Fabric) end(t0 vt.Time) vt.Time {
	var last int64
	for _, r := range f.results {
		for _, s := range r.Iterations {
			last = max(last, s.EndNs, s.AckedNs)
		}
	}
	return t0.Add(time.Duration(last) + workload.Settle)
}

func (f *Fabric) totals() workload.Totals {
	var t workload.Totals
	for _, n := range f.nodes {
		for _, p := range n.Ports {
			t.PacketHops += p.C[link.RxFrames]
			t.Fidelity.Frames += p.C.Arrived()
			t.DataPacketHops += p.C[link.RxData]
			t.Trims += p.C[link.Trimmed]
			t.Drops += p.C.Drops()
		}
		if n.FEP != nil {
			t.Packets += n.FEP.C[fep.DataTx]
			t.Retransmits += n.FEP.C[fep.Retx]
		}
	}
	return t
}
