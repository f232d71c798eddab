package link

import (
	"math/bits"

	"github.com/uetlab/uetlab/internal/link/cbfc"
	"github.com/uetlab/uetlab/internal/vt"
)

// short tells which classes have no credits for a frame of full length. A source waits for a channel that is being removed: what it makes then is
// best effort, and comes behind what was paid for.
func (x *credits) short(now vt.Time) (queues uint8) {
	for m := x.classes; m != 0; m &= m - 1 {
		q := bits.TrailingZeros8(m)
		room := x.tx.Draining()>>q&1 == 0
		switch {
		case !room:
		case x.tx.Blocked()>>q&1 != 0:
			room = x.tx.Ready(now, q, x.most)
		default:
			room = x.tx.Room(q, x.most)
		}
		if !room {
			queues |= 1 << q
		}
	}
	return queues
}

// Short is the set of classes, by bit, for whose longest frame there are no credits.
func (p *Port) Short(now vt.Time) uint8 {
	if p.crd == nil {
		return 0
	}
	return p.crd.short(now)
}

// Starved says that the source has something in some classes, of those that Short has named: it waits for credits from now on.
func (p *Port) Starved(now vt.Time, classes uint8) {
	x := p.crd
	if x == nil {
		return
	}
	waits := false
	for m := classes & x.classes &^ uint8(x.tx.Draining()|x.tx.Blocked()); m != 0; m &= m - 1 {
		waits = !x.tx.Ready(now, bits.TrailingZeros8(m), x.most) || waits
	}
	if waits {
		x.follow(now)
	}
}

// idle says that what waited was dropped.
func (x *credits) idle(now vt.Time) {
	waiting := x.tx.Blocked()
	if !x.p.cfg.Queued {
		waiting &^= uint32(x.classes) // the source itself may have something still
	}
	s := &x.p.sched
	for m := s.active; m != 0; m &= m - 1 {
		if vc := x.sends.VC(s.q[bits.TrailingZeros8(m)].head.B); vc != cbfc.NoVC {
			waiting &^= 1 << vc
		}
	}
	for ; waiting != 0; waiting &= waiting - 1 {
		x.tx.Idle(now, bits.TrailingZeros32(waiting))
	}
	x.drained(now)
}

// remove turns credits off in the middle of a run: what waits in queues is still paid for, what comes later is best effort, and the other direction's
// receiver goes on until it reads that its sender has drained.
func (x *credits) remove(now vt.Time) {
	if x.removed != vt.Never {
		return
	}
	x.removed = now
	x.tx.Remove(x.tx.On())
	x.rx.Close(x.rx.On())
	x.drained(now)
	x.p.Kick(now)
}

// before says whether a frame came into its queue before credits were turned off. Changes come first of all that happens at a time.
func (x *credits) before(f *Frame) bool { return f.Queued < x.removed }

// drained looks for channels of which nothing waits any more that is still to be paid for.
func (x *credits) drained(now vt.Time) {
	left := x.tx.Draining()
	if left == 0 {
		return
	}
	done := left
	s := &x.p.sched
	for m := s.active; m != 0 && done != 0; m &= m - 1 {
		for f := s.q[bits.TrailingZeros8(m)].head; f != nil && x.before(f); f = f.next {
			if vc := x.sends.VC(f.B); vc != cbfc.NoVC && left>>vc&1 != 0 {
				done &^= 1 << vc
				if left&(left-1) == 0 {
					break
				}
			}
		}
	}
	if done != 0 {
		x.tx.Drained(now, done)
		x.follow(now)
	}
}
