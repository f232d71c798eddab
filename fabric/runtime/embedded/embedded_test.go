package embedded_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/uetlab/uetlab/fabric/runtime"
	"github.com/uetlab/uetlab/fabric/runtime/embedded"
	"github.com/uetlab/uetlab/fabric/runtime/namespace"
	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/fabric/wiring"
	"github.com/uetlab/uetlab/fabric/wiring/hostnet"
)

// chain is the plan n0 - n1 - … - n(n-1).
func chain(n int, kind topology.Kind) *topology.Plan {
	plan := &topology.Plan{Name: "chain"}
	for i := range n {
		plan.Nodes = append(plan.Nodes, topology.Node{ID: i, Name: fmt.Sprintf("n%d", i), Kind: kind})
	}
	for i := range n - 1 {
		connect(plan, i, i+1)
	}
	return plan
}

// connect adds a link between two nodes of a plan.
func connect(plan *topology.Plan, a, b int) {
	id := len(plan.Links)
	na, nb := &plan.Nodes[a], &plan.Nodes[b]
	pa, pb := len(na.Ports), len(nb.Ports)
	port := func(node, own, peer, peerPort int) topology.Port {
		return topology.Port{
			Name: fmt.Sprintf("eth%d", own+1), MAC: [6]byte{2, 0, 0, byte(node >> 8), byte(node), byte(own)},
			Link: id, Peer: peer, PeerIdx: peerPort, MTU: 4500,
		}
	}
	na.Ports = append(na.Ports, port(a, pa, b, pb))
	nb.Ports = append(nb.Ports, port(b, pb, a, pa))
	plan.Links = append(plan.Links, topology.Link{
		ID: id, Name: na.Name + "-" + nb.Name, A: topology.End{Node: a, Port: pa}, B: topology.End{Node: b, Port: pb}, MTU: 4500,
	})
}

// namespaces opens the nodes' network namespaces; they are closed with the test or by the returned function.
func (l *lab) namespaces() (ns []*os.File, done func()) {
	l.t.Helper()
	for _, h := range l.handles {
		f, err := namespace.OpenNet(h.Pid)
		if err != nil {
			l.t.Fatal(err)
		}
		ns = append(ns, f)
	}
	return ns, func() {
		for _, f := range ns {
			f.Close()
		}
	}
}

func (l *lab) wire(plan *topology.Plan) {
	l.t.Helper()
	ns, done := l.namespaces()
	defer done()
	if err := wiring.Wire(context.Background(), plan, ns); err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) stop() {
	l.t.Helper()
	if err := l.rt.Stop(context.Background(), l.name, l.handles); err != nil {
		l.t.Fatal(err)
	}
}

// address is the i-th end of a chain of hosts.
func address(node int) []netip.Addr {
	return []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, byte(node)}), netip.MustParseAddr(fmt.Sprintf("fd00::%d", node+1))}
}

// configurePair makes two joined hosts reach each other.
func (l *lab) configurePair(plan *topology.Plan, a, b int) {
	l.t.Helper()
	for _, n := range [][2]int{{a, b}, {b, a}} {
		h := &hostnet.Host{Port: "eth1", MTU: 4500, Addrs: address(n[0])}
		for _, to := range address(n[1]) {
			h.Neighbours = append(h.Neighbours, hostnet.Neighbour{Addr: to, MAC: plan.Nodes[n[1]].Ports[0].MAC})
		}
		l.tell(n[0], order{Host: h})
	}
}

// ping fails the test if a node gets no answer. The first requests may be lost while the kernel learns of the carrier.
func (l *lab) ping(from int, to netip.Addr) {
	l.t.Helper()
	if _, err := exec.LookPath("ping"); err != nil {
		l.t.Skip("ping is not installed")
	}
	if code, out := l.exec(from, "ping", "-c", "1", "-w", "10", "-i", "0.2", to.String()); code != 0 {
		l.t.Errorf("ping %s: exit code %d: %s", to, code, out)
	}
}

func TestHostsPingAndNothingIsLeft(t *testing.T) {
	needNamespaces(t)
	before := takeSnapshot(t)
	l := newLab(t, "pairs", 4, topology.KindHost)
	l.start()
	plan := &topology.Plan{Nodes: chain(4, topology.KindHost).Nodes}
	for i := range plan.Nodes {
		plan.Nodes[i].Ports = nil
	}
	connect(plan, 0, 1)
	connect(plan, 2, 3)
	l.wire(plan)
	during := takeSnapshot(t)
	for _, line := range before.diff(during) {
		if strings.Contains(line, "link ") || strings.Contains(line, "mount ") && !strings.Contains(line, "mnt:") {
			t.Errorf("the lab shows in the host's namespaces: %s", line)
		}
	}
	if d := strings.Join(before.diff(during), "\n"); strings.Count(d, "namespace net:") != 4 || strings.Count(d, "namespace mnt:") != 4 {
		t.Errorf("want 4 new network and mount namespaces, have\n%s", d)
	}
	l.configurePair(plan, 0, 1)
	l.configurePair(plan, 2, 3)
	for _, to := range append(address(1), netip.MustParseAddr("127.0.0.1")) {
		l.ping(0, to)
	}
	if code, out := l.exec(2, "ping", "-c", "1", "-W", "1", address(1)[0].String()); code == 0 {
		t.Errorf("n2 reaches n1, to which it has no link: %s", out)
	}
	l.stop()
	before.unchanged(t)
	for _, h := range l.handles {
		if l.rt.Alive(context.Background(), h) {
			t.Errorf("%s is alive after Stop", h.Node)
		}
	}
	l.stop() // again: nothing to do is no error
}

func TestStopFindsNodesWithoutHandles(t *testing.T) {
	needNamespaces(t)
	before := takeSnapshot(t)
	l := newLab(t, "mine", 3, topology.KindFEP)
	other := newLab(t, "other", 2, topology.KindFEP)
	l.start()
	other.start()
	l.kill9(1)
	if n := len(embedded.Leftovers("other")); n != 2 {
		t.Errorf("Leftovers(other) finds %d processes, want 2", n)
	}
	// A new daemon knows no handles, and stale ones must not lead it to other processes.
	fresh := embedded.New()
	stale := []runtime.Handle{{Node: "n0", ID: 0, Pid: os.Getpid()}, {Node: "n0", ID: 0, Pid: other.handles[0].Pid}}
	if err := fresh.Stop(context.Background(), "mine", stale); err != nil {
		t.Fatal(err)
	}
	if left := embedded.Leftovers("mine"); len(left) != 0 {
		t.Errorf("left over: %v", left)
	}
	for _, h := range other.handles {
		if !other.rt.Alive(context.Background(), h) {
			t.Errorf("%s of the other lab was stopped", h.Node)
		}
	}
	other.stop()
	l.stop() // reaps
	before.unchanged(t)
}

func TestStartFailureStopsAll(t *testing.T) {
	needNamespaces(t)
	before := takeSnapshot(t)
	l := newLab(t, "broken", 6, topology.KindFEP)
	l.specs[4].Log = filepath.Join(l.dir, "missing", "log")
	handles, err := l.rt.Start(context.Background(), l.specs, nil)
	if err == nil || !strings.Contains(err.Error(), "n4") || handles != nil {
		t.Errorf("Start = %v, %v; want an error that names n4", handles, err)
	}
	before.unchanged(t)
}

func TestCancelledStartStopsAll(t *testing.T) {
	needNamespaces(t)
	before := takeSnapshot(t)
	for at := range 6 {
		l := newLab(t, fmt.Sprintf("cancel%d", at), 8, topology.KindFEP)
		ctx, cancel := context.WithCancel(context.Background())
		n := 0
		_, err := l.rt.Start(ctx, l.specs, func(runtime.Handle) {
			if n++; n > at {
				cancel()
			}
		})
		cancel()
		if !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled after %d nodes: Start = %v", at, err)
		}
		before.unchanged(t)
	}
}

func TestRestartedNodeIsWiredAnew(t *testing.T) {
	needNamespaces(t)
	l := newLab(t, "restart", 2, topology.KindHost)
	l.start()
	plan := chain(2, topology.KindHost)
	l.wire(plan)
	l.configurePair(plan, 0, 1)
	for range 3 {
		l.kill9(1)
		if err := l.rt.Stop(context.Background(), "none", nil); err != nil {
			t.Fatal(err)
		}
		handles, err := l.rt.Start(context.Background(), l.specs[1:], nil)
		if err != nil {
			t.Fatal(err)
		}
		l.handles[1] = handles[0]
		l.conns[1].Close()
		l.accept()
		ns, done := l.namespaces()
		err = wiring.WireNode(context.Background(), plan, ns, 1)
		done()
		if err != nil {
			t.Fatal(err)
		}
		l.configurePair(plan, 0, 1)
		l.ping(0, address(1)[0])
	}
}
