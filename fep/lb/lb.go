// Package lb chooses the entropy value (EV) of every packet, and with it the path: the load balancing half of the congestion
// management sublayer (uet-cms.md section 8). The algorithms are UET's own, oblivious spraying, REPS and the bitmap of
// penalties, and those that they are compared with. A Balancer sees which packets leave and what became of them, and answers
// with an EV. It does not know which path an EV takes, which only the switches' hashes decide; it does not decide when a packet may
// leave, reads no clock, and draws from the generator that it is given.
package lb

import (
	"math/rand/v2"

	"github.com/uetlab/uetlab/internal/vt"
)

// Kind is what became of a packet, as far as its path is concerned (uet-cms.md section 8).
type Kind uint8

// Kinds of feedback. A packet that was trimmed on its last hop is Good for its path, unless it carries a mark.
const (
	None    Kind = iota // nothing known yet
	Good                // acknowledged, not marked
	ECN                 // acknowledged or refused, marked on its way
	Nack                // trimmed inside the fabric
	Timeout             // lost: inferred, or no answer in time
	nKinds
)

func (k Kind) String() string {
	if k >= nKinds {
		return "invalid"
	}
	return [nKinds]string{"none", "good", "ecn", "nack", "timeout"}[k]
}

// Packet describes the packet that leaves next.
type Packet struct {
	Size  int   // bytes of payload
	Msg   int64 // bytes of the message that begins with this packet; 0: the packet belongs to the message before
	Again bool  // it is sent once more
	Idle  bool  // nothing else of the connection is under way
}

// Feedback tells what became of a packet.
type Feedback struct {
	EV    uint16 // with which it was sent: the real one for Timeout too, or 0 where it is not known
	Kind  Kind
	RTT   vt.Time // round-trip time that it measured, 0: none
	Bytes int     // newly acknowledged with this answer, of all packets that it covers
}

// Balancer chooses the EVs of one connection. None of its methods but Look allocates memory, once the connection has reached its
// greatest window.
type Balancer interface {
	// Next is the EV of the packet that leaves now. It is never 0, since a UDP source port 0 means "none".
	Next(now vt.Time, p Packet) uint16
	// Feedback takes what became of a packet. EVs of which the balancer does not know are welcome, and do no harm.
	Feedback(now vt.Time, f Feedback)
	// Look adds to v what the balancer knows of its EVs. It changes nothing.
	Look(v *View)
}

// Pool makes the balancers of one FEP: they share its parameters and its generator.
type Pool struct {
	p    Params
	rng  *rand.Rand
	mask uint16 // of an EV's lower bits, which tell EVs of a set apart

	rtt, rto, freeze, reroute, gap, hold vt.Time
}

// NewPool checks the parameters and fills in their defaults. Its error names the field and what it takes.
func NewPool(p Params, rng *rand.Rand) (*Pool, error) {
	if err := p.Resolve(); err != nil {
		return nil, err
	}
	return &Pool{p: p, rng: rng, mask: uint16(p.EVs - 1), rtt: vt.Time(p.RTT), rto: vt.Time(p.RTO), freeze: vt.Time(p.Freeze),
		reroute: vt.Time(p.Reroute), gap: vt.Time(p.FlowletGap), hold: vt.Time(p.FlowletHold)}, nil
}

// Params are the parameters with all defaults filled in.
func (o *Pool) Params() Params { return o.p }

// New makes the balancer of a connection that opens now.
func (o *Pool) New(now vt.Time) Balancer {
	switch o.p.Algorithm {
	case Oblivious:
		b := &oblivious{set: o.set()}
		b.walk.x = b.bits()
		return b
	case Bitmap:
		return &bitmap{scores: o.scores()}
	case Mixed:
		return &mixed{scores: o.scores()}
	case REPS:
		return &reps{set: o.set()}
	case REPSLegacy:
		return &legacy{set: o.set(), first: uint32(min(o.p.FirstWindow, o.p.EVs))}
	case UCCL:
		return &uccl{set: o.set(), rtt: make([]uint32, o.p.EVs)}
	case ECMP:
		return &ecmp{pool: o, ev: o.draw(), moved: now - o.reroute}
	case PLB:
		return &plb{pool: o, ev: o.draw(), start: now}
	case Flowlet:
		return &flowlet{pool: o, ev: o.draw(), moved: now, acked: now}
	case MP:
		return &mp{k: uint16(o.p.SubPaths), base: o.draw(), step: o.draw() | 1}
	case Spray:
		return &spray{set: o.set()}
	}
	return &fixed{ev: o.draw()}
}

// draw is any EV.
func (o *Pool) draw() uint16 {
	for {
		if ev := uint16(o.rng.Uint32()); ev != 0 {
			return ev
		}
	}
}

// set is the EVs that a connection uses: the lower bits tell them apart, the upper ones are the connection's own. Only a set of
// all 65536 values has EV 0 in it.
type set struct {
	pool  *Pool
	upper uint16
}

func (o *Pool) set() set {
	s := set{pool: o}
	for o.mask != 0xFFFF && s.upper == 0 {
		s.upper = uint16(o.rng.Uint32()) &^ o.mask
	}
	return s
}

func (s *set) ev(i uint16) uint16 { return s.upper | i&s.pool.mask }

func (s *set) has(ev uint16) bool { return ev&^s.pool.mask == s.upper }

// bits are random lower bits.
func (s *set) bits() uint16 { return uint16(s.pool.rng.Uint32()) & s.pool.mask }

// random is any EV of the set.
func (s *set) random() uint16 {
	for {
		if ev := s.upper | s.bits(); ev != 0 {
			return ev
		}
	}
}
