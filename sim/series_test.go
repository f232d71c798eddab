package sim

import (
	"reflect"
	"testing"
	"time"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/fep"
	"github.com/uetlab/uetlab/internal/ctl"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/nodecore"
	"github.com/uetlab/uetlab/workload"
)

// TestSeriesChangesNothing runs an incast with and without a series, under several kinds of congestion management: all but the
// series is the same, and the series agrees with what was counted.
func TestSeriesChangesNothing(t *testing.T) {
	for _, p := range []topology.FEPParams{fixedWindow, {}, {CC: "nscc", LB: "reps", ACK: "packet"}, {CC: "dcqcn", LB: "ecmp"}, {CC: "rccc", LB: "oblivious"}, {CC: "swift", LB: "plb"}} {
		run := func(every time.Duration) (*topology.Plan, *Fabric, workload.Result) {
			plan, f := managed(t, "fat-tree-2x4", p)
			s := spec(t, plan, workload.Incast, 256<<10, 1)
			s.Every = every
			r, err := f.Run(s, t0, Options{})
			if err != nil {
				t.Fatal(err)
			}
			return plan, f, r
		}
		_, _, bare := run(0)
		plan, f, r := run(time.Microsecond)
		s := r.Series
		r.Series = nil
		if bare.Series != nil || !reflect.DeepEqual(r, bare) {
			t.Errorf("%+v: a run with a series differs:\n%+v\n%+v", p, r, bare)
		}
		if s == nil || s.LeftOut != 0 || s.EveryNs != 1000 {
			t.Fatalf("%+v: series %+v", p, s)
		}
		agree(t, plan, f, s)
		if p.CC == "fixed" {
			if len(s.Contexts) != 0 {
				t.Errorf("a fixed window has contexts: %+v", s.Contexts)
			}
			continue
		}
		if len(s.Contexts) < 7 {
			t.Errorf("%+v: %d contexts", p, len(s.Contexts))
		}
		for _, c := range s.Contexts {
			last := int64(-1)
			for i, x := range c.Points {
				if x.AtNs < last || (x.Decision == "opened") != (i == 0) {
					t.Fatalf("%+v: %s to %s: point %d is %+v", p, c.Node, c.Peer, i, x)
				}
				last = x.AtNs
			}
		}
	}
}

// agree compares the series of ports with their counters.
func agree(t *testing.T, plan *topology.Plan, f *Fabric, s *workload.Series) {
	t.Helper()
	sum, peak := map[string]int64{}, map[string]int64{}
	for _, p := range s.Ports {
		if len(p.Depth) != len(p.Sent) {
			t.Fatalf("%s %s: %d depths, %d rates", p.Node, p.Port, len(p.Depth), len(p.Sent))
		}
		for i := range p.Sent {
			sum[p.Node+p.Port] += p.Sent[i]
			peak[p.Node+p.Port] = max(peak[p.Node+p.Port], p.Depth[i])
		}
	}
	for i, n := range f.nodes {
		for k, p := range n.Ports {
			name := plan.Nodes[i].Name + plan.Nodes[i].Ports[k].Name
			if most := int64(p.C[link.QueuePeak]); peak[name] != most {
				t.Errorf("%s: at most %d waited by the series, %d by the counter", name, peak[name], most)
			}
			if least := int64(p.C[link.TxBytes] + 24*p.C[link.TxFrames]); sum[name] < least {
				t.Errorf("%s: %d line bytes by the series, at least %d by the counters", name, sum[name], least)
			}
		}
	}
}

// TestSeriesHasLittleRoom lets nodes keep a few samples only: the others are counted, and what is kept is the beginning of all.
func TestSeriesHasLittleRoom(t *testing.T) {
	p := topology.FEPParams{CC: "nscc", LB: "reps"}
	run := func(keep int) *workload.Series {
		plan, f := managed(t, "fat-tree-2x4", p)
		s := spec(t, plan, workload.Incast, 256<<10, 1)
		s.Every = 100
		ranks := map[int][]int{}
		for r, id := range s.Nodes {
			ranks[id] = append(ranks[id], r)
		}
		for i, n := range f.nodes {
			if err := n.StartRun(ctl.Run{At: t0, Seed: 1, Spec: s, Ranks: ranks[i], Peers: s.Peers(plan), Keep: keep}); err != nil {
				t.Fatal(err)
			}
		}
		f.results = map[int]workload.RankResult{}
		if err := f.play(s, Options{}); err != nil {
			t.Fatal(err)
		}
		ask := func(node, from int) (ctl.SeriesPart, error) { return f.nodes[node].Series(from), nil }
		all := nodecore.Collect(plan, s.Every, ask)
		if again := nodecore.Collect(plan, s.Every, ask); len(again.Ports)+len(again.Contexts) > 0 {
			t.Error("what was fetched is still there")
		}
		return all
	}
	whole, few := run(1<<20), run(40)
	if whole.LeftOut != 0 || few.LeftOut == 0 {
		t.Fatalf("%d and %d samples left out", whole.LeftOut, few.LeftOut)
	}
	count := func(s *workload.Series) (n int64) {
		for _, c := range s.Contexts {
			n += int64(len(c.Points))
		}
		for _, p := range s.Ports {
			for i := range p.Sent {
				if p.Sent[i] > 0 || p.Depth[i] > 0 {
					n++
				}
			}
		}
		return n
	}
	if got, want := count(few)+few.LeftOut, count(whole); got != want {
		t.Errorf("%d samples that say anything are kept or counted, there are %d", got, want)
	}
	for i, c := range few.Contexts {
		if w := whole.Contexts[i]; w.Node != c.Node || !reflect.DeepEqual(w.Points[:len(c.Points)], c.Points) {
			t.Errorf("context %d is not the beginning of the whole", i)
		}
	}
}

// TestLookingChangesNothing counts packets by entropy value and listens to windows in a run: it is the run without, and the counts are those of
// packets sent.
func TestLookingChangesNothing(t *testing.T) {
	for _, p := range []topology.FEPParams{fixedWindow, {}, {CC: "nscc", LB: "reps", ACK: "packet"}, {CC: "nscc", LB: "bitmap"}, {CC: "fixed", LB: "uccl"}, {CC: "dctcp", LB: "plb"}} {
		run := func(look bool) (r workload.Result, sent, counted uint64, changes int) {
			plan, f := managed(t, "fat-tree-2x4", p)
			for _, h := range hosts(plan) {
				for _, to := range hosts(plan) {
					if look && !f.nodes[h].FEP.PDS().WatchPaths(plan.Nodes[to].Addr4) {
						t.Fatal("no room for 8 peers")
					}
				}
				if look {
					f.nodes[h].WatchWindows(func(c ctl.ContextPart) { changes += len(c.Points) })
				}
			}
			r, err := f.Run(spec(t, plan, workload.Incast, 256<<10, 1), t0, Options{})
			if err != nil {
				t.Fatal(err)
			}
			for _, h := range hosts(plan) {
				sent += f.nodes[h].FEP.C[fep.DataTx]
				for _, to := range hosts(plan) {
					for _, x := range f.nodes[h].FEP.PDS().Paths(plan.Nodes[to].Addr4, nil) {
						sum := uint64(0)
						for _, e := range x.Paths {
							sum += e.Packets
						}
						if sum != x.Packets {
							t.Errorf("%+v: PDC %d sent %d packets, by EV %d", p, x.PDC, x.Packets, sum)
						}
						counted += sum
					}
				}
			}
			return r, sent, counted, changes
		}
		bare, _, none, _ := run(false)
		r, sent, counted, changes := run(true)
		if !reflect.DeepEqual(r, bare) {
			t.Errorf("%+v: a run that is looked at differs:\n%+v\n%+v", p, r, bare)
		}
		if none != 0 || sent != counted || (changes > 0) != (p.CC != "fixed") {
			t.Errorf("%+v: %d packets sent, %d counted, %d where nobody asked; %d changes of windows", p, sent, counted, none, changes)
		}
	}
}
