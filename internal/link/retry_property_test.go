package link

import (
	"encoding/binary"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/uetlab/uetlab/internal/link/cbfc"
	"github.com/uetlab/uetlab/internal/link/llr"
	"github.com/uetlab/uetlab/internal/vethtest"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// TestRetryProperty harms a line in every way at once, for 5000 seeds: bit errors up to 1e-4, bursts, lost and duplicate frames in both
// directions, ordered sets too, links that flap in one or both directions, LLR that is turned off and on, PFC frames in between, and in a third
// of the cases credits. Both directions are loaded. In a quarter an operator has to end FLUSH. Each frame that LLR protects must be delivered once and in order, or be counted as given
// up; each other one too, or be counted where it was lost. Once all is well again, so is LLR, and all credits are back.
//
// UETLAB_LINK_SEED repeats a seed, UETLAB_LINK_SEEDS is how many are tried; through the kernel 200.
func TestRetryProperty(t *testing.T) {
	first, seeds := uint64(0), uint64(5000)
	if testing.Short() || vethtest.On {
		seeds = 200
	}
	for name, v := range map[string]*uint64{"UETLAB_LINK_SEED": &first, "UETLAB_LINK_SEEDS": &seeds} {
		if s := os.Getenv(name); s != "" {
			var err error
			if *v, err = strconv.ParseUint(s, 10, 64); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
	var sum tally
	for seed := first; seed < first+seeds; seed++ {
		if propertyOf(t, seed, &sum); t.Failed() {
			t.Fatalf("repeat with UETLAB_LINK_SEED=%d UETLAB_LINK_SEEDS=1", seed)
		}
	}
	t.Logf("%d seeds: %+v", seeds, sum)
	if seeds >= 200 && (sum.Replays == 0 || sum.Flushes == 0 || sum.GivenUp == 0 || sum.Plain == 0 || sum.PlainLost == 0 || sum.Pauses == 0 || sum.Leaks == 0) {
		t.Error("the seeds reach too little")
	}
}

// tally is what the seeds have reached.
type tally struct{ Protected, GivenUp, Plain, PlainLost, Dropped, Replays, Flushes, Pauses, Leaks uint64 }

// lot is what has come of a frame that was offered.
type lot struct {
	how    how
	losses int // of an unprotected one, counted where it was lost
	came   int
}

type how uint8

const (
	waiting     how = iota
	dropped         // at the port, and counted
	protected       // numbered by LLR
	givenUp         // numbered, and counted as flushed
	unprotected     // left without protection
)

// trial is a line on which the fate of each frame is followed.
type trial struct {
	*line
	credits  bool
	lots     [2][]lot
	numbered [2][]int // frames by number, -1 for CC_Updates
	flushed  [2]uint64
	lost     [2]uint64 // counted on the line from a port
	bad      [2]uint64 // counted at a port's receiver
	last     [2]int
	pending  [2]int // 1 + the unprotected frame that leaves in this event
	stored   [2][]*Frame
	limit    uint32
	doubles  bool   // frames may come twice
	pauses   uint64 // PFC frames that ports were to send
}

func newTrial(t *testing.T, seed uint64, rng *rand.Rand) (*trial, *llr.Config) {
	c := testLLR()
	c.Frames = 1 << rng.IntN(9)
	c.Bytes = int64(20_000 + rng.IntN(200_000))
	c.ReplayCount = rng.IntN(6)
	c.AckEvery = int64(1000 + rng.IntN(20_000))
	c.PCSLost = time.Duration(rng.IntN(3)) * 20 * time.Microsecond
	c.DataAge = time.Duration(rng.IntN(2)) * 40 * time.Microsecond
	c.ReInit = rng.IntN(4) > 0
	behaviors := []llr.Behavior{llr.BestEffort, llr.Block, llr.Discard}
	c.Init, c.Flush = behaviors[rng.IntN(3)], behaviors[rng.IntN(3)]
	delay := time.Duration(1 + rng.IntN(1000))
	if rng.IntN(8) == 0 {
		delay, c.ReplayCount = 3*time.Microsecond, 3+rng.IntN(3) // beyond the replay timer: each replay is one too many
	}
	x := &trial{line: newLine(t, &c, delay), credits: rng.IntN(3) == 0, last: [2]int{-1, -1}}
	for i, e := range x.ends {
		if x.credits {
			setup := testCBFC(100 + rng.Uint32N(400))
			setup.CCEvery = time.Duration(2+rng.IntN(20)) * time.Microsecond
			if i == 1 {
				setup = x.ends[0].p.cfg.CBFC
			}
			x.limit = setup.Profile.VCs[0].Limit
			cfg := e.p.cfg
			cfg.CBFC, cfg.MTU = setup, 4500
			e.p = NewPort(i, cfg, lineHost{x.line, i}, lineHost{x.line, i})
		}
		e.p.Reset(rand.New(rand.NewPCG(seed, uint64(i))))
		e.p.Begin(0)
		x.harm(rng, i)
		x.doubles = x.doubles || e.p.imp.Duplicate > 0
	}
	stay := rng.IntN(3000)
	x.keep = func(now vt.Time, to int, f *Frame) { x.deliver(now, to, f, now.Add(time.Duration(stay))) }
	x.left, x.came, x.after = x.leaves, x.arrives, x.follow
	x.meddle = func(from int, f *Frame) []*Frame {
		if x.tag > 0 {
			x.pending[from] = 0 // the line has it
		}
		return []*Frame{f}
	}
	return x, &c
}

// offer queues a new frame at port i.
func (x *trial) offer(now vt.Time, i, size int) {
	id := len(x.lots[i])
	x.lots[i] = append(x.lots[i], lot{})
	if !x.ends[i].p.Enqueue(now, testVC, x.frame(uint32(id), size, false)) {
		x.lots[i][id].how = dropped
	}
}

// leaves sees a frame that leaves a queue: it is protected, dropped, or on its way without protection.
func (x *trial) leaves(i int, f *Frame, sent bool) {
	id := int(binary.BigEndian.Uint32(f.B[34:]))
	p, l := x.ends[i].p, &x.lots[i][id]
	switch tx := p.llr.tx; {
	case l.how != waiting:
		x.t.Errorf("port %d: frame %d leaves its queue twice", i, id)
	case !sent, tx.Discards():
		l.how = dropped
	case tx.Protects():
		l.how = protected
		x.numbered[i] = append(x.numbered[i], id)
	default:
		l.how = unprotected
		x.pending[i], x.tag = id+1, id+1
	}
}

// lineLosses are the frames that a port counts as lost on the line.
func lineLosses(p *Port) uint64 { return p.C[DropLoss] + p.C[DropBurst] + p.C[DropBlack] }

// follow looks at what an event has done to the frames of both ports.
func (x *trial) follow() {
	x.tag = 0
	for i := range 2 {
		p := x.ends[i].p
		if id := x.pending[i] - 1; id >= 0 && lineLosses(p) > x.lost[i] {
			x.lots[i][id].losses++
		}
		x.pending[i], x.lost[i] = 0, lineLosses(p)
		if n := int(x.c(i, llr.TxOK)) - len(x.numbered[i]); n == 1 && x.credits {
			x.numbered[i] = append(x.numbered[i], -1)
		} else if n != 0 {
			x.t.Errorf("port %d: %d frames have a number, %d were expected to", i, x.c(i, llr.TxOK), len(x.numbered[i]))
		}
		gone := x.c(i, llr.TxFlushed) - x.flushed[i]
		x.flushed[i] += gone
		for _, id := range x.numbered[i][len(x.numbered[i])-int(gone):] {
			if id >= 0 {
				x.lots[i][id].how = givenUp
			}
		}
		if held := x.held(i); held > x.limit && !x.doubles {
			x.t.Errorf("port %d: %d credits are stored, of %d", i, held, x.limit)
		}
	}
}

func (x *trial) held(i int) (credits uint32) {
	for _, f := range x.stored[i] {
		credits += uint32(f.cost)
	}
	return credits
}

// arrives sees that an unprotected frame is not delivered: the port has counted why.
func (x *trial) arrives(to, tag int, _ *Frame, ok bool) {
	c := &x.ends[to].p.C
	bad := c[DropCut] + c[DropFCS] + c[DropPreamble]
	if tag > 0 && !ok && bad > x.bad[to] {
		x.lots[1-to][tag-1].losses++
	}
	x.bad[to] = bad
}

func (x *trial) deliver(now vt.Time, to int, f *Frame, until vt.Time) {
	id := int(binary.BigEndian.Uint32(f.B[34:]))
	l := &x.lots[1-to][id]
	l.came++
	if again := l.how == unprotected && id == x.last[to] && x.doubles; id <= x.last[to] && !again {
		x.t.Errorf("port %d: frame %d delivered after %d", 1-to, id, x.last[to])
	}
	x.last[to] = id
	if !f.Credited() {
		f.Release()
		return
	}
	x.stored[to] = append(x.stored[to], f)
	x.at(until, func(vt.Time) {
		x.stored[to][0].Release()
		x.stored[to] = x.stored[to][1:]
	})
}

// pause has port i tell the other one to stop for a while, or to go on.
func (x *trial) pause(now vt.Time, i int, quanta uint16) {
	x.pauses++
	m := wire.Pause{Enabled: 1 << testVC}
	m.Quanta[testVC] = quanta
	f := x.pool.Get()
	f.B = wire.AppendPFC(f.B, wire.MAC{2, 0, 0, 0, 0, byte(i)}, &m)
	x.ends[i].p.EnqueuePause(now, f)
}

func propertyOf(t *testing.T, seed uint64, sum *tally) {
	rng := rand.New(rand.NewPCG(seed, 11))
	x, c := newTrial(t, seed, rng)
	for range rng.IntN(4) {
		x.flap(rng)
	}
	if rng.IntN(4) == 0 {
		at, off := vt.Time(rng.IntN(200_000)), vt.Time(1+rng.IntN(2)*20_000)
		for i := range 2 {
			x.at(at, func(now vt.Time) { _ = x.ends[i].p.SetLLR(now, nil) })
			x.at(at+off, func(now vt.Time) { _ = x.ends[i].p.SetLLR(now, c) })
		}
	}
	if rng.IntN(3) == 0 {
		for range 1 + rng.IntN(20) {
			i, quanta := rng.IntN(2), uint16(rng.IntN(3)*rng.IntN(10_000)) // up to 26 us
			x.at(vt.Time(rng.IntN(250_000)), func(now vt.Time) { x.pause(now, i, quanta) })
		}
	}
	const n = 150
	for i := range 2 {
		gap := []int{50, 300, 1500}[rng.IntN(3)] // a whole line's worth, a third, and little
		begin := rng.IntN(1 + 240_000 - n*gap)
		for k := range n {
			size := 60 + rng.IntN(4000)
			x.at(vt.Time(begin+k*gap), func(now vt.Time) { x.offer(now, i, size) })
		}
	}
	const sick, healed = 300 * us, 6 * ms
	x.at(sick, func(now vt.Time) {
		for i := range 2 {
			x.ends[i].p.SetImpair(now, Impair{})
			x.ends[i].p.SetRxDown(now, false)
		}
	})
	x.at(healed/2, func(now vt.Time) { // an operator, where it does not help itself
		for _, e := range x.ends {
			if e.p.llr.tx.State() == llr.Flush {
				e.p.ReInitLLR(now)
			}
		}
	})
	x.run(healed)
	x.well("long after all was well")
	for i := range 2 {
		gone := uint64(0)
		for id, l := range x.lots[i] {
			if x.judge(i, id, sum); l.how == dropped {
				gone++
			}
		}
		sum.Dropped += gone
		p := x.ends[i].p
		if counted := p.C[DropDown] + p.C[DropDiscard]; counted < gone || counted > gone+x.pauses && !x.credits { // or CC_Updates
			t.Errorf("port %d: %d frames dropped, %d counted", i, gone, counted)
		}
		sum.Replays += x.c(i, llr.TxReplay)
		sum.Flushes += x.c(i, llr.TxFlushes)
		sum.Pauses += p.C[PauseRx]
		sum.Leaks += p.C.CBFC()[cbfc.LeakCredits]
		for range 40 {
			x.offer(x.now, i, 1000)
		}
	}
	x.run(healed + ms)
	x.well("after that")
	for i := range 2 {
		for id, l := range x.lots[i][n:] {
			if l != (lot{how: protected, came: 1}) {
				t.Errorf("port %d: of frames that were sent once all was well, number %d: %+v", i, id, l)
			}
		}
	}
	if x.pool.Out() != 0 {
		t.Errorf("%d frames are still out", x.pool.Out())
	}
}

// judge checks what has come of a frame.
func (x *trial) judge(i, id int, sum *tally) {
	l := x.lots[i][id]
	ok := false
	switch l.how {
	case dropped:
		ok = l.came == 0
	case protected:
		sum.Protected++
		ok = l.came == 1
	case givenUp:
		sum.GivenUp++
		ok = l.came <= 1 // its ACK may be what was lost
	case unprotected:
		sum.Plain++
		if l.came == 0 {
			sum.PlainLost++
		}
		ok = l.came+l.losses == 1 || l.came+l.losses == 2 && x.doubles
	}
	if !ok {
		x.t.Errorf("port %d: frame %d: %+v", i, id, l)
	}
}

// well checks that both ends are in their normal state.
func (x *trial) well(when string) {
	for i := range 2 {
		p := x.ends[i].p
		if s := p.llr.tx.State(); s != llr.Advance || !p.llr.rx.On() || p.llr.rx.Wants() || x.c(i, llr.RingFrames) != 0 || p.QueueLen() != 0 {
			x.t.Errorf("port %d: %v with %d frames without ACK and %d queued, %s", i, s, x.c(i, llr.RingFrames), p.QueueLen(), when)
		}
		if s, r := p.CBFC(); x.credits && (s.Used() != 0 || r.Held() != 0) {
			x.t.Errorf("port %d: %d credits are out, %d held, %s", i, s.Used(), r.Held(), when)
		}
	}
	x.identities()
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
