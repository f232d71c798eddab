package control

import (
	"context"
	"math/rand/v2"
	goruntime "runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/internal/clock"
	"github.com/uetlab/uetlab/internal/vt"
)

// juggle passes one event to and fro between two nodes, with their pages written as nodes write them: a frame is handed
// over within a sweep and counted before the sweep ends; a frame that was taken becomes the next event. There is always
// exactly one thing left to happen.
func juggle(l *lab, stop *atomic.Bool) *sync.WaitGroup {
	var wg sync.WaitGroup
	wire := [2]chan vt.Time{make(chan vt.Time, 1), make(chan vt.Time, 1)}
	for i, p := range l.pages {
		wg.Add(1)
		go func() { // ends with stop
			defer wg.Done()
			rng := rand.New(rand.NewPCG(1, uint64(i)))
			idle := func() {
				for range rng.IntN(50) {
					goruntime.Gosched()
				}
			}
			for !stop.Load() {
				var t vt.Time
				select {
				case t = <-wire[i]:
				default:
					goruntime.Gosched()
					continue
				}
				p.Seq.Add(1) // a sweep: the frame is taken …
				p.Taken[0].Add(1)
				idle()
				p.Next.Store(int64(t))
				p.Seq.Add(1) // … and waits to be handled
				idle()
				p.Seq.Add(1)
				p.Horizon.Store(int64(t))
				wire[1-i] <- t + 10 // the kernel hands it over within the send call
				idle()
				p.Sent[0].Add(1)
				p.Next.Store(int64(vt.Never))
				p.Seq.Add(1)
				idle()
			}
		}()
	}
	l.pages[1].Sent[0].Add(1)
	wire[0] <- 10
	return &wg
}

// TestQuietIsNeverWrong looks at pages that two nodes write all the time. Something is always left to happen, so quiet
// must never say that nothing is, and the event that it tells must not be one that is over.
func TestQuietIsNeverWrong(t *testing.T) {
	l := newLab(t, "pair", "auto")
	var stop atomic.Bool
	wg := juggle(l, &stop)
	defer wg.Wait()
	defer stop.Store(true)
	ns, seqs := l.agreeing(), make([]uint64, 2)
	quiet, last := 0, vt.Time(0)
	for looks := range 30_000_000 {
		if looks%100 == 0 {
			goruntime.Gosched() // on a busy machine the nodes would not get a turn
		}
		_, before := l.horizons()
		next, ok := l.quiet(ns, seqs)
		if !ok {
			continue
		}
		quiet++
		if next == vt.Never || next < last || next <= before {
			t.Fatalf("look %d: next event %v; before it was %v, and a horizon is %v", quiet, next, last, before)
		}
		last = next
		if quiet == 3000 {
			return
		}
	}
	if quiet == 0 {
		t.Error("never quiet: the test is of no use")
	}
}

func TestLeapGoesJustBeforeTheNextEvent(t *testing.T) {
	yes := func() bool { return true }
	for name, c := range map[string]struct {
		prepare func(l *lab)
		allowed func() bool
		jump    vt.Time
		next    vt.Time
		quiet   bool
	}{
		"two events":       {func(l *lab) { l.pages[0].Next.Store(9000); l.pages[1].Next.Store(7000) }, yes, 6999, 7000, true},
		"near":             {func(l *lab) { l.pages[0].Next.Store(900) }, yes, 0, 900, true},
		"not allowed":      {func(l *lab) { l.pages[0].Next.Store(9000) }, func() bool { return false }, 0, 9000, true},
		"nothing left":     {func(l *lab) {}, yes, 0, vt.Never, true},
		"limit":            {func(l *lab) { l.pages[0].Next.Store(9000); l.time.seg.Limit = 5000 }, yes, 5000, 9000, true},
		"nothing to limit": {func(l *lab) { l.time.seg.Limit = 5000 }, yes, 5000, vt.Never, true},
		"sweep":            {func(l *lab) { l.pages[0].Next.Store(9000); l.pages[1].Seq.Store(1) }, yes, 0, 0, false},
		"frame there":      {func(l *lab) { l.pages[0].Next.Store(9000); l.pages[0].Sent[0].Store(1) }, yes, 0, 0, false},
		"frame back":       {func(l *lab) { l.pages[0].Next.Store(9000); l.pages[1].Sent[0].Store(1) }, yes, 0, 0, false},
		"frames taken": {func(l *lab) {
			l.pages[0].Next.Store(9000)
			l.pages[0].Sent[0].Store(4)
			l.pages[1].Taken[0].Store(4)
		}, yes, 8999, 9000, true},
		"the dead do not count": {func(l *lab) {
			l.pages[0].Next.Store(9000)
			l.pages[1].Next.Store(10)
			l.pages[1].Sent[0].Store(1)
			l.clk.SetDead(1, true)
		}, yes, 8999, 9000, true},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, "pair", "auto")
			l.time.seg.Limit = forever
			c.prepare(l)
			next, quiet := l.leap(&l.time, c.allowed)
			if quiet != c.quiet || quiet && next != c.next || l.segment().Jump != c.jump {
				t.Errorf("quiet %v, next %v, jump %v; want %v, %v, %v", quiet, next, l.segment().Jump, c.quiet, c.next, c.jump)
			}
		})
	}
}

// TestHoldIsAheadOfEveryNode stops time again and again while nodes run: none is ever beyond the moment that hold gives.
func TestHoldIsAheadOfEveryNode(t *testing.T) {
	l := newLab(t, "star-4", "auto")
	l.obey(777)
	c := &l.time
	c.run = true
	last := vt.Time(0)
	for round := range 60 {
		held, err := l.hold(context.Background(), c)
		if err != nil {
			t.Fatal(err)
		}
		if held < last {
			t.Fatalf("round %d: held at %v, before at %v", round, held, last)
		}
		last = held
		for range 3 {
			if _, hi := l.horizons(); hi > held {
				t.Fatalf("round %d: held at %v, but a node is at %v", round, held, hi)
			}
			sleep(30_000)
		}
		l.release(c, held)
		if s := l.segment(); s.Limit <= held || s.Flags&clock.Rest != 0 {
			t.Fatalf("released: %+v", s)
		}
		for lo, _ := l.horizons(); round%4 == 3 && lo <= held; lo, _ = l.horizons() { // now and then all have gone on, in the other rounds only some or none
			sleep(30_000)
		}
	}
}

// TestHoldForgetsALeap stops time after a leap that no node has seen yet. What is then scheduled lies before the leap's
// end, so the leap must not take place when time goes on.
func TestHoldForgetsALeap(t *testing.T) {
	l := newLab(t, "pair", "auto")
	c := &l.time
	c.run = true
	c.seg.Limit, c.seg.Flags = forever, 0
	l.write(c)
	for _, p := range l.pages {
		p.Horizon.Store(1000)
		p.Next.Store(1_000_000)
	}
	if l.leap(c, func() bool { return true }); l.segment().Jump != 999_999 {
		t.Fatalf("jump %v: the test is of no use", l.segment().Jump)
	}
	for _, p := range l.pages {
		p.Ack.Store(l.segment().Seq + 1) // they see the next segment only
	}
	held, err := l.hold(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	for _, paused := range []bool{true, false} {
		c.paused = paused
		l.release(c, held)
		if s := l.segment(); s.Jump > held {
			t.Errorf("paused %v: held at %v, and released with a leap to %v", paused, held, s.Jump)
		}
	}
}

func TestHoldTellsOfANodeThatDoesNotObey(t *testing.T) {
	l := newLab(t, "pair", "auto")
	c := &l.time
	c.run = true
	l.release(c, 0)
	l.pages[0].Horizon.Store(5)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := l.hold(ctx, c); err == nil {
		t.Error("hold returned without its nodes")
	}
	l.clk.SetDead(0, true)
	l.clk.SetDead(1, true)
	if _, err := l.hold(ctx, c); err != nil {
		t.Errorf("nobody is left to wait for: %v", err)
	}
}

func TestReachTakesAllThere(t *testing.T) {
	l := newLab(t, "star-3", "auto")
	l.obey(1000)
	c := &l.time
	for _, to := range []vt.Time{10_000, 10_000, 5_000_000} { // the last by a leap
		if err := l.reach(context.Background(), c, to); err != nil {
			t.Fatal(err)
		}
		if lo, hi := l.horizons(); lo != to || hi != to {
			t.Errorf("reached %v to %v, want %v", lo, hi, to)
		}
	}
	l.rest(c)
	if s := l.segment(); s.Flags&clock.Rest == 0 || s.Limit != 5_000_000 {
		t.Errorf("at rest: %+v", s)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := l.reach(ctx, c, 1<<50); err == nil {
		t.Error("reach returned before its time")
	}
}

func TestVirtualNow(t *testing.T) {
	l := newLab(t, "pair", "auto")
	c := &l.time
	for _, p := range l.pages {
		p.Horizon.Store(4000)
	}
	l.rest(c)
	before := c.wall.Now()
	now := l.virtualNow(c)
	if passed := vt.Time(c.wall.Now() - c.restWall); now < 4000+vt.Time(before-c.restWall) || now > 4000+passed {
		t.Errorf("at rest %v is now, after %v of rest from 4000 on", now, passed)
	}
	c.run = true
	l.pages[0].Horizon.Store(4700)
	c.seg.Limit = forever
	if now := l.virtualNow(c); now != 4700 {
		t.Errorf("in a run %v is now", now)
	}
	c.run, c.paused, c.seg.Limit = false, true, 4500
	if now := l.virtualNow(c); now != 4500 {
		t.Errorf("paused at 4500 %v is now", now)
	}
	real := newLab(t, "pair", "real")
	a := real.virtualNow(&real.time)
	if b := real.virtualNow(&real.time); a < 0 || b < a {
		t.Errorf("the wall goes from %v to %v", a, b)
	}
}

func TestClockOps(t *testing.T) {
	l := newLab(t, "pair", "auto")
	l.obey(1000)
	do := func(op api.ClockOp, code int) api.Clock {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second) // a guard against hanging
		defer cancel()
		c, err := l.clockOp(ctx, op)
		if got := api.AsError(err); code == 0 && err != nil || code != 0 && (got == nil || got.Code != code) {
			t.Errorf("%+v: %v, want code %d", op, err, code)
		}
		return c
	}
	do(api.ClockOp{Op: api.ClockStep, StepNs: 5}, api.CodeUsage) // not paused
	do(api.ClockOp{Op: "dance"}, api.CodeUsage)
	for _, k := range []float64{0, 0.5, -1, 2e9} {
		do(api.ClockOp{Op: api.ClockCap, Cap: k}, api.CodeUsage)
	}
	if c := do(api.ClockOp{Op: api.ClockCap, Cap: 50}, 0); c.Cap != 50 || l.segment().K != 0 {
		t.Errorf("cap at rest: %+v, nodes are told %d", c, l.segment().K)
	}
	paused := do(api.ClockOp{Op: api.ClockPause}, 0)
	if paused.State != api.ClockPaused || paused.NowNs != paused.MaxHorizonNs {
		t.Errorf("paused: %+v", paused)
	}
	do(api.ClockOp{Op: api.ClockPause}, 0) // again
	do(api.ClockOp{Op: api.ClockStep}, api.CodeUsage)
	if c := do(api.ClockOp{Op: api.ClockStep, StepNs: 12345}, 0); c.NowNs != paused.NowNs+12345 || c.MinHorizonNs != c.NowNs || c.MaxHorizonNs != c.NowNs {
		t.Errorf("step from %+v to %+v", paused, c)
	}
	if c := do(api.ClockOp{Op: api.ClockResume}, 0); c.State != api.ClockResting {
		t.Errorf("resumed: %+v", c)
	}
	l.time.run = true
	do(api.ClockOp{Op: api.ClockCap, Cap: 50}, 0)
	if l.segment().K != 50_000 {
		t.Errorf("cap in a run: %+v", l.segment())
	}
	if do(api.ClockOp{Op: api.ClockAuto}, 0); l.segment().K != 0 {
		t.Errorf("no cap: %+v", l.segment())
	}
	l = newLab(t, "pair", "real")
	do(api.ClockOp{Op: api.ClockPause}, api.CodePrecondition)
}

func TestTimeOption(t *testing.T) {
	for opt, k := range map[string]float64{"": 0, "auto": 0, "real": 0, "1": 1, "2500.5": 2500.5} {
		if l := newLab(t, "pair", opt); l.time.k != k || l.real() != (opt == "real") {
			t.Errorf("--time %q: k %v, real %v", opt, l.time.k, l.real())
		}
	}
	for _, opt := range []string{"0", "0.9", "-3", "1e10", "NaN", "Inf", "fast"} {
		_, err := New(Options{UpOptions: api.UpOptions{Time: opt, Plan: generate(t, "pair")}}, nil, noRuntime{}, nil)
		if e := api.AsError(err); e == nil || e.Code != api.CodeUsage {
			t.Errorf("--time %s: %v", opt, err)
		}
	}
	if _, err := New(Options{}, nil, noRuntime{}, nil); err == nil {
		t.Error("a lab without a plan")
	}
}
