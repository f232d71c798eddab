package vt

// heapQueue is a plain binary heap with the methods of Queue: the reference for its order, and what its speed is
// measured against.
type heapQueue[V any] struct {
	h []heapItem[V]
	n uint64
}

type heapItem[V any] struct {
	key Key
	val V
}

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

func (q *heapQueue[V]) Len() int { return len(q.h) }

func (q *heapQueue[V]) Next() Time {
	if len(q.h) == 0 {
		return Never
	}
	return q.h[0].key.T
}

func (q *heapQueue[V]) Push(t Time, c Class, port int, v V) {
	q.n++
	q.h = append(q.h, heapItem[V]{Key{t, c, uint16(port), q.n}, v})
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

func (q *heapQueue[V]) Pop() (Key, V) {
	top := q.h[0]
	last := len(q.h) - 1
	q.h[0] = q.h[last]
	q.h[last] = heapItem[V]{}
	q.h = q.h[:last]
	q.down(0)
	return top.key, top.val
}

func (q *heapQueue[V]) down(i int) {
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
