package pds

import (
	"math/bits"

	"github.com/uetlab/uetlab/fep/cms"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// Flags of a packet in the ring.
const (
	pktDone    uint16 = 1 << iota // acknowledged, cumulatively or by name
	pktSacked                     // arrived as far as a bitmap says, its response is unknown
	pktFlying                     // its bytes count as in flight
	pktQueued                     // waits to be sent again
	pktWait                       // a NACK asked to wait; due is when to send again
	pktSent                       // went out at least once
	pktAgain                      // went out more than once
	pktCtl                        // Close Command, Close Request
	pktLast                       // of its message
	pktMarked                     // congestion control has taken it out of flight, to be sent again
	pktKnown                      // congestion control knows that it has arrived: it counts no longer
	pktRefused                    // the target had no room for it, once or more often
	pktTurn                       // pktQueued, and takes turns with what was not refused
)

// Packet is what a source keeps of an unacknowledged PSN, or of a RUDI packet.
type Packet struct {
	PSN  wire.PSN // RUDI: pkt_id
	Off  uint32   // SES's own: message_offset
	N    uint16   // payload bytes
	Kind uint8    // SES's own

	flags   uint16
	size    uint16 // nominal bytes
	ev      uint16
	ctl     uint8
	rtos    uint8
	nacks   uint8
	cause   Cause
	repairs uint8 // times that inference took it for lost
	later   uint8 // packets with the same EV that were sent later and arrived
	sends   uint8 // times that it was sent, with congestion management only
	hdr     wire.NextHdr
	idx     uint32   // counts transmissions
	prev    wire.PSN // in the order of sending, while flying
	next    wire.PSN
	msg     *Msg
	due     vt.Time // when the timer acts on it
	sent    vt.Time // the latest time
}

// source is the sending half of a PDC (uet-pds-ses.md 5, 7, 20.1).
type source struct {
	start wire.PSN
	next  wire.PSN // next new PSN
	clear wire.PSN // everything up to it is done
	cack  wire.PSN // latest CACK received
	span  int32    // MP_RANGE: PSNs beyond cack that may be sent
	turn  wire.PSN // pktTurn: where the next is looked for

	ring     []Packet // of PSNs clear+1 .. next-1, by PSN modulo its size; nil if there are none
	inflight int64    // nominal bytes
	nQueued  int32    // packets with pktQueued
	nRefused int32    // those with pktTurn among them
	cursor   wire.PSN

	nFly   int32 // packets in flight, in a list by the order of sending
	oldest wire.PSN
	newest wire.PSN
	idx    uint32 // of the next transmission
	hiIdx  uint32 // the highest that is known to have arrived
	recov  wire.PSN
	back   wire.PSN // ROD: the lowest missing packet when we last went back
	backs  uint8    // how often we did for it
	inRec  bool     // losses up to recov are being repaired

	inSend    bool  // in Manager.sendq
	inRtx     bool  // in Manager.rtxq
	inRefused bool  // in Manager.refusedq
	turns     turns // where the window is the PDC's own
	owe       bool  // the peer waits for CLEAR up to owePSN
	owePSN    wire.PSN
	ev        uint16 // of the PDC: control packets, and data with LBFixed or in order

	opaque   uint16   // of the latest Probe
	probes   uint8    // without an answer
	tails    uint8    // ACK Requests for a silent tail
	expected wire.PSN // what NEW_START_PSN demanded
	probed   vt.Time
	dueAt    vt.Time // no packet's timer acts before this
	probeAt  vt.Time // when the next window probe may leave
	act      vt.Time // something arrived or left
	rtt      vt.Time // latest sample, 0: none
	srtt     vt.Time
	rttvar   vt.Time
	rttMin   vt.Time

	cur     *Msg // in the middle of its first transmission
	head    *Msg // waiting messages
	tail    *Msg
	backlog int64 // unsent bytes of cur and the waiting ones
}

const minRing = 4 // log2

func mpRange(mpr uint8) int32 { return int32(max(mpr, 1)) * wire.MPRUnit }

func (s *source) init(start wire.PSN, mpr uint8) {
	s.start, s.next, s.clear, s.cack, s.cursor = start, start, start-1, start-1, start
	s.span = mpRange(mpr)
	s.dueAt = vt.Never
}

func (s *source) at(psn wire.PSN) *Packet { return &s.ring[uint32(psn)&uint32(len(s.ring)-1)] }

// has says whether the PSN is one that the ring holds.
func (s *source) has(psn wire.PSN) bool { return psn.After(s.clear) && psn.Before(s.next) }

// extend takes the next PSN and returns its cleared place.
func (s *source) extend(m *Manager) *Packet {
	if n := int(s.next.Diff(s.clear)); n > len(s.ring) {
		old := *s
		log := minRing
		if len(old.ring) > 0 {
			log = bits.Len(uint(len(old.ring)))
		}
		s.ring = m.rings.get(log)
		for q := s.clear + 1; q != s.next; q++ {
			*s.at(q) = *old.at(q)
		}
		if len(old.ring) > 0 {
			clear(old.ring)
			m.rings.put(old.ring)
		}
	}
	k := s.at(s.next)
	*k = Packet{PSN: s.next}
	s.next++
	return k
}

// drop gives the ring back. Whatever was done in it has let go of its message.
func (s *source) drop(m *Manager) {
	if s.ring != nil {
		m.rings.put(s.ring)
		s.ring = nil
	}
}

func (s *source) unacked() int32 { return s.next.Diff(s.clear) - 1 }

func (s *source) hasNew() bool { return s.cur != nil || s.head != nil }

// idle reports that nothing is under way and nothing waits.
func (s *source) idle() bool { return !s.hasNew() && s.unacked() == 0 }

// keeps says whether the peer keeps responses that CLEAR has not reached.
func (s *source) keeps() bool { return s.owe && s.clear.Before(s.owePSN) }

func (s *source) push(msg *Msg) {
	msg.next = nil
	if s.tail == nil {
		s.head = msg
	} else {
		s.tail.next = msg
	}
	s.tail = msg
	s.backlog += msg.left
}

// popQueued takes a message that has not begun.
func (s *source) popQueued() *Msg {
	msg := s.unlink()
	if msg != nil {
		s.backlog -= msg.left
	}
	return msg
}

func (s *source) unlink() *Msg {
	msg := s.head
	if msg == nil {
		return nil
	}
	s.head = msg.next
	if s.head == nil {
		s.tail = nil
	}
	msg.next = nil
	return msg
}

// takeAll returns every message of the PDC once, in the order of sending, and forgets them.
func (s *source) takeAll(p *PDC) []*Msg {
	var all []*Msg
	add := func(msg *Msg) {
		if msg != nil && !msg.failed {
			msg.failed = true
			all = append(all, msg)
		}
	}
	for q := s.clear + 1; q != s.next; q++ {
		if k := s.at(q); k.flags&pktDone == 0 {
			add(k.msg)
		}
	}
	add(s.cur)
	for msg := s.unlink(); msg != nil; msg = s.unlink() {
		add(msg)
	}
	for len(p.locks) > 0 {
		msg := p.locks[0]
		add(msg)
		msg.unlock()
	}
	p.settle()
	s.forget()
	return all
}

// forget lets go of everything that is under way or waits.
func (s *source) forget() {
	clear(s.ring)
	s.cur, s.head, s.tail, s.backlog, s.inflight, s.nQueued, s.nRefused, s.nFly = nil, nil, nil, 0, 0, 0, 0, 0
	s.clear = s.next - 1
}

// fly puts a packet that leaves now at the end of the list.
func (s *source) fly(k *Packet) {
	k.flags |= pktFlying | pktSent
	k.idx, k.later = s.idx, 0
	s.idx++
	if s.nFly == 0 {
		s.oldest = k.PSN
	} else {
		s.at(s.newest).next = k.PSN
		k.prev = s.newest
	}
	s.newest = k.PSN
	s.nFly++
	s.inflight += int64(k.size)
}

// land takes the packet out of flight.
func (s *source) land(k *Packet) {
	if k.flags&pktFlying == 0 {
		return
	}
	k.flags &^= pktFlying
	s.inflight -= int64(k.size)
	switch s.nFly--; {
	case s.nFly == 0:
	case k.PSN == s.oldest:
		s.oldest = k.next
	case k.PSN == s.newest:
		s.newest = k.prev
	default:
		s.at(k.prev).next, s.at(k.next).prev = k.next, k.prev
	}
}

// setDue sets a packet's timer.
func (s *source) setDue(k *Packet, at vt.Time) {
	k.due = at
	s.dueAt = min(s.dueAt, at)
}

// again marks a packet for retransmission. Until it leaves, its timer still runs, in case the port never asks. If it was in flight
// until now, loss is what congestion control is told.
func (p *PDC) again(now vt.Time, k *Packet, due vt.Time, why Cause, loss cms.Loss) {
	s := &p.s
	p.vanishes(now, k, loss)
	s.land(k)
	k.flags &^= pktSacked | pktWait
	k.cause = why
	s.setDue(k, due)
	if k.flags&pktQueued == 0 {
		k.flags |= pktQueued
		s.queued(k, p.mode == ROD)
	}
}

// enqueue gives the PDC a message.
func (p *PDC) enqueue(now vt.Time, msg *Msg) {
	p.lastUse = now
	msg.pdc = p
	if msg.Lock && !msg.locked {
		msg.locked, msg.lockIn = true, len(p.locks)
		p.locks = append(p.locks, msg)
	}
	p.s.push(msg)
	p.manage(now)
	p.onBacklog()
	p.queueSend()
	p.arm(&p.rtx, now+p.rto(0))
}

func (p *PDC) queueSend() {
	if p.s.hasNew() && !p.s.inSend && p.state != Closed {
		p.s.inSend = true
		p.m.sendq.push(p)
	}
}

// windowOpen reports whether size more bytes may be in flight.
func (p *PDC) windowOpen(size int) bool {
	s, w := &p.s, p.m.cfg.Window
	if p.mode == ROD && s.backs > 0 {
		w >>= min(s.backs, 16) // what follows a missing packet is thrown away, and takes the room that this one needs
	}
	over := s.inflight + int64(size) - w
	switch {
	case over <= 0 || s.inflight == 0:
		return true
	case p.m.cfg.NoInfer || p.mode == ROD || over > max(w/8, int64(p.m.full)):
		return false
	}
	return s.suspects(max(w/8, int64(p.m.full))) >= over
}

// rto is how long a packet that timed out n times is given.
func (p *PDC) rto(n uint8) vt.Time {
	return vt.Time(p.m.cfg.rto(n))
}
