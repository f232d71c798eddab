package fep

import (
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// deferrable is the operation that becomes of a send.
func deferrable(op wire.Opcode) wire.Opcode {
	if op == wire.OpTaggedSend {
		return wire.OpDeferrableTSend
	}
	return wire.OpDeferrableSend
}

// defers takes the answer that the target has no receive yet: nothing more of the message is sent but its early end.
func (m *txMsg) defers(a answer) bool {
	if !m.op.IsDeferrable() || a.rc > wire.RCOK || a.list != wire.ListOverflow || a.mod >= m.length {
		return false
	}
	if m.verdict == wire.RCNull && !m.early.deferred {
		m.early.deferred = true
		m.ep.f.C[DeferredTx]++
	}
	return true
}

// park has a deferred message of which nothing is under way any more wait for its target, if that is not ready already.
func (m *txMsg) park(now vt.Time) {
	m.freeID()
	if m.early.ready {
		m.resume(now)
		return
	}
	m.state, m.last = txDeferred, now
	m.ep.f.armSweep(now)
}

// resume sends a deferred message as a new one, with the target's token.
func (m *txMsg) resume(now vt.Time) {
	e := &m.early
	e.target, e.from = e.nextToken, e.nextFrom
	e.deferred, e.ready = false, false
	m.ep.f.C[RTRRx]++
	m.submitSoon(now)
}

// readyToRestart takes DEFERRABLE_RTR: a target has a receive for a message that it deferred. It may be here before the answer that
// the message was deferred, since that takes another PDC.
func (f *FEP) readyToRestart(now vt.Time, ep *Endpoint, q *packet) wire.ReturnCode {
	m, ok := f.sends.get(q.std.InitiatorToken())
	target := q.std.TargetToken()
	if !ok || m.ep != ep || m.to.addr != q.src || m.to.initiator != q.initiator || m.job != q.head.JobID() ||
		target == 0 || target == m.early.target || q.offset > uint64(m.length) {
		return wire.RCOpViolation
	}
	e := &m.early
	switch {
	case m.state == txDeferred:
		e.nextToken, e.nextFrom = target, uint32(q.offset)
		m.resume(now)
	case m.state == txSending && m.sent > e.from && m.verdict == wire.RCNull && !m.broken && !e.ready:
		e.nextToken, e.nextFrom = target, uint32(q.offset)
		e.deferred, e.ready = true, true // as soon as all that was sent is acknowledged
	default:
		return wire.RCOpViolation
	}
	return wire.RCOK
}

// target is what a message that comes again calls the receive that it comes for; 0: it comes for the first time.
func (q *packet) target() uint32 {
	if q.std == nil || !q.op.IsDeferrable() {
		return 0
	}
	return q.std.TargetToken()
}

// earlyEnd says that the sender stops here: it was told that the message is deferred.
func (q *packet) earlyEnd() bool {
	return q.op.IsDeferrable() && q.std != nil && q.head.EOM() && !q.head.SOM() && q.n == 0 && q.off < q.length
}

// deferMessage answers a message for which there is no receive that it is to come again, and drops it. Its sender must be in the
// address vector: else it could not be told when.
func (f *FEP) deferMessage(now vt.Time, m *rxMsg, q *packet, s space) outcome {
	u := &m.ep.early
	if u.deferred >= m.ep.cfg.MaxRTR || m.ep.source(q) < 0 {
		return refused
	}
	l := f.newLanding(now, m, q, s)
	if l.token = f.deferred.add(l); l.token == 0 {
		l.free(now)
		return refused
	}
	u.deferred++
	l.sends = q.std.InitiatorToken()
	m.deferred = true
	f.C[DeferredRx]++
	l.wait()
	return waiting
}

// brings is how much of the message its packets carry, as they say. Of a deferred one eager may be less: its early end has overtaken some.
func (m *rxMsg) brings() uint32 {
	if m.deferred {
		return m.length
	}
	return m.eager
}

// answerDeferred is the answer to all packets of a deferred message; the first one must not be lost.
func (m *rxMsg) answerDeferred(resp *response) {
	resp.op, resp.rc, resp.list, resp.mod, resp.gtd = wire.RespResponse, wire.RCOK, wire.ListOverflow, 0, !m.told
	m.told = true
}

// tell sends DEFERRABLE_RTR, on a PDC of ours: there is a receive.
func (l *landing) tell(now vt.Time) {
	if l.called {
		return // for a receive that was taken back: the message will come
	}
	i := l.ep.source(&packet{initiator: l.From, src: l.src})
	if i < 0 {
		l.fail(now, ErrPeer)
		return
	}
	m := l.ep.errand(now, l.ep.av[i], wire.OpDeferrableRTR, l.job, l)
	m.kind = OpRecv
	m.early.token, m.early.target = l.sends, l.token
	l.rtr, l.called = m, true
	l.f.C[RTRTx]++
	m.begin(now)
}

// restarted gives a message that comes again the receive that it was called for. If that was taken back meanwhile it waits anew.
func (f *FEP) restarted(now vt.Time, m *rxMsg, q *packet, s space) outcome {
	l, ok := f.deferred.get(q.target())
	if !ok || l.ep != m.ep || l.space != s || l.src != q.src || l.sends != q.std.InitiatorToken() || l.length != m.length ||
		l.bits != m.match || l.From != m.initiator {
		return unknown
	}
	if l.in != nil {
		l.in.land = nil
	}
	if l.rtr != nil {
		l.rtr.early.owner, l.rtr = nil, nil
	}
	if l.recv != nil {
		m.recv, m.at, m.room = l.recv, l.at, l.room
		l.recv = nil
		l.free(now)
		return matched
	}
	f.deferred.remove(l.token)
	l.token = f.deferred.add(l)
	l.in, l.last, l.called = m, now, false
	m.land, m.deferred = l, true
	f.C[DeferredRx]++
	return waiting
}
