package link

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/uetlab/uetlab/wire"
)

// Impair holds what is wrong with one direction of a link. The zero value is a healthy link; everything combines.
type Impair struct {
	Down      bool          `json:"down,omitempty"`
	Blackhole bool          `json:"blackhole,omitempty"`   // carrier up, nothing arrives
	Loss      float64       `json:"loss,omitempty"`        // probability that a frame is lost, 0..1
	Burst     Burst         `json:"burst,omitzero"`        // loss in bursts, in addition
	BER       float64       `json:"ber,omitempty"`         // probability that a bit arrives wrong, 0..0.5
	Duplicate float64       `json:"duplicate,omitempty"`   // probability that a frame arrives twice
	Reorder   float64       `json:"reorder,omitempty"`     // probability that a frame is held back by ReorderBy, and overtaken
	ReorderBy time.Duration `json:"reorderByNs,omitempty"` // 0: what 4 frames of full length take on the line, at most 1 s
	Delay     time.Duration `json:"delayNs,omitempty"`     // extra propagation delay
	Jitter    time.Duration `json:"jitterNs,omitempty"`    // scale of a random delay, in addition; frames do not overtake each other
	Dist      Dist          `json:"dist,omitempty"`        // its distribution, default Uniform
	Rate      float64       `json:"rate,omitempty"`        // share of the nominal rate that is left, 0 = all
	UCR       float64       `json:"ucr,omitempty"`         // probability that a codeword is uncorrectable, 0..1
	RawBER    float64       `json:"rawBer,omitempty"`      // probability that a bit is wrong before FEC, 0..0.5
	Exact     Hits          `json:"exact,omitzero"`        // what is done to chosen frames
	Corrupt   Corrupt       `json:"corrupt,omitzero"`      // bits of frames arrive wrong
	Poison    float64       `json:"poison,omitempty"`      // probability that a frame arrives with its FCS poisoned, 0..1
	SetLoss   SetLoss       `json:"setLoss,omitzero"`      // control ordered sets are lost
	CCLoss    float64       `json:"ccLoss,omitempty"`      // probability that a CC_Update is lost, 0..1
}

// Burst is loss by the Gilbert-Elliott model: a link is good or bad, changes with every frame by chance, and loses frames at
// its state's rate. Where it starts is drawn from how often it is bad in the long run.
type Burst struct {
	ToBad    float64 `json:"toBad,omitempty"`    // probability to become bad, for each frame
	ToGood   float64 `json:"toGood,omitempty"`   // probability to become good again
	LossBad  float64 `json:"lossBad,omitempty"`  // loss while bad
	LossGood float64 `json:"lossGood,omitempty"` // loss while good
}

// Dist is the distribution of jitter.
type Dist string

// Distributions; Jitter J is the largest value, the standard deviation of the half that is kept, the mean, and the scale.
const (
	Uniform     Dist = "uniform"     // 0..J
	Normal      Dist = "normal"      // absolute value of a normal variable with standard deviation J
	Exponential Dist = "exponential" // mean J
	Pareto      Dist = "pareto"      // J/2 times a Pareto variable with shape 3 less one, cut at 20 J
)

const (
	maxImpairDelay = time.Second
	minImpairRate  = 1e-6 // below, a queue would take longer than virtual picoseconds can count
	heldFrames     = 4    // default of ReorderBy, in frames of full length
)

// Healthy says whether nothing is wrong. Figures without effect, such as the distribution of no jitter, do not count.
func (i Impair) Healthy() bool {
	return !i.Down && (i.Rate == 0 || i.Rate == 1) && !i.touches()
}

// touches says whether frames meet another fate on the line than on a healthy one.
func (i *Impair) touches() bool {
	return i.Blackhole || i.Loss > 0 || i.Burst.loses() || i.BER > 0 || i.Duplicate > 0 || i.Reorder > 0 || i.Delay > 0 || i.Jitter > 0 || i.fec() || i.harms()
}

// fec says whether codewords may be uncorrectable.
func (i *Impair) fec() bool { return i.UCR > 0 || i.RawBER > 0 }

func (b *Burst) loses() bool { return b.LossGood > 0 || b.ToBad > 0 && b.LossBad > 0 }

// Validate tells the first figure that lies outside its range.
func (i *Impair) Validate() error {
	for _, v := range []struct {
		name  string
		value float64
		top   float64
	}{
		{"loss", i.Loss, 1}, {"burst loss: probability to become bad", i.Burst.ToBad, 1}, {"burst loss: probability to become good", i.Burst.ToGood, 1},
		{"burst loss: loss while bad", i.Burst.LossBad, 1}, {"burst loss: loss while good", i.Burst.LossGood, 1},
		{"bit error rate", i.BER, 0.5}, {"duplicate", i.Duplicate, 1}, {"reorder", i.Reorder, 1}, {"rate", i.Rate, 1},
		{"uncorrectable codewords", i.UCR, 1}, {"bit error rate before FEC", i.RawBER, 0.5},
	} {
		if !(v.value >= 0 && v.value <= v.top) { // also what is not a number
			return fmt.Errorf("%s: %v is not a share from 0 to %v", v.name, v.value, v.top)
		}
	}
	if i.Rate > 0 && i.Rate < minImpairRate {
		return fmt.Errorf("rate: %v of the nominal rate is too little, give at least %v, or take the link down", i.Rate, minImpairRate)
	}
	if i.Burst.ToBad > 0 && i.Burst.ToGood == 0 {
		return fmt.Errorf("burst loss: the link becomes bad and never good again: give the probability to become good, or use loss")
	}
	for _, v := range []struct {
		name  string
		value time.Duration
	}{{"reorder delay", i.ReorderBy}, {"delay", i.Delay}, {"jitter", i.Jitter}} {
		if v.value < 0 || v.value > maxImpairDelay {
			return fmt.Errorf("%s: %v is not within 0 to %v", v.name, v.value, maxImpairDelay)
		}
	}
	if err := i.validateHarm(); err != nil {
		return err
	}
	switch i.Dist {
	case "", Uniform, Normal, Exponential, Pareto:
		return nil
	}
	return fmt.Errorf("jitter: no distribution %q, use %s, %s, %s or %s", i.Dist, Uniform, Normal, Exponential, Pareto)
}

// kind numbers the impairments that leave things to chance.
type kind int

const (
	kindLoss kind = iota
	kindBurst
	kindBER
	kindDuplicate
	kindReorder
	kindJitter
	kindCodeword
	numKinds
)

// damage draws the fates of frames. Every impairment has a generator of its own, seeded at a reset with two draws of the
// port's generator, in the order of the kinds. While an impairment is on it draws for every frame that the line carries,
// lost by another one or not, so that none shifts what the others do:
//
//	loss, duplicate, reorder, jitter   1 for each frame
//	burst                              1 when it is set, for the first state; 2 for each frame, for the state and the loss
//	BER                                1 when it is set, 1 for each wrong bit, for the distance to the next one
//	UCR, raw BER                       see codewords, which has the generator: nothing for good ones
//
// One that is off draws nothing.
type damage struct {
	gen  [numKinds]rand.PCG
	held time.Duration // what reordering adds

	bad   bool // state of Burst
	state bool // bad has been drawn

	good  int64   // bits that arrive right before the next wrong one
	scale float64 // 1 / ln(1 - BER), 0 if good has not been drawn

	phy  *codewords
	harm harm // of exact.go
}

// fate is what happens to one frame on the line.
type fate struct {
	lost  bool
	why   Counter       // of a lost frame
	twice bool          // it is delivered twice, wrong bits and all
	late  time.Duration // extra delay by jitter
	held  time.Duration // by reordering: later frames may overtake
}

// reset takes new generators; what the impairments remember of frames is drawn anew when the next one comes.
func (d *damage) reset(rng *rand.Rand) {
	*d = damage{held: d.held, phy: d.phy, harm: harm{on: d.harm.on}}
	for k := range d.gen {
		hi := rng.Uint64()
		d.gen[k].Seed(hi, rng.Uint64())
	}
	d.harm.reset(d.gen[kindJitter])
}

// set follows a change of the impairments on a line of rate bits per second: what depends on a figure that has changed is
// drawn anew when the next frame comes, all else goes on.
func (d *damage) set(was, imp *Impair, rate int64, mtu int) {
	if was.Burst != imp.Burst {
		d.state = false
	}
	if was.BER != imp.BER {
		d.scale = 0
	}
	d.harm.set(was, imp)
	if d.held = imp.ReorderBy; d.held == 0 {
		d.held = time.Duration(heldFrames*LinePs(mtu+wire.EthLen, rate)/1000) + 2 // due times are rounded: be behind the last of them
		d.held = min(d.held, maxImpairDelay)                                      // a receiver takes no due time for sane that lies far ahead
	}
}

// float draws from 0 to less than 1.
func (d *damage) float(k kind) float64 { return float64(d.gen[k].Uint64()>>11) / (1 << 53) }

// hit draws whether something of probability p happens; what cannot happen draws nothing.
func (d *damage) hit(k kind, p float64) bool { return p > 0 && d.float(k) < p }

// next draws a frame's fate and turns its wrong bits. A frame that is lost for several reasons counts under the first of
// blackhole, loss, burst.
func (d *damage) next(imp *Impair, f *Frame) (x fate) {
	lost, burst := d.hit(kindLoss, imp.Loss), imp.Burst.loses() && d.burst(&imp.Burst)
	x.lost = true
	switch {
	case imp.Blackhole:
		x.why = DropBlack
	case lost:
		x.why = DropLoss
	case burst:
		x.why = DropBurst
	default:
		x.lost = false
	}
	if imp.BER > 0 || imp.fec() {
		part := extentOf(f) // as it was sent
		if imp.BER > 0 {
			d.bits(imp.BER, &part)
		}
		if imp.fec() {
			d.phy.harm(d, &part)
		}
	}
	x.twice = d.hit(kindDuplicate, imp.Duplicate)
	if d.hit(kindReorder, imp.Reorder) {
		x.held = d.held
	}
	if imp.Jitter > 0 {
		x.late = late(imp.Dist, imp.Jitter, d.float(kindJitter))
	}
	return x
}

// burst goes one frame further in the Gilbert-Elliott model and says whether the frame is lost.
func (d *damage) burst(b *Burst) bool {
	if !d.state {
		d.state = true
		d.bad = d.float(kindBurst)*(b.ToBad+b.ToGood) < b.ToBad
	}
	change, loss := b.ToBad, b.LossGood
	if d.bad {
		change = b.ToGood
	}
	if d.float(kindBurst) < change {
		d.bad = !d.bad
	}
	if d.bad {
		loss = b.LossBad
	}
	return d.float(kindBurst) < loss
}

// bits turns the wrong bits of a frame that FEC lets through.
func (d *damage) bits(ber float64, x *extent) {
	if d.scale == 0 {
		d.scale = 1 / math.Log1p(-ber)
		d.good = d.distance()
	}
	first, n := x.first-x.zero, x.last-x.pad-x.zero // bits of the frame's contents
	if d.good >= n-first {
		d.good -= n - first
		return
	}
	at := first + d.good
	for ; at < n; at += 1 + d.distance() {
		d.phy.wrong(x.line(at))
		d.turn(x.frame, at)
	}
	d.good = at - n
}

// turn turns one bit of a frame.
func (d *damage) turn(f *Frame, at int64) {
	if at < 0 {
		if f.Flip == 0 { // one is enough to lose it
			f.Flip = uint8(1 + preambleBits + at)
		}
		return
	}
	if !f.Damaged {
		f.Fill()
		f.FCS, f.Damaged, f.kind = wire.FCS(f.B), true, kindUnknown
	}
	if i := at / 8; i < int64(len(f.B)) {
		f.B[i] ^= 1 << (at % 8)
	} else {
		f.FCS ^= 1 << (at - 8*int64(len(f.B)))
	}
}

const preambleBits = 32 // of the LLR word

const fcsLen = 4

// distance draws how many bits arrive right before the next wrong one: geometrically, by the inverse of its distribution.
func (d *damage) distance() int64 {
	const far = 1 << 60 // more than a line carries in a year; room to add a frame
	return int64(min(math.Log1p(-d.float(kindBER))*d.scale, far))
}

// late is the jitter for u, which lies in 0 to less than 1, by the inverse of its distribution; never negative.
func late(dist Dist, jitter time.Duration, u float64) time.Duration {
	j := float64(jitter)
	switch dist {
	case Normal:
		j *= math.Sqrt2 * math.Erfinv(u)
	case Exponential:
		j *= -math.Log1p(-u)
	case Pareto:
		j *= min((1/math.Cbrt(1-u)-1)/2, 20)
	default:
		return time.Duration(u * (j + 1)) // every nanosecond from 0 to j alike
	}
	return time.Duration(j + 0.5)
}
