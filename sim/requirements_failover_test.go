package sim

import (
	"testing"
	"time"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/switchd"
	"github.com/uetlab/uetlab/workload"
)

// fourSpines gives every PDC one entropy value, and routes around a failure within 40 us.
const fourSpines = `name: four-spines
fabric: {kind: leaf-spine, spines: 4, leaves: 3, hostsPerLeaf: 4}
defaults:
  fep: {lb: fixed}
routing: {convergence: 40us}
`

// failLeaf0 takes the link from leaf0 to spine0 down, as the daemon does, and gives the two ports of it.
func failLeaf0(t testing.TB, plan *topology.Plan, f *Fabric, when vt.Time) (leaf, spine topology.End) {
	t.Helper()
	id, _, err := plan.FindLink("leaf0-spine0")
	if err != nil {
		t.Fatal(err)
	}
	fail(t, plan, f, when, map[int]bool{}, id)
	leaf, spine = plan.Links[id].A, plan.Links[id].B
	if plan.Nodes[leaf.Node].Tier != 1 {
		leaf, spine = spine, leaf
	}
	return leaf, spine
}

// leafOf is the leaf of the end point with an address.
func leafOf(plan *topology.Plan) map[[4]byte]int {
	m := map[[4]byte]int{}
	for _, id := range hosts(plan) {
		m[plan.Nodes[id].Addr4.As4()] = plan.Nodes[id].Ports[0].Peer
	}
	return m
}

// ECMP-04: of a resilient group only the flows of the dead member move, at the switch that lost its link and, once the routes
// have changed, at those that lost a way to it. Of a group by modulo others move too.
func TestECMP04_OnlyFlowsOfTheDeadLinkMove(t *testing.T) {
	for _, group := range []string{switchd.GroupResilient, switchd.GroupModulo} {
		plan, f := fromFile(t, fourSpines, func(set *switchd.Settings) { set.ECMP.Group = group })
		when := t0.Add(60 * time.Microsecond)
		later := when.Add(plan.Convergence)
		dead, _ := failLeaf0(t, plan, f, when)
		leaf := leafOf(plan)
		before, moved, stayed, fled := map[at]int{}, map[at]bool{}, map[at]bool{}, map[at]bool{}
		watch(t, plan, f, func(p *passage) {
			up := plan.Nodes[p.sw].Ports[p.port].Peer // a spine
			if plan.Nodes[p.sw].Tier != 1 || plan.Nodes[up].Tier != 2 {
				return
			}
			local, far := p.sw == dead.Node, leaf[[4]byte(p.ip[16:20])] == dead.Node
			changed := when
			if !local {
				changed = later
			}
			k := at{p.sw, p.flow}
			switch was, met := before[k]; {
			case p.frame.Queued < changed:
				before[k] = up
			case p.frame.Queued == changed || !met || !local && !far && was == up:
			case was != up && plan.Nodes[was].Name == "spine0" && (local || far):
				fled[k] = true
			case was != up:
				moved[k] = true
			default:
				stayed[k] = true
			}
		})
		if _, err := f.Run(spec(t, plan, workload.Alltoall, 6<<20, 1), t0, Options{}); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d flows fled from the dead link, %d stayed where they were, %d moved without need", group, len(fled), len(stayed), len(moved))
		if len(fled) < 10 || len(stayed) < 10 {
			t.Errorf("%s: too few flows to tell", group)
		}
		if group == switchd.GroupResilient && len(moved) != 0 {
			t.Errorf("%s: %d flows moved without need", group, len(moved))
		}
		if group == switchd.GroupModulo && len(moved) == 0 {
			t.Errorf("%s: no flow moved without need: the test shows nothing", group)
		}
	}
}

// ECMP-05: a switch that loses a link leaves it at once, the others within the configured delay. What they send into the
// black hole until then is counted, to the frame.
func TestECMP05_FailoverWithinTheDelay(t *testing.T) {
	for _, delay := range []string{"0ns", "15us", "80us"} {
		plan, f := fromFile(t, "name: failover\nfabric: {kind: leaf-spine, spines: 2, leaves: 4}\nrouting: {convergence: "+delay+"}\n", nil)
		when := t0.Add(30 * time.Microsecond)
		dead, spine := failLeaf0(t, plan, f, when)
		leaf := leafOf(plan)
		var local, remote, late, sent, passed int
		last := when
		watch(t, plan, f, func(p *passage) {
			far := leaf[[4]byte(p.ip[16:20])] == dead.Node
			switch {
			case p.sw == dead.Node && p.port == dead.Port && p.frame.Queued > when:
				local++
			case p.sw == spine.Node && far: // once it knows, spine0 has the long way over another leaf left
				passed++
			case plan.Nodes[p.sw].Tier != 1 || plan.Nodes[p.sw].Ports[p.port].Peer != spine.Node || !far:
			default:
				sent++ // by another leaf to spine0 for the end points behind the link
				if p.frame.Queued > when {
					remote++
					last = max(last, p.frame.Queued)
				}
				if p.frame.Queued > when.Add(plan.Convergence) {
					late++
				}
			}
		})
		res, err := f.Run(spec(t, plan, workload.Allreduce, 8<<20, 1), t0, Options{})
		if err != nil || !*res.Correct {
			t.Fatalf("correct %v, %v", *res.Correct, err)
		}
		out, in := f.nodes[spine.Node].Ports[spine.Port].C, f.nodes[dead.Node].Ports[dead.Port].C
		var unrouted uint64
		for _, p := range f.nodes[spine.Node].Ports {
			unrouted += p.C[link.DropNoRoute]
		}
		hole := out[link.DropDown] + unrouted
		t.Logf("convergence %v: %d frames into the black hole, the last %v after the failure; counted: %d at the port, %d without route, %d cut off on the line; FCT %v",
			plan.Convergence, remote, last.Sub(when), out[link.DropDown], unrouted, in[link.DropCut], time.Duration(res.FCT.Max))
		if local != 0 {
			t.Errorf("convergence %v: leaf0 sent %d frames over its dead link", plan.Convergence, local)
		}
		if late != 0 {
			t.Errorf("convergence %v: %d frames were sent towards the dead link after it", plan.Convergence, late)
		}
		if plan.Convergence > 0 && (remote == 0 || hole == 0 || in[link.DropCut] == 0) {
			t.Errorf("convergence %v: nothing went into the black hole", plan.Convergence)
		}
		if trimmed := out[link.DropTrim] + out[link.DropQueue]; uint64(sent) != uint64(passed)+hole+trimmed {
			t.Errorf("convergence %v: spine0 got %d frames for leaf0, sent %d on, and counts %d as lost", plan.Convergence, sent, passed, hole+trimmed)
		}
		if delay != "0ns" && res.Retransmits < hole/2 {
			t.Errorf("convergence %v: %d retransmits for %d lost frames", plan.Convergence, res.Retransmits, hole)
		}
	}
}
