package fep

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/uetlab/uetlab/fep/mr"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// post has node i post an operation, a little later than everything so far.
func (l *lab) post(i int, op Op) {
	l.t.Helper()
	l.call(i, l.now()+10, func(now vt.Time) {
		l.t.Helper()
		if err := l.eps[i].Post(now, &op); err != nil {
			l.t.Errorf("node %d: %v: %v", i, op.Kind, err)
		}
	})
	l.run(l.now() + 10)
}

// settle lets time go for long enough that all operations end.
func (l *lab) settle() { l.run(l.now() + 20_000_000_000) }

// last is the latest completion of node i.
func (l *lab) last(i int) Completion {
	l.t.Helper()
	if len(l.got[i]) == 0 {
		l.t.Fatalf("node %d: no completion", i)
	}
	return l.got[i][len(l.got[i])-1]
}

func buf(b []byte) Buffer { return Buffer{B: b} }

// TestHeaderData: data goes with sends and writes, alone or beside a payload of one packet or several.
func TestHeaderData(t *testing.T) {
	for _, small := range []bool{false, true} {
		for _, n := range []int{0, 1, 4096, 10_000} {
			l := newLab(t, Config{SmallHeader: small})
			l.optimized()
			src, dst := fill(n, 1), make([]byte, n)
			key, err := l.eps[1].RegisterMR(MR{Buf: buf(make([]byte, n)), Access: mr.RemoteWrite})
			if err != nil {
				t.Fatal(err)
			}
			for i, op := range []Op{{Kind: OpSend}, {Kind: OpTagSend, Tag: 9}, {Kind: OpWrite, Key: key}} {
				op.Peer, op.Flags, op.Data, op.Buf, op.Ctx = 1, FlagData, 0x1122334455667788, buf(src), uint64(i)
				l.post(1, Op{Kind: OpRecv, Buf: buf(dst)})
				l.post(1, Op{Kind: OpTagRecv, Tag: 9, Buf: buf(dst)})
				l.post(0, op)
				l.settle()
				want := []Kind{OpRecv, OpTagRecv, OpRemoteWrite}[i]
				if c := l.last(1); c.Kind != want || c.Flags != FlagData || c.Data != op.Data || c.Len != n || c.Src != 0 || c.Err != nil {
					t.Errorf("%d bytes, %v: at the target %+v", n, op.Kind, c)
				}
				if c := l.last(0); c.Err != nil || c.Ctx != uint64(i) {
					t.Errorf("%d bytes, %v: %+v", n, op.Kind, c)
				}
			}
			l.leaks()
		}
	}
}

// optimized makes the address vectors anew, with peers that take optimized headers if they do.
func (l *lab) optimized() {
	for i := range l.eps {
		for j := range l.eps {
			l.eps[i].Remove(j)
		}
		l.eps[i].av = nil
		for j := range l.eps {
			if _, err := l.eps[i].Insert(l.eps[j].Addr()); err != nil {
				l.t.Fatal(err)
			}
		}
	}
}

// TestOptimizedHeaders: messages of one packet go with the smallest header that can say all, and everything comes out the same.
func TestOptimizedHeaders(t *testing.T) {
	l := newLab(t, Config{SmallHeader: true})
	l.optimized()
	mem := fill(10_000, 3)
	all := mr.RemoteRead | mr.RemoteWrite | mr.RemoteAtomic
	opt, _ := l.eps[1].RegisterMR(MR{Buf: buf(mem), Access: all, Optimized: true})
	plain, _ := l.eps[1].RegisterMR(MR{Buf: buf(mem), Access: all})
	var forms []wire.NextHdr
	l.tap = func(_ vt.Time, from int, b []byte) {
		if r, err := wire.ParseRequest(firstUET(b)); err == nil && from == 0 && r.Next().IsRequest() {
			forms = append(forms, r.Next())
		}
	}
	for _, c := range []struct {
		op   Op
		form wire.NextHdr
	}{
		{Op{Kind: OpWrite, Key: opt, Buf: buf(fill(100, 4))}, wire.NextRequestSmall},
		{Op{Kind: OpWrite, Key: plain, Buf: buf(fill(100, 5))}, wire.NextRequestMedium},
		{Op{Kind: OpWrite, Key: opt, Buf: buf(fill(100, 6)), Flags: FlagData, Data: 7}, wire.NextRequestMedium},
		{Op{Kind: OpWrite, Key: opt, Buf: buf(fill(100, 7)), Flags: FlagData, Data: 7, Offset: 8}, wire.NextRequestStd},
		{Op{Kind: OpWrite, Key: opt, Buf: buf(fill(5000, 8))}, wire.NextRequestStd},
		{Op{Kind: OpRead, Key: opt, Buf: buf(make([]byte, 8))}, wire.NextRequestSmall},
		{Op{Kind: OpRead, Key: opt, Offset: 77, Buf: buf(make([]byte, 4096))}, wire.NextRequestSmall},
		{Op{Kind: OpRead, Key: plain, Offset: 77, Buf: buf(make([]byte, 1000))}, wire.NextRequestMedium},
		{Op{Kind: OpRead, Key: plain, Buf: buf(make([]byte, 4097))}, wire.NextRequestStd},
		{Op{Kind: OpRead, Key: opt, Buf: buf(nil)}, wire.NextRequestSmall},
		{Op{Kind: OpFetchAtomic, Key: opt, Offset: 16, Atomic: wire.AtomicSum, Type: wire.AtomicUint64, Buf: buf(fill(8, 1)), Result: buf(make([]byte, 8))}, wire.NextRequestSmall},
	} {
		forms = nil
		c.op.Peer = 1
		old := append([]byte(nil), mem...)
		l.post(0, c.op)
		l.settle()
		if d := l.last(0); d.Err != nil || len(forms) == 0 || forms[0] != c.form {
			t.Errorf("%v of %d bytes: %v, headers %v, want %v", c.op.Kind, len(c.op.Buf.B), d.Err, forms, c.form)
		}
		got := mem[c.op.Offset:][:len(c.op.Buf.B)]
		switch c.op.Kind {
		case OpFetchAtomic:
			if !bytes.Equal(c.op.Result.B, old[16:24]) || binary.LittleEndian.Uint64(mem[16:]) != binary.LittleEndian.Uint64(old[16:])+binary.LittleEndian.Uint64(c.op.Buf.B) {
				t.Errorf("fetched %x of %x", c.op.Result.B, old[16:24])
			}
		default:
			if !bytes.Equal(got, c.op.Buf.B) {
				t.Errorf("%v of %d bytes at %d: memory differs", c.op.Kind, len(c.op.Buf.B), c.op.Offset)
			}
		}
	}
	if f := l.feps[0]; len(f.smallReads) != 0 || len(f.reads) != 0 || f.mids.n != 0 {
		t.Errorf("left: %d, %d reads, %d message IDs", len(f.smallReads), len(f.reads), f.mids.n)
	}
	l.leaks()
}

// TestInject: the buffer may be used again as soon as Post returns.
func TestInject(t *testing.T) {
	l := newLab(t, Config{})
	dst := [2][]byte{make([]byte, 100), make([]byte, 100)}
	for i := range dst {
		l.post(1, Op{Kind: OpTagRecv, Tag: uint64(i), Buf: buf(dst[i])})
	}
	src := fill(100, 1)
	l.call(0, l.now()+1, func(now vt.Time) {
		for i := range dst {
			src[0] = byte(i)
			if err := l.eps[0].Post(now, &Op{Kind: OpTagSend, Peer: 1, Tag: uint64(i), Flags: FlagInject, Buf: buf(src)}); err != nil {
				t.Error(err)
			}
		}
		clear(src)
		if err := l.eps[0].Post(now, &Op{Kind: OpSend, Peer: 1, Flags: FlagInject, Buf: buf(make([]byte, InjectSize+1))}); !errors.Is(err, ErrTooLarge) {
			t.Errorf("too much: %v", err)
		}
	})
	l.settle()
	want := fill(100, 1)
	for i := range dst {
		want[0] = byte(i)
		if !bytes.Equal(dst[i], want) {
			t.Errorf("message %d differs", i)
		}
	}
	if len(l.got[0]) != 2 {
		t.Errorf("%d completions", len(l.got[0]))
	}
}

// TestMultiRecv: messages are packed one behind the other; the buffer comes back with the message that leaves too little room.
func TestMultiRecv(t *testing.T) {
	l := newLab(t, Config{})
	dst := make([]byte, 1000)
	l.post(1, Op{Kind: OpRecv, Flags: FlagMultiRecv, Buf: buf(dst), Ctx: 1})
	second := make([]byte, 1000)
	l.post(1, Op{Kind: OpRecv, Flags: FlagMultiRecv, Buf: buf(second), Ctx: 2})
	at := 0
	for i, n := range []int{300, 0, 500, 150, 10} {
		l.post(0, Op{Kind: OpSend, Peer: 1, Buf: buf(fill(n, uint64(i)))})
		l.settle()
		c := l.last(1)
		want := Completion{Ctx: 1, Len: n, Offset: at}
		if i == 3 {
			want.Flags = FlagMultiRecv
		}
		if i == 4 {
			want.Ctx, want.Offset = 2, 0
		}
		if c.Ctx != want.Ctx || c.Len != n || c.Offset != want.Offset || c.Flags != want.Flags || c.Err != nil {
			t.Errorf("message %d: %+v, want %+v", i, c, want)
		}
		if i < 4 && !bytes.Equal(dst[at:at+n], fill(n, uint64(i))) {
			t.Errorf("message %d differs", i)
		}
		at += n
	}
	if !l.eps[1].Cancel(l.now(), 2) || l.eps[1].Cancel(l.now(), 2) {
		t.Error("cancel")
	}
	l.settle()
	if c := l.last(1); c.Ctx != 2 || !errors.Is(c.Err, ErrCancelled) || c.Flags != FlagMultiRecv {
		t.Errorf("%+v", c)
	}
}

// TestSharedQueue: receives of a shared queue go to whichever endpoint has a message first.
func TestSharedQueue(t *testing.T) {
	l := newLab(t, Config{})
	q := l.feps[1].OpenRecvQueue(0, func(_ vt.Time, c Completion) { l.got[1] = append(l.got[1], c) })
	var got [3][]Completion
	for i := range got {
		if _, err := l.feps[1].Open(EndpointConfig{Job: testJob, PID: uint16(10 + i), Queue: q}, func(_ vt.Time, c Completion) {
			got[i] = append(got[i], c)
		}); err != nil {
			t.Fatal(err)
		}
		l.eps[0].InsertAddr(testAddr(1), uint16(10+i), uint32(i))
	}
	l.call(1, l.now()+1, func(now vt.Time) {
		for i := range uint64(4) {
			if err := q.Post(now, &Op{Kind: OpRecv, Peer: AnySource, Buf: buf(make([]byte, 10)), Ctx: i}); err != nil {
				t.Error(err)
			}
		}
	})
	for _, to := range []int{2, 0, 1} {
		l.post(0, Op{Kind: OpSend, Peer: 2 + to, Buf: buf(make([]byte, 10))})
		l.settle()
	}
	for to, ctx := range []uint64{1, 2, 0} {
		if len(got[to]) != 1 || got[to][0].Ctx != ctx || got[to][0].Err != nil {
			t.Errorf("endpoint %d: %+v", to, got[to])
		}
	}
	l.call(1, l.now()+1, q.Close)
	l.settle()
	if c := l.last(1); c.Ctx != 3 || !errors.Is(c.Err, ErrClosed) {
		t.Errorf("%+v", c)
	}
}

// TestAtomics: what comes back and what is left, for each family of operations.
func TestAtomics(t *testing.T) {
	l := newLab(t, Config{})
	mem := make([]byte, 64)
	u64 := func(v ...uint64) (b []byte) {
		for _, v := range v {
			b = binary.LittleEndian.AppendUint64(b, v)
		}
		return b
	}
	key, err := l.eps[1].RegisterMR(MR{Buf: buf(mem), Access: mr.RemoteRead | mr.RemoteWrite | mr.RemoteAtomic, Notify: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		kind        Kind
		op          wire.AtomicOp
		buf, cmp    []byte
		result, mem []byte // wanted
	}{
		{OpAtomic, wire.AtomicWrite, u64(5, 6), nil, nil, u64(5, 6)},
		{OpAtomic, wire.AtomicSum, u64(10, 20), nil, nil, u64(15, 26)},
		{OpFetchAtomic, wire.AtomicMax, u64(20, 20), nil, u64(15, 26), u64(20, 26)},
		{OpFetchAtomic, wire.AtomicRead, nil, nil, u64(20, 26), u64(20, 26)},
		{OpCompareAtomic, wire.AtomicCSwap, u64(99), u64(20), u64(20), u64(99, 26)},
		{OpCompareAtomic, wire.AtomicCSwap, u64(1), u64(20), u64(99), u64(99, 26)},
		{OpCompareAtomic, wire.AtomicMSwap, u64(0xF0F0), u64(0xFF00), u64(99), u64(0xF063, 26)},
	} {
		got := make([]byte, len(c.result))
		n := len(l.got[1])
		l.post(0, Op{Kind: c.kind, Peer: 1, Key: key, Offset: 8, Atomic: c.op, Type: wire.AtomicUint64, Buf: buf(c.buf), Compare: buf(c.cmp), Result: buf(got)})
		l.settle()
		if d := l.last(0); d.Err != nil || !bytes.Equal(got, c.result) || !bytes.Equal(mem[8:8+len(c.mem)], c.mem) {
			t.Errorf("%v: %v, %x, memory %x", c.op, d.Err, got, mem[8:24])
		}
		if len(l.got[1]) != n+1 || l.last(1).Kind != OpRemoteAtomic || l.last(1).Offset != 8 {
			t.Errorf("%v: the target was told %+v", c.op, l.got[1][n:])
		}
	}
	for _, c := range []struct {
		op  Op
		err wire.ReturnCode
	}{
		{Op{Key: key, Offset: 12}, wire.RCAMOUnaligned},
		{Op{Key: key, Offset: 64}, wire.RCBadAddr},
		{Op{Key: key + 1}, wire.RCBadMKey},
	} {
		c.op.Kind, c.op.Peer, c.op.Atomic, c.op.Type, c.op.Buf = OpAtomic, 1, wire.AtomicSum, wire.AtomicUint64, buf(u64(1))
		l.post(0, c.op)
		l.settle()
		var re *ResponseError
		if !errors.As(l.last(0).Err, &re) || re.Code != c.err {
			t.Errorf("%v, want %v", l.last(0).Err, c.err)
		}
	}
	l.leaks()
}

// TestAtomicOnce: an atomic whose ACK is lost is not executed again, and its answer is the first one.
func TestAtomicOnce(t *testing.T) {
	l := newLab(t, Config{})
	mem, old := make([]byte, 8), make([]byte, 8)
	mem[0] = 7
	key, _ := l.eps[1].RegisterMR(MR{Buf: buf(mem), Access: mr.RemoteRead | mr.RemoteWrite | mr.RemoteAtomic})
	lost := 0
	l.script = func(from int, b []byte) fate {
		if _, err := wire.ParseAck(firstUET(b)); err == nil && from == 1 && lost < 2 {
			lost++
			return fate{drop: true}
		}
		return fate{}
	}
	l.post(0, Op{Kind: OpFetchAtomic, Peer: 1, Key: key, Atomic: wire.AtomicSum, Type: wire.AtomicInt64, Buf: buf([]byte{1, 7: 0}), Result: buf(old)})
	l.settle()
	if c := l.last(0); c.Err != nil || mem[0] != 8 || old[0] != 7 || lost != 2 || l.feps[1].C[AtomicsRx] != 1 {
		t.Errorf("%v: memory %d, old %d, %d ACKs lost", c.Err, mem[0], old[0], lost)
	}
}
