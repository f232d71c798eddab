package cms

import (
	"math"
	"testing"
	"time"

	"github.com/uetlab/uetlab/internal/vt"
)

// The network of most tests has round figures. 100 Gb/s x 12 us: BDP = 150 000 B = base_BDP, so a = 1. MaxWnd = 1.5 BDP =
// 225 000 B. Trimming: target = 9 us, b = 9/12 = 0.75. MTU = MSS = 4000 B:
//
//	alpha    = 4 a b MTU / target = 4 x 1 x 0.75 x 4000 / 9 us = 12 000 B / 9 us = 1.3333 B/ns
//	fi       = 5 MTU a = 20 000 B          fi_scale = 0.25 a = 0.25
//	eta      = 0.15 MTU a = 600 B          adjust after more than 8 MTU = 32 000 B, or after 12 us
//	QA gate  = 225 000 >> 3 = 28 125 B     QA period = 12 + 9 = 21 us
func round() Config {
	return Config{Net: Network{Rate: 100e9, BaseRTT: 12 * time.Microsecond, MTU: 4000, Trimming: true}}
}

const (
	us = vt.Time(1000)
	t0 = vt.Time(1000_000)
)

// bench is a context with one flow, and the packets in flight of it.
type bench struct {
	t *testing.T
	c *Context
	f Flow
}

func open(t *testing.T, cfg Config) *bench {
	t.Helper()
	if err := cfg.Resolve(); err != nil {
		t.Fatal(err)
	}
	return &bench{t: t, c: Open(t0, &cfg, 0)}
}

// with sets the window, and fills the flight with n bytes.
func with(t *testing.T, cfg Config, cwnd float64, n int) *bench {
	b := open(t, cfg)
	b.c.cwnd = cwnd
	b.send(t0, n)
	return b
}

func (b *bench) send(now vt.Time, n int) {
	for ; n > 0; n -= 4000 {
		b.c.OnSend(now, &b.f, min(n, 4000), false)
	}
}

// ack acknowledges n bytes; delay is what the RTT has beyond the base RTT of 12 us.
func (b *bench) ack(now vt.Time, n int64, delay vt.Time, ecn bool) {
	b.c.OnAck(now, &b.f, &Feedback{Newly: n, Packets: int32(n / 4000), Named: true, Sent: now - 12*us - delay, ECN: ecn})
}

func (b *bench) cwnd(want float64) {
	b.t.Helper()
	if math.Abs(b.c.cwnd-want) > 1e-6*want {
		b.t.Errorf("cwnd %.3f, want %.3f (last: %v)", b.c.cwnd, want, b.c.last)
	}
}

func (b *bench) last(want Decision) {
	b.t.Helper()
	if b.c.last != want {
		b.t.Errorf("decision %q, want %q", b.c.last, want)
	}
}

// TestWorkedValues is the table of uet-cms.md 2.2.
func TestWorkedValues(t *testing.T) {
	for _, w := range []struct {
		name                   string
		rate                   int64
		rtt                    time.Duration
		trim                   bool
		bdp, wnd, target, a, b float64 // bytes, bytes, ns
		pi, fi, eta            float64
	}{
		{"100G leaf-spine", 100e9, 9348, true, 116.9e3, 175.3e3, 7010, 0.779, 0.584, 7.4e3, 15.9e3, 478},
		{"100G 3-tier", 100e9, 14020, true, 175.3e3, 262.9e3, 10500, 1.169, 0.876, 16.7e3, 23.9e3, 716},
		{"800G 3-tier", 800e9, 12250, true, 1225e3, 1838e3, 9190, 8.17, 0.766, 102e3, 167e3, 5000},
		{"200 Mb/s", 200e6, 2 * time.Millisecond, true, 50e3, 75e3, 1.5e6, 0.333, 125, 682e3, 6.8e3, 205},
	} {
		c := Config{Net: Network{Rate: w.rate, BaseRTT: w.rtt, MTU: 4150, MSS: 4086, Trimming: w.trim}}
		if err := c.Resolve(); err != nil {
			t.Fatal(w.name, err)
		}
		p := &c.NSCC
		for _, v := range []struct {
			name      string
			got, want float64
		}{
			{"BDP", c.Net.BDP(), w.bdp}, {"MaxWnd", float64(p.MaxWnd), w.wnd}, {"target", float64(p.TargetQDelay), w.target},
			{"a", p.ScalingA, w.a}, {"b", p.ScalingB, w.b}, {"PI", p.Alpha * p.TargetQDelay.Seconds(), w.pi},
			{"fi", p.FI, w.fi}, {"eta", p.Eta, w.eta},
		} {
			if math.Abs(v.got/v.want-1) > 0.006 { // the table has three digits
				t.Errorf("%s: %s = %g, want %g", w.name, v.name, v.got, v.want)
			}
		}
	}
	// 15 us + 6 x 120 350 B x 8 / 100 Gb/s = 15 + 57.77 us (uet-cms.md 10 says 72.8)
	n := Network{Rate: 100e9}
	if d := n.HtsimRTO(120_350); d != 72768*time.Nanosecond {
		t.Errorf("htsim's RTO %v", d)
	}
	// Slowed down 500 times with the reference slowed down alike, the gains per RTT are those of the fast network.
	slow := Config{Net: Network{Rate: 200e6, BaseRTT: 9348 * 500, MTU: 4150, MSS: 4086, Trimming: true}, NSCC: NSCC{RefScale: 500}}
	if err := slow.Resolve(); err != nil {
		t.Fatal(err)
	}
	if p := &slow.NSCC; math.Abs(p.ScalingA-0.779) > 1e-9 || math.Abs(p.ScalingB-0.58425) > 1e-4 || p.FastDelay != 500*time.Microsecond {
		t.Errorf("slow network: a %g, b %g, %v", p.ScalingA, p.ScalingB, p.FastDelay)
	}
	if p := (Config{Net: Network{Rate: 100e9, BaseRTT: 12000, MTU: 4000}}); p.Resolve() != nil || p.NSCC.TargetQDelay != 12000 ||
		p.NSCC.QAThreshold != 48000 {
		t.Errorf("without trimming: target %v, qa_threshold %v: want 1 and 4 base RTT", p.NSCC.TargetQDelay, p.NSCC.QAThreshold)
	}
}

// No mark, delay 10 us >= 9 us: fair increase. An ACK of 4000 B adds fi x 4000 = 8e7. After nine, 36 000 B > 32 000 B: applied,
// 9 x 8e7 / 100 000 = 7200 B.
func TestFairIncrease(t *testing.T) {
	b := with(t, round(), 100_000, 64_000)
	for range 8 {
		b.ack(t0+10*us, 4000, 10*us, false)
	}
	b.last(DecFair)
	b.cwnd(100_000)
	b.ack(t0+10*us, 4000, 10*us, false)
	b.cwnd(107_200)
	if b.c.nscc.inc != 0 || b.c.nscc.received != 0 {
		t.Error("the increase was applied and not forgotten")
	}
	// Additive: a window of bytes gives fi = 20 000 B, however large the window. 20 ACKs of 5000 B at 100 000: applied after 7
	// (35 000 B) and 14; the window grows meanwhile, so a little less than 20 000 x 70 000/100 000 = 14 000.
	c := with(t, round(), 100_000, 120_000)
	for range 20 {
		c.ack(t0+10*us, 5000, 9*us, false) // exactly at target: still the fair case
	}
	// 1e8 x 7 / 100 000 = 7000; 7e8 / 107 000 = 6542.056
	c.cwnd(113542.0561)
}

// No mark, delay 3 us < 9 us: an ACK of 4000 B adds alpha x 4000 x 6 us = 1.3333 B/ns x 4000 x 6000 = 3.2e7; nine: 2.88e8 / 1e5 = 2880.
func TestProportionalIncrease(t *testing.T) {
	b := with(t, round(), 100_000, 64_000)
	for range 9 {
		b.ack(t0+10*us, 4000, 3*us, false)
	}
	b.last(DecProp)
	b.cwnd(102_880)
	// Without any delay the gain is full, alpha x 4000 x 9 us = 4.8e7, until a whole window was so: 9 x 4.8e7 / 1e5 = 4320.
	c := with(t, round(), 100_000, 64_000)
	for range 9 {
		c.ack(t0+10*us, 4000, 0, false)
	}
	c.last(DecProp)
	c.cwnd(104_320)
}

// Delay below 1 us: after more than a window (20 000 B) of such bytes every byte adds 0.25: the sixth ACK is at 24 000 B, + 1000.
func TestFastIncrease(t *testing.T) {
	b := with(t, round(), 20_000, 40_000)
	for range 5 {
		b.ack(t0+10*us, 4000, us-1, false)
	}
	b.last(DecProp)
	b.cwnd(20_000)
	b.ack(t0+10*us, 4000, us-1, false)
	b.last(DecFast)
	b.cwnd(21_000)
	b.ack(t0+10*us, 4000, 0, false) // at 28 000 B received
	b.cwnd(22_000)
	b.ack(t0+10*us, 4000, us, false) // 1 us is a delay
	b.last(DecProp)
	b.ack(t0+10*us, 4000, 0, false)
	b.last(DecProp)
	if b.c.nscc.idleBytes != 4000 {
		t.Errorf("counts %d bytes, want 4000 since the delay", b.c.nscc.idleBytes)
	}
	c := with(t, round(), 224_500, 40_000)
	c.c.nscc.increase = true
	c.ack(t0, 4000, 0, false)
	c.cwnd(225_000) // + 1000 would be beyond MaxWnd
}

// Eta = 600 B is added once per 12 us whatever the ACKs say; here they are marked without delay, which alone leaves the window alone.
func TestEtaAndHold(t *testing.T) {
	b := with(t, round(), 100_000, 64_000)
	b.ack(t0+11*us, 4000, 2*us, true)
	b.last(DecHold)
	b.cwnd(100_000)
	b.ack(t0+12*us, 4000, 2*us, true)
	b.cwnd(100_600)
	b.ack(t0+23*us, 4000, 2*us, true)
	b.cwnd(100_600)
	b.ack(t0+24*us, 4000, 2*us, true)
	b.cwnd(101_200)
}

// Mark and delay 18 us >= 9 us: the first sample is the average: factor 1 - 0.8 (18 - 9)/18 = 0.6. Once per base RTT.
func TestMultiplicativeDecrease(t *testing.T) {
	cfg := round()
	cfg.NSCC.Eta = -1 // none, to see the decrease alone
	b := with(t, cfg, 100_000, 64_000)
	b.ack(t0+12*us, 4000, 18*us, true) // 12 us since the start: not more than a base RTT
	b.last(DecMult)
	b.cwnd(100_000)
	b.ack(t0+12*us+1, 4000, 18*us, true)
	b.cwnd(60_000)
	b.ack(t0+24*us+1, 4000, 18*us, true)
	b.cwnd(60_000)
	// 12.002 us since the last sample is more than a base RTT, so the average is the new sample: 90 us. 1 - 0.8 x 81/90 = 0.28,
	// but no factor is below 0.5.
	b.ack(t0+37*us, 4000, 90*us, true)
	b.cwnd(30_000)
	if n := b.c.View().Decreases; n != 2 {
		t.Errorf("%d decreases, want 2", n)
	}
	// The window never gets below a packet.
	c := with(t, cfg, 6_000, 64_000)
	c.ack(t0+13*us, 4000, 90*us, true)
	c.cwnd(4_000)
	// Only the average decides: half a base RTT after a sample of 0, one of 18 us weighs 0.5, the average is 9 us, not above target.
	d := with(t, cfg, 100_000, 64_000)
	d.ack(t0+14*us, 4000, 0, false)
	d.ack(t0+20*us, 4000, 18*us, true)
	d.last(DecMult)
	if d.c.avg.v != 9000 {
		t.Errorf("average %g ns, want 9000", d.c.avg.v)
	}
	d.cwnd(100_480) // the first ACK's proportional increase, 1.3333 B/ns x 4000 x 9000 / 1e5
}

// The average of delays, as the page recommends, and as htsim has it.
func TestDelayAverage(t *testing.T) {
	var a delayAvg
	a.add(100, 1000, 4000)
	a.add(350, 1000, 8000) // a quarter: 4000 + 0.25 x 4000
	if a.v != 5000 {
		t.Errorf("average %g, want 5000", a.v)
	}
	a.add(1350, 1000, 100) // a whole base RTT: nothing of the past
	if a.v != 100 {
		t.Errorf("average %g, want 100", a.v)
	}
	cfg := round()
	cfg.NSCC.Variant = VarHtsim
	b := with(t, cfg, 100_000, 64_000)
	check := func(want float64) {
		t.Helper()
		if math.Abs(b.c.avg.v-want) > 1e-6 {
			t.Errorf("average %g, want %g", b.c.avg.v, want)
		}
	}
	b.ack(t0, 4000, 8*us, false) // 0.0125 x 8000
	check(100)
	b.ack(t0, 4000, 20*us, false) // not marked, beyond the target: counts as 3 us. 100 + 0.0125 x 2900
	check(136.25)
	b.ack(t0, 4000, 20*us, true) // 136.25 + 0.0125 x 19 863.75
	check(384.546875)
	b.c.OnNack(t0, &b.f, &Feedback{}, 4000, Trimmed) // 384.546875 + 0.0125 x (12 000 - 384.546875)
	check(529.7400390625)
}

func TestTakeProbe(t *testing.T) {
	b := open(t, round())
	b.c.OnNewData(&b.f, 12_000)
	b.send(t0, 8000)
	if b.c.TakeProbe() {
		t.Error("before the first feedback")
	}
	b.ack(t0+20*us, 4000, 0, false)
	if !b.c.TakeProbe() || b.c.TakeProbe() {
		t.Error("not once")
	}
	for _, cached := range []vt.Time{0, 11 * us} {
		c := Open(t0, b.c.cfg, cached)
		var f Flow
		c.OnNewData(&f, 4000)
		c.OnSend(t0, &f, 4000, false)
		c.OnAck(t0+20*us, &f, &Feedback{Newly: 4000, Packets: 1})
		if c.TakeProbe() {
			t.Error("no data left")
		}
		c.OnNewData(&f, 4000)
		if c.TakeProbe() != (cached == 0) {
			t.Errorf("with a cached RTT of %v", cached)
		}
	}
}

// A trim on the last link costs a packet like any other, unless the destination's credit deals with it.
func TestLastHopTrim(t *testing.T) {
	b := with(t, round(), 100_000, 64_000)
	b.c.OnNack(t0, &b.f, &Feedback{}, 4000, TrimmedLastHop)
	b.cwnd(96_000)
	if !b.c.nscc.trigger || b.c.inflight != 60_000 || b.c.nscc.ignored != 4000 {
		t.Errorf("%+v", b.c.nscc)
	}
	cfg := round()
	cfg.Algorithm = AlgNSCCRCCC
	b = with(t, cfg, 100_000, 64_000)
	b.c.OnNack(t0, &b.f, &Feedback{}, 4000, TrimmedLastHop)
	b.cwnd(100_000)
	if b.c.nscc.trigger || b.c.inflight != 60_000 || b.c.avg.v != 12_000 {
		t.Errorf("%+v, average %g", b.c.nscc, b.c.avg.v)
	}
	b.c.OnNack(t0, &b.f, &Feedback{}, 4000, Trimmed)
	b.cwnd(96_000)
	b.c.OnNack(t0, &b.f, &Feedback{}, 4000, Refused) // for want of something: no congestion
	b.cwnd(96_000)
	if b.c.inflight != 52_000 {
		t.Errorf("%d in flight", b.c.inflight)
	}
}

func TestInferredLoss(t *testing.T) {
	b := with(t, round(), 100_000, 64_000)
	b.c.OnLoss(t0, &b.f, 4000, Inferred)
	b.cwnd(96_000)
	if n := &b.c.nscc; n.trigger || n.ignored != 4000 || b.c.inflight != 60_000 {
		t.Errorf("%+v", n)
	}
	b.c.OnLoss(t0+us, &b.f, 4000, TimedOut)
	b.cwnd(92_000)
	b.c.OnLoss(t0+us, &b.f, 4000, GoBack) // not lost
	b.cwnd(92_000)
	b.c.cwnd = 5000
	b.c.OnLoss(t0+us, &b.f, 4000, Inferred)
	b.cwnd(4000)
	if b.c.inflight != 48_000 || b.f.marked != 16_000 || b.c.waitingRtx != 4 {
		t.Errorf("%d in flight, %d marked", b.c.inflight, b.f.marked)
	}
}

func TestBaseRTT(t *testing.T) {
	b := with(t, round(), 225_000, 64_000)
	// RTT 8 us: base RTT and with it MaxWnd: 1.5 x 100 Gb/s x 8 us / 8 = 150 000 B; the window follows.
	b.c.OnAck(t0+us, &b.f, &Feedback{Newly: 4000, Packets: 1, Named: true, Sent: t0 - 7*us})
	if b.c.baseRTT != 8*us || b.c.maxWnd != 150_000 || b.c.cwnd > 150_000 {
		t.Errorf("base RTT %v, MaxWnd %g, window %g", b.c.baseRTT, b.c.maxWnd, b.c.cwnd)
	}
	b.c.OnProbe(t0+2*us, 6*us)
	if b.c.BaseRTT() != 6*us || b.c.maxWnd != 112_500 {
		t.Errorf("after a probe: %v, %g", b.c.baseRTT, b.c.maxWnd)
	}
	// A NACK lowers it too, but is no sample of the delay; with the option it does not.
	b.c.OnNack(t0+10*us, &b.f, &Feedback{Named: true, Sent: t0 + 6*us}, 4000, Refused)
	if b.c.baseRTT != 4*us || b.c.avg.v != 0 {
		t.Errorf("after a NACK: %v, average %g", b.c.baseRTT, b.c.avg.v)
	}
	cfg := round()
	cfg.NSCC.Variant = VarNoNackBase
	b = with(t, cfg, 225_000, 64_000)
	b.c.OnNack(t0+10*us, &b.f, &Feedback{Named: true, Sent: t0 + 6*us}, 4000, Refused)
	if b.c.baseRTT != 12*us {
		t.Errorf("base RTT %v", b.c.baseRTT)
	}
	if c := Open(t0, b.c.cfg, 10*us); c.baseRTT != 10*us || c.cwnd != 187_500 {
		t.Errorf("cached: %v, window %g", c.baseRTT, c.cwnd)
	}
}

func TestSampleRule(t *testing.T) {
	b := open(t, round())
	for _, x := range []struct {
		fb   Feedback
		want vt.Time // 0: none
	}{
		{Feedback{Named: true}, 20 * us},
		{Feedback{Named: true, Service: 10}, 20*us - 1280},
		{Feedback{Named: true, Rtx: 1, Retx: true}, 20 * us},
		{Feedback{Named: true, Rtx: 1}, 0},
		{Feedback{Named: true, Retx: true}, 0},
		{Feedback{Named: true, Rtx: 2, Retx: true}, 0},
		{Feedback{}, 0},
		{Feedback{Named: true, Service: 0xFFFF}, 0}, // 8.4 ms of 20 us
	} {
		x.fb.Sent = t0
		s, ok := b.c.sample(t0+20*us, &x.fb, vt.Time(x.fb.Service)*128)
		if ok != (x.want != 0) || ok && s != x.want {
			t.Errorf("%+v: %v %v, want %v", x.fb, s, ok, x.want)
		}
	}
}

// An ACK without sample moves the byte counts only; htsim goes on with the average delay.
func TestMissingSample(t *testing.T) {
	b := with(t, round(), 100_000, 64_000)
	b.c.OnAck(t0+13*us, &b.f, &Feedback{Newly: 40_000, Packets: 10})
	b.cwnd(100_000)
	b.last(DecNone)
	if b.c.nscc.achieved != 40_000 || b.c.inflight != 24_000 {
		t.Errorf("%+v", b.c.nscc)
	}
	cfg := round()
	cfg.NSCC.Variant = VarNoSample
	b = with(t, cfg, 100_000, 64_000)
	b.c.avg.v = 10_000 // ns: fair. 2e4 x 4e4 / 1e5 + 600
	b.c.OnAck(t0+13*us, &b.f, &Feedback{Newly: 40_000, Packets: 10})
	b.cwnd(108_600)
}

func TestSignalsOff(t *testing.T) {
	cfg := round()
	cfg.NoECN = true
	b := with(t, cfg, 100_000, 64_000)
	b.ack(t0+13*us, 4000, 20*us, true)
	b.last(DecFair)
	cfg = round()
	cfg.NoRTT = true
	b = with(t, cfg, 100_000, 64_000)
	b.ack(t0+13*us, 4000, -6*us, false)
	b.c.OnProbe(t0, us)
	b.last(DecNone)
	if b.c.baseRTT != 12*us {
		t.Error("took an RTT")
	}
}

func TestCanSendAndAckRequest(t *testing.T) {
	b := with(t, round(), 20_000, 16_000)
	if !b.c.CanSend(t0, 4000) {
		t.Error("16 000 + 4000 <= 20 000")
	}
	b.c.cwnd--
	if b.c.CanSend(t0, 100) {
		t.Error("a small packet takes the place of a full one")
	}
	b.c.cfg.NSCC.Variant = VarPacketSize
	if !b.c.CanSend(t0, 100) || b.c.CanSend(t0, 4000) {
		t.Error("htsim: what fits may leave")
	}
	for _, x := range []struct {
		cwnd, inflight float64
		want           bool
	}{
		{100_000, 96_001, true}, {100_000, 96_000, false}, // no room for another packet
		{16_383, 4000, true}, {16_384, 4000, false}, // less than the destination's trigger
	} {
		b.c.cwnd, b.c.inflight = x.cwnd, int64(x.inflight)
		if b.c.AckRequest() != x.want {
			t.Errorf("%+v", x)
		}
	}
}

func TestHook(t *testing.T) {
	b := with(t, round(), 100_000, 64_000)
	b.c.seen = 100_000
	var at []vt.Time
	b.c.Hook = func(now vt.Time, c *Context) { at = append(at, now) }
	b.ack(t0+us, 4000, 3*us, false)
	b.ack(t0+13*us, 4000, 3*us, false)
	b.ack(t0+14*us, 4000, 3*us, false)
	if len(at) != 1 || at[0] != t0+13*us {
		t.Errorf("called at %v, want once, at %v", at, t0+13*us)
	}
	v := b.c.View()
	if v.Counts[DecProp] != 3 || v.Acks != 3 || v.InFlight != 52_000 || v.Target != 9*time.Microsecond || v.LastRTT != 15*time.Microsecond {
		t.Errorf("%+v", v)
	}
}
