package sim

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/link/llr"
	"github.com/uetlab/uetlab/wire"
	"github.com/uetlab/uetlab/workload"
)

// struck is a permutation of 2 MiB on a fabric like fat-tree-2x4, and how many frames were hit on the links that its slowest flow can take.
type struck struct {
	res    workload.Result
	all    int // in the whole fabric
	hits   int // data or ACKs on the links of the slowest flow
	timers int // replay timers that ran out, in the whole fabric
}

func strike(t *testing.T, with, fep string, seed uint64) (r struck) {
	t.Helper()
	plan, f := fromFile(t, fmt.Sprintf("name: ft\nfabric: {kind: leaf-spine, spines: 2, leaves: 4, hostsPerLeaf: 2}\ndefaults: {link: {%s}%s}\n", with, fep), nil)
	s := spec(t, plan, workload.Permutation, 2<<20, seed)
	s.Check = false
	dst := make([]int, s.Ranks)
	for rank, id := range s.Nodes {
		f.Tap(id, 0, func(fr *link.Frame) {
			for i, to := range s.Nodes {
				if len(fr.B) > 1500 && bytes.Equal(fr.B[wire.EthLen+16:wire.EthLen+20], plan.Nodes[to].Addr4.AsSlice()) {
					dst[rank] = i
				}
			}
		})
	}
	var err error
	if r.res, err = f.Run(s, t0, Options{}); err != nil || r.res.Fidelity.Verdict != "exact" {
		t.Fatalf("%s, seed %d: %s, %v", with, seed, r.res.Fidelity.Verdict, err)
	}
	slow := 0
	for rank := range s.Ranks {
		if f.results[rank].Iterations[0].AckedNs > f.results[slow].Iterations[0].AckedNs {
			slow = rank
		}
	}
	for _, n := range f.nodes {
		for _, p := range n.Ports {
			r.timers += int(p.C.LLR()[llr.TxTimeouts])
		}
	}
	src, to := s.Nodes[slow], s.Nodes[dst[slow]]
	for _, l := range plan.Links {
		n := int(hit(f, l.A) + hit(f, l.B))
		r.all += n
		for _, e := range []topology.End{l.A, l.B} {
			if e.Node == src || e.Node == to || plan.Nodes[l.B.Node].FEP == nil && plan.Nodes[l.A.Node].FEP == nil && (e.Node == plan.Nodes[src].Ports[0].Peer || e.Node == plan.Nodes[to].Ports[0].Peer) {
				r.hits += n
				break
			}
		}
	}
	return r
}

// hit is how many frames arrived broken at an end of a link.
func hit(f *Fabric, e topology.End) uint64 {
	c := &f.nodes[e.Node].Ports[e.Port].C
	return c[link.DropFCS] + c[link.DropPreamble]
}

// TestLLRSeeds has one bit in 10^8 arrive wrong on all links, seed by seed. Nothing is sent again from end to end, unless for a packet that was trimmed in a run that trims on
// clean links too. On the mean over seeds both the slowest flow and all flows are within 5 % of the same run on clean links without link layer retry. Nobody can promise that of
// every seed: a hit takes a round trip of its link, and three on the way of one flow are 7 % of it. A seed beyond 5 % had as many, or a frame that was hit again when it was sent again, which the
// replay timer has to rescue; and none is later than its hits explain. UETLAB_LLR_SEEDS sets how many seeds are tried.
func TestLLRSeeds(t *testing.T) {
	seeds := count(t, "UETLAB_LLR_SEEDS", 40)
	for _, c := range []struct{ name, fep string }{{"ai-full as it comes", ""}, {"fixed windows, spraying", ", fep: {cc: fixed, lb: spray, ack: coalesced}"}} {
		var slowest, mean, worst float64
		var all, beyond int
		for seed := uint64(1); seed <= seeds; seed++ {
			clean, r := strike(t, "llr: off", c.fep, seed), strike(t, "llr: on, ber: 1e-8", c.fep, seed)
			s, m := float64(r.res.FCT.Max)/float64(clean.res.FCT.Max), float64(r.res.FCT.Mean)/float64(clean.res.FCT.Mean)
			slowest, mean, worst, all = slowest+s/float64(seeds), mean+m/float64(seeds), max(worst, s), all+r.all
			if s > within {
				beyond++
			}
			if why := r.beyond(&clean, s, m); why != "" || s > within {
				t.Logf("%s, seed %d: slowest %.3f of clean, mean %.3f, %d hits on the links of the slowest, %d replay timers", c.name, seed, s, m, r.hits, r.timers)
				if why != "" {
					t.Errorf("seed %d: %s", seed, why)
				}
			}
		}
		t.Logf("%s: slowest %+.1f %%, mean %+.1f %%, worst seed %+.1f %%, %d of %d seeds above 5 %%, %.1f hits a run", c.name, 100*(slowest-1), 100*(mean-1), 100*(worst-1), beyond, seeds, float64(all)/float64(seeds))
		if slowest > within || mean > within || all == 0 {
			t.Errorf("%s: slowest %.3f and mean %.3f of clean, %d hits", c.name, slowest, mean, all)
		}
	}
}

const within = 1.05

// beyond says what a run does that its hits do not explain, slowest and mean being what the completion times are of those on clean links.
func (r *struck) beyond(clean *struck, slowest, mean float64) string {
	const roundTrip = 1340 * time.Nanosecond // there and back, the frame itself, one that the NACK waits for and one that the replay does
	const timer = 10 * time.Microsecond      // the replay timer, and the whole window once more
	late := time.Duration(r.res.FCT.Max - clean.res.FCT.Max)
	switch {
	case r.res.Retransmits > r.res.Trims || r.res.Retransmits > 0 && clean.res.Trims == 0:
		return fmt.Sprintf("%d retransmissions, %d trims, on clean links %d", r.res.Retransmits, r.res.Trims, clean.res.Trims)
	case r.timers == 0 && (mean > within || slowest > within && r.hits < 3):
		return "too late for so few hits"
	case late > time.Duration(r.hits+2)*roundTrip+time.Duration(r.timers)*timer: // two more: hits of others send their packets our way
		return fmt.Sprintf("%v late", late)
	}
	return ""
}

// count is a number of cases to try: that of an environment variable, or else what continuous integration has time for.
func count(t *testing.T, name string, auto uint64) uint64 {
	v := os.Getenv(name)
	if v == "" {
		return auto
	}
	n, err := strconv.ParseUint(v, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
