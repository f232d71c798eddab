package perf

import (
	"encoding/binary"
	"fmt"

	"github.com/uetlab/uetlab/fep"
	"github.com/uetlab/uetlab/fep/client"
	"github.com/uetlab/uetlab/wire"
)

// round measures one size.
type round struct {
	*Side
	size, warmup, iters int
	starts              bool

	slots    []int // a ring of the slots that no operation uses: they take turns
	head     int
	free     int
	number   []int // messages that a slot has had
	sent     int
	done     int
	received int
	unposted int   // receives that are still to come
	spare    []int // slots whose receives are to be posted again
	seen     []bool
}

func (r *round) total() int { return r.warmup + r.iters }

// sends and hears say which part this side has.
func (r *round) sends() bool {
	return r.starts || r.spec.Bidirectional || r.spec.pingPong()
}

func (r *round) hears() bool {
	return r.spec.notified() && (!r.starts || r.spec.Bidirectional || r.spec.pingPong())
}

// ready makes the memory as it is to be at the start, and posts receives.
func (r *round) ready() error {
	r.slots, r.number, r.free = make([]int, r.spec.Window), make([]int, r.spec.Window), r.spec.Window
	for i := range r.slots {
		r.slots[i] = i
	}
	if r.spec.Check && r.hears() {
		r.seen = make([]bool, r.total())
	}
	clear(r.mem.target)
	for i := range r.mem.slots {
		if r.spec.Check && r.spec.Test == Read {
			pattern(r.mem.at(r.mem.target, i, r.mem.slots, r.size), i)
		}
	}
	if !r.spec.twoSided() || !r.hears() {
		return nil
	}
	r.unposted = r.total()
	for i := range min(r.mem.receives, r.total()) {
		r.spare = append(r.spare, i)
	}
	return r.repost()
}

// repost posts the receives that are due.
func (r *round) repost() error {
	for _, slot := range r.spare {
		if r.unposted == 0 {
			break
		}
		r.unposted--
		op := client.Op{Kind: fep.OpRecv, Peer: r.peer, // in AI Base a receive tells its source
			Buf: r.mem.at(r.mem.receive, slot, r.mem.rxSlots, r.size), Ctx: r.boxed[slot]}
		if r.spec.Test == TSend {
			op.Kind, op.Tag = fep.OpTagRecv, r.spec.Tag
		}
		r.op = op
		if err := r.ep.Post(&r.op); err != nil {
			return fmt.Errorf("post a receive: %w", err)
		}
	}
	r.spare = r.spare[:0]
	return nil
}

// play does this side's part. It gives a result if this side measures.
func (r *round) play() (*Row, error) {
	switch {
	case r.spec.Metric == BW && r.sends():
		rate, err := r.stream()
		if err != nil {
			return nil, err
		}
		return &Row{BW: rate}, nil
	case r.spec.pingPong() && !r.starts:
		return nil, r.pong()
	case r.sends():
		lat, err := r.ping()
		if err != nil {
			return nil, err
		}
		return &Row{Lat: lat}, nil
	case r.hears():
		return nil, r.absorb(r.total())
	}
	return nil, nil
}

// ping measures one message after the other: to the other side and back, or until it is done.
func (r *round) ping() (*Latency, error) {
	t := newTimes()
	for i := range r.total() {
		begin := r.now()
		if err := r.post(); err != nil {
			return nil, err
		}
		for r.spec.pingPong() && r.received <= i || !r.spec.pingPong() && r.done <= i {
			if err := r.wait(r.waitFor()); err != nil {
				return nil, err
			}
		}
		if i >= r.warmup {
			t.add(r.now() - begin)
		}
	}
	if r.spec.pingPong() {
		return t.latency(2), r.drain()
	}
	return t.latency(1), nil
}

// waitFor is the queue in which the answer comes.
func (r *round) waitFor() *client.CQ {
	if r.spec.pingPong() {
		return r.rxq
	}
	return r.txq
}

// pong answers each message.
func (r *round) pong() error {
	for i := range r.total() {
		if err := r.absorb(i + 1); err != nil {
			return err
		}
		if err := r.post(); err != nil {
			return err
		}
	}
	return r.drain()
}

// absorb waits until so many messages have come.
func (r *round) absorb(n int) error {
	for r.received < n {
		if err := r.wait(r.rxq); err != nil {
			return err
		}
		if r.spec.Metric == BW {
			if err := r.repost(); err != nil {
				return err
			}
		}
	}
	return nil
}

// drain waits for the completions of everything that was sent.
func (r *round) drain() error {
	for r.done < r.sent {
		if err := r.wait(r.txq); err != nil {
			return err
		}
	}
	return nil
}

// stream keeps the window full.
func (r *round) stream() (*Rate, error) {
	var t *rates
	for _, n := range []int{r.warmup, r.iters} {
		t = newRates(n)
		for end := r.done + n; r.done < end; {
			for r.sent < end && r.free > 0 {
				t.posted = append(t.posted, r.now())
				if err := r.post(); err != nil {
					return nil, err
				}
			}
			before := r.done
			if err := r.wait(r.rxq); err != nil {
				return nil, err
			}
			at := r.now()
			for range r.done - before {
				t.done = append(t.done, at)
			}
			if err := r.repost(); err != nil {
				return nil, err
			}
		}
	}
	if r.hears() {
		return t.sum(int64(r.size)), r.absorb(r.total())
	}
	return t.sum(int64(r.size)), nil
}

// wait waits for completions, and deals with all that are there.
func (r *round) wait(q *client.CQ) error {
	n, err := q.ReadWait(r.ctx, r.got)
	if err != nil {
		return err
	}
	for i := range n {
		if err := r.handle(&r.got[i]); err != nil {
			return err
		}
	}
	return nil
}

func (r *round) handle(c *client.Completion) error {
	if c.Err != nil {
		return fmt.Errorf("%s: %w", c.Kind, c.Err)
	}
	switch c.Kind {
	case fep.OpRecv, fep.OpTagRecv:
		slot := c.Ctx.(int)
		r.spare = append(r.spare, slot)
		r.received++
		if c.Len != r.size {
			return fmt.Errorf("%w: a message of %d bytes came", ErrData, c.Len)
		}
		return r.verify(r.mem.at(r.mem.receive, slot, r.mem.rxSlots, r.size))
	case fep.OpRemoteWrite:
		r.received++
		if r.spec.Imm && (c.Flags&fep.FlagData == 0 || r.spec.Check && c.Data >= uint64(r.total())) {
			return fmt.Errorf("%w: immediate data is missing or wrong (%#x)", ErrData, c.Data)
		}
		if c.Offset < 0 || c.Offset+r.size > len(r.mem.target) {
			return fmt.Errorf("%w: a write of %d bytes at %d came", ErrData, r.size, c.Offset)
		}
		return r.verify(r.mem.target[c.Offset : c.Offset+r.size])
	}
	slot := c.Ctx.(int)
	r.slots[(r.head+r.free)%len(r.slots)] = slot
	r.free++
	r.done++
	return r.verifyResult(slot)
}

// post sends the next message from a free slot, for which it waits if need be, and then has the receives posted that are due.
func (r *round) post() error {
	for r.free == 0 {
		if err := r.wait(r.txq); err != nil {
			return err
		}
	}
	slot := r.slots[r.head]
	r.head, r.free = (r.head+1)%len(r.slots), r.free-1
	r.prepare(slot)
	if err := r.ep.Post(&r.op); err != nil {
		return fmt.Errorf("post: %w", err)
	}
	r.sent++
	r.number[slot]++
	if r.spec.Metric == BW {
		return nil
	}
	return r.repost()
}

// prepare makes the operation.
func (r *round) prepare(slot int) {
	m := &r.mem
	buf := m.at(m.source, slot, m.slots, r.size)
	r.op = client.Op{Kind: fep.OpSend, Peer: r.peer, Buf: buf, Ctx: r.boxed[slot]}
	switch r.spec.Test {
	case TSend:
		r.op.Kind, r.op.Tag = fep.OpTagSend, r.spec.Tag
	case Write:
		r.op.Kind, r.op.Key, r.op.Offset = fep.OpWrite, r.key, r.offset(slot)
		if r.spec.Imm {
			r.op.Flags, r.op.Data = fep.FlagData, uint64(r.sent)
		}
	case Read:
		r.op.Kind, r.op.Key, r.op.Offset = fep.OpRead, r.key, r.offset(slot)
		if r.spec.Check {
			clear(buf)
		}
		return
	case Atomic:
		r.prepareAtomic(slot)
		return
	}
	if r.size <= r.inject {
		r.op.Flags |= fep.FlagInject
	}
	if r.spec.Check {
		pattern(buf, r.sent)
	}
}

// offset is where a slot is in the peer's memory.
func (r *round) offset(slot int) uint64 { return uint64(slot % r.mem.slots * r.mem.stride) }

// prepareAtomic makes an atomic on the numbers of a slot, which have been added to as often as it was used.
func (r *round) prepareAtomic(slot int) {
	m, old := &r.mem, uint64(r.number[slot])
	r.op.Kind, r.op.Key, r.op.Offset = fep.OpAtomic, r.key, r.offset(slot)
	r.op.Type, r.op.Atomic = wire.AtomicUint64, wire.AtomicSum
	operand := uint64(1)
	switch r.spec.Op {
	case Fetch:
		r.op.Kind = fep.OpFetchAtomic
	case CAS:
		r.op.Kind, r.op.Atomic = fep.OpCompareAtomic, wire.AtomicCSwap
		r.op.Compare = m.at(m.compare, slot, m.slots, r.size)
		repeat(r.op.Compare, old)
		operand = old + 1
	}
	repeat(r.op.Buf, operand)
	if r.spec.Op != Add {
		r.op.Result = m.at(m.result, slot, m.slots, r.size)
	}
}

func repeat(b []byte, v uint64) {
	for ; len(b) >= 8; b = b[8:] {
		binary.LittleEndian.PutUint64(b, v)
	}
}

// verify checks a message that came.
func (r *round) verify(b []byte) error {
	if !r.spec.Check {
		return nil
	}
	n, ok := numberIn(b)
	switch {
	case !ok || n >= r.total():
		return fmt.Errorf("%w: message %d that came has bytes that were not sent", ErrData, r.received)
	case len(b) < 8:
	case r.seen[n]:
		return fmt.Errorf("%w: message %d came twice", ErrData, n)
	case r.spec.Ordered && n != r.received-1:
		return fmt.Errorf("%w: message %d came as number %d", ErrData, n, r.received-1)
	default:
		r.seen[n] = true
	}
	return nil
}

// verifyResult checks what an operation of ours has brought.
func (r *round) verifyResult(slot int) error {
	if !r.spec.Check {
		return nil
	}
	m := &r.mem
	switch {
	case r.spec.Test == Read:
		if n, ok := numberIn(m.at(m.source, slot, m.slots, r.size)); !ok || n != slot && r.size >= 8 {
			return fmt.Errorf("%w: what was read is not what is there", ErrData)
		}
	case r.spec.Test == Atomic && r.spec.Op != Add:
		for b := m.at(m.result, slot, m.slots, r.size); len(b) >= 8; b = b[8:] {
			if old := binary.LittleEndian.Uint64(b); old != uint64(r.number[slot]-1) {
				return fmt.Errorf("%w: the old value is %d, not %d", ErrData, old, r.number[slot]-1)
			}
		}
	}
	return nil
}

// verifyTarget checks, once everybody is done, what the peer has done to this side's memory.
func (r *round) verifyTarget() error {
	if !r.spec.Check || r.starts && !r.spec.Bidirectional {
		return nil
	}
	sums := make([]uint64, r.size/8)
	for slot := range r.mem.slots {
		b := r.mem.at(r.mem.target, slot, r.mem.slots, r.size)
		switch r.spec.Test {
		case Write:
			if n, ok := numberIn(b); slot < r.total() && (!ok || n >= r.total()) {
				return fmt.Errorf("%w: memory %d has bytes that were not written", ErrData, slot)
			}
		case Atomic:
			for i := range sums {
				sums[i] += binary.LittleEndian.Uint64(b[8*i:])
			}
		}
	}
	for _, v := range sums {
		if r.spec.Test == Atomic && v != uint64(r.total()) {
			return fmt.Errorf("%w: %d atomics have left %d", ErrData, r.total(), v)
		}
	}
	return nil
}
