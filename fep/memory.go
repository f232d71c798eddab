package fep

import (
	"fmt"

	"github.com/uetlab/uetlab/fep/mr"
	"github.com/uetlab/uetlab/wire"
)

// MR is memory to be registered.
type MR struct {
	Buf        Buffer
	Access     mr.Access
	Key        uint64 // 0: the FEP chooses, see package mr
	Job        uint32 // only for messages of this job; 0: for all that reach the endpoint
	RI         uint16 // only for messages to this resource index; 0: to any
	Idempotent bool   // RUDI may use it
	Optimized  bool   // the small header reaches it
	Notify     bool   // what peers do with it has a completion here: OpRemoteWrite, OpRemoteRead, OpRemoteAtomic
}

// registered is what the table of regions keeps of memory. Whoever uses a region over several packets holds the region and asks it
// for this each time: it is nil once the memory was taken back.
type registered struct {
	Buffer
	notify bool
	only   *peer       // nobody else may use it; nil: all may
	send   *txMsg      // it is the buffer of a rendezvous send
	driven *drivenRecv // it is the buffer of a receive (AI Base)
}

type (
	region = mr.Region[*registered]
	memory = mr.Table[*registered]
)

// RegisterMR opens memory to peers and returns its key. It fails with the errors of package mr, and ErrClosed.
func (ep *Endpoint) RegisterMR(m MR) (key uint64, err error) {
	if ep.closed {
		return 0, ErrClosed
	}
	r, err := ep.mem.Register(mr.Config{Size: uint64(len(m.Buf.B)), Access: m.Access, Key: m.Key, Job: m.Job, RI: m.RI,
		Idempotent: m.Idempotent, Optimized: m.Optimized}, &registered{Buffer: m.Buf, notify: m.Notify})
	if err != nil {
		return 0, fmt.Errorf("fep: %w", err)
	}
	return r.Key(), nil
}

// Deregister takes memory back. When it returns the FEP holds no reference to it: what is under way with it ends in an error, with
// BAD_MKEY at a peer that writes, and return data without data at one that reads. It fails if there is no such key.
func (ep *Endpoint) Deregister(key uint64) error {
	if err := ep.mem.Deregister(key); err != nil {
		return fmt.Errorf("fep: %w", err)
	}
	return nil
}

// access is what a request needs to be allowed to do.
func access(op wire.Opcode) mr.Access {
	switch op {
	case wire.OpWrite:
		return mr.RemoteWrite
	case wire.OpRead:
		return mr.RemoteRead
	}
	return mr.RemoteAtomic
}

// lookup finds the memory that an RMA or an atomic names, and checks it as a whole (uet-pds-ses.md 16.1, 17.1 item 11), so that a bad
// one changes no byte.
func (ep *Endpoint) lookup(q *packet, rights mr.Access) (*region, wire.ReturnCode) {
	want := mr.Request{Key: q.match, Access: rights, Job: q.head.JobID(), RI: q.head.ResourceIndex(), Offset: q.offset,
		Length: uint64(q.length), Idempotent: q.rudi}
	if q.next == wire.NextRequestSmall {
		want.Key = uint64(q.head.ResourceIndex())
		return ep.mem.LookupSmall(&want)
	}
	return ep.mem.Lookup(&want)
}
