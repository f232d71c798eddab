package cms

import (
	"fmt"
	"strings"
)

// Algorithm says what limits the bytes in flight.
type Algorithm uint8

// Algorithms of a context.
const (
	AlgNSCC     Algorithm = iota // window of the sender (uet-cms.md 3)
	AlgRCCC                      // credit of the receiver (uet-cms.md 7)
	AlgNSCCRCCC                  // both have to agree (uet-cms.md 7.1)
	AlgFixed                     // a window that never changes
	AlgDCTCP                     // and the following: uet-cms.md 11
	AlgMPRDMA
	AlgSwift
	AlgEQDS
	AlgDCQCN
	AlgUCCL // uet-cms.md 12
	algorithms
)

var algNames = [algorithms]string{"nscc", "rccc", "nscc+rccc", "fixed", "dctcp", "mprdma", "swift", "eqds", "dcqcn", "uccl"}

// String returns the name that ParseAlgorithm reads.
func (a Algorithm) String() string {
	if a < algorithms {
		return algNames[a]
	}
	return fmt.Sprintf("algorithm %d", uint8(a))
}

// Names lists what ParseAlgorithm reads.
func Names() []string { return append([]string(nil), algNames[:]...) }

// ParseAlgorithm reads a name. It fails on others than those of String.
func ParseAlgorithm(s string) (Algorithm, error) {
	for i, n := range algNames {
		if n == s {
			return Algorithm(i), nil
		}
	}
	return 0, fmt.Errorf("congestion control %q: is none of %s", s, strings.Join(algNames[:], ", "))
}

// Credits says whether the algorithm waits for credit of the receiver: its packets carry a credit target.
func (a Algorithm) Credits() bool { return a == AlgRCCC || a == AlgNSCCRCCC || a == AlgEQDS }

// Windows says whether NSCC limits the bytes in flight: ACKs then carry its state.
func (a Algorithm) Windows() bool { return a == AlgNSCC || a == AlgNSCCRCCC }

// Variant is a set of deviations of NSCC from the text of uet-cms.md 3, as the htsim simulator has them.
type Variant uint8

// Variants. That the window stays within its bounds after every event, and not just after adjustments, is no variant: it is always so.
const (
	VarEWMA        Variant = 1 << iota // average delay: weight 0.0125 per ACK, and 0.25 base RTT for an unmarked ACK above target
	VarNoSample                        // an ACK without valid RTT is taken with the average delay, not passed over
	VarQAEnd                           // a Quick Adapt period lasts until after its end: > in place of >=
	VarQAThreshold                     // qa_threshold is 4 x target with trimming as well
	VarPacketSize                      // a packet is let out if it fits itself, not if a full one fits
	VarNoNackBase                      // NACKs do not lower the base RTT
	variants       = iota
	// VarHtsim is what htsim does by default.
	VarHtsim = VarEWMA | VarNoSample | VarQAEnd | VarQAThreshold | VarPacketSize
)

var variantNames = [variants]string{"ewma", "no-sample", "qa-end", "qa-threshold", "packet-size", "no-nack-base"}

// String gives words that ParseVariant reads, "spec" for none.
func (v Variant) String() string {
	switch v {
	case 0:
		return "spec"
	case VarHtsim:
		return "htsim"
	}
	var words []string
	for i, name := range variantNames {
		if v>>i&1 != 0 {
			words = append(words, name)
		}
	}
	return strings.Join(words, ",")
}

// Variants lists the words that ParseVariant reads.
func Variants() []string { return append([]string{"htsim"}, variantNames[:]...) }

// ParseVariant reads "", "htsim" or a list of names with commas between them.
func ParseVariant(s string) (v Variant, err error) {
next:
	for n := range strings.SplitSeq(s, ",") {
		switch n = strings.TrimSpace(n); n {
		case "":
			continue
		case "htsim":
			v |= VarHtsim
			continue
		}
		for i, name := range variantNames {
			if n == name {
				v |= 1 << i
				continue next
			}
		}
		return 0, fmt.Errorf("NSCC variant %q: is neither htsim nor one of %s", n, strings.Join(variantNames[:], ", "))
	}
	return v, nil
}
