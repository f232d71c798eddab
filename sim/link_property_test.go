package sim

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/internal/engine"
	"github.com/uetlab/uetlab/internal/faults"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/link/cbfc"
	"github.com/uetlab/uetlab/internal/link/llr"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
	"github.com/uetlab/uetlab/workload"
)

// TestLinkLayerProperties plays workloads on random small fabrics some of whose links have link layer retry, credits or both, with random parameters, while bits arrive wrong, frames are lost
// in bursts or one by one, with codewords, poisoned or with wrong numbers, ordered sets and CC_Updates are lost, links go down, and retry and credits are turned off and on. In half of them LLDP
// agents are at work, and on some links decide about both, by wishes that change. Once all is mended the workload ends and is correct, all frames that were sent have
// arrived or are counted under the reason why not, all that switches took has left them or is, every port with retry is in ADVANCE with nothing waiting for an ACK, and all credits are
// back. UETLAB_LINK_SEEDS sets how many fabrics are tried, UETLAB_LINK_SEED repeats one.
func TestLinkLayerProperties(t *testing.T) {
	seeds, first := count(t, "UETLAB_LINK_SEEDS", 300), count(t, "UETLAB_LINK_SEED", 0)
	if first == 0 {
		first = 1 + rand.Uint64()>>1
	} else {
		seeds = 1
	}
	deeds := map[string]int{}
	var sum link.Counters
	runs := 0
	for seed := first; seed < first+seeds; seed++ {
		s := newTrial(t, seed)
		for range 1 + s.rng.IntN(2) {
			s.play()
			runs++
		}
		if t.Failed() {
			t.Fatalf("repeat with UETLAB_LINK_SEED=%d", seed)
		}
		for what, n := range s.done {
			deeds[what] += n
		}
		for _, n := range s.f.nodes {
			for _, p := range n.Ports {
				for c, v := range p.C {
					sum[c] += v
				}
			}
		}
	}
	t.Logf("%d fabrics, %d runs:", seeds, runs)
	for c, v := range sum {
		if c := link.Counter(c); v > 0 && !c.IsGauge() {
			t.Logf("%28s %10d", c, v)
		}
	}
	t.Log(deeds)
	if seeds >= 300 && len(deeds) < numDeeds {
		t.Errorf("only %d of %d kinds of things were done", len(deeds), numDeeds)
	}
	for _, c := range []llr.Counter{llr.TxReplay, llr.TxTimeouts, llr.TxFlushes, llr.CtlBad, llr.TxInit, llr.RxDuplicate} {
		if sum.LLR()[c] == 0 && seeds >= 300 {
			t.Errorf("llr_%s is 0: the test does not reach it", c)
		}
	}
}

// trial is one fabric of the test.
type trial struct {
	t    *testing.T
	seed uint64
	rng  *rand.Rand
	plan *topology.Plan
	f    *Fabric
	text string

	sent   [][]uint64 // frames put on a line, by node and port
	heard  []uint64   // frames that a node's core was given
	hurt   float64    // share of ordered sets that are damaged
	mended vt.Time    // until then
	began  vt.Time    // the latest run
	trims  bool       // switches trim
	agents bool       // some links have LLDP
	state  *faults.State
	done   map[string]int // what was done to links, by kind
}

// numDeeds is how many kinds of things a trial does to links.
const numDeeds = 12

// listener stands before the core of a node and counts what comes to it.
type listener struct {
	engine.Core
	n *uint64
}

// Arrive implements engine.Core.
func (l *listener) Arrive(now vt.Time, port int, f *link.Frame) {
	*l.n++
	l.Core.Arrive(now, port, f)
}

func newTrial(t *testing.T, seed uint64) *trial {
	s := &trial{t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 1)), done: map[string]int{}}
	fabric := s.pick("{kind: star, hosts: 2}", "{kind: star, hosts: 4}", "{kind: leaf-spine, spines: 1, leaves: 2, hostsPerLeaf: 2}", "{kind: leaf-spine, spines: 2, leaves: 2, hostsPerLeaf: 2}", "{kind: leaf-spine, spines: 2, leaves: 3, hostsPerLeaf: 1}")
	var b strings.Builder
	fmt.Fprintf(&b, "name: trial\nfabric: %s\ndefaults:\n  link: {mtu: %s, delay: %s}\n  switch: {trim: {enabled: %s}}\n  fep: {cc: %s, lb: %s, ack: %s}\nlinks:\n", fabric, s.pick("1500", "4500"), s.pick("100ns", "500ns", "2us"), s.pick("true", "false"),
		s.pick("nscc", "fixed", "rccc"), s.pick("reps", "spray", "fixed"), s.pick("packet", "coalesced"))
	s.trims = strings.Contains(b.String(), "trim: {enabled: true}")
	s.agents = s.rng.IntN(2) == 0
	bare, _ := fromFile(t, "name: trial\nfabric: "+fabric+"\n", nil)
	for _, l := range bare.Links {
		lldp := "off"
		if s.agents {
			lldp = s.pick("off", "static", "on", "on")
		}
		fmt.Fprintf(&b, "- {endpoints: [%s, %s], llr: %s, cbfc: %s, lldp: %s}\n", bare.Nodes[l.A.Node].Name, bare.Nodes[l.B.Node].Name, s.retry(), s.credit(), lldp)
	}
	s.text = b.String()
	s.plan, s.f = fromFile(t, s.text, nil)
	s.state = faults.New(s.plan)
	s.heard = make([]uint64, len(s.f.nodes))
	for i, n := range s.f.nodes {
		s.sent = append(s.sent, make([]uint64, len(n.Ports)))
		if n.Switch != nil && !s.agents {
			n.Interpose(&listener{n.Switch, &s.heard[i]})
		}
		for j := range n.Ports {
			rng := rand.New(rand.NewPCG(seed, uint64(100+100*i+j)))
			s.f.Tap(i, j, func(f *link.Frame) {
				if s.f.nodes[i].Now() >= s.began || f.Due < s.began { // what is on the line when a run begins is forgotten, by both ends
					s.sent[i][j]++
				}
				if f.Due < s.mended && wire.Eth(f.B).Type() == wire.EtherExperiment && rng.Float64() < s.hurt {
					f.FCS, f.Damaged = wire.FCS(f.B)^1, true
				}
			})
		}
	}
	return s
}

func (s *trial) pick(list ...string) string { return list[s.rng.IntN(len(list))] }

func (s *trial) retry() string {
	return s.pick("off", "on", fmt.Sprintf("{window: %d, buffer: %s, replayTimer: %s, replayCount: %s, dataAge: %s, pcsLost: %s, init: %s, flush: %s, ackEvery: %s, ackDelay: %s}", 1+s.rng.IntN(300), s.pick("auto", "32KiB"),
		s.pick("auto", "auto", "8us"), s.pick("0", "1", "3", "255"), s.pick("auto", "0ns", "30us"), s.pick("0ns", "5us", "50us"), s.pick("best_effort", "block", "discard"), s.pick("best_effort", "block", "discard"),
		s.pick("1KiB", "16KiB"), s.pick("100ns", "1us")))
}

func (s *trial) credit() string {
	return s.pick("off", "on", "on", "{channels: [data, control]}", "{channels: [data, control], method: total}", "{channels: [control, data], limit: {control: 6KiB, data: 64KiB}}", fmt.Sprintf("{cell: %s, overhead: %s, ccEvery: %s, cfMin: %s, cfMax: %s}", s.pick("64", "256", "1024"), s.pick("-4", "0", "24"), s.pick("2us", "256us"), s.pick("1KiB", "6400B"), s.pick("16KiB", "256KiB")))
}

// harm schedules what goes wrong in the run that begins at t0, all of which is mended by then.
func (s *trial) harm(t0 vt.Time) {
	s.hurt, s.mended = 0, t0.Add(time.Duration(20+s.rng.IntN(150))*time.Microsecond)
	if s.rng.IntN(2) == 0 {
		s.hurt = s.rng.Float64() / 2
	}
	within := func() vt.Time { return t0 + vt.Time(1+s.rng.Int64N(min(int64(s.mended-t0)-1, 60_000))) }
	var list []faults.Fault
	from := faults.Both
	add := func(at vt.Time, id int, op string, set faults.Set) {
		list = append(list, faults.Fault{At: at, Link: id, From: from, Op: op, Set: set})
	}
	for id := range s.plan.Links {
		l := &s.plan.Links[id]
		if l.CBFC != nil && !l.Negotiated {
			if s.rng.IntN(4) == 0 { // holds from the run on
				on := s.rng.IntN(2) == 0
				add(t0-vt.Time(1+s.rng.IntN(100)), id, faults.Change, faults.Set{CBFC: &on})
			}
			if s.rng.IntN(6) == 0 {
				s.done["cbfc off"]++
				add(within(), id, faults.Change, faults.Set{CBFC: new(bool)})
			}
		}
		if set := s.sickness(l); set != (faults.Set{}) {
			add(within(), id, faults.Change, set)
			add(s.mended, id, faults.Restore, faults.Set{})
		}
		if s.rng.IntN(6) == 0 {
			down := 1 + s.rng.Int64N(30_000)
			s.done["flap"]++
			f := faults.Fault{At: within(), Link: id, From: faults.Both, Op: faults.Flap, Flap: faults.Times{DownNs: down, PeriodNs: down + 1 + s.rng.Int64N(60_000), Count: 1 + s.rng.IntN(3)}}
			list = append(list, f)
			add(max(f.Last(), s.mended)+1, id, faults.Restore, faults.Set{})
		}
		for range []int{0, 0, 0, 1, 2, 3}[s.rng.IntN(6)] {
			on := s.rng.IntN(2) == 0
			set := faults.Set{LLR: &on}
			if l.Negotiated {
				if from = []int{faults.Both, l.A.Node, l.B.Node}[s.rng.IntN(3)]; l.CBFC != nil && (l.LLR == nil || s.rng.IntN(2) == 0) {
					set = faults.Set{CBFC: &on}
				}
				s.done["wish"]++
			}
			if set.LLR == nil || !l.Negotiated || l.LLR != nil {
				add(within(), id, faults.Change, set)
			}
			from = faults.Both
		}
		if set := (faults.Set{}); l.Negotiated && (l.LLR != nil || l.CBFC != nil) { // in the end all that can be is wanted
			yes := true
			if l.LLR != nil {
				set.LLR = &yes
			}
			if l.CBFC != nil {
				set.CBFC = &yes
			}
			add(s.mended+2, id, faults.Change, set)
		}
	}
	batch, err := s.state.Schedule(list...)
	if err == nil {
		err = batch.Each(s.f.Change)
	}
	if err != nil {
		s.t.Fatalf("seed %d: %v", s.seed, err)
	}
}

// sickness draws what is wrong with a link: often nothing, sometimes much. Wrong numbers may have a frame delivered in another's place, so no count of credits would hold.
func (s *trial) sickness(l *topology.Link) (set faults.Set) {
	chance := func(one int, what string) bool {
		yes := s.rng.IntN(one) == 0
		if yes {
			s.done[what]++
		}
		return yes
	}
	share := func(most float64) *float64 { x := most * s.rng.Float64(); return &x }
	if chance(2, "ber") {
		set.BER = share([]float64{1e-7, 1e-6, 1e-5}[s.rng.IntN(3)])
	}
	if chance(4, "burst") {
		set.Burst = &link.Burst{ToBad: 0.005, ToGood: 0.2, LossBad: 0.8}
	}
	if chance(8, "ucr") {
		set.UCR = share([]float64{1e-4, 1e-3, 1e-2}[s.rng.IntN(3)])
	}
	if chance(8, "rawber") {
		set.RawBER = share(1.2e-3)
	}
	if chance(8, "exact") {
		set.Exact = &link.Hits{}
		for i := range 1 + s.rng.IntN(link.MaxHits) {
			n := 1 + s.rng.Uint32N(40)
			deeds := []link.Deed{link.DoDrop, link.DoCorrupt, link.DoCorruptHeader, link.DoCorruptPayload, link.DoCorruptLLR, link.DoCorruptFCS, link.DoPoison, link.DoSeqSkip, link.DoSeqDup}
			deed := deeds[s.rng.IntN(map[bool]int{true: 7, false: 9}[l.CBFC != nil])]
			set.Exact[i] = link.Hit{First: n, Last: n + s.rng.Uint32N(3), Replay: s.rng.IntN(4) == 0, Do: deed}
		}
	}
	if chance(8, "corrupt") {
		set.Corrupt = &link.Corrupt{Share: *share(0.05), Region: link.Regions()[s.rng.IntN(4)], Bits: s.rng.IntN(33)}
	}
	if chance(10, "poison") {
		set.Poison = share(0.05)
	}
	if chance(6, "setloss") {
		set.SetLoss = &link.SetLoss{Share: *share(0.7), Kinds: link.SetKinds(s.rng.IntN(32))}
	}
	if chance(6, "ccloss") {
		set.CCLoss = share(1)
	}
	return set
}

func (s *trial) play() {
	t0 := s.f.Now() + 1000
	if s.agents { // what they have on the line arrives before
		t0 += 10_000
	}
	kind := s.pick(workload.Permutation, workload.Incast, workload.Alltoall)
	if s.trims && kind == workload.Incast { // what is not paid for may be trimmed again and again beside what is, until its source gives up
		kind = workload.Permutation
	}
	w := spec(s.t, s.plan, kind, 1+s.rng.Int64N(400_000), s.rng.Uint64())
	s.harm(t0)
	s.began = t0
	res, err := s.f.Run(w, t0, Options{Until: t0.Add(20 * time.Second), Progress: func(vt.Time, int64, int64) bool {
		s.credits(false)
		return !s.t.Failed()
	}})
	if err != nil || res.Correct == nil || !*res.Correct {
		s.wrong("%s of %d bytes: %v, %v", w.Workload, w.Size, err, s.f.results)
		return
	}
	rest := vt.Never - 1 // handshakes end, and credits come back
	if s.agents {
		rest = max(s.f.Now(), s.mended).Add(12 * time.Second)
	}
	s.f.until(rest)
	s.settled()
	s.frames()
}

func (s *trial) wrong(format string, args ...any) {
	s.t.Errorf("seed %d: %s\n%s", s.seed, fmt.Sprintf(format, args...), s.text)
}

// settled wants all ports at rest: nothing waits, for the line, an ACK or credits.
func (s *trial) settled() {
	if n := s.f.mem.Pool.Out(); n != 0 {
		s.wrong("%d frames are lost", n)
	}
	for i, n := range s.f.nodes {
		for j, p := range n.Ports {
			q := s.plan.Nodes[i].Ports[j]
			name := s.plan.Nodes[i].Name + " " + q.Name
			if c := p.C.LLR(); p.LLR() != nil && llr.State(c[llr.TxState]) != llr.Advance || c[llr.RingFrames] != 0 {
				s.wrong("%s: LLR is in %s, %d frames wait for an ACK", name, llr.State(c[llr.TxState]), c[llr.RingFrames])
			}
			if l := &s.plan.Links[q.Link]; l.Negotiated && (l.LLR != nil) != (p.LLR() != nil) {
				s.wrong("%s: LLR that both ends want, or nobody, is at work: %v", name, p.LLR() != nil)
			}
			if y := p.PHY(s.f.now); y.Codewords != y.Corrected+y.Uncorrectable+y.Histogram[0] || y.Uncorrectable != y.Histogram[len(y.Histogram)-1] {
				s.wrong("%s: codewords %+v", name, y)
			}
			if p.QueueLen() != 0 || p.Backlog() != 0 {
				s.wrong("%s: %d frames wait", name, p.QueueLen())
			}
		}
	}
	s.credits(true)
}

// credits wants every sender's to be on their way, stored or untold, and none more than there are; at rest all are back. Nothing here doubles a frame or has it overtake another, so no count is ever
// behind what is known, but where LLR sends frames once more that left before credits were negotiated anew. Channels that are not on at both ends are best effort, or are about to be.
func (s *trial) credits(rest bool) {
	for i, n := range s.f.nodes {
		for j, p := range n.Ports {
			q := s.plan.Nodes[i].Ports[j]
			l := &s.plan.Links[q.Link]
			name := s.plan.Nodes[i].Name + " " + q.Name
			a, _ := p.CBFC()
			_, b := s.f.nodes[q.Peer].Ports[q.PeerIdx].CBFC()
			if (a == nil) != (b == nil) && s.f.now > s.began {
				s.wrong("%s: credits at one end", name)
			}
			if a == nil || b == nil {
				continue
			}
			if rest && (a.On() != b.On() || a.Draining() != 0 || l.Negotiated && a.On() == 0) {
				s.wrong("%s: channels %#x are on, and at the far end %#x", name, a.On(), b.On())
			}
			again := l.Negotiated && l.LLR != nil
			for vc := range link.NumQueues {
				if (a.On()|a.Draining())&b.On()>>vc&1 == 0 {
					continue
				}
				x, y := a.VC(s.f.now, vc), b.VC(vc)
				way, untold, limit := (x.Consumed-y.Consumed)&cycle, (y.Freed-x.Freed)&cycle, x.Limit
				if p := &l.CBFC.Profile; p.Method == wire.CBFCTotal {
					limit = p.Total
				}
				if x.Used > limit || !again && (way+y.Used+untold != x.Used || way > limit || untold > limit) || rest && x.Used+y.Used != 0 {
					s.wrong("%s at %v, channel %d: sender %+v, receiver %+v", name, s.f.now, vc, x, y)
				}
			}
			if c := p.C.CBFC(); !again && c[cbfc.CFStale]+c[cbfc.CCStale]+c[cbfc.BackCredits]+c[cbfc.CFBad] != 0 {
				s.wrong("%s at %v: counts that came too late, or out of order: %v", name, s.f.now, c)
			}
		}
	}
}

// frames wants every frame that was sent over a line to have arrived, every frame that a switch took to have left its queues, and all that have to be on the line, or to be counted under the reason why not.
func (s *trial) frames() {
	for i, n := range s.f.nodes {
		var out uint64
		for j, p := range n.Ports {
			q := s.plan.Nodes[i].Ports[j]
			if here, there := s.sent[i][j], s.f.nodes[q.Peer].Ports[q.PeerIdx].C.Arrived(); here != there {
				s.wrong("%s %s: %d frames sent, %d arrived", s.plan.Nodes[i].Name, q.Name, here, there)
			}
			for _, c := range []link.Counter{link.DropQueue, link.DropTrim, link.DropDown, link.DropTTL, link.DropNoRoute, link.DropPacket} {
				out += p.C[c]
			}
			var left uint64
			for k := range link.NumQueues {
				left += p.Stats(k).C[link.QTxFrames]
			}
			out += left
			if put := left + p.C.CBFC()[cbfc.CCTx] + p.C.LLR()[llr.TxReplayed] - p.C[link.DropDiscard]; n.Switch != nil && !q.LLDP && put != p.C[link.TxFrames] {
				s.wrong("%s %s: %d frames left their queues, are CC_Updates or were sent once more, and %d were sent", s.plan.Nodes[i].Name, q.Name, put, p.C[link.TxFrames])
			}
		}
		if n.Switch != nil && !s.agents && s.heard[i] != out {
			s.wrong("%s: %d frames in, %d out and accounted for", s.plan.Nodes[i].Name, s.heard[i], out)
		}
	}
}
