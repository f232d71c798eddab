package fep

import (
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// ack queues an ACK for psn, which carries its response, and covers all that came since the last one.
func (p *pdc) ack(now vt.Time, ev uint16, retx bool, psn wire.PSN, resp response) {
	d := &p.d
	c := p.pushAck(now, ev, retx, d.ce)
	d.genCount, d.ce, d.needAck = 0, false, false
	if c == nil {
		return
	}
	c.psn, c.arrived = psn, d.arrived
	c.hasResp, c.resp = true, resp
	if resp.gtd {
		c.req = wire.AckReqClear
	}
}

// pushAck queues an ACK without its PSN.
func (p *pdc) pushAck(now vt.Time, ev uint16, retx, ce bool) *ctlMsg {
	c := p.f.ctl.push()
	if c == nil {
		p.f.C[CtlOverflow]++
		return nil
	}
	c.kind, c.p, c.peer, c.ev, c.arrived = wire.TypeAckCC, p, p.peer, ev, now
	if ce {
		c.flags |= uint8(wire.AckM)
	}
	if retx {
		c.flags |= uint8(wire.AckRETX)
	}
	return c
}

// ackDuplicate answers a packet, or an ACK Request, whose PSN was received before: with the stored response if there is
// one, else with a default response. SES does not see it.
func (p *pdc) ackDuplicate(now vt.Time, ev uint16, ce, retx bool, psn wire.PSN) {
	c := p.pushAck(now, ev, retx, ce)
	if c == nil {
		return
	}
	c.psn, c.hasResp = psn, true
	c.resp = response{op: wire.RespDefault, rc: wire.RCOK, job: p.job}
	for i := range p.d.kept {
		if k := &p.d.kept[i]; k.psn == psn {
			c.resp, c.req = k.resp, wire.AckReqClear
		}
	}
}

// appendAck writes an ACK_CC with the state of now and, behind it, the response.
func (p *pdc) appendAck(b []byte, now vt.Time, c *ctlMsg) []byte {
	d := &p.d
	cack := d.base - 1
	af := wire.AckFields{Type: wire.TypeAckCC, Flags: wire.AckFlags(c.flags), Req: c.req, CACK: cack, SPDCID: p.id,
		DPDCID: p.peerID, CCType: wire.CCTypeNSCC, MPR: p.f.cfg.MPR}
	sack := d.base
	if af.Flags&wire.AckP != 0 {
		af.ProbeOpaque = c.opaque
	} else {
		af.AckOffset = int16(c.psn.Diff(cack))
		if s := c.psn - 63; s.After(sack) {
			sack = s
		}
	}
	af.SACKOffset, af.SACKBitmap = int16(sack.Diff(cack)), d.got.word(sack)
	af.CCState = wire.NSCCState{
		ServiceTime: serviceTime(now, c.arrived),
		RcvdBytes:   uint32((d.rcvd+255)>>8) & 0xFFFFFF,
		OOO:         uint16(min(d.ooo, 0xFFFE)),
	}.Pack()
	if c.hasResp {
		af.Next = wire.NextResponse
	}
	b = wire.AppendAck(b, &af)
	if c.hasResp {
		b = c.resp.append(b)
	}
	return b
}

// serviceTime is the time between arrival and ACK in units of 128 ns, at least 1: 0 would say "not valid".
func serviceTime(now, arrived vt.Time) uint16 {
	return uint16(min(max((now-arrived)/128, 1), 0xFFFF))
}

// onCtrl handles a control packet.
func (f *FEP) onCtrl(now vt.Time, a *arrival) {
	c, err := wire.ParseCtrl(a.uet)
	if err != nil {
		f.C[Malformed]++
		return
	}
	p := f.pdcs.get(c.DPDCID())
	if c.SYN() {
		p = f.bySYN[synKey{a.src, c.SPDCID()}]
	}
	if p == nil || p.peer != a.src || c.SPDCID() == 0 || p.peerID != c.SPDCID() {
		f.C[UnknownPDCID]++
		return
	}
	f.C[CtrlRx]++
	p.lastUse = now
	if p.initiator {
		p.ctrlAtInitiator(now, a, c)
	} else {
		p.ctrlAtTarget(now, a, c)
	}
}

// ctrlAtInitiator handles what a target may send.
func (p *pdc) ctrlAtInitiator(now vt.Time, a *arrival, c wire.Ctrl) {
	switch c.Ctl() {
	case wire.CtlClearRequest:
		p.s.owe = false // what it waits for may be less than what we have: say what we have
		p.control(wire.CtlClearCommand, 0, 0, uint32(p.s.clear))
	case wire.CtlCloseRequest:
		// It is the only packet that we accept in the return direction, so all of that is received.
		if n := p.pushAck(now, a.in.EV, c.RETX(), false); n != nil {
			n.psn = c.PSN()
			p.d.init(c.PSN()+1, p.f.cfg.MPR)
		}
		p.quiesce(now)
	default:
		p.f.C[Unsupported]++
	}
}

// ctrlAtTarget handles what an initiator may send (uet-pds-ses.md 12).
func (p *pdc) ctrlAtTarget(now vt.Time, a *arrival, c wire.Ctrl) {
	d := &p.d
	switch c.Ctl() {
	case wire.CtlCloseCommand:
		p.onClose(now, a, c)
	case wire.CtlClearCommand:
		p.onClear(wire.PSN(c.Payload()))
	case wire.CtlAckRequest:
		off := c.PSN().Diff(d.base)
		switch {
		case off < 0 && off >= -maxAge || off >= 0 && off < mpRange(p.f.cfg.MPR) && d.got.has(c.PSN()):
			p.ackDuplicate(now, a.in.EV, a.in.ECN == wire.ECNCE, c.RETX(), c.PSN())
		default:
			p.nackCtrl(wire.NackPktNotRcvd, a, c)
		}
	case wire.CtlProbe:
		if n := p.pushAck(now, a.in.EV, c.RETX(), a.in.ECN == wire.ECNCE); n != nil {
			n.flags |= uint8(wire.AckP)
			n.opaque = c.ProbeOpaque()
		}
	default:
		p.f.C[Unsupported]++
	}
}

func (p *pdc) nackCtrl(code wire.NackCode, a *arrival, c wire.Ctrl) {
	n := p.f.ctl.push()
	if n == nil {
		p.f.C[CtlOverflow]++
		return
	}
	n.kind, n.code, n.peer, n.psn, n.ev = wire.TypeNack, code, a.src, c.PSN(), a.in.EV
	n.spdcid, n.dpdcid = p.id, p.peerID
}

// onClose ends the PDC at the target: everything counts as cleared, unfinished messages are lost, stragglers are answered
// until the hold time is over.
func (p *pdc) onClose(now vt.Time, a *arrival, c wire.Ctrl) {
	d := &p.d
	if p.state == Established {
		if off := c.PSN().Diff(d.base); off < 0 || off >= 2*mpRange(p.f.cfg.MPR) {
			p.f.C[StaleAck]++
			return
		}
		p.abortMessages(now)
		p.dropStored()
		clear(d.got)
		d.base, d.edge, d.maxRx, d.ooo, d.genCount = c.PSN()+1, c.PSN()+1, c.PSN(), 0, 0
		p.state = Linger
		p.arm(timerHold, now.Add(p.f.cfg.Hold))
	}
	if n := p.pushAck(now, a.in.EV, c.RETX(), a.in.ECN == wire.ECNCE); n != nil {
		n.psn = c.PSN()
	}
}
