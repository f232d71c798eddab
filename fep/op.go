package fep

import (
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// Kind is the kind of an operation.
type Kind uint8

// Kinds of operations. The last three exist in completions only: a peer did that to our memory.
const (
	OpSend          Kind = iota // to the next untagged receive of the peer
	OpRecv                      // the next untagged message
	OpTagSend                   // to the receive that the peer posted for the tag
	OpTagRecv                   // a message with the tag
	OpWrite                     // into the peer's memory
	OpRead                      // from the peer's memory
	OpDatagram                  // one unreliable packet to the next untagged receive (UUD)
	OpAtomic                    // computes in the peer's memory
	OpFetchAtomic               // the same, and brings the old value
	OpCompareAtomic             // compare and swap, and brings the old value
	OpRemoteWrite
	OpRemoteRead
	OpRemoteAtomic
	numOpKinds // no kind
)

var kindNames = [numOpKinds]string{"send", "recv", "tsend", "trecv", "write", "read", "datagram", "atomic", "fetch_atomic",
	"compare_atomic", "remote_write", "remote_read", "remote_atomic"}

// String is libfabric's name for the operation.
func (k Kind) String() string {
	if k >= numOpKinds {
		return "invalid"
	}
	return kindNames[k]
}

// Flags say how an operation is to be done, and in a completion what it brings.
type Flags uint8

// Flags of operations and completions.
const (
	FlagData             Flags = 1 << iota // Data goes with a send or a write; in a completion: it came
	FlagInject                             // the buffer is free as soon as Post returns; up to InjectSize bytes
	FlagDeliveryComplete                   // the target answers only when the data can be seen there
	FlagMultiRecv                          // receive: the buffer takes messages until less than MinMultiRecv is left; completion: it is free again
	FlagIdempotent                         // write or read without a PDC (RUDI): it may be done more than once
)

// AnySource is the Peer of a receive that takes messages of everybody.
const AnySource = -1

// InjectSize is the longest message, in bytes, that FlagInject allows.
const InjectSize = 4096

// MaxMessage is the longest message, in bytes (uet-pds-ses.md 13.1).
const MaxMessage = 1<<32 - 2

// Buffer is memory of the application. It belongs to the FEP from Post to the completion.
type Buffer struct {
	B    []byte
	Sync Syncer // nil if FEP and application share B; else B is the FEP's copy of it
}

// Syncer keeps a FEP's copy of memory equal to the application's.
type Syncer interface {
	Pull(off, n int) error // brings these bytes of the copy up to date, before they are read
	Push(off, n int) error // writes these bytes of the copy back, after they were written
}

// pull readies n bytes at off for reading.
func (b *Buffer) pull(off, n int) error {
	if b.Sync == nil || n == 0 {
		return nil
	}
	return b.Sync.Pull(off, n)
}

// push makes n bytes at off, just written, visible.
func (b *Buffer) push(off, n int) error {
	if b.Sync == nil || n == 0 {
		return nil
	}
	return b.Sync.Push(off, n)
}

// Op is an operation to be posted.
type Op struct {
	Kind        Kind
	Flags       Flags
	Peer        int    // index in the address vector; of a receive: the source, or AnySource
	Buf         Buffer // what is sent or written, or received or read into; of an atomic its operands
	Tag, Ignore uint64 // tagged; Ignore, of a receive: bits of Tag that need not match (HPC)
	Key, Offset uint64 // of the peer's memory: key, and byte offset
	Data        uint64 // with FlagData
	Job         uint32 // of a receive on an absolute endpoint: only messages of this job may have it; 0: all
	Atomic      wire.AtomicOp
	Type        wire.AtomicType
	Result      Buffer // fetching atomics: the old value
	Compare     Buffer // compare atomics: what the old value is compared with
	Ctx         uint64 // comes back with the completion
}

// Completion ends one operation. Every operation that Post accepted has exactly one, unless a Reset comes first.
type Completion struct {
	Kind   Kind
	Flags  Flags // FlagData, FlagMultiRecv
	Ctx    uint64
	Len    int    // bytes of the message; of a receive: bytes placed
	Tag    uint64 // match bits; of RMA and atomics: the memory key
	Data   uint64 // with FlagData
	Src    int    // the peer's index in the address vector, -1 if it is not there
	Key    uint64 // OpRemote…: of our memory
	Offset int    // multi-receive: where in the buffer the message lies; OpRemote…: where in the region
	Err    error  // nil, *ResponseError, *PDCError, or one of this package's

	Posted vt.Time // when the operation was posted; OpRemote…: when its first packet came
	// Acked is when a send or write was wholly acknowledged at the sender: the flow completion time is Acked - Posted.
	// Of a receive it is when its last byte arrived.
	Acked vt.Time
}
