package fep

import (
	"net/netip"

	"github.com/uetlab/uetlab/fep/pds"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// peer is an entry of an address vector.
type peer struct {
	addr      netip.Addr
	pid       uint16
	initiator uint32
}

// kindMsgError marks a packet that ends a message early (uet-pds-ses.md 13.5).
const kindMsgError = 1

// txMsg is a message at its initiator, from the call to the completion. It implements pds.Sender.
type txMsg struct {
	pds.Msg
	ep     *Endpoint
	peer   peer
	dst    int
	op     wire.Opcode
	kind   Kind
	buf    []byte
	match  uint64 // match bits or memory key
	offset uint64 // buffer_offset
	ctx    uint64
	posted vt.Time

	mid  uint16
	done bool   // PDS has nothing more to do
	sent uint32 // bytes handed to packets
	got  uint32 // READ: bytes of data that came
	err  error  // the first error response

	last     vt.Time // READ: data came, or the requests were acknowledged
	nextRead *txMsg  // in FEP.reading
	prevRead *txMsg
}

// readList is all reads that wait for data, in the order of posting.
type readList struct{ head, tail *txMsg }

func (l *readList) add(m *txMsg) {
	m.prevRead = l.tail
	if l.tail == nil {
		l.head = m
	} else {
		l.tail.nextRead = m
	}
	l.tail = m
}

func (l *readList) remove(m *txMsg) {
	if m.prevRead == nil {
		l.head = m.nextRead
	} else {
		m.prevRead.nextRead = m.nextRead
	}
	if m.nextRead == nil {
		l.tail = m.prevRead
	} else {
		m.nextRead.prevRead = m.prevRead
	}
	m.nextRead, m.prevRead = nil, nil
}

// isRead says that payload comes back instead of going out.
func (m *txMsg) isRead() bool { return m.op == wire.OpRead }

// part is how many bytes of the message the packet at off is about.
func (m *txMsg) part(off uint32) int {
	return min(m.ep.f.cfg.PayloadMTU, len(m.buf)-int(off))
}

// Next implements pds.Sender.
func (m *txMsg) Next() (int, wire.NextHdr) {
	switch {
	case m.Mode == pds.UUD:
		return len(m.buf), wire.NextRequestMedium
	case m.err != nil || m.isRead():
		return 0, wire.NextRequestStd
	}
	return m.part(m.sent), wire.NextRequestStd
}

// Cut implements pds.Sender.
func (m *txMsg) Cut(k *pds.Packet) (last bool) {
	k.Off = m.sent
	if m.err != nil {
		k.Kind = kindMsgError
		return true
	}
	n := m.part(m.sent)
	m.sent += uint32(n)
	if !m.isRead() {
		k.N = uint16(n)
	}
	return int(m.sent) == len(m.buf)
}

// Payload implements pds.Sender.
func (m *txMsg) Payload(k *pds.Packet) []byte { return m.buf[k.Off : int(k.Off)+int(k.N)] }

// Header implements pds.Sender.
func (m *txMsg) Header(b []byte, k *pds.Packet) []byte {
	head := wire.HeadFields{Opcode: m.op, Flags: wire.SESRel, JobID: m.ep.job, PIDonFEP: m.peer.pid,
		ResourceIndex: m.ep.f.cfg.RI}
	if m.Mode == pds.UUD {
		head.Flags |= wire.SESSOM | wire.SESEOM
		return wire.AppendSESMedium(b, &wire.MediumFields{HeadFields: head, RequestLength: uint16(len(m.buf)), Initiator: m.ep.initiator})
	}
	n := int(k.N)
	if m.isRead() {
		n = m.part(k.Off)
	}
	h := wire.StdFields{HeadFields: head, MessageID: m.mid, BufferOffset: m.offset, Initiator: m.ep.initiator, MatchBits: m.match,
		PayloadLength: uint16(n), MessageOffset: k.Off, RequestLength: uint32(len(m.buf)),
	}
	switch {
	case k.Kind == kindMsgError:
		h.Opcode = wire.OpMsgError
		h.PayloadLength = 0
		h.Flags |= wire.SESIE | wire.SESEOM
	default:
		if k.Off == 0 {
			h.Flags |= wire.SESSOM
		}
		if int(k.Off)+n == len(m.buf) {
			h.Flags |= wire.SESEOM
		}
	}
	return wire.AppendSESStd(b, &h)
}

// Response implements pds.Sender: it takes read data, and notes the first error response of a message; what is left of it is
// not sent any more.
func (m *txMsg) Response(now vt.Time, _ *pds.Packet, next wire.NextHdr, resp []byte) {
	head := wire.RespHead(resp[:2])
	switch next {
	case wire.NextResponse:
		if r, err := wire.ParseSESResponse(resp); err != nil || r.MessageID() != m.mid {
			return
		}
	case wire.NextResponseData:
		r, err := wire.ParseSESResponseData(resp)
		if err != nil || r.ReadRequestMessageID() != m.mid {
			return
		}
		m.data(r, resp[len(r):])
	}
	if code := head.ReturnCode(); code > wire.RCOK && m.err == nil {
		m.err = &ResponseError{code}
	}
}

// data places read data.
func (m *txMsg) data(r wire.SESResponseData, b []byte) {
	off, n := uint64(r.MessageOffset()), r.PayloadLength()
	if !m.isRead() || n > len(b) || off+uint64(n) > uint64(len(m.buf)) {
		return
	}
	copy(m.buf[off:], b[:n])
	m.got += uint32(n)
}

// Rewind implements pds.Sender.
func (m *txMsg) Rewind() bool {
	if m.err != nil || m.got > 0 {
		return false
	}
	m.sent = 0
	return true
}

// Done implements pds.Sender.
func (m *txMsg) Done(now vt.Time) {
	m.done, m.last = true, now
	if m.isRead() && m.err == nil && int(m.got) < len(m.buf) {
		m.ep.f.armSweep(now)
	}
	m.settle(now)
}

// settle completes the message once everything of it was sent and acknowledged, and all data of a read is in.
func (m *txMsg) settle(now vt.Time) {
	if m.done && (!m.isRead() || m.err != nil || int(m.got) >= len(m.buf)) {
		m.complete(now, m.err)
	}
}

// Failed implements pds.Sender.
func (m *txMsg) Failed(now vt.Time, err *pds.Error) {
	if m.err != nil {
		m.complete(now, m.err) // the target's verdict says more than the fate of the PDC
		return
	}
	m.complete(now, err)
}

// complete ends an initiator's operation.
func (m *txMsg) complete(now vt.Time, err error) {
	f := m.ep.f
	if m.mid != 0 {
		f.mids.put(m.mid)
	}
	if m.isRead() {
		delete(f.reads, m.mid)
		f.reading.remove(m)
		m.Unlock(now)
	}
	if err == nil {
		f.C[MsgsTx]++
	} else {
		f.C[MsgsErr]++
	}
	m.ep.deliver(now, Completion{Kind: m.kind, Ctx: m.ctx, Len: len(m.buf), Tag: m.match, Src: m.dst, Err: err,
		Posted: m.posted, Acked: now})
}

// returned takes a packet of read data that came on a PDC of ours.
func (f *FEP) returned(now vt.Time, q *pds.Request, r *pds.Response) wire.NackCode {
	h, err := wire.ParseSESResponseData(q.B)
	if err != nil || q.Next != wire.NextResponseData {
		f.C[ReadLate]++
		return 0
	}
	r.Job = h.JobID()
	b := q.B[len(h):]
	if q.Ref != nil {
		b = q.Ref
	}
	r.Bytes = len(b)
	m := f.reads[h.ReadRequestMessageID()]
	if m == nil || m.peer.addr != q.Src {
		f.C[ReadLate]++
		return 0
	}
	m.data(h, b)
	m.last = now
	m.settle(now)
	return 0
}
