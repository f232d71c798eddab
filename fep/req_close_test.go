package fep

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// TestC01_IdleClose: an idle initiator sends a Close Command with AR and the PSN after the last one.
func TestC01_IdleClose(t *testing.T) {
	l := newLab(t, Config{IdleClose: 100 * time.Millisecond})
	var at vt.Time
	got := l.trace()
	trace := l.tap
	l.tap = func(now vt.Time, from int, b []byte) {
		trace(now, from, b)
		if from == 0 {
			at = now
		}
	}
	l.exchange(3 * 4096)
	l.run(vt.Time(10 * time.Second))
	wantLines(t, (*got)[len(*got)-2:], []string{"0 CLOSE_COMMAND psn 3 AR", "1 ACK_CC cack 3 off 0 NONE"})
	if idle := at.Sub(l.got[0][0].Acked); idle < 99*time.Millisecond || idle > 101*time.Millisecond {
		t.Errorf("closed after %v", idle)
	}
	if l.count(PDCClosed) != 2 {
		t.Errorf("%d PDCs closed", l.count(PDCClosed))
	}
	l.checkEmpty()
}

// TestC02_CloseWaits: an initiator closes only after all is acknowledged, cleared and unlocked, however long it is idle.
func TestC02_CloseWaits(t *testing.T) {
	cfg := Config{IdleClose: time.Millisecond, RTOInit: time.Second}
	t.Run("unacknowledged", func(t *testing.T) {
		x := newFar(t, cfg, 1)
		x.send(x.ep, 0, 2048, 0)
		x.on = func(p *seen) {
			if p.req != nil && p.req.PSNOffset() == 0 {
				x.ack(p, nil)
			}
		}
		x.run(500 * time.Millisecond)
		if n := len(x.controls(wire.CtlCloseCommand, 0)); n != 0 || x.f.PDCs(nil)[0].Tx.Unacked != 1 {
			t.Fatalf("%d Close Commands", n)
		}
		x.ack(x.seen[1], func(a *wire.AckFields) { a.DPDCID = x.seen[0].req.SPDCID() })
		x.run(100 * time.Millisecond)
		if n := len(x.controls(wire.CtlCloseCommand, 0)); n != 1 {
			t.Errorf("%d Close Commands", n)
		}
	})
	t.Run("uncleared", func(t *testing.T) {
		x := newFar(t, cfg, 1)
		x.send(x.ep, 0, 1024, 0)
		x.on = func(p *seen) {
			if p.req != nil {
				x.ack(p, func(a *wire.AckFields) { a.Req, a.CACK, a.AckOffset = wire.AckReqClear, a.CACK-1, 1 })
			}
		}
		x.run(100 * time.Millisecond)
		kinds := []wire.CtlType{}
		for _, p := range x.seen[1:] {
			kinds = append(kinds, p.ctl.Ctl())
		}
		if len(kinds) < 2 || kinds[0] != wire.CtlClearCommand || kinds[1] != wire.CtlCloseCommand {
			t.Errorf("control packets %v", kinds)
		}
	})
	t.Run("locked", func(t *testing.T) {
		x := newFar(t, cfg, 1)
		buf := make([]byte, 1000)
		x.call(func(now vt.Time) { _ = x.ep.Read(now, 0, buf, 1, 0, 5) })
		x.on = x.polite
		x.run(500 * time.Millisecond)
		if n := len(x.controls(wire.CtlCloseCommand, 0)); n != 0 {
			t.Fatalf("%d Close Commands with a read open", n)
		}
		p := x.seen[0]
		x.reply(p, func(b []byte) []byte { // its data
			b = wire.AppendRequest(b, &wire.RequestFields{Type: wire.TypeRUDReq, Next: wire.NextResponseData, Flags: wire.ReqAR, PSN: p.req.PSN(),
				SPDCID: farPDC, DPDCID: p.req.SPDCID(), ClearOffset: -1})
			b = wire.AppendSESResponseData(b, &wire.ResponseDataFields{RespFields: wire.RespFields{Opcode: wire.RespWithData, ReturnCode: wire.RCOK,
				JobID: testJob}, ReadRequestMessageID: p.std.MessageID(), PayloadLength: 1000, ModifiedLength: 1000})
			return append(b, fill(1000, 2)...)
		})
		x.run(500 * time.Millisecond)
		if n := len(x.controls(wire.CtlCloseCommand, 0)); n != 1 || len(x.got) != 1 || x.got[0].Err != nil || !slices.Equal(buf, fill(1000, 2)) {
			t.Errorf("%d Close Commands, completions %+v", n, x.got)
		}
	})
}

// TestC03_CloseIsRepeated: a lost Close Command is sent again with the same PSN and retx set.
func TestC03_CloseIsRepeated(t *testing.T) {
	l := newLab(t, Config{})
	got := l.trace()
	l.exchange(10)
	l.script = nth(0, fate{drop: true}, func(from int, _ []byte) bool { return from == 0 })
	l.run(vt.Time(10 * time.Second))
	wantLines(t, (*got)[2:], []string{"0 CLOSE_COMMAND psn 1 AR", "0 CLOSE_COMMAND psn 1 AR RETX", "1 ACK_CC cack 1 off 0 RETX NONE"})
	l.checkEmpty()
}

// TestC04_CloseIsAcknowledgedAgain: the repetition after a lost closing ACK is acknowledged again for the hold time, then no more.
func TestC04_CloseIsAcknowledgedAgain(t *testing.T) {
	l := newLab(t, Config{})
	got := l.trace()
	l.exchange(10)
	l.script = nth(0, fate{drop: true}, acks)
	l.run(vt.Time(10 * time.Second))
	wantLines(t, (*got)[2:], []string{"0 CLOSE_COMMAND psn 1 AR", "1 ACK_CC cack 1 off 0 NONE", "0 CLOSE_COMMAND psn 1 AR RETX", "1 ACK_CC cack 1 off 0 RETX NONE"})
	l.checkEmpty()

	s := newStub(t, Config{Hold: 100 * time.Millisecond})
	s.open()
	for range 2 {
		s.ctrl(wire.CtlCloseCommand, 1, 0)
		s.expect("1 ACK_CC cack 1 off 0 NONE")
		s.now += 90_000_000
	}
	s.now += 20_000_000
	s.run(s.now)
	s.ctrl(wire.CtlCloseCommand, 1, 0)
	s.expect()
	if c := &s.feps[1].C; c[PDCsOpen] != 0 || c[PDCClosed] != 1 || c[UnknownPDCID] != 1 {
		t.Errorf("%d PDCs, %d closed, %d unknown", c[PDCsOpen], c[PDCClosed], c[UnknownPDCID])
	}
}

// TestC05_CloseFreesResponses: a target frees stored responses on Close.
func TestC05_CloseFreesResponses(t *testing.T) {
	s := newStub(t, Config{})
	s.open()
	for i := range int32(3) {
		s.request(req{psn: 1 + i, flags: wire.ReqAR, mid: uint16(2 + i), op: wire.OpSend, total: 1, n: 1})
	}
	if n := s.feps[1].C[GtdInUse]; n != 3 {
		t.Fatalf("%d responses kept, want 3", n)
	}
	s.got = nil
	s.ctrl(wire.CtlCloseCommand, 4, 0)
	s.expect("1 ACK_CC cack 4 off 0 NONE")
	if n := s.feps[1].C[GtdInUse]; n != 0 {
		t.Errorf("%d responses kept after Close", n)
	}
}

// TestC06_CloseWithReturnData: Close while return data is not acknowledged is answered CLOSING_IN_ERR, and so is all that follows.
func TestC06_CloseWithReturnData(t *testing.T) {
	s := newStub(t, Config{})
	key := s.eps[1].Register(make([]byte, 3000))
	s.readRequest(0, wire.ReqSYN, 3, key, 3000)
	s.got = nil
	s.ctrl(wire.CtlCloseCommand, 1, 0)
	s.expect("1 NACK CLOSING_IN_ERR psn 1")
	if n := s.lastNack(); n.Payload() != 0 {
		t.Errorf("payload %d", n.Payload())
	}
	s.request(req{psn: 2, mid: 4, op: wire.OpSend, total: 1, n: 1})
	s.expect("1 NACK CLOSING_IN_ERR psn 2")
	s.now += 500_000_000
	s.run(s.now)
	s.expect() // data is not sent again
	if c := &s.feps[1].C; c[PDCFailed] != 1 || c[PDCsOpen] != 0 || c[PDCClosed] != 0 {
		t.Errorf("%d failed, %d there, %d closed", c[PDCFailed], c[PDCsOpen], c[PDCClosed])
	}
	s.leaks()
}

// TestC07_TargetWantsClose: a target that wants the end sends a Close Request with a return PSN; the initiator acknowledges it and
// closes.
func TestC07_TargetWantsClose(t *testing.T) {
	l := newLab(t, Config{TargetIdle: 10 * time.Millisecond, IdleClose: time.Hour})
	got := l.trace()
	l.exchange(10)
	wantLines(t, (*got)[2:], []string{
		"1 CLOSE_REQUEST psn 0 AR",
		"0 ACK_CC cack 0 off 0 NONE",
		"0 CLOSE_COMMAND psn 1 AR",
		"1 ACK_CC cack 1 off 0 NONE",
	})
	if l.count(PDCClosed) != 2 {
		t.Errorf("%d PDCs closed", l.count(PDCClosed))
	}
	l.run(vt.Time(10 * time.Second))
	l.checkEmpty()
}

// TestC08_CloseFlag: the ACK flag req=CLOSE makes an initiator finish the message in progress and close; other messages go on a new
// PDC.
func TestC08_CloseFlag(t *testing.T) {
	x := newFar(t, Config{PDCsPerKey: 1, IdleClose: time.Hour, Window: 1}, 1) // a packet at a time: at times all is acknowledged
	asked := false
	x.on = func(p *seen) {
		if p.req != nil && !asked {
			asked = true
			x.ack(p, func(a *wire.AckFields) { a.Req = wire.AckReqClose })
			return
		}
		x.polite(p)
	}
	x.send(x.ep, 0, 20*1024, 1)
	x.send(x.ep, 0, 10, 2)
	x.run(time.Millisecond)
	id := x.seen[0].req.SPDCID()
	mid := x.seen[0].std.MessageID()
	first, closed := 0, false
	for i, p := range x.seen {
		switch {
		case p.ctl != nil:
			closed = true
			if p.ctl.Ctl() != wire.CtlCloseCommand || p.ctl.SPDCID() != id || p.ctl.PSN() != x.seen[0].req.PSN()+20 || first != 20 {
				t.Errorf("packet %d: %v on PDC %x, psn %d, after %d packets", i, p.ctl.Ctl(), p.ctl.SPDCID(), p.ctl.PSN()-x.seen[0].req.PSN(), first)
			}
		case (p.req.SPDCID() == id) != (p.std.MessageID() == mid):
			t.Errorf("packet %d: message %d on PDC %x", i, p.std.MessageID(), p.req.SPDCID())
		case p.req.SPDCID() == id:
			first++
		}
	}
	if !closed || len(x.got) != 2 || x.got[0].Err != nil || x.got[1].Err != nil || x.f.C[PDCClosed] != 1 || x.f.C[PDCsOpen] != 1 {
		t.Errorf("closed %v, completions %+v", closed, x.got)
	}
}

// TestC09_CloseRequestUnanswered: a target whose Close Request is not answered serves requests for Close_REQ_Time, and closes in
// error then; a later request is answered INV_DPDCID.
func TestC09_CloseRequestUnanswered(t *testing.T) {
	s := newStub(t, Config{TargetIdle: 10 * time.Millisecond, CloseReqTime: 5 * time.Millisecond, RTOInit: 10 * time.Millisecond})
	s.open()
	s.recv(2, 10)
	asked := s.now
	s.tap = func(now vt.Time, _ int, _ []byte) { asked = now }
	s.run(s.now + 12_000_000)
	s.expect("1 CLOSE_REQUEST psn 0 AR")
	start := asked
	s.now = start + 4_000_000
	s.request(req{psn: 1, flags: wire.ReqAR, mid: 2, op: wire.OpTaggedSend, tag: 2, total: 10, n: 10})
	s.expect("1 ACK_CC cack 1 off 0 req CLOSE RESPONSE OK 10")
	s.run(start + 4_999_999)
	if s.target() == nil {
		t.Error("gone before Close_REQ_Time")
	}
	s.now = start + 5_000_001
	s.run(s.now)
	if c := &s.feps[1].C; s.target() != nil || c[PDCExpired] != 1 || c[CloseTimeout] != 1 {
		t.Errorf("%+v; %d expired", s.target(), c[PDCExpired])
	}
	s.request(req{psn: 2, mid: 3, op: wire.OpSend, total: 1, n: 1})
	s.expect("1 NACK INV_DPDCID psn 2")
}

// TestC10_RequestAfterClose: a request after the Close Command is answered CLOSING and not delivered.
func TestC10_RequestAfterClose(t *testing.T) {
	s := newStub(t, Config{})
	s.open()
	s.recv(9, 10)
	s.ctrl(wire.CtlCloseCommand, 1, 0)
	s.expect("1 ACK_CC cack 1 off 0 NONE")
	s.header(wire.TypeRUDReq, wire.NextRequestStd, 0, 2, stubPDC, s.peer)
	s.expect("1 NACK CLOSING psn 2")
	s.header(wire.TypeRUDReq, wire.NextRequestStd, wire.ReqSYN, 3, stubPDC, 0)
	s.expect("1 NACK CLOSING psn 3")
	if c := &s.feps[1].C; c[MsgsRx] != 1 || c[PDCOpened] != 1 {
		t.Errorf("%d messages, %d PDCs", c[MsgsRx], c[PDCOpened])
	}
}

// TestC11_UnknownPDC: a request for an unknown PDC without SYN is answered INV_DPDCID; anything else is dropped without a word.
func TestC11_UnknownPDC(t *testing.T) {
	s := newStub(t, Config{})
	s.open()
	peer := s.peer
	s.header(wire.TypeRUDReq, wire.NextRequestStd, wire.ReqAR, 1, stubPDC, peer+1)
	s.expect("1 NACK INV_DPDCID psn 1")
	if n := s.lastNack(); n.SPDCID() != 0 || n.DPDCID() != stubPDC {
		t.Errorf("SPDCID %x, DPDCID %x", n.SPDCID(), n.DPDCID())
	}
	s.header(wire.TypeRODReq, wire.NextRequestStd, 0, 1, stubPDC+1, peer) // somebody else's
	s.expect("1 NACK INV_DPDCID psn 1")
	s.from(2, 10, func(b []byte) []byte {
		return plain(b, wire.RequestFields{Type: wire.TypeRUDReq, Next: wire.NextRequestStd, PSN: s.start, SPDCID: stubPDC, DPDCID: peer}, 9, 9, 10)
	})
	s.expect("1 NACK INV_DPDCID psn 0")
	before := s.feps[1].C[UnknownPDCID]
	for _, typ := range []wire.PDSType{wire.TypeAck, wire.TypeAckCC, wire.TypeAckCCX} {
		s.from(0, 46, func(b []byte) []byte {
			return wire.AppendAck(b, &wire.AckFields{Type: typ, CACK: s.start, SPDCID: stubPDC, DPDCID: peer + 1, MPR: 8})
		})
	}
	for code := range 256 {
		s.from(0, 46, func(b []byte) []byte {
			return wire.AppendNack(b, &wire.NackFields{Type: wire.TypeNack, Code: wire.NackCode(code), PSN: s.start, SPDCID: stubPDC, DPDCID: peer + 1})
		})
	}
	for ctl := range wire.CtlType(9) {
		s.from(0, 46, func(b []byte) []byte {
			return wire.AppendCtrl(b, &wire.CtrlFields{Ctl: ctl, Flags: wire.CtrlAR, PSN: s.start, SPDCID: stubPDC, DPDCID: peer + 1})
		})
	}
	s.expect()
	if n := s.feps[1].C[UnknownPDCID] - before; n != 3+256+9 || s.target() == nil || s.target().State.String() != "established" {
		t.Errorf("%d counted, want %d; %+v", n, 3+256+9, s.target())
	}
}

// TestC12_TargetRestarts: the operations of an initiator whose target has restarted fail once, or complete, and new ones work, within
// the time that a packet is tried, 63 ms, and MessageIdle, 5 s, for reads whose requests the target had acknowledged.
func TestC12_TargetRestarts(t *testing.T) {
	t.Run("read", readOfALostTarget)
	for _, c := range []struct {
		name   string
		after  time.Duration // of the posts until the restart
		outage time.Duration
		most   time.Duration // until the last completion
	}{
		{"opening", 500, 0, 2 * time.Millisecond},
		{"in the middle", 30 * time.Microsecond, 0, 2 * time.Millisecond},
		{"away shortly", 30 * time.Microsecond, 10 * time.Millisecond, 64 * time.Millisecond},
		{"away for long", 30 * time.Microsecond, 100 * time.Millisecond, 64 * time.Millisecond},
	} {
		l := newLab(t, Config{})
		mem := make([]byte, 8<<20)
		key := l.eps[1].Register(mem)
		posted, done := 0, map[uint64]int{}
		post := func(now vt.Time) {
			for i := range 6 {
				b := mem[i<<20 : (i+1)<<20 : (i+1)<<20]
				var err error
				if i%2 == 0 {
					err = l.eps[0].Write(now, 1, make([]byte, len(b)), key, 0, uint64(posted))
				} else {
					err = l.eps[0].Read(now, 1, make([]byte, len(b)), key, 0, uint64(posted))
				}
				if err != nil {
					t.Error(err)
				}
				posted++
			}
		}
		l.call(0, 1, post)
		crash := vt.Time(1).Add(c.after)
		back := crash.Add(c.outage)
		l.nodes[1].Change(crash+1, func(now vt.Time) { l.nodes[1].StartRun(now, 99) })
		l.script = func(int, []byte) fate {
			return fate{drop: c.outage > 0 && max(l.nodes[0].Now(), l.nodes[1].Now()) > crash && l.nodes[0].Now() < back}
		}
		l.run(vt.Time(8 * time.Second))
		var last time.Duration
		failed := 0
		for _, g := range l.got[0] {
			done[g.Ctx]++
			last = max(last, g.Acked.Sub(crash))
			var pe *PDCError
			if g.Err != nil {
				failed++
				if !errors.As(g.Err, &pe) && !errors.Is(g.Err, ErrNoData) || pe != nil && pe.Code != 0 && pe.Code != wire.NackInvDPDCID {
					t.Errorf("%s: operation %d: %v", c.name, g.Ctx, g.Err)
				}
			}
		}
		t.Logf("%s: %d of %d operations failed, the last completion %v after the restart", c.name, failed, posted, last)
		for i := range posted {
			if done[uint64(i)] != 1 {
				t.Errorf("%s: operation %d has %d completions", c.name, i, done[uint64(i)])
			}
		}
		if last > c.most {
			t.Errorf("%s: the last completion is %v after the restart, want %v", c.name, last, c.most)
		}
		l.script = nil
		l.exchange(50_000) // new ones work at once
		if d := l.got[0][0].Acked.Sub(l.got[0][0].Posted); d > time.Millisecond {
			t.Errorf("%s: a new operation took %v", c.name, d)
		}
		l.run(vt.Time(100 * time.Second))
		l.leaks()
		for i, f := range l.feps {
			if r := f.m.Residue(); r != "" || f.rx.n != 0 || len(f.reads) != 0 {
				t.Errorf("%s: left at node %d: %s, %d messages, %d reads", c.name, i, r, f.rx.n, len(f.reads))
			}
		}
	}
}

// readOfALostTarget: a read whose requests were all acknowledged fails once its target has restarted, although nothing is
// left to be repeated.
func readOfALostTarget(t *testing.T) {
	x := newFar(t, Config{}, 1)
	x.on = x.polite // acknowledges, and forgets
	x.call(func(now vt.Time) { _ = x.ep.Read(now, 0, make([]byte, 5000), 1, 0, 5) })
	x.run(4900 * time.Millisecond)
	if len(x.got) != 0 {
		t.Fatalf("completions %+v", x.got)
	}
	x.run(200 * time.Millisecond)
	if len(x.got) != 1 || !errors.Is(x.got[0].Err, ErrNoData) {
		t.Fatalf("completions %+v", x.got)
	}
	x.run(10 * time.Second)
	if r := x.f.m.Residue(); r != "" || len(x.got) != 1 {
		t.Errorf("left: %s; completions %+v", r, x.got)
	}
}

// TestC13_ModeMismatch: a packet of the other mode on a PDC is answered PDC_MODE_MISMATCH and not delivered.
func TestC13_ModeMismatch(t *testing.T) {
	for _, typ := range []wire.PDSType{wire.TypeRUDReq, wire.TypeRODReq} {
		s := newStub(t, Config{})
		other := wire.TypeRUDReq + wire.TypeRODReq - typ
		s.recv(9, 10)
		s.header(typ, wire.NextRequestStd, wire.ReqSYN, 0, stubPDC, 0)
		s.got = nil
		s.recv(9, 10)
		s.header(other, wire.NextRequestStd, wire.ReqAR, 1, stubPDC, s.peer)
		s.expect("1 NACK PDC_MODE_MISMATCH psn 1")
		s.header(other, wire.NextRequestStd, wire.ReqSYN, 1, stubPDC, 0)
		s.expect("1 NACK PDC_MODE_MISMATCH psn 1")
		if c := &s.feps[1].C; c[MsgsRx] != 1 || c[PDCOpened] != 1 || s.target().Rx.Max != s.start {
			t.Errorf("%v: %d messages, %d PDCs, highest PSN %d", typ, c[MsgsRx], c[PDCOpened], s.target().Rx.Max-s.start)
		}
	}
}

// TestC14_HeaderMismatch: a response header in a forward request is answered PDC_HDR_MISMATCH; with SYN it opens nothing.
func TestC14_HeaderMismatch(t *testing.T) {
	s := newStub(t, Config{})
	for _, h := range []wire.NextHdr{wire.NextResponseData, wire.NextResponseDataSmall, wire.NextResponse} {
		s.header(wire.TypeRUDReq, h, wire.ReqSYN, 0, stubPDC, 0)
		s.expect("1 NACK PDC_HDR_MISMATCH psn 0")
	}
	if n := s.feps[1].C[PDCOpened]; n != 0 {
		t.Errorf("%d PDCs", n)
	}
	s.open()
	for _, h := range []wire.NextHdr{wire.NextResponseData, wire.NextResponseDataSmall, wire.NextResponse} {
		s.header(wire.TypeRUDReq, h, wire.ReqAR, 1, stubPDC, s.peer)
		s.expect("1 NACK PDC_HDR_MISMATCH psn 1")
	}
}

// TestC15_EachFailsOnce: an error of a PDC fails each outstanding operation exactly once: sent, waiting, read, and half done.
func TestC15_EachFailsOnce(t *testing.T) {
	t.Run("half done", halfDone)
	for _, code := range []wire.NackCode{0, wire.NackInvDPDCID, wire.NackUnexpEvent} {
		x := newFar(t, Config{PDCsPerKey: 1}, 1)
		dead := false
		x.on = func(p *seen) {
			switch {
			case p.req == nil || dead && code == 0:
			case dead:
				x.nack(p, code, farPDC, 0)
			case len(x.seen) < 4: // the first message is half acknowledged
				x.ack(p, nil)
			}
		}
		x.call(func(now vt.Time) {
			for i := range uint64(12) {
				var err error
				if i%3 == 1 {
					err = x.ep.Read(now, 0, make([]byte, 5000), 1, 0, i)
				} else {
					err = x.ep.Write(now, 0, make([]byte, 10_000), 1, 0, i)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
		x.run(100 * time.Microsecond)
		dead = true
		x.run(time.Minute)
		done := map[uint64]int{}
		for _, c := range x.got {
			var pe *PDCError
			if !errors.As(c.Err, &pe) || pe.Code != code {
				t.Errorf("operation %d: %v, want %v", c.Ctx, c.Err, code)
			}
			done[c.Ctx]++
		}
		if len(done) != 12 || len(x.got) != 12 || x.f.C[PDCFailed] != 1 || x.f.m.Residue() != "" || x.f.mids.n != 0 {
			t.Errorf("%v: %d operations, %d completions, %d PDCs failed, left %q", code, len(done), len(x.got), x.f.C[PDCFailed], x.f.m.Residue())
		}
	}
}

// halfDone makes a PDC fail on which a read waits for its data, one packet is lost again and again, and a long message is stuck
// with all that it has sent acknowledged.
func halfDone(t *testing.T) {
	x := newFar(t, Config{PDCsPerKey: 1, MPR: 1}, 1)
	lost := wire.PSN(0)
	x.on = func(p *seen) {
		switch start := x.seen[0].req.PSN(); {
		case p.req == nil:
		case p.req.PSN() == start:
			x.ack(p, func(a *wire.AckFields) { a.MPR = 1 })
		case p.req.PSN() == start+1:
			lost = start + 1
		default:
			x.ack(p, func(a *wire.AckFields) { a.CACK, a.AckOffset, a.MPR = start, int16(p.req.PSN()-start), 1 })
		}
	}
	x.call(func(now vt.Time) {
		_ = x.ep.Read(now, 0, make([]byte, 1000), 1, 0, 0)
		_ = x.ep.Write(now, 0, make([]byte, 1000), 1, 0, 1)
		_ = x.ep.Write(now, 0, make([]byte, 1<<20), 1, 0, 2)
		_ = x.ep.Write(now, 0, make([]byte, 1000), 1, 0, 3)
	})
	x.run(500 * time.Microsecond)
	if p := x.f.PDCs(nil)[0]; len(x.got) != 0 || p.Locks != 1 || p.Tx.Next-lost != 128 || p.Messages != 2 {
		t.Fatalf("not what the test wants: %+v, completions %v", p, x.got)
	}
	x.run(time.Minute)
	done := map[uint64]int{}
	for _, c := range x.got {
		var pe *PDCError
		if !errors.As(c.Err, &pe) || pe.Code != 0 {
			t.Errorf("operation %d: %v", c.Ctx, c.Err)
		}
		done[c.Ctx]++
	}
	if len(done) != 4 || len(x.got) != 4 || x.f.m.Residue() != "" {
		t.Errorf("%d operations, %d completions, left %q", len(done), len(x.got), x.f.m.Residue())
	}
}

// TestC16_OtherPDCsLive: the error of a PDC leaves the others alive, to another peer and to the same one.
func TestC16_OtherPDCsLive(t *testing.T) {
	x := newFar(t, Config{}, 2)
	bad := uint16(0)
	x.on = func(p *seen) {
		if p.dst == farAddr(0) || p.req != nil && p.req.SPDCID() != bad {
			x.polite(p)
		}
	}
	x.ep.SetTC(1)
	x.send(x.ep, 1, 10, 100)
	x.run(time.Microsecond * 10)
	x.ep.SetTC(0)
	x.send(x.ep, 0, 10, 101)
	x.run(time.Microsecond * 10)
	alive := x.f.PDCs(nil)
	x.doom(&bad, 1)
	for i := range uint64(100) { // all the while
		x.send(x.ep, 0, 3000, 200+i)
		x.run(time.Millisecond)
	}
	x.ep.SetTC(1)
	x.send(x.ep, 1, 10, 300)
	x.run(time.Millisecond)
	ok, failed := 0, 0
	for _, c := range x.got {
		switch {
		case c.Err == nil:
			ok++
		case c.Ctx == 7:
			failed++
		default:
			t.Errorf("operation %d: %v", c.Ctx, c.Err)
		}
	}
	if ok != 103 || failed != 1 || x.f.C[PDCFailed] != 1 || x.f.C[PDCOpened] != 3 {
		t.Errorf("%d operations, %d failed; %d PDCs failed, %d opened", ok, failed, x.f.C[PDCFailed], x.f.C[PDCOpened])
	}
	for i, p := range x.f.PDCs(nil) {
		if p.ID != alive[i].ID || p.State.String() != "established" {
			t.Errorf("PDC %x is %v", p.ID, p.State)
		}
	}
}

// doom sends message 7 to a peer on a new PDC, and names that before anything is answered.
func (x *far) doom(id *uint16, dst int) {
	polite := x.on
	x.on = func(p *seen) {
		if *id == 0 && p.req != nil {
			*id = p.req.SPDCID()
		}
		polite(p)
	}
	x.ep.SetTC(0)
	x.send(x.ep, dst, 5000, 7)
	x.run(time.Microsecond)
	x.on = polite
}
