package topology

import (
	"strings"
	"testing"
	"time"
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
