package fep

import (
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// Requirement D01: the PSN wraps from 0xFFFFFFFF to 0 in data, ACK, SACK and CLEAR.
func TestD01_Wrap(t *testing.T) {
	s := newStub(t, Config{})
	s.start = 0xFFFFFFFE
	s.recv(1, 10)
	s.request(req{flags: wire.ReqSYN, clear: -1, mid: 1, op: wire.OpTaggedSend, tag: 1, total: 10, n: 10})
	s.expect("1 ACK_CC cack 0 off 0 RESPONSE OK 10")
	s.bad(3, wire.ReqAR)
	s.expect("1 ACK_CC cack 0 off 3 req CLEAR RESPONSE NO_MATCH 0")
	s.bad(1, 0)
	s.expect("1 ACK_CC cack 0 off 1 req CLEAR RESPONSE NO_MATCH 0")
	if a := s.last(); a.CACK() != 0xFFFFFFFE || a.SACKBase() != 0xFFFFFFFF || a.SACKBitmap() != 0b101 {
		t.Errorf("cack %d, SACK %b from %d", a.CACK(), a.SACKBitmap(), a.SACKBase())
	}
	s.bad(2, 0)
	s.expect("1 ACK_CC cack 0 off 2 req CLEAR RESPONSE NO_MATCH 0")
	s.ctrl(wire.CtlClearCommand, 0, 0) // PSN 0 is the third
	s.ctrl(wire.CtlProbe, 0, 0)
	if a := s.last(); a.CACK() != 0 || s.feps[1].C[GtdInUse] != 1 {
		t.Errorf("after CLEAR 0: cack %d, %d kept", a.CACK(), s.feps[1].C[GtdInUse])
	}

	l := newLab(t, Config{Secure: fixed(0xFFFFFFF0), PDCsPerKey: 1, GtdSlots: 100})
	l.script = func(_ int, b []byte) fate {
		r, err := wire.ParseRequest(firstUET(b))
		return fate{drop: err == nil && !r.RETX() && (r.PSN() == 0xFFFFFFFF || r.PSN() == 0 || r.PSN() == 3)}
	}
	same := l.writeOne(1, 12*4096)
	l.call(0, 2, func(now vt.Time) {
		for i := range uint64(8) { // PSNs -4 .. 3 end in errors
			_ = l.eps[0].Send(now, 1, nil, 10+i)
		}
	})
	l.run(50_000_000)
	if p := l.source(); p.Tx.Next != 4 || p.Tx.Clear != 3 || l.count(Retx) != 3 || !same() {
		t.Errorf("%+v, %d sent again", p.Tx, l.count(Retx))
	}
	if p := l.target(); p.Rx.CACK != 3 || p.Rx.Clear != 3 || p.Rx.Stored != 0 || len(l.got[0]) != 9 {
		t.Errorf("%+v, %d completions", p.Rx, len(l.got[0]))
	}
}

// Requirement D02: CACK advances over contiguous PSNs whose responses need not be guaranteed.
func TestD02_Advance(t *testing.T) {
	s, _ := store(t, Config{})
	s.put(1, wire.ReqAR, 10)
	s.expect("1 ACK_CC cack 1 off 0 RESPONSE OK 10")
	s.put(3, wire.ReqAR, 10)
	s.expect("1 ACK_CC cack 1 off 2 RESPONSE OK 10")
	s.put(2, 0, 10)
	s.expect("1 ACK_CC cack 3 off -1 RESPONSE OK 10")
}

// Requirement D03: CACK does not pass a PSN with a guaranteed response that is not cleared, and passes it after CLEAR.
func TestD03_Pinned(t *testing.T) {
	s, _ := store(t, Config{})
	s.bad(1, 0)
	s.put(2, wire.ReqAR, 10)
	s.bad(3, 0)
	s.put(4, wire.ReqAR, 10)
	s.expect("1 ACK_CC cack 0 off 1 req CLEAR RESPONSE NO_MATCH 0", "1 ACK_CC cack 0 off 2 RESPONSE OK 10",
		"1 ACK_CC cack 0 off 3 req CLEAR RESPONSE NO_MATCH 0", "1 ACK_CC cack 0 off 4 RESPONSE OK 10")
	for _, c := range []struct{ clear, cack int32 }{{1, 2}, {2, 2}, {3, 4}} {
		s.ctrl(wire.CtlClearCommand, 0, uint32(s.start.Add(c.clear)))
		s.ctrl(wire.CtlProbe, 0, 0)
		if got := s.last().CACK().Diff(s.start); got != c.cack {
			t.Errorf("CLEAR %d: cack %d, want %d", c.clear, got, c.cack)
		}
	}
}

// Requirement D04: ack_psn_offset gives the PSN of the packet that the ACK answers.
func TestD04_Offset(t *testing.T) {
	s, _ := store(t, Config{})
	for _, psn := range []int32{5, 4} {
		s.put(psn, wire.ReqAR, 10)
		if a := s.last(); a.AckPSN() != s.start.Add(psn) || a.CACK() != s.start {
			t.Errorf("PSN %d: ACK_PSN %d, cack %d", psn, a.AckPSN().Diff(s.start), a.CACK().Diff(s.start))
		}
	}
	s.expect("1 ACK_CC cack 0 off 5 RESPONSE OK 10", "1 ACK_CC cack 0 off 4 RESPONSE OK 10")
}

// Requirement D05: SACK bits are the set of PSNs received, in whatever order 64 packets come.
func TestD05_Bitmap(t *testing.T) {
	seed := rand.Uint64()
	s, _ := store(t, Config{})
	have := map[wire.PSN]bool{s.start: true}
	for i, psn := range rand.New(rand.NewPCG(seed, 0)).Perm(64) {
		s.put(int32(psn)+1, wire.ReqAR, 10)
		have[s.start.Add(int32(psn)+1)] = true
		a := s.last()
		if low := max(a.CACK().Diff(s.start)+1, int32(psn)+1-63); a.SACKBase().Diff(s.start) != low {
			t.Fatalf("seed %d: SACK base %d, want %d", seed, a.SACKBase().Diff(s.start), low)
		}
		for b := range int32(64) {
			if p := a.SACKBase().Add(b); a.SACKBitmap()>>b&1 != 0 != have[p] {
				t.Fatalf("seed %d, packet %d: bit of PSN %d is %v", seed, i, p.Diff(s.start), !have[p])
			}
		}
	}
	if a := s.last(); a.CACK() != s.start+64 || bits.OnesCount64(a.SACKBitmap()) != 0 {
		t.Errorf("seed %d: cack %d, bits %b", seed, a.CACK().Diff(s.start), a.SACKBitmap())
	}
}

// Requirement D06: a source takes the zeros of a bitmap for "unknown": what arrived once is not sent again.
func TestD06_Zeros(t *testing.T) {
	e := newFarEnd(t, Config{})
	e.write(0, 8*4096)
	e.ack(farAck{cack: 0, named: 1, bits: 0x7F})
	e.ack(farAck{cack: 0, named: 1})
	e.got = nil
	e.pass(1_100_000)
	e.expect("0 ACK_REQUEST psn 2 AR") // it asks for the response after the RTO
}

// Requirement D07: an ACK with an older CACK does not move CACK back, but its ACK_PSN and its bitmap count.
func TestD07_OldAck(t *testing.T) {
	e := newFarEnd(t, Config{NoInfer: true})
	e.write(0, 10, 10, 10, 10, 10, 10)
	e.ack(farAck{cack: 2, named: 2})
	e.ack(farAck{cack: 0, named: 4, bits: 1 << 4}) // PSN 5
	if p := e.source(); p.Tx.CACK != e.start+2 || e.feps[0].C[StaleAck] != 0 {
		t.Errorf("cack %d", p.Tx.CACK.Diff(e.start))
	}
	if got := e.done(); !slices.Equal(got, []uint64{2, 0, 1, 4}) {
		t.Errorf("complete: %d", got)
	}
	e.got = nil
	e.pass(1_100_000)
	e.expect("0 RUD_REQ psn 3 clr -1 AR RETX")
}

// Requirement D08: an ACK beyond what was sent is rejected and changes nothing.
func TestD08_Beyond(t *testing.T) {
	e := newFarEnd(t, Config{NoInfer: true})
	e.write(0, 10, 10)
	before := *e.source()
	for _, a := range []farAck{{cack: 2, named: 0}, {cack: 100, named: 100}, {cack: 0, named: 2}, {cack: -1, named: 100}} {
		a.mpr, a.bits, a.req = 1, 3, wire.AckReqClose
		e.ack(a)
	}
	after := *e.source()
	if after.Tx != before.Tx || after.State != before.State || after.InFlight != before.InFlight || e.feps[0].C[StaleAck] != 4 || len(e.lab.got[0]) != 0 {
		t.Errorf("%+v, want %+v; %d rejected", after, before, e.feps[0].C[StaleAck])
	}
	e.got = nil
	e.pass(1_100_000)
	e.expect("0 RUD_REQ psn 0 clr -1 SYN off 0 AR RETX", "0 RUD_REQ psn 1 clr -2 SYN off 1 AR RETX")
}

// windowed is a source with 200 packets to send that knows MPR from the ACK of its first.
func windowed(t *testing.T, mpr int) *farEnd {
	e := newFarEnd(t, Config{Window: 1 << 30, RTOInit: time.Second, NoInfer: true})
	e.write(0, 10)
	e.ack(farAck{cack: 0, mpr: mpr})
	e.got = nil
	e.write(1, 700*4096)
	e.pass(100_000)
	return e
}

// Requirement D09: a source stops at CACK + MP_RANGE.
func TestD09_Range(t *testing.T) {
	e := windowed(t, 1)
	if n := e.fresh(); n != 128 {
		t.Errorf("%d packets sent, want 128", n)
	}
	for i := range int32(127) { // all but the first arrived
		e.ack(farAck{cack: 0, named: i + 2, mpr: 1})
	}
	if n := e.fresh(); n != 0 {
		t.Errorf("%d more without progress of CACK", n)
	}
	e.ack(farAck{cack: 1, named: 1, mpr: 1})
	e.pass(1000)
	if n := e.fresh(); n != 1 {
		t.Errorf("%d more for one PSN of progress", n)
	}
}

// Requirement D10: a new MPR takes effect, one that comes with an older CACK does not.
func TestD10_Update(t *testing.T) {
	e := windowed(t, 1)
	for i, c := range []struct {
		a    farAck
		sent int
	}{
		{farAck{cack: 10, named: 10, mpr: 2}, 128 + 10 + 128},
		{farAck{cack: 5, named: 20, mpr: 255}, 0},
		{farAck{cack: 11, named: 11, mpr: 1}, 0}, // shrunk
		{farAck{cack: 138, named: 138, mpr: 1}, 0},
		{farAck{cack: 140, named: 140, mpr: 1}, 2},
	} {
		e.ack(c.a)
		e.pass(50_000)
		if n := e.fresh(); n != c.sent {
			t.Errorf("ACK %d: %d packets, want %d", i, n, c.sent)
		}
	}
}

// Requirement D11: mpr 0 counts as 1.
func TestD11_Zero(t *testing.T) {
	e := windowed(t, -1)
	if n := e.fresh(); n != 128 || e.feps[0].C[MPRZero] != 1 {
		t.Errorf("%d packets sent, want 128; %d ACKs with mpr 0", n, e.feps[0].C[MPRZero])
	}
}

// Requirement D12: a PSN above the window is answered PSN_OOR_WINDOW, one far below likewise, one with SYN INVALID_SYN.
func TestD12_OutOfWindow(t *testing.T) {
	s, _ := store(t, Config{MPR: 1})
	for _, c := range []struct {
		psn  int32
		fl   wire.ReqFlags
		want string
	}{
		{129, 0, "1 NACK PSN_OOR_WINDOW psn 129"},
		{-128, 0, "1 NACK PSN_OOR_WINDOW psn -128"},
		{129, wire.ReqSYN, "1 NACK INVALID_SYN psn 129"},
		{128, wire.ReqAR, "1 ACK_CC cack 0 off 128 RESPONSE OK 10"},
		{-127, 0, "1 ACK_CC cack 0 off -127 DEFAULT_RESPONSE OK 0"},
	} {
		s.now += 300_000 // one such NACK in RTO_Init/4
		s.put(c.psn, c.fl, 10)
		s.expect(c.want)
	}
	s.now += 300_000
	s.put(130, 0, 10)
	s.put(131, 0, 10)
	s.expect("1 NACK PSN_OOR_WINDOW psn 130")
	if c := s.feps[1].C[DataRx]; c != 2 {
		t.Errorf("%d packets taken, want 2", c)
	}
}

// Requirement D13: a duplicate, below CACK or above it, is acknowledged and SES does not see it.
func TestD13_Duplicate(t *testing.T) {
	s, mem := store(t, Config{})
	s.put(1, wire.ReqAR, 10)
	s.put(3, wire.ReqAR, 10)
	s.got = nil
	copy(mem, "unchanged!")
	s.put(1, 0, 10)
	s.put(3, wire.ReqRETX, 10)
	s.expect("1 ACK_CC cack 1 off 0 DEFAULT_RESPONSE OK 0", "1 ACK_CC cack 1 off 2 RETX DEFAULT_RESPONSE OK 0")
	if c := s.feps[1].C; c[DupRx] != 2 || c[DataRx] != 3 || c[MsgsRx] != 3 || string(mem[:10]) != "unchanged!" {
		t.Errorf("%d duplicates, %d packets, %d messages, %q", c[DupRx], c[DataRx], c[MsgsRx], mem[:10])
	}
}

// Requirement D14: with AR the ACK is handed to the port at the virtual time of the arrival.
func TestD14_AR(t *testing.T) {
	s, _ := store(t, Config{})
	var at []vt.Time
	s.tap = func(now vt.Time, _ int, _ []byte) { at = append(at, now) }
	s.put(1, 0, 10)
	if len(at) != 0 {
		t.Error("acknowledged at once without AR")
	}
	s.put(2, wire.ReqAR, 10)
	if len(at) != 1 || at[0] != s.now {
		t.Errorf("acknowledged at %v, arrived at %v", at, s.now)
	}
}

// Requirement D15: without AR there is an ACK after 16 KiB, and a packet counts for 1 KiB at least.
func TestD15_Bytes(t *testing.T) {
	for _, c := range []struct{ n, size int }{{4, 4096}, {16, 100}, {8, 2048}} {
		s, _ := store(t, Config{})
		for i := range c.n {
			s.expect()
			s.put(int32(i)+1, 0, c.size)
		}
		if len(s.got) != 1 || s.last().AckPSN() != s.start.Add(int32(c.n)) {
			t.Errorf("%d x %d bytes: %q", c.n, c.size, s.got)
		}
	}
}

// Requirement D16: CE triggers an ACK with m = 1, but not with ACK_On_ECN = 0; the mark is echoed then, too.
func TestD16_CE(t *testing.T) {
	for _, off := range []bool{false, true} {
		s, _ := store(t, Config{NoAckOnECN: off})
		s.request(req{psn: 1, mid: 2, op: wire.OpWrite, tag: 1, total: 10, n: 10, ecn: wire.ECNCE})
		if off {
			s.expect()
			s.put(2, wire.ReqAR, 10)
		}
		if len(s.got) != 1 || !s.last().M() {
			t.Fatalf("off %v: %q", off, s.got)
		}
		s.put(3, wire.ReqAR, 10)
		if s.last().M() {
			t.Errorf("off %v: the mark of one packet is echoed twice", off)
		}
	}
}

// Requirement D17: a packet with retx triggers an ACK that echoes the flag.
func TestD17_Retx(t *testing.T) {
	s, _ := store(t, Config{})
	s.put(1, wire.ReqRETX, 10)
	s.expect("1 ACK_CC cack 1 off 0 RETX RESPONSE OK 10")
	s.put(2, wire.ReqAR, 10)
	s.expect("1 ACK_CC cack 2 off 0 RESPONSE OK 10")
}

// Requirement D18: an ACK for several packets carries DEFAULT_RESPONSE, one for a single packet its own response. One that names
// the last packet of a message carries the message's response whatever else it covers (H06).
func TestD18_Response(t *testing.T) {
	s, _ := store(t, Config{})
	part := func(i int32, fl wire.ReqFlags) {
		s.request(req{psn: i + 1, flags: fl, clear: -1, mid: 2, op: wire.OpWrite, tag: 1, off: uint32(i) * 4096, total: 8 * 4096, n: 4096})
	}
	for i := range int32(7) {
		part(i, 0)
	}
	s.expect("1 ACK_CC cack 4 off 0 DEFAULT_RESPONSE OK 0")
	part(7, wire.ReqAR)
	s.expect("1 ACK_CC cack 8 off 0 RESPONSE OK 32768")
	s.put(9, wire.ReqAR, 10)
	s.expect("1 ACK_CC cack 9 off 0 RESPONSE OK 10")
	for i := range int32(3) {
		s.put(10+i, 0, 10)
	}
	s.now += 300_000
	s.run(s.now)
	s.expect("1 ACK_CC cack 12 off 0 DEFAULT_RESPONSE OK 0")
}

// Requirement D19: responses that must not be lost have an ACK each.
func TestD19_Own(t *testing.T) {
	s, _ := store(t, Config{})
	for i := range int32(3) {
		s.bad(i+1, 0)
	}
	s.expect("1 ACK_CC cack 0 off 1 req CLEAR RESPONSE NO_MATCH 0", "1 ACK_CC cack 0 off 2 req CLEAR RESPONSE NO_MATCH 0",
		"1 ACK_CC cack 0 off 3 req CLEAR RESPONSE NO_MATCH 0")
}

// Requirement D20: a packet with AR that came above a gap is acknowledged again when the gap closes.
func TestD20_GapFill(t *testing.T) {
	s, _ := store(t, Config{})
	for i := range int32(8) {
		s.put(i+1, 0, 10)
	}
	s.put(10, wire.ReqAR, 10)
	s.expect("1 ACK_CC cack 8 off 2 RESPONSE OK 10")
	s.put(9, 0, 10)
	s.expect("1 ACK_CC cack 10 off -1 RESPONSE OK 10")
	s.put(12, 0, 10) // no AR: nobody waits
	s.put(11, 0, 10)
	s.expect()
}

// Requirement D21: one packet without AR is acknowledged after MaxAckDelay.
func TestD21_Delay(t *testing.T) {
	s, _ := store(t, Config{})
	var at []vt.Time
	s.tap = func(now vt.Time, _ int, _ []byte) { at = append(at, now) }
	s.put(1, 0, 10)
	first := s.now
	s.now += 100_000
	s.put(2, 0, 10)
	s.run(s.now + 10_000_000)
	if len(at) != 1 || at[0] != first+250_000 {
		t.Errorf("acknowledged at %v, want %v", at, first+250_000)
	}
	s.expect("1 ACK_CC cack 2 off 0 DEFAULT_RESPONSE OK 0")
}

// flagged counts the requests of a transfer that begins on an open PDC, by "AR" and "EOM", "RETX" where they have the flag.
func flagged(t *testing.T, cfg Config, script func(int, []byte) fate) map[string]int {
	l := newLab(t, cfg)
	l.exchange(10)
	n := map[string]int{}
	l.tap = func(_ vt.Time, from int, b []byte) {
		u := firstUET(b)
		r, err := wire.ParseRequest(u)
		if err != nil || from != 0 {
			return
		}
		h, _ := wire.ParseSESStd(u[len(r):])
		k := ""
		for _, f := range []struct {
			on bool
			s  string
		}{{h.Head().EOM(), "EOM "}, {r.RETX(), "RETX "}, {r.AR(), "AR"}} {
			if f.on {
				k += f.s
			}
		}
		n[k]++
	}
	l.script = script
	l.exchange(20 * 4096)
	return n
}

// Requirement D22: with Enb_ACK_Per_Pkt all requests carry AR.
func TestD22_EveryPacket(t *testing.T) {
	if n := flagged(t, Config{AckEvery: true}, nil); n["AR"] != 19 || n["EOM AR"] != 1 || len(n) != 2 {
		t.Errorf("on: %v", n)
	}
	if n := flagged(t, Config{}, nil); n[""] != 19 || n["EOM AR"] != 1 {
		t.Errorf("off: %v", n)
	}
}

// Requirement D23: EOM and every retransmission carry AR.
func TestD23_ARFlag(t *testing.T) {
	i := 0
	n := flagged(t, Config{}, func(from int, b []byte) fate {
		if from == 0 && requests(from, firstUET(b)) {
			i++
		}
		return fate{drop: from == 0 && (i == 3 || i == 7 || i == 20)}
	})
	if n["RETX AR"] < 2 || n["EOM RETX AR"] < 1 || n["EOM AR"] != 1 || n["RETX "]+n["EOM "]+n["EOM RETX "] != 0 || n[""] == 0 {
		t.Errorf("%v", n)
	}
}

// Requirement D24: ACKs have the DSCP of control, but those with more data than Trimmable_ACK_Size that of data.
func TestD24_DSCP(t *testing.T) {
	l := newLab(t, Config{MaxAckData: 8192, TrimmableAck: 1024})
	mem := fill(8192, 1)
	key := l.eps[1].Register(mem)
	var got []uint8
	l.tap = func(_ vt.Time, from int, b []byte) {
		if in, u := uet(b); acks(from, u) {
			got = append(got, in.DSCP)
			if data := from == 1 && in.DSCP == 10; data != (in.ECN != wire.ECNNotECT) {
				t.Errorf("DSCP %d with ECN %d", in.DSCP, in.ECN)
			}
		}
	}
	for i, n := range []int{4096, 1024, 1025, 16} {
		l.call(0, vt.Time(i+1)*20_000, func(now vt.Time) { _ = l.eps[0].Read(now, 1, make([]byte, n), key, 0, uint64(i)) })
	}
	l.run(200_000)
	if !slices.Equal(got, []uint8{10, 46, 10, 46}) || len(l.got[0]) != 4 {
		t.Errorf("DSCPs %v, %d reads", got, len(l.got[0]))
	}
}

// Requirement D25: a CACK that passes a PSN without an ACK of its own completes it as a success.
func TestD25_PresumedOK(t *testing.T) {
	e := newFarEnd(t, Config{})
	e.write(0, 10, 10, 10, 10)
	e.ack(farAck{cack: 3, named: 3})
	if got := e.done(); len(got) != 4 || e.source().Tx.Unacked != 0 {
		t.Errorf("complete: %d, %d open", got, e.source().Tx.Unacked)
	}
}
