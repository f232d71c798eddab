package control

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/internal/faults"
	"github.com/uetlab/uetlab/internal/vt"
)

// TestRestFallsBehindRatherThanHold has a lab at rest whose nodes always have something to do next: it takes one step, which is in any case, and lets others
// have the clock when its time is over.
func TestRestFallsBehindRatherThanHold(t *testing.T) {
	l := newLab(t, "pair", "auto")
	l.connect()
	l.obey(1000)
	next := vt.Time(time.Millisecond)
	l.pages[0].Next.Store(int64(next)) // for ever
	l.pages[1].Next.Store(int64(vt.Never))
	l.time.mu.Lock()
	defer l.time.mu.Unlock()
	there, err := l.catchUp(context.Background(), &l.time, vt.Time(time.Minute), time.Time{})
	if lo, _ := l.horizons(); err != nil || there || lo != next.Add(burst) {
		t.Errorf("it is there: %v, at %v: %v", there, lo, err)
	}
	l.pages[0].Next.Store(int64(vt.Never))
	if there, err := l.catchUp(context.Background(), &l.time, vt.Time(time.Minute), time.Time{}); err != nil || !there {
		t.Errorf("with nothing to do it is there: %v, %v", there, err)
	}
}

// TestRealTimeHasNoLinkLayer refuses what a lab at the wall's pace does without, and takes the rest.
func TestRealTimeHasNoLinkLayer(t *testing.T) {
	l := newLab(t, "pair", "real")
	yes, no, ber := true, false, 1e-7
	for name, c := range map[string]struct {
		set faults.Set
		bad bool
	}{
		"llr=on":  {faults.Set{LLR: &yes}, true},
		"llr=off": {faults.Set{LLR: &no}, false},
		"reinit":  {faults.Set{ReInit: &yes}, true},
		"ber":     {faults.Set{BER: &ber}, false},
	} {
		_, err := l.fault(api.FaultStep{Link: l.plan.Links[0].Name, Op: api.LinkOpSet, Set: c.set})
		if (err != nil) != c.bad || err != nil && (api.AsError(err).Code != api.CodeUsage || !strings.Contains(err.Error(), "--time real")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
