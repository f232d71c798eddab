package cms

import (
	"testing"

	"github.com/uetlab/uetlab/internal/vt"
)

func TestQuickAdapt(t *testing.T) {
	b := with(t, round(), 225_000, 224_000)
	trim := func(now vt.Time) { b.c.OnNack(now, &b.f, &Feedback{}, 4000, Trimmed) }
	// First event: no period has ended, so a trim costs a packet. The period is to end 21 us later.
	trim(t0 + 20*us)
	b.last(DecTrim)
	b.cwnd(221_000)
	// Within the period: a packet each. 20 000 B are delivered.
	trim(t0 + 30*us)
	b.cwnd(217_000)
	for range 5 {
		b.ack(t0+35*us, 4000, 20*us, false)
	}
	// The first was more than 12 us after the start: fi and eta, 2e4 x 4000 / 217 000 + 600. That of the others waits to be applied.
	b.cwnd(217_968.663594)
	if b.c.nscc.inc == 0 {
		t.Fatal("no increase")
	}
	// 41 us: the period is over, 20 000 < 28 125: the window becomes what was delivered. 224 000 - 2 trims - 5 ACKs - this one are in
	// flight: 192 000. The increase is void.
	trim(t0 + 41*us)
	b.last(DecQuick)
	b.cwnd(20_000)
	if n := b.c.nscc; n.toIgnore != 192_000 || n.inc != 0 || n.received != 0 || n.trigger || n.achieved != 0 || n.qaEnd != t0+62*us {
		t.Errorf("%+v", n)
	}
	// What was in flight then is accounted for: trims, and marked ACKs, are swallowed.
	trim(t0 + 45*us)
	b.last(DecIgnored)
	b.ack(t0+46*us, 4000, 100*us, true)
	b.last(DecIgnored)
	b.cwnd(20_000)
	b.ack(t0+47*us, 4000, 12*us, false) // an unmarked ACK is not: fair increase, and after 12 us eta and fi: 600 + 2e4 x 4000 / 2e4
	b.last(DecFair)
	b.cwnd(24_600)
	if b.c.nscc.ignored != 12_000 {
		t.Errorf("ignored %d, want 12 000", b.c.nscc.ignored)
	}
	// With this ACK all 192 000 B are seen: it is not ignored any more.
	b.ack(t0+48*us, 180_000, 0, true)
	b.last(DecHold)
	if b.c.inflight != 0 {
		t.Errorf("%d in flight", b.c.inflight)
	}
}

func TestQuickAdaptGate(t *testing.T) {
	run := func(cfg Config, delivered int64, when vt.Time) *bench {
		b := with(t, cfg, 225_000, 224_000)
		b.c.OnNack(t0, &b.f, &Feedback{}, 4000, Trimmed)
		b.ack(t0+us, delivered, 2*us, true)
		b.c.OnNack(when, &b.f, &Feedback{}, 4000, Trimmed)
		return b
	}
	run(round(), 28_124, t0+21*us).last(DecQuick)
	run(round(), 28_125, t0+21*us).last(DecTrim) // an eighth of MaxWnd was delivered: enough
	run(round(), 28_124, t0+21*us-1).last(DecTrim)
	cfg := round()
	cfg.NSCC.NoQuickAdapt = true
	b := run(cfg, 0, t0+21*us)
	b.last(DecTrim)
	b.cwnd(217_000)
	cfg = round()
	cfg.NSCC.Variant = VarQAEnd // htsim: the period lasts a moment longer
	run(cfg, 28_124, t0+21*us).last(DecTrim)
	run(cfg, 28_124, t0+21*us+1).last(DecQuick)
	cfg = round()
	cfg.NoTrim = true // trims are losses: no Quick Adapt
	run(cfg, 0, t0+21*us).last(DecLoss)
	// Nothing delivered: a packet is left.
	run(round(), 0, t0+21*us).cwnd(4000)
}

// After a silence the period begins with the first packet: the trim of a new burst costs a packet, not the window.
func TestQuickAdaptAfterSilence(t *testing.T) {
	b := with(t, round(), 225_000, 8000)
	b.ack(t0+12*us, 8000, 2*us, true)
	b.send(t0+500*us, 224_000)
	b.cwnd(225_000)
	b.c.OnNack(t0+512*us, &b.f, &Feedback{}, 4000, Trimmed)
	b.last(DecTrim)
	b.cwnd(221_000)
	b.c.OnNack(t0+521*us, &b.f, &Feedback{}, 4000, Trimmed) // 21 us after it
	b.last(DecQuick)
}

// Without trimming a delay beyond 4 targets = 48 us stands for a loss; with trimming nothing does, except in htsim (36 us).
func TestQuickAdaptThreshold(t *testing.T) {
	for _, x := range []struct {
		trimming bool
		v        Variant
		delay    vt.Time
		want     Decision
	}{
		{false, 0, 48*us + 1, DecQuick}, {false, 0, 48 * us, DecFair}, {true, 0, 500 * us, DecFair},
		{true, VarQAThreshold, 36*us + 1, DecQuick}, {true, VarQAThreshold, 36 * us, DecFair},
	} {
		cfg := round()
		cfg.Net.Trimming, cfg.NSCC.Variant = x.trimming, x.v
		b := with(t, cfg, 225_000, 224_000)
		b.ack(t0, 4000, 2*us, false)
		b.ack(t0+24*us, 4000, x.delay, false)
		b.last(x.want)
	}
}
