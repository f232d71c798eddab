package link

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/uetlab/uetlab/internal/link/llr"
	"github.com/uetlab/uetlab/internal/vethtest"
	"github.com/uetlab/uetlab/internal/vt"
)

// soak is how many rounds a long test makes: a part of them with -short, and where the kernel takes some microseconds for each frame.
func soak(t *testing.T, all, short, veth int) int {
	n := all
	if testing.Short() {
		n = short
	} else if vethtest.On {
		n = veth
	}
	t.Logf("%d rounds of %d", n, all)
	return n
}

// LLR-29: ten minutes, in each second another mix of everything that can be wrong, in both directions, and frames at times.
func TestLLR29_IdentitiesOfCounters(t *testing.T) {
	l := newRetry(t, nil)
	rng := rand.New(rand.NewPCG(29, 29))
	sent := [2]int{}
	for range soak(t, 600, 60, 600) {
		begin := l.now
		for i := range 2 {
			l.at(begin, func(vt.Time) { l.harm(rng, i) })
			for range rng.IntN(4) {
				burst, size := 1+rng.IntN(60), 60+rng.IntN(4000)
				first := uint32(sent[i])
				sent[i] += burst
				l.at(begin.Add(time.Duration(rng.Int64N(9e8))), func(now vt.Time) {
					for k := range uint32(burst) {
						l.ends[i].p.Offer(now, 0, l.frame(first+k, size, rng.IntN(5) == 0))
					}
				})
			}
		}
		for range rng.IntN(3) {
			l.flap(rng)
		}
		l.at(begin.Add(990*time.Millisecond), func(now vt.Time) {
			for i := range 2 {
				l.ends[i].p.SetImpair(now, Impair{})
				l.ends[i].p.SetRxDown(now, false)
			}
		})
		l.run(begin.Add(time.Second))
		if l.identities(); t.Failed() {
			t.Fatalf("at %v", l.now)
		}
	}
	for i := range 2 {
		from, to := &l.ends[i].p.C, &l.ends[1-i].p.C
		if n := l.c(1-i, llr.RxExpected); n > l.c(i, llr.TxOK) || n+l.c(i, llr.TxFlushed) < l.c(i, llr.TxOK) {
			t.Errorf("port %d: of %d frames %d were accepted and %d given up", i, l.c(i, llr.TxOK), n, l.c(i, llr.TxFlushed))
		}
		if to[DropFCS]+to[DropPreamble]+to[DropCut] == 0 || from[DropLoss]+from[DropBurst] == 0 || l.c(1-i, llr.RxDuplicate)*l.c(1-i, llr.RxMissing)*l.c(i, llr.TxFlushes) == 0 {
			t.Errorf("port %d: the mix reaches too little: %v and %v", i, from, to)
		}
	}
}

func TestLLR30_Soak(t *testing.T) {
	const round = 5000
	l := newRetry(t, func(c *llr.Config) { c.ReplayCount = llr.Unlimited })
	l.ends[0].p.SetImpair(0, Impair{Loss: 0.01, BER: 1e-6})
	l.ends[1].p.SetImpair(0, Impair{Loss: 0.05})
	for i := range soak(t, 1_000_000/round, 50_000/round, 250_000/round) {
		l.words = l.words[:0]
		l.offer(uint32(i*round), round, 1000)
		l.run(l.now + ms)
		for l.ends[0].p.QueueLen() > 0 || l.c(0, llr.RingFrames) > 0 {
			l.run(l.now + 100*us)
		}
		l.whole(uint32(i*round), round)
		l.ends[1].got = l.ends[1].got[:0]
	}
	l.want(0, map[llr.Counter]uint64{llr.RxSeqError: 0, llr.TxFlushes: 0})
	if l.pool.Out() != 0 {
		t.Errorf("%d frames are still out", l.pool.Out())
	}
}

// LLR-31: virtual time knows no busy machine; the bounds hold as they are.
func TestLLR31_Amplification(t *testing.T) {
	l := newRetry(t, func(c *llr.Config) { c.Frames, c.ReplayCount = 64, llr.Unlimited })
	l.ends[0].p.SetImpair(0, Impair{Loss: 0.02})
	const n = 20_000
	l.offer(0, n, 1000)
	l.run(20 * ms)
	l.whole(0, n)
	l.want(0, map[llr.Counter]uint64{llr.RxSeqError: 0})
	l.want(1, map[llr.Counter]uint64{llr.TxNack: l.c(1, llr.RxReplay)})
	if all := float64(len(l.words)) / n; all > 2.5 {
		t.Errorf("%.2f frames on the line for each one delivered", all)
	} else {
		t.Logf("%.2f frames on the line for each one delivered", all)
	}
}
