package nodecore

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/internal/ctl"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/link/cbfc"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
	"github.com/uetlab/uetlab/workload"
)

func plan(t testing.TB, name string) *topology.Plan {
	t.Helper()
	spec, err := topology.Generate(name)
	if err != nil {
		t.Fatal(err)
	}
	p, err := topology.BuildPlan(spec)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// outlet notes the ports by which frames leave.
type outlet struct{ ports []int }

func (o *outlet) Transmit(port int, f *link.Frame) {
	o.ports = append(o.ports, port)
	f.Release()
}

func kind(p *topology.Plan, k topology.Kind) int {
	return slices.IndexFunc(p.Nodes, func(n topology.Node) bool { return n.Kind == k })
}

// make1 makes one node of a plan.
func make1(t testing.TB, p *topology.Plan, id int) (*Node, *outlet) {
	t.Helper()
	o := &outlet{}
	n, err := New(Config(p, id, 1, p.Routes(nil)[id]), o, &Memory{}, func(workload.RankResult) {})
	if err != nil {
		t.Fatal(err)
	}
	return n, o
}

// over passes a change through JSON, as it passes from the daemon to a node.
func over(t *testing.T, c ctl.Change) ctl.Change {
	t.Helper()
	b, err := json.Marshal(ctl.Message{Changes: []ctl.Change{c}})
	if err != nil {
		t.Fatal(err)
	}
	var m ctl.Message
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	return m.Changes[0]
}

// udp is a packet to an IPv4 address, as it comes in at a switch's port.
func udp(n *Node, p *topology.Port, to [4]byte) *link.Frame {
	f := n.Pool.Get()
	f.B = wire.AppendEth(f.B, p.MAC, [6]byte{2, 9, 9, 9, 9, 9}, wire.EtherIPv4)
	ip := make([]byte, 60)
	ip[0], ip[3], ip[8], ip[9] = 0x45, 60, 64, 17
	copy(ip[12:], []byte{10, 0, 0, 1})
	copy(ip[16:], to[:])
	wire.IPv4(ip).SetChecksum()
	f.B = append(f.B, ip...)
	return f
}

// TestLastRouteGoes takes all routes of a switch away, as when all its links are down, and gives them back.
func TestLastRouteGoes(t *testing.T) {
	p := plan(t, "fat-tree-2x2")
	id := kind(p, topology.KindSwitch) // a spine
	down := map[int]bool{}
	for _, q := range p.Nodes[id].Ports {
		down[q.Link] = true
	}
	isolated, all := Groups(p.Routes(down)[id]), Groups(p.Routes(nil)[id])
	if len(isolated) != 0 || len(all) == 0 {
		t.Fatalf("%d and %d groups: the test is of no use", len(isolated), len(all))
	}
	n, o := make1(t, p, id)
	for i, routes := range [][]ctl.RouteGroup{all, isolated, all} {
		at := vt.Time(10_000 * (i + 1))
		if err := n.Change(over(t, ctl.Change{At: at, Port: -1, Routes: routes})); err != nil {
			t.Fatal(err)
		}
		n.Advance(at)
		f := udp(n, &p.Nodes[id].Ports[0], p.Nodes[len(p.Nodes)-1].Addr4.As4())
		f.Due = at + 1
		n.Deliver(0, f)
		n.Advance(at + 9999)
		if sent, want := len(o.ports), len(routes); (sent > 0) != (want > 0) {
			t.Errorf("with %d groups of routes %d frames are sent", want, sent)
		}
		o.ports = nil
	}
	if n.Ports[0].C[link.DropNoRoute] != 1 {
		t.Errorf("counters %v", n.Ports[0].C)
	}
}

func TestChangesThatAreNoneAreRefused(t *testing.T) {
	p := plan(t, "star-2")
	sw, _ := make1(t, p, kind(p, topology.KindSwitch))
	ep, _ := make1(t, p, kind(p, topology.KindFEP))
	yes := true
	for name, c := range map[string]struct {
		n      *Node
		change ctl.Change
		ok     bool
	}{
		"routes at an end point": {ep, ctl.Change{Port: -1, Routes: []ctl.RouteGroup{}}, false},
		"port too high":          {sw, ctl.Change{Port: 2, RxDown: &yes}, false},
		"port below 0":           {sw, ctl.Change{Port: -1, Impair: &link.Impair{}}, false},
		"nothing at no port":     {sw, ctl.Change{Port: -1}, false},
		"bad prefix":             {sw, ctl.Change{Port: -1, Routes: []ctl.RouteGroup{{Prefixes: []string{"10.0.0.0/33"}}}}, false},
		"port of a route":        {sw, ctl.Change{Port: -1, Routes: []ctl.RouteGroup{{Ports: []int{7}, Prefixes: []string{"10.0.0.0/8"}}}}, false},
		"receiver":               {sw, ctl.Change{Port: 1, RxDown: &yes}, true},
		"sender":                 {ep, ctl.Change{Port: 0, Impair: &link.Impair{Loss: 0.5}}, true},
		"routes":                 {sw, ctl.Change{Port: -1, Routes: []ctl.RouteGroup{{Ports: []int{1}, Prefixes: []string{"10.0.0.0/8"}}}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			c.change.At = c.n.Now() + 10
			if err := c.n.Change(c.change); (err == nil) != c.ok {
				t.Errorf("error %v", err)
			}
			c.n.Advance(c.change.At)
		})
	}
	if got := ep.Ports[0].Impair(); got.Loss != 0.5 {
		t.Errorf("impair %+v", got)
	}
}

// TestSettingsOfARun: they hold for a run, the next one has the topology's again, and a warm one is refused where they would change.
func TestSettingsOfARun(t *testing.T) {
	p := plan(t, "pair")
	n, _ := make1(t, p, 0)
	over := func(cc string) *topology.FEPConfig {
		c, err := p.OverrideFEP(0, map[string]string{"cc": cc, "evs": "64", "lb": "reps"})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	wrong := over("swift")
	wrong.Control.Swift.MaxWnd = 1
	for i, c := range []struct {
		fep  *topology.FEPConfig
		warm bool
		want string // the algorithm in force; empty: the run is refused
	}{
		{nil, true, "nscc"}, {over("dctcp"), false, "dctcp"}, {over("dctcp"), true, "dctcp"}, {over("swift"), true, ""}, {nil, true, ""}, {wrong, false, ""}, {over("swift"), false, "swift"}, {nil, false, "nscc"}, {nil, true, "nscc"},
	} {
		at := n.Now() + 1000
		err := n.StartRun(ctl.Run{At: at, Warm: c.warm, FEP: c.fep})
		if (err != nil) != (c.want == "") {
			t.Errorf("run %d: %v", i, err)
		}
		n.Advance(at)
		if err != nil {
			continue
		}
		got := "none"
		if cc := n.FEP.Config().CC; cc != nil {
			got = cc.Algorithm.String()
		}
		if got != c.want || (c.fep != nil) != (n.FEP.Config().Balance.EVs == 64) {
			t.Errorf("run %d: %s with %d EVs, want %s", i, got, n.FEP.Config().Balance.EVs, c.want)
		}
	}
}

// TestRunForgetsWhatIsUnderWay begins a run while a frame is on its way over a slow link: it was sent before the run, though
// it is due long after a frame that is sent in the run can be.
func TestRunForgetsWhatIsUnderWay(t *testing.T) {
	p := plan(t, "star-2")
	n, o := make1(t, p, kind(p, topology.KindSwitch))
	host := p.Nodes[p.Nodes[n.ID].Ports[1].Peer]
	arrive := func(due vt.Time) {
		f := udp(n, &p.Nodes[n.ID].Ports[0], host.Addr4.As4())
		f.Due = due
		n.Deliver(0, f)
	}
	const t0 = 1_000_000
	for _, warm := range []bool{true, false} {
		o.ports = nil
		at := n.Now() + t0
		arrive(at + 2_000_000)
		if err := n.StartRun(ctl.Run{At: at, Warm: warm}); err != nil {
			t.Fatal(err)
		}
		arrive(at + 3_000_000) // of a neighbour that has begun the run
		n.Advance(at + 10_000_000)
		if want := map[bool]int{true: 2, false: 1}[warm]; len(o.ports) != want {
			t.Errorf("warm %v: %d frames went on, want %d", warm, len(o.ports), want)
		}
	}
	if n.Pool.Out() != 0 {
		t.Errorf("%d frames are lost", n.Pool.Out())
	}
}

func TestRunsThatAreNoneAreRefused(t *testing.T) {
	p := plan(t, "star-2")
	sw, _ := make1(t, p, kind(p, topology.KindSwitch))
	ep, _ := make1(t, p, kind(p, topology.KindFEP))
	if err := sw.StartRun(ctl.Run{At: 5, Ranks: []int{0}, Peers: make([]workload.Peer, 1)}); err == nil {
		t.Error("a switch takes a rank")
	}
	if err := ep.StartRun(ctl.Run{At: 5, Ranks: []int{0}, Peers: nil}); err == nil {
		t.Error("a rank without an address is taken")
	}
	var told workload.RankResult
	ep.report = func(r workload.RankResult) { told = r }
	if err := ep.StartRun(ctl.Run{At: 5, Ranks: []int{1}, Spec: workload.Spec{Workload: "juggle", Ranks: 2}, Peers: []workload.Peer{{Addr: p.Nodes[0].Addr4}, {Addr: p.Nodes[0].Addr4}}}); err != nil {
		t.Fatal(err)
	}
	if ep.Advance(5); told.Rank != 1 || told.Error == "" {
		t.Errorf("result %+v", told)
	}
	if d, all := ep.Progress(); d != 0 || all != 0 {
		t.Errorf("progress %d of %d", d, all)
	}
}

func TestConfigTellsANodeWhatItIs(t *testing.T) {
	p := plan(t, "fat-tree-2x2")
	for id := range p.Nodes {
		c := Config(p, id, 9, p.Routes(nil)[id])
		if c.Node.Name != p.Nodes[id].Name || c.LabSeed != 9 || (p.Nodes[id].FEP != nil) != (c.Around.BDP == p.BDP) || c.Gateway != nil || len(c.Peers) != len(p.Nodes[id].Ports) {
			t.Errorf("%s: %+v", p.Nodes[id].Name, c)
		}
		for i, q := range c.Peers {
			port := p.Nodes[id].Ports[i]
			if !q.Lab || q.MAC != p.Nodes[port.Peer].Ports[port.PeerIdx].MAC {
				t.Errorf("%s %s: peer %+v", p.Nodes[id].Name, port.Name, q)
			}
		}
		if (len(c.Routes) > 0) != (p.Nodes[id].Kind == topology.KindSwitch) {
			t.Errorf("%s has %d groups of routes", p.Nodes[id].Name, len(c.Routes))
		}
	}
	host := kind(p, topology.KindFEP)
	p.Nodes[host].Kind = topology.KindHost
	c := Config(p, host, 9, nil)
	leaf := p.Nodes[host].Ports[0].Peer
	if c.Peers[0].Lab || c.Gateway == nil || c.Gateway.Addr4 != p.Nodes[leaf].Addr4.String() || c.Gateway.MAC != c.Peers[0].MAC {
		t.Errorf("plain host: %+v", c)
	}
	if q := Peers(p, leaf)[p.Nodes[host].Ports[0].PeerIdx]; q.Lab {
		t.Error("a switch takes a plain host for a lab node")
	}
	_, err := New(c, &outlet{}, &Memory{}, nil)
	if err == nil || !strings.Contains(err.Error(), "no core") {
		t.Errorf("a core for a plain host: %v", err)
	}
}

func TestGroupsJoinWhatSharesPorts(t *testing.T) {
	p := plan(t, "fat-tree-2x4")
	for id, routes := range p.Routes(nil) {
		groups, n := Groups(routes), 0
		for i, g := range groups {
			n += len(g.Prefixes)
			for _, h := range groups[:i] {
				if slices.Equal(g.Ports, h.Ports) {
					t.Errorf("node %d: two groups of ports %v", id, g.Ports)
				}
			}
			for _, s := range g.Prefixes {
				if !slices.ContainsFunc(routes, func(r topology.Route) bool { return r.Prefix.String() == s && slices.Equal(r.Ports, g.Ports) }) {
					t.Errorf("node %d: %s by ports %v is not a route", id, s, g.Ports)
				}
			}
		}
		if n != len(routes) {
			t.Errorf("node %d: %d prefixes in groups, %d routes", id, n, len(routes))
		}
	}
}

// TestCreditsThatAreTooFew has a channel get less room than its longest frame, with Ethernet header and tag, takes: the change is refused before it is scheduled.
func TestCreditsThatAreTooFew(t *testing.T) {
	p := plan(t, "pair")
	n, _ := make1(t, p, 0)
	mtu := p.Nodes[0].Ports[0].MTU
	for least, ok := range map[int]bool{mtu + ethAndTag: true, mtu: false} {
		s := &cbfc.Setup{Profile: cbfc.Profile{CreditSize: 32, Lossless: 1, Method: wire.CBFCPerVC, VCs: []wire.CBFCVC{{Map: wire.VCMapDSCP}}}}
		s.Fill()
		s.Profile.VCs[0].Limit = cbfc.CellOf(&s.Profile).Credits(least)
		if err := n.Change(over(t, ctl.Change{At: 1, Credit: &ctl.Credit{CBFC: s}})); (err == nil) != ok {
			t.Errorf("room for %d bytes: %v", least, err)
		}
	}
}
