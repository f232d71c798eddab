package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/capture/pcapfile"
	"github.com/uetlab/uetlab/workload"
)

// TestSimIsRepeatable runs command lines twice on one processor and twice on two: answer and trace must be the same to the byte.
func TestSimIsRepeatable(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	dir := t.TempDir()
	for _, w := range []string{
		"fat-tree-2x4 -- permutation --size 256KiB --check", "fat-tree-2x4 -- incast --size 64KiB --iters 2", "fat-tree-k4 -- allreduce --size 8:256K:32 --seed 7",
	} {
		for _, format := range []string{formatTable, formatJSON} {
			var first outcome
			var firstTrace string
			for round := range 4 {
				runtime.GOMAXPROCS(1 + round/2)
				name := filepath.Join(dir, "trace.pcapng")
				o := runLine(t, context.Background(), "sim "+w+" --format "+format+" --trace "+name)
				trace, err := os.ReadFile(name)
				if err != nil || o.code != 0 || len(trace) < 10000 {
					t.Fatalf("%s: %v, %d bytes of trace, %+v", w, err, len(trace), o)
				}
				if round == 0 {
					first, firstTrace = o, string(trace)
				} else if o != first || string(trace) != firstTrace {
					t.Errorf("%s, round %d: %+v, not as before: %+v; trace the same: %v", w, round, o, first, string(trace) == firstTrace)
				}
			}
		}
	}
}

// TestSimSeeds holds equal answers to be more than luck.
func TestSimSeeds(t *testing.T) {
	const w = "sim fat-tree-2x4 -- permutation --size 256KiB --format json"
	a, b, c := runLine(t, context.Background(), w), runLine(t, context.Background(), w+" --seed 2"), runLine(t, context.Background(), w+" --lab-seed 2")
	if a.out == b.out || a.out == c.out {
		t.Error("a seed changes nothing")
	}
}

// TestSimSweepIsItsRuns compares the sizes of a sweep with runs of their own: one leaves nothing behind for the next.
func TestSimSweepIsItsRuns(t *testing.T) {
	var all []workload.Result
	simResult(t, "fat-tree-2x2 -- allreduce --size 1000:100000:10 --check", &all)
	if len(all) != 3 {
		t.Fatalf("%d results", len(all))
	}
	for i, size := range []string{"1000", "10000", "100000"} {
		var one workload.Result
		simResult(t, "fat-tree-2x2 allreduce --check --size "+size, &one)
		a, _ := json.Marshal(all[i])
		b, _ := json.Marshal(one)
		if string(a) != string(b) {
			t.Errorf("size %s:\n%s\n%s", size, a, b)
		}
	}
}

// simResult runs a simulation and reads its JSON.
func simResult(t *testing.T, words string, into any) {
	t.Helper()
	o := runLine(t, context.Background(), "sim --format json "+words)
	if o.code != 0 || o.err != "" {
		t.Fatalf("%s: %+v", words, o)
	}
	if err := json.Unmarshal([]byte(o.out), into); err != nil {
		t.Fatal(err)
	}
}

func TestSimWall(t *testing.T) {
	var r workload.Result
	simResult(t, "pair -- sendrecv --size 100KiB", &r)
	if r.WallSeconds != 0 || r.Dilation != 0 {
		t.Errorf("wall time without --wall: %+v", r)
	}
	simResult(t, "pair -- sendrecv --size 100KiB --wall", &r)
	if r.WallSeconds <= 0 || r.Dilation <= 0 || r.SizeBytes != 102_400 {
		t.Errorf("no wall time: %+v", r)
	}
	if o := runLine(t, context.Background(), "sim pair sendrecv"); strings.Contains(o.out, "wall") {
		t.Errorf("wall time in %s", o.out)
	}
}

// readTrace gives time and interface of every packet of a file, and fails where they are not in order.
func readTrace(t *testing.T, name string) (times []int64, ifaces map[string]int) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := pcapfile.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	ifaces = map[string]int{}
	for {
		p, err := r.Next()
		if errors.Is(err, io.EOF) {
			return times, ifaces
		}
		if err != nil {
			t.Fatal(err)
		}
		if n := len(times); n > 0 && p.Time < times[n-1] {
			t.Fatalf("packet %d is due at %d, the one before at %d", n+1, p.Time, times[n-1])
		}
		times = append(times, p.Time)
		ifaces[p.Iface]++
	}
}

func TestSimTrace(t *testing.T) {
	dir := t.TempDir()
	all, two := filepath.Join(dir, "all"), filepath.Join(dir, "two")
	var r workload.Result
	o := runLine(t, context.Background(), "sim fat-tree-2x4 -- permutation --size 256KiB --format json --trace "+all)
	if err := json.Unmarshal([]byte(o.out), &r); err != nil {
		t.Fatalf("%v, %+v", err, o)
	}
	times, ifaces := readTrace(t, all)
	if uint64(len(times)) != r.Fidelity.Frames || len(ifaces) != 32 {
		t.Errorf("%d packets on %d directions, %d frames", len(times), len(ifaces), r.Fidelity.Frames)
	}
	if last := times[len(times)-1]; last < r.FCT.Max {
		t.Errorf("the last packet is due at %d, before the slowest flow's end at %d", last, r.FCT.Max)
	}
	if o = runLine(t, context.Background(), "sim fat-tree-2x4 -- permutation --size 256KiB --links spine0-leaf0,host0-leaf0 --trace "+two); o.code != 0 || !strings.Contains(o.err, "packets written to "+two) {
		t.Errorf("%+v", o)
	}
	_, some := readTrace(t, two)
	if len(some) != 4 {
		t.Errorf("directions %v", some)
	}
	for name, n := range some {
		if ifaces[name] != n {
			t.Errorf("%s: %d packets, %d among all", name, n, ifaces[name])
		}
	}
}

func TestSimUntil(t *testing.T) {
	name := filepath.Join(t.TempDir(), "trace")
	o := runLine(t, context.Background(), "sim fat-tree-2x4 -- permutation --size 256KiB --until 5us --check --format json --trace "+name)
	var r workload.Result
	if err := json.Unmarshal([]byte(o.out), &r); err != nil || o.code != api.CodePartial || r.Correct != nil || r.PacketHops == 0 || len(r.PerRank) != 0 {
		t.Errorf("%v, %+v", err, o)
	}
	if times, _ := readTrace(t, name); len(times) == 0 || times[len(times)-1] > 10_000 {
		t.Errorf("%d packets, the last due long after 5us", len(times))
	}
	simResult(t, "fat-tree-2x4 -- permutation --size 256KiB --until 5ms", &r)
	if len(r.PerRank) != 8 {
		t.Errorf("a run that ended before: %+v", r)
	}
}

func TestSimIsInterrupted(t *testing.T) {
	for sig, code := range map[os.Signal]int{syscall.SIGINT: api.CodeInterrupted, syscall.SIGTERM: api.CodeTerminated} {
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(stopped{sig})
		if o := runLine(t, ctx, "sim fat-tree-2x4 -- alltoall --size 64MiB"); o.code != code || o.out != "" {
			t.Errorf("%v: %+v", sig, o)
		}
	}
}

func TestSimErrors(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		in, msg string
		code    int
	}{
		{"sim", "sim: needs TOPOLOGY -- WORKLOAD", api.CodeUsage},
		{"sim pair", "sim: needs TOPOLOGY -- WORKLOAD", api.CodeUsage},
		{"sim pair -- incast -- more", "one argument too many", api.CodeUsage},
		{"sim nowhere -- incast", "nowhere", api.CodeUsage},
		{"sim pair -- incats", "did you mean incast?", api.CodeUsage},
		{"sim pair -- incast --ranks 3", "--ranks (3): the lab has 2 end points", api.CodeUsage},
		{"sim pair -- incast --warm", "--warm", api.CodeUsage},
		{"sim pair -- incast --until 5", "--until (5): not a virtual time", api.CodeUsage},
		{"sim pair -- incast --until -5us", "--until (-5us): not a virtual time", api.CodeUsage},
		{"sim pair -- incast --links all", "add --trace FILE", api.CodeUsage},
		{"sim pair -- incast --links host0-host7 --trace " + dir + "/x", "--links: link (host0-host7)", api.CodeNotFound},
		{"sim pair -- incast --trace " + dir, "--trace: open", api.CodeFailure},
		{"sim pair -- incast --cpuprofile " + dir, "--cpuprofile: open", api.CodeFailure},
		{"sim pair -- incast --name x", "--name: uetlab sim has no such flag", api.CodeUsage},
		{"sim hosts-2x2 -- incast", "a plain host", api.CodeUsage},
	} {
		if o := runLine(t, context.Background(), c.in); o.code != c.code || !strings.Contains(o.err, c.msg) || o.out != "" {
			t.Errorf("%s: %+v, want code %d and %q", c.in, o, c.code, c.msg)
		}
	}
	if o := runLine(t, context.Background(), "sim pair -- incats --format json"); !strings.HasPrefix(o.out, `{"error":`) {
		t.Errorf("an error behind --: %+v", o)
	}
}

// TestSimLinks does things to links, and wants of a run what follows from them.
func TestSimLinks(t *testing.T) {
	const w = "sim fat-tree-2x4 -- permutation --size 256KiB --check --format json"
	healthy := simArgs(t, w)
	for name, c := range map[string]struct {
		link        []string
		slower, hit bool
	}{
		"down from the start": {[]string{"leaf0-spine0 fail"}, true, false},
		"fails in the run":    {[]string{"leaf0-spine0 fail at=+5us"}, true, true},
		"loss one way":        {[]string{"leaf0-spine0 loss=20% from=leaf0"}, true, true},
		"two":                 {[]string{"leaf0-spine0 rate=50%", "leaf1-spine1 delay=+2us burst=p:5%,r:25%"}, true, true},
		"a pattern":           {[]string{"leaf*-spine* rate=25%"}, true, false},
		"a pattern, mended":   {[]string{"*-* loss=50%", "*-* restore at=0s"}, false, false},
		"mended before":       {[]string{"leaf0-spine0 loss=50%", "leaf0-spine0 restore at=0s"}, false, false},
		"after the end":       {[]string{"leaf0-spine0 fail at=+5ms"}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			words := strings.Fields(w)
			for _, l := range c.link {
				words = append(words, "--link", l)
			}
			r := simArgs(t, words...)
			if r.Correct == nil || !*r.Correct || c.slower != (r.FCT.Max > healthy.FCT.Max) || c.hit != (r.Drops > 0) {
				t.Errorf("correct %v, slowest %d (healthy: %d), %d drops", r.Correct, r.FCT.Max, healthy.FCT.Max, r.Drops)
			}
		})
	}
	for link, msg := range map[string]string{"leaf0-spine0": "nothing to set", "leaf0-spine9 fail": "no such name", "leaf*-spine9 fail": "no such name", "leaf0-spine0 cbfc=on": "the topology has no credits", "leaf0-spine0 los=1%": "did you mean loss?",
		"leaf0-spine0 fail at=soon": "not a virtual time", "leaf0-spine0 fail at=+9223372036854775807ns": "more than 24h0m0s ahead",
		"leaf0-spine0 fail from=leaf1": "joins leaf0 and spine0", "leaf0-spine0 fail from=x": "no such name", " ": "no link"} {
		if o := runWords(t, append(strings.Fields(w), "--link", link)); o.code != api.CodeUsage && o.code != api.CodeNotFound || !strings.Contains(o.err, msg) {
			t.Errorf("%s: %+v, want %q", link, o, msg)
		}
	}
}

// TestSimChaos runs a script, and wants what the same faults do as --link.
func TestSimChaos(t *testing.T) {
	dir := t.TempDir()
	script := func(text string) string {
		name := filepath.Join(dir, "storm.yaml")
		if err := os.WriteFile(name, []byte("steps:\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	const w = "sim fat-tree-2x4 -- permutation --size 256KiB --check"
	one := runWords(t, append(strings.Fields(w), "--link", "leaf0-spine0 fail at=+5us", "--link", "leaf0-spine1 loss=1% at=+6us"))
	two := runWords(t, append(strings.Fields(w), "--chaos", script("  - {at: +5us, link: leaf0-spine0, fail: true}\n  - {at: +6us, link: leaf0-spine1, set: loss=1%}\n")))
	healthy := runWords(t, strings.Fields(w))
	if one.code != 0 || one != two || one == healthy {
		t.Errorf("%+v\n%+v", one, two)
	}
	bad := runWords(t, append(strings.Fields(w), "--chaos", script("  - {at: +5us, link: leaf0-spine9, fail: true}\n")))
	if bad.code != api.CodeUsage || !strings.Contains(bad.err, "leaf0-spine9") || bad.out != "" {
		t.Errorf("%+v", bad)
	}
	if o := runWords(t, append(strings.Fields(w), "--chaos", filepath.Join(dir, "not"))); o.code != api.CodeUsage {
		t.Errorf("%+v", o)
	}
}

// runWords runs a command line of words that may have blanks.
func runWords(t *testing.T, words []string) outcome {
	t.Helper()
	var out, errOut bytes.Buffer
	u := &ui{in: os.Stdin, out: &counter{Writer: &out}, err: &errOut, signals: &signals{}}
	code := run(context.Background(), u, words)
	return outcome{code, out.String(), errOut.String()}
}

// simArgs gives the result of a command line that simulates.
func simArgs(t *testing.T, words ...string) (r workload.Result) {
	t.Helper()
	if len(words) == 1 {
		words = strings.Fields(words[0])
	}
	o := runWords(t, words)
	if err := json.Unmarshal([]byte(o.out), &r); err != nil || o.code != 0 {
		t.Fatalf("%v, %+v", err, o)
	}
	return r
}

func TestSimProfile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "p")
	if o := runLine(t, context.Background(), "sim pair -- incast --cpuprofile "+name); o.code != 0 {
		t.Errorf("%+v", o)
	}
	if b, err := os.ReadFile(name); err != nil || len(b) == 0 {
		t.Errorf("%v, %d bytes of profile", err, len(b))
	}
}

func TestRunTrace(t *testing.T) {
	here(t)
	f := fakeLab(t, "one")
	name := filepath.Join(t.TempDir(), "trace")
	o := runLine(t, context.Background(), "run permutation --trace "+name)
	if o.code != 0 || !strings.Contains(o.err, "3 packets written to "+name) {
		t.Errorf("%+v", o)
	}
	if b, err := os.ReadFile(name); err != nil || string(b) != string(fakePcapng(3)) {
		t.Errorf("%v, %d bytes", err, len(b))
	}
	if len(f.got) != 2 || f.got[0] != "GET /v1/capture?format=pcapng&link=all&run=1" {
		t.Errorf("asked for %q", f.got)
	}
	if o = runLine(t, context.Background(), "run permutation --links host0-host1"); o.code != api.CodeUsage {
		t.Errorf("%+v", o)
	}
	f.err = &api.Error{Code: api.CodeNotFound, Message: "no such link"}
	if o = runLine(t, context.Background(), "run permutation --links x --trace "+name+".not"); o.code != api.CodeNotFound {
		t.Errorf("%+v", o)
	}
	if _, err := os.Stat(name + ".not"); err == nil {
		t.Error("a file of a capture that did not begin")
	}
}
