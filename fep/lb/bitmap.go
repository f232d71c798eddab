package lb

import "github.com/uetlab/uetlab/internal/vt"

// scores are penalties of the EVs of a set, 0 to 15. A walk passes those that have one; the first that it meets for a packet
// loses one point, so that every EV is tried again some time.
type scores struct {
	set
	walk walk
	bad  uint16  // EVs with a penalty
	tab  []uint8 // 4 bits each
}

func (o *Pool) scores() scores {
	s := scores{set: o.set(), tab: make([]uint8, (o.p.EVs+1)/2)}
	s.walk.x = s.bits()
	return s
}

func (s *scores) score(i uint16) uint8 { return s.tab[i/2] >> (i % 2 * 4) & 15 }

func (s *scores) setScore(i uint16, n uint8) {
	shift := i % 2 * 4
	s.tab[i/2] = s.tab[i/2]&^(15<<shift) | n<<shift
}

// next is the next EV of the walk without a penalty. The upper bits of a set that fits into a table are never 0.
func (s *scores) next() uint16 {
	e := s.walk.at(&s.set)
	if n := s.score(e); n > 0 {
		all := int(s.bad) == s.pool.p.EVs
		if s.setScore(e, n-1); n == 1 {
			s.bad--
		}
		// After a whole round it takes what comes. If all are bad, that is clear before.
		for tried := 0; !all && tried < s.pool.p.EVs; tried++ {
			s.walk.step(&s.set)
			if e = s.walk.at(&s.set); s.score(e) == 0 {
				break
			}
		}
	}
	s.walk.step(&s.set)
	return s.ev(e)
}

func (s *scores) punish(f Feedback) {
	var n int
	switch f.Kind {
	case ECN:
		n = s.pool.p.PenaltyECN
	case Nack:
		n = s.pool.p.PenaltyNack
	case Timeout:
		n = s.pool.p.PenaltyTimeout
	}
	if n <= 0 || !s.has(f.EV) {
		return
	}
	i := f.EV & s.pool.mask
	old := s.score(i)
	if old == 0 {
		s.bad++
	}
	s.setScore(i, min(old+uint8(n), maxScore))
}

func (s *scores) look(v *View) {
	for i := range s.pool.p.EVs {
		p := v.path(s.ev(uint16(i)))
		p.State, p.Score = StateClear, int64(s.score(uint16(i)))
		if p.Score > 0 {
			p.State = StatePenalty
		}
	}
}

// bitmap is the spraying of STrack.
type bitmap struct{ scores }

func (b *bitmap) Next(vt.Time, Packet) uint16 { return b.next() }

func (b *bitmap) Feedback(_ vt.Time, f Feedback) { b.punish(f) }

func (b *bitmap) Look(v *View) {
	v.begin(Bitmap)
	b.look(v)
}
