package fep

import (
	"errors"
	"net/netip"

	"github.com/uetlab/uetlab/fep/mr"
	"github.com/uetlab/uetlab/internal/vt"
)

// OpenEndpoint is Open of process pid of a job with defaults for the rest. It closes the endpoint that is there already.
func (f *FEP) OpenEndpoint(job uint32, pid uint16, initiator uint32, onComplete func(now vt.Time, c Completion)) *Endpoint {
	for _, old := range f.dir.procs[procKey{job & 0xFFFFFF, pid & 0xFFF}] {
		old.done = nil
		old.Close(f.node.Now())
	}
	ep, err := f.Open(EndpointConfig{Job: job, PID: pid, Initiator: initiator}, onComplete)
	if err != nil {
		panic(err) // the place was just made free
	}
	return ep
}

// InsertAddr is Insert of a process that is like us, except for its address. Of the other IP version it is refused when something
// is posted for it.
func (ep *Endpoint) InsertAddr(addr netip.Addr, pid uint16, initiator uint32) int {
	i, err := ep.Insert(Address{FA: addr, PID: pid, RMARI: ep.ri[spaceRMA], SendRI: ep.ri[spaceSend], TagRI: ep.ri[spaceTagged],
		Initiator: initiator})
	if err != nil {
		ep.av = append(ep.av, nil)
		return len(ep.av) - 1
	}
	return i
}

// Register is RegisterMR of memory that peers may write and read. Keys count from 1.
func (ep *Endpoint) Register(buf []byte) (key uint64) { return ep.register(buf, false) }

// RegisterIdempotent is RegisterMR of memory that peers may write and read, with RUDI too.
func (ep *Endpoint) RegisterIdempotent(buf []byte) (key uint64) { return ep.register(buf, true) }

func (ep *Endpoint) register(buf []byte, idempotent bool) uint64 {
	for {
		ep.key++
		key, err := ep.RegisterMR(MR{Buf: Buffer{B: buf}, Access: mr.RemoteWrite | mr.RemoteRead, Key: ep.key, Idempotent: idempotent})
		if err == nil {
			return key
		}
		if !errors.Is(err, mr.ErrKeyInUse) {
			panic(err) // the endpoint is closed
		}
	}
}

// TagSend sends buf to the receive that dst posted for tag.
func (ep *Endpoint) TagSend(now vt.Time, dst int, buf []byte, tag uint64, ctx uint64) error {
	return ep.Post(now, &Op{Kind: OpTagSend, Peer: dst, Buf: Buffer{B: buf}, Tag: tag, Ctx: ctx})
}

// Send sends buf to the next untagged receive of dst.
func (ep *Endpoint) Send(now vt.Time, dst int, buf []byte, ctx uint64) error {
	return ep.Post(now, &Op{Kind: OpSend, Peer: dst, Buf: Buffer{B: buf}, Ctx: ctx})
}

// Write puts buf into dst's memory region key at offset, in bytes. The target learns nothing of it.
func (ep *Endpoint) Write(now vt.Time, dst int, buf []byte, key, offset, ctx uint64) error {
	return ep.Post(now, &Op{Kind: OpWrite, Peer: dst, Buf: Buffer{B: buf}, Key: key, Offset: offset, Ctx: ctx})
}

// Read gets len(buf) bytes of dst's memory region key at offset, in bytes.
func (ep *Endpoint) Read(now vt.Time, dst int, buf []byte, key, offset, ctx uint64) error {
	return ep.Post(now, &Op{Kind: OpRead, Peer: dst, Buf: Buffer{B: buf}, Key: key, Offset: offset, Ctx: ctx})
}

// WriteIdempotent is Write without a PDC (RUDI): what is lost is written again, whatever came in between. The key must be one of
// RegisterIdempotent.
func (ep *Endpoint) WriteIdempotent(now vt.Time, dst int, buf []byte, key, offset, ctx uint64) error {
	return ep.Post(now, &Op{Kind: OpWrite, Flags: FlagIdempotent, Peer: dst, Buf: Buffer{B: buf}, Key: key, Offset: offset, Ctx: ctx})
}

// ReadIdempotent is Read without a PDC (RUDI).
func (ep *Endpoint) ReadIdempotent(now vt.Time, dst int, buf []byte, key, offset, ctx uint64) error {
	return ep.Post(now, &Op{Kind: OpRead, Flags: FlagIdempotent, Peer: dst, Buf: Buffer{B: buf}, Key: key, Offset: offset, Ctx: ctx})
}

// Datagram sends buf as one unreliable packet to the next untagged receive of dst (UUD). It completes when the packet is sent.
func (ep *Endpoint) Datagram(now vt.Time, dst int, buf []byte, ctx uint64) error {
	return ep.Post(now, &Op{Kind: OpDatagram, Peer: dst, Buf: Buffer{B: buf}, Ctx: ctx})
}

// TagRecv posts buf for a message with this tag from src, or from anybody if src is AnySource. The oldest match wins.
func (ep *Endpoint) TagRecv(now vt.Time, src int, buf []byte, tag uint64, ctx uint64) error {
	return ep.Post(now, &Op{Kind: OpTagRecv, Peer: src, Buf: Buffer{B: buf}, Tag: tag, Ctx: ctx})
}

// Recv posts buf for the next untagged message.
func (ep *Endpoint) Recv(now vt.Time, buf []byte, ctx uint64) error {
	return ep.Post(now, &Op{Kind: OpRecv, Peer: AnySource, Buf: Buffer{B: buf}, Ctx: ctx})
}
