package vt

// ref is a heap's reference to an event: most comparisons need no look at the event itself.
type ref struct {
	t    Time
	rank uint32
	slot uint32
}

func (q *Queue[V]) before(a, b ref) bool {
	if a.t != b.t {
		return a.t < b.t
	}
	if a.rank != b.rank {
		return a.rank < b.rank
	}
	return q.slab[a.slot].n < q.slab[b.slot].n
}

// pushHeap adds r to the heap, in which an entry has up to four children.
func (q *Queue[V]) pushHeap(r ref) {
	q.heap = append(q.heap, r)
	h := q.heap
	i := len(h) - 1
	for i > 0 {
		p := (i - 1) / 4
		if !q.before(r, h[p]) {
			break
		}
		h[i] = h[p]
		i = p
	}
	h[i] = r
}

// popHeap removes the first entry of the heap.
func (q *Queue[V]) popHeap() {
	last := len(q.heap) - 1
	q.heap[0] = q.heap[last]
	q.heap = q.heap[:last]
	if last > 1 {
		q.down(0)
	}
}

// down moves entry i to where none of its children comes before it.
func (q *Queue[V]) down(i int) {
	h := q.heap
	r := h[i]
	for {
		c := 4*i + 1
		if c >= len(h) {
			break
		}
		best := c
		for j := c + 1; j < min(c+4, len(h)); j++ {
			if q.before(h[j], h[best]) {
				best = j
			}
		}
		if !q.before(h[best], r) {
			break
		}
		h[i] = h[best]
		i = best
	}
	h[i] = r
}
