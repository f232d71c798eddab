package sim

import (
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"testing"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/workload"
	"github.com/uetlab/uetlab/workload/matrix"
)

// matrixSpec is a run of a matrix on the first end points of a plan.
func matrixSpec(plan *topology.Plan, m *matrix.Matrix, op string) workload.Spec {
	return workload.Spec{Workload: workload.Matrix, Matrix: m, Ranks: m.Nodes, Nodes: hosts(plan)[:m.Nodes], Iters: 1, Check: true, Seed: 1, Op: op}
}

// TestMatrix plays random matrices, with triggers of all kinds, on fabrics.
func TestMatrix(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	for _, topo := range []string{"pair", "star-5", "dumbbell-3", "fat-tree-2x4", "fat-tree-k4"} {
		for _, op := range []string{"", workload.OpSend} {
			plan, f := build(t, topo)
			m := matrix.Random(rng, len(hosts(plan)), 40, 60_000)
			s := matrixSpec(plan, m, op)
			what := fmt.Sprintf("seed %d: %s, op %q", seed, topo, op)
			res, err := f.Run(s, t0, Options{})
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if !res.OK() || !*res.Correct || res.Ratio < 1 || len(res.PerFlow) != len(m.Flows) {
				t.Errorf("%s: correct %v, ratio %v, %d flows of %d", what, *res.Correct, res.Ratio, len(res.PerFlow), len(m.Flows))
			}
			_, again := build(t, topo)
			if second, err := again.Run(s, t0, Options{}); err != nil || !reflect.DeepEqual(second, res) {
				t.Errorf("%s: the second time it is %+v, not %+v (%v)", what, second, res, err)
			}
		}
	}
}

// TestMatrixOnHTSimTopology plays files of htsim on a fabric of htsim.
func TestMatrixOnHTSimTopology(t *testing.T) {
	text, err := os.ReadFile("../fabric/topology/testdata/htsim/ls16.topo")
	if err != nil {
		t.Fatal(err)
	}
	spec, err := topology.ParseHTSim("ls16.topo", text)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := topology.BuildPlan(spec)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"one16_2m.cm", "perm16_2000000_s1.cm", "ring16x_250k.cm", "a2a16_250k.cm"} {
		b, err := os.ReadFile("../workload/matrix/testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		m, _, err := matrix.Parse(name, b, matrix.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if len(m.Flows) > 100 {
			for i := range m.Flows {
				m.Flows[i].Size /= 10
			}
		}
		f, err := New(plan, 1)
		if err != nil {
			t.Fatal(err)
		}
		res, err := f.Run(matrixSpec(plan, m, ""), t0, Options{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		t.Logf("%-22s FCT max %d ns, whole %d ns, ideal %d ns, ratio %.3f, %d retransmits", name, res.FCT.Max, res.PerRank[0].Iterations[0].EndNs, res.IdealNs, res.Ratio, res.Retransmits)
		if !res.OK() || !*res.Correct || res.Ratio < 1 || len(res.PerFlow) != len(m.Flows) {
			t.Errorf("%s: correct %v, ratio %v, %d flows of %d", name, *res.Correct, res.Ratio, len(res.PerFlow), len(m.Flows))
		}
	}
}
