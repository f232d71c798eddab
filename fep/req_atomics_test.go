package fep

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/uetlab/uetlab/fep/amo"
	"github.com/uetlab/uetlab/fep/mr"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// atomicCase is a line of fep/amo/testdata/atomics.txt, which the reference of that package's tests has made.
type atomicCase struct {
	op                       wire.AtomicOp
	typ                      wire.AtomicType
	target, operand, compare []byte
	result                   []byte
}

func atomicCases(t *testing.T) (list []atomicCase) {
	text, err := os.ReadFile("amo/testdata/atomics.txt")
	if err != nil {
		t.Fatal(err)
	}
	ops, types := map[string]wire.AtomicOp{}, map[string]wire.AtomicType{}
	for i := range 256 {
		ops[wire.AtomicOp(i).String()], types[wire.AtomicType(i).String()] = wire.AtomicOp(i), wire.AtomicType(i)
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) != 7 || f[0] == "#" {
			continue
		}
		var b [4][]byte
		for i := range b {
			if b[i], err = hex.DecodeString(f[2+i]); err != nil {
				t.Fatal(err)
			}
		}
		op, ok1 := ops[f[0]]
		typ, ok2 := types[f[1]]
		if !ok1 || !ok2 {
			t.Fatalf("unknown: %s", line)
		}
		list = append(list, atomicCase{op, typ, b[0], b[1], b[2], b[3]})
	}
	return list
}

// ops are the operations that do what the case says, with the result of the reference: compare operations and READ always fetch.
func (c *atomicCase) ops() (list []Op) {
	op := Op{Kind: OpFetchAtomic, Atomic: c.op, Type: c.typ, Buf: buf(c.operand), Result: buf(make([]byte, len(c.target)))}
	switch {
	case c.op.IsCompareSwap() || c.op == wire.AtomicMSwap:
		op.Kind, op.Compare = OpCompareAtomic, buf(c.compare)
		return []Op{op}
	case c.op == wire.AtomicRead:
		op.Buf = Buffer{}
		return []Op{op}
	}
	plain := op
	plain.Kind, plain.Result = OpAtomic, Buffer{}
	return []Op{op, plain}
}

// J11: every operation on every type that has it gives what the reference gives, and leaves what is beside its target alone; the
// fetching ones bring the old value. With the standard header and with the small one.
func TestJ11_EveryAtomic(t *testing.T) {
	cases := atomicCases(t)
	type pair struct {
		op  wire.AtomicOp
		typ wire.AtomicType
	}
	pairs := map[pair]bool{}
	for _, small := range []bool{false, true} {
		l := newLabWith(t, Config{SmallHeader: small}, EndpointConfig{}, EndpointConfig{})
		const guard = 64
		mem := bytes.Repeat([]byte{0xA5}, 2*guard+32)
		key, _ := l.eps[1].RegisterMR(MR{Buf: buf(mem), Access: allRights, Optimized: small})
		for i, c := range cases {
			pairs[pair{c.op, c.typ}] = true
			n := len(c.target)
			for _, op := range c.ops() {
				copy(mem[guard:], c.target)
				op.Peer, op.Key, op.Offset = 1, key, guard
				l.got = [2][]Completion{}
				l.post(0, op)
				l.after(5000)
				if len(l.got[0]) != 1 || l.got[0][0].Err != nil {
					t.Fatalf("case %d: %v %v of %v: %+v", i, op.Kind, c.op, c.typ, l.got[0])
				}
				if !bytes.Equal(mem[guard:guard+n], c.result) {
					t.Errorf("case %d: %v of %v on %x with %x and %x: %x, the reference has %x", i, c.op, c.typ, c.target, c.operand, c.compare,
						mem[guard:guard+n], c.result)
				}
				if op.Kind != OpAtomic && !bytes.Equal(op.Result.B, c.target) {
					t.Errorf("case %d: %v of %v on %x fetched %x", i, c.op, c.typ, c.target, op.Result.B)
				}
			}
			for j := range n {
				mem[guard+j] = 0xA5
			}
			if !bytes.Equal(mem, bytes.Repeat([]byte{0xA5}, len(mem))) {
				t.Fatalf("case %d: %v of %v touched its neighbours", i, c.op, c.typ)
			}
		}
	}
	for op := wire.AtomicMin; op <= wire.AtomicInval; op++ {
		for typ := wire.AtomicInt8; typ <= 0x11; typ++ {
			if amo.Valid(op, typ) != pairs[pair{op, typ}] {
				t.Errorf("%v of %v: in the cases %v, an operation %v", op, typ, pairs[pair{op, typ}], amo.Valid(op, typ))
			}
		}
	}
}

// J12: fetching atomics bring the value from before; if the ACK that has it is lost, the repeated request gets the same answer, and
// nothing is computed a second time.
func TestJ12_LostAnswerOfAnAtomic(t *testing.T) {
	for _, small := range []bool{false, true} {
		for _, op := range []Op{
			{Kind: OpFetchAtomic, Atomic: wire.AtomicSum, Buf: buf(word(1))},
			{Kind: OpCompareAtomic, Atomic: wire.AtomicCSwap, Buf: buf(word(42)), Compare: buf(word(41))},
			{Kind: OpAtomic, Atomic: wire.AtomicSum, Buf: buf(word(1))},
		} {
			for _, lose := range []int{1, 3} {
				l := newLabWith(t, Config{SmallHeader: small, NoInfer: true}, EndpointConfig{}, EndpointConfig{})
				mem := word(41)
				key, _ := l.eps[1].RegisterMR(MR{Buf: buf(mem), Access: allRights, Optimized: small})
				left := lose
				var answers [][]byte
				l.script = func(from int, b []byte) (f fate) {
					if u := firstUET(b); from == 1 && acks(from, u) {
						a, _ := wire.ParseAck(u)
						answers = append(answers, append([]byte(nil), u[len(a):]...))
						if left > 0 {
							left--
							f.drop = true
						}
					}
					return f
				}
				old := make([]byte, 8)
				op.Peer, op.Key, op.Type, op.Ctx = 1, key, wire.AtomicUint64, 4
				if op.Kind != OpAtomic {
					op.Result = buf(old)
				}
				l.post(0, op)
				l.settle()
				if len(l.got[0]) != 1 || l.got[0][0].Err != nil || binary.LittleEndian.Uint64(mem) != 42 || l.count(AtomicsRx) != 1 || l.feps[1].C[DupRx] == 0 {
					t.Errorf("small %v, %v: %+v; the memory has %d, executed %d times", small, op.Kind, l.got[0], binary.LittleEndian.Uint64(mem), l.count(AtomicsRx))
				}
				if op.Kind == OpAtomic {
					continue
				}
				if v := binary.LittleEndian.Uint64(old); v != 41 || len(answers) <= lose {
					t.Errorf("small %v, %v: fetched %d, %d answers", small, op.Kind, v, len(answers))
				}
				for _, a := range answers[:min(len(answers), lose+1)] {
					if !bytes.Equal(a, answers[0]) {
						t.Errorf("small %v, %v: answers %x and %x", small, op.Kind, answers[0], a)
					}
				}
			}
		}
	}
}

// word is a number in memory.
func word(v uint64) []byte { return binary.LittleEndian.AppendUint64(nil, v) }

// F22 for atomics: over a link that loses 5 % of everything, repeats and reorders, each is executed once: the sum is exact, and each
// value between was fetched once.
func TestF22_AtomicsOnce(t *testing.T) {
	n := 8_000
	if testing.Short() {
		n = 2_000
	}
	const seed = 22
	l := newLab(t, Config{PayloadMTU: 1024})
	l.script = lossy(rand.New(rand.NewPCG(seed, 0)), 0.05, 0.05, 0.3)
	mem, old := make([]byte, 8), make([]byte, 8*n)
	key, _ := l.eps[1].RegisterMR(MR{Buf: buf(mem), Access: allRights})
	posted := 0
	more := func(now vt.Time) {
		for ; posted < n && posted-len(l.got[0]) < 1000; posted++ {
			op := Op{Kind: OpAtomic, Peer: 1, Key: key, Atomic: wire.AtomicSum, Type: wire.AtomicUint64, Buf: buf(word(1))}
			if posted%2 == 0 {
				op.Kind, op.Result = OpFetchAtomic, buf(old[8*posted:][:8])
			}
			if err := l.eps[0].Post(now, &op); err != nil {
				t.Fatal(err)
			}
		}
	}
	l.call(0, 1, more)
	for len(l.got[0]) < n && l.step(vt.Never) {
		if posted < n && posted-len(l.got[0]) < 500 {
			l.call(0, l.nodes[0].Now(), more)
			l.step(vt.Never)
		}
	}
	seen := map[uint64]bool{}
	for i := 0; i < n; i += 2 {
		seen[binary.LittleEndian.Uint64(old[8*i:])] = true
	}
	if got := binary.LittleEndian.Uint64(mem); got != uint64(n) || l.count(AtomicsRx) != n || l.count(MsgsErr) != 0 || len(seen) != n/2 || l.count(Retx) == 0 {
		t.Errorf("%d atomics: the sum is %d, %d executed, %d values fetched, %d errors", n, got, l.count(AtomicsRx), len(seen), l.count(MsgsErr))
	}
}

// J13: an unknown operation, a type that it lacks, a size that is no number of elements or too large, and an address that is not
// aligned have their codes, in this order and behind those of the memory key; nothing is changed.
func TestJ13_CodesOfAtomics(t *testing.T) {
	s := newStub(t, Config{})
	mem := fill(8192, 1)
	before := append([]byte(nil), mem...)
	key, _ := s.eps[1].RegisterMR(MR{Buf: buf(mem), Access: allRights})
	ro, _ := s.eps[1].RegisterMR(MR{Buf: buf(mem), Access: mr.RemoteRead | mr.RemoteAtomic})
	s.openBy(wire.TypeRUDReq)
	const u8, u64, f32, c64 = wire.AtomicUint8, wire.AtomicUint64, wire.AtomicFloat, wire.AtomicDoubleComplex
	psn := int32(0)
	for _, fetch := range []bool{false, true} {
		for _, c := range []struct {
			op     wire.AtomicOp
			typ    wire.AtomicType
			key    uint64
			offset uint64
			n      int
			rc     wire.ReturnCode
		}{
			{0x15, u64, key, 0, 8, wire.RCAMOUnsupportedOp}, {0x80, u64, key, 0, 8, wire.RCAMOUnsupportedOp}, {0xFF, 0xFF, key, 1, 3, wire.RCAMOUnsupportedOp},
			{wire.AtomicSum, 0x12, key, 0, 8, wire.RCAMOUnsupportedDT}, {wire.AtomicSum, 0xFF, key, 1, 3, wire.RCAMOUnsupportedDT},
			{wire.AtomicBOR, f32, key, 0, 4, wire.RCAMOUnsupportedDT}, {wire.AtomicMin, c64, key, 0, 16, wire.RCAMOUnsupportedDT},
			{wire.AtomicSum, u64, key, 0, 7, wire.RCAMOUnsupportedSize}, {wire.AtomicSum, u64, key, 1, 12, wire.RCAMOUnsupportedSize},
			{wire.AtomicSum, u64, key, 0, 0, wire.RCAMOUnsupportedSize}, {wire.AtomicSum, c64, key, 0, 8, wire.RCAMOUnsupportedSize},
			{wire.AtomicMSwap, u64, key, 0, 8, wire.RCAMOUnsupportedSize}, {wire.AtomicMSwap, u64, key, 0, 17, wire.RCAMOUnsupportedSize},
			{wire.AtomicCSwap, u64, key, 0, 16, wire.RCAMOUnsupportedSize}, {wire.AtomicCSwapGT, u64, key, 0, 4, wire.RCAMOUnsupportedSize},
			{wire.AtomicSum, u64, key, 1, 8, wire.RCAMOUnaligned}, {wire.AtomicSum, u64, key, 4, 8, wire.RCAMOUnaligned}, {wire.AtomicProd, f32, key, 2, 8, wire.RCAMOUnaligned},
			{wire.AtomicCSwap, u64, key, 12, 8, wire.RCAMOUnaligned}, {wire.AtomicSum, c64, key, 4, 16, wire.RCAMOUnaligned}, {wire.AtomicSum, c64, key, 8, 16, wire.RCAMOUnaligned},
			{0x15, 0xFF, key + 1<<20, 3, 7, wire.RCBadMKey}, {wire.AtomicSum, 0x12, ro, 1, 7, wire.RCPermViolation}, {wire.AtomicSum, 0x12, key, 8192, 7, wire.RCBadAddr},
		} {
			psn++
			op := wire.OpAtomic
			if fetch {
				op = wire.OpFetchingAtomic
			}
			h := message(op, uint16(psn), c.n)
			h.MatchBits, h.BufferOffset = c.key, c.offset
			p := say{psn: psn, h: h, ext: &wire.AtomicFields{Op: c.op, Type: c.typ}, payload: fill(c.n, 3)}
			if c.op.IsCompareSwap() {
				p.payload = nil
			}
			s.refused(p, c.rc)
			if !bytes.Equal(mem, before) {
				t.Fatalf("%v of %v, %d bytes at %d: memory was changed", c.op, c.typ, c.n, c.offset)
			}
		}
	}
	if s.feps[1].C[AtomicsRx] != 0 {
		t.Errorf("%d atomics executed", s.feps[1].C[AtomicsRx])
	}
	// The neighbours of these that are right.
	for _, c := range []struct {
		op     wire.AtomicOp
		typ    wire.AtomicType
		offset uint64
		n      int
	}{{wire.AtomicSum, u8, 1, 7}, {wire.AtomicSum, c64, 16, 16}, {wire.AtomicMSwap, u64, 8, 16}, {wire.AtomicSum, u64, 8, 16}} {
		psn++
		h := message(wire.OpAtomic, uint16(psn), c.n)
		h.MatchBits, h.BufferOffset = key, c.offset
		a := s.ask(say{psn: psn, h: h, ext: &wire.AtomicFields{Op: c.op, Type: c.typ}, payload: fill(c.n, 3)})
		if a.rc != wire.RCOK || a.gtd {
			t.Errorf("%v of %v, %d bytes at %d: %v, guaranteed %v", c.op, c.typ, c.n, c.offset, a.rc, a.gtd)
		}
	}
}

// J12: the answer of a fetching atomic is guaranteed, that of one that does not fetch is not, and both say how much was changed.
func TestJ12_AnswersOfAtomics(t *testing.T) {
	s := newStub(t, Config{})
	mem := word(41)
	key, _ := s.eps[1].RegisterMR(MR{Buf: buf(mem), Access: allRights})
	s.openBy(wire.TypeRUDReq)
	one := func(psn int32, op wire.Opcode, ext wire.AtomicFields, payload []byte) reply {
		h := message(op, uint16(psn), 8)
		h.MatchBits = key
		return s.ask(say{psn: psn, h: h, ext: &ext, payload: payload})
	}
	sum := wire.AtomicFields{Op: wire.AtomicSum, Type: wire.AtomicUint64}
	if a := one(1, wire.OpAtomic, sum, word(1)); a.rc != wire.RCOK || a.gtd || len(a.data) != 0 || a.op != wire.RespResponse || a.mod != 8 {
		t.Errorf("not fetching: %+v", a)
	}
	if a := one(2, wire.OpFetchingAtomic, sum, word(8)); a.rc != wire.RCOK || !a.gtd || !bytes.Equal(a.data, word(42)) || a.op != wire.RespWithData || a.mod != 8 {
		t.Errorf("fetching: %+v", a)
	}
	swap := wire.AtomicFields{Op: wire.AtomicCSwap, Type: wire.AtomicUint64}
	amo.SetExtension(&swap, word(7), word(50))
	if a := one(3, wire.OpFetchingAtomic, swap, nil); a.rc != wire.RCOK || !a.gtd || !bytes.Equal(a.data, word(50)) || a.op != wire.RespWithData || a.mod != 8 ||
		!bytes.Equal(mem, word(7)) {
		t.Errorf("compare and swap: %+v, the memory has %x", a, mem)
	}
	if a := one(4, wire.OpFetchingAtomic, swap, nil); !bytes.Equal(a.data, word(7)) || !bytes.Equal(mem, word(7)) {
		t.Errorf("compare and swap that does not apply: %+v, the memory has %x", a, mem)
	}
}

// J15: the opcodes 0x10 and 0x11 that others use for their own are not supported here, nor are those beyond.
func TestJ15_VendorOpcodes(t *testing.T) {
	s := newStub(t, Config{Profiles: AIBase | AIFull | HPC})
	mem := make([]byte, 100)
	key, _ := s.eps[1].RegisterMR(MR{Buf: buf(mem), Access: allRights})
	s.post(1, Op{Kind: OpRecv, Peer: AnySource, Buf: buf(mem)})
	s.post(1, Op{Kind: OpTagRecv, Peer: AnySource, Tag: key, Buf: buf(mem)})
	s.openBy(wire.TypeRUDReq)
	for i, op := range []wire.Opcode{0x10, 0x11, 0x12, 0x20, 0x3E, 0x3F} {
		h := message(op, uint16(i)+2, 0)
		h.MatchBits = key
		s.refused(whole(int32(i)+1, h, fill(50, 1)), wire.RCUnsupportedOp)
	}
	if !bytes.Equal(mem, make([]byte, 100)) || len(s.lab.got[1]) != 0 {
		t.Errorf("they had an effect: %+v", s.lab.got[1])
	}
	// An initiator does not go mad over them either.
	l := newLab(t, Config{})
	l.call(0, 1, func(now vt.Time) {
		if err := l.eps[0].Post(now, &Op{Kind: numOpKinds, Peer: 1}); err == nil {
			t.Error("an unknown kind was accepted")
		}
	})
	l.run(100)
}
