// Package mr is the table of memory regions of one process: which keys open which memory to whom (uet-pds-ses.md 1.4, 16.1,
// 17.1 item 11). It decides, it does not move data: what a region's memory is, its owner says with a value of its own type M,
// which the table keeps and hands out. It has no lock and no clock; a look-up costs the same however many regions there are, and allocates nothing.
//
// A key that was revoked opens nothing, at once and for good: keys that the table chose are never given again (of those for
// the small header, which has room for 12 bits only, not before 128 others of that index), and a region that was revoked never
// becomes another one, so that whoever still holds it (a read that is being answered) finds out. It has no memory any more.
//
// A key:
//
//	63               62          61..56  55..48                            47..0
//	IDEMPOTENT_SAFE  OPTIMIZED   0       0: the user chose it              index, any
//	                                     1: we chose it                    generation (24), place (24)
//	                                     generation (7), 1: OPTIMIZED too  index, 0..4095
package mr

import "github.com/uetlab/uetlab/wire"

// The parts of a key.
const (
	KeyIdempotent uint64 = 1 << 63 // the region may be used by RUDI
	KeyOptimized  uint64 = 1 << 62 // the small header reaches the region: its index has 12 bits
	keyChosen     uint64 = 1 << 48 // vendor bit: the table chose the key
	keyIndex      uint64 = 1<<48 - 1
	keyUser              = KeyIdempotent | KeyOptimized | keyIndex

	placeBits = 24
	maxGen    = 1<<24 - 1
	small     = 1 << 12 // indices of OPTIMIZED keys
	smallGen  = 49      // where their generation begins
)

// MaxRegions is the most regions with keys of its own choice that a table holds, the small ones not counted.
const MaxRegions = 1<<placeBits - 1

// Access is a set of rights.
type Access uint8

// The rights. Remote ones are what Lookup grants; local ones are for the owner of the table to ask for.
const (
	LocalRead Access = 1 << iota
	LocalWrite
	RemoteRead
	RemoteWrite
	RemoteAtomic // beside RemoteRead and RemoteWrite as the operation needs them
)

// Config says what a region is.
type Config struct {
	Size   uint64 // bytes; offsets count from 0
	Access Access
	// Key is the user's choice, 1 to 2^48-1 or below 4096 with Optimized; 0 leaves it to the table. Its bits 63 and 62 may be set and
	// mean Idempotent and Optimized; with either, index 0 can be chosen too.
	Key        uint64
	Job        uint32 // only requests of this job; 0: of any
	RI         uint16 // only requests to this resource index of RMA; 0: to any
	Idempotent bool   // usable by RUDI
	Optimized  bool   // reachable by the small header
}

// Region is registered memory. It stays what it is after it was revoked.
type Region[M any] struct {
	cfg     Config
	mem     M
	revoked bool // mem is empty
}

// Key is the region's key as peers must name it.
func (r *Region[M]) Key() uint64 { return r.cfg.Key }

// Memory is what the owner registered; false if the region is revoked.
func (r *Region[M]) Memory() (M, bool) { return r.mem, !r.revoked }

// revoke takes the memory away from whoever holds the region: it keeps no reference to it.
func (r *Region[M]) revoke() {
	var none M
	r.mem, r.revoked = none, true
}

// Request is what a peer asks for.
type Request struct {
	Key        uint64 // of Lookup; LookupSmall takes its index, the low 12 bits
	Access     Access // all rights that it takes
	Job        uint32 // of the packet
	RI         uint16 // resource index of the packet; LookupSmall ignores it
	Offset     uint64 // first byte in the region
	Length     uint64 // bytes
	Idempotent bool   // it came by RUDI
}

// Lookup finds the region of a request of a standard or medium header and returns RCOK, or nil and the first fault in the
// order of uet-pds-ses.md 17.1 item 11: BAD_MKEY for a key that is not registered bit by bit, and alike for one of another
// job or resource index, so that those cannot be probed; PERM_VIOLATION; BAD_ADDR; OP_VIOLATION for RUDI without IDEMPOTENT_SAFE.
func (t *Table[M]) Lookup(q *Request) (*Region[M], wire.ReturnCode) {
	r := t.find(q.Key)
	if r == nil || r.cfg.RI != 0 && r.cfg.RI != q.RI {
		return nil, wire.RCBadMKey
	}
	return r.check(q)
}

// LookupSmall is Lookup for the small header, which has no key: its resource index is the index of a key with OPTIMIZED.
func (t *Table[M]) LookupSmall(q *Request) (*Region[M], wire.ReturnCode) {
	i := q.Key & (small - 1)
	if i >= uint64(len(t.small)) || t.small[i].r == nil {
		return nil, wire.RCBadMKey
	}
	return t.small[i].r.check(q)
}

func (r *Region[M]) check(q *Request) (*Region[M], wire.ReturnCode) {
	c := &r.cfg
	switch {
	case c.Job != 0 && c.Job != q.Job:
		return nil, wire.RCBadMKey
	case q.Access&^c.Access != 0:
		return nil, wire.RCPermViolation
	case q.Offset > c.Size || q.Length > c.Size-q.Offset:
		return nil, wire.RCBadAddr
	case q.Idempotent && !c.Idempotent:
		return nil, wire.RCOpViolation
	}
	return r, wire.RCOK
}

// Recheck tests a region that a message found with its first packet, when a later one comes: RCOK; BAD_MKEY if it was
// revoked since; PERM_VIOLATION if its key names another region now.
func (t *Table[M]) Recheck(r *Region[M]) wire.ReturnCode {
	switch {
	case !r.revoked:
		return wire.RCOK
	case t.find(r.cfg.Key) != nil:
		return wire.RCPermViolation
	}
	return wire.RCBadMKey
}
