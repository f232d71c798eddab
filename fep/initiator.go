package fep

import (
	"github.com/uetlab/uetlab/fep/mr"
	"github.com/uetlab/uetlab/fep/pds"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// start begins an operation of an initiator.
func (ep *Endpoint) start(now vt.Time, op *Op) error {
	to, err := ep.admit(op)
	if err != nil {
		return err
	}
	f := ep.f
	if f.mids.n >= maxMids {
		return ErrAgain
	}
	m := f.tx.get()
	m.ep, m.to, m.dst, m.kind, m.op, m.flags, m.buf = ep, to, op.Peer, op.Kind, kindOps[op.Kind], op.Flags, op.Buf
	m.length, m.match, m.data, m.ctx, m.posted, m.job = uint32(len(op.Buf.B)), op.Tag, op.Data, op.Ctx, now, ep.job
	m.plan(op)
	if op.Flags&FlagInject != 0 && m.ext == nil {
		m.inject = append(m.inject[:0], op.Buf.B...)
		m.buf = Buffer{B: m.inject}
	}
	ep.open.add(m)
	if m.early.wait != nil {
		m.await(now)
		return nil
	}
	if m.op.IsRendezvous() {
		m.expose()
	}
	if m.Mode == pds.ROD && m.isSend() {
		to.streamTo(f, spaceOf(m.op)).enter(now, m)
		return nil
	}
	m.submit(now)
	return nil
}

// admit checks an operation before it exists.
func (ep *Endpoint) admit(op *Op) (*peer, error) {
	n := len(op.Buf.B)
	if op.Peer < 0 || op.Peer >= len(ep.av) || ep.av[op.Peer] == nil {
		return nil, ErrPeer
	}
	to := ep.av[op.Peer]
	single := op.Kind == OpDatagram || op.Kind >= OpAtomic
	switch {
	case op.Kind > OpCompareAtomic || op.Kind == OpRecv || op.Kind == OpTagRecv,
		op.Flags&FlagIdempotent != 0 && (op.Kind != OpWrite && op.Kind != OpRead || op.Flags&FlagData != 0),
		op.Flags&FlagData != 0 && (op.Kind == OpRead || op.Kind >= OpAtomic),
		op.Flags&FlagInject != 0 && op.Kind == OpRead:
		return nil, ErrInvalid
	case !to.profile.has(kindOps[op.Kind]) && (op.Kind != OpTagSend || to.profile != AIBase):
		return nil, ErrUnsupported
	case op.Kind == OpDatagram && n > ep.f.cfg.PayloadMTU:
		return nil, ErrDatagram
	case n > MaxMessage || op.Flags&FlagInject != 0 && n > InjectSize || single && n > ep.f.cfg.PayloadMTU:
		return nil, ErrTooLarge
	}
	if op.Kind >= OpAtomic {
		return to, ep.admitAtomic(op)
	}
	if op.Flags&FlagInject != 0 && op.Buf.pull(0, n) != nil {
		return nil, ErrMemory
	}
	return to, nil
}

// plan decides how an operation goes out: opcode, mode and header (uet-pds-ses.md 2.4, 13.6).
func (m *txMsg) plan(op *Op) {
	ep := m.ep
	switch {
	case m.kind == OpDatagram:
		m.Mode, m.form = pds.UUD, wire.NextRequestMedium
	case op.Flags&FlagIdempotent != 0:
		m.Mode, m.form = pds.RUDI, wire.NextRequestStd
	default:
		m.Mode, m.form = pds.RUD, wire.NextRequestStd
		if ep.ordered() {
			m.Mode = pds.ROD
		}
	}
	switch m.kind {
	case OpWrite, OpRead:
		m.match, m.offset = op.Key, op.Offset
	case OpAtomic, OpFetchAtomic, OpCompareAtomic:
		m.match, m.offset = op.Key, op.Offset
		m.planAtomic(op)
	}
	if m.kind == OpRead {
		m.buf, m.in, m.want = Buffer{}, op.Buf, m.length
	}
	if m.isSend() {
		m.planSend()
	}
	if m.to.small && m.Mode <= pds.ROD && int(m.length) <= ep.f.cfg.PayloadMTU && m.early.wait == nil {
		m.shrink()
	}
}

// shrink chooses an optimized header, if one can say all.
func (m *txMsg) shrink() {
	rma := !m.isSend()
	switch {
	case rma && m.match&mr.KeyOptimized != 0 && m.flags&FlagData == 0:
		m.form = wire.NextRequestSmall
	case rma && m.flags&FlagData != 0 && m.offset != 0, m.op.IsDeferrable(), m.op.IsRendezvous():
	default:
		m.form = wire.NextRequestMedium
	}
}

// submit hands the message to packet delivery, for the first time or again, as a new one. False says that there is no message ID.
func (m *txMsg) submit(now vt.Time) bool {
	f, ep := m.ep.f, m.ep
	if m.form == wire.NextRequestStd {
		if m.mid = f.mids.get(); m.mid == 0 {
			return false
		}
	}
	mode := m.Mode
	m.Msg = pds.Msg{S: m, Peer: m.to.addr, Job: m.job, TC: ep.cfg.TC, Mode: mode, Len: int64(m.length - m.early.rest)}
	m.state, m.verdict, m.sent, m.got, m.done = txSending, wire.RCNull, m.early.from, 0, false
	m.early.deferred, m.early.ready = false, false
	if m.stream != nil {
		m.stream.flying++
	}
	if s := m.to.streams[spaceOf(m.op)]; s != nil && m.isSend() && !m.early.internal {
		m.gen = s.gen
	}
	if m.isRead() {
		m.Lock = mode <= pds.ROD
		m.Len = 0
		if m.mid != 0 {
			f.reads[m.mid] = m
		}
	}
	f.m.Submit(now, &m.Msg)
	f.m.Kick(now)
	return true
}

// part is how many bytes of the message the packet at off is about.
func (m *txMsg) part(off uint32) int {
	return int(min(uint32(m.ep.f.cfg.PayloadMTU), m.length-m.early.rest-off))
}

// payload is how many bytes of it that packet carries.
func (m *txMsg) payload(off uint32) int {
	if m.bare() {
		return 0
	}
	return m.part(off)
}

// ends says that of a message of several packets only its early end is still to be sent.
func (m *txMsg) ends() bool {
	return m.form == wire.NextRequestStd && (m.verdict != wire.RCNull || m.broken || m.state == txAbandoned || m.early.deferred) &&
		(m.sent > 0 || m.length > uint32(m.ep.f.cfg.PayloadMTU))
}

// Next implements pds.Sender.
func (m *txMsg) Next() (int, wire.NextHdr) {
	if m.ends() {
		return 0, m.form
	}
	return m.payload(m.sent), m.form
}

// Cut implements pds.Sender.
func (m *txMsg) Cut(k *pds.Packet) (last bool) {
	k.Off = m.sent
	if m.ends() {
		k.Kind = m.endKind()
		return true
	}
	k.N = uint16(m.payload(m.sent))
	m.sent += uint32(m.part(m.sent))
	return m.sent == m.length-m.early.rest
}

// zeros stand in for memory that was taken back.
var zeros [8192]byte

// Payload implements pds.Sender.
func (m *txMsg) Payload(k *pds.Packet) []byte {
	if m.state == txAbandoned || m.broken {
		return zeros[:k.N]
	}
	return m.buf.B[k.Off : int(k.Off)+int(k.N)]
}

// Header implements pds.Sender.
func (m *txMsg) Header(b []byte, k *pds.Packet) []byte {
	if m.buf.Sync != nil && m.state != txAbandoned && m.buf.pull(int(k.Off), int(k.N)) != nil {
		m.broken = true
	}
	h := wire.StdFields{HeadFields: wire.HeadFields{Opcode: m.op, JobID: m.job, PIDonFEP: m.to.pid, RIGeneration: m.gen,
		ResourceIndex: m.to.ri[spaceOf(m.op)]}}
	if !m.to.absolute {
		h.Flags = wire.SESRel
	}
	if m.flags&FlagDeliveryComplete != 0 {
		h.Flags |= wire.SESDC
	}
	if m.broken || m.state == txAbandoned {
		h.Flags |= wire.SESIE
	}
	if m.form != wire.NextRequestStd {
		return m.optimized(b, &h.HeadFields, k)
	}
	n := m.part(k.Off)
	h.MessageID, h.BufferOffset, h.Initiator, h.MatchBits = m.mid, m.offset, m.ep.initiator, m.match
	h.PayloadLength, h.MessageOffset, h.RequestLength = uint16(n), k.Off, m.length
	h.InitiatorToken, h.TargetToken = m.early.token, m.early.target
	switch {
	case k.Kind == kindMsgError:
		h.Opcode = wire.OpMsgError
		h.PayloadLength = 0
		h.Flags |= wire.SESIE | wire.SESEOM
	case k.Kind == kindEarlyEnd:
		h.PayloadLength = 0
		h.Flags |= wire.SESEOM
	default:
		if k.Off == 0 {
			h.Flags |= wire.SESSOM
			if m.flags&FlagData != 0 {
				h.Flags |= wire.SESHD
				h.HeaderData = m.data
			}
		}
		if k.Off+uint32(n) == m.length-m.early.rest {
			h.Flags |= wire.SESEOM
		}
	}
	return m.extend(wire.AppendSESStd(b, &h))
}

// optimized writes the small or medium header of a message of one packet (uet-pds-ses.md 13.6).
func (m *txMsg) optimized(b []byte, h *wire.HeadFields, k *pds.Packet) []byte {
	h.Flags |= wire.SESSOM | wire.SESEOM
	if m.isRead() {
		m.ep.f.expect(m, k.PSN)
	}
	if m.form == wire.NextRequestSmall {
		h.ResourceIndex = uint16(m.match & 0xFFF)
		return m.extend(wire.AppendSESSmall(b, &wire.SmallFields{HeadFields: *h, RequestLength: uint16(m.length), BufferOffset: m.offset}))
	}
	s := wire.MediumFields{HeadFields: *h, RequestLength: uint16(m.length), Initiator: m.ep.initiator, MatchBits: m.match, BufferOffset: m.offset}
	if m.flags&FlagData != 0 {
		s.Flags |= wire.SESHD
		s.HeaderData = m.data
	}
	return m.extend(wire.AppendSESMedium(b, &s))
}

// Response implements pds.Sender.
func (m *txMsg) Response(now vt.Time, _ *pds.Packet, next wire.NextHdr, resp []byte) {
	head := wire.RespHead(resp[:2])
	a := answer{rc: head.ReturnCode(), list: head.List()}
	switch next {
	case wire.NextResponse:
		r, err := wire.ParseSESResponse(resp)
		if err != nil || m.mid != 0 && r.MessageID() != m.mid {
			return
		}
		a.gen, a.mod = r.RIGeneration(), r.ModifiedLength()
	case wire.NextResponseData:
		r, err := wire.ParseSESResponseData(resp)
		if err != nil || m.mid != 0 && r.ReadRequestMessageID() != m.mid {
			return
		}
		if a.rc <= wire.RCOK {
			m.place(r.MessageOffset(), r.PayloadLength(), resp[len(r):])
		}
	case wire.NextResponseDataSmall:
		if r, err := wire.ParseSESResponseDataSmall(resp); err == nil && a.rc <= wire.RCOK {
			m.place(0, r.PayloadLength(), resp[len(r):])
		}
	}
	m.react(a)
}

// place puts data that came back where it belongs.
func (m *txMsg) place(at uint32, n int, b []byte) {
	off := uint64(at)
	if m.state == txAbandoned || m.want == 0 || n > len(b) || off+uint64(n) > uint64(m.want) {
		return
	}
	m.got += uint32(n)
	off = min(off, uint64(len(m.in.B))) // of a message that is longer than its receive the rest is dropped
	if m.in.push(int(off), copy(m.in.B[off:], b[:n])) != nil {
		m.broken = true
	}
}

// Rewind implements pds.Sender.
func (m *txMsg) Rewind() bool {
	if m.verdict != wire.RCNull || m.got > 0 || m.state == txAbandoned || m.broken || m.early.deferred {
		return false
	}
	m.sent = m.early.from
	return true
}

// Done implements pds.Sender.
func (m *txMsg) Done(now vt.Time) { m.drained(now) }

// succeed completes a message that was acknowledged without an error, once all data is in.
func (m *txMsg) succeed(now vt.Time) {
	if m.got < m.want {
		m.state = txWaitData
		m.ep.f.armSweep(now)
		return
	}
	if m.goesOn(now) {
		return
	}
	m.complete(now, nil)
}

// Failed implements pds.Sender.
func (m *txMsg) Failed(now vt.Time, err *pds.Error) {
	m.done = true
	switch {
	case m.state == txAbandoned:
		m.settled(now)
	case m.verdict != wire.RCNull:
		m.complete(now, &ResponseError{m.verdict}) // the target's verdict says more than the fate of the PDC
	default:
		m.complete(now, err)
	}
}
