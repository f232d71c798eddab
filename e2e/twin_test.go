package e2e

import (
	"testing"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/workload"
)

// TestTwoLabs brings a second lab of the same topology up beside the first. Both run at once and give the same; each goes
// alone.
func TestTwoLabs(t *testing.T) {
	first := sharedLab(t)
	before := takeSnapshot(t)
	second := up(t, "fat-tree-2x4")
	want := simulate(t, &first.plan, workload.Spec{Workload: workload.Allreduce, Size: 512 << 10, Iters: 1, Check: true, Seed: 9}, nil)
	run := []string{"allreduce", "--size", "512KiB", "--check", "--seed", "9"}
	a, b := first.startRun(t, run...), second.startRun(t, run...)
	same(t, "the first of two labs", result(t, a), want)
	same(t, "the second of two labs", result(t, b), want)

	// What is done to one does not touch the other.
	second.ok(t, "link", "fail", failing)
	if s := first.linkState(t, failing); s.State != api.LinkUp {
		t.Errorf("failing a link of the second lab makes that of the first %+v", s)
	}
	second.ok(t, "clock", "pause")
	same(t, "the first lab beside a paused one", first.run(t, run...), want)
	listed := map[string]api.Lab{}
	for _, l := range decode[[]api.Lab](t, uetlab(t, "ls", "--format", "json").stdout) {
		listed[l.Name] = l
	}
	for _, l := range []*lab{first, second} {
		if s := listed[l.name]; s.State != api.LabReady || s.Runtime != runtime || s.Nodes != 14 || s.Links != 16 {
			t.Errorf("ls shows %s as %+v", l.name, s)
		}
	}
	second.down(t)
	before.unchanged(t)
	same(t, "the first lab after the second is gone", first.run(t, run...), want)
}
