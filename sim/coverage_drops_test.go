package sim

import (
	"testing"
	"time"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/fep"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/switchd"
	"github.com/uetlab/uetlab/workload"
)

// lost sums what the ports of a fabric dropped, by reason.
func lost(f *Fabric) map[link.Counter]uint64 {
	sum := map[link.Counter]uint64{}
	for _, n := range f.nodes {
		for _, p := range n.Ports {
			for c := range link.NumCounters {
				if c.IsDrop() && p.C[c] > 0 {
					sum[c] += p.C[c]
				}
			}
		}
	}
	return sum
}

// The three causes of drops are told apart by the counters: congestion, corruption, configuration. All are repaired.
func TestThreeCausesOfDrops(t *testing.T) {
	for _, c := range []struct {
		name, workload string
		change         func(set *switchd.Settings)
		harm           func(plan *topology.Plan, f *Fabric)
		reasons        []link.Counter
	}{
		{"congestion", workload.Incast, func(set *switchd.Settings) { set.Trim.Enabled = false }, nil, []link.Counter{link.DropQueue}},
		{"corruption", workload.Sendrecv, nil, func(plan *topology.Plan, f *Fabric) {
			impair(t, plan, f, "leaf0", "spine0", link.Impair{BER: 1e-6})
		}, []link.Counter{link.DropFCS}},
		{"configuration", workload.Permutation, nil, func(plan *topology.Plan, f *Fabric) {
			failLeaf0(t, plan, f, t0.Add(10*time.Microsecond)) // routes that are wrong for a while
		}, []link.Counter{link.DropCut, link.DropDown, link.DropNoRoute}},
	} {
		plan, f := fromFile(t, "name: causes\nfabric: {kind: leaf-spine, spines: 2, leaves: 3, hostsPerLeaf: 4}\n", c.change)
		if c.harm != nil {
			c.harm(plan, f)
		}
		res, err := f.Run(spec(t, plan, c.workload, 1<<20, 1), t0, Options{})
		if err != nil || !*res.Correct {
			t.Fatalf("%s: correct %v, %v", c.name, *res.Correct, err)
		}
		found := lost(f)
		t.Logf("%s: %d packets, drops %v, %d retransmissions", c.name, res.Packets, found, res.Retransmits)
		sum := uint64(0)
		for _, r := range c.reasons {
			sum += found[r]
			delete(found, r)
		}
		if sum == 0 || len(found) != 0 || res.Retransmits == 0 {
			t.Errorf("%s: %d drops for this cause, others %v", c.name, sum, found)
		}
	}
}

// A switch drops a corrupt frame whole, since nothing in it can be trusted: no trimmed copy tells of it, no NACK asks for it.
func TestTrimmingCannotRevealCorruption(t *testing.T) {
	plan, f := build(t, "fat-tree-2x4")
	impair(t, plan, f, "leaf0", "spine0", link.Impair{BER: 1e-6})
	res, err := f.Run(spec(t, plan, workload.Sendrecv, 4<<20, 1), t0, Options{})
	if err != nil || !*res.Correct {
		t.Fatalf("correct %v, %v", *res.Correct, err)
	}
	var trimmed, nacks uint64
	for _, id := range hosts(plan) {
		c := &f.nodes[id].FEP.C
		trimmed, nacks = trimmed+c[fep.Trimmed], nacks+c[fep.NackTxTrim]
	}
	found := lost(f)
	t.Logf("%d corrupt frames, %d trimmed, %d NACKs for trimmed packets, %d retransmissions", found[link.DropFCS], res.Trims, nacks, res.Retransmits)
	if found[link.DropFCS] == 0 || len(found) != 1 || res.Retransmits == 0 {
		t.Errorf("drops %v, %d retransmissions: nothing to tell", found, res.Retransmits)
	}
	if res.Trims+trimmed+nacks != 0 {
		t.Errorf("corruption was told by trimming: %d trimmed, %d received, %d NACKs", res.Trims, trimmed, nacks)
	}
}

// Trimming at an incast of full windows beside dropping with the same queues: what was cut does not cross the last link, the receiver is told
// at once, and the whole ends sooner.
func TestWhatTrimmingSaves(t *testing.T) {
	type outcome struct {
		took          time.Duration
		onLine, saved uint64 // bytes of trimmed packets on the last link; of what they were before
		tail          uint64 // retransmissions that waited for a timeout
	}
	run := func(trim bool) (o outcome) {
		plan, f := fromFile(t, "name: one\nfabric: {kind: star, hosts: 9}\ndefaults: {fep: {cc: fixed}}\n", func(set *switchd.Settings) { set.Trim.Enabled = trim })
		root := plan.Nodes[hosts(plan)[0]].Ports[0]
		f.Tap(root.Peer, root.PeerIdx, func(fr *link.Frame) {
			if fr.Queue == 2 {
				o.onLine += uint64(len(fr.B))
				o.saved += uint64(plan.PayloadMTU)
			}
		})
		res, err := f.Run(spec(t, plan, workload.Incast, 1<<20, 1), t0, Options{})
		if err != nil || !*res.Correct {
			t.Fatalf("trimming %v: correct %v, %v", trim, *res.Correct, err)
		}
		for _, id := range hosts(plan) {
			o.tail += f.nodes[id].FEP.C[fep.RTO]
		}
		o.took = time.Duration(res.FCT.Max)
		return o
	}
	with, without := run(true), run(false)
	t.Logf("with trimming %v, %d timeouts, %d bytes of trimmed packets for %d of payload; without %v, %d timeouts", with.took, with.tail, with.onLine, with.saved, without.took, without.tail)
	if with.onLine == 0 || with.onLine*20 > with.saved {
		t.Errorf("trimmed packets take %d bytes for %d of payload", with.onLine, with.saved)
	}
	if with.took >= without.took {
		t.Errorf("it takes %v with trimming, %v without", with.took, without.took)
	}
}
