package shm

import (
	"fmt"
	"sync/atomic"
	"unsafe"
)

// Page is what a process and its FEP tell each other all the time. Each cache line has one writer; a side keeps copies of what it
// wrote and never reads its own words back.
type Page struct {
	Magic     uint32 // at 0
	Version   uint32
	SQEntries uint32
	SQOffset  uint32
	_         [48]byte

	// At 64, written by the FEP when it hands something over.
	Hold      atomic.Uint64 // counts the times at which the FEP began to wait for the process
	Now       atomic.Int64  // virtual time of the last of them, ns
	Flags     atomic.Uint32 // PageReal …
	_         uint32
	Virt0     atomic.Int64  // with PageReal: virtual time …
	Wall0     atomic.Int64  // … at this CLOCK_MONOTONIC ns
	FreeCalls atomic.Uint64 // operations that were taken while the process was free, or came unasked
	_         [16]byte

	// At 128, written by the FEP.
	SQHead    atomic.Uint32 // submissions taken
	FEPSleeps atomic.Uint32 // 1: ring the bell after a submission or a wait
	_         [56]byte

	SQTail atomic.Uint32 // at 192, written by the process: submissions made
	_      [60]byte

	Wait atomic.Uint64 // at 256, written by the process: the last Hold after which all its threads wait
	_    [56]byte

	Sleeps atomic.Uint32 // at 320, written by the process: 1: send a doorbell message after a completion
	_      [60]byte
}

// Flags of a page.
const (
	PageReal = 1 << iota // virtual time is the wall's
	PageFree             // the FEP does not wait for the process: it asked for that, or left it waiting for too long
)

// SQ is a mapped page with its submission ring.
type SQ struct {
	*Page
	mem  []byte
	size uint32 // entries, never read back from the page
}

// SQLen is the length of a page and a ring of that many entries.
func SQLen(entries int) int { return PageLen + entries*EntryLen }

// RingSize rounds a wanted number of entries up to a power of two between 8 and MaxRing.
func RingSize(want, standard uint32) uint32 {
	if want == 0 {
		want = standard
	}
	n := uint32(8)
	for n < min(want, MaxRing) {
		n *= 2
	}
	return n
}

// NewSQ lays a page and a ring into memory of zeros, as the FEP does.
func NewSQ(mem []byte, entries uint32) *SQ {
	q := &SQ{Page: (*Page)(unsafe.Pointer(unsafe.SliceData(mem))), mem: mem, size: entries}
	q.Magic, q.Version, q.SQEntries, q.SQOffset = Magic, Version, entries, PageLen
	return q
}

// OpenSQ looks at memory in which the FEP has laid a page and a ring, as the process does.
func OpenSQ(mem []byte) (*SQ, error) {
	if len(mem) < PageLen {
		return nil, fmt.Errorf("shm: page of %d bytes: too short", len(mem))
	}
	q := &SQ{Page: (*Page)(unsafe.Pointer(unsafe.SliceData(mem))), mem: mem}
	q.size = q.SQEntries
	if q.Magic != Magic || q.Version != Version || q.SQOffset != PageLen || q.size&(q.size-1) != 0 || len(mem) < SQLen(int(q.size)) {
		return nil, fmt.Errorf("shm: magic %#x, version %d, ring of %d: not a page of this version", q.Magic, q.Version, q.size)
	}
	return q, nil
}

// Size is the ring's number of entries.
func (q *SQ) Size() uint32 { return q.size }

func (q *SQ) entry(i uint32) *SQE {
	return (*SQE)(unsafe.Pointer(&q.mem[PageLen+int(i&(q.size-1))*EntryLen]))
}

// Take copies submission i, once; what the process does to the ring meanwhile cannot change it any more.
func (q *SQ) Take(i uint32, into *SQE) { copyEntry(unsafe.Pointer(into), unsafe.Pointer(q.entry(i))) }

// Put writes submission i; the process publishes it with SQTail.
func (q *SQ) Put(i uint32, e *SQE) { *q.entry(i) = *e }

//go:noinline
func copyEntry(to, from unsafe.Pointer) { *(*[EntryLen]byte)(to) = *(*[EntryLen]byte)(from) }

// CQ is a mapped completion ring.
type CQ struct {
	*cqHead
	mem  []byte
	size uint32
}

type cqHead struct {
	Magic   uint32 // at 0
	Entries uint32
	_       [56]byte

	Tail     atomic.Uint32 // at 64, written by the FEP: completions made
	Overflow atomic.Uint32 // completions of peers' one-sided operations that found no room
	Dropped  atomic.Uint32 // completions without room because the process had more operations open than it has room for
	_        [52]byte

	Head atomic.Uint32 // at 128, written by the process: completions taken
	_    [60]byte
}

// CQLen is the length of a completion ring.
func CQLen(entries int) int { return CQBase + entries*EntryLen }

// NewCQ lays a ring into memory of zeros, as the FEP does.
func NewCQ(mem []byte, entries uint32) *CQ {
	c := &CQ{cqHead: (*cqHead)(unsafe.Pointer(unsafe.SliceData(mem))), mem: mem, size: entries}
	c.Magic, c.Entries = Magic, entries
	return c
}

// OpenCQ looks at memory in which the FEP has laid a ring.
func OpenCQ(mem []byte) (*CQ, error) {
	if len(mem) < CQBase {
		return nil, fmt.Errorf("shm: completion ring of %d bytes: too short", len(mem))
	}
	c := &CQ{cqHead: (*cqHead)(unsafe.Pointer(unsafe.SliceData(mem))), mem: mem}
	c.size = c.Entries
	if c.Magic != Magic || c.size&(c.size-1) != 0 || len(mem) < CQLen(int(c.size)) {
		return nil, fmt.Errorf("shm: completion ring of %d entries in %d bytes: not one of this version", c.size, len(mem))
	}
	return c, nil
}

// Size is the ring's number of entries.
func (c *CQ) Size() uint32 { return c.size }

// Put writes completion i; the FEP publishes it with Tail.
func (c *CQ) Put(i uint32, e *CQE) {
	*(*CQE)(unsafe.Pointer(&c.mem[CQBase+int(i&(c.size-1))*EntryLen])) = *e
}

// Take copies completion i.
func (c *CQ) Take(i uint32, into *CQE) {
	*into = *(*CQE)(unsafe.Pointer(&c.mem[CQBase+int(i&(c.size-1))*EntryLen]))
}
