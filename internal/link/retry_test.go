package link

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/uetlab/uetlab/internal/link/llr"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// The requirements LLR-01 to LLR-31 of the link layer, two ports back to back, durations virtual.

const (
	us    = vt.Time(time.Microsecond)
	ms    = vt.Time(time.Millisecond)
	reach = 500 * time.Nanosecond // of the line
)

func newRetry(t testing.TB, change func(c *llr.Config)) *line {
	c := testLLR()
	if change != nil {
		change(&c)
	}
	return newLine(t, &c, reach)
}

func TestLLR02_NumberWrapsAround(t *testing.T) {
	l := newRetry(t, nil)
	l.begin(0xFFFF0)
	l.offer(0, 64, 1000)
	l.run(ms)
	l.whole(0, 64)
	l.want(1, map[llr.Counter]uint64{llr.TxNack: 0, llr.RxExpected: 64})
	if w := l.words[63] & llr.SeqMask; w != 0x2F {
		t.Errorf("the last number is %#x", w)
	}
	l.begin(0xFFFF0) // and with a loss right at the edge
	l.meddle = nth(16, drop)
	l.offer(64, 64, 1000)
	l.run(2 * ms)
	l.whole(0, 128)
	l.want(1, map[llr.Counter]uint64{llr.TxNack: 1, llr.RxReplay: 1})
}

func TestLLR03_CleanLink(t *testing.T) {
	for _, n := range []int{64, 9000} {
		l := newRetry(t, nil)
		l.offer(0, 1000, n)
		l.run(ms)
		l.whole(0, 1000)
		l.want(0, map[llr.Counter]uint64{llr.TxOK: 1000, llr.TxReplay: 0, llr.RingFrames: 0, llr.RxNack: 0, llr.TxFlushes: 0})
		l.want(1, map[llr.Counter]uint64{llr.RxOK: 1000, llr.RxExpected: 1000, llr.TxNack: 0})
		if l.c(0, llr.RxAck) == 0 || l.c(0, llr.RxAck) != l.c(1, llr.TxAck) {
			t.Errorf("%d ACKs sent, %d received", l.c(1, llr.TxAck), l.c(0, llr.RxAck))
		}
		if l.pool.Out() != 0 {
			t.Errorf("%d frames are still out", l.pool.Out())
		}
		if l.q.Len() != 0 {
			t.Error("an idle link has events")
		}
	}
}

func TestLLR04_AckIsCumulative(t *testing.T) {
	l := newRetry(t, func(c *llr.Config) { c.AckEvery = 2000 })
	n := 0
	l.meddle = answers(func(wire.CtlOSType) bool { n++; return n%10 != 0 })
	l.offer(0, 1000, 1000)
	l.run(ms)
	l.whole(0, 1000)
	l.want(0, map[llr.Counter]uint64{llr.TxReplay: 0, llr.RingFrames: 0})
	if peak := l.c(0, llr.RingPeak); peak > 128 {
		t.Errorf("%d frames without ACK", peak)
	}
}

func TestLLR05_GapGivesOneNack(t *testing.T) {
	l := gap(t)
	l.whole(1, 1000)
	l.want(1, map[llr.Counter]uint64{llr.TxNack: 1, llr.RxExpBad: 0})
	if l.c(1, llr.RxMissing) == 0 {
		t.Error("no frame was ahead of the one expected")
	}
}

// gapped is about to lose frame 901 of 1000; the NACK must carry 900.
func gapped(t *testing.T) *line {
	l := newRetry(t, nil)
	l.begin(1)
	l.meddle = nackOf(t, 900, nth(901, drop))
	l.offer(1, 1000, 1000)
	return l
}

func gap(t *testing.T) *line {
	l := gapped(t)
	l.run(ms)
	return l
}

// nackOf checks the number of each NACK.
func nackOf(t *testing.T, seq uint32, then func(int, *Frame) []*Frame) func(int, *Frame) []*Frame {
	return func(from int, f *Frame) []*Frame {
		if from == 1 && isSets(f.B) {
			if s := wire.CtlOS(f.B[wire.EthLen:]); s.Type() == wire.CtlOSNack && s.Seq() != seq {
				t.Errorf("NACK %d, not %d", s.Seq(), seq)
			}
		}
		return then(from, f)
	}
}

func TestLLR07_NothingIsDeliveredBeforeTheFrameExpected(t *testing.T) {
	l := gapped(t)
	lose, waits := l.meddle, 0
	l.meddle = func(from int, f *Frame) []*Frame {
		if from == 1 && isSets(f.B) && wire.CtlOS(f.B[wire.EthLen:]).Type() == wire.CtlOSNack {
			l.at(l.now.Add(reach), func(vt.Time) { waits = len(l.ends[1].got) })
		}
		if from == 0 && f.LLR == wire.LLRWord(wire.LLREligible, wire.LLRFlagReplay, 901) && (waits != 900 || len(l.ends[1].got) != 900) {
			t.Errorf("%d frames delivered half a round trip after the NACK, %d before the replay; want the 900 before the gap", waits, len(l.ends[1].got))
		}
		return lose(from, f)
	}
	l.run(ms)
	l.whole(1, 1000) // in order, once each
	if l.c(1, llr.RxExpected) != 1000 || l.c(1, llr.RxMissing) == 0 || waits != 900 {
		t.Errorf("%d frames accepted, %d ahead of the one expected", l.c(1, llr.RxExpected), l.c(1, llr.RxMissing))
	}
}

func TestLLR09_ReplayIsCountedAtBothEnds(t *testing.T) {
	l := gap(t)
	l.want(0, map[llr.Counter]uint64{llr.TxReplay: 1, llr.TxTimeouts: 0})
	l.want(1, map[llr.Counter]uint64{llr.RxReplay: 1})
}

func TestLLR10_LostNackIsRescuedByTheTimer(t *testing.T) {
	l := newRetry(t, nil)
	lose, muted := nth(50, drop), false
	mute := answers(func(k wire.CtlOSType) bool {
		was := muted
		muted = muted || k == wire.CtlOSNack
		return k == wire.CtlOSNack && !was
	})
	l.meddle = func(from int, f *Frame) []*Frame {
		if from == 0 {
			return lose(from, f)
		}
		return mute(from, f)
	}
	l.offer(0, 100, 1000)
	l.run(ms)
	l.whole(0, 100)
	l.want(0, map[llr.Counter]uint64{llr.TxTimeouts: 1, llr.RxNack: 0, llr.TxFlushes: 0})
	l.want(1, map[llr.Counter]uint64{llr.TxNack: 1})
}

func TestLLR11_HarmedReplayIsRescuedWithoutAnotherNack(t *testing.T) {
	l := newRetry(t, nil)
	l.begin(1)
	harmed := 0
	l.meddle = func(from int, f *Frame) []*Frame {
		if from == 0 && f.LLR&llr.SeqMask == 901 && harmed < 2 {
			harmed++
			return corrupt(f)
		}
		return []*Frame{f}
	}
	l.offer(1, 1000, 1000)
	l.run(ms)
	l.whole(1, 1000)
	l.want(1, map[llr.Counter]uint64{llr.TxNack: 1, llr.RxExpBad: 2})
	l.want(0, map[llr.Counter]uint64{llr.TxTimeouts: 1})
}

func TestLLR12_LostLastFrameIsRescued(t *testing.T) {
	l := newRetry(t, nil)
	l.meddle = nth(100, drop)
	l.offer(0, 100, 1000)
	l.run(ms)
	l.whole(0, 100)
	l.want(0, map[llr.Counter]uint64{llr.TxTimeouts: 1, llr.RxNack: 0})
}

// muted offers frames while no ordered set of the far end arrives.
func muted(t *testing.T, n int, until vt.Time, change func(c *llr.Config)) *line {
	l := newRetry(t, change)
	l.meddle = answers(func(wire.CtlOSType) bool { return l.now < until })
	l.offer(0, n, 100)
	return l
}

func TestLLR13_ReplayLimit(t *testing.T) {
	l := muted(t, 100, ms, func(c *llr.Config) { c.ReInit = false })
	l.run(ms)
	l.whole(0, 100)
	l.want(0, map[llr.Counter]uint64{llr.TxReplay: 3, llr.TxFlushes: 1, llr.TxFlushed: 100, llr.TxReplayed: 300, llr.TxState: uint64(llr.Flush)})
	if len(l.words) != 400 {
		t.Errorf("%d frames on the line", len(l.words))
	}
}

func TestLLR14_WindowOfFrames(t *testing.T) {
	l := muted(t, 1000, ms, func(c *llr.Config) { c.Frames, c.ReInit, c.Flush = 10, false, llr.Block })
	l.run(ms)
	l.want(1, map[llr.Counter]uint64{llr.RxOK: 40, llr.RxDuplicate: 30, llr.RxExpected: 10})
	l.want(0, map[llr.Counter]uint64{llr.RingPeak: 10})
}

func TestLLR15_WindowOfBytes(t *testing.T) {
	l := newRetry(t, func(c *llr.Config) { c.Bytes = 20_000 })
	l.offer(0, 100, 9000)
	l.run(ms)
	l.whole(0, 100)
	if peak := l.c(0, llr.RingPeak); peak > 2 {
		t.Errorf("%d frames of 9000 bytes without ACK, where 20 kB may be", peak)
	}
	if l.c(0, llr.TxBlocked) == 0 {
		t.Error("the scheduler was never held up")
	}
}

func TestLLR16_ReInitComesBack(t *testing.T) {
	l := muted(t, 100, 100*us, nil)
	l.run(300 * us)
	l.want(0, map[llr.Counter]uint64{llr.TxFlushes: 1, llr.TxState: uint64(llr.Advance)})
	if l.c(0, llr.TxInit) == 0 || l.c(0, llr.RxInitEcho) != 1 {
		t.Errorf("%d LLR_INIT, %d echoes", l.c(0, llr.TxInit), l.c(0, llr.RxInitEcho))
	}
	l.want(1, map[llr.Counter]uint64{llr.RxOK: 400, llr.RxExpected: 100, llr.RxDuplicate: 300})
	l.offer(100, 100, 100)
	l.run(ms)
	l.whole(0, 200)
	l.want(1, map[llr.Counter]uint64{llr.RxExpected: 200})
	if rtt := l.c(0, llr.RoundTrip); rtt < 1000 || rtt > 1100 {
		t.Errorf("round trip %d ns on a line of 500 ns", rtt)
	}
}

func TestLLR17_WithoutReInitItStaysInFlush(t *testing.T) {
	l := muted(t, 100, 100*us, func(c *llr.Config) { c.ReInit = false })
	l.run(5 * ms)
	l.want(0, map[llr.Counter]uint64{llr.TxState: uint64(llr.Flush), llr.TxInit: 0})
	l.ends[0].p.ReInitLLR(l.now)
	l.run(6 * ms)
	l.want(0, map[llr.Counter]uint64{llr.TxState: uint64(llr.Advance), llr.TxInit: 1})
	l.offer(100, 10, 100)
	l.run(7 * ms)
	l.whole(0, 110)
}

func TestLLR18_InitAndFlushBehavior(t *testing.T) {
	for _, reInit := range []bool{false, true} { // what is offered in FLUSH, and in INIT
		for _, b := range []llr.Behavior{llr.Discard, llr.Block, llr.BestEffort} {
			l := muted(t, 100, ms, func(c *llr.Config) { c.ReInit, c.Flush, c.Init = reInit, b, b })
			l.run(100 * us)
			if s := llr.State(l.c(0, llr.TxState)); s != map[bool]llr.State{false: llr.Flush, true: llr.Init}[reInit] {
				t.Fatalf("state %v", s)
			}
			l.offer(100, 50, 100)
			l.run(200 * us)
			waits, dropped := l.ends[0].p.QueueLen(), l.c(0, llr.TxDiscard)
			want := map[llr.Behavior][3]int{llr.Discard: {0, 50, 0}, llr.Block: {50, 0, 0}, llr.BestEffort: {0, 0, 50}}[b]
			if got := [3]int{waits, int(dropped), l.plain}; got != want || l.ends[0].p.C[DropDiscard] != dropped {
				t.Errorf("%s, reInit %v: queued, discarded, unprotected: %v, not %v", b, reInit, got, want)
			}
		}
	}
}

func TestLLR19_UnlimitedReplaysNeverFlush(t *testing.T) {
	l := muted(t, 100, ms, func(c *llr.Config) { c.ReplayCount = llr.Unlimited })
	l.run(3 * ms)
	l.whole(0, 100)
	l.want(0, map[llr.Counter]uint64{llr.TxFlushes: 0, llr.RingFrames: 0})
	if l.c(0, llr.TxTimeouts) < 100 {
		t.Errorf("%d replays", l.c(0, llr.TxTimeouts))
	}
}

// cut takes the line down in both directions for some time.
func (l *line) cut(from, to vt.Time) {
	for i := range 2 {
		p := l.ends[i].p
		l.at(from, func(now vt.Time) { p.SetImpair(now, Impair{Down: true}); p.SetRxDown(now, true) })
		l.at(to, func(now vt.Time) { p.SetImpair(now, Impair{}); p.SetRxDown(now, false) })
	}
}

func TestLLR20_LossOfCarrier(t *testing.T) {
	for _, c := range []struct {
		down    vt.Time
		flushes uint64
	}{{20 * us, 0}, {200 * us, 1}} {
		l := newRetry(t, nil)
		changed := 0
		l.ends[0].p.Changed = func(vt.Time) { changed++ }
		l.offer(0, 1000, 1000)
		l.cut(5*us, 5*us+c.down)
		l.run(5*us + 1)
		if !l.ends[0].p.Up() {
			t.Error("a port is down at once with its link")
		}
		l.run(5*us + c.down - 1)
		if up := l.ends[0].p.Up(); up != (c.flushes == 0) || changed != int(c.flushes) {
			t.Errorf("down for %v: the port is up: %v, and has told %d times", c.down, up, changed)
		}
		l.run(2 * ms)
		l.want(0, map[llr.Counter]uint64{llr.TxFlushes: c.flushes, llr.TxState: uint64(llr.Advance), llr.RingFrames: 0})
		if c.flushes == 0 {
			l.whole(0, 1000)
			continue
		}
		if len(l.ends[1].got) >= 1000 || l.ends[0].p.C[DropDown] == 0 {
			t.Error("a link that was down for long has lost nothing")
		}
		l.ends[1].got = nil
		l.offer(1000, 100, 1000) // it is as good as new
		l.run(3 * ms)
		l.whole(1000, 100)
	}
}

func TestLLR21_DataAge(t *testing.T) {
	l := muted(t, 10, ms, func(c *llr.Config) { c.ReplayCount, c.DataAge, c.ReInit = llr.Unlimited, 20*time.Microsecond, false })
	l.run(20*us - 1)
	l.want(0, map[llr.Counter]uint64{llr.TxFlushes: 0})
	l.run(20 * us)
	l.want(0, map[llr.Counter]uint64{llr.TxFlushes: 1, llr.TxFlushed: 10})
}

func TestLLR22_PoisonedFrame(t *testing.T) {
	l := newRetry(t, nil)
	l.meddle = nth(10, func(f *Frame) []*Frame {
		f.FCS, f.Damaged = wire.FCS(f.B)^poison, true
		return []*Frame{f}
	})
	l.offer(0, 100, 1000)
	l.run(ms)
	l.want(1, map[llr.Counter]uint64{llr.RxPoisoned: 1, llr.RxExpPoisoned: 1, llr.TxNack: 0, llr.RxExpected: 99})
	l.want(0, map[llr.Counter]uint64{llr.TxReplay: 0, llr.RingFrames: 0})
	if got := l.ends[1].got; len(got) != 99 || got[8] != 8 || got[9] != 10 || l.ends[1].p.C[DropPoisoned] != 1 {
		t.Errorf("%d frames delivered, %d poisoned ones dropped", len(got), l.ends[1].p.C[DropPoisoned])
	}
	l.identities()
}

// inject has an ordered set arrive at port 0.
func (l *line) inject(set []byte) {
	f := l.pool.Get()
	f.B = append(wire.AppendCtlOSHeader(f.B, wire.MAC{}), set...)
	f.Due = l.now
	l.ends[0].p.Received(l.now, l.cross(1, f))
}

func TestLLR23_ImpossibleAck(t *testing.T) {
	l := newRetry(t, nil)
	l.offer(0, 10, 1000)
	l.run(100) // on their way
	for _, k := range []wire.CtlOSType{wire.CtlOSAck, wire.CtlOSNack} {
		l.inject(wire.AppendLLRSeq(nil, k, uint32(l.c(0, llr.TxOK))+5))
	}
	l.want(0, map[llr.Counter]uint64{llr.RxSeqError: 2, llr.RingFrames: l.c(0, llr.TxOK)})
	l.run(ms)
	l.whole(0, 10)
	l.want(0, map[llr.Counter]uint64{llr.TxReplay: 0})
}

func TestLLR24_ForgedEcho(t *testing.T) {
	l := newRetry(t, nil)
	l.meddle = answers(func(wire.CtlOSType) bool { return true })
	l.ends[0].p.ReInitLLR(0)
	l.run(us)
	seq, data := l.ends[0].p.llr.tx.Init(l.now)
	for _, x := range [][]byte{wire.AppendLLRInit(nil, wire.CtlOSInitEcho, seq, data+1), wire.AppendLLRInit(nil, wire.CtlOSInitEcho, seq+1, data)} {
		l.inject(x)
	}
	l.want(0, map[llr.Counter]uint64{llr.TxState: uint64(llr.Init), llr.EchoMismatch: 2})
	l.inject(wire.AppendLLRInit(nil, wire.CtlOSInitEcho, seq, data))
	l.want(0, map[llr.Counter]uint64{llr.TxState: uint64(llr.Advance)})
}

func TestLLR25_DuplicatesAreDropped(t *testing.T) {
	l := newRetry(t, nil)
	l.meddle = nth(5, func(f *Frame) []*Frame { return []*Frame{f, f.Copy()} })
	l.offer(0, 100, 1000)
	l.run(ms)
	l.whole(0, 100)
	l.want(1, map[llr.Counter]uint64{llr.RxDuplicate: 1, llr.TxNack: 0})
}

// LLR-26 with bit errors: there is no model of codewords yet.
func TestLLR26_OnlyUnprotectedFramesAreLost(t *testing.T) {
	l := newRetry(t, nil)
	l.ends[0].p.SetImpair(0, Impair{BER: 1e-6})
	for i := range uint32(20_000) {
		l.ends[0].p.Offer(0, 0, l.frame(i, 1000, i%2 == 1))
	}
	l.run(20 * ms)
	even, odd, last := 0, 0, uint32(0)
	for _, id := range l.ends[1].got {
		if id%2 == 1 {
			odd++
			continue
		}
		if id < last {
			t.Fatalf("frame %d after %d", id, last)
		}
		even, last = even+1, id
	}
	if even != 10_000 || odd == 10_000 || odd < 9_800 {
		t.Errorf("%d of 10000 protected frames arrived, %d of 10000 others", even, odd)
	}
	l.identities()
}

// PFC-04: a pause that comes in the middle of a replay stops the scheduler, and neither replays nor ACKs and NACKs.
func TestPFC04_PauseStopsNoReplay(t *testing.T) {
	l := newRetry(t, nil)
	lose := nth(20, drop)
	stop := func(now vt.Time, quanta uint16) {
		for i := range 2 {
			m := wire.Pause{Enabled: 1}
			m.Quanta[0] = quanta
			l.ends[i].p.pause(now, &m)
		}
	}
	paused := false
	l.meddle = func(from int, f *Frame) []*Frame {
		if from == 0 && !paused && f.LLR>>20&wire.LLRFlagReplay != 0 {
			paused = true
			l.at(l.now, func(now vt.Time) { stop(now, 0xFFFF) })
		}
		return lose(from, f)
	}
	for i := range uint32(200) {
		l.ends[1].p.Offer(0, 0, l.frame(i, 1000, false))
	}
	l.offer(0, 200, 1000)
	l.run(20 * us)
	if !paused || l.ends[0].p.Paused(l.now) != 1 || l.ends[0].p.QueueLen() == 0 {
		t.Fatal("no pause in the middle of a replay")
	}
	l.want(0, map[llr.Counter]uint64{llr.TxReplay: 1, llr.RxNack: 1, llr.RingFrames: 0})
	l.want(1, map[llr.Counter]uint64{llr.RxReplay: 1, llr.RingFrames: 0})
	if n := l.c(1, llr.RxExpected); n != l.c(0, llr.TxOK) || n >= 200 {
		t.Errorf("%d frames sent before the pause, %d accepted", l.c(0, llr.TxOK), n)
	}
	stop(l.now, 0)
	l.run(ms)
	l.whole(0, 200)
}

// TestLLRBeginsWithARun turns LLR on at the time at which a run begins, before and after the port has heard of the run: both come to the
// same, protected from the first frame on and without a handshake.
func TestLLRBeginsWithARun(t *testing.T) {
	for _, first := range []bool{true, false} {
		l := newLine(t, nil, reach)
		l.run(ms)
		c := testLLR()
		for i := range 2 {
			p := l.ends[i].p
			on := func() {
				if err := p.SetLLR(l.now, &c); err != nil {
					t.Fatal(err)
				}
			}
			if first {
				on()
			}
			p.Reset(rand.New(rand.NewPCG(uint64(i), 9)))
			p.Begin(l.now)
			if !first {
				on()
			}
		}
		l.offer(0, 100, 1000)
		l.run(2 * ms)
		l.whole(0, 100)
		if len(l.words) != 100 || l.plain != 0 || l.words[0]&llr.SeqMask != 0 || l.sets[0][wire.CtlOSInit]+l.sets[1][wire.CtlOSInit] != 0 {
			t.Errorf("LLR before the run %v: %d frames protected, %d not, ordered sets %v", first, len(l.words), l.plain, l.sets)
		}
	}
}
