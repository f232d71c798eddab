package sim

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/fep"
	"github.com/uetlab/uetlab/internal/faults"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
	"github.com/uetlab/uetlab/workload"
)

// lossy makes all links of a fabric lose frames from t0 on.
func lossy(t testing.TB, plan *topology.Plan, f *Fabric, loss float64) {
	t.Helper()
	var list []faults.Fault
	for id := range plan.Links {
		list = append(list, faults.Fault{At: t0, Link: id, From: faults.Both, Op: faults.Change, Set: faults.Set{Loss: &loss}})
	}
	batch, err := faults.New(plan).Schedule(list...)
	if err == nil {
		err = batch.Each(f.Change)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// goodput sends size bytes both ways over a pair.
func goodput(t testing.TB, size int64, ordered bool, loss float64) (workload.Result, fep.Counters) {
	t.Helper()
	plan, f := build(t, "pair")
	lossy(t, plan, f, loss)
	s := spec(t, plan, workload.Sendrecv, size, 1)
	s.Check, s.Ordered = false, ordered
	res, err := f.Run(s, t0, Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := f.nodes[0].FEP.C
	for i, v := range f.nodes[1].FEP.C {
		c[i] += v
	}
	return res, c
}

// TestGoodputUnderLoss: with 1 % of all frames lost, at random and both ways, and nothing that trims, RUD has 97 % of the goodput
// without loss. Lost retransmissions are inferred like other losses: no timer of a packet runs out. ROD goes back, and
// pays for each loss with a window. UETLAB_PDS_GIB=1 sends 1 GiB.
func TestGoodputUnderLoss(t *testing.T) {
	size := int64(128 << 20)
	if os.Getenv("UETLAB_PDS_GIB") != "" {
		size = 1 << 30
	}
	for _, mode := range []struct {
		name    string
		ordered bool
		least   float64
	}{{"RUD", false, 0.97}, {"ROD", true, 0.80}} {
		clean, _ := goodput(t, size, mode.ordered, 0)
		res, c := goodput(t, size, mode.ordered, 0.01)
		share := float64(clean.FCT.Max) / float64(res.FCT.Max)
		t.Logf("%s, %d MiB both ways: %.2f Gb/s without loss, %.2f Gb/s with 1 %%: %.2f %%; %d drops, %d sent again, %d by inference, %d tail probes, %d timeouts",
			mode.name, size>>20, clean.AlgBW, res.AlgBW, share*100, res.Drops, res.Retransmits, c[fep.RetxInfer], c[fep.TailProbes], c[fep.RTO])
		if share < mode.least {
			t.Errorf("%s: %.2f %% of the goodput without loss, want %.0f %%", mode.name, share*100, mode.least*100)
		}
		if clean.Retransmits != 0 {
			t.Errorf("%s: %d packets sent again without loss", mode.name, clean.Retransmits)
		}
		if c[fep.RTO] != 0 {
			t.Errorf("%s: %d timeouts", mode.name, c[fep.RTO])
		}
	}
}

// TestOrderedIncast: eight ordered flows into one port that trims come to an end, however little room there is. Each goes back when a
// packet is cut, and what it sends behind that one is thrown away: with full windows nothing else would ever pass.
func TestOrderedIncast(t *testing.T) {
	for _, p := range []topology.FEPParams{{}, fixedWindow} {
		plan, f := managed(t, "star-9", p)
		s := spec(t, plan, workload.Incast, 1<<20, 1)
		s.Check, s.Ordered = false, true
		res, err := f.Run(s, t0, Options{Until: t0.Add(2 * time.Millisecond)})
		if err != nil {
			t.Fatal(err)
		}
		if res.AlgBW < 15 || res.Retransmits > 8000 {
			t.Errorf("cc %q: %.1f Gb/s for each of eight, %d packets sent again", p.CC, res.AlgBW, res.Retransmits)
		}
	}
}

// TestOrderedCollisions: ordered flows that meet on an uplink come to an end as well; after going back they do not creep.
func TestOrderedCollisions(t *testing.T) {
	for seed := range uint64(4) {
		plan, f := build(t, "fat-tree-2x4")
		s := spec(t, plan, workload.Permutation, 1<<20, 1)
		s.Seed, s.Ordered = seed, true
		res, err := f.Run(s, t0, Options{})
		if err != nil || !*res.Correct {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if took := time.Duration(res.FCT.Max); took > 350*time.Microsecond {
			t.Errorf("seed %d: %v, %d packets sent again", seed, took, res.Retransmits)
		}
	}
}

// TestRecoveryTimes measures how long it takes from the sending of a packet that is lost, or trimmed, to that of the copy that comes
// through the sender's own link, and logs a table of it (docs/delivery.md has it). Windows are fixed: else it tells how long the window was closed.
func TestRecoveryTimes(t *testing.T) {
	for _, c := range []struct {
		name    string
		topo    string
		what    string
		size    int64
		loss    float64
		ordered bool
		worst   float64 // of the median, in base RTTs
	}{
		{"RUD, loss in the middle of a flow", "pair", workload.Sendrecv, 32 << 20, 0.01, false, 2.5},
		{"RUD, fabric of many paths", "fat-tree-2x4", workload.Permutation, 8 << 20, 0.001, false, 4},
		{"ROD, loss in the middle of a flow", "pair", workload.Sendrecv, 32 << 20, 0.01, true, 2},
		{"RUD, trimmed by a switch", "star-9", workload.Incast, 1 << 20, 0, false, 2},
		{"RUD, message of one packet", "pair", workload.Sendrecv, 4096, 0.05, false, 7},
		{"ROD, message of one packet", "pair", workload.Sendrecv, 4096, 0.05, true, 4},
	} {
		plan, f := managed(t, c.topo, fixedWindow)
		lossy(t, plan, f, c.loss)
		var times []time.Duration
		for _, id := range hosts(plan) {
			f.Tap(id, 0, sentAgain(&times))
		}
		s := spec(t, plan, c.what, c.size, 1)
		s.Ordered = c.ordered
		if c.size == 4096 {
			s.Iters = 500
		}
		if _, err := f.Run(s, t0, Options{}); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if len(times) == 0 {
			t.Errorf("%s: nothing was sent again", c.name)
			continue
		}
		slices.Sort(times)
		at := func(q float64) time.Duration { return times[int(q*float64(len(times)-1))] }
		t.Logf("%-36s %6d times  base RTT %-8v median %-9v 99 %% %-9v longest %v", c.name, len(times), plan.BaseRTT, at(.5), at(.99), at(1))
		if most := time.Duration(c.worst * float64(plan.BaseRTT)); at(.5) > most {
			t.Errorf("%s: the median is %v, want at most %v", c.name, at(.5), most)
		}
	}
}

// sentAgain notes the time between the sending of a packet and that of the copy that comes through.
func sentAgain(times *[]time.Duration) func(*link.Frame) {
	type key struct {
		pdc uint16
		psn wire.PSN
	}
	last := map[key]vt.Time{}
	return func(fr *link.Frame) {
		in, err := wire.ParseUET(fr.B, 0)
		if err != nil || !in.Type().IsRequest() {
			return
		}
		r, err := wire.ParseRequest(in.UET)
		if err != nil {
			return
		}
		k := key{r.SPDCID(), r.PSN()}
		if r.RETX() {
			before := k
			for n := 0; last[before] == 0 && n < 100; n++ { // a frame that the line loses is not shown: the one before it left a moment earlier
				before.psn--
			}
			*times = append(*times, fr.Due.Sub(last[before]))
		}
		last[k] = fr.Due
	}
}
