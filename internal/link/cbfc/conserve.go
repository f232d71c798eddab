package cbfc

import "fmt"

// Conserved checks the law of credits for a channel of a direction on which frames are neither doubled nor overtaken:
//
//	S_CC - S_CF = credits of frames on their way + of frames lost since the last CC_Update + of frames stored + freed and not yet told
//
// The caller, who sees the whole line, counts the first three; the last is what the receiver knows more than the sender.
// Besides, nobody may know more than the one before, and no more may be stored than the limit (0: not checked).
func Conserved(s *Sender, r *Receiver, vc int, onWay, leaked, stored, limit uint32) error {
	a, b := &s.vc[vc], &r.vc[vc]
	gap := (a.cc - b.cc) & countMask
	untold := (b.cf - a.cf) & countMask
	switch {
	case gap != onWay+leaked:
		return fmt.Errorf("channel %d: S_CC %d - R_CC %d = %d, but %d are on their way and %d lost", vc, a.cc, b.cc, gap, onWay, leaked)
	case b.stored() != stored:
		return fmt.Errorf("channel %d: R_CC %d - R_CF %d = %d, but %d are stored", vc, b.cc, b.cf, b.stored(), stored)
	case untold >= stale:
		return fmt.Errorf("channel %d: S_CF %d is ahead of R_CF %d", vc, a.cf, b.cf)
	case a.used() != onWay+leaked+stored+untold:
		return fmt.Errorf("channel %d: S_CC %d - S_CF %d = %d, but %d + %d + %d + %d are somewhere", vc, a.cc, a.cf, a.used(), onWay, leaked, stored, untold)
	case limit != 0 && stored+onWay > limit:
		return fmt.Errorf("channel %d: %d credits stored and on their way: the limit is %d", vc, stored+onWay, limit)
	}
	sum, pools := uint32(0), [MaxPools]uint32{}
	for i := range s.vc {
		share := &s.div.VC[i]
		sum += s.vc[i].used()
		pools[share.Pool] += share.over(s.vc[i].used())
	}
	if sum != s.used || pools != s.taken {
		return fmt.Errorf("channels use %d credits, %d of pools; the port says %d and %d", sum, pools, s.used, s.taken)
	}
	return nil
}
