package amo

import (
	"encoding/binary"
	"math/bits"

	"github.com/uetlab/uetlab/wire"
)

// Exceptions are the floating point exceptions that an operation met: a set.
type Exceptions uint8

// The exceptions that have a return code of their own (uet-wire.md 11.5).
const (
	NaN       Exceptions = 1 << iota // a result is NaN, or a comparison met one
	Overflow                         // finite operands gave an infinity
	Underflow                        // an inexact result is below the smallest normal number
	Inexact                          // a result was rounded
)

// Code is the return code of the gravest exception (NaN, overflow, underflow, inexact), RCOK if there is none.
func (x Exceptions) Code() wire.ReturnCode {
	switch {
	case x&NaN != 0:
		return wire.RCAMOFPNaN
	case x&Overflow != 0:
		return wire.RCAMOFPOverflow
	case x&Underflow != 0:
		return wire.RCAMOFPUnderflow
	case x&Inexact != 0:
		return wire.RCAMOFPInexact
	}
	return wire.RCOK
}

// format is a binary floating point format.
type format struct {
	size      int // bytes in memory
	precision int // bits of the significand, with the leading one
	exponent  int // bits of the exponent
	bias      int // of the exponent; the largest exponent too
	explicit  bool
}

var (
	fp16     = &format{2, 11, 5, 15, false}
	bf16     = &format{2, 8, 8, 127, false}
	float32s = &format{4, 24, 8, 127, false}
	float64s = &format{8, 53, 11, 1023, false}
	x87      = &format{16, 64, 15, 16383, true} // the leading one stands in memory
)

// formatOf is the format of the type's numbers; t is real or complex.
func formatOf(t wire.AtomicType) *format {
	switch t {
	case wire.AtomicFloat, wire.AtomicFloatComplex:
		return float32s
	case wire.AtomicDouble, wire.AtomicDoubleComplex:
		return float64s
	case wire.AtomicBF16:
		return bf16
	case wire.AtomicFP16:
		return fp16
	}
	return x87
}

type kind uint8

const (
	zero kind = iota
	finite
	infinite
	notANumber
)

// number is a floating point number of any format. Finite ones are sig × 2^exp, bit 63 of sig is set.
type number struct {
	kind kind
	neg  bool
	exp  int
	sig  uint64
}

var one = number{kind: finite, exp: -63, sig: 1 << 63}

// load reads a number.
func (f *format) load(b []byte) number {
	var frac uint64
	var e int
	var neg bool
	switch f.size {
	case 2:
		frac = uint64(binary.LittleEndian.Uint16(b))
	case 4:
		frac = uint64(binary.LittleEndian.Uint32(b))
	case 8:
		frac = binary.LittleEndian.Uint64(b)
	default:
		se := binary.LittleEndian.Uint16(b[8:])
		return f.decode(se>>15 != 0, int(se&0x7FFF), binary.LittleEndian.Uint64(b))
	}
	lead := uint64(1) << (f.precision - 1)
	e = int(frac>>(f.precision-1)) & (1<<f.exponent - 1)
	neg = frac>>(f.precision-1+f.exponent) != 0
	frac &= lead - 1
	if e != 0 {
		frac |= lead
	}
	return f.decode(neg, e, frac)
}

// decode makes a number of sign, biased exponent and significand, the leading one in its place.
func (f *format) decode(neg bool, e int, sig uint64) number {
	lead := uint64(1) << (f.precision - 1)
	switch {
	case e != 0 && sig&lead == 0:
		return number{kind: notANumber} // x87's encodings without the integer bit
	case e == 1<<f.exponent-1 && sig == lead:
		return number{kind: infinite, neg: neg}
	case e == 1<<f.exponent-1:
		return number{kind: notANumber}
	case sig == 0:
		return number{neg: neg}
	}
	shift := bits.LeadingZeros64(sig)
	return number{finite, neg, max(e, 1) - f.bias - (f.precision - 1) - shift, sig << shift}
}

// store writes n, which is a number of the format: a result of round, or read from it.
func (f *format) store(b []byte, n number) {
	e, sig := 0, uint64(0)
	lead := uint64(1) << (f.precision - 1)
	switch n.kind {
	case infinite:
		e, sig = 1<<f.exponent-1, lead
	case notANumber:
		e, sig = 1<<f.exponent-1, lead|lead>>1
	case finite:
		e, sig = n.exp+63+f.bias, n.sig>>(64-f.precision)
		if e <= 0 {
			e, sig = 0, sig>>(1-e)
		}
	}
	sign := uint64(0)
	if n.neg {
		sign = 1
	}
	if f.explicit {
		binary.LittleEndian.PutUint64(b, sig)
		binary.LittleEndian.PutUint64(b[8:], sign<<15|uint64(e))
		return
	}
	w := sign<<(f.precision-1+f.exponent) | uint64(e)<<(f.precision-1) | sig&(lead-1)
	switch f.size {
	case 2:
		binary.LittleEndian.PutUint16(b, uint16(w))
	case 4:
		binary.LittleEndian.PutUint32(b, uint32(w))
	default:
		binary.LittleEndian.PutUint64(b, w)
	}
}

// round makes a number of the format from (hi:lo) × 2^exp, not 0, and what was lost below lo. If sticky, hi has at most two
// leading zeros.
func (f *format) round(neg bool, exp int, hi, lo uint64, sticky bool) (number, Exceptions) {
	if hi == 0 {
		hi, lo, exp = lo, 0, exp-64
	}
	shift := bits.LeadingZeros64(hi)
	hi, lo, exp = hi<<shift|lo>>(64-shift), lo<<shift, exp-shift

	e := exp + 127 // of the leading one
	drop := 128 - f.precision
	if low := 1 - f.bias; e < low {
		drop = min(drop+low-e, 129) // 129: not even the guard bit is left
	}
	sig := hi >> (drop - 64)
	var guard bool
	var rest uint64
	if drop == 64 {
		guard, rest = lo>>63 != 0, lo<<1
	} else {
		guard, rest = hi>>(drop-65)&1 != 0, hi&(1<<(drop-65)-1)|lo
	}
	var x Exceptions
	if guard || rest != 0 || sticky {
		x = Inexact
		if e < 1-f.bias {
			x |= Underflow
		}
	}
	exp += drop
	if guard && (rest != 0 || sticky || sig&1 != 0) {
		if sig++; sig == 0 { // 2^64
			sig, exp = 1<<63, exp+1
		}
	}
	if sig == 0 {
		return number{neg: neg}, x
	}
	shift = bits.LeadingZeros64(sig)
	n := number{finite, neg, exp - shift, sig << shift}
	switch e = n.exp + 63; {
	case e > f.bias:
		return number{kind: infinite, neg: neg}, Overflow | Inexact
	case e >= 1-f.bias:
		x &^= Underflow // rounded up to the smallest normal number
	}
	return n, x
}

// add is a + b.
func (f *format) add(a, b number) (number, Exceptions) {
	switch {
	case a.kind == notANumber || b.kind == notANumber || a.kind == infinite && b.kind == infinite && a.neg != b.neg:
		return number{kind: notANumber}, NaN
	case a.kind == infinite || b.kind == zero && a.kind == finite:
		return a, 0
	case b.kind == infinite || a.kind == zero && b.kind == finite:
		return b, 0
	case a.kind == zero:
		return number{neg: a.neg && b.neg}, 0
	}
	if a.exp < b.exp || a.exp == b.exp && a.sig < b.sig {
		a, b = b, a
	}
	// One bit of headroom for the carry; b moves down to a's exponent.
	ahi, alo := a.sig>>1, a.sig<<63
	bhi, blo := b.sig>>1, b.sig<<63
	bhi, blo, lost := shiftDown(bhi, blo, a.exp-b.exp)
	exp := a.exp - 63
	if a.neg == b.neg {
		lo, carry := bits.Add64(alo, blo, 0)
		return f.round(a.neg, exp, ahi+bhi+carry, lo, lost)
	}
	below := uint64(0)
	if lost { // what was lost is subtracted too
		below = 1
	}
	lo, borrow := bits.Sub64(alo, blo, below)
	hi := ahi - bhi - borrow
	if hi|lo == 0 {
		return number{}, 0 // x - x is +0
	}
	return f.round(a.neg, exp, hi, lo, lost)
}

// shiftDown shifts (hi:lo) n bits down and says whether a one was lost.
func shiftDown(hi, lo uint64, n int) (uint64, uint64, bool) {
	switch {
	case n >= 128:
		return 0, 0, hi|lo != 0
	case n >= 64:
		return 0, hi >> (n - 64), lo != 0 || hi&(1<<(n-64)-1) != 0
	}
	return hi >> n, lo>>n | hi<<(64-n), lo&(1<<n-1) != 0
}

// mul is a × b.
func (f *format) mul(a, b number) (number, Exceptions) {
	neg := a.neg != b.neg
	switch {
	case a.kind == notANumber || b.kind == notANumber || a.kind == infinite && b.kind == zero || a.kind == zero && b.kind == infinite:
		return number{kind: notANumber}, NaN
	case a.kind == infinite || b.kind == infinite:
		return number{kind: infinite, neg: neg}, 0
	case a.kind == zero || b.kind == zero:
		return number{neg: neg}, 0
	}
	hi, lo := bits.Mul64(a.sig, b.sig)
	return f.round(neg, a.exp+b.exp, hi, lo, false)
}

// minus is -n.
func (n number) minus() number {
	n.neg = !n.neg
	return n
}

// orderFloat says how a stands to b.
func orderFloat(a, b number) order {
	switch {
	case a.kind == notANumber || b.kind == notANumber:
		return unordered
	case a.kind == zero && b.kind == zero:
		return equal
	case a.kind == zero:
		return side(!b.neg)
	case b.kind == zero || a.neg != b.neg:
		return side(a.neg)
	case a == b:
		return equal
	}
	smaller := a.kind < b.kind || a.kind == b.kind && (a.exp < b.exp || a.exp == b.exp && a.sig < b.sig)
	return side(smaller != a.neg)
}

func side(less bool) order {
	if less {
		return below
	}
	return above
}

// reals is the arithmetic and logic of the real floating point types.
func reals(op wire.AtomicOp, f *format, target, operand []byte) (x Exceptions) {
	for len(target) >= f.size && len(operand) >= f.size {
		t, o := f.load(target), f.load(operand)
		var r number
		var met Exceptions
		switch op {
		case wire.AtomicMin, wire.AtomicMax:
			how := orderFloat(o, t)
			if how == unordered {
				met = NaN
			}
			if op == wire.AtomicMin && how == below || op == wire.AtomicMax && how == above {
				copy(target[:f.size], operand)
			}
		case wire.AtomicSum:
			r, met = f.add(t, o)
		case wire.AtomicDiff:
			r, met = f.add(t, o.minus())
		case wire.AtomicProd:
			r, met = f.mul(t, o)
		default:
			if logical(op, t.kind != zero, o.kind != zero) {
				r = one
			}
		}
		if op != wire.AtomicMin && op != wire.AtomicMax {
			f.store(target, r)
		}
		x |= met
		target, operand = target[f.size:], operand[f.size:]
	}
	return x
}

// complexes is the arithmetic and logic of the complex types.
func complexes(op wire.AtomicOp, f *format, target, operand []byte) (x Exceptions) {
	size := 2 * f.size
	for len(target) >= size && len(operand) >= size {
		a, b := f.load(target), f.load(target[f.size:])
		c, d := f.load(operand), f.load(operand[f.size:])
		var re, im number
		var met [6]Exceptions
		switch op {
		case wire.AtomicSum:
			re, met[0] = f.add(a, c)
			im, met[1] = f.add(b, d)
		case wire.AtomicDiff:
			re, met[0] = f.add(a, c.minus())
			im, met[1] = f.add(b, d.minus())
		case wire.AtomicProd:
			var ac, bd, ad, bc number
			ac, met[0] = f.mul(a, c)
			bd, met[1] = f.mul(b, d)
			ad, met[2] = f.mul(a, d)
			bc, met[3] = f.mul(b, c)
			re, met[4] = f.add(ac, bd.minus())
			im, met[5] = f.add(ad, bc)
		default:
			if logical(op, a.kind != zero || b.kind != zero, c.kind != zero || d.kind != zero) {
				re = one
			}
		}
		f.store(target, re)
		f.store(target[f.size:], im)
		for _, m := range met {
			x |= m
		}
		target, operand = target[size:], operand[size:]
	}
	return x
}
