// Package link is the port model that end points and switches share: frames and their pool, the egress queue, the
// serializer that stamps due times, impairments and counters. It knows no socket and no clock; frames leave through
// an interface, so the same port serves a real veth and the simulator.
package link

import (
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// Frame is one Ethernet frame without link trailer and FCS. It has one owner at a time: whoever is handed a frame
// passes it on or gives it back to its Pool.
//
// What every hop touches stands in the first 64 bytes, a cache line.
type Frame struct {
	B      []byte  // the frame; its capacity leaves room for the trailer
	Due    vt.Time // when its last bit reaches the receiving end
	Queued vt.Time // when it came into the egress queue that it waits in, or waited in
	next   *Frame

	Queue   uint8 // egress queue that it waits in, or waited in at the last port
	In      uint8 // for the node's core: port that it came in by
	Group   uint8 // for the node's core: what it was counted under there
	Damaged bool  // bits of B were flipped on the line
	kind    frameKind
	used    bool
	Flip    uint8  // 1 + the bit of LLR that was flipped on the line; 0: none, the preamble is as sent
	FCS     uint32 // what the sender's frame check sequence says, where Damaged
	LLR     uint32 // LLR word of the trailer, which stands for the preamble; 0: not protected

	ref  []byte // payload that is not in B yet, see Refer
	pool *Pool
	owed *credits // the port that counts it as stored, see settle; nil: none
	cost uint16   // in credits there
	vc   uint8    // of this channel
	_    [20]byte
}

// Room is what a pool keeps behind the longest frame for the link trailer.
const Room = 24

// Pool hands out frames of one capacity and takes them back. It is not for concurrent use. Its memory grows to the
// largest number of frames that were out at once, and is used last in, first out.
type Pool struct {
	// Arena gives memory for frames, n zeroed bytes at a time, that is never given back; nil: the heap.
	Arena func(n int) []byte

	size int
	free *Frame
	out  int
}

// NewPool makes a pool for Ethernet frames of up to max bytes.
func NewPool(max int) *Pool { return &Pool{size: max} }

// MaxFrame is the longest frame, in bytes, that fits.
func (p *Pool) MaxFrame() int { return p.size }

// Out is the number of frames in use.
func (p *Pool) Out() int { return p.out }

const chunk = 32

// Get takes an empty frame.
func (p *Pool) Get() *Frame {
	if p.free == nil {
		slot := ((p.size+Room+63)/64 | 1) * 64 // an odd number of cache lines, lest all headers compete for the same few
		mem := p.memory(chunk * slot)
		frames := make([]Frame, chunk)
		for i := range frames {
			frames[i] = Frame{B: mem[i*slot : i*slot : (i+1)*slot], pool: p, next: p.free}
			p.free = &frames[i]
		}
	}
	f := p.free
	p.free, f.next = f.next, nil
	f.B, f.Due, f.used, f.Damaged, f.kind = f.B[:0], 0, true, false, kindUnknown
	f.Queue, f.In, f.Group, f.Flip, f.LLR, f.ref, f.owed = 0, 0, 0, 0, 0, nil, nil
	p.out++
	return f
}

func (p *Pool) memory(n int) []byte {
	if p.Arena != nil {
		return p.Arena(n)
	}
	return make([]byte, n)
}

// Release gives the frame back. Releasing twice is a bug and panics.
func (f *Frame) Release() {
	if !f.used {
		panic("link: frame released twice")
	}
	f.settle()
	p := f.pool
	f.used, f.ref = false, nil
	f.next, p.free = p.free, f
	p.out--
}

// Copy takes a frame with the same contents and state from the same pool.
func (f *Frame) Copy() *Frame {
	g := f.pool.Get()
	head := len(f.B)
	if f.ref != nil {
		head -= len(f.ref) + wire.CRCLen
	}
	g.B = append(g.B, f.B[:head]...)[:len(f.B)]
	b := g.B
	*g = *f
	g.B, g.next, g.owed = b, nil, nil
	return g
}

// Refer appends payload and its UET CRC to a frame that is to end with them, without copying: the bytes (at least one) stay where they are,
// and the room for them in B is not written before somebody asks with Fill. It is for frames that pass by reference, most
// of which nobody ever looks into beyond the headers.
func (f *Frame) Refer(payload []byte) {
	f.B = f.B[:len(f.B)+len(payload)+wire.CRCLen]
	f.ref = payload
}

// Ref is the payload that is not in B, nil if there is none. It is read only.
func (f *Frame) Ref() []byte { return f.ref }

// Fill makes B whole.
func (f *Frame) Fill() {
	if f.ref != nil {
		copy(f.B[len(f.B)-wire.CRCLen-len(f.ref):], f.ref)
		f.ref = nil
		wire.SealUET(f.B)
	}
}

// Cut leaves the first n bytes of the frame.
func (f *Frame) Cut(n int) {
	if f.ref != nil {
		if n > len(f.B)-wire.CRCLen-len(f.ref) {
			f.Fill()
		}
		f.ref = nil
	}
	f.B = f.B[:n]
}

// fifo is an intrusive queue of frames.
type fifo struct {
	head, tail *Frame
	n          int
}

func (q *fifo) push(f *Frame) {
	f.next = nil
	if q.tail == nil {
		q.head = f
	} else {
		q.tail.next = f
	}
	q.tail = f
	q.n++
}

func (q *fifo) pop() *Frame {
	f := q.head
	if f == nil {
		return nil
	}
	q.head = f.next
	if q.head == nil {
		q.tail = nil
	}
	f.next = nil
	q.n--
	return f
}
