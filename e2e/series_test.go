package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// managedTree is fat-tree-2x4 with congestion management that queues and paths answer to.
const managedTree = `name: managed
fabric: {kind: leaf-spine, spines: 2, leaves: 4, hostsPerLeaf: 2}
defaults:
  fep: {cc: nscc, lb: reps, ack: packet}
`

func writeFile(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestSeriesEqualTheSimulation samples runs in a lab and in the simulator: the files are the same to the byte, and the results are those of
// runs that are not sampled.
func TestSeriesEqualTheSimulation(t *testing.T) {
	needRoot(t)
	topo := writeFile(t, "managed.yaml", managedTree)
	l := up(t, topo)
	for _, args := range [][]string{{"incast", "--size", "256KiB", "--seed", "3"}, {"permutation", "--size", "1MiB", "--seed", "2", "--every", "300ns"}} {
		dir := t.TempDir()
		fromLab, fromSim := filepath.Join(dir, "lab.csv"), filepath.Join(dir, "sim.csv")
		sampled := l.run(t, append(args, "--series", fromLab)...)
		a := uetlab(t, append(append([]string{"sim", topo}, args...), "--series", fromSim)...)
		if a.code != 0 {
			t.Fatal(a)
		}
		lab, err1 := os.ReadFile(fromLab)
		sim, err2 := os.ReadFile(fromSim)
		if err1 != nil || err2 != nil || len(lab) < 10_000 || !bytes.Equal(lab, sim) {
			t.Errorf("%v: %d bytes of the lab differ from %d of the simulator (%v, %v)", args, len(lab), len(sim), err1, err2)
		}
		same(t, args[0], sampled, figuresOf(l.run(t, args...)))
	}
}
