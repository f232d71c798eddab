package link

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/uetlab/uetlab/wire"
)

// Hits say what is done to chosen frames of a direction (uet-link-switch.md 2.14, nth=901). Unused places stand behind those that are used.
type Hits [MaxHits]Hit

// MaxHits is how many hits a direction can have at once.
const MaxHits = 8

// Hit does something to frames First to Last, the first being number 1. Counted is from when the hits took effect or the run began, whichever
// is later: what LLR numbers, or UET data requests where there is no LLR; the hits that are for replays count what LLR sends once more instead.
type Hit struct {
	First, Last uint32
	Replay      bool
	Do          Deed
}

// Deed is what a hit does to a frame.
type Deed uint8

// Deeds.
const (
	DoDrop Deed = iota
	DoCorrupt
	DoCorruptHeader
	DoCorruptPayload
	DoCorruptLLR
	DoCorruptFCS
	DoPoison
	DoDuplicate
	DoSeqSkip // it leaves with the number after its own, as if one had been left out
	DoSeqDup  // it leaves with the number before its own, as if that were used twice
	numDeeds
)

var deedNames = [numDeeds]string{"drop", "corrupt", "corrupt-header", "corrupt-payload", "corrupt-llr", "corrupt-fcs", "poison", "duplicate", "seqskip", "seqdup"}

// DeedNames are the words for deeds in the text form of hits.
func DeedNames() []string { return deedNames[:] }

// MarshalText writes hits as "901:drop,1r:corrupt,5-9:poison".
func (h Hits) MarshalText() ([]byte, error) {
	var b []byte
	for _, x := range h {
		if x.First == 0 {
			break
		}
		if len(b) > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendUint(b, uint64(x.First), 10)
		if x.Last != x.First {
			b = strconv.AppendUint(append(b, '-'), uint64(x.Last), 10)
		}
		if x.Replay {
			b = append(b, 'r')
		}
		b = append(append(b, ':'), deedNames[min(x.Do, numDeeds-1)]...)
	}
	return b, nil
}

// UnmarshalText reads what MarshalText writes.
func (h *Hits) UnmarshalText(text []byte) error {
	*h = Hits{}
	if len(text) == 0 {
		return nil
	}
	for i, word := range strings.Split(string(text), ",") {
		if i == MaxHits {
			return fmt.Errorf("exact: more than %d hits", MaxHits)
		}
		if err := h[i].read(word); err != nil {
			return err
		}
	}
	return nil
}

func (x *Hit) read(word string) error {
	which, deed, _ := strings.Cut(word, ":")
	x.Do = numDeeds
	for i, name := range deedNames {
		if name == deed {
			x.Do = Deed(i)
		}
	}
	if x.Do == numDeeds {
		return fmt.Errorf("exact (%s): no such deed, use %s", word, strings.Join(deedNames[:], ", "))
	}
	which, x.Replay = strings.CutSuffix(which, "r")
	first, last, ranged := strings.Cut(which, "-")
	a, err := strconv.ParseUint(first, 10, 32)
	b := a
	if err == nil && ranged {
		b, err = strconv.ParseUint(last, 10, 32)
	}
	x.First, x.Last = uint32(a), uint32(b)
	if err != nil || a == 0 || b < a {
		return fmt.Errorf("exact (%s): not a number of a frame, the first is 1", word)
	}
	return nil
}

// Corrupt turns bits of frames, which their FCS tells.
type Corrupt struct {
	Share  float64 `json:"share,omitempty"`  // probability that a frame is hit, 0..1
	Region Region  `json:"region,omitempty"` // where, "": anywhere in the frame and its FCS
	Bits   int     `json:"bits,omitempty"`   // how many beside each other, 0: one; at most 32, of which a CRC-32 tells all
}

// Region is a part of a frame.
type Region string

// Regions. Headers reach up to and including UDP's; what has no payload is hit anywhere. LLR is the word that stands for the preamble: the
// frame is lost as if it had not been there.
const (
	RegionHeader  Region = "header"
	RegionPayload Region = "payload"
	RegionLLR     Region = "llr"
	RegionFCS     Region = "fcs"
)

// Regions are all there are.
func Regions() []Region { return []Region{RegionPayload, RegionHeader, RegionLLR, RegionFCS} }

// SetLoss takes control ordered sets out of the frames that carry them. What else is in such a frame goes on.
type SetLoss struct {
	Share float64  `json:"share,omitempty"` // probability that a set is lost, 0..1
	Kinds SetKinds `json:"kinds,omitzero"`  // of these, 0: all
}

// SetKinds is a set of kinds of ordered sets, a bit each.
type SetKinds uint8

var setKinds = [...]struct {
	name string
	kind wire.CtlOSType
}{{"ack", wire.CtlOSAck}, {"nack", wire.CtlOSNack}, {"init", wire.CtlOSInit}, {"echo", wire.CtlOSInitEcho}, {"cf", wire.CtlOSCFUpdate}}

// SetKindNames are the words for kinds of ordered sets.
func SetKindNames() (names []string) {
	for _, k := range setKinds {
		names = append(names, k.name)
	}
	return names
}

// MarshalText writes kinds as "ack,nack".
func (k SetKinds) MarshalText() ([]byte, error) {
	var names []string
	for i, x := range setKinds {
		if k>>i&1 != 0 {
			names = append(names, x.name)
		}
	}
	return []byte(strings.Join(names, ",")), nil
}

// UnmarshalText reads what MarshalText writes.
func (k *SetKinds) UnmarshalText(text []byte) error {
	*k = 0
	if len(text) == 0 {
		return nil
	}
	for word := range strings.SplitSeq(string(text), ",") {
		is := SetKinds(0)
		for i, x := range setKinds {
			if x.name == word {
				is = 1 << i
			}
		}
		if is == 0 || *k&is != 0 {
			return fmt.Errorf("ordered sets (%s): use %s, each once", text, strings.Join(SetKindNames(), ", "))
		}
		*k |= is
	}
	return nil
}

// has says whether sets of a kind are meant.
func (k SetKinds) has(t wire.CtlOSType) bool {
	for i, x := range setKinds {
		if x.kind == t {
			return k == 0 || k>>i&1 != 0
		}
	}
	return k == 0
}

// harms says whether something of this file is on.
func (i *Impair) harms() bool {
	return i.Exact != Hits{} || i.Corrupt.Share > 0 || i.Poison > 0 || i.SetLoss.Share > 0 || i.CCLoss > 0
}

// validateHarm tells the first figure of this file that is out of range.
func (i *Impair) validateHarm() error {
	for _, v := range []struct {
		name  string
		value float64
	}{{"corrupt", i.Corrupt.Share}, {"poison", i.Poison}, {"loss of ordered sets", i.SetLoss.Share}, {"loss of CC_Updates", i.CCLoss}} {
		if !(v.value >= 0 && v.value <= 1) {
			return fmt.Errorf("%s: %v is not a share from 0 to 1", v.name, v.value)
		}
	}
	if c := &i.Corrupt; c.Bits < 0 || c.Bits > 32 {
		return fmt.Errorf("corrupt: %d bits are not 1 to 32", c.Bits)
	}
	if i.SetLoss.Kinds >= 1<<len(setKinds) {
		return fmt.Errorf("loss of ordered sets: no such kinds")
	}
	for n, x := range i.Exact {
		if x.First == 0 && x != (Hit{}) || x.Last < x.First || x.Do >= numDeeds || n > 0 && x.First > 0 && i.Exact[n-1].First == 0 {
			return fmt.Errorf("exact: hit %d is none", n+1)
		}
	}
	switch i.Corrupt.Region {
	case "", RegionHeader, RegionPayload, RegionLLR, RegionFCS:
		return nil
	}
	return fmt.Errorf("corrupt: no region %q, use header, payload, llr or fcs", i.Corrupt.Region)
}

// harmKind numbers the generators of this file.
type harmKind int

const (
	harmCorrupt harmKind = iota
	harmPoison
	harmSets
	harmCC
	harmExact
	numHarms
)

// harm is the state of what this file does to frames. Like damage it draws for every frame, lost or not, of what is on:
//
//	corrupt          1 for each frame, 1 more for one that is hit: the first bit
//	poison           1 for each frame
//	exact corrupt    1 for each hit
//	sets, CC_Update  1 for each set of these kinds, for each CC_Update
type harm struct {
	on   bool
	gen  [numHarms]rand.PCG
	seen [2]uint32 // counted for Exact: frames, replays
}

// reset takes new generators, which follow from another one's state without drawing from it, and counts anew.
func (h *harm) reset(from rand.PCG) {
	h.seen = [2]uint32{}
	for k := range h.gen {
		hi := from.Uint64()
		h.gen[k].Seed(^hi, from.Uint64())
	}
}

// set follows a change.
func (h *harm) set(was, imp *Impair) {
	h.on = imp.harms()
	if was.Exact != imp.Exact {
		h.seen = [2]uint32{}
	}
}

func (h *harm) hit(k harmKind, p float64) bool {
	return p > 0 && float64(h.gen[k].Uint64()>>11)/(1<<53) < p
}

// below draws from 0 to less than n.
func (h *harm) below(k harmKind, n int64) int64 { return int64(h.gen[k].Uint64() % uint64(n)) }
