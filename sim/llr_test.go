package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/internal/ctl"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/link/llr"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/workload"
)

// retries is what a permutation of 2 MiB on a small Clos fabric comes to, over some seeds.
type retries struct {
	slowest, mean time.Duration // completion times of flows
	retx, bad     uint64
	c             llr.Counters
}

func permute(t *testing.T, mode, ber string, seeds uint64) (r retries) {
	t.Helper()
	plan, f := fromFile(t, fmt.Sprintf("name: ft\nfabric: {kind: leaf-spine, spines: 2, leaves: 4, hostsPerLeaf: 2}\ndefaults: {link: {llr: %s, ber: %s}}\n", mode, ber), nil)
	for seed := range seeds {
		res, err := f.Run(spec(t, plan, workload.Permutation, 2<<20, seed+1), f.Now().Add(time.Millisecond), Options{})
		if err != nil || !*res.Correct || res.Fidelity.Verdict != "exact" {
			t.Fatalf("llr %s, ber %s: %s, %v", mode, ber, res.Fidelity.Verdict, err)
		}
		r.slowest += time.Duration(res.FCT.Max) / time.Duration(seeds)
		r.mean += time.Duration(res.FCT.Mean) / time.Duration(seeds)
		r.retx += res.Retransmits
	}
	for _, n := range f.nodes {
		for _, p := range n.Ports {
			for c, v := range p.C.LLR() {
				r.c[c] += v
			}
			r.bad += p.C[link.DropFCS] + p.C[link.DropPreamble]
		}
	}
	t.Logf("llr %-3s ber %-4s: slowest %v, mean %v, %d bad frames, %d NACKs, %d replayed, %d timeouts, %d flushes, %d retransmissions end to end", mode, ber, r.slowest, r.mean,
		r.bad, r.c[llr.TxNack], r.c[llr.TxReplayed], r.c[llr.TxTimeouts], r.c[llr.TxFlushes], r.retx)
	return r
}

// TestLLRPermutation has bits arrive wrong on all links. With link layer retry and one in 10^8 nothing is sent again from end to end
// and completion times stay within 5 % of those of a clean fabric; with more of them it costs less than doing without.
func TestLLRPermutation(t *testing.T) {
	const seeds = 5
	clean := permute(t, "off", "0", seeds)
	idle := permute(t, "on", "0", seeds)
	if idle.retx != 0 || idle.c[llr.TxNack] != 0 || idle.c[llr.TxReplayed] != 0 || clean.c != (llr.Counters{}) {
		t.Error("a clean fabric replays, or one without LLR counts something")
	}
	for _, ber := range []string{"1e-8", "1e-7", "1e-6"} {
		with, without := permute(t, "on", ber, seeds), permute(t, "off", ber, seeds)
		if ber == "1e-8" && (with.retx != 0 || with.slowest > clean.slowest*105/100 || with.mean > clean.mean*105/100) {
			t.Errorf("ber %s: %d retransmissions, %v and %v, on a clean fabric %v and %v", ber, with.retx, with.slowest, with.mean, clean.slowest, clean.mean)
		}
		if with.bad == 0 || with.retx >= without.retx || with.slowest >= without.slowest {
			t.Errorf("ber %s: with LLR %v and %d retransmissions, without %v and %d", ber, with.slowest, with.retx, without.slowest, without.retx)
		}
		if c := &with.c; c[llr.RxOK]+c[llr.RxPoisoned]+c[llr.RxBad] != c[llr.RxExpected]+c[llr.RxExpPoisoned]+c[llr.RxExpBad]+c[llr.RxMissing]+c[llr.RxDuplicate] {
			t.Errorf("ber %s: frames by FCS and by number are not the same: %v", ber, c)
		}
	}
}

// TestLLRTurnedOn turns link layer retry on and off at one time at both ends of every link while a workload runs.
func TestLLRTurnedOn(t *testing.T) {
	plan, f := fromFile(t, "name: ft\nfabric: {kind: leaf-spine, spines: 2, leaves: 2, hostsPerLeaf: 2}\ndefaults: {link: {ber: 1e-7}}\n", nil)
	for i := range plan.Links {
		turn(t, f, plan, i, t0.Add(10*time.Microsecond), true)
		turn(t, f, plan, i, t0.Add(40*time.Microsecond), false)
		turn(t, f, plan, i, t0.Add(60*time.Microsecond), true)
	}
	res, err := f.Run(spec(t, plan, workload.Alltoall, 8<<20, 1), t0, Options{})
	if err != nil || !*res.Correct {
		t.Fatalf("correct %v, %v", *res.Correct, err)
	}
	for _, n := range f.nodes {
		for i, p := range n.Ports {
			if c := p.C.LLR(); p.LLR() == nil || c[llr.TxInit] < 2 || c[llr.TxState] != uint64(llr.Advance) || c[llr.TxOK] == 0 || c[llr.RingFrames] != 0 {
				t.Errorf("node %d port %d: %v", n.ID, i, c)
			}
		}
	}
}

func turn(t *testing.T, f *Fabric, plan *topology.Plan, id int, at vt.Time, on bool) {
	t.Helper()
	c := ctl.Change{At: at, Retry: &ctl.Retry{}}
	if on {
		c.Retry.LLR = plan.Retry(id)
	}
	for _, e := range []topology.End{plan.Links[id].A, plan.Links[id].B} {
		c.Port = e.Port
		if err := f.Change(e.Node, c); err != nil {
			t.Fatal(err)
		}
	}
}
