package e2e

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestEveryFrameEqualsTheSimulation compares the captures of all links, of a run and of its simulation: every frame of every
// direction has the same bytes and the same due time.
func TestEveryFrameEqualsTheSimulation(t *testing.T) {
	l := sharedLab(t)
	dir := t.TempDir()
	run, sim := filepath.Join(dir, "run.pcapng"), filepath.Join(dir, "sim.pcapng")
	for _, args := range []string{"permutation --size 256KiB", "incast --size 64KiB", "allreduce --size 256KiB"} {
		t.Run(strings.Fields(args)[0], func(t *testing.T) {
			if a := l.do(t, append(strings.Fields("run --trace "+run), strings.Fields(args)...)...); a.code != 0 {
				t.Fatal(a)
			}
			if a := spawn(t, l.as, append(strings.Fields("sim fat-tree-2x4 --trace "+sim), strings.Fields(args)...)...).wait(); a.code != 0 {
				t.Fatal(a)
			}
			a := spawn(t, l.as, "trace", "diff", run, sim).wait()
			if a.code != 0 || !strings.Contains(a.stdout, "of 32 directions are the same") {
				t.Error(a)
			}
			t.Log(strings.TrimSpace(a.stdout))
		})
	}
}
