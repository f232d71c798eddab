package fep

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// transfer writes n bytes from 0 to 1 and returns how long that took.
func (l *lab) transfer(n int) time.Duration {
	l.t.Helper()
	buf := make([]byte, n)
	key := l.eps[1].Register(make([]byte, n))
	l.got = [2][]Completion{}
	l.call(0, l.nodes[0].Now()+1, func(now vt.Time) {
		if err := l.eps[0].Write(now, 1, buf, key, 0, 1); err != nil {
			l.t.Error(err)
		}
	})
	for len(l.got[0]) == 0 && l.step(vt.Never) {
	}
	l.want(0, Completion{Kind: OpWrite, Ctx: 1, Len: n})
	return l.got[0][0].Acked.Sub(l.got[0][0].Posted)
}

// TestGoodput: with one packet in a hundred lost, in both directions and without trimming, an unordered PDC is nearly as fast
// as without, since every loss is inferred, that of a retransmission too. An ordered one is not.
func TestGoodput(t *testing.T) {
	const n = 64 << 20
	for _, ordered := range []bool{false, true} {
		var took [2]time.Duration
		for i := range took {
			l := newLab(t, Config{Window: 54_400}) // one round trip, not a packet more
			l.eps[0].SetOrdered(ordered)
			if i == 1 {
				r := rand.New(rand.NewPCG(5, 6))
				l.script = func(int, []byte) fate { return fate{drop: r.Float64() < 0.01} }
			}
			took[i] = l.transfer(n)
			if i == 1 {
				c := &l.feps[0].C
				t.Logf("ordered %v: %v without loss, %v with: %.1f %%; retransmissions %d (RTO %d, inferred %d, probed %d, back %d), duplicates %d, probes %d",
					ordered, took[0], took[1], 100*float64(took[0])/float64(took[1]), c[Retx], c[RetxRTO], c[RetxInfer], c[RetxProbe], c[RetxGoBack],
					l.feps[1].C[DupRx], c[TailProbes])
			}
		}
		if !ordered && float64(took[0]) < 0.97*float64(took[1]) {
			t.Errorf("%v with loss, %v without", took[1], took[0])
		}
	}
}

// TestInference: a lost packet is sent again long before the RTO, and pure reordering sends nothing again.
func TestInference(t *testing.T) {
	l := newLab(t, Config{RTOInit: 5 * time.Second, MaxAckDelay: 250 * time.Microsecond})
	l.exchange(10)
	l.script = nth(50, fate{drop: true}, requests)
	if d := l.transfer(200 * 4096); d > 100*time.Microsecond || l.count(Retx) != 1 || l.count(RTO) != 0 {
		t.Errorf("took %v, %d sent again, %d RTOs", d, l.count(Retx), l.count(RTO))
	}
	l = newLab(t, Config{})
	i := 0
	l.script = func(from int, _ []byte) (f fate) {
		if i++; i%7 == 0 {
			f.delay = 400
		}
		return f
	}
	if l.transfer(1000 * 4096); l.count(Retx) != 0 {
		t.Errorf("%d sent again under pure reordering", l.count(Retx))
	}
}

// TestRead: a short read comes back in the ACK, a long one as requests of the other direction, which begins at the same PSN.
func TestRead(t *testing.T) {
	l := newLab(t, Config{})
	mem := fill(50_000, 3)
	key := l.eps[1].Register(mem)
	read := func(n int) []byte {
		b := make([]byte, n)
		l.got = [2][]Completion{}
		l.call(0, max(l.nodes[0].Now(), l.nodes[1].Now())+1, func(now vt.Time) {
			if err := l.eps[0].Read(now, 1, b, key, 5, 9); err != nil {
				t.Error(err)
			}
		})
		l.run(max(l.nodes[0].Now(), l.nodes[1].Now()) + 5_000_000)
		l.want(0, Completion{Kind: OpRead, Ctx: 9, Len: n})
		if !bytes.Equal(b, mem[5:5+n]) {
			t.Errorf("%d bytes: contents differ", n)
		}
		return b
	}
	got := l.trace()
	read(16)
	read(9000)
	wantLines(t, *got, []string{
		"0 RUD_REQ psn 0 clr -1 SYN off 0 AR",
		"1 ACK_CC cack -1 off 1 req CLEAR RESPONSE_DATA",
		"0 CLEAR_COMMAND clear 0",
		"0 RUD_REQ psn 1 clr -1",
		"0 RUD_REQ psn 2 clr -2",
		"0 RUD_REQ psn 3 clr -3 AR",
		"1 RUD_REQ psn 0 clr -1",
		"1 ACK_CC cack 3 off 0 RESPONSE OK 0",
		"1 RUD_REQ psn 1 clr -2",
		"1 RUD_REQ psn 2 clr -3 AR",
		"0 ACK_CC cack 2 off 0 DEFAULT_RESPONSE OK 0",
	})
	read(0)
	for _, n := range []int{1, 17, 4096, 40_000} {
		l.script = nth(0, fate{drop: true}, func(from int, u []byte) bool { return from == 1 })
		read(n)
	}
	l.run(vt.Time(10 * time.Second))
	l.checkEmpty()
}

// TestOrdered: packets of an ordered PDC reach SES in the order of their PSNs whatever the link does to them; a gap is
// reported once, and everything from there is sent again with one entropy value.
func TestOrdered(t *testing.T) {
	l := newLab(t, Config{})
	l.eps[0].SetOrdered(true)
	l.exchange(10)
	evs := map[uint16]int{}
	var nacks, again int
	l.tap = func(_ vt.Time, from int, b []byte) {
		in, u := uet(b)
		if r, err := wire.ParseRequest(u); err == nil {
			evs[in.EV]++
			if r.RETX() {
				again++
			}
		}
		if n, err := wire.ParseNack(u); err == nil {
			nacks++
			if n.Code() != wire.NackRODOOO {
				t.Errorf("NACK %v", n.Code())
			}
		}
	}
	l.script = nth(50, fate{drop: true}, requests)
	l.exchange(200 * 4096)
	if nacks != 1 || again < 2 || len(evs) != 1 || l.count(DupRx) != 0 {
		t.Errorf("%d NACKs, %d sent again, %d entropy values, %d duplicates", nacks, again, len(evs), l.count(DupRx))
	}
	l.tap, l.script = nil, nil
	l.run(vt.Time(10 * time.Second))
	l.checkEmpty()
}

// TestIdempotent: RUDI opens no PDC, repeats what was lost, and ends in an error if nobody answers or the key is not for it.
func TestIdempotent(t *testing.T) {
	l := newLab(t, Config{})
	mem := make([]byte, 100_000)
	key := l.eps[1].RegisterIdempotent(mem)
	plain := l.eps[1].Register(make([]byte, 10))
	src, dst := fill(100_000, 8), make([]byte, 100_000)
	r := rand.New(rand.NewPCG(1, 1))
	l.script = func(int, []byte) fate { return fate{drop: r.Float64() < 0.2} }
	l.call(0, 1, func(now vt.Time) { _ = l.eps[0].WriteIdempotent(now, 1, src, key, 0, 1) })
	l.call(0, 50_000_000, func(now vt.Time) { _ = l.eps[0].ReadIdempotent(now, 1, dst, key, 0, 2) })
	l.call(0, 200_000_000, func(now vt.Time) { _ = l.eps[0].WriteIdempotent(now, 1, src[:10], plain, 0, 3) })
	l.run(vt.Time(time.Second))
	l.want(0, Completion{Kind: OpWrite, Ctx: 1, Len: 100_000}, Completion{Kind: OpRead, Ctx: 2, Len: 100_000},
		Completion{Kind: OpWrite, Ctx: 3, Len: 10, Err: &ResponseError{}})
	var re *ResponseError
	if errors.As(l.got[0][2].Err, &re); re == nil || re.Code != wire.RCOpViolation {
		t.Errorf("write to an ordinary key: %v", l.got[0][2].Err)
	}
	if !bytes.Equal(src, mem) || !bytes.Equal(src, dst) {
		t.Error("contents differ")
	}
	if l.count(PDCOpened) != 0 || l.count(AckTx) != 0 || l.count(RUDIRetx) == 0 {
		t.Errorf("%d PDCs, %d ACKs, %d retransmissions", l.count(PDCOpened), l.count(AckTx), l.count(RUDIRetx))
	}
	l.script = func(int, []byte) fate { return fate{drop: true} }
	l.got = [2][]Completion{}
	l.call(0, l.nodes[0].Now()+1, func(now vt.Time) { _ = l.eps[0].ReadIdempotent(now, 1, dst, key, 0, 4) })
	l.run(vt.Time(2 * time.Second))
	l.want(0, Completion{Kind: OpRead, Ctx: 4, Len: 100_000, Err: &PDCError{}})
	l.checkEmpty()
}

// TestDatagram: UUD is one packet, taken or lost.
func TestDatagram(t *testing.T) {
	l := newLab(t, Config{})
	dst := make([]byte, 100)
	l.call(1, 1, func(now vt.Time) { _ = l.eps[1].Recv(now, dst, 7) })
	l.call(0, 2, func(now vt.Time) {
		for i := range uint64(2) {
			if err := l.eps[0].Datagram(now, 1, fill(100, 4), i); err != nil {
				t.Error(err)
			}
		}
		if err := l.eps[0].Datagram(now, 1, make([]byte, 4097), 9); !errors.Is(err, ErrDatagram) {
			t.Errorf("two packets: %v", err)
		}
	})
	l.run(vt.Time(time.Second))
	l.want(0, Completion{Kind: OpDatagram, Len: 100}, Completion{Kind: OpDatagram, Ctx: 1, Len: 100})
	l.want(1, Completion{Kind: OpRecv, Ctx: 7, Len: 100})
	if !bytes.Equal(dst, fill(100, 4)) || l.count(UUDDrop) != 1 || l.count(UUDTx) != 2 || l.count(PDCOpened) != 0 {
		t.Errorf("%d sent, %d dropped", l.count(UUDTx), l.count(UUDDrop))
	}
	l.checkEmpty()
}

// TestUnmanagedDSCP: data of RUDI and UUD, which no window holds back, has a code point of its own, what is sent again too; data of
// PDCs has another.
func TestUnmanagedDSCP(t *testing.T) {
	l := newLab(t, Config{})
	key := l.eps[1].RegisterIdempotent(make([]byte, 10_000))
	seen := map[uint8]int{}
	l.tap = func(_ vt.Time, from int, b []byte) {
		if in, _ := uet(b); from == 0 {
			seen[in.DSCP]++
		}
	}
	drop := true
	l.script = func(int, []byte) fate { defer func() { drop = false }(); return fate{drop: drop} }
	l.call(0, 1, func(now vt.Time) { _ = l.eps[0].WriteIdempotent(now, 1, make([]byte, 10_000), key, 0, 1) })
	l.call(0, 2, func(now vt.Time) { _ = l.eps[0].Datagram(now, 1, make([]byte, 100), 2) })
	l.run(vt.Time(time.Second))
	if seen[8] != 5 || len(seen) != 1 {
		t.Errorf("DSCPs %v, want 8 five times: three packets, one of them twice, and a datagram", seen)
	}
	clear(seen)
	l.exchange(5000)
	if seen[10] != 2 || seen[8] != 0 {
		t.Errorf("DSCPs %v, want 10 twice", seen)
	}
}

// TestSlowSES: what comes again while SES works is answered RCVD_SES_PROCG, and CACK waits for the response.
func TestSlowSES(t *testing.T) {
	s := newStub(t, Config{AnswerDelay: 50 * time.Microsecond})
	s.recv(1, 10)
	r := req{flags: wire.ReqSYN, clear: -1, mid: 1, op: wire.OpTaggedSend, tag: 1, total: 10, n: 10}
	s.request(r)
	s.expect()
	r.flags |= wire.ReqRETX
	s.request(r)
	s.expect("1 NACK RCVD_SES_PROCG psn 0")
	s.now += 60_000
	s.run(s.now)
	s.expect("1 ACK_CC cack 0 off 0 RESPONSE OK 10")
}

// secure is a target that demands a start of its own.
type secure struct {
	want     wire.PSN
	expected []wire.PSN
}

func (s *secure) Start(netip.Addr, uint32) (wire.PSN, bool) { return 0, false }
func (s *secure) Accept(_ netip.Addr, _ uint32, start wire.PSN) (wire.PSN, bool) {
	return s.want, start == s.want
}
func (s *secure) Closed(_ netip.Addr, _ uint32, _, last wire.PSN) wire.PSN { return last + 1 }
func (s *secure) Expected(_ netip.Addr, _ uint32, psn wire.PSN)            { s.expected = append(s.expected, psn) }

// TestNewStart: an initiator moves all its PSNs to the start that the target demands, and is told where the next one begins.
func TestNewStart(t *testing.T) {
	sec := &secure{want: 0xFFFFFFFE}
	l := newLab(t, Config{Secure: sec})
	got := l.trace()
	l.exchange(3 * 4096)
	l.run(vt.Time(10 * time.Second))
	if l.count(PDCOpened) != 2 || l.count(NewPDCTimeout) != 0 || l.count(RetxRebase) == 0 {
		t.Errorf("%d PDCs, %d retransmissions: %q", l.count(PDCOpened), l.count(RetxRebase), *got)
	}
	if e := sec.expected; len(e) != 2 || e[0] != sec.want || e[1] != sec.want+4 {
		t.Errorf("expected starts %v", e)
	}
	l.checkEmpty()
}

// TestTargetCloses: a target that wants its place back asks for it; one that gets no answer takes it.
func TestTargetCloses(t *testing.T) {
	for _, silent := range []bool{false, true} {
		l := newLab(t, Config{TargetIdle: time.Second, IdleClose: time.Hour})
		l.exchange(10)
		got := l.trace()
		if silent {
			l.script = func(from int, _ []byte) fate { return fate{drop: from == 0} }
		}
		l.run(vt.Time(1500 * time.Millisecond))
		l.script = nil
		if l.target() != nil || l.source() != nil {
			t.Errorf("silent %v: %q; left %v, %v", silent, *got, l.source(), l.target())
		}
		if n := l.count(CloseTimeout); silent && n != 2 || !silent && n != 0 { // one for the Request, one for the Command
			t.Errorf("silent %v: %d timeouts", silent, n)
		}
		l.exchange(10)
	}
}

// TestKeepalive: a PDC whose peer has gone is found out although nothing is sent on it.
func TestKeepalive(t *testing.T) {
	l := newLab(t, Config{Keepalive: 10 * time.Millisecond, IdleClose: time.Hour, TargetIdle: time.Hour})
	l.exchange(10)
	l.run(vt.Time(1200 * time.Millisecond))
	if l.source() == nil || l.count(PDCFailed) != 0 {
		t.Fatal("a PDC with a living peer is gone")
	}
	l.script = func(from int, _ []byte) fate { return fate{drop: from == 1} }
	l.run(vt.Time(1400 * time.Millisecond))
	if l.source() != nil || l.count(PDCFailed) != 1 {
		t.Errorf("%d failed", l.count(PDCFailed))
	}
}

// TestMemory counts what 10 000 idle PDCs cost.
func TestMemory(t *testing.T) {
	const n = 10_000
	f, m := idlePDCs(t, n)
	t.Logf("%d bytes for each of %d idle PDCs", m/n, n)
	if m/n > 1024 {
		t.Errorf("%d bytes for an idle PDC, want at most 1024", m/n)
	}
	if got := f.C[PDCsOpen]; got != n {
		t.Errorf("%d PDCs", got)
	}
}

// TestDeadLinkWithoutPDC: operations of the modes without PDCs end in errors too when the link is down.
func TestDeadLinkWithoutPDC(t *testing.T) {
	l := newLab(t, Config{})
	key := l.eps[1].RegisterIdempotent(make([]byte, 10))
	l.nodes[0].Change(1, func(now vt.Time) { l.nodes[0].Ports[0].SetImpair(now, link.Impair{Down: true}) })
	l.call(0, 2, func(now vt.Time) {
		_ = l.eps[0].WriteIdempotent(now, 1, make([]byte, 10), key, 0, 1)
		_ = l.eps[0].Datagram(now, 1, make([]byte, 10), 2)
	})
	l.run(vt.Time(time.Second))
	l.want(0, Completion{Kind: OpWrite, Ctx: 1, Len: 10, Err: &PDCError{}}, Completion{Kind: OpDatagram, Ctx: 2, Len: 10, Err: &PDCError{}})
	l.checkEmpty()
}
