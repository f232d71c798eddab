package fep

import (
	"github.com/uetlab/uetlab/fep/pds"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/internal/wheel"
	"github.com/uetlab/uetlab/wire"
)

// response is the semantic answer to one request packet.
type response struct {
	op  wire.RespOpcode
	rc  wire.ReturnCode
	gtd bool // must not be lost
	mid uint16
	gen uint8
	job uint32
	mod uint32 // modified_length
}

// fill hands the answer to packet delivery. A default response is made there.
func (r *response) fill(to *pds.Response) {
	to.Job, to.Gtd = r.job, r.gtd
	if r.op != wire.RespDefault {
		to.Set(&wire.ResponseFields{RespFields: wire.RespFields{Opcode: r.op, ReturnCode: r.rc, JobID: r.job},
			MessageID: r.mid, RIGeneration: r.gen, ModifiedLength: r.mod})
	}
}

// rxMsg is a message at its target, from its first packet to its last (uet-pds-ses.md 13.3).
type rxMsg struct {
	mid       uint16
	op        wire.Opcode
	som       bool // seen
	length    uint32
	got       uint32 // payload bytes accounted for
	offset    uint64
	match     uint64
	initiator uint32
	ep        *Endpoint
	recv      *recvOp // SEND, TAGGED_SEND
	mem       []byte  // where the payload goes
	rc        wire.ReturnCode
	last      vt.Time
	set       *rxSet
	next      *rxMsg // in the list of all, or in the pool
	prev      *rxMsg
}

// rxSet are the messages that have begun on one PDC.
type rxSet struct{ msgs []*rxMsg }

// rxList is all messages that have begun, in the order in which they did, and a pool of contexts.
type rxList struct {
	head, tail *rxMsg
	n          int
	free       *rxMsg
}

// add takes a context and puts it last.
func (l *rxList) add() *rxMsg {
	m := l.free
	if m == nil {
		m = &rxMsg{}
	} else {
		l.free = m.next
		*m = rxMsg{}
	}
	m.prev = l.tail
	if l.tail == nil {
		l.head = m
	} else {
		l.tail.next = m
	}
	l.tail = m
	l.n++
	return m
}

// remove takes a context out and back into the pool.
func (l *rxList) remove(m *rxMsg) {
	if m.prev == nil {
		l.head = m.next
	} else {
		m.prev.next = m.next
	}
	if m.next == nil {
		l.tail = m.prev
	} else {
		m.next.prev = m.prev
	}
	l.n--
	*m = rxMsg{next: l.free}
	l.free = m
}

// request is a SES request header, taken apart.
type request struct {
	head    wire.SESHead
	std     wire.SESStd // nil for the optimized forms
	off     uint32
	n       uint32 // payload bytes that the header announces
	payload []byte // what is there
}

// parseSES returns the request and its payload, which is ref where it has come by reference; false if it is cut off.
func parseSES(next wire.NextHdr, b, ref []byte, mtu int) (q request, payload []byte, ok bool) {
	if len(b) < next.HeaderLen() || next.HeaderLen() < 12 {
		return q, nil, false
	}
	q.head = wire.SESHead(b[:12])
	q.payload = b[next.HeaderLen():]
	if ref != nil {
		q.payload = ref
	}
	if next != wire.NextRequestStd {
		return q, nil, true
	}
	q.std, _ = wire.ParseSESStd(b)
	q.off = q.std.MessageOffset()
	switch {
	case !q.head.SOM():
		q.n = uint32(q.std.PayloadLength())
	case q.head.Opcode() == wire.OpRead:
		q.n = min(q.std.RequestLength(), uint32(mtu))
	default:
		q.n = min(q.std.RequestLength(), uint32(len(q.payload)))
	}
	if q.head.Opcode() == wire.OpRead {
		q.payload = nil
		return q, nil, true
	}
	q.payload = q.payload[:min(int(q.n), len(q.payload))]
	return q, q.payload, true
}

// Request implements pds.Upper.
func (f *FEP) Request(now vt.Time, q *pds.Request, r *pds.Response) wire.NackCode {
	if q.Return {
		return f.returned(now, q, r)
	}
	req, payload, ok := parseSES(q.Next, q.B, q.Ref, f.cfg.PayloadMTU)
	if !ok {
		return wire.NackPDCHdrMismatch
	}
	r.Bytes = len(payload)
	switch q.Mode {
	case pds.UUD:
		return f.datagram(now, q, req)
	case pds.RUDI:
		f.idempotent(req, r)
		return 0
	}
	if f.cfg.MaxMessages > 0 && f.rx.n >= f.cfg.MaxMessages && req.std != nil && f.message(q.PDC, req.std.MessageID()) == nil {
		return wire.NackNoSESMsgAvail
	}
	resp := f.deliver(now, q.PDC, req, r)
	if r.Job, r.Gtd = resp.job, resp.gtd; r.Next == wire.NextNone {
		resp.fill(r)
	}
	if f.cfg.AnswerDelay > 0 {
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
	set, _ := p.User.(*rxSet)
	if set == nil {
		return
	}
	for _, m := range set.msgs {
		if m.recv != nil {
			m.received(now, ErrAborted)
		}
		f.rx.remove(m)
	}
	p.User = nil
}

// deliver gives a new packet to SES and returns its answer (uet-pds-ses.md 17.1).
func (f *FEP) deliver(now vt.Time, p *pds.PDC, q request, r *pds.Response) response {
	resp := response{op: wire.RespDefault, rc: wire.RCOK, job: q.head.JobID(), gen: q.head.RIGeneration()}
	if q.std == nil {
		return resp.refuse(f, wire.RCUnsupportedOp, true)
	}
	resp.mid = q.std.MessageID()
	m := f.message(p, resp.mid)
	if m == nil {
		if q.head.Opcode() == wire.OpMsgError || q.head.Opcode() == wire.OpNoOp {
			resp.op = wire.RespResponse
			return resp
		}
		m = f.newMessage(p, q)
		if rc := f.begins(m, q); rc != wire.RCOK {
			m.rc = rc
			resp = resp.refuse(f, rc, true)
		}
	} else if q.head.Opcode() == wire.OpMsgError {
		return f.messageError(now, m, q, resp)
	}
	m.last = now
	f.armSweep(now)
	if m.rc == wire.RCNull {
		if rc := m.check(q, f.cfg.PayloadMTU); rc != wire.RCOK {
			m.spoil(now, rc, &ResponseError{rc})
			resp = resp.refuse(f, rc, true)
		}
	} else if resp.op == wire.RespDefault {
		resp = resp.refuse(f, m.rc, false) // the first one is the verdict, and is kept
	}
	if m.op == wire.OpRead && m.rc == wire.RCNull {
		resp = f.read(now, p, m, q, resp, r)
	}
	return f.place(now, m, q, resp)
}

// newMessage makes the context of a message whose first packet has come.
func (f *FEP) newMessage(p *pds.PDC, q request) *rxMsg {
	m := f.rx.add()
	m.mid, m.op, m.length = q.std.MessageID(), q.head.Opcode(), q.std.RequestLength()
	m.offset, m.match, m.initiator = q.std.BufferOffset(), q.std.MatchBits(), q.std.Initiator()
	set, _ := p.User.(*rxSet)
	if set == nil {
		set = &rxSet{}
		p.User = set
	}
	m.set = set
	set.msgs = append(set.msgs, m)
	return m
}

// refuse turns the answer into an error.
func (r response) refuse(f *FEP, rc wire.ReturnCode, gtd bool) response {
	f.C[RespErrTx]++
	r.op, r.rc, r.gtd = wire.RespResponse, rc, gtd
	return r
}

// message finds the context of a message of a PDC.
func (f *FEP) message(p *pds.PDC, mid uint16) *rxMsg {
	set, _ := p.User.(*rxSet)
	if set == nil {
		return nil
	}
	for i := len(set.msgs) - 1; i >= 0; i-- {
		if set.msgs[i].mid == mid {
			return set.msgs[i]
		}
	}
	return nil
}

func (f *FEP) forget(m *rxMsg) {
	set := m.set
	for i, x := range set.msgs {
		if x == m {
			set.msgs = append(set.msgs[:i], set.msgs[i+1:]...)
			f.rx.remove(m)
			return
		}
	}
}

// begins runs the checks of a message's first packet and finds the memory that it goes to.
func (f *FEP) begins(m *rxMsg, q request) wire.ReturnCode {
	h := q.head
	if h.Ver() != 0 {
		return wire.RCUncor
	}
	if m.op != wire.OpSend && m.op != wire.OpTaggedSend && m.op != wire.OpWrite && m.op != wire.OpRead {
		return wire.RCUnsupportedOp
	}
	ep, rc := f.lookup(h)
	if rc != wire.RCOK {
		return rc
	}
	m.ep = ep
	switch {
	case m.length > MaxMessage:
		return wire.RCUnsupportedSize
	case h.HD():
		return wire.RCUnsupportedOp
	case h.IE():
		return wire.RCInitiatorError
	case m.op == wire.OpWrite || m.op == wire.OpRead:
		var rc wire.ReturnCode
		m.mem, rc = ep.region(m.match, m.offset, m.length)
		return rc
	case m.op == wire.OpTaggedSend:
		m.recv = ep.matchTagged(m.initiator, m.match)
	default:
		m.recv = ep.matchUntagged()
	}
	if m.recv == nil {
		return wire.RCNoMatch
	}
	m.mem = m.recv.buf
	return wire.RCOK
}

// lookup resolves {JobID, PIDonFEP, RI} (uet-pds-ses.md 1.2).
func (f *FEP) lookup(h wire.SESHead) (*Endpoint, wire.ReturnCode) {
	if len(f.list) == 0 || !h.Rel() {
		return nil, wire.RCUndeliverable // absolute addressing is for services; there are none
	}
	if ep := f.eps[epKey{h.JobID(), h.PIDonFEP()}]; ep != nil {
		if h.ResourceIndex() != f.cfg.RI {
			return nil, wire.RCBadIndex
		}
		return ep, wire.RCOK
	}
	for _, ep := range f.list {
		if ep.job == h.JobID() {
			return nil, wire.RCBadPID
		}
	}
	return nil, wire.RCBadJobID
}

// region checks a WRITE or READ as a whole, so that a bad one changes no byte.
func (ep *Endpoint) region(key, offset uint64, length uint32) ([]byte, wire.ReturnCode) {
	i := key & keyIndex
	if i == 0 || i > uint64(len(ep.regions)) || ep.regions[i-1].key != key {
		return nil, wire.RCBadMKey
	}
	mem := ep.regions[i-1].mem
	if offset > uint64(len(mem)) || uint64(length) > uint64(len(mem))-offset {
		return nil, wire.RCBadAddr
	}
	return mem[offset : offset+uint64(length)], wire.RCOK
}

// check tests that a packet fits its message.
func (m *rxMsg) check(q request, mtu int) wire.ReturnCode {
	end := uint64(q.off) + uint64(q.n)
	switch {
	case q.head.IE():
		return wire.RCInitiatorError
	case q.head.Opcode() != m.op || q.std.RequestLength() != m.length || q.std.BufferOffset() != m.offset ||
		q.std.MatchBits() != m.match:
		return wire.RCOpViolation
	case m.op != wire.OpRead && int(q.n) != len(q.payload) || end > uint64(m.length) || q.head.EOM() != (end == uint64(m.length)) ||
		q.head.SOM() != (q.off == 0) || int(q.n) > mtu || !q.head.EOM() && int(q.n) != mtu:
		return wire.RCOpViolation
	case m.recv != nil && int(m.length) > len(m.mem) && m.ep.f.cfg.RejectTooLong:
		return wire.RCTooLong
	}
	return wire.RCOK
}

// place copies the payload and completes the message if it was the last of it.
func (f *FEP) place(now vt.Time, m *rxMsg, q request, resp response) response {
	m.som = m.som || q.head.SOM()
	if m.rc == wire.RCNull && int(q.off) < len(m.mem) {
		copy(m.mem[q.off:], q.payload)
	}
	m.got += q.n
	if m.got < m.length || !m.som {
		return resp
	}
	if m.rc == wire.RCNull {
		resp.op = wire.RespResponse
		if m.op != wire.OpRead {
			resp.mod = min(m.length, uint32(len(m.mem)))
		}
		f.C[MsgsRx]++
		if m.recv != nil {
			var err error
			if int(m.length) > len(m.mem) {
				err = ErrTruncated
			}
			m.received(now, err)
		}
	}
	f.forget(m)
	return resp
}

// received completes the receive of a message.
func (m *rxMsg) received(now vt.Time, err error) {
	r := m.recv
	m.recv = nil
	c := Completion{Kind: r.kind, Ctx: r.ctx, Len: min(int(m.length), len(r.buf)), Tag: m.match, Src: m.ep.rank(m.initiator),
		Err: err, Posted: r.posted, Acked: now}
	if err != nil {
		m.ep.f.C[MsgsErr]++
		if err != ErrTruncated {
			c.Len = 0
		}
	}
	m.ep.deliver(now, c)
}

// spoil makes a message fail: the error sticks to all its later packets, and the receive completes with err.
func (m *rxMsg) spoil(now vt.Time, rc wire.ReturnCode, err error) {
	m.rc = rc
	if m.recv != nil {
		m.received(now, err)
	}
}

// messageError handles MSG_ERROR: the sender stops here; the context goes when all that was sent has arrived.
func (f *FEP) messageError(now vt.Time, m *rxMsg, q request, resp response) response {
	if m.rc == wire.RCNull {
		m.spoil(now, wire.RCInitiatorError, ErrAborted)
	}
	resp.op = wire.RespResponse
	m.length, m.som = min(m.length, q.off), true
	if m.got >= m.length {
		f.forget(m)
	}
	return resp
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
	for m := f.reading.head; m != nil; {
		after := m.nextRead
		if due := m.last.Add(f.cfg.MessageIdle); m.done && due <= now {
			m.complete(now, ErrNoData)
		} else if m.done {
			next = min(next, due)
		}
		m = after
	}
	for m := f.rx.head; m != nil; {
		after := m.next
		if due := m.last.Add(f.cfg.MessageIdle); due > now {
			next = min(next, due)
		} else {
			if m.recv != nil {
				m.received(now, ErrAborted)
			}
			f.forget(m)
		}
		m = after
	}
	if next != vt.Never {
		f.m.Arm(&f.sweep, next)
	}
}
