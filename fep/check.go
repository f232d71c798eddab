package fep

import (
	"github.com/uetlab/uetlab/fep/pds"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// checkForm are the checks that a packet must pass by itself, before anything is looked up: items 1 and 2 of uet-pds-ses.md 17.1.
func checkForm(q *packet) wire.ReturnCode {
	switch {
	case q.head.Ver() != 0:
		return wire.RCUncor
	case opProfiles[q.op&0x3F] == 0:
		return wire.RCUnsupportedOp
	case q.op == wire.OpDatagramSend && q.mode != pds.UUD:
		return wire.RCOpViolation
	case q.next == wire.NextRequestSmall && q.op > wire.OpFetchingAtomic:
		return wire.RCOpViolation
	case q.next == wire.NextRequestMedium && q.op != wire.OpNoOp && q.op > wire.OpFetchingAtomic && q.op != wire.OpSend &&
		q.op != wire.OpTaggedSend && q.op != wire.OpDatagramSend:
		return wire.RCOpViolation
	case (q.op.IsAtomic() || q.op.IsRendezvous() && q.std != nil) && len(q.ext) == 0:
		return wire.RCOpViolation
	}
	return wire.RCOK
}

// checkLength tests that a packet is as long as its place in the message wants (item 6). A rendezvous message has packets of its
// eager part only: eager is how long that is, else the length of the message.
func checkLength(q *packet, eager uint32, mtu int) wire.ReturnCode {
	end := uint64(q.off) + uint64(q.n)
	switch {
	case q.op == wire.OpMsgError:
		return wire.RCOK
	case !q.bare() && int(q.n) != len(q.payload), end > uint64(eager), q.head.EOM() != (end == uint64(eager)), q.head.SOM() != (q.off == 0),
		int(q.n) > mtu, !q.head.EOM() && int(q.n) != mtu:
		return wire.RCOpViolation
	case q.op.IsAtomic() && !(q.head.SOM() && q.head.EOM()), q.op == wire.OpNoOp && q.length != 0:
		return wire.RCOpViolation
	}
	return wire.RCOK
}

// eager is how much of the message its packets carry.
func (q *packet) eager() uint32 {
	if q.op == wire.OpDeferrableRTR {
		return 0
	}
	if q.op.IsRendezvous() && len(q.ext) > 0 {
		return min(wire.Rendezvous(q.ext).EagerLength(), q.length)
	}
	return q.length
}

// admit runs the checks of a message's first packet and finds the memory that it goes to, in the order of uet-pds-ses.md 17.1: the
// earliest failure is the answer.
func (f *FEP) admit(now vt.Time, m *rxMsg, q *packet, resp *response) wire.ReturnCode {
	if rc := checkForm(q); rc != wire.RCOK {
		return rc
	}
	ep, rc := f.dir.find(q.head, spaceOf(q.op), q.next == wire.NextRequestSmall || q.control())
	if rc != wire.RCOK {
		return rc
	}
	if !ep.profiles.has(q.op) {
		return wire.RCUnsupportedOp
	}
	m.ep = ep
	if q.op == wire.OpDeferrableRTR {
		return f.readyToRestart(now, ep, q)
	}
	if rc := checkLength(q, m.eager, f.cfg.PayloadMTU); rc != wire.RCOK {
		return rc
	}
	if q.control() {
		return admitControl(ep, q)
	}
	if q.isSend() {
		if rc := f.admitSend(now, m, q, resp); rc != wire.RCOK {
			return rc
		}
	} else if rc := f.admitRMA(m, q); rc != wire.RCOK {
		return rc
	}
	if q.head.HD() && (q.op == wire.OpRead || q.op.IsAtomic()) {
		return wire.RCUnsupportedOp
	}
	return wire.RCOK
}

// admitRMA finds the memory of a one-sided operation.
func (f *FEP) admitRMA(m *rxMsg, q *packet) (rc wire.ReturnCode) {
	if q.op == wire.OpNoOp {
		return wire.RCOK
	}
	if uint64(q.length) > MaxMessage {
		return wire.RCUnsupportedSize
	}
	want := *q
	rights := access(q.op)
	if q.op.IsAtomic() {
		rights = atomicRights(wire.Atomic(q.ext), q.op == wire.OpFetchingAtomic)
		want.length = uint32(atomicTarget(q))
	}
	if m.region, rc = m.ep.lookup(&want, rights); rc == wire.RCOK {
		rc = m.admitTo(q)
	}
	m.at, m.room = int(q.offset), int(want.length)
	return rc
}

// admitSend finds the receive of a message, or what else becomes of it.
func (f *FEP) admitSend(now vt.Time, m *rxMsg, q *packet, resp *response) wire.ReturnCode {
	s := spaceOf(q.op)
	g := &m.ep.gens[s]
	resp.gen = g.value
	if q.target() == 0 {
		if rc := g.check(q); rc != wire.RCOK {
			return rc
		}
	}
	switch f.match(now, m, q, s) {
	case matched, waiting:
	case unknown:
		return wire.RCOpViolation
	case otherJob:
		return wire.RCBadJobID
	case refused:
		if q.mode == pds.ROD {
			g.disable()
		}
		return wire.RCNoMatch
	}
	switch {
	case uint64(q.length) > MaxMessage:
		return wire.RCUnsupportedSize
	case m.recv == nil:
		return wire.RCOK
	case int(m.length) > m.room && m.ep.cfg.RejectTooLong:
		return wire.RCTooLong
	}
	if m.eager < m.length {
		f.meet(now, m, q, s)
	}
	return wire.RCOK
}

// sameMessage tests that a later packet agrees with the first one.
func (m *rxMsg) sameMessage(q *packet) wire.ReturnCode {
	h := q.head
	if q.op != m.op || q.length != m.length || q.offset != m.offset || q.match != m.match || h.ResourceIndex() != m.ri || q.initiator != m.initiator {
		return wire.RCOpViolation
	}
	return wire.RCOK
}

// outcome is what becomes of a message when its first packet has come.
type outcome uint8

const (
	refused  outcome = iota // no receive: NO_MATCH
	otherJob                // its receive is for another job: BAD_JOB_ID
	matched                 // it has a receive: m.recv
	waiting                 // it has none yet: m.land
	unknown                 // it names a deferred message that there is not
)

// match is where it is decided what becomes of a message that wants a receive.
func (f *FEP) match(now vt.Time, m *rxMsg, q *packet, s space) outcome {
	if q.target() != 0 && m.ep.profiles&AIFull != 0 {
		return f.restarted(now, m, q, s)
	}
	m.recv, m.at, m.room = m.ep.q.take(s, m, q.head.JobID())
	switch {
	case m.recv != nil:
		return matched
	case m.at == noJob:
		return otherJob
	}
	return f.unmatched(now, m, q, s)
}
