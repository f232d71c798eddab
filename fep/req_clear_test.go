package fep

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

const noMatch = " req CLEAR RESPONSE NO_MATCH 0"

// Requirement E01: an error response is kept until it is cleared, and repeated byte by byte.
func TestE01_Replay(t *testing.T) {
	s, _ := store(t, Config{})
	s.bad(1, 0)
	s.expect("1 ACK_CC cack 0 off 1" + noMatch)
	first := s.raw[len(s.raw)-1]
	for range 3 {
		s.bad(1, wire.ReqRETX)
		s.expect("1 ACK_CC cack 0 off 1 req CLEAR RETX RESPONSE NO_MATCH 0")
		again := s.raw[len(s.raw)-1]
		n := wire.TypeAckCC.HeaderLen()
		if x, y := firstUET(first)[n:], firstUET(again)[n:]; !bytes.Equal(x, y) {
			t.Errorf("% x, want % x", y, x)
		}
	}
	if c := s.feps[1].C; c[GtdInUse] != 1 || c[RespErrTx] != 1 {
		t.Errorf("%d kept, SES answered %d times", c[GtdInUse], c[RespErrTx])
	}
	s.ctrl(wire.CtlClearCommand, 0, uint32(s.start)+1)
	s.bad(1, wire.ReqRETX)
	s.expect("1 ACK_CC cack 1 off 0 RETX DEFAULT_RESPONSE OK 0")
	if g := s.feps[1].C[GtdInUse]; g != 0 {
		t.Errorf("%d kept after CLEAR", g)
	}
}

// sendBad posts n sends that nobody has a receive for.
func (l *lab) sendBad(n int) {
	l.call(0, l.now()+1, func(now vt.Time) {
		for i := range n {
			if err := l.eps[0].Send(now, 1, nil, 1000+uint64(i)); err != nil {
				l.t.Error(err)
			}
		}
	})
}

// Requirement E02: ACKs of responses that must not be lost have REQ_CLEAR, others do not.
func TestE02_ReqClear(t *testing.T) {
	l := newLab(t, Config{})
	seen := map[bool]int{}
	l.tap = func(_ vt.Time, from int, b []byte) {
		u := firstUET(b)
		a, err := wire.ParseAck(u)
		if err != nil {
			return
		}
		h := wire.RespHead(u[len(a):])
		gtd := h.ReturnCode() > wire.RCOK || h.Opcode() == wire.RespWithData
		if seen[gtd]++; (a.Req() == wire.AckReqClear) != gtd || a.Req() == wire.AckReqClose {
			t.Errorf("%s", line(from, b, 0))
		}
	}
	l.writeOne(1, 20*4096)
	l.sendBad(3)
	l.call(0, 30_000, func(now vt.Time) { _ = l.eps[0].Read(now, 1, make([]byte, 8), 1, 0, 5) })
	l.after(100_000)
	if seen[true] != 4 || seen[false] < 3 || len(l.got[0]) != 5 {
		t.Errorf("%v, %d completions", seen, len(l.got[0]))
	}
}

// Requirement E03: when nothing else is to be sent, a Clear Command goes out at once: its payload is CLEAR_PSN, it has no PSN and no
// AR, and nobody answers.
func TestE03_Command(t *testing.T) {
	l := newLab(t, Config{})
	l.exchange(10)
	got := l.trace()
	trace, n := l.tap, 0
	l.tap = func(now vt.Time, from int, b []byte) {
		trace(now, from, b)
		if c, err := wire.ParseCtrl(firstUET(b)); err == nil {
			if n++; c.PSN() != 0 || c.AR() || c.RETX() {
				t.Errorf("PSN %d, AR %v, retx %v", c.PSN(), c.AR(), c.RETX())
			}
		}
	}
	l.sendBad(1)
	l.after(100_000_000)
	wantLines(t, *got, []string{"0 RUD_REQ psn 0 clr -1 AR", "1 ACK_CC cack -1 off 1" + noMatch, "0 CLEAR_COMMAND clear 0"})
	if n != 1 || l.count(GtdInUse) != 0 {
		t.Errorf("%d Clear Commands, %d kept", n, l.count(GtdInUse))
	}
}

// Requirement E04: no Clear Command is sent while a request follows: that carries CLEAR.
func TestE04_Piggyback(t *testing.T) {
	l := newLab(t, Config{PDCsPerKey: 1})
	l.exchange(10)
	got := l.trace()
	l.sendBad(1)
	same := l.writeOne(1, 40*4096)
	l.after(50_000)
	carried := false
	for i, s := range *got {
		if strings.Contains(s, "CLEAR_COMMAND") {
			t.Errorf("packet %d: %s", i, s)
		}
		carried = carried || strings.HasPrefix(s, "0 RUD_REQ psn 35 clr -") && s != "0 RUD_REQ psn 35 clr -36"
	}
	if !carried || l.count(GtdInUse) != 0 || !same() {
		t.Errorf("%d kept: %q", l.count(GtdInUse), *got)
	}
}

// clearOracle follows what a source may know: which of its PSNs the ACKs on their way to it complete.
type clearOracle struct {
	start, clear wire.PSN
	got          map[wire.PSN]bool
	cack         wire.PSN
	checked      int
}

// Requirement E05: CLEAR never goes back, and never above the lowest PSN that is not complete, in both directions, whatever is lost,
// doubled or overtaken.
func TestE05_Monotonic(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	l := newLab(t, Config{})
	type key struct {
		from int
		id   uint16
	}
	all := map[key]*clearOracle{}
	check := func(k key, clear wire.PSN, s string) {
		o := all[k]
		low := o.clear
		for o.got[low+1] || !o.cack.Before(low+1) {
			low++
		}
		if clear.Before(o.clear) || clear.After(low) {
			t.Fatalf("seed %d: %s: CLEAR %d, want %d to %d", seed, s, clear.Diff(o.start), o.clear.Diff(o.start), low.Diff(o.start))
		}
		o.clear = clear
		o.checked++
	}
	l.script = func(from int, b []byte) fate {
		f := fate{drop: r.Float64() < 0.05, delay: time.Duration(r.IntN(2000))}
		if r.Float64() < 0.05 {
			f.dup = 1
		}
		u := firstUET(b)
		if q, err := wire.ParseRequest(u); err == nil {
			k := key{from, q.SPDCID()}
			if all[k] == nil {
				start := q.PSN()
				if q.SYN() {
					start = q.StartPSN()
				} else if q.ClearPSN() != q.PSN()-1 {
					start = q.ClearPSN() + 1 // the first that we see of a return direction need not be its lowest
				}
				all[k] = &clearOracle{start: start, clear: start - 1, cack: start - 1, got: map[wire.PSN]bool{}}
			}
			check(k, q.ClearPSN(), line(from, b, all[k].start))
		}
		if c, err := wire.ParseCtrl(u); err == nil && c.Ctl() == wire.CtlClearCommand {
			k := key{from, c.SPDCID()}
			check(k, wire.PSN(c.Payload()), line(from, b, all[k].start))
		}
		if a, err := wire.ParseAck(u); err == nil && !f.drop {
			if o := all[key{1 - from, a.DPDCID()}]; o != nil {
				if a.CACK().After(o.cack) {
					o.cack = a.CACK()
				}
				if !a.P() {
					o.got[a.AckPSN()] = true
				}
			}
		}
		return f
	}
	key1 := l.eps[1].Register(make([]byte, 1<<20))
	l.call(0, 1, func(now vt.Time) {
		for i := range uint64(60) {
			switch i % 3 {
			case 0:
				_ = l.eps[0].Write(now, 1, make([]byte, 50_000), key1, 0, i)
			case 1:
				_ = l.eps[0].Send(now, 1, nil, i)
			case 2:
				_ = l.eps[0].Read(now, 1, make([]byte, 20_000), key1, 0, i)
			}
		}
	})
	l.after(vt.Time(10 * time.Second)) // a Clear Command that is lost late is made good by the Close Command
	n := 0
	for _, o := range all {
		n += o.checked
	}
	if len(l.got[0]) != 60 || len(all) < 5 || n < 500 || l.count(GtdInUse) != 0 {
		t.Errorf("seed %d: %d completions, %d directions, %d values, %d kept", seed, len(l.got[0]), len(all), n, l.count(GtdInUse))
	}
}

// Requirement E06: a Clear Request is answered with CLEAR, even if that has not moved.
func TestE06_Request(t *testing.T) {
	e := newFarEnd(t, Config{NoInfer: true})
	e.write(0, 10, 10)
	e.ack(farAck{cack: -1, named: 0, req: wire.AckReqClear, rc: wire.RCNoMatch, mid: 1})
	e.got = nil
	for range 2 {
		e.ctrl(wire.CtlClearRequest, 0, 0)
		e.expect("0 CLEAR_COMMAND clear 0")
	}
	e.ack(farAck{cack: 0, named: 1})
	e.ctrl(wire.CtlClearRequest, 0, 1)
	e.expect("0 CLEAR_COMMAND clear 1")
}

// Requirement E06: if it asks for more than has come, the rest is told by a Clear Command as soon as what is missing has come, though
// that itself needs no clearing.
func TestE06_RequestForMore(t *testing.T) {
	s := newPeerStub(t, Config{PDCsPerKey: 1, NoInfer: true})
	s.post(func(now vt.Time) error { return s.eps[0].TagSend(now, 1, make([]byte, 10), 1, 1) })
	s.ack(0, 0)
	s.post(func(now vt.Time) error { return s.eps[0].TagSend(now, 1, make([]byte, 3*4096), 1, 2) })
	s.ackWith(wire.AckFields{AckOffset: 3, Req: wire.AckReqClear}, 0, nil)
	s.ack(0, 2)
	s.got = nil
	for _, want := range []int32{3, 2} {
		s.ctrl(wire.CtlClearRequest, 0, want)
		s.expect("0 CLEAR_COMMAND clear 0")
	}
	s.ack(0, 1)
	s.expect("0 CLEAR_COMMAND clear 3")
}

// Requirement E07: a lost Clear Command is made good by the next request, or by a Clear Request.
func TestE07_LostCommand(t *testing.T) {
	clears := func(_ int, u []byte) bool {
		c, err := wire.ParseCtrl(u)
		return err == nil && c.Ctl() == wire.CtlClearCommand
	}
	for _, busy := range []bool{false, true} {
		l := newLab(t, Config{})
		l.exchange(10)
		got := l.trace()
		l.script = nth(0, fate{drop: true}, clears)
		l.sendBad(1)
		l.after(500_000)
		want := []string{"0 RUD_REQ psn 0 clr -1 AR", "1 ACK_CC cack -1 off 1" + noMatch, "0 CLEAR_COMMAND clear 0"}
		if l.count(GtdInUse) != 1 {
			t.Fatalf("%d kept", l.count(GtdInUse))
		}
		if busy {
			l.writeOne(1, 10)
			want = append(want, "0 RUD_REQ psn 1 clr -1 AR", "1 ACK_CC cack 1 off 0 RESPONSE OK 10")
		} else {
			want = append(want, "1 CLEAR_REQUEST psn 0", "0 CLEAR_COMMAND clear 0")
		}
		l.after(100_000_000)
		for i, s := range *got {
			if strings.HasPrefix(s, "1 CLEAR_REQUEST") {
				(*got)[i] = "1 CLEAR_REQUEST psn 0" // it has none
			}
		}
		wantLines(t, *got, want)
		if l.count(GtdInUse) != 0 {
			t.Errorf("busy %v: %d kept", busy, l.count(GtdInUse))
		}
	}
}

// Requirement E08: a packet that might need a place for its response when there is none is refused with NO_GTD_DEL_AVAIL and not
// delivered.
func TestE08_NoSlot(t *testing.T) {
	s, mem := store(t, Config{GtdSlots: 1})
	s.bad(1, 0)
	s.bad(2, 0)
	mem[5] = 77
	s.put(3, 0, 10)
	s.expect("1 ACK_CC cack 0 off 1"+noMatch, "1 NACK NO_GTD_DEL_AVAIL psn 2", "1 NACK NO_GTD_DEL_AVAIL psn 3")
	if c := s.feps[1].C; c[RespErrTx] != 1 || c[DataRx] != 2 || mem[5] != 77 {
		t.Errorf("%d errors, %d packets", c[RespErrTx], c[DataRx])
	}
	s.ctrl(wire.CtlClearCommand, 0, uint32(s.start)+1)
	s.bad(2, wire.ReqRETX)
	s.expect("1 ACK_CC cack 1 off 1 req CLEAR RETX RESPONSE NO_MATCH 0")

	l := newLab(t, Config{GtdSlots: 1, PDCsPerKey: 1}) // a source waits, and loses nothing
	l.exchange(10)
	l.sendBad(2)
	l.after(100_000_000)
	if len(l.got[0]) != 3 || l.count(RespErrTx) != 2 || l.count(NackTxRes) == 0 || l.count(GtdInUse) != 0 {
		t.Errorf("%d completions, %d errors, %d NACKs", len(l.got[0]), l.count(RespErrTx), l.count(NackTxRes))
	}
}

// Requirement E09: a duplicate whose response was not kept is answered with DEFAULT_RESPONSE.
func TestE09_Default(t *testing.T) {
	s, _ := store(t, Config{})
	s.put(1, wire.ReqAR, 10)
	s.put(1, wire.ReqAR|wire.ReqRETX, 10)
	s.expect("1 ACK_CC cack 1 off 0 RESPONSE OK 10", "1 ACK_CC cack 1 off 0 RETX DEFAULT_RESPONSE OK 0")
}

// Requirement E10: a request that is sent again carries the CLEAR of that time.
func TestE10_Retransmitted(t *testing.T) {
	e := newFarEnd(t, Config{NoInfer: true})
	e.write(0, 10, 10, 10)
	e.expect("0 RUD_REQ psn 0 clr -1 SYN off 0 AR", "0 RUD_REQ psn 1 clr -2 SYN off 1 AR", "0 RUD_REQ psn 2 clr -3 SYN off 2 AR")
	e.ack(farAck{cack: 0, named: 0})
	e.pass(1_100_000)
	e.expect("0 RUD_REQ psn 1 clr -1 AR RETX", "0 RUD_REQ psn 2 clr -2 AR RETX")
}

// Requirement E11: the CLEAR of a request counts even if that is answered by a NACK.
func TestE11_Refused(t *testing.T) {
	s, _ := store(t, Config{})
	s.bad(1, 0)
	s.request(req{psn: 5000, clear: -4999, mid: 9, op: wire.OpWrite, tag: 1, total: 10, n: 10})
	s.expect("1 ACK_CC cack 0 off 1"+noMatch, "1 NACK PSN_OOR_WINDOW psn 5000")
	if g := s.feps[1].C[GtdInUse]; g != 0 {
		t.Errorf("%d kept", g)
	}
}

// Requirement E12: a window that an uncleared response holds shut is opened by a Clear Command, by either side.
func TestE12_Pinned(t *testing.T) {
	s, _ := store(t, Config{MPR: 1})
	s.bad(1, 0)
	for i := range int32(127) {
		s.put(2+i, 0, 10)
	}
	s.got = nil
	s.put(129, wire.ReqAR, 10)
	s.expect("1 NACK PSN_OOR_WINDOW psn 129")
	s.ctrl(wire.CtlClearCommand, 0, uint32(s.start)+1)
	s.put(129, wire.ReqAR, 10)
	s.expect("1 ACK_CC cack 129 off 0 RESPONSE OK 10")

	e := newFarEnd(t, Config{Window: 1 << 30, NoInfer: true, RTOInit: time.Second})
	e.write(0, 10)
	e.ack(farAck{cack: 0, mpr: 1})
	e.sendBad(1)
	e.write(1, 300*4096)
	e.pass(50_000)
	for i := range int32(127) {
		e.ack(farAck{cack: 0, named: i + 2, mpr: 1})
	}
	if n := e.fresh(); n != 129 {
		t.Fatalf("%d packets, want 129", n)
	}
	e.ack(farAck{cack: 0, named: 1, mpr: 1, req: wire.AckReqClear, rc: wire.RCNoMatch, mid: 2})
	if len(e.got) == 0 || e.got[0] != "0 CLEAR_COMMAND clear 128" {
		t.Errorf("%q", e.got)
	}
	e.got = nil
	e.ack(farAck{cack: 128, named: 128, mpr: 1})
	e.pass(50_000)
	if n := e.fresh(); n != 128 {
		t.Errorf("%d packets more, want 128", n)
	}
}
