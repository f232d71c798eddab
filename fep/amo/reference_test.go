package amo

import (
	"encoding/binary"
	"math"
	"math/big"
	"slices"

	"github.com/uetlab/uetlab/wire"
)

// The reference knows nothing of the package: integers are big.Int, FLOAT and DOUBLE are what the processor does, FP16 and
// BF16 are DOUBLE rounded by a search over all values, LONG_DOUBLE is big.Float with 64 bits of precision. NaN is compared as NaN.

func refInt(b []byte, signed bool) *big.Int {
	be := slices.Clone(b)
	slices.Reverse(be)
	v := new(big.Int).SetBytes(be)
	if signed && be[0] >= 0x80 {
		v.Sub(v, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
	}
	return v
}

func refPutInt(size int, v *big.Int) []byte {
	m := new(big.Int).Lsh(big.NewInt(1), uint(8*size))
	b := new(big.Int).Mod(v, m).FillBytes(make([]byte, size))
	slices.Reverse(b)
	return b
}

func truth(b bool) *big.Int {
	if b {
		return big.NewInt(1)
	}
	return new(big.Int)
}

// refInteger is one element of an integer type.
func refInteger(op wire.AtomicOp, signed bool, tb, ob, cb []byte) []byte {
	t, o, c := refInt(tb, signed), refInt(ob, signed), refInt(cb, signed)
	r := new(big.Int)
	tt, ot := t.Sign() != 0, o.Sign() != 0
	swap := func(b bool) {
		r.Set(t)
		if b {
			r.Set(o)
		}
	}
	switch op {
	case wire.AtomicMin:
		swap(o.Cmp(t) < 0)
	case wire.AtomicMax:
		swap(o.Cmp(t) > 0)
	case wire.AtomicSum:
		r.Add(t, o)
	case wire.AtomicDiff:
		r.Sub(t, o)
	case wire.AtomicProd:
		r.Mul(t, o)
	case wire.AtomicLOR:
		r = truth(tt || ot)
	case wire.AtomicLAND:
		r = truth(tt && ot)
	case wire.AtomicLXOR:
		r = truth(tt != ot)
	case wire.AtomicBOR:
		r.Or(t, o)
	case wire.AtomicBAND:
		r.And(t, o)
	case wire.AtomicBXOR:
		r.Xor(t, o)
	case wire.AtomicMSwap:
		r.Or(new(big.Int).And(o, c), new(big.Int).AndNot(t, c))
	case wire.AtomicRead, wire.AtomicInval:
		r.Set(t)
	case wire.AtomicWrite:
		r.Set(o)
	default:
		swap(refHolds(op, c.Cmp(t)))
	}
	return refPutInt(len(tb), r)
}

func refHolds(op wire.AtomicOp, cmp int) bool {
	return map[wire.AtomicOp]bool{wire.AtomicCSwap: cmp == 0, wire.AtomicCSwapNE: cmp != 0, wire.AtomicCSwapLE: cmp <= 0,
		wire.AtomicCSwapLT: cmp < 0, wire.AtomicCSwapGE: cmp >= 0, wire.AtomicCSwapGT: cmp > 0}[op]
}

// parts is the numbers of an element.
func parts(t wire.AtomicType) int {
	if t == wire.AtomicFloatComplex || t == wire.AtomicDoubleComplex || t == wire.AtomicLongDoubleComplex {
		return 2
	}
	return 1
}

// refReal is a real number of the reference: NaN, or a big.Float, which has infinities and signed zeros.
type refReal struct {
	nan bool
	v   *big.Float
}

func exactly(x float64) refReal {
	if math.IsNaN(x) {
		return refReal{nan: true}
	}
	return refReal{v: new(big.Float).SetPrec(64).SetFloat64(x)}
}

func refLoad(t wire.AtomicType, b []byte) refReal {
	switch t {
	case wire.AtomicFloat, wire.AtomicFloatComplex:
		return exactly(float64(math.Float32frombits(binary.LittleEndian.Uint32(b))))
	case wire.AtomicDouble, wire.AtomicDoubleComplex:
		return exactly(math.Float64frombits(binary.LittleEndian.Uint64(b)))
	case wire.AtomicBF16:
		return exactly(float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(b)) << 16)))
	case wire.AtomicFP16:
		return exactly(halfValue(binary.LittleEndian.Uint16(b)))
	}
	sig, se := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint16(b[8:])
	e := int(se & 0x7FFF)
	switch {
	case e != 0 && sig>>63 == 0, e == 0x7FFF && sig != 1<<63:
		return refReal{nan: true}
	case e == 0x7FFF:
		return exactly(math.Inf(1 - 2*int(se>>15)))
	}
	v := new(big.Float).SetPrec(64).SetUint64(sig)
	v.SetMantExp(v, max(e, 1)-16383-63)
	if se>>15 != 0 {
		v.Neg(v)
	}
	return refReal{v: v}
}

func halfValue(h uint16) float64 {
	frac, e := float64(h&0x3FF), int(h>>10&31)
	v := math.Ldexp(frac, -24)
	switch {
	case e == 31 && frac != 0:
		return math.NaN()
	case e == 31:
		v = math.Inf(1)
	case e != 0:
		v = math.Ldexp(1024+frac, e-25)
	}
	return math.Copysign(v, 1-2*float64(h>>15))
}

// refExact computes one step with so many bits that nothing is lost.
func refExact(op wire.AtomicOp, a, b refReal) refReal {
	if a.nan || b.nan {
		return refReal{nan: true}
	}
	z := new(big.Float).SetPrec(40000)
	switch {
	case op == wire.AtomicProd && (a.v.IsInf() && b.v.Sign() == 0 || b.v.IsInf() && a.v.Sign() == 0):
		return refReal{nan: true}
	case op == wire.AtomicProd:
		return refReal{v: z.Mul(a.v, b.v)}
	}
	if op == wire.AtomicDiff {
		b = refReal{v: new(big.Float).Neg(b.v)}
	}
	if a.v.IsInf() && b.v.IsInf() && a.v.Signbit() != b.v.Signbit() {
		return refReal{nan: true}
	}
	return refReal{v: z.Add(a.v, b.v)}
}

// shape gives precision, smallest exponent of a normal number and largest exponent of a type.
func shape(t wire.AtomicType) (prec, low, high int) {
	switch t {
	case wire.AtomicFloat, wire.AtomicFloatComplex:
		return 24, -126, 127
	case wire.AtomicDouble, wire.AtomicDoubleComplex:
		return 53, -1022, 1023
	case wire.AtomicBF16:
		return 8, -126, 127
	case wire.AtomicFP16:
		return 11, -14, 15
	}
	return 64, -16382, 16383
}

// refRound rounds an exact number to the type by way of an integer: v / ulp to the nearest even.
func refRound(t wire.AtomicType, x refReal) (refReal, Exceptions) {
	if x.nan {
		return x, NaN
	}
	if x.v.IsInf() || x.v.Sign() == 0 {
		return x, 0
	}
	prec, low, high := shape(t)
	ulp := max(x.v.MantExp(nil)-1, low) - (prec - 1)
	scaled := new(big.Float).SetPrec(40000).SetMantExp(x.v, -ulp)
	n, acc := scaled.Int(nil)
	var ex Exceptions
	if acc != big.Exact {
		ex = Inexact
		frac := new(big.Float).SetPrec(40000).Sub(scaled, new(big.Float).SetInt(n))
		half := frac.Abs(frac).Cmp(big.NewFloat(0.5))
		if half > 0 || half == 0 && n.Bit(0) == 1 {
			n.Add(n, big.NewInt(int64(x.v.Sign())))
		}
	}
	r := new(big.Float).SetPrec(64).SetInt(n)
	r.SetMantExp(r, ulp)
	if n.Sign() == 0 && x.v.Signbit() {
		r.Neg(r)
	}
	switch e := r.MantExp(nil) - 1; {
	case n.Sign() == 0 || e < low:
		if ex != 0 {
			ex |= Underflow
		}
	case e > high:
		return refReal{v: new(big.Float).SetInf(x.v.Signbit())}, Inexact | Overflow
	}
	return refReal{v: r}, ex
}

// refStore writes a number of the type; a NaN as the one that the package gives.
func refStore(t wire.AtomicType, x refReal) []byte {
	prec, low, high := shape(t)
	e, sig := uint64(2*high+2-1), uint64(3)<<(prec-2)
	neg := false
	if !x.nan {
		neg = x.v.Signbit()
		switch {
		case x.v.IsInf():
			sig = 1 << (prec - 1)
		case x.v.Sign() == 0:
			e, sig = 0, 0
		default:
			exp := max(x.v.MantExp(nil)-1, low)
			abs := new(big.Float).Abs(x.v)
			sig, _ = abs.SetMantExp(abs, prec-1-exp).Uint64()
			e = uint64(exp - low + 1)
			if sig>>(prec-1) == 0 {
				e = 0
			}
		}
	}
	size := t.Size() / parts(t)
	b := make([]byte, 16)
	if prec == 64 {
		binary.LittleEndian.PutUint64(b, sig)
		binary.LittleEndian.PutUint16(b[8:], uint16(e))
		if neg {
			b[9] |= 0x80
		}
		return b
	}
	binary.LittleEndian.PutUint64(b, e<<(prec-1)|sig&(1<<(prec-1)-1))
	if neg {
		b[size-1] |= 0x80
	}
	return b[:size]
}

// refReals is one element of a real type.
func refReals(op wire.AtomicOp, t wire.AtomicType, tb, ob, cb []byte) ([]byte, Exceptions) {
	a, b, c := refLoad(t, tb), refLoad(t, ob), refLoad(t, cb)
	nz := func(x refReal) bool { return x.nan || x.v.Sign() != 0 }
	pick := func(x, y refReal, when func(cmp int) bool, unordered bool) ([]byte, Exceptions) {
		swap, ex := unordered, NaN
		if !x.nan && !y.nan {
			swap, ex = when(x.v.Cmp(y.v)), 0
		}
		if swap {
			return ob, ex
		}
		return tb, ex
	}
	flag := func(v bool) ([]byte, Exceptions) { return refStore(t, exactly(float64(truth(v).Int64()))), 0 }
	switch op {
	case wire.AtomicRead, wire.AtomicInval:
		return tb, 0
	case wire.AtomicWrite:
		return ob, 0
	case wire.AtomicMin:
		return pick(b, a, func(cmp int) bool { return cmp < 0 }, false)
	case wire.AtomicMax:
		return pick(b, a, func(cmp int) bool { return cmp > 0 }, false)
	case wire.AtomicLOR:
		return flag(nz(a) || nz(b))
	case wire.AtomicLAND:
		return flag(nz(a) && nz(b))
	case wire.AtomicLXOR:
		return flag(nz(a) != nz(b))
	case wire.AtomicSum, wire.AtomicDiff, wire.AtomicProd:
		r, ex := refRound(t, refExact(op, a, b))
		return refStore(t, r), ex
	}
	return pick(c, a, func(cmp int) bool { return refHolds(op, cmp) }, op == wire.AtomicCSwapNE)
}

// refComplex is one element of a complex type.
func refComplex(op wire.AtomicOp, t wire.AtomicType, tb, ob, cb []byte) ([]byte, Exceptions) {
	h := t.Size() / 2
	var ex Exceptions
	step := func(op wire.AtomicOp, x, y refReal) refReal {
		r, e := refRound(t, refExact(op, x, y))
		ex |= e
		return r
	}
	a, b, c, d := refLoad(t, tb), refLoad(t, tb[h:]), refLoad(t, ob), refLoad(t, ob[h:])
	both := func(re, im refReal) ([]byte, Exceptions) { return append(refStore(t, re), refStore(t, im)...), ex }
	nz := func(x, y refReal) bool { return x.nan || y.nan || x.v.Sign() != 0 || y.v.Sign() != 0 }
	flag := func(v bool) ([]byte, Exceptions) { return both(exactly(float64(truth(v).Int64())), exactly(0)) }
	switch op {
	case wire.AtomicRead, wire.AtomicInval:
		return tb, 0
	case wire.AtomicWrite:
		return ob, 0
	case wire.AtomicLOR:
		return flag(nz(a, b) || nz(c, d))
	case wire.AtomicLAND:
		return flag(nz(a, b) && nz(c, d))
	case wire.AtomicLXOR:
		return flag(nz(a, b) != nz(c, d))
	case wire.AtomicSum, wire.AtomicDiff:
		return both(step(op, a, c), step(op, b, d))
	case wire.AtomicProd:
		re := step(wire.AtomicDiff, step(op, a, c), step(op, b, d))
		return both(re, step(wire.AtomicSum, step(op, a, d), step(op, b, c)))
	}
	p, q := refLoad(t, cb), refLoad(t, cb[h:])
	nan := p.nan || q.nan || a.nan || b.nan
	if nan {
		ex = NaN
	}
	if (!nan && p.v.Cmp(a.v) == 0 && q.v.Cmp(b.v) == 0) == (op == wire.AtomicCSwap) {
		return ob, ex
	}
	return tb, ex
}

// reference is what the element becomes.
func reference(op wire.AtomicOp, t wire.AtomicType, tb, ob, cb []byte) ([]byte, Exceptions) {
	switch {
	case t <= wire.AtomicUint128:
		return refInteger(op, t%2 == 0, tb, ob, cb), 0
	case t == wire.AtomicFloatComplex || t == wire.AtomicDoubleComplex || t == wire.AtomicLongDoubleComplex:
		return refComplex(op, t, tb, ob, cb)
	}
	return refReals(op, t, tb, ob, cb)
}
