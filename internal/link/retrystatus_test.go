package link

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/uetlab/uetlab/internal/link/llr"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// status is what both sides of a port say at the line's present time. All times in states together are all the time that has passed.
func (l *line) status(i int) (llr.TXStatus, llr.RXStatus) {
	l.t.Helper()
	tx, rx, ok := l.ends[i].p.RetryStatus(l.now)
	if !ok {
		l.t.Fatalf("port %d has no LLR", i)
	}
	for _, in := range [][5]time.Duration{tx.In, rx.In} {
		var all time.Duration
		for _, d := range in {
			all += d
		}
		if all != time.Duration(l.now) {
			l.t.Errorf("port %d: %v in states, and %v have passed: %v", i, all, time.Duration(l.now), in)
		}
	}
	return tx, rx
}

func TestLatencyIsFromTheFirstTransmissionToTheAck(t *testing.T) {
	l := newRetry(t, nil)
	l.meddle = nth(40, drop)
	l.offer(0, 50, 1000)
	l.run(ms)
	l.whole(0, 50)
	tx, rx := l.status(0)
	a := &tx.Latency
	// There and back are 1 us and the frame itself; ACKs come after 16 KiB or 1 us. Frame 40 and those behind it waited for the replay.
	if a.Count() != 50 || a.Quantile(0.5) < time.Microsecond || a.Quantile(0.5) > 2500*time.Nanosecond || a.Max < 2*time.Microsecond || a.Max > 4*time.Microsecond {
		t.Errorf("%d frames, p50 %v, max %v", a.Count(), a.Quantile(0.5), a.Max)
	}
	if a.Quantile(1) != a.Max || a.Sum < 50*time.Microsecond || a.Sum > 50*a.Max {
		t.Errorf("the slowest %v of %v, all together %v", a.Quantile(1), a.Max, a.Sum)
	}
	if tx.State != llr.Advance || tx.In[llr.Replay] == 0 || tx.In[llr.Flush] != 0 || tx.Next != 50 || tx.Acked != 49 || tx.Frames != 0 || tx.ReplayAt != vt.Never || rx.Spurious != 0 {
		t.Errorf("%+v", tx)
	}
	if _, far := l.status(1); far.State != llr.SendAcks || far.In[llr.NackSent] < time.Microsecond || far.In[llr.NackSent] > 2*time.Microsecond || far.Next != 50 || far.Spurious != 0 {
		t.Errorf("%+v", far)
	}
}

func TestStatusOfWhatIsUnderWay(t *testing.T) {
	l := newRetry(t, nil)
	l.offer(0, 10, 1000)
	l.run(100)
	if tx, _ := l.status(0); tx.Frames == 0 || tx.Bytes != int64(tx.Frames)*1004 || tx.ReplayAt != 5000 {
		t.Errorf("%+v", tx)
	}
	l.run(900)
	if _, rx := l.status(1); rx.AckAt == vt.Never || rx.Unacked == 0 || rx.Next == 0 {
		t.Errorf("%+v", rx)
	}
}

// Replays by the timer that bring only duplicates are counted where they arrive (uet-link-switch 2.15, 3), those that bring something are not.
func TestSpuriousReplays(t *testing.T) {
	for _, c := range []struct {
		name   string
		meddle func(l *line) func(int, *Frame) []*Frame
		want   uint64
	}{
		{"ACKs lost", func(l *line) func(int, *Frame) []*Frame {
			return answers(func(wire.CtlOSType) bool { return l.now < 13*us })
		}, 2},
		{"the last frame lost", func(*line) func(int, *Frame) []*Frame { return nth(100, drop) }, 0},
		{"a frame and the NACK lost", func(l *line) func(int, *Frame) []*Frame {
			first := nth(50, drop)
			nack := answers(func(kind wire.CtlOSType) bool { return kind == wire.CtlOSNack })
			return func(from int, f *Frame) []*Frame {
				if from == 0 {
					return first(from, f)
				}
				return nack(from, f)
			}
		}, 0},
		{"nothing lost", func(*line) func(int, *Frame) []*Frame { return nil }, 0},
	} {
		l := newRetry(t, nil)
		l.meddle = c.meddle(l)
		l.offer(0, 100, 100)
		l.run(ms)
		l.whole(0, 100)
		if _, rx := l.status(1); rx.Spurious != c.want {
			t.Errorf("%s: %d spurious replays, not %d", c.name, rx.Spurious, c.want)
		}
		if timeouts := l.c(0, llr.TxTimeouts); timeouts == 0 != (c.name == "nothing lost") {
			t.Errorf("%s: %d replays by the timer", c.name, timeouts)
		}
		l.offer(100, 100, 100) // frames that are not sent again end the replay, and it counts but once
		l.run(2 * ms)
		if _, rx := l.status(1); rx.Spurious != c.want {
			t.Errorf("%s: %d spurious replays in the end, not %d", c.name, rx.Spurious, c.want)
		}
	}
}

func TestTimeInFlushAndInit(t *testing.T) {
	l := muted(t, 100, 100*us, func(c *llr.Config) { c.ReInit = false })
	l.run(ms)
	tx, _ := l.status(0)
	if tx.State != llr.Flush || tx.In[llr.Flush] < 970*time.Microsecond || tx.Frames != 0 {
		t.Errorf("%+v", tx)
	}
	l.ends[0].p.ReInitLLR(l.now)
	l.run(ms + 100*us)
	is, far := l.status(0)
	if is.State != llr.Advance || is.In[llr.Flush] != tx.In[llr.Flush] || is.In[llr.Init] < time.Microsecond || is.In[llr.Init] > 2*time.Microsecond || far.State != llr.SendAcks {
		t.Errorf("%+v", is)
	}
	l.offer(100, 20, 1000)
	l.run(ms + 100*us + 200)
	l.ends[0].p.ReInitLLR(l.now) // gives up what waits
	if n := l.c(0, llr.TxFlushed); n <= 100 {
		t.Errorf("%d frames given up", n)
	}
}

func TestIneligibleFramesAreCounted(t *testing.T) {
	l := newRetry(t, nil)
	n := 0
	l.meddle = func(from int, f *Frame) []*Frame {
		if n++; from == 0 && f.LLR == 0 && n%2 == 0 {
			return corrupt(f)
		}
		return []*Frame{f}
	}
	for i := range uint32(20) {
		l.ends[0].p.Offer(l.now, 0, l.frame(i, 100, true))
	}
	l.run(ms)
	l.want(1, map[llr.Counter]uint64{llr.RxPlain: 10, llr.RxPlainBad: 10, llr.RxOK: 0})
}

// TestCountersOverRuns: what counts goes on from run to run, and never falls; what tells of a state begins anew.
func TestCountersOverRuns(t *testing.T) {
	l := newRetry(t, func(c *llr.Config) { *c = testLLR2() })
	last := uint64(0)
	for run := range 3 {
		l.offer(0, 100, 1000)
		l.run(l.now + ms)
		if n := l.c(0, llr.TxBlocked); n <= last {
			t.Errorf("run %d: blocked for %d us, before it %d", run, n, last)
		}
		last = l.c(0, llr.TxBlocked)
		for i, e := range l.ends {
			e.p.cfg.Negotiated = run == 1 // nothing is left of a link's retry that the run is to negotiate
			e.p.Reset(rand.New(rand.NewPCG(uint64(i), 7)))
			e.p.Begin(l.now)
		}
		if run == 1 {
			l.want(1, map[llr.Counter]uint64{llr.TxState: uint64(llr.Off), llr.RxState: uint64(llr.RXOff), llr.RoundTrip: 0})
			for _, e := range l.ends {
				e.p.cfg.Negotiated = false
				if err := e.p.SetLLR(l.now, new(testLLR2())); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// testLLR2 has so small a window that the scheduler is held up.
func testLLR2() llr.Config {
	c := testLLR()
	c.Frames = 2
	return c
}
