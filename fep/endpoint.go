package fep

import (
	"net/netip"

	"github.com/uetlab/uetlab/fep/pds"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// Kind is the kind of operation that a completion ends.
type Kind uint8

// Kinds of operations.
const (
	OpSend     Kind = iota // Send
	OpRecv                 // Recv
	OpTagSend              // TagSend
	OpTagRecv              // TagRecv
	OpWrite                // Write, WriteIdempotent
	OpRead                 // Read, ReadIdempotent
	OpDatagram             // Datagram
	numOpKinds             // no kind
)

var kindNames = [numOpKinds]string{"send", "recv", "tsend", "trecv", "write", "read", "datagram"}

// String is libfabric's name for the operation.
func (k Kind) String() string { return kindNames[k] }

// Completion ends one operation. Every operation that a method accepted has exactly one, unless a Reset comes first.
type Completion struct {
	Kind Kind
	Ctx  uint64 // as given with the operation
	Len  int    // bytes of the message; of a receive: bytes placed
	Tag  uint64 // match bits; of a Write: the memory key
	Src  int    // the peer's index in the address vector, -1 if it is not there
	Err  error  // nil, *ResponseError, *PDCError, ErrTruncated, ErrAborted

	Posted vt.Time // when the operation was posted
	// Acked is when a send or write was wholly acknowledged at the sender: the flow completion time is Acked - Posted.
	// Of a receive it is when its last byte arrived.
	Acked vt.Time
}

// Endpoint is one process of a job on the FEP, shaped like a libfabric endpoint with its address vector, memory
// registrations and completion queue. Its methods are called from within the node's events (class 4 calls).
type Endpoint struct {
	f         *FEP
	job       uint32
	pid       uint16
	initiator uint32
	done      func(now vt.Time, c Completion)

	ordered  bool
	tc       uint8
	av       []peer
	regions  []region
	tagged   []*recvOp // in the order of posting
	untagged []*recvOp
}

// region is registered memory; the low 48 bits of its key are its place, from 1.
type region struct {
	key uint64
	mem []byte
}

// Bits of a memory key (uet-pds-ses.md 1.4).
const (
	keyIdempotent = 1 << 63
	keyIndex      = 1<<48 - 1
)

type epKey struct {
	job uint32
	pid uint16
}

// recvOp is a posted receive.
type recvOp struct {
	kind   Kind
	any    bool
	from   uint32 // initiator, unless any
	buf    []byte
	tag    uint64
	ctx    uint64
	posted vt.Time
}

// OpenEndpoint makes process pid of a job (24 bits) reachable; pid has 12 bits and counts within the job. initiator is
// what its messages carry for matching. onComplete is called once for every operation, as a class 4 call. Opening the
// same {job, pid} again replaces the endpoint.
func (f *FEP) OpenEndpoint(job uint32, pid uint16, initiator uint32, onComplete func(now vt.Time, c Completion)) *Endpoint {
	ep := &Endpoint{f: f, job: job & 0xFFFFFF, pid: pid & 0xFFF, initiator: initiator, done: onComplete}
	k := epKey{ep.job, ep.pid}
	if old := f.eps[k]; old != nil {
		for i := range f.list {
			if f.list[i] == old {
				f.list[i] = ep
			}
		}
	} else {
		f.list = append(f.list, ep)
	}
	f.eps[k] = ep
	return ep
}

// InsertAddr adds a process to the address vector and returns its index: 0, 1, …, the ranks of the job if they are
// inserted in order.
func (ep *Endpoint) InsertAddr(addr netip.Addr, pid uint16, initiator uint32) int {
	ep.av = append(ep.av, peer{addr.Unmap(), pid & 0xFFF, initiator})
	return len(ep.av) - 1
}

// Register opens buf to remote writes and reads and returns its key. Keys are handed out in order: 1, 2, ….
func (ep *Endpoint) Register(buf []byte) (key uint64) {
	ep.regions = append(ep.regions, region{uint64(len(ep.regions) + 1), buf})
	return uint64(len(ep.regions))
}

// RegisterIdempotent opens buf to idempotent writes and reads too, which may happen more than once.
func (ep *Endpoint) RegisterIdempotent(buf []byte) (key uint64) {
	key = keyIdempotent | uint64(len(ep.regions)+1)
	ep.regions = append(ep.regions, region{key, buf})
	return key
}

// SetOrdered says whether messages that are posted from now on keep their order (ROD).
func (ep *Endpoint) SetOrdered(on bool) { ep.ordered = on }

// SetTC puts messages that are posted from now on into a traffic class: they share no PDC with those of another.
func (ep *Endpoint) SetTC(tc uint8) { ep.tc = tc }

// TagSend sends buf to the receive that dst posted for tag. buf belongs to the FEP until the completion.
func (ep *Endpoint) TagSend(now vt.Time, dst int, buf []byte, tag uint64, ctx uint64) error {
	return ep.post(now, &txMsg{dst: dst, op: wire.OpTaggedSend, kind: OpTagSend, buf: buf, match: tag, ctx: ctx})
}

// Send sends buf to the next untagged receive of dst.
func (ep *Endpoint) Send(now vt.Time, dst int, buf []byte, ctx uint64) error {
	return ep.post(now, &txMsg{dst: dst, op: wire.OpSend, kind: OpSend, buf: buf, ctx: ctx})
}

// Write puts buf into dst's memory region key at offset, in bytes. The target learns nothing of it.
func (ep *Endpoint) Write(now vt.Time, dst int, buf []byte, key, offset, ctx uint64) error {
	return ep.post(now, &txMsg{dst: dst, op: wire.OpWrite, kind: OpWrite, buf: buf, match: key, offset: offset, ctx: ctx})
}

// Read gets len(buf) bytes of dst's memory region key at offset, in bytes.
func (ep *Endpoint) Read(now vt.Time, dst int, buf []byte, key, offset, ctx uint64) error {
	return ep.post(now, &txMsg{dst: dst, op: wire.OpRead, kind: OpRead, buf: buf, match: key, offset: offset, ctx: ctx})
}

// WriteIdempotent is Write without a PDC (RUDI): what is lost is written again, whatever came in between. The key must be one of
// RegisterIdempotent.
func (ep *Endpoint) WriteIdempotent(now vt.Time, dst int, buf []byte, key, offset, ctx uint64) error {
	return ep.post(now, &txMsg{Msg: pds.Msg{Mode: pds.RUDI}, dst: dst, op: wire.OpWrite, kind: OpWrite, buf: buf, match: key,
		offset: offset, ctx: ctx})
}

// ReadIdempotent is Read without a PDC (RUDI).
func (ep *Endpoint) ReadIdempotent(now vt.Time, dst int, buf []byte, key, offset, ctx uint64) error {
	return ep.post(now, &txMsg{Msg: pds.Msg{Mode: pds.RUDI}, dst: dst, op: wire.OpRead, kind: OpRead, buf: buf, match: key,
		offset: offset, ctx: ctx})
}

// Datagram sends buf as one unreliable packet to the next untagged receive of dst (UUD). It completes when the packet is sent.
func (ep *Endpoint) Datagram(now vt.Time, dst int, buf []byte, ctx uint64) error {
	if len(buf) > ep.f.cfg.PayloadMTU {
		return ErrDatagram
	}
	return ep.post(now, &txMsg{Msg: pds.Msg{Mode: pds.UUD}, dst: dst, op: wire.OpDatagramSend, kind: OpDatagram, buf: buf, ctx: ctx})
}

func (ep *Endpoint) post(now vt.Time, m *txMsg) error {
	f := ep.f
	if m.dst < 0 || m.dst >= len(ep.av) || ep.av[m.dst].addr.Is4() != f.fa.Is4() {
		return ErrPeer
	}
	if len(m.buf) > MaxMessage {
		return ErrTooLarge
	}
	if m.Mode != pds.UUD {
		if m.mid = f.mids.get(); m.mid == 0 {
			return ErrAgain
		}
	}
	m.ep, m.peer, m.posted = ep, ep.av[m.dst], now
	m.S, m.Peer, m.Job, m.TC, m.Len = m, m.peer.addr, ep.job, ep.tc, int64(len(m.buf))
	if ep.ordered && m.Mode == pds.RUD {
		m.Mode = pds.ROD
	}
	if m.isRead() {
		m.Lock = m.Mode <= pds.ROD
		m.Len = 0
		f.reads[m.mid] = m
		f.reading.add(m)
	}
	f.m.Submit(now, &m.Msg)
	f.m.Kick(now)
	return nil
}

// TagRecv posts buf for a message with this tag from src, or from anybody if src is -1. The oldest match wins.
func (ep *Endpoint) TagRecv(now vt.Time, src int, buf []byte, tag uint64, ctx uint64) error {
	r := &recvOp{kind: OpTagRecv, any: src == -1, buf: buf, tag: tag, ctx: ctx, posted: now}
	if !r.any {
		if src < 0 || src >= len(ep.av) {
			return ErrPeer
		}
		r.from = ep.av[src].initiator
	}
	ep.tagged = append(ep.tagged, r)
	return nil
}

// Recv posts buf for the next untagged message.
func (ep *Endpoint) Recv(now vt.Time, buf []byte, ctx uint64) error {
	ep.untagged = append(ep.untagged, &recvOp{kind: OpRecv, any: true, buf: buf, ctx: ctx, posted: now})
	return nil
}

// matchTagged takes the oldest receive that fits the message.
func (ep *Endpoint) matchTagged(initiator uint32, tag uint64) *recvOp {
	for i, r := range ep.tagged {
		if r.tag == tag && (r.any || r.from == initiator) {
			copy(ep.tagged[i:], ep.tagged[i+1:])
			ep.tagged[len(ep.tagged)-1] = nil
			ep.tagged = ep.tagged[:len(ep.tagged)-1]
			return r
		}
	}
	return nil
}

func (ep *Endpoint) matchUntagged() *recvOp {
	if len(ep.untagged) == 0 {
		return nil
	}
	r := ep.untagged[0]
	ep.untagged[0] = nil
	ep.untagged = ep.untagged[1:]
	return r
}

// rank finds a peer by its initiator id.
func (ep *Endpoint) rank(initiator uint32) int {
	for i := range ep.av {
		if ep.av[i].initiator == initiator {
			return i
		}
	}
	return -1
}

// deliver hands a completion to the application at now, after all protocol events of that instant.
func (ep *Endpoint) deliver(now vt.Time, c Completion) {
	epoch := ep.f.epoch
	ep.f.node.Call(now, func(now vt.Time) {
		if ep.done != nil && ep.f.epoch == epoch {
			ep.done(now, c)
		}
	})
}
