package link

import (
	"encoding/binary"
	"unsafe"

	"github.com/uetlab/uetlab/wire"
)

type frameKind uint8

const (
	kindUnknown frameKind = iota
	kindData
	kindPause
	kindOther
	kindSets // ordered sets that a port itself has made
)

// what tells what a frame is to a port; a frame that passes by reference is looked at once.
func (f *Frame) what() frameKind {
	if f.kind == kindUnknown {
		f.kind = kindOther
		if isData(f.B) {
			f.kind = kindData
		} else if _, ok := wire.ParsePause(f.B); ok {
			f.kind = kindPause
		}
	}
	return f.kind
}

// Fetch has the processor fetch the frame itself, which is soon to be handled. It does not wait for it.
func (f *Frame) Fetch() { prefetch(unsafe.Pointer(f)) }

// FetchHeader does so for the packet's headers. The frame itself should be there by now.
func (f *Frame) FetchHeader() { prefetch(unsafe.Pointer(unsafe.SliceData(f.B))) }

// isData says whether a frame is a UET RUD, ROD or RUDI request over UDP, the packets that carry an operation.
func isData(b []byte) bool {
	const udp, port = 17, 4793
	eth := wire.EthLen
	if len(b) < eth+wire.CSIGWideLen+wire.IPv4Len {
		return false
	}
	switch wire.EtherType(binary.BigEndian.Uint16(b[12:])) {
	case wire.EtherCSIG:
		eth += wire.CSIGCompactLen
	case wire.EtherCSIGWide:
		eth += wire.CSIGWideLen
	}
	var l4 int
	switch binary.BigEndian.Uint16(b[eth-2:]) {
	case 0x0800:
		l4 = eth + int(b[eth]&15)*4
		if b[eth+9] != udp {
			return false
		}
	case 0x86DD:
		l4 = eth + 40
		if b[eth+6] != udp {
			return false
		}
	default:
		return false
	}
	if len(b) < l4+9 || binary.BigEndian.Uint16(b[l4+2:]) != port {
		return false
	}
	switch b[l4+8] >> 3 { // PDS type
	case 2, 3, 4, 6, 13, 14:
		return true
	}
	return false
}
