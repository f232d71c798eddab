// Package shm lays out what a process and the FEP that it uses share: a page of state words, a submission ring, completion rings,
// memory for messages, and the control messages of the socket over which all of these are handed out. docs/attach.md
// describes the same for other languages. The package has no policy: what a process may do is decided elsewhere, and every
// word that comes from the other side is untrusted.
//
// All numbers are little-endian; a build for a big-endian machine refuses to start. Words that both sides use are read and written
// atomically, in one order.
package shm

import "unsafe"

// Version of the protocol. A hello with another one is refused.
const Version = 1

// Magic begins a hello and the page: "UEF1".
const Magic = 0x31464555

// Sizes, in bytes.
const (
	PageLen  = 4096 // the page of state words; the submission ring follows it
	EntryLen = 128  // of a submission or a completion
	CQBase   = 256  // where the entries of a completion ring begin
	AddrLen  = 32   // an address, as FI_ADDR_UET has it
)

// MaxRing is the most entries of a ring; all sizes are powers of two.
const MaxRing = 1 << 16

func init() {
	one := uint16(1)
	if *(*byte)(unsafe.Pointer(&one)) != 1 {
		panic("shm: the rings are little-endian: big-endian machines are not supported")
	}
	if unsafe.Sizeof(Page{}) > PageLen || unsafe.Sizeof(SQE{}) != EntryLen || unsafe.Sizeof(CQE{}) != EntryLen || unsafe.Sizeof(cqHead{}) > CQBase {
		panic("shm: a layout has changed")
	}
}
