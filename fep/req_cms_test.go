package fep

import (
	"testing"

	"github.com/uetlab/uetlab/fep/cms"
	"github.com/uetlab/uetlab/fep/lb"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// pour has node 0 write n bytes to node 1, and runs until all is done and acknowledged.
func (l *lab) pour(n int) {
	l.t.Helper()
	src, dst := fill(n, 1), make([]byte, n)
	key := l.eps[1].Register(dst)
	l.call(0, l.now()+1, func(now vt.Time) {
		if err := l.eps[0].Write(now, 1, src, key, 0, 7); err != nil {
			l.t.Error(err)
		}
	})
	l.run(l.now() + 1_000_000)
	if n := len(l.got[0]); n == 0 || l.got[0][n-1].Err != nil {
		l.t.Fatalf("completions %+v", l.got[0])
	}
	for i := range dst {
		if dst[i] != src[i] {
			l.t.Fatalf("byte %d is wrong", i)
		}
	}
}

// TestB14 has a new congestion control context send one Probe, on the control class, after the first ACK: with what it brings the
// base RTT is that of the path and not of the queue that a late starter finds (uet-cms.md 4).
func TestB14(t *testing.T) {
	for _, noRTT := range []bool{false, true} {
		cc := testCC(cms.AlgNSCC)
		cc.Net.BaseRTT, cc.NoRTT = 40_000, noRTT
		l := newLab(t, Config{CC: cc})
		acks, probes := 0, 0
		l.tap = func(now vt.Time, from int, b []byte) {
			in, u := uet(b)
			switch typ := in.Type(); {
			case from == 1 && typ.IsAck():
				acks++
			case from == 0 && typ == wire.TypeCtrl && wire.Ctrl(u).Ctl() == wire.CtlProbe:
				probes++
				if acks == 0 || in.DSCP != 46 {
					t.Errorf("a Probe with DSCP %d after %d ACKs", in.DSCP, acks)
				}
			}
		}
		l.pour(1 << 20)
		l.pour(1 << 20)
		want := 1
		if noRTT {
			want = 0
		}
		if probes != want {
			t.Errorf("RTT unseen %v: %d Probes, want %d", noRTT, probes, want)
		}
		v := l.source().CC
		if v == nil || (v.BaseRTT < 20_000) == noRTT || v.BaseRTT < 900 {
			t.Errorf("RTT unseen %v: %+v: the path takes about 1.1 us, less what service_time rounds up", noRTT, v)
		}
		l.leaks()
	}
}

// TestContextSettles does transfers with each algorithm: at the end the context has nothing in flight, marked or waiting.
func TestContextSettles(t *testing.T) {
	for a := range cms.Names() {
		cc := testCC(cms.Algorithm(a))
		l := newLab(t, Config{CC: cc, LB: lb.Names()[a], AckGenTrigger: []int{0, -1}[a%2]})
		drop := 0
		l.script = func(from int, b []byte) (ft fate) {
			drop++
			ft.drop = drop%37 == 0
			return ft
		}
		for range 3 {
			l.pour(300_000)
			l.run(l.now() + 20_000_000)
			v := l.source().CC
			if v == nil || v.InFlight != 0 || v.Packets != 0 || v.Backlog != 0 || v.Marked != 0 || v.Algorithm != cms.Algorithm(a) {
				t.Errorf("%v: %+v", cms.Algorithm(a), v)
			}
		}
		l.leaks()
	}
}

// TestCreditOnTheWire has requests say how much credit their source wants, ACKs of RCCC alone repeat what was given, and Credit CPs carry
// it in between; NSCC's ACKs keep their own state (uet-cms.md 7).
func TestCreditOnTheWire(t *testing.T) {
	for _, a := range []cms.Algorithm{cms.AlgRCCC, cms.AlgNSCCRCCC, cms.AlgEQDS} {
		l := newLab(t, Config{CC: testCC(a)})
		var credits, requests int
		l.tap = func(now vt.Time, from int, b []byte) {
			in, u := uet(b)
			switch typ := in.Type(); {
			case from == 0 && typ.IsRequest():
				requests++
				if r, err := wire.ParseRequest(u); err != nil || typ != wire.TypeRUDCCReq || !r.HasCC() {
					t.Errorf("%v: request of type %v", a, typ)
				}
			case from == 1 && typ.IsAck():
				k, err := wire.ParseAck(u)
				if want := map[bool]wire.CCType{true: wire.CCTypeNSCC, false: wire.CCTypeCredit}[a == cms.AlgNSCCRCCC]; err != nil || k.CCType() != want {
					t.Errorf("%v: ACK with cc_type %v", a, k.CCType())
				}
			case from == 1 && typ == wire.TypeCtrl && wire.Ctrl(u).Ctl() == wire.CtlCredit:
				credits++
			}
		}
		l.pour(1 << 20)
		if grants := (1 << 20) / (4 * 4200); credits < grants/2 || requests < 256 {
			t.Errorf("%v: %d credits for %d requests, want about %d", a, credits, requests, grants)
		}
	}
}

// TestWaitsForNobody has a source that goes by credit talk to a peer that gives none: it gets through all the same.
func TestWaitsForNobody(t *testing.T) {
	l := newLab(t, Config{CC: testCC(cms.AlgRCCC)})
	l.script = func(from int, b []byte) (ft fate) {
		in, u := uet(b)
		ft.drop = from == 1 && in.Type() == wire.TypeCtrl && wire.Ctrl(u).Ctl() == wire.CtlCredit || from == 1 && in.Type().IsAck() && wire.Ack(u).HasCC() && wire.UnpackCredit(wire.Ack(u).CCState()).Credit > 40
		return ft
	}
	l.call(0, 1, func(now vt.Time) {
		dst := make([]byte, 100_000)
		if err := l.eps[0].Write(now, 1, fill(100_000, 1), l.eps[1].Register(dst), 0, 7); err != nil {
			t.Error(err)
		}
	})
	l.run(10_000_000_000)
	if len(l.got[0]) != 1 {
		t.Errorf("completions %+v", l.got[0])
	}
}

// TestSharedContext has two PDCs to one peer share a window: what one of them frees, the other may use.
func TestSharedContext(t *testing.T) {
	l := newLab(t, Config{CC: testCC(cms.AlgNSCC), LB: "reps"})
	n := 400_000
	dst := make([]byte, 2*n)
	key := l.eps[1].Register(dst)
	l.call(0, 1, func(now vt.Time) {
		for i := range 2 {
			op := Op{Kind: OpWrite, Peer: 1, Ctx: uint64(i), Buf: buf(fill(n, uint64(i))), Key: key, Offset: uint64(i * n)}
			if err := l.eps[0].Post(now, &op); err != nil {
				t.Error(err)
			}
		}
	})
	most := int64(0)
	l.tap = func(now vt.Time, from int, b []byte) {
		sum := int64(0)
		for _, p := range l.feps[0].PDCs(nil) {
			sum += p.InFlight
		}
		most = max(most, sum)
	}
	l.run(5_000_000)
	if len(l.got[0]) != 2 || l.got[0][0].Err != nil || l.got[0][1].Err != nil {
		t.Fatalf("completions %+v", l.got[0])
	}
	if wnd := l.source().CC.MaxWnd; most > wnd+4200 || most < wnd/2 {
		t.Errorf("%d bytes in flight together; the window is %d", most, wnd)
	}
}

// TestTrimsCount gives a packet up that is trimmed more often than Max_NACK_Retx_Cnt allows, where the window falls with each trim. With a
// fixed window nothing makes them stop, and they do not count.
func TestTrimsCount(t *testing.T) {
	for _, c := range []struct {
		cc   *cms.Config
		fail bool
	}{{nil, false}, {testCC(cms.AlgNSCC), true}, {testCC(cms.AlgSwift), false}} {
		s := newPeerStub(t, Config{CC: c.cc, MaxNackRetx: 3})
		s.post(func(now vt.Time) error { return s.eps[0].TagSend(now, 1, make([]byte, 100), 5, 1) })
		for range 6 {
			if len(s.lab.got[0]) == 0 {
				s.nack(wire.NackTrimmed, 0)
				s.pass(10_000)
			}
		}
		if failed := len(s.lab.got[0]) == 1 && s.lab.got[0][0].Err != nil; failed != c.fail || c.fail != (s.feps[0].C[NackExhausted] == 1) {
			t.Errorf("%+v: failed %v, want %v", c.cc, failed, c.fail)
		}
	}
}

// TestGoBackN is RoCE as it was: DCQCN, one path, in order. A lost packet takes all behind it back, and no rate for it; a mark does.
func TestGoBackN(t *testing.T) {
	for _, mark := range []bool{false, true} {
		l := orderedLab(t, Config{CC: testCC(cms.AlgDCQCN), LB: "ecmp", NoCRC: true})
		l.script = nth(20, fate{drop: true}, requests)
		evs := map[uint16]int{}
		l.tap = func(now vt.Time, from int, b []byte) {
			in, u := uet(b)
			if from == 0 && in.Type().IsRequest() {
				evs[in.EV]++
				if in.Type() != wire.TypeRODReq {
					t.Errorf("request of type %v", in.Type())
				}
			}
			if mark && from == 1 && in.Type().IsAck() {
				u[1] |= byte(wire.AckM)
			}
		}
		l.pour(500_000)
		v := l.source().CC
		if l.count(RetxGoBack) == 0 || l.count(RODDrop) == 0 || len(evs) != 1 {
			t.Errorf("%d sent again in order, %d dropped, %d entropy values", l.count(RetxGoBack), l.count(RODDrop), len(evs))
		}
		if slow := v.Rate < 400e9; slow != mark {
			t.Errorf("marks %v: the rate is %g", mark, v.Rate)
		}
	}
}

// TestF14_NoPenaltyForTheLastHop: the entropy value of a packet that was trimmed on the last link bears no penalty, since no path was
// at fault; that of one trimmed in the fabric does.
func TestF14_NoPenaltyForTheLastHop(t *testing.T) {
	for _, c := range []struct {
		code    wire.NackCode
		penalty bool
	}{{wire.NackTrimmedLastHop, false}, {wire.NackTrimmed, true}} {
		m := newMute(t, Config{LB: "bitmap"})
		m.post(10)
		m.nack(m.sentAt(0)[0]+1000, c.code, 0)
		m.run(m.nodes[0].Now() + 2000)
		var worst int64
		for _, p := range m.source().LB.Paths {
			worst = max(worst, p.Score)
		}
		if (worst > 0) != c.penalty {
			t.Errorf("%v: worst penalty of an entropy value %d", c.code, worst)
		}
	}
}
