package cms

import (
	"time"

	"github.com/uetlab/uetlab/internal/vt"
)

// RcvdBytes is the count of received nominal bytes as ACKs carry it: 24 bits, 256-byte units, rounded up (uet-cms.md 6).
func RcvdBytes(bytes uint64) uint32 { return uint32((bytes+255)>>8) & mask24 }

// Pend is the penalty that a destination puts on its sources (DFC, rcv_cwnd_pend, 0..127) by what of its space is in use, in bytes or
// places: none below a quarter of it, from there on in proportion, and from half of it on 127, which leaves a packet per round trip. The
// other half is for what is under way by then (uet-cms.md section 5 leaves open how a destination finds it).
func Pend(used, size int64) uint8 {
	switch {
	case 2*used >= size:
		return 127
	case 4*used < size:
		return 0
	}
	return uint8(max(1, 127*(4*used-size)/size))
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
