package fep

import (
	"net/netip"

	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// peer is an entry of an address vector.
type peer struct {
	addr      netip.Addr
	pid       uint16
	initiator uint32
}

// txMsg is a message at its initiator, from the call to the completion.
type txMsg struct {
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

	mid     uint16
	pdc     *pdc
	next    *txMsg
	sent    uint32 // bytes handed to packets
	last    wire.PSN
	whole   bool // its last packet was handed over
	unacked int32
	acked   uint32
	err     error // the first error response
}

// nextLen is the payload of the next new packet.
func (m *txMsg) nextLen(mtu int) int {
	if m.err != nil {
		return 0 // MSG_ERROR
	}
	return min(mtu, len(m.buf)-int(m.sent))
}

// rewind makes the message begin anew on another PDC.
func (m *txMsg) rewind() {
	m.pdc, m.sent, m.whole, m.unacked, m.acked = nil, 0, false, 0, 0
}

// appendSES writes the SES header of one of the message's packets.
func (m *txMsg) appendSES(b []byte, k *txPkt) []byte {
	h := wire.StdFields{
		HeadFields: wire.HeadFields{Opcode: m.op, Flags: wire.SESRel, JobID: m.ep.job, PIDonFEP: m.peer.pid,
			ResourceIndex: m.ep.f.cfg.RI},
		MessageID: m.mid, BufferOffset: m.offset, Initiator: m.ep.initiator, MatchBits: m.match,
		PayloadLength: k.n, MessageOffset: k.off, RequestLength: uint32(len(m.buf)),
	}
	switch {
	case k.kind == kindMsgError:
		h.Opcode = wire.OpMsgError
		h.Flags |= wire.SESIE | wire.SESEOM
	default:
		if k.off == 0 {
			h.Flags |= wire.SESSOM
		}
		if int(k.off)+int(k.n) == len(m.buf) {
			h.Flags |= wire.SESEOM
		}
	}
	return wire.AppendSESStd(b, &h)
}

// settle completes the message once everything of it was sent and acknowledged.
func (f *FEP) settle(now vt.Time, m *txMsg) {
	if m.whole && m.unacked == 0 {
		f.complete(now, m, m.err)
	}
}

// complete ends an initiator's operation.
func (f *FEP) complete(now vt.Time, m *txMsg, err error) {
	f.mids.put(m.mid)
	if m.err != nil {
		err = m.err // the target's verdict says more than the fate of the PDC
	}
	if err == nil {
		f.C[MsgsTx]++
	} else {
		f.C[MsgsErr]++
	}
	m.ep.deliver(now, Completion{Kind: m.kind, Ctx: m.ctx, Len: len(m.buf), Tag: m.match, Src: m.dst, Err: err,
		Posted: m.posted, Acked: now})
}
