package pds

import (
	"encoding/binary"

	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// ack queues an ACK for psn, which carries its response, and covers all that came since the last one.
func (p *PDC) ack(now vt.Time, ev uint16, retx bool, psn wire.PSN, resp *Response) {
	d := &p.d
	c := p.pushAck(now, ev, retx, d.ce)
	d.genCount, d.ce, d.needAck = 0, false, false
	if c == nil {
		return
	}
	c.psn, c.arrived = psn, d.arrived
	c.hasResp, c.resp = true, *resp
	if resp.Gtd {
		c.req = wire.AckReqClear
	}
}

// ackAll acknowledges what has come since the last ACK, with a default response.
func (p *PDC) ackAll(now vt.Time) {
	p.ack(now, p.d.ackEV, false, p.d.ackPSN, &Response{Job: p.job})
}

// pushAck queues an ACK without its PSN.
func (p *PDC) pushAck(now vt.Time, ev uint16, retx, ce bool) *ctlMsg {
	c := p.m.pushCtl(wire.TypeAckCC, p.peer, ev)
	if c == nil {
		return nil
	}
	c.p, c.arrived = p, now
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
func (p *PDC) ackDuplicate(now vt.Time, ev uint16, ce, retx bool, psn wire.PSN) {
	c := p.pushAck(now, ev, retx, ce)
	if c == nil {
		return
	}
	c.psn, c.hasResp = psn, true
	c.resp.Job = p.job
	if k := p.stored(psn); k != nil {
		c.resp, c.req = k.resp, wire.AckReqClear
	}
}

// stored finds the response that is kept for a PSN.
func (p *PDC) stored(psn wire.PSN) *stored {
	for i := range p.d.kept {
		if k := &p.d.kept[i]; k.psn == psn {
			return k
		}
	}
	return nil
}

// appendAck writes an ACK with the state of now and, behind it, the response.
func (p *PDC) appendAck(b []byte, now vt.Time, c *ctlMsg) []byte {
	d, cfg := &p.d, &p.m.cfg
	cack := d.base - 1
	af := wire.AckFields{Type: cfg.AckType, Flags: wire.AckFlags(c.flags), Req: c.req, CACK: cack, SPDCID: p.id,
		DPDCID: p.peerID, CCType: wire.CCTypeNSCC, MPR: cfg.MPR}
	if af.Req == wire.AckReqNone && p.state == CloseSent {
		af.Req = wire.AckReqClose
	}
	sack := d.base
	if af.Flags&wire.AckP != 0 {
		af.ProbeOpaque = c.opaque
		if q := wire.PSN(c.payload); q.After(sack) && !q.After(d.maxRx) {
			sack = q
		}
	} else {
		af.AckOffset = int16(c.psn.Diff(cack))
		if s := c.psn - 63; s.After(sack) {
			sack = s
		}
	}
	if p.mode == RUD && d.maps != nil {
		d.need(p.m, sack)
		af.SACKOffset, af.SACKBitmap = int16(sack.Diff(cack)), d.got.word(sack)
	} else {
		af.SACKOffset = int16(sack.Diff(cack))
	}
	if p.mode == ROD {
		af.SACKOffset = 0
	}
	if l := cack.Add(mpRange(cfg.MPR)); l.After(d.limit) {
		d.limit = l
	}
	af.CCState = wire.NSCCState{
		ServiceTime: serviceTime(now, c.arrived),
		RcvCwndPend: d.pend,
		RC:          d.penal && d.pend == 0,
		RcvdBytes:   uint32((d.rcvd+255)>>8) & 0xFFFFFF,
		OOO:         uint16(min(d.ooo, 0xFFFE)),
	}.Pack()
	if p.src != nil && !cfg.CC.Algorithm.Windows() {
		af.CCType, af.CCState = wire.CCTypeCredit, wire.CreditState{Credit: p.src.Credit(), OOO: uint16(min(d.ooo, 0xFFFE))}.Pack()
	}
	if c.hasResp {
		af.Next = c.resp.next()
	}
	b = wire.AppendAck(b, &af)
	if c.hasResp {
		return c.resp.append(b)
	}
	if af.Flags&wire.AckEPSN != 0 {
		b = binary.BigEndian.AppendUint32(b, c.payload)
	}
	return b
}

// serviceTime is the time between arrival and ACK in units of 128 ns, at least 1: 0 would say "not valid".
func serviceTime(now, arrived vt.Time) uint16 {
	return uint16(min(max((now-arrived)/128, 1), 0xFFFF))
}
