package e2e

import (
	"context"
	"maps"
	"testing"
	"time"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/workload"
)

// clockTo steers the clock through the command line and gives it afterwards.
func (l *lab) clockTo(t testing.TB, args ...string) api.Clock {
	t.Helper()
	return decode[api.Clock](t, l.ok(t, append([]string{"clock", "--format", "json"}, args...)...))
}

// freeClock undoes what a test has done to the clock of the shared lab, however the test ends.
func (l *lab) freeClock(t testing.TB) {
	t.Cleanup(func() {
		l.do(t, "clock", "auto")
		l.do(t, "clock", "resume")
	})
}

func (l *lab) running(t testing.TB) bool {
	t.Helper()
	s, err := l.api.Lab(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return s.State == api.LabRunning
}

func dataSent(c map[string]uint64) uint64 {
	return sum(c, func(_, port, counter string) bool { return port == "fep" && counter == "data_tx" })
}

// standsStill demands that the clock is paused and that nothing at all moves for half a second.
func (l *lab) standsStill(t testing.TB) {
	t.Helper()
	before, was := l.clock(t), l.counters(t)
	time.Sleep(500 * time.Millisecond) // what is measured: how long nothing moves
	after, is := l.clock(t), l.counters(t)
	if before.State != api.ClockPaused || after != before {
		t.Errorf("a paused clock goes from %+v to %+v", before, after)
	}
	if !maps.Equal(was, is) {
		t.Errorf("counters move while the clock is paused: %v", minus(is, was))
	}
}

// TestPauseLeavesNoTrace pauses a run in the middle.
func TestPauseLeavesNoTrace(t *testing.T) {
	l := sharedLab(t)
	l.freeClock(t)
	want := simulate(t, &l.plan, workload.Spec{Workload: workload.Permutation, Size: 2 << 20, Iters: 1, Seed: 1}, nil)
	l.clockTo(t, "cap", "200000") // slow enough to catch it on a busy machine: 58 us take 12 s, of which a quarter passes
	began := dataSent(l.counters(t))
	p := l.startRun(t, "permutation", "--size", "2MiB", "--seed", "1")
	until(t, "a quarter of the packets sent", func() bool { return p.ended() || dataSent(l.counters(t)) >= began+want.Packets/4 })
	if c := l.clockTo(t, "pause"); c.State != api.ClockPaused {
		t.Fatalf("clock after pause: %+v", c)
	}
	sent := dataSent(l.counters(t)) - began
	if p.ended() || sent >= want.Packets {
		t.Fatalf("the run was over before the pause, with %d packets", sent)
	}
	l.standsStill(t)
	l.clockTo(t, "auto")
	if c := l.clockTo(t, "resume"); c.State != api.ClockRunning {
		t.Errorf("clock after resume: %+v", c)
	}
	same(t, "a run paused in the middle", result(t, p), want)
	t.Logf("paused after %d of %d packets", sent, want.Packets)
}

// TestStepsLeaveNoTrace begins a run on a paused clock, goes a part of it in steps of 100 ns, and changes the cap.
func TestStepsLeaveNoTrace(t *testing.T) {
	l := sharedLab(t)
	l.freeClock(t)
	want := simulate(t, &l.plan, workload.Spec{Workload: workload.Permutation, Size: 2 << 20, Iters: 1, Seed: 1}, nil)
	l.clockTo(t, "pause")
	began := dataSent(l.counters(t))
	p := l.startRun(t, "permutation", "--size", "2MiB", "--seed", "1")
	until(t, "the run to begin", func() bool { return p.ended() || l.running(t) })
	at := l.clockTo(t, "step", "20us")
	before := l.counters(t)
	const steps = 40
	for i := range steps {
		next := l.clockTo(t, "step", "100ns")
		if next.MinHorizonNs != at.MaxHorizonNs+100 || next.MaxHorizonNs != next.MinHorizonNs || next.State != api.ClockPaused {
			t.Fatalf("step %d of 100 ns goes from %+v to %+v", i, at, next)
		}
		at = next
	}
	after := l.counters(t)
	if maps.Equal(before, after) {
		t.Error("no counter moved in 4 us of the run")
	}
	if sent := dataSent(after) - began; sent == 0 || sent >= want.Packets {
		t.Errorf("%d of %d packets sent: not in the middle of the run", sent, want.Packets)
	}
	l.standsStill(t)
	l.clockTo(t, "cap", "100000")
	l.clockTo(t, "resume")
	for _, k := range []string{"20000", "60000", "10000"} {
		from := l.clock(t).MinHorizonNs
		until(t, "another 3 us under a cap", func() bool { return p.ended() || l.clock(t).MinHorizonNs >= from+3000 })
		l.clockTo(t, "cap", k)
	}
	l.clockTo(t, "auto")
	same(t, "a run in steps and under caps", result(t, p), want)
}

// TestCapHolds runs under a cap, which must hold time back and change nothing.
func TestCapHolds(t *testing.T) {
	l := sharedLab(t)
	l.freeClock(t)
	want := simulate(t, &l.plan, workload.Spec{Workload: workload.Permutation, Size: 256 << 10, Iters: 1, Seed: 1}, nil)
	const k = 40000
	if c := l.clockTo(t, "cap", "40000"); c.Cap != k {
		t.Errorf("clock after cap: %+v", c)
	}
	r := l.run(t, "permutation", "--size", "256KiB", "--seed", "1")
	same(t, "a run under a cap", r, want)
	if least := float64(r.FCT.Max) * k / 1e9; r.WallSeconds < least {
		t.Errorf("%d ns under a cap of 1/%d took %.3f s, less than %.3f s", r.FCT.Max, k, r.WallSeconds, least)
	}
}
