package sim

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/internal/ctl"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/workload"
)

// lldpFabric is a topology all of whose links have LLDP.
func lldpFabric(t *testing.T, name string) (*topology.Plan, *Fabric) {
	t.Helper()
	spec, err := topology.Generate(name)
	if err != nil {
		t.Fatal(err)
	}
	spec.Defaults.Link.LLDP = "on"
	return fabricOf(t, spec)
}

func (f *Fabric) until(t vt.Time) {
	for f.step(t) {
	}
}

// knows says whether a port has heard what the plan says.
func knows(plan *topology.Plan, p *ctl.LLDPPort, node, port int) bool {
	q := &plan.Nodes[node].Ports[port]
	peer := &plan.Nodes[q.Peer]
	n := p.Neighbour
	return n != nil && p.Port == q.Name && n.System == peer.Name && n.Port == peer.Ports[q.PeerIdx].Name && n.Addresses[0] == peer.Addr4.String() && n.UE.BootID == 1
}

func TestNeighboursFindEachOther(t *testing.T) {
	plan, f := lldpFabric(t, "fat-tree-2x4")
	f.until(vt.Time(10 * time.Microsecond))
	for i := range plan.Nodes {
		list := f.nodes[i].Neighbours(f.now)
		if len(list) != len(plan.Nodes[i].Ports) {
			t.Fatalf("%s: %d ports with LLDP of %d", plan.Nodes[i].Name, len(list), len(plan.Nodes[i].Ports))
		}
		for p := range list {
			if !knows(plan, &list[p], i, p) {
				t.Errorf("%s: %+v", plan.Nodes[i].Name, list[p])
			}
		}
		for _, p := range f.nodes[i].Ports {
			if p.C.Drops() != 0 || p.C[link.PauseTx] != 0 || p.C[link.TxFrames] == 0 {
				t.Errorf("%s: drops %d, PAUSE frames %d", plan.Nodes[i].Name, p.C.Drops(), p.C[link.PauseTx])
			}
		}
	}
	// A frame a second for each port, and nobody is forgotten.
	f.until(vt.Time(20 * time.Second))
	for i := range plan.Nodes {
		for _, p := range f.nodes[i].Neighbours(f.now) {
			if p.Counters["tx"] > 24 || p.Counters["tx"] < 20 || p.Counters["inserted"] != 1 || p.Counters["deleted"] != 0 {
				t.Errorf("%s %s: %v", plan.Nodes[i].Name, p.Port, p.Counters)
			}
		}
	}
}

func TestNeighboursOfALinkThatFails(t *testing.T) {
	plan, f := lldpFabric(t, "pair")
	for id, p := range plan.Nodes {
		for port := range p.Ports {
			down, up := true, false
			for _, c := range []ctl.Change{{At: vt.Time(2500 * time.Millisecond), Port: port, Impair: &link.Impair{Down: true}, RxDown: &down},
				{At: vt.Time(9 * time.Second), Port: port, Impair: &link.Impair{}, RxDown: &up}} {
				if err := f.Change(id, c); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	heard := func() (got string) {
		for i := range plan.Nodes {
			for _, p := range f.nodes[i].Neighbours(f.now) {
				got += fmt.Sprint(p.Neighbour != nil, " ", p.Counters["tx"], " ")
			}
		}
		return got
	}
	for _, x := range []struct {
		at   time.Duration
		want string
	}{{5900 * time.Millisecond, "true"}, {6200 * time.Millisecond, "false"}, {9*time.Second + 10*time.Microsecond, "true"}} {
		f.until(vt.Time(x.at))
		for i := range plan.Nodes {
			for _, p := range f.nodes[i].Neighbours(f.now) {
				if got := fmt.Sprint(p.Neighbour != nil); got != x.want {
					t.Errorf("at %v, %s knows its neighbour: %s, want %s (%s)", x.at, plan.Nodes[i].Name, got, x.want, heard())
				}
			}
		}
	}
}

// TestRunsWithLLDPAreAlike begins runs at moments that have nothing to do with the agents' seconds.
func TestRunsWithLLDPAreAlike(t *testing.T) {
	var first workload.Result
	for i, t0 := range []vt.Time{1000, 1_234_567_890, 17_000_000_000} {
		plan, f := lldpFabric(t, "fat-tree-2x4")
		nodes := crowd(plan, 1)
		spec := workload.Spec{Workload: "permutation", Size: 1 << 20, Iters: 1, Check: true, Seed: 7, Nodes: nodes, Ranks: len(nodes)}
		res, err := f.Run(spec, t0, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = res
		} else if !reflect.DeepEqual(res.FCT, first.FCT) || res.PacketHops != first.PacketHops {
			t.Errorf("begun at %v: %+v with %d hops, want %+v with %d", t0, res.FCT, res.PacketHops, first.FCT, first.PacketHops)
		}
	}
}
