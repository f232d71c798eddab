package client

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uetlab/uetlab/fep"
	"github.com/uetlab/uetlab/internal/shm"
)

// Completion ends one operation (fi_cq_tagged_entry and fi_cq_err_entry in one). Times are virtual, since the lab's start.
type Completion struct {
	Kind     fep.Kind
	Flags    fep.Flags // FlagData: Data came; FlagMultiRecv: the buffer is used up
	Ctx      any       // as posted; nil for operations of peers
	Endpoint *Endpoint
	Len      int // bytes
	Tag      uint64
	Data     uint64
	Src      int    // index in the address vector, -1: not there
	Key      uint64 // of our memory, for operations of peers
	Offset   int    // where in the buffer, for multi-receive; where in the memory, for operations of peers
	Err      error

	Posted, Acked, At time.Duration // posted; wholly acknowledged, or last byte arrived; handed over
}

// CQ is a completion queue (fi_cq). Its methods may be called by several goroutines.
type CQ struct {
	d    *Domain
	id   uint32
	mem  []byte
	ring *shm.CQ
	seen atomic.Uint32 // completions taken from the ring
	open uint32        // operations that will complete here, and what waits to be read
	out  fifo

	channel sync.Once
	ch      chan Completion
	next    chan struct{}
	dropped uint32 // overflow that was told of
	closed  bool
}

// fifo is a ring of completions that grows.
type fifo struct {
	ring    []Completion
	head, n int
}

func (f *fifo) push(c *Completion) {
	if f.n == len(f.ring) {
		ring := make([]Completion, max(16, 2*f.n))
		for i := range f.n {
			ring[i] = f.ring[(f.head+i)&(f.n-1)]
		}
		f.ring, f.head = ring, 0
	}
	f.ring[(f.head+f.n)&(len(f.ring)-1)] = *c
	f.n++
}

func (f *fifo) pop(c *Completion) {
	*c = f.ring[f.head]
	f.ring[f.head] = Completion{}
	f.head = (f.head + 1) & (len(f.ring) - 1)
	f.n--
}

// OpenCQ makes a completion queue for that many operations open at once; the number is rounded up to a power of two, 0 stands for 1024.
func (d *Domain) OpenCQ(ctx context.Context, entries int) (*CQ, error) {
	var r shm.Opened
	fds, err := d.request(ctx, "open CQ", shm.ReqCQOpen, &shm.CQOpen{Entries: uint32(max(entries, 0))}, nil, -1, &r)
	if err != nil {
		return nil, err
	}
	defer shm.CloseAll(fds)
	if len(fds) != 1 {
		return nil, &Error{"open CQ", "the FEP sent no memory"}
	}
	q := &CQ{d: d, id: r.ID, ch: make(chan Completion), next: make(chan struct{}, 1)}
	if q.mem, err = shm.Map(fds[0], shm.CQLen(int(r.Count))); err != nil {
		return nil, err
	}
	if q.ring, err = shm.OpenCQ(q.mem); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cqs = append(d.cqs[:len(d.cqs):len(d.cqs)], q)
	return q, nil
}

// Read takes completions that are there and does not wait; it returns how many, 0 if there are none. In a synchronous process a
// poll without result takes DomainOptions.PollStep of virtual time, so that a loop of polls comes to an end.
func (q *CQ) Read(cs []Completion) (int, error) {
	n, err := q.take(cs)
	if n > 0 || err != nil || len(cs) == 0 || q.d.Free() {
		return n, err
	}
	if err := q.d.Sleep(context.Background(), q.d.step); err != nil {
		return 0, err
	}
	return q.take(cs)
}

// ReadWait waits for completions, and takes as many as there are, up to len(cs).
func (q *CQ) ReadWait(ctx context.Context, cs []Completion) (int, error) {
	if len(cs) == 0 {
		return 0, nil
	}
	q.d.mu.Lock()
	err := q.d.await(ctx, func() bool { return q.out.n > 0 || q.closed || q.lost() }, true)
	q.d.mu.Unlock()
	if err != nil {
		return 0, err
	}
	return q.take(cs)
}

// take gives what has been drained. An overflow is told once, before anything else.
func (q *CQ) take(cs []Completion) (int, error) {
	q.d.mu.Lock()
	defer q.d.mu.Unlock()
	if q.closed {
		return 0, ErrClosed
	}
	if q.d.err != nil {
		return 0, q.d.err
	}
	q.d.drain()
	if q.lost() {
		q.dropped = q.ring.Overflow.Load()
		return 0, ErrOverflow
	}
	n := min(len(cs), q.out.n)
	for i := range n {
		q.out.pop(&cs[i])
	}
	q.open -= uint32(n)
	return n, nil
}

func (q *CQ) lost() bool { return q.ring != nil && q.ring.Overflow.Load() != q.dropped }

// Overflow counts completions of peers' operations that found no room.
func (q *CQ) Overflow() int {
	q.d.mu.Lock()
	defer q.d.mu.Unlock()
	if q.ring == nil {
		return 0
	}
	return int(q.ring.Overflow.Load())
}

// C is a channel of completions. It is closed when the queue or the domain is. In a synchronous process the reader says with Next
// that it is done with a completion; until then the FEP stands still.
func (q *CQ) C() <-chan Completion {
	q.channel.Do(func() { go q.pump() }) // ends with the queue or the domain
	return q.ch
}

// Next says that the completion that came last from C is dealt with.
func (q *CQ) Next() {
	select {
	case q.next <- struct{}{}:
	default:
	}
}

func (q *CQ) pump() {
	defer close(q.ch)
	var c [1]Completion
	for {
		_, err := q.ReadWait(context.Background(), c[:])
		switch {
		case err == ErrOverflow:
			continue
		case err != nil:
			return
		}
		select {
		case q.ch <- c[0]:
		case <-q.d.over:
			return
		}
		if q.d.Free() {
			continue
		}
		select {
		case <-q.next:
		case <-q.d.over:
			return
		}
	}
}

// Close ends the queue; no endpoint may use it any more (ErrBusy).
func (q *CQ) Close() error {
	if err := q.d.closeObject("close CQ", shm.KindCQ, q.id); err != nil {
		return err
	}
	q.d.mu.Lock()
	defer q.d.mu.Unlock()
	if q.closed || q.mem == nil {
		return nil
	}
	q.closed = true
	kept := make([]*CQ, 0, len(q.d.cqs))
	for _, o := range q.d.cqs {
		if o != q {
			kept = append(kept, o)
		}
	}
	q.d.cqs = kept
	for _, w := range q.d.waiters {
		w.wake()
	}
	for q.d.leading { // it may look at the ring
		q.d.mu.Unlock()
		q.d.wakeLeader()
		yield()
		q.d.mu.Lock()
	}
	shm.Unmap(q.mem)
	q.mem, q.ring = nil, nil
	return nil
}

// drain moves completions from the ring to their readers. Callers hold the domain's mu.
func (q *CQ) drain() bool {
	if q.ring == nil {
		return false
	}
	at, tail := q.seen.Load(), q.ring.Tail.Load()
	if at == tail {
		return false
	}
	var e shm.CQE
	for ; at != tail; at++ {
		q.ring.Take(at, &e)
		q.complete(&e)
	}
	q.seen.Store(at)
	q.ring.Head.Store(at)
	return true
}

// complete hands one completion to whom it belongs.
func (q *CQ) complete(e *shm.CQE) {
	d := q.d
	d.handed = max(d.handed, e.Now)
	c := Completion{Kind: kindOf(e.Op), Flags: fep.Flags(e.Flags), Endpoint: d.byID[uint32(e.Object)], Len: int(e.Len), Tag: e.Tag, Data: e.Data,
		Src: int(e.Peer), Key: e.Key, Offset: int(e.Offset), Err: statusError(e.Status, e.Detail),
		Posted: time.Duration(e.Posted), Acked: time.Duration(e.Acked), At: time.Duration(e.Now)}
	if e.Op >= shm.OpRemoteWrite && e.Op <= shm.OpRemoteAtomic {
		if ep := c.Endpoint; ep != nil {
			ep.remoteCounter.add(c.Err)
		}
		q.open++
		q.out.push(&c)
		return
	}
	i := uint32(e.Ctx)
	if i >= uint32(len(d.ops)) || d.ops[i].gen != uint32(e.Ctx>>32) || !d.ops[i].used {
		return // the domain no longer knows of it
	}
	p := &d.ops[i]
	c.Ctx = p.ctx
	if p.ep != nil {
		c.Endpoint = p.ep
	}
	more := p.multi && e.Flags&shm.FlagMultiRecv == 0 && c.Err == nil
	p.settle(&c)
	p.counter.add(c.Err)
	switch {
	case p.wait != nil:
		p.wait.c, p.wait.done = c, true
		q.open--
	case q == d.sys:
		q.open--
	default:
		q.out.push(&c)
	}
	if more {
		q.open++ // this one came beside those that were counted
		return
	}
	d.retire(i)
}

func kindOf(op shm.Op) fep.Kind {
	if op < shm.OpSend || op > shm.OpRemoteAtomic {
		return 0
	}
	return fep.Kind(op - shm.OpSend)
}

// Counter counts completions (fi_cntr).
type Counter struct {
	d       *Domain
	n, errs uint64
}

// OpenCounter makes a counter. Give it to endpoints.
func (d *Domain) OpenCounter() *Counter { return &Counter{d: d} }

func (k *Counter) add(err error) {
	switch {
	case k == nil:
	case err != nil:
		k.errs++
	default:
		k.n++
	}
}

// Read is the number of operations that have completed well (fi_cntr_read).
func (k *Counter) Read() uint64 {
	k.d.mu.Lock()
	defer k.d.mu.Unlock()
	k.d.drain()
	return k.n
}

// Errors is the number of those that have failed (fi_cntr_readerr).
func (k *Counter) Errors() uint64 {
	k.d.mu.Lock()
	defer k.d.mu.Unlock()
	k.d.drain()
	return k.errs
}

// Wait waits until n operations have completed well, or one more has failed: then its error is an *Error (fi_cntr_wait).
func (k *Counter) Wait(ctx context.Context, n uint64) error {
	k.d.mu.Lock()
	defer k.d.mu.Unlock()
	k.d.drain()
	errs := k.errs
	if err := k.d.await(ctx, func() bool { return k.n >= n || k.errs > errs }, true); err != nil {
		return err
	}
	if k.n < n {
		return &Error{"wait for counter", "an operation failed; its completion tells why"}
	}
	return nil
}
