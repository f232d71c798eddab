package cms

import (
	"time"

	"github.com/uetlab/uetlab/internal/vt"
)

// RcvdBytes is the count of received nominal bytes as ACKs carry it: 24 bits, 256-byte units, rounded up (uet-cms.md 6).
func RcvdBytes(bytes uint64) uint32 { return uint32((bytes+255)>>8) & mask24 }

// DFC derives the penalty that a destination puts on its sources from how full it is (uet-cms.md 5).
type DFC struct {
	Low  float64 // share of the space that is in use below which there is none, 0: 0.5
	High float64 // … from which it is 127, a packet per RTT; 0: 1

	penal bool // there is, or was, a penalty
}

// Pend gives rcv_cwnd_pend and rc for the next ACK, by bytes, or buffers, in use of all there are. Once a penalty has ended, all
// ACKs say so: which of them arrive is not known, and a window is given back only once.
func (d *DFC) Pend(used, size int64) (pend uint8, restore bool) {
	lo, hi := d.Low, d.High
	or(&lo, 0.5)
	or(&hi, 1)
	share := 1.
	if size > 0 {
		share = float64(used) / float64(size)
	}
	if share < lo || hi <= lo && share < hi {
		return 0, d.penal
	}
	d.penal = true
	if share >= hi {
		return 127, false
	}
	return max(1, uint8(127*(share-lo)/(hi-lo))), false
}

// CNP paces the congestion notifications of a flow at its destination (DCQCN).
type CNP struct{ next vt.Time }

// OnMark says whether the marked packet that arrives now is to be answered with a notification: one in every so often.
func (c *CNP) OnMark(now vt.Time, every time.Duration) bool {
	if now < c.next {
		return false
	}
	c.next = now.Add(every)
	return true
}
