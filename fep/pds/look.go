package pds

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/uetlab/uetlab/fep/cms"
	"github.com/uetlab/uetlab/fep/lb"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// ContextInfo describes a congestion control context in listings.
type ContextInfo struct {
	cms.View
	Peer    netip.Addr
	TC      uint8
	ID      uint8 // ccc_id
	PDCs    int   // that share it
	Blocked int   // of them, those that wait for it
	Waiting int64 // nominal bytes that were not sent yet
}

// Contexts appends a description of every congestion control context to buf, by peer and traffic class.
func (m *Manager) Contexts(buf []ContextInfo) []ContextInfo {
	at := len(buf)
	for _, c := range m.cccs {
		buf = append(buf, ContextInfo{View: c.View(), Peer: c.key.peer, TC: c.key.tc, ID: c.id, PDCs: int(c.users), Blocked: len(c.blocked),
			Waiting: c.waiting})
	}
	slices.SortFunc(buf[at:], func(a, b ContextInfo) int { return cmp.Or(a.Peer.Compare(b.Peer), cmp.Compare(a.TC, b.TC)) })
	return buf
}

// WindowHook is told of every context that opens, and of every change of a window.
type WindowHook func(now vt.Time, peer netip.Addr, tc uint8, c *cms.Context, opened bool)

// WatchWindows has fn called from now on, of contexts that are there already with their next change; nil ends that. It must do
// nothing to the contexts.
func (m *Manager) WatchWindows(fn WindowHook) {
	m.windows = fn
	for _, c := range m.cccs {
		m.hook(c)
	}
}

func (m *Manager) hook(c *ccc) {
	c.Hook = nil
	if fn := m.windows; fn != nil {
		c.Hook = func(now vt.Time, x *cms.Context) { fn(now, c.key.peer, c.key.tc, x, false) }
	}
}

// PathInfo is what the sending half of a PDC knows of its entropy values.
type PathInfo struct {
	PDC  uint16
	Mode Mode
	TC   uint8
	lb.View
}

// mostWatched bounds for how many peers an end point counts packets by entropy value.
const mostWatched = 64

// WatchPaths counts from now on what the PDCs to a peer send by entropy value; it does not change what they send. false: it is done
// for as many peers as there can be.
func (m *Manager) WatchPaths(peer netip.Addr) bool {
	if m.watched[peer] {
		return true
	}
	if len(m.watched) >= mostWatched {
		return false
	}
	if m.watched == nil {
		m.watched = map[netip.Addr]bool{}
	}
	m.watched[peer] = true
	for _, p := range m.pdcs.slots {
		if p != nil && p.peer == peer {
			p.countPaths()
		}
	}
	return true
}

// countPaths puts a counter before the PDC's balancer, or in the place of one.
func (p *PDC) countPaths() {
	if g := p.cg; g != nil && g.bal != nil {
		if p.evs == nil || g.bal != lb.Balancer(p.evs) {
			p.evs = lb.NewWatch(g.bal)
			g.bal = p.evs
		}
		return
	}
	if p.evs == nil {
		p.evs = lb.NewWatch(drawn{})
	}
}

// tally counts a data packet that leaves now.
func (p *PDC) tally(k *Packet) {
	if p.evs == nil {
		if !p.m.watched[p.peer] {
			return
		}
		p.countPaths()
	}
	p.evs.Sent(k.ev, int(k.N))
}

// Paths appends what the PDCs to a peer know of their entropy values to buf, in the order of their slots.
func (m *Manager) Paths(peer netip.Addr, buf []PathInfo) []PathInfo {
	for _, p := range m.pdcs.slots {
		if p == nil || p.peer != peer {
			continue
		}
		i := PathInfo{PDC: p.id, Mode: p.mode, TC: p.tc}
		switch {
		case p.cg != nil && p.cg.bal != nil:
			p.cg.bal.Look(&i.View)
		default:
			if p.evs != nil {
				p.evs.Look(&i.View)
			}
			if i.Algorithm = lb.Spray; p.mode == ROD || m.cfg.LB == LBFixed {
				i.Algorithm = lb.Fixed
			}
		}
		buf = append(buf, i)
	}
	return buf
}

// Header is the IP header, and what a hash sees after it, of a data packet to a peer with an entropy value.
func (m *Manager) Header(peer netip.Addr, ev uint16) []byte {
	fr := m.begin(peer, ev, m.cfg.DSCPData, wire.ECNECT0)
	defer fr.Release()
	return append([]byte{}, fr.B[wire.EthLen:]...)
}

// drawn stands for entropy values that the PDC draws itself, without feedback: nothing is known of them but what was sent.
type drawn struct{}

// Next implements lb.Balancer.
func (drawn) Next(vt.Time, lb.Packet) uint16 { return 0 }

// Feedback implements lb.Balancer.
func (drawn) Feedback(vt.Time, lb.Feedback) {}

// Look implements lb.Balancer.
func (drawn) Look(*lb.View) {}
