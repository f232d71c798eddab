package e2e

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/uetlab/uetlab/workload"
)

// shape is a run of congestion management in a lab and in the simulator, with all settings named.
type shape struct {
	run   string // what run and sim take
	chaos string // script of faults and switch settings, from the start of the run; empty: none
	must  string // what the run has to have seen to be of use: trims, retransmits, drops, with blanks between
}

// Scripts that make other fabrics of a fat-tree-2x4.
const (
	noTrimming   = "steps:\n  - {at: +0, switch: \"*\", set: {trim.enabled: false, buffer: 100%}}\n"
	adaptive     = "steps:\n  - {at: +0, switch: \"*\", set: {ecmp.balance: adaptive}}\n"
	slowSpine    = "steps:\n  - {at: +0, link: leaf*-spine0, set: rate=25%}\n"
	slowLater    = "steps:\n  - {at: +7us, link: leaf0-spine0, set: rate=50%}\n  - {at: +30us, link: leaf0-spine0, restore: true}\n"
	blackHole    = "steps:\n  - {at: +10us, link: leaf0-spine0, blackhole: true}\n"
	blindAndSlow = noTrimming + "  - {at: +0, link: leaf0-spine0, set: rate=25%}\n"
)

// shapesOf2x4 has every congestion controller and balancer, and the shapes in which they differ.
func shapesOf2x4() (list []shape) {
	for _, cc := range []string{"fixed", "nscc", "rccc", "nscc+rccc", "dctcp", "mprdma", "swift", "eqds", "dcqcn", "uccl"} {
		list = append(list, shape{"incast --size 512KiB --ack coalesced --lb oblivious --cc " + cc, "", "trims retransmits"})
	}
	for i, lb := range []string{"spray", "fixed", "reps", "reps-legacy", "oblivious", "bitmap", "mixed", "ecmp", "plb", "flowlet", "uccl", "mp-8"} {
		ack := []string{"packet", "coalesced"}[i%2]
		list = append(list, shape{"permutation --size 512KiB --seed 2 --cc nscc --ack " + ack + " --lb " + lb, "", ""})
	}
	for _, cc := range []string{"nscc", "rccc", "nscc+rccc"} {
		list = append(list, shape{"incast --size 256KiB --seed 3 --ack packet --lb reps --fep rto=htsim --cc " + cc, noTrimming, "drops retransmits"})
	}
	for _, lb := range []string{"ecmp", "oblivious", "reps", "bitmap"} {
		list = append(list, shape{"permutation --size 512KiB --seed 3 --cc nscc --ack packet --lb " + lb, slowSpine, ""})
	}
	for _, lb := range []string{"oblivious", "reps", "bitmap"} {
		list = append(list, shape{"permutation --size 1MiB --cc nscc --ack packet --fep rto=htsim --lb " + lb, blackHole, "drops retransmits"})
	}
	return append(list,
		shape{"permutation --size 1MiB --every 1us --cc nscc --ack coalesced --lb reps", slowLater, ""},
		shape{"permutation --size 512KiB --cc nscc --ack packet --lb oblivious", blindAndSlow, "drops retransmits"},
		shape{"permutation --size 512KiB --cc nscc --ack packet --lb fixed", adaptive, ""},
		shape{"incast --size 256KiB --every 500ns --cc nscc+rccc --ack packet --lb reps", "", "trims retransmits"},
		shape{"alltoall --size 512KiB --check --cc nscc --ack packet --lb spray", "", ""},
		shape{"alltoall --size 512KiB --check --cc nscc --ack packet --lb ecmp", "", ""},
		shape{"alltoall --size 512KiB --check --cc rccc --ack coalesced --lb reps", "", ""},
		shape{"allreduce --size 512KiB --check --cc nscc --ack packet --lb ecmp", "", ""},
		shape{"allreduce --size 512KiB --check --cc nscc --ack packet --lb oblivious", "", ""},
		shape{"allreduce --size 512KiB --check --iters 2 --cc swift --ack packet --lb reps", "", ""},
		shape{"incast --size 256KiB --cc dcqcn --ack coalesced --lb fixed --fep transport=roce", "", "trims retransmits"},
	)
}

// shapesOfK4 are those for which three tiers make a difference.
func shapesOfK4() (list []shape) {
	for _, lb := range []string{"ecmp", "oblivious", "reps", "bitmap", "plb", "flowlet", "mp-8"} {
		list = append(list, shape{"permutation --size 256KiB --cc nscc --ack packet --lb " + lb, "", ""})
	}
	for _, cc := range []string{"nscc", "rccc", "nscc+rccc"} {
		list = append(list, shape{"incast --size 128KiB --ack packet --lb reps --cc " + cc, "", "trims retransmits"})
	}
	return append(list,
		shape{"permutation --size 512KiB --cc nscc --ack packet --fep rto=htsim --lb reps", "steps:\n  - {at: +10us, link: agg0-core0, blackhole: true}\n", "drops retransmits"},
		shape{"permutation --size 256KiB --cc swift --ack coalesced --lb oblivious", "steps:\n  - {at: +0, link: agg*-core0, set: rate=25%}\n", ""},
		shape{"permutation --size 256KiB --cc nscc --ack packet --lb fixed", adaptive, ""},
		shape{"alltoall --size 256KiB --cc nscc+rccc --ack packet --lb reps", "", ""},
		shape{"allreduce --size 256KiB --check --cc nscc --ack packet --lb reps", "", ""},
	)
}

// TestShapesEqualTheSimulation runs what congestion management is judged by with real packets. The whole result must be that of the
// simulator: times of every rank, trims, marks, drops, retransmissions and depths of every queue, series where they are sampled. A
// run again, after others and with its ranks as processes, must be as before: nothing may be left of the run in between.
func TestShapesEqualTheSimulation(t *testing.T) {
	l := sharedLab(t)
	t.Cleanup(func() { l.mend(t) })
	l.shapes(t, "fat-tree-2x4", shapesOf2x4())
}

// TestShapesOfThreeTiersEqualTheSimulation does the same where a packet has four ways and crosses five switches.
func TestShapesOfThreeTiersEqualTheSimulation(t *testing.T) {
	needRoot(t)
	up(t, "fat-tree-k4").shapes(t, "fat-tree-k4", shapesOfK4())
}

// TestRoCEEqualsTheSimulation has a fabric whose switches stop senders by PFC: nothing is lost, and all is late.
func TestRoCEEqualsTheSimulation(t *testing.T) {
	needRoot(t)
	l := up(t, "roce-2x4")
	before := l.counters(t)
	l.shapes(t, "roce-2x4", []shape{
		{"incast --size 1MiB --seed 2 --cc dcqcn --lb fixed --ack coalesced", "", ""},
		{"permutation --size 512KiB --seed 2 --cc dcqcn --lb fixed --ack coalesced --every 1us", "", ""},
		{"alltoall --size 512KiB --cc nscc --lb fixed --ack packet --fep transport=roce", "", ""},
		{"permutation --size 512KiB --cc dcqcn --lb fixed --ack coalesced", "steps:\n  - {at: +5us, link: leaf0-spine0, set: loss=1%}\n", "drops retransmits"},
	})
	gained := minus(l.counters(t), before)
	if sum(gained, func(_, _, counter string) bool { return strings.HasPrefix(counter, "pause_tx") }) == 0 {
		t.Errorf("no switch has paused anybody: the test is of no use: %v", gained)
	}
}

// shapes runs all of them, and some of them again from the last to the first.
func (l *lab) shapes(t *testing.T, topo string, list []shape) {
	t.Helper()
	start, wants := time.Now(), make([]any, len(list))
	for i, s := range list {
		wants[i] = s.simulate(t, topo)
		l.repeats(t, s, wants[i])
	}
	for i, s := range slices.Backward(list) {
		if s.chaos != "" || i%3 != 0 {
			continue
		}
		if i%2 == 0 && !strings.Contains(s.run, "--every") {
			s.run += " --processes"
		}
		l.repeats(t, s, wants[i])
	}
	t.Logf("%d shapes in %.1f s", len(list), time.Since(start).Seconds())
}

// simulate gives a shape's result in the simulator.
func (s shape) simulate(t testing.TB, topo string) any {
	t.Helper()
	args := []string{"sim", topo, "--format", "json"}
	if s.chaos != "" {
		args = append(args, "--chaos", writeFile(t, "shape.yaml", s.chaos))
	}
	a := uetlab(t, append(append(args, "--"), strings.Fields(s.run)...)...)
	if a.code != 0 {
		t.Fatal(a)
	}
	r := decode[workload.Result](t, a.stdout)
	seen := map[string]uint64{"trims": r.Trims, "retransmits": r.Retransmits, "drops": r.Drops}
	for _, what := range strings.Fields(s.must) {
		if seen[what] == 0 {
			t.Errorf("%s: no %s: the shape is of no use", s.run, what)
		}
	}
	return lasting(t, a.stdout)
}

// repeats runs a shape in the lab and compares all that its result says.
func (l *lab) repeats(t testing.TB, s shape, want any) {
	t.Helper()
	if s.chaos != "" {
		l.ok(t, "chaos", writeFile(t, "shape.yaml", s.chaos))
		defer l.mend(t)
	}
	a := l.startRun(t, strings.Fields(s.run)...).wait()
	if a.code != 0 {
		t.Errorf("%v", a)
		return
	}
	if d := differences("", lasting(t, a.stdout), want); len(d) > 0 {
		t.Errorf("%s: %d differences from the simulation:\n%s\n%s", s.run, len(d), strings.Join(d[:min(len(d), 8)], "\n"), s.chaos)
	}
}

// lasting reads JSON of results and leaves out what wall time decides. Verdicts stay.
func lasting(t testing.TB, text string) any {
	t.Helper()
	return virtual(decode[any](t, text))
}

func virtual(v any) any {
	switch v := v.(type) {
	case map[string]any:
		delete(v, "dilation")
		delete(v, "wallSeconds")
		for k, x := range v {
			v[k] = virtual(x)
			if f, ok := x.(map[string]any); ok && k == "fidelity" {
				v[k] = f["verdict"]
			}
		}
	case []any:
		for i := range v {
			v[i] = virtual(v[i])
		}
	}
	return v
}

// differences lists where two JSON values differ.
func differences(path string, got, want any) (list []string) {
	switch g := got.(type) {
	case map[string]any:
		w, ok := want.(map[string]any)
		for k := range w {
			if _, has := g[k]; !has {
				list = append(list, fmt.Sprintf("%s.%s is missing", path, k))
			}
		}
		if ok {
			for k := range g {
				list = append(list, differences(path+"."+k, g[k], w[k])...)
			}
			slices.Sort(list)
			return list
		}
	case []any:
		if w, ok := want.([]any); ok && len(w) == len(g) {
			for i := range g {
				list = append(list, differences(fmt.Sprintf("%s[%d]", path, i), g[i], w[i])...)
			}
			return list
		}
	}
	if !reflect.DeepEqual(got, want) {
		x, _ := json.Marshal(got)
		y, _ := json.Marshal(want)
		list = append(list, fmt.Sprintf("%s is %.200s, want %.200s", path, x, y))
	}
	return list
}
