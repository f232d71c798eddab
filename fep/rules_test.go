package fep

import (
	"strings"
	"testing"
	"time"

	"github.com/uetlab/uetlab/fep/pds"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// TestCloseBeforeDataAcked: a Close Command while read data is unacknowledged ends the PDC in error.
func TestCloseBeforeDataAcked(t *testing.T) {
	s := newStub(t, Config{NoInfer: true})
	key := s.eps[1].Register(make([]byte, 8192))
	s.request(req{flags: wire.ReqSYN | wire.ReqAR, clear: -1, mid: 1, op: wire.OpRead, key: key, total: 4096, n: 4096, read: true})
	s.expect("1 ACK_CC cack 0 off 0 RESPONSE OK 0", "1 RUD_REQ psn 0 clr -1 AR")
	s.ctrl(wire.CtlCloseCommand, 1, 0)
	s.expect("1 NACK CLOSING_IN_ERR psn 1")
	s.request(req{psn: 2, clear: -1, mid: 2, op: wire.OpRead, key: key, total: 4096, n: 4096, read: true})
	s.expect("1 NACK CLOSING_IN_ERR psn 2")
	s.now += 200_000_000
	s.run(s.now)
	s.request(req{psn: 2, clear: -1, mid: 2, op: wire.OpRead, key: key, total: 4096, n: 4096, read: true})
	s.expect("1 NACK INV_DPDCID psn 2")
}

// TestReadDataAcked: acknowledged read data leaves nothing, and the PDC closes in order.
func TestReadDataAcked(t *testing.T) {
	s := newStub(t, Config{NoInfer: true})
	key := s.eps[1].Register(make([]byte, 8192))
	s.request(req{flags: wire.ReqSYN | wire.ReqAR, clear: -1, mid: 1, op: wire.OpRead, key: key, total: 4096, n: 4096, read: true})
	s.got = nil
	s.ackData(0, 0)
	s.ctrl(wire.CtlCloseCommand, 1, 0)
	s.expect("1 ACK_CC cack 1 off 0 NONE")
}

// TestControlPackets: what a target does with each control packet that an initiator may send.
func TestControlPackets(t *testing.T) {
	s := newStub(t, Config{})
	open := func(ctl wire.CtlType, fl wire.CtrlFlags) {
		s.send(0, func(b []byte) []byte {
			b = wire.AppendCtrl(b, &wire.CtrlFields{Ctl: ctl, Flags: fl | wire.CtrlSYN, PSN: s.start, SPDCID: stubPDC})
			if ctl == wire.CtlNegotiation {
				b = wire.AppendNegotiation(b, 1)
			}
			return b
		})
	}
	open(wire.CtlProbe, wire.CtrlAR)
	s.expect()
	if s.feps[1].C[PDCOpened] != 0 {
		t.Error("a Probe opened a PDC")
	}
	open(wire.CtlNoop, wire.CtrlAR|wire.CtrlISROD)
	s.expect("1 ACK_CC cack 0 off 0 NONE")
	if p := s.target(); p == nil || p.Mode != pds.ROD {
		t.Fatalf("NOOP opened %+v", p)
	}
	s.request(req{psn: 1, mid: 1, op: wire.OpSend, total: 1, n: 1})
	s.expect("1 NACK PDC_MODE_MISMATCH psn 1")
	s.ctrl(wire.CtlNoop, 1, 0)
	s.expect("1 ACK_CC cack 1 off 0 NONE")
	s.ctrl(wire.CtlCredit, 0, 0)
	s.ctrl(wire.CtlCreditRequest, 0, 0)
	open(wire.CtlNegotiation, 0)
	s.expect()
	if c := &s.feps[1].C; c[CreditRx] != 2 || c[NegotiationRx] != 1 || c[PDCOpened] != 1 {
		t.Errorf("credits %d, negotiations %d, PDCs %d", c[CreditRx], c[NegotiationRx], c[PDCOpened])
	}
}

// TestAckRequestWithData: the stored answer to a short read is not repeated to an ACK Request, but to the request
// itself: as it was when it was read, whatever has become of the memory.
func TestAckRequestWithData(t *testing.T) {
	s := newStub(t, Config{})
	mem := []byte("0123456789")
	key := s.eps[1].Register(mem)
	r := req{flags: wire.ReqSYN | wire.ReqAR, clear: -1, mid: 1, op: wire.OpRead, key: key, total: 10, n: 10, read: true}
	s.request(r)
	s.expect("1 ACK_CC cack -1 off 1 req CLEAR RESPONSE_DATA")
	s.ctrl(wire.CtlAckRequest, 0, 0)
	s.expect("1 NACK ACK_WITH_DATA psn 0")
	mem[0] = 'x'
	r.flags |= wire.ReqRETX
	s.request(r)
	s.expect("1 ACK_CC cack -1 off 1 req CLEAR RETX RESPONSE_DATA")
	if u := firstUET(s.raw[len(s.raw)-1]); !strings.HasSuffix(string(u), "0123456789") {
		t.Errorf("data %q", u[32:])
	}
}

// TestOrderedTarget: a gap in an ordered PDC is reported once, with the PSN that is expected.
func TestOrderedTarget(t *testing.T) {
	s := newStub(t, Config{})
	s.recv(1, 4*4096)
	r := req{typ: wire.TypeRODReq, flags: wire.ReqSYN, clear: -1, mid: 1, op: wire.OpTaggedSend, tag: 1, total: 4 * 4096, n: 4096}
	s.request(r)
	s.expect("1 ACK_CC cack 0 off 0 DEFAULT_RESPONSE OK 0")
	r.flags = 0
	for _, psn := range []int32{2, 3} {
		r.psn, r.off = psn, uint32(psn)*4096
		s.request(r)
	}
	s.expect("1 NACK ROD_OOO psn 2")
	n, _ := wire.ParseNack(firstUET(s.raw[len(s.raw)-1]))
	if wire.PSN(n.Payload()) != s.start+1 {
		t.Errorf("payload %d, want the expected PSN %d", n.Payload(), s.start+1)
	}
	for _, psn := range []int32{1, 2, 3} {
		r.psn, r.off, r.flags = psn, uint32(psn)*4096, wire.ReqRETX
		s.request(r)
	}
	s.expect("1 ACK_CC cack 1 off 0 RETX DEFAULT_RESPONSE OK 0", "1 ACK_CC cack 2 off 0 RETX DEFAULT_RESPONSE OK 0",
		"1 ACK_CC cack 3 off 0 RETX RESPONSE OK 16384")
}

// TestShrunkWindow: a window that was announced stays open after a smaller one is.
func TestShrunkWindow(t *testing.T) {
	s := newStub(t, Config{MPR: 8})
	s.open()
	s.feps[1].PDS().SetMPR(1)
	s.request(req{psn: 1000, flags: wire.ReqAR, clear: -1000, mid: 2, op: wire.OpSend, total: 1, n: 1})
	s.expect("1 ACK_CC cack 0 off 1000 req CLEAR RESPONSE NO_MATCH 0")
	a, _ := wire.ParseAck(firstUET(s.raw[len(s.raw)-1]))
	if a.MPR() != 1 {
		t.Errorf("mpr %d", a.MPR())
	}
	s.request(req{psn: 1025, mid: 3, op: wire.OpSend, total: 1, n: 1})
	s.expect("1 NACK PSN_OOR_WINDOW psn 1025")
}

// TestWindowFromPeer: the source stops at what the newest ACK allows, and mpr 0 is taken as 1.
func TestWindowFromPeer(t *testing.T) {
	s := newPeerStub(t, Config{PDCsPerKey: 1, Window: 1 << 30, NoInfer: true, RTOInit: time.Second})
	s.post(func(now vt.Time) error { return s.eps[0].TagSend(now, 1, make([]byte, 8<<20), 1, 1) })
	s.pass(200_000)
	if len(s.raw) != 1024 {
		t.Fatalf("%d packets, want Default_MPR", len(s.raw))
	}
	s.inject(0, s.ev, 46, 0, func(b []byte) []byte {
		return wire.AppendAck(b, &wire.AckFields{Type: wire.TypeAckCC, CACK: s.start.Add(1000), SPDCID: peerPDC, DPDCID: s.spdc})
	})
	s.pass(200_000)
	if len(s.raw) != 1129 || s.feps[0].C[MPRZero] != 1 {
		t.Errorf("%d packets, want up to CACK + 128", len(s.raw))
	}
}

// TestOptionalInference: the ways of finding losses that are off by default find one each.
func TestOptionalInference(t *testing.T) {
	for name, c := range map[string]struct {
		cfg Config
		by  Counter
	}{
		"entropy value": {Config{NoInfer: true, InferEV: true, LB: LBFixed}, RetxEV},
		"receiver":      {Config{NoInfer: true, RcvrInfer: 20}, RetxNack},
		"tail":          {Config{NoInfer: true, TailLossTime: 20 * time.Microsecond}, RetxProbe},
	} {
		l := newLab(t, c.cfg)
		l.exchange(10)
		lose := 50
		if name == "tail" {
			lose = 199
		}
		l.script = nth(lose, fate{drop: true}, requests)
		if d := l.transfer(200 * 4096); d > 300*time.Microsecond || l.count(Retx) != 1 || l.count(c.by) != 1 || l.count(RTO) != 0 {
			t.Errorf("%s: took %v, %d sent again, %d of them so, %d RTOs", name, d, l.count(Retx), l.count(c.by), l.count(RTO))
		}
	}
}

// TestPending: a PDC that waits for another start is forgotten in time.
func TestPending(t *testing.T) {
	s := newStub(t, Config{Secure: &secure{want: 5}})
	s.request(req{flags: wire.ReqSYN, clear: -1, mid: 1, op: wire.OpSend, total: 1, n: 1})
	s.expect("1 NACK NEW_START_PSN psn 0")
	n, _ := wire.ParseNack(firstUET(s.raw[0]))
	if n.Payload() != 5 || s.target() == nil || s.target().State != pds.Pending {
		t.Errorf("payload %d, PDC %+v", n.Payload(), s.target())
	}
	s.now += 6_000_000
	s.run(s.now)
	if s.target() != nil || s.feps[1].C[NewPDCTimeout] != 1 {
		t.Errorf("%+v is left", s.target())
	}
}

// TestReplaced: a PDC that has used up its range of PSNs is replaced, and no message is lost.
func TestReplaced(t *testing.T) {
	l := newLab(t, Config{PSNLimit: 100, PDCsPerKey: 1})
	l.sendAll(50, 10*4096)
	l.run(vt.Time(time.Second))
	if len(l.got[0]) != 50 || l.count(MsgsErr) != 0 || l.feps[0].C[PDCOpened] != 5 {
		t.Errorf("%d completions, %d errors, %d PDCs", len(l.got[0]), l.count(MsgsErr), l.feps[0].C[PDCOpened])
	}
}

// TestTrimmedAnswer: an ACK that has lost its data to a switch makes the request go out again, and the data comes once.
func TestTrimmedAnswer(t *testing.T) {
	l := newLab(t, Config{MaxAckData: 8000, TrimmableAck: 1000, NoInfer: true})
	mem := fill(4000, 2)
	key := l.eps[1].Register(mem)
	cut := 0
	l.tap = func(_ vt.Time, from int, b []byte) {
		in, u := uet(b)
		if a, err := wire.ParseAck(u); from == 1 && err == nil && a.Next() == wire.NextResponseData && in.DSCP != 10 {
			t.Errorf("ACK with data has DSCP %d", in.DSCP)
		}
	}
	l.script = func(from int, b []byte) fate {
		_, u := uet(b)
		if from != 1 || cut > 0 || !wire.Prologue(u).Type().IsAck() {
			return fate{}
		}
		cut++
		l.inject(0, 1, 34, 0, func(b []byte) []byte { return append(b, u[:60]...) })
		return fate{drop: true}
	}
	dst := make([]byte, 4000)
	l.call(0, 1, func(now vt.Time) { _ = l.eps[0].Read(now, 1, dst, key, 0, 1) })
	l.run(900_000)
	l.want(0, Completion{Kind: OpRead, Ctx: 1, Len: 4000})
	if string(dst) != string(mem) || l.count(RetxTrim) != 1 || l.count(DupRx) != 1 {
		t.Errorf("%d sent again, %d duplicates", l.count(RetxTrim), l.count(DupRx))
	}
}

// TestRefusedForNow: SES without a context for another message refuses its packets, which come again.
func TestRefusedForNow(t *testing.T) {
	l := newLab(t, Config{MaxMessages: 1, MaxNackRetx: InfiniteNack})
	l.sendAll(8, 20_000)
	l.run(vt.Time(time.Second))
	if len(l.got[0]) != 8 || l.count(MsgsErr) != 0 || l.count(NackRxRes) == 0 || l.count(RetxNack) == 0 {
		t.Errorf("%d completions, %d errors, %d NACKs", len(l.got[0]), l.count(MsgsErr), l.count(NackRxRes))
	}
}

// TestPeerNacks: a NACK makes an initiator send the packet again, with another entropy value.
func TestPeerNacks(t *testing.T) {
	s := newPeerStub(t, Config{NoInfer: true})
	s.post(func(now vt.Time) error { return s.eps[0].TagSend(now, 1, make([]byte, 10), 1, 1) })
	ev := s.ev
	s.nack(wire.NackTrimmed, 0)
	s.expect("0 RUD_REQ psn 0 clr -1 SYN off 0 AR", "0 RUD_REQ psn 0 clr -1 AR RETX")
	if s.ev == ev {
		t.Error("the same entropy value again")
	}
	p := s.source()
	if p.NackRx != wire.NackTrimmed || p.RetxBy[pds.CauseTrim] != 1 || p.PeerID != peerPDC {
		t.Errorf("%+v", p)
	}
}
