package e2e

import (
	"slices"
	"strings"
	"testing"

	"github.com/uetlab/uetlab/fabric/api"
)

// TestCompareOnALabEqualsTheSimulator compares variants on a lab and in the simulator, links healthy and slow: tables are the same to the
// letter, and so are the results behind them. Links are as before afterwards.
func TestCompareOnALabEqualsTheSimulator(t *testing.T) {
	l := sharedLab(t)
	for _, args := range [][]string{
		{"--cc", "nscc,swift", "--lb", "reps,ecmp", "--ack", "packet", "--seeds", "1,2", "--link", "leaf0-spine0 rate=25%", "permutation", "--size", "256KiB"},
		{"--cc", "nscc,nscc+rccc,dctcp", "--lb", "oblivious", "--ack", "coalesced", "--every", "2us", "incast", "--size", "256KiB"},
		{"--cc", "nscc", "--lb", "reps,oblivious", "--ack", "packet", "--fep", "rto=htsim", "--link", "leaf1-spine0 blackhole at=+10us", "permutation", "--size", "512KiB"},
	} {
		onLab, inSim := append([]string{"compare"}, args...), append([]string{"compare", "--sim", "fat-tree-2x4"}, args...)
		if lab, sim := l.ok(t, onLab...), uetlab(t, inSim...); sim.code != 0 || lab != sim.stdout || strings.Count(lab, "\n") < 4 {
			t.Errorf("%v: the lab gives\n%s\nand the simulator\n%v", args, lab, sim)
		}
		sim := uetlab(t, append(inSim, "--format", "json")...)
		if sim.code != 0 {
			t.Fatal(sim)
		}
		got, want := lasting(t, l.ok(t, append(onLab, "--format", "json")...)).(map[string]any), lasting(t, sim.stdout).(map[string]any)
		delete(got, "command")
		delete(want, "command")
		if d := differences("", got, want); len(d) > 0 || len(got) < 4 {
			t.Errorf("%v: %d differences: %s", args, len(d), strings.Join(d[:min(len(d), 8)], "\n"))
		}
		if k := decode[[]api.LinkStatus](t, l.ok(t, "link", "ls", "--format", "json")); slices.ContainsFunc(k, func(k api.LinkStatus) bool { return k.State != api.LinkUp }) {
			t.Errorf("%v left the links as %+v", args, k)
		}
	}
}
