package fep

import (
	"math/bits"
	"net/netip"

	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// Kinds of PSN-bearing packets of an initiator.
const (
	kindData     uint8 = iota
	kindMsgError       // ends a message early (uet-pds-ses.md 13.5)
	kindClose          // Close Command
)

// Flags of a packet in the ring.
const (
	pktDone   uint8 = 1 << iota // acknowledged, cumulatively or by name
	pktSacked                   // arrived as far as a bitmap says, its response is unknown
	pktFlying                   // its bytes count as in flight
	pktQueued                   // waits to be sent again
	pktWait                     // a NACK asked to wait; due is when to send again
	pktSent                     // went out at least once
)

// txPkt is what the source keeps of an unacknowledged PSN.
type txPkt struct {
	msg   *txMsg
	due   vt.Time // when the timer acts on it
	off   uint32  // message_offset
	n     uint16  // payload bytes
	size  uint16  // nominal bytes
	ev    uint16
	kind  uint8
	flags uint8
	rtos  uint8
	nacks uint8
}

// source is the sending half of a PDC direction (uet-pds-ses.md 5, 7, 20.1).
type source struct {
	start wire.PSN
	next  wire.PSN // next new PSN
	clear wire.PSN // everything up to it is done
	cack  wire.PSN // latest CACK received
	span  int32    // MP_RANGE: PSNs beyond cack that may be sent

	ring     []txPkt // of PSNs clear+1 .. next-1, by PSN modulo its size
	inflight int64   // nominal bytes
	nQueued  int     // packets with pktQueued
	cursor   wire.PSN
	retx     uint64

	cur     *txMsg // in the middle of its first transmission
	head    *txMsg // waiting messages
	tail    *txMsg
	backlog int64 // unsent bytes of cur and the waiting ones

	ev      uint16 // of the PDC: control packets, and data with LBFixed
	owe     bool   // the target waits for CLEAR up to owePSN
	owePSN  wire.PSN
	probeAt vt.Time // when the next window probe may leave
	inSend  bool    // in FEP.sendq
	inRtx   bool    // in FEP.rtxq
}

func mpRange(mpr uint8) int32 { return int32(max(mpr, 1)) * wire.MPRUnit }

func (s *source) init(start wire.PSN, mpr uint8) {
	s.start, s.next, s.clear, s.cack, s.cursor = start, start, start-1, start-1, start
	s.span = mpRange(mpr)
	s.ring = make([]txPkt, 64)
}

func (s *source) at(psn wire.PSN) *txPkt { return &s.ring[uint32(psn)&uint32(len(s.ring)-1)] }

// extend takes the next PSN and returns its cleared place.
func (s *source) extend() *txPkt {
	if n := int(s.next.Diff(s.clear)); n > len(s.ring) {
		old := *s
		s.ring = make([]txPkt, 2*len(old.ring))
		for q := s.clear + 1; q != s.next; q++ {
			*s.at(q) = *old.at(q)
		}
	}
	k := s.at(s.next)
	*k = txPkt{}
	s.next++
	return k
}

func (s *source) unacked() int32 { return s.next.Diff(s.clear) - 1 }

func (s *source) hasNew() bool { return s.cur != nil || s.head != nil }

// idle reports that nothing is under way and nothing waits.
func (s *source) idle() bool { return !s.hasNew() && s.unacked() == 0 }

func (s *source) push(m *txMsg) {
	m.next = nil
	if s.tail == nil {
		s.head = m
	} else {
		s.tail.next = m
	}
	s.tail = m
	s.backlog += int64(len(m.buf))
}

// popQueued takes a message that has not begun.
func (s *source) popQueued() *txMsg {
	m := s.unlink()
	if m != nil {
		s.backlog -= int64(len(m.buf))
	}
	return m
}

func (s *source) unlink() *txMsg {
	m := s.head
	if m == nil {
		return nil
	}
	s.head = m.next
	if s.head == nil {
		s.tail = nil
	}
	m.next = nil
	return m
}

// takeAll returns every message of the PDC once, in the order of sending, and forgets them.
func (s *source) takeAll() []*txMsg {
	var all []*txMsg
	add := func(m *txMsg) {
		if m != nil && (len(all) == 0 || all[len(all)-1] != m) {
			all = append(all, m)
		}
	}
	for q := s.clear + 1; q != s.next; q++ {
		if k := s.at(q); k.flags&pktDone == 0 {
			add(k.msg)
		}
	}
	add(s.cur)
	for m := s.unlink(); m != nil; m = s.unlink() {
		add(m)
	}
	s.cur, s.backlog, s.inflight, s.nQueued = nil, 0, 0, 0
	s.clear = s.next - 1
	return all
}

// land takes the packet's bytes out of flight.
func (s *source) land(k *txPkt) {
	if k.flags&pktFlying != 0 {
		k.flags &^= pktFlying
		s.inflight -= int64(k.size)
	}
}

// queued counts psn, whose flag pktQueued was just set, among those to be sent again.
func (s *source) queued(psn wire.PSN) {
	if s.nQueued == 0 || psn.Before(s.cursor) {
		s.cursor = psn
	}
	s.nQueued++
}

func (s *source) unqueue(k *txPkt) {
	if k.flags&pktQueued != 0 {
		k.flags &^= pktQueued
		s.nQueued--
	}
}

// again marks a packet for retransmission. Until it leaves, its timer still runs, in case the port never asks.
func (s *source) again(psn wire.PSN, k *txPkt, due vt.Time) {
	s.land(k)
	k.flags &^= pktSacked | pktWait
	k.due = due
	if k.flags&pktQueued == 0 {
		k.flags |= pktQueued
		s.queued(psn)
	}
}

// enqueue gives the PDC a message.
func (p *pdc) enqueue(now vt.Time, m *txMsg) {
	p.lastUse = now
	m.pdc = p
	p.s.push(m)
	p.queueSend()
	p.arm(timerRTO, now+p.rto(0))
}

func (p *pdc) queueSend() {
	if p.s.hasNew() && !p.s.inSend && p.state != Closed {
		p.s.inSend = true
		p.f.sendq.push(p)
	}
}

func (p *pdc) queueRetx() {
	if p.s.nQueued > 0 && !p.s.inRtx && p.state != Closed {
		p.s.inRtx = true
		p.f.rtxq.push(p)
	}
}

// windowOpen reports whether size more bytes may be in flight.
func (p *pdc) windowOpen(size int) bool {
	return p.s.inflight == 0 || p.s.inflight+int64(size) <= p.f.cfg.Window
}

// rto is how long a packet that timed out n times is given.
func (p *pdc) rto(n uint8) vt.Time {
	return vt.Time(min(p.f.cfg.RTOInit<<min(n, 31), p.f.cfg.RTOMax))
}

// onAckPacket handles an ACK from src.
func (f *FEP) onAckPacket(now vt.Time, uet []byte, src netip.Addr) {
	a, err := wire.ParseAck(uet)
	if err != nil {
		f.C[Malformed]++
		return
	}
	p := f.pdcs.get(a.DPDCID())
	if p == nil || !p.initiator || p.peer != src || a.SPDCID() == 0 || p.peerID != 0 && a.SPDCID() != p.peerID {
		f.C[UnknownPDCID]++
		return
	}
	var resp wire.SESResponse
	if a.Next() == wire.NextResponse {
		if resp, err = wire.ParseSESResponse(uet[len(a):]); err != nil {
			f.C[Malformed]++
			return
		}
	}
	p.onAck(now, a, resp)
}

// maxAge is how far behind CLEAR an ACK may name a PSN. Start_PSN is no bound in a PDC that lives long enough to wrap.
const maxAge = 1 << 16

// onAck applies an ACK (uet-pds-ses.md 7, 20.1). resp is nil if it carries no response.
func (p *pdc) onAck(now vt.Time, a wire.Ack, resp wire.SESResponse) {
	s, f := &p.s, p.f
	cack, named := a.CACK(), a.AckPSN()
	if !cack.Before(s.next) || !a.P() && (!named.Before(s.next) || s.clear.Diff(named) > maxAge) {
		f.C[StaleAck]++
		return
	}
	f.C[AckRx]++
	p.lastUse = now
	p.learn(a.SPDCID())
	if cack.After(s.cack) {
		s.cack = cack
		if a.HasCC() {
			s.span = mpRange(a.MPR())
		}
	}
	if !a.P() && named.After(s.clear) {
		p.done(now, named, resp)
	}
	for q := s.clear + 1; !q.After(cack); q++ {
		p.done(now, q, nil)
	}
	if a.HasCC() {
		p.onSACK(a.SACKBase(), a.SACKBitmap())
	}
	s.advance()
	switch a.Req() {
	case wire.AckReqClear:
		if !a.P() && (!s.owe || named.After(s.owePSN)) {
			s.owe, s.owePSN = true, named
		}
	case wire.AckReqClose:
		p.quiesce(now)
	}
	p.after(now)
}

// learn takes the peer's PDCID from its first ACK or NACK.
func (p *pdc) learn(id uint16) {
	if p.state == Opening && id != 0 {
		p.peerID, p.state = id, Established
	}
}

// after does what an ACK or NACK may have made possible.
func (p *pdc) after(now vt.Time) {
	if p.s.owe && p.s.idle() {
		p.sendClear()
	}
	p.queueSend()
	p.queueRetx()
	if len(p.f.waiting) > 0 && p.s.idle() {
		p.quiesce(now) // somebody else needs the place
	}
	p.tryClose(now)
	if p.state == CloseWait && p.s.unacked() == 0 {
		p.free(PDCClosed)
	}
}

// sendClear sends a Clear Command if the target waits for it and everything it waits for is done.
func (p *pdc) sendClear() {
	s := &p.s
	if s.clear.Before(s.owePSN) || p.peerID == 0 {
		return
	}
	s.owe = false
	p.control(wire.CtlClearCommand, 0, 0, uint32(s.clear))
}

// control queues a control packet to the peer.
func (p *pdc) control(ctl wire.CtlType, flags wire.CtrlFlags, psn wire.PSN, payload uint32) {
	c := p.f.ctl.push()
	if c == nil {
		p.f.C[CtlOverflow]++
		return
	}
	c.kind, c.ctl, c.flags, c.psn, c.payload = wire.TypeCtrl, ctl, uint8(flags), psn, payload
	c.peer, c.spdcid, c.dpdcid, c.ev = p.peer, p.id, p.peerID, p.f.dataEV(p)
}

// done completes one PSN; resp nil stands for a default response.
func (p *pdc) done(now vt.Time, psn wire.PSN, resp wire.SESResponse) {
	s := &p.s
	k := s.at(psn)
	if k.flags&pktDone != 0 {
		return
	}
	s.land(k)
	s.unqueue(k)
	k.flags |= pktDone
	m := k.msg
	if m == nil {
		return
	}
	if resp != nil && resp.MessageID() == m.mid && resp.Head().ReturnCode() > wire.RCOK {
		p.refused(now, m, resp.Head().ReturnCode())
	}
	m.unacked--
	m.acked++
	p.f.settle(now, m)
}

// refused notes the first error response of a message; what is left of it is not sent any more.
func (p *pdc) refused(now vt.Time, m *txMsg, code wire.ReturnCode) {
	if m.err != nil {
		return
	}
	m.err = &ResponseError{code}
	if p.s.cur == m {
		p.s.backlog -= int64(len(m.buf)) - int64(m.sent)
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
func (p *pdc) onSACK(base wire.PSN, bitmap uint64) {
	s := &p.s
	for bitmap != 0 {
		q := base.Add(int32(bits.TrailingZeros64(bitmap)))
		bitmap &= bitmap - 1
		if !q.After(s.clear) || !q.Before(s.next) {
			continue
		}
		k := s.at(q)
		if k.flags&(pktDone|pktSacked) == 0 && k.flags&pktSent != 0 {
			k.flags |= pktSacked
			s.land(k)
			s.unqueue(k)
		}
	}
}
