package fep

import (
	"github.com/uetlab/uetlab/fep/match"
	"github.com/uetlab/uetlab/internal/vt"
)

// RecvQueue holds receives: an endpoint's own, or one that several endpoints share (shared receive queue). A receive is taken by the
// first message that matches it, whichever endpoint that is for.
type RecvQueue struct {
	f        *FEP
	closed   bool                            // no receives any more, and no messages wait for any
	done     func(now vt.Time, c Completion) // of receives that no message took
	minMulti int
	untagged *match.Posted[*recvOp]
	tagged   *match.Posted[*recvOp]
	early    [numSpaces]*match.Unexpected[*landing] // messages that came before their receives; nil: none ever did
	users    []*Endpoint
	out      completions
}

// recvOp is a posted receive.
type recvOp struct {
	match.Recv[*recvOp]
	q      *RecvQueue
	kind   Kind
	multi  bool
	off    bool // multi: takes no more messages
	job    uint32
	buf    Buffer
	cursor int // multi: bytes given away
	users  int // messages that are being placed
	ctx    uint64
	posted vt.Time
	free   *recvOp
}

// OpenRecvQueue makes a shared receive queue. onComplete, which may be nil, hears of receives that end without a message; the others
// complete at the endpoint whose message took them. Its receives match any source, or an initiator ID given as Peer.
func (f *FEP) OpenRecvQueue(minMultiRecv int, onComplete func(now vt.Time, c Completion)) *RecvQueue {
	if minMultiRecv == 0 {
		minMultiRecv = 64
	}
	q := f.newRecvQueue(minMultiRecv, nil)
	if onComplete != nil {
		q.done = func(now vt.Time, c Completion) { q.out.add(now, f, &onComplete, &c) }
	}
	f.queues = append(f.queues, q)
	return q
}

func (f *FEP) newRecvQueue(minMulti int, done func(vt.Time, Completion)) *RecvQueue {
	seed := f.node.Rand("fep-match").Uint64()
	return &RecvQueue{f: f, done: done, minMulti: minMulti, untagged: match.NewPosted[*recvOp](seed), tagged: match.NewPosted[*recvOp](seed)}
}

// Post adds a receive. Of a tagged one Peer is the source's initiator ID, or AnySource. It fails with ErrInvalid, ErrWildcard or
// ErrClosed.
func (q *RecvQueue) Post(now vt.Time, op *Op) error {
	switch {
	case q.closed:
		return ErrClosed
	case op.Kind != OpRecv && op.Kind != OpTagRecv:
		return ErrInvalid
	case op.Ignore != 0 && q.f.cfg.Profiles&HPC == 0:
		return ErrWildcard
	}
	return q.post(now, op, uint32(op.Peer))
}

func (q *RecvQueue) post(now vt.Time, op *Op, from uint32) error {
	r := q.f.recvs
	if r == nil {
		r = &recvOp{}
	} else {
		q.f.recvs = r.free
		*r = recvOp{}
	}
	r.q, r.kind, r.multi, r.job, r.buf, r.ctx, r.posted = q, op.Kind, op.Flags&FlagMultiRecv != 0, op.Job, op.Buf, op.Ctx, now
	r.V, r.Any, r.From, r.Tag, r.Ignore = r, op.Peer == AnySource, from, op.Tag, op.Ignore
	s := spaceTagged
	if op.Kind == OpRecv {
		s, r.Any, r.Ignore = spaceSend, true, ^uint64(0)
	}
	if !q.waited(now, s, r) {
		q.of(s).Post(&r.Recv)
	}
	for _, ep := range q.users {
		ep.gens[s].enable()
	}
	return nil
}

func (q *RecvQueue) of(s space) *match.Posted[*recvOp] {
	if s == spaceTagged {
		return q.tagged
	}
	return q.untagged
}

// take finds the receive for a message, as the first of its packets arrives, and gives it the part of the buffer that is its own. The
// receive leaves the queue, except if it is one for several messages with room for more. One that is not for the message's job stays,
// and the message has none: at is noJob.
func (q *RecvQueue) take(s space, m *rxMsg, job uint32) (r *recvOp, at, room int) {
	found := q.of(s).Find(m.initiator, m.match)
	if found == nil {
		return nil, 0, 0
	}
	if r = found.V; r.job != 0 && r.job != job {
		return nil, noJob, 0
	}
	at, room = q.claim(r, m.length)
	if !r.multi || r.off {
		q.of(s).Remove(found)
	}
	return r, at, room
}

// claim gives a message its part of a receive's buffer.
func (q *RecvQueue) claim(r *recvOp, length uint32) (at, room int) {
	at, room = r.cursor, len(r.buf.B)-r.cursor
	if r.multi {
		room = min(room, int(length))
		r.cursor += room
		r.off = len(r.buf.B)-r.cursor < q.minMulti
	}
	r.users++
	return at, room
}

// release ends the use of a receive by one message. The flags are for its completion.
func (r *recvOp) release() (fl Flags) {
	if r.users--; r.users == 0 && (r.off || !r.multi) {
		if r.multi {
			fl = FlagMultiRecv
		}
		r.put()
	}
	return fl
}

// put lets go of the buffer.
func (r *recvOp) put() {
	r.buf = Buffer{}
	r.free, r.q.f.recvs = r.q.f.recvs, r
}

// Cancel takes back the oldest receive with this Ctx that no message has matched; it completes with ErrCancelled. False says that
// there is none.
func (q *RecvQueue) Cancel(now vt.Time, ctx uint64) bool {
	for _, p := range [...]*match.Posted[*recvOp]{q.untagged, q.tagged} {
		for r := p.First(); r != nil; r = p.Next(r) {
			if r.V.ctx == ctx {
				q.withdraw(now, p, r.V, ErrCancelled)
				return true
			}
		}
	}
	return q.cancelBound(now, ctx)
}

// withdraw ends a receive that is posted.
func (q *RecvQueue) withdraw(now vt.Time, p *match.Posted[*recvOp], r *recvOp, err error) {
	p.Remove(&r.Recv)
	r.off = true
	if r.users > 0 {
		return // the last message that it has tells
	}
	defer r.put()
	if q.done != nil {
		c := Completion{Kind: r.kind, Ctx: r.ctx, Src: -1, Tag: r.Tag, Err: err, Posted: r.posted, Acked: now}
		if r.multi {
			c.Flags = FlagMultiRecv
		}
		q.done(now, c)
	}
}

// drain ends all receives.
func (q *RecvQueue) drain(now vt.Time, err error) {
	for _, p := range [...]*match.Posted[*recvOp]{q.untagged, q.tagged} {
		for r := p.First(); r != nil; r = p.First() {
			q.withdraw(now, p, r.V, err)
		}
	}
}

// Close ends a shared queue: no receive of it is touched any more. Endpoints that use it have none from now on.
func (q *RecvQueue) Close(now vt.Time) {
	q.closed = true
	for m := q.f.rx.head; m != nil; m = m.next {
		if m.recv != nil && m.recv.q == q {
			m.abandon(now)
		}
	}
	q.f.lands.close(now, func(l *landing) bool { return l.q == q })
	q.drain(now, ErrClosed)
	q.f.queues = without(q.f.queues, q)
}

// reset forgets all receives.
func (q *RecvQueue) reset() {
	for _, p := range [...]*match.Posted[*recvOp]{q.untagged, q.tagged} {
		for r := p.First(); r != nil; r = p.First() {
			p.Remove(r)
		}
	}
}
