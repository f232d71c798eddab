package amo

import "github.com/uetlab/uetlab/wire"

// What lies where in an atomic request, for both of its ends (uet-wire.md 8.9, 10): compare and swap values of the CSWAP
// family stand in the extension, as 128-bit numbers in network order, so there is one element and no payload; a READ has
// no payload either; all others carry their operands as payload, MSWAP the masks behind them.

// RequestLength is the request_length of an operation on n elements: the bytes of the target, for MSWAP twice that.
func RequestLength(op wire.AtomicOp, t wire.AtomicType, n int) int {
	if op == wire.AtomicMSwap {
		return 2 * n * t.Size()
	}
	return n * t.Size()
}

// PayloadLength is the bytes of payload of a request with the given request_length.
func PayloadLength(op wire.AtomicOp, requestLength int) int {
	if op.IsCompareSwap() || op == wire.AtomicRead {
		return 0
	}
	return requestLength
}

// TargetLength is the bytes of memory that a request with the given request_length names, and the bytes that come back if it
// fetches. An odd length of MSWAP is rounded up, so that Check and Execute refuse it.
func TargetLength(op wire.AtomicOp, requestLength int) int {
	if op == wire.AtomicMSwap {
		return requestLength - requestLength/2
	}
	return requestLength
}

// Operands finds operand and compare value of a request for Execute: in its payload, or, for the CSWAP family, in its
// extension, from where they are copied to scratch. ext is what wire.ParseAtomic gave.
func Operands(ext wire.Atomic, payload []byte, scratch *[32]byte) (operand, compare []byte) {
	op, size := ext.Op(), ext.Type().Size()
	switch {
	case op.IsCompareSwap() && size <= 16 && len(ext.Swap()) == 16:
		operand, compare = scratch[:size], scratch[16:16+size]
		turn(operand, ext.Swap())
		turn(compare, ext.Compare())
		return operand, compare
	case op.IsCompareSwap():
		return nil, nil
	case op == wire.AtomicMSwap:
		n := TargetLength(op, len(payload))
		return payload[:n:n], payload[n:]
	}
	return payload, nil
}

// SetExtension puts operand and compare value of the CSWAP family, at most 16 bytes each, into the extension; for other
// operations it clears them.
func SetExtension(f *wire.AtomicFields, operand, compare []byte) {
	f.Swap, f.Compare = [16]byte{}, [16]byte{}
	if !f.Op.IsCompareSwap() {
		return
	}
	for i := range min(len(operand), 16) {
		f.Swap[15-i] = operand[i]
	}
	for i := range min(len(compare), 16) {
		f.Compare[15-i] = compare[i]
	}
}

// turn copies the low-order bytes of a 16-byte field to a little-endian element.
func turn(dst, field []byte) {
	for i := range dst {
		dst[i] = field[15-i]
	}
}
