package fep

import (
	"github.com/uetlab/uetlab/fep/cms"
	"github.com/uetlab/uetlab/fep/pds"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/internal/wheel"
	"github.com/uetlab/uetlab/wire"
)

// mostReturns times Config.MaxReturns packets of read data are the most that are kept ready for all readers together.
const mostReturns = 16

// Request implements pds.Upper.
func (f *FEP) Request(now vt.Time, q *pds.Request, r *pds.Response) wire.NackCode {
	if q.Return {
		return f.returned(now, q, r)
	}
	p := &f.pkt // in the FEP, since a local would be allocated for every packet
	if !p.parse(q, f.cfg.PayloadMTU) {
		return wire.NackPDCHdrMismatch
	}
	r.Bytes = len(p.payload)
	switch q.Mode {
	case pds.UUD:
		return f.datagram(now, p)
	case pds.RUDI:
		f.idempotent(now, p, r)
		return 0
	}
	set := rxSetOf(q.PDC)
	var m *rxMsg
	if p.std != nil {
		m = set.find(p.mid)
	}
	if m == nil {
		if f.rx.n >= f.cfg.MaxMessages && !q.Blocks { // else what holds the contexts might wait for this one
			return wire.NackNoSESMsgAvail
		}
		if p.op == wire.OpRead && f.rets.n >= mostReturns*f.cfg.MaxReturns {
			return wire.NackNoResource
		}
	}
	resp := response{op: wire.RespDefault, rc: wire.RCOK, job: p.head.JobID(), gen: p.head.RIGeneration(), mid: p.mid}
	f.deliver(now, q, m, p, &resp, r)
	resp.fill(r)
	if f.rets.last != nil {
		f.rets.holds(q, r)
	} else if f.cfg.AnswerDelay > 0 {
		f.answerLater(now, q, r)
	}
	return 0
}

// answerLater holds the answer back.
func (f *FEP) answerLater(now vt.Time, q *pds.Request, r *pds.Response) {
	h, late, epoch := q.Handle(), *r, f.epoch
	*r = pds.Response{Later: true, Job: r.Job, Bytes: r.Bytes}
	f.node.Call(now.Add(f.cfg.AnswerDelay), func(now vt.Time) {
		if f.epoch == epoch {
			f.m.Answer(now, h, &late)
		}
	})
}

// Pause implements pds.Upper: messages wait in packet delivery's own queue, so there is nothing to stop.
func (f *FEP) Pause(vt.Time, bool, bool) {}

// Closed implements pds.Upper: it gives up all unfinished messages of the PDC.
func (f *FEP) Closed(now vt.Time, p *pds.PDC, _ *pds.Error) {
	set := rxSetOf(p)
	p.User = nil
	if set == nil || set.n == 0 {
		return
	}
	for m := f.rx.head; m != nil; {
		next := m.next
		if m.set == set {
			m.received(now, ErrAborted)
			f.forget(m)
		}
		m = next
	}
}

// deliver gives a new packet to its message and fills in the answer (uet-pds-ses.md 17.1).
func (f *FEP) deliver(now vt.Time, d *pds.Request, m *rxMsg, q *packet, resp *response, r *pds.Response) {
	if (q.op == wire.OpMsgError || q.earlyEnd()) && q.head.Ver() == 0 {
		f.messageError(now, m, q, resp)
		return
	}
	if m == nil {
		m = f.begin(now, d.PDC, q)
		m.rc = f.admit(now, m, q, resp)
	} else if m.rc == wire.RCNull {
		m.rc = m.sameMessage(q)
		if m.rc == wire.RCOK {
			m.rc = checkLength(q, m.brings(), f.cfg.PayloadMTU)
		}
	} else {
		resp.refuse(f, m.rc, false) // the first one is kept, but this one may be there before it, and is the verdict then
		if m.rc == wire.RCBadGeneration {
			resp.gen = m.ep.gens[spaceOf(m.op)].value
		}
		f.account(now, m, q, resp)
		return
	}
	m.last = now
	if m.rc == wire.RCOK && q.head.IE() {
		m.rc = wire.RCInitiatorError
	}
	if m.rc == wire.RCOK && !m.deferred {
		m.rc = f.perform(now, d, m, q, resp, r)
	}
	if m.rc == wire.RCOK {
		m.rc = wire.RCNull
	} else {
		rc := m.rc
		m.spoil(now, rc)
		resp.refuse(f, rc, true)
	}
	r.Pend = f.pend(m.ep)
	f.account(now, m, q, resp)
}

// pend is the penalty for who sends to an endpoint: by the messages under way here, and those that are kept for want of a receive.
func (f *FEP) pend(ep *Endpoint) uint8 {
	p := cms.Pend(int64(f.rx.n), int64(f.cfg.MaxMessages))
	if ep == nil || ep.profiles&HPC == 0 {
		return p
	}
	c, u := &ep.cfg, &ep.early
	if c.Unexpected > 0 {
		p = max(p, cms.Pend(int64(u.bytes), int64(c.Unexpected)))
	}
	if c.KeptMessages > 0 {
		p = max(p, cms.Pend(int64(u.msgs), int64(c.KeptMessages)))
	}
	return p
}

// begin makes the context of a message whose first packet has come.
func (f *FEP) begin(now vt.Time, p *pds.PDC, q *packet) *rxMsg {
	m := f.rx.add()
	m.mid, m.op, m.length, m.eager, m.ri = q.mid, q.op, q.length, q.eager(), q.head.ResourceIndex()
	m.offset, m.match, m.initiator, m.began = q.offset, q.match, q.initiator, now
	if q.std == nil {
		return m // one packet: nobody looks for it
	}
	set := rxSetOf(p)
	if set == nil {
		set = &rxSet{}
		p.User = set
	}
	set.add(m)
	f.armSweep(now)
	return m
}

// perform does what a packet that passed all checks asks for.
func (f *FEP) perform(now vt.Time, d *pds.Request, m *rxMsg, q *packet, resp *response, r *pds.Response) wire.ReturnCode {
	switch {
	case q.op == wire.OpNoOp, q.op == wire.OpDeferrableRTR:
		return wire.RCOK
	case q.control():
		return f.control(now, m, q)
	case q.op == wire.OpRead:
		return f.read(now, d, m, q, resp, r)
	case q.op.IsAtomic():
		return f.atomic(now, m, q, resp, r)
	}
	if q.head.SOM() && q.head.HD() {
		m.hd, m.data = true, q.data
	}
	return m.place(q)
}

// place copies the payload to where it belongs.
func (m *rxMsg) place(q *packet) wire.ReturnCode {
	b, ok := m.memory()
	switch {
	case !ok && m.region != nil:
		return m.ep.mem.Recheck(m.region)
	case !ok:
		return wire.RCCancelled
	}
	if off := int(q.off); off < m.room {
		n := copy(b.B[m.at+off:m.at+m.room], q.payload)
		if b.push(m.at+off, n) != nil {
			return wire.RCHostUnsuccessCmpl
		}
	}
	return wire.RCOK
}

// account counts the bytes of a packet, and completes the message if it was the last of it.
func (f *FEP) account(now vt.Time, m *rxMsg, q *packet, resp *response) {
	m.som = m.som || q.head.SOM()
	m.got += q.n
	alone := q.head.SOM() && q.head.EOM()
	whole := m.got >= m.eager && m.som || m.rc != wire.RCNull && alone
	if m.deferred && m.rc == wire.RCNull {
		m.answerDeferred(resp)
	} else if whole && m.rc == wire.RCNull {
		if resp.op == wire.RespDefault {
			resp.op = wire.RespResponse
		}
		if m.op == wire.OpWrite || q.isSend() {
			resp.mod = uint32(min(int(m.length), m.room))
		}
		f.arrived(now, m, resp)
	}
	if whole {
		f.forget(m)
	}
}

// arrived tells the target's application of a whole message.
func (f *FEP) arrived(now vt.Time, m *rxMsg, resp *response) {
	if m.land != nil {
		m.land.answer(resp)
		m.received(now, nil)
		return
	}
	if m.op == wire.OpDeferrableRTR || m.op == wire.OpSend && m.ri == controlRI {
		return // between end points
	}
	f.C[MsgsRx]++
	if m.driven != nil {
		m.driven.written(now, m)
		return
	}
	if m.recv != nil {
		var err error
		if int(m.length) > m.room {
			err = ErrTruncated
		}
		m.received(now, err)
		return
	}
	if m.region == nil {
		return
	}
	mem, ok := m.region.Memory()
	if !m.hd && !(ok && mem.notify) {
		return
	}
	c := Completion{Kind: OpRemoteWrite, Len: int(m.length), Tag: m.match, Key: m.region.Key(), Offset: int(m.offset),
		Src: m.ep.rank(m.initiator), Posted: m.began, Acked: now}
	switch {
	case m.op == wire.OpRead:
		c.Kind = OpRemoteRead
	case m.op.IsAtomic():
		c.Kind = OpRemoteAtomic
	case m.hd:
		c.Flags, c.Data = FlagData, m.data
	}
	m.ep.deliver(now, c)
}

// received completes the receive of a message, if it has one.
func (m *rxMsg) received(now vt.Time, err error) {
	if l, d := m.land, m.driven; l != nil || d != nil {
		m.land, m.driven = nil, nil
		if l != nil {
			m.recv = nil
			l.landed(now, m, err)
		} else {
			d.end(now, err)
		}
		return
	}
	r := m.recv
	if r == nil {
		return
	}
	m.recv = nil
	c := Completion{Kind: r.kind, Ctx: r.ctx, Len: min(int(m.length), m.room), Tag: m.match, Src: m.ep.rank(m.initiator),
		Err: err, Posted: r.posted, Acked: now}
	if r.multi {
		c.Offset = m.at
	}
	c.Flags = r.release()
	if m.hd {
		c.Flags |= FlagData
		c.Data = m.data
	}
	if err != nil {
		m.ep.f.C[MsgsErr]++
		if err != ErrTruncated {
			c.Len = 0
		}
	}
	m.ep.deliver(now, c)
}

// spoil makes a message fail: the error sticks to all its later packets, and the receive completes with it.
func (m *rxMsg) spoil(now vt.Time, rc wire.ReturnCode) {
	m.rc = rc
	m.received(now, &ResponseError{rc})
}

// abandon ends a message whose endpoint or queue was closed.
func (m *rxMsg) abandon(now vt.Time) {
	m.received(now, ErrClosed)
	if m.rc == wire.RCNull {
		m.rc = wire.RCCancelled
	}
}

// messageError handles MSG_ERROR: the sender stops here; the context goes when all that was sent has arrived.
func (f *FEP) messageError(now vt.Time, m *rxMsg, q *packet, resp *response) {
	resp.op = wire.RespResponse
	if m == nil {
		return
	}
	m.last = now
	if m.deferred && q.op != wire.OpMsgError {
		m.eager, m.som = min(m.eager, q.off), true
		if m.got >= m.eager {
			f.forget(m)
		}
		return
	}
	m.received(now, ErrAborted)
	if m.rc == wire.RCNull {
		m.rc = wire.RCInitiatorError
	}
	m.eager, m.som = min(m.eager, q.off), true
	if m.got >= m.eager {
		f.forget(m)
	}
}

func (f *FEP) armSweep(now vt.Time) {
	if f.sweep.At() == vt.Never {
		f.m.Arm(&f.sweep, now.Add(f.cfg.MessageIdle))
	}
}

// Fire implements wheel.Owner: it gives up messages that have been silent for MessageIdle, and reads whose requests were
// acknowledged while no data comes.
func (f *FEP) Fire(now vt.Time, _ *wheel.Timer) {
	next := vt.Never
	late := func(last vt.Time) bool {
		due := last.Add(f.cfg.MessageIdle)
		if due > now {
			next = min(next, due)
		}
		return due <= now
	}
	for _, ep := range f.dir.list {
		for m := ep.open.head; m != nil; {
			after := m.next
			if m.waits() && late(m.last) {
				m.lapse(now)
			}
			m = after
		}
	}
	for m := f.rx.head; m != nil; {
		after := m.next
		if late(m.last) {
			m.received(now, ErrAborted)
			f.forget(m)
		}
		m = after
	}
	f.lands.sweep(now, late)
	f.sweepDriven(now, late)
	for len(f.tombs) > 0 && late(f.tombs[0].since) {
		f.dir.remove(f.tombs[0].ep)
		f.tombs = f.tombs[1:]
	}
	if next != vt.Never {
		f.m.Arm(&f.sweep, next)
	}
}
