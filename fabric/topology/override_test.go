package topology

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/uetlab/uetlab/fep/cms"
	"github.com/uetlab/uetlab/fep/pds"
)

// TestOverrideEqualsTheFile lays every key of full.yaml over a topology that says nothing: the end points become those of a file that says it.
func TestOverrideEqualsTheFile(t *testing.T) {
	full, err := Parse("full.yaml", []byte(readFull(t)))
	if err != nil {
		t.Fatal(err)
	}
	over := map[string]string{}
	eachLeaf(full.Defaults.FEP.managed(), "", func(name string, f field) {
		if v, says := f.to.print(); says {
			over[name] = valueText(v)
		}
	})
	for _, k := range FEPKeys() {
		if _, ok := over[k.Name]; !ok && k.Name != "cc" && k.Name != "ack" && k.Name != "transport" {
			t.Errorf("full.yaml does not have %s", k.Name)
		}
	}
	plain := resolved(t, "fat-tree-2x2")
	said, err := Generate("fat-tree-2x2")
	if err != nil {
		t.Fatal(err)
	}
	said.Defaults.FEP = full.Defaults.FEP
	want := mustPlan(t, said, nil)
	if err := plain.CheckFEP(over); err != nil {
		t.Fatal(err)
	}
	for i := range plain.Nodes {
		got, err := plain.OverrideFEP(i, over)
		if err != nil {
			t.Fatal(err)
		}
		if plain.Nodes[i].FEP == nil {
			if got != nil {
				t.Errorf("%s has no end point, and got %+v", plain.Nodes[i].Name, got)
			}
			continue
		}
		if w := *want.Nodes[i].FEP; !reflect.DeepEqual(managedOf(got), managedOf(&w)) {
			t.Errorf("%s: got %+v\nwant %+v", plain.Nodes[i].Name, got, w)
		}
		if got, err := plain.OverrideFEP(i, nil); got != nil || err != nil {
			t.Errorf("%s: without overrides: %+v, %v", plain.Nodes[i].Name, got, err)
		}
	}
}

// managedOf leaves out what a run cannot override.
func managedOf(c *FEPConfig) FEPConfig {
	d := *c
	d.Profiles, d.Eager, d.Threshold, d.Unexpected, d.RTR, d.TooLong, d.AckData = nil, 0, 0, 0, 0, "", 0
	return d
}

// TestOverrideOfOverride switches off and on again what a topology has switched.
func TestOverrideOfOverride(t *testing.T) {
	s, err := Parse("x", []byte("name: x\nfabric: {kind: pair}\ndefaults: {fep: {cc: nscc, lb: reps, ack: packet, rto: htsim, signals: {ecn: off, ooo: off}, nscc: {quickAdapt: off, variant: htsim, gamma: 0}, swift: {hops: 3}}}"))
	p := mustPlan(t, s, err)
	c, err := p.OverrideFEP(0, map[string]string{"cc": "fixed", "ack": "coalesced", "rto": "spec", "signals.ecn": "on", "signals.ooo": "true", "nscc.quickAdapt": "on", "nscc.variant": "spec", "nscc.gamma": "0.5", "swift.hops": "0"})
	if err != nil {
		t.Fatal(err)
	}
	want := *p.Nodes[0].FEP
	want.CC, want.AckEach, want.RTO, want.NoOOO, want.Control = "", false, "", false, cms.Config{NSCC: cms.NSCC{Gamma: 0.5}}
	if !reflect.DeepEqual(*c, want) {
		t.Errorf("got  %+v\nwant %+v", *c, want)
	}
}

// TestWindowMeansFixed: a window without cc is that of cc fixed, in a file as in a run; what names cc itself has that.
func TestWindowMeansFixed(t *testing.T) {
	for _, c := range []struct {
		fep, cc string
		over    map[string]string
		then    string
	}{
		{"{}", "nscc", map[string]string{"window": "64KiB"}, ""},
		{"{window: 64KiB}", "", map[string]string{"cc": "swift"}, "swift"},
		{"{window: auto}", "", map[string]string{"lb": "spray"}, ""},
		{"{cc: nscc, window: 64KiB}", "nscc", map[string]string{"cc": "dctcp", "window": "80KiB"}, "dctcp"},
		{"{transport: roce, window: 64KiB}", "dcqcn", map[string]string{"window": "80KiB"}, "dcqcn"},
		{"{transport: roce}", "dcqcn", map[string]string{"transport": "uet"}, "nscc"},
	} {
		s, err := Parse("x", []byte("name: x\nfabric: {kind: pair}\ndefaults: {fep: "+c.fep+"}"))
		p := mustPlan(t, s, err)
		if got := p.Nodes[0].FEP.CC; got != c.cc {
			t.Errorf("%s: cc %q, want %q", c.fep, got, c.cc)
		}
		if f, err := p.OverrideFEP(0, c.over); err != nil || f.CC != c.then {
			t.Errorf("%s with %v: %v, %+v, want %q", c.fep, c.over, err, f, c.then)
		}
	}
}

func TestOverridesThatAreNone(t *testing.T) {
	p := resolved(t, "fat-tree-2x2")
	for _, c := range []struct{ key, value, want string }{
		{"cc", "nsc", `fep.cc (nsc): not one of nscc, rccc, nscc+rccc, fixed, dctcp, mprdma, swift, eqds, dcqcn, uccl; did you mean "nscc"?`},
		{"lb", "rep", `did you mean "reps"?`},
		{"lb", "mp-300", "from mp-1 to mp-256"},
		{"nscc.gama", "1", `fep key (nscc.gama): not known; did you mean "nscc.gamma"?`},
		{"nscc", "{gamma: 1}", "a section of keys; valid are nscc.variant"},
		{"nscc.gamma.x", "1", "not known"},
		{"profile", "hpc", "not one that a run can change"},
		{"nscc.gamma", "2", "fep.nscc.gamma (2): out of range; from 0 to 1"},
		{"nscc.gamma", "[", "not a value"},
		{"nscc.gamma", "1\n", "fep.nscc.gamma"},
		{"nscc.targetQdelay", "5", `a bare number; write it like 500ns`},
		{"nscc.initWnd", "1KiB", "fep.nscc.initWnd (1KiB): outside"},
		{"nscc.targetQdelay", "1ns", "fep.nscc.targetQdelay (1ns): outside 1e-08..1000 seconds"},
		{"evs", "100", "fep.evs (100): is no power of two"},
		{"ecmp.reroute", "1us", "fep.ecmp.reroute (1us): outside"},
		{"plb.idleRounds", "9", "fep.plb.idleRounds (9): outside 1..2"},
		{"window", "1KiB", "fep.window (1KiB): does not hold one packet"},
		{"signals.ecn", "maybe", "neither on nor off"},
		{"", "x", "not known"},
	} {
		err := p.CheckFEP(map[string]string{c.key: c.value})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s=%s: %v\nwant %q", c.key, c.value, err, c.want)
		}
	}
	err := p.CheckFEP(map[string]string{"cc": "x", "lb": "y"})
	if err == nil || !strings.Contains(err.Error(), "fep.cc") || !strings.Contains(err.Error(), "fep.lb") {
		t.Errorf("two wrong ones: %v", err)
	}
}

// TestHtsimTimeout has the figure that uet-cms.md 10 gives for the leaf-spine fabric at 100 Gb/s.
func TestHtsimTimeout(t *testing.T) {
	s, err := Parse("x", []byte("name: x\nfabric: {kind: star, hosts: 2}\ndefaults: {link: {rate: 100Gbps}, switch: {buffer: 120416B}, fep: {rto: htsim}}"))
	p := mustPlan(t, s, err)
	d, err := p.Nodes[1].FEP.Resolved(p.Around(1))
	if err != nil {
		t.Fatal(err)
	}
	if want := 15*time.Microsecond + 57799*time.Nanosecond; d.RTOInit != want || !d.RTOConstant || d.MaxRTORetx != pds.InfiniteRTO || d.MaxNackRetx != pds.InfiniteNack {
		t.Errorf("timeout %v, constant %v, tries %d; want %v", d.RTOInit, d.RTOConstant, d.MaxRTORetx, want)
	}
}

func TestFormatFEP(t *testing.T) {
	s, err := Parse("x", []byte("name: x\nfabric: {kind: pair}\ndefaults: {fep: {cc: nscc, lb: mp-4, nscc: {gamma: 0, fi: 0B}, signals: {rtt: off}}}"))
	p := mustPlan(t, s, err)
	list, err := p.FormatFEP(0)
	if err != nil {
		t.Fatal(err)
	}
	over := map[string]string{}
	for _, kv := range list {
		over[kv.Key] = kv.Value
	}
	for key, want := range map[string]string{"cc": "nscc", "lb": "mp-4", "ack": "coalesced", "nscc.gamma": "0", "nscc.fi": "0B", "nscc.qaGate": "3", "nscc.variant": "spec", "nscc.quickAdapt": "on", "signals.rtt": "off",
		"mp.paths": "4", "rto": "spec, from 1ms on", "signals.ecn": "", "swift.target": "", "window": ""} {
		if over[key] != want {
			t.Errorf("%s: %q, want %q", key, over[key], want)
		}
	}
}

func TestIgnoredInRealTime(t *testing.T) {
	for key, want := range map[string]string{"cc": "cc", "lb": "", "reps.freeze": "", "nscc.gamma": "nscc.gamma", "window": "window", "signals.ecn": "signals.ecn", "rto": "rto"} {
		if got := IgnoredInRealTime(map[string]string{"ack": "packet", key: "x"}); got != want {
			t.Errorf("%s: %q", key, got)
		}
	}
}
