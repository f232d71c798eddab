package amo

import (
	"encoding/binary"
	"math/bits"

	"github.com/uetlab/uetlab/wire"
)

// u128 is an integer of any width, extended to 128 bits by its sign: sums and products modulo 2^128 are right in every
// narrower type too.
type u128 struct{ hi, lo uint64 }

// loadInt reads an element of 1, 2, 4, 8 or 16 bytes.
func loadInt(b []byte, signed bool) u128 {
	var v uint64
	switch len(b) {
	case 1:
		v = uint64(b[0])
	case 2:
		v = uint64(binary.LittleEndian.Uint16(b))
	case 4:
		v = uint64(binary.LittleEndian.Uint32(b))
	case 8:
		v = binary.LittleEndian.Uint64(b)
	default:
		return u128{binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b)}
	}
	if !signed {
		return u128{0, v}
	}
	shift := 64 - 8*len(b)
	s := int64(v<<shift) >> shift
	return u128{uint64(s >> 63), uint64(s)}
}

// store writes the low bytes of v that b has room for.
func (v u128) store(b []byte) {
	switch len(b) {
	case 1:
		b[0] = byte(v.lo)
	case 2:
		binary.LittleEndian.PutUint16(b, uint16(v.lo))
	case 4:
		binary.LittleEndian.PutUint32(b, uint32(v.lo))
	case 8:
		binary.LittleEndian.PutUint64(b, v.lo)
	default:
		binary.LittleEndian.PutUint64(b, v.lo)
		binary.LittleEndian.PutUint64(b[8:], v.hi)
	}
}

// orderInt says how a stands to b.
func orderInt(a, b u128, signed bool) order {
	if signed { // order of signed numbers is that of unsigned ones with the sign bit turned
		a.hi ^= 1 << 63
		b.hi ^= 1 << 63
	}
	switch {
	case a == b:
		return equal
	case a.hi < b.hi || a.hi == b.hi && a.lo < b.lo:
		return below
	}
	return above
}

// integers is the arithmetic and logic of all integer types.
func integers(op wire.AtomicOp, size int, signed bool, target, operand []byte) {
	for len(target) >= size && len(operand) >= size {
		t := target[:size]
		combine(op, loadInt(t, signed), loadInt(operand[:size], signed), signed).store(t)
		target, operand = target[size:], operand[size:]
	}
}

func combine(op wire.AtomicOp, t, o u128, signed bool) u128 {
	switch op {
	case wire.AtomicMin:
		if orderInt(o, t, signed) == below {
			return o
		}
		return t
	case wire.AtomicMax:
		if orderInt(o, t, signed) == above {
			return o
		}
		return t
	case wire.AtomicSum:
		lo, carry := bits.Add64(t.lo, o.lo, 0)
		return u128{t.hi + o.hi + carry, lo}
	case wire.AtomicDiff:
		lo, borrow := bits.Sub64(t.lo, o.lo, 0)
		return u128{t.hi - o.hi - borrow, lo}
	case wire.AtomicProd:
		hi, lo := bits.Mul64(t.lo, o.lo)
		return u128{hi + t.hi*o.lo + t.lo*o.hi, lo}
	}
	if logical(op, t != u128{}, o != u128{}) {
		return u128{0, 1}
	}
	return u128{}
}
