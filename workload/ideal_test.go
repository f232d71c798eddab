package workload

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/internal/vt"
)

// builder makes plans by hand, so that these tests stand on nothing but the plan types.
type builder struct{ topology.Plan }

func (b *builder) node(name string, kind topology.Kind, tier int) int {
	n := topology.Node{ID: len(b.Nodes), Name: name, Kind: kind, Tier: tier}
	if kind == topology.KindSwitch {
		n.Latency = 500 * time.Nanosecond
	}
	b.Nodes = append(b.Nodes, n)
	return n.ID
}

func (b *builder) link(x, y int, gbps int64) {
	for _, e := range [][2]int{{x, y}, {y, x}} {
		n := &b.Nodes[e[0]]
		n.Ports = append(n.Ports, topology.Port{Peer: e[1], Rate: gbps * 1e9, Delay: 500 * time.Nanosecond})
	}
}

// leafSpine has hosts×leaves end points on leaves joined by spines; up is the rate of a leaf-spine link, Gb/s.
func leafSpine(spines, leaves, hosts int, up int64) *topology.Plan {
	b := &builder{topology.Plan{Name: "test", PayloadMTU: 4096}}
	for range spines {
		b.node("spine", topology.KindSwitch, 2)
	}
	for range leaves {
		l := b.node("leaf", topology.KindSwitch, 1)
		for s := range spines {
			b.link(l, s, up)
		}
	}
	for l := range leaves {
		for range hosts {
			b.link(b.node("host", topology.KindFEP, 0), spines+l, 400)
		}
	}
	return &b.Plan
}

func pairPlan() *topology.Plan {
	b := &builder{topology.Plan{Name: "pair", PayloadMTU: 4096}}
	x, y := b.node("host0", topology.KindFEP, 0), b.node("host1", topology.KindFEP, 0)
	b.link(x, y, 400)
	return &b.Plan
}

// dumbbell joins two leaves by one link.
func dumbbell(hosts int, gbps int64) *topology.Plan {
	b := &builder{topology.Plan{Name: "dumbbell", PayloadMTU: 4096}}
	l, r := b.node("leaf0", topology.KindSwitch, 1), b.node("leaf1", topology.KindSwitch, 1)
	b.link(l, r, gbps)
	for i := range 2 * hosts {
		b.link(b.node("host", topology.KindFEP, 0), i/hosts, 400)
	}
	return &b.Plan
}

// fluid is a packet simulator without protocol: unlimited windows, unlimited queues, a random shortest way for every
// packet, one ACK a message. It does what a perfect transport could, so no bound may lie above it.
type fluid struct {
	plan  *topology.Plan
	p     *paths
	hosts []int
	q     vt.Queue[func(now vt.Time)]
	free  map[[2]int]int64 // when a port's serializer is free, ps
	rng   *rand.Rand
	ranks []*Rank
	posts []map[[2]uint64]posted
	mem   []map[uint64][]byte
}

type fluidEnd struct {
	*fluid
	me int
}

func (f fluidEnd) Wake(t vt.Time, ctx uint64) {
	f.q.Push(t, vt.ClassCall, 0, func(now vt.Time) { f.ranks[f.me].Complete(now, Done{Ctx: ctx}) })
}

// packet moves a packet of so many line bytes on from node u. ACKs do not wait for data.
func (f *fluid) packet(now vt.Time, u, dst int, line int64, there func(now vt.Time)) {
	if u == dst {
		there(now)
		return
	}
	rest := func(v int) int64 { return f.p.from(v, minFrame+lineExtra)[dst] }
	best, choice := int64(farAway), []int(nil)
	for i, e := range f.p.out[u] {
		if e.peer != dst && f.p.nodes[e.peer].Kind != topology.KindSwitch {
			continue
		}
		way := rest(e.peer) + e.fixed
		if way < best {
			best, choice = way, nil
		}
		if way == best {
			choice = append(choice, i)
		}
	}
	i := choice[f.rng.IntN(len(choice))]
	e := f.p.out[u][i]
	k := [2]int{u, i}
	start := int64(now) * psPerNs
	if line > ackLine {
		start = max(start, f.free[k])
	}
	end := start + (line*psBits+e.rate-1)/e.rate
	if line > ackLine {
		f.free[k] = end
	}
	at := vt.Time((end+psPerNs-1)/psPerNs + e.fixed/psPerNs)
	f.q.Push(at, vt.ClassArrival, 0, func(now vt.Time) { f.packet(now, e.peer, dst, line, there) })
}

func (f fluidEnd) message(now vt.Time, dst int, size int64, ctx uint64, there func(now vt.Time)) error {
	a, b := f.hosts[f.me], f.hosts[dst]
	m := split(size, f.plan.PayloadMTU)
	left := m.packets
	for i := range m.packets {
		line := m.full
		if i == m.packets-1 {
			line = m.last
		}
		f.packet(now, a, b, line, func(now vt.Time) {
			if left--; left == 0 {
				there(now)
				f.packet(now, b, a, ackLine, func(now vt.Time) { f.ranks[f.me].Complete(now, Done{Ctx: ctx, Acked: now}) })
			}
		})
	}
	return nil
}

func (f fluidEnd) TagSend(now vt.Time, dst int, buf []byte, tag, ctx uint64) error {
	return f.message(now, dst, int64(len(buf)), ctx, func(now vt.Time) {
		p := f.posts[dst][[2]uint64{uint64(f.me), tag}]
		copy(p.buf, buf)
		f.ranks[dst].Complete(now, Done{Ctx: p.ctx, Len: len(buf)})
	})
}

func (f fluidEnd) TagRecv(_ vt.Time, src int, buf []byte, tag, ctx uint64) error {
	f.posts[f.me][[2]uint64{uint64(src), tag}] = posted{buf, ctx}
	return nil
}

func (f fluidEnd) Write(now vt.Time, dst int, buf []byte, key, off, ctx uint64) error {
	return f.message(now, dst, int64(len(buf)), ctx, func(vt.Time) { copy(f.mem[dst][key][off:], buf) })
}

func (f fluidEnd) Register(buf []byte) uint64 {
	f.mem[f.me][uint64(len(f.mem[f.me]))] = buf
	return uint64(len(f.mem[f.me]) - 1)
}

func runFluid(t *testing.T, s Spec, plan *topology.Plan) Result {
	t.Helper()
	hosts, err := placement(s, plan)
	if err != nil {
		t.Fatal(err)
	}
	f := &fluid{plan: plan, p: newPaths(plan), hosts: hosts, free: map[[2]int]int64{}, rng: rand.New(rand.NewPCG(s.Seed, 2))}
	var results []RankResult
	for i := range s.Ranks {
		f.posts, f.mem = append(f.posts, map[[2]uint64]posted{}), append(f.mem, map[uint64][]byte{})
		r, err := NewRank(s, i, fluidEnd{f, i}, func(r RankResult) { results = append(results, r) })
		if err != nil {
			t.Fatal(err)
		}
		f.ranks = append(f.ranks, r)
		f.q.Push(0, vt.ClassCall, 0, r.Start)
	}
	for f.q.Len() > 0 {
		k, fn := f.q.Pop()
		fn(k.T)
	}
	return Summarize(s, results, Totals{Fidelity: Fidelity{Verdict: "exact"}}, plan)
}

// TestIdealIsABound runs everything on several fabrics with a perfect transport: the ratio is never below 1, and where
// nothing shares a link it is 1 within 2 %.
func TestIdealIsABound(t *testing.T) {
	plans := map[string]*topology.Plan{
		"full": leafSpine(2, 4, 2, 400), "thin": leafSpine(2, 4, 2, 100), "fat": leafSpine(2, 2, 4, 800),
		"dumbbell": dumbbell(4, 400), "star": leafSpine(0, 1, 8, 0),
	}
	for name, plan := range plans {
		for _, v := range variants() {
			for _, size := range []int64{0, 5000, 65537} {
				s := v
				s.Ranks, s.Size, s.Iters, s.Check, s.Seed = 8, size, 2, true, 4
				guard, err := SafeGuard(s, plan)
				if err != nil {
					t.Fatal(err)
				}
				s.Guard = guard
				r := runFluid(t, s, plan)
				if r.IdealNs <= 0 || r.Ratio < 1 || r.Ratio > 6 || !r.OK() || !*r.Correct {
					_, why, _ := IdealNs(s, plan)
					t.Errorf("%s, %s: ideal %d (%s), fct %+v, ratio %.4f", name, label(s), r.IdealNs, why, r.FCT, r.Ratio)
				}
				for _, p := range r.PerRank {
					if p.Iterations[1].StartNs != r.PerRank[0].Iterations[1].StartNs {
						t.Errorf("%s, %s: guard %v is too short", name, label(s), guard)
					}
				}
			}
		}
	}
}

func TestIdealIsTight(t *testing.T) {
	star := leafSpine(0, 1, 8, 0)
	for _, c := range []struct {
		spec Spec
		plan *topology.Plan
		most float64
	}{
		{Spec{Workload: Incast, Ranks: 2, Size: 1}, pairPlan(), 1.002},
		{Spec{Workload: Incast, Ranks: 2, Size: 5000}, pairPlan(), 1.002},
		{Spec{Workload: Incast, Ranks: 2, Size: 1 << 20}, pairPlan(), 1.0002},
		{Spec{Workload: Incast, Ranks: 2, Size: 4096}, leafSpine(2, 4, 2, 400), 1.002},
		{Spec{Workload: Incast, Ranks: 2, Size: 1 << 20, Nodes: []int{6, 13}}, leafSpine(2, 4, 2, 400), 1.003},
		{Spec{Workload: Incast, Ranks: 2, Size: 100000, Nodes: []int{5, 12}}, leafSpine(1, 4, 2, 400), 1.002},
		{Spec{Workload: Incast, Ranks: 8, Size: 1 << 20}, star, 1.002},
		{Spec{Workload: Permutation, Ranks: 8, Size: 1 << 20}, star, 1.01},
		{Spec{Workload: Sendrecv, Ranks: 8, Size: 1 << 20}, star, 1.01},
		{Spec{Workload: Allreduce, Ranks: 8, Size: 1 << 20}, star, 1.02},
		{Spec{Workload: Allgather, Ranks: 8, Size: 1 << 20}, star, 1.02},
		{Spec{Workload: Alltoall, Ranks: 8, Size: 2 << 20}, star, 1.01},
		{Spec{Workload: Broadcast, Ranks: 8, Size: 1 << 20}, star, 1.02},
		{Spec{Workload: Incast, Ranks: 8, Size: 1 << 20, Root: 7}, dumbbell(4, 100), 1.01},
	} {
		c.spec.Iters, c.spec.Check = 1, true
		r := runFluid(t, c.spec, c.plan)
		_, why, err := IdealNs(c.spec, c.plan)
		t.Logf("%s on %s: %.4f  %s", label(c.spec), c.plan.Name, r.Ratio, why)
		if err != nil || r.Ratio < 1 || r.Ratio > c.most {
			t.Errorf("%s: ratio %.4f, want 1 to %.4f (%d ns: %s) %v", label(c.spec), r.Ratio, c.most, r.IdealNs, why, err)
		}
	}
}

// TestIdealByHand pins the formula on pair: 400 Gb/s is 20 ps a byte, propagation 500 ns.
func TestIdealByHand(t *testing.T) {
	for _, c := range []struct{ size, want int64 }{
		{0, (122*20 + 500_000 + 84*20 + 500_000) / 1000},
		{4096, (4218*20 + 500_000 + 84*20 + 500_000) / 1000},
		{4097, (4218*20 + 123*20 + 500_000 + 84*20 + 500_000) / 1000},
		{1 << 20, (256*4218*20 + 500_000 + 84*20 + 500_000) / 1000},
	} {
		got, why, err := IdealNs(Spec{Workload: Incast, Ranks: 2, Size: c.size, Iters: 1}, pairPlan())
		if err != nil || got != c.want || !strings.Contains(why, "chain of 1 messages") {
			t.Errorf("size %d: %d ns (%s, %v), want %d", c.size, got, why, err, c.want)
		}
	}
	// Ring of 4 on one switch: 6 steps of a quarter each through two links, then the last ACK.
	const step = 4*4218*20 + 4218*20 + 2*500_000 + 500_000
	const ack = 2*84*20 + 2*500_000 + 500_000
	got, why, err := IdealNs(Spec{Workload: Allreduce, Ranks: 4, Size: 64 << 10, Iters: 1}, leafSpine(0, 1, 4, 0))
	if want := int64(6*step+ack) / 1000; err != nil || got != want || !strings.Contains(why, "chain of 6 messages") {
		t.Errorf("ring: %d ns (%s, %v), want %d", got, why, err, want)
	}
	// Incast of 3: the root's link carries three vectors.
	got, why, err = IdealNs(Spec{Workload: Incast, Ranks: 4, Size: 64 << 10, Iters: 1}, leafSpine(0, 1, 4, 0))
	const in = 3*16*4218*20 + 4218*20 + 2*500_000 + 500_000
	if want := int64(in+ack) / 1000; err != nil || got != want || !strings.Contains(why, "link of host (in)") {
		t.Errorf("incast: %d ns (%s, %v), want %d", got, why, err, want)
	}
}

func TestIdealErrors(t *testing.T) {
	b := &builder{topology.Plan{Name: "islands", PayloadMTU: 4096}}
	b.node("host0", topology.KindFEP, 0)
	b.node("host1", topology.KindFEP, 0)
	for _, c := range []struct {
		spec Spec
		plan *topology.Plan
		want string
	}{
		{Spec{Workload: Allreduce, Ranks: 2, Iters: 1}, &b.Plan, "without a path"},
		{Spec{Workload: Allreduce, Ranks: 3, Iters: 1}, pairPlan(), "--ranks 3: pair has 2 end points"},
		{Spec{Workload: Allreduce, Ranks: 2, Iters: 1, Nodes: []int{0, 2}}, pairPlan(), "node id 2 is no end point"},
		{Spec{Workload: "nope", Ranks: 2, Iters: 1}, pairPlan(), "none of that name"},
	} {
		if _, _, err := IdealNs(c.spec, c.plan); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.spec, err, c.want)
		}
	}
	if _, err := SafeGuard(Spec{Ranks: 2}, &b.Plan); err == nil {
		t.Error("a guard between islands")
	}
}
