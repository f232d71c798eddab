package link

import (
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// sent is a frame that left a port: during which event, due when, how long.
type sent struct {
	at, due vt.Time
	n       int
	id      byte
}

// rig plays a port's node: it keeps the calls that the port has asked for, and notes what leaves. It is the port's source too
// where a test gives none, and has nothing to send.
type rig struct {
	t     testing.TB
	p     *Port
	pool  *Pool
	now   vt.Time
	free  []vt.Time // when the port is called, in order
	asked vt.Time   // by the serializer, the last time
	out   []sent
	mute  bool           // do not note what leaves
	far   func(f *Frame) // takes what leaves, if set
	left  [2]int         // frames that left a queue: dropped, sent
}

func newRig(t testing.TB, cfg Config, src Source) *rig {
	r := &rig{t: t, pool: NewPool(9018)}
	if src == nil {
		src = r
	}
	r.p = NewPort(3, cfg, r, src)
	r.p.Reset(rand.New(rand.NewPCG(1, 2)))
	return r
}

func (r *rig) NextFrame(vt.Time, int) *Frame { return nil }

func (r *rig) Dequeued(now vt.Time, port int, f *Frame, sent bool) {
	if sent {
		r.left[1]++
	} else {
		r.left[0]++
	}
}

func (r *rig) TxFreeAt(port int, t vt.Time) {
	at, again := slices.BinarySearch(r.free, t)
	if port != 3 || t <= r.now || again && r.p.sched.paused == 0 && r.asked == t { // a pause may have asked for the same time, and have ended with its link
		r.t.Fatalf("port %d asks at %v to be called at %v, calls under way at %v", port, r.now, t, r.free)
	}
	if r.p.armed == t {
		r.asked = t
	}
	r.free = slices.Insert(r.free, at, t)
}

func (r *rig) LinkTimerAt(int, vt.Time) {}

func (r *rig) Now() vt.Time { return r.now }

func (r *rig) Transmit(port int, f *Frame) {
	if !r.mute {
		r.out = append(r.out, sent{r.now, f.Due, len(f.B), f.B[0]})
	}
	if r.far != nil {
		r.far(f)
		return
	}
	f.Release()
}

// to handles the port's events up to and including t, and moves to t.
func (r *rig) to(t vt.Time) {
	for len(r.free) > 0 && r.free[0] <= t {
		r.now = r.free[0]
		r.free = slices.Delete(r.free, 0, 1)
		r.p.TxFree(r.now)
	}
	r.now = t
}

func (r *rig) frame(n int, id byte) *Frame {
	f := r.pool.Get()
	f.B = append(f.B[:0], make([]byte, n)...)
	f.B[0] = id
	return f
}

func (r *rig) enqueue(n int, id byte) { r.p.Offer(r.now, 0, r.frame(n, id)) }

// endless gives frames of random lengths until there have been left of them.
type endless struct {
	r    *rig
	rng  *rand.Rand
	left int
	lens []int
}

func (e *endless) NextFrame(now vt.Time, port int) *Frame {
	if e.left == 0 {
		return nil
	}
	e.left--
	n := 14 + e.rng.IntN(9000)
	e.lens = append(e.lens, n)
	return e.r.frame(n, 0)
}

func (e *endless) Dequeued(now vt.Time, port int, f *Frame, sent bool) {}

// TestBacklogLeavesNoGaps sends 20 000 frames back to back. The line is never idle and never too fast: the last bit of every
// frame leaves when bytes × 8 / rate says, plus less than a picosecond a frame where the rate does not divide; at the
// rates of real links there is no rounding at all.
func TestBacklogLeavesNoGaps(t *testing.T) {
	const frames = 20_000
	for _, rate := range []int64{1e9, 25e9, 100e9, 400e9, 800e9, 7e9, 399_999_999_989, 1_600_000_000_001} {
		src := &endless{rng: rand.New(rand.NewPCG(uint64(rate), 9)), left: frames}
		const delay = 333
		r := newRig(t, Config{Rate: rate, Delay: delay, Queue: 1 << 20}, src)
		src.r = r
		r.p.Kick(0)
		r.to(vt.Never - 1)
		if len(r.out) != frames {
			t.Fatalf("rate %d: %d frames left", rate, len(r.out))
		}
		exact, tolerance := 8_000_000_000_000%rate == 0, int64(0)
		bytes := int64(0)
		for i, s := range r.out {
			bytes += int64(wire.LineBytes(src.lens[i]))
			want := new(big.Int).Mul(big.NewInt(bytes), big.NewInt(8_000_000_000_000)) // ps × rate
			low := new(big.Int).Add(want, big.NewInt(rate*1000-1))
			low.Div(low, big.NewInt(rate)).Div(low, big.NewInt(1000)) // rounded up to ns
			if !exact {
				tolerance = int64(i+1)/1000 + 1
			}
			if got := int64(s.due) - delay; got < low.Int64() || got > low.Int64()+tolerance {
				t.Fatalf("rate %d: frame %d is due after %d ns of line, want %d to %d", rate, i, got, low, low.Int64()+tolerance)
			}
		}
		if r.pool.Out() != 0 {
			t.Errorf("rate %d: %d frames were not given back", rate, r.pool.Out())
		}
	}
}

func TestDueIsRoundedUp(t *testing.T) {
	for _, c := range []struct {
		n    int
		rate int64
		due  vt.Time
	}{
		{60, 400e9, 2},     // 84 bytes: 1680 ps
		{14, 400e9, 2},     // short frames are padded
		{61, 400e9, 2},     // 1700 ps
		{76, 400e9, 2},     // 2000 ps, to the ns
		{77, 400e9, 3},     // 2020 ps
		{1514, 1e9, 12304}, // 1538 bytes
		{60, 1, 672_000_000_000},
		{60, 1e13, 1}, // 67.2 ps
	} {
		r := newRig(t, Config{Rate: c.rate, Delay: 100, Queue: 10000}, nil)
		r.to(1000)
		r.enqueue(c.n, 0)
		if len(r.out) != 1 || r.out[0].due != 1100+c.due {
			t.Errorf("%d bytes at %d b/s: %+v, want due %d", c.n, c.rate, r.out, 1100+c.due)
		}
	}
}

// TestPauseStartsAnew sends two frames with a pause: the second begins at its event and not where the first ended.
func TestPauseStartsAnew(t *testing.T) {
	r := newRig(t, Config{Rate: 400e9, Queue: 10000}, nil)
	r.enqueue(60, 0) // until 1680 ps
	r.to(2)
	r.enqueue(60, 1) // the line is free since 320 ps: that is a backlog to the picosecond
	r.to(10)
	r.enqueue(60, 2)
	for i, want := range []vt.Time{2, 4, 12} { // 1.68, 3.36, 10 + 1.68
		if r.out[i].due != want {
			t.Errorf("frame %d due %v, want %v", i, r.out[i].due, want)
		}
	}
}

func TestDropTail(t *testing.T) {
	r := newRig(t, Config{Rate: 1e9, Queue: 3000}, nil)
	for i := range 5 {
		r.enqueue(1000, byte(i)) // the first is sent at once, three wait, one is too much
	}
	c := &r.p.C
	if c[DropQueue] != 1 || r.p.QueueLen() != 3 || c[QueueBytes] != 3000 || c[QueuePeak] != 3000 || c[TxFrames] != 1 {
		t.Fatalf("queue %d, counters %v", r.p.QueueLen(), c)
	}
	r.enqueue(14, 9) // not even the smallest
	if c[DropQueue] != 2 {
		t.Errorf("queue overfilled: %v", c)
	}
	r.to(vt.Time(LinePs(1000, 1e9)/1000) + 1) // one has left
	r.enqueue(1000, 10)
	r.to(1e9)
	var ids []byte
	for _, s := range r.out {
		ids = append(ids, s.id)
	}
	if string(ids) != "\x00\x01\x02\x03\x0a" || c[QueueBytes] != 0 || c[QueuePeak] != 3000 || c[TxFrames] != 5 || c[TxBytes] != 5000 {
		t.Errorf("sent %v, counters %v", ids, c)
	}
	if r.p.Reset(rand.New(rand.NewPCG(1, 2))); c[QueuePeak] != 0 || c[DropQueue] != 2 {
		t.Errorf("after a reset: %v", c)
	}
}

func TestImpairments(t *testing.T) {
	for name, c := range map[string]struct {
		imp  Impair
		why  Counter
		due  vt.Time // of a frame that gets through
		line bool    // the frame occupies the line
	}{
		"healthy":   {Impair{}, 0, 150, true},
		"down":      {Impair{Down: true}, DropDown, 0, false},
		"blackhole": {Impair{Blackhole: true}, DropBlack, 0, true},
		"loss":      {Impair{Loss: 1}, DropLoss, 0, true},
		"delay":     {Impair{Delay: 70}, 0, 220, true},
		"rate":      {Impair{Rate: 0.25}, 0, 300, true},
		"all rate":  {Impair{Rate: 1}, 0, 150, true},
		"hole+loss": {Impair{Blackhole: true, Loss: 1}, DropBlack, 0, true},
		"both":      {Impair{Rate: 0.5, Delay: 1}, 0, 201, true},
	} {
		r := newRig(t, Config{Rate: 400e9, Delay: 100, Queue: 10000}, nil)
		r.p.SetImpair(0, c.imp)
		r.enqueue(976, 0)  // 1000 bytes of line, 20 ns
		r.enqueue(1476, 1) // 1500 bytes, 30 ns: 50 ns in all
		r.to(1e6)
		if c.why == 0 {
			if len(r.out) != 2 || r.out[1].due != c.due || r.p.C.Drops() != 0 {
				t.Errorf("%s: %+v, %v", name, r.out, r.p.C)
			}
		} else if len(r.out) != 0 || r.p.C[c.why] != 2 || r.p.C.Drops() != 2 {
			t.Errorf("%s: %+v, %v", name, r.out, r.p.C)
		}
		if line := r.p.C[TxFrames] == 2; line != c.line {
			t.Errorf("%s: %d frames on the line", name, r.p.C[TxFrames])
		}
		if r.p.Impair() != c.imp || r.p.Up() == c.imp.Down || r.pool.Out() != 0 {
			t.Errorf("%s: impair %+v, up %v, %d frames out", name, r.p.Impair(), r.p.Up(), r.pool.Out())
		}
	}
}

// TestDownDropsWhatWaits takes a port down with frames in its queue and one on the line, and up again at once, while the
// serializer's call is still under way.
func TestDownDropsWhatWaits(t *testing.T) {
	r := newRig(t, Config{Rate: 1e9, Queue: 10000}, nil)
	for i := range 4 {
		r.enqueue(1000, byte(i))
	}
	r.to(10)
	r.p.SetImpair(10, Impair{Down: true})
	if r.p.C[DropDown] != 3 || r.p.QueueLen() != 0 || r.p.C[QueueBytes] != 0 || r.p.Idle(10) {
		t.Fatalf("down: %v", r.p.C)
	}
	r.enqueue(1000, 8)
	r.to(11)
	r.p.SetImpair(11, Impair{})
	r.enqueue(1000, 9)
	r.to(1e9)
	if len(r.out) != 2 || r.out[1].id != 9 || r.p.C[DropDown] != 4 {
		t.Errorf("%+v, %v", r.out, r.p.C)
	}
	if line := vt.Time(LinePs(1000, 1e9) / 1000); r.out[1].due != 2*line {
		t.Errorf("the frame after the pause is due %v, want %v: the line was still busy", r.out[1].due, 2*line)
	}
}

// losses sends n frames through a port that loses with probability p, and says which were lost.
func losses(t *testing.T, n int, p float64, seed uint64) []bool {
	r := newRig(t, Config{Rate: 400e9, Queue: 10000}, nil)
	r.p.Reset(rand.New(rand.NewPCG(seed, seed)))
	r.p.SetImpair(0, Impair{Loss: p})
	lost := make([]bool, n)
	for i := range lost {
		r.out = r.out[:0]
		r.enqueue(60, 0)
		r.to(r.now + 10)
		lost[i] = len(r.out) == 0
	}
	return lost
}

// TestLossIsIndependent holds the losses of seeded ports to a binomial distribution: in blocks, by chi-square, and in
// what follows a loss.
func TestLossIsIndependent(t *testing.T) {
	const blocks, size = 200, 500
	for seed := uint64(1); seed <= 3; seed++ {
		for _, p := range []float64{0.01, 0.1, 0.5, 0.9} {
			lost := losses(t, blocks*size, p, seed)
			chi, pairs, all := 0.0, 0.0, 0.0
			for b := range blocks {
				n := 0.0
				for i := range size {
					if lost[b*size+i] {
						n++
						if at := b*size + i; at > 0 && lost[at-1] {
							pairs++
						}
					}
				}
				all += n
				chi += (n - size*p) * (n - size*p) / (size * p * (1 - p))
			}
			// 200 degrees of freedom: 0.01 % of seeds lie outside 130 to 285.
			if chi < 130 || chi > 285 {
				t.Errorf("seed %d, loss %v: chi-square %.1f", seed, p, chi)
			}
			if follow := pairs / all; follow < p-0.08 || follow > p+0.08 {
				t.Errorf("seed %d, loss %v: %.3f of losses follow a loss", seed, p, follow)
			}
		}
	}
}

func TestLossRepeats(t *testing.T) {
	a, b, other := losses(t, 1000, 0.3, 5), losses(t, 1000, 0.3, 5), losses(t, 1000, 0.3, 6)
	differ := 0
	for i := range a {
		if a[i] != b[i] {
			t.Fatalf("frame %d: the same seed has other victims", i)
		}
		if a[i] != other[i] {
			differ++
		}
	}
	if differ < 200 {
		t.Errorf("another seed differs in %d of 1000 frames", differ)
	}
}

// TestEveryFrameIsBeyondTheLookahead is what the agreement of the nodes rests on: a frame that leaves during an event
// at t is due at t + Lookahead or later, and without the reorder impairment never before a frame that left earlier, whatever
// the rate, the lengths, the arrivals and the impairments.
func TestEveryFrameIsBeyondTheLookahead(t *testing.T) {
	rates := []int64{1e6, 1e9, 25e9, 400e9, 800e9, 1.6e12, 84 * 8 * 1e9, 671_999_999_999, 3_333_333_333, 1e13}
	for range 300 {
		seed := rand.Uint64()
		rng := rand.New(rand.NewPCG(seed, 0))
		cfg := Config{Rate: rates[rng.IntN(len(rates))], Delay: time.Duration(rng.IntN(3) * rng.IntN(2000)), Queue: int64(rng.IntN(40_000))}
		if rng.IntN(2) == 0 {
			cfg.Rate = 1e6 + rng.Int64N(2e12)
		}
		reorder := rng.IntN(3) == 0
		src := &endless{rng: rng, left: rng.IntN(300)}
		r := newRig(t, cfg, src)
		src.r = r
		for range 400 {
			r.to(r.now + vt.Time(rng.IntN(1+rng.IntN(1+rng.IntN(1000)))))
			switch rng.IntN(12) {
			case 0:
				imp := randomImpair(rng)
				if !reorder {
					imp.Reorder = 0
				}
				r.p.SetImpair(r.now, imp)
			case 1:
				r.p.Kick(r.now)
			default:
				for range 1 + rng.IntN(4) {
					r.enqueue(14+rng.IntN(1+rng.IntN(9000)), 0)
				}
			}
		}
		r.p.SetImpair(r.now, Impair{})
		r.to(vt.Never - 1)
		last := vt.Time(0)
		for i, s := range r.out {
			if s.due < s.at.Add(r.p.Lookahead()) || s.due < last && !reorder {
				t.Fatalf("seed %d: %+v: frame %d of %d bytes leaves at %v, due %v, lookahead %v; the one before is due %v",
					seed, cfg, i, s.n, s.at, s.due, r.p.Lookahead(), last)
			}
			last = s.due
		}
		if len(r.out) == 0 || r.pool.Out() != 0 {
			t.Fatalf("seed %d: %d frames left, %d not given back", seed, len(r.out), r.pool.Out())
		}
		if c := &r.p.C; c[TxFrames]+c[TxTwice] != uint64(len(r.out))+c[DropBlack]+c[DropLoss]+c[DropBurst] || c[QueueBytes] != 0 {
			t.Fatalf("seed %d: %d frames left: %v", seed, len(r.out), c)
		}
	}
}

func TestReceivedWhileDown(t *testing.T) {
	r := newRig(t, Config{Rate: 1e9, Queue: 1000}, nil)
	arrive := func(due vt.Time) bool {
		f := r.frame(64, 0)
		f.Due = due
		if r.p.Received(r.now, f) {
			f.Release()
			return true
		}
		return false
	}
	if !arrive(0) || !arrive(100) {
		t.Error("a port that was never down drops")
	}
	r.p.SetRxDown(100, true)
	r.p.SetRxDown(120, true) // again: it is down since 100
	if !arrive(100) || arrive(101) || arrive(1e15) {
		t.Error("down at 100: what is due at 100 has arrived, what is due later has not")
	}
	r.p.SetRxDown(200, false)
	r.p.SetRxDown(250, false)
	if !arrive(90) || arrive(101) || arrive(200) || !arrive(201) || !arrive(1e15) {
		t.Error("down from 100 to 200: exactly what is due after 100 and up to 200 is lost")
	}
	if r.p.C[DropCut] != 4 || r.p.C[RxFrames] != 6 || r.p.C[RxBytes] != 6*64 || r.pool.Out() != 0 {
		t.Errorf("counters %v, %d frames out", r.p.C, r.pool.Out())
	}
}

// TestFramesOfEachCutAreLost takes a link down twice before the first frame that it cut is looked at, as on a node whose
// pipeline is slower than the link flaps.
func TestFramesOfEachCutAreLost(t *testing.T) {
	r := newRig(t, Config{Rate: 400e9, Delay: 500, Queue: 1 << 20, MTU: 1500}, nil)
	for _, down := range []vt.Time{1000, 2000} {
		r.p.SetRxDown(down, true)
		r.p.SetRxDown(down+100, false)
	}
	for due, lost := range map[vt.Time]bool{1000: false, 1001: true, 1100: true, 1101: false, 2000: false, 2050: true, 2101: false} {
		f := r.pool.Get()
		f.B, f.Due = append(f.B, make([]byte, 60)...), due
		if got := !r.p.Received(2500, f); got != lost {
			t.Errorf("due %v: lost %v", due, got)
		} else if !got {
			f.Release()
		}
	}
}

// TestPauseEndsWithItsLink stops a queue, and takes the link down and up again.
func TestPauseEndsWithItsLink(t *testing.T) {
	r := newRig(t, Config{Rate: 400e9, Delay: 500, Queue: 1 << 20, MTU: 1500}, nil)
	m := wire.Pause{Enabled: 1 << 1}
	m.Quanta[1] = 65535
	r.p.pause(0, &m)
	if r.p.Paused(1)>>1&1 != 1 {
		t.Fatal("the queue is not paused")
	}
	r.p.SetImpair(10, Impair{Down: true})
	r.p.SetImpair(20, Impair{})
	if r.p.Paused(30) != 0 {
		t.Error("the queue is still paused")
	}
	if d := r.p.PausedFor(1000, 1); d != 10 {
		t.Errorf("the queue was paused for %v, the link went down after 10ns", d)
	}
}
