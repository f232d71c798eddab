package fep

import (
	"math/bits"
	"math/rand/v2"
	"net/netip"

	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// pdcQueue is a FIFO of PDCs in a ring that grows.
type pdcQueue struct {
	ring []*pdc
	head int
	n    int
}

func (q *pdcQueue) push(p *pdc) {
	if q.n == len(q.ring) {
		grown := make([]*pdc, max(16, 2*len(q.ring)))
		for i := range q.n {
			grown[i] = q.ring[(q.head+i)&(len(q.ring)-1)]
		}
		q.ring, q.head = grown, 0
	}
	q.ring[(q.head+q.n)&(len(q.ring)-1)] = p
	q.n++
}

func (q *pdcQueue) pop() *pdc {
	if q.n == 0 {
		return nil
	}
	p := q.ring[q.head]
	q.ring[q.head] = nil
	q.head = (q.head + 1) & (len(q.ring) - 1)
	q.n--
	return p
}

// ctlMsg describes an ACK, NACK or control packet that waits for the port. What may change until then (CACK, SACK) is
// read from the PDC when the packet is built.
type ctlMsg struct {
	kind    wire.PDSType // TypeAckCC, TypeNack or TypeCtrl
	p       *pdc         // ACK: the PDC; else nil
	peer    netip.Addr
	spdcid  uint16
	dpdcid  uint16
	ev      uint16
	opaque  uint16
	psn     wire.PSN
	payload uint32
	code    wire.NackCode
	ctl     wire.CtlType
	flags   uint8 // AckFlags, NackFlags or CtrlFlags
	req     wire.AckReq
	resp    response
	hasResp bool
	arrived vt.Time // ACK: of the packet it answers
}

// maxCtl bounds the control queue: whoever floods us with nonsense gets no answer to all of it.
const maxCtl = 8192

// ctlQueue is a FIFO of descriptors in a ring that grows to maxCtl.
type ctlQueue struct {
	ring []ctlMsg
	head int
	n    int
}

// push returns a cleared place, or nil if the queue is full.
func (q *ctlQueue) push() *ctlMsg {
	if q.n == len(q.ring) {
		if q.n == maxCtl {
			return nil
		}
		grown := make([]ctlMsg, max(32, 2*len(q.ring)))
		for i := range q.n {
			grown[i] = q.ring[(q.head+i)&(len(q.ring)-1)]
		}
		q.ring, q.head = grown, 0
	}
	c := &q.ring[(q.head+q.n)&(len(q.ring)-1)]
	*c = ctlMsg{}
	q.n++
	return c
}

func (q *ctlQueue) pop() ctlMsg {
	c := q.ring[q.head]
	q.ring[q.head].p = nil
	q.head = (q.head + 1) & (len(q.ring) - 1)
	q.n--
	return c
}

// midPool hands out message IDs 1..0xFFFE, each once among the outstanding messages of the FEP.
type midPool struct {
	used [1 << 10]uint64
	next uint16
	n    int
}

func (m *midPool) reset() { *m = midPool{next: 1} }

// get returns 0 if all are taken.
func (m *midPool) get() uint16 {
	if m.n == 0xFFFE {
		return 0
	}
	for m.next == 0 || m.next == 0xFFFF || m.used[m.next>>6]>>(m.next&63)&1 != 0 {
		m.next++
	}
	id := m.next
	m.used[id>>6] |= 1 << (id & 63)
	m.n++
	m.next++
	return id
}

func (m *midPool) put(id uint16) {
	m.used[id>>6] &^= 1 << (id & 63)
	m.n--
}

// pdcTable holds the PDCs by their local id. The low bits of an id are a slot, the high bits change with every use of the
// slot, and slots are used in turn: an id comes back as late as it can.
type pdcTable struct {
	slots []*pdc
	ids   []uint16   // next id of every slot
	last  []wire.PSN // last PSN that the slot's previous user sent
	free  []uint16   // slots, FIFO in a ring
	head  int
	n     int // free ones
	shift uint
}

func (t *pdcTable) reset(size int, rng *rand.Rand) {
	t.shift = uint(bits.Len(uint(size - 1)))
	t.slots, t.ids, t.last = make([]*pdc, size), make([]uint16, size), make([]wire.PSN, size)
	t.free, t.head, t.n = make([]uint16, size), 0, size
	gen := rng.Uint32()
	for i := range t.slots {
		t.free[i] = uint16(i)
		t.ids[i] = uint16(gen<<t.shift) | uint16(i)
	}
	if t.shift == 16 {
		t.n, t.free = size-1, t.free[1:] // slot 0 would have id 0 and no other
	}
}

func (t *pdcTable) mask() uint16 { return uint16(1<<t.shift - 1) }

func (t *pdcTable) get(id uint16) *pdc {
	slot := int(id & t.mask())
	if slot >= len(t.slots) || t.slots[slot] == nil || t.slots[slot].id != id {
		return nil
	}
	return t.slots[slot]
}

// add gives p an id, and returns false if none is free.
func (t *pdcTable) add(p *pdc) bool {
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

func (t *pdcTable) remove(p *pdc) {
	slot := p.id & t.mask()
	t.slots[slot] = nil
	t.free[(t.head+t.n)%len(t.free)] = slot
	t.n++
}
