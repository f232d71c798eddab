package e2e

import (
	"os"
	"path/filepath"
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

// TestProfilesOfATopology runs end points that speak HPC, so that long messages are rendezvous, in the FEPs and as processes: as simulated,
// with right data.
func TestProfilesOfATopology(t *testing.T) {
	needRoot(t)
	file := filepath.Join(t.TempDir(), "hpc.yaml")
	text := "name: hpc\nfabric: {kind: leaf-spine, spines: 2, leaves: 2, hostsPerLeaf: 2}\n" +
		"defaults: {fep: {profile: hpc, eager: 8KiB, unexpected: 256KiB, rtr: 4, ackData: 64B}}\nnodes: {host3: {eager: 16KiB}}\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	l := up(t, file)
	if f := l.plan.Nodes[len(l.plan.Nodes)-1].FEP; f == nil || len(f.Profiles) != 3 || f.Eager != 16<<10 {
		t.Fatalf("host3: %+v", f)
	}
	for _, args := range [][]string{{}, {"--processes"}} {
		want := simulateRanks(t, &l.plan, workload.Spec{Workload: workload.Allreduce, Size: 1 << 20, Check: true, Seed: 1, Iters: 1}, 1)
		r := l.run(t, append([]string{"allreduce", "--size", "1MiB", "--check"}, args...)...)
		same(t, "allreduce of HPC", r, want)
		if want.Correct != "true" {
			t.Errorf("correct: %s", want.Correct)
		}
	}
}
