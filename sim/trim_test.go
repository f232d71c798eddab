package sim

import (
	"slices"
	"testing"
	"time"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/fep"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/wire"
	"github.com/uetlab/uetlab/workload"
)

// incast8 has eight end points send 1 MiB each to a ninth, and taps the link to it.
func incast8(t *testing.T, tap func(f *link.Frame)) (*topology.Plan, *Fabric, workload.Result) {
	t.Helper()
	plan, f := build(t, "star-9")
	root := hosts(plan)[0]
	f.Tap(plan.Nodes[root].Ports[0].Peer, plan.Nodes[root].Ports[0].PeerIdx, tap)
	res, err := f.Run(spec(t, plan, workload.Incast, 1<<20, 1), t0, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return plan, f, res
}

// TestTrimmedIncastLosesNothing has a switch trim at 8:1 incast: whatever does not fit comes to the receiver as a trimmed
// packet or is counted, and the receiver learns of each loss within a round trip.
func TestTrimmedIncastLosesNothing(t *testing.T) {
	var learned []time.Duration // from the switch's decision to the receiver's knowledge
	plan, f, res := incast8(t, func(fr *link.Frame) {
		if p, err := wire.ParseUET(fr.B, 0); err == nil && p.DSCP == 36 {
			learned = append(learned, fr.Due.Sub(fr.Queued))
		}
	})
	root := f.nodes[hosts(plan)[0]]
	c := root.FEP.C
	var sw, dropped uint64
	for _, p := range f.nodes[plan.Nodes[root.ID].Ports[0].Peer].Ports {
		sw += p.C[link.Trimmed]
		dropped += p.C[link.DropTrim]
		if n := p.C.Drops(); n != p.C[link.DropTrim] {
			t.Errorf("port %d drops %d frames, %d of them trimmed", p.Index, n, p.C[link.DropTrim])
		}
	}
	if sw == 0 || sw != c[fep.Trimmed]+dropped || uint64(len(learned)) != c[fep.Trimmed] || res.Trims != sw {
		t.Errorf("%d trimmed at the switch, %d of these lost and counted, %d reached the receiver, %d seen on the link, %d in the result", sw, dropped, c[fep.Trimmed], len(learned), res.Trims)
	}
	// Every packet was accepted once. What was sent beyond that had been trimmed, or had been given up too early.
	if want := c[fep.DataRx] + c[fep.DupRx] + sw; res.Packets != want {
		t.Errorf("%d packets sent; %d accepted, %d duplicates and %d trimmed make %d", res.Packets, c[fep.DataRx], c[fep.DupRx], sw, want)
	}
	if c[fep.NackTxTrim] != c[fep.Trimmed] {
		t.Errorf("%d trimmed packets have %d NACKs", c[fep.Trimmed], c[fep.NackTxTrim])
	}
	slices.Sort(learned)
	t.Logf("%d packets, %d trimmed; the receiver learns of a loss within (base RTT %v):", res.Packets, sw, plan.BaseRTT)
	for part := range 8 {
		below := plan.BaseRTT * time.Duration(part+1) / 8
		n, _ := slices.BinarySearch(learned, below)
		t.Logf("  < %8v %6d", below, n)
	}
	if worst := learned[len(learned)-1]; worst >= plan.BaseRTT {
		t.Errorf("the receiver learned of a loss after %v; the base RTT is %v", worst, plan.BaseRTT)
	}
}

// TestTRIM15 has a trimmed request answered with a NACK and sent again within two round trips.
func TestTRIM15(t *testing.T) {
	type key struct {
		psn wire.PSN
		src [4]byte
	}
	cut := map[key]time.Duration{}
	var again []time.Duration
	plan, f := managed(t, "star-9", fixedWindow) // else what is sent again waits for room
	root := hosts(plan)[0]
	read := func(fr *link.Frame) (k key, r wire.Request, dscp uint8, ok bool) {
		p, err := wire.ParseUET(fr.B, 0)
		if err != nil || !p.Type().IsRequest() {
			return k, nil, 0, false
		}
		r, err = wire.ParseRequest(p.UET)
		if err != nil {
			return k, nil, 0, false
		}
		k.psn, k.src = r.PSN(), [4]byte(p.IP[12:16])
		return k, r, p.DSCP, true
	}
	f.Tap(plan.Nodes[root].Ports[0].Peer, plan.Nodes[root].Ports[0].PeerIdx, func(fr *link.Frame) {
		if k, _, dscp, ok := read(fr); ok && (dscp == 34 || dscp == 36) {
			if _, twice := cut[k]; !twice {
				cut[k] = time.Duration(fr.Queued)
			}
		}
	})
	for _, id := range hosts(plan)[1:] {
		f.Tap(id, 0, func(fr *link.Frame) {
			k, r, _, ok := read(fr)
			if at, lost := cut[k]; ok && lost && r.RETX() {
				again = append(again, time.Duration(fr.Due)-at)
				delete(cut, k)
			}
		})
	}
	res, err := f.Run(spec(t, plan, workload.Incast, 100_000, 1), t0, Options{})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(again)
	if len(again) == 0 || len(cut) != 0 || !*res.Correct {
		t.Fatalf("%d retransmissions, %d trimmed requests without one, correct %v", len(again), len(cut), *res.Correct)
	}
	t.Logf("%d trimmed requests were sent again after %v to %v; two base RTTs are %v", len(again), again[0], again[len(again)-1], 2*plan.BaseRTT)
	if worst := again[len(again)-1]; worst > 2*plan.BaseRTT {
		t.Errorf("a trimmed request was sent again after %v only", worst)
	}
}
