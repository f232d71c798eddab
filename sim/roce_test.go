package sim

import (
	"fmt"
	"testing"

	"github.com/uetlab/uetlab/fep"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/workload"
)

// TestRoCEBesideUET has eight end points send to one. As RoCEv2 does it, from one key of the topology, nothing is lost or trimmed: switches
// stop who sends, back to the end points, and notifications slow the flows down. UET trims and stops nobody.
func TestRoCEBesideUET(t *testing.T) {
	for _, roce := range []bool{true, false} {
		fep4 := "cc: nscc, lb: oblivious"
		if roce {
			fep4 = "transport: roce"
		}
		plan, f := fromFile(t, fmt.Sprintf("name: x\nfabric: {kind: leaf-spine, spines: 2, leaves: 4, hostsPerLeaf: 4}\ndefaults:\n  fep: {%s}\n", fep4), nil)
		r, err := f.Run(spec(t, plan, workload.Incast, 2<<20, 1), t0, Options{})
		if err != nil || !*r.Correct {
			t.Fatalf("roce %v: %v", roce, err)
		}
		var c fep.Counters
		var pauses uint64
		least := 1e18
		for _, id := range hosts(plan) {
			n := f.nodes[id]
			pauses += n.Ports[0].C[link.PauseRx]
			for i, v := range n.FEP.C {
				c[i] += v
			}
			for _, p := range n.FEP.PDCs(nil) {
				if p.CC != nil && p.CC.Rate > 0 {
					least = min(least, p.CC.Rate)
				}
			}
		}
		t.Logf("roce %v: %.3f x ideal, %d drops, %d trims, %d sent again, %d PFC frames to end points, %d CE, %d CNPs, slowest %.1f Gb/s",
			roce, r.Ratio, r.Drops, r.Trims, r.Retransmits, pauses, c[fep.CEMarked], c[fep.CNPTx], least/1e9)
		if r.Drops != 0 {
			t.Errorf("roce %v: %d drops", roce, r.Drops)
		}
		if roce && (r.Trims != 0 || r.Retransmits != 0 || pauses == 0 || c[fep.RODDrop] != 0) {
			t.Errorf("RoCE: %d trims, %d sent again, %d PFC frames: want PFC and nothing lost", r.Trims, r.Retransmits, pauses)
		}
		if roce && (c[fep.CNPTx] == 0 || c[fep.CNPTx] != c[fep.CNPRx] || c[fep.CNPTx]*10 > c[fep.CEMarked] || least > 200e9) {
			t.Errorf("RoCE: %d notifications sent, %d received for %d marks, slowest %g bit/s: want few, and slow flows", c[fep.CNPTx], c[fep.CNPRx], c[fep.CEMarked], least)
		}
		if !roce && (r.Trims == 0 || pauses != 0 || c[fep.CNPTx] != 0) {
			t.Errorf("UET: %d trims, %d PFC frames, %d notifications: want trims only", r.Trims, pauses, c[fep.CNPTx])
		}
	}
}

// TestRoCEAcrossAFabric: all flows of a permutation stay in order on one path each, and end.
func TestRoCEAcrossAFabric(t *testing.T) {
	plan, f := fromFile(t, "name: x\nfabric: {kind: leaf-spine, spines: 2, leaves: 4}\ndefaults:\n  fep: {transport: roce}\n", nil)
	r, err := f.Run(spec(t, plan, workload.Permutation, 1<<20, 1), t0, Options{})
	if err != nil || !*r.Correct || r.Drops != 0 || r.Trims != 0 || r.Retransmits != 0 {
		t.Fatalf("%v: %d drops, %d trims, %d sent again", err, r.Drops, r.Trims, r.Retransmits)
	}
	for _, n := range f.nodes {
		if n.FEP != nil && n.FEP.C[fep.RODDrop] != 0 {
			t.Errorf("%d packets were out of order", n.FEP.C[fep.RODDrop])
		}
	}
}
