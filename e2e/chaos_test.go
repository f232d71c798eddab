package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/chaos"
	"github.com/uetlab/uetlab/internal/faults"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/sim"
	"github.com/uetlab/uetlab/workload"
)

// storm has something of everything, from the first nanosecond of a run on.
const storm = `
name: storm
steps:
  - {at: +0, link: leaf0-spine0, set: loss=0.5%}
  - {at: +0, link: leaf1-spine0, set: "jitter=300ns,normal duplicate=1%"}
  - {at: +0, link: "host[01]-leaf0", set: ber=2e-7}
  - {at: +3us, link: leaf0-spine1, from: leaf0, set: "reorder=2%,3us"}
  - at: +1us
    link: leaf[123]-spine0
    from: spine0
    set: {burst: {p: 5%, r: 25%}, delay: +700ns}
  - {at: +8us, link: leaf1-spine1, flap: {down: 4us, period: 15us, count: 2}}
  - {at: +12us, link: [host1-leaf0, host5-leaf2], set: rate=50%}
  - {at: +20us, link: leaf0-spine0, blackhole: true}
  - {at: +21us, link: leaf0-spine0, set: [blackhole=off, jitter=1us]}
  - {at: +30us, link: host1-leaf0, restore: true}
  - {at: +2us, switch: leaf*, set: {trim.enabled: false, ecn.kmin: 5%}}
  - {at: +25us, switch: leaf1, reset: true}
`

// storming schedules a script in the simulator.
func storming(t testing.TB, l *lab, text string) func(*sim.Fabric) {
	return func(f *sim.Fabric) {
		s, err := chaos.Parse("storm.yaml", []byte(text), &l.plan)
		if err != nil {
			t.Fatal(err)
		}
		b, err := s.Schedule(t0)
		if err == nil {
			err = b.Each(f.Change)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// mend restores all links and switches and waits until all routes lead over them.
func (l *lab) mend(t testing.TB) {
	t.Helper()
	l.ok(t, "switch", "reset", "*")
	var names []string
	for _, k := range l.plan.Links {
		names = append(names, k.Name)
	}
	last := int64(0)
	for _, r := range decode[[]api.LinkChangeResult](t, l.ok(t, append([]string{"link", "restore", "--format", "json"}, names...)...)) {
		last = max(last, r.AtNs-1, r.RoutesAtNs)
	}
	until(t, "the fabric to converge", func() bool { return l.clock(t).MinHorizonNs > last })
}

// setAll changes all links, without a command for each.
func (l *lab) setAll(t testing.TB, settings ...string) {
	t.Helper()
	set, err := faults.ParseSettings(settings)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range l.plan.Links {
		if _, err := l.api.ChangeLink(context.Background(), k.Name, api.LinkChange{Op: api.LinkOpSet, Set: set}); err != nil {
			t.Fatal(err)
		}
	}
}

func write(t testing.TB, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "storm.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestChaosEqualsTheSimulation runs permutations under a script with every impairment, a flapping link and changes of rate,
// armed before the run. Each must equal the simulation under the same script to the nanosecond, whatever the machine does.
func TestChaosEqualsTheSimulation(t *testing.T) {
	l := sharedLab(t)
	l.freeClock(t)
	t.Cleanup(func() { l.mend(t) })
	file := write(t, storm)
	spec := workload.Spec{Workload: workload.Permutation, Size: 512 << 10, Iters: 1, Check: true, Seed: 1}
	calm, want := simulate(t, &l.plan, spec, nil), simulate(t, &l.plan, spec, storming(t, l, storm))
	if want.FCT == calm.FCT || want.Drops == 0 || want.Retransmits == 0 || want.Correct != "true" {
		t.Fatalf("the script does too little: %+v", want)
	}
	for i := range 3 {
		before := l.counters(t)
		r := decode[api.FaultScriptResult](t, l.ok(t, "chaos", file, "--format", "json"))
		if r.When != api.WhenNextRun || r.Changes != 22 || r.RelNs != 0 {
			t.Fatalf("chaos: %+v", r)
		}
		stop := func() {}
		if i == 2 {
			stop = hog(t, 2)
		}
		res := l.run(t, "permutation", "--size", "512KiB", "--check", "--seed", "1")
		stop()
		same(t, fmt.Sprintf("run %d under the storm", i), res, want)
		gained := minus(l.counters(t), before)
		for _, c := range []link.Counter{link.DropLoss, link.DropBurst, link.DropFCS, link.DropBlack, link.DropCut, link.TxTwice} {
			if sum(gained, func(_, _, counter string) bool { return counter == c.String() }) == 0 {
				t.Errorf("run %d: no %s", i, c)
			}
		}
		t.Logf("run %d: max %d ns, %d retransmits, %d drops", i, res.FCT.Max, res.Retransmits, res.Drops)
		l.mend(t)
	}
	same(t, "a run after the storm", l.run(t, "permutation", "--size", "512KiB", "--check", "--seed", "1"), calm)
}

// TestChaosOfSwitches ends trimming at all switches in the middle of an incast, and has it begin again.
func TestChaosOfSwitches(t *testing.T) {
	l := sharedLab(t)
	l.freeClock(t)
	t.Cleanup(func() { l.mend(t) })
	const text = "steps:\n  - {at: +15us, switch: \"*\", set: {trim.enabled: false}}\n  - {at: +40us, switch: leaf*, reset: true}\n" +
		"  - {at: +30us, link: spine0-leaf0, fail: true}\n"
	spec := workload.Spec{Workload: workload.Incast, Size: 512 << 10, Iters: 1, Check: true, Seed: 1}
	calm, want := simulate(t, &l.plan, spec, nil), simulate(t, &l.plan, spec, storming(t, l, text))
	if want.FCT == calm.FCT || want.Drops == 0 {
		t.Fatalf("the script does too little: %+v", want)
	}
	l.ok(t, "chaos", write(t, text))
	same(t, "an incast without trimming at times", l.run(t, "incast", "--size", "512KiB", "--check", "--seed", "1"), want)
	l.mend(t)
	same(t, "an incast after that", l.run(t, "incast", "--size", "512KiB", "--check", "--seed", "1"), calm)
}

// TestChaosIsCheckedFirst: nothing of a script that is wrong is scheduled, be it wrong to the client or too late for the lab.
func TestChaosIsCheckedFirst(t *testing.T) {
	l := sharedLab(t)
	l.freeClock(t)
	bad := write(t, "steps:\n  - {at: +1us, link: leaf0-spine0, fail: true}\n  - {at: +2us, link: leaf0-spine9, fail: true}\n")
	if a := l.do(t, "chaos", bad); a.code != api.CodeUsage || !strings.Contains(a.stderr, bad+":3:22: link (leaf0-spine9): no such name") {
		t.Error(a)
	}
	good := write(t, "steps:\n  - {at: +1us, link: leaf0-spine0, fail: true}\n  - {at: +9ms, link: leaf0-spine0, restore: true}\n")
	if a := l.do(t, "chaos", good, "--at", "1ns"); a.code != api.CodeUsage || !strings.Contains(a.stderr, "that is past") {
		t.Error(a)
	}
	out := l.ok(t, "chaos", good, "--dry-run")
	if !strings.Contains(out, "+1us") || !strings.Contains(out, "+501us") || !strings.Contains(out, "restore") {
		t.Errorf("dry run:\n%s", out)
	}
	if s := l.linkState(t, "leaf0-spine0"); s.State != api.LinkUp {
		t.Errorf("the link is %+v", s)
	}
	spec := workload.Spec{Workload: workload.Permutation, Size: 64 << 10, Iters: 1, Seed: 1}
	same(t, "a run after scripts that were not taken", l.run(t, "permutation", "--size", "64KiB", "--seed", "1"), simulate(t, &l.plan, spec, nil))
}

// TestFlapIsExact flaps two links during a run that is held, and at rest.
func TestFlapIsExact(t *testing.T) {
	l := sharedLab(t)
	l.freeClock(t)
	t.Cleanup(func() { l.mend(t) })
	flap := faults.Fault{At: t0.Add(10 * time.Microsecond), From: faults.Both, Op: faults.Flap, Flap: faults.Times{DownNs: 2_000, PeriodNs: 10_000, Count: 3}}
	want := simulate(t, &l.plan, workload.Spec{Workload: workload.Permutation, Size: 512 << 10, Iters: 1, Seed: 4}, func(f *sim.Fabric) {
		var list []faults.Fault
		for _, name := range []string{"leaf0-spine0", "leaf1-spine1"} {
			id, _, err := l.plan.FindLink(name)
			if err != nil {
				t.Fatal(err)
			}
			flap.Link = id
			list = append(list, flap)
		}
		meet(t, l, f, list...)
	})
	if want.Drops == 0 {
		t.Fatalf("nothing is lost: %+v", want)
	}
	args := []string{"link", "flap", "leaf0-spine0", "spine1-leaf1", "--down", "2us", "--period", "10us", "--count", "3", "--format", "json"}
	l.clockTo(t, "pause")
	p := l.startRun(t, "permutation", "--size", "512KiB", "--seed", "4")
	until(t, "the run to begin", func() bool { return p.ended() || l.running(t) })
	r := decode[api.FaultScriptResult](t, l.ok(t, append(args, "--at", "+10us")...))
	if r.When != api.WhenThisRun || r.RelNs != 10_000 || r.Changes != 12 || r.LastNs != r.AtNs+22_000 {
		t.Errorf("flap: %+v", r)
	}
	l.clockTo(t, "resume")
	same(t, "a run with links that flap", result(t, p), want)
	r = decode[api.FaultScriptResult](t, l.ok(t, args...))
	if c := l.clock(t); r.When != api.WhenNow || c.MinHorizonNs < r.LastNs {
		t.Errorf("flap at rest: %+v, and a node is at %d", r, c.MinHorizonNs)
	}
	if s := l.linkState(t, "leaf0-spine0"); s.State != api.LinkUp {
		t.Errorf("after flapping the link is %+v", s)
	}
}
