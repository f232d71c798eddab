package fep

import (
	"github.com/uetlab/uetlab/fep/mr"
	"github.com/uetlab/uetlab/fep/pds"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

const (
	defaultEager  = 16 << 10 // bytes
	mostEager     = 64 << 10
	rendezvousLen = 24 // the extension
)

// rendezvous is the operation that becomes of a send.
func rendezvous(op wire.Opcode) wire.Opcode {
	if op == wire.OpTaggedSend {
		return wire.OpRendezvousTSend
	}
	return wire.OpRendezvousSend
}

// eagerSize is how long a message may be that is sent as it is, and how much a longer one brings by itself (uet-pds-ses.md 15.2).
func (m *txMsg) eagerSize() uint32 {
	ep, mtu := m.ep, int64(m.ep.f.cfg.PayloadMTU)
	n := int64(ep.cfg.EagerSize)
	if n == 0 {
		n = defaultEager
		if room, ok := ep.f.m.Room(m.to.addr, m.job, ep.cfg.TC, m.Mode); ok {
			n = room
		}
	}
	return uint32(max(min(n, mostEager)/mtu, 1) * mtu)
}

// expose lets the target read the buffer of a rendezvous send: only it, and only until the send ends.
func (m *txMsg) expose() {
	ep := m.ep
	token := ep.f.exposed.add(m)
	var r *region
	if token != 0 {
		var err error
		if r, err = ep.openFor(mr.Config{Size: uint64(m.length), Access: mr.RemoteRead, Job: m.job}, 0, token,
			&registered{Buffer: m.buf, only: m.to, send: m}); err != nil {
			ep.f.exposed.remove(token)
		}
	}
	if r == nil { // nothing is left to call it: the message goes as a plain one
		m.op, m.early.rest = kindOps[m.kind], 0
		return
	}
	m.early.region, m.early.expose, m.early.read, m.early.low = r, token, &spans{}, m.length-m.early.rest
	ep.f.C[RendezvousTx]++
}

// coordinates appends where the target reads the rest.
func (m *txMsg) coordinates(b []byte) []byte {
	ep, key := m.ep, uint64(0)
	if r := m.early.region; r != nil { // else the endpoint is closed, and the packet says so
		key = r.Key()
	}
	return wire.AppendRendezvous(b, &wire.RendezvousFields{EagerLength: m.length - m.early.rest, PIDonFEP: ep.pid,
		ResourceIndex: ep.ri[spaceRMA], MatchBits: key})
}

// asked notes that the target reads from a byte on. One that has not kept the eager part reads that too, and the buffer is needed until
// it has it.
func (m *txMsg) asked(now vt.Time, from uint64) {
	m.last = now
	m.early.low = min(m.early.low, uint32(from))
}

// served says that the target has all that it has to read.
func (m *txMsg) served() bool { return m.early.read.covers(m.early.low, m.length) }

// serve waits for the target to read the rest; false if it already has. What is behind the message in its stream is not held up.
func (m *txMsg) serve(now vt.Time) bool {
	if m.served() {
		return false
	}
	m.freeID()
	m.state, m.last = txServing, now
	if s := m.stream; s != nil {
		s.remove(now, m, true)
		m.stream = nil
		s.landed(now, m)
	}
	m.ep.f.armSweep(now)
	return true
}

// fetched notes that the target has some bytes of the buffer: they were read and that was acknowledged.
func (m *txMsg) fetched(now vt.Time, at uint64, n uint16) {
	m.early.read.add(uint32(at), uint32(at)+uint32(n))
	m.last = now
	if m.state == txServing && m.served() {
		m.complete(now, nil)
	}
}

// source is where the rest of a rendezvous message is read.
type source struct {
	pid, ri uint16
	offset  uint64
	key     uint64
}

func (s *source) take(ext wire.Rendezvous) {
	*s = source{pid: ext.PIDonFEP(), ri: ext.ResourceIndex(), offset: ext.Offset(), key: ext.MatchBits()}
}

// meet begins to read the rest of a message that has its receive, as soon as the first of its packets is here.
func (f *FEP) meet(now vt.Time, m *rxMsg, q *packet, s space) {
	l := f.newLanding(now, m, q, s)
	l.recv, l.at, l.room = m.recv, m.at, m.room
	l.pull(now)
}

// pull reads what the packets did not bring, or all if that was not kept, straight into the receive. Unordered, also for an ordered
// message. What the receive has no room for is read too, since the sender waits for it.
func (l *landing) pull(now vt.Time) {
	from := l.eager
	if l.partial {
		from = 0
		l.f.C[Rereads]++
	}
	to := &peer{addr: l.src, pid: l.rest.pid, initiator: l.From, profile: HPC}
	to.ri[spaceRMA] = l.rest.ri
	if i, ok := l.ep.ranks[l.From]; ok && l.ep.av[i].addr == l.src {
		to.absolute = l.ep.av[i].absolute
	}
	m := l.ep.errand(now, to, wire.OpRead, l.job, l)
	m.kind, m.Mode = OpRead, pds.RUD
	m.length = l.length - from
	m.want, m.match, m.offset = m.length, l.rest.key, l.rest.offset+uint64(from)
	if int(from) < l.room {
		m.in = l.recv.buf.part(l.at+int(from), l.at+l.room)
	}
	l.read = m
	l.f.C[RendezvousRx]++
	m.begin(now)
}
