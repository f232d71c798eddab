package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/internal/ctl"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/nodecore"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/workload"
)

const t0 = vt.Time(1000)

// spec is a workload on all end points of a plan.
func spec(t testing.TB, plan *topology.Plan, name string, size int64, seed uint64) workload.Spec {
	t.Helper()
	s := workload.Spec{Workload: name, Size: size, Iters: 1, Check: true, Seed: seed, Nodes: hosts(plan)}
	s.Ranks = len(s.Nodes)
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	return s
}

// fail takes a link down at both ends at one time, and has the switches route around what is down once the fabric has
// converged, as the daemon does.
func fail(t testing.TB, plan *topology.Plan, f *Fabric, at vt.Time, down map[int]bool, id int) {
	t.Helper()
	l, yes := plan.Links[id], true
	for _, e := range []topology.End{l.A, l.B} {
		if err := f.Change(e.Node, ctl.Change{At: at, Port: e.Port, Impair: &link.Impair{Down: true}}, ctl.Change{At: at, Port: e.Port, RxDown: &yes}); err != nil {
			t.Fatal(err)
		}
	}
	down[id] = true
	for sw, r := range plan.Routes(down) {
		if err := f.Change(sw, ctl.Change{At: at.Add(plan.Convergence), Port: -1, Routes: nodecore.Groups(r)}); err != nil {
			t.Fatal(err)
		}
	}
}

// uplinks are the links between switches.
func uplinks(plan *topology.Plan) (ids []int) {
	for id, l := range plan.Links {
		if plan.Nodes[l.A.Node].Kind == topology.KindSwitch && plan.Nodes[l.B.Node].Kind == topology.KindSwitch {
			ids = append(ids, id)
		}
	}
	return ids
}

// wander advances a fabric as the nodes of a lab would: one node at a time, by chance, anywhere up to what is safe for it.
func wander(f *Fabric, rng *rand.Rand, end vt.Time, done func() bool) {
	horizon := make([]vt.Time, len(f.nodes))
	for slices.Min(horizon) < end && !done() {
		if rng.IntN(4) == 0 { // a leap, which the daemon makes when nothing is left before an event
			next := end + 1
			for _, n := range f.nodes {
				next = min(next, n.Next())
			}
			for i := range horizon {
				horizon[i] = max(horizon[i], next-1)
			}
		}
		i := rng.IntN(len(f.nodes))
		safe := end
		for _, q := range f.plan.Nodes[i].Ports {
			safe = min(safe, horizon[q.Peer].Add(f.ahead[i]))
		}
		if room := int64(safe - horizon[i]); room > 0 {
			if rng.IntN(2) == 0 {
				room = 1 + rng.Int64N(room)
			}
			horizon[i] += vt.Time(room)
			f.nodes[i].Advance(horizon[i])
		}
	}
}

// ranksBy runs a workload by wandering, and gives what the ranks report.
func ranksBy(t testing.TB, plan *topology.Plan, f *Fabric, s workload.Spec, rng *rand.Rand) []workload.RankResult {
	t.Helper()
	f.results = map[int]workload.RankResult{}
	for i, n := range f.nodes {
		if err := n.StartRun(ctl.Run{At: t0, Seed: s.Seed, Spec: s, Ranks: s.On(i), Peers: s.Peers(plan)}); err != nil {
			t.Fatal(err)
		}
	}
	wander(f, rng, t0.Add(time.Second), func() bool { return len(f.results) == s.Ranks })
	var list []workload.RankResult
	for r := range s.Ranks {
		list = append(list, f.results[r])
	}
	return list
}

// TestOrderOfStepsLeavesNoTrace runs workloads on fabrics, healthy and with a failing link, once by the simulator's own
// steps and several times by chance. The ranks must report the same to the nanosecond.
func TestOrderOfStepsLeavesNoTrace(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	for _, topo := range []string{"pair", "star-5", "dumbbell-3", "fat-tree-2x2", "fat-tree-k4"} {
		for _, name := range []string{workload.Allreduce, workload.Permutation, workload.Incast, workload.Alltoall} {
			for _, failure := range []bool{false, true} {
				plan, _ := build(t, topo)
				up := uplinks(plan)
				if failure && len(up) < 3 {
					continue // nothing to route around
				}
				s := spec(t, plan, name, 40_000, rng.Uint64N(1000))
				victim := 0
				if failure {
					victim = up[rng.IntN(len(up))]
				}
				at := t0.Add(time.Duration(rng.IntN(5000)))
				make1 := func() *Fabric {
					_, f := build(t, topo)
					if failure {
						fail(t, plan, f, at, map[int]bool{}, victim)
					}
					return f
				}
				what := fmt.Sprintf("seed %d: %s on %s, failure %v of link %d at %v", seed, name, topo, failure, victim, at)
				want, err := make1().Run(s, t0, Options{})
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				if want.Correct == nil || !*want.Correct || want.Ratio < 1 && !failure {
					t.Errorf("%s: correct %v, ratio %v", what, want.Correct, want.Ratio)
				}
				if got := ranksBy(t, plan, make1(), s, rng); !reflect.DeepEqual(got, want.PerRank) {
					t.Errorf("%s:\n got %+v\nwant %+v", what, got, want.PerRank)
				}
			}
		}
	}
}

// TestTwoLinksFailAtOnce takes both uplinks of one leaf's neighbours down at the same nanosecond: what is under way is lost
// on both, and the run ends correct over what is left.
func TestTwoLinksFailAtOnce(t *testing.T) {
	var first workload.Result
	for round := range 2 {
		plan, f := build(t, "fat-tree-k4")
		up := uplinks(plan)
		down := map[int]bool{}
		at := t0.Add(6 * time.Microsecond)
		a := up[0]
		b := slices.IndexFunc(up, func(id int) bool { // one that shares no switch with it
			x, y := plan.Links[a], plan.Links[id]
			return x.A.Node != y.A.Node && x.A.Node != y.B.Node && x.B.Node != y.A.Node && x.B.Node != y.B.Node
		})
		fail(t, plan, f, at, down, a)
		fail(t, plan, f, at, down, up[b])
		res, err := f.Run(spec(t, plan, workload.Permutation, 1<<20, 5), t0, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if !*res.Correct || res.Drops == 0 || res.Retransmits == 0 {
			t.Errorf("correct %v, %d drops, %d retransmits", *res.Correct, res.Drops, res.Retransmits)
		}
		if round == 0 {
			first = res
		} else if !reflect.DeepEqual(res, first) {
			t.Errorf("the second time it is %+v, not %+v", res, first)
		}
	}
}

// TestIsolatedSwitch takes all links of a core switch down, so that it has no routes left.
func TestIsolatedSwitch(t *testing.T) {
	plan, f := build(t, "fat-tree-2x4")
	down := map[int]bool{}
	for _, p := range plan.Nodes[0].Ports { // a spine
		fail(t, plan, f, t0.Add(2*time.Microsecond), down, p.Link)
	}
	res, err := f.Run(spec(t, plan, workload.Allreduce, 1<<20, 5), t0, Options{})
	if err != nil || !*res.Correct || res.Drops == 0 {
		t.Errorf("%v: %+v", err, res)
	}
}

// TestRunsInOneFabricAreEqual runs the same twice, and another workload in between: a run leaves nothing behind.
func TestRunsInOneFabricAreEqual(t *testing.T) {
	for _, name := range []string{workload.Allreduce, workload.Incast} {
		plan, f := build(t, "star-6")
		s, at := spec(t, plan, name, 200_000, 3), t0
		var first workload.Result
		for round := range 3 {
			res, err := f.Run(s, at, Options{})
			if err != nil {
				t.Fatal(err)
			}
			at = f.now + vt.Time(1+round*7777)
			if round == 0 {
				first = res
				continue
			}
			if !reflect.DeepEqual(res, first) {
				t.Errorf("%s: round %d is %+v, not %+v", name, round, res, first)
			}
			if _, err := f.Run(spec(t, plan, workload.Alltoall, 50_000, 8), at, Options{}); err != nil {
				t.Fatal(err)
			}
			at = f.now + 1
		}
	}
}

// TestSeedsMatter holds equal results to be more than luck.
func TestSeedsMatter(t *testing.T) {
	seen := map[int64]bool{}
	for seed := range uint64(6) {
		plan, f := build(t, "fat-tree-2x4")
		s := spec(t, plan, workload.Permutation, 200_000, 1) // of the data and the permutation
		s.Seed = seed
		res, err := f.Run(s, t0, Options{})
		if err != nil {
			t.Fatal(err)
		}
		seen[res.FCT.Mean] = true
	}
	if len(seen) < 3 {
		t.Errorf("six seeds give %d results", len(seen))
	}
}

// TestStuck makes the root of a broadcast forget the run before it begins: the others have nothing to wait for.
func TestStuck(t *testing.T) {
	plan, f := build(t, "star-3")
	s := spec(t, plan, workload.Broadcast, 10_000, 1)
	s.Root = 1
	f.nodes[s.Nodes[1]].Node.Change(t0+1, func(now vt.Time) {
		if err := f.nodes[s.Nodes[1]].StartRun(ctl.Run{At: now}); err != nil {
			t.Error(err)
		}
	})
	_, err := f.Run(s, t0, Options{})
	if !errors.Is(err, ErrStuck) {
		t.Errorf("error %v, want %v", err, ErrStuck)
	}
	if _, err := f.Run(workload.Spec{Workload: workload.Broadcast, Ranks: 2, Iters: 1}, f.now+1, Options{}); err == nil {
		t.Error("a run without nodes")
	}
}

// TestFramesAreGivenBack counts the frames that are out once a fabric has come to rest.
func TestFramesAreGivenBack(t *testing.T) {
	plan, f := build(t, "fat-tree-2x4")
	if _, err := f.Run(spec(t, plan, workload.Incast, 500_000, 1), t0, Options{}); err != nil {
		t.Fatal(err)
	}
	for f.step(vt.Time(time.Hour)) { // idle PDCs close
	}
	for i, n := range f.nodes {
		if n.Pool.Out() != 0 || n.Next() != vt.Never {
			t.Errorf("%s: %d frames are out, next event %v", plan.Nodes[i].Name, n.Pool.Out(), n.Next())
		}
	}
}
