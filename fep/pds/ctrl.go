package pds

import (
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// onCtrl handles a control packet (uet-pds-ses.md 12).
func (m *Manager) onCtrl(now vt.Time, a *arrival) {
	c, err := wire.ParseCtrl(a.uet)
	if err != nil {
		m.C[Malformed]++
		return
	}
	p := m.pdcs.get(c.DPDCID())
	if c.SYN() {
		p = m.bySYN[synKey{a.src, c.SPDCID()}]
		if p == nil && c.SPDCID() != 0 && (c.Ctl() == wire.CtlNoop || c.Ctl() == wire.CtlNegotiation) {
			p = m.ctrlOpens(now, a, c)
		}
	}
	if p != nil && p.peer == a.src && !c.SYN() {
		p.learn(c.SPDCID())
		p.settled = true
	}
	if p == nil || p.peer != a.src || c.SPDCID() == 0 || p.peerID != c.SPDCID() || p.state == Pending {
		m.C[UnknownPDCID]++
		return
	}
	m.C[CtrlRx]++
	p.lastUse = now
	p.onCtrl(now, a, c)
}

// ctrlOpens makes a PDC for a NOOP or Negotiation in SYN form.
func (m *Manager) ctrlOpens(now vt.Time, a *arrival, c wire.Ctrl) *PDC {
	mode := RUD
	if c.ISROD() {
		mode = ROD
	}
	p := m.newTarget(now, a, c.SPDCID(), mode)
	if p == nil {
		m.nack(wire.NackNoPDCAvail, a, c.PSN(), c.SPDCID(), c.RETX(), nil)
		return nil
	}
	if !p.start(now, c.StartPSN()) {
		if n := m.nack(wire.NackNewStartPSN, a, c.PSN(), c.SPDCID(), c.RETX(), p); n != nil {
			n.payload = uint32(p.s.expected)
		}
		return nil
	}
	return p
}

func (p *PDC) onCtrl(now vt.Time, a *arrival, c wire.Ctrl) {
	m := p.m
	switch ctl := c.Ctl(); {
	case ctl == wire.CtlCloseCommand && !p.initiator:
		p.onClose(now, a, c)
	case p.state == Linger:
		m.C[StaleAck]++
	case ctl == wire.CtlCloseRequest && p.initiator:
		if p.numbered(now, a, c) {
			p.quiesce(now)
		}
	case ctl == wire.CtlNoop:
		if c.AR() {
			p.numbered(now, a, c)
		}
	case ctl == wire.CtlClearCommand:
		p.onClear(wire.PSN(c.Payload()))
	case ctl == wire.CtlClearRequest:
		if p.peerID != 0 {
			p.wanted(wire.PSN(c.Payload()))
			p.control(wire.CtlClearCommand, 0, 0, uint32(p.s.clear))
		}
	case ctl == wire.CtlAckRequest:
		p.onAckRequest(now, a, c)
	case ctl == wire.CtlProbe:
		if n := p.pushAck(now, a.in.EV, c.RETX(), a.ce()); n != nil {
			n.flags |= uint8(wire.AckP)
			n.opaque, n.payload = c.ProbeOpaque(), c.Payload()
		}
	case ctl == wire.CtlCredit:
		m.C[CreditRx]++
		if p.cg != nil && p.cg.ctx != nil {
			p.onCredit(now, c.Payload()>>8)
			p.afterFeedback(now)
		}
	case ctl == wire.CtlCreditRequest:
		m.C[CreditRx]++
		p.onCreditRequest(now, c.Payload())
	case ctl == wire.CtlNegotiation:
		m.C[NegotiationRx]++
	default:
		m.C[Unsupported]++
	}
}

// numbered takes a control packet that has a PSN of its own and wants an ACK; false if the PSN is out of range.
func (p *PDC) numbered(now vt.Time, a *arrival, c wire.Ctrl) bool {
	psn := c.PSN()
	switch p.d.classify(psn, p.m.cfg.MPR) {
	case placeOut:
		p.m.C[OutOfRange]++
		return false
	case placeNew:
		if p.mode == ROD && psn != p.d.edge {
			p.m.C[RODDrop]++
			return false
		}
		p.d.mark(p.m, psn, false, false, false)
	}
	if n := p.pushAck(now, a.in.EV, c.RETX(), a.ce()); n != nil {
		n.psn = psn
	}
	return true
}

// onAckRequest says what has become of a packet.
func (p *PDC) onAckRequest(now vt.Time, a *arrival, c wire.Ctrl) {
	psn := c.PSN()
	k := p.stored(psn)
	switch {
	case !p.d.received(psn):
		p.m.nack(wire.NackPktNotRcvd, a, psn, c.SPDCID(), c.RETX(), p)
	case p.answering(psn):
		p.m.nack(wire.NackRcvdSESProcg, a, psn, c.SPDCID(), c.RETX(), p)
	case k != nil && len(k.resp.Data) > 0:
		p.m.nack(wire.NackAckWithData, a, psn, c.SPDCID(), c.RETX(), p)
	default:
		p.ackDuplicate(now, a.in.EV, a.ce(), c.RETX(), psn)
	}
}

// onClose ends the PDC at the target: everything counts as cleared, unfinished messages are lost, stragglers are answered
// until the hold time is over.
func (p *PDC) onClose(now vt.Time, a *arrival, c wire.Ctrl) {
	m, d := p.m, &p.d
	psn, epsn := c.PSN(), wire.PSN(0)
	if p.state != Linger {
		if off := psn.Diff(d.base); off < 0 || off >= 2*mpRange(m.cfg.MPR) {
			m.C[StaleAck]++
			return
		}
		if p.s.hasNew() || p.busy() {
			m.nack(wire.NackClosingInErr, a, psn, c.SPDCID(), c.RETX(), p)
			p.fail(now, wire.NackClosingInErr)
			return
		}
		p.release(now, PDCClosed, nil)
		d.base, d.edge, d.maxRx, d.ooo, d.nLate, d.genCount = psn+1, psn+1, psn, 0, 0, 0
		p.state = Linger
		m.arm(&p.life, now.Add(m.cfg.Hold))
	}
	if p.errored {
		m.nack(wire.NackClosingInErr, a, psn, c.SPDCID(), c.RETX(), p)
		return
	}
	n := p.pushAck(now, a.in.EV, c.RETX(), a.ce())
	if n == nil {
		return
	}
	n.psn = psn
	if m.cfg.Secure != nil {
		epsn = m.cfg.Secure.Closed(p.peer, p.job, d.start, psn)
		n.flags |= uint8(wire.AckEPSN)
		n.payload = uint32(epsn)
	}
}

// busy says whether return data is unacknowledged; a Close Request is none.
func (p *PDC) busy() bool {
	s := &p.s
	for q := s.clear + 1; q != s.next; q++ {
		if k := s.at(q); k.flags&(pktDone|pktCtl) == 0 {
			return true
		}
	}
	return false
}
