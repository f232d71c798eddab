package e2e

import (
	"strconv"
	"testing"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/sim"
	"github.com/uetlab/uetlab/workload"
)

// simulateRanks simulates a workload with per ranks on each end point of a plan.
func simulateRanks(t testing.TB, plan *topology.Plan, spec workload.Spec, per int) figures {
	t.Helper()
	spec.Nodes = nil
	for i := range plan.Nodes {
		for k := 0; k < per && plan.Nodes[i].Kind == topology.KindFEP; k++ {
			spec.Nodes = append(spec.Nodes, i)
		}
	}
	spec.Ranks = len(spec.Nodes)
	if spec.Iters > 1 {
		var err error
		if spec.Guard, err = workload.SafeGuard(spec, plan); err != nil {
			t.Fatal(err)
		}
	}
	f, err := sim.New(plan, 1)
	if err != nil {
		t.Fatal(err)
	}
	r, err := f.Run(spec, t0, sim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return figuresOf(r)
}

// TestSeveralRanksOnANodeEqualTheSimulation runs with two and three ranks on each end point, which talk to each other too.
func TestSeveralRanksOnANodeEqualTheSimulation(t *testing.T) {
	l := sharedLab(t)
	for _, c := range []struct {
		workload string
		per      int
		spec     workload.Spec
		args     []string
	}{
		{workload.Permutation, 2, workload.Spec{Size: 1 << 20}, []string{"--size", "1MiB"}},
		{workload.Allreduce, 2, workload.Spec{Size: 1 << 20}, []string{"--size", "1MiB"}},
		{workload.Incast, 3, workload.Spec{Size: 1 << 17}, []string{"--size", "128KiB"}},
		{workload.Alltoall, 2, workload.Spec{Size: 1 << 18, Iters: 3}, []string{"--size", "256KiB", "--iters", "3"}},
	} {
		c.spec.Workload, c.spec.Seed, c.spec.Check, c.spec.Iters = c.workload, 1, true, max(c.spec.Iters, 1)
		want := simulateRanks(t, &l.plan, c.spec, c.per)
		r := l.run(t, append([]string{c.workload, "--check", "--per-node", strconv.Itoa(c.per)}, c.args...)...)
		same(t, c.workload, r, want)
		if want.Correct != "true" || r.Fidelity.Verdict != "exact" || r.Ranks != 8*c.per {
			t.Errorf("%s: %d ranks, correct %s, %s", c.workload, r.Ranks, want.Correct, r.Fidelity.Verdict)
		}
	}
}
