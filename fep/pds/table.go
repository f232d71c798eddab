package pds

import (
	"math/bits"
	"math/rand/v2"

	"github.com/uetlab/uetlab/wire"
)

// pdcQueue is a FIFO of PDCs in a ring that grows.
type pdcQueue struct {
	ring []*PDC
	head int
	n    int
}

func (q *pdcQueue) push(p *PDC) {
	if q.n == len(q.ring) {
		grown := make([]*PDC, max(16, 2*len(q.ring)))
		for i := range q.n {
			grown[i] = q.ring[(q.head+i)&(len(q.ring)-1)]
		}
		q.ring, q.head = grown, 0
	}
	q.ring[(q.head+q.n)&(len(q.ring)-1)] = p
	q.n++
}

func (q *pdcQueue) pop() *PDC {
	if q.n == 0 {
		return nil
	}
	p := q.ring[q.head]
	q.ring[q.head] = nil
	q.head = (q.head + 1) & (len(q.ring) - 1)
	q.n--
	return p
}

// pdcTable holds the PDCs by their local id. The low bits of an id are a slot, the high bits change with every use of the
// slot, and slots are used in turn: an id comes back as late as it can.
type pdcTable struct {
	slots []*PDC
	ids   []uint16            // next id of every slot
	last  map[uint16]wire.PSN // by id: the last PSN that its previous user sent
	free  []uint16            // slots, FIFO in a ring
	head  int
	n     int // free ones
	shift uint
}

func (t *pdcTable) reset(size int, rng *rand.Rand) {
	t.shift = uint(bits.Len(uint(size - 1)))
	t.slots, t.ids, t.last = make([]*PDC, size), make([]uint16, size), map[uint16]wire.PSN{}
	t.free, t.head, t.n = make([]uint16, size), 0, size
	gen := rng.Uint32()
	for i := range t.slots {
		t.free[i] = uint16(i)
		t.ids[i] = uint16(gen<<t.shift) | uint16(i)
	}
	if t.shift == 16 {
		t.n, t.free = size-1, t.free[1:] // slot 0 would have id 0 and no other
	}
	t.head = int(gen>>16) % max(1, len(t.free)) // after a restart the ids are not those that peers know
}

func (t *pdcTable) mask() uint16 { return uint16(1<<t.shift - 1) }

func (t *pdcTable) get(id uint16) *PDC {
	slot := int(id & t.mask())
	if slot >= len(t.slots) || t.slots[slot] == nil || t.slots[slot].id != id {
		return nil
	}
	return t.slots[slot]
}

// add gives p an id, and returns false if none is free.
func (t *pdcTable) add(p *PDC) bool {
	if t.n == 0 {
		return false
	}
	slot := t.free[t.head]
	t.head = (t.head + 1) % len(t.free)
	t.n--
	p.id = t.ids[slot]
	if p.id == 0 { // reserved
		t.ids[slot] += 1 << t.shift
		p.id = t.ids[slot]
	}
	t.ids[slot] += 1 << t.shift
	t.slots[slot] = p
	return true
}

func (t *pdcTable) remove(p *PDC) {
	slot := p.id & t.mask()
	t.slots[slot] = nil
	t.free[(t.head+t.n)%len(t.free)] = slot
	t.n++
}

// ringPool keeps rings of idle sources by the logarithm of their size, so that an idle PDC has none of its own.
type ringPool struct{ free [20][][]Packet }

// get gives a ring of 2^log places.
func (p *ringPool) get(log int) []Packet {
	if l := p.free[log]; len(l) > 0 {
		s := l[len(l)-1]
		p.free[log] = l[:len(l)-1]
		return s
	}
	return make([]Packet, 1<<log)
}

// put takes a ring back. It holds on to no message.
func (p *ringPool) put(s []Packet) {
	log := bits.Len(uint(len(s))) - 1
	p.free[log] = append(p.free[log], s)
}
