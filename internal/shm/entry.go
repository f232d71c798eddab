package shm

// Op is what a submission asks for and what a completion ends.
type Op uint8

// Operations. Those from OpRemoteWrite on are only in completions, OpWake and OpCancel are about the process itself.
const (
	OpNop Op = iota
	OpSend
	OpRecv
	OpTagSend
	OpTagRecv
	OpWrite
	OpRead
	OpDatagram
	OpAtomic
	OpFetchAtomic
	OpCompareAtomic
	OpRemoteWrite
	OpRemoteRead
	OpRemoteAtomic
	OpWake   // completes at a virtual time
	OpCancel // takes a receive back
	NumOps
)

// Flags of submissions and completions.
const (
	FlagData             = 1 << iota // Data goes with the message, or came with it
	FlagInject                       // the buffer is copied when the submission is taken
	FlagDeliveryComplete             // complete when the data is placed at the peer
	FlagMultiRecv                    // many messages into one buffer; in a completion: the buffer is used up
	FlagIdempotent                   // may be executed more than once (RUDI)
	FlagShared                       // Object is a shared receive queue
	FlagAbsolute                     // of OpWake: Offset is a virtual time, not a time from now
	FlagRun                          // of OpWake: not at a time, but when a run begins in which the process is a rank
)

// Region 0 is no memory: a buffer of no bytes.
const NoRegion = 0

// SQE is a submission, 128 bytes.
type SQE struct {
	Op      Op     // at 0
	_       uint8  //
	Object  uint16 // at 2: endpoint, or shared receive queue
	Flags   uint32 // at 4
	Ctx     uint64 // at 8: comes back in the completion
	Peer    int32  // at 16: index in the address vector; of a receive -1: from anybody
	Region  uint32 // at 20: memory of the buffer; NoRegion: of no bytes, or a fetching atomic without operands
	Buf     uint64 // at 24: offset in Region
	Len     uint64 // at 32
	Tag     uint64 // at 40: match bits
	Ignore  uint64 // at 48: bits of Tag that need not match
	Key     uint64 // at 56: remote key
	Offset  uint64 // at 64: remote offset; of OpWake: ns; of OpCancel: the Ctx of the receive
	Data    uint64 // at 72: header data
	AOp     uint8  // at 80: atomic operator and …
	AType   uint8  // … datatype, as on the wire
	_       uint16
	RRegion uint32 // at 84: where a fetching atomic puts the old value, Len bytes
	RBuf    uint64 // at 88
	CRegion uint32 // at 96: compare operands, Len bytes
	_       uint32
	CBuf    uint64   // at 104
	_       [16]byte // zeros
}

// CQE is a completion, 128 bytes.
type CQE struct {
	Op     Op     // at 0
	_      uint8  //
	Object uint16 // at 2: endpoint
	Flags  uint32 // at 4
	Ctx    uint64 // at 8: of the submission; of a peer's operation: the memory's key
	Len    uint64 // at 16
	Tag    uint64 // at 24
	Data   uint64 // at 32
	Peer   int32  // at 40: index in the address vector, -1: not there
	Status Status // at 44
	Detail uint32 // at 48: of StatusResponse the return code, of StatusPDC PDCID | NACK code << 16
	_      uint32
	Offset uint64   // at 56: where in the buffer (multi-receive) or memory (peer's operation)
	Key    uint64   // at 64
	Posted int64    // at 72: virtual ns
	Acked  int64    // at 80
	Now    int64    // at 88: when it was handed over
	_      [32]byte // zeros
}

// Status is how an operation or a request ended.
type Status uint32

// Statuses.
const (
	StatusOK          Status = iota
	StatusTruncated          // the buffer was too small
	StatusAborted            // the sender gave up
	StatusCancelled          // taken back
	StatusClosed             // the endpoint was closed
	StatusNoData             // a read whose data does not come
	StatusAgain              // too much is open
	StatusPeer               // not in the address vector, or not for this endpoint
	StatusTooLarge           // longer than a message may be
	StatusDatagram           // longer than one packet
	StatusResponse           // the target's return code is in Detail
	StatusPDC                // the PDC failed
	StatusMemory             // no such memory, beyond its end, or not to be read or written
	StatusInvalid            // malformed
	StatusObject             // no such endpoint, queue or vector
	StatusReset              // a run began: the FEP forgot all operations
	StatusLimit              // a limit of this process
	StatusVersion            // another version of the protocol
	StatusJob                // the job is not known or its token is another
	StatusPID                // the PIDonFEP is taken
	StatusBusy               // in use by something else
	StatusSeals              // memory that could shrink, or is not a memfd
	StatusAccess             // the process' memory cannot be reached
	StatusUnsupported        // not in the profile of both ends
	StatusOther              // anything else
	StatusNoReceive          // no receive at the target in time
	StatusSource             // a receive of AI Base that is for any source or for several messages
	numStatus
)

var statusText = [numStatus]string{"ok", "truncated: the receive buffer was too small", "aborted by its sender", "cancelled", "endpoint closed",
	"read without data", "too many operations are open: wait for a completion", "unknown peer: insert its address first",
	"message too large", "datagram too large for one packet", "the target answered with an error", "the packet delivery context failed",
	"buffer outside of registered memory", "malformed", "no such endpoint, queue or address vector", "a run began, which forgets all operations",
	"limit of the process reached", "another version of the protocol", "job not known, or wrong token", "PIDonFEP is taken",
	"in use: close what uses it first", "memory must be a memfd sealed with F_SEAL_SHRINK, of at least the length told",
	"memory of the process cannot be reached: allow process_vm_readv (ptrace) or use shared memory",
	"not in the profile that both ends have", "failed", "no receive at the target in time",
	"an AI Base receive must name its source, and serve one message"}

func (s Status) String() string {
	if s >= numStatus {
		return "unknown status"
	}
	return statusText[s]
}
