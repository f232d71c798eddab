package topology

import (
	"strings"
	"testing"
	"time"

	"github.com/uetlab/uetlab/internal/link/cbfc"
	"github.com/uetlab/uetlab/wire"
)

// TestCBFCOfATopology: who says on gets room for a round trip, the same at both ports of a link; plain hosts have none.
func TestCBFCOfATopology(t *testing.T) {
	plan, err := planText(t, `name: x
fabric: {kind: leaf-spine, spines: 1, leaves: 2, hostsPerLeaf: 1}
defaults: {link: {cbfc: on}}
links:
  - {endpoints: [leaf0, spine0], cbfc: {cell: 64, overhead: -4, limit: 64KiB, ccEvery: 10us, cfMin: 800B, cfMax: 64KiB}}
  - {endpoints: [leaf1, spine0], delay: 2us}
  - {endpoints: [host1, leaf1], cbfc: off}
`)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range plan.Links {
		for _, e := range []End{l.A, l.B} {
			if plan.Nodes[e.Node].Ports[e.Port].CBFC != l.CBFC {
				t.Errorf("%s: its ports have others", l.Name)
			}
		}
		s := l.CBFC
		if l.Name == "host1-leaf1" {
			if s != nil {
				t.Errorf("%s: %+v", l.Name, s)
			}
			continue
		}
		if s.Profile.Lossless != 1<<queueData || len(s.Profile.VCs) != 2 || s.Profile.VCs[0].Value != plan.DSCP.Data || s.Profile.VCs[1].Value != plan.DSCP.Retx || s.Rate != l.Rate {
			t.Errorf("%s: %+v", l.Name, s)
		}
		limit := s.Profile.VCs[0].Limit
		switch l.Name {
		case "leaf0-spine0":
			if s.Profile.CreditSize != 64 || s.Profile.PktOvhd != -4 || limit != 1024 || s.CCEvery != 10*time.Microsecond || s.CFMin != 800 || s.CFMax != 64<<10 {
				t.Errorf("all said: %+v", s)
			}
		case "host0-leaf0": // 1 us of line and 500 ns of latency at 50 bytes per ns, 6400 B, four frames
			if bytes := limit * 128; bytes < 75_000+6400+4*4500 || bytes > 130_000 || s.CCEvery != 256*time.Microsecond {
				t.Errorf("usual: %d bytes, %+v", bytes, s)
			}
		case "leaf1-spine0":
			if bytes := limit * 128; bytes < 250_000 {
				t.Errorf("long: %d bytes", bytes)
			}
		}
	}
	for text, why := range map[string]string{"cbfc: maybe": "not one of", "cbfc: {cell: 100}": "power of two", "cbfc: {limit: 1KiB}": "limit of 8 credits", "cbfc: {cfMin: 10B}": "cfMin", "cbfc: {cfMax: 20KiB}": "16 KiB",
		"cbfc: {ccEvery: 1s}": "ccEvery"} {
		if _, err := planText(t, "name: x\nfabric: {kind: leaf-spine, spines: 1, leaves: 2, hostsPerLeaf: 1}\ndefaults: {link: {"+text+"}}\n"); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", text, err)
		}
	}
	_, err = planText(t, "name: x\nfabric: {kind: leaf-spine, spines: 1, leaves: 2, hostsPerLeaf: 1}\ndefaults: {link: {cbfc: on}}\nnodes:\n  leaf0: {classes: {44: data}}\n")
	if err == nil || !strings.Contains(err.Error(), "same DSCPs") {
		t.Errorf("switches of two minds: %v", err)
	}
}

// TestCBFCChannelsOfATopology: channels by name and number, one room for each or one for all, selectors by blocks of DSCPs; and what is wrong, with its place and
// what to do.
func TestCBFCChannelsOfATopology(t *testing.T) {
	const fabric = "name: x\nfabric: {kind: leaf-spine, spines: 1, leaves: 2, hostsPerLeaf: 1}\n"
	profile := func(text, more string) *cbfc.Profile {
		t.Helper()
		plan, err := planText(t, fabric+"defaults: {link: {cbfc: "+text+"}}\n"+more)
		if err != nil {
			t.Fatal(err)
		}
		return &plan.Links[0].CBFC.Profile
	}
	usual := profile("on", "").VCs[0].Limit
	p := profile("{channels: [control, data, 5], limit: {control: 16KiB, 5: 32KiB}}", "")
	if p.Lossless != 1<<queueData|1<<queueControl|1<<queueUnreliable || p.Method != wire.CBFCPerVC || p.Total != 0 {
		t.Errorf("three channels: %+v", p)
	}
	for _, v := range p.VCs {
		if want := map[uint8]uint32{queueData: usual, queueControl: 128, queueUnreliable: 256}[v.Index]; v.Limit != want || v.Map != wire.VCMapDSCP {
			t.Errorf("%+v, want a limit of %d", v, want)
		}
	}
	if p = profile("{channels: [data, control], method: total}", ""); p.Method != wire.CBFCTotal || p.Total != 2*usual || p.VCs[0].Limit != 0 {
		t.Errorf("total: %+v", p)
	}
	if p = profile("{method: total, total: 64KiB}", ""); p.Total != 512 {
		t.Errorf("a total of 64 KiB: %+v", p)
	}
	p = profile("{channels: [besteffort, data]}", "") // all DSCPs but a few, in blocks
	m := cbfc.NewMap(p)
	classes := (&Plan{DSCP: defaultDSCP}).DSCP.classes()
	for dscp, q := range classes {
		frame := make([]byte, 60)
		frame[12], frame[14], frame[15] = 8, 0x45, byte(dscp<<2)
		want := uint8(cbfc.NoVC)
		if q == queueBestEffort || q == queueData {
			want = q
		}
		if got := m.VC(frame); got != want {
			t.Errorf("DSCP %d: channel %d, want %d", dscp, got, want)
		}
	}
	if p = profile("on", "links:\n  - {endpoints: [host0, leaf0], cbfc: {channels: [control], raceDemo: true}}\n"); p.Lossless != 1<<queueControl {
		t.Errorf("a link of its own: %+v", p)
	}
	for text, why := range map[string]string{
		"{channels: []}": "no channel", "{channels: [dta]}": "data", "{channels: [8]}": "7", "{channels: [data, 1]}": "twice", "{channels: [7]}": "no DSCP is of that class",
		"{limit: {control: 16KiB}}": "none of the channels", "{total: 64KiB}": "method: total", "{method: total, limit: 64KiB}": "method: perVC", "{method: both}": "perVC",
		"{method: total, total: 1KiB}": "total of 8 credits", "{limit: {contrl: 1KiB}}": "control",
	} {
		_, err := planText(t, fabric+"defaults: {link: {cbfc: "+text+"}}\n")
		if err == nil || !strings.Contains(err.Error(), why) || !strings.Contains(err.Error(), ".yaml:") {
			t.Errorf("%s: %v, want %q", text, err, why)
		}
	}
	_, err := planText(t, fabric+"defaults: {link: {cbfc: {channels: [control]}}}\nnodes:\n  leaf0: {classes: {45: control}}\n")
	if err == nil || !strings.Contains(err.Error(), "DSCP 45 is") {
		t.Errorf("switches of two minds: %v", err)
	}
}
