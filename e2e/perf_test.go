package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/uetlab/uetlab/fabric/api"
)

// perfLines are measurements of each kind, on paths with and without a choice.
var perfLines = []string{
	"tsend lat host0 host1 --size 8:64K:8", "send lat host0 host5 --size 1:100000:100 --check", "write lat host0 host5 --imm --ordered --size 4096",
	"send bw host0 host5 --size 64K --iters 100", "tsend bw host2 host7 -b --size 32K --iters 50 --check --tag 7", "write bw host0 host5 --size 8:4096:8 --iters 100",
	"read bw host0 host5 --size 16K --iters 100 --check", "read lat --size 8", "atomic lat host0 host5 --check", "atomic bw host0 host5 --op add --size 64 --check",
	"atomic lat host0 host5 --op cas --check",
}

func (l *lab) perfAll(t testing.TB) string {
	t.Helper()
	var b strings.Builder
	for _, line := range perfLines {
		b.WriteString("perf " + line + "\n" + l.ok(t, append([]string{"perf", "--format", "csv"}, strings.Fields(line)...)...))
	}
	return b.String()
}

// TestPerf measures twice, with something else in between, and holds the figures: they are the same on every machine and
// runtime.
func TestPerf(t *testing.T) {
	l := sharedLab(t)
	l.freeClock(t)
	first := l.perfAll(t)
	l.run(t, "permutation", "--size", "64KiB", "--seed", "5")
	if again := l.perfAll(t); again != first {
		t.Errorf("measured twice:\n%s\n%s", first, again)
	}
	file := filepath.Join("testdata", "perf.golden")
	if os.Getenv("UETLAB_E2E_UPDATE") != "" {
		if err := os.WriteFile(file, []byte(first), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || string(want) != first {
		t.Errorf("%v; measured:\n%swant:\n%s", err, first, want)
	}
}

func TestPerfTable(t *testing.T) {
	l := sharedLab(t)
	l.freeClock(t)
	out := l.ok(t, "perf", "send", "lat", "host0", "host5", "--iters", "5")
	for _, part := range []string{"# send lat, RUD: host0", "host0 - leaf0 - spine0|spine1 - leaf2 - host5", "virtual, exact", "t_typical[usec]", "\n         8            5 "} {
		if !strings.Contains(out, part) {
			t.Errorf("no %q in\n%s", part, out)
		}
	}
	type report struct {
		Time     string
		Fidelity struct{ Verdict string }
		Results  []struct{ Bytes int64 }
	}
	if r := decode[report](t, l.ok(t, "perf", "send", "bw", "--iters", "20", "--format", "json")); r.Time != "virtual" || r.Fidelity.Verdict != "exact" || len(r.Results) != 1 || r.Results[0].Bytes != 64<<10 {
		t.Errorf("%+v", r)
	}
}

// sides are the processes of a measurement, which is known by its number of iterations.
func sides(t testing.TB, iters int) (pids []int) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, _ := os.ReadFile(f) // it may have ended just now
		if bytes.Contains(b, []byte("perf-side")) && bytes.Contains(b, []byte(`"iters":`+strconv.Itoa(iters))) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(f)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// endless starts a measurement that goes on until it is ended, and waits until both sides are there.
func (l *lab) endless(t testing.TB, iters int) *process {
	t.Helper()
	p := spawn(t, l.as, "perf", "send", "lat", "--iters", strconv.Itoa(iters), "--name", l.name)
	until(t, "both sides to run", func() bool { return p.ended() || len(sides(t, iters)) == 2 })
	if p.ended() {
		t.Fatal(p.wait())
	}
	return p
}

func TestPerfIsEnded(t *testing.T) {
	l := sharedLab(t)
	l.freeClock(t)
	p := l.endless(t, 9_999_991)
	if a := uetlab(t, "run", "incast", "--name", l.name); a.code != api.CodeExists {
		t.Errorf("a run beside a measurement: %v", a)
	}
	p.signal(t, syscall.SIGINT)
	if a := p.wait(); a.code != api.CodeInterrupted {
		t.Error(a)
	}
	until(t, "both sides to end", func() bool { return len(sides(t, 9_999_991)) == 0 })

	p = l.endless(t, 9_999_992)
	_ = syscall.Kill(sides(t, 9_999_992)[0], syscall.SIGKILL)
	if a := p.wait(); a.code != api.CodeFailure || !strings.Contains(a.stderr, "uetlab: perf: ") {
		t.Errorf("a side was killed: %v", a)
	}
	until(t, "the other side to end", func() bool { return len(sides(t, 9_999_992)) == 0 })

	p = l.endless(t, 9_999_993)
	p.signal(t, syscall.SIGKILL)
	p.wait()
	until(t, "the sides of a command that was killed to end", func() bool { return len(sides(t, 9_999_993)) == 0 })
	l.ok(t, "run", "permutation", "--size", "64KiB")
	l.ok(t, "perf", "read", "bw", "--iters", "20", "--check")
}

func TestPerfWithoutAWay(t *testing.T) {
	needRoot(t)
	l := up(t, "pair")
	l.ok(t, "link", "fail", "host0-host1")
	if a := uetlab(t, "perf", "send", "lat", "--name", l.name); a.code != api.CodeFailure || !strings.Contains(a.stderr, "host0") {
		t.Error(a)
	}
	l.ok(t, "link", "restore", "host0-host1")
	if out := l.ok(t, "perf", "send", "lat", "--iters", "5"); !strings.Contains(out, "faults in the lab: none") {
		t.Error(out)
	}
}

func TestPerfInRealTime(t *testing.T) {
	needRoot(t)
	l := up(t, "pair", "--time", "real")
	for _, line := range []string{"tsend lat --iters 20", "write bw --iters 50 --size 4096", "send bw -b --iters 50 --size 4096"} {
		out := l.ok(t, append([]string{"perf", "--check"}, strings.Fields(line)...)...)
		if !strings.Contains(out, "the wall's (--time real)") || strings.Count(out, "\n") != 6 {
			t.Errorf("%s: %s", line, out)
		}
	}
}
