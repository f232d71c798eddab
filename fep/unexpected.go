package fep

import (
	"net/netip"

	"github.com/uetlab/uetlab/fep/match"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// landing is a message at its target that is not simply placed (uet-pds-ses.md section 15): one that came before its receive, which
// is kept (HPC) or deferred (AI Full), and one whose packets bring only a part of it (rendezvous). It ends when there is a receive, all
// packets have come and the rest is read; a deferred one when it comes again.
type landing struct {
	match.Msg[*landing] // while it waits for a receive
	f                   *FEP
	ep                  *Endpoint
	q                   *RecvQueue
	space               space
	op                  wire.Opcode
	src                 netip.Addr
	job                 uint32
	bits                uint64 // match bits
	length              uint32
	eager               uint32 // how much its packets bring
	in                  *rxMsg // they are still coming
	hd                  bool
	data                uint64

	kept    bool   // it waited for its receive
	partial bool   // and nothing of it was stored
	store   Buffer // what was

	recv     *recvOp // nil: it waits for one
	at, room int     // its part of the receive's buffer

	rest source // where the rest is read, of a rendezvous
	read *txMsg // under way

	token  uint32 // of a deferred message: what we call it
	sends  uint32 // what its sender does
	called bool   // the sender was told to send it again, as that
	rtr    *txMsg // under way

	last   vt.Time
	listed bool
	links[landing]
}

// earlyUse is what messages without a receive take of an endpoint's limits.
type earlyUse struct{ msgs, bytes, deferred int }

// earlyDefaults fills in the limits.
func (c *EndpointConfig) earlyDefaults() {
	for _, d := range [...]struct {
		v   *int
		def int
	}{{&c.MaxRTR, 8}, {&c.Unexpected, 1 << 20}, {&c.KeptMessages, 1024}} {
		if *d.v == 0 {
			*d.v = d.def
		}
		*d.v = max(*d.v, 0)
	}
}

// landList is all landings of a FEP, the oldest first.
type landList struct {
	chain[landing, *landing]
	n int
}

func (t *landList) add(l *landing) {
	t.chain.add(l)
	l.listed = true
	t.n++
}

func (t *landList) remove(l *landing) {
	t.chain.remove(l)
	l.listed = false
	t.n--
}

// close ends the landings of an endpoint or a queue that is closed.
func (t *landList) close(now vt.Time, which func(*landing) bool) {
	for l := t.head; l != nil; {
		next := l.next
		if which(l) {
			l.fail(now, ErrClosed)
		}
		l = next
	}
}

// sweep drops messages that waited too long: senders of deferred ones and of rendezvous have given up by then. What was kept whole
// waits as long as it takes.
func (t *landList) sweep(now vt.Time, late func(vt.Time) bool) {
	for l := t.head; l != nil; {
		next := l.next
		if l.in == nil && (l.token != 0 || l.recv == nil && l.eager < l.length) && late(l.last) {
			l.f.C[EarlyLapsed]++
			l.fail(now, ErrAborted)
		}
		l = next
	}
}

// newLanding makes the landing of a message whose first packet has come.
func (f *FEP) newLanding(now vt.Time, m *rxMsg, q *packet, s space) *landing {
	l := &landing{f: f, ep: m.ep, q: m.ep.q, space: s, op: q.op, src: q.src, job: q.head.JobID(), bits: m.match, length: m.length,
		eager: m.eager, in: m, last: now}
	l.V, l.From = l, m.initiator
	if s == spaceTagged {
		l.Tag = m.match
	}
	if m.eager < m.length {
		l.rest.take(wire.Rendezvous(q.ext))
	}
	m.land = l
	f.lands.add(l)
	return l
}

// unmatched decides about a message for which there is no receive.
func (f *FEP) unmatched(now vt.Time, m *rxMsg, q *packet, s space) outcome {
	switch p := m.ep.profiles; {
	case m.ep.q.closed:
	case q.op.IsDeferrable() && p&AIFull != 0:
		return f.deferMessage(now, m, q, s)
	case p&HPC != 0:
		return f.keepMessage(now, m, q, s)
	}
	return refused
}

// keepMessage stores a message, or of a rendezvous at least that it is there (uet-pds-ses.md 15.3, 15.5). A sender that wants to know
// when its data is delivered cannot be told so of one that is stored.
func (f *FEP) keepMessage(now vt.Time, m *rxMsg, q *packet, s space) outcome {
	c, u, n := &m.ep.cfg, &m.ep.early, int(m.eager)
	fits := n <= c.Unexpected-u.bytes
	if u.msgs >= c.KeptMessages || m.eager == m.length && (!fits || q.head.DC()) {
		return refused
	}
	l := f.newLanding(now, m, q, s)
	l.kept = true
	if l.partial = !fits; fits {
		l.store.B = make([]byte, n)
	}
	m.at, m.room = 0, len(l.store.B)
	u.msgs++
	u.bytes += m.room
	f.C[EarlyRx]++
	f.C[EarlyMsgs]++
	f.C[EarlyBytes] += uint64(m.room)
	l.wait()
	return waiting
}

// wait lets the landing be found by receives.
func (l *landing) wait() {
	w := &l.q.early[l.space]
	if *w == nil {
		*w = match.NewUnexpected[*landing](l.f.node.Rand("fep-match-early").Uint64())
	}
	(*w).Add(&l.Msg)
}

// waited gives a receive to a message that came before it, if there is one that was kept or deferred (uet-pds-ses.md section 14): those
// come before the list. A receive for several messages takes as many as it has room for; false says that it has some left.
func (q *RecvQueue) waited(now vt.Time, s space, r *recvOp) bool {
	for multi := r.multi; ; {
		l := q.earliest(s, r)
		if l == nil {
			return false
		}
		l.bind(now, r)
		if !multi || r.off {
			return true
		}
	}
}

// earliest is the oldest message that a receive matches.
func (q *RecvQueue) earliest(s space, r *recvOp) *landing {
	w := q.early[s]
	if w == nil || w.Len() == 0 {
		return nil
	}
	if r.job == 0 {
		if m := w.Find(r.Tag, r.Ignore, r.From, r.Any); m != nil {
			return m.V
		}
		return nil
	}
	for m := w.First(); m != nil; m = w.Next(m) {
		if m.V.job == r.job && r.Match(m.From, m.Tag) {
			return m.V
		}
	}
	return nil
}

// bind gives the landing its receive.
func (l *landing) bind(now vt.Time, r *recvOp) {
	l.q.early[l.space].Remove(&l.Msg)
	l.recv, l.last = r, now
	l.at, l.room = l.q.claim(r, l.length)
	switch {
	case l.token != 0:
		l.tell(now)
	case l.eager < l.length:
		l.pull(now)
	}
	l.advance(now)
}

// landed notes that the packets of the message have come, or will not.
func (l *landing) landed(now vt.Time, m *rxMsg, err error) {
	l.in, l.last = nil, now
	l.hd, l.data = m.hd, m.data
	if err != nil {
		l.fail(now, err)
		return
	}
	l.advance(now)
}

// answer completes the response to the last packet. The sender of a message that was kept must hear of it.
func (l *landing) answer(resp *response) {
	if l.kept {
		resp.list, resp.gtd, resp.mod = wire.ListOverflow, true, l.length
	}
}

// advance ends the landing if nothing is missing.
func (l *landing) advance(now vt.Time) {
	if l.token != 0 || l.recv == nil || l.in != nil || l.read != nil {
		return
	}
	var err error
	if n := copy(l.recv.buf.B[l.at:l.at+l.room], l.store.B); l.recv.buf.push(l.at, n) != nil {
		err = &ResponseError{wire.RCHostUnsuccessCmpl}
	}
	l.finish(now, err)
}

// finish completes the receive.
func (l *landing) finish(now vt.Time, err error) {
	if err == nil && int(l.length) > l.room {
		err = ErrTruncated
	}
	if err == nil || err == ErrTruncated {
		l.f.C[MsgsRx]++
	}
	m := rxMsg{op: l.op, ep: l.ep, recv: l.recv, at: l.at, room: l.room, length: l.length, match: l.bits, initiator: l.From, hd: l.hd, data: l.data}
	l.recv = nil
	l.free(now)
	m.received(now, err)
}

// fail ends the landing without the message.
func (l *landing) fail(now vt.Time, err error) {
	switch {
	case !l.listed:
	case l.recv == nil:
		l.free(now)
	default:
		l.finish(now, err)
	}
}

// free lets go of everything.
func (l *landing) free(now vt.Time) {
	if w := l.q.early[l.space]; w != nil {
		w.Remove(&l.Msg)
	}
	if m := l.in; m != nil {
		m.land, m.recv, l.in = nil, nil, nil
	}
	if l.read != nil {
		l.read.early.owner = nil
		l.read.abandon(now)
	}
	if l.rtr != nil {
		l.rtr.early.owner = nil
	}
	l.read, l.rtr = nil, nil
	u := &l.ep.early
	if l.token != 0 {
		l.f.deferred.remove(l.token)
		l.token = 0
		u.deferred--
	}
	if l.kept {
		u.msgs--
		u.bytes -= len(l.store.B)
		l.f.C[EarlyMsgs]--
		l.f.C[EarlyBytes] -= uint64(len(l.store.B))
		l.kept, l.store = false, Buffer{}
	}
	l.f.lands.remove(l)
}

// ended implements owner.
func (l *landing) ended(now vt.Time, m *txMsg, err error) {
	switch {
	case m == l.rtr:
		l.rtr, l.last = nil, now
	case m == l.read:
		l.read = nil
	}
	if err != nil {
		l.fail(now, err)
		return
	}
	l.advance(now)
}

// cancelBound takes a receive back that a deferred message has got, but nothing of it has come yet. The message gets the next receive
// that matches, or waits.
func (q *RecvQueue) cancelBound(now vt.Time, ctx uint64) bool {
	for l := q.f.lands.head; l != nil; l = l.next {
		if l.q != q || l.token == 0 || l.recv == nil || l.recv.multi || l.recv.ctx != ctx {
			continue
		}
		r := l.recv
		r.users--
		l.recv = nil
		q.withdraw(now, q.of(l.space), r, ErrCancelled)
		m := rxMsg{initiator: l.From, match: l.bits, length: l.length}
		if l.recv, l.at, l.room = q.take(l.space, &m, l.job); l.recv == nil {
			l.wait()
		}
		return true
	}
	return false
}

// forgetEarly forgets what Reset ends.
func (f *FEP) forgetEarly() {
	f.lands = landList{}
	gens := f.node.Rand(f.component("fep-tokens"))
	f.sends.reset(uint16(gens.Uint32()))
	f.exposed.reset(uint16(gens.Uint32()))
	f.deferred.reset(uint16(gens.Uint32()))
	f.driven.reset(uint16(gens.Uint32()))
	f.C[EarlyMsgs], f.C[EarlyBytes] = 0, 0
	for _, ep := range f.dir.list {
		ep.q.early = [numSpaces]*match.Unexpected[*landing]{}
	}
}

// resetEarly forgets what Reset ends of an endpoint.
func (ep *Endpoint) resetEarly() {
	for m := ep.open.head; m != nil; m = m.next {
		if m.early.region != nil {
			_ = ep.Deregister(m.early.region.Key())
		}
	}
	ep.resetDriven()
	ep.early = earlyUse{}
}
