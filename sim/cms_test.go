package sim

import (
	"os"
	"testing"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/fep"
	"github.com/uetlab/uetlab/workload"
	"github.com/uetlab/uetlab/workload/matrix"
)

// managed builds a topology whose end points have congestion management. A name that ends in .topo is a file of htsim.
func managed(t testing.TB, name string, p topology.FEPParams) (*topology.Plan, *Fabric) {
	t.Helper()
	var spec *topology.Spec
	var err error
	if len(name) > 5 && name[len(name)-5:] == ".topo" {
		text, rerr := os.ReadFile("../fabric/topology/testdata/htsim/" + name)
		if rerr != nil {
			t.Fatal(rerr)
		}
		spec, err = topology.ParseHTSim(name, text)
	} else {
		spec, err = topology.Generate(name)
	}
	if err != nil {
		t.Fatal(err)
	}
	spec.Defaults.FEP = p
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

func flows(r *workload.Result) (mean, worst float64) {
	for _, f := range r.PerFlow {
		d := float64(f.FCTNs)
		mean += d / float64(len(r.PerFlow))
		worst = max(worst, d)
	}
	return mean, worst
}

func TestScratch(t *testing.T) {
	type c struct{ topo, m, cc, lb, ack string }
	b, _ := os.ReadFile("../workload/matrix/testdata/perm16_2000000_s1.cm")
	for _, x := range []c{
		{"ls16.topo", "one16_2m", "fixed", "spray", ""},
		{"ls16.topo", "one16_2m", "nscc", "oblivious", ""},
		{"ls16.topo", "", "fixed", "spray", ""},
		{"ls16.topo", "", "fixed", "oblivious", ""},
		{"ls16.topo", "", "nscc", "spray", ""},
		{"ls16.topo", "", "nscc", "ecmp", ""},
		{"ls16.topo", "", "nscc", "oblivious", ""},
		{"ls16.topo", "", "nscc", "reps", ""},
		{"ls16.topo", "", "nscc", "reps", "packet"},
		{"ls16.topo", "", "nscc", "bitmap", "packet"},
		{"ls16.topo", "", "nscc", "oblivious", "packet"},
		{"ls16.topo", "", "rccc", "oblivious", ""},
		{"ls16.topo", "", "nscc+rccc", "oblivious", ""},
		{"ls16.topo", "", "dctcp", "oblivious", ""},
		{"ls16.topo", "", "mprdma", "oblivious", ""},
		{"ls16.topo", "", "swift", "oblivious", ""},
		{"ls16.topo", "", "eqds", "oblivious", ""},
		{"ls16.topo", "", "dcqcn", "ecmp", ""},
		{"ls16.topo", "", "uccl", "uccl", ""},
	} {
		plan, f := managed(t, x.topo, topology.FEPParams{CC: x.cc, LB: x.lb, ACK: x.ack})
		bb := b
		if x.m != "" {
			bb, _ = os.ReadFile("../workload/matrix/testdata/" + x.m + ".cm")
		}
		m, _, err := matrix.Parse("m", bb, matrix.Options{})
		if err != nil {
			t.Fatal(err)
		}
		res, err := f.Run(matrixSpec(plan, m, ""), t0, Options{})
		if err != nil {
			t.Errorf("%v: %v", x, err)
			continue
		}
		var cs fep.Counters
		for _, h := range hosts(plan) {
			for i, v := range f.nodes[h].FEP.C {
				cs[i] += v
			}
		}
		mean, worst := flows(&res)
		t.Logf("%-36v FCT max %.1f mean %.1f ratio %.3f packets %d retx %d trims %d drops %d rto %d acks %d infer %d probe %d", x, worst/1000, mean/1000, res.Ratio, res.Packets, res.Retransmits, res.Trims, res.Drops, cs[fep.RTO], cs[fep.AckTx], cs[fep.RetxInfer], cs[fep.RetxProbe])
	}
}
