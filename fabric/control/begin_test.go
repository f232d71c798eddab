package control

import (
	"context"
	"testing"
	"time"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/workload"
)

// TestRunsFollowEachOtherWhilePaused interrupts a run whose beginning still lies ahead, and begins another one: what makes
// nodes forget the first must not lie behind the beginning of the second.
func TestRunsFollowEachOtherWhilePaused(t *testing.T) {
	l := newLab(t, "pair", "auto")
	l.connect()
	l.obey(1000)
	ctx := context.Background()
	if _, err := l.clockOp(ctx, api.ClockOp{Op: api.ClockPause}); err != nil {
		t.Fatal(err)
	}
	spec, err := l.spec(api.RunRequest{Workload: workload.Sendrecv, Seed: 3}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	start := func() *run {
		r := newRun(spec)
		if _, err := l.begin(ctx, r, false); err != nil {
			t.Fatal(err)
		}
		return r
	}
	first := start()
	l.abort(first)
	second := start()
	got := l.fakes[spec.Nodes[0]].take()
	if len(got) != 3 || got[0].Op != "run" || got[1].Op != "run" || got[2].Op != "run" {
		t.Fatalf("told %+v", got)
	}
	if r := got[0].Run; r.At != first.t0 || len(r.Ranks) != 1 || r.Ranks[0] != 0 {
		t.Errorf("first: %+v", r)
	}
	if r := got[1].Run; r.At < first.t0 || r.At > second.t0 || r.Ranks != nil {
		t.Errorf("forget at %v; the runs begin at %v and %v", r.At, first.t0, second.t0)
	}
	if r := got[2].Run; r.At != second.t0 || len(r.Ranks) != 1 || r.Ranks[0] != 0 || r.Seed != 3 {
		t.Errorf("second: %+v", r)
	}
	if _, hi := l.horizons(); hi >= second.t0 {
		t.Errorf("a node is at %v already", hi)
	}
}

// TestAnInterruptedRunIsForgottenByASlowNode interrupts a run whose nodes obey only after the daemon has lost its patience more than once: they are told to
// forget it all the same, or the next run would find it there and never end.
func TestAnInterruptedRunIsForgottenByASlowNode(t *testing.T) {
	l := newLab(t, "pair", "auto")
	l.connect()
	c := &l.time
	c.patience = time.Millisecond
	c.run = true
	l.release(c, 0)
	asked, done := l.segment().Seq, make(chan struct{})
	go func() { defer close(done); l.abort(&run{}) }()
	for over := false; !over && l.segment().Seq < asked+6; sleep(tick) {
		select {
		case <-done:
			over = true
		default:
		}
	}
	l.obey(1000)
	<-done
	for i, f := range l.fakes {
		if got := f.take(); len(got) != 1 || got[0].Op != "run" || got[0].Run == nil || got[0].Run.Ranks != nil {
			t.Errorf("node %d was told %+v", i, got)
		}
	}
}

func TestResultsComeFromTheNodesOfTheirRanks(t *testing.T) {
	l := newLab(t, "star-3", "auto")
	l.cur = &run{ranks: []int{1, 3}, results: map[int]workload.RankResult{}}
	for _, c := range []struct{ node, rank int }{{1, 0}, {1, 1}, {2, 0}, {0, -1}, {3, 2}, {2, 1 << 40}} {
		l.result(l.nodes[c.node], workload.RankResult{Rank: c.rank, Wrong: int64(c.node)})
	}
	if r := l.cur.results; len(r) != 1 || r[0].Wrong != 1 || l.cur.finished() {
		t.Errorf("results %+v", r)
	}
	l.result(l.nodes[3], workload.RankResult{Rank: 1})
	if !l.cur.finished() {
		t.Error("not finished with all results")
	}
}

// TestNoRunOnFramesThatAreUnderWay waits for frames on the wire, and not for ever.
func TestNoRunOnFramesThatAreUnderWay(t *testing.T) {
	l := newLab(t, "pair", "auto")
	ends := l.plan.Links[0]
	l.pages[ends.A.Node].Sent[ends.A.Port].Store(3)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := l.landed(ctx); err == nil {
		t.Error("three frames are on the wire")
	}
	go l.pages[ends.B.Node].Taken[ends.B.Port].Store(3)
	if err := l.landed(context.Background()); err != nil {
		t.Error(err)
	}
}
