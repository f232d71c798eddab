package vt

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

// Before says whether the event was in the queue already when Mark gave m.
func (a *Key) Before(m uint64) bool { return a.n <= m }

func (a *Key) less(b *Key) bool {
	if a.T != b.T {
		return a.T < b.T
	}
	if a.Class != b.Class {
		return a.Class < b.Class
	}
	if a.Port != b.Port {
		return a.Port < b.Port
	}
	return a.n < b.n
}

type item[V any] struct {
	key Key
	val V
}

// Queue is a binary heap of events. The zero value is ready; it is not for concurrent use. In the steady state
// it allocates nothing.
type Queue[V any] struct {
	h []item[V]
	n uint64
}

// Len is the number of events that wait.
func (q *Queue[V]) Len() int { return len(q.h) }

// Next is the time of the first event, Never when there is none.
func (q *Queue[V]) Next() Time {
	if len(q.h) == 0 {
		return Never
	}
	return q.h[0].key.T
}

// Mark is a place in the order of insertion: what is in the queue now is before it, what is added later is not.
func (q *Queue[V]) Mark() uint64 { return q.n }

// Push adds an event.
func (q *Queue[V]) Push(t Time, c Class, port int, v V) {
	q.n++
	q.h = append(q.h, item[V]{Key{t, c, uint16(port), q.n}, v})
	i := len(q.h) - 1
	for i > 0 {
		p := (i - 1) / 2
		if !q.h[i].key.less(&q.h[p].key) {
			break
		}
		q.h[i], q.h[p] = q.h[p], q.h[i]
		i = p
	}
}

// Pop takes the first event. It panics on an empty queue.
func (q *Queue[V]) Pop() (Key, V) {
	top := q.h[0]
	last := len(q.h) - 1
	q.h[0] = q.h[last]
	q.h[last] = item[V]{}
	q.h = q.h[:last]
	q.down(0)
	return top.key, top.val
}

// RemoveIf drops the events for which drop says so, and keeps the order of the rest.
func (q *Queue[V]) RemoveIf(drop func(Key, V) bool) {
	old := q.h
	q.h = q.h[:0]
	kept := old[:0]
	for _, it := range old {
		if !drop(it.key, it.val) {
			kept = append(kept, it)
		}
	}
	for i := len(kept); i < len(old); i++ {
		old[i] = item[V]{}
	}
	q.h = kept
	for i := len(q.h)/2 - 1; i >= 0; i-- {
		q.down(i)
	}
}

func (q *Queue[V]) down(i int) {
	for {
		c := 2*i + 1
		if c >= len(q.h) {
			return
		}
		if c+1 < len(q.h) && q.h[c+1].key.less(&q.h[c].key) {
			c++
		}
		if !q.h[c].key.less(&q.h[i].key) {
			return
		}
		q.h[i], q.h[c] = q.h[c], q.h[i]
		i = c
	}
}
