package fep

import (
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// nextRetx builds the packet with the lowest PSN that is to be sent again, or nil if there is none or no window for it.
func (p *pdc) nextRetx(now vt.Time) *link.Frame {
	s := &p.s
	if p.state == Closed || s.nQueued == 0 {
		return nil
	}
	if !s.cursor.After(s.clear) {
		s.cursor = s.clear + 1
	}
	for s.at(s.cursor).flags&pktQueued == 0 {
		s.cursor++
	}
	k := s.at(s.cursor)
	if !p.windowOpen(int(k.size)) {
		return nil // the ACK that opens the window queues the PDC again
	}
	psn := s.cursor
	s.unqueue(k)
	s.cursor++
	again := k.flags&pktSent != 0
	if again {
		s.retx++
		p.f.C[Retx]++
	}
	if k.kind == kindClose {
		return p.buildClose(now, psn, k, again)
	}
	return p.buildData(now, psn, k, again)
}

// nextNew builds the next new packet of the message in progress, or of the next one; nil if the PDC may not send now.
func (p *pdc) nextNew(now vt.Time) *link.Frame {
	s := &p.s
	if p.state == Closed || !s.hasNew() {
		return nil
	}
	m := s.cur
	if m == nil {
		m = s.unlink()
		s.cur = m
	}
	n := m.nextLen(p.f.cfg.PayloadMTU)
	size := p.f.cfg.nominal(n)
	if shut := s.next.Diff(s.cack) > s.span; shut || !p.windowOpen(size) || p.synLimit() {
		if s.owe {
			p.sendClear()
		}
		if shut && s.inflight == 0 {
			p.windowProbe(now)
		}
		if p.f.ctl.n > 0 {
			c := p.f.ctl.pop()
			return p.f.buildCtl(now, &c)
		}
		return nil
	}
	psn := s.next
	k := s.extend()
	k.msg, k.off, k.n, k.size = m, m.sent, uint16(n), uint16(size)
	m.unacked++
	if m.err != nil {
		k.kind = kindMsgError
	} else {
		m.sent += uint32(n)
		s.backlog -= int64(n)
	}
	m.last = psn
	if m.err != nil || int(m.sent) == len(m.buf) {
		m.whole = true
		s.cur = nil
	}
	return p.buildData(now, psn, k, false)
}

// synLimit reports that psn_offset has no room for another packet while the PDC opens.
func (p *pdc) synLimit() bool {
	return p.state == Opening && p.s.next.Diff(p.s.start) > wire.MaxSYNOffset
}

// windowProbe asks for the current CACK when MP_RANGE is used up although nothing is in flight: a Clear Command is not
// acknowledged, and the ACK that showed the window open again may have been lost.
func (p *pdc) windowProbe(now vt.Time) {
	if now < p.s.probeAt || p.peerID == 0 {
		return
	}
	p.s.probeAt = now + p.rto(0)
	p.control(wire.CtlProbe, wire.CtrlAR, 0, uint32(p.s.cack+1))
	p.arm(timerRTO, p.s.probeAt)
}

// dataEV picks the entropy value of the next packet.
func (f *FEP) dataEV(p *pdc) uint16 {
	if f.cfg.LB == LBFixed {
		return p.s.ev
	}
	return f.randomEV()
}

// wantAck applies the rules for the AR flag (uet-pds-ses.md 5.8).
func (p *pdc) wantAck(psn wire.PSN, k *txPkt, again bool) bool {
	s, c := &p.s, &p.f.cfg
	full := int64(c.nominal(c.PayloadMTU))
	return again || p.state == Opening || k.kind != kindData || int(k.off)+int(k.n) == len(k.msg.buf) ||
		c.Window-s.inflight < full || c.Window < int64(c.AckGenTrigger) || psn.Diff(s.cack) >= s.span
}

// depart does the bookkeeping of a packet that leaves now.
func (p *pdc) depart(now vt.Time, k *txPkt) {
	p.s.inflight += int64(k.size)
	k.flags |= pktFlying | pktSent
	k.due = now + p.rto(k.rtos)
	p.lastUse = now
	p.arm(timerRTO, k.due)
}

// buildData builds the packet of a ring entry with the state of now: CLEAR, SYN, AR and EV are chosen afresh.
func (p *pdc) buildData(now vt.Time, psn wire.PSN, k *txPkt, again bool) *link.Frame {
	f, s := p.f, &p.s
	p.depart(now, k)
	k.ev = f.dataEV(p)
	dscp := f.cfg.DSCPData
	r := wire.RequestFields{Type: wire.TypeRUDReq, Next: wire.NextRequestStd, PSN: psn, SPDCID: p.id, DPDCID: p.peerID,
		ClearOffset: int16(s.clear.Diff(psn))}
	if again {
		dscp = f.cfg.DSCPRetx
		r.Flags |= wire.ReqRETX
	}
	if p.wantAck(psn, k, again) {
		r.Flags |= wire.ReqAR
	}
	if p.state == Opening {
		r.Flags |= wire.ReqSYN
		r.PSNOffset = uint16(psn.Diff(s.start))
	}
	if s.owe && !s.clear.Before(s.owePSN) {
		s.owe = false
	}
	fr := f.begin(p.peer, k.ev, dscp, wire.ECNECT0)
	fr.B = wire.AppendRequest(fr.B, &r)
	fr.B = k.msg.appendSES(fr.B, k)
	f.C[DataTx]++
	f.C[DataTxBytes] += uint64(k.n)
	payload := k.msg.buf[k.off : int(k.off)+int(k.n)]
	if f.cfg.ByRef && len(payload) > 0 && !f.cfg.NoCRC {
		fr.Refer(payload)
		wire.FinishUDP(fr.B)
		return f.tag(fr)
	}
	fr.B = append(fr.B, payload...)
	return f.tag(f.finish(fr))
}

// buildClose builds the Close Command.
func (p *pdc) buildClose(now vt.Time, psn wire.PSN, k *txPkt, again bool) *link.Frame {
	p.depart(now, k)
	c := wire.CtrlFields{Ctl: wire.CtlCloseCommand, Flags: wire.CtrlAR, PSN: psn, SPDCID: p.id, DPDCID: p.peerID}
	if again {
		c.Flags |= wire.CtrlRETX
	}
	fr := p.f.begin(p.peer, p.f.dataEV(p), p.f.cfg.DSCPControl, wire.ECNNotECT)
	fr.B = wire.AppendCtrl(fr.B, &c)
	p.f.C[CtrlTx]++
	return p.f.finish(fr)
}

// buildCtl builds what a descriptor of the control queue says; nil if its PDC is gone.
func (f *FEP) buildCtl(now vt.Time, c *ctlMsg) *link.Frame {
	if c.kind == wire.TypeAckCC && c.p.state == Closed {
		return nil
	}
	fr := f.begin(c.peer, c.ev, f.cfg.DSCPControl, wire.ECNNotECT)
	switch c.kind {
	case wire.TypeAckCC:
		fr.B = c.p.appendAck(fr.B, now, c)
		f.C[AckTx]++
	case wire.TypeNack:
		fr.B = wire.AppendNack(fr.B, &wire.NackFields{Type: wire.TypeNack, Flags: wire.NackFlags(c.flags), Code: c.code,
			PSN: c.psn, SPDCID: c.spdcid, DPDCID: c.dpdcid, Payload: c.payload})
		f.C[nackTxCounter(c.code)]++
	default:
		fr.B = wire.AppendCtrl(fr.B, &wire.CtrlFields{Ctl: c.ctl, Flags: wire.CtrlFlags(c.flags), PSN: c.psn,
			ProbeOpaque: c.opaque, SPDCID: c.spdcid, DPDCID: c.dpdcid, Payload: c.payload})
		f.C[CtrlTx]++
	}
	return f.finish(fr)
}
