package engine

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/uetlab/uetlab/internal/link/llr"
	"github.com/uetlab/uetlab/internal/vt"
)

// TestFramesKeepTheirOrderWhereLLRComes gives a port link layer retry in the middle of a run. Frames that were due before are taken by the port when they reach the core, those that follow when they
// leave the line: but never before these, and all reach the core when they would have anyway.
func TestFramesKeepTheirOrderWhereLLRComes(t *testing.T) {
	const latency, from = 500 * time.Nanosecond, vt.Time(10_000)
	for _, early := range []bool{true, false} { // whether frames have come in when the change is told of
		n, r, _ := node(1, latency)
		dues := []vt.Time{9_000, 9_400, 9_999, 10_000, 10_001, 10_300, 10_499, 10_500, 10_501, 12_000}
		deliver := func() {
			for i, due := range dues {
				n.Deliver(0, frame(n, due, i))
			}
		}
		if early {
			deliver()
		}
		n.ExpectLLR(0, from)
		n.Change(from, func(now vt.Time) {
			if err := n.Ports[0].SetLLR(now, &llr.Config{Frames: 8, Bytes: 1 << 16, ReplayTimer: time.Millisecond, Init: llr.BestEffort, Flush: llr.BestEffort, AckEvery: 4096, AckDelay: time.Microsecond}); err != nil {
				t.Fatal(err)
			}
		})
		if !early {
			deliver()
		}
		var want []string
		last := vt.Time(0)
		for i, due := range dues {
			want = append(want, fmt.Sprintf("%d arrive 0: 2 %04x", due.Add(latency), i))
			if at := n.ArrivesAt(0, due); at < last || at < due || at > due.Add(latency) || due >= from.Add(latency) && at != due {
				t.Errorf("a frame due at %d is taken at %d, the one before it at %d", due, at, last)
			} else {
				last = at
			}
		}
		n.Advance(20_000)
		if !slices.Equal(r.log, want) {
			t.Errorf("the core saw\n%q, want\n%q", r.log, want)
		}
	}
}

// TestRunForgetsThatAPortHadLLR begins a run at a node of which a port had link layer retry once: what comes in is taken as where there never was any, up to
// the time at which it is to have it again, whether that was told of before the run began or not, and whatever the order.
func TestRunForgetsThatAPortHadLLR(t *testing.T) {
	const latency = 500 * time.Nanosecond
	for _, early := range []bool{true, false} { // whether what follows the start is told of before it
		n, _, _ := node(2, latency)
		n.ExpectLLR(0, 0)
		n.ExpectLLR(1, 2_000)
		again := func() {
			n.ExpectLLR(1, 30_000)
			n.ExpectLLR(1, 20_000)
		}
		if early {
			again()
		}
		n.BeginAt(10_000, func(now vt.Time) {
			n.StartRun(now, 1)
			n.ForgetLLR(1)
		})
		n.Advance(10_000)
		if !early {
			again()
		}
		for _, c := range []struct {
			port    int
			due, at vt.Time
		}{{0, 15_000, 15_000}, {1, 15_000, 15_500}, {1, 19_999, 20_499}, {1, 20_100, 20_500}, {1, 25_000, 25_000}} {
			if at := n.ArrivesAt(c.port, c.due); at != c.at {
				t.Errorf("early %v: port %d: a frame due at %d is taken at %d, want %d", early, c.port, c.due, at, c.at)
			}
		}
		if a, b := n.Ahead(0), n.Ahead(1); a != b {
			t.Errorf("Ahead is %v, want %v: both ends go by what was said first", b, a)
		}
	}
}
