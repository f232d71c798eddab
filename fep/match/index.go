package match

import "math/bits"

// link is the place of an element in one ring, part of the element: nothing is allocated to queue it.
type link[E any] struct {
	next, prev *link[E]
	of         *E
	key        key // under which the ring stands in an index
}

// ring is elements in order, closed to a circle: the youngest stands before the eldest.
type ring[E any] struct{ eldest *link[E] }

// push appends the link.
func (r *ring[E]) push(l *link[E]) {
	head := r.eldest
	if head == nil {
		l.next, l.prev, r.eldest = l, l, l
		return
	}
	l.next, l.prev = head, head.prev
	head.prev.next = l
	head.prev = l
}

// drop takes the link out.
func (r *ring[E]) drop(l *link[E]) {
	if l.next == l {
		r.eldest = nil
	} else {
		l.prev.next, l.next.prev = l.next, l.prev
		if r.eldest == l {
			r.eldest = l.next
		}
	}
	l.next, l.prev = nil, nil
}

// first is the eldest element, nil if there is none.
func (r *ring[E]) first() *E {
	if r.eldest == nil {
		return nil
	}
	return r.eldest.of
}

// after is the element that follows, nil behind the youngest.
func (r *ring[E]) after(l *link[E]) *E {
	if l.next == nil || l.next == r.eldest {
		return nil
	}
	return l.next.of
}

// key is what the elements of a ring have in common. Kind keeps keys of different make apart.
type key struct {
	tag  uint64
	from uint32
	kind uint32
}

// slot is one place of the table; it is empty when its ring is.
type slot[E any] struct {
	hash uint64
	ring ring[E]
}

// minSlots is the size of the smallest table.
const minSlots = 16

// index is a hash table from a key to the ring of all elements that have it: linear probing, at most half full, and removal
// moves the followers up, so it never has to be cleaned. It grows and never shrinks. No result depends on the order of its
// slots, so none depends on the seed.
type index[E any] struct {
	slots []slot[E]
	used  int
	seed  [3]uint64
}

func newIndex[E any](seed uint64) index[E] {
	var x index[E]
	for i := range x.seed {
		seed += 0x9e3779b97f4a7c15
		x.seed[i] = fold(seed^0xd1b54a32d192ed03, seed|1)
	}
	return x
}

// fold multiplies to 128 bits and lays the halves over each other.
func fold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

// hash depends on the seed in each step: who does not know it cannot choose tags that collide.
func (x *index[E]) hash(k key) uint64 {
	h := fold(k.tag^x.seed[0], (uint64(k.from)<<32|uint64(k.kind))^x.seed[1])
	return fold(h^k.tag^x.seed[2], 0x9fb21c651e98df25)
}

// at is the slot of a key, or the empty one where it belongs. The table must not be empty.
func (x *index[E]) at(k key, h uint64) int {
	mask := len(x.slots) - 1
	for i := int(h) & mask; ; i = (i + 1) & mask {
		s := &x.slots[i]
		if s.ring.eldest == nil || s.hash == h && s.ring.eldest.key == k {
			return i
		}
	}
}

// find is the eldest element with the key.
func (x *index[E]) find(k key) *link[E] {
	if x.used == 0 {
		return nil
	}
	return x.slots[x.at(k, x.hash(k))].ring.eldest
}

// add appends the link to the ring of its key.
func (x *index[E]) add(l *link[E]) {
	if 2*(x.used+1) > len(x.slots) {
		x.grow()
	}
	h := x.hash(l.key)
	s := &x.slots[x.at(l.key, h)]
	if s.ring.eldest == nil {
		s.hash = h
		x.used++
	}
	s.ring.push(l)
}

// remove takes the link out of the ring of its key.
func (x *index[E]) remove(l *link[E]) {
	i := x.at(l.key, x.hash(l.key))
	s := &x.slots[i]
	s.ring.drop(l)
	if s.ring.eldest == nil {
		x.used--
		x.close(i)
	}
}

// close fills the gap at slot i: what was pushed behind it by the search for a free place moves up.
func (x *index[E]) close(i int) {
	mask := len(x.slots) - 1
	for j := (i + 1) & mask; x.slots[j].ring.eldest != nil; j = (j + 1) & mask {
		home := int(x.slots[j].hash) & mask
		if (j-home)&mask >= (j-i)&mask { // its search comes by the gap
			x.slots[i], x.slots[j] = x.slots[j], slot[E]{}
			i = j
		}
	}
}

func (x *index[E]) grow() {
	old := x.slots
	x.slots = make([]slot[E], max(minSlots, 2*len(old)))
	for i := range old {
		if head := old[i].ring.eldest; head != nil {
			x.slots[x.at(head.key, old[i].hash)] = old[i]
		}
	}
}
