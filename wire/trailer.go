package wire

import (
	"encoding/binary"
	"hash/crc32"
)

// The uetlab link trailer stands after the frame, so that tools see an ordinary packet (docs/architecture.md):
//
//	0  4  magic "UEL1"
//	4  8  due, virtual ns
//	12 4  LLR word: kind (4 bits), flags (8), sequence (20); stands for the preamble
//	16 4  CRC-32C of the 16 bytes before, big-endian
//	20 4  FCS: CRC-32 of the frame before the trailer, little-endian as on a real wire

const trailerMagic = 0x55454C31 // "UEL1"

// Kinds of the LLR word.
const (
	LLRPlain    = 0
	LLREligible = 1
	LLRNoFCS    = 2 // plain, and the sender has left the FCS out: it is 0, and there is nothing to check
)

// LLRFlagReplay marks a frame that is sent once more. It is for people who read captures: no port looks at it.
const LLRFlagReplay = 0x40

// FCSPoison is what a poisoned FCS differs by from the right one: the frame was broken before the port that sent it (UE 1.0.2 §5.1 leaves
// the mark open; uet-link-switch.md 2.11).
const FCSPoison = 0xAAAAAAAA

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// TrailerFields is the contents of a link trailer.
type TrailerFields struct {
	Due int64  // virtual ns at which the last bit has arrived at the far end
	LLR uint32 // LLR word
	FCS uint32 // as sent; FCSOK compares it with the frame
}

// LLRWord packs the LLR word: kind 4 bits, flags 8, sequence 20.
func LLRWord(kind, flags uint8, seq uint32) uint32 {
	return uint32(kind&0xF)<<28 | uint32(flags)<<20 | seq&0xFFFFF
}

// FCSOK reports whether the FCS, if there is one, fits the frame.
func (t TrailerFields) FCSOK(frame []byte) bool {
	return t.LLRKind() == LLRNoFCS || t.FCS == FCS(frame)
}

// LLRKind returns the kind of the LLR word.
func (t TrailerFields) LLRKind() uint8 { return uint8(t.LLR >> 28) }

// LLRFlags returns the flags of the LLR word.
func (t TrailerFields) LLRFlags() uint8 { return uint8(t.LLR >> 20) }

// LLRSeq returns the 20-bit sequence of the LLR word.
func (t TrailerFields) LLRSeq() uint32 { return t.LLR & 0xFFFFF }

// Trailer is a view of the 24 bytes of a link trailer.
type Trailer []byte

// Due returns the virtual time in ns.
func (t Trailer) Due() int64 { return int64(u64(t, 4)) }

// LLR returns the LLR word.
func (t Trailer) LLR() uint32 { return u32(t, 12) }

// FCS returns the frame check sequence.
func (t Trailer) FCS() uint32 { return binary.LittleEndian.Uint32(t[20:]) }

// SetFCS writes the frame check sequence.
func (t Trailer) SetFCS(fcs uint32) { binary.LittleEndian.PutUint32(t[20:], fcs) }

// OK reports whether magic and CRC-32C hold; a trailer that does not is a damaged preamble, and the frame is lost.
func (t Trailer) OK() bool {
	return len(t) == TrailerLen && u32(t, 0) == trailerMagic && u32(t, 16) == crc32.Checksum(t[:16], castagnoli)
}

// Flipped tells which bit of the LLR word was turned on the line, 0 the first, where OK does not hold: a damaged preamble. It is -1 if
// the trailer is none, or is damaged otherwise.
func (t Trailer) Flipped() int {
	if len(t) != TrailerLen || u32(t, 0) != trailerMagic {
		return -1
	}
	var head [16]byte
	copy(head[:], t)
	for i := range 32 {
		Trailer(head[:]).FlipLLR(i)
		if u32(t, 16) == crc32.Checksum(head[:], castagnoli) {
			return i
		}
		Trailer(head[:]).FlipLLR(i)
	}
	return -1
}

// FlipLLR turns bit i of the LLR word, 0 the first on the line, without a new CRC: the preamble was damaged.
func (t Trailer) FlipLLR(i int) { t[12+i/8] ^= 0x80 >> (i % 8) }

// TrailerOf returns the last 24 bytes of b unchecked, or nil if b is shorter.
func TrailerOf(b []byte) Trailer {
	if len(b) < TrailerLen {
		return nil
	}
	return Trailer(b[len(b)-TrailerLen:])
}

// SplitTrailer parts b into frame and trailer. It checks magic and CRC-32C; FCSOK checks the frame.
func SplitTrailer(b []byte) (frame []byte, t TrailerFields, ok bool) {
	v := TrailerOf(b)
	if !v.OK() {
		return nil, TrailerFields{}, false
	}
	return b[:len(b)-TrailerLen], TrailerFields{Due: v.Due(), LLR: v.LLR(), FCS: v.FCS()}, true
}

// FCS returns the CRC-32 (IEEE 802.3) of a frame without trailer.
func FCS(frame []byte) uint32 { return crc32.ChecksumIEEE(frame) }

// FCSOK reports whether the FCS in the trailer of b, if there is one, fits the frame before it.
func FCSOK(b []byte) bool {
	v := TrailerOf(b)
	return v != nil && TrailerFields{LLR: v.LLR(), FCS: v.FCS()}.FCSOK(b[:len(b)-TrailerLen])
}

// AppendTrailer adds a trailer to the frame dst, with the FCS of the whole of dst.
func AppendTrailer(dst []byte, due int64, llr uint32) []byte {
	return AppendTrailerFCS(dst, due, llr, FCS(dst))
}

// AppendTrailerFCS is AppendTrailer with another FCS than that of dst: of a frame that was damaged on its way.
func AppendTrailerFCS(dst []byte, due int64, llr, fcs uint32) []byte {
	dst, part := grow(dst, TrailerLen)
	PutTrailer(part, due, llr, fcs)
	return dst
}

// PutTrailer overwrites the last 24 bytes of b, a frame that already has room for its trailer, or the trailer alone.
func PutTrailer(b []byte, due int64, llr uint32, fcs uint32) {
	t := b[len(b)-TrailerLen:]
	put32(t, 0, trailerMagic)
	put64(t, 4, uint64(due))
	put32(t, 12, llr)
	put32(t, 16, crc32.Checksum(t[:16], castagnoli))
	binary.LittleEndian.PutUint32(t[20:], fcs)
}
