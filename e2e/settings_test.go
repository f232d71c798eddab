package e2e

import (
	"maps"
	"strconv"
	"strings"
	"testing"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/workload"
)

// TestSettingsOfARunEqualTheSimulation overrides settings of end points for a run: its figures are those of the simulation with the same
// ones, by processes as well, and the next run has the topology's again. A warm run in between is refused and disturbs nothing.
func TestSettingsOfARunEqualTheSimulation(t *testing.T) {
	l := sharedLab(t)
	const size = 300_000
	args := func(over map[string]string) []string {
		list := []string{workload.Incast, "--size", strconv.Itoa(size)}
		for key, value := range over {
			list = append(list, "--fep", key+"="+value)
		}
		return list
	}
	simulated := func(over map[string]string) figures {
		return simulateRanks(t, &l.plan, workload.Spec{Workload: workload.Incast, Size: size, Seed: 1, Iters: 1, FEP: over}, 1)
	}
	plain := simulated(nil)
	for _, over := range []map[string]string{
		{"cc": "nscc", "lb": "reps", "ack": "packet", "evs": "64", "nscc.gamma": "0.5"},
		{"cc": "swift", "lb": "mp-4", "rto": "htsim", "signals.trim": "off"},
		{"cc": "rccc", "lb": "oblivious", "ackTrigger": "8KiB"},
	} {
		want := simulated(over)
		r := l.run(t, args(over)...)
		same(t, "with settings of its own", r, want)
		if !maps.Equal(r.FEP, over) {
			t.Errorf("the result says %v of %v", r.FEP, over)
		}
		same(t, "by processes", l.run(t, append(args(over), "--processes")...), want)
		for _, warm := range [][]string{args(nil), args(map[string]string{"cc": "dctcp"})} {
			if a := l.do(t, append(append([]string{"run"}, warm...), "--warm")...); a.code != api.CodeUsage || !strings.Contains(a.stderr, "--warm keeps") {
				t.Errorf("a warm run with other settings: %v", a)
			}
		}
		l.run(t, append(args(over), "--warm")...)
		same(t, "the next run", l.run(t, args(nil)...), plain)
	}
}
