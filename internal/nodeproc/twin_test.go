package nodeproc

import (
	"errors"
	"math/rand/v2"
	"os"
	"reflect"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/internal/clock"
	"github.com/uetlab/uetlab/internal/ctl"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/nodecore"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/sim"
	"github.com/uetlab/uetlab/workload"
)

// twins are the two end points of a pair: whole nodes as in their processes, but driven by turns on one thread.
type twins struct {
	t       *testing.T
	plan    *topology.Plan
	clk     *clock.ClockPage
	procs   []*proc
	daemon  []*ctl.Conn
	results map[int]workload.RankResult
}

func pairPlan(t *testing.T) *topology.Plan {
	t.Helper()
	spec, err := topology.Generate("pair")
	if err != nil {
		t.Fatal(err)
	}
	plan, err := topology.BuildPlan(spec)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

func newTwins(t *testing.T) *twins {
	inNet(t)
	veth(t, "eth1", "eth2")
	w := &twins{t: t, plan: pairPlan(t), results: map[int]workload.RankResult{}}
	w.plan.Nodes[1].Ports[0].Name = "eth2" // both are in one namespace
	dir := t.TempDir()
	var err error
	if w.clk, err = clock.Create(dir, 2); err != nil {
		t.Fatal(err)
	}
	for id := range 2 {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		p := &proc{hello: ctl.Hello{ID: id}, dir: dir, conn: ctl.NewConn(fds[0])}
		d := ctl.NewConn(fds[1])
		w.procs, w.daemon = append(w.procs, p), append(w.daemon, d)
		t.Cleanup(func() { p.conn.Close(); d.Close() })
		var errs [2]error
		p.page, errs[0] = clock.OpenNode(dir, id, true)
		p.clk, errs[1] = clock.OpenClock(dir, false)
		if err := errors.Join(errs[:]...); err != nil {
			t.Fatal(err)
		}
		if err := p.configure(nodecore.Config(w.plan, id, 1, nil)); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range w.procs {
		if err := p.start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.loop.sock.Close() })
	}
	for _, p := range w.procs {
		if err := p.carrier(&ctl.Message{}); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// turn is one round of a node's loop, as run has it.
func (w *twins) turn(id int) {
	l := w.procs[id].loop
	if s, ok := l.clk.Read(); ok {
		l.seg = s
	}
	if !l.agreed() {
		l.idle.tries++
		l.missing()
	} else {
		l.idle.tries = 0
	}
	for {
		var r ctl.Reply
		if _, err := w.daemon[id].Recv(&r, false); errors.Is(err, ctl.ErrAgain) {
			return
		} else if err != nil {
			w.t.Fatal(err)
		}
		if r.Result != nil {
			w.results[r.Result.Rank] = *r.Result
		}
		if r.Error != "" {
			w.t.Fatal(r.Error)
		}
	}
}

// until takes turns by chance until done says so.
func (w *twins) until(rng *rand.Rand, done func() bool) {
	for n := 0; !done(); n++ {
		if n > 2_000_000 {
			w.t.Fatal("it does not come to an end")
		}
		w.turn(rng.IntN(2))
	}
}

// run runs a workload from t0 on, as the daemon does.
func (w *twins) run(rng *rand.Rand, spec workload.Spec, t0 vt.Time, changes [2][]ctl.Change) (packetHops, drops uint64) {
	w.clk.Write(clock.Segment{Limit: t0 - 1})
	w.until(rng, func() bool { return w.procs[0].loop.horizon == t0-1 && w.procs[1].loop.horizon == t0-1 })
	for id, p := range w.procs {
		for _, m := range []*ctl.Message{{ID: 1, Op: "run", Run: &ctl.Run{At: t0, Seed: spec.Seed, Spec: spec, Ranks: spec.On(id), Peers: spec.Peers(w.plan)}}, {ID: 2, Op: "change", Changes: changes[id]}} {
			if err := p.message(m); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	w.clk.Write(clock.Segment{Limit: 1 << 60})
	w.until(rng, func() bool { return len(w.results) == 2 })
	var last int64
	for _, r := range w.results {
		for _, s := range r.Iterations {
			last = max(last, s.EndNs, s.AckedNs)
		}
	}
	limit := t0.Add(time.Duration(last) + 500*time.Microsecond)
	w.clk.Write(clock.Segment{Limit: limit})
	w.until(rng, func() bool { return w.procs[0].loop.horizon >= limit && w.procs[1].loop.horizon >= limit })
	for id, p := range w.procs {
		if f := clock.Fault(p.page.Fault.Load()); f != clock.FaultNone || p.page.Late.Load() != 0 {
			w.t.Errorf("node %d: %v, %d late frames", id, f, p.page.Late.Load())
		}
		var c link.Counters
		for i := range c {
			c[i] = p.page.Ports[0][i].Load()
		}
		packetHops, drops = packetHops+c[link.RxFrames], drops+c.Drops()
	}
	return packetHops, drops
}

// TestTwinsEqualTheSimulation runs workloads over a real veth, with turns by chance, and in the simulator: every figure
// is the same, also with frames that are lost and a link that fails.
func TestTwinsEqualTheSimulation(t *testing.T) {
	const t0 = vt.Time(1000)
	loss := func(p float64) []ctl.Change {
		return []ctl.Change{{At: t0 + 1, Port: 0, Impair: &link.Impair{Loss: p}}}
	}
	down := func(at vt.Time, down bool) []ctl.Change {
		return []ctl.Change{{At: at, Port: 0, Impair: &link.Impair{Down: down}}, {At: at, Port: 0, RxDown: &down}}
	}
	flap := append(down(t0+3000, true), down(t0+5000, false)...)
	for name, c := range map[string]struct {
		spec    workload.Spec
		changes [2][]ctl.Change
		drops   bool
	}{
		"sendrecv":  {workload.Spec{Workload: workload.Sendrecv, Size: 300_000, Iters: 1, Seed: 1}, [2][]ctl.Change{}, false},
		"allreduce": {workload.Spec{Workload: workload.Allreduce, Size: 100_000, Iters: 2, Check: true, Seed: 2}, [2][]ctl.Change{}, false},
		"loss":      {workload.Spec{Workload: workload.Alltoall, Size: 400_000, Iters: 1, Check: true, Seed: 3}, [2][]ctl.Change{loss(0.05), loss(0.02)}, true},
		"failure":   {workload.Spec{Workload: workload.Permutation, Size: 400_000, Iters: 1, Check: true, Seed: 4}, [2][]ctl.Change{flap, flap}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if os.Geteuid() != 0 {
				t.Skip("needs root to make a network namespace")
			}
			spec := c.spec
			spec.Nodes, spec.Ranks = []int{0, 1}, 2
			f, err := sim.New(pairPlan(t), 1)
			if err != nil {
				t.Fatal(err)
			}
			for id, list := range c.changes {
				if err := f.Change(id, list...); err != nil {
					t.Fatal(err)
				}
			}
			want, err := f.Run(spec, t0, sim.Options{})
			if err != nil {
				t.Fatal(err)
			}
			seed := rand.Uint64()
			w := newTwins(t)
			hops, drops := w.run(rand.New(rand.NewPCG(seed, 0)), spec, t0, c.changes)
			got := []workload.RankResult{w.results[0], w.results[1]}
			if !reflect.DeepEqual(got, want.PerRank) || hops != want.PacketHops || drops != want.Drops {
				t.Errorf("turns of seed %d:\n got %+v, %d hops, %d drops\nwant %+v, %d hops, %d drops", seed, got, hops, drops, want.PerRank, want.PacketHops, want.Drops)
			}
			if (drops > 0) != c.drops || hops < 50 || want.Correct != nil && !*want.Correct {
				t.Errorf("%d hops, %d drops, correct %v: the test is of no use", hops, drops, want.Correct)
			}
		})
	}
}

// TestMessagesThatAreRefused asks a node for what it cannot do: it says so and lives on.
func TestMessagesThatAreRefused(t *testing.T) {
	w := newTwins(t)
	p := w.procs[0]
	w.clk.Write(clock.Segment{Limit: 10_000})
	rng := rand.New(rand.NewPCG(1, 1))
	w.until(rng, func() bool { return p.loop.horizon == 10_000 })
	yes := true
	for i, c := range []struct {
		m  ctl.Message
		ok bool
	}{
		{ctl.Message{Op: "dance"}, false},
		{ctl.Message{Op: "run", Run: &ctl.Run{At: 10_000}}, false}, // past
		{ctl.Message{Op: "run", Run: &ctl.Run{At: 10_001}}, true},
		{ctl.Message{Op: "run"}, false},
		{ctl.Message{Op: "change", Changes: []ctl.Change{{At: 10_000, RxDown: &yes}}}, false}, // past
		{ctl.Message{Op: "change", Changes: []ctl.Change{{At: 20_000, Port: 1, RxDown: &yes}}}, false},
		{ctl.Message{Op: "change", Changes: []ctl.Change{{At: 20_000, RxDown: &yes}}}, true},
		{ctl.Message{Op: "change"}, true},
		{ctl.Message{Op: "rewire", Port: 1}, false},
		{ctl.Message{Op: "rewire", Port: -1}, false},
		{ctl.Message{Op: "capture", Port: 7}, false},
		{ctl.Message{Op: "capture"}, true},
		{ctl.Message{Op: "pdcs"}, true},
		{ctl.Message{Op: "wake"}, true},
		{ctl.Message{Op: "rewire"}, true},
		{ctl.Message{Op: "stop"}, true},
	} {
		c.m.ID = uint64(i + 1)
		if err := p.message(&c.m); err != nil {
			t.Fatalf("%+v: %v", c.m, err)
		}
		var r ctl.Reply
		files, err := w.daemon[0].Recv(&r, false)
		if err != nil || r.ID != c.m.ID || (r.Error == "") != c.ok || (len(files) == 1) != (c.m.Op == "capture" && c.ok) {
			t.Errorf("%+v: %v, %+v, %d files", c.m, err, r, len(files))
		}
		for _, f := range files {
			f.Close()
		}
	}
	if p.page.Seq.Load()&1 != 0 || !p.loop.stop {
		t.Errorf("sweep %d, stop %v", p.page.Seq.Load(), p.loop.stop)
	}
}
