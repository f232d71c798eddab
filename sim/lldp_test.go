package sim

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
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

// TestNeighboursTellWhatTheyCan looks at what switches and end points say of themselves: LLDP is the first stop where trimming, marks or pauses do not come to be. A setting that changes is told at once.
func TestNeighboursTellWhatTheyCan(t *testing.T) {
	plan, f := fromFile(t, "name: about\nfabric: {kind: leaf-spine, spines: 1, leaves: 2}\ndefaults: {link: {lldp: on}, fep: {cc: nscc, lb: reps}, switch: {buffer: 400KiB, ecn: {kmin: 100KiB, kmax: 300KiB}, trim: {size: 128B}}}\nnodes: {leaf1: {trim: {enabled: false}, pfc: {enabled: true}, csig: {enabled: true}}}\n", nil)
	said := func(at vt.Time, from string) (list []string) {
		f.until(at)
		for i := range plan.Nodes {
			for _, p := range f.nodes[i].Neighbours(f.now) {
				if p.Neighbour != nil && p.Neighbour.System == from {
					list = append(list, p.Neighbour.SystemDesc)
				}
			}
		}
		return list
	}
	for from, want := range map[string]string{
		"spine0": "uetlab switch; trimming to 128 bytes, ecn 102400 to 307200 bytes, pfc off, csig off",
		"leaf1":  "uetlab switch; trimming off, ecn 102400 to 307200 bytes, pfc for class 4, csig on",
		"host0":  "uetlab end point; cc nscc, lb reps",
	} {
		if got := said(vt.Time(10*time.Microsecond), from); len(got) == 0 || got[0] != want {
			t.Errorf("%s says %q, want %q", from, got, want)
		}
	}
	for i, n := range f.nodes {
		if plan.Nodes[i].Name == "spine0" {
			set := n.Switch.Settings()
			set.Trim.Enabled = false
			if err := f.Change(i, ctl.Change{At: vt.Time(20 * time.Microsecond), Switch: &set}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := said(vt.Time(30*time.Microsecond), "spine0"); len(got) != 2 || !strings.Contains(got[0]+got[1], "trimming off, ecn 102400 to 307200 bytes, pfc off, csig offuetlab switch; trimming off") {
		t.Errorf("10 us after trimming was turned off spine0 says %q", got)
	}
}

// TestRunsWithLLDPEnd has a run that cannot finish: one of two links is up. With LLDP, too, the simulator says so, and does not go on
// with the agents for ever.
func TestRunsWithLLDPEnd(t *testing.T) {
	plan, f := lldpFabric(t, "star-2")
	down := true
	for id, n := range plan.Nodes {
		if n.Name == "host1" {
			if err := f.Change(id, ctl.Change{At: 1, Impair: &link.Impair{Down: true}, RxDown: &down}); err != nil {
				t.Fatal(err)
			}
		}
	}
	nodes := crowd(plan, 1)
	spec := workload.Spec{Workload: "incast", Size: 1 << 10, Iters: 1, Seed: 7, Nodes: nodes, Ranks: len(nodes)}
	_, err := f.Run(spec, 1_000_000, Options{Progress: func(now vt.Time, _, _ int64) bool { return now < vt.Time(time.Hour) }})
	if !errors.Is(err, ErrStuck) || f.now > vt.Time(20*time.Second) {
		t.Errorf("at %v: %v", f.now, err)
	}
}

// TestMiswiredCablesAreSeen swaps the far ends of two cables: agents hear who is really there, both in what they say and in what the plan expects.
func TestMiswiredCablesAreSeen(t *testing.T) {
	spec, err := topology.Parse("x.yaml", []byte("name: x\nfabric: {kind: leaf-spine, spines: 2, leaves: 2, hostsPerLeaf: 2}\ndefaults: {link: {lldp: on}}\nmiswired: [[leaf0-spine0, leaf1-spine1]]\n"))
	if err != nil {
		t.Fatal(err)
	}
	plan, f := fabricOf(t, spec)
	f.until(vt.Time(10 * time.Microsecond))
	got := map[string]string{}
	for i := range plan.Nodes {
		for port, p := range f.nodes[i].Neighbours(f.now) {
			if !knows(plan, &p, i, port) {
				got[plan.Nodes[i].Name+" "+p.Port] = p.Neighbour.System + " " + p.Neighbour.Port
			}
		}
	}
	want := map[string]string{"leaf0 eth3": "spine1 eth2", "spine1 eth2": "leaf0 eth3", "leaf1 eth4": "spine0 eth1", "spine0 eth1": "leaf1 eth4"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("heard at the wrong ports: %v, want %v", got, want)
	}
}

// TestRunOverMiswiredCables has frames come to nodes that they are not for, by their MAC address, and that drop them. What finds no other way
// is given up after some retransmissions: a run ends, with the errors of its ranks.
func TestRunOverMiswiredCables(t *testing.T) {
	for _, miswired := range []string{"[[leaf0-spine0, leaf1-spine1]]", "[[host0-leaf0, host1-leaf0]]"} {
		t.Run(miswired, func(t *testing.T) {
			spec, err := topology.Parse("x.yaml", []byte("name: x\nfabric: {kind: leaf-spine, spines: 2, leaves: 2, hostsPerLeaf: 2}\ndefaults: {link: {lldp: on}}\nmiswired: "+miswired+"\n"))
			if err != nil {
				t.Fatal(err)
			}
			plan, f := fabricOf(t, spec)
			nodes := crowd(plan, 1)
			res, err := f.Run(workload.Spec{Workload: "alltoall", Size: 64 << 10, Iters: 1, Seed: 7, Nodes: nodes, Ranks: len(nodes)}, 1000, Options{})
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range res.PerRank {
				if !strings.Contains(r.Error, "did not acknowledge in time") {
					t.Errorf("rank %d: %q", r.Rank, r.Error)
				}
			}
			for i, n := range f.nodes {
				for p := range n.Ports {
					wrong := plan.Nodes[i].Ports[p].Miswired != nil
					if got := n.Ports[p].C[link.DropPacket]; wrong != (got > 0) {
						t.Errorf("%s %s: %d frames are not for it", plan.Nodes[i].Name, plan.Nodes[i].Ports[p].Name, got)
					}
				}
			}
		})
	}
}
