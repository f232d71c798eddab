package wire

import "encoding/binary"

func u16(b []byte, off int) uint16 { return binary.BigEndian.Uint16(b[off:]) }
func u32(b []byte, off int) uint32 { return binary.BigEndian.Uint32(b[off:]) }
func u64(b []byte, off int) uint64 { return binary.BigEndian.Uint64(b[off:]) }

func put16(b []byte, off int, v uint16) { binary.BigEndian.PutUint16(b[off:], v) }
func put32(b []byte, off int, v uint32) { binary.BigEndian.PutUint32(b[off:], v) }
func put64(b []byte, off int, v uint64) { binary.BigEndian.PutUint64(b[off:], v) }

// u24 reads the low 24 bits of the 32-bit word one byte before off; every 24-bit field of UET has a byte before it.
func u24(b []byte, off int) uint32 { return u32(b, off-1) & 0xFFFFFF }

// grow extends b by n zeroed bytes and returns the whole and the new part.
func grow(b []byte, n int) (whole, part []byte) {
	whole, part = extend(b, n)
	clear(part)
	return whole, part
}

// extend is grow for a caller that writes every byte: the new part may hold anything.
func extend(b []byte, n int) (whole, part []byte) {
	l := len(b)
	if cap(b)-l < n {
		b = append(b, make([]byte, n)...)
	}
	return b[:l+n], b[l : l+n : l+n]
}

func bit(v bool, mask uint8) uint8 {
	if v {
		return mask
	}
	return 0
}

func le32(b []byte) uint32 { return binary.LittleEndian.Uint32(b) }
