package e2e

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/workload"
)

// TestProcessesEqualTheSimulation runs each rank as a process of its own, one or two on a node: the figures are those of the simulation.
func TestProcessesEqualTheSimulation(t *testing.T) {
	l := sharedLab(t)
	for _, c := range []struct {
		workload string
		size     int64
		per      int
		spec     workload.Spec
		args     []string
	}{
		{workload.Permutation, 2 << 20, 1, workload.Spec{}, nil},
		{workload.Incast, 1 << 18, 1, workload.Spec{}, nil},
		{workload.Allreduce, 1 << 20, 1, workload.Spec{Check: true}, []string{"--check"}},
		{workload.Permutation, 1 << 19, 2, workload.Spec{Check: true, Op: workload.OpWrite}, []string{"--check", "--op", "write"}},
		{workload.Incast, 1 << 17, 2, workload.Spec{Check: true}, []string{"--check"}},
		{workload.Allreduce, 1 << 20, 2, workload.Spec{Iters: 3}, []string{"--iters", "3"}},
	} {
		c.spec.Workload, c.spec.Size, c.spec.Seed, c.spec.Iters = c.workload, c.size, 1, max(c.spec.Iters, 1)
		want := simulateRanks(t, &l.plan, c.spec, c.per)
		args := append([]string{c.workload, "--size", strconv.FormatInt(c.size, 10), "--per-node", strconv.Itoa(c.per)}, c.args...)
		plain := l.run(t, args...)
		same(t, c.workload+" in the FEPs", plain, want)
		r := l.run(t, append(args, "--processes")...)
		same(t, c.workload+" by processes", r, want)
		if r.Fidelity.Verdict != "exact" {
			t.Errorf("%s: %s", c.workload, r.Fidelity.Verdict)
		}
		t.Logf("%s of %d bytes, %d a node: %d ns, %.2f s of wall time, by processes %.2f s", c.workload, c.size, c.per, r.FCT.Max, plain.WallSeconds, r.WallSeconds)
	}
}

// rankProcesses lists the processes of ranks on this machine that have the tests' lab above them.
func (l *lab) rankProcesses(t testing.TB) (pids []int) {
	t.Helper()
	nets := map[string]bool{}
	nodes, err := l.api.Nodes(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		if s, err := os.Readlink("/proc/" + strconv.Itoa(n.Pid) + "/ns/net"); err == nil {
			nets[s] = true
		}
	}
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil || !strings.HasPrefix(string(b), "/uetlab\x00rank\x00") {
			continue
		}
		if s, err := os.Readlink(filepath.Join(filepath.Dir(f), "ns/net")); err != nil || !nets[s] {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(f)))
		pids = append(pids, pid)
	}
	slices.Sort(pids)
	return pids
}

// TestARankProcessThatIsKilled fails its run by name; the others go, and the lab is as good as before.
func TestARankProcessThatIsKilled(t *testing.T) {
	l := sharedLab(t)
	p := l.startRun(t, "allreduce", "--size", "256MiB", "--processes")
	var pids []int
	until(t, "all ranks to be there", func() bool {
		pids = l.rankProcesses(t)
		return p.ended() || len(pids) == 8 && l.running(t)
	})
	if len(pids) != 8 {
		t.Fatal(p.wait())
	}
	if err := syscall.Kill(pids[3], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if a := p.wait(); a.code != api.CodeCheck || !strings.Contains(a.stderr, "was killed by signal 9") || !strings.Contains(a.stderr, "its process on host") {
		t.Error(a)
	}
	l.asBefore(t)
}

// TestAnInterruptedRunTakesItsProcessesAlong.
func TestAnInterruptedRunTakesItsProcessesAlong(t *testing.T) {
	l := sharedLab(t)
	p := l.startRun(t, "allreduce", "--size", "256MiB", "--processes")
	until(t, "all ranks to be there", func() bool { return p.ended() || len(l.rankProcesses(t)) == 8 && l.running(t) })
	p.signal(t, syscall.SIGINT)
	if a := p.wait(); a.code != api.CodeInterrupted {
		t.Error(a)
	}
	l.asBefore(t)
}

// asBefore demands that no process of a rank is left, and that a run has its figures.
func (l *lab) asBefore(t *testing.T) {
	t.Helper()
	until(t, "the processes to go", func() bool { return len(l.rankProcesses(t)) == 0 })
	spec := workload.Spec{Workload: workload.Sendrecv, Size: 1 << 16, Iters: 1, Seed: 1}
	want := simulateRanks(t, &l.plan, spec, 1)
	same(t, "a run afterwards", l.run(t, "sendrecv", "--size", "64KiB"), want)
	same(t, "processes afterwards", l.run(t, "sendrecv", "--size", "64KiB", "--processes"), want)
}

// TestRanksByHand starts ranks in two nodes as a person does, the one that the others call last.
func TestRanksByHand(t *testing.T) {
	l := sharedLab(t)
	var ps []*process
	for _, rank := range []int{3, 1, 2, 0} {
		ps = append(ps, l.start(t, "exec", "host"+strconv.Itoa(rank/2*5), "--no-tty", "--", "uetlab", "rank", "--rank", strconv.Itoa(rank), "--of", "4", "--hosts", "host0,host5",
			"allreduce", "--size", "100KiB", "--check", "--format", "json"))
	}
	for i, p := range ps {
		a := p.wait()
		var r workload.RankResult
		if err := json.Unmarshal([]byte(a.stdout), &r); err != nil || a.code != 0 || r.Wrong != 0 || r.Checked == 0 || len(r.Iterations) != 1 || r.Iterations[0].StartNs != 0 {
			t.Errorf("%d: %v: %v", i, err, a)
		}
	}
	for _, c := range [][]string{{"--rank", "0", "--hosts", "host0,host99", "sendrecv"}, {"--rank", "2", "--hosts", "host0,host5", "sendrecv"}, {"--hosts", "host0,host5", "sendrecv"}} {
		if a := l.do(t, append([]string{"exec", "host0", "--no-tty", "--", "uetlab", "rank"}, c...)...); a.code != api.CodeUsage {
			t.Errorf("%v: %v", c, a)
		}
	}
}

// TestFreeProcesses are not waited for, and the verdict says so.
func TestFreeProcesses(t *testing.T) {
	l := sharedLab(t)
	a := l.do(t, "run", "sendrecv", "--size", "64KiB", "--check", "--processes", "--free", "--format", "json")
	if a.code != 0 {
		t.Fatal(a)
	}
	if r := decode[workload.Result](t, a.stdout); r.Fidelity.Verdict != "free" || r.Correct == nil || !*r.Correct {
		t.Errorf("%+v", r.Fidelity)
	}
}

// profiled brings a lab of four end points up: all speak profile, but for what nodes says.
func profiled(t *testing.T, profile, nodes string) (l *lab, file string) {
	t.Helper()
	needRoot(t)
	file = filepath.Join(t.TempDir(), "p.yaml")
	text := "name: p\nfabric: {kind: leaf-spine, spines: 2, leaves: 2, hostsPerLeaf: 2}\ndefaults: {fep: {profile: " + profile + "}}\n" + nodes
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return up(t, file), file
}

// TestProfilesAreMixed runs, measures and meets by hand between end points of different profiles, and of AI Base, where receives name
// their source and tell it: as simulated.
func TestProfilesAreMixed(t *testing.T) {
	for _, c := range [][2]string{{"hpc", "nodes: {host1: {profile: ai-full}}\n"}, {"ai-base", ""}} {
		l, _ := profiled(t, c[0], c[1])
		for _, w := range workload.Workloads() {
			if w.Name == workload.Matrix {
				continue
			}
			want := simulateRanks(t, &l.plan, workload.Spec{Workload: w.Name, Size: 200_000, Check: true, Seed: 1, Iters: 1}, 1)
			if want.Correct != "true" {
				t.Errorf("%s of %s: correct %s", w.Name, c[0], want.Correct)
			}
			for _, more := range [][]string{{}, {"--processes"}} {
				r := l.run(t, append([]string{w.Name, "--size", "200000", "--check"}, more...)...)
				same(t, w.Name+" of "+c[0], r, want)
			}
		}
		for _, args := range [][]string{{"tsend", "lat"}, {"send", "bw", "-b"}, {"read", "lat"}} {
			if a := l.do(t, append(append([]string{"perf"}, args...), "host0", "host1", "--check", "--size", "20KiB", "--iters", "20")...); a.code != 0 {
				t.Error(a)
			}
		}
		var ps []*process
		for _, rank := range []int{1, 0} {
			ps = append(ps, l.start(t, "exec", "host"+strconv.Itoa(rank), "--no-tty", "--", "uetlab", "rank", "--rank", strconv.Itoa(rank),
				"--hosts", "host0,host1", "allreduce", "--size", "100KiB", "--check"))
		}
		for _, p := range ps {
			if a := p.wait(); a.code != 0 || !strings.Contains(a.stdout, "wrong: 0 of") {
				t.Error(a)
			}
		}
	}
}

// TestStrangersAreRefused asks for runs between end points that have no profile in common: nothing begins, and both are named.
func TestStrangersAreRefused(t *testing.T) {
	l, file := profiled(t, "hpc", "nodes: {host1: {profile: [hpc]}, host2: {profile: ai-base}}\n")
	const why = "host1 (hpc) and host2 (ai-base) have no profile in common"
	for _, args := range [][]string{{"run", "allreduce"}, {"run", "allreduce", "--processes"}, {"perf", "send", "lat", "host1", "host2"},
		{"exec", "host1", "--no-tty", "--", "uetlab", "rank", "--rank", "0", "--hosts", "host1,host2", "sendrecv"}} {
		if a := l.do(t, args...); a.code != api.CodeUsage || !strings.Contains(a.stderr, why) {
			t.Errorf("%v: %v", args, a)
		}
	}
	if a := uetlab(t, "sim", file, "--", "allreduce"); a.code != api.CodeUsage || !strings.Contains(a.stderr, why) {
		t.Error(a)
	}
	l.run(t, "sendrecv", "--ranks", "0,1")
}

// TestTheNextRunWaitsForOneThatIsInterrupted asks for a run right after another was interrupted; while that goes on it is refused.
func TestTheNextRunWaitsForOneThatIsInterrupted(t *testing.T) {
	l := sharedLab(t)
	for _, more := range [][]string{nil, {"--processes"}} {
		p := l.startRun(t, append([]string{"allreduce", "--size", "256MiB"}, more...)...)
		until(t, "it to run", func() bool { return p.ended() || l.running(t) })
		if a := l.do(t, "run", "sendrecv", "--processes"); a.code != api.CodeExists {
			t.Errorf("beside another: %v", a)
		}
		p.signal(t, syscall.SIGINT)
		p.wait()
		if a := l.do(t, "run", "sendrecv", "--size", "64KiB"); a.code != 0 {
			t.Error(a)
		}
		l.asBefore(t)
	}
}
