package wiring_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/uetlab/uetlab/fabric/runtime/namespace"
	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/fabric/wiring"
)

// newNamespaces makes n network namespaces that live as long as the test, without any process in them.
func newNamespaces(t *testing.T, n int) []*os.File {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root; the tests of fabric/runtime/embedded wire links as an ordinary user")
	}
	ns := make([]*os.File, n)
	for i := range ns {
		err := namespace.OnThread(func() (err error) {
			if err = unix.Unshare(unix.CLONE_NEWNET); err != nil {
				return err
			}
			ns[i], err = os.Open("/proc/thread-self/ns/net")
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ns[i].Close() })
	}
	return ns
}

// star is a plan of a switch with n neighbours, every third of them a plain host.
func star(n int) *topology.Plan {
	plan := &topology.Plan{Nodes: []topology.Node{{ID: 0, Name: "leaf0", Kind: topology.KindSwitch}}}
	for i := range n {
		node := topology.Node{ID: i + 1, Name: fmt.Sprintf("host%d", i), Kind: topology.KindFEP}
		if i%3 == 2 {
			node.Kind = topology.KindHost
		}
		node.Ports = []topology.Port{{
			Name: "eth1", MAC: [6]byte{2, 1, 0, 0, byte(i >> 8), byte(i)}, Link: i, Peer: 0, PeerIdx: i, MTU: 4500,
		}}
		plan.Nodes = append(plan.Nodes, node)
		plan.Nodes[0].Ports = append(plan.Nodes[0].Ports, topology.Port{
			Name: fmt.Sprintf("eth%d", i+1), MAC: [6]byte{2, 0, 0, 0, byte(i >> 8), byte(i)}, Link: i, Peer: i + 1, MTU: 4500,
		})
		plan.Links = append(plan.Links, topology.Link{
			ID: i, Name: fmt.Sprintf("host%d-leaf0", i), A: topology.End{Node: i + 1}, B: topology.End{Port: i}, MTU: 4500,
		})
	}
	return plan
}

// links lists a namespace's links but the loopback, by name.
func links(t *testing.T, ns *os.File) map[string]netlink.Link {
	t.Helper()
	byName := make(map[string]netlink.Link)
	err := namespace.InNet(ns, func() error {
		all, err := netlink.LinkList()
		for _, l := range all {
			if l.Attrs().Name != "lo" {
				byName[l.Attrs().Name] = l
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return byName
}

func TestWireMakesWhatThePlanSays(t *testing.T) {
	const n = 150 // three batches
	ns := newNamespaces(t, n+1)
	plan := star(n)
	before, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	if err := wiring.Wire(context.Background(), plan, ns); err != nil {
		t.Fatal(err)
	}
	after, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(before) != fmt.Sprint(after) {
		t.Errorf("the host's links changed from %v to %v", before, after)
	}
	for i := range plan.Nodes {
		node := &plan.Nodes[i]
		have := links(t, ns[i])
		if len(have) != len(node.Ports) {
			t.Errorf("%s has %d links, want %d", node.Name, len(have), len(node.Ports))
		}
		for _, p := range node.Ports {
			l := have[p.Name]
			if l == nil {
				t.Fatalf("%s lacks %s", node.Name, p.Name)
			}
			a := l.Attrs()
			mtu := 4500 + 28
			if node.Kind == topology.KindHost {
				mtu = 4500
			}
			if l.Type() != "veth" || a.HardwareAddr.String() != net.HardwareAddr(p.MAC[:]).String() || a.MTU != mtu ||
				a.NumTxQueues != 1 || a.NumRxQueues != 1 || a.Flags&net.FlagUp != 0 {
				t.Errorf("%s %s: %s %+v", node.Name, p.Name, l.Type(), a)
			}
		}
	}
}

func TestWireNamesTheLinkThatFails(t *testing.T) {
	ns := newNamespaces(t, 4)
	plan := star(3)
	closed, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer closed.Close()
	for _, c := range []struct {
		name  string
		third *os.File
		want  string
	}{
		{"no namespace", nil, "link host1-leaf0: no network namespace of node host1"},
		{"not a namespace", closed, "link host1-leaf0: create veth: invalid argument"},
	} {
		t.Run(c.name, func(t *testing.T) {
			broken := []*os.File{ns[0], ns[1], c.third, ns[3]}
			err := wiring.Wire(context.Background(), plan, broken)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Wire = %v, want %q", err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), "host0-leaf0") {
				t.Errorf("Wire blames a link that was made: %v", err)
			}
		})
	}
}

func TestWireEndsWithItsContext(t *testing.T) {
	ns := newNamespaces(t, 3)
	plan := star(2)
	if err := wiring.Wire(context.Background(), plan, ns); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	err := wiring.Wire(ctx, plan, ns) // everything exists, which might pass
	if err == nil {
		t.Error("Wire over existing links succeeds")
	}
}

func TestWireNodeReplacesWhatLingers(t *testing.T) {
	ns := newNamespaces(t, 4)
	plan := star(3)
	if err := wiring.Wire(context.Background(), plan, ns); err != nil {
		t.Fatal(err)
	}
	old := links(t, ns[0])
	// The node comes back in a new namespace while the old one still exists.
	again := newNamespaces(t, 1)
	revived := []*os.File{ns[0], ns[1], again[0], nil}
	if err := wiring.WireNode(context.Background(), plan, revived, 2); err != nil {
		t.Fatal(err)
	}
	now := links(t, ns[0])
	if len(now) != 3 || now["eth2"].Attrs().Index == old["eth2"].Attrs().Index || now["eth1"].Attrs().Index != old["eth1"].Attrs().Index {
		t.Errorf("links of leaf0: %v, before %v", now, old)
	}
	if l := links(t, again[0]); len(l) != 1 {
		t.Errorf("links of the new host1: %v", l)
	}
	// A switch comes back while one of its neighbours is away.
	again = newNamespaces(t, 1)
	if err := wiring.WireNode(context.Background(), plan, []*os.File{again[0], ns[1], revived[2], nil}, 0); err != nil {
		t.Fatal(err)
	}
	if l := links(t, again[0]); len(l) != 2 || l["eth3"] != nil {
		t.Errorf("links of the new leaf0: %v", l)
	}
}
