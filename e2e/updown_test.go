package e2e

import (
	"testing"
	"time"

	"github.com/uetlab/uetlab/workload"
)

// TestUpAndDownFigures prints what up, the first message and down take. It sets no limits to them.
func TestUpAndDownFigures(t *testing.T) {
	needRoot(t)
	topologies := []string{"fat-tree-2x4", "fat-tree-k8"}
	if runtime == "docker" {
		topologies = topologies[:1]
	}
	for _, topo := range topologies {
		t.Run(topo, func(t *testing.T) {
			before := takeSnapshot(t)
			start := time.Now()
			l := up(t, topo)
			ready := time.Since(start)
			first := l.run(t, "sendrecv", "--ranks", "2", "--size", "8", "--check")
			message := time.Since(start)
			if first.Correct == nil || !*first.Correct {
				t.Errorf("the first message: %+v", first)
			}
			spec := workload.Spec{Workload: workload.Permutation, Size: 16 << 10, Iters: 1, Check: true, Seed: 1}
			began := time.Now()
			r := l.run(t, "permutation", "--size", "16KiB", "--check", "--seed", "1")
			run := time.Since(began)
			same(t, "a permutation on "+topo, r, simulate(t, &l.plan, spec, nil))
			start = time.Now()
			l.down(t)
			t.Logf("%s on %s: %d nodes, %d links: up %.2f s, first message through %.2f s, permutation of 16 KiB on %d ranks %.2f s, down (twice) %.2f s",
				topo, runtime, len(l.plan.Nodes), len(l.plan.Links), ready.Seconds(), message.Seconds(), r.Ranks, run.Seconds(), time.Since(start).Seconds())
			before.unchanged(t)
		})
	}
}
