package main

import (
	"context"
	"strings"
	"testing"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/internal/ctl"
)

// fakeLLDP has a host that hears what it should, a leaf with the cables of two ports swapped, and one that hears nobody.
func fakeLLDP(node string) []api.LLDP {
	leaf := &ctl.LLDPNeighbour{Chassis: "02:00:00:00:01:01", Port: "eth1", PortDesc: "to host0", System: "leaf0", Can: "Bridge, Router", Enabled: "Bridge, Router",
		Addresses: []string{"10.0.0.1"}, AgeNs: 3_723_000_000_000, HeardNs: 250_000_000, TTLSec: 4,
		UE:   &ctl.LLDPOptions{LLRWanted: "BIDIRECTIONAL", LLREnabled: "BIDIRECTIONAL", CBFCWanted: "BIDIRECTIONAL", CBFCEnabled: "NO", Version: 0x13, BootID: 7},
		CBFC: &ctl.LLDPReceiver{CreditSize: 64, Overhead: -4, Method: "PER_VC", Lossless: 3, Limits: map[int]uint32{0: 1000, 1: 2000}}, Unknown: 1}
	host := api.LLDP{Node: "host0", LLDPPort: ctl.LLDPPort{Port: "eth1", Neighbour: leaf, LLR: true, WantLLR: true, Limit: 1000, Counters: map[string]uint64{"tx": 3, "rx": 4, "inserted": 1}}}
	if node != "" {
		return []api.LLDP{host}
	}
	return []api.LLDP{host,
		{Node: "leaf0", Mistake: "leaf0 eth3: LLDP neighbour leaf0 eth4, expected leaf1 eth3",
			LLDPPort: ctl.LLDPPort{Port: "eth3", Neighbour: &ctl.LLDPNeighbour{Chassis: "02:00:00:00:01:01", Port: "eth4", System: "leaf0", TTLSec: 4}, Counters: map[string]uint64{}}},
		{Node: "leaf1", Mistake: "leaf1 eth1: no LLDP neighbour, expected host1 eth1", LLDPPort: ctl.LLDPPort{Port: "eth1", Counters: map[string]uint64{"tx": 9}}}}
}

// TestWiringIsChecked prints what is wrong, a line each, and fails; a node whose ports are right passes.
func TestWiringIsChecked(t *testing.T) {
	here(t)
	fakeLab(t, "one")
	o := runLine(t, context.Background(), "lldp --check")
	if want := "leaf0 eth3: LLDP neighbour leaf0 eth4, expected leaf1 eth3\nleaf1 eth1: no LLDP neighbour, expected host1 eth1\n"; o.code != 1 || o.out != want || !strings.Contains(o.err, "2 ports") {
		t.Errorf("code %d, %q, %q", o.code, o.out, o.err)
	}
	if o = runLine(t, context.Background(), "lldp host0 --check"); o.code != 0 || o.out != "" || o.err != "" {
		t.Errorf("all is right: code %d, %q, %q", o.code, o.out, o.err)
	}
	if o = runLine(t, context.Background(), "lldp --check --format json"); o.code != 1 || strings.Count(o.out, "mistake") != 2 {
		t.Errorf("code %d, %q", o.code, o.out)
	}
}
