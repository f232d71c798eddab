package fep

import (
	"testing"
	"time"

	"github.com/uetlab/uetlab/fep/cms"
	"github.com/uetlab/uetlab/internal/vt"
)

// TestOwnPDC sends three messages at once, and three later. Each has a PDC and a congestion control context of its own where that is asked
// for, and none of them is left a timeout after the last; else all share one PDC, or those that are under way four, and one context.
func TestOwnPDC(t *testing.T) {
	for _, own := range []bool{false, true} {
		l := newLab(t, Config{OwnPDC: own, RTOInit: 100 * time.Microsecond,
			CC: &cms.Config{Algorithm: cms.AlgNSCC, Net: cms.Network{Rate: 400e9, BaseRTT: 2 * time.Microsecond}}})
		post := func(from uint64) {
			l.call(0, max(l.now(), 0)+1, func(now vt.Time) {
				for i := range uint64(3) {
					if err := l.eps[0].TagSend(now, 1, make([]byte, 20_000), 5, from+i); err != nil {
						t.Error(err)
					}
				}
			})
		}
		contexts := func() int { return len(l.feps[0].PDS().Contexts(nil)) }
		post(1)
		l.run(l.now() + 1000)
		if n, want := contexts(), map[bool]int{false: 1, true: 3}[own]; n != want {
			t.Errorf("own %v: %d contexts while three messages are under way, want %d", own, n, want)
		}
		l.run(l.now().Add(50 * time.Microsecond))
		opened := l.feps[0].C[PDCOpened]
		post(4)
		l.run(l.now().Add(50 * time.Microsecond))
		if more := l.feps[0].C[PDCOpened] - opened; own && more != 3 || !own && more != 0 {
			t.Errorf("own %v: %d PDCs more for three messages more", own, more)
		}
		if l.run(l.now().Add(time.Millisecond)); own && contexts() != 0 {
			t.Errorf("%d contexts are left", contexts())
		}
		if got := l.count(PDCFailed); got != 0 {
			t.Errorf("own %v: %d PDCs failed", own, got)
		}
	}
}
