package fep

import (
	"github.com/uetlab/uetlab/fep/pds"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// retMsg is the answer to one read request: a packet of data on the way back. It implements pds.Sender.
type retMsg struct {
	pds.Msg
	f      *FEP
	region *region // asked for its memory whenever the packet leaves: that may have been taken back
	at     uint64  // in the region
	n      uint16
	off    uint32
	total  uint32
	mid    uint16   // of the read
	psn    wire.PSN // of the request, where it had no message ID
	small  bool
	broken bool // the memory could not be read
	job    uint32
	late   *lateAnswer
	free   *retMsg
}

// lateAnswer is the answer to a read request that waits until the data was delivered: so a reader cannot have the target queue more
// than its PDC's range of PSNs.
type lateAnswer struct {
	h pds.Handle
	r pds.Response
}

// retPool is the return data under way: how many packets, and contexts for more.
type retPool struct {
	n    int
	free *retMsg
	last *retMsg // what the request being handled began, if its answer has to wait
}

// holds takes the answer of a request whose data has to be delivered first.
func (p *retPool) holds(q *pds.Request, r *pds.Response) {
	late := p.last.late
	p.last = nil
	late.h, late.r = q.Handle(), *r
	*r = pds.Response{Later: true, Job: r.Job, Bytes: r.Bytes}
}

// read answers a read request (uet-pds-ses.md 16.2): with the ACK if the whole read fits it, else by a packet of data.
func (f *FEP) read(now vt.Time, d *pds.Request, m *rxMsg, q *packet, resp *response, r *pds.Response) wire.ReturnCode {
	mem, ok := m.region.Memory()
	if !ok {
		return m.ep.mem.Recheck(m.region)
	}
	f.C[ReadsRx]++
	at := m.offset + uint64(q.off)
	if s := mem.send; s != nil {
		s.asked(now, m.offset)
	}
	if int(m.length) <= f.cfg.MaxAckData && mem.send == nil {
		if mem.pull(int(at), int(q.n)) != nil {
			return wire.RCHostUnsuccessCmpl
		}
		resp.gtd = true
		data := f.keep(int(q.n))
		copy(data, mem.B[at:])
		resp.data(r, q, data, m.length, q.off)
		return wire.RCOK
	}
	ret := f.rets.free
	if ret == nil {
		ret = &retMsg{}
	} else {
		f.rets.free = ret.free
		*ret = retMsg{}
	}
	f.rets.n++
	if f.rets.n > f.cfg.MaxReturns {
		ret.late = &lateAnswer{}
		f.rets.last = ret
	}
	ret.f, ret.region, ret.at, ret.n, ret.off, ret.total, ret.mid, ret.job = f, m.region, at, uint16(q.n), q.off, m.length, m.mid, resp.job
	ret.small, ret.psn = q.std == nil, q.psn
	ret.S, ret.Len, ret.More = ret, int64(q.n), q.off+q.n < m.length
	f.m.Return(now, d.PDC, &ret.Msg)
	return wire.RCOK
}

// Next implements pds.Sender.
func (r *retMsg) Next() (int, wire.NextHdr) {
	if r.small {
		return int(r.n), wire.NextResponseDataSmall
	}
	return int(r.n), wire.NextResponseData
}

// Cut implements pds.Sender.
func (r *retMsg) Cut(k *pds.Packet) bool {
	k.N, k.Off = r.n, r.off
	return true
}

// Header implements pds.Sender.
func (r *retMsg) Header(b []byte, k *pds.Packet) []byte {
	h := wire.RespFields{Opcode: wire.RespWithData, ReturnCode: wire.RCOK, JobID: r.job}
	switch mem, ok := r.region.Memory(); {
	case !ok:
		h.ReturnCode = wire.RCCancelled
	case mem.pull(int(r.at), int(r.n)) != nil:
		r.broken = true
		h.ReturnCode = wire.RCHostUnsuccessCmpl
	}
	if r.small {
		return wire.AppendSESResponseDataSmall(b, &wire.ResponseDataSmallFields{RespFields: h, PayloadLength: k.N, OriginalRequestPSN: r.psn})
	}
	return wire.AppendSESResponseData(b, &wire.ResponseDataFields{RespFields: h, ReadRequestMessageID: r.mid, PayloadLength: k.N,
		ModifiedLength: r.total, MessageOffset: r.off})
}

// Payload implements pds.Sender.
func (r *retMsg) Payload(*pds.Packet) []byte {
	mem, ok := r.region.Memory()
	if !ok || r.broken {
		return zeros[:r.n]
	}
	return mem.B[r.at : r.at+uint64(r.n)]
}

// Response implements pds.Sender.
func (r *retMsg) Response(vt.Time, *pds.Packet, wire.NextHdr, []byte) {}

// Rewind implements pds.Sender.
func (r *retMsg) Rewind() bool { return false }

// Done implements pds.Sender.
func (r *retMsg) Done(now vt.Time) {
	r.f.rets.n--
	if mem, ok := r.region.Memory(); ok && mem.send != nil {
		mem.send.fetched(now, r.at, r.n)
	}
	if r.late != nil {
		r.f.m.Answer(now, r.late.h, &r.late.r)
	}
	r.region, r.late, r.free, r.f.rets.free = nil, nil, r.f.rets.free, r
}

// Failed implements pds.Sender: the reader learns of it from its own PDC.
func (r *retMsg) Failed(vt.Time, *pds.Error) {
	r.f.rets.n--
}

// smallRead names a read without a message ID.
type smallRead struct {
	pdc uint16
	psn wire.PSN
}

// expect notes by which PDC and PSN the data of a read without message ID will be known: it names the PSN of its request, which may
// change until the packet has arrived.
func (f *FEP) expect(m *txMsg, psn wire.PSN) {
	if id := m.PDCID(); m.psnOn != id || m.psn != psn {
		f.unexpect(m)
		m.psn, m.psnOn = psn, id
		f.smallReads[smallRead{id, psn}] = m
	}
}

func (f *FEP) unexpect(m *txMsg) {
	if m.psnOn != 0 {
		if k := (smallRead{m.psnOn, m.psn}); f.smallReads[k] == m {
			delete(f.smallReads, k)
		}
		m.psnOn = 0
	}
}

// returned takes a packet of read data that came on a PDC of ours.
func (f *FEP) returned(now vt.Time, q *pds.Request, r *pds.Response) wire.NackCode {
	var m *txMsg
	var off uint32
	var n int
	b := q.B
	switch q.Next {
	case wire.NextResponseData:
		h, err := wire.ParseSESResponseData(b)
		if err == nil {
			r.Job, m, off, n, b = h.JobID(), f.reads[h.ReadRequestMessageID()], h.MessageOffset(), h.PayloadLength(), b[len(h):]
		}
	case wire.NextResponseDataSmall:
		h, err := wire.ParseSESResponseDataSmall(b)
		if err == nil {
			r.Job, m, n, b = h.JobID(), f.smallReads[smallRead{q.PDC.ID(), h.OriginalRequestPSN()}], h.PayloadLength(), b[len(h):]
		}
	}
	if q.Ref != nil {
		b = q.Ref
	}
	if m != nil {
		r.Bytes = len(b)
	}
	if m == nil || m.to.addr != q.Src || m.state == txAbandoned {
		f.C[ReadLate]++
		return 0
	}
	m.last = now
	if rc := wire.RespHead(q.B[:2]).ReturnCode(); rc > wire.RCOK {
		m.react(answer{rc: rc})
	} else {
		m.place(off, n, b)
	}
	if m.done && m.state == txWaitData && (m.got >= m.want || m.verdict != wire.RCNull || m.broken) {
		m.drained(now)
	}
	return 0
}

// idempotent answers a RUDI packet, each on its own and as often as it comes (uet-pds-ses.md 9.1).
func (f *FEP) idempotent(now vt.Time, q *packet, r *pds.Response) {
	resp := response{op: wire.RespResponse, rc: wire.RCOK, job: q.head.JobID(), gen: q.head.RIGeneration(), mid: q.mid}
	mem, rc := f.idempotentMemory(q)
	at := int(q.offset) + int(q.off)
	switch {
	case rc != wire.RCOK:
	case q.op == wire.OpRead:
		f.C[ReadsRx]++
		if mem.pull(at, int(q.n)) != nil {
			rc = wire.RCHostUnsuccessCmpl
			break
		}
		data := f.keep(int(q.n))
		copy(data, mem.B[at:])
		resp.data(r, q, data, q.length, q.off)
	default:
		resp.mod = q.length
		copy(mem.B[at:], q.payload)
		if mem.push(at, len(q.payload)) != nil {
			rc = wire.RCHostUnsuccessCmpl
		}
	}
	if rc != wire.RCOK {
		resp.refuse(f, rc, false)
	}
	resp.fill(r)
}

// idempotentMemory checks a RUDI packet and finds the memory of its message.
func (f *FEP) idempotentMemory(q *packet) (*registered, wire.ReturnCode) {
	switch {
	case q.head.Ver() != 0:
		return nil, wire.RCUncor
	case q.std == nil:
		return nil, wire.RCUnsupportedOp
	case q.op != wire.OpWrite && q.op != wire.OpRead || q.head.HD():
		return nil, wire.RCOpViolation
	}
	if rc := checkForm(q); rc != wire.RCOK {
		return nil, rc
	}
	ep, rc := f.dir.find(q.head, spaceRMA, false)
	if rc != wire.RCOK {
		return nil, rc
	}
	if rc := checkLength(q, q.length, f.cfg.PayloadMTU); rc != wire.RCOK {
		return nil, rc
	}
	r, rc := ep.lookup(q, access(q.op))
	switch {
	case rc != wire.RCOK:
		return nil, rc
	case q.head.IE():
		return nil, wire.RCInitiatorError
	}
	mem, _ := r.Memory()
	return mem, wire.RCOK
}

// datagram takes a UUD packet if there is a receive for it; else it is dropped.
func (f *FEP) datagram(now vt.Time, q *packet) wire.NackCode {
	h := q.head
	if q.op != wire.OpDatagramSend || !h.SOM() || !h.EOM() || h.IE() || q.next == wire.NextRequestSmall || h.Ver() != 0 {
		return wire.NackUnexpEvent
	}
	ep, rc := f.dir.find(h, spaceSend, false)
	if rc != wire.RCOK || int(q.length) > len(q.payload) {
		return wire.NackNoResource
	}
	m := rxMsg{op: q.op, length: q.length, initiator: q.initiator, ep: ep, hd: h.HD(), data: q.data}
	m.recv, m.at, m.room = ep.q.take(spaceSend, &m, h.JobID())
	if m.recv == nil {
		return wire.NackNoResource
	}
	var err error
	if rc := m.place(q); rc != wire.RCOK {
		err = &ResponseError{rc}
	} else if int(m.length) > m.room {
		err = ErrTruncated
	}
	f.C[MsgsRx]++
	f.C[DataRxBytes] += uint64(m.length)
	m.received(now, err)
	return 0
}
