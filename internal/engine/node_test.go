package engine

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// recorder is a core that writes down all that happens to it, and lets a test act on it.
type recorder struct {
	n      *Node
	log    []string
	arrive func(now vt.Time, port int, f *link.Frame)
	timer  func(now vt.Time, id uint64)
	next   func(now vt.Time, port int) *link.Frame
}

func (r *recorder) note(format string, args ...any) {
	r.log = append(r.log, fmt.Sprintf(format, args...))
}

func (r *recorder) NextFrame(now vt.Time, port int) *link.Frame {
	if r.next != nil {
		return r.next(now, port)
	}
	return nil
}

func (r *recorder) Dequeued(now vt.Time, port int, f *link.Frame, sent bool) {
	r.note("%d dequeued %d: queue %d, sent %v", now, port, f.Queue, sent)
}

func (r *recorder) Arrive(now vt.Time, port int, f *link.Frame) {
	r.note("%d arrive %d: %d %x", now, port, len(f.B), f.B[:min(4, len(f.B))])
	if r.arrive != nil {
		r.arrive(now, port, f)
		return
	}
	f.Release()
}

func (r *recorder) Timer(now vt.Time, id uint64) {
	r.note("%d timer %d", now, id)
	if r.timer != nil {
		r.timer(now, id)
	}
}

func (r *recorder) Reset(now vt.Time) { r.note("%d reset", now) }

// sink takes what leaves a node.
type sink struct{ frames []*link.Frame }

func (s *sink) Transmit(port int, f *link.Frame) { s.frames = append(s.frames, f) }

func node(ports int, latency time.Duration) (*Node, *recorder, *sink) {
	c := Config{ID: 5, Latency: latency, Seed: 77, MaxFrame: 2000}
	for range ports {
		c.Ports = append(c.Ports, link.Config{Rate: 400e9, Delay: 500, Queue: 1 << 20, MTU: 1500})
	}
	s := &sink{}
	n := New(c, s)
	r := &recorder{n: n}
	n.Attach(r)
	r.log = nil
	return n, r, s
}

func frame(n *Node, due vt.Time, id int) *link.Frame {
	f := n.Pool.Get()
	f.B, f.Due = append(f.B, byte(id>>8), byte(id)), due
	return f
}

// TestClassesOfOneInstant puts one event of each kind at the same instant in every order in which they can be inserted.
func TestClassesOfOneInstant(t *testing.T) {
	const at = 1000
	for seed := range uint64(50) {
		n, r, _ := node(3, 40)
		r.next = func(now vt.Time, port int) *link.Frame { r.note("%d free %d", now, port); return nil }
		push := []func(){
			func() { n.Change(at, func(now vt.Time) { r.note("%d change", now) }) },
			func() { n.BeginAt(at, func(now vt.Time) { r.note("%d begin", now) }) },
			func() { n.Deliver(2, frame(n, at-40, 2)) },
			func() { n.Deliver(0, frame(n, at-40, 0)) },
			func() { n.TxFreeAt(1, at) },
			func() { n.TxFreeAt(0, at) },
			func() { n.SetTimer(at, 8) },
			func() { n.Call(at, func(now vt.Time) { r.note("%d call", now) }) },
			func() { n.SetTimer(at-1, 7) },
		}
		rand.New(rand.NewPCG(seed, 1)).Shuffle(len(push), func(i, j int) { push[i], push[j] = push[j], push[i] })
		for _, p := range push {
			p()
		}
		if n.Next() != at-1 {
			t.Fatalf("seed %d: Next %v", seed, n.Next())
		}
		if got := n.Advance(at); got != len(push) || n.Now() != at || n.Next() != vt.Never {
			t.Fatalf("seed %d: handled %d, now %v, next %v", seed, got, n.Now(), n.Next())
		}
		want := []string{"999 timer 7", "1000 begin", "1000 change", "1000 arrive 0: 2 0000", "1000 arrive 2: 2 0002", "1000 free 0", "1000 free 1", "1000 timer 8", "1000 call"}
		if !slices.Equal(r.log, want) {
			t.Fatalf("seed %d:\n got %q\nwant %q", seed, r.log, want)
		}
	}
}

func TestAdvanceStopsAtTheBound(t *testing.T) {
	n, r, _ := node(1, 0)
	n.SetTimer(10, 1)
	n.SetTimer(11, 2)
	r.timer = func(now vt.Time, id uint64) { // what a handler asks for within the bound is handled too
		if id == 1 {
			n.SetTimer(10, 3)
		}
	}
	if n.Advance(9) != 0 || n.Advance(10) != 2 || n.Next() != 11 {
		t.Errorf("log %q, next %v", r.log, n.Next())
	}
}

// TestArrivalsInAnyInterleaving delivers the frames of four ports, each port in its own order but the ports mixed at
// random and in several goes, as the kernel would: the core sees the same.
func TestArrivalsInAnyInterleaving(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	const ports, each = 4, 100
	var dues [ports][]vt.Time
	for p := range dues {
		due := vt.Time(100)
		for range each {
			due += vt.Time(rng.IntN(3)) // many at the same instant, on one port and on several
			dues[p] = append(dues[p], due)
		}
	}
	var want []string
	for round := range 20 {
		n, r, _ := node(ports, 10)
		var next [ports]int
		for left := ports * each; left > 0; {
			p := rng.IntN(ports)
			if next[p] == each {
				continue
			}
			n.Deliver(p, frame(n, dues[p][next[p]], p<<12|next[p]))
			next[p]++
			left--
			if rng.IntN(10) == 0 { // what no port can add to any more is safe
				bound := vt.Never
				for p := range next {
					if next[p] < each {
						bound = min(bound, dues[p][next[p]].Add(10)-1)
					}
				}
				n.Advance(bound)
			}
		}
		n.Advance(vt.Never - 1)
		if n.Pool.Out() != 0 || len(r.log) != ports*each {
			t.Fatalf("seed %d: %d arrivals, %d frames out", seed, len(r.log), n.Pool.Out())
		}
		if round == 0 {
			want = r.log
		} else if !slices.Equal(r.log, want) {
			t.Fatalf("seed %d: round %d differs", seed, round)
		}
	}
}

func TestStartRunKeepsWhatNeighboursHaveBegun(t *testing.T) {
	n, r, s := node(2, 20)
	const t0 = 10_000
	ahead := n.Ports[0].Lookahead()
	var left []int
	r.next = func(now vt.Time, port int) *link.Frame { return nil }
	n.Change(t0, func(now vt.Time) { n.StartRun(now, 3) })
	n.Change(t0+5000, func(now vt.Time) { r.note("%d change", now) })
	n.SetTimer(t0+10, 1)
	n.Call(t0+10, func(now vt.Time) { r.note("%d call", now) })
	n.TxFreeAt(1, t0+10)
	n.Deliver(0, frame(n, vt.Time(t0).Add(ahead)-1, 1)) // sent before t0
	n.Deliver(0, frame(n, vt.Time(t0).Add(ahead), 2))   // the earliest that a neighbour can have sent at t0
	n.Deliver(1, frame(n, t0+9000, 3))
	n.Call(t0-1, func(now vt.Time) { // the serializer has work until beyond t0
		for range 3 {
			f := frame(n, 0, 9)
			f.B = f.B[:1500]
			n.Ports[0].Offer(now, 0, f)
			left = append(left, n.Ports[0].QueueLen())
		}
	})
	n.Advance(t0 - 1)
	if len(s.frames) != 1 || n.Ports[0].QueueLen() != 2 {
		t.Fatalf("%d frames left, %v waited", len(s.frames), left)
	}
	n.Advance(t0)
	if n.Ports[0].QueueLen() != 0 || n.Epoch() != t0 || !n.Ports[0].Idle(t0) {
		t.Errorf("queue %d, epoch %v, idle %v", n.Ports[0].QueueLen(), n.Epoch(), n.Ports[0].Idle(t0))
	}
	n.SetTimer(t0+7000, 4)
	n.Advance(vt.Never - 1)
	arrival := vt.Time(t0).Add(ahead + 20)
	want := []string{"9999 dequeued 0: queue 0, sent true", "10000 reset", fmt.Sprintf("%d arrive 0: 2 0002", arrival), "15000 change", "17000 timer 4", "19020 arrive 1: 2 0003"}
	if !slices.Equal(r.log, want) {
		t.Errorf("got %q\nwant %q", r.log, want)
	}
	s.frames[0].Release()
	if n.Pool.Out() != 0 {
		t.Errorf("%d frames are lost", n.Pool.Out())
	}
}

// TestPauseIsThePortsOwn: a PFC frame stops a queue for its quanta without the core's help; going down drops what waits, and
// the core hears of each frame that leaves a queue.
func TestPauseIsThePortsOwn(t *testing.T) {
	n, r, s := node(2, 20)
	pfc := n.Pool.Get()
	pause := wire.Pause{Enabled: 1 << 4}
	pause.Quanta[4] = 1000 // 1280 ns
	pfc.B, pfc.Due = wire.AppendPFC(pfc.B, wire.MAC{2}, &pause), 80
	n.Deliver(1, pfc)
	n.Call(200, func(now vt.Time) {
		for _, q := range []int{4, 4, 4, 2} {
			n.Ports[1].Enqueue(now, q, frame(n, 0, q))
		}
	})
	n.Change(1381, func(now vt.Time) { n.Ports[1].SetImpair(now, link.Impair{Down: true}) })
	n.Advance(vt.Never - 1)
	want := []string{"200 dequeued 1: queue 2, sent true", "1380 dequeued 1: queue 4, sent true", "1381 dequeued 1: queue 4, sent false",
		"1381 dequeued 1: queue 4, sent false"}
	if !slices.Equal(r.log, want) || len(s.frames) != 2 || s.frames[1].Due != 1380+2+500 {
		t.Errorf("got %q, %d frames left", r.log, len(s.frames))
	}
	for _, f := range s.frames {
		f.Release()
	}
	if n.Pool.Out() != 0 {
		t.Errorf("%d frames are lost", n.Pool.Out())
	}
}

func TestGeneratorsDifferAndRepeat(t *testing.T) {
	seen := map[uint64]string{}
	for _, lab := range []uint64{1, 2} {
		for _, id := range []int{0, 1, 256} {
			n := New(Config{ID: id, Seed: lab, MaxFrame: 100}, nil)
			n.Attach(&recorder{})
			for _, run := range []uint64{0, 1, 2} {
				n.StartRun(0, run)
				for _, component := range []string{"", "port0", "port1", "fep"} {
					what := fmt.Sprintf("lab %d, node %d, run %d, %q", lab, id, run, component)
					v := n.Rand(component).Uint64()
					if v != n.Rand(component).Uint64() {
						t.Errorf("%s does not repeat", what)
					}
					if other, ok := seen[v]; ok {
						t.Errorf("%s draws what %s draws", what, other)
					}
					seen[v] = what
				}
			}
		}
	}
	a := New(Config{ID: 1, Seed: 1, MaxFrame: 100}, nil)
	a.Attach(&recorder{})
	a.StartRun(0, 9)
	a.StartRun(50, 2) // the run before leaves nothing behind
	if v := a.Rand("fep").Uint64(); !strings.HasPrefix(seen[v], "lab 1, node 1, run 2") {
		t.Errorf("after another run the generator is that of %q", seen[v])
	}
}

// ring is three nodes in a ring, driven like the nodes of a lab: each goes as far as its neighbours' horizons and
// lookaheads let it.
type ring struct {
	nodes   []*Node
	cores   []*recorder
	horizon []vt.Time
	inbox   [][]boxed // frames on their way, in the order in which they were sent on each port
}

type boxed struct {
	port int
	due  vt.Time
	b    []byte
}

type ringOut struct {
	r  *ring
	id int
}

// Transmit carries a frame from port 0 to the next node's port 1 and back.
func (o ringOut) Transmit(port int, f *link.Frame) {
	n := len(o.r.nodes)
	to := (o.id + 1) % n
	if port == 1 {
		to = (o.id + n - 1) % n
	}
	o.r.inbox[to] = append(o.r.inbox[to], boxed{1 - port, f.Due, slices.Clone(f.B)})
	f.Release()
}

func newRing(seed uint64) *ring {
	r := &ring{horizon: make([]vt.Time, 3), inbox: make([][]boxed, 3)}
	rng := rand.New(rand.NewPCG(seed, 1))
	pc := make([]link.Config, 3) // of the link between i and i+1
	for i := range pc {
		pc[i] = link.Config{Rate: []int64{1e9, 25e9, 400e9, 1e12}[rng.IntN(4)], Delay: time.Duration(1 + rng.IntN(300)), Queue: 20_000}
	}
	for i := range 3 {
		n := New(Config{ID: i, Seed: seed, MaxFrame: 2000, Latency: time.Duration(rng.IntN(50)), Ports: []link.Config{pc[i], pc[(i+2)%3]}}, ringOut{r, i})
		c := &recorder{n: n}
		r.nodes, r.cores = append(r.nodes, n), append(r.cores, c)
		talk(n, c)
	}
	return r
}

// talk gives a core a life of its own, full of chance: it forwards, multiplies and forgets frames, and sets timers.
func talk(n *Node, c *recorder) {
	var dice *rand.Rand
	say := func(now vt.Time) {
		f := n.Pool.Get()
		f.B = append(f.B[:0], make([]byte, 14+dice.IntN(1500))...)
		f.B[0], f.B[1] = byte(n.ID), byte(dice.IntN(256))
		n.Ports[dice.IntN(2)].Offer(now, dice.IntN(link.NumQueues), f)
	}
	c.arrive = func(now vt.Time, port int, f *link.Frame) {
		f.Release()
		for range dice.IntN(3) {
			say(now)
		}
	}
	c.timer = func(now vt.Time, id uint64) {
		say(now)
		n.SetTimer(now+vt.Time(1+dice.IntN(2000)), id)
	}
	n.Attach(c)
	n.Change(1, func(now vt.Time) {
		n.StartRun(now, 4)
		dice = n.Rand("talk")
		n.SetTimer(now, 1)
		n.SetTimer(now+1, 2)
		n.Ports[0].SetImpair(now, link.Impair{Loss: 0.1})
	})
	n.Change(5000, func(now vt.Time) { n.Ports[1].SetImpair(now, link.Impair{Down: true}) })
	n.Change(9000, func(now vt.Time) { n.Ports[1].SetImpair(now, link.Impair{Delay: 77, Rate: 0.3}) })
}

// safe is how far node i may go.
func (r *ring) safe(i int) vt.Time {
	n := r.nodes[i]
	return min(r.horizon[(i+1)%3].Add(n.Ports[0].Lookahead()), r.horizon[(i+2)%3].Add(n.Ports[1].Lookahead())).Add(n.latency)
}

// run goes to end; step says which node takes a turn, and how much of what is safe it takes.
func (r *ring) run(end vt.Time, turn func() int, part func(safe vt.Time) vt.Time) {
	for slices.Min(r.horizon) < end {
		i := turn()
		for _, m := range r.inbox[i] {
			f := r.nodes[i].Pool.Get()
			f.B, f.Due = append(f.B, m.b...), m.due
			r.nodes[i].Deliver(m.port, f)
		}
		r.inbox[i] = r.inbox[i][:0]
		if bound := min(end, r.horizon[i]+part(r.safe(i)-r.horizon[i])); bound > r.horizon[i] {
			r.nodes[i].Advance(bound)
			r.horizon[i] = bound
		}
	}
}

// TestWindowsLeaveNoTrace co-simulates the ring with turns and windows of every kind: as much as is safe in turn, single
// nanoseconds, and at random. All nodes must see the same.
func TestWindowsLeaveNoTrace(t *testing.T) {
	const end = 20_000
	seeds := []uint64{1, 2, rand.Uint64()}
	for _, seed := range seeds {
		var want [3][]string
		for round := range 6 {
			rng := rand.New(rand.NewPCG(seed, uint64(round)))
			r, i := newRing(seed), 0
			turn := func() int { i = (i + 1) % 3; return i }
			part := func(safe vt.Time) vt.Time { return safe }
			switch {
			case round == 1:
				part = func(safe vt.Time) vt.Time { return min(safe, 1) }
			case round > 1:
				turn = func() int { return rng.IntN(3) }
				part = func(safe vt.Time) vt.Time { return vt.Time(rng.Int64N(max(1, int64(safe)+1))) }
			}
			r.run(end, turn, part)
			for i, c := range r.cores {
				if round == 0 {
					want[i] = c.log
					if len(c.log) < 30 {
						t.Fatalf("seed %d: node %d has seen only %d events", seed, i, len(c.log))
					}
				} else if !slices.Equal(c.log, want[i]) {
					at := 0
					for at < min(len(c.log), len(want[i])) && c.log[at] == want[i][at] {
						at++
					}
					t.Fatalf("seed %d: round %d: node %d sees %d events, not %d, and differs from event %d on", seed, round, i, len(c.log), len(want[i]), at)
				}
			}
		}
	}
}

// TestNodeAllocatesNothing passes frames through a node in the steady state.
func TestNodeAllocatesNothing(t *testing.T) {
	n, _, _ := node(2, 10)
	n.out = releaser{}
	n.Attach(forwarder{n})
	due := vt.Time(0)
	work := func() {
		for i := range 10 {
			due += 100
			f := n.Pool.Get()
			f.B, f.Due = f.B[:1000], due
			n.Deliver(i&1, f)
		}
		n.Advance(due)
	}
	work()
	if a := testing.AllocsPerRun(200, work); a != 0 {
		t.Errorf("%v allocations for 10 frames", a)
	}
}

type releaser struct{}

func (releaser) Transmit(_ int, f *link.Frame) { f.Release() }

// forwarder sends every frame out of the other port.
type forwarder struct{ n *Node }

func (forwarder) NextFrame(vt.Time, int) *link.Frame       { return nil }
func (forwarder) Dequeued(vt.Time, int, *link.Frame, bool) {}
func (f forwarder) Arrive(now vt.Time, port int, fr *link.Frame) {
	f.n.Ports[1-port].Offer(now, 0, fr)
}
func (forwarder) Timer(vt.Time, uint64) {}
func (forwarder) Reset(vt.Time)         {}

func BenchmarkForward(b *testing.B) {
	n, _, _ := node(2, 10)
	n.out = releaser{}
	n.Attach(forwarder{n})
	due := vt.Time(0)
	b.ReportAllocs()
	for b.Loop() {
		due += 100
		f := n.Pool.Get()
		f.B, f.Due = f.B[:1000], due
		n.Deliver(0, f)
		n.Advance(due)
	}
}

// TestInterrupt stops Advance after the event that asks for it, and loses nothing.
func TestInterrupt(t *testing.T) {
	n, r, _ := node(1, 0)
	r.timer = func(now vt.Time, id uint64) {
		if id == 2 {
			n.Interrupt()
		}
	}
	for id := range uint64(4) {
		n.SetTimer(vt.Time(10*id), id)
	}
	n.Interrupt() // outside of Advance it does nothing
	if got := n.Advance(25); got != 3 || n.Now() != 20 || n.Next() != 30 {
		t.Errorf("handled %d, now %v, next %v", got, n.Now(), n.Next())
	}
	n.SetTimer(20, 9) // what comes at that instant is still handled there
	if got := n.Advance(25); got != 1 || n.Now() != 20 {
		t.Errorf("then %d, now %v", got, n.Now())
	}
}
