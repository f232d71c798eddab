package nodecore

import (
	"fmt"
	"time"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/internal/ctl"
	"github.com/uetlab/uetlab/internal/engine"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/lldp"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// neighbours stands between the engine and the core of a node some of whose links have LLDP: it has the agents of these
// ports, and keeps their frames from the core. Other nodes do without it.
type neighbours struct {
	engine.Core
	n     *Node
	start vt.Time // when the node joins
	began vt.Time // when its agents began
	ports []agentPort
	work  vt.Time // when the core last had something to do
}

// agentPort is a port of the node; agent is nil where its link has no LLDP.
type agentPort struct {
	cfg   lldp.Config
	agent *lldp.Agent
	armed vt.Time // when the latest timer asked for is due
	obeys bool    // LLR and CBFC of the port are what the agent agrees on
	bargain
	story
}

// timerLLDP marks the timers of agents; the port stands below it. No core has so large a number.
const timerLLDP = engine.Aside

// settled is how long a core has had nothing to do when nothing will come of the agents either: they have told all, or forgotten each other.
const settled = lldp.TTL + lldp.Every

// addNeighbours puts agents on the ports that are to have them. The core is attached.
func (n *Node) addNeighbours(cfg *ctl.Config, core engine.Core) {
	p := &cfg.Node
	b := &neighbours{Core: core, n: n, start: cfg.Start, ports: make([]agentPort, len(p.Ports))}
	any := false
	for i, q := range p.Ports {
		if !q.LLDP {
			continue
		}
		any = true
		can := uint16(wire.LLDPCapStation)
		if p.Kind == topology.KindSwitch {
			can = wire.LLDPCapBridge | wire.LLDPCapRouter
		}
		b.ports[i].cfg = lldp.Config{MAC: q.MAC, Chassis: p.Ports[0].MAC, System: p.Name, Port: q.Name, Desc: fmt.Sprintf("%gGbps, %v", float64(q.Rate)/1e9, q.Delay), Can: can, Address: p.Addr4.AsSlice(), IfIndex: uint32(i + 1),
			BootID: uint32(uint64(cfg.Start)/uint64(time.Microsecond)) + 1, Trailer: !n.plain[i], Static: !q.Negotiated}
		b.ports[i].obeys = q.Negotiated && !n.plain[i]
		b.ports[i].bargain = bargainOf(&q, n.plain[i])
	}
	if !any {
		return
	}
	n.lldp = b
	n.Interpose(b)
	b.begin(0)
}

// Reset implements engine.Core: with the start of a run agents begin anew, so that a run is the same whatever was before it.
func (b *neighbours) Reset(now vt.Time) {
	b.Core.Reset(now)
	b.work = now
	b.begin(now)
}

func (b *neighbours) begin(now vt.Time) {
	now = max(now, b.start)
	b.began = now
	for i := range b.ports {
		if p := &b.ports[i]; p.cfg.System != "" {
			p.agent, p.armed = lldp.New(p.cfg), vt.Never
			p.changed, p.problem = false, ""
			p.agent.SetLink(now, b.n.Ports[i].Up())
			p.agent.Describe(now, b.n.about())
			p.agent.SetWish(now, p.wish) // nobody is known yet to agree with
			p.story.begin(now)
			b.arm(i)
		}
	}
}

// arm asks for a timer at the agent's next deadline.
func (b *neighbours) arm(port int) {
	p := &b.ports[port]
	if at := p.agent.Deadline(); at != p.armed {
		p.armed = at
		if at != vt.Never {
			b.n.SetTimer(at, timerLLDP|uint64(port))
		}
	}
}

// Timer implements engine.Core.
func (b *neighbours) Timer(now vt.Time, id uint64) {
	if id&timerLLDP == 0 {
		b.work = now
		b.Core.Timer(now, id)
		return
	}
	b.advance(now, int(id&^timerLLDP))
}

// Arrive implements engine.Core.
func (b *neighbours) Arrive(now vt.Time, port int, f *link.Frame) {
	p := &b.ports[port]
	if p.agent == nil || len(f.B) < wire.EthLen || wire.Eth(f.B).Type() != wire.EtherLLDP {
		b.work = now
		b.Core.Arrive(now, port, f)
		return
	}
	if b.stale(port, f) {
		f.Release()
		return
	}
	was := p.agent.Agreement()
	c := p.agent.Receive(now, f.B)
	f.Release()
	b.obey(now, port, c, was)
	b.advance(now, port)
}

// stale says whether a frame had left before the far end began anew, at the same time as this node: an agent that no longer knows of it said so.
func (b *neighbours) stale(port int, f *link.Frame) bool {
	q := b.n.Ports[port].Config()
	return b.began > b.start && f.Due < b.began.Add(q.Delay+time.Duration(link.LinePs(len(f.B), q.Rate)/1000))
}

// advance brings an agent to now. Its frame goes before those that wait, like MAC control.
func (b *neighbours) advance(now vt.Time, port int) {
	p, out := &b.ports[port], b.n.Ports[port]
	if p.armed <= now {
		p.armed = vt.Never
	}
	if p.agent.Deadline() <= now {
		f, was := b.n.Pool.Get(), p.agent.Agreement()
		var ok bool
		var c lldp.Change
		f.B, ok, c = p.agent.Advance(now, f.B)
		b.obey(now, port, c, was)
		if ok && out.Up() {
			out.EnqueueControl(now, f)
		} else {
			f.Release()
		}
	}
	b.follow(now, port)
	b.arm(port)
}

// linkChanged tells the agent of a port that its link may have gone down, or come up.
func (b *neighbours) linkChanged(now vt.Time, port int) {
	if p := &b.ports[port]; p.agent != nil {
		p.agent.SetLink(now, b.n.Ports[port].Up())
		b.arm(port)
	}
}

// describe tells the neighbours that the node is set in another way.
func (b *neighbours) describe(now vt.Time) {
	for i := range b.ports {
		if a := b.ports[i].agent; a != nil {
			a.Describe(now, b.n.about())
			b.arm(i)
		}
	}
}

// Settled says that nothing will come of the node by itself: nothing waits, or for a while nothing has but agents, which say who they are for ever.
func (n *Node) Settled() bool {
	return n.Next() == vt.Never || n.lldp != nil && !n.Waits() && n.Now().Sub(n.lldp.work) > settled
}

// Neighbours tells what the agents of the node's ports know at now, port by port.
func (n *Node) Neighbours(now vt.Time) []ctl.LLDPPort {
	out := []ctl.LLDPPort{}
	if n.lldp == nil {
		return out
	}
	for i := range n.lldp.ports {
		a := n.lldp.ports[i].agent
		if a == nil {
			continue
		}
		p := ctl.LLDPPort{Port: n.names[i], Counters: map[string]uint64{}}
		for c, v := range a.C {
			if v != 0 {
				p.Counters[lldp.Counter(c).String()] = v
			}
		}
		n.lldp.ports[i].describe(&p)
		if nb := a.Neighbour(); nb != nil {
			p.Neighbour = describeNeighbour(now, nb)
		}
		out = append(out, p)
	}
	return out
}

func describeNeighbour(now vt.Time, n *lldp.Neighbour) *ctl.LLDPNeighbour {
	d := &ctl.LLDPNeighbour{Chassis: n.Chassis, Port: n.Port, PortDesc: n.PortDesc, System: n.System, SystemDesc: n.SystemDesc, Can: lldp.Capabilities(n.Can), Enabled: lldp.Capabilities(n.Enabled),
		AgeNs: int64(now - n.Since), HeardNs: int64(now - n.Heard), TTLSec: int(n.TTL / time.Second), Unknown: n.Unknown}
	for _, a := range n.Addresses {
		d.Addresses = append(d.Addresses, a.String())
	}
	if o := n.Options; o != nil {
		d.UE = &ctl.LLDPOptions{LLRWanted: o.LLRWanted.String(), LLREnabled: o.LLREnabled.String(), CBFCWanted: o.CBFCWanted.String(), CBFCEnabled: o.CBFCEnabled.String(),
			Version: o.SpecVersion, BootID: o.BootID}
	}
	if c := n.CBFC; c != nil {
		d.CBFC = &ctl.LLDPReceiver{CreditSize: int(c.CreditSize), Overhead: int(c.PktOvhd), Method: c.Method.String(), Total: c.Total, Lossless: c.Lossless, Limits: map[int]uint32{}}
		for _, v := range c.VCs {
			d.CBFC.Limits[int(v.Index)] = v.Limit
		}
	}
	return d
}
