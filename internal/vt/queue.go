package vt

import "math/bits"

// Class orders events of the same instant.
type Class uint8

// Event classes, in the order in which one instant handles them.
const (
	ClassChange  Class = iota // scheduled change of state or configuration
	ClassArrival              // a frame's last bit is here
	ClassTxFree               // a port's serializer is free
	ClassTimer                // a protocol timer
	ClassCall                 // an application's call
)

// Key is an event's place in the one order that all runs share: time, class, port, then order of insertion.
type Key struct {
	T     Time
	Class Class
	Port  uint16
	n     uint64
}

// The wheel's measures: a node's frames and serializers are nearly all due within 4 us, a few ns to 2 us ahead.
const (
	shift   = 3         // a bucket is 8 ns wide
	buckets = 512       // a power of two
	maxWalk = 12        // events that Push passes in a bucket before it gives the new one to the heap
	maxSlot = 1<<16 - 1 // the last that a bucket can name
)

type wheel struct {
	tail [buckets]uint16      // a bucket's last event, whose next is its first: a ring in order; 0: none
	used [buckets / 64]uint64 // a bit per bucket
}

// item is an event's slot in the slab. Slot 0 is never used: its index says "none".
type item[V any] struct {
	t    Time
	n    uint64
	rank uint32 // class and port
	next uint32 // in the bucket's ring or among the free
	val  V
}

func (a *item[V]) less(b *item[V]) bool {
	if a.t != b.t {
		return a.t < b.t
	}
	if a.rank != b.rank {
		return a.rank < b.rank
	}
	return a.n < b.n
}

func (a *item[V]) key() Key { return Key{a.t, Class(a.rank >> 16), uint16(a.rank), a.n} }

// Queue holds the events of one node. The zero value is ready; it is not for concurrent use. In the steady state it
// allocates nothing.
//
// Events stay where they are in a slab; two structures refer to them. A wheel of short sorted rings takes what is due
// within the next buckets<<shift ns after the event popped last. A heap takes the rest: timers far ahead, what lies
// before the wheel's first bucket, what would have to pass too many events in its bucket, and slots whose number is too
// long for a bucket. Pop takes the first of the two, so nothing ever moves from one to the other.
//
// ns for a Pop and a Push, beside a binary heap of whole events (BenchmarkQueue, BenchmarkQueues; medians of five on an
// AMD EPYC):
//
//	pending             8    64   512  4096          8    64   512  4096
//	simulator's mix    31    39    53   154   heap  51    82   131   160
//	all far ahead      44    77   103   140   heap  55    88   124   154
//	same instants      29    28    37    58   heap  44    88   140   173
//	1400 queues, 16 events from each in turn: 63 at 64 pending, heap 104; with 3 from each the cache misses of both
//	are the cost: 117, heap 105
//
// A simulated permutation on a fat tree (16 to 127 pending) takes 5 % less time than with the heap. Buckets of 16 ns
// cost 69 at 512 pending; 256 or 1024 buckets make no difference up to 64.
type Queue[V any] struct {
	slab  []item[V]
	wheel *wheel // 1 kB, made when first needed
	heap  []ref
	next  Time // of the first event, if any
	count int
	n     uint64
	base  Time   // number of the wheel's first bucket: goes back only when the wheel is empty
	headT Time   // time of head
	head  uint32 // first event in the wheel
	free  uint32
}

// Len is the number of events that wait.
func (q *Queue[V]) Len() int { return q.count }

// Next is the time of the first event, Never when there is none.
func (q *Queue[V]) Next() Time {
	if q.count == 0 {
		return Never
	}
	return q.next
}

// Push adds an event.
func (q *Queue[V]) Push(t Time, c Class, port int, v V) {
	i := q.free
	if i == 0 {
		i = q.grow()
	} else {
		q.free = q.slab[i].next
	}
	q.n++
	it := &q.slab[i]
	it.t, it.n, it.rank, it.val = t, q.n, uint32(c)<<16|uint32(uint16(port)), v
	if uint64(t>>shift-q.base) >= buckets || i > maxSlot || !q.insert(i, it) {
		q.pushHeap(ref{t, it.rank, i})
	}
	if q.count == 0 || t < q.next {
		q.next = t
	}
	q.count++
}

// grow adds a slot to the slab and gives its index.
func (q *Queue[V]) grow() uint32 {
	if len(q.slab) == 0 {
		q.slab = make([]item[V], 1, 8)
	}
	q.slab = append(q.slab, item[V]{})
	return uint32(len(q.slab) - 1)
}

// insert puts slot i into the wheel, unless it would have to pass too many others.
func (q *Queue[V]) insert(i uint32, it *item[V]) bool {
	if q.wheel == nil {
		q.wheel = new(wheel)
	}
	s := uint(it.t>>shift) % buckets
	tail := uint32(q.wheel.tail[s])
	if tail == 0 {
		it.next = i
		q.wheel.tail[s] = uint16(i)
		q.wheel.used[s/64] |= 1 << (s % 64)
		if q.head == 0 || it.t < q.headT {
			q.head, q.headT = i, it.t
		}
		return true
	}
	last := &q.slab[tail]
	if last.less(it) {
		it.next, last.next = last.next, i
		q.wheel.tail[s] = uint16(i)
		return true
	}
	before := last
	for range maxWalk {
		x := before.next
		after := &q.slab[x]
		if it.less(after) {
			it.next, before.next = x, i
			if x == q.head {
				q.head, q.headT = i, it.t
			}
			return true
		}
		before = after
	}
	return false
}

// Pop takes the first event. It panics on an empty queue.
func (q *Queue[V]) Pop() (Key, V) {
	var i uint32
	var it *item[V]
	if q.wheelFirst() {
		i = q.head
		it = &q.slab[i]
		q.base = it.t >> shift
		q.popWheel(i, it)
	} else {
		i = q.heap[0].slot
		it = &q.slab[i]
		q.popHeap()
		if b := it.t >> shift; q.head == 0 || b > q.base {
			q.base = b
		}
	}
	q.count--
	q.setNext()
	k, v := it.key(), it.val
	var none V
	it.val = none
	it.next, q.free = q.free, i
	return k, v
}

// wheelFirst says whether the first event is in the wheel.
func (q *Queue[V]) wheelFirst() bool {
	if q.head == 0 || len(q.heap) == 0 {
		return q.head != 0
	}
	top := &q.heap[0]
	if q.headT != top.t {
		return q.headT < top.t
	}
	return q.slab[q.head].less(&q.slab[top.slot])
}

func (q *Queue[V]) setNext() {
	switch {
	case q.head == 0 && len(q.heap) == 0:
	case q.head == 0:
		q.next = q.heap[0].t
	case len(q.heap) == 0:
		q.next = q.headT
	default:
		q.next = min(q.headT, q.heap[0].t)
	}
}

// popWheel takes the wheel's first event out of its ring and finds the one that is first now.
func (q *Queue[V]) popWheel(i uint32, it *item[V]) {
	w := q.wheel
	s := uint(it.t>>shift) % buckets
	if tail := uint32(w.tail[s]); tail != i {
		q.slab[tail].next = it.next
		q.head = it.next
	} else {
		w.tail[s] = 0
		w.used[s/64] &^= 1 << (s % 64)
		if q.head = w.first(s); q.head == 0 {
			return
		}
		q.head = q.slab[q.head].next
	}
	q.headT = q.slab[q.head].t
}

// first is the last event of the first used bucket from s on, once around; 0 if no bucket is used.
func (w *wheel) first(s uint) uint32 {
	at := s / 64
	m := w.used[at] >> (s % 64) << (s % 64)
	for range len(w.used) + 1 {
		if m != 0 {
			return uint32(w.tail[at*64+uint(bits.TrailingZeros64(m))])
		}
		at = (at + 1) % uint(len(w.used))
		m = w.used[at]
	}
	return 0
}
