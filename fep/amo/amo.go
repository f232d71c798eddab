package amo

import "github.com/uetlab/uetlab/wire"

// class groups the datatypes that share their operators.
type class uint8

const (
	none class = iota // reserved and vendor types
	signed
	unsigned
	real
	pair // complex
)

var classes = [...]class{
	wire.AtomicInt8: signed, wire.AtomicInt16: signed, wire.AtomicInt32: signed, wire.AtomicInt64: signed, wire.AtomicInt128: signed,
	wire.AtomicUint8: unsigned, wire.AtomicUint16: unsigned, wire.AtomicUint32: unsigned, wire.AtomicUint64: unsigned,
	wire.AtomicUint128: unsigned,
	wire.AtomicFloat:   real, wire.AtomicDouble: real, wire.AtomicLongDouble: real, wire.AtomicBF16: real, wire.AtomicFP16: real,
	wire.AtomicFloatComplex: pair, wire.AtomicDoubleComplex: pair, wire.AtomicLongDoubleComplex: pair,
}

func classOf(t wire.AtomicType) class {
	if int(t) < len(classes) {
		return classes[t]
	}
	return none
}

// known reports whether the operation is one of uet-wire.md 11.2, not reserved and not a vendor's.
func known(op wire.AtomicOp) bool { return op <= wire.AtomicInval }

// Valid reports whether the operation exists for the type: the table of the package.
func Valid(op wire.AtomicOp, t wire.AtomicType) bool {
	c := classOf(t)
	if c == none || !known(op) {
		return false
	}
	switch op {
	case wire.AtomicBOR, wire.AtomicBAND, wire.AtomicBXOR, wire.AtomicMSwap:
		return c == signed || c == unsigned
	case wire.AtomicMin, wire.AtomicMax, wire.AtomicCSwapLE, wire.AtomicCSwapLT, wire.AtomicCSwapGE, wire.AtomicCSwapGT:
		return c != pair
	case wire.AtomicCSwap, wire.AtomicCSwapNE:
		return t != wire.AtomicLongDoubleComplex
	}
	return true
}

// Writes reports whether the operation may change the target, which takes the right to write there.
func Writes(op wire.AtomicOp) bool { return op != wire.AtomicRead && op != wire.AtomicInval }

// Check tests an operation on length bytes at the given offset of a region, in the order of uet-pds-ses.md 16.3, and returns
// RCOK or the code of the first fault: AMO_UNSUPPORTED_OP; AMO_UNSUPPORTED_DT, also for an operation that the type lacks;
// AMO_UNSUPPORTED_SIZE for no element, parts of one, more than limit bytes (what a packet carries), or more than the one
// element of a compare-and-swap; AMO_UNALIGNED if offset is no multiple of an element's size. fetch says whether old values go
// back: a READ that does not fetch is no operation.
func Check(op wire.AtomicOp, t wire.AtomicType, fetch bool, offset uint64, length, limit int) wire.ReturnCode {
	size := t.Size()
	switch {
	case !known(op) || op == wire.AtomicRead && !fetch:
		return wire.RCAMOUnsupportedOp
	case !Valid(op, t):
		return wire.RCAMOUnsupportedDT
	case length <= 0 || length%size != 0 || length > limit || op.IsCompareSwap() && length != size:
		return wire.RCAMOUnsupportedSize
	case offset%uint64(size) != 0:
		return wire.RCAMOUnaligned
	}
	return wire.RCOK
}

// Execute does the operation on all elements of target, which lies at offset of its region. operand is as long as target,
// and so is compare for the CSWAP family and for MSWAP (the mask); those that an operation does not use are ignored. The old
// elements go to result, as long as target and apart from it, or nil if nothing is fetched. Any other lengths are
// AMO_UNSUPPORTED_SIZE. If the code is not RCOK nothing was touched. What floating point met is in the exceptions: the operation
// took place all the same.
func Execute(op wire.AtomicOp, t wire.AtomicType, offset uint64, target, operand, compare, result []byte) (Exceptions, wire.ReturnCode) {
	if rc := Check(op, t, result != nil, offset, len(target), len(target)); rc != wire.RCOK {
		return 0, rc
	}
	compares := op.IsCompareSwap() || op == wire.AtomicMSwap
	if result != nil && len(result) != len(target) || Writes(op) && len(operand) != len(target) || compares && len(compare) != len(target) {
		return 0, wire.RCAMOUnsupportedSize
	}
	copy(result, target)
	switch op {
	case wire.AtomicRead, wire.AtomicInval:
		return 0, wire.RCOK
	case wire.AtomicWrite:
		copy(target, operand)
		return 0, wire.RCOK
	case wire.AtomicBOR, wire.AtomicBAND, wire.AtomicBXOR, wire.AtomicMSwap:
		bitwise(op, target, operand, compare)
		return 0, wire.RCOK
	}
	switch c := classOf(t); {
	case op.IsCompareSwap():
		return compareSwap(op, t, target, operand, compare), wire.RCOK
	case c == signed || c == unsigned:
		integers(op, t.Size(), c == signed, target, operand)
		return 0, wire.RCOK
	case c == pair:
		return complexes(op, formatOf(t), target, operand), wire.RCOK
	}
	return reals(op, formatOf(t), target, operand), wire.RCOK
}

// bitwise needs no elements: all integers are bytes.
func bitwise(op wire.AtomicOp, target, operand, mask []byte) {
	switch op {
	case wire.AtomicBOR:
		for i := range target {
			target[i] |= operand[i]
		}
	case wire.AtomicBAND:
		for i := range target {
			target[i] &= operand[i]
		}
	case wire.AtomicBXOR:
		for i := range target {
			target[i] ^= operand[i]
		}
	case wire.AtomicMSwap:
		for i := range target {
			target[i] = operand[i]&mask[i] | target[i]&^mask[i]
		}
	}
}

// order is how one number stands to another.
type order uint8

const (
	equal order = iota
	below
	above
	unordered // one of them is NaN
)

// compareSwap is the CSWAP family on one element.
func compareSwap(op wire.AtomicOp, t wire.AtomicType, target, operand, compare []byte) (x Exceptions) {
	var o order
	switch c := classOf(t); c {
	case signed, unsigned:
		o = orderInt(loadInt(compare, c == signed), loadInt(target, c == signed), c == signed)
	case real:
		f := formatOf(t)
		o = orderFloat(f.load(compare), f.load(target))
	case pair:
		f := formatOf(t)
		o = orderFloat(f.load(compare), f.load(target))
		if im := orderFloat(f.load(compare[f.size:]), f.load(target[f.size:])); o == equal || im == unordered {
			o = im
		}
	}
	if o == unordered {
		x = NaN
	}
	if holds(op, o) {
		copy(target, operand)
	}
	return x
}

// holds reports whether the comparison of the operation is true.
func holds(op wire.AtomicOp, o order) bool {
	switch op {
	case wire.AtomicCSwap:
		return o == equal
	case wire.AtomicCSwapNE:
		return o != equal
	case wire.AtomicCSwapLE:
		return o == below || o == equal
	case wire.AtomicCSwapLT:
		return o == below
	case wire.AtomicCSwapGE:
		return o == above || o == equal
	case wire.AtomicCSwapGT:
		return o == above
	}
	return false
}

// logical is LOR, LAND or LXOR of two truths.
func logical(op wire.AtomicOp, a, b bool) bool {
	switch op {
	case wire.AtomicLOR:
		return a || b
	case wire.AtomicLAND:
		return a && b
	}
	return a != b
}
