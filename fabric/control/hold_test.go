package control

import (
	"context"
	"testing"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/internal/clock"
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
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := l.hold(ctx, c); err == nil {
		t.Fatal("hold returned without its nodes")
	}
	if s := l.segment(); s.Limit != forever || s.Flags&clock.Rest != 0 {
		t.Errorf("the run is held: %+v", s)
	}
	l.rest(c) // as an abort does that could not hold either
	if s := l.segment(); s.Limit == forever || s.Flags&clock.Rest == 0 {
		t.Errorf("no rest: %+v", s)
	}
	if _, err := l.hold(ctx, c); err == nil {
		t.Error("hold takes a limit for granted that nobody has seen")
	}
	for _, p := range l.pages {
		p.Ack.Store(l.segment().Seq)
		p.Horizon.Store(700) // beyond the limit, which came late
	}
	if held, err := l.hold(ctx, c); err != nil || held != 700 {
		t.Errorf("held at %v, %v", held, err)
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
