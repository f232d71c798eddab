package lb

import "github.com/uetlab/uetlab/internal/vt"

const ringLen = 8

// reps recycles EVs: one that came back without a mark is used once more, and what else leaves explores at random. While packets
// vanish it is frozen: only what is in the ring is used, since it came back a moment ago.
//
// The entries that may be used are always the latest fresh ones before head.
type reps struct {
	set
	ring    [ringLen]uint16
	head    uint8  // where the next one goes
	count   uint8  // entries that were ever filled
	fresh   uint8  // entries with a use left
	turn    uint8  // next entry while frozen
	uses    uint32 // what is left to each entry, 4 bits each
	explore uint8  // packets that still explore after a thaw
	frozen  bool
	thaw    vt.Time // … at the first feedback after this
}

func (b *reps) left(i uint8) uint8 { return uint8(b.uses>>(4*i)) & 15 }

func (b *reps) setLeft(i, n uint8) { b.uses = b.uses&^(15<<(4*i)) | uint32(n)<<(4*i) }

func (b *reps) Next(vt.Time, Packet) uint16 {
	switch {
	case b.explore > 0:
		b.explore--
		return b.random()
	case b.frozen && b.count > 0:
		i := b.turn % b.count
		b.setLeft(i, 0)
		b.turn = (i + 1) % b.count
		return b.ring[i]
	case b.frozen || b.fresh == 0:
		return b.random()
	}
	i := (b.head - b.fresh) % ringLen
	n := b.left(i) - 1
	if b.setLeft(i, n); n == 0 {
		b.fresh--
	}
	return b.ring[i]
}

func (b *reps) Feedback(now vt.Time, f Feedback) {
	if f.Kind == Timeout && !b.frozen && b.explore == 0 && b.pool.freeze > 0 {
		b.frozen, b.thaw = true, now+b.pool.freeze
	}
	if b.frozen && now > b.thaw {
		*b = reps{set: b.set, explore: uint8(max(b.pool.p.Explore, 0))}
	}
	if f.Kind == Good && f.EV != 0 {
		b.add(f.EV)
	}
}

func (b *reps) add(ev uint16) {
	if b.left(b.head) == 0 && b.fresh < ringLen {
		b.fresh++
	}
	b.ring[b.head] = ev
	b.setLeft(b.head, uint8(b.pool.p.Lifetime))
	b.head = (b.head + 1) % ringLen
	b.count = min(b.count+1, ringLen)
}

func (b *reps) Look(v *View) {
	v.begin(REPS)
	v.Frozen, v.Thaw, v.Explore = b.frozen, b.thaw, int(b.explore)
	for i := range b.count {
		p := v.path(b.ring[i])
		if n := b.left(i); n > 0 {
			p.State = StateCached
			p.Uses += int(n)
		} else if p.State == StateNone {
			p.State = StateUsed
		}
	}
	v.sort()
}
