package fep

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// nth returns a script that applies ft to the n-th packet (from 0) that pick chooses.
func nth(n int, ft fate, pick func(from int, u []byte) bool) func(int, []byte) fate {
	return func(from int, b []byte) fate {
		if pick(from, firstUET(b)) {
			if n--; n == -1 {
				return ft
			}
		}
		return fate{}
	}
}

func requests(from int, u []byte) bool { return wire.Prologue(u).Type().IsRequest() }
func acks(from int, u []byte) bool     { return wire.Prologue(u).Type().IsAck() }

// TestLostRequest and TestLostAck are sequences I (by RTO) and J of uet-pds-ses.md 5.6.
func TestLostRequest(t *testing.T) {
	l := newLab(t, Config{NoInfer: true})
	l.exchange(10)
	got := l.trace()
	l.script = nth(0, fate{drop: true}, requests)
	l.exchange(100)
	wantLines(t, *got, []string{
		"0 RUD_REQ psn 0 clr -1 AR",
		"0 RUD_REQ psn 0 clr -1 AR RETX",
		"1 ACK_CC cack 0 off 0 RETX RESPONSE OK 100",
	})
	if d := l.got[0][0].Acked - l.got[0][0].Posted; d < 1e6 || d > 1.01e6 {
		t.Errorf("acknowledged after %v, want RTO_Init and a little", d)
	}
}

func TestLostAck(t *testing.T) {
	l := newLab(t, Config{})
	got := l.trace()
	l.script = nth(0, fate{drop: true}, acks)
	l.exchange(100)
	wantLines(t, *got, []string{
		"0 RUD_REQ psn 0 clr -1 SYN off 0 AR",
		"1 ACK_CC cack 0 off 0 RESPONSE OK 100",
		"0 RUD_REQ psn 0 clr -1 SYN off 0 AR RETX",
		"1 ACK_CC cack 0 off 0 RETX DEFAULT_RESPONSE OK 0",
	})
	if l.count(DupRx) != 1 || l.count(PDCOpened) != 2 || l.count(MsgsRx) != 1 {
		t.Errorf("duplicates %d, PDCs %d, messages %d", l.count(DupRx), l.count(PDCOpened), l.count(MsgsRx))
	}
}

func TestLostClose(t *testing.T) {
	for _, from := range []int{0, 1} {
		l := newLab(t, Config{})
		l.exchange(10)
		var got []string
		start := l.source().Start
		l.tap = func(_ vt.Time, from int, b []byte) { got = append(got, line(from, b, start)) }
		l.script = nth(0, fate{drop: true}, func(f int, _ []byte) bool { return f == from })
		l.run(vt.Time(10 * time.Second))
		want := []string{"0 CLOSE_COMMAND psn 1 AR", "0 CLOSE_COMMAND psn 1 AR RETX", "1 ACK_CC cack 1 off 0 RETX NONE"}
		if from == 1 {
			want = append(want[:1:1], "1 ACK_CC cack 1 off 0 NONE", want[1], want[2])
		}
		wantLines(t, got, want)
		if l.count(PDCClosed) != 2 || l.count(PDCFailed) != 0 {
			t.Errorf("from %d: closed %d, failed %d", from, l.count(PDCClosed), l.count(PDCFailed))
		}
	}
}

// TestBackoff: a blackhole is given up after 1+2+4+8+16+32 ms, and every operation fails exactly once.
func TestBackoff(t *testing.T) {
	l := newLab(t, Config{PDCsPerKey: 1})
	l.script = func(int, []byte) fate { return fate{drop: true} }
	var first vt.Time
	var times []time.Duration
	l.tap = func(now vt.Time, _ int, b []byte) {
		r, err := wire.ParseRequest(firstUET(b))
		if err != nil {
			t.Fatalf("%v", err)
		}
		if len(times) == 0 {
			first = now
		}
		if r.PSNOffset() == 0 {
			times = append(times, now.Sub(first))
		}
	}
	l.call(0, 1, func(now vt.Time) {
		for i := range uint64(3) {
			if err := l.eps[0].TagSend(now, 1, make([]byte, 10000+i), i, i); err != nil {
				t.Error(err)
			}
		}
	})
	l.run(vt.Time(time.Minute))
	ms := time.Millisecond
	want := []time.Duration{0, 1 * ms, 3 * ms, 7 * ms, 15 * ms, 31 * ms}
	if len(times) != len(want) {
		t.Fatalf("sent at %v, want %v", times, want)
	}
	for i := range want {
		if d := times[i] - want[i]; d < 0 || d > 10*time.Microsecond {
			t.Errorf("sent at %v, want %v", times, want)
		}
	}
	l.want(0, Completion{Kind: OpTagSend, Ctx: 0, Len: 10000, Err: &PDCError{}}, Completion{Kind: OpTagSend, Ctx: 1, Len: 10001,
		Err: &PDCError{}}, Completion{Kind: OpTagSend, Ctx: 2, Len: 10002, Err: &PDCError{}})
	var pe *PDCError
	if c := l.got[0][0]; !errors.As(c.Err, &pe) || pe.Code != 0 || c.Acked.Sub(first) != 63*ms {
		t.Errorf("%v at %v, want silence at 63 ms", c.Err, c.Acked.Sub(first))
	}
	if l.count(PDCFailed) != 1 || len(l.feps[0].PDCs(nil)) != 0 {
		t.Errorf("failed %d, left %v", l.count(PDCFailed), l.feps[0].PDCs(nil))
	}
	l.script, l.tap = nil, nil
	l.exchange(5000) // a new PDC works
	l.leaks()
}

// TestFirstLost opens the PDC with a packet that is not the first.
func TestFirstLost(t *testing.T) {
	l := newLab(t, Config{NoInfer: true})
	l.script = nth(0, fate{drop: true}, requests)
	l.exchange(5 * 4096)
	if l.count(PDCOpened) != 2 || l.count(Retx) != 1 || l.count(RTO) != 1 {
		t.Errorf("PDCs %d, retransmissions %d, RTOs %d: want 2, 1, 1", l.count(PDCOpened), l.count(Retx), l.count(RTO))
	}
}

// fixed makes Start_PSNs close to the wrap.
type fixed wire.PSN

func (f fixed) Start(netip.Addr, uint32) (wire.PSN, bool)                { return wire.PSN(f), true }
func (f fixed) Accept(netip.Addr, uint32, wire.PSN) (wire.PSN, bool)     { return 0, true }
func (f fixed) Closed(_ netip.Addr, _ uint32, _, last wire.PSN) wire.PSN { return last + 1 }
func (f fixed) Expected(netip.Addr, uint32, wire.PSN)                    {}

func TestPSNWrap(t *testing.T) {
	l := newLab(t, Config{Secure: fixed(0xFFFFFFF0)})
	l.script = func(_ int, b []byte) fate {
		r, err := wire.ParseRequest(firstUET(b))
		return fate{drop: err == nil && !r.RETX() && (r.PSN() == 0xFFFFFFFF || r.PSN() == 0 || r.PSN() == 3)}
	}
	l.exchange(64 * 4096)
	if p := l.source(); p.Tx.Next != 48 || p.Tx.CACK != 47 || l.count(Retx) != 3 {
		t.Errorf("next %d, cack %d, retransmissions %d", p.Tx.Next, p.Tx.CACK, l.count(Retx))
	}
}

// TestWindows: the sender stops at MP_RANGE and at its byte window when nothing is acknowledged.
func TestWindows(t *testing.T) {
	for _, c := range []struct {
		cfg  Config
		want int
	}{
		{Config{MPR: 1, Window: 1 << 30}, 128},
		{Config{Window: 1 << 30}, 1024},
		{Config{Window: 1 << 30, MPR: 255}, 4096}, // psn_offset
		{Config{Window: 10 * 4204}, 10},
	} {
		l := newLab(t, c.cfg)
		if c.want == 10 && headers(false, false)-wire.EthLen-wire.IPv4Len+4096+40 != 4204 {
			t.Fatalf("nominal size %d", headers(false, false)-wire.EthLen-wire.IPv4Len+4096+40)
		}
		sent := 0
		l.tap = func(_ vt.Time, from int, b []byte) {
			if from == 0 {
				sent++
			}
		}
		l.script = func(from int, _ []byte) fate { return fate{drop: from == 1} }
		l.call(0, 1, func(now vt.Time) {
			if err := l.eps[0].TagSend(now, 1, make([]byte, 32<<20), 0, 0); err != nil {
				t.Error(err)
			}
		})
		l.run(900_000)
		if sent != c.want {
			t.Errorf("%+v: %d packets, want %d", c.cfg, sent, c.want)
		}
	}
}

// nackKind is what a RUD source does on a code: R again at once, D again later, or only wait anew, X close, 0 nothing.
func nackKind(c wire.NackCode) byte {
	switch {
	case c >= wire.NackTrimmed && c <= wire.NackTrimmedAck, c == wire.NackPktNotRcvd, c == wire.NackAckWithData, c == wire.NackRcvrInferLoss,
		c == wire.NackNewStartPSN:
		return 'R'
	case c >= wire.NackNoPDCAvail && c <= wire.NackPSNOORWindow, c == wire.NackExpNormal, c == wire.NackRcvdSESProcg:
		return 'D'
	case c >= wire.NackRODOOO && c <= wire.NackUnexpEvent, c >= wire.NackExpErr:
		return 'X'
	}
	return 0
}

// TestNackCodes plays a target that refuses the first packet with every code in turn.
func TestNackCodes(t *testing.T) {
	for code := 0; code < 256; code++ {
		l := newLab(t, Config{})
		var sent []vt.Time
		l.script = func(int, []byte) fate { return fate{drop: true} }
		l.tap = func(now vt.Time, from int, b []byte) {
			r, err := wire.ParseRequest(firstUET(b))
			if err != nil || from != 0 {
				return
			}
			sent = append(sent, now)
			if len(sent) > 1 {
				return
			}
			g := l.nodes[0].Pool.Get()
			ff := wire.FrameFields{DstMAC: testMAC(0), SrcMAC: testMAC(1), Src: testAddr(1), Dst: testAddr(0), EV: 3}
			g.B = wire.AppendUETCRC(wire.AppendNack(wire.AppendUDPFrame(g.B, &ff), &wire.NackFields{Type: wire.TypeNack,
				Code: wire.NackCode(code), PSN: r.PSN(), SPDCID: 0, DPDCID: r.SPDCID()}))
			g.Due = now + 1000
			l.deliver(0, g)
		}
		l.call(0, 1, func(now vt.Time) {
			if err := l.eps[0].TagSend(now, 1, make([]byte, 10), 0, 0); err != nil {
				t.Error(err)
			}
		})
		l.run(2_500_000)
		var second time.Duration
		if len(sent) > 1 {
			second = sent[1].Sub(sent[0])
		}
		failed := len(l.got[0]) == 1
		want, name := time.Millisecond, wire.NackCode(code) // ignored: RTO
		wantFail := false
		switch nackKind(name) {
		case 'R':
			want = 1000
		case 'D':
			want = time.Millisecond + 1000
		case 'X':
			want, wantFail = 0, name != wire.NackClosing
			if name == wire.NackClosing {
				want = 1000 // another PDC, at once
			}
		}
		if second != want || failed != wantFail {
			t.Errorf("%v: sent again after %v, failed %v; want %v, %v", name, second, failed, want, wantFail)
		}
	}
}

// TestRefusedMessage: NO_MATCH in the middle of a long message ends it with MSG_ERROR and one completion, and the PDC
// goes on; CLEAR is told by a Clear Command.
func TestRefusedMessage(t *testing.T) {
	l := newLab(t, Config{PDCsPerKey: 1, SendThreshold: -1})
	got := l.trace()
	l.call(0, 1, func(now vt.Time) {
		if err := l.eps[0].TagSend(now, 1, make([]byte, 8<<20), 0, 3); err != nil {
			t.Error(err)
		}
	})
	l.run(1_500_000)
	l.want(0, Completion{Kind: OpTagSend, Ctx: 3, Len: 8 << 20, Err: &ResponseError{}})
	var re *ResponseError
	if !errors.As(l.got[0][0].Err, &re) || re.Code != wire.RCNoMatch {
		t.Errorf("got %v, want NO_MATCH", l.got[0][0].Err)
	}
	if n := len(*got); n > 200 {
		t.Errorf("%d packets: the message was not cut short", n)
	}
	if p := l.target(); l.feps[1].rx.n != 0 || p.InFlight != 0 || l.feps[1].C[GtdInUse] != 0 {
		t.Errorf("left at the target: %d messages, %d responses", l.feps[1].rx.n, l.feps[1].C[GtdInUse])
	}
	l.exchange(3 * 4096)
	if p := l.source(); p.Tx.Clear != p.Tx.Next-1 || p.Tx.CACK != p.Tx.Clear || p.InFlight != 0 || l.count(PDCOpened) != 2 {
		t.Errorf("clear %d cack %d next %d, in flight %d", p.Tx.Clear, p.Tx.CACK, p.Tx.Next, p.InFlight)
	}
	l.leaks()
}

// TestPinnedWindow fills MP_RANGE above an error whose CLEAR is lost, and still goes on.
func TestPinnedWindow(t *testing.T) {
	l := newLab(t, Config{MPR: 1, PDCsPerKey: 1, Window: 1 << 30})
	lost := 0
	l.script = func(_ int, b []byte) fate {
		u := firstUET(b)
		if c, err := wire.ParseCtrl(u); err == nil && c.Ctl() == wire.CtlClearCommand && lost < 2 {
			lost++
			return fate{drop: true}
		}
		// No request tells CLEAR while the window is open.
		return fate{}
	}
	buf := make([]byte, 300*4096)
	l.call(1, 1, func(now vt.Time) {
		if err := l.eps[1].TagRecv(now, -1, make([]byte, len(buf)), 1, 1); err != nil {
			t.Error(err)
		}
	})
	l.call(0, 2, func(now vt.Time) {
		for tag := range uint64(2) { // tag 0 finds no receive
			if err := l.eps[0].TagSend(now, 1, buf[:1+tag*uint64(len(buf)-1)], tag, tag); err != nil {
				t.Error(err)
			}
		}
	})
	l.run(vt.Time(time.Second))
	l.want(0, Completion{Kind: OpTagSend, Ctx: 0, Len: 1, Err: &ResponseError{}}, Completion{Kind: OpTagSend, Ctx: 1, Len: len(buf)})
}

// TestPinnedNames: MP_RANGE is used up by packets that are all acknowledged by name, above an error that pins CACK.
func TestPinnedNames(t *testing.T) {
	l := newLab(t, Config{MPR: 1, PDCsPerKey: 1})
	l.call(1, 1, func(now vt.Time) {
		for i := range uint64(200) {
			_ = l.eps[1].TagRecv(now, -1, nil, i+1, 0)
		}
	})
	l.call(0, 2, func(now vt.Time) {
		for i := range uint64(201) { // tag 0 finds no receive
			if err := l.eps[0].TagSend(now, 1, nil, i, i); err != nil {
				t.Error(err)
			}
		}
	})
	l.run(500_000)
	if len(l.got[0]) != 201 || l.count(MsgsErr) != 1 || l.count(Retx) != 0 {
		t.Errorf("%d completions, %d errors, %d retransmissions", len(l.got[0]), l.count(MsgsErr), l.count(Retx))
	}
}

// TestOneLost: one packet of a long message is lost. What arrived above it leaves the window, and is neither sent again
// nor asked for, though the repair takes a while.
func TestOneLost(t *testing.T) {
	l := newLab(t, Config{NoInfer: true})
	lose := nth(0, fate{drop: true}, requests)
	l.script = func(from int, b []byte) fate {
		if r, err := wire.ParseRequest(firstUET(b)); err == nil && r.RETX() {
			return fate{delay: 100 * time.Microsecond}
		}
		return lose(from, b)
	}
	inflight, sent := int64(-1), uint64(0)
	l.call(0, 900_000, func(vt.Time) { inflight, sent = l.source().InFlight, l.feps[0].C[DataTx] })
	l.exchange(400 * 4096)
	if inflight != 4204 || sent != 400 {
		t.Errorf("before the RTO: %d bytes in flight, %d packets sent; want the lost one, and all 400", inflight, sent)
	}
	if l.count(Retx) != 1 || l.count(RTO) != 1 || l.count(CtrlTx) != 0 {
		t.Errorf("%d sent again, %d RTOs, %d control packets", l.count(Retx), l.count(RTO), l.count(CtrlTx))
	}
}

func TestTruncateAndReject(t *testing.T) {
	for _, reject := range []bool{false, true} {
		l := newLab(t, Config{RejectTooLong: reject})
		src, dst := fill(9000, 1), make([]byte, 5000)
		l.call(1, 1, func(now vt.Time) { _ = l.eps[1].Recv(now, dst, 1) })
		l.call(0, 2, func(now vt.Time) { _ = l.eps[0].Send(now, 1, src, 2) })
		l.run(vt.Time(time.Second))
		if reject {
			l.want(0, Completion{Kind: OpSend, Ctx: 2, Len: 9000, Err: ErrTruncated})
			l.want(1, Completion{Kind: OpRecv, Ctx: 1, Err: ErrTruncated})
			if !bytes.Equal(dst, make([]byte, 5000)) {
				t.Error("bytes were placed")
			}
			continue
		}
		l.want(0, Completion{Kind: OpSend, Ctx: 2, Len: 9000})
		l.want(1, Completion{Kind: OpRecv, Ctx: 1, Len: 5000, Err: ErrTruncated})
		if !bytes.Equal(dst, src[:5000]) {
			t.Error("contents differ")
		}
	}
}

func TestWrite(t *testing.T) {
	l := newLab(t, Config{})
	mem := make([]byte, 1<<20)
	key := l.eps[1].Register(mem)
	src := fill(500_000, 1)
	l.call(0, 1, func(now vt.Time) {
		for i, w := range []struct {
			n           int
			key, offset uint64
		}{{len(src), key, 1000}, {10, key + 1, 0}, {10, key, 1<<20 - 9}, {10, key, ^uint64(0)}, {0, key, 1 << 20}} {
			if err := l.eps[0].Write(now, 1, src[:w.n], w.key, w.offset, uint64(i)); err != nil {
				t.Error(err)
			}
		}
	})
	l.run(vt.Time(time.Second))
	codes := map[uint64]wire.ReturnCode{1: wire.RCBadMKey, 2: wire.RCBadAddr, 3: wire.RCBadAddr}
	if len(l.got[0]) != 5 || len(l.got[1]) != 0 {
		t.Fatalf("completions %+v, %+v", l.got[0], l.got[1])
	}
	for _, c := range l.got[0] {
		var re *ResponseError
		if errors.As(c.Err, &re) != (codes[c.Ctx] != 0) || re != nil && re.Code != codes[c.Ctx] {
			t.Errorf("write %d: %v, want %v", c.Ctx, c.Err, codes[c.Ctx])
		}
	}
	if !bytes.Equal(mem[1000:501_000], src) || !bytes.Equal(mem[501_000:], make([]byte, len(mem)-501_000)) {
		t.Error("memory differs")
	}
	l.leaks()
}

// TestCorrupt: a flipped bit is caught by the CRC, counted and repaired.
func TestCorrupt(t *testing.T) {
	l := newLab(t, Config{})
	l.script = nth(2, fate{flip: true}, requests)
	l.exchange(5 * 4096)
	if l.count(CRCBad) != 1 || l.count(Retx) != 1 {
		t.Errorf("CRC errors %d, retransmissions %d", l.count(CRCBad), l.count(Retx))
	}
}

// TestReset: operations vanish without a completion, endpoints stay, and the run repeats to the nanosecond.
func TestReset(t *testing.T) {
	l := newLab(t, Config{})
	run := func() []string {
		got := l.trace()
		l.got = [2][]Completion{}
		start := max(l.nodes[0].Now(), l.nodes[1].Now()) + 1
		for i := range l.nodes {
			l.nodes[i].Change(start, func(now vt.Time) {
				l.nodes[i].StartRun(now, 5)
				l.call(i, now+1, func(now vt.Time) {
					_ = l.eps[i].TagRecv(now, -1, make([]byte, 1<<20), 1, 0)
					_ = l.eps[i].TagSend(now, 1-i, make([]byte, 1<<20), 1, 1)
				})
			})
		}
		l.run(start + 20_000)
		l.script = func(int, []byte) fate { return fate{drop: true} }
		l.run(start + 100_000) // let what is in flight die out
		l.script = nil
		return *got
	}
	a, b := run(), run()
	if len(a) < 50 {
		t.Fatalf("only %d packets", len(a))
	}
	wantLines(t, b, a)
	start := max(l.nodes[0].Now(), l.nodes[1].Now()) + 1
	for _, n := range l.nodes {
		n.Change(start, func(now vt.Time) { n.StartRun(now, 6) })
	}
	l.run(start)
	for i, f := range l.feps {
		if n := f.node.Pool.Out(); n != 0 || len(f.PDCs(nil)) != 0 || len(l.got[i]) != 0 {
			t.Errorf("node %d after Reset: %d frames, %d PDCs, %d completions", i, n, len(f.PDCs(nil)), len(l.got[i]))
		}
	}
	l.exchange(100)
	l.leaks()
}
