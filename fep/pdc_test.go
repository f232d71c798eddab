package fep

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// sendAll posts n matching messages of size bytes at once.
func (l *lab) sendAll(n, size int) {
	now := max(l.nodes[0].Now(), l.nodes[1].Now()) + 1
	l.call(1, now, func(now vt.Time) {
		for i := range n {
			if err := l.eps[1].TagRecv(now, 0, make([]byte, size), uint64(i), uint64(i)); err != nil {
				l.t.Error(err)
			}
		}
	})
	l.call(0, now+1, func(now vt.Time) {
		for i := range n {
			if err := l.eps[0].TagSend(now, 1, make([]byte, size), uint64(i), uint64(i)); err != nil {
				l.t.Error(err)
			}
		}
	})
}

// TestMapping: all packets of a message are on one PDC, messages do not interleave on it, and there are as many PDCs as
// allowed.
func TestMapping(t *testing.T) {
	l := newLab(t, Config{})
	pdcOf := map[uint16]uint16{}
	inTurn := map[uint16]uint16{} // message in progress on a PDC
	ended := map[uint16]bool{}
	l.tap = func(_ vt.Time, from int, b []byte) {
		u := firstUET(b)
		r, err := wire.ParseRequest(u)
		if err != nil || from != 0 {
			return
		}
		s, _ := wire.ParseSESStd(u[len(r):])
		mid, id := s.MessageID(), r.SPDCID()
		if p, ok := pdcOf[mid]; ok && p != id || mid == 0 {
			t.Fatalf("message %d on PDCs %x and %x", mid, p, id)
		}
		if m := inTurn[id]; m != 0 && m != mid && !ended[m] {
			t.Fatalf("message %d begins before %d ended", mid, m)
		}
		pdcOf[mid], inTurn[id] = id, mid
		ended[mid] = ended[mid] || s.Head().EOM()
	}
	l.sendAll(9, 50_000)
	l.run(500_000)
	if len(l.got[0]) != 9 || len(inTurn) != 4 || len(pdcOf) != 9 {
		t.Errorf("%d completions, %d PDCs, %d messages", len(l.got[0]), len(inTurn), len(pdcOf))
	}
	// The next message finds an idle PDC and opens none.
	l.exchange(100)
	if l.feps[0].C[PDCOpened] != 4 {
		t.Errorf("opened %d PDCs", l.feps[0].C[PDCOpened])
	}
}

// TestPoolEmpty: with one PDC only, messages to two jobs take turns: the idle PDC is closed to make room.
func TestPoolEmpty(t *testing.T) {
	l := newLab(t, Config{MaxPDCs: 1})
	for i, f := range l.feps {
		ep := f.OpenEndpoint(9, uint16(i), uint32(100+i), func(_ vt.Time, c Completion) { l.got[i] = append(l.got[i], c) })
		for j := range l.eps {
			ep.InsertAddr(testAddr(j), uint16(j), uint32(100+j))
		}
		if i == 0 {
			l.call(0, 5, func(now vt.Time) { _ = ep.TagSend(now, 1, make([]byte, 5000), 1, 77) })
		} else {
			l.call(1, 1, func(now vt.Time) { _ = ep.TagRecv(now, -1, make([]byte, 5000), 1, 77) })
		}
	}
	l.sendAll(3, 5000)
	l.run(vt.Time(10 * time.Second))
	if len(l.got[0]) != 4 || len(l.got[1]) != 4 || l.count(MsgsErr) != 0 {
		t.Errorf("completions %+v, %+v", l.got[0], l.got[1])
	}
	l.checkEmpty()
}

// TestCloseAsked: a target asks for the end of the PDC by a flag or by a Close Request.
func TestCloseAsked(t *testing.T) {
	l := newLab(t, Config{})
	l.exchange(10)
	got := l.trace()
	p := l.source()
	g := l.nodes[0].Pool.Get()
	ff := wire.FrameFields{DstMAC: testMAC(0), SrcMAC: testMAC(1), Src: testAddr(1), Dst: testAddr(0), EV: 9}
	g.B = wire.AppendUETCRC(wire.AppendCtrl(wire.AppendUDPFrame(g.B, &ff), &wire.CtrlFields{Ctl: wire.CtlCloseRequest,
		Flags: wire.CtrlAR, PSN: p.Start, SPDCID: p.PeerID, DPDCID: p.ID}))
	g.Due = l.nodes[0].Now() + 1
	l.deliver(0, g)
	l.run(g.Due + 100_000)
	if n := len(*got); n != 3 || !strings.HasPrefix((*got)[0], "0 ACK_CC") || !strings.HasPrefix((*got)[1], "0 CLOSE_COMMAND") {
		t.Errorf("packets %q", *got)
	}
	if l.feps[0].C[PDCClosed] != 1 || l.role(0, true) != nil {
		t.Error("the PDC is still there")
	}
}

// TestSilence: a target gives up a message and a PDC whose initiator has gone without a word.
func TestSilence(t *testing.T) {
	s := newStub(t, Config{})
	s.open()
	s.recv(2, 10_000)
	s.request(req{psn: 1, mid: 2, op: wire.OpTaggedSend, tag: 2, total: 10_000, n: 4096})
	s.run(vt.Time(4 * time.Second))
	if len(s.lab.got[1]) != 1 {
		t.Fatalf("completions %+v", s.lab.got[1])
	}
	s.now = vt.Time(4 * time.Second)
	s.request(req{psn: 2, mid: 2, op: wire.OpTaggedSend, tag: 2, off: 4096, total: 10_000, n: 4096})
	s.run(vt.Time(8 * time.Second))
	if len(s.lab.got[1]) != 1 {
		t.Fatalf("completions %+v", s.lab.got[1])
	}
	s.run(vt.Time(11 * time.Second))
	if g := s.lab.got[1]; len(g) != 2 || !errors.Is(g[1].Err, ErrAborted) {
		t.Errorf("after MessageIdle: %+v", g)
	}
	s.run(vt.Time(2 * time.Minute))
	if len(s.feps[1].PDCs(nil)) != 0 || s.feps[1].C[PDCExpired] != 1 {
		t.Errorf("after TargetIdle: %+v", s.feps[1].PDCs(nil))
	}
	s.leaks()
}

// TestTargetRestarts: an initiator whose target has forgotten everything fails once, and a new PDC works.
func TestTargetRestarts(t *testing.T) {
	l := newLab(t, Config{})
	l.exchange(10)
	start := max(l.nodes[0].Now(), l.nodes[1].Now()) + 1
	l.nodes[1].Change(start, func(now vt.Time) { l.nodes[1].StartRun(now, 1) })
	l.run(start)
	l.got = [2][]Completion{}
	l.call(0, start+1, func(now vt.Time) { _ = l.eps[0].TagSend(now, 1, make([]byte, 9000), 1, 1) })
	l.run(start + 100_000)
	var pe *PDCError
	if g := l.got[0]; len(g) != 1 || !errors.As(g[0].Err, &pe) || pe.Code != wire.NackInvDPDCID {
		t.Errorf("completions %+v", g)
	}
	l.exchange(9000)
}

// TestClosingMidway: NACK CLOSING fails a message of which the target has a part; it must not be sent twice.
func TestClosingMidway(t *testing.T) {
	l := newLab(t, Config{NoInfer: true})
	l.exchange(10)
	p := l.source()
	nacked := false
	l.script = func(from int, b []byte) (f fate) {
		r, err := wire.ParseRequest(firstUET(b))
		if err != nil || nacked || r.PSN() != p.Start+3 {
			return f
		}
		nacked = true
		g := l.nodes[0].Pool.Get()
		ff := wire.FrameFields{DstMAC: testMAC(0), SrcMAC: testMAC(1), Src: testAddr(1), Dst: testAddr(0), EV: 9}
		g.B = wire.AppendUETCRC(wire.AppendNack(wire.AppendUDPFrame(g.B, &ff), &wire.NackFields{Type: wire.TypeNack,
			Code: wire.NackClosing, PSN: r.PSN(), SPDCID: p.PeerID, DPDCID: p.ID}))
		g.Due = l.nodes[0].Now() + 500_000
		l.deliver(0, g)
		return fate{drop: true}
	}
	l.got = [2][]Completion{}
	now := l.nodes[0].Now() + 1000
	l.call(1, now, func(now vt.Time) { _ = l.eps[1].TagRecv(now, -1, make([]byte, 12288), 1, 1) })
	l.call(0, now, func(now vt.Time) { _ = l.eps[0].TagSend(now, 1, make([]byte, 12288), 1, 1) })
	l.run(now + 800_000)
	var pe *PDCError
	if g := l.got[0]; len(g) != 1 || !errors.As(g[0].Err, &pe) || pe.Code != wire.NackClosing || l.count(PDCOpened) != 2 {
		t.Errorf("completions %+v, %d PDCs", g, l.count(PDCOpened))
	}
	l.run(vt.Time(10 * time.Second))
	if g := l.got[1]; len(g) != 1 || !errors.Is(g[0].Err, ErrAborted) {
		t.Errorf("at the target: %+v", g)
	}
	l.leaks()
}

// TestLinkDown: whether packets were under way or not, a dead link ends in errors, not in silence.
func TestLinkDown(t *testing.T) {
	for _, before := range []bool{true, false} {
		l := newLab(t, Config{})
		down := func(now vt.Time) { l.nodes[0].Ports[0].SetImpair(now, link.Impair{Down: true}) }
		if before {
			l.nodes[0].Change(1, down)
		} else {
			l.nodes[0].Change(3_000, down)
		}
		l.sendAll(9, 100_000)
		l.run(vt.Time(10 * time.Second))
		if len(l.got[0]) != 9 {
			t.Fatalf("%d completions", len(l.got[0]))
		}
		for _, c := range l.got[0] {
			if d := c.Acked - c.Posted; c.Err == nil || d < 62e6 || d > 70e6 {
				t.Errorf("down before: %v: %v after %v", before, c.Err, d)
			}
		}
		l.leaks()
	}
}

// TestAckRequest: a packet that arrived, but whose ACKs were lost, is asked for and not sent again.
func TestAckRequest(t *testing.T) {
	l := newLab(t, Config{PDCsPerKey: 1, ClearTime: time.Second})
	l.exchange(10)
	got := l.trace()
	// The error response for the first packet is lost; later ACKs show in their bitmaps that it arrived.
	l.script = nth(0, fate{drop: true}, acks)
	l.call(1, l.nodes[1].Now()+1, func(now vt.Time) { _ = l.eps[1].TagRecv(now, -1, make([]byte, 10), 1, 1) })
	l.call(0, l.nodes[1].Now()+2, func(now vt.Time) {
		_ = l.eps[0].TagSend(now, 1, make([]byte, 10), 0, 0)
		_ = l.eps[0].TagSend(now, 1, make([]byte, 10), 1, 1)
	})
	l.got = [2][]Completion{}
	l.run(vt.Time(1_900_000_000))
	wantLines(t, *got, []string{
		"0 RUD_REQ psn 0 clr -1 AR",
		"0 RUD_REQ psn 1 clr -2 AR",
		"1 ACK_CC cack -1 off 1 req CLEAR RESPONSE NO_MATCH 0",
		"1 ACK_CC cack -1 off 2 RESPONSE OK 10",
		"0 ACK_REQUEST psn 0 AR",
		"1 ACK_CC cack -1 off 1 req CLEAR RESPONSE NO_MATCH 0",
		"0 CLEAR_COMMAND clear 1",
	})
	l.want(0, Completion{Kind: OpTagSend, Ctx: 1, Len: 10}, Completion{Kind: OpTagSend, Ctx: 0, Len: 10, Err: &ResponseError{}})
}
