package fep

import (
	"net/netip"

	"github.com/uetlab/uetlab/fep/pds"
	"github.com/uetlab/uetlab/wire"
)

// packet is a request packet at its target, taken apart. It points into the packet.
type packet struct {
	next      wire.NextHdr
	op        wire.Opcode
	mode      pds.Mode
	rudi      bool
	head      wire.SESHead
	mid       uint16 // 0: the header has none
	initiator uint32
	length    uint32 // request_length
	off       uint32 // message_offset
	n         uint32 // bytes of the message that it is about
	offset    uint64 // buffer_offset
	match     uint64 // match bits or memory key
	data      uint64 // header data, in a SOM packet with hd
	ext       []byte
	payload   []byte
	psn       wire.PSN
	src       netip.Addr
	std       wire.SESStd // nil: another form
}

// parse takes a request apart; false if it is cut off or no request. In the packet of a READ, n is how much it asks for.
func (p *packet) parse(q *pds.Request, mtu int) bool {
	size := q.Next.HeaderLen()
	if !q.Next.IsRequest() || len(q.B) < size {
		return false
	}
	head, body := q.B[:size:size], q.B[size:]
	*p = packet{next: q.Next, mode: q.Mode, rudi: q.Mode == pds.RUDI, head: wire.SESHead(head[:12:12]), psn: q.PSN, src: q.Src}
	p.op = p.head.Opcode()
	if p.op.IsAtomic() || p.op.IsRendezvous() {
		p.extension(body)
		body = body[len(p.ext):]
	}
	if p.payload = body; q.Ref != nil {
		p.payload = q.Ref
	}
	switch q.Next {
	case wire.NextRequestStd:
		h := wire.SESStd(head)
		p.std, p.mid, p.initiator, p.length, p.offset = h, h.MessageID(), h.Initiator(), h.RequestLength(), h.BufferOffset()
		p.match, p.data, p.off = h.MatchBits(), h.HeaderData(), h.MessageOffset()
	case wire.NextRequestMedium:
		h := wire.SESMedium(head)
		p.initiator, p.length, p.offset, p.match, p.data = h.Initiator(), h.RequestLength(), h.BufferOffset(), h.MatchBits(), h.HeaderData()
	default:
		h := wire.SESSmall(head)
		p.length, p.offset = h.RequestLength(), h.BufferOffset()
	}
	p.count(mtu)
	return true
}

// extension finds what follows the header of an atomic or a rendezvous. One that is cut off is none, which checkForm refuses.
func (p *packet) extension(b []byte) {
	if p.op.IsAtomic() {
		if a, err := wire.ParseAtomic(b); err == nil {
			p.ext = a
		}
	} else if r, err := wire.ParseRendezvous(b); err == nil {
		p.ext = r
	}
}

// count finds how many bytes of its message the packet is about.
func (p *packet) count(mtu int) {
	switch {
	case p.std != nil && !p.head.SOM():
		p.n = uint32(p.std.PayloadLength())
	case p.op == wire.OpRead:
		p.n = min(p.length, uint32(mtu))
	case p.op.IsAtomic():
		p.n = p.length
	default:
		p.n = min(p.length, uint32(len(p.payload)))
	}
	if p.op == wire.OpRead || p.op == wire.OpMsgError || p.op == wire.OpDeferrableRTR {
		p.payload = nil
	} else if int(p.n) < len(p.payload) {
		p.payload = p.payload[:p.n]
	}
}

// isSend says that the packet wants a receive.
func (p *packet) isSend() bool {
	switch p.op {
	case wire.OpSend, wire.OpTaggedSend, wire.OpRendezvousSend, wire.OpRendezvousTSend, wire.OpDeferrableSend, wire.OpDeferrableTSend:
		return true
	}
	return false
}

// bare says that the packet has no payload, however long its message.
func (p *packet) bare() bool {
	if p.op.IsAtomic() && len(p.ext) > 0 {
		return wire.Atomic(p.ext).Op().IsCompareSwap() || wire.Atomic(p.ext).Op() == wire.AtomicRead
	}
	return p.op == wire.OpRead || p.op == wire.OpMsgError || p.op == wire.OpDeferrableRTR
}
