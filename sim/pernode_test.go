package sim

import (
	"reflect"
	"testing"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/workload"
)

// crowd puts per ranks on each end point.
func crowd(plan *topology.Plan, per int) (nodes []int) {
	for _, id := range hosts(plan) {
		for range per {
			nodes = append(nodes, id)
		}
	}
	return nodes
}

// TestRanksShareEndPoints plays every workload with several ranks an end point: data right, no faster than can be, the same again.
func TestRanksShareEndPoints(t *testing.T) {
	for _, c := range []struct {
		topo string
		per  int
		op   string
	}{{"fat-tree-2x4", 2, ""}, {"pair", 3, ""}, {"star-2", 2, workload.OpWrite}} {
		for _, w := range workload.Workloads() {
			if s := (workload.Spec{Workload: w.Name}); w.Name == workload.Matrix || c.op != "" && !s.Flows() {
				continue
			}
			var first workload.Result
			for round := range 2 {
				plan, f := build(t, c.topo)
				nodes := crowd(plan, c.per)
				spec := workload.Spec{Workload: w.Name, Size: 100_000, Iters: 3, Check: true, Seed: 5, Op: c.op, Nodes: nodes, Ranks: len(nodes)}
				var err error
				if spec.Guard, err = workload.SafeGuard(spec, plan); err != nil {
					t.Fatal(err)
				}
				res, err := f.Run(spec, 1000, Options{})
				if err != nil {
					t.Fatalf("%s on %s: %v", w.Name, c.topo, err)
				}
				if res.Correct == nil || !*res.Correct {
					t.Errorf("%s on %s: wrong data: %+v", w.Name, c.topo, res.PerRank)
				}
				if res.Ratio < 1 {
					t.Errorf("%s on %s: %d ns is faster than the ideal %d", w.Name, c.topo, res.FCT.Max, res.IdealNs)
				}
				if round == 0 {
					first = res
				} else if !reflect.DeepEqual(res, first) {
					t.Errorf("%s on %s: the second run differs: %+v and %+v", w.Name, c.topo, first.FCT, res.FCT)
				}
			}
		}
	}
}

// TestRanksOfOneNodeUseNoLink runs two ranks on one end point: nothing comes over its link, and the data passes at the rate of its
// port.
func TestRanksOfOneNodeUseNoLink(t *testing.T) {
	plan, f := build(t, "pair")
	host := hosts(plan)[0]
	spec := workload.Spec{Workload: workload.Sendrecv, Size: 1 << 20, Iters: 1, Check: true, Seed: 1, Nodes: []int{host, host}, Ranks: 2}
	res, err := f.Run(spec, 1000, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if res.Correct == nil || !*res.Correct || res.PacketHops != 0 || res.Packets == 0 || res.Retransmits != 0 {
		t.Errorf("correct %v, %d packets, %d over links, %d again", *res.Correct, res.Packets, res.PacketHops, res.Retransmits)
	}
	// Both directions pass the one line within the end point, and their acknowledgements wait behind data.
	if line := int64(2 * 8 * spec.Size / 400); res.FCT.Max < line || res.FCT.Max > line*14/10 {
		t.Errorf("%d ns for 2 MiB at 400 Gb/s, which are %d ns at least", res.FCT.Max, line)
	}
	if out := f.mem.Pool.Out(); out != 0 {
		t.Errorf("%d frames are lost", out)
	}
}

// TestTwoRanksShareALink runs an incast within which one rank sits beside the root: the others' data still crosses the root's link.
func TestTwoRanksShareALink(t *testing.T) {
	plan, f := build(t, "fat-tree-2x4")
	nodes := crowd(plan, 2)
	spec := workload.Spec{Workload: workload.Incast, Size: 1 << 18, Iters: 1, Check: true, Seed: 1, Nodes: nodes, Ranks: len(nodes)}
	res, err := f.Run(spec, 1000, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if least := int64(14 * 8 * spec.Size / 400); !*res.Correct || res.IdealNs < least || res.FCT.Max < res.IdealNs {
		t.Errorf("%d ns, ideal %d, least %d", res.FCT.Max, res.IdealNs, least)
	}
	t.Logf("%d ns, ratio %.3f", res.FCT.Max, res.Ratio)
}
