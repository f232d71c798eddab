package fep

import (
	"github.com/uetlab/uetlab/fep/mr"
	"github.com/uetlab/uetlab/fep/pds"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// txEarly is what a message has at its initiator beside what all have, if it may come before its receive or serves one that did
// (uet-pds-ses.md section 15).
type txEarly struct {
	internal bool  // no application's: its end is told to the owner, if there is one
	notice   bool  // tells of a receive (AI Base)
	owner    owner // of an internal one

	rest   uint32  // bytes at the end that the target reads (rendezvous)
	region *region // where
	expose uint32  // part of its key
	read   *spans  // what it has got
	low    uint32  // from where on it has to

	token     uint32 // what the target of a deferrable send calls it
	target    uint32 // what the target calls itself, once it has deferred it
	from      uint32 // where a message that was deferred goes on
	deferred  bool   // this time
	ready     bool   // and the target is ready for it
	nextToken uint32 // what it said then
	nextFrom  uint32

	wait *drivenSend // AI Base
}

// owner is who began an internal message.
type owner interface {
	ended(now vt.Time, m *txMsg, err error)
}

// errand makes an internal message of an endpoint. The caller fills in the rest and begins it.
func (ep *Endpoint) errand(now vt.Time, to *peer, op wire.Opcode, job uint32, by owner) *txMsg {
	m := ep.f.tx.get()
	m.ep, m.to, m.dst, m.op, m.job, m.posted = ep, to, -1, op, job, now
	m.Mode, m.form = pds.RUD, wire.NextRequestStd
	m.early = txEarly{internal: true, owner: by}
	return m
}

// begin sends an internal message.
func (m *txMsg) begin(now vt.Time) {
	m.ep.open.add(m)
	m.submitSoon(now)
}

// submitSoon submits the message as soon as there is a message ID for it.
func (m *txMsg) submitSoon(now vt.Time) {
	if !m.submit(now) {
		m.state = txBackoff
		m.arm(now.Add(m.ep.f.cfg.RestartWait))
	}
}

// planSend decides how a message to a receive goes out (uet-pds-ses.md 2.2, 15).
func (m *txMsg) planSend() {
	ep, c := m.ep, &m.ep.f.cfg
	switch m.to.profile {
	case AIBase:
		m.early.wait = &drivenSend{}
	case AIFull:
		if ep.profiles&AIFull == 0 || m.Mode != pds.RUD || c.SendThreshold < 0 || m.length < uint32(c.SendThreshold) {
			return
		}
		if m.early.token = ep.f.sends.add(m); m.early.token != 0 {
			m.op = deferrable(m.op)
		}
	case HPC:
		if eager := m.eagerSize(); m.length > eager {
			m.op, m.early.rest = rendezvous(m.op), m.length-eager
		}
	}
}

// waits says that the message ends some time after the last sign of its target.
func (m *txMsg) waits() bool {
	switch m.state {
	case txWaitData, txServing, txDeferred, txAwaits:
		return true
	}
	return false
}

// lapse ends a message whose target has been silent for too long.
func (m *txMsg) lapse(now vt.Time) {
	if m.state == txWaitData {
		m.complete(now, ErrNoData)
		return
	}
	m.complete(now, ErrNoReceive)
}

// goesOn says that a message which was acknowledged is not done yet.
func (m *txMsg) goesOn(now vt.Time) bool {
	if m.early.wait != nil {
		return m.driveOn(now)
	}
	return m.early.region != nil && m.serve(now)
}

// endKind is the packet that ends a message early.
func (m *txMsg) endKind() uint8 {
	if m.early.deferred && m.verdict == wire.RCNull && !m.broken && m.state != txAbandoned {
		return kindEarlyEnd
	}
	return kindMsgError
}

// finishEarly lets go of what the message has beside what all have, and puts right what its completion says.
func (m *txMsg) finishEarly(now vt.Time, c *Completion) {
	e := &m.early
	if e.region != nil {
		_ = m.ep.Deregister(e.region.Key()) // fails if the endpoint has just taken it back
		m.ep.f.exposed.remove(e.expose)
		e.region, e.read = nil, nil
	}
	if e.token != 0 && !e.internal {
		m.ep.f.sends.remove(e.token)
	}
	if w := e.wait; w != nil {
		m.ep.base.withdraw(w)
		c.Len, c.Tag = int(w.length), w.tag
	}
	if by := e.owner; by != nil {
		e.owner = nil
		by.ended(now, m, c.Err)
	}
}

// source finds a peer by what its packets say of it, -1 if it is not in the address vector.
func (ep *Endpoint) source(q *packet) int {
	is := func(i int) bool {
		p := ep.av[i]
		return p != nil && p.initiator == q.initiator && p.addr == q.src
	}
	if i, ok := ep.ranks[q.initiator]; ok && is(i) {
		return i
	}
	for i := range ep.av {
		if is(i) {
			return i
		}
	}
	return -1
}

// admitTo tests that memory which the FEP itself opened is used by whom it was opened for.
func (m *rxMsg) admitTo(q *packet) wire.ReturnCode {
	mem, _ := m.region.Memory()
	if o := mem.only; o != nil && (o.addr != q.src || o.initiator != q.initiator) {
		m.region = nil
		return wire.RCBadMKey
	}
	if d := mem.driven; d != nil && !d.begin(m) {
		return wire.RCPermViolation
	}
	return wire.RCOK
}

// ownKey marks keys of memory that the FEP itself opens for a while. They are not of package mr's choice, so that they are the same
// when a run is done again.
const ownKey = 1 << 47

// openFor registers memory under a key with a token; if the user has that key, under any.
func (ep *Endpoint) openFor(c mr.Config, kind uint64, token uint32, mem *registered) (*region, error) {
	c.RI, c.Key = ep.ri[spaceRMA], ownKey|kind<<46|uint64(token)
	r, err := ep.mem.Register(c, mem)
	if err != nil {
		c.Key = 0
		r, err = ep.mem.Register(c, mem)
	}
	return r, err
}

// shifted is a part of a buffer that has to be kept equal to the application's.
type shifted struct {
	Syncer
	by int
}

// Pull implements Syncer.
func (s shifted) Pull(off, n int) error { return s.Syncer.Pull(s.by+off, n) }

// Push implements Syncer.
func (s shifted) Push(off, n int) error { return s.Syncer.Push(s.by+off, n) }

// part is the bytes from to to.
func (b *Buffer) part(from, to int) Buffer {
	p := Buffer{B: b.B[from:to:to]}
	if b.Sync != nil {
		p.Sync = shifted{b.Sync, from}
	}
	return p
}
