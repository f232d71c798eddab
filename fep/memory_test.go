package fep

import (
	"bytes"
	"errors"
	"testing"

	"github.com/uetlab/uetlab/fep/mr"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// foreign is memory of another process: the FEP has a copy, which is only right where it was pulled, and is only seen where it was
// pushed.
type foreign struct {
	real, copy []byte
	broken     int // pulls and pushes fail that reach beyond this, -1: none
}

func newForeign(real []byte) *foreign {
	return &foreign{real, make([]byte, len(real)), -1}
}

func (f *foreign) buf() Buffer { return Buffer{f.copy, f} }

var errGone = errors.New("gone")

func (f *foreign) Pull(off, n int) error {
	if f.broken >= 0 && off+n > f.broken {
		return errGone
	}
	copy(f.copy[off:off+n], f.real[off:])
	return nil
}

func (f *foreign) Push(off, n int) error {
	if f.broken >= 0 && off+n > f.broken {
		return errGone
	}
	copy(f.real[off:off+n], f.copy[off:])
	return nil
}

// TestForeignMemory: every operation brings copies up to date and writes them back, with loss too.
func TestForeignMemory(t *testing.T) {
	l := newLab(t, Config{})
	l.script = nth(5, fate{drop: true}, func(_ int, u []byte) bool { return len(u) > 1000 })
	const n = 50_000
	all := mr.RemoteRead | mr.RemoteWrite | mr.RemoteAtomic
	region := newForeign(fill(n, 1))
	key, _ := l.eps[1].RegisterMR(MR{Buf: region.buf(), Access: all})
	src, dst := newForeign(fill(n, 2)), newForeign(make([]byte, n))
	l.post(1, Op{Kind: OpTagRecv, Peer: 0, Tag: 1, Buf: dst.buf()})
	l.post(0, Op{Kind: OpTagSend, Peer: 1, Tag: 1, Buf: src.buf()})
	l.settle()
	if !bytes.Equal(dst.real, fill(n, 2)) {
		t.Error("send")
	}
	read := newForeign(make([]byte, n))
	l.post(0, Op{Kind: OpRead, Peer: 1, Key: key, Buf: read.buf()})
	l.settle()
	if !bytes.Equal(read.real, fill(n, 1)) {
		t.Error("read")
	}
	l.post(0, Op{Kind: OpWrite, Peer: 1, Key: key, Buf: src.buf()})
	l.settle()
	if !bytes.Equal(region.real, fill(n, 2)) {
		t.Error("write")
	}
	old := newForeign(make([]byte, 8))
	l.post(0, Op{Kind: OpFetchAtomic, Peer: 1, Key: key, Atomic: wire.AtomicBXOR, Type: wire.AtomicUint64, Buf: newForeign(fill(8, 2)).buf(), Result: old.buf()})
	l.settle()
	if !bytes.Equal(old.real, fill(n, 2)[:8]) || !bytes.Equal(region.real[:8], make([]byte, 8)) {
		t.Errorf("atomic: %x, %x", old.real, region.real[:8])
	}
	for i := range l.got {
		for _, c := range l.got[i] {
			if c.Err != nil {
				t.Errorf("%+v", c)
			}
		}
	}
}

// TestMemoryGone: memory that cannot be reached in the middle of a message ends it in an error on both sides, and what lies there is not
// taken for data.
func TestMemoryGone(t *testing.T) {
	const n = 400_000
	all := mr.RemoteRead | mr.RemoteWrite
	for _, c := range []struct {
		name      string
		op        Op
		mine      bool // it is the initiator's memory
		err       error
		code, rcv wire.ReturnCode
	}{
		{"send from", Op{Kind: OpTagSend}, true, ErrMemory, 0, wire.RCInitiatorError},
		{"send to", Op{Kind: OpTagSend}, false, nil, wire.RCHostUnsuccessCmpl, wire.RCHostUnsuccessCmpl},
		{"write from", Op{Kind: OpWrite}, true, ErrMemory, 0, 0},
		{"write to", Op{Kind: OpWrite}, false, nil, wire.RCHostUnsuccessCmpl, 0},
		{"read from", Op{Kind: OpRead}, false, nil, wire.RCHostUnsuccessCmpl, 0},
		{"read to", Op{Kind: OpRead}, true, ErrMemory, 0, 0},
	} {
		l := newLab(t, Config{})
		mine, theirs := newForeign(fill(n, 1)), newForeign(make([]byte, n))
		if c.mine {
			mine.broken = 100_000
		} else {
			theirs.broken = 100_000
		}
		key, _ := l.eps[1].RegisterMR(MR{Buf: theirs.buf(), Access: all})
		if c.op.Kind == OpTagSend {
			l.post(1, Op{Kind: OpTagRecv, Peer: 0, Buf: theirs.buf()})
		} else {
			c.op.Key = key
		}
		c.op.Peer, c.op.Buf = 1, mine.buf()
		l.post(0, c.op)
		l.settle()
		if d := l.last(0); len(l.got[0]) != 1 || c.err != nil && !errors.Is(d.Err, c.err) || c.err == nil && code(d.Err) != c.code {
			t.Errorf("%s: %+v", c.name, l.got[0])
		}
		if c.rcv != 0 && (len(l.got[1]) != 1 || code(l.got[1][0].Err) != c.rcv && !errors.Is(l.got[1][0].Err, ErrAborted)) {
			t.Errorf("%s: at the target %+v", c.name, l.got[1])
		}
		if l.feps[0].mids.n != 0 || l.feps[1].rx.n != 0 {
			t.Errorf("%s: something is left", c.name)
		}
		l.leaks()
	}
}

// TestGreedyReader: reads of far more than the target wants to have ready are served all the same, and it has no more ready than its
// limit and what a PDC may have open.
func TestGreedyReader(t *testing.T) {
	l := newLab(t, Config{MaxReturns: 20, PayloadMTU: 1024, MPR: 1})
	const n = 3 << 20
	mem := fill(n, 1)
	key := l.eps[1].Register(mem)
	var dst [4][]byte
	l.call(0, 1, func(now vt.Time) {
		for i := range dst {
			dst[i] = make([]byte, n)
			if err := l.eps[0].Read(now, 1, dst[i], key, 0, uint64(i)); err != nil {
				t.Error(err)
			}
		}
	})
	most := 0
	for l.step(vt.Time(30_000_000_000)) {
		most = max(most, l.feps[1].rets.n)
	}
	for i := range dst {
		if !bytes.Equal(dst[i], mem) {
			t.Errorf("read %d differs", i)
		}
	}
	if most <= 20 || most > 20+4*128+4 {
		t.Errorf("%d packets were ready at most", most)
	}
	for _, c := range l.got[0] {
		if c.Err != nil {
			t.Errorf("%+v", c)
		}
	}
	l.leaks()
}
