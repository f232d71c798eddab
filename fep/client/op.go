package client

import (
	"context"
	"runtime"

	"github.com/uetlab/uetlab/fep"
	"github.com/uetlab/uetlab/internal/shm"
	"github.com/uetlab/uetlab/wire"
)

// AnySource is the Peer of a receive that takes messages of everybody.
const AnySource = fep.AnySource

// Op is an operation to be posted, with everything that one can have. Kinds, flags and their rules are those of package fep.
type Op struct {
	Kind        fep.Kind
	Flags       fep.Flags
	Peer        int    // index in the address vector; of a receive the source, or AnySource
	Buf         []byte // what is sent or written, received or read into; of an atomic its operands
	Tag, Ignore uint64
	Key, Offset uint64 // of the peer's memory
	Data        uint64 // with fep.FlagData
	Atomic      wire.AtomicOp
	Type        wire.AtomicType
	Result      []byte // fetching atomics: the old value
	Compare     []byte // compare atomics
	Ctx         any    // comes back with the completion
}

// pending is an operation that the FEP has.
type pending struct {
	gen     uint32
	used    bool
	multi   bool
	ctx     any
	ep      *Endpoint
	cq      *CQ
	counter *Counter
	wait    *result
	at      [3]place // buffer, result, compare
	keep    [3][]byte
	pin     *runtime.Pinner
}

// result is where a call waits for its own operation.
type result struct {
	c    Completion
	done bool
}

func (p *pending) unpin() {
	if p.pin != nil {
		p.pin.Unpin()
	}
}

// settle copies what came back to where the application wants it. The domain's mu is held.
func (p *pending) settle(c *Completion) {
	for i := range p.at {
		a := &p.at[i]
		if a.slot == 0 || !a.out || c.Err != nil && c.Err != fep.ErrTruncated {
			continue
		}
		n := len(a.user)
		if i == 0 {
			n = min(n, c.Len)
		}
		copy(a.user[:n], p.cq.d.bounce.mem.b[a.off:])
	}
}

// retire forgets an operation that is over. Callers hold mu.
func (d *Domain) retire(i uint32) {
	p := &d.ops[i]
	for _, a := range p.at {
		if a.slot != 0 {
			d.bounce.free = append(d.bounce.free, a.slot)
		}
	}
	p.unpin()
	*p = pending{gen: p.gen + 1}
	d.spare = append(d.spare, i)
}

// submit puts an operation into the ring. It completes in p.cq. Callers hold mu, which is let go while the ring is full.
func (d *Domain) submit(e *shm.SQE, p pending) (uint32, error) {
	for {
		switch {
		case d.err != nil:
			p.unpin()
			return 0, d.err
		case p.cq.closed:
			p.unpin()
			return 0, ErrClosed
		case p.cq.open >= p.cq.ring.Size():
			p.unpin()
			return 0, ErrAgain
		}
		if d.tail-d.sq.SQHead.Load() < d.sq.Size() {
			break
		}
		d.full()
	}
	var i uint32
	if n := len(d.spare); n > 0 {
		i = d.spare[n-1]
		d.spare = d.spare[:n-1]
	} else {
		d.ops = append(d.ops, pending{})
		i = uint32(len(d.ops) - 1)
	}
	p.gen, p.used = d.ops[i].gen, true
	d.ops[i] = p
	p.cq.open++
	e.Ctx = uint64(p.gen)<<32 | uint64(i)
	d.push(e)
	return i, nil
}

// push hands a submission to the FEP; there is room for it. Callers hold mu.
func (d *Domain) push(e *shm.SQE) {
	d.sq.Put(d.tail, e)
	d.tail++
	d.sq.SQTail.Store(d.tail)
	d.ring()
}

// full waits a moment for room in the ring. Callers hold mu, which is let go.
func (d *Domain) full() {
	d.ring()
	d.mu.Unlock()
	yield()
	d.mu.Lock()
}

// target is what operations are posted to.
type target struct {
	d       *Domain
	id      uint32
	flags   uint32
	ep      *Endpoint
	cq      *CQ
	counter *Counter
}

// post posts op. Its completion goes to wait, if that is not nil.
func (t *target) post(ctx context.Context, op *Op, wait *result) (uint32, error) {
	d := t.d
	if err := d.prepare(ctx, op.Buf, op.Result, op.Compare); err != nil {
		return 0, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err != nil {
		return 0, d.err
	}
	p := pending{ctx: op.Ctx, ep: t.ep, cq: t.cq, counter: t.counter, wait: wait, multi: op.Flags&fep.FlagMultiRecv != 0, keep: [3][]byte{op.Buf, op.Result, op.Compare}}
	into := op.Kind == fep.OpRecv || op.Kind == fep.OpTagRecv || op.Kind == fep.OpRead
	for i, b := range p.keep {
		var err error
		if p.at[i], err = d.locate(&p, b, i == 1 || i == 0 && into, p.multi); err == errPrepare {
			d.mu.Unlock()
			err = d.makeRemote(ctx)
			d.mu.Lock()
			if err == nil {
				err = d.err // it may have been closed meanwhile
			}
			if err == nil {
				p.at[i], err = d.locate(&p, b, i == 1 || i == 0 && into, p.multi)
			}
		}
		if err != nil {
			d.dropPlaces(&p)
			p.unpin()
			return 0, err
		}
	}
	e := shm.SQE{Op: shm.Op(op.Kind) + shm.OpSend, Object: uint16(t.id), Flags: uint32(op.Flags) | t.flags, Peer: int32(op.Peer), Region: p.at[0].region, Buf: p.at[0].off,
		Len: uint64(max(len(op.Buf), len(op.Result))), Tag: op.Tag, Ignore: op.Ignore, Key: op.Key, Offset: op.Offset, Data: op.Data, AOp: uint8(op.Atomic), AType: uint8(op.Type),
		RRegion: p.at[1].region, RBuf: p.at[1].off, CRegion: p.at[2].region, CBuf: p.at[2].off}
	i, err := d.submit(&e, p)
	if err != nil {
		d.dropPlaces(&p)
	}
	return i, err
}

func (d *Domain) dropPlaces(p *pending) {
	for i := range p.at {
		if p.at[i].slot != 0 {
			d.bounce.free = append(d.bounce.free, p.at[i].slot)
			p.at[i].slot = 0
		}
	}
}

// run posts op and waits for its completion.
func (t *target) run(ctx context.Context, op *Op) (Completion, error) {
	w := &result{}
	if _, err := t.post(ctx, op, w); err != nil {
		return Completion{}, err
	}
	t.d.mu.Lock()
	defer t.d.mu.Unlock()
	if err := t.d.await(ctx, func() bool { return w.done }, true); err != nil {
		return Completion{}, err
	}
	return w.c, w.c.Err
}

// check refuses what would be nonsense in a ring.
func (op *Op) check() error {
	switch {
	case op.Kind > fep.OpCompareAtomic:
		return fep.ErrInvalid
	case (op.Kind == fep.OpFetchAtomic || op.Kind == fep.OpCompareAtomic) && len(op.Result) != len(op.Buf) && op.Atomic != wire.AtomicRead:
		return fep.ErrInvalid
	case op.Kind == fep.OpCompareAtomic && len(op.Compare) != len(op.Buf):
		return fep.ErrInvalid
	}
	return nil
}
