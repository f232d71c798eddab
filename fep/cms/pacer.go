package cms

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/uetlab/uetlab/internal/vt"
)

// Lists that a Source may be in.
const (
	inNone uint8 = iota
	inActive
	inIdle
)

// Source is what the destination keeps of a source of requests with credit targets: one for each peer and ccc_id. V is the caller's.
type Source[T any] struct {
	V T

	highest    uint32 // highest target, 24 bits
	pull       uint32 // granted, 24 bits
	rest       uint8  // bytes of the last full grant that made no unit
	in         uint8
	again      bool // the latest credit is to be repeated
	heard      vt.Time
	granted    vt.Time
	prev, next *Source[T]
}

// Credit is the cumulative credit (24 bits, 256-byte units), for ACKs with cc_type 1 and Credit CPs.
func (s *Source[T]) Credit() uint32 { return s.pull }

// Demand is how many bytes are wanted and not granted; negative: granted beyond the wants.
func (s *Source[T]) Demand() int64 { return int64(s.demand()) << 8 }

// demand is how many units are wanted and not granted; negative: granted beyond the wants.
func (s *Source[T]) demand() int32 { return ahead(s.highest, s.pull) }

type ring[T any] struct{ head, tail *Source[T] }

func (l *ring[T]) push(s *Source[T], in uint8) {
	s.in, s.prev, s.next = in, l.tail, nil
	if l.tail == nil {
		l.head = s
	} else {
		l.tail.next = s
	}
	l.tail = s
}

func (l *ring[T]) remove(s *Source[T]) {
	if s.prev == nil {
		l.head = s.next
	} else {
		s.prev.next = s.next
	}
	if s.next == nil {
		l.tail = s.prev
	} else {
		s.next.prev = s.prev
	}
	s.in, s.prev, s.next = inNone, nil, nil
}

// Pacer grants the credit of one port of a FEP, to all sources in turn, a little slower than the link (uet-cms.md 7).
// The caller reports what arrives, and calls Grant at Next.
type Pacer[T any] struct {
	cfg    *Config
	active ring[T]
	idle   ring[T]
	next   int64   // ps: no grant before
	limit  float64 // of the host, share of the link
	over   oversub
}

// NewPacer makes the pacer of a port. The generator is for the rounds of oversubscription control, and may be nil without it.
func NewPacer[T any](cfg *Config, rng *rand.Rand) (*Pacer[T], error) {
	if cfg.RCCC.Oversubs && rng == nil {
		return nil, fmt.Errorf("credit pacer: oversubscription control needs a generator")
	}
	return &Pacer[T]{cfg: cfg, limit: 1, over: oversub{rng: rng, rate: 1}}, nil
}

// Limit sets the share of the link that the host can take, in 0.01 .. 1.
func (p *Pacer[T]) Limit(share float64) { p.limit = min(max(share, 0.01), 1) }

// Open takes a new source. It gets slow credit from now on.
func (p *Pacer[T]) Open(now vt.Time, s *Source[T]) {
	s.heard, s.granted = now, now
	p.settle(s)
}

// Close forgets a source.
func (p *Pacer[T]) Close(s *Source[T]) { p.leave(s) }

func (p *Pacer[T]) leave(s *Source[T]) {
	switch s.in {
	case inActive:
		p.active.remove(s)
	case inIdle:
		p.idle.remove(s)
	}
}

// settle puts a source where unasked credit is given, as long as it holds less than a window of it.
func (p *Pacer[T]) settle(s *Source[T]) {
	if s.in == inNone && !p.cfg.RCCC.NoSlow && int64(-s.demand())<<8 < p.cfg.RCCC.MaxWnd {
		p.idle.push(s, inIdle)
	}
}

// OnTarget takes the credit target of a request (24 bits, 256-byte units).
func (p *Pacer[T]) OnTarget(now vt.Time, s *Source[T], target uint32) {
	s.heard = now
	if ahead(target, s.highest) <= 0 {
		return
	}
	s.highest = target & mask24
	p.wanted(s)
}

// OnTrim takes a request of so many nominal bytes that was cut: its source needs the credit for it once more.
func (p *Pacer[T]) OnTrim(now vt.Time, s *Source[T], size int) {
	s.heard = now
	s.highest = (s.highest + uint32(size+255)>>8) & mask24
	p.wanted(s)
}

// OnCreditRequest takes a Credit Request. It is answered even if nothing is left to grant: a Credit CP may have been lost.
func (p *Pacer[T]) OnCreditRequest(now vt.Time, s *Source[T], target uint32) {
	s.again = true
	p.OnTarget(now, s, target)
	p.wanted(s)
}

// wanted puts a source into the active list. No honest source is short of more than twice its window: it may be overdrawn.
func (p *Pacer[T]) wanted(s *Source[T]) {
	if most := int32(p.cfg.RCCC.MaxWnd >> 7); s.demand() > most {
		s.highest = (s.pull + uint32(most)) & mask24
	}
	if s.in == inActive || s.demand() <= 0 && !s.again {
		p.settle(s)
		return
	}
	p.leave(s)
	p.active.push(s, inActive)
}

// Next is when Grant has something to do, Never if there is nothing.
func (p *Pacer[T]) Next(now vt.Time) vt.Time {
	if p.active.head == nil && p.idle.head == nil {
		return vt.Never
	}
	return max(now, vt.Time((p.next+999)/1000))
}

// leastGrant is what a credit costs in the pacer's time, however small it is.
const leastGrant = 1 << 10

// Grant gives the source whose turn it is its share; a Credit CP with Source.Credit is to leave. Nil if it is not time yet.
func (p *Pacer[T]) Grant(now vt.Time) *Source[T] {
	if vt.Time((p.next+999)/1000) > now {
		return nil
	}
	s, units := p.turn(now)
	if s == nil {
		return nil
	}
	s.pull = (s.pull + uint32(units)) & mask24
	s.granted, s.again = now, false
	if s.demand() > 0 {
		p.active.push(s, inActive)
	} else {
		p.settle(s)
	}
	bytes := float64(max(int64(units)<<8, leastGrant))
	rate := float64(p.cfg.Net.Rate) * p.cfg.RCCC.Share * min(p.limit, p.over.rate)
	p.next = max(p.next, int64(now)*1000-999) + int64(bytes*8e12/rate)
	return s
}

// turn takes the next source out of its list, and says how many units it gets.
func (p *Pacer[T]) turn(now vt.Time) (*Source[T], int32) {
	for p.active.head != nil {
		s := p.active.head
		p.active.remove(s)
		if s.heard < s.granted && now-s.granted > vt.Time(p.cfg.RCCC.Timer) {
			s.highest, s.again = s.pull, false // it did not react to what it was given: it may ask again
			continue
		}
		if n := max(s.demand(), 0); n > 0 || s.again {
			return s, s.grant(p.cfg.RCCC.Grant, n)
		}
		p.settle(s)
	}
	if s := p.idle.head; s != nil {
		p.idle.remove(s)
		return s, s.grant(p.cfg.RCCC.Grant, math.MaxInt32)
	}
	return nil, 0
}

// grant is how many units of most a grant of so many bytes is. What is less than a unit is added to the next one: else each grant
// would be a little more or less than so many packets, and all sources that started together would send one too many, or none, together.
func (s *Source[T]) grant(bytes int, most int32) int32 {
	bytes += int(s.rest)
	if n := int32(bytes >> 8); n <= most {
		s.rest = uint8(bytes)
		return n
	}
	return most
}

// OnArrival takes a data packet, trimmed or not, for oversubscription control: inner says that it was trimmed before the last hop.
func (p *Pacer[T]) OnArrival(now vt.Time, ecn, inner bool) {
	if p.cfg.RCCC.Oversubs {
		p.over.arrival(now, p.cfg, ecn, inner)
	}
}

// Share is the share of the link that is granted now.
func (p *Pacer[T]) Share() float64 { return p.cfg.RCCC.Share * min(p.limit, p.over.rate) }

// oversub finds the share of the link that the fabric in front of it can carry.
type oversub struct {
	rng     *rand.Rand
	rate    float64
	g       float64 // average share of marked packets
	end     vt.Time // of the round
	packets int
	marked  int
	trims   int
	clean   int // rounds in a row
}

func (o *oversub) arrival(now vt.Time, cfg *Config, ecn, inner bool) {
	if now >= o.end {
		if o.packets > 0 {
			o.round()
		}
		o.packets, o.marked, o.trims = 0, 0, 0
		o.end = now + vt.Time(1.5*float64(cfg.Net.BaseRTT)*(0.75+0.5*o.rng.Float64()))
	}
	o.packets++
	if ecn {
		o.marked++
	}
	if inner {
		o.trims++
	}
}

func (o *oversub) round() {
	n := float64(o.packets)
	o.g = o.g/2 + float64(o.marked)/n/2
	switch {
	case o.trims > 0 || o.g > 0.3:
		o.clean = 0
		o.rate -= float64(o.trims) / n
		if o.g > 0.3 {
			o.rate *= 1 - float64(0.5*(o.g-0.3))
		}
	default:
		o.rate += 0.01 * float64(int(1)<<o.clean)
		o.clean = min(o.clean+1, 7)
		if o.marked > 0 {
			o.clean = 0
		}
	}
	o.rate = min(max(o.rate, 0.01), 1)
}
