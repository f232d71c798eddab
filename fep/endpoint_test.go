package fep

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/uetlab/uetlab/fep/mr"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// code is the return code that an operation failed with, RCOK if it did not fail.
func code(err error) wire.ReturnCode {
	var re *ResponseError
	if errors.As(err, &re) {
		return re.Code
	}
	if err == nil {
		return wire.RCOK
	}
	return wire.RCExtended
}

// TestAddressing: who gets a message, by job, PID and resource index, of processes and of services.
func TestAddressing(t *testing.T) {
	l := newLab(t, Config{})
	f := l.feps[1]
	var got [4][]Completion
	for i, cfg := range []EndpointConfig{
		{Job: 3, PID: 1, SendRI: 20, TagRI: 21, RMARI: 22},
		{Job: 3, PID: 1, SendRI: 30, TagRI: 31, RMARI: 32},
		{Job: 4, PID: 2},
		{PID: 1, Absolute: true, SendRI: 20},
	} {
		ep, err := f.Open(cfg, func(_ vt.Time, c Completion) { got[i] = append(got[i], c) })
		if err != nil {
			t.Fatal(err)
		}
		l.call(1, l.now()+1, func(now vt.Time) { _ = ep.Post(now, &Op{Kind: OpRecv, Buf: buf(make([]byte, 10)), Peer: AnySource}) })
		if i == 3 {
			l.call(1, l.now()+2, func(now vt.Time) {
				_ = ep.Post(now, &Op{Kind: OpRecv, Buf: buf(make([]byte, 10)), Peer: AnySource, Job: 77})
			})
		}
	}
	if _, err := f.Open(EndpointConfig{Job: 3, PID: 1, SendRI: 30, TagRI: 1, RMARI: 2}, nil); !errors.Is(err, ErrAddress) {
		t.Errorf("a place twice: %v", err)
	}
	for _, c := range []struct {
		job  uint32
		to   Address
		want wire.ReturnCode
		ep   int
	}{
		{3, Address{PID: 1, SendRI: 20}, wire.RCOK, 0},
		{3, Address{PID: 1, SendRI: 30}, wire.RCOK, 1},
		{4, Address{PID: 2}, wire.RCOK, 2},
		{9, Address{PID: 1, SendRI: 20, Absolute: true}, wire.RCOK, 3},
		{9, Address{PID: 1, SendRI: 20, Absolute: true}, wire.RCBadJobID, 3},
		{9, Address{PID: 1}, wire.RCBadJobID, -1},
		{3, Address{PID: 2}, wire.RCBadPID, -1},
		{3, Address{PID: 1, SendRI: 21}, wire.RCBadIndex, -1},
		{9, Address{PID: 2, SendRI: 20, Absolute: true}, wire.RCBadPID, -1},
		{9, Address{PID: 1, SendRI: 21, Absolute: true}, wire.RCBadIndex, -1},
	} {
		from, err := l.feps[0].Open(EndpointConfig{Job: c.job, PID: 9, Absolute: c.to.Absolute}, func(_ vt.Time, d Completion) { l.got[0] = append(l.got[0], d) })
		if err != nil {
			t.Fatal(err)
		}
		c.to.FA = testAddr(1)
		i, err := from.Insert(c.to)
		if err != nil {
			t.Fatal(err)
		}
		n := len(l.got[1])
		l.call(0, l.now()+1, func(now vt.Time) { _ = from.Post(now, &Op{Kind: OpSend, Peer: i, Buf: buf(make([]byte, 10))}) })
		l.settle()
		if rc := code(l.last(0).Err); rc != c.want {
			t.Errorf("job %d, %+v: %v, want %v", c.job, c.to, rc, c.want)
		}
		if c.ep >= 0 {
			if g := got[c.ep]; len(g) != 1 || g[0].Err != nil {
				t.Errorf("job %d, %+v: endpoint %d has %+v", c.job, c.to, c.ep, g)
			}
		}
		if len(l.got[1]) != n {
			t.Error("somebody else got it")
		}
		l.call(0, l.now()+1, from.Close)
		l.settle()
	}
	l.leaks()
}

// TestInsert: whom an address vector refuses.
func TestInsert(t *testing.T) {
	l := newLab(t, Config{Profiles: AIFull})
	for _, c := range []struct {
		a    Address
		want error
	}{
		{Address{FA: testAddr(1)}, nil},
		{Address{FA: testAddr6(1)}, ErrFamily},
		{Address{}, ErrFamily},
		{Address{FA: testAddr(1), Profiles: AIBase}, ErrProfile},
		{Address{FA: testAddr(1), Profiles: HPC}, nil}, // does what AI Full has
		{Address{FA: testAddr(1), PayloadMTU: 1024}, ErrMTU},
		{Address{FA: testAddr(1), PayloadMTU: 4096, Profiles: AIFull | HPC}, nil},
	} {
		if _, err := l.eps[0].Insert(c.a); !errors.Is(err, c.want) {
			t.Errorf("%+v: %v, want %v", c.a, err, c.want)
		}
	}
}

// TestPostRefused: what Post does not take.
func TestPostRefused(t *testing.T) {
	l := newLab(t, Config{})
	base := newLab(t, Config{Profiles: AIBase})
	u8 := buf(make([]byte, 8))
	for _, c := range []struct {
		l    *lab
		op   Op
		want error
	}{
		{l, Op{Kind: OpSend, Peer: 9}, ErrPeer},
		{l, Op{Kind: OpTagRecv, Peer: 9}, ErrPeer},
		{l, Op{Kind: OpTagRecv, Peer: 0, Ignore: 1}, ErrWildcard},
		{base, Op{Kind: OpTagRecv, Peer: AnySource}, ErrSource},
		{base, Op{Kind: OpSend, Peer: 1}, nil},
		{l, Op{Kind: OpRemoteWrite, Peer: 1}, ErrInvalid},
		{l, Op{Kind: OpRead, Peer: 1, Flags: FlagInject}, ErrInvalid},
		{l, Op{Kind: OpWrite, Peer: 1, Flags: FlagIdempotent | FlagData}, ErrInvalid},
		{l, Op{Kind: OpDatagram, Peer: 1, Buf: buf(make([]byte, 4097))}, ErrDatagram},
		{l, Op{Kind: OpAtomic, Peer: 1, Atomic: wire.AtomicCSwap, Type: wire.AtomicInt64, Buf: u8}, ErrInvalid},
		{l, Op{Kind: OpFetchAtomic, Peer: 1, Atomic: wire.AtomicSum, Type: wire.AtomicInt64, Buf: u8}, ErrInvalid},
		{l, Op{Kind: OpAtomic, Peer: 1, Atomic: wire.AtomicBOR, Type: wire.AtomicDouble, Buf: u8}, ErrUnsupported},
		{l, Op{Kind: OpAtomic, Peer: 1, Atomic: 0x15, Type: wire.AtomicInt8, Buf: u8}, ErrUnsupported},
		{l, Op{Kind: OpAtomic, Peer: 1, Atomic: wire.AtomicSum, Type: 0x20, Buf: u8}, ErrUnsupported},
	} {
		if err := c.l.eps[0].Post(1, &c.op); !errors.Is(err, c.want) {
			t.Errorf("%+v: %v, want %v", c.op, err, c.want)
		}
	}
}

// TestClose: when Close returns nobody touches the endpoint's memory any more, whatever was under way, and each operation has ended.
func TestClose(t *testing.T) {
	for who := range 2 {
		for after := vt.Time(100); after < 3_000_000; after = after*3/2 + 77 {
			t.Run(fmt.Sprint(who, after), func(t *testing.T) { testClose(t, who, after) })
		}
	}
}

func testClose(t *testing.T, who int, after vt.Time) {
	l := newLab(t, Config{})
	l.script = nth(7, fate{drop: true}, func(_ int, u []byte) bool { return len(u) > 1000 }) // something has to be repeated
	const n = 300_000
	all := mr.RemoteRead | mr.RemoteWrite
	var mem [2][6][]byte
	for i := range mem {
		for j := range mem[i] {
			mem[i][j] = fill(n, uint64(10*i+j))
		}
	}
	var key [2]uint64
	for i := range key {
		var err error
		if key[i], err = l.eps[1].RegisterMR(MR{Buf: buf(mem[1][4+i]), Access: all}); err != nil {
			t.Fatal(err)
		}
	}
	l.post(1, Op{Kind: OpTagRecv, Peer: 0, Tag: 1, Buf: buf(mem[1][0]), Ctx: 1})
	l.post(1, Op{Kind: OpTagRecv, Peer: 0, Tag: 2, Buf: buf(mem[1][1]), Ctx: 2})
	l.post(0, Op{Kind: OpTagSend, Peer: 1, Tag: 1, Buf: buf(mem[0][0]), Ctx: 1})
	l.post(0, Op{Kind: OpWrite, Peer: 1, Key: key[0], Buf: buf(mem[0][1]), Ctx: 2})
	l.post(0, Op{Kind: OpRead, Peer: 1, Key: key[1], Buf: buf(mem[0][2]), Ctx: 3})
	l.run(l.now() + after)
	var before [6][]byte
	l.call(who, l.now()+1, func(now vt.Time) {
		l.eps[who].Close(now)
		for j := range before {
			clear(mem[who][j]) // the application's again
			before[j] = append([]byte(nil), mem[who][j]...)
		}
		if err := l.eps[who].Post(now, &Op{Kind: OpSend, Peer: 1 - who}); !errors.Is(err, ErrClosed) {
			t.Errorf("Post after Close: %v", err)
		}
	})
	l.settle()
	for j := range before {
		if !bytes.Equal(before[j], mem[who][j]) {
			t.Errorf("memory %d was written after Close", j)
		}
	}
	if len(l.got[0]) != 3 || who == 1 && len(l.got[1]) != 2 {
		t.Errorf("completions %+v, %+v", l.got[0], l.got[1])
	}
	// What reached the other side is either whole or in error: no zeros are taken for data.
	for _, c := range l.got[1-who] {
		if c.Err != nil {
			continue
		}
		if who == 0 && c.Ctx == 1 && !bytes.Equal(mem[1][0], fill(n, 0)) || who == 1 && c.Ctx == 3 && !bytes.Equal(mem[0][2], fill(n, 15)) {
			t.Errorf("a success without the data: %+v", c)
		}
	}
	for i, f := range l.feps {
		if f.mids.n != 0 || f.rx.n != 0 || f.rets.n != 0 || len(f.reads) != 0 || f.C[GtdInUse] != 0 {
			t.Errorf("node %d: %d message IDs, %d messages, %d return data, %d reads", i, f.mids.n, f.rx.n, f.rets.n, len(f.reads))
		}
	}
	l.leaks()
}

// TestDeregister: memory that was taken back is not touched, by a write or a read under way either, and both fail.
func TestDeregister(t *testing.T) {
	for _, kind := range []Kind{OpWrite, OpRead} {
		l := newLab(t, Config{})
		const n = 1 << 20
		mem, mine := fill(n, 1), fill(n, 2)
		key, _ := l.eps[1].RegisterMR(MR{Buf: buf(mem), Access: mr.RemoteRead | mr.RemoteWrite})
		l.post(0, Op{Kind: kind, Peer: 1, Key: key, Buf: buf(mine)})
		l.run(l.now() + 10_000)
		l.call(1, l.now()+1, func(vt.Time) {
			if err := l.eps[1].Deregister(key); err != nil {
				t.Error(err)
			}
			clear(mem)
			if err := l.eps[1].Deregister(key); !errors.Is(err, mr.ErrNoRegion) {
				t.Errorf("twice: %v", err)
			}
		})
		l.settle()
		if !bytes.Equal(mem, make([]byte, n)) || l.last(0).Err == nil || len(l.got[0]) != 1 {
			t.Errorf("%v: %+v", kind, l.got[0])
		}
		l.post(0, Op{Kind: kind, Peer: 1, Key: key, Buf: buf(mine)})
		l.settle()
		if rc := code(l.last(0).Err); rc != wire.RCBadMKey {
			t.Errorf("%v later: %v", kind, rc)
		}
		l.leaks()
	}
}
