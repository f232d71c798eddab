package pds

import (
	"github.com/uetlab/uetlab/fep/lb"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// nextRetx builds the packet that is to be sent again next, of those that were refused or of the others; nil if there is none or no
// window for it, or if it waits behind others.
func (p *PDC) nextRetx(now vt.Time, refused, waits bool) *link.Frame {
	s := &p.s
	n := s.nQueued - s.nRefused
	if refused && p.mode != ROD {
		n = s.nRefused
	}
	if p.state == Closed || n == 0 {
		return nil
	}
	if !refused && p.stuckBehind() {
		p.queueRetx()
		return nil
	}
	k := s.queuedPacket(refused && p.mode != ROD)
	if waits {
		p.block(now, int(k.size))
		return nil
	}
	if !p.mayFly(now, k, int(k.size), refused) {
		return nil // the ACK that opens the window queues the PDC again
	}
	s.unqueue(k)
	p.turns().took(refused)
	again := k.flags&pktSent != 0
	if again {
		p.countRetx(k)
	}
	if k.flags&pktCtl != 0 {
		return p.m.afford(now, p.buildClose(now, k, again))
	}
	return p.buildData(now, k, again)
}

func (p *PDC) countRetx(k *Packet) {
	k.flags |= pktAgain
	p.retx[k.cause]++
	p.m.C[Retx]++
	p.m.C[k.cause.Counter()]++
}

// nextNew builds the next new packet of the message in progress, or of the next one; nil if the PDC may not send now.
func (p *PDC) nextNew(now vt.Time) *link.Frame {
	s, m := &p.s, p.m
	if p.state == Closed || !s.hasNew() || p.mode == ROD && s.nQueued > 0 || p.atLimit(now) {
		return nil
	}
	msg := s.cur
	if msg == nil && p.state == Quiesce {
		return nil
	}
	if msg == nil {
		msg = s.unlink()
		s.cur = msg
		if p.cg != nil {
			p.cg.msg = max(1, msg.left)
		}
	}
	n, hdr := msg.S.Next()
	size := m.cfg.nominal(hdr.HeaderLen(), n)
	if shut := s.next.Diff(s.cack) > s.span; shut || !p.mayFly(now, nil, size, false) || p.synLimit() {
		if s.owe {
			p.sendClear()
		}
		if shut && s.inflight == 0 {
			p.windowProbe(now)
		}
		return m.nextCtl(now)
	}
	p.turns().took(false)
	k := s.extend(m)
	k.msg, k.size, k.hdr = msg, uint16(size), hdr
	msg.unacked++
	last := msg.S.Cut(k)
	msg.left -= int64(k.N)
	s.backlog -= int64(k.N)
	if last {
		k.flags |= pktLast
		msg.whole = true
		s.backlog -= msg.left
		msg.left = 0
		s.cur = nil
	}
	fr := p.buildData(now, k, false)
	p.onBacklog()
	return fr
}

// atLimit reports that the PDC has used up its range of PSNs and takes no further message.
func (p *PDC) atLimit(now vt.Time) bool {
	limit := p.m.cfg.PSNLimit
	if limit == 0 || !p.initiator || p.s.cur != nil || uint32(p.s.next-p.s.start) < limit || p.state != Established {
		return false
	}
	p.quiesce(now)
	return true
}

// synLimit reports that psn_offset has no room for another packet while the PDC opens.
func (p *PDC) synLimit() bool {
	return p.state == Opening && p.s.next.Diff(p.s.start) > wire.MaxSYNOffset
}

// windowProbe asks for the current CACK when MP_RANGE is used up although nothing is in flight: a Clear Command is not
// acknowledged, and the ACK that showed the window open again may have been lost.
func (p *PDC) windowProbe(now vt.Time) {
	if now < p.s.probeAt || p.peerID == 0 {
		return
	}
	p.s.probeAt = now + p.rto(0)
	p.probe(now)
	p.arm(&p.rtx, p.s.probeAt)
}

// probe sends a Probe CP.
func (p *PDC) probe(now vt.Time) {
	s := &p.s
	s.opaque++
	s.probed = now
	c := p.control(wire.CtlProbe, wire.CtrlAR, 0, uint32(s.clear+1))
	if c == nil {
		return
	}
	c.opaque = s.opaque
	if p.cg != nil && p.cg.bal != nil {
		c.ev = p.cg.bal.Next(now, lb.Packet{}) // by a way that is known to work, if one is
	}
}

// dataEV picks the entropy value of the next packet. What is sent again does not take the way on which it was lost, if it may
// choose.
func (p *PDC) dataEV(k *Packet, again bool) uint16 {
	if p.mode == ROD || p.m.cfg.LB == LBFixed {
		return p.s.ev
	}
	ev := p.m.randomEV()
	for again && ev == k.ev {
		ev = p.m.randomEV()
	}
	return ev
}

// wantAck applies the rules for the AR flag (uet-pds-ses.md 5.8): feedback is wanted as soon as the window has no room for another
// packet. While losses are being repaired, and in a window of a few times AckGenTrigger, it is wanted as soon as there is less room
// than the peer may let come before it says anything: else a window of one round trip runs dry while the peer still counts. So it does
// in the small one of an ordered PDC that goes back again and again.
func (p *PDC) wantAck(k *Packet, again bool) bool {
	s, c := &p.s, &p.m.cfg
	if again || p.state == Opening || c.AckEvery || k.flags&pktLast != 0 && !k.msg.More || p.mode == ROD && s.backs > 0 || k.PSN.Diff(s.cack) >= s.span {
		return true
	}
	if p.cg != nil && p.cg.ctx != nil {
		return p.cg.ctx.AckRequest()
	}
	room, lump := int64(p.m.full), int64(c.AckGenTrigger)
	if s.inRec || c.Window < 4*lump {
		room = max(room, lump)
	}
	return c.Window-s.inflight < room
}

// depart does the bookkeeping of a packet that leaves now.
func (p *PDC) depart(now vt.Time, k *Packet) {
	s := &p.s
	s.fly(k)
	k.sent = now
	if p.cg != nil {
		p.sent(now, k)
	}
	s.setDue(k, now+p.rto(k.rtos))
	s.act = now
	p.lastUse = now
	p.arm(&p.rtx, k.due)
	if s.nFly == 1 {
		p.armProbe(now)
	}
}

// buildData builds the packet of a ring entry with the state of now: CLEAR, SYN, AR and EV are chosen afresh.
func (p *PDC) buildData(now vt.Time, k *Packet, again bool) *link.Frame {
	m, s := p.m, &p.s
	idle := s.nFly == 0
	p.depart(now, k)
	if p.cg != nil && p.cg.bal != nil {
		k.ev = p.cg.choose(now, k, again, idle)
	} else {
		k.ev = p.dataEV(k, again)
	}
	if m.watched != nil {
		p.tally(k)
	}
	dscp := m.cfg.DSCPData
	r := wire.RequestFields{Type: m.cfg.requestType(p.mode), Next: k.hdr, PSN: k.PSN, SPDCID: p.id, DPDCID: p.peerID,
		ClearOffset: int16(s.clear.Diff(k.PSN))}
	if p.cg != nil && p.cg.ctx != nil {
		r.CCCID, r.CreditTarget = p.cg.ctx.id, p.cg.ctx.CreditTarget(p.cg.ctx.rivals())
	}
	if again {
		dscp = m.cfg.DSCPRetx
		r.Flags |= wire.ReqRETX
	}
	if p.wantAck(k, again) {
		r.Flags |= wire.ReqAR
	}
	if p.state == Opening {
		r.Flags |= wire.ReqSYN
		r.PSNOffset = uint16(k.PSN.Diff(s.start))
	}
	if s.owe && !s.clear.Before(s.owePSN) {
		s.owe = false
	}
	fr := m.begin(p.peer, k.ev, dscp, wire.ECNECT0)
	fr.B = wire.AppendRequest(fr.B, &r)
	m.C[DataTx]++
	m.C[DataTxBytes] += uint64(k.N)
	return m.tag(m.load(fr, k))
}

// load appends SES header, payload and CRC.
func (m *Manager) load(fr *link.Frame, k *Packet) *link.Frame {
	fr.B = k.msg.S.Header(fr.B, k)
	if k.N > 0 {
		payload := k.msg.S.Payload(k)
		if m.cfg.ByRef && !m.cfg.NoCRC {
			fr.Refer(payload)
			wire.FinishUDP(fr.B)
			return fr
		}
		fr.B = append(fr.B, payload...)
	}
	return m.finish(fr)
}

// buildClose builds the Close Command or Close Request.
func (p *PDC) buildClose(now vt.Time, k *Packet, again bool) *link.Frame {
	p.depart(now, k)
	c := wire.CtrlFields{Ctl: wire.CtlType(k.ctl), Flags: wire.CtrlAR, PSN: k.PSN, SPDCID: p.id, DPDCID: p.peerID}
	if again {
		c.Flags |= wire.CtrlRETX
	}
	k.ev = p.dataEV(k, again)
	fr := p.m.begin(p.peer, k.ev, p.m.cfg.DSCPControl, wire.ECNNotECT)
	fr.B = wire.AppendCtrl(fr.B, &c)
	p.m.C[CtrlTx]++
	return p.m.finish(fr)
}

// buildCtl builds what a descriptor of the control queue says; nil if its PDC is gone.
func (m *Manager) buildCtl(now vt.Time, c *ctlMsg) *link.Frame {
	if c.p != nil && c.p.state == Closed {
		return nil
	}
	dscp, ecn := m.cfg.DSCPControl, uint8(wire.ECNNotECT)
	switch longData, longRUDI := m.long(c); {
	case longRUDI:
		dscp = m.cfg.DSCPUnmanaged
		if longData {
			ecn = wire.ECNECT0
		}
	case longData:
		dscp, ecn = m.cfg.DSCPData, wire.ECNECT0
	}
	fr := m.begin(c.peer, c.ev, dscp, ecn)
	switch c.kind {
	case wire.TypeAckCC:
		fr.B = c.p.appendAck(fr.B, now, c)
		m.C[AckTx]++
	case wire.TypeNack:
		fr.B = wire.AppendNack(fr.B, &wire.NackFields{Type: wire.TypeNack, Flags: wire.NackFlags(c.flags), Code: c.code,
			PSN: c.psn, SPDCID: c.spdcid, DPDCID: c.dpdcid, Payload: c.payload})
		m.C[nackTxCounter(c.code)]++
		m.nacksTx[c.code]++
	case wire.TypeRUDIResp:
		fr.B = wire.AppendRUDI(fr.B, &wire.RUDIFields{Type: wire.TypeRUDIResp, Next: c.resp.next(), Flags: wire.RUDIFlags(c.flags),
			PktID: uint32(c.psn)})
		fr.B = c.resp.append(fr.B)
		m.C[RUDIRespTx]++
	default:
		fr.B = wire.AppendCtrl(fr.B, &wire.CtrlFields{Ctl: c.ctl, Flags: wire.CtrlFlags(c.flags), PSN: c.psn,
			ProbeOpaque: c.opaque, SPDCID: c.spdcid, DPDCID: c.dpdcid, Payload: c.payload})
		m.C[CtrlTx]++
	}
	return m.finish(fr)
}
