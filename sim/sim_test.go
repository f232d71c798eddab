package sim

import (
	"testing"
	"time"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/internal/ctl"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/nodecore"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/workload"
)

// fabricOf builds the fabric of a topology.
func fabricOf(t testing.TB, spec *topology.Spec) (*topology.Plan, *Fabric) {
	t.Helper()
	plan, err := topology.BuildPlan(spec)
	if err != nil {
		t.Fatal(err)
	}
	f, err := New(plan, 1)
	if err != nil {
		t.Fatal(err)
	}
	return plan, f
}

func build(t testing.TB, name string) (*topology.Plan, *Fabric) {
	t.Helper()
	spec, err := topology.Generate(name)
	if err != nil {
		t.Fatal(err)
	}
	return fabricOf(t, spec)
}

func hosts(plan *topology.Plan) []int {
	var h []int
	for i := range plan.Nodes {
		if plan.Nodes[i].Kind == topology.KindFEP {
			h = append(h, i)
		}
	}
	return h
}

func TestWorkloadsAreCorrectAndRepeatable(t *testing.T) {
	for _, w := range workload.Workloads() {
		if w.Name == workload.Matrix { // see TestMatrix
			continue
		}
		var first workload.Result
		for round := range 2 {
			plan, f := build(t, "fat-tree-2x4")
			spec := workload.Spec{Workload: w.Name, Size: 300_000, Iters: 2, Check: true, Seed: 7, Nodes: hosts(plan), Ranks: 8}
			var err error
			if spec.Guard, err = workload.SafeGuard(spec, plan); err != nil {
				t.Fatal(err)
			}
			res, err := f.Run(spec, 1000, Options{})
			if err != nil {
				t.Fatalf("%s: %v", w.Name, err)
			}
			if res.Correct == nil || !*res.Correct {
				t.Errorf("%s: wrong data: %+v", w.Name, res.PerRank)
			}
			if res.Ratio < 1 {
				t.Errorf("%s: %d ns is faster than the ideal %d", w.Name, res.FCT.Max, res.IdealNs)
			}
			if round == 0 {
				first = res
				t.Logf("%-12s max %7d ns ratio %.3f packets %d retx %d drops %d", w.Name, res.FCT.Max, res.Ratio, res.Packets, res.Retransmits, res.Drops)
			} else if res.FCT != first.FCT || res.PacketHops != first.PacketHops || res.Packets != first.Packets {
				t.Errorf("%s: second run differs: %+v and %+v", w.Name, first.FCT, res.FCT)
			}
		}
	}
}

func TestLinkFailureInTheMiddle(t *testing.T) {
	plan, f := build(t, "fat-tree-2x4")
	spec := workload.Spec{Workload: workload.Allreduce, Size: 1 << 20, Iters: 1, Check: true, Seed: 1, Nodes: hosts(plan), Ranks: 8}
	id, _, err := plan.FindLink("leaf0-spine0")
	if err != nil {
		t.Fatal(err)
	}
	l, at := plan.Links[id], vt.Time(1000).Add(30*time.Microsecond)
	down := true
	for _, e := range [][2]topology.End{{l.A, l.B}, {l.B, l.A}} {
		if err := f.Change(e[0].Node, ctl.Change{At: at, Port: e[0].Port, Impair: &link.Impair{Down: true}}, ctl.Change{At: at, Port: e[0].Port, RxDown: &down}); err != nil {
			t.Fatal(err)
		}
	}
	for sw, r := range plan.Routes(map[int]bool{id: true}) {
		if err := f.Change(sw, ctl.Change{At: at.Add(plan.Convergence), Port: -1, Routes: nodecore.Groups(r)}); err != nil {
			t.Fatal(err)
		}
	}
	res, err := f.Run(spec, 1000, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("fct %d ns, packets %d, retx %d, drops %d", res.FCT.Max, res.Packets, res.Retransmits, res.Drops)
	if !*res.Correct || res.Retransmits == 0 || res.Drops == 0 {
		t.Errorf("correct %v, retransmits %d, drops %d", *res.Correct, res.Retransmits, res.Drops)
	}
}
