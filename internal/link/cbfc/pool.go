package cbfc

import "fmt"

// MaxPools is how many pools a sender can divide its peer's total into.
const MaxPools = 8

// Share is what a channel gets of the total in total mode: credits of its own, and of a pool's rest as much as is free, at
// most Cap (if not 0), or at most 2^Shift times what is free of the pool before the frame (if Dynamic).
type Share struct {
	Reserved uint32
	Pool     uint8
	Cap      uint32
	Dynamic  bool
	Shift    int8 // -16 to 16
}

// Division is how a sender divides the total: the sizes of its pools in credits, and each channel's share. The zero
// value makes no division: all channels share the total as they come, and one that gets none back can starve the others.
type Division struct {
	Pools [MaxPools]uint32
	VC    [VCs]Share
}

// check reports a division of more than there is. whole says whether there is no division at all.
func (d *Division) check(total uint32) (whole bool, err error) {
	if *d == (Division{}) {
		return true, nil
	}
	sum := uint64(0)
	for _, n := range d.Pools {
		sum += uint64(n)
	}
	for vc, s := range d.VC {
		sum += uint64(s.Reserved)
		if s.Pool >= MaxPools {
			return false, fmt.Errorf("channel %d: pool %d: there are %d", vc, s.Pool, MaxPools)
		}
		if s.Shift < -16 || s.Shift > 16 {
			return false, fmt.Errorf("channel %d: share of 2^%d: want 2^-16 to 2^16", vc, s.Shift)
		}
	}
	if sum > uint64(total) {
		return false, fmt.Errorf("pools and reserves of %d credits: the receiver has %d", sum, total)
	}
	return false, nil
}

// over is what a channel that uses n credits has from its pool.
func (s *Share) over(n uint32) uint32 {
	if n <= s.Reserved {
		return 0
	}
	return n - s.Reserved
}

// allows says whether a channel may have more credits from its pool, of which free are left, after which it has after.
func (s *Share) allows(more, after, free uint32) bool {
	switch {
	case more == 0:
		return true
	case more > free || s.Cap != 0 && after > s.Cap:
		return false
	case !s.Dynamic:
		return true
	case s.Shift >= 0:
		return uint64(after) <= uint64(free)<<s.Shift
	}
	return after <= free>>-s.Shift
}
