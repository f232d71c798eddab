package pds

import (
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// Submit is tx_req: it gives the message to a PDC, one without a message in progress, a new one, or the least loaded one. The
// message waits if there is none at all.
func (m *Manager) Submit(now vt.Time, msg *Msg) {
	msg.m, msg.left = m, msg.Len
	if msg.Mode >= RUDI {
		m.submitRUDI(now, msg)
		return
	}
	if !m.behind(msg) {
		if p := m.choose(now, msg); p != nil {
			p.enqueue(now, msg)
			return
		}
	}
	m.waiting = append(m.waiting, msg)
	if len(m.waiting) == 1 {
		m.C[Paused]++
		m.up.Pause(now, true, m.rudi.told)
	}
	m.quiesceIdle(now)
}

// behind says whether an ordered message has to wait behind another one that waits for a PDC.
func (m *Manager) behind(msg *Msg) bool {
	if msg.Mode != ROD {
		return false
	}
	for _, w := range m.waiting {
		if w.Mode == ROD && w.Peer == msg.Peer && w.Job == msg.Job && w.TC == msg.TC && w.Ctx == msg.Ctx {
			return true
		}
	}
	return false
}

// Return is tx_ret: data that goes back on the PDC of its request. If the PDC is ending, the message fails.
func (m *Manager) Return(now vt.Time, p *PDC, msg *Msg) {
	msg.m, msg.left = m, msg.Len
	if p.state != Established && p.state != CloseSent {
		msg.failed = true
		msg.S.Failed(now, &Error{PDC: p.id, Code: wire.NackClosing})
		return
	}
	p.enqueue(now, msg)
}

func (m *Manager) choose(now vt.Time, msg *Msg) *PDC {
	k := groupKey{peer: msg.Peer, job: msg.Job, tc: msg.TC, mode: msg.Mode}
	most := m.cfg.PDCsPerKey
	own := m.cfg.OwnPDC && k.mode != ROD
	switch {
	case k.mode == ROD:
		k.ctx, most = msg.Ctx, 1
	case own:
		most = m.cfg.MaxPDCs
	}
	g := m.groups[k]
	if g == nil {
		g = &group{key: k}
		m.groups[k] = g
	}
	var least *PDC
	open := 0
	for _, p := range g.pdcs {
		if p.state == Quiesce && p.mode == ROD && !p.s.idle() {
			return p // waits there for its turn, see handOver
		}
		if p.state != Opening && p.state != Established {
			continue
		}
		if !p.s.hasNew() && !own {
			return p
		}
		open++
		if least == nil || p.s.backlog < least.s.backlog {
			least = p
		}
	}
	if open < most {
		if p := m.open(now, g); p != nil {
			g.pdcs = append(g.pdcs, p)
			return p
		}
	}
	if len(g.pdcs) == 0 {
		delete(m.groups, k)
	}
	return least
}

// quiesceIdle begins to close the PDC that was idle for longest, to make room, unless enough are closing already.
func (m *Manager) quiesceIdle(now vt.Time) {
	if m.closing >= len(m.waiting) {
		return
	}
	var best *PDC
	for _, p := range m.pdcs.slots {
		if p != nil && p.initiator && p.state == Established && p.quiet() && (best == nil || p.lastUse < best.lastUse) {
			best = p
		}
	}
	if best != nil {
		best.quiesce(now)
	}
}

// quiet says that an initiator's PDC could be closed at once.
func (p *PDC) quiet() bool { return p.s.idle() && len(p.locks) == 0 }

// resumeWaiting submits messages that waited for a PDC, as far as there are any.
func (m *Manager) resumeWaiting(now vt.Time) {
	if len(m.waiting) == 0 {
		return
	}
	for len(m.waiting) > 0 {
		msg := m.waiting[0]
		p := m.choose(now, msg)
		if p == nil {
			return
		}
		m.waiting[0] = nil
		m.waiting = m.waiting[1:]
		p.enqueue(now, msg)
	}
	m.waiting = nil
	m.up.Pause(now, false, m.rudi.told)
}
