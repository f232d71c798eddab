package fep

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// schemes are the ways in which a message of their length reaches a receive that is posted late.
var schemes = []struct {
	name string
	p    Profiles
	n    int
}{
	{"stored", HPC, 12_000}, {"rendezvous", HPC, 100_000}, {"deferrable", AIFull, 100_000}, {"driven", AIBase, 100_000}, {"driven, empty", AIBase, 0},
	{"restarted", AIFull, 5000},
}

// TestReceivePostedAnyTime posts the receive at many moments, from before the send until long after: each time the message arrives whole, both
// ends are told once, and nothing is left.
func TestReceivePostedAnyTime(t *testing.T) {
	for _, s := range schemes {
		for at := vt.Time(0); at < 24_000; at += 331 {
			for _, small := range []bool{false, true} { // room in the unexpected store
				e := newEarly(t, Config{Profiles: s.p, MaxRestarts: 5, RestartWait: time.Millisecond}, s.n)
				if small {
					e.eps[1].cfg.Unexpected = 12_000
				}
				e.call(1, at+10, func(now vt.Time) {
					if err := e.eps[1].Post(now, &Op{Kind: OpTagRecv, Peer: 0, Tag: 5, Buf: buf(e.dst), Ctx: 11}); err != nil {
						t.Error(err)
					}
				})
				e.call(0, 3000, func(now vt.Time) {
					if err := e.eps[0].Post(now, &Op{Kind: OpTagSend, Peer: 1, Tag: 5, Buf: buf(e.src), Ctx: 22}); err != nil {
						t.Error(err)
					}
				})
				e.run(vt.Time(200 * time.Millisecond))
				e.arrived()
				if t.Failed() {
					t.Fatalf("%s, receive at %d", s.name, at)
				}
			}
		}
	}
}

// ending is what a test does to an exchange in the middle of it.
var endings = []struct {
	name string
	do   func(e *early, now vt.Time)
}{
	{"sender closed", func(e *early, now vt.Time) { e.eps[0].Close(now) }},
	{"receiver closed", func(e *early, now vt.Time) { e.eps[1].Close(now) }},
	{"receive cancelled", func(e *early, now vt.Time) { e.eps[1].Cancel(now, 11) }},
	{"link cut", func(e *early, _ vt.Time) { e.script = func(int, []byte) fate { return fate{drop: true} } }},
	{"sender mute", func(e *early, _ vt.Time) { e.script = func(from int, _ []byte) fate { return fate{drop: from == 0} } }},
	{"sender reset", func(e *early, now vt.Time) { e.feps[0].Reset(now); e.got[0] = append(e.got[0], Completion{Ctx: 22}) }},
}

// TestEndedAnyTime ends the exchange at many moments, in many ways: each operation has one completion, a success only with the right
// data, and nothing is left, after the time that things are given at most.
func TestEndedAnyTime(t *testing.T) {
	for _, s := range schemes {
		for _, end := range endings {
			for at := vt.Time(500); at < 30_000; at += 1777 {
				e := newEarly(t, Config{Profiles: s.p, MaxRestarts: 2, RestartWait: time.Millisecond}, s.n)
				posted := 0
				e.call(0, 1000, func(now vt.Time) {
					_ = e.eps[0].Post(now, &Op{Kind: OpTagSend, Peer: 1, Tag: 5, Buf: buf(e.src), Ctx: 22})
				})
				e.call(1, 9000, func(now vt.Time) {
					if e.eps[1].Post(now, &Op{Kind: OpTagRecv, Peer: 0, Tag: 5, Buf: buf(e.dst), Ctx: 11}) == nil {
						posted++
					}
				})
				node := 1
				if end.name[0] == 's' {
					node = 0
				}
				var kept []byte
				e.call(node, at, func(now vt.Time) {
					end.do(e, now)
					if end.name == "receiver closed" {
						kept = bytes.Clone(e.dst)
					}
				})
				e.settle()
				e.settle()
				if kept != nil && !bytes.Equal(kept, e.dst) {
					t.Error("memory was touched after Close")
				}
				e.call(1, e.now()+1, func(now vt.Time) { e.eps[1].Cancel(now, 11) }) // if nothing came for it
				e.settle()
				_, sends := e.done(0, 22)
				got, recvs := e.done(1, 11)
				if sends != 1 && !(sends == 0 && end.name == "sender closed" && at < 1000) && end.name != "sender reset" || recvs != posted {
					t.Errorf("%d completions of the send, %d of %d receives", sends, recvs, posted)
				}
				if recvs == 1 && got.Err == nil && (got.Len != s.n || !bytes.Equal(e.src, e.dst)) {
					t.Errorf("%+v, with the wrong data", got)
				}
				if send, _ := e.done(0, 22); send.Err == nil && end.name == "receive cancelled" && recvs == 1 && got.Err != nil && s.name != "stored" && s.n > 0 {
					t.Errorf("sent, and %v", got.Err)
				}
				if s.name != "stored" || end.name == "receiver closed" || recvs == 1 && got.Err == nil {
					e.earlyLeft()
				}
				e.leaks()
				if t.Failed() {
					t.Fatalf("%s, %s at %d", s.name, end.name, at)
				}
			}
		}
	}
}

// TestCancelBoundReceive: a receive for which a deferred message was called can be taken back until that comes; the message then goes
// to the next one that matches, posted before or after.
func TestCancelBoundReceive(t *testing.T) {
	for _, next := range []string{"before", "soon", "late", "never"} {
		for at := vt.Time(100); at < 3000; at += 200 {
			e := newEarly(t, Config{}, 100_000)
			e.send()
			e.run(ms)
			taken := make([]byte, 100_000)
			recv := func(now vt.Time) {
				if err := e.eps[1].TagRecv(now, 0, e.dst, 5, 11); err != nil {
					t.Error(err)
				}
			}
			e.call(1, ms+10, func(now vt.Time) {
				if err := e.eps[1].TagRecv(now, 0, taken, 5, 33); err != nil {
					t.Error(err)
				}
				if next == "before" {
					recv(now)
				}
			})
			cancelled := false
			e.call(1, ms+10+at, func(now vt.Time) { cancelled = e.eps[1].Cancel(now, 33) })
			switch next {
			case "soon":
				e.call(1, ms+20+at, recv)
			case "late":
				e.call(1, 3*ms, recv)
			}
			e.settle()
			c, n := e.done(1, 33)
			if n != 1 || cancelled != errors.Is(c.Err, ErrCancelled) {
				t.Errorf("cancelled %v, %d times %+v", cancelled, n, c)
			}
			send, n := e.done(0, 22)
			if n != 1 || (send.Err == nil) == (cancelled && next == "never") {
				t.Errorf("%d times %+v", n, send)
			}
			if cancelled && next != "never" {
				if c, n := e.done(1, 11); n != 1 || c.Err != nil || !bytes.Equal(e.src, e.dst) {
					t.Errorf("%d times %+v", n, c)
				}
			}
			e.eps[1].q.drain(e.now(), ErrCancelled)
			e.spent()
			if t.Failed() {
				t.Fatalf("next receive %s, cancelled after %d", next, at)
			}
		}
	}
}

// TestManySendersFewDescriptors: more messages than can be deferred, or stored, before any receive: the others try again, none is lost, and
// each arrives in the receive of its tag.
func TestManySendersFewDescriptors(t *testing.T) {
	for _, p := range []Profiles{AIFull, HPC, AIBase} {
		for _, n := range []int{3000, 10_000, 50_000} {
			l := newLab(t, Config{Profiles: p, MaxRestarts: 8, RestartWait: time.Millisecond})
			l.eps[1].cfg.MaxRTR, l.eps[1].cfg.Unexpected, l.eps[1].cfg.KeptMessages = 3, 25_000, 4
			const msgs = 20
			var dst [msgs][]byte
			for i := range msgs {
				l.post(0, Op{Kind: OpTagSend, Peer: 1, Tag: uint64(i), Buf: buf(fill(n, uint64(i))), Ctx: uint64(i)})
			}
			l.run(l.now() + 5*ms)
			for i := range msgs {
				dst[i] = make([]byte, n)
				l.post(1, Op{Kind: OpTagRecv, Peer: 0, Tag: uint64(msgs - 1 - i), Buf: buf(dst[i]), Ctx: uint64(100 + i)})
			}
			l.settle()
			for i := range msgs {
				s, sn := l.done(0, uint64(i))
				r, rn := l.done(1, uint64(100+i))
				if sn != 1 || rn != 1 || s.Err != nil || r.Err != nil || !bytes.Equal(dst[i], fill(n, uint64(msgs-1-i))) {
					t.Errorf("profiles %b, %d bytes, %d: %d %v, %d %v", p, n, i, sn, s.Err, rn, r.Err)
				}
			}
			l.spent()
		}
	}
}

// TestTwoReceivesTwoSenders: equal tags from two endpoints: each message comes once, each receive gets one of the right source.
func TestTwoReceivesTwoSenders(t *testing.T) {
	for _, p := range []Profiles{AIFull, HPC} {
		l := newLab(t, Config{Profiles: p})
		second, err := l.feps[0].Open(EndpointConfig{Job: testJob, PID: 7, Initiator: 107}, func(_ vt.Time, c Completion) { l.got[0] = append(l.got[0], c) })
		if err != nil {
			t.Fatal(err)
		}
		to := second.InsertAddr(testAddr(1), 1, 101)
		from := l.eps[1].InsertAddr(testAddr(0), 7, 107)
		a, b := fill(60_000, 1), fill(60_000, 2)
		l.post(0, Op{Kind: OpTagSend, Peer: 1, Tag: 5, Buf: buf(a), Ctx: 1})
		l.call(0, l.now()+1, func(now vt.Time) {
			if err := second.TagSend(now, to, b, 5, 2); err != nil {
				t.Error(err)
			}
		})
		l.run(l.now() + ms)
		x, y := make([]byte, 60_000), make([]byte, 60_000)
		l.post(1, Op{Kind: OpTagRecv, Peer: from, Tag: 5, Buf: buf(x), Ctx: 11})
		l.post(1, Op{Kind: OpTagRecv, Peer: AnySource, Tag: 5, Buf: buf(y), Ctx: 12})
		l.run(l.now() + ms)
		if !bytes.Equal(x, b) || !bytes.Equal(y, a) {
			t.Errorf("profiles %b: mixed up", p)
		}
		if c, _ := l.done(1, 11); c.Src != from || c.Err != nil {
			t.Errorf("profiles %b: %+v", p, c)
		}
		l.spent()
	}
}

// TestKeptInOrder: messages that were kept go to receives in the order in which they came, with wildcards too, and untagged ones to a buffer for
// several messages as far as that has room.
func TestKeptInOrder(t *testing.T) {
	l := newLab(t, Config{Profiles: HPC})
	l.eps[0].SetOrdered(true)
	l.eps[1].SetOrdered(true)
	sizes := []int{100, 40_000, 0, 16_384, 50_000, 9}
	for i, n := range sizes {
		l.post(0, Op{Kind: OpTagSend, Peer: 1, Tag: uint64(0x100 + i), Buf: buf(fill(n, uint64(i))), Ctx: uint64(i), Flags: FlagData, Data: uint64(i)})
		l.post(0, Op{Kind: OpSend, Peer: 1, Buf: buf(fill(n, uint64(i+50))), Ctx: uint64(50 + i)})
	}
	l.run(l.now() + ms)
	var dst [6][]byte
	for i, n := range sizes {
		dst[i] = make([]byte, n)
		l.post(1, Op{Kind: OpTagRecv, Peer: AnySource, Tag: 0x100, Ignore: 0xFF, Buf: buf(dst[i]), Ctx: uint64(i)})
	}
	multi := make([]byte, 106_600) // not for the last
	l.post(1, Op{Kind: OpRecv, Flags: FlagMultiRecv, Buf: buf(multi), Ctx: 99})
	last := make([]byte, 9)
	l.post(1, Op{Kind: OpRecv, Peer: AnySource, Buf: buf(last), Ctx: 77})
	l.run(l.now() + ms)
	for i, n := range sizes {
		if c, k := l.done(1, uint64(i)); k != 1 || c.Err != nil || c.Len != n || c.Tag != uint64(0x100+i) || c.Flags != FlagData || c.Data != uint64(i) ||
			!bytes.Equal(dst[i], fill(n, uint64(i))) {
			t.Errorf("message %d: %d times %+v", i, k, c)
		}
	}
	at, retired := 0, 0
	for i, n := range sizes[:5] {
		if !bytes.Equal(multi[at:at+n], fill(n, uint64(i+50))) {
			t.Errorf("untagged message %d differs", i)
		}
		at += n
	}
	for _, c := range l.got[1] {
		if c.Ctx == 99 && c.Flags&FlagMultiRecv != 0 {
			retired++
		}
	}
	if _, k := l.done(1, 99); k < 5 {
		t.Errorf("%d completions of the buffer for several", k)
	}
	l.eps[1].Cancel(l.now(), 99)
	l.settle()
	l.eps[1].q.drain(l.now(), ErrCancelled)
	l.spent()
}

// TestTruncatedEarly: a message that is longer than its late receive fills that, and its sender is content.
func TestTruncatedEarly(t *testing.T) {
	for _, s := range schemes[:4] {
		for _, before := range []bool{true, false} {
			l := newLab(t, Config{Profiles: s.p})
			src, dst := fill(s.n, 3), make([]byte, s.n-5000)
			post := func() { l.post(1, Op{Kind: OpTagRecv, Peer: 0, Tag: 5, Buf: buf(dst), Ctx: 11}) }
			if before {
				post()
				l.run(l.now() + ms)
			}
			l.post(0, Op{Kind: OpTagSend, Peer: 1, Tag: 5, Buf: buf(src), Ctx: 22, Flags: FlagData, Data: 77})
			l.run(l.now() + ms)
			if !before {
				post()
				l.run(l.now() + ms)
			}
			if c, n := l.done(1, 11); n != 1 || !errors.Is(c.Err, ErrTruncated) || c.Len != len(dst) || !bytes.Equal(dst, src[:len(dst)]) || c.Data != 77 || c.Flags != FlagData {
				t.Errorf("%s, receive first %v: %d times %+v", s.name, before, n, c)
			}
			if c, n := l.done(0, 22); n != 1 || c.Err != nil || c.Len != s.n {
				t.Errorf("%s, receive first %v: %d times %+v", s.name, before, n, c)
			}
			l.spent()
		}
	}
}

// TestDrivenReceiveCancelled: a receive that told its source can be taken back; a send that comes for it waits for the next one.
func TestDrivenReceiveCancelled(t *testing.T) {
	for at := vt.Time(1); at < 6000; at += 250 {
		e := newEarly(t, Config{Profiles: AIBase}, 50_000)
		gone := make([]byte, 50_000)
		e.call(1, 10, func(now vt.Time) {
			if err := e.eps[1].TagRecv(now, 0, gone, 5, 33); err != nil {
				t.Error(err)
			}
		})
		e.call(0, 2000, func(now vt.Time) {
			if err := e.eps[0].TagSend(now, 1, e.src, 5, 22); err != nil {
				t.Error(err)
			}
		})
		ok := false
		e.call(1, 10+at, func(now vt.Time) { ok = e.eps[1].Cancel(now, 33); copy(gone, make([]byte, 50_000)) })
		e.run(ms)
		if c, n := e.done(1, 33); n != 1 || ok != errors.Is(c.Err, ErrCancelled) {
			t.Errorf("cancelled %v: %d times %+v", ok, n, c)
		}
		if ok {
			if !bytes.Equal(gone, make([]byte, 50_000)) {
				t.Error("written after Cancel")
			}
			e.got[1] = nil
			e.recv()
			e.run(e.now() + ms)
			e.arrived()
		}
		if t.Failed() {
			t.Fatalf("cancelled at %d", at)
		}
	}
}

// TestDrivenRefused: what an AI Base pair cannot do.
func TestDrivenRefused(t *testing.T) {
	l := newLab(t, Config{Profiles: AIBase, MaxRestarts: 1, RestartWait: time.Millisecond})
	for _, c := range []struct {
		op   Op
		want error
	}{
		{Op{Kind: OpTagRecv, Peer: AnySource}, ErrSource},
		{Op{Kind: OpRecv, Peer: 0, Flags: FlagMultiRecv}, ErrSource},
		{Op{Kind: OpTagRecv, Peer: 0, Ignore: 1}, ErrWildcard},
	} {
		if err := l.eps[1].Post(1, &c.op); !errors.Is(err, c.want) {
			t.Errorf("%+v: %v", c.op, err)
		}
	}
	l.post(0, Op{Kind: OpSend, Peer: 1, Buf: buf(make([]byte, 100)), Ctx: 1}) // nobody receives
	l.eps[0].av[1] = nil
	l.post(1, Op{Kind: OpTagRecv, Peer: 0, Tag: 1, Ctx: 2}) // its source does not know us
	l.settle()
	var re *ResponseError
	if c, n := l.done(0, 1); n != 1 || !errors.Is(c.Err, ErrNoReceive) {
		t.Errorf("%d times %+v", n, c)
	}
	if c, n := l.done(1, 2); n != 1 || !errors.As(c.Err, &re) || re.Code != wire.RCNoMatch {
		t.Errorf("%d times %+v", n, c)
	}
	l.spent()
}

// TestDrivenUntagged: untagged messages of an AI Base pair, some with data of their own.
func TestDrivenUntagged(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		l := newLab(t, Config{Profiles: AIBase})
		for _, ep := range l.eps {
			ep.SetOrdered(ordered)
		}
		var dst [10][]byte
		for i := range dst {
			dst[i] = make([]byte, 1000*i)
			l.post(1, Op{Kind: OpRecv, Peer: 0, Buf: buf(dst[i]), Ctx: uint64(i)})
			l.run(l.now() + 5000)
			op := Op{Kind: OpSend, Peer: 1, Buf: buf(fill(1000*i, uint64(i))), Ctx: uint64(i)}
			if i%3 == 0 {
				op.Flags, op.Data = FlagData, uint64(i)
			}
			l.post(0, op)
		}
		l.run(l.now() + ms)
		for i := range dst {
			if c, n := l.done(1, uint64(i)); n != 1 || c.Err != nil || !bytes.Equal(dst[i], fill(1000*i, uint64(i))) || c.Src != 0 || c.Kind != OpRecv ||
				(c.Flags == FlagData) != (i%3 == 0) {
				t.Errorf("message %d: %d times %+v", i, n, c)
			}
		}
		l.spent()
	}
}

// TestTokens: what a token named is not found by it once it is gone.
func TestTokens(t *testing.T) {
	var k tokens[string]
	k.reset(0xFFFE)
	seen := map[uint32]bool{}
	for i := range 10 {
		s := fmt.Sprint(i)
		a := k.add(s)
		if v, ok := k.get(a); !ok || v != s || seen[a] || a>>16 == 0 {
			t.Errorf("token %x: %q %v", a, v, ok)
		}
		seen[a] = true
		k.remove(a)
		k.remove(a)
		for old := range seen {
			if _, ok := k.get(old); ok {
				t.Errorf("token %x lives", old)
			}
		}
	}
	for range 1 << 16 {
		if k.add("") == 0 {
			t.Fatal("full too early")
		}
	}
	if k.add("") != 0 || k.n != 1<<16 {
		t.Error("more tokens than places")
	}
}
