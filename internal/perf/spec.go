package perf

import (
	"fmt"
	"slices"
	"strings"
)

// Tests, metrics and atomic operations.
const (
	Send   = "send"
	TSend  = "tsend"
	Write  = "write"
	Read   = "read"
	Atomic = "atomic"

	Lat = "lat"
	BW  = "bw"

	Add   = "add"   // adds
	Fetch = "fetch" // adds, and brings the old value
	CAS   = "cas"   // compares and swaps
)

// Names of what there is, in the order of help.
var (
	Tests   = []string{Send, TSend, Write, Read, Atomic}
	Metrics = []string{Lat, BW}
	Atomics = []string{Add, Fetch, CAS}
)

// Auto stands for the choice of this package.
const Auto = -1

// Bounds.
const (
	MaxIters  = 10_000_000
	MaxWindow = 4096
	MaxSize   = 1 << 30
)

// Spec says what is measured. Both sides are given the same.
type Spec struct {
	Test          string  `json:"test"`
	Metric        string  `json:"metric"`
	Sizes         []int64 `json:"sizes"`  // bytes of a message
	Iters         int     `json:"iters"`  // measured messages of each size; Auto
	Warmup        int     `json:"warmup"` // messages before these; Auto
	Window        int     `json:"window"` // operations open at once, for BW
	Inject        int     `json:"inject"` // messages up to so many bytes are injected; Auto: as far as the FEP goes for Lat, none for BW
	Tag           uint64  `json:"tag,omitempty"`
	Op            string  `json:"op,omitempty"`  // of Atomic: Add, Fetch, CAS
	Imm           bool    `json:"imm,omitempty"` // writes bring immediate data
	Check         bool    `json:"check,omitempty"`
	Ordered       bool    `json:"ordered,omitempty"`       // mode ROD
	Bidirectional bool    `json:"bidirectional,omitempty"` // both sides send, for BW
}

// Validate says what is wrong with a Spec.
func (s *Spec) Validate() error {
	switch {
	case !slices.Contains(Tests, s.Test):
		return fmt.Errorf("perf (%s): no such test; there are %s", s.Test, strings.Join(Tests, ", "))
	case !slices.Contains(Metrics, s.Metric):
		return fmt.Errorf("perf %s (%s): neither lat nor bw", s.Test, s.Metric)
	case len(s.Sizes) == 0:
		return fmt.Errorf("perf: no size is given")
	case s.Iters != Auto && (s.Iters < 1 || s.Iters > MaxIters):
		return fmt.Errorf("--iters (%d): give 1 to %d", s.Iters, MaxIters)
	case s.Warmup != Auto && (s.Warmup < 0 || s.Warmup > MaxIters):
		return fmt.Errorf("--warmup (%d): give 0 to %d", s.Warmup, MaxIters)
	case s.Window < 1 || s.Window > MaxWindow:
		return fmt.Errorf("--window (%d): give 1 to %d operations", s.Window, MaxWindow)
	case s.Inject < Auto:
		return fmt.Errorf("--inline (%d): give a number of bytes", s.Inject)
	}
	if err := s.validateSizes(); err != nil {
		return err
	}
	return s.validateMix()
}

func (s *Spec) validateSizes() error {
	for _, n := range s.Sizes {
		switch {
		case n < 0 || n > MaxSize:
			return fmt.Errorf("--size (%d): give at most %d bytes", n, MaxSize)
		case n == 0 && s.Test != Send && s.Test != TSend:
			return fmt.Errorf("--size (0): a %s needs at least one byte", s.Test)
		case s.Test == Atomic && s.Op == CAS && n != 8:
			return fmt.Errorf("--size (%d): a compare-and-swap has one number: give 8", n)
		case s.Test == Atomic && (n%8 != 0 || n > maxAtomic):
			return fmt.Errorf("--size (%d): atomics work on 8-byte numbers: give a multiple of 8 up to %d", n, maxAtomic)
		}
	}
	return nil
}

// maxAtomic is what fits a packet of the smallest payload MTU, with two operands for each number.
const maxAtomic = 256

// validateMix says what does not go together.
func (s *Spec) validateMix() error {
	switch {
	case s.Bidirectional && s.Metric == Lat:
		return fmt.Errorf("--bidirectional: only bw can send both ways at once; lat of %s has its answer anyway", s.Test)
	case s.Imm && s.Test != Write:
		return fmt.Errorf("--imm: only a write brings immediate data, not %s", s.Test)
	case s.Tag != 0 && s.Test != TSend:
		return fmt.Errorf("--tag: only tsend has a tag, not %s", s.Test)
	case s.Op != "" && s.Test != Atomic:
		return fmt.Errorf("--op: only atomic has a choice of operations, not %s", s.Test)
	case s.Test == Atomic && !slices.Contains(Atomics, s.Op):
		return fmt.Errorf("--op (%s): no such atomic operation; there are %s", s.Op, strings.Join(Atomics, ", "))
	}
	return nil
}

// pingPong says that messages go to and fro, and the time of one is half of that.
func (s *Spec) pingPong() bool { return s.Metric == Lat && s.Test != Read && s.Test != Atomic }

// twoSided says that the target posts receives.
func (s *Spec) twoSided() bool { return s.Test == Send || s.Test == TSend }

// notified says that the target is told of every message.
func (s *Spec) notified() bool { return s.twoSided() || s.Test == Write && (s.Metric == Lat || s.Imm) }

// counts gives the numbers of messages of a size. In virtual time few tell all; with the wall's as many as perftest takes, and less than so
// many bytes.
func (s *Spec) counts(size int64, real bool) (warmup, iters int) {
	most, bytes, warm := int64(100), int64(32<<20), 10
	switch {
	case real && s.Metric == Lat:
		most, bytes, warm = 1000, 256<<20, 100
	case real:
		most, bytes, warm = 5000, 1<<30, 100
	case s.Metric == BW:
		most = 500
	}
	warmup, iters = s.Warmup, s.Iters
	if iters == Auto {
		iters = int(max(min(most, bytes/max(size, 1)), 20))
	}
	if warmup == Auto {
		warmup = min(warm, iters)
	}
	return warmup, iters
}
