package fep

import (
	"slices"
	"strings"

	"github.com/uetlab/uetlab/wire"
)

// Profiles is a set of the standard's profiles (uet-pds-ses.md section 2). A pair of FEPs uses the highest that both have.
type Profiles uint8

// Profiles, the highest last.
const (
	AIBase Profiles = 1 << iota
	AIFull
	HPC
)

// Default profiles of a FEP.
const DefaultProfiles = AIBase | AIFull

// Highest is the member of the set that a pair uses, 0 if it is empty.
func (p Profiles) Highest() Profiles {
	switch {
	case p&HPC != 0:
		return HPC
	case p&AIFull != 0:
		return AIFull
	}
	return p & AIBase
}

// With is the profile that two end points with these sets use, 0 if they cannot talk to each other. An HPC one and an AI Full one do
// what AI Full has (uet-pds-ses.md 2.1).
func (p Profiles) With(other Profiles) Profiles {
	if p&other == 0 && (p|other)&^(AIFull|HPC) == 0 && p != 0 && other != 0 {
		return AIFull
	}
	return (p & other).Highest()
}

var profileWords = []string{"ai-base", "ai-full", "hpc"}

// ProfilesOf is the set that words name: ai-base, ai-full and hpc; others name nothing.
func ProfilesOf(words []string) (p Profiles) {
	for i, w := range profileWords {
		if slices.Contains(words, w) {
			p |= 1 << i
		}
	}
	return p
}

// String lists the words of ProfilesOf with commas between.
func (p Profiles) String() string {
	var words []string
	for i, w := range profileWords {
		if p>>i&1 != 0 {
			words = append(words, w)
		}
	}
	return strings.Join(words, ",")
}

// Caps is the set as an address carries it.
func (p Profiles) Caps() wire.FEPCaps { return wire.FEPCaps(p & (AIBase | AIFull | HPC)) }

const allProfiles = AIBase | AIFull | HPC

// opProfiles says which profiles have an operation (uet-pds-ses.md 2.2); 0: nobody does.
var opProfiles = [64]Profiles{
	wire.OpNoOp:            allProfiles,
	wire.OpWrite:           allProfiles,
	wire.OpRead:            allProfiles,
	wire.OpAtomic:          allProfiles,
	wire.OpFetchingAtomic:  allProfiles,
	wire.OpSend:            allProfiles,
	wire.OpDatagramSend:    allProfiles,
	wire.OpRendezvousSend:  HPC,
	wire.OpRendezvousTSend: HPC,
	wire.OpDeferrableSend:  AIFull | HPC,
	wire.OpTaggedSend:      AIFull | HPC,
	wire.OpDeferrableTSend: AIFull | HPC,
	wire.OpDeferrableRTR:   AIFull,
	wire.OpMsgError:        allProfiles,
}

// has says whether one of the profiles has the operation.
func (p Profiles) has(op wire.Opcode) bool { return opProfiles[op&0x3F]&p != 0 }

// kindOps are the operations of the standard that the kinds of this API begin with. What a send becomes is decided in plan.
var kindOps = [numOpKinds]wire.Opcode{OpSend: wire.OpSend, OpTagSend: wire.OpTaggedSend, OpWrite: wire.OpWrite, OpRead: wire.OpRead,
	OpDatagram: wire.OpDatagramSend, OpAtomic: wire.OpAtomic, OpFetchAtomic: wire.OpFetchingAtomic, OpCompareAtomic: wire.OpFetchingAtomic}
