package attach

import (
	"errors"
	"math"
	"time"

	"github.com/uetlab/uetlab/fep"
	"github.com/uetlab/uetlab/internal/shm"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// queue is a completion ring.
type queue struct {
	ring     *shm.CQ
	mem      []byte
	tail     uint32
	reserved uint32 // operations that will complete here
	users    int
}

// room is what is free and not reserved. What the process says about its head is only believed where it makes sense.
func (q *queue) room() uint32 {
	used := q.tail - q.ring.Head.Load()
	if size := q.ring.Size(); used <= size && q.reserved <= size-used {
		return size - used - q.reserved
	}
	return 0
}

// put writes a completion; false if the ring is full.
func (q *queue) put(e *shm.CQE) bool {
	if q.tail-q.ring.Head.Load() >= q.ring.Size() {
		return false
	}
	q.ring.Put(q.tail, e)
	q.tail++
	q.ring.Tail.Store(q.tail)
	return true
}

// slot is an operation that is open. Its index is the operation's context in the FEP.
type slot struct {
	used, tx, multi, wake bool
	op                    shm.Op
	object                uint16
	ctx                   uint64
	q                     *queue
	posted                vt.Time
	r                     [3]*region
	n                     uint64
}

// vector is an address vector.
type vector struct {
	addrs []fep.Address
	users []*endpoint
}

// endpoint is one of a process' endpoints.
type endpoint struct {
	c     *client
	id    uint32
	ep    *fep.Endpoint
	av    *vector
	tx    *queue
	rx    *queue
	srx   *shared
	index []int32 // by index in the vector: that in the endpoint; -1: not to be reached
	back  []int32 // the other way
}

// shared is a shared receive queue.
type shared struct {
	c     *client
	id    uint32
	q     *fep.RecvQueue
	cq    *queue
	users int
}

// registration is memory that was opened to peers.
type registration struct {
	e   *endpoint
	key uint64
	r   *region
	n   uint64
}

// learn inserts addresses that were added to the vector.
func (e *endpoint) learn(addrs []fep.Address) {
	for _, a := range addrs {
		i, err := e.ep.Insert(a)
		if err != nil {
			e.index = append(e.index, -1)
			continue
		}
		for len(e.back) <= i {
			e.back = append(e.back, -1)
		}
		e.back[i] = int32(len(e.index))
		e.index = append(e.index, int32(i))
	}
}

func (e *endpoint) forget(i int) {
	if at := e.index[i]; at >= 0 {
		e.ep.Remove(int(at))
		e.back[at], e.index[i] = -1, -1
	}
}

// peer gives the endpoint's index of an address.
func (e *endpoint) peer(i int32) (int, bool) {
	if i < 0 || int(i) >= len(e.index) || e.index[i] < 0 {
		return 0, false
	}
	return int(e.index[i]), true
}

// source is the other way.
func (e *endpoint) source(i int) int32 {
	if i < 0 || i >= len(e.back) {
		return -1
	}
	return e.back[i]
}

// close ends the endpoint; the FEP holds no memory of it afterwards.
func (e *endpoint) close(now vt.Time) {
	c := e.c
	e.ep.Close(now)
	for id := range c.mrs {
		if g := c.mrs[id]; g != nil && g.e == e {
			c.dropMR(uint32(id + 1))
		}
	}
	if c.gone {
		return
	}
	e.tx.users--
	e.rx.users--
	if e.srx != nil {
		e.srx.users--
	}
	if e.av != nil {
		for i, u := range e.av.users {
			if u == e {
				e.av.users = append(e.av.users[:i], e.av.users[i+1:]...)
				break
			}
		}
		c.counts.addresses -= uint32(len(e.av.addrs))
	}
	c.eps[e.id-1] = nil
	c.counts.objects--
	c.s.total.Endpoints--
}

func (c *client) dropMR(id uint32) {
	g := c.mrs[id-1]
	c.mrs[id-1] = nil
	c.unuse(g.r, g.n)
	c.counts.mrs--
	c.s.total.MRs--
}

// farthest is how far ahead a wake may be: an idle lab goes there at once, and its time is not endless.
const farthest = time.Hour

const opFlags = shm.FlagData | shm.FlagInject | shm.FlagDeliveryComplete | shm.FlagMultiRecv | shm.FlagIdempotent

// submit carries one submission out.
func (c *client) submit(now vt.Time, e *shm.SQE) {
	switch {
	case e.Op == shm.OpNop:
		return
	case e.Op == shm.OpCancel:
		c.cancel(now, e)
		return
	case e.Op == shm.OpWake:
		if q := find(c.cqs, uint32(e.Object)); q != nil {
			c.sleep(now, e, q)
		}
		return
	}
	ep, x := (*endpoint)(nil), (*shared)(nil)
	var q *queue
	receive := e.Op == shm.OpRecv || e.Op == shm.OpTagRecv
	if e.Flags&shm.FlagShared != 0 {
		if x = find(c.srxs, uint32(e.Object)); x != nil {
			q = x.cq
		}
	} else if ep = find(c.eps, uint32(e.Object)); ep != nil {
		if q = ep.tx; receive {
			q = ep.rx
		}
	}
	if q == nil {
		q = find(c.cqs, 1) // somewhere the process must hear of it
	}
	if q == nil || q.room() == 0 {
		if q != nil {
			q.ring.Dropped.Add(1)
		}
		return
	}
	if c.counts.ops >= c.s.cfg.Limits.Ops {
		c.tell(now, e, q, shm.StatusLimit, 0)
		return
	}
	if ep == nil && x == nil || x != nil && !receive {
		c.tell(now, e, q, shm.StatusObject, 0)
		return
	}
	c.post(now, e, q, ep, x, receive)
}

// post gives an operation to the FEP.
func (c *client) post(now vt.Time, e *shm.SQE, q *queue, ep *endpoint, x *shared, receive bool) {
	op, regions, st := c.operation(e)
	if st == shm.StatusOK {
		st = c.findPeer(&op, e, ep, receive)
	}
	if st != shm.StatusOK {
		c.tell(now, e, q, st, 0)
		return
	}
	i := c.slot()
	c.ops[i] = slot{used: true, tx: !receive, multi: receive && e.Flags&shm.FlagMultiRecv != 0, op: e.Op, object: e.Object, ctx: e.Ctx, q: q, posted: now, r: regions, n: e.Len}
	for _, r := range regions {
		c.use(r, e.Len)
	}
	if !receive {
		c.s.initiated++
	}
	q.reserved++
	op.Ctx = uint64(i)
	var err error
	if x != nil {
		err = x.q.Post(now, &op)
	} else {
		err = ep.ep.Post(now, &op)
	}
	if err != nil {
		st, detail := statusOf(err)
		c.finish(now, i, &shm.CQE{Op: e.Op, Object: e.Object, Peer: -1, Status: st, Detail: detail, Posted: int64(now)}, true)
	}
}

// operation makes one of a submission, and checks all that it says about memory.
func (c *client) operation(e *shm.SQE) (op fep.Op, r [3]*region, st shm.Status) {
	if e.Op < shm.OpSend || e.Op > shm.OpCompareAtomic || e.Flags&^(opFlags|shm.FlagShared) != 0 {
		return op, r, shm.StatusInvalid
	}
	if e.Len > fep.MaxMessage {
		return op, r, shm.StatusTooLarge
	}
	op = fep.Op{Kind: fep.Kind(e.Op - shm.OpSend), Flags: fep.Flags(e.Flags & opFlags), Tag: e.Tag, Ignore: e.Ignore, Key: e.Key, Offset: e.Offset,
		Data: e.Data, Atomic: wire.AtomicOp(e.AOp), Type: wire.AtomicType(e.AType)}
	if e.Op != shm.OpFetchAtomic || e.Region != shm.NoRegion { // a fetch may have no operands
		if op.Buf, r[0], st = c.buffer(e.Region, e.Buf, e.Len); st != shm.StatusOK {
			return op, r, st
		}
	}
	if e.Op == shm.OpFetchAtomic || e.Op == shm.OpCompareAtomic {
		if op.Result, r[1], st = c.buffer(e.RRegion, e.RBuf, e.Len); st != shm.StatusOK {
			return op, r, st
		}
	}
	if e.Op == shm.OpCompareAtomic {
		op.Compare, r[2], st = c.buffer(e.CRegion, e.CBuf, e.Len)
	}
	return op, r, st
}

// findPeer turns the index of a peer into the endpoint's.
func (c *client) findPeer(op *fep.Op, e *shm.SQE, ep *endpoint, receive bool) shm.Status {
	if receive && e.Peer == -1 {
		op.Peer = fep.AnySource
		return shm.StatusOK
	}
	if ep == nil {
		return shm.StatusPeer // a shared queue has no vector
	}
	i, ok := ep.peer(e.Peer)
	if !ok {
		return shm.StatusPeer
	}
	op.Peer = i
	return shm.StatusOK
}

// slot finds a place for an operation.
func (c *client) slot() uint32 {
	c.counts.ops++
	c.s.total.Ops++
	if n := len(c.spare); n > 0 {
		i := c.spare[n-1]
		c.spare = c.spare[:n-1]
		return i
	}
	c.ops = append(c.ops, slot{})
	return uint32(len(c.ops) - 1)
}

// retire ends an operation's stay.
func (c *client) retire(i uint32) {
	o := &c.ops[i]
	for _, r := range o.r {
		c.unuse(r, o.n)
	}
	if o.tx {
		c.s.initiated--
	}
	*o = slot{}
	c.spare = append(c.spare, i)
	c.counts.ops--
	c.s.total.Ops--
}

// tell completes a submission that never became an operation.
func (c *client) tell(now vt.Time, e *shm.SQE, q *queue, st shm.Status, detail uint32) {
	c.deliver(now, q, &shm.CQE{Op: e.Op, Object: e.Object, Ctx: e.Ctx, Peer: -1, Status: st, Detail: detail, Posted: int64(now)})
}

// finish completes an operation; last says that it is over.
func (c *client) finish(now vt.Time, i uint32, e *shm.CQE, last bool) {
	o := &c.ops[i]
	q := o.q
	e.Ctx = o.ctx
	if last {
		q.reserved--
		c.retire(i)
	} else if q.room() == 0 {
		q.ring.Overflow.Add(1)
		return
	}
	c.deliver(now, q, e)
}

func (c *client) deliver(now vt.Time, q *queue, e *shm.CQE) {
	e.Now = int64(now)
	if !q.put(e) {
		q.ring.Dropped.Add(1)
	}
	c.hold(now)
}

// complete takes a completion of the FEP, in its class 4 call.
func (e *endpoint) complete(now vt.Time, fc fep.Completion) {
	c := e.c
	if c.gone {
		return
	}
	out := shm.CQE{Object: uint16(e.id)}
	fill(&out, &fc)
	out.Peer = e.source(fc.Src)
	if fc.Kind >= fep.OpRemoteWrite {
		out.Ctx = fc.Key
		if e.rx.room() == 0 {
			e.rx.ring.Overflow.Add(1)
			c.hold(now)
			return
		}
		c.deliver(now, e.rx, &out)
		return
	}
	c.ended(now, &fc, &out)
}

// complete takes the end of a receive that no message took.
func (x *shared) complete(now vt.Time, fc fep.Completion) {
	if x.c.gone {
		return
	}
	out := shm.CQE{Object: uint16(x.id), Peer: -1}
	fill(&out, &fc)
	x.c.ended(now, &fc, &out)
}

func (c *client) ended(now vt.Time, fc *fep.Completion, out *shm.CQE) {
	if fc.Ctx >= uint64(len(c.ops)) || !c.ops[fc.Ctx].used {
		return // AfterReset has completed it
	}
	o := &c.ops[fc.Ctx]
	out.Op = o.op
	more := o.multi && fc.Err == nil && fc.Flags&fep.FlagMultiRecv == 0
	c.finish(now, uint32(fc.Ctx), out, !more)
}

func fill(out *shm.CQE, fc *fep.Completion) {
	out.Op = shm.Op(fc.Kind) + shm.OpSend
	out.Flags, out.Len, out.Tag, out.Data = uint32(fc.Flags), uint64(fc.Len), fc.Tag, fc.Data
	out.Offset, out.Key, out.Posted, out.Acked = uint64(fc.Offset), fc.Key, int64(fc.Posted), int64(fc.Acked)
	out.Status, out.Detail = statusOf(fc.Err)
}

// cancel takes a receive back, which completes then; the cancel itself does not.
func (c *client) cancel(now vt.Time, e *shm.SQE) {
	var q *queue
	var take func(ctx uint64) bool
	if e.Flags&shm.FlagShared != 0 {
		if x := find(c.srxs, uint32(e.Object)); x != nil {
			q, take = x.cq, func(ctx uint64) bool { return x.q.Cancel(now, ctx) }
		}
	} else if ep := find(c.eps, uint32(e.Object)); ep != nil {
		q, take = ep.rx, func(ctx uint64) bool { return ep.ep.Cancel(now, ctx) }
	}
	if q == nil {
		return
	}
	for i := range c.ops {
		if o := &c.ops[i]; o.used && !o.tx && !o.wake && o.ctx == e.Offset && o.object == e.Object && o.q == q {
			take(uint64(i)) // false: a message has it, and its completion comes
			return
		}
	}
}

// sleep has a process go on at a later time.
func (c *client) sleep(now vt.Time, e *shm.SQE, q *queue) {
	if q.room() == 0 || c.counts.ops >= c.s.cfg.Limits.Ops {
		q.ring.Dropped.Add(1)
		return
	}
	if e.Flags&shm.FlagRun != 0 {
		c.awaitRun(now, e, q)
		return
	}
	t := vt.Time(min(e.Offset, math.MaxInt64))
	if e.Flags&shm.FlagAbsolute == 0 {
		t = now + min(t, vt.Never-1-now)
	}
	if t.Sub(now) > farthest {
		c.tell(now, e, q, shm.StatusTooLarge, 0)
		return
	}
	i := c.slot()
	c.ops[i] = slot{used: true, wake: true, op: e.Op, object: e.Object, ctx: e.Ctx, q: q, posted: now}
	q.reserved++
	c.s.addWake(now, c, i, t)
}

// statuses of errors that say all there is to say.
var statuses = []struct {
	err error
	st  shm.Status
}{
	{fep.ErrTruncated, shm.StatusTruncated}, {fep.ErrAborted, shm.StatusAborted}, {fep.ErrCancelled, shm.StatusCancelled},
	{fep.ErrClosed, shm.StatusClosed}, {fep.ErrNoData, shm.StatusNoData}, {fep.ErrAgain, shm.StatusAgain}, {fep.ErrPeer, shm.StatusPeer},
	{fep.ErrTooLarge, shm.StatusTooLarge}, {fep.ErrDatagram, shm.StatusDatagram}, {fep.ErrUnsupported, shm.StatusUnsupported},
	{fep.ErrWildcard, shm.StatusUnsupported}, {fep.ErrInvalid, shm.StatusInvalid}, {fep.ErrAddress, shm.StatusPID}, {fep.ErrMemory, shm.StatusMemory},
	{fep.ErrNoReceive, shm.StatusNoReceive}, {fep.ErrSource, shm.StatusSource},
}

// statusOf says an error in the protocol's words.
func statusOf(err error) (shm.Status, uint32) {
	if err == nil {
		return shm.StatusOK, 0
	}
	var re *fep.ResponseError
	var pe *fep.PDCError
	switch {
	case errors.As(err, &re):
		return shm.StatusResponse, uint32(re.Code)
	case errors.As(err, &pe):
		return shm.StatusPDC, uint32(pe.PDC) | uint32(pe.Code)<<16
	}
	for _, s := range statuses {
		if errors.Is(err, s.err) {
			return s.st, 0
		}
	}
	return shm.StatusOther, 0
}
