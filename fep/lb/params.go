package lb

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/uetlab/uetlab/internal/nearest"
)

// Algorithm is the name of one, as topology files and flags spell it.
type Algorithm string

// Algorithms (uet-cms.md sections 8, 11 and 12).
const (
	REPS       Algorithm = "reps"        // EVs that came back without a mark go out again; frozen when packets vanish
	REPSLegacy Algorithm = "reps-legacy" // … in a queue without bound, never frozen
	Oblivious  Algorithm = "oblivious"   // every EV of a set once a round, in a new order each round
	Bitmap     Algorithm = "bitmap"      // the same walk, past EVs with penalties: STrack
	Mixed      Algorithm = "mixed"       // an EV that came back unmarked if there is one, else bitmap
	Spray      Algorithm = "spray"       // a random EV for each packet
	ECMP       Algorithm = "ecmp"        // one EV, another one now and then where RerouteOn says
	Fixed      Algorithm = "fixed"       // one EV, for ever
	PLB        Algorithm = "plb"         // one EV, another one after rounds with many marks
	Flowlet    Algorithm = "flowlet"     // one EV, another one after a gap
	UCCL       Algorithm = "uccl"        // for each chunk the better one of two random EVs by round-trip time
	MP         Algorithm = "mp"          // a few EVs in turn; written mp-8
)

var algorithms = []Algorithm{REPS, REPSLegacy, Oblivious, Bitmap, Mixed, Spray, ECMP, Fixed, PLB, Flowlet, UCCL, MP}

// Names lists the words that Parse takes; of mp-1 to mp-256 it has one.
func Names() []string {
	names := make([]string, len(algorithms))
	for i, a := range algorithms {
		if names[i] = string(a); a == MP {
			names[i] = "mp-8"
		}
	}
	return names
}

// Parse reads the name of an algorithm, with the number of paths after mp-. The result has all other parameters at their defaults.
func Parse(name string) (Params, error) {
	if a := Algorithm(name); a != "" && slices.Contains(algorithms, a) {
		return Params{Algorithm: a}, nil
	}
	if k, ok := strings.CutPrefix(name, "mp-"); ok {
		n, err := strconv.Atoi(k)
		if err != nil || n < 1 || n > maxSubPaths || k[0] == '+' {
			return Params{}, fmt.Errorf("load balancer %q: its number of paths is outside 1..%d", name, maxSubPaths)
		}
		return Params{Algorithm: MP, SubPaths: n}, nil
	}
	if near := nearest.Word(name, Names()); near != "" {
		return Params{}, fmt.Errorf("load balancer %q: unknown; did you mean %s?", name, near)
	}
	return Params{}, fmt.Errorf("load balancer %q: unknown; use one of %s", name, strings.Join(Names(), ", "))
}

// Reroute is what makes ecmp take another EV. Each word includes those before it.
type Reroute string

// Occasions for another EV.
const (
	OnIdle    Reroute = "idle"    // nothing is under way, so nothing can be overtaken
	OnTimeout Reroute = "timeout" // packets vanish
	OnNack    Reroute = "nack"    // packets are trimmed inside the fabric
	OnECN     Reroute = "ecn"     // packets are marked
)

var occasions = []Reroute{OnIdle, OnTimeout, OnNack, OnECN}

// Params fixes an algorithm. Every zero value stands for the default that its comment names. Times are virtual.
type Params struct {
	Algorithm Algorithm // reps

	EVs int           // size of the set of EVs, a power of two up to 65536, up to 4096 for bitmap, mixed and uccl; 0: 256
	RTT time.Duration // of an idle network, base RTT; 0: 12 us
	RTO time.Duration // retransmission timeout; 0: 1 ms

	Freeze   time.Duration // REPS: how long a timeout freezes it; 0: 10 ms, negative: never
	Explore  int           // REPS: packets with random EVs after that, 0: 16, up to 255; negative: none
	Lifetime int           // REPS: packets that an EV that came back is good for, 0: 1, up to 15; one ACK names one EV, however many packets it covers

	FirstWindow int // REPS legacy: packets at the beginning that walk through the set: the first window, 0: one of each EV, which is the most

	PenaltyECN     int // bitmap: what a mark adds to the score of its EV, 0: 1, up to 15; negative: nothing
	PenaltyNack    int // … a trim, 0: 4
	PenaltyTimeout int // … a loss, 0: 15

	Reroute   time.Duration // t_reroute of ecmp: another EV at most once in it; 0: 10 RTT, which is the least
	RerouteOn Reroute       // … and what for; default: timeout

	PLBShare      float64 // marked share of the bytes of a round that makes it a congested one, 0: 0.25, up to 1
	PLBRounds     int     // congested rounds in a row that move the connection, 0: 2, up to 255
	PLBIdleRounds int     // … if nothing is under way, 0: 1, up to PLBRounds

	FlowletGap  time.Duration // silence that ends a flowlet, 0: half an RTT
	FlowletHold time.Duration // least time between two moves, 0: RTO

	SubPaths int // mp: number of EVs, 0: 8, up to 256

	Chunk    int // uccl: bytes of a message that share an EV, 0: 32 KiB
	SmallMsg int // uccl: a message of so many bytes at most takes the EV of the one before it, 0: 8 KiB; negative: none does
	SmallRun int // uccl: … up to so many bytes in a row, 0: 16 KiB
}

const (
	maxEVs      = 1 << 16
	maxTable    = 1 << 12
	maxSubPaths = 256
	maxScore    = 15
	maxBytes    = 1 << 30
	maxTime     = time.Hour
)

func or[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// Resolve fills in the defaults and checks all fields, also those of other algorithms. An error names the field and its range.
func (p *Params) Resolve() error {
	or(&p.Algorithm, REPS)
	or(&p.EVs, 256)
	or(&p.RTT, 12*time.Microsecond)
	or(&p.RTO, time.Millisecond)
	or(&p.Freeze, 10*time.Millisecond)
	or(&p.Explore, 16)
	or(&p.Lifetime, 1)
	or(&p.FirstWindow, p.EVs)
	or(&p.PenaltyECN, 1)
	or(&p.PenaltyNack, 4)
	or(&p.PenaltyTimeout, maxScore)
	or(&p.Reroute, 10*p.RTT)
	or(&p.RerouteOn, OnTimeout)
	or(&p.PLBShare, 0.25)
	or(&p.PLBRounds, 2)
	or(&p.PLBIdleRounds, 1)
	or(&p.FlowletGap, max(p.RTT/2, 1))
	or(&p.FlowletHold, p.RTO)
	or(&p.SubPaths, 8)
	or(&p.Chunk, 32<<10)
	or(&p.SmallMsg, 8<<10)
	or(&p.SmallRun, 16<<10)
	return p.check()
}

func (p *Params) check() error {
	if !slices.Contains(algorithms, p.Algorithm) {
		if _, err := Parse(string(p.Algorithm)); err != nil {
			return err
		}
		return fmt.Errorf("load balancer %q: has its number of paths in the name; Parse takes it apart", p.Algorithm)
	}
	most := maxEVs
	if p.Algorithm == Bitmap || p.Algorithm == Mixed || p.Algorithm == UCCL {
		most = maxTable
	}
	if p.EVs < 1 || p.EVs > most || bits.OnesCount(uint(p.EVs)) != 1 {
		return fmt.Errorf("EVs %d: is no power of two in 1..%d (%s)", p.EVs, most, p.Algorithm)
	}
	if !slices.Contains(occasions, p.RerouteOn) {
		return fmt.Errorf("reroute on %q: is none of idle, timeout, nack, ecn", p.RerouteOn)
	}
	if !(p.PLBShare > 0 && p.PLBShare <= 1) { // NaN is neither
		return fmt.Errorf("PLB share %v: is not above 0 and at most 1", p.PLBShare)
	}
	return p.checkRanges()
}

func (p *Params) checkRanges() error {
	for _, f := range []struct {
		name        string
		v, min, max int
	}{
		{"explore", p.Explore, -1, 255},
		{"lifetime", p.Lifetime, 1, 15},
		{"first window", p.FirstWindow, 1, maxEVs},
		{"penalty for ECN", p.PenaltyECN, -1, maxScore},
		{"penalty for NACK", p.PenaltyNack, -1, maxScore},
		{"penalty for timeout", p.PenaltyTimeout, -1, maxScore},
		{"PLB rounds", p.PLBRounds, 1, 255},
		{"PLB idle rounds", p.PLBIdleRounds, 1, p.PLBRounds},
		{"sub-paths", p.SubPaths, 1, maxSubPaths},
		{"chunk", p.Chunk, 1, maxBytes},
		{"small message", p.SmallMsg, -1, maxBytes},
		{"small run", p.SmallRun, 1, maxBytes},
	} {
		if f.v < f.min || f.v > f.max {
			return fmt.Errorf("%s %d: outside %d..%d", f.name, f.v, f.min, f.max)
		}
	}
	for _, f := range []struct {
		name        string
		v, min, max time.Duration
	}{
		{"RTT", p.RTT, 1, maxTime},
		{"RTO", p.RTO, p.RTT, maxTime},
		{"freeze", p.Freeze, -maxTime, maxTime},
		{"t_reroute", p.Reroute, 10 * p.RTT, 10 * maxTime},
		{"flowlet gap", p.FlowletGap, 1, maxTime},
		{"flowlet hold", p.FlowletHold, 1, maxTime},
	} {
		if f.v < f.min || f.v > f.max {
			return fmt.Errorf("%s %v: outside %v..%v", f.name, f.v, f.min, f.max)
		}
	}
	return nil
}
