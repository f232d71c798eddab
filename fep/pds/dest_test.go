package pds

import (
	"math/rand/v2"
	"testing"

	"github.com/uetlab/uetlab/wire"
)

// TestDestination runs random arrivals, late answers and CLEARs through a destination and compares CACK, duplicates and
// SACK words with plain sets (uet-pds-ses.md 5.2, 20.1).
func TestDestination(t *testing.T) {
	for range 200 {
		seed := rand.Uint64()
		r := rand.New(rand.NewPCG(seed, 1))
		m := &Manager{}
		var d dest
		start := wire.PSN(r.Uint32())
		mpr := uint8(1 + r.IntN(3))
		d.init(start, mpr)
		got, gtd, late := map[wire.PSN]bool{}, map[wire.PSN]bool{}, map[wire.PSN]bool{}
		clear := start - 1
		for range 600 {
			psn := d.base.Add(int32(r.IntN(int(mpRange(mpr)))))
			if r.IntN(3) > 0 {
				psn = d.edge // mostly in order
			}
			switch place := d.classify(psn, mpr); {
			case place == placeNew && got[psn] || place == placeDup && !got[psn] && !psn.Before(d.base):
				t.Fatalf("seed %d: PSN %d is in place %d, received %v", seed, psn-start, place, got[psn])
			case place == placeNew:
				g, l := r.IntN(20) == 0, r.IntN(20) == 0
				d.mark(m, psn, false, g && !l, l)
				got[psn], gtd[psn], late[psn] = true, g && !l, l
			}
			if r.IntN(10) == 0 && d.maps != nil {
				for q := d.base; !q.After(d.maxRx); q++ { // SES answers all it owes
					if late[q] {
						d.late.unset(q)
						d.nLate--
						late[q] = false
					}
				}
				d.advance(m)
			}
			if r.IntN(10) == 0 && d.edge.After(clear+1) {
				clear = d.edge - 1
				d.clear = clear
				d.advance(m)
			}
			base := start
			for got[base] && !late[base] && (!gtd[base] || !base.After(clear)) {
				base++
			}
			if d.base != base {
				t.Fatalf("seed %d: CACK %d, want %d", seed, d.base-1-start, base-1-start)
			}
			for i := range int32(64) {
				q := d.base.Add(i)
				if has := d.maps != nil && d.got.word(d.base)>>i&1 != 0; has != got[q] {
					t.Fatalf("seed %d: SACK of %d is %v", seed, q-start, has)
				}
			}
		}
	}
}
