package main

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/internal/ctl"
	"github.com/uetlab/uetlab/workload"
)

// fakeCCs has a context of a window and one of a rate; host2 has none open, host3 a fixed window.
func fakeCCs(node string) api.CCs {
	window := ctl.CC{ID: 1, PeerAddr: "10.0.0.2", Algorithm: "nscc", PDCs: 2, Blocked: 1, Cwnd: 123_456, MaxWnd: 551_400, InFlight: 120_000, Packets: 29, Waiting: 1 << 20,
		BaseRTTNs: 7200, RTTNs: 9100, DelayNs: 1900, TargetNs: 5514, ECNShare: 0.125, Last: "proportional increase",
		Decisions: map[string]uint64{"fair increase": 1, "proportional increase": 40, "fast increase": 2, "decrease": 5, "hold": 3, "quick adapt": 1, "trim": 7},
		Acks:      60, ECN: 8, Trims: 4, TrimsLastHop: 3, Losses: 1, Timeouts: 1}
	rate := ctl.CC{ID: 1, PeerAddr: "10.0.0.1", TC: 1, Algorithm: "dcqcn", PDCs: 1, Cwnd: 360_000, MaxWnd: 360_000, RateBps: 400e9, BaseRTTNs: 7200, Last: "none",
		Decisions: map[string]uint64{}}
	all := api.CCs{Algorithms: map[string]string{"host0": "nscc", "host1": "dcqcn"}, List: []api.CC{{Node: "host0", Peer: "host1", CC: window}, {Node: "host1", Peer: "host0", CC: rate}}}
	switch node {
	case "host2":
		return api.CCs{Algorithms: map[string]string{"host2": "nscc"}, List: []api.CC{}}
	case "host4":
		return api.CCs{List: []api.CC{}}
	case "host3":
		return api.CCs{Algorithms: map[string]string{"host3": ""}, List: []api.CC{}}
	}
	return all
}

func fakeWindows() []api.WindowLine {
	return []api.WindowLine{{Ready: true}, {Node: "host0", Peer: "host1", Points: []workload.ContextPoint{{AtNs: 1000, Cwnd: 500, Decision: "opened"},
		{AtNs: 1200, Cwnd: 400, InFlight: 300, RTTNs: 90, DelayNs: 8, Decision: "trim"}}}, {Node: "host1", Peer: "host0", TC: 1, Points: []workload.ContextPoint{{AtNs: 900, Cwnd: 7, Decision: "opened"}}},
		{End: true}}
}

// fakePaths has a PDC that freezes, with a way that is dead; host1 has none.
func fakePaths(node string) api.Paths {
	p := api.Paths{Node: node, Peer: "host0", Counts: true, PDCs: []ctl.PDCPaths{}}
	ev := func(pdc, ev uint16, spine, state, health, last string, packets uint64, share float64) api.PathEV {
		return api.PathEV{PDC: pdc, Route: []string{"leaf0", spine, "leaf1"}, Ports: []string{"host0:eth1", "leaf0:eth3", spine + ":eth2", "leaf1:eth1"}, Health: health, Share: share,
			EV: ctl.EV{EV: ev, State: state, Packets: packets, Bytes: packets * 4096, Last: last}}
	}
	if node == "host1" {
		p.EVs = []api.PathEV{ev(0, 1, "spine0", "none", "-", "none", 0, 0.5), ev(0, 2, "spine1", "none", "-", "none", 0, 0.5)}
		p.EVs[1].Route, p.EVs[1].End = p.EVs[1].Route[:1], "any port at leaf0"
		p.Routes = []api.PathRoute{{Route: p.EVs[0].Route, Health: "-", EVs: 1, Share: 0.5}, {Route: p.EVs[1].Route, End: p.EVs[1].End, Health: "-", EVs: 1, Share: 0.5}}
		return p
	}
	p.Peer = "host1"
	p.PDCs = []ctl.PDCPaths{{PDC: 4097, Mode: "RUD", Algorithm: "reps", Frozen: true, Packets: 40, Bytes: 163_840}}
	p.EVs = []api.PathEV{ev(4097, 77, "spine0", "none", api.HealthDead, "timeout", 10, 0.25), ev(4097, 300, "spine1", "cached", api.HealthFrozen, "good", 30, 0.75)}
	p.EVs[0].Fault = "leaf0-spine0 is down"
	p.Routes = []api.PathRoute{{Route: p.EVs[1].Route, Health: api.HealthFrozen, EVs: 1, Packets: 30, Bytes: 122_880, Share: 0.75},
		{Route: p.EVs[0].Route, Fault: p.EVs[0].Fault, Health: api.HealthDead, EVs: 1, Packets: 10, Bytes: 40_960, Share: 0.25}}
	return p
}

// TestNoCCs says why there is nothing to see, and where to look.
func TestNoCCs(t *testing.T) {
	here(t)
	fakeLab(t, "one")
	for cmd, want := range map[string]string{
		"cc host2":               "host2 does not have a PDC open",
		"cc host3":               "host3 has a fixed window",
		"cc host4":               "no end point is there",
		"cc host3 --format json": "[]\n",
	} {
		if o := runLine(t, context.Background(), cmd); o.code != 0 || !strings.Contains(o.out, want) {
			t.Errorf("%s: code %d, %q %s, want %q", cmd, o.code, o.out, o.err, want)
		}
	}
}

func TestTraceWindows(t *testing.T) {
	here(t)
	fakeLab(t, "one")
	t.Chdir(t.TempDir())
	const want = "time_ns,node,peer,tc,cwnd_bytes,in_flight_bytes,rtt_ns,delay_ns,decision\n" +
		"1000,host0,host1,0,500,0,0,0,opened\n1200,host0,host1,0,400,300,90,8,trim\n900,host1,host0,1,7,0,0,0,opened\n"
	if o := runLine(t, context.Background(), "cc --trace -"); o.code != 0 || o.out != want {
		t.Errorf("code %d, %q, %s", o.code, o.out, o.err)
	}
	o := runLine(t, context.Background(), "cc --trace w.csv")
	text, err := os.ReadFile("w.csv")
	if o.code != 0 || o.out != "" || err != nil || string(text) != want || !strings.Contains(o.err, "3 changes of 2 congestion windows written to w.csv") {
		t.Errorf("code %d, %s, file %q %v", o.code, o.err, text, err)
	}
	for cmd, hint := range map[string]string{"cc --trace w.csv --watch": "no --watch", "cc --trace=": "takes a file", "paths host0 host1 --evs -1": "--evs (-1)",
		"run incast --every 1us": "--series FILE", "run incast --every 0s --format json": "--every (0s)", "sim pair incast --every x --series s.csv": "--every (x)"} {
		if o := runLine(t, context.Background(), cmd); o.code != api.CodeUsage || !strings.Contains(o.err, hint) {
			t.Errorf("%s: code %d, %s", cmd, o.code, o.err)
		}
	}
}

// TestSeriesFile writes the series of two sizes into one file, and nothing of it into the result.
func TestSeriesFile(t *testing.T) {
	here(t)
	t.Chdir(t.TempDir())
	o := runLine(t, context.Background(), "sim pair sendrecv --size 4KiB:8KiB:2 --series s.csv --format json")
	text, err := os.ReadFile("s.csv")
	if o.code != 0 || err != nil || strings.Contains(o.out, "series") || !strings.Contains(o.err, "series of ") {
		t.Fatalf("code %d, %s, %v", o.code, o.err, err)
	}
	for _, want := range []string{strings.Join(workload.SeriesColumns, ",") + "\n", "\n0,0,host0,eth1,host0-host1,,,sent_bytes,", "\n1,0,host0,eth1,host0-host1,,,sent_bytes,"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in %.300q", want, text)
		}
	}
}
