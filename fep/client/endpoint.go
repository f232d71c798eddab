package client

import (
	"context"
	"math"

	"github.com/uetlab/uetlab/fep"
	"github.com/uetlab/uetlab/internal/shm"
	"github.com/uetlab/uetlab/wire"
)

// AV is an address vector (fi_av): addresses of peers, by index. Endpoints share it.
type AV struct {
	d  *Domain
	id uint32
}

// OpenAV makes an empty address vector.
func (d *Domain) OpenAV(ctx context.Context) (*AV, error) {
	var r shm.Opened
	if _, err := d.request(ctx, "open AV", shm.ReqAVOpen, nil, nil, -1, &r); err != nil {
		return nil, err
	}
	return &AV{d, r.ID}, nil
}

// insertBatch is how many addresses fit one message.
const insertBatch = (shm.MaxMessage - shm.HeaderLen - 8) / shm.AddrLen

// Insert adds addresses and returns the index of the first; the others follow it. An endpoint that has nothing in common with an
// address (fep.ErrProfile, ErrFamily, ErrMTU) fails with fep.ErrPeer when it uses it.
func (v *AV) Insert(ctx context.Context, addrs ...Address) (int, error) {
	first := -1
	for len(addrs) > 0 {
		n := min(len(addrs), insertBatch)
		var more []byte
		for _, a := range addrs[:n] {
			more = append(more, MarshalAddress(a)...)
		}
		var r shm.Opened
		if _, err := v.d.request(ctx, "insert address", shm.ReqAVInsert, &shm.AVInsert{AV: v.id, Count: uint32(n)}, more, -1, &r); err != nil {
			return first, err
		}
		if first < 0 {
			first = int(r.ID)
		}
		addrs = addrs[n:]
	}
	return first, nil
}

// Remove takes an address out. Its index is not given to another.
func (v *AV) Remove(ctx context.Context, index int) error {
	_, err := v.d.request(ctx, "remove address", shm.ReqAVRemove, &shm.AVRemove{AV: v.id, Index: uint32(index)}, nil, -1, nil)
	return err
}

// Close ends the vector; no endpoint may use it any more (ErrBusy).
func (v *AV) Close() error { return v.d.closeObject("close AV", shm.KindAV, v.id) }

// EndpointConfig says what an endpoint is. Zero values stand for the FEP's own choice.
type EndpointConfig struct {
	AV             *AV      // nil: it only receives
	TxCQ, RxCQ     *CQ      // completions of what it starts; of receives and of peers' operations. nil: they are only counted
	TxCounter      *Counter // the same, counted
	RxCounter      *Counter
	RemoteCounter  *Counter // operations of peers on its memory, if that was registered with Notify
	SRX            *SRX     // receives come from there
	PID            int      // PIDonFEP; 0: the domain's
	Initiator      uint32   // what peers match
	Absolute       bool     // a service: processes of all jobs may send to it
	RMARI          uint16   // resource indexes, 12 bits
	SendRI, TagRI  uint16
	Profiles       fep.Profiles
	Ordered        bool // messages keep their order (ROD)
	TC             uint8
	RejectTooLong  bool // messages that are longer than the receive fail at the sender
	MinMultiRecv   int  // bytes that must be left of a multi-receive buffer
	EagerSize      int
	UnexpectedSize int // bytes of unexpected messages that are kept
	MaxRTR         int
}

// Endpoint is where messages come from and go to (fi_ep).
type Endpoint struct {
	tx, rx        target
	remoteCounter *Counter
	addr          Address
}

func queueOr(q, other *CQ) *CQ {
	if q == nil {
		return other
	}
	return q
}

// OpenEndpoint opens an endpoint; it can receive at once.
func (d *Domain) OpenEndpoint(ctx context.Context, c EndpointConfig) (*Endpoint, error) {
	txq, rxq := queueOr(c.TxCQ, d.sys), queueOr(c.RxCQ, d.sys)
	m := shm.EPOpen{TxCQ: txq.id, RxCQ: rxq.id, PID: -1, Initiator: c.Initiator, RMARI: c.RMARI, SendRI: c.SendRI, TagRI: c.TagRI, TC: c.TC, Profiles: uint8(c.Profiles),
		MinMultiRecv: uint32(c.MinMultiRecv), EagerSize: uint32(c.EagerSize), Unexpected: uint32(c.UnexpectedSize), MaxRTR: uint32(c.MaxRTR)}
	if c.PID > 0 {
		m.PID = int32(min(c.PID, math.MaxInt32))
	}
	if c.AV != nil {
		m.AV = c.AV.id
	}
	if c.SRX != nil {
		m.SRX = c.SRX.t.id
	}
	for flag, on := range map[uint32]bool{shm.EPOrdered: c.Ordered, shm.EPRejectTooLong: c.RejectTooLong, shm.EPAbsolute: c.Absolute} {
		if on {
			m.Flags |= flag
		}
	}
	var r shm.EPOpened
	if _, err := d.request(ctx, "open endpoint", shm.ReqEPOpen, &m, nil, -1, &r); err != nil {
		return nil, err
	}
	ep := &Endpoint{remoteCounter: c.RemoteCounter, addr: goAddr(&r.Addr)}
	ep.tx = target{d: d, id: r.ID, ep: ep, cq: txq, counter: c.TxCounter}
	ep.rx = target{d: d, id: r.ID, ep: ep, cq: rxq, counter: c.RxCounter}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.byID[r.ID] = ep
	return ep, nil
}

// Addr is where peers reach the endpoint.
func (ep *Endpoint) Addr() Address { return ep.addr }

// Domain is the attachment that the endpoint belongs to.
func (ep *Endpoint) Domain() *Domain { return ep.tx.d }

// Close ends the endpoint. Open operations complete with fep.ErrClosed.
func (ep *Endpoint) Close() error { return ep.tx.d.closeObject("close endpoint", shm.KindEP, ep.tx.id) }

func (ep *Endpoint) of(k fep.Kind) *target {
	if k == fep.OpRecv || k == fep.OpTagRecv {
		return &ep.rx
	}
	return &ep.tx
}

// Post posts an operation. It fails with ErrAgain when the completion queue has no room for it; what is wrong with the operation itself
// is told by its completion. op may be used again at once, its buffers not.
func (ep *Endpoint) Post(op *Op) error {
	if err := op.check(); err != nil {
		return err
	}
	_, err := ep.of(op.Kind).post(context.Background(), op, nil)
	return err
}

// Do posts an operation and waits for its completion, which does not go to the completion queue. The error is that of the completion. When
// ctx ends first the operation goes on, and its buffers are not free.
func (ep *Endpoint) Do(ctx context.Context, op *Op) (Completion, error) {
	if err := op.check(); err != nil {
		return Completion{}, err
	}
	return ep.of(op.Kind).run(ctx, op)
}

// Send sends buf to the next untagged receive of dst (fi_send).
func (ep *Endpoint) Send(buf []byte, dst int, ctx any) error {
	return ep.Post(&Op{Kind: fep.OpSend, Buf: buf, Peer: dst, Ctx: ctx})
}

// TSend sends buf to the receive of dst that matches tag (fi_tsend).
func (ep *Endpoint) TSend(buf []byte, dst int, tag uint64, ctx any) error {
	return ep.Post(&Op{Kind: fep.OpTagSend, Buf: buf, Peer: dst, Tag: tag, Ctx: ctx})
}

// Recv posts buf for an untagged message (fi_recv).
func (ep *Endpoint) Recv(buf []byte, src int, ctx any) error {
	return ep.Post(&Op{Kind: fep.OpRecv, Buf: buf, Peer: src, Ctx: ctx})
}

// TRecv posts buf for a message whose tag equals tag, but for the bits of ignore (fi_trecv).
func (ep *Endpoint) TRecv(buf []byte, src int, tag, ignore uint64, ctx any) error {
	return ep.Post(&Op{Kind: fep.OpTagRecv, Buf: buf, Peer: src, Tag: tag, Ignore: ignore, Ctx: ctx})
}

// Datagram sends buf as one unreliable packet.
func (ep *Endpoint) Datagram(buf []byte, dst int, ctx any) error {
	return ep.Post(&Op{Kind: fep.OpDatagram, Buf: buf, Peer: dst, Ctx: ctx})
}

// Write writes buf into dst's memory key, at offset bytes (fi_write).
func (ep *Endpoint) Write(buf []byte, dst int, key, offset uint64, ctx any) error {
	return ep.Post(&Op{Kind: fep.OpWrite, Buf: buf, Peer: dst, Key: key, Offset: offset, Ctx: ctx})
}

// WriteData is Write with data that comes with the completion at dst (fi_writedata).
func (ep *Endpoint) WriteData(buf []byte, data uint64, dst int, key, offset uint64, ctx any) error {
	return ep.Post(&Op{Kind: fep.OpWrite, Flags: fep.FlagData, Data: data, Buf: buf, Peer: dst, Key: key, Offset: offset, Ctx: ctx})
}

// Read fills buf from dst's memory key, at offset bytes (fi_read).
func (ep *Endpoint) Read(buf []byte, dst int, key, offset uint64, ctx any) error {
	return ep.Post(&Op{Kind: fep.OpRead, Buf: buf, Peer: dst, Key: key, Offset: offset, Ctx: ctx})
}

// Atomic computes in dst's memory (fi_atomic): operands holds one or more values of type t.
func (ep *Endpoint) Atomic(operands []byte, dst int, key, offset uint64, op wire.AtomicOp, t wire.AtomicType, ctx any) error {
	return ep.Post(&Op{Kind: fep.OpAtomic, Buf: operands, Peer: dst, Key: key, Offset: offset, Atomic: op, Type: t, Ctx: ctx})
}

// FetchAtomic is Atomic, and result gets the old value (fi_fetch_atomic).
func (ep *Endpoint) FetchAtomic(operands, result []byte, dst int, key, offset uint64, op wire.AtomicOp, t wire.AtomicType, ctx any) error {
	return ep.Post(&Op{Kind: fep.OpFetchAtomic, Buf: operands, Result: result, Peer: dst, Key: key, Offset: offset, Atomic: op, Type: t, Ctx: ctx})
}

// CompareAtomic swaps operands in where the old value compares with compare as op says; result gets the old value (fi_compare_atomic).
func (ep *Endpoint) CompareAtomic(operands, compare, result []byte, dst int, key, offset uint64, op wire.AtomicOp, t wire.AtomicType, ctx any) error {
	return ep.Post(&Op{Kind: fep.OpCompareAtomic, Buf: operands, Compare: compare, Result: result, Peer: dst, Key: key, Offset: offset, Atomic: op, Type: t, Ctx: ctx})
}

// Cancel takes back the receives that were posted with ctx and that no message has matched; they complete with fep.ErrCancelled. It does
// not wait for that (fi_cancel).
func (ep *Endpoint) Cancel(ctx any) error { return ep.rx.cancel(ctx) }

func (t *target) cancel(ctx any) error {
	d := t.d
	d.mu.Lock()
	defer d.mu.Unlock()
	d.drain()
	for i := range d.ops {
		p := &d.ops[i]
		if !p.used || p.cq != t.cq || p.ep != t.ep || p.ctx != ctx {
			continue
		}
		id := uint64(p.gen)<<32 | uint64(i)
		for d.err == nil && d.tail-d.sq.SQHead.Load() >= d.sq.Size() {
			d.full()
		}
		if d.err != nil {
			return d.err
		}
		d.push(&shm.SQE{Op: shm.OpCancel, Object: uint16(t.id), Flags: t.flags, Offset: id})
	}
	return nil
}

// SRX is a shared receive queue (fi_srx): receives that any endpoint takes that was opened with it.
type SRX struct{ t target }

// OpenSRX makes a shared receive queue. Its receives complete in cq.
func (d *Domain) OpenSRX(ctx context.Context, cq *CQ, counter *Counter, minMultiRecv int) (*SRX, error) {
	cq = queueOr(cq, d.sys)
	var r shm.Opened
	if _, err := d.request(ctx, "open shared receive queue", shm.ReqSRXOpen, &shm.SRXOpen{CQ: cq.id, MinMultiRecv: uint32(minMultiRecv)}, nil, -1, &r); err != nil {
		return nil, err
	}
	return &SRX{target{d: d, id: r.ID, flags: shm.FlagShared, cq: cq, counter: counter}}, nil
}

// Post posts a receive; sources have to be AnySource.
func (x *SRX) Post(op *Op) error {
	if op.Kind != fep.OpRecv && op.Kind != fep.OpTagRecv {
		return fep.ErrInvalid
	}
	_, err := x.t.post(context.Background(), op, nil)
	return err
}

// Recv posts buf for an untagged message.
func (x *SRX) Recv(buf []byte, ctx any) error {
	return x.Post(&Op{Kind: fep.OpRecv, Buf: buf, Peer: AnySource, Ctx: ctx})
}

// TRecv posts buf for a tagged message.
func (x *SRX) TRecv(buf []byte, tag, ignore uint64, ctx any) error {
	return x.Post(&Op{Kind: fep.OpTagRecv, Buf: buf, Peer: AnySource, Tag: tag, Ignore: ignore, Ctx: ctx})
}

// Cancel takes back receives, as that of an endpoint does.
func (x *SRX) Cancel(ctx any) error { return x.t.cancel(ctx) }

// Close ends the queue; no endpoint may use it any more (ErrBusy). Its receives complete with fep.ErrClosed.
func (x *SRX) Close() error {
	return x.t.d.closeObject("close shared receive queue", shm.KindSRX, x.t.id)
}

// Access is what peers may do with registered memory.
type Access uint32

// Rights.
const (
	RemoteRead   Access = shm.MRRead
	RemoteWrite  Access = shm.MRWrite
	RemoteAtomic Access = shm.MRAtomic // beside the others: an atomic that writes needs RemoteWrite, one that fetches RemoteRead
)

// MRConfig says how memory is registered.
type MRConfig struct {
	Access     Access
	Key        uint64 // 0: the FEP chooses
	Job        uint32 // only processes of this job; 0: the endpoint's
	RI         uint16 // resource index; 0: the endpoint's
	Idempotent bool   // operations may happen more than once (RUDI)
	Optimized  bool   // key of the optimized form
	Notify     bool   // operations of peers complete in the endpoint's RxCQ
}

// MR is registered memory (fi_mr).
type MR struct {
	d   *Domain
	id  uint32
	key uint64
	p   pending // keeps plain memory where it is
}

// RegisterMR lets peers use buf. Memory of Domain.Alloc is used directly; any other is moved with process_vm_writev when it is written, and must stay alive and
// unmoved, which the registration sees to, until Close.
func (ep *Endpoint) RegisterMR(ctx context.Context, buf []byte, c MRConfig) (*MR, error) {
	d := ep.tx.d
	mr := &MR{d: d}
	d.mu.Lock()
	at, err := d.locate(&mr.p, buf, false, true)
	d.mu.Unlock()
	if err == errPrepare {
		if err = d.makeRemote(ctx); err == nil {
			d.mu.Lock()
			at, err = d.locate(&mr.p, buf, false, true)
			d.mu.Unlock()
		}
	}
	if err != nil {
		return nil, err
	}
	mr.p.keep[0] = buf
	m := shm.MRRegister{EP: ep.tx.id, Region: at.region, Offset: at.off, Len: uint64(len(buf)), Access: uint32(c.Access), Key: c.Key, Job: c.Job, RI: c.RI}
	for flag, on := range map[uint32]bool{shm.MRIdempotent: c.Idempotent, shm.MROptimized: c.Optimized, shm.MRNotify: c.Notify} {
		if on {
			m.Flags |= flag
		}
	}
	var r shm.MRRegistered
	if _, err := d.request(ctx, "register memory", shm.ReqMRRegister, &m, nil, -1, &r); err != nil {
		mr.p.unpin()
		return nil, err
	}
	mr.id, mr.key = r.ID, r.Key
	return mr, nil
}

// Key is what peers name the memory by.
func (m *MR) Key() uint64 { return m.key }

// Close takes the memory back: operations of peers that come later, or are under way, fail there.
func (m *MR) Close() error {
	err := m.d.closeObject("deregister memory", shm.KindMR, m.id)
	if err == nil {
		m.p.unpin()
	}
	return err
}
