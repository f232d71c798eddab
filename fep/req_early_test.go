package fep

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// early is a lab whose packets are kept, with one tagged message of n bytes.
type early struct {
	*lab
	src, dst []byte
	list     *[]passed
}

func newEarly(t testing.TB, cfg Config, n int) *early {
	e := &early{lab: newLab(t, cfg), src: fill(n, uint64(n)), dst: make([]byte, n)}
	e.list = e.watch()
	return e
}

func (e *early) send() { e.post(0, Op{Kind: OpTagSend, Peer: 1, Tag: 5, Buf: buf(e.src), Ctx: 22}) }
func (e *early) recv() { e.post(1, Op{Kind: OpTagRecv, Peer: 0, Tag: 5, Buf: buf(e.dst), Ctx: 11}) }

// arrived wants the message whole, and both ends told once.
func (e *early) arrived() {
	e.t.Helper()
	e.want(0, Completion{Kind: OpTagSend, Ctx: 22, Len: len(e.src)})
	e.want(1, Completion{Kind: OpTagRecv, Ctx: 11, Len: len(e.src)})
	if !bytes.Equal(e.src, e.dst) {
		e.t.Error("contents differ")
	}
	e.spent()
}

const ms = vt.Time(time.Millisecond)

// TestI01_DeferrableIsASendWhenThereIsAReceive: a long send is deferrable, and if its receive is there nothing else differs.
func TestI01_DeferrableIsASendWhenThereIsAReceive(t *testing.T) {
	times := map[int]vt.Time{}
	for _, threshold := range []int{0, -1} {
		e := newEarly(t, Config{SendThreshold: threshold}, 100_000)
		e.recv()
		e.send()
		e.run(e.now() + 10*ms)
		s := saidBy(*e.list, 0)
		if op := []wire.Opcode{wire.OpDeferrableTSend, wire.OpTaggedSend}[-threshold]; count(s, op) != 25 || len(s) != 25 {
			t.Errorf("%d packets, %d of %v", len(s), count(s, op), op)
		}
		if s[0].std.InitiatorToken() == 0 != (threshold < 0) || s[0].std.TargetToken() != 0 {
			t.Errorf("tokens %#x, %#x", s[0].std.InitiatorToken(), s[0].std.TargetToken())
		}
		times[threshold] = e.got[0][0].Acked
		e.arrived()
	}
	if times[0] != times[-1] {
		t.Errorf("a deferrable send ends at %d, a plain one at %d", times[0], times[-1])
	}
	for n, op := range map[int]wire.Opcode{8191: wire.OpTaggedSend, 8192: wire.OpDeferrableTSend} {
		e := newEarly(t, Config{}, n)
		e.recv()
		e.send()
		e.run(e.now() + ms)
		if s := saidBy(*e.list, 0); s[0].op() != op {
			t.Errorf("%d bytes: %v", n, s[0].op())
		}
		e.arrived()
	}
}

// TestI02_Deferred: without a receive the first packet is answered OK, OVERFLOW, guaranteed; the sender stops, and ends the message
// early; all that is deferred is dropped.
func TestI02_Deferred(t *testing.T) {
	e := newEarly(t, Config{}, 1<<20)
	e.send()
	e.run(e.now() + ms)
	a := answersOf(*e.list, 1)
	if len(a) == 0 || !a[0].gtd {
		t.Fatalf("answers %+v", a)
	}
	for i, r := range a {
		if r.rc != wire.RCOK || r.list != wire.ListOverflow || r.mod != 0 || i > 0 && r.gtd {
			if i < len(a)-1 { // the last one answers the early end
				t.Errorf("answer %d: %+v", i, r)
			}
		}
	}
	s := saidBy(*e.list, 0)
	last := s[len(s)-1]
	sent := uint32(0)
	for _, p := range s[:len(s)-1] {
		sent += uint32(p.n)
	}
	if len(s) > 100 || last.op() != wire.OpDeferrableTSend || !last.std.Head().EOM() || last.std.Head().IE() || last.n != 0 ||
		last.std.MessageOffset() != sent || last.std.MessageID() != s[0].std.MessageID() {
		t.Errorf("%d packets with %d bytes, the last: %v EOM %v at %d", len(s), sent, last.op(), last.std.Head().EOM(), last.std.MessageOffset())
	}
	if e.feps[0].mids.n != 0 || e.feps[0].C[DeferredTx] != 1 || e.feps[1].C[DeferredRx] != 1 || len(e.got[0]) != 0 || e.feps[1].rx.n != 0 {
		t.Errorf("%d message IDs, deferred %d and %d, %+v, %d messages", e.feps[0].mids.n, e.feps[0].C[DeferredTx], e.feps[1].C[DeferredRx],
			e.got[0], e.feps[1].rx.n)
	}
	e.recv()
	e.run(e.now() + ms)
	e.arrived()
}

// TestI02_OnePacketLeft: a message of which all was sent needs no early end.
func TestI02_OnePacketLeft(t *testing.T) {
	e := newEarly(t, Config{}, 8192)
	e.send()
	e.run(e.now() + ms)
	if s := saidBy(*e.list, 0); len(s) != 2 {
		t.Errorf("%d packets", len(s))
	}
	e.recv()
	e.run(e.now() + ms)
	e.arrived()
}

// TestI03_ReadyToRestart: a later receive makes the target tell the sender, by one packet on a PDC of its own, with both tokens.
func TestI03_ReadyToRestart(t *testing.T) {
	e := newEarly(t, Config{}, 100_000)
	e.send()
	e.run(e.now() + ms)
	if len(saidBy(*e.list, 1)) != 0 {
		t.Error("the target spoke before there was a receive")
	}
	e.recv()
	e.run(e.now() + ms)
	from0, from1 := saidBy(*e.list, 0), saidBy(*e.list, 1)
	if len(from1) != 1 || from1[0].op() != wire.OpDeferrableRTR || e.role(1, true) == nil {
		t.Fatalf("the target said %+v", from1)
	}
	r, h := from1[0].std, from1[0].std.Head()
	if r.InitiatorToken() != from0[0].std.InitiatorToken() || r.TargetToken() == 0 || r.BufferOffset() != 0 || r.MessageID() == 0 ||
		!h.SOM() || !h.EOM() || h.JobID() != testJob || h.PIDonFEP() != 0 || r.Initiator() != 101 || from1[0].n != 0 {
		t.Errorf("RTR % x", []byte(r))
	}
	if a := answersOf(*e.list, 0); len(a) != 1 || a[0].rc != wire.RCOK || a[0].mid != r.MessageID() {
		t.Errorf("the sender answered %+v", a)
	}
	e.arrived()
}

// TestI04_RestartedAsNewMessage: the message comes again from its beginning, with another message ID and both tokens, and goes to
// the receive that it was called for, though an older one would match too.
func TestI04_RestartedAsNewMessage(t *testing.T) {
	e := newEarly(t, Config{}, 100_000)
	e.send()
	e.run(e.now() + ms)
	e.recv()
	e.run(e.now() + ms)
	s := firsts(saidBy(*e.list, 0), wire.OpDeferrableTSend)
	r := saidBy(*e.list, 1)[0].std
	if len(s) != 2 {
		t.Fatalf("begun %d times", len(s))
	}
	if s[1].std.MessageID() == s[0].std.MessageID() || s[1].std.InitiatorToken() != r.InitiatorToken() || s[1].std.TargetToken() != r.TargetToken() {
		t.Errorf("IDs %d, %d; tokens %x, %x", s[0].std.MessageID(), s[1].std.MessageID(), s[1].std.InitiatorToken(), s[1].std.TargetToken())
	}
	if e.feps[0].C[RTRRx] != 1 || e.feps[1].C[RTRTx] != 1 || e.feps[0].C[Restarts] != 0 {
		t.Errorf("RTR %d, %d, restarts %d", e.feps[1].C[RTRTx], e.feps[0].C[RTRRx], e.feps[0].C[Restarts])
	}
	e.arrived()
}

// rtr sends DEFERRABLE_RTR in the name of node 1.
func (l *lab) rtr(psn int32, ini, tgt uint32, edit func(*wire.StdFields)) {
	f := wire.StdFields{HeadFields: wire.HeadFields{Opcode: wire.OpDeferrableRTR, Flags: wire.SESRel | wire.SESSOM | wire.SESEOM, JobID: testJob,
		ResourceIndex: 15}, MessageID: uint16(100 + psn), Initiator: 101, InitiatorToken: ini, TargetToken: tgt}
	if edit != nil {
		edit(&f)
	}
	l.inject(0, 7, 10, 0, func(b []byte) []byte {
		return wire.AppendSESStd(wire.AppendRequest(b, &wire.RequestFields{Type: wire.TypeRUDReq, Next: wire.NextRequestStd,
			Flags: wire.ReqSYN | wire.ReqAR, ClearOffset: -1, PSN: wire.PSN(5000).Add(psn), SPDCID: 77, PSNOffset: uint16(psn)}), &f)
	})
	l.run(l.now() + 5000)
}

// nth is the SES header of the i-th request that FEP 0 sent.
func (s *peerStub) nth(i int) wire.SESStd {
	s.t.Helper()
	for _, raw := range s.raw {
		if u := firstUET(raw); wire.Prologue(u).Type().IsRequest() {
			if i--; i < 0 {
				return wire.SESStd(u[12:56])
			}
		}
	}
	s.t.Fatal("there are less requests")
	return nil
}

// TestI05_BadTokens: only the target of a deferred send may call for it, once, and with the tokens of this send.
func TestI05_BadTokens(t *testing.T) {
	s := newPeerStub(t, Config{PDCsPerKey: 1, NoInfer: true})
	var answers []wire.ReturnCode
	s.tap = func(_ vt.Time, from int, b []byte) {
		u := firstUET(b)
		if a, err := wire.ParseAck(u); err == nil && from == 0 && a.Next() == wire.NextResponse {
			if r, err := wire.ParseSESResponse(u[len(a):]); err == nil {
				answers = append(answers, r.Head().ReturnCode())
			}
		}
	}
	src := fill(8192, 1)
	s.post(func(now vt.Time) error { return s.eps[0].TagSend(now, 1, src, 1, 1) })
	sent := s.nth(0)
	token := sent.InitiatorToken()
	s.rtr(0, token+1, 9, nil)                                         // no such send
	s.rtr(1, token+1<<16, 9, nil)                                     // an earlier one had this place
	s.rtr(2, token, 0, nil)                                           // no target token
	s.rtr(3, token, 9, func(f *wire.StdFields) { f.Initiator = 100 }) // not whom it was sent to
	s.rtr(4, token, 9, func(f *wire.StdFields) { f.BufferOffset = 8193 })
	s.rtr(5, 0, 9, nil)
	if len(answers) != 6 {
		t.Fatalf("%d answers", len(answers))
	}
	for i, rc := range answers {
		if rc != wire.RCOpViolation {
			t.Errorf("%d: %v", i, rc)
		}
	}
	s.rtr(6, token, 9, nil) // before the answer that it is deferred: I06
	s.rtr(7, token, 10, nil)
	if len(answers) != 8 || answers[6] != wire.RCOK || answers[7] != wire.RCOpViolation {
		t.Errorf("answers %v", answers)
	}
	s.ack(1, 0)
	s.pass(1000)
	again := s.nth(2)
	if again.InitiatorToken() != token || again.TargetToken() != 9 || again.MessageID() == sent.MessageID() {
		t.Errorf("restarted with %x, %x", again.InitiatorToken(), again.TargetToken())
	}
	s.rtr(8, token, 9, nil) // repeated
	if answers[8] != wire.RCOpViolation {
		t.Errorf("a repeated RTR is answered %v", answers[8])
	}
	s.ack(3, 0)
	s.pass(1000)
	s.want(0, Completion{Kind: OpTagSend, Ctx: 1, Len: 8192})
	s.post(func(now vt.Time) error { return s.eps[0].TagSend(now, 1, src, 1, 2) })
	s.rtr(9, token, 11, nil) // of the send before
	if answers[9] != wire.RCOpViolation {
		t.Errorf("an RTR for a send that has ended is answered %v", answers[9])
	}
}

// TestI05_ResumedInTheMiddle: a target that has kept the beginning may have the message go on behind it.
func TestI05_ResumedInTheMiddle(t *testing.T) {
	s := newPeerStub(t, Config{PDCsPerKey: 1, NoInfer: true})
	src := fill(3*4096, 1)
	s.post(func(now vt.Time) error { return s.eps[0].TagSend(now, 1, src, 1, 1) })
	sent := s.nth(0)
	resp := wire.AppendSESResponse(nil, &wire.ResponseFields{RespFields: wire.RespFields{List: wire.ListOverflow, Opcode: wire.RespResponse,
		ReturnCode: wire.RCOK, JobID: testJob}, MessageID: sent.MessageID(), ModifiedLength: 4096})
	s.ackWith(wire.AckFields{Next: wire.NextResponse, Req: wire.AckReqClear}, 2, resp)
	s.pass(1000)
	s.rtr(0, sent.InitiatorToken(), 9, func(f *wire.StdFields) { f.BufferOffset = 4096 })
	n := 0
	for _, raw := range s.raw {
		u := firstUET(raw)
		if r, err := wire.ParseRequest(u); err == nil && wire.Prologue(u).Type().IsRequest() {
			h := wire.SESStd(u[12:56])
			if h.TargetToken() != 9 || r.RETX() {
				continue
			}
			if off := h.MessageOffset(); h.Head().SOM() || off != 4096+uint32(n)*4096 || !bytes.Equal(u[56:], src[off:off+4096]) || h.Head().EOM() != (n == 1) {
				t.Errorf("packet %d: SOM %v, offset %d, EOM %v", n, h.Head().SOM(), off, h.Head().EOM())
			}
			n++
		}
	}
	if n != 2 {
		t.Errorf("%d packets", n)
	}
}

// TestI06_ReadyBeforeDeferred: the answer that the message is deferred is lost, and the call to restart comes before its repetition.
func TestI06_ReadyBeforeDeferred(t *testing.T) {
	for _, n := range []int{8192, 1 << 20} {
		e := newEarly(t, Config{RTOInit: 5 * time.Millisecond}, n)
		e.script = func(from int, b []byte) fate {
			_, ack := wire.ParseAck(firstUET(b))
			return fate{drop: from == 1 && ack == nil && wire.Prologue(firstUET(b)).Type().IsAck() && e.now() < ms}
		}
		e.send()
		e.run(e.now() + 20_000)
		e.recv()
		e.run(e.now() + 20_000)
		if rtr := saidBy(*e.list, 1); len(rtr) != 1 || e.feps[0].C[DeferredTx] != 0 {
			t.Errorf("%d RTR; deferred as the sender knows: %d", len(rtr), e.feps[0].C[DeferredTx])
		}
		if n > 8192 { // what was under way goes on until the window is used up, then the early end follows
			if s := saidBy(*e.list, 0); len(s) > 60 {
				t.Errorf("%d packets", len(s))
			}
		}
		e.run(e.now() + 100*ms)
		if s := firsts(saidBy(*e.list, 0), wire.OpDeferrableTSend); len(s) != 2 {
			t.Errorf("begun %d times", len(s))
		}
		e.arrived()
	}
}

// TestI07_NoDescriptor: a target that can defer nothing more answers NO_MATCH; the sender tries again later, and is told when it
// gives up.
func TestI07_NoDescriptor(t *testing.T) {
	for _, post := range []bool{true, false} {
		e := newEarly(t, Config{MaxRestarts: 3}, 20_000)
		e.eps[1].cfg.MaxRTR = 0
		e.send()
		e.run(e.now() + ms)
		if a := answersOf(*e.list, 1); a[0].rc != wire.RCNoMatch || !a[0].gtd || e.feps[1].C[DeferredRx] != 0 {
			t.Errorf("answers %+v", a)
		}
		if post {
			e.recv()
			e.run(e.now() + 200*ms)
			e.arrived()
			continue
		}
		e.settle()
		var re *ResponseError
		if c, n := e.done(0, 22); n != 1 || !errors.As(c.Err, &re) || re.Code != wire.RCNoMatch || e.feps[0].C[Restarts] != 3 {
			t.Errorf("%d times %+v after %d restarts", n, c, e.feps[0].C[Restarts])
		}
		e.spent()
	}
}

// TestI08_NobodyReceives: a deferred message ends after MessageIdle at both ends, and one whose receive waits for it in vain does too.
func TestI08_NobodyReceives(t *testing.T) {
	e := newEarly(t, Config{}, 20_000)
	e.send()
	e.run(e.now() + vt.Time(4900*time.Millisecond))
	if len(e.got[0]) != 0 || e.feps[1].lands.n != 1 {
		t.Errorf("%+v, %d deferred", e.got[0], e.feps[1].lands.n)
	}
	e.run(e.now() + vt.Time(5200*time.Millisecond))
	if c, n := e.done(0, 22); n != 1 || !errors.Is(c.Err, ErrNoReceive) || e.feps[1].lands.n != 0 || e.feps[1].C[EarlyLapsed] != 1 {
		t.Errorf("%d times %+v; %d deferred, %d dropped", n, c, e.feps[1].lands.n, e.feps[1].C[EarlyLapsed])
	}
	e.spent()

	e = newEarly(t, Config{}, 20_000) // the sender dies between the call and the restart
	e.send()
	e.run(e.now() + ms)
	e.script = func(from int, b []byte) fate { return fate{drop: from == 0} }
	e.recv()
	e.settle()
	if c, n := e.done(1, 11); n != 1 || c.Err == nil || c.Len != 0 {
		t.Errorf("%d times %+v", n, c)
	}
	e.earlyLeft()
}

// TestI09_RendezvousExpected: the eager part comes by itself, and the rest is read as soon as its first packet is there.
func TestI09_RendezvousExpected(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		e := newEarly(t, Config{Profiles: HPC}, 100_000)
		e.eps[0].SetOrdered(ordered)
		e.eps[1].SetOrdered(ordered)
		e.recv()
		e.send()
		e.run(e.now() + ms)
		s, r := saidBy(*e.list, 0), saidBy(*e.list, 1)
		if len(s) != 4 || count(s, wire.OpRendezvousTSend) != 4 {
			t.Fatalf("%d packets of the sender, %d of the rendezvous", len(s), count(s, wire.OpRendezvousTSend))
		}
		for i, p := range s {
			x := wire.Rendezvous(p.ext)
			if p.n != 4096 || p.std.RequestLength() != 100_000 || x.EagerLength() != 16384 || x.PIDonFEP() != 0 || x.ResourceIndex() != 15 ||
				x.Offset() != 0 || p.std.Head().SOM() != (i == 0) || p.std.Head().EOM() != (i == 3) {
				t.Errorf("packet %d: %d bytes of %d, eager %d", i, p.n, p.std.RequestLength(), x.EagerLength())
			}
			if want := map[bool]wire.PDSType{false: wire.TypeRUDReq, true: wire.TypeRODReq}[ordered]; p.typ != want {
				t.Errorf("packet %d by %v", i, p.typ)
			}
		}
		read := uint32(0)
		for _, p := range r {
			if p.op() == wire.OpRead {
				if p.std.MatchBits() != wire.Rendezvous(s[0].ext).MatchBits() || p.std.BufferOffset() != 16384 || p.std.RequestLength() != 100_000-16384 || p.typ != wire.TypeRUDReq {
					t.Errorf("READ by %v at %d of %d", p.typ, p.std.BufferOffset(), p.std.RequestLength())
				}
				read++
			}
		}
		if read != 21 {
			t.Errorf("%d requests to read", read)
		}
		a := answersOf(*e.list, 1)
		if len(a) == 0 || a[0].rc != wire.RCOK || a[0].list != wire.ListExpected || a[0].mod != 100_000 || a[0].gtd {
			t.Errorf("answers %+v", a)
		}
		e.arrived()
	}
}

// TestI10_RendezvousUnexpected: what came is kept, and the rest is read when there is a receive.
func TestI10_RendezvousUnexpected(t *testing.T) {
	e := newEarly(t, Config{Profiles: HPC}, 100_000)
	e.send()
	e.run(e.now() + ms)
	a := answersOf(*e.list, 1)
	if len(a) != 1 || a[0].rc != wire.RCOK || a[0].list != wire.ListOverflow || !a[0].gtd || e.feps[1].C[EarlyMsgs] != 1 || e.feps[1].C[EarlyBytes] != 16384 {
		t.Errorf("answers %+v; kept %d bytes of %d messages", a, e.feps[1].C[EarlyBytes], e.feps[1].C[EarlyMsgs])
	}
	if len(saidBy(*e.list, 1)) != 0 || len(e.got[0]) != 0 {
		t.Error("read, or complete, before there was a receive")
	}
	e.recv()
	e.run(e.now() + ms)
	if r := firsts(saidBy(*e.list, 1), wire.OpRead); len(r) != 1 || r[0].std.BufferOffset() != 16384 {
		t.Errorf("%d READs", len(r))
	}
	if e.feps[1].C[Rereads] != 0 || e.feps[1].C[RendezvousRx] != 1 || e.feps[0].C[RendezvousTx] != 1 {
		t.Error("wrong counters")
	}
	e.arrived()
}

// TestI11_NothingKept: without room for the eager part only the header is kept, and all is read from the beginning; without room for
// headers the message is refused.
func TestI11_NothingKept(t *testing.T) {
	e := newEarly(t, Config{Profiles: HPC}, 100_000)
	e.eps[1].cfg.Unexpected = 0
	e.send()
	e.run(e.now() + ms)
	if e.feps[1].C[EarlyMsgs] != 1 || e.feps[1].C[EarlyBytes] != 0 {
		t.Errorf("kept %d bytes of %d messages", e.feps[1].C[EarlyBytes], e.feps[1].C[EarlyMsgs])
	}
	e.recv()
	e.run(e.now() + ms)
	if r := firsts(saidBy(*e.list, 1), wire.OpRead); len(r) != 1 || r[0].std.BufferOffset() != 0 || r[0].std.RequestLength() != 100_000 {
		t.Errorf("%d READs", len(r))
	}
	if e.feps[1].C[Rereads] != 1 {
		t.Error("not counted")
	}
	e.arrived()

	e = newEarly(t, Config{Profiles: HPC, MaxRestarts: 5}, 100_000)
	e.eps[1].cfg.KeptMessages = 0
	e.send()
	e.run(e.now() + ms)
	if a := answersOf(*e.list, 1); len(a) == 0 || a[0].rc != wire.RCNoMatch {
		t.Errorf("answers %+v", a)
	}
	e.recv()
	e.run(e.now() + 200*ms)
	e.arrived()
}

// TestI12_BufferFreeWhenRead: the send ends when all that it exposed was read and that was acknowledged, and then nobody can read it.
func TestI12_BufferFreeWhenRead(t *testing.T) {
	e := newEarly(t, Config{Profiles: HPC, RTOInit: 50 * time.Millisecond, NoInfer: true}, 100_000)
	held := true
	e.script = func(from int, b []byte) fate { // the reader's ACKs of the last return data do not come
		u := firstUET(b)
		a, err := wire.ParseAck(u)
		p := e.role(0, false)
		return fate{drop: held && from == 1 && err == nil && wire.Prologue(u).Type().IsAck() && p != nil && a.DPDCID() == p.ID}
	}
	e.recv()
	e.send()
	e.run(e.now() + 2*ms)
	if len(e.got[0]) != 0 || e.eps[0].mem.Len() != 1 {
		t.Errorf("%d completions, %d regions", len(e.got[0]), e.eps[0].mem.Len())
	}
	held = false
	e.run(e.now() + 500*ms)
	if e.eps[0].mem.Len() != 0 {
		t.Errorf("%d regions", e.eps[0].mem.Len())
	}
	e.arrived()
}

// TestI12_OnlyTheTargetReads: somebody else who knows the key cannot use it, nor can the target once the send has ended.
func TestI12_OnlyTheTargetReads(t *testing.T) {
	e := newEarly(t, Config{Profiles: HPC}, 100_000)
	e.send()
	e.run(e.now() + ms)
	key := wire.Rendezvous(saidBy(*e.list, 0)[0].ext).MatchBits()
	try := func(ep *Endpoint, ctx uint64) error {
		var err error = errors.New("open")
		ep.done = func(_ vt.Time, c Completion) { err = c.Err }
		e.call(1, e.now()+1, func(now vt.Time) {
			if err := ep.Read(now, 0, make([]byte, 5000), key, 0, ctx); err != nil {
				t.Error(err)
			}
		})
		e.run(e.now() + ms)
		return err
	}
	other, err := e.feps[1].Open(EndpointConfig{Job: testJob, PID: 9, Initiator: 109}, nil)
	if err != nil {
		t.Fatal(err)
	}
	other.InsertAddr(testAddr(0), 0, 100)
	var re *ResponseError
	if err := try(other, 1); !errors.As(err, &re) || re.Code != wire.RCBadMKey {
		t.Errorf("another process reads: %v", err)
	}
	other.Close(e.now())
	e.recv()
	e.run(e.now() + ms)
	done := e.eps[1].done
	if err := try(e.eps[1], 2); !errors.As(err, &re) || re.Code != wire.RCBadMKey {
		t.Errorf("the target reads afterwards: %v", err)
	}
	e.eps[1].done = done
	e.arrived()
}

// TestI13_ShortIsPlain: a message that the eager size holds goes as a plain send; what a PDC's window has room for is the eager
// size where there is one.
func TestI13_ShortIsPlain(t *testing.T) {
	for _, c := range []struct {
		n, eager int
		want     wire.Opcode
		part     uint32
	}{
		{16384, 0, wire.OpTaggedSend, 0}, {16385, 0, wire.OpRendezvousTSend, 16384}, {100, 0, wire.OpTaggedSend, 0},
		{5000, 100, wire.OpRendezvousTSend, 4096}, {70_000, 1 << 20, wire.OpRendezvousTSend, 65536}, {65536, 1 << 20, wire.OpTaggedSend, 0},
		{20_000, 9000, wire.OpRendezvousTSend, 8192},
	} {
		e := newEarly(t, Config{Profiles: HPC}, c.n)
		e.eps[0].cfg.EagerSize = c.eager
		e.recv()
		e.send()
		e.run(e.now() + ms)
		s := saidBy(*e.list, 0)
		if s[0].op() != c.want || s[0].ext != nil && wire.Rendezvous(s[0].ext).EagerLength() != c.part {
			t.Errorf("%d bytes, eager size %d: %v", c.n, c.eager, s[0].op())
		}
		e.arrived()
	}
	e := newEarly(t, Config{Profiles: HPC, Window: 40_000}, 100_000)
	e.recv()
	e.post(0, Op{Kind: OpTagSend, Peer: 1, Tag: 6, Buf: buf(nil), Ctx: 1})
	e.post(1, Op{Kind: OpTagRecv, Peer: 0, Tag: 6, Buf: buf(nil), Ctx: 1})
	e.run(e.now() + ms)
	e.send()
	e.run(e.now() + ms)
	if s := firsts(saidBy(*e.list, 0), wire.OpRendezvousTSend); len(s) != 1 || wire.Rendezvous(s[0].ext).EagerLength() != 36864 {
		t.Errorf("window 40 000: %d rendezvous", len(s))
	}
	e.spent()
}

// TestI14_AIBase: the receive tells its source with one SEND, which writes with completion data.
func TestI14_AIBase(t *testing.T) {
	for _, first := range []string{"receive", "send"} {
		e := newEarly(t, Config{Profiles: AIBase}, 100_000)
		if first == "receive" {
			e.recv()
			e.run(e.now() + ms)
			e.send()
		} else {
			e.send()
			e.run(e.now() + ms)
			e.recv()
		}
		e.run(e.now() + ms)
		s, r := saidBy(*e.list, 0), saidBy(*e.list, 1)
		if len(r) != 1 || r[0].op() != wire.OpSend || r[0].n != controlLen || r[0].std.Head().ResourceIndex() != controlRI || r[0].std.Initiator() != 101 {
			t.Fatalf("%s first: the receiver said %+v", first, r)
		}
		if len(s) != 25 || count(s, wire.OpWrite) != 25 || !s[0].std.Head().HD() || s[0].at < r[0].at {
			t.Errorf("%s first: the sender said %d packets, %d of a WRITE", first, len(s), count(s, wire.OpWrite))
		}
		e.arrived()
	}
}

// TestH21_UnexpectedIsStored: HPC keeps a message without a receive, also one of several packets, says so, guaranteed, and a later
// receive gets it.
func TestH21_UnexpectedIsStored(t *testing.T) {
	for _, n := range []int{0, 1, 4096, 16384} {
		e := newEarly(t, Config{Profiles: HPC}, n)
		e.send()
		e.run(e.now() + ms)
		a := answersOf(*e.list, 1)
		if len(a) != 1 || a[0].rc != wire.RCOK || a[0].list != wire.ListOverflow || !a[0].gtd || a[0].mod != uint32(n) {
			t.Errorf("%d bytes: answers %+v", n, a)
		}
		if len(e.got[0]) != 1 || e.feps[1].C[EarlyMsgs] != 1 || int(e.feps[1].C[EarlyBytes]) != n {
			t.Errorf("%d bytes: %d completions of the sender, %d messages and %d bytes kept", n, len(e.got[0]), e.feps[1].C[EarlyMsgs], e.feps[1].C[EarlyBytes])
		}
		e.run(e.now() + vt.Time(30*time.Second)) // it waits as long as it takes
		e.recv()
		e.run(e.now() + ms)
		e.arrived()
	}
}

// TestA11_DeferrableIsPlainForHPC: an end point without AI Full never defers.
func TestA11_DeferrableIsPlainForHPC(t *testing.T) {
	s := newStub(t, Config{Profiles: HPC})
	s.open()
	s.request(req{psn: 1, flags: wire.ReqAR, clear: -1, mid: 2, op: wire.OpDeferrableTSend, tag: 2, total: 100, n: 100})
	s.expect("1 ACK_CC cack 0 off 1 req CLEAR RESPONSE OK 100")
	if b := s.recv(2, 100); s.feps[1].C[DeferredRx] != 0 || s.feps[1].C[EarlyRx] != 1 || len(s.lab.got[1]) != 2 || len(b) != 100 {
		t.Errorf("deferred %d, kept %d", s.feps[1].C[DeferredRx], s.feps[1].C[EarlyRx])
	}
	s.eps[1].cfg.Unexpected = 0
	s.request(req{psn: 2, flags: wire.ReqAR, clear: -1, mid: 3, op: wire.OpDeferrableTSend, tag: 2, total: 100, n: 100})
	s.expect("1 ACK_CC cack 1 off 1 req CLEAR RESPONSE NO_MATCH 0")
}

// TestA12_OutsideTheProfile: operations that the end point's profiles lack are refused.
func TestA12_OutsideTheProfile(t *testing.T) {
	for _, c := range []struct {
		p    Profiles
		op   wire.Opcode
		want string
	}{
		{AIBase, wire.OpRendezvousSend, "UNSUPPORTED_OP"}, {AIBase, wire.OpRendezvousTSend, "UNSUPPORTED_OP"}, {AIBase, wire.OpDeferrableSend, "UNSUPPORTED_OP"},
		{AIBase, wire.OpTaggedSend, "UNSUPPORTED_OP"}, {AIBase | AIFull, wire.OpRendezvousSend, "UNSUPPORTED_OP"},
		{HPC, wire.OpDeferrableRTR, "UNSUPPORTED_OP"}, {AIBase, wire.OpDeferrableRTR, "UNSUPPORTED_OP"}, {AIFull, wire.OpDeferrableRTR, "OP_VIOLATION"},
		{AIFull, wire.OpTSendAtomic, "UNSUPPORTED_OP"}, {HPC, wire.OpRendezvousSend, "OP_VIOLATION"}, // without its extension
	} {
		s := newStub(t, Config{Profiles: c.p})
		n := 10
		if c.want == "UNSUPPORTED_OP" {
			n = 40 // room for an extension
		}
		s.request(req{flags: wire.ReqSYN | wire.ReqAR, clear: -1, mid: 1, op: c.op, tag: 1, total: uint32(n), n: n})
		s.expect("1 ACK_CC cack -1 off 1 req CLEAR RESPONSE " + c.want + " 0")
	}
}
