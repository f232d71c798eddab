package lb

import "github.com/uetlab/uetlab/internal/vt"

// walk goes through a set once a round, in an order that is new each round.
type walk struct{ i, x uint16 }

func (w *walk) at(s *set) uint16 { return (w.i ^ w.x) & s.pool.mask }

func (w *walk) step(s *set) {
	if w.i = (w.i + 1) & s.pool.mask; w.i == 0 {
		w.x = s.bits()
	}
}

// oblivious hears nothing: every EV carries the same share.
type oblivious struct {
	set
	walk walk
}

func (b *oblivious) Next(vt.Time, Packet) uint16 {
	for {
		ev := b.ev(b.walk.at(&b.set))
		b.walk.step(&b.set)
		if ev != 0 {
			return ev
		}
	}
}

func (b *oblivious) Feedback(vt.Time, Feedback) {}

func (b *oblivious) Look(v *View) { v.begin(Oblivious) }

// spray draws every EV anew.
type spray struct{ set }

func (b *spray) Next(vt.Time, Packet) uint16 { return b.random() }

func (b *spray) Feedback(vt.Time, Feedback) {}

func (b *spray) Look(v *View) { v.begin(Spray) }

// mp uses k EVs in turn. They lie an odd distance apart, and so differ.
type mp struct{ k, i, base, step uint16 }

func (b *mp) path(i uint16) uint16 {
	if ev := b.base + i*b.step; ev != 0 {
		return ev
	}
	return b.base + b.k*b.step // the next one that is no path yet; k is far from 65536
}

func (b *mp) Next(vt.Time, Packet) uint16 {
	ev := b.path(b.i)
	if b.i++; b.i == b.k {
		b.i = 0
	}
	return ev
}

func (b *mp) Feedback(vt.Time, Feedback) {}

func (b *mp) Look(v *View) {
	v.begin(MP)
	for i := range b.k {
		v.path(b.path(i)).State = StateCurrent
	}
	v.sort()
}
