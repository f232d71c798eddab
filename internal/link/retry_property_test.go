package link

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/uetlab/uetlab/internal/link/llr"
	"github.com/uetlab/uetlab/internal/vt"
)

// TestRetryProperty harms a line in every way at once, for 5000 seeds: bit errors up to 1e-4, bursts, lost and duplicate frames in both
// directions, ordered sets too, links that flap in one or both directions, and LLR that is turned off and on. Each protected frame must
// be delivered once and in order, or be counted as given up; and once all is well again, so is LLR.
func TestRetryProperty(t *testing.T) {
	seeds := uint64(5000)
	if testing.Short() {
		seeds = 500
	}
	flushes, replays := uint64(0), uint64(0)
	for seed := range seeds {
		f, r := propertyOf(t, seed)
		if flushes, replays = flushes+f, replays+r; t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Logf("%d replays, %d flushes", replays, flushes)
	if flushes == 0 || replays == 0 {
		t.Error("the seeds reach too little")
	}
}

func propertyOf(t *testing.T, seed uint64) (flushes, replays uint64) {
	rng := rand.New(rand.NewPCG(seed, 11))
	c := testLLR()
	c.Frames = 1 << rng.IntN(9)
	c.Bytes = int64(20_000 + rng.IntN(200_000))
	c.ReplayCount = rng.IntN(6)
	c.AckEvery = int64(1000 + rng.IntN(20_000))
	c.PCSLost = time.Duration(rng.IntN(3)) * 20 * time.Microsecond
	c.DataAge = time.Duration(rng.IntN(2)) * 40 * time.Microsecond
	behaviors := []llr.Behavior{llr.BestEffort, llr.Block, llr.Discard}
	c.Init, c.Flush = behaviors[rng.IntN(3)], behaviors[rng.IntN(3)]
	delay := time.Duration(1 + rng.IntN(1000))
	if rng.IntN(8) == 0 {
		delay, c.ReplayCount = 3*time.Microsecond, 3+rng.IntN(3) // beyond the replay timer: each replay is one too many
	}
	l := newLine(t, &c, delay)
	for i := range 2 {
		l.ends[i].p.Reset(rand.New(rand.NewPCG(seed, uint64(i))))
		l.harm(rng, i)
	}
	for range rng.IntN(4) {
		l.flap(rng)
	}
	if rng.IntN(4) == 0 {
		at, off := vt.Time(rng.IntN(200_000)), vt.Time(1+rng.IntN(2)*20_000)
		for i := range 2 {
			l.at(at, func(now vt.Time) { _ = l.ends[i].p.SetLLR(now, nil) })
			l.at(at+off, func(now vt.Time) { _ = l.ends[i].p.SetLLR(now, &c) })
		}
	}
	const n = 150
	for id := range uint32(n) {
		size := 60 + rng.IntN(4000)
		l.at(vt.Time(int(id)*1500), func(now vt.Time) {
			l.ends[0].p.Offer(now, 0, l.frame(id, size, false))
			l.ends[1].p.Offer(now, 0, l.frame(id, size, false))
		})
	}
	const sick, healed = 300 * us, 6 * ms
	l.at(sick, func(now vt.Time) {
		for i := range 2 {
			l.ends[i].p.SetImpair(now, Impair{})
			l.ends[i].p.SetRxDown(now, false)
		}
	})
	l.run(healed)
	for i := range 2 {
		l.sound(i, n)
		flushes, replays = flushes+l.c(i, llr.TxFlushes), replays+l.c(i, llr.TxReplay)
		if s := llr.State(l.c(i, llr.TxState)); s != llr.Advance || l.c(i, llr.RingFrames) != 0 || l.ends[i].p.QueueLen() != 0 {
			t.Errorf("port %d: %v with %d frames without ACK and %d queued, long after all was well", i, s, l.c(i, llr.RingFrames), l.ends[i].p.QueueLen())
		}
	}
	l.identities()
	l.ends[1].got, l.words, l.plain = nil, nil, 0
	l.offer(n, 40, 1000)
	l.run(healed + ms)
	l.whole(n, 40)
	if len(l.words) < 40 || l.plain != 0 {
		t.Errorf("%d frames with a number and %d without, of 40", len(l.words), l.plain)
	}
	if l.pool.Out() != 0 {
		t.Errorf("%d frames are still out", l.pool.Out())
	}
	return flushes, replays
}

// harm gives one direction some impairments.
func (l *line) harm(rng *rand.Rand, i int) {
	var imp Impair
	if rng.IntN(2) == 0 {
		imp.BER = []float64{1e-7, 1e-6, 1e-5, 1e-4}[rng.IntN(4)]
	}
	if rng.IntN(2) == 0 {
		imp.Loss = rng.Float64() * rng.Float64() * 0.5
	}
	if rng.IntN(3) == 0 {
		imp.Burst = Burst{ToBad: 0.02, ToGood: 0.1, LossBad: 1}
	}
	if rng.IntN(3) == 0 {
		imp.Duplicate = 0.1
	}
	if rng.IntN(3) == 0 {
		imp.Jitter = time.Duration(rng.IntN(500))
	}
	imp.Blackhole = rng.IntN(20) == 0
	l.ends[i].p.SetImpair(l.now, imp)
}

// flap takes one or both directions down for a while.
func (l *line) flap(rng *rand.Rand) {
	from := l.now + vt.Time(rng.IntN(250_000))
	to := from + vt.Time(1+rng.IntN(1<<(4+rng.IntN(14))))
	way := rng.IntN(3)
	for i := range 2 {
		if way != i {
			continue
		}
		l.at(from, func(now vt.Time) { l.down(now, i, true) })
		l.at(to, func(now vt.Time) { l.down(now, i, false) })
	}
	if way == 2 {
		for i := range 2 {
			l.at(from, func(now vt.Time) { l.down(now, i, true) })
			l.at(to, func(now vt.Time) { l.down(now, i, false) })
		}
	}
}

// down takes the direction from port i down or up.
func (l *line) down(now vt.Time, i int, down bool) {
	imp := l.ends[i].p.Impair()
	imp.Down = down
	l.ends[i].p.SetImpair(now, imp)
	l.ends[1-i].p.SetRxDown(now, down)
}

// sound checks what has come of n frames that port i has sent.
func (l *line) sound(i, n int) {
	from, to := l.ends[i], l.ends[1-i]
	last := -1
	for _, id := range to.got {
		if int(id) == last && from.p.C[TxTwice] > 0 && l.plainSent(i) { // an unprotected frame may well come twice
			continue
		}
		if int(id) <= last {
			l.t.Errorf("port %d: frame %d delivered after %d", i, id, last)
		}
		last = int(id)
	}
	protected := l.c(i, llr.TxOK)
	arrived := l.c(1-i, llr.RxExpected)
	if protected > arrived+l.c(i, llr.TxFlushed) {
		l.t.Errorf("port %d: of %d protected frames %d were accepted and %d given up", i, protected, arrived, l.c(i, llr.TxFlushed))
	}
	if arrived > protected {
		l.t.Errorf("port %d: %d frames accepted, of %d", i, arrived, protected)
	}
	c := &from.p.C
	gone := c[DropDown] + c[DropDiscard] + l.c(i, llr.TxFlushed) + c[DropLoss] + c[DropBurst] + c[DropBlack] + to.p.C[DropCut] + to.p.C[DropFCS]
	if missing := n - len(to.got); missing > int(gone) {
		l.t.Errorf("port %d: %d frames are missing, %d counted", i, missing, gone)
	}
}

// plainSent says whether port i may have sent frames without protection.
func (l *line) plainSent(i int) bool {
	return l.c(i, llr.TxInit) > 0 || l.c(i, llr.TxState) != uint64(llr.Advance)
}
