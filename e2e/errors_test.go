package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/workload"
)

// planOf works a topology out without a lab.
func planOf(t testing.TB, name string) topology.Plan {
	t.Helper()
	s, err := topology.Resolve(name)
	if err != nil {
		t.Fatal(err)
	}
	p, err := topology.BuildPlan(s)
	if err != nil {
		t.Fatal(err)
	}
	return *p
}

// TestErrors makes the mistakes that people make, and wants the exit code and what helps them on.
func TestErrors(t *testing.T) {
	l := sharedLab(t)
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(bad, []byte("name: bad\nfabric: {kind: leaf-spine, spines: 2, leaves: 4, hostsPerLeaf: 2}\ndefaults:\n  link: {rat: 400Gbps}\n  switch: {latency: 5parsec}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		says []string
	}{
		{[]string{"ps", "--name", mark + "-none"}, api.CodeNotFound, []string{mark + "-none", l.name}},
		{[]string{"run", "allreduce", "--name", mark + "-none"}, api.CodeNotFound, []string{l.name}},
		{[]string{"up", bad, "--name", mark + "-bad"}, api.CodeUsage, []string{bad + ":4:10", "rat", "rate", bad + ":5:21", "5parsec"}},
		{[]string{"up", "fat-tre-2x4", "--name", mark + "-bad"}, api.CodeUsage, []string{"fat-tre-2x4"}},
		{[]string{"up", "pair", "--name", "No Good"}, api.CodeUsage, []string{"No Good"}},
		{[]string{"up", "fat-tree-2x4", "--name", l.name}, api.CodeExists, []string{l.name, "down"}},
		{[]string{"inspect", "leaf9", "--name", l.name}, api.CodeNotFound, []string{"leaf9"}},
		{[]string{"stats", "hots0", "--name", l.name}, api.CodeNotFound, []string{"hots0", "host0"}},
		{[]string{"logs", "leaf9", "--name", l.name}, api.CodeNotFound, []string{"leaf9"}},
		{[]string{"exec", "leaf9", "--name", l.name, "--", "true"}, api.CodeNotFound, []string{"leaf9"}},
		{[]string{"link", "fail", "leaf0-spine9", "--name", l.name}, api.CodeNotFound, []string{"leaf0-spine9"}},
		{[]string{"link", "fail", failing, "--from", "leaf3", "--name", l.name}, api.CodeUsage, []string{"leaf3"}},
		{[]string{"link", "fail", failing, "--at", "soon", "--name", l.name}, api.CodeUsage, []string{"soon"}},
		{[]string{"link", "set", failing, "loss=200%", "--name", l.name}, api.CodeUsage, []string{"loss"}},
		{[]string{"link", "fail", failing, "--at", "1ns", "--name", l.name}, api.CodeUsage, []string{"past"}},
		{[]string{"run", "alreduce", "--name", l.name}, api.CodeUsage, []string{"allreduce"}},
		{[]string{"run", "allreduce", "--ranks", "9", "--name", l.name}, api.CodeUsage, []string{"8"}},
		{[]string{"run", "allreduce", "--size", "many", "--name", l.name}, api.CodeUsage, []string{"many"}},
		{[]string{"clock", "step", "1us", "--name", l.name}, api.CodeUsage, []string{"pause"}},
		{[]string{"clock", "cap", "0.1", "--name", l.name}, api.CodeUsage, []string{"0.1"}},
		{[]string{"dwn", "--name", l.name}, api.CodeUsage, []string{"down"}},
	} {
		a := uetlab(t, c.args...)
		if a.code != c.code {
			t.Errorf("want exit code %d: %v", c.code, a)
		}
		for _, w := range c.says {
			if !strings.Contains(a.stderr, w) {
				t.Errorf("want %q said: %v", w, a)
			}
		}
	}
	for _, s := range decode[[]api.Lab](t, uetlab(t, "ls", "--format", "json").stdout) {
		if s.Name == mark+"-bad" {
			t.Errorf("a refused up has left %+v", s)
		}
	}
}

// TestInterruptedRun ends a run with Ctrl-C. The lab stays usable and exact.
func TestInterruptedRun(t *testing.T) {
	l := sharedLab(t)
	l.freeClock(t)
	want := simulate(t, &l.plan, workload.Spec{Workload: workload.Allreduce, Size: 256 << 10, Iters: 1, Check: true, Seed: 1}, nil)
	for i, iterations := range []string{"1", "1000000"} {
		args := []string{"permutation", "--size", "16MiB", "--iters", iterations}
		began := dataSent(l.counters(t))
		p := l.startRun(t, args...)
		until(t, "packets", func() bool { return p.ended() || dataSent(l.counters(t)) > began+100 })
		if a := l.do(t, "run", "sendrecv"); i == 0 && a.code != api.CodeExists {
			t.Errorf("a second run at the same time: %v", a)
		}
		p.signal(t, syscall.SIGINT)
		if a := p.wait(); a.code != api.CodeInterrupted {
			t.Errorf("an interrupted run: %v", a)
		}
		until(t, "the run to be over", func() bool { return !l.running(t) })
		same(t, "the run after an interrupted one", l.run(t, "allreduce", "--size", "256KiB", "--check", "--seed", "1"), want)
	}
	// And one that the clock has stopped.
	l.clockTo(t, "pause")
	p := l.startRun(t, "permutation", "--size", "1MiB")
	until(t, "the run to begin", func() bool { return p.ended() || l.running(t) })
	l.clockTo(t, "step", "3us")
	p.signal(t, syscall.SIGINT)
	if a := p.wait(); a.code != api.CodeInterrupted {
		t.Errorf("an interrupted run: %v", a)
	}
	until(t, "the run to be over", func() bool { return !l.running(t) })
	l.clockTo(t, "resume")
	same(t, "the run after one interrupted in a pause", l.run(t, "allreduce", "--size", "256KiB", "--check", "--seed", "1"), want)
}
