package faults

import (
	"fmt"
	"time"

	"github.com/uetlab/uetlab/internal/link"
)

// Set holds the impairments to change; what is nil stays as it is.
type Set struct {
	Down        *bool       `json:"down,omitempty"`
	Blackhole   *bool       `json:"blackhole,omitempty"`
	Loss        *float64    `json:"loss,omitempty"`        // probability per frame, 0 to 1
	Burst       *link.Burst `json:"burst,omitempty"`       // the zero value ends it
	BER         *float64    `json:"ber,omitempty"`         // probability per bit, 0 to 1
	Duplicate   *float64    `json:"duplicate,omitempty"`   // probability per frame, 0 to 1
	Reorder     *float64    `json:"reorder,omitempty"`     // probability per frame, 0 to 1
	ReorderByNs *int64      `json:"reorderByNs,omitempty"` // how long such a frame is held back; 0: for four frames of full length
	DelayNs     *int64      `json:"delayNs,omitempty"`     // in addition to the link's own
	JitterNs    *int64      `json:"jitterNs,omitempty"`    // scale of the random delay
	Dist        *link.Dist  `json:"dist,omitempty"`        // its distribution
	Rate        *float64    `json:"rate,omitempty"`        // fraction of the link's rate, above 0 up to 1
	RateBps     *int64      `json:"rateBps,omitempty"`     // the same in bits per second, at most the link's own
	LLR         *bool       `json:"llr,omitempty"`         // link layer retry, of both directions
	CBFC        *bool       `json:"cbfc,omitempty"`        // credits, of both directions: off at once, on from the next run on
	Limit       *int64      `json:"limit,omitempty"`       // bytes that a receiver announces, where credits are negotiated
	ReInit      *bool       `json:"llrReInit,omitempty"`   // true: sending ports give up what waits for an ACK and shake hands anew
	UCR         *float64    `json:"ucr,omitempty"`         // probability that a codeword is uncorrectable, 0 to 1
	RawBER      *float64    `json:"rawBer,omitempty"`      // probability per bit before FEC, 0 to 1

	Exact   *link.Hits    `json:"exact,omitempty"`   // what is done to chosen frames, as text: "901:drop,1r:corrupt"; empty ends it
	Corrupt *link.Corrupt `json:"corrupt,omitempty"` // bits of frames arrive wrong
	Poison  *float64      `json:"poison,omitempty"`  // probability per frame that its FCS is poisoned, 0 to 1
	SetLoss *link.SetLoss `json:"setLoss,omitempty"` // control ordered sets are lost
	CCLoss  *float64      `json:"ccLoss,omitempty"`  // probability per CC_Update that it is lost, 0 to 1
}

// Bounds of impairments.
const (
	// MinRate is the slowest that a link may become, in bit/s: the longest frame takes some seconds then, which receivers still
	// take for a sane time of arrival.
	MinRate   = 20e3
	maxDelay  = time.Second
	maxJitter = 100 * time.Millisecond // of a heavy tail twenty times as much is left
)

// Error is something wrong with a change: what and why, and what to do instead.
type Error struct {
	Msg  string
	Hint string
}

// Error gives the message without the hint.
func (e *Error) Error() string { return e.Msg }

func problem(hint, format string, args ...any) *Error {
	return &Error{fmt.Sprintf(format, args...), hint}
}

// empty says whether nothing is to be set.
func (s *Set) empty() bool { return *s == Set{} }

// check says whether a link of the given rate, in bit/s, can have these impairments.
func (s *Set) check(name string, rate int64) error {
	if s.empty() {
		return problem("for example loss=0.1% delay=+2us rate=25%", "link set %s: nothing to set", name)
	}
	shares := []struct {
		name  string
		share *float64
	}{{"loss", s.Loss}, {"ber", s.BER}, {"duplicate", s.Duplicate}, {"reorder", s.Reorder}, {"ucr", s.UCR}, {"rawber", s.RawBER}}
	if b := s.Burst; b != nil {
		for _, v := range []*float64{&b.ToBad, &b.ToGood, &b.LossBad, &b.LossGood} {
			shares = append(shares, struct {
				name  string
				share *float64
			}{"burst", v})
		}
		if *b != (link.Burst{}) && (b.ToBad == 0 || b.ToGood == 0) {
			return problem("write burst=p:1%,r:25%", "burst: a link that is always good or never good again has no bursts")
		}
	}
	for _, x := range shares {
		if x.share != nil && !(*x.share >= 0 && *x.share <= 1) {
			return problem("give a share between 0% and 100%", "%s (%v): not a share of the whole", x.name, *x.share)
		}
	}
	for _, x := range []struct {
		name string
		ns   *int64
		most time.Duration
	}{{"delay", s.DelayNs, maxDelay}, {"jitter", s.JitterNs, maxJitter}, {"reorder", s.ReorderByNs, maxDelay}} {
		if x.ns != nil && !(*x.ns >= 0 && *x.ns <= int64(x.most)) {
			return problem(fmt.Sprintf("give between 0 and %v", x.most), "%s (%d ns): out of range", x.name, *x.ns)
		}
	}
	if s.Dist != nil && !known(*s.Dist) {
		return problem("valid are uniform, normal, exponential, pareto", "jitter (%s): no such distribution", *s.Dist)
	}
	if err := s.checkRate(name, rate); err != nil {
		return err
	}
	imp := s.over(link.Impair{}, rate)
	if err := imp.Validate(); err != nil {
		return problem("see uetlab help link set", "link set %s: %v", name, err)
	}
	return nil
}

func (s *Set) checkRate(name string, rate int64) error {
	switch {
	case s.Rate != nil && s.RateBps != nil:
		return problem("give one of them", "rate of %s: a share and bits per second at once", name)
	case s.RateBps != nil && *s.RateBps > rate:
		return problem("a link can only be slowed down", "rate (%s): more than the %s of %s", rateText(*s.RateBps), rateText(rate), name)
	case s.Rate != nil && !(*s.Rate > 0 && *s.Rate <= 1):
		return problem("give a share above 0% and up to 100%", "rate (%v): not a share of the whole", *s.Rate)
	}
	if left := s.share(rate); left > 0 && float64(rate)*left < MinRate {
		return problem(fmt.Sprintf("give at least %g%%", 100*MinRate/float64(rate)), "rate: leaves %.0f bit/s of %s", float64(rate)*left, name)
	}
	return nil
}

// share is the rate to set as a part of the link's own, 0 where none is to be set.
func (s *Set) share(rate int64) float64 {
	switch {
	case s.Rate != nil:
		return *s.Rate
	case s.RateBps != nil:
		return float64(*s.RateBps) / float64(rate)
	}
	return 0
}

// over gives the impairments that follow from imp on a link of the given rate.
func (s *Set) over(imp link.Impair, rate int64) link.Impair {
	put(&imp.Down, s.Down)
	put(&imp.Blackhole, s.Blackhole)
	put(&imp.Loss, s.Loss)
	put(&imp.Burst, s.Burst)
	put(&imp.BER, s.BER)
	put(&imp.UCR, s.UCR)
	put(&imp.RawBER, s.RawBER)
	put(&imp.Duplicate, s.Duplicate)
	put(&imp.Reorder, s.Reorder)
	span(&imp.ReorderBy, s.ReorderByNs)
	span(&imp.Delay, s.DelayNs)
	span(&imp.Jitter, s.JitterNs)
	put(&imp.Dist, s.Dist)
	s.putHarm(&imp)
	if imp.Reorder == 0 {
		imp.ReorderBy = 0
	}
	switch {
	case imp.Jitter == 0:
		imp.Dist = ""
	case imp.Dist == "":
		imp.Dist = link.Uniform
	}
	if share := s.share(rate); share == 1 {
		imp.Rate = 0
	} else if share > 0 {
		imp.Rate = share
	}
	return imp
}

func put[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

func span(to *time.Duration, ns *int64) {
	if ns != nil {
		*to = time.Duration(*ns)
	}
}
