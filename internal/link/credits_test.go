package link

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/uetlab/uetlab/internal/link/cbfc"
	"github.com/uetlab/uetlab/internal/link/llr"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// creditLine is a line with CBFC whose port 1 keeps frames for a while, and which checks the law of credits after every event.
type creditLine struct {
	*line
	limit  uint32
	stay   time.Duration // how long a frame stays at port 1; 0: for ever
	stored []*Frame
	sent   uint32 // credits of frames that left port 0 for the first time
	came   uint32 // of those that were taken at port 1
	lost   uint32 // of those that never will be
	peak   uint32
}

const testVC = 3

func testCBFC(limit uint32) *cbfc.Setup {
	s := &cbfc.Setup{Config: cbfc.Config{Rate: 400e9}}
	s.Fill()
	s.Profile = cbfc.Profile{CreditSize: 128, Method: wire.CBFCPerVC, Lossless: 1 << testVC, VCs: []wire.CBFCVC{{Index: testVC, Limit: limit, Map: wire.VCMapDSCP, Value: 0, Mask: 0x3F}}}
	return s
}

func newCreditLine(t testing.TB, retry *llr.Config, setup *cbfc.Setup) *creditLine {
	c := &creditLine{line: newLine(t, retry, 500*time.Nanosecond), limit: setup.Profile.VCs[0].Limit}
	for i, e := range c.ends {
		cfg := e.p.cfg
		cfg.CBFC, cfg.MTU = setup, 4500
		e.p = NewPort(i, cfg, lineHost{c.line, i}, lineHost{c.line, i})
		e.p.Reset(rand.New(rand.NewPCG(uint64(i), 7)))
		e.p.Begin(0)
	}
	c.keep = func(now vt.Time, to int, f *Frame) {
		if to == 0 || !f.Credited() {
			f.Release()
			return
		}
		c.came += uint32(f.cost)
		c.stored = append(c.stored, f)
		if c.stay > 0 {
			c.at(now.Add(c.stay), func(vt.Time) { c.leave() })
		}
	}
	return c
}

// leave takes the oldest frame out of the buffer.
func (c *creditLine) leave() {
	f := c.stored[0]
	c.stored = c.stored[1:]
	f.Release()
}

// meddling counts what leaves port 0 for the first time, and loses what lose says.
func (c *creditLine) meddling(lose func(from int, f *Frame) bool) {
	c.meddle = func(from int, f *Frame) []*Frame {
		cost := uint32(0)
		if from == 0 && c.ends[0].p.crd.vcs.VC(f.B) == testVC {
			cost = c.ends[0].p.crd.tx.Cell().Credits(len(f.B))
		}
		if f.LLR>>20&wire.LLRFlagReplay == 0 {
			c.sent += cost
		}
		if lose != nil && lose(from, f) {
			if c.ends[0].p.llr == nil {
				c.lost += cost
			}
			return drop(f)
		}
		return []*Frame{f}
	}
}

// run handles all events up to and including t, and looks at the credits after each.
func (c *creditLine) run(t vt.Time) {
	c.t.Helper()
	for c.q.Next() <= t {
		c.line.run(c.q.Next())
		held := uint32(0)
		for _, f := range c.stored {
			held += uint32(f.cost)
		}
		c.peak = max(c.peak, held)
		tx, rx := c.ends[0].p.crd.tx, c.ends[1].p.crd.rx
		back := uint32(c.ends[1].p.C.CBFC()[cbfc.LeakCredits])
		if err := cbfc.Conserved(tx, rx, testVC, c.sent-c.came-c.lost, c.lost-back, held, c.limit); err != nil {
			c.t.Fatalf("%v: %v", c.now, err)
		}
	}
	c.line.run(t)
}

func (c *creditLine) offer(n int) {
	for i := range n {
		f := c.frame(uint32(i), 1000, false)
		c.ends[0].p.Offer(c.now, testVC, f)
	}
}

// taken is how many frames have come to port 1's node.
func (c *creditLine) taken(n int) {
	c.t.Helper()
	cost := c.ends[0].p.crd.tx.Cell().Credits(1000)
	if c.came != uint32(n)*cost {
		c.t.Fatalf("%d credits came, want those of %d frames, %d each", c.came, n, cost)
	}
}

func (c *creditLine) drained() {
	c.t.Helper()
	if v := c.ends[0].p.crd.tx.VC(c.now, testVC); v.Used != 0 {
		c.t.Errorf("at rest: %+v", v)
	}
}

func TestCBFC02_PortStopsWithoutCredit(t *testing.T) {
	c := newCreditLine(t, nil, testCBFC(100))
	c.meddling(nil)
	c.offer(50)
	c.run(vt.Time(time.Millisecond))
	c.taken(12) // of 8 credits each
	if c.ends[0].p.QueueLen() != 38 {
		t.Errorf("%d frames wait", c.ends[0].p.QueueLen())
	}
}

func TestCBFC03_PortGoesOn(t *testing.T) {
	c := newCreditLine(t, nil, testCBFC(100))
	c.meddling(nil)
	c.offer(50)
	c.run(vt.Time(time.Millisecond))
	c.stay = 200 * time.Nanosecond
	for len(c.stored) > 0 {
		c.at(c.now+1, func(vt.Time) { c.leave() })
		c.run(c.now + 1)
	}
	c.run(vt.Time(3 * time.Millisecond))
	c.taken(50)
	c.drained()
	if c.pool.Out() != 0 {
		t.Errorf("%d frames are out", c.pool.Out())
	}
}

func TestCBFC06_PortRidesOutLostCFUpdates(t *testing.T) {
	c := newCreditLine(t, nil, testCBFC(100))
	c.stay = 200 * time.Nanosecond
	n := 0
	c.meddling(func(from int, f *Frame) bool {
		if from == 1 {
			n++
		}
		return from == 1 && n%10 != 0
	})
	c.offer(500)
	c.run(vt.Time(10 * time.Millisecond))
	c.taken(500)
	c.drained()
}

func TestCBFC10_PortCountersWrap(t *testing.T) {
	c := newCreditLine(t, nil, testCBFC(1000))
	c.stay = 100 * time.Nanosecond
	c.meddling(nil)
	for range 140 {
		c.offer(1000)
		c.run(c.now + vt.Time(30*time.Microsecond))
	}
	c.run(c.now + vt.Time(time.Millisecond))
	c.taken(140_000)
	c.drained()
}

// TestCBFC12_PortKeepsCCUpdatesBehindReplays loses frames, ordered sets and CC_Updates while LLR repairs: whatever is stored is within the limit.
func TestCBFC12_PortKeepsCCUpdatesBehindReplays(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 3))
		retry, setup := testLLR(), testCBFC(300)
		setup.CCEvery = time.Microsecond
		retry.ReplayCount = llr.Unlimited
		c := newCreditLine(t, &retry, setup)
		c.stay = time.Duration(100+rng.IntN(400)) * time.Nanosecond
		c.meddling(func(int, *Frame) bool { return rng.IntN(20) == 0 && c.now < vt.Time(400*time.Microsecond) })
		c.offer(2000)
		c.run(vt.Time(5 * time.Millisecond))
		c.taken(2000)
		c.drained()
		if counts := c.ends[1].p.C.CBFC(); counts[cbfc.CCRx] == 0 || counts[cbfc.LeakCredits]+counts[cbfc.BackCredits]+counts[cbfc.CCStale] != 0 {
			t.Errorf("seed %d: counters %v", seed, counts)
		}
		if c.c(0, llr.TxReplayed) == 0 || c.sent != 2000*8 { // CBFC-11: replays are free
			t.Errorf("seed %d: %d frames replayed, %d credits paid", seed, c.c(0, llr.TxReplayed), c.sent)
		}
		if c.peak > c.limit || c.ends[1].p.crd.rx.VC(testVC).Peak > c.limit {
			t.Errorf("seed %d: %d credits were stored at once", seed, c.peak)
		}
	}
}

// TestCBFCLinkDown takes the link down while frames are on it: when it is back, the first frame tells what was lost.
func TestCBFCLinkDown(t *testing.T) {
	c := newCreditLine(t, nil, testCBFC(300))
	c.stay = 200 * time.Nanosecond
	c.meddling(nil)
	c.offer(100)
	down := func(now vt.Time, is bool) {
		for _, e := range c.ends {
			e.p.SetImpair(now, Impair{Down: is})
			e.p.SetRxDown(now, is)
		}
	}
	c.at(1000, func(now vt.Time) { down(now, true) })
	c.at(50_000, func(now vt.Time) { down(now, false) })
	c.line.run(60_000)
	c.drained()
	if leak := c.ends[1].p.C.CBFC()[cbfc.LeakCredits]; leak == 0 {
		t.Error("nothing was lost")
	}
}

// TestCreditsAllocateNothing passes frames through two ports with CBFC in the steady state.
func TestCreditsAllocateNothing(t *testing.T) {
	w := newWireload(nil, 0)
	for i, p := range w.p {
		cfg := p.cfg
		cfg.CBFC = testCBFC(2000)
		w.p[i] = NewPort(i, cfg, wireHost{w, i}, wireHost{w, i})
		w.p[i].Reset(rand.New(rand.NewPCG(1, uint64(i))))
		w.p[i].Begin(0)
	}
	for range 20_000 {
		w.frame(1000)
	}
	if n := testing.AllocsPerRun(500, func() {
		for range 10 {
			w.frame(1000)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if c := w.p[1].C.CBFC(); c[cbfc.CFTx] == 0 || c[cbfc.CCRx] == 0 {
		t.Errorf("counters %v", c)
	}
}

func TestCBFC11_PortPaysOnce(t *testing.T) {
	retry := testLLR()
	c := newCreditLine(t, &retry, testCBFC(300))
	c.stay = 200 * time.Nanosecond
	n := 0
	c.meddling(func(from int, f *Frame) bool {
		if from == 0 {
			n++
		}
		return from == 0 && n%20 == 0
	})
	c.offer(1000)
	c.run(vt.Time(5 * time.Millisecond))
	c.taken(1000)
	if v := c.ends[0].p.crd.tx.VC(c.now, testVC); v.Consumed != 8000 || c.c(0, llr.TxReplayed) == 0 {
		t.Errorf("%d frames replayed: %+v", c.c(0, llr.TxReplayed), v)
	}
}
