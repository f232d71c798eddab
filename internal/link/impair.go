package link

import (
	"math/rand/v2"
	"time"
)

// Impair holds what is wrong with one direction of a link. The zero value is a healthy link; everything combines.
type Impair struct {
	Down      bool          `json:"down,omitempty"`
	Blackhole bool          `json:"blackhole,omitempty"` // carrier up, nothing arrives
	Loss      float64       `json:"loss,omitempty"`      // probability that a frame is lost, 0..1
	Burst     Burst         `json:"burst,omitzero"`      // loss in bursts, in addition
	BER       float64       `json:"ber,omitempty"`       // probability that a bit arrives wrong
	Duplicate float64       `json:"duplicate,omitempty"` // probability that a frame arrives twice
	Reorder   float64       `json:"reorder,omitempty"`   // probability that a frame is held back by ReorderBy, and overtaken
	ReorderBy time.Duration `json:"reorderByNs,omitempty"`
	Delay     time.Duration `json:"delayNs,omitempty"`  // extra propagation delay
	Jitter    time.Duration `json:"jitterNs,omitempty"` // scale of a random delay, in addition; frames do not overtake each other
	Dist      Dist          `json:"dist,omitempty"`     // its distribution, default Uniform
	Rate      float64       `json:"rate,omitempty"`     // share of the nominal rate that is left, 0 = all
}

// Burst is loss by the Gilbert-Elliott model: a link is good or bad, changes with every frame by chance, and loses frames at
// its state's rate.
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

// damage draws the fates of frames.
type damage struct {
	rng *rand.Rand
	bad bool // of Burst
}

// fate is what happens to one frame on the line.
type fate struct {
	lost  bool
	why   Counter       // of a lost frame
	twice bool          // it is delivered twice
	late  time.Duration // extra delay by jitter
	held  time.Duration // by reordering: later frames may overtake
}

func (d *damage) reset(rng *rand.Rand) { *d = damage{rng: rng} }

// set follows a change of the impairments.
func (d *damage) set(was, imp *Impair) {}

// next draws a frame's fate.
func (d *damage) next(imp *Impair, f *Frame) (x fate) {
	switch {
	case imp.Blackhole:
		x.lost, x.why = true, DropBlack
	case imp.Loss > 0 && d.rng.Float64() < imp.Loss:
		x.lost, x.why = true, DropLoss
	}
	return x
}
