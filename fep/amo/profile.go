package amo

import "github.com/uetlab/uetlab/wire"

// Profile is one of the profiles of UE, in their order of priority (uet-pds-ses.md 2.1).
type Profile uint8

// The profiles.
const (
	AIBase Profile = iota
	AIFull
	HPC
)

// Mandatory reports whether every end point of the profile has the operation on the type. The lists of the standard are not
// public; these are ours. AI Base is the choice of uet-pds-ses.md 16.3: SUM, MIN, MAX, WRITE, READ and CSWAP on integers of
// 32 and 64 bits. AI Full adds for the same integers all that is valid, and for FLOAT, DOUBLE, BF16 and FP16 the six of AI
// Base. HPC has all that is valid. This package executes everything for everybody; a profile only says what a peer may count on.
func Mandatory(p Profile, op wire.AtomicOp, t wire.AtomicType) bool {
	if !Valid(op, t) {
		return false
	}
	basic := false
	switch op {
	case wire.AtomicSum, wire.AtomicMin, wire.AtomicMax, wire.AtomicWrite, wire.AtomicRead, wire.AtomicCSwap:
		basic = true
	}
	whole := t >= wire.AtomicInt32 && t <= wire.AtomicUint64
	switch p {
	case AIBase:
		return basic && whole
	case AIFull:
		ml := t == wire.AtomicFloat || t == wire.AtomicDouble || t == wire.AtomicBF16 || t == wire.AtomicFP16
		return whole || basic && ml
	}
	return p == HPC
}
