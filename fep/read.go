package fep

import (
	"github.com/uetlab/uetlab/fep/pds"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// retMsg is the answer to one read request: a packet of data on the way back. It implements pds.Sender.
type retMsg struct {
	pds.Msg
	f     *FEP
	data  []byte
	off   uint32
	total uint32
	mid   uint16 // of the read
	job   uint32
	free  *retMsg
}

// read answers a read request (uet-pds-ses.md 16.2): with the ACK if the whole read fits it, else by a packet of data.
func (f *FEP) read(now vt.Time, p *pds.PDC, m *rxMsg, q request, resp response, r *pds.Response) response {
	f.C[ReadsRx]++
	data := m.mem[q.off : q.off+q.n]
	if int(m.length) <= f.cfg.MaxAckData {
		resp.gtd = true
		resp.data(r, data, m.length, q.off)
		return resp
	}
	ret := f.rets
	if ret == nil {
		ret = &retMsg{f: f}
	} else {
		f.rets = ret.free
		*ret = retMsg{f: f}
	}
	ret.data, ret.off, ret.total, ret.mid, ret.job = data, q.off, m.length, m.mid, resp.job
	ret.S, ret.Len, ret.More = ret, int64(len(data)), q.off+q.n < m.length
	f.m.Return(now, p, &ret.Msg)
	return resp
}

// data makes the answer one that carries data.
func (r *response) data(to *pds.Response, data []byte, total, off uint32) {
	to.SetData(&wire.ResponseDataFields{RespFields: wire.RespFields{Opcode: wire.RespWithData, ReturnCode: wire.RCOK, JobID: r.job},
		ReadRequestMessageID: r.mid, PayloadLength: uint16(len(data)), ModifiedLength: total, MessageOffset: off}, data)
}

// Next implements pds.Sender.
func (r *retMsg) Next() (int, wire.NextHdr) { return len(r.data), wire.NextResponseData }

// Cut implements pds.Sender.
func (r *retMsg) Cut(k *pds.Packet) bool {
	k.N, k.Off = uint16(len(r.data)), r.off
	return true
}

// Header implements pds.Sender.
func (r *retMsg) Header(b []byte, k *pds.Packet) []byte {
	return wire.AppendSESResponseData(b, &wire.ResponseDataFields{
		RespFields:           wire.RespFields{Opcode: wire.RespWithData, ReturnCode: wire.RCOK, JobID: r.job},
		ReadRequestMessageID: r.mid, PayloadLength: k.N, ModifiedLength: r.total, MessageOffset: r.off})
}

// Payload implements pds.Sender.
func (r *retMsg) Payload(*pds.Packet) []byte { return r.data }

// Response implements pds.Sender.
func (r *retMsg) Response(vt.Time, *pds.Packet, wire.NextHdr, []byte) {}

// Rewind implements pds.Sender.
func (r *retMsg) Rewind() bool { return false }

// Done implements pds.Sender.
func (r *retMsg) Done(vt.Time) {
	r.data, r.free, r.f.rets = nil, r.f.rets, r
}

// Failed implements pds.Sender: the reader learns of it from its own PDC.
func (r *retMsg) Failed(vt.Time, *pds.Error) { r.data = nil }

// idempotent answers a RUDI packet, each on its own and as often as it comes (uet-pds-ses.md 9.1).
func (f *FEP) idempotent(q request, r *pds.Response) {
	resp := response{op: wire.RespResponse, rc: wire.RCOK, job: q.head.JobID(), gen: q.head.RIGeneration()}
	if q.std != nil {
		resp.mid = q.std.MessageID()
	}
	mem, rc := f.idempotentMemory(q)
	switch {
	case rc != wire.RCOK:
		resp = resp.refuse(f, rc, false)
	case q.head.Opcode() == wire.OpRead:
		f.C[ReadsRx]++
		resp.data(r, mem[q.off:q.off+q.n], uint32(len(mem)), q.off)
		r.Job = resp.job
		return
	default:
		copy(mem[q.off:], q.payload)
		resp.mod = uint32(len(mem))
	}
	resp.fill(r)
}

// idempotentMemory checks a RUDI packet and finds the memory of its message.
func (f *FEP) idempotentMemory(q request) ([]byte, wire.ReturnCode) {
	op := q.head.Opcode()
	switch {
	case q.std == nil:
		return nil, wire.RCUnsupportedOp
	case op != wire.OpWrite && op != wire.OpRead || q.head.HD() || q.std.MatchBits()&keyIdempotent == 0:
		return nil, wire.RCOpViolation
	}
	ep, rc := f.lookup(q.head)
	if rc != wire.RCOK {
		return nil, rc
	}
	end := uint64(q.off) + uint64(q.n)
	if op == wire.OpWrite && int(q.n) != len(q.payload) || end > uint64(q.std.RequestLength()) || int(q.n) > f.cfg.PayloadMTU {
		return nil, wire.RCOpViolation
	}
	return ep.region(q.std.MatchBits(), q.std.BufferOffset(), q.std.RequestLength())
}

// datagram takes a UUD packet if there is a receive for it; else it is dropped.
func (f *FEP) datagram(now vt.Time, d *pds.Request, q request) wire.NackCode {
	h, m := q.head, rxMsg{op: wire.OpDatagramSend}
	if h.Opcode() != wire.OpDatagramSend || !h.SOM() || !h.EOM() || h.IE() {
		return wire.NackUnexpEvent
	}
	switch d.Next {
	case wire.NextRequestMedium:
		s, _ := wire.ParseSESMedium(d.B)
		m.length, m.initiator = s.RequestLength(), s.Initiator()
	case wire.NextRequestStd:
		m.length, m.initiator = q.std.RequestLength(), q.std.Initiator()
	}
	ep, rc := f.lookup(h)
	if rc != wire.RCOK || int(m.length) > len(q.payload) {
		return wire.NackNoResource
	}
	if m.recv = ep.matchUntagged(); m.recv == nil {
		return wire.NackNoResource
	}
	m.ep = ep
	copy(m.recv.buf, q.payload[:m.length])
	f.C[MsgsRx]++
	f.C[DataRxBytes] += uint64(m.length)
	var err error
	if int(m.length) > len(m.recv.buf) {
		err = ErrTruncated
	}
	m.received(now, err)
	return 0
}
