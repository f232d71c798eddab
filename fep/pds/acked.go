package pds

import (
	"encoding/binary"
	"math/bits"
	"net/netip"

	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// onAckPacket handles an ACK from src.
func (m *Manager) onAckPacket(now vt.Time, uet []byte, src netip.Addr) {
	a, err := wire.ParseAck(uet)
	if err != nil {
		m.C[Malformed]++
		return
	}
	p := m.pdcs.get(a.DPDCID())
	if p == nil || p.peer != src || a.SPDCID() == 0 || p.peerID != 0 && a.SPDCID() != p.peerID || p.state == Linger || p.state == Pending {
		m.C[UnknownPDCID]++
		return
	}
	next, resp := a.Next(), uet[len(a):]
	if next != wire.NextNone && (!next.IsResponse() || len(resp) < next.HeaderLen()) {
		m.C[Malformed]++
		return
	}
	p.onAck(now, a, next, resp)
}

// maxAge is how far behind CLEAR an ACK may name a PSN. Start_PSN is no bound in a PDC that lives long enough to wrap.
const maxAge = 1 << 16

// onAck applies an ACK (uet-pds-ses.md 7, 20.1).
func (p *PDC) onAck(now vt.Time, a wire.Ack, next wire.NextHdr, resp []byte) {
	s, m := &p.s, p.m
	cack, named := a.CACK(), a.AckPSN()
	if !cack.Before(s.next) || !a.P() && (!named.Before(s.next) || s.clear.Diff(named) > maxAge) {
		m.C[StaleAck]++
		return
	}
	m.C[AckRx]++
	s.act, p.keepalives, s.tails = now, 0, 0
	if !a.P() {
		p.lastUse = now // that somebody answers a Probe is no use of the PDC
	}
	p.learn(a.SPDCID())
	p.ackWindow(a)
	if p.cg != nil {
		p.beginAck(now, a)
	}
	if !a.P() && s.has(named) {
		p.sample(now, a, s.at(named))
		p.done(now, s.at(named), next, resp)
	}
	for q := s.clear + 1; !q.After(cack); q++ {
		p.done(now, s.at(q), wire.NextNone, nil)
	}
	if a.HasCC() {
		p.onSACK(now, a.SACKBase(), a.SACKBitmap())
	}
	before := s.clear
	if s.advance(); s.clear != before && p.group != nil {
		p.group.moved = now
	}
	if p.cg != nil {
		p.endAck(now, a)
	}
	if s.backs > 0 && !s.clear.Before(s.back) { // a round trip went well
		s.back, s.backs = s.clear, s.backs-1
		if s.nFly > 0 {
			s.back = s.newest // the next one; what waits to be sent again may be many
		}
	}
	p.infer(now)
	if a.P() {
		p.onProbed(now, a)
	}
	if s.inRec && !s.cack.Before(s.recov) {
		s.inRec = false
	}
	switch a.Req() {
	case wire.AckReqClear:
		if !a.P() && (!s.owe || named.After(s.owePSN)) {
			s.owe, s.owePSN = true, named
		}
	case wire.AckReqClose:
		p.quiesce(now)
	}
	p.closingPSN(a, next, resp)
	p.armProbe(now)
	p.afterFeedback(now)
	p.after(now)
}

// ackWindow takes CACK and MP_RANGE, unless a newer ACK has overtaken this one.
func (p *PDC) ackWindow(a wire.Ack) {
	s := &p.s
	if a.CACK().Before(s.cack) {
		return
	}
	s.cack = a.CACK()
	if a.HasCC() {
		if a.MPR() == 0 {
			p.m.C[MPRZero]++
		}
		s.span = mpRange(a.MPR())
	}
}

// closingPSN hands the start that a closing ACK names for the next PDC to security.
func (p *PDC) closingPSN(a wire.Ack, next wire.NextHdr, rest []byte) {
	if sec := p.m.cfg.Secure; sec != nil && p.state == CloseWait && p.s.unacked() == 0 && a.Flags()&wire.AckEPSN != 0 &&
		next == wire.NextNone && len(rest) >= 4 {
		sec.Expected(p.peer, p.job, wire.PSN(binary.BigEndian.Uint32(rest)))
	}
}

// learn takes the peer's PDCID from its first ACK or NACK.
func (p *PDC) learn(id uint16) {
	if p.state == Opening && id != 0 {
		p.peerID, p.state = id, Established
	}
}

// sample takes a round-trip time from the ACK that names k, unless the packet was sent more than once (Karn).
func (p *PDC) sample(now vt.Time, a wire.Ack, k *Packet) {
	if a.RETX() || k.flags&(pktAgain|pktDone) != 0 || k.flags&pktSent == 0 {
		return
	}
	p.s.sample(now - k.sent)
}

func (s *source) sample(rtt vt.Time) {
	s.rtt = rtt
	if s.srtt == 0 {
		s.srtt, s.rttvar, s.rttMin = rtt, rtt/2, rtt
		return
	}
	d := s.srtt - rtt
	if d < 0 {
		d = -d
	}
	s.rttvar += (d - s.rttvar) / 4
	s.srtt += (rtt - s.srtt) / 8
	s.rttMin = min(s.rttMin, rtt)
}

// after does what an ACK or NACK may have made possible.
func (p *PDC) after(now vt.Time) {
	s := &p.s
	if p.state == Closed || p.state == Linger {
		return
	}
	if s.owe && s.idle() {
		p.sendClear()
	}
	p.queueSend()
	p.queueRetx()
	if s.unacked() > 0 {
		return
	}
	s.drop(p.m)
	s.inRec = false
	p.settleDone(now)
	if p.state == CloseWait {
		p.free(now, PDCClosed, nil)
		return
	}
	if p.state == Quiesce {
		p.handOver(now)
	}
	if !s.hasNew() {
		p.m.wheel.Cancel(&p.rtx)
		p.makeRoom(now)
		p.tryClose(now)
	}
}

// sendClear sends a Clear Command if the peer waits for it and everything it waits for is done.
func (p *PDC) sendClear() {
	s := &p.s
	if s.clear.Before(s.owePSN) || p.peerID == 0 {
		return
	}
	s.owe = false
	p.control(wire.CtlClearCommand, 0, 0, uint32(s.clear))
}

// wanted takes what a Clear Request asks for, which may be less than what we have. That is said now, so only what is more stays owed.
func (p *PDC) wanted(psn wire.PSN) {
	s := &p.s
	s.owe = s.keeps()
	if s.has(psn) && (!s.owe || psn.After(s.owePSN)) {
		s.owe, s.owePSN = true, psn
	}
}

// done completes one PSN; next NextNone stands for a default response.
func (p *PDC) done(now vt.Time, k *Packet, next wire.NextHdr, resp []byte) {
	s := &p.s
	if k.flags&pktDone != 0 {
		return
	}
	if k.flags&pktSacked == 0 {
		s.arrived(now, k)
	}
	p.arrives(k)
	s.land(k)
	s.unqueue(k)
	k.flags |= pktDone
	msg := k.msg
	if msg == nil {
		return
	}
	if next != wire.NextNone && wire.RespHead(resp[:2]).Opcode() != wire.RespDefault {
		msg.S.Response(now, k, next, resp)
	}
	msg.unacked--
	msg.begun = true
	if msg.whole && msg.unacked == 0 {
		msg.S.Done(now)
	}
}

// arrived notes that a packet is known to have arrived: those sent before it should have, too. Of a packet that was sent again
// less than a round trip ago it may be an earlier copy.
func (s *source) arrived(now vt.Time, k *Packet) {
	if k.flags&pktSent == 0 || k.flags&pktAgain != 0 && now-k.sent < s.rttMin {
		return
	}
	if int32(k.idx-s.hiIdx) > 0 {
		s.hiIdx = k.idx
	}
}

// advance moves CLEAR over everything that is done.
func (s *source) advance() {
	for s.clear+1 != s.next {
		k := s.at(s.clear + 1)
		if k.flags&pktDone == 0 {
			return
		}
		k.msg = nil
		s.clear++
	}
}

// onSACK notes the packets that a bitmap shows as arrived. Zeros say nothing.
func (p *PDC) onSACK(now vt.Time, base wire.PSN, bitmap uint64) {
	s := &p.s
	for bitmap != 0 {
		q := base.Add(int32(bits.TrailingZeros64(bitmap)))
		bitmap &= bitmap - 1
		if !s.has(q) {
			continue
		}
		k := s.at(q)
		if k.flags&(pktDone|pktSacked) != 0 || k.flags&pktSent == 0 {
			continue
		}
		s.arrived(now, k)
		if p.m.cfg.InferEV {
			p.sameEV(now, k)
		}
		k.flags |= pktSacked
		if k.msg != nil {
			k.msg.begun = true
		}
		p.arrives(k)
		s.land(k)
		s.unqueue(k)
	}
}
