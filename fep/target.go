package fep

import (
	"github.com/uetlab/uetlab/internal/vt"
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

func (r *response) append(b []byte) []byte {
	return wire.AppendSESResponse(b, &wire.ResponseFields{
		RespFields: wire.RespFields{Opcode: r.op, ReturnCode: r.rc, JobID: r.job},
		MessageID:  r.mid, RIGeneration: r.gen, ModifiedLength: r.mod})
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
	next      *rxMsg // in the pool
}

// rxPool keeps message contexts for reuse.
type rxPool struct{ free *rxMsg }

func (r *rxPool) get() *rxMsg {
	m := r.free
	if m == nil {
		return &rxMsg{}
	}
	r.free = m.next
	*m = rxMsg{}
	return m
}

func (r *rxPool) put(m *rxMsg) {
	*m = rxMsg{next: r.free}
	r.free = m
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
func parseSES(next wire.NextHdr, b, ref []byte) (q request, payload []byte, ok bool) {
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
	if q.head.SOM() {
		q.n = min(q.std.RequestLength(), uint32(len(q.payload)))
	} else {
		q.n = uint32(q.std.PayloadLength())
	}
	q.payload = q.payload[:min(int(q.n), len(q.payload))]
	return q, q.payload, true
}

// deliver gives a new packet to SES and returns its answer (uet-pds-ses.md 17.1).
func (f *FEP) deliver(now vt.Time, p *pdc, next wire.NextHdr, q request, payload []byte) response {
	p.job = q.head.JobID()
	resp := response{op: wire.RespDefault, rc: wire.RCOK, job: p.job, gen: q.head.RIGeneration()}
	if q.std == nil {
		return resp.refuse(f, wire.RCUnsupportedOp, true)
	}
	resp.mid = q.std.MessageID()
	m := p.message(resp.mid)
	if m == nil {
		if q.head.Opcode() == wire.OpMsgError || q.head.Opcode() == wire.OpNoOp {
			resp.op = wire.RespResponse
			return resp
		}
		m = f.msgs.get()
		m.mid, m.op, m.length = resp.mid, q.head.Opcode(), q.std.RequestLength()
		m.offset, m.match, m.initiator = q.std.BufferOffset(), q.std.MatchBits(), q.std.Initiator()
		p.d.msgs = append(p.d.msgs, m)
		if rc := f.begins(m, q); rc != wire.RCOK {
			m.rc = rc
			resp = resp.refuse(f, rc, true)
		}
	} else if q.head.Opcode() == wire.OpMsgError {
		return p.messageError(now, m, q, resp)
	}
	m.last = now
	f.armSweep(now)
	if m.rc == wire.RCNull {
		if rc := m.check(q, f.cfg.PayloadMTU); rc != wire.RCOK {
			p.spoil(now, m, rc, &ResponseError{rc})
			resp = resp.refuse(f, rc, true)
		}
	} else if resp.op == wire.RespDefault {
		resp = resp.refuse(f, m.rc, false) // the first one is the verdict, and is kept
	}
	return p.place(now, m, q, resp)
}

// refuse turns the answer into an error.
func (r response) refuse(f *FEP, rc wire.ReturnCode, gtd bool) response {
	f.C[RespErrTx]++
	r.op, r.rc, r.gtd = wire.RespResponse, rc, gtd
	return r
}

// message finds the context of a message of this PDC.
func (p *pdc) message(mid uint16) *rxMsg {
	for i := len(p.d.msgs) - 1; i >= 0; i-- {
		if p.d.msgs[i].mid == mid {
			return p.d.msgs[i]
		}
	}
	return nil
}

func (p *pdc) forget(m *rxMsg) {
	for i, x := range p.d.msgs {
		if x == m {
			p.d.msgs = append(p.d.msgs[:i], p.d.msgs[i+1:]...)
			p.f.msgs.put(m)
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
	if m.op != wire.OpSend && m.op != wire.OpTaggedSend && m.op != wire.OpWrite {
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
	case m.op == wire.OpWrite:
		return m.bindRegion()
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

// bindRegion checks a WRITE as a whole, so that a bad one changes no byte.
func (m *rxMsg) bindRegion() wire.ReturnCode {
	if m.match == 0 || m.match > uint64(len(m.ep.regions)) {
		return wire.RCBadMKey
	}
	region := m.ep.regions[m.match-1]
	if m.offset > uint64(len(region)) || uint64(m.length) > uint64(len(region))-m.offset {
		return wire.RCBadAddr
	}
	m.mem = region[m.offset : m.offset+uint64(m.length)]
	return wire.RCOK
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
	case int(q.n) != len(q.payload) || end > uint64(m.length) || q.head.EOM() != (end == uint64(m.length)) ||
		q.head.SOM() != (q.off == 0) || !q.head.EOM() && int(q.n) != mtu:
		return wire.RCOpViolation
	case m.recv != nil && int(m.length) > len(m.mem) && m.ep.f.cfg.RejectTooLong:
		return wire.RCTooLong
	}
	return wire.RCOK
}

// place copies the payload and completes the message if it was the last of it.
func (p *pdc) place(now vt.Time, m *rxMsg, q request, resp response) response {
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
		resp.mod = min(m.length, uint32(len(m.mem)))
		p.f.C[MsgsRx]++
		if m.recv != nil {
			var err error
			if int(m.length) > len(m.mem) {
				err = ErrTruncated
			}
			m.received(now, err)
		}
	}
	p.forget(m)
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
func (p *pdc) spoil(now vt.Time, m *rxMsg, rc wire.ReturnCode, err error) {
	m.rc = rc
	if m.recv != nil {
		m.received(now, err)
	}
}

// messageError handles MSG_ERROR: the sender stops here; the context goes when all that was sent has arrived.
func (p *pdc) messageError(now vt.Time, m *rxMsg, q request, resp response) response {
	if m.rc == wire.RCNull {
		p.spoil(now, m, wire.RCInitiatorError, ErrAborted)
	}
	resp.op = wire.RespResponse
	m.length, m.som = min(m.length, q.off), true
	if m.got >= m.length {
		p.forget(m)
	}
	return resp
}

// abortMessages gives up all unfinished messages of the PDC.
func (p *pdc) abortMessages(now vt.Time) {
	for _, m := range p.d.msgs {
		if m.recv != nil {
			m.received(now, ErrAborted)
		}
		p.f.msgs.put(m)
	}
	p.d.msgs = nil
}

func (f *FEP) armSweep(now vt.Time) {
	if f.sweep != vt.Never {
		return
	}
	f.sweep = now.Add(f.cfg.MessageIdle)
	f.node.SetTimer(f.sweep, uint64(timerSweep)<<16)
}

// sweepMessages gives up messages that have been silent for MessageIdle.
func (f *FEP) sweepMessages(now vt.Time) {
	next := vt.Never
	for _, p := range f.pdcs.slots {
		if p == nil {
			continue
		}
		kept := p.d.msgs[:0]
		for _, m := range p.d.msgs {
			if due := m.last.Add(f.cfg.MessageIdle); due > now {
				next = min(next, due)
				kept = append(kept, m)
				continue
			}
			if m.recv != nil {
				m.received(now, ErrAborted)
			}
			f.msgs.put(m)
		}
		p.d.msgs = kept
	}
	f.sweep = next
	if next != vt.Never {
		f.node.SetTimer(next, uint64(timerSweep)<<16)
	}
}
