package amo

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/uetlab/uetlab/wire"
)

var update = flag.Bool("update", false, "write testdata/atomics.txt anew from the reference")

// golden holds a case of every operation on every type that has it, as the reference sees it. Tests of package fep send the
// same cases as packets.
const golden = "testdata/atomics.txt"

const goldenHead = `# Cases of every atomic operation on every datatype that has it, from the reference of this package's tests.
# operation datatype target operand compare result exceptions; bytes in hexadecimal as in memory, exceptions: 1 NaN, 2 overflow,
# 4 underflow, 8 inexact. The compare value of MSWAP is its mask; other operations but the CSWAP family ignore it.
`

// edges are the values of a type at which things break.
func edges(t wire.AtomicType) [][]byte {
	var out [][]byte
	size := t.Size()
	if t <= wire.AtomicUint128 {
		for _, hi := range []byte{0x00, 0x7F, 0x80, 0xFF} {
			for _, lo := range []byte{0x00, 0xFF} {
				b := bytes.Repeat([]byte{lo}, size)
				b[size-1] = hi
				out = append(out, b)
			}
		}
		for _, v := range []byte{1, 2, 0x0F} {
			b := make([]byte, size)
			b[0] = v
			out = append(out, b)
		}
		return out
	}
	prec, _, high := shape(t)
	top := uint64(2*high + 1)
	lead, frac := uint64(1)<<(prec-1), uint64(1)<<(prec-1)-1
	var reals [][]byte
	for _, v := range []struct{ e, sig uint64 }{{0, 0}, {0, 1}, {0, frac}, {1, lead}, {uint64(high), lead}, {uint64(high), lead | 1},
		{uint64(high), lead | frac}, {uint64(high) + uint64(prec), lead}, {top - 1, lead | frac}, {top, lead}, {top, lead | lead>>1}} {
		for _, neg := range []byte{0, 0x80} {
			b := make([]byte, size/parts(t))
			if prec == 64 {
				binary.LittleEndian.PutUint64(b, v.sig)
				binary.LittleEndian.PutUint16(b[8:], uint16(v.e))
				b[9] |= neg
			} else {
				w := binary.LittleEndian.AppendUint64(nil, v.e<<(prec-1)|v.sig&frac)
				copy(b, w)
				b[len(b)-1] |= neg
			}
			reals = append(reals, b)
		}
	}
	if parts(t) == 1 {
		return reals
	}
	for i, re := range reals {
		out = append(out, slices.Concat(re, reals[(i*7+3)%len(reals)]))
	}
	return out
}

// nearby are random values, mostly of exponents that meet.
func nearby(r *rand.Rand, t wire.AtomicType) []byte {
	b := make([]byte, t.Size())
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	if t <= wire.AtomicUint128 || r.IntN(4) == 0 {
		return b
	}
	prec, _, high := shape(t)
	half := len(b) / parts(t)
	for p := b; len(p) > 0; p = p[half:] {
		e := uint64(high + r.IntN(2*prec+3) - prec)
		switch r.IntN(8) {
		case 0:
			e = uint64(r.IntN(3))
		case 1:
			e = uint64(high/2 + r.IntN(prec+9) - prec/2 - 4) // products about the smallest numbers
		}
		if prec == 64 {
			p[7] |= 0x80
			binary.LittleEndian.PutUint16(p[8:], uint16(e)|uint16(p[9]>>7)<<15)
			clear(p[10:16])
			continue
		}
		w := make([]byte, 8)
		copy(w, p[:half])
		v := binary.LittleEndian.Uint64(w)
		sign := v >> (8*half - 1) << (8*half - 1)
		binary.LittleEndian.PutUint64(w, v&(1<<(prec-1)-1)|e<<(prec-1)|sign)
		copy(p[:half], w)
	}
	return b
}

func eachPair(f func(op wire.AtomicOp, t wire.AtomicType)) {
	for op := wire.AtomicMin; op <= wire.AtomicInval; op++ {
		for t := wire.AtomicInt8; t <= wire.AtomicFP16; t++ {
			if Valid(op, t) {
				f(op, t)
			}
		}
	}
}

// same compares an element with the reference's.
func same(t *testing.T, op wire.AtomicOp, typ wire.AtomicType, tb, ob, cb []byte) {
	t.Helper()
	want, wantX := reference(op, typ, tb, ob, cb)
	got, old := slices.Clone(tb), make([]byte, len(tb))
	x, rc := Execute(op, typ, 0, got, ob, cb, old)
	if rc != wire.RCOK || !bytes.Equal(got, want) || x != wantX || !bytes.Equal(old, tb) {
		t.Fatalf("%v %v target %x operand %x compare %x: %v %x exceptions %04b old %x, the reference says %x %04b", op, typ, tb, ob, cb, rc,
			got, x, old, want, wantX)
	}
}

func TestEveryOperationOnEveryTypeLikeTheReference(t *testing.T) {
	n := 0
	eachPair(func(op wire.AtomicOp, typ wire.AtomicType) {
		t.Run(fmt.Sprintf("%v/%v", op, typ), func(t *testing.T) {
			e := edges(typ)
			for i, tb := range e {
				for _, ob := range e {
					same(t, op, typ, tb, ob, e[i])
					same(t, op, typ, tb, ob, ob)
					n += 2
				}
			}
			seed := uint64(op)<<8 | uint64(typ)
			r := rand.New(rand.NewPCG(1, seed))
			for range 300 {
				tb, ob, cb := nearby(r, typ), nearby(r, typ), nearby(r, typ)
				same(t, op, typ, tb, ob, cb)
				same(t, op, typ, tb, ob, tb)
				n += 2
			}
		})
	})
	t.Logf("%d cases", n)
}

// TestHardware holds the reference, and so the package, against the processor's own arithmetic.
func TestHardware(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 3))
	for range 20000 {
		a, b := nearby(r, wire.AtomicDouble), nearby(r, wire.AtomicDouble)
		x, y := math.Float64frombits(binary.LittleEndian.Uint64(a)), math.Float64frombits(binary.LittleEndian.Uint64(b))
		f, g := nearby(r, wire.AtomicFloat), nearby(r, wire.AtomicFloat)
		v, w := math.Float32frombits(binary.LittleEndian.Uint32(f)), math.Float32frombits(binary.LittleEndian.Uint32(g))
		for op, want := range map[wire.AtomicOp]float64{wire.AtomicSum: x + y, wire.AtomicDiff: x - y, wire.AtomicProd: x * y} {
			got := slices.Clone(a)
			Execute(op, wire.AtomicDouble, 0, got, b, nil, nil)
			if bits := binary.LittleEndian.Uint64(got); bits != math.Float64bits(want) && !(want != want && math.IsNaN(math.Float64frombits(bits))) {
				t.Fatalf("%v of %g and %g: %x, the processor says %x", op, x, y, bits, math.Float64bits(want))
			}
		}
		for op, want := range map[wire.AtomicOp]float32{wire.AtomicSum: v + w, wire.AtomicDiff: v - w, wire.AtomicProd: v * w} {
			got := slices.Clone(f)
			Execute(op, wire.AtomicFloat, 0, got, g, nil, nil)
			if bits := binary.LittleEndian.Uint32(got); bits != math.Float32bits(want) && !(want != want && bits == 0x7FC00000) {
				t.Fatalf("%v of %g and %g: %x, the processor says %x", op, v, w, bits, math.Float32bits(want))
			}
		}
	}
}

func TestGolden(t *testing.T) {
	var want strings.Builder
	want.WriteString(goldenHead)
	eachPair(func(op wire.AtomicOp, typ wire.AtomicType) {
		e := edges(typ)
		r := rand.New(rand.NewPCG(4, uint64(op)<<8|uint64(typ)))
		for i := range 6 {
			tb, ob := e[r.IntN(len(e))], e[r.IntN(len(e))]
			if i >= 3 {
				tb, ob = nearby(r, typ), nearby(r, typ)
			}
			cb := [][]byte{tb, ob, nearby(r, typ)}[i%3]
			res, x := reference(op, typ, tb, ob, cb)
			fmt.Fprintf(&want, "%v %v %x %x %x %x %d\n", op, typ, tb, ob, cb, res, x)
		}
	})
	if *update {
		if err := os.WriteFile(golden, []byte(want.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != want.String() {
		t.Fatalf("%s is not what the reference gives: run go test -run TestGolden -update", golden)
	}
	for i, line := range strings.Split(strings.TrimSpace(string(have)), "\n") {
		f := strings.Fields(line)
		if f[0] == "#" {
			continue
		}
		var b [4][]byte
		for j := range b {
			if b[j], err = hex.DecodeString(f[2+j]); err != nil {
				t.Fatalf("line %d: %v", i+1, err)
			}
		}
		var op wire.AtomicOp
		for op.String() != f[0] {
			op++
		}
		var typ wire.AtomicType
		for typ.String() != f[1] {
			typ++
		}
		x, rc := Execute(op, typ, 0, b[0], b[1], b[2], make([]byte, len(b[0])))
		if rc != wire.RCOK || !bytes.Equal(b[0], b[3]) || fmt.Sprint(uint8(x)) != f[6] {
			t.Errorf("line %d: %s: got %v %x %d", i+1, line, rc, b[0], x)
		}
	}
}
