package fep

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/uetlab/uetlab/fep/pds"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// TestSpans compares the set with one that has a bit for each byte.
func TestSpans(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for range 300 {
		var s spans
		var bits [64]bool
		for range r.IntN(20) {
			from := r.IntN(64)
			to := min(64, from+r.IntN(12))
			s.add(uint32(from), uint32(to))
			for i := from; i < to; i++ {
				bits[i] = true
			}
			for i := range s {
				if s[i].from >= s[i].to || i > 0 && s[i-1].to >= s[i].from {
					t.Fatalf("seed %d: %v", seed, s)
				}
			}
			a, b := r.IntN(65), r.IntN(65)
			want := true
			for i := a; i < b; i++ {
				want = want && bits[i]
			}
			if s.covers(uint32(a), uint32(b)) != want {
				t.Fatalf("seed %d: %v covers %d to %d: %v", seed, s, a, b, !want)
			}
		}
	}
}

// tokened sends a packet of a deferrable message in the name of node 0.
func (s *stub) tokened(psn int32, mid uint16, off, total uint32, n int, ini, tgt uint32, early bool) {
	s.send(0, func(b []byte) []byte {
		f := wire.StdFields{HeadFields: wire.HeadFields{Opcode: wire.OpDeferrableTSend, Flags: wire.SESRel, JobID: testJob, PIDonFEP: 1, ResourceIndex: 15},
			MessageID: mid, Initiator: 100, MatchBits: 2, PayloadLength: uint16(n), MessageOffset: off, RequestLength: total, InitiatorToken: ini, TargetToken: tgt}
		if off == 0 {
			f.Flags |= wire.SESSOM
		}
		if off+uint32(n) == total || early {
			f.Flags |= wire.SESEOM
		}
		b = wire.AppendRequest(b, &wire.RequestFields{Type: wire.TypeRUDReq, Next: wire.NextRequestStd, Flags: wire.ReqAR, ClearOffset: -1,
			PSN: s.start.Add(psn), SPDCID: stubPDC, DPDCID: s.peer, PSNOffset: uint16(psn)})
		return append(wire.AppendSESStd(b, &f), make([]byte, n)...)
	})
}

// TestRestartsThatAreNone: a target token that names nothing, or something else, is refused; an early end may come before what it ends, and
// without anything; one in the middle of a message that is not deferred ends that.
func TestRestartsThatAreNone(t *testing.T) {
	s := newStub(t, Config{})
	s.open()
	s.tokened(1, 2, 0, 100, 100, 5, 77, false)
	s.expect("1 ACK_CC cack 0 off 1 req CLEAR RESPONSE OP_VIOLATION 0")
	s.tokened(2, 3, 8192, 10_000, 0, 5, 0, true)
	s.expect("1 ACK_CC cack 2 off 0 RESPONSE OK 0")
	s.tokened(3, 4, 0, 10_000, 4096, 6, 0, false)
	s.expect("1 ACK_CC cack 2 off 1 req CLEAR RESPONSE OK 0")
	s.tokened(5, 4, 8192, 10_000, 0, 6, 0, true)
	s.expect("1 ACK_CC cack 2 off 3 RESPONSE OK 0")
	s.tokened(4, 4, 4096, 10_000, 4096, 6, 0, false)
	s.expect("1 ACK_CC cack 5 off -1 RESPONSE OK 0")
	if f := s.feps[1]; f.rx.n != 0 || f.lands.n != 1 || f.C[DeferredRx] != 1 {
		t.Errorf("%d messages, %d landings", f.rx.n, f.lands.n)
	}
	token := s.feps[1].lands.head.token
	s.tokened(6, 5, 0, 9000, 4096, 6, token, false) // another length
	s.expect("1 ACK_CC cack 5 off 1 req CLEAR RESPONSE OP_VIOLATION 0")
	s.recv(2, 10_000)
	s.got = nil
	s.tokened(7, 6, 0, 10_000, 4096, 6, token, false)
	s.tokened(8, 6, 4096, 10_000, 0, 6, token, true) // the sender gives up
	if c := s.lab.got[1]; len(c) != 2 || !errors.Is(c[1].Err, ErrAborted) || s.feps[1].lands.n != 0 {
		t.Errorf("%+v, %d landings", c, s.feps[1].lands.n)
	}
}

// TestUnknownSenderIsNotDeferred: a message of somebody who is not in the address vector could not be called back.
func TestUnknownSenderIsNotDeferred(t *testing.T) {
	e := newEarly(t, Config{MaxRestarts: 5}, 20_000)
	e.eps[1].Remove(0)
	e.send()
	e.run(e.now() + ms)
	if a := answersOf(*e.list, 1); len(a) == 0 || a[0].rc != wire.RCNoMatch {
		t.Errorf("answers %+v", a)
	}
	e.post(1, Op{Kind: OpTagRecv, Peer: AnySource, Tag: 5, Buf: buf(e.dst), Ctx: 11})
	e.run(e.now() + 200*ms)
	e.arrived()
}

// TestControlMessagesRefused: what no AI Base peer says.
func TestControlMessagesRefused(t *testing.T) {
	for _, c := range []struct {
		p    Profiles
		n    int
		edit func(*control)
		from uint32
		want string
	}{
		{AIFull, controlLen, nil, 100, "BAD_INDEX"},
		{AIBase, 10, nil, 100, "OP_VIOLATION"},
		{AIBase, controlLen, func(c *control) { c.what = 4 }, 100, "OP_VIOLATION"},
		{AIBase, controlLen, func(c *control) { c.space = spaceRMA }, 100, "OP_VIOLATION"},
		{AIBase, controlLen, func(c *control) { c.ri = 3 }, 100, "BAD_INDEX"},
		{AIBase, controlLen, nil, 555, "NO_MATCH"},
		{AIBase, controlLen, func(c *control) { c.what, c.id = controlDone, 9 }, 100, "CANCELLED"},
		{AIBase, controlLen, func(c *control) { c.what = controlDone }, 100, "OP_VIOLATION"}, // nothing was written
		{AIBase, controlLen, func(c *control) { c.what = controlWithdrawn }, 100, ""},
		{AIBase, controlLen, nil, 100, ""},
	} {
		s := newStub(t, Config{Profiles: c.p})
		var id uint32
		if c.p == AIBase {
			s.post(1, Op{Kind: OpTagRecv, Peer: 0, Tag: 3, Buf: buf(make([]byte, 10)), Ctx: 1})
			s.run(s.lab.now() + 1000)
			id, s.got, s.peer = s.eps[1].base.head.id, nil, 0
			s.now = s.lab.now()
		}
		m := control{what: controlRecv, space: spaceTagged, ri: 15, id: id}
		if c.edit != nil {
			c.edit(&m)
		}
		s.send(0, func(b []byte) []byte {
			f := wire.StdFields{HeadFields: wire.HeadFields{Opcode: wire.OpSend, Flags: wire.SESRel | wire.SESSOM | wire.SESEOM, JobID: testJob, PIDonFEP: 1,
				ResourceIndex: controlRI}, MessageID: 1, Initiator: c.from, RequestLength: uint32(c.n)}
			b = wire.AppendRequest(b, &wire.RequestFields{Type: wire.TypeRUDReq, Next: wire.NextRequestStd, Flags: wire.ReqSYN | wire.ReqAR, ClearOffset: -1,
				PSN: s.start, SPDCID: stubPDC})
			return append(wire.AppendSESStd(b, &f), m.append(nil)[:c.n]...)
		})
		if c.want == "" {
			s.expect("1 ACK_CC cack 0 off 0 RESPONSE OK 48")
		} else {
			s.expect("1 ACK_CC cack -1 off 1 req CLEAR RESPONSE " + c.want + " 0")
		}
	}
}

// TestEarlyKeepsCopiesEqual: buffers that are copies of the application's memory are brought up to date before they are read, and written
// back, in all schemes.
func TestEarlyKeepsCopiesEqual(t *testing.T) {
	for _, s := range schemes {
		if s.n == 0 {
			continue
		}
		l := newLab(t, Config{Profiles: s.p, MaxRestarts: 5, RestartWait: time.Millisecond})
		src, dst := &mirror{b: make([]byte, s.n), app: fill(s.n, 4)}, &mirror{b: make([]byte, s.n), app: make([]byte, s.n)}
		l.post(0, Op{Kind: OpTagSend, Peer: 1, Tag: 5, Buf: Buffer{src.b, src}, Ctx: 1})
		l.run(l.now() + ms)
		l.post(1, Op{Kind: OpTagRecv, Peer: 0, Tag: 5, Buf: Buffer{dst.b, dst}, Ctx: 2})
		l.settle()
		if !bytes.Equal(dst.app, src.app) {
			t.Errorf("%s: the application's memory differs", s.name)
		}
		l.spent()
	}
}

// mirror is a copy of an application's memory.
type mirror struct{ b, app []byte }

func (m *mirror) Pull(off, n int) error { copy(m.b[off:off+n], m.app[off:off+n]); return nil }
func (m *mirror) Push(off, n int) error { copy(m.app[off:off+n], m.b[off:off+n]); return nil }

// TestEarlyReset: what waits when a FEP is reset is forgotten, and afterwards all goes as before.
func TestEarlyReset(t *testing.T) {
	for _, s := range schemes {
		for at := vt.Time(1000); at < 12_000; at += 1000 {
			e := newEarly(t, Config{Profiles: s.p, MaxRestarts: 5, RestartWait: time.Millisecond}, s.n)
			e.send()
			e.run(at)
			e.recv()
			e.run(e.now() + 300)
			e.script = func(int, []byte) fate { return fate{drop: true} } // nothing of before comes afterwards
			for i := range e.feps {
				e.call(i, e.now()+2000, func(now vt.Time) {
					e.feps[i].Reset(now)
					e.got[i] = nil
				})
			}
			e.run(e.now() + 10*ms)
			e.got, e.script = [2][]Completion{}, nil
			e.earlyLeft()
			for i := range e.eps {
				if n := e.eps[i].mem.Len(); n != 0 {
					t.Errorf("%s: %d regions", s.name, n)
				}
			}
			e.recv()
			e.send()
			e.run(e.now() + 100*ms)
			e.arrived()
			if t.Failed() {
				t.Fatalf("%s, reset after %d", s.name, at)
			}
		}
	}
}

// TestEarlySharedQueue: messages without a receive wait for one of the queue that their endpoint takes receives from, and go with it.
func TestEarlySharedQueue(t *testing.T) {
	for _, p := range []Profiles{AIFull, HPC} {
		l := newLab(t, Config{Profiles: p})
		q := l.feps[1].OpenRecvQueue(0, nil)
		var got []Completion
		ep, err := l.feps[1].Open(EndpointConfig{Job: testJob, PID: 4, Initiator: 104, Queue: q}, func(_ vt.Time, c Completion) { got = append(got, c) })
		if err != nil {
			t.Fatal(err)
		}
		ep.InsertAddr(testAddr(0), 0, 100)
		to := l.eps[0].InsertAddr(testAddr(1), 4, 104)
		l.eps[0].cfg.EagerSize = 16 << 10
		for i := range 3 {
			l.post(0, Op{Kind: OpSend, Peer: to, Buf: buf(fill(50_000, uint64(i))), Ctx: uint64(i)})
		}
		l.run(l.now() + ms)
		dst := make([]byte, 50_000)
		l.call(1, l.now()+1, func(now vt.Time) {
			if err := q.Post(now, &Op{Kind: OpRecv, Peer: AnySource, Job: testJob + 1, Buf: buf(make([]byte, 10)), Ctx: 98}); err != nil { // of another job
				t.Error(err)
			}
			if err := q.Post(now, &Op{Kind: OpRecv, Peer: AnySource, Job: testJob, Buf: buf(dst), Ctx: 99}); err != nil {
				t.Error(err)
			}
		})
		l.run(l.now() + ms)
		if len(got) != 1 || got[0].Err != nil || got[0].Ctx != 99 || !bytes.Equal(dst, fill(50_000, 0)) {
			t.Errorf("profiles %b: %+v", p, got)
		}
		l.call(1, l.now()+1, func(now vt.Time) { q.Close(now) })
		l.spent()
		for i := range 3 {
			if c, n := l.done(0, uint64(i)); n != 1 || (c.Err == nil) != (i == 0) {
				t.Errorf("profiles %b, message %d: %d times %+v", p, i, n, c)
			}
		}
	}
}

// TestHeldUpStreamGoesOn: a rendezvous that waits to be read does not hold back what follows it in order.
func TestHeldUpStreamGoesOn(t *testing.T) {
	l := newLab(t, Config{Profiles: HPC, MaxRestarts: 5, RestartWait: time.Millisecond})
	l.eps[0].SetOrdered(true)
	l.eps[1].cfg.KeptMessages = 1
	a, b := make([]byte, 50_000), make([]byte, 100)
	l.post(0, Op{Kind: OpTagSend, Peer: 1, Tag: 1, Buf: buf(fill(50_000, 1)), Ctx: 1})
	l.post(0, Op{Kind: OpTagSend, Peer: 1, Tag: 2, Buf: buf(fill(100, 2)), Ctx: 2}) // there is no room for it
	l.run(l.now() + ms)
	l.post(1, Op{Kind: OpTagRecv, Peer: 0, Tag: 2, Buf: buf(b), Ctx: 2})
	l.run(l.now() + 20*ms)
	if c, n := l.done(0, 2); n != 1 || c.Err != nil || !bytes.Equal(b, fill(100, 2)) {
		t.Errorf("%d times %+v", n, c)
	}
	l.post(1, Op{Kind: OpTagRecv, Peer: 0, Tag: 1, Buf: buf(a), Ctx: 1})
	l.run(l.now() + ms)
	if c, n := l.done(0, 1); n != 1 || c.Err != nil || !bytes.Equal(a, fill(50_000, 1)) {
		t.Errorf("%d times %+v", n, c)
	}
	l.spent()
}

// TestDamagedEarly changes bytes of SES headers on their way, with a right checksum: nothing panics, every operation still ends once, and
// nothing is left.
func TestDamagedEarly(t *testing.T) {
	start, n := rand.Uint64(), uint64(300)
	if *earlySeed != 0 {
		start, n = *earlySeed, 1
	}
	for i := range n {
		seed := start + i
		x := newEarlyRun(t, seed)
		clean := x.script
		x.script = func(from int, b []byte) fate {
			const head = wire.EthLen + wire.IPv4Len + wire.UDPLen + 12
			if len(b) > head+wire.CRCLen && x.r.IntN(6) == 0 {
				at := head + x.r.IntN(min(len(b)-wire.CRCLen-head, 72))
				b[at] ^= 1 << x.r.IntN(8)
				wire.AppendUETCRC(b[:len(b)-wire.CRCLen])
			}
			return clean(from, b)
		}
		for i := range 10 {
			x.send(i)
			x.recv(i)
		}
		x.run(vt.Time(60 * time.Second))
		for i := range x.eps {
			x.call(i, x.now()+1, func(now vt.Time) { x.eps[i].Close(now) })
		}
		x.settle()
		x.earlyLeft()
		x.leaks()
		for j := range x.msgs {
			if _, n := x.done(x.msgs[j].from, uint64(j)); n != 1 {
				t.Errorf("message %d: %d completions", j, n)
			}
			if _, n := x.done(x.recvs[j].at, uint64(1000+j)); n != 1 {
				t.Errorf("receive %d: %d completions", j, n)
			}
		}
		for i, f := range x.feps {
			if f.rx.n != 0 || f.mids.n != 0 {
				t.Errorf("node %d: left: %d messages, %d message IDs", i, f.rx.n, f.mids.n)
			}
			for _, p := range f.PDCs(nil) { // seen once in thousands: its Close Command is repeated, here without limit
				if p.State != pds.CloseWait {
					t.Errorf("node %d: left: %+v", i, p)
				}
			}
		}
		if t.Failed() {
			t.Fatalf("-earlyseed %d", seed)
		}
	}
}
