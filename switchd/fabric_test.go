package switchd

import (
	"net/netip"
	"testing"

	"github.com/uetlab/uetlab/internal/engine"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// end is a port of a node of a testFabric.
type end struct{ node, port int }

// testFabric is several switches joined by links; a port without a link is a host's, and what leaves there is kept.
type testFabric struct {
	t     testing.TB
	nodes []*engine.Node
	sw    []*Switch
	peers map[end]end
	got   map[end][]*link.Frame
}

type outlet struct {
	f *testFabric
	n int
}

func (o outlet) Transmit(port int, f *link.Frame) {
	at := end{o.n, port}
	if p, ok := o.f.peers[at]; ok {
		o.f.nodes[p.node].Deliver(p.port, f)
		return
	}
	o.f.got[at] = append(o.f.got[at], f)
}

func macOf(e end) wire.MAC { return wire.MAC{2, 0, 0, 0, byte(e.node), byte(e.port)} }

// newFabric makes one switch for each list of rates in Gb/s, which are its ports.
func newFabric(t testing.TB, set Settings, rates [][]int64, links ...[2]end) *testFabric {
	t.Helper()
	f := &testFabric{t: t, peers: map[end]end{}, got: map[end][]*link.Frame{}}
	for _, l := range links {
		f.peers[l[0]], f.peers[l[1]] = l[1], l[0]
	}
	for i, list := range rates {
		var ports []link.Config
		cfg := Config{Seed: nameSeed(string(rune('a' + i))), Settings: set}
		for p, r := range list {
			at := end{i, p}
			to, fabric := f.peers[at]
			far := wire.MAC{2, 1, 0, 0, byte(i), byte(p)}
			if fabric {
				far = macOf(to)
			}
			ports = append(ports, link.Config{Rate: r * 1e9, Delay: 500, Queue: 200_000, MTU: 4500, Queued: true})
			cfg.Ports = append(cfg.Ports, Port{MAC: macOf(at), Peer: far, Host: !fabric})
		}
		n := engine.New(engine.Config{ID: i, Ports: ports, Latency: 500, MaxFrame: 4600}, outlet{f, i})
		s, err := New(n, cfg)
		if err != nil {
			t.Fatal(err)
		}
		n.Attach(s)
		f.nodes, f.sw = append(f.nodes, n), append(f.sw, s)
	}
	return f
}

// route sends 10.9.0.0/16 out of ports of a switch.
func (f *testFabric) route(node int, ports ...int) {
	f.sw[node].SetRoutes([]Route{{ports, []netip.Prefix{netip.MustParsePrefix("10.9.0.0/16")}}})
}

// arrive hands a frame, with a tag if it is to have one, to a port at its due time.
func (f *testFabric) arrive(at end, due vt.Time, ev uint16, payload int, tag *wire.CSIGFields) {
	g := f.nodes[at.node].Pool.Get()
	g.B = wire.AppendUDPFrame(g.B, &wire.FrameFields{DstMAC: macOf(at), Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("10.9.0.1"),
		EV: ev, TTL: 64, DSCP: 10, ECN: wire.ECNECT0})
	g.B = append(g.B, make([]byte, payload)...)
	wire.FinishUDP(g.B)
	if tag != nil {
		g.B, _ = wire.InsertCSIG(g.B, tag)
	}
	g.Due = due
	f.nodes[at.node].Deliver(at.port, g)
}

// run handles events up to a time, the earliest first.
func (f *testFabric) run(until vt.Time) {
	for {
		first, at := until, -1
		for i, n := range f.nodes {
			if n.Next() <= first && (at < 0 || n.Next() < first) {
				first, at = n.Next(), i
			}
		}
		if at < 0 {
			return
		}
		f.nodes[at].Advance(first)
	}
}

// tag is the CSIG tag of a frame that left.
func (f *testFabric) tag(g *link.Frame) wire.CSIG {
	f.t.Helper()
	c := wire.CSIGTag(g.B, wire.EtherCSIG, wire.EtherCSIGWide)
	if c == nil {
		f.t.Fatalf("a frame without tag left: %x", g.B[:20])
	}
	return c
}
