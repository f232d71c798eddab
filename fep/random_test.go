package fep

import (
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/uetlab/uetlab/fep/mr"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

var randomSeeds = flag.Int("ops", 120, "random seeds of TestRandomOperations")

// TestRandomOperations does operations of all kinds in both directions over a link that loses, doubles and delays. Each has one
// completion, data is right where it is a success, and nothing is left. With every other seed an endpoint is closed, or regions are
// deregistered, in the middle of it: from then on nobody touches that memory.
func TestRandomOperations(t *testing.T) {
	for seed := range uint64(*randomSeeds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { randomOperations(t, seed) })
	}
}

// randomOp is one operation, with what belongs to it at the other side.
type randomOp struct {
	from   int
	op     Op
	src    []byte
	remote []byte // region, or receive buffer
	key    uint64
	ends   [2]int // completions, by node: of the operation, and of the receive
	err    error
}

func randomOperations(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	cfg := Config{MaxRestarts: InfiniteRestarts, MaxRTORetx: InfiniteRTO, MaxNackRetx: InfiniteNack, SmallHeader: r.IntN(2) == 0,
		MaxReturns: 1 + r.IntN(100), MPR: uint8(1 + r.IntN(8)), PayloadMTU: 1024 << r.IntN(3), RestartWait: 1 + 1_000_000}
	if r.IntN(3) == 0 {
		cfg.MaxMessages = 1 + r.IntN(10)
	}
	l := newLab(t, cfg)
	l.optimized()
	bad := r.IntN(3) * 3
	l.script = func(int, []byte) (ft fate) {
		switch p := r.IntN(100); {
		case p < bad:
			ft.drop = true
		case p < bad*3/2:
			ft.dup = 1
		case p < 2*bad:
			ft.delay = 1000
		}
		return ft
	}
	ops := make([]*randomOp, 30)
	for i := range ops {
		ops[i] = l.randomOp(r, uint64(i))
	}
	closed := -1
	shut := vt.Time(r.Int64N(3_000_000))
	gone := map[int]bool{}
	var held [][2][]byte
	watch := func(b []byte) {
		r.Uint64()
		clear(b)
		held = append(held, [2][]byte{b, bytes.Clone(b)})
	}
	switch seed % 4 {
	case 1:
		closed = r.IntN(2)
		l.call(closed, shut+1, func(now vt.Time) {
			l.eps[closed].Close(now)
			for _, o := range ops {
				if o.from == closed {
					watch(o.op.Buf.B)
					watch(o.op.Result.B)
				} else {
					watch(o.remote)
				}
			}
		})
	case 3:
		for i, o := range ops {
			if o.key != 0 && r.IntN(2) == 0 {
				gone[i] = true
				l.call(1-o.from, shut+1, func(vt.Time) {
					if err := l.eps[1-o.from].Deregister(o.key); err != nil {
						t.Error(err)
					}
					watch(o.remote)
				})
			}
		}
	}
	l.run(vt.Time(60_000_000_000))
	for _, h := range held {
		if !bytes.Equal(h[0], h[1]) {
			t.Error("memory was touched after it was taken back")
		}
	}
	for i, o := range ops {
		o.check(t, i, closed, gone[i])
	}
	for i, f := range l.feps {
		if f.mids.n != 0 || f.rx.n != 0 || f.rets.n != 0 || len(f.reads) != 0 || len(f.smallReads) != 0 || f.C[GtdInUse] != 0 ||
			l.eps[i].open.head != nil || closed < 0 && l.eps[i].q.tagged.Len() > 0 {
			t.Errorf("node %d: %d message IDs, %d messages, %d return data, %d and %d reads, %d responses", i, f.mids.n, f.rx.n, f.rets.n,
				len(f.reads), len(f.smallReads), f.C[GtdInUse])
		}
		if res := f.m.Residue(); res != "" {
			t.Errorf("node %d: left in packet delivery: %s", i, res)
		}
	}
	l.leaks()
}

// randomOp makes an operation and posts it, and its receive, some time in the first milliseconds.
func (l *lab) randomOp(r *rand.Rand, ctx uint64) *randomOp {
	o := &randomOp{from: r.IntN(2)}
	n := r.IntN(1 << r.IntN(18))
	o.op = Op{Kind: []Kind{OpTagSend, OpWrite, OpRead, OpFetchAtomic}[r.IntN(4)], Peer: 1 - o.from, Ctx: ctx, Tag: ctx}
	if o.op.Kind == OpFetchAtomic {
		n = 8
		o.op.Atomic, o.op.Type, o.op.Result = wire.AtomicSum, wire.AtomicUint64, buf(make([]byte, 8))
	}
	o.src, o.remote = fill(n, ctx), make([]byte, n)
	o.op.Buf = buf(bytes.Clone(o.src))
	if o.op.Kind == OpRead || o.op.Kind == OpFetchAtomic {
		copy(o.remote, fill(n, ctx+100))
	}
	if o.op.Kind == OpRead {
		o.src = fill(n, ctx+100)
		clear(o.op.Buf.B)
	}
	you := l.eps[1-o.from]
	if o.op.Kind != OpTagSend {
		var err error
		o.key, err = you.RegisterMR(MR{Buf: buf(o.remote), Access: mr.RemoteRead | mr.RemoteWrite | mr.RemoteAtomic, Optimized: r.IntN(2) == 0})
		if err != nil {
			l.t.Fatal(err)
		}
		o.op.Key = o.key
	} else {
		at := vt.Time(r.Int64N(4_000_000))
		if r.IntN(10) == 0 {
			at *= 100
		}
		l.call(1-o.from, at+1, func(now vt.Time) {
			_ = you.Post(now, &Op{Kind: OpTagRecv, Peer: o.from, Tag: ctx, Buf: buf(o.remote), Ctx: ctx + 1000}) // it may be closed
		})
	}
	ordered := r.IntN(2) == 0
	l.call(o.from, vt.Time(1+r.IntN(3_000_000)), func(now vt.Time) {
		me := l.eps[o.from]
		me.SetOrdered(ordered)
		if err := me.Post(now, &o.op); err == nil {
			o.ends[o.from]--
		}
	})
	for i := range l.eps {
		next := l.eps[i].done
		l.eps[i].done = func(now vt.Time, c Completion) {
			next(now, c)
			if i == o.from && c.Ctx == ctx {
				o.ends[i]++
				o.err = c.Err
			}
		}
	}
	return o
}

func (o *randomOp) check(t *testing.T, i, closed int, gone bool) {
	if o.ends[o.from] != 0 {
		t.Errorf("operation %d, %v from %d: %d completions too many", i, o.op.Kind, o.from, o.ends[o.from])
	}
	if closed >= 0 || gone {
		return // it may be either
	}
	if o.err != nil {
		t.Errorf("operation %d, %v of %d bytes from %d: %v", i, o.op.Kind, len(o.src), o.from, o.err)
		return
	}
	switch o.op.Kind {
	case OpRead:
		if !bytes.Equal(o.op.Buf.B, o.src) {
			t.Errorf("operation %d: read data differs", i)
		}
	case OpFetchAtomic:
		old := fill(8, uint64(i)+100)
		if !bytes.Equal(o.op.Result.B, old) || binary.LittleEndian.Uint64(o.remote) != binary.LittleEndian.Uint64(old)+binary.LittleEndian.Uint64(o.src) {
			t.Errorf("operation %d: fetched %x, want %x; left %x", i, o.op.Result.B, old, o.remote)
		}
	default:
		if !bytes.Equal(o.remote, o.src) {
			t.Errorf("operation %d: %v of %d bytes differs", i, o.op.Kind, len(o.src))
		}
	}
}
