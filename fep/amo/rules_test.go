package amo

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/uetlab/uetlab/wire"
)

func TestValidIsTheTableOfThePackage(t *testing.T) {
	integers := []wire.AtomicType{wire.AtomicInt8, wire.AtomicUint8, wire.AtomicInt16, wire.AtomicUint16, wire.AtomicInt32,
		wire.AtomicUint32, wire.AtomicInt64, wire.AtomicUint64, wire.AtomicInt128, wire.AtomicUint128}
	reals := []wire.AtomicType{wire.AtomicFloat, wire.AtomicDouble, wire.AtomicLongDouble, wire.AtomicBF16, wire.AtomicFP16}
	columns := [][]wire.AtomicType{integers, reals, {wire.AtomicFloatComplex, wire.AtomicDoubleComplex}, {wire.AtomicLongDoubleComplex}}
	rows := []string{ // by operation: integers, reals, complex, long complex
		"yy--", "yy--", "yyyy", "yyyy", "yyyy", "yyyy", "yyyy", "y---", "y---", "yyyy", "y---", "yyyy", "yyyy",
		"yyy-", "yyy-", "yy--", "yy--", "yy--", "yy--", "y---", "yyyy",
	}
	for op := range 256 {
		seen := 0
		for c, types := range columns {
			for _, typ := range types {
				want := op < len(rows) && rows[op][c] == 'y'
				if got := Valid(wire.AtomicOp(op), typ); got != want {
					t.Errorf("%v %v: %v", wire.AtomicOp(op), typ, got)
				}
				seen++
			}
		}
		if seen != 18 {
			t.Fatalf("%d types", seen)
		}
		for typ := 18; typ < 256; typ++ {
			if Valid(wire.AtomicOp(op), wire.AtomicType(typ)) {
				t.Errorf("%v is valid on %v", wire.AtomicOp(op), wire.AtomicType(typ))
			}
		}
	}
}

func TestCheckOrder(t *testing.T) {
	const sum, read, cswap, mswap, bor = wire.AtomicSum, wire.AtomicRead, wire.AtomicCSwap, wire.AtomicMSwap, wire.AtomicBOR
	for _, c := range []struct {
		name   string
		op     wire.AtomicOp
		typ    wire.AtomicType
		fetch  bool
		offset uint64
		length int
		want   wire.ReturnCode
	}{
		{"all wrong", 0x15, 0x12, false, 1, 3, wire.RCAMOUnsupportedOp},
		{"vendor's operation", 0xE0, wire.AtomicInt8, true, 0, 1, wire.RCAMOUnsupportedOp},
		{"reserved type, size, place", sum, 0x12, false, 1, 3, wire.RCAMOUnsupportedDT},
		{"vendor's type", sum, 0xE0, false, 0, 8, wire.RCAMOUnsupportedDT},
		{"type without the operation", bor, wire.AtomicFloat, false, 1, 3, wire.RCAMOUnsupportedDT},
		{"size and place", sum, wire.AtomicInt64, false, 1, 7, wire.RCAMOUnsupportedSize},
		{"nothing", sum, wire.AtomicInt64, false, 1, 0, wire.RCAMOUnsupportedSize},
		{"negative", sum, wire.AtomicInt64, false, 0, -8, wire.RCAMOUnsupportedSize},
		{"more than a packet", sum, wire.AtomicInt64, false, 0, 4104, wire.RCAMOUnsupportedSize},
		{"a packet", sum, wire.AtomicInt64, false, 8, 4096, wire.RCOK},
		{"two to swap", cswap, wire.AtomicInt32, true, 0, 8, wire.RCAMOUnsupportedSize},
		{"one to swap", cswap, wire.AtomicInt32, true, 4, 4, wire.RCOK},
		{"swap without fetch", cswap, wire.AtomicInt32, false, 4, 4, wire.RCOK},
		{"too long to swap", cswap, wire.AtomicLongDoubleComplex, true, 0, 32, wire.RCAMOUnsupportedDT},
		{"two masked", mswap, wire.AtomicInt32, true, 0, 8, wire.RCOK},
		{"place", sum, wire.AtomicInt64, false, 4, 8, wire.RCAMOUnaligned},
		{"high place", sum, wire.AtomicInt64, false, 1<<64 - 8, 8, wire.RCOK},
		{"complex place", sum, wire.AtomicFloatComplex, false, 4, 8, wire.RCAMOUnaligned},
		{"bytes lie anywhere", sum, wire.AtomicInt8, false, 7, 3, wire.RCOK},
		{"read that fetches nothing", read, wire.AtomicInt8, false, 0, 1, wire.RCAMOUnsupportedOp},
		{"read", read, wire.AtomicInt8, true, 0, 1, wire.RCOK},
	} {
		if rc := Check(c.op, c.typ, c.fetch, c.offset, c.length, 4096); rc != c.want {
			t.Errorf("%s: %v, not %v", c.name, rc, c.want)
		}
	}
}

func TestExecuteTouchesNothingOnError(t *testing.T) {
	for _, c := range []struct {
		name                             string
		op                               wire.AtomicOp
		offset                           uint64
		target, operand, compare, result int
		want                             wire.ReturnCode
	}{
		{"short operand", wire.AtomicSum, 0, 8, 7, 0, 8, wire.RCAMOUnsupportedSize},
		{"long operand", wire.AtomicSum, 0, 8, 16, 0, 8, wire.RCAMOUnsupportedSize},
		{"short result", wire.AtomicSum, 0, 8, 8, 0, 4, wire.RCAMOUnsupportedSize},
		{"no mask", wire.AtomicMSwap, 0, 8, 8, 0, 8, wire.RCAMOUnsupportedSize},
		{"no compare value", wire.AtomicCSwapNE, 0, 8, 8, 0, 8, wire.RCAMOUnsupportedSize},
		{"place", wire.AtomicWrite, 4, 8, 8, 8, 8, wire.RCAMOUnaligned},
		{"operation", 0xFF, 0, 8, 8, 8, 8, wire.RCAMOUnsupportedOp},
	} {
		b := [4][]byte{}
		for i, n := range []int{c.target, c.operand, c.compare, c.result} {
			b[i] = bytes.Repeat([]byte{byte(0x11 * (i + 1))}, n)
		}
		if _, rc := Execute(c.op, wire.AtomicUint64, c.offset, b[0], b[1], b[2], b[3]); rc != c.want {
			t.Errorf("%s: %v, not %v", c.name, rc, c.want)
		}
		if !bytes.Equal(b[0], bytes.Repeat([]byte{0x11}, c.target)) || !bytes.Equal(b[3], bytes.Repeat([]byte{0x44}, c.result)) {
			t.Errorf("%s: bytes changed", c.name)
		}
	}
}

// TestArrays holds an operation on many elements to the same on one after the other.
func TestArrays(t *testing.T) {
	const n = 5
	eachPair(func(op wire.AtomicOp, typ wire.AtomicType) {
		if op.IsCompareSwap() {
			return
		}
		r := rand.New(rand.NewPCG(5, uint64(op)<<8|uint64(typ)))
		var target, operand, mask, want []byte
		var wantX Exceptions
		for range n {
			a, b, m := nearby(r, typ), nearby(r, typ), nearby(r, typ)
			target, operand, mask = append(target, a...), append(operand, b...), append(mask, m...)
			e, x := reference(op, typ, a, b, m)
			want, wantX = append(want, e...), wantX|x
		}
		old := bytes.Clone(target)
		result := make([]byte, len(target))
		x, rc := Execute(op, typ, 64, target, operand, mask, result)
		if rc != wire.RCOK || x != wantX || !bytes.Equal(target, want) || !bytes.Equal(result, old) {
			t.Errorf("%v %v: %v %x, not %x", op, typ, rc, target, want)
		}
	})
}

// TestLostBits adds and subtracts numbers that lie so far apart that the smaller one loses bits, with ones and zeros about the
// places where rounding decides.
func TestLostBits(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 7))
	for _, typ := range []wire.AtomicType{wire.AtomicLongDouble, wire.AtomicDouble, wire.AtomicFloat, wire.AtomicBF16} {
		prec, _, _ := shape(typ)
		f := formatOf(typ)
		for range 4000 {
			a, b := make([]byte, typ.Size()), make([]byte, typ.Size())
			for _, to := range [][]byte{a, b} {
				sig := uint64(1)<<(prec-1) | uint64(r.IntN(4))<<(prec-3) | uint64(r.IntN(3))
				f.store(to, number{finite, false, -63, sig << (64 - prec)})
			}
			n := f.load(b)
			n.exp -= r.IntN(prec + 6)
			f.store(b, n)
			for _, op := range []wire.AtomicOp{wire.AtomicSum, wire.AtomicDiff} {
				same(t, op, typ, a, b, make([]byte, typ.Size()))
				same(t, op, typ, b, a, make([]byte, typ.Size()))
			}
		}
	}
}

func TestExceptionsCode(t *testing.T) {
	for x, want := range map[Exceptions]wire.ReturnCode{0: wire.RCOK, Inexact: wire.RCAMOFPInexact, Inexact | Underflow: wire.RCAMOFPUnderflow,
		Inexact | Overflow | Underflow: wire.RCAMOFPOverflow, 15: wire.RCAMOFPNaN} {
		if got := x.Code(); got != want {
			t.Errorf("%04b: %v, not %v", x, got, want)
		}
	}
}

func TestX87Encodings(t *testing.T) {
	x87 := func(se uint16, sig uint64) []byte {
		return binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint64(nil, sig), se)
	}
	for _, c := range []struct {
		name       string
		a, b, want []byte
		exceptions Exceptions
		junk       byte
	}{
		{"pseudo-denormal is the smallest normal number", x87(0, 1<<63), x87(0, 0), x87(1, 1<<63), 0, 7},
		{"unnormal", x87(0x3FFF, 1<<62), x87(0, 0), x87(0x7FFF, 3<<62), NaN, 0},
		{"pseudo-infinity", x87(0x7FFF, 0), x87(0, 0), x87(0x7FFF, 3<<62), NaN, 0},
		{"1 + 2^-63", x87(0x3FFF, 1<<63), x87(0x3FFF-63, 1<<63), x87(0x3FFF, 1<<63|1), 0, 0},
		{"1 + 2^-64 is a tie", x87(0x3FFF, 1<<63), x87(0x3FFF-64, 1<<63), x87(0x3FFF, 1<<63), Inexact, 9},
	} {
		pad := bytes.Repeat([]byte{c.junk}, 6)
		target := append(c.a, pad...)
		x, rc := Execute(wire.AtomicSum, wire.AtomicLongDouble, 0, target, append(c.b, pad...), nil, nil)
		if rc != wire.RCOK || x != c.exceptions || !bytes.Equal(target, append(c.want, make([]byte, 6)...)) {
			t.Errorf("%s: %v %04b %x", c.name, rc, x, target)
		}
	}
}

// TestLayout sends every operation from one end to the other: what SetExtension and the payload carry, Operands finds.
func TestLayout(t *testing.T) {
	eachPair(func(op wire.AtomicOp, typ wire.AtomicType) {
		n := 3
		if op.IsCompareSwap() {
			n = 1
		}
		r := rand.New(rand.NewPCG(8, uint64(op)<<8|uint64(typ)))
		var operand, compare []byte
		for range n {
			operand, compare = append(operand, nearby(r, typ)...), append(compare, nearby(r, typ)...)
		}
		f := wire.AtomicFields{Op: op, Type: typ}
		SetExtension(&f, operand, compare)
		length := RequestLength(op, typ, n)
		var payload []byte
		switch {
		case op == wire.AtomicMSwap:
			payload = append(bytes.Clone(operand), compare...)
		case PayloadLength(op, length) > 0:
			payload = operand
		}
		if len(payload) != PayloadLength(op, length) || TargetLength(op, length) != n*typ.Size() {
			t.Fatalf("%v %v: %d elements are %d bytes of payload and %d of memory", op, typ, n, PayloadLength(op, length), TargetLength(op, length))
		}
		ext, err := wire.ParseAtomic(wire.AppendAtomic(nil, &f))
		if err != nil {
			t.Fatal(err)
		}
		gotO, gotC := Operands(ext, payload, new([32]byte))
		if op != wire.AtomicRead && !bytes.Equal(gotO, operand) || (op.IsCompareSwap() || op == wire.AtomicMSwap) && !bytes.Equal(gotC, compare) {
			t.Errorf("%v %v: %x %x came as %x %x", op, typ, operand, compare, gotO, gotC)
		}
	})
}

func TestNarrowValuesStandInTheLastBytes(t *testing.T) {
	f := wire.AtomicFields{Op: wire.AtomicCSwap, Type: wire.AtomicUint32}
	SetExtension(&f, []byte{4, 3, 2, 1}, []byte{8, 7, 6, 5})
	if want := [16]byte{12: 1, 13: 2, 14: 3, 15: 4}; f.Swap != want {
		t.Errorf("swap value %x", f.Swap)
	}
	if want := [16]byte{12: 5, 13: 6, 14: 7, 15: 8}; f.Compare != want {
		t.Errorf("compare value %x", f.Compare)
	}
	f.Op = wire.AtomicSum
	if SetExtension(&f, []byte{1}, nil); f.Swap != [16]byte{} || f.Compare != [16]byte{} {
		t.Errorf("values of another operation: %x %x", f.Swap, f.Compare)
	}
}

func TestOddMaskedLengthIsRefused(t *testing.T) {
	ext := wire.Atomic{byte(wire.AtomicMSwap), byte(wire.AtomicUint8), 0, 0}
	o, c := Operands(ext, []byte{1, 2, 3}, new([32]byte))
	if _, rc := Execute(ext.Op(), ext.Type(), 0, make([]byte, TargetLength(ext.Op(), 3)), o, c, nil); rc != wire.RCAMOUnsupportedSize {
		t.Error(rc)
	}
}

func TestValidPairs(t *testing.T) {
	n := 0
	eachPair(func(op wire.AtomicOp, typ wire.AtomicType) {
		if Valid(op, typ) {
			n++
		}
	})
	if want := 10*21 + 5*17 + 2*11 + 9; n != want {
		t.Errorf("%d pairs, not %d", n, want)
	}
}

func FuzzExecute(f *testing.F) {
	f.Add(uint8(2), uint8(7), uint64(0), make([]byte, 8), make([]byte, 8), []byte{}, make([]byte, 8), false)
	f.Add(uint8(13), uint8(14), uint64(16), make([]byte, 16), make([]byte, 16), make([]byte, 16), []byte(nil), true)
	f.Add(uint8(4), uint8(15), uint64(0), bytes.Repeat([]byte{0xFF}, 64), bytes.Repeat([]byte{0x80}, 64), []byte(nil), []byte(nil), true)
	f.Fuzz(func(t *testing.T, op, typ uint8, offset uint64, target, operand, compare, result []byte, none bool) {
		// Arguments of a fuzz target must stay as they are.
		before, target, result := target, append([]byte{}, target...), append([]byte{}, result...)
		if none {
			result = nil
		}
		_, rc := Execute(wire.AtomicOp(op), wire.AtomicType(typ), offset, target, operand, compare, result)
		if rc != wire.RCOK {
			if !bytes.Equal(before, target) {
				t.Fatalf("%v, and memory changed", rc)
			}
			return
		}
		if !Valid(wire.AtomicOp(op), wire.AtomicType(typ)) || result != nil && !bytes.Equal(result, before) {
			t.Fatal("what is not valid was done, or old values are wrong")
		}
		if op := wire.AtomicOp(op); op.IsCompareSwap() {
			want, _ := reference(op, wire.AtomicType(typ), before, operand, compare)
			if !bytes.Equal(target, want) {
				t.Fatalf("%x, not %x", target, want)
			}
		}
	})
}

func FuzzOperands(f *testing.F) {
	f.Add([]byte{13, 7, 0, 0}, []byte{1, 2, 3})
	f.Add(make([]byte, 36), []byte{})
	f.Fuzz(func(t *testing.T, b, payload []byte) {
		ext, err := wire.ParseAtomic(b)
		if err != nil {
			return
		}
		o, c := Operands(ext, payload, new([32]byte))
		n := min(TargetLength(ext.Op(), len(payload)), 4096)
		Execute(ext.Op(), ext.Type(), 0, make([]byte, n), o, c, make([]byte, n))
	})
}

func BenchmarkExecute(b *testing.B) {
	for _, c := range []struct {
		op  wire.AtomicOp
		typ wire.AtomicType
		n   int
	}{
		{wire.AtomicSum, wire.AtomicUint64, 1}, {wire.AtomicSum, wire.AtomicUint64, 512}, {wire.AtomicCSwap, wire.AtomicUint64, 1},
		{wire.AtomicSum, wire.AtomicInt128, 1}, {wire.AtomicSum, wire.AtomicFloat, 1}, {wire.AtomicSum, wire.AtomicFloat, 1024},
		{wire.AtomicSum, wire.AtomicDouble, 1}, {wire.AtomicSum, wire.AtomicBF16, 2048}, {wire.AtomicSum, wire.AtomicLongDouble, 1},
		{wire.AtomicProd, wire.AtomicDoubleComplex, 1}, {wire.AtomicBXOR, wire.AtomicUint64, 512},
	} {
		b.Run(fmt.Sprintf("%v/%v/%d", c.op, c.typ, c.n), func(b *testing.B) {
			r := rand.New(rand.NewPCG(1, 1))
			var target, operand []byte
			for range c.n {
				target, operand = append(target, nearby(r, c.typ)...), append(operand, nearby(r, c.typ)...)
			}
			result := make([]byte, len(target))
			b.ReportAllocs()
			for b.Loop() {
				Execute(c.op, c.typ, 0, target, operand, operand, result)
			}
		})
	}
}

func TestNothingIsAllocated(t *testing.T) {
	var target, operand, compare, result [64]byte
	eachPair(func(op wire.AtomicOp, typ wire.AtomicType) {
		n := typ.Size()
		if got := testing.AllocsPerRun(20, func() { Execute(op, typ, 0, target[:n], operand[:n], compare[:n], result[:n]) }); got != 0 {
			t.Errorf("%v %v: %v allocations", op, typ, got)
		}
	})
}
