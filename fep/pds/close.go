package pds

import (
	"time"

	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// idleTime is when an initiator looks after an idle PDC.
func (m *Manager) idleTime() (d time.Duration) {
	d = m.cfg.IdleClose
	if m.cfg.Keepalive > 0 {
		d = min(d, m.cfg.Keepalive)
	}
	return d
}

// Close asks for the end of a PDC: an initiator closes it when all is done, a target asks its initiator to.
func (m *Manager) Close(now vt.Time, p *PDC) {
	if p.initiator {
		p.quiesce(now)
	} else {
		p.askClose(now)
	}
	m.Kick(now)
}

// onLife acts on the timer that rules the PDC's life, by its state.
func (p *PDC) onLife(now vt.Time) {
	c := &p.m.cfg
	switch {
	case p.state == Linger:
		p.gone(now)
	case p.state == Pending:
		p.m.C[NewPDCTimeout]++
		p.free(now, PDCExpired, nil)
	case p.state == CloseSent:
		p.m.C[CloseTimeout]++
		p.fail(now, 0)
	case !p.initiator:
		if due := p.lastUse.Add(c.TargetIdle); due > now {
			p.arm(&p.life, due)
		} else {
			p.askClose(now)
		}
	default:
		p.onIdle(now)
	}
}

// onIdle looks after an initiator's PDC: it closes one that had nothing to do for long, and probes a quiet one if asked to.
func (p *PDC) onIdle(now vt.Time) {
	c := &p.m.cfg
	due := p.lastUse.Add(c.IdleClose)
	if p.state != Opening && p.state != Established {
		return
	}
	if due <= now {
		if p.state == Established && p.quiet() {
			p.quiesce(now)
			return
		}
		due = now.Add(c.IdleClose)
	}
	if c.Keepalive > 0 {
		if p.keepalive(now) {
			return
		}
		due = min(due, now.Add(c.Keepalive))
	}
	p.arm(&p.life, due)
}

// keepalive sends a Probe on a PDC that waits for nothing from its peer but is not closed; true says that the PDC is given
// up since nobody answers.
func (p *PDC) keepalive(now vt.Time) bool {
	if p.state != Established || p.s.unacked() > 0 {
		p.keepalives = 0
		return false
	}
	if p.keepalives >= 3 {
		p.fail(now, 0)
		return true
	}
	p.keepalives++
	p.probe(now)
	return false
}

// quiesce stops the intake of new messages and closes the PDC as soon as it can.
func (p *PDC) quiesce(now vt.Time) {
	if p.state != Established || !p.initiator {
		return
	}
	p.state = Quiesce
	p.m.closing++
	p.handOver(now)
	p.tryClose(now)
}

// handOver gives the messages of a quiesced PDC that have not begun to others. Ordered ones must not overtake what is still
// under way, and wait until all of that has arrived.
func (p *PDC) handOver(now vt.Time) {
	if p.mode == ROD && (p.s.cur != nil || p.s.unacked() > 0) {
		return
	}
	var all []*Msg
	for msg := p.s.popQueued(); msg != nil; msg = p.s.popQueued() {
		msg.unlock()
		all = append(all, msg)
	}
	for _, msg := range all {
		p.m.Submit(now, msg)
	}
}

// makeRoom begins to close a PDC that has nothing to do while messages wait for its place.
func (p *PDC) makeRoom(now vt.Time) {
	if len(p.m.waiting) > 0 && p.quiet() {
		p.quiesce(now)
	}
}

// tryClose sends the Close Command of a quiesced PDC that is done. It takes the next PSN and is sent again like data.
func (p *PDC) tryClose(now vt.Time) {
	if p.state != Quiesce || !p.quiet() {
		return
	}
	p.state = CloseWait
	if p.d.genCount > 0 {
		p.ackAll(now) // see answered
	}
	p.sendClose(now, wire.CtlCloseCommand)
}

func (p *PDC) sendClose(now vt.Time, ctl wire.CtlType) {
	k := p.s.extend(p.m)
	k.ctl, k.flags = uint8(ctl), pktQueued|pktCtl
	p.s.queued(k, true)
	p.s.setDue(k, now+p.rto(0))
	p.arm(&p.rtx, k.due)
	p.queueRetx()
}

// askClose sends a target's Close Request.
func (p *PDC) askClose(now vt.Time) {
	if p.state != Established || p.initiator {
		return
	}
	p.state = CloseSent
	p.sendClose(now, wire.CtlCloseRequest)
	p.m.arm(&p.life, now.Add(p.m.cfg.CloseReqTime))
}

// fail closes a PDC in error: every operation on it completes once. code 0 stands for used-up retries. The peer is told if it
// may still have the PDC: by an initiator at once, by a target when it sends something.
func (p *PDC) fail(now vt.Time, code wire.NackCode) {
	m := p.m
	err := &Error{PDC: p.id, Code: code}
	switch p.state {
	case Closed, Linger:
		return
	case CloseWait:
		if code == 0 {
			m.C[CloseTimeout]++
		}
		p.free(now, PDCExpired, nil)
		return
	}
	why, msgs := PDCFailed, p.s.takeAll(p)
	if p.state == CloseSent && len(msgs) == 0 {
		why = PDCExpired
	}
	if p.initiator {
		if p.peerID != 0 && code != wire.NackInvDPDCID && code != wire.NackClosing && code != wire.NackClosingInErr {
			p.control(wire.CtlCloseCommand, wire.CtrlAR, p.s.next, 0)
		}
		p.free(now, why, err)
	} else {
		known := p.state != CloseSent
		p.release(now, why, err)
		p.state, p.errored = Linger, true
		if known {
			m.arm(&p.life, now.Add(m.cfg.Hold))
		} else {
			p.gone(now)
		}
	}
	for _, msg := range msgs {
		if code == wire.NackClosing && p.initiator && !msg.begun && msg.S.Rewind() {
			msg.reset()
			m.Submit(now, msg) // nothing of it arrived: it is safe on another PDC
			continue
		}
		msg.failed, msg.pdc = true, nil
		msg.S.Failed(now, err)
	}
}

// reset makes the message begin anew.
func (msg *Msg) reset() {
	msg.pdc, msg.whole, msg.unacked, msg.begun, msg.failed = nil, false, 0, false, false
}
