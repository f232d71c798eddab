package sim

import (
	"reflect"
	"strings"
	"testing"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/fep/cms"
	"github.com/uetlab/uetlab/workload"
)

// overrides are settings of a run beside the topology's way to say the same.
var overrides = []struct {
	name string
	over map[string]string
	fep  func(*topology.FEPParams)
}{
	{"swift", map[string]string{"cc": "swift", "lb": "mp-8", "ack": "packet", "swift.target": "14us"}, func(p *topology.FEPParams) {
		p.CC, p.LB, p.ACK, p.Swift.Target = "swift", "mp-8", "packet", 14_000
	}},
	{"nscc", map[string]string{"cc": "nscc", "lb": "reps", "evs": "64", "nscc.gamma": "0.3", "reps.lifetime": "3"}, func(p *topology.FEPParams) {
		p.CC, p.LB, p.Balance.EVs, p.NSCC.Gamma, p.Balance.Lifetime = "nscc", "reps", 64, 0.3, 3
	}},
	{"rccc", map[string]string{"cc": "rccc", "lb": "oblivious", "ackTrigger": "8KiB"}, func(p *topology.FEPParams) {
		p.CC, p.LB, p.AckTrigger = "rccc", "oblivious", topology.Size{Bytes: 8 << 10}
	}},
	{"window", map[string]string{"cc": "fixed", "window": "50%"}, func(p *topology.FEPParams) {
		p.Window = topology.Size{PPM: 500_000}
	}},
}

func overriddenSpec(plan *topology.Plan, over map[string]string) workload.Spec {
	return workload.Spec{Workload: workload.Incast, Size: 200_000, Ranks: 8, Iters: 1, Seed: 1, Nodes: hosts(plan), FEP: over}
}

// TestOverrideEqualsTheTopology runs with settings of a run, and with a topology that says the same: the results are equal to the
// nanosecond, and so is the run that follows without settings to one on a fabric that never had any.
func TestOverrideEqualsTheTopology(t *testing.T) {
	plan, plain := managed(t, "fat-tree-2x4", topology.FEPParams{})
	bare, err := plain.Run(overriddenSpec(plan, nil), t0, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range overrides {
		_, f := managed(t, "fat-tree-2x4", topology.FEPParams{})
		got, err := f.Run(overriddenSpec(plan, c.over), t0, Options{})
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		var p topology.FEPParams
		c.fep(&p)
		_, said := managed(t, "fat-tree-2x4", p)
		want, err := said.Run(overriddenSpec(plan, nil), t0, Options{})
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if !reflect.DeepEqual(got.FEP, c.over) {
			t.Errorf("%s: the result says %v", c.name, got.FEP)
		}
		if got.FEP = nil; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: with overrides %+v\nin the topology %+v", c.name, got, want)
		}
		if reflect.DeepEqual(got, bare) {
			t.Errorf("%s: the overrides changed nothing", c.name)
		}
		after, err := f.Run(overriddenSpec(plan, nil), f.Now().Add(1_000_000), Options{})
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(after, bare) {
			t.Errorf("%s: the run after it %+v\non a fabric without overrides %+v", c.name, after, bare)
		}
	}
}

func TestWrongOverrideStartsNothing(t *testing.T) {
	plan, f := managed(t, "pair", topology.FEPParams{})
	spec := overriddenSpec(plan, map[string]string{"nscc.gama": "1"})
	spec.Ranks = 2
	if _, err := f.Run(spec, t0, Options{}); err == nil || !strings.Contains(err.Error(), `did you mean "nscc.gamma"`) {
		t.Errorf("%v", err)
	}
}

// TestSignalsSwitchedOff: what is switched off is not seen by the contexts of a run, though switches mark and trim.
func TestSignalsSwitchedOff(t *testing.T) {
	sum := func(over map[string]string) (all cms.View) {
		plan, f := managed(t, "fat-tree-2x4", topology.FEPParams{CC: "nscc", LB: "oblivious", ACK: "packet"})
		spec := overriddenSpec(plan, over)
		spec.Size = 1 << 20
		if _, err := f.Run(spec, t0, Options{}); err != nil {
			t.Fatal(err)
		}
		for _, h := range hosts(plan) {
			for _, p := range f.nodes[h].FEP.PDCs(nil) {
				if p.CC != nil {
					all.ECN, all.LastRTT = all.ECN+p.CC.ECN, max(all.LastRTT, p.CC.LastRTT)
					all.Trims, all.TrimsLastHop = all.Trims+p.CC.Trims, all.TrimsLastHop+p.CC.TrimsLastHop
					for d, n := range p.CC.Counts {
						all.Counts[d] += n
					}
				}
			}
		}
		return all
	}
	trims := func(v cms.View) uint64 { return v.Trims + v.TrimsLastHop }
	all := sum(nil)
	if all.ECN == 0 || trims(all) == 0 || all.LastRTT == 0 || all.Counts[cms.DecTrim] == 0 {
		t.Fatalf("the incast has no signals: %+v", all)
	}
	if v := sum(map[string]string{"signals.ecn": "off"}); trims(v) <= trims(all) {
		t.Errorf("without marks %d trims, with them %d: nothing has slowed the senders down before", trims(v), trims(all))
	}
	if v := sum(map[string]string{"signals.trim": "off"}); trims(v) == 0 || v.Counts[cms.DecTrim]+v.Counts[cms.DecQuick] != 0 || v.Counts[cms.DecLoss] == 0 {
		t.Errorf("signals.trim=off: %+v", v)
	}
	if v := sum(map[string]string{"signals.rtt": "off"}); v.LastRTT != 0 {
		t.Errorf("signals.rtt=off: %+v", v)
	}
}

// TestHtsimTimeoutDoesNotDouble loses a fifth of all frames, where only timeouts find it: htsim tries again soon, and at a constant distance.
func TestHtsimTimeoutDoesNotDouble(t *testing.T) {
	last := func(rto string) int64 {
		plan, f := managed(t, "fat-tree-2x4", topology.FEPParams{CC: "nscc", LB: "oblivious", RTO: rto, Signals: topology.SignalParams{OOO: new(bool)}})
		lossy(t, plan, f, 0.2)
		r, err := f.Run(overriddenSpec(plan, nil), t0, Options{})
		if err != nil {
			t.Fatal(err)
		}
		return r.FCT.Max
	}
	spec, htsim := last("spec"), last("htsim")
	if htsim*3 > spec {
		t.Errorf("with losses that only timeouts find: %d ns with the standard's, %d ns with htsim's", spec, htsim)
	}
}
