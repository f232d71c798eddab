package fep

import (
	"time"

	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/internal/wheel"
	"github.com/uetlab/uetlab/wire"
)

// reaction is what an initiator does about a return code (uet-pds-ses.md 17.2).
type reaction uint8

const (
	fails   reaction = iota // the message
	restart                 // as a new message, after a while
	again                   // as a new message, at once
)

// reactionTo a code that is neither OK nor NULL.
func (m *txMsg) reactionTo(rc wire.ReturnCode) reaction {
	switch rc {
	case wire.RCBadGeneration:
		return again
	case wire.RCDisabledGen, wire.RCUncorTrnsnt:
		return restart
	case wire.RCNoMatch:
		if m.isSend() {
			return restart
		}
	case wire.RCBadPID, wire.RCBadJobID, wire.RCUndeliverable:
		if m.early.notice {
			return restart // the peer may be there a little later
		}
	}
	return fails
}

// answer is what a response says.
type answer struct {
	rc   wire.ReturnCode
	list wire.List
	gen  uint8
	mod  uint32
}

// react is where a response has its effect on the message. The first that is not a success is the verdict: nothing more of the message
// is sent but its end, and what follows is decided when all that was sent is acknowledged, in drained.
func (m *txMsg) react(a answer) {
	if m.defers(a) {
		return
	}
	if a.rc <= wire.RCOK || m.verdict != wire.RCNull {
		return
	}
	m.verdict = a.rc
	m.ep.f.RCs.Rx[a.rc]++
	if s := m.stream; s != nil && m.reactionTo(a.rc) != fails {
		s.blocked = true
	}
	if a.rc == wire.RCBadGeneration {
		m.adopt(a.gen)
	}
}

// drained is where it is decided what becomes of a message of which nothing is under way any more.
func (m *txMsg) drained(now vt.Time) {
	m.done, m.last = true, now
	switch {
	case m.state == txAbandoned:
		m.settled(now)
	case m.broken:
		m.complete(now, ErrMemory)
	case m.verdict == wire.RCNull && m.early.deferred:
		m.park(now)
	case m.verdict == wire.RCNull:
		m.succeed(now)
	case m.awaitsAnew(now):
	default:
		what := m.reactionTo(m.verdict)
		if what == fails || !m.mayRestart() {
			m.complete(now, &ResponseError{m.verdict})
			return
		}
		m.freeID()
		m.state = txBackoff
		if m.stream != nil {
			m.stream.landed(now, m)
			return
		}
		m.restarts = min(m.restarts+1, 250)
		at := now
		if what == restart {
			at = now.Add(m.ep.f.backoff(&m.wait, m.restarts))
		}
		m.arm(at)
	}
}

// mayRestart says whether the limit of restarts allows one more.
func (m *txMsg) mayRestart() bool {
	n := int(m.restarts)
	if m.stream != nil {
		n = int(m.stream.rounds)
	}
	limit := m.ep.f.cfg.MaxRestarts
	return limit == InfiniteRestarts || n < limit
}

// backoff is how long to wait before the n-th restart: a random time first, twice as long each time after that, up to 64 times.
func (f *FEP) backoff(first *time.Duration, n uint8) time.Duration {
	if n <= 1 || *first == 0 {
		*first = f.cfg.RestartWait + time.Duration(f.rng.Int64N(int64(f.cfg.RestartWait)))
	}
	return *first << min(n-1, 6)
}

// arm has the message restart at a time.
func (m *txMsg) arm(at vt.Time) {
	m.timer.Owner = m
	m.ep.f.m.Arm(&m.timer, at)
}

// Fire implements wheel.Owner: the message begins anew.
func (m *txMsg) Fire(now vt.Time, _ *wheel.Timer) {
	if !m.restart(now) {
		m.arm(now.Add(m.ep.f.cfg.RestartWait)) // no message ID is free
	}
}

// restart sends the message again as a new one. False says that there is no message ID for it.
func (m *txMsg) restart(now vt.Time) bool {
	if !m.submit(now) {
		return false
	}
	m.ep.f.C[Restarts]++
	return true
}

// stream is the ordered messages of an endpoint to one resource index of a peer. While one of them has to restart, the later ones are
// held back, and those that were under way restart with it in their old order (uet-pds-ses.md 17.2, 18, O-35).
type stream struct {
	f       *FEP
	gen     uint8 // ri_generation
	blocked bool
	rounds  uint8 // restarts since a message got through
	flying  int   // messages that packet delivery has
	wait    time.Duration
	timer   wheel.Timer
	head    *txMsg // all unfinished messages, in the order of posting
	tail    *txMsg
}

// streamTo is the stream that a send belongs to; it is made if it is not there.
func (p *peer) streamTo(f *FEP, s space) *stream {
	if p.streams[s] == nil {
		p.streams[s] = &stream{f: f}
		p.streams[s].timer.Owner = p.streams[s]
	}
	return p.streams[s]
}

// adopt takes the generation that the target has named.
func (m *txMsg) adopt(gen uint8) { m.to.streamTo(m.ep.f, spaceOf(m.op)).gen = gen }

// enter puts a message at the end, and sends it if it does not have to wait for its turn.
func (s *stream) enter(now vt.Time, m *txMsg) {
	m.stream, m.before, m.after = s, s.tail, nil
	if s.tail == nil {
		s.head = m
	} else {
		s.tail.after = m
	}
	s.tail = m
	if !s.blocked && !m.submit(now) {
		s.stall(now)
	}
}

// stall waits for a message ID.
func (s *stream) stall(now vt.Time) {
	s.blocked = true
	s.f.m.Arm(&s.timer, now.Add(s.f.cfg.RestartWait))
}

// remove takes a message out that is finished, and says whether that was a success.
func (s *stream) remove(now vt.Time, m *txMsg, ok bool) {
	if m.before == nil {
		s.head = m.after
	} else {
		m.before.after = m.after
	}
	if m.after == nil {
		s.tail = m.before
	} else {
		m.after.before = m.before
	}
	m.before, m.after = nil, nil
	if ok {
		s.rounds = 0
	}
}

// landed notes that packet delivery has one message less. When it has none, and some have to restart, their time is set.
func (s *stream) landed(now vt.Time, m *txMsg) {
	s.flying--
	if !s.blocked || s.flying > 0 {
		return
	}
	at := now
	if s.head != nil && s.head.state == txBackoff {
		s.rounds = min(s.rounds+1, 250)
		if s.head.reactionTo(s.head.verdict) == restart {
			at = now.Add(s.f.backoff(&s.wait, s.rounds))
		}
	} else {
		s.rounds = 0
	}
	s.f.m.Arm(&s.timer, at)
}

// Fire implements wheel.Owner: everything that waits is sent, in order.
func (s *stream) Fire(now vt.Time, _ *wheel.Timer) {
	s.blocked = false
	for m := s.head; m != nil; m = m.after {
		if m.state != txBackoff && m.state != txHeld {
			continue
		}
		again := m.state == txBackoff
		if !m.submit(now) {
			s.stall(now)
			return
		}
		if again {
			s.f.C[Restarts]++
		}
	}
}
