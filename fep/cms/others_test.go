package cms

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/uetlab/uetlab/internal/vt"
)

func algo(a Algorithm) Config {
	cfg := round()
	cfg.Algorithm = a
	return cfg
}

// A round with a quarter of the bytes marked: alpha = 15/16 x 1 + 1/16 x 0.25 = 0.953125, the window x (1 - alpha/2), then + 1 MTU.
func TestDCTCP(t *testing.T) {
	b := with(t, algo(AlgDCTCP), 100_000, 100_000)
	for i := range 15 {
		b.ack(t0+vt.Time(i)*us/2, 4000, 0, i < 4)
	}
	b.cwnd(100_000)
	b.ack(t0+12*us, 4000, 0, false)
	b.cwnd(100_000*(1-0.953125/2) + 4000)
	b.ack(t0+24*us, 4000, 0, false) // a round without marks; alpha x 15/16
	b.cwnd(56_343.75 + 4000)
	if a := b.c.dctcp.alpha; math.Abs(a-0.8935546875) > 1e-9 {
		t.Errorf("alpha %g", a)
	}
	b.c.OnNack(t0+24*us, &b.f, &Feedback{}, 4000, Trimmed)
	b.cwnd(56_343.75)
	// htsim: + 4000 x 4000 / 100 000, - 4000/3
	cfg := algo(AlgDCTCP)
	cfg.DCTCP.Htsim = true
	c := with(t, cfg, 100_000, 100_000)
	c.ack(t0, 4000, 0, false)
	c.cwnd(100_160)
	c.ack(t0, 4000, 0, true)
	c.cwnd(98_826.666667)
}

func TestMPRDMA(t *testing.T) {
	b := with(t, algo(AlgMPRDMA), 100_000, 100_000)
	b.ack(t0, 4000, 0, false)
	b.cwnd(100_160)
	b.ack(t0, 4000, 0, true)
	b.cwnd(98_160) // half a packet
	b.c.OnLoss(t0, &b.f, 4000, Inferred)
	b.cwnd(94_160)
	cfg := algo(AlgMPRDMA)
	cfg.MPRDMA.Cut = 0.25
	c := with(t, cfg, 100_000, 100_000)
	c.ack(t0, 4000, 0, true)
	c.cwnd(99_000)
}

// Target: base RTT + 9 us = 21 us, and flow scaling: alpha = 45 us / (3.16228 - 0.1) = 14.695 us; at 25 packets 14.695 x (0.2 - 0.1) = 1.4695 us.
func TestSwift(t *testing.T) {
	b := with(t, algo(AlgSwift), 100_000, 100_000)
	if g := b.c.swift.target(b.c); math.Abs(g-22_469.494) > 0.01 {
		t.Errorf("target %g ns", g)
	}
	b.ack(t0, 4000, 10*us, false) // RTT 22 us: below. A packet per window: 4000 x 4000 / 100 000
	b.cwnd(100_160)
	b.ack(t0, 4000, 28*us, false) // 40 us: 1 - 0.8 x (40 - 22.467)/40
	g := 21_000 + 14_694.94*(math.Sqrt(4000./100_160)-0.1)
	b.cwnd(100_160 * (1 - 0.8*(40_000-g)/40_000))
	w := b.c.cwnd
	b.ack(t0+40*us-1, 4000, 28*us, false) // once per RTT of 40 us
	b.cwnd(w)
	b.ack(t0+240*us, 4000, 228*us, false) // 240 us: 1 - 0.8 x 217/240 is less than half, which is the most at once
	b.cwnd(w / 2)
	b.c.OnLoss(t0+479*us, &b.f, 4000, Inferred)
	b.cwnd(w / 2)
	b.c.OnLoss(t0+480*us, &b.f, 4000, Inferred)
	b.cwnd(w / 4)
	b.c.cwnd = w / 2
	b.cwnd(w / 2)
	// A window of a quarter of a packet: one packet in flight, the next one RTT x 4 later.
	b = open(t, algo(AlgSwift))
	b.c.cwnd, b.c.lastRTT = 1000, 20*us
	b.send(t0, 4000)
	if b.c.CanSend(t0+80*us, 4000) {
		t.Error("two packets in flight")
	}
	b.c.Settle(&b.f)
	if b.c.CanSend(t0+80*us-1, 4000) || b.c.SendAt(t0) != t0+80*us || !b.c.CanSend(t0+80*us, 4000) {
		t.Errorf("may send at %v", b.c.SendAt(t0))
	}
	b.send(t0+80*us, 4000)
	b.ack(t0+90*us, 4000, 0, false) // below a packet the window grows by a packet per packet
	b.cwnd(5000)
}

func TestUCCL(t *testing.T) {
	b := open(t, algo(AlgUCCL))
	if p := b.c.swift.p; p.Target != 50*time.Microsecond || p.AI != 8 || p.MinWnd != 4096 || p.MaxWnd != 1<<20 || p.Range != 0 {
		t.Errorf("%+v", p)
	}
	b.c.cwnd = 100_000
	b.send(t0, 8000)
	b.ack(t0, 4000, 37*us, false) // 49 us; 8 packets per window
	b.cwnd(101_280)
	b.ack(t0, 4000, 88*us, false) // 100 us: 1 - 0.8 x 0.5
	b.cwnd(60_768)
}

// DCQCN at 100 Gb/s: the first notification halves the rate (alpha 1); 55 us later (50 + 100)/2 = 75, then 87.5.
func TestDCQCN(t *testing.T) {
	b := open(t, algo(AlgDCQCN))
	d := b.c.dcqcn
	rate := func(want float64) {
		t.Helper()
		if math.Abs(d.rate/want-1) > 1e-9 {
			t.Errorf("rate %g, want %g", d.rate, want)
		}
	}
	b.send(t0, 4000) // 320 ns
	if b.c.CanSend(t0+319, 4000) || !b.c.CanSend(t0+320, 4000) || b.c.SendAt(t0) != t0+320 {
		t.Error("pace")
	}
	b.ack(t0+us, 0, 0, true)
	rate(50e9)
	if v := b.c.View(); v.Last != DecDown || v.Counts[DecDown] != 1 || v.Counts[DecUp] != 0 {
		t.Errorf("after the first notification: %v, %v", v.Last, v.Counts)
	}
	b.ack(t0+25*us, 4000, 0, true) // of a peer that does not pace them: one in 25 us counts
	rate(50e9)
	b.send(t0+60*us, 4000) // the period ended at 56, the next one ends at 111
	rate(75e9)
	if v := b.c.View(); v.Last != DecUp || v.Counts[DecUp] != 1 {
		t.Errorf("after a period: %v, %v", v.Last, v.Counts)
	}
	if b.c.SendAt(t0) != t0+60*us+427 { // 426.7 ns
		t.Errorf("next at %v", b.c.SendAt(t0))
	}
	b.send(t0+111*us, 4000)
	rate(87.5e9)
	// alpha: it was 1 - g + g = 1 after the first; two periods: (255/256)^2. The second takes half of that.
	b.ack(t0+112*us, 0, 0, true)
	a := 255. / 256 * 255 / 256
	rate(87.5e9 * (1 - a/2))
	// Five stages of fast recovery to 87.5, then + 5 Gb/s each: after 6 periods RT = 92.5.
	low := d.rate
	b.send(t0+(112+55*6)*us, 4000)
	want := 87.5e9 - (87.5e9-low)/32
	rate((want + 92.5e9) / 2)
	// Ten megabytes are a stage of their own; with both counts above 5 it is hyper increase, 10 Gb/s for each beyond.
	d.nTime, d.nBytes, d.target, d.rate = 7, 6, 50e9, 40e9
	d.bytes = 10_000_000 - 4000
	b.send(t0+(112+55*6)*us, 4000)
	if d.nBytes != 7 || d.target != 70e9 || d.rate != 55e9 {
		t.Errorf("hyper: stage %d, RT %g, RC %g", d.nBytes, d.target, d.rate)
	}
	// A long silence ends at the line's rate, without an alpha.
	b.send(t0+vt.Time(time.Hour), 4000)
	rate(100e9)
	if d.alpha > 1e-6 || b.c.View().Rate != 100e9 {
		t.Errorf("alpha %g", d.alpha)
	}
}

func TestFixed(t *testing.T) {
	cfg := algo(AlgFixed)
	cfg.Window = 16_000
	b := open(t, cfg)
	b.send(t0, 12_000)
	if !b.c.CanSend(t0, 4000) || b.c.CanSend(t0, 4001) {
		t.Error("window")
	}
	b.c.OnNack(t0, &b.f, &Feedback{}, 4000, Trimmed)
	b.ack(t0, 4000, 0, true)
	b.cwnd(16_000)
}

func TestConfigErrors(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"Net.Rate 0: outside 1000..1e+13":       func(c *Config) { c.Net.Rate = 0 },
		"Net.BaseRTT 0: outside 1e-08..100":     func(c *Config) { c.Net.BaseRTT = 0 },
		"Net.MTU 10: outside 64..65535":         func(c *Config) { c.Net.MTU = 10 },
		"NSCC.Gamma 1.5: outside 0..1":          func(c *Config) { c.NSCC.Gamma = 1.5 },
		"NSCC.MaxWnd 100: outside 4000..1e+15":  func(c *Config) { c.NSCC.MaxWnd = 100 },
		"NSCC.Alpha NaN: outside 0..1e+15":      func(c *Config) { c.NSCC.Alpha = math.NaN() },
		"RCCC.Share 2: outside 0.01..1":         func(c *Config) { c.RCCC.Share = 2 },
		"Swift.Beta -1: outside 0..1":           func(c *Config) { c.Swift.Beta = -1 },
		"DCQCN.G 2: outside 1e-09..1":           func(c *Config) { c.DCQCN.G = 2 },
		"DCTCP.G -1: outside 1e-06..1":          func(c *Config) { c.DCTCP.G = -1 },
		"algorithm 99: is not known":            func(c *Config) { c.Algorithm = 99 },
		"RCCC.MaxWnd 4e+09: outside 4000..1.07": func(c *Config) { c.RCCC.MaxWnd = 4e9 },
	} {
		cfg := round()
		change(&cfg)
		if err := cfg.Resolve(); err == nil || !strings.HasPrefix(err.Error(), name) {
			t.Errorf("%v, want %q", err, name)
		}
	}
}

func TestNames(t *testing.T) {
	for a := range algorithms {
		if b, err := ParseAlgorithm(a.String()); err != nil || b != a {
			t.Errorf("%v: %v %v", a, b, err)
		}
	}
	if _, err := ParseAlgorithm("bbr"); err == nil || !strings.Contains(err.Error(), "nscc+rccc") {
		t.Error(err)
	}
	for s, want := range map[string]Variant{"": 0, "htsim": VarHtsim, "ewma, qa-end": VarEWMA | VarQAEnd, "htsim,no-nack-base": VarHtsim | VarNoNackBase} {
		if v, err := ParseVariant(s); err != nil || v != want {
			t.Errorf("%q: %v %v", s, v, err)
		}
	}
	if _, err := ParseVariant("ewmas"); err == nil {
		t.Error("ewmas")
	}
	if decisions.String() == "" || DecQuick.String() != "quick adapt" {
		t.Error("names of decisions")
	}
}
