package switchd

import (
	"testing"

	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/wire"
)

// TestByRate sends 60 frames of 976 bytes at once to a port with room for 40 of them and marks from 20 on. At a quarter of the rate
// limits and thresholds are a quarter too, if they follow it.
func TestByRate(t *testing.T) {
	for _, c := range []struct {
		byRate bool
		rate   float64
		room   uint64
		marks  uint64 // of those that leave 20, or 5, or more behind
	}{{false, 0, 40, 20}, {false, 0.25, 40, 20}, {true, 0, 40, 20}, {true, 0.5, 20, 10}, {true, 0.25, 10, 5}} {
		set := plan()
		set.ByRate, set.Trim.Enabled = c.byRate, false
		set.Queues[1].Limit, set.Queues[1].Kmin, set.Queues[1].Kmax, set.Queues[1].Pmax = 40*976, 20*976, 20*976, 1
		r := newRig(t, set, 400*gig, gig)
		r.Ports[1].SetImpair(r.Now(), link.Impair{Rate: c.rate})
		r.send(60, pkt{to: 1, size: 976, dscp: dscpData, ecn: wire.ECNECT0})
		r.drain()
		sent, marked := r.stat(1, 1, link.QTxFrames), r.stat(1, 1, link.QMarked)
		if sent < c.room || sent > c.room+1 || marked < c.marks || marked > c.marks+1 {
			t.Errorf("by rate %v, rate %v: %d frames passed and %d were marked, want %d and %d, or one more", c.byRate, c.rate, sent, marked, c.room, c.marks)
		}
	}
}
