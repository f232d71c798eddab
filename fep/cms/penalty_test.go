package cms

import "testing"

// DFC: pend 64 takes (64 x 4000) >> 7 = 2000 B per 4000 B acknowledged, from the smaller of the window and the flight before with a packet more.
func TestPenalty(t *testing.T) {
	b := with(t, round(), 100_000, 64_000)
	pend := func(p uint8, restore bool) {
		b.c.OnAck(t0+us, &b.f, &Feedback{Newly: 4000, Packets: 1, Named: true, Sent: t0 - 14*us, Pend: p, Restore: restore})
	}
	pend(64, false) // 64 000 were in flight: 68 000 - 2000
	b.cwnd(66_000)
	b.last(DecLimited) // delay 3 us, no mark: would have grown
	pend(64, false)    // 60 000 + 4000 - 2000
	b.cwnd(62_000)
	pend(127, false) // 56 000 + 4000 - 3968
	b.cwnd(56_032)
	if b.c.View().Saved != 100_000 {
		t.Errorf("saved %d", b.c.View().Saved)
	}
	pend(0, false)
	b.cwnd(56_032)
	b.last(DecProp)
	pend(0, true)
	b.cwnd(100_000)
	b.c.cwnd = 50_000
	pend(0, true) // once only
	b.cwnd(50_000)
	b.c.cwnd = 6000
	pend(127, false)
	b.cwnd(4000)
}

// A window of 25 packets that is always full: with 64 on every ACK of one round trip each of the 25 ACKs takes 2000 B, which halves it;
// with 127 it is 3968 B, and 25 x 3968 = 99 200 B leave less than a packet, so one a round trip (uet-cms.md 5).
func TestPenaltyOfARound(t *testing.T) {
	for _, x := range []struct {
		pend uint8
		want float64
	}{{64, 50_000}, {127, 4000}, {1, 99_225}} { // 31 B an ACK
		b := with(t, round(), 100_000, 100_000)
		for range 25 {
			b.c.OnAck(t0+us, &b.f, &Feedback{Newly: 4000, Packets: 1, Named: true, Sent: t0 - 14*us, Pend: x.pend})
			for b.c.CanSend(t0+us, 4000) {
				b.send(t0+us, 4000)
			}
		}
		b.cwnd(x.want)
		if b.c.inflight > int64(b.c.cwnd) || float64(b.c.inflight)+4000 <= b.c.cwnd {
			t.Errorf("pend %d: %d in flight with a window of %g", x.pend, b.c.inflight, b.c.cwnd)
		}
		b.c.OnAck(t0+us, &b.f, &Feedback{Newly: 4000, Packets: 1, Restore: true})
		b.cwnd(100_000)
	}
}
