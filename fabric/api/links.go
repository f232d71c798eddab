package api

import (
	"time"

	"github.com/uetlab/uetlab/internal/faults"
	"github.com/uetlab/uetlab/internal/link"
)

// States of a link.
const (
	LinkUp       = "up"
	LinkDown     = "down"
	LinkImpaired = "impaired" // up, with an impairment in at least one direction
)

// End is one end of a link.
type End struct {
	Node string `json:"node"`
	Port string `json:"port"` // eth1, eth2, …
}

// String gives node:port.
func (e End) String() string { return e.Node + ":" + e.Port }

// Impair is what is wrong with one direction of a link.
type Impair struct {
	Down        bool       `json:"down"`
	Blackhole   bool       `json:"blackhole"`      // carrier up, nothing arrives
	Loss        float64    `json:"loss"`           // probability per frame, 0 to 1
	Burst       link.Burst `json:"burst,omitzero"` // loss in bursts
	BER         float64    `json:"ber"`            // probability per bit, 0 to 1
	Duplicate   float64    `json:"duplicate"`      // probability per frame, 0 to 1
	Reorder     float64    `json:"reorder"`        // probability per frame, 0 to 1
	ReorderByNs int64      `json:"reorderByNs"`    // how long such a frame is held back
	DelayNs     int64      `json:"delayNs"`        // in addition to the link's own
	JitterNs    int64      `json:"jitterNs"`       // scale of a random delay in addition
	Dist        link.Dist  `json:"dist,omitempty"` // its distribution
	Rate        float64    `json:"rate"`           // fraction of the link's rate, above 0 up to 1; 1 is unimpaired
	UCR         float64    `json:"ucr"`            // probability that a codeword is uncorrectable, 0 to 1
	RawBER      float64    `json:"rawBer"`         // probability per bit before FEC, 0 to 1

	Exact   link.Hits    `json:"exact,omitzero"`   // what is done to chosen frames, as text
	Corrupt link.Corrupt `json:"corrupt,omitzero"` // bits of frames arrive wrong
	Poison  float64      `json:"poison,omitempty"` // probability per frame that its FCS is poisoned, 0 to 1
	SetLoss link.SetLoss `json:"setLoss,omitzero"` // control ordered sets are lost
	CCLoss  float64      `json:"ccLoss,omitempty"` // probability per CC_Update that it is lost, 0 to 1
}

// ImpairOf describes a direction's impairments.
func ImpairOf(i link.Impair) Impair {
	r := i.Rate
	if r == 0 {
		r = 1
	}
	return Impair{Down: i.Down, Blackhole: i.Blackhole, Loss: i.Loss, Burst: i.Burst, BER: i.BER, Duplicate: i.Duplicate,
		Reorder: i.Reorder, ReorderByNs: int64(i.ReorderBy), DelayNs: int64(i.Delay), JitterNs: int64(i.Jitter), Dist: i.Dist, Rate: r, UCR: i.UCR, RawBER: i.RawBER,
		Exact: i.Exact, Corrupt: i.Corrupt, Poison: i.Poison, SetLoss: i.SetLoss, CCLoss: i.CCLoss}
}

// Text writes what is wrong in the words of `uetlab link set`, empty for a healthy direction.
func (i Impair) Text() string {
	return faults.Text(&link.Impair{Down: i.Down, Blackhole: i.Blackhole, Loss: i.Loss, Burst: i.Burst, BER: i.BER, Duplicate: i.Duplicate,
		Reorder: i.Reorder, ReorderBy: time.Duration(i.ReorderByNs), Delay: time.Duration(i.DelayNs), Jitter: time.Duration(i.JitterNs), Dist: i.Dist, Rate: i.Rate, UCR: i.UCR, RawBER: i.RawBER,
		Exact: i.Exact, Corrupt: i.Corrupt, Poison: i.Poison, SetLoss: i.SetLoss, CCLoss: i.CCLoss})
}

// Direction is one direction of a link: what is wrong with it and the counters of its sending port.
type Direction struct {
	Impair   Impair            `json:"impair"`
	LLR      string            `json:"llr,omitempty"` // state of link layer retry at the sending port: OFF, INIT, ADVANCE, REPLAY, FLUSH
	Counters map[string]uint64 `json:"counters,omitempty"`
}

// LinkStatus is a link as it is now.
type LinkStatus struct {
	Name    string    `json:"name"`
	A       End       `json:"a"`
	B       End       `json:"b"`
	RateBps int64     `json:"rateBps"`
	DelayNs int64     `json:"delayNs"` // propagation
	State   string    `json:"state"`
	LLR     bool      `json:"llr"`  // link layer retry is on
	CBFC    bool      `json:"cbfc"` // credits are on, or will be with the next run
	AB      Direction `json:"ab"`   // from A to B
	BA      Direction `json:"ba"`
	Agreed  *Agreed   `json:"agreed,omitempty"` // where LLR and CBFC are negotiated: these say then whether an end wants them
}

// Agreed is what the ends of a negotiated link want, and what they have agreed on. It is a moment's: a run begins with neither.
type Agreed struct {
	LLR      bool     `json:"llr"` // both ports have it
	CBFC     bool     `json:"cbfc"`
	WantLLR  []string `json:"wantLlr,omitempty"` // nodes
	WantCBFC []string `json:"wantCbfc,omitempty"`
}

// LLRText is "on", "off", or what is in the way of it.
func (s *LinkStatus) LLRText() string {
	if s.Agreed == nil {
		return wantedText(s.LLR, nil)
	}
	return wantedText(s.Agreed.LLR, s.Agreed.WantLLR)
}

// CBFCText is the same of credits.
func (s *LinkStatus) CBFCText() string {
	if s.Agreed == nil {
		return wantedText(s.CBFC, nil)
	}
	return wantedText(s.Agreed.CBFC, s.Agreed.WantCBFC)
}

func wantedText(on bool, wanted []string) string {
	switch {
	case on:
		return "on"
	case len(wanted) == 1:
		return "wanted by " + wanted[0] + " only"
	case len(wanted) == 2:
		return "wanted by both, not agreed on"
	}
	return "off"
}

// Operations of a LinkChange.
const (
	LinkOpFail      = faults.Fail
	LinkOpRestore   = faults.Restore // up again and free of every impairment
	LinkOpSet       = faults.Change
	LinkOpBlackhole = faults.Blackhole
	LinkOpFlap      = faults.Flap // down and up by turns
)

// LinkSet holds the impairments to change; what is nil stays as it is.
type LinkSet = faults.Set

// LinkFlap is when a flapping link is down.
type LinkFlap = faults.Times

// LinkChange asks for a change of a link at one virtual time.
type LinkChange struct {
	Op   string   `json:"op"`
	From string   `json:"from,omitempty"` // node: only the direction that it sends in; empty = both
	Set  LinkSet  `json:"set,omitzero"`   // for LinkOpSet
	Flap LinkFlap `json:"flap,omitzero"`  // for LinkOpFlap
	// At is the virtual time: empty = as soon as every node can know of it; "+50us" = after the start of the run that runs,
	// else of the next one; "1.5ms" = since the lab came up.
	At string `json:"at,omitempty"`
}

// Values of LinkChangeResult.When.
const (
	WhenNow     = "now"      // takes effect at AtNs
	WhenThisRun = "this run" // at RelNs after the start of the run that runs
	WhenNextRun = "next run" // at RelNs after the start of the next run; AtNs is not known yet
)

// LinkChangeResult says when a change takes effect.
type LinkChangeResult struct {
	Link       string `json:"link"`
	When       string `json:"when"`
	AtNs       int64  `json:"atNs"`       // virtual, since the lab came up; 0 for WhenNextRun
	RelNs      int64  `json:"relNs"`      // virtual, since the start of the run
	RoutesAtNs int64  `json:"routesAtNs"` // virtual, when the rest of the fabric routes accordingly; -1 = never, 0 = no change of routes
}

// FaultScript asks for changes at times relative to one moment, all of them or none.
type FaultScript struct {
	At    string      `json:"at,omitempty"` // the moment from which steps count, as LinkChange.At
	Steps []FaultStep `json:"steps"`
}

// FaultStep is one change of a script, of a link or of a switch.
type FaultStep struct {
	AtNs int64    `json:"atNs"` // after the script's moment
	Link string   `json:"link,omitempty"`
	Op   string   `json:"op,omitempty"` // of a link, as LinkChange.Op
	From string   `json:"from,omitempty"`
	Set  LinkSet  `json:"set,omitzero"`
	Flap LinkFlap `json:"flap,omitzero"`

	Switch      string   `json:"switch,omitempty"`      // instead of Link
	Assignments []string `json:"assignments,omitempty"` // as SwitchChange.Assignments; none: back to the topology's settings
}

// FaultScriptResult says when a script begins and ends. Times are virtual, and 0 for WhenNextRun but for RelNs.
type FaultScriptResult struct {
	When       string `json:"when"`       // as LinkChangeResult.When
	AtNs       int64  `json:"atNs"`       // the moment from which steps count, since the lab came up
	RelNs      int64  `json:"relNs"`      // the same since the start of the run
	Changes    int    `json:"changes"`    // flaps counted as the changes that they are
	LastNs     int64  `json:"lastNs"`     // the last change
	RoutesAtNs int64  `json:"routesAtNs"` // the last change of routes; -1 = never, 0 = no change of routes
}
