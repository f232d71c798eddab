package shm

import (
	"encoding/binary"
	"fmt"
)

// Request is the kind of a control message. A reply has that of its request.
type Request uint16

// Requests.
const (
	ReqHello Request = iota + 1
	ReqCQOpen
	ReqAVOpen
	ReqAVInsert
	ReqAVRemove
	ReqMemory
	ReqEPOpen
	ReqSRXOpen
	ReqMRRegister
	ReqClose
	ReqStat
	ReqDoorbell // only from the FEP: something was handed over
	ReqReport   // what a rank has to say at the end of a run
)

// HeaderLen is the length of a Header, MaxMessage that of the longest message.
const (
	HeaderLen  = 16
	MaxMessage = 4096
)

// Header begins every message, 16 bytes.
type Header struct {
	Kind   Request // at 0
	Status uint16  // at 2, of replies; text follows in place of the payload when it is not 0
	ID     uint32  // at 4: the reply has that of its request
	Detail uint32  // at 8, of replies
	_      uint32
}

// Hello is the payload of ReqHello, 64 bytes.
type Hello struct {
	Magic     uint32
	Version   uint32
	Job       uint32   // at 8: JobID, 24 bits
	PID       int32    // at 12: PIDonFEP, -1: any
	Flags     uint32   // at 16: HelloFree, HelloNear
	SQEntries uint32   // at 20; 0: 256
	Token     [16]byte // at 24: of the job, zeros if it has none
	Name      [24]byte // at 40: of the program, for people
}

// Flags of a Hello.
const (
	HelloFree = 1 << iota // asks the FEP not to wait for the process
	HelloNear             // the process goes to the processor of the Welcome, if that names one, and both look for work there before they sleep
)

// Welcome is the reply to ReqHello, 112 bytes. Descriptors: the page with its submission ring, the eventfd that rings the FEP.
type Welcome struct {
	Version    uint32
	PID        uint32
	Flags      uint32 // at 8: PageReal, PageFree
	PayloadMTU uint32
	InjectSize uint32 // at 16
	SQEntries  uint32
	MaxMessage uint64   // at 24
	Addr       [16]byte // at 32: fabric address, IPv4 as ::ffff:a.b.c.d
	Now        int64    // at 48
	Limits     Limits   // at 56
	Near       uint32   // at 96: 1 + the processor to which the FEP is bound, 0: none, or HelloNear was not asked
	_          [12]byte
}

// Limits of one process, 40 bytes.
type Limits struct {
	Endpoints uint32 // also of shared receive queues and address vectors
	CQs       uint32
	MRs       uint32
	Addresses uint32 // in all address vectors together
	Regions   uint32 // of memory
	Ops       uint32 // posted and not completed
	Bytes     uint64 // of mapped memory
	Copies    uint64 // bytes of operations and registrations in remote memory, at one time
}

// CQOpen asks for a completion ring; the reply is Opened with its memfd.
type CQOpen struct {
	Entries uint32
	_       uint32
}

// Opened is the reply of requests that make something, 8 bytes.
type Opened struct {
	ID    uint32 // from 1, for each kind
	Count uint32 // entries of a ring; addresses inserted
}

// Addr is the address of an endpoint, AddrLen bytes.
type Addr struct {
	FA        [16]byte // fabric address, IPv4 as ::ffff:a.b.c.d
	Initiator uint32   // at 16: what its messages carry for matching
	PID       uint16   // at 20: PIDonFEP
	RMARI     uint16   // at 22: resource indexes
	SendRI    uint16
	TagRI     uint16
	Profiles  uint8  // at 28: 1 AI Base, 2 AI Full, 4 HPC; 0: like the endpoint's own
	Flags     uint8  // at 29: AddrAbsolute …
	MTU       uint16 // at 30: payload MTU, 0: like ours
}

// Flags of an Addr.
const (
	AddrAbsolute    = 1 << iota // a service: any job may send to it
	AddrSmallHeader             // takes optimized headers
)

// AVInsert is followed by Count addresses of AddrLen bytes each; the reply's ID is the index of the first.
type AVInsert struct {
	AV    uint32
	Count uint32
}

// AVRemove takes one address out; its index is not used again.
type AVRemove struct {
	AV    uint32
	Index uint32
}

// Kinds of memory.
const (
	MemShared = 1 // a memfd that comes with the message
	MemRemote = 2 // addresses of the process
)

// Memory makes memory known, 32 bytes; the reply is Opened.
type Memory struct {
	Kind  uint32
	_     uint32
	Addr  uint64 // MemRemote: the first address; offsets count from here
	Len   uint64
	Probe uint64 // MemRemote: an address where a byte can be read and written, for a try
}

// EPOpen opens an endpoint, 56 bytes; the reply is EPOpened.
type EPOpen struct {
	AV           uint32 // 0: none, it only receives
	TxCQ         uint32 // at 4: completions of what it starts
	RxCQ         uint32 // at 8: of receives, and of peers' operations on its memory
	SRX          uint32 // at 12: shared receive queue, 0: none
	Flags        uint32 // at 16: EPOrdered …
	PID          int32  // at 20: PIDonFEP, -1: that of the attachment
	Initiator    uint32 // at 24: what peers match
	RMARI        uint16 // at 28: resource indexes, 0: the standard one
	SendRI       uint16
	TagRI        uint16
	TC           uint8 // at 34
	Profiles     uint8
	MinMultiRecv uint32 // at 36: room that must be left in a multi-receive buffer, bytes
	EagerSize    uint32 // at 40; 0: the FEP's
	Unexpected   uint32 // at 44: bytes kept of unexpected messages, 0: the FEP's
	MaxRTR       uint32 // at 48: deferred messages kept in mind, 0: the FEP's
	_            uint32
}

// Flags of EPOpen.
const (
	EPOrdered       = 1 << iota // messages keep their order (ROD)
	EPRejectTooLong             // messages longer than the receive are refused, not truncated
	EPAbsolute                  // a service: any job may send to its PIDonFEP
)

// EPOpened is the reply: the endpoint and its address, 40 bytes.
type EPOpened struct {
	ID   uint32
	_    uint32
	Addr Addr // at 8
}

// SRXOpen opens a shared receive queue; the reply is Opened.
type SRXOpen struct {
	CQ           uint32
	MinMultiRecv uint32
}

// MRRegister opens memory to peers, 56 bytes; the reply is MRRegistered.
type MRRegister struct {
	EP     uint32
	Region uint32
	Offset uint64 // at 8
	Len    uint64 // at 16
	Access uint32 // at 24: MRRead …
	Flags  uint32 // at 28: MRIdempotent …
	Key    uint64 // at 32: 0: the FEP chooses
	Job    uint32 // at 40: only this job, 0: the endpoint's
	RI     uint16 // at 44: 0: the endpoint's
	_      uint16
	_      uint64
}

// Rights of peers, and what else a registration may be.
const (
	MRRead = 1 << iota
	MRWrite
	MRAtomic

	MRIdempotent = 1 // operations on it may happen more than once
	MROptimized  = 2 // key of the optimized form
	MRNotify     = 4 // completions for what peers do
)

// MRRegistered is the reply, 16 bytes.
type MRRegistered struct {
	ID  uint32
	_   uint32
	Key uint64 // at 8
}

// Kinds of things that ReqClose ends.
const (
	KindCQ = iota + 1
	KindAV
	KindMemory
	KindEP
	KindSRX
	KindMR
)

// Close ends a thing; the reply has no payload.
type Close struct {
	Kind uint32
	ID   uint32
}

// Report is followed by the next bytes of what a rank reports, a RankResult in JSON; the reply has no payload.
type Report struct {
	Last uint32 // 1: these are the last bytes
	_    uint32
}

// Stat is the reply to ReqStat: what all processes of the FEP hold, 64 bytes.
type Stat struct {
	Processes uint64
	Endpoints uint64
	MRs       uint64
	Regions   uint64
	Bytes     uint64 // mapped
	Copies    uint64 // kept for remote memory
	Ops       uint64 // open
	FreeCalls uint64
}

// Append appends a message: header, and payload unless it is nil.
func Append(b []byte, h Header, payload any) []byte {
	b, _ = binary.Append(b, binary.LittleEndian, &h) // fixed sizes: never fails
	if payload != nil {
		var err error
		if b, err = binary.Append(b, binary.LittleEndian, payload); err != nil {
			panic(fmt.Errorf("shm: message %d: %w", h.Kind, err))
		}
	}
	return b
}

// ParseHeader splits a message.
func ParseHeader(b []byte) (h Header, payload []byte, err error) {
	if _, err := binary.Decode(b, binary.LittleEndian, &h); err != nil {
		return h, nil, fmt.Errorf("shm: message of %d bytes: too short", len(b))
	}
	return h, b[HeaderLen:], nil
}

// Parse reads a payload into v, a pointer to one of the structures above, and gives what follows it.
func Parse(b []byte, v any) (rest []byte, err error) {
	n, err := binary.Decode(b, binary.LittleEndian, v)
	if err != nil {
		return nil, fmt.Errorf("shm: payload of %d bytes: too short", len(b))
	}
	return b[n:], nil
}
