package control

import (
	"context"
	"testing"
	"time"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/internal/clock"
	"github.com/uetlab/uetlab/internal/vt"
)

// TestHoldThatFailsHoldsNobody interrupts a hold in the middle of a run: the run goes on, and the limit that some nodes may
// not have seen counts for nothing until they have.
func TestHoldThatFailsHoldsNobody(t *testing.T) {
	l := newLab(t, "pair", "auto")
	c := &l.time
	c.run = true
	l.release(c, 0)
	for _, p := range l.pages {
		p.Ack.Store(l.segment().Seq)
	}
	limit := l.segment().Limit
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := l.hold(ctx, c); err == nil {
		t.Fatal("hold returned without its nodes")
	}
	if s := l.segment(); s.Limit != limit || s.Flags&clock.Rest != 0 || !c.open {
		t.Errorf("the run is held: %+v", s)
	}
	l.rest(c) // as an abort does that could not hold either
	if s := l.segment(); s.Limit != limit || s.Flags&clock.Rest == 0 || c.open {
		t.Errorf("no rest: %+v", s)
	}
	if _, err := l.hold(ctx, c); err == nil {
		t.Error("hold takes a limit for granted that nobody has seen")
	}
	for _, p := range l.pages {
		p.Ack.Store(l.segment().Seq)
	}
	if held, err := l.hold(ctx, c); err != nil || held != limit {
		t.Errorf("held at %v, %v", held, err)
	}
}

// TestNobodyRunsAway: the node without living neighbours goes as far as it may. The limit stays ahead of the slowest of the
// others, and no further, however often it is extended.
func TestNobodyRunsAway(t *testing.T) {
	l := newLab(t, "star-3", "auto")
	c := &l.time
	c.run = true
	l.release(c, 0)
	for i := range 100 {
		slow := vt.Time(i) * 100_000
		for _, p := range l.pages {
			p.Horizon.Store(int64(slow))
		}
		l.pages[3].Horizon.Store(int64(l.segment().Limit))
		l.extend(c)
		if limit := l.segment().Limit; limit <= slow || limit > slow.Add(window) {
			t.Fatalf("the slowest node is at %v and the limit is %v", slow, limit)
		}
	}
	// A leap takes the limit along.
	for _, p := range l.pages {
		p.Next.Store(int64(time.Second))
	}
	if l.leap(c, func() bool { return true }); l.segment().Jump != vt.Time(time.Second)-1 || l.segment().Limit != l.segment().Jump.Add(window) {
		t.Errorf("%+v", l.segment())
	}
	// At rest, or held, nothing does.
	limit := l.segment().Limit
	l.rest(c)
	if l.extend(c); l.segment().Limit != limit {
		t.Errorf("the limit goes from %v to %v at rest", limit, l.segment().Limit)
	}
}

func TestReleaseNeverTakesTheLimitBack(t *testing.T) {
	l := newLab(t, "pair", "auto")
	l.obey(1000)
	c := &l.time
	held, err := l.hold(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.reach(context.Background(), c, 5000); err != nil {
		t.Fatal(err)
	}
	if l.release(c, held); l.segment().Limit < 5000 {
		t.Errorf("nodes are at 5000 and the limit is %v", l.segment().Limit)
	}
}

func TestReachThatIsBrokenOffStaysWhereItIs(t *testing.T) {
	l := newLab(t, "pair", "auto")
	l.obey(10)
	c := &l.time
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, p := range l.pages {
		p.Next.Store(1) // no leap
	}
	if err := l.reach(ctx, c, 1<<50); err == nil {
		t.Fatal("reach returned before its time")
	}
	if s := l.segment(); s.Limit >= 1<<50 || s.Flags&clock.Rest == 0 || c.restVirt != s.Limit {
		t.Errorf("segment %+v, rest from %v", s, c.restVirt)
	}
	// Nobody is left to wait for.
	for i := range l.nodes {
		l.clk.SetDead(i, true)
	}
	if err := l.reach(context.Background(), c, 1<<51); err != nil {
		t.Error(err)
	}
}

func TestStepsHaveBounds(t *testing.T) {
	l := newLab(t, "pair", "auto")
	l.obey(1000)
	if _, err := l.clockOp(context.Background(), api.ClockOp{Op: api.ClockPause}); err != nil {
		t.Fatal(err)
	}
	for _, ns := range []int64{0, -1, int64(farthest) + 1, 1<<63 - 1} {
		if _, err := l.clockOp(context.Background(), api.ClockOp{Op: api.ClockStep, StepNs: ns}); api.AsError(err) == nil || api.AsError(err).Code != api.CodeUsage {
			t.Errorf("step of %d ns: %v", ns, err)
		}
	}
}
