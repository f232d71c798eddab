package cms

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/uetlab/uetlab/internal/vt"
)

func credits(alg Algorithm) Config {
	cfg := round()
	cfg.Algorithm = alg
	return cfg
}

func TestModularCounters(t *testing.T) {
	for _, x := range []struct {
		a, b uint32
		want int32
	}{{1, 0, 1}, {0, 1, -1}, {0, 0xFFFFFF, 1}, {0xFFFFFF, 0, -1}, {5, 0xFFFFF0, 21}, {0x7FFFFF, 0, 1<<23 - 1}, {0x800000, 0, -1 << 23}} {
		if got := ahead(x.a, x.b); got != x.want {
			t.Errorf("%#x ahead of %#x: %d, want %d", x.a, x.b, got, x.want)
		}
	}
	var f Flow
	f.rcvd = 0xFFFFFE
	if n := f.Newly(2); n != 4*256 {
		t.Errorf("across the wrap: %d", n)
	}
	if n := f.Newly(1); n != 0 || f.rcvd != 2 {
		t.Errorf("an older ACK: %d, %d", n, f.rcvd)
	}
	if RcvdBytes(0) != 0 || RcvdBytes(1) != 1 || RcvdBytes(256) != 1 || RcvdBytes(257) != 2 || RcvdBytes(1<<32) != 0 {
		t.Error("Rcvd_Bytes")
	}
}

// The source starts with MaxWnd = 225 000 B of its own; the first feedback voids what is left.
func TestSpeculation(t *testing.T) {
	b := open(t, credits(AlgRCCC))
	c := b.c
	c.OnNewData(&b.f, 1_000_000)
	b.send(t0, 100_000)
	if c.rccc.credit != 125_000 || !c.CanSend(t0, 4000) {
		t.Errorf("credit %d", c.rccc.credit)
	}
	// min(900 000, 225 000) - 125 000 = 100 000 B = 390.6 units
	if got := c.CreditTarget(1); got != 391 {
		t.Errorf("target %d, want 391", got)
	}
	b.ack(t0+20*us, 4000, 0, false)
	if c.rccc.credit != 0 || c.CanSend(t0, 4000) || c.rccc.speculating {
		t.Errorf("credit %d after feedback", c.rccc.credit)
	}
	// 225 000 B = 878.9 units are wanted now; three sources of the port share it: 75 000 B = 292.97.
	if a, b := c.CreditTarget(1), c.CreditTarget(3); a != 879 || b != 293 {
		t.Errorf("targets %d, %d, want 879, 293", a, b)
	}
	c.OnCredit(t0+20*us, 64) // 16 384 B
	c.OnCredit(t0+21*us, 60) // overtaken
	if c.rccc.credit != 16_384 || c.rccc.pull != 64 {
		t.Errorf("credit %d, pull %d", c.rccc.credit, c.rccc.pull)
	}
	b.send(t0+21*us, 20_000) // the last packet overdraws it
	if c.rccc.credit != -3616 || c.CanSend(t0+21*us, 4000) {
		t.Errorf("credit %d", c.rccc.credit)
	}
	// 225 000 + 3616 = 228 616 B = 893.03 units beyond 64
	if got := c.CreditTarget(1); got != 64+894 {
		t.Errorf("target %d, want 958", got)
	}
	c.OnCredit(t0+30*us, 64+2000) // 512 000 B: no more than MaxWnd may be held
	if c.rccc.credit != 225_000 {
		t.Errorf("credit %d", c.rccc.credit)
	}
	// A grant that is the first feedback is not lost with the speculative credit; a used-up one stays overdrawn.
	d := open(t, credits(AlgRCCC))
	d.c.OnCredit(t0, 4)
	if d.c.rccc.credit != 1024 {
		t.Errorf("credit %d, want the grant", d.c.rccc.credit)
	}
	// Little data: at least a packet is asked for while speculating; none is left: the target falls behind the credit by what is held.
	e := open(t, credits(AlgRCCC))
	e.c.OnNewData(&e.f, 5000)
	e.c.OnSend(t0, &e.f, 4000, false)
	if got := e.c.CreditTarget(1); got != 16 { // 4000/256 = 15.6
		t.Errorf("target %d, want 16", got)
	}
	e.c.OnSend(t0, &e.f, 1000, false)
	if got := ahead(e.c.CreditTarget(1), 0); got != -859 { // -220 000/256 = -859.4
		t.Errorf("target %d, want -859", got)
	}
}

func TestCreditTargetWraps(t *testing.T) {
	b := open(t, credits(AlgRCCC))
	b.c.rccc.heard(t0)
	b.c.rccc.pull = 0xFFFFF0
	b.c.OnNewData(&b.f, 25_600)
	if got := b.c.CreditTarget(1); got != 100-16 {
		t.Errorf("target %#x", got)
	}
	b.c.OnCredit(t0, 84)
	if b.c.rccc.credit != 25_600 {
		t.Errorf("credit %d", b.c.rccc.credit)
	}
}

// With NSCC both have to agree, and the target is no more than the window and a packet: 20 000 + 4000 = 93.75 units.
func TestJoint(t *testing.T) {
	b := open(t, credits(AlgNSCCRCCC))
	c := b.c
	c.OnNewData(&b.f, 1_000_000)
	c.cwnd = 20_000
	c.rccc.heard(t0)
	if c.CanSend(t0, 4000) {
		t.Error("no credit")
	}
	if got := c.CreditTarget(1); got != 94 {
		t.Errorf("target %d, want 94", got)
	}
	c.OnCredit(t0, 200)
	if !c.CanSend(t0, 4000) {
		t.Error("credit and window")
	}
	b.send(t0, 20_000)
	if c.CanSend(t0, 4000) || c.rccc.credit != 31_200 {
		t.Error("the window is full")
	}
}

// Credit Requests: at once after a loss, then after 1, 2, 4 base RTT; without a loss after the credit timer of 4 base RTT.
func TestCreditRequest(t *testing.T) {
	b := open(t, credits(AlgRCCC))
	c := b.c
	at := func(now, want vt.Time) {
		t.Helper()
		if got := c.CreditRequestAt(now); got != want {
			t.Errorf("at %v: request at %v, want %v", now, got, want)
		}
	}
	at(t0, vt.Never)
	c.OnNewData(&b.f, 12_000)
	at(t0, vt.Never) // it has credit
	b.send(t0, 8000)
	b.ack(t0+20*us, 4000, 0, false)
	at(t0+20*us, t0+68*us)
	c.OnCreditRequest(t0 + 68*us)
	at(t0+68*us, t0+164*us)
	c.OnCredit(t0+70*us, 16)
	c.OnSend(t0+70*us, &b.f, 4000, false)
	at(t0+70*us, vt.Never) // 96 B of credit are left: it may send
	c.OnNewData(&b.f, 8000)
	b.send(t0+71*us, 4000)
	at(t0+71*us, t0+118*us) // it was heard at 70
}

func TestCreditRequestAfterLoss(t *testing.T) {
	b := open(t, credits(AlgEQDS)) // speculates with 1 BDP
	c := b.c
	if c.rccc.credit != 150_000 {
		t.Errorf("credit %d", c.rccc.credit)
	}
	c.OnNewData(&b.f, 8000)
	b.send(t0, 8000)
	c.OnNack(t0+20*us, &b.f, &Feedback{}, 4000, TrimmedLastHop)
	want := []vt.Time{t0 + 20*us, t0 + 32*us, t0 + 56*us}
	for _, w := range want {
		if got := c.CreditRequestAt(t0 + 20*us); got != w {
			t.Errorf("request at %v, want %v", got, w)
		}
		c.OnCreditRequest(w)
	}
	// The retransmission is what credit is wanted for: 4000 B.
	if got := c.CreditTarget(1); got != 16 {
		t.Errorf("target %d", got)
	}
	c.OnCredit(t0+60*us, 16)
	if got := c.CreditRequestAt(t0 + 60*us); got != vt.Never {
		t.Errorf("request at %v with credit", got)
	}
	c.OnSend(t0+60*us, &b.f, 4000, true) // retransmissions use credit up like others: 96 B are left
	if c.rccc.credit != 96 || c.rtxBacklog != 0 {
		t.Errorf("credit %d, to be sent again %d", c.rccc.credit, c.rtxBacklog)
	}
}

func pacer(t *testing.T, cfg Config) *Pacer[int] {
	t.Helper()
	if err := cfg.Resolve(); err != nil {
		t.Fatal(err)
	}
	p, err := NewPacer[int](&cfg, rand.New(rand.NewPCG(1, 1)))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A grant is 4 MTU = 16 000 B = 62.5 units: 62 and 63 in turn. 62 are 15 872 B; at 99 Gb/s that takes 1282.586 ns; 63: 1303.273 ns.
// Three sources get their turn in order.
func TestPacerRoundRobin(t *testing.T) {
	cfg := credits(AlgRCCC)
	cfg.RCCC.NoSlow = true
	p := pacer(t, cfg)
	var s [3]Source[int]
	for i := range s {
		s[i].V = i
		p.Open(t0, &s[i])
	}
	if p.Next(t0) != vt.Never || p.Grant(t0) != nil {
		t.Error("nobody asked")
	}
	p.OnTarget(t0, &s[0], 100)
	p.OnTarget(t0, &s[1], 62)
	p.OnTarget(t0, &s[2], 200)
	p.OnTarget(t0, &s[0], 90) // older: changes nothing
	type grant struct {
		at     vt.Time
		who    int
		credit uint32
	}
	// 0: 62 of 100; 1: all 62; 2: 62; 0: the other 38 (9728 B, 786.101 ns); 2: 63; 2: 62; 2: the last 13.
	want := []grant{{t0, 0, 62}, {t0 + 1283, 1, 62}, {t0 + 2566, 2, 62}, {t0 + 3848, 0, 100}, {t0 + 4634, 2, 125}, {t0 + 5938, 2, 187},
		{t0 + 7220, 2, 200}}
	now := t0
	for i, w := range want {
		now = p.Next(now)
		if i > 0 && p.Grant(now-1) != nil {
			t.Error("granted too early")
		}
		g := p.Grant(now)
		for k := range s {
			s[k].heard = now // all react
		}
		if got := (grant{now, g.V, g.Credit()}); got.who != w.who || got.credit != w.credit || got.at < w.at-2 || got.at > w.at+2 {
			t.Errorf("grant %d: %+v, want %+v", i, got, w)
		}
	}
	if p.Next(now) != vt.Never {
		t.Error("all are content")
	}
	p.Close(&s[1])
}

// Sources that want nothing are given credit unasked until they hold a window, 225 000 B = 878.9 units, but only if nobody asks.
func TestSlowCredit(t *testing.T) {
	p := pacer(t, credits(AlgRCCC))
	var a, b Source[int]
	p.Open(t0, &a)
	p.Open(t0, &b)
	p.OnTarget(t0, &b, 100)
	now := t0
	n := 0
	for p.Next(now) != vt.Never && n < 100 {
		now = p.Next(now)
		s := p.Grant(now)
		a.heard, b.heard = now, now
		if n++; n <= 2 && s != &b {
			t.Error("who asks comes first")
		}
	}
	// a: 15 grants of 62.5 = 937 are the first at 878.9 or more; b: 62 and 38 that it asked for, then 15 grants: 938.
	if a.Credit() != 937 || b.Credit() != 100+938 {
		t.Errorf("%d and %d", a.Credit(), b.Credit())
	}
	// a uses 100 units, and says so by its target, which stays behind its credit: it is filled up.
	p.OnTarget(now, &a, 100)
	if now = p.Next(now); p.Grant(now) != &a || a.Credit() != 1000 || p.Grant(now) != nil {
		t.Errorf("%d", a.Credit())
	}
	// 900 units are held: no more
	if p.Next(now) != vt.Never {
		t.Error("more than a window of credit")
	}
	// What it asks for is met by what it holds, and then the pacer owes it only the difference.
	p.OnTarget(now, &a, 1010)
	if now = p.Next(now); p.Grant(now) != &a || a.Credit() != 1010 {
		t.Errorf("%d", a.Credit())
	}
	p.Close(&a)
	p.Close(&b)
	if p.Next(now) != vt.Never {
		t.Error("closed sources are in a list")
	}
}

func TestPacerDemand(t *testing.T) {
	cfg := credits(AlgRCCC)
	cfg.RCCC.NoSlow = true
	p := pacer(t, cfg)
	var s Source[int]
	s.highest, s.pull = 0xFFFFF0, 0xFFFFF0
	p.Open(t0, &s)
	p.OnTarget(t0, &s, 46) // 62 beyond the wrap
	if p.Grant(t0) != &s || s.Credit() != 46 || p.Grant(t0+us*2) != nil {
		t.Errorf("across the wrap: %d", s.Credit())
	}
	// Whatever a source asks for, twice the window is all it can be short of: 450 000 B = 1757 units.
	p.OnTarget(t0, &s, 46+1<<22)
	if s.demand() != 1757 {
		t.Errorf("demand %d", s.demand())
	}
	for range 3 {
		p.Grant(p.Next(t0 + 10*us))
	}
	// It does not react: 4 base RTT after the last grant it is forgotten, and remembered when it asks.
	now := s.granted + 48*us
	p.Grant(now)
	now = s.granted + 48*us + 1
	if p.Grant(now) != nil || s.demand() != 0 || p.Next(now) != vt.Never {
		t.Errorf("demand %d of a silent source", s.demand())
	}
	had := s.Credit()
	p.OnCreditRequest(now, &s, had-5) // its credit was lost on the way
	if p.Grant(p.Next(now)) != &s || s.Credit() != had || p.Next(now) != vt.Never {
		t.Error("a request is answered with the credit of before")
	}
	// That took 1 KiB of time: 82.747 ns
	p.OnTrim(now, &s, 4000) // 16 units
	if at := p.Next(now); at < now+82 || at > now+84 || p.Grant(at) != &s || s.Credit() != (had+16)&mask24 {
		t.Errorf("after a trim: at %v of %v, %d", at, now, s.Credit())
	}
}

func TestOversubscription(t *testing.T) {
	cfg := credits(AlgRCCC)
	cfg.RCCC.Oversubs = true
	p := pacer(t, cfg)
	now := t0
	rounds := func(n int, marked, trims int) {
		for range n {
			for i := range 10 {
				p.OnArrival(now, i < marked, i < trims)
			}
			now += 24 * us // longer than any round
			p.OnArrival(now, false, false)
			p.over.packets = 0
		}
	}
	near := func(want float64) {
		t.Helper()
		if d := p.over.rate - want; d > 1e-9 || d < -1e-9 {
			t.Errorf("share %g, want %g", p.over.rate, want)
		}
	}
	rounds(1, 0, 3) // three trims of ten: - 0.3
	near(0.7)
	rounds(1, 10, 0) // g = 0.5: x (1 - 0.5 x 0.2)
	near(0.63)
	rounds(1, 0, 0) // g = 0.25: + 0.01, and twice as much with every clean round
	near(0.64)
	rounds(2, 0, 0)
	near(0.70)
	rounds(10, 0, 0)
	near(1)
	rounds(10, 0, 10)
	near(0.01)
	if s := p.Share(); s != 0.99*0.01 {
		t.Errorf("share %g", s)
	}
	p.Limit(0.5)
	p.over.rate = 1
	if s := p.Share(); s != 0.495 {
		t.Errorf("share %g", s)
	}
	if _, err := NewPacer[int](p.cfg, nil); err == nil {
		t.Error("no generator")
	}
}

func TestPend(t *testing.T) {
	for _, x := range []struct {
		used, size int64
		pend       uint8
	}{{0, 100, 0}, {24, 100, 0}, {25, 100, 1}, {30, 100, 25}, {40, 100, 76}, {49, 100, 121}, {50, 100, 127}, {120, 100, 127}, {0, 0, 127}, {1 << 28, 1 << 30, 1}, {1 << 40, 1 << 42, 1}} {
		if p := Pend(x.used, x.size); p != x.pend {
			t.Errorf("%d of %d: %d, want %d", x.used, x.size, p, x.pend)
		}
	}
}

func TestCNP(t *testing.T) {
	var c CNP
	for _, x := range []struct {
		at   vt.Time
		want bool
	}{{0, true}, {49_999, false}, {50_000, true}, {60_000, false}, {100_000, true}} {
		if c.OnMark(x.at, 50*time.Microsecond) != x.want {
			t.Errorf("at %v: want %v", x.at, x.want)
		}
	}
}
