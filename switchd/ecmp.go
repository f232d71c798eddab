package switchd

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"time"

	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/vt"
)

type balance uint8

const (
	byHash balance = iota
	byFlowlet
	byLoad // adaptive
	byChance
	byTurn
)

// dataClass is the class of UET data, whose queue's limit the bands of loads divide.
const dataClass = 1

// ecmpState is what the switch keeps to choose ports.
type ecmpState struct {
	hasher
	set     ECMP // as given
	ready   bool // set has been applied once
	balance balance
	spread  groupKind
	idle    time.Duration
	gap     time.Duration
	limit   int64                  // bytes that Bands divide, 0: what the port holds
	scale   [link.NumPorts]float64 // load of a port = backlog × scale
	rng     *rand.Rand
	lets    []flowlet
}

// flowlet is the latest burst of the flows that share a slot.
type flowlet struct {
	last vt.Time
	port uint8
	used bool
}

const flowletSlots = 1 << 12

// setECMP applies settings from now on. Empty names stand for the defaults. Unless something of ECMP has changed all flows
// stay where they are, else the groups are spread anew.
func (s *Switch) setECMP(set *Settings) error {
	e, x := &set.ECMP, &s.ecmp
	if n := len(s.node.Ports); n > link.NumPorts {
		return fmt.Errorf("switch has %d ports: at most %d", n, link.NumPorts)
	}
	limit := set.Queues[dataClass].Limit
	if x.ready && sameECMP(&x.set, e) {
		x.limit = limit
		s.loads()
		return nil
	}
	h, b, g := hasher{}, byHash, bySpan
	if err := h.set(e, s.cfg.Seed); err != nil {
		return err
	}
	switch e.Balance {
	case "", BalanceHash:
	case BalanceFlowlet:
		b = byFlowlet
	case BalanceAdaptive:
		b = byLoad
	case BalanceRandom:
		b = byChance
	case BalanceRR:
		b = byTurn
	default:
		return fmt.Errorf("ecmp balance %q: use hash, flowlet, adaptive, random or rr", e.Balance)
	}
	switch e.Group {
	case "", GroupThreshold:
	case GroupModulo:
		g = byModulo
	case GroupResilient:
		g = byBucket
	default:
		return fmt.Errorf("ecmp group %q: use threshold, modulo or resilient", e.Group)
	}
	switch {
	case e.Weights != "" && e.Weights != WeightsEqual && e.Weights != WeightsRate:
		return fmt.Errorf("ecmp weights %q: use equal or rate", e.Weights)
	case e.Buckets < 0 || e.Buckets > maxTable:
		return fmt.Errorf("ecmp buckets %d: use 1 to %d", e.Buckets, maxTable)
	case e.Bands < 0 || e.IdleTimer < 0 || e.FlowletGap < 0:
		return fmt.Errorf("ecmp: bands, idle timer and flowlet gap must not be negative")
	}
	x.hasher, x.balance, x.spread, x.idle, x.gap = h, b, g, e.IdleTimer, e.FlowletGap
	x.set, x.limit, x.ready, x.lets = *e, limit, true, nil
	if b == byFlowlet {
		x.lets = make([]flowlet, flowletSlots)
	}
	s.rebuild()
	return nil
}

// sameECMP compares settings; the order of fields counts.
func sameECMP(a, b *ECMP) bool {
	if len(a.Fields) != len(b.Fields) {
		return false
	}
	for i, f := range a.Fields {
		if b.Fields[i] != f {
			return false
		}
	}
	return a.Hash == b.Hash && a.Group == b.Group && a.Buckets == b.Buckets && a.IdleTimer == b.IdleTimer && a.Weights == b.Weights &&
		a.PortWeight == b.PortWeight && a.Balance == b.Balance && a.FlowletGap == b.FlowletGap && a.Bands == b.Bands
}

// resetECMP forgets at the start of a run what the one before has left: where flows are, whose turn it is, and the generator.
func (s *Switch) resetECMP() {
	s.ecmp.rng = s.node.Rand("ecmp")
	clear(s.ecmp.lets)
	s.rebuild()
}

// rebuild spreads all groups anew, whatever was before.
func (s *Switch) rebuild() {
	for _, g := range s.groups {
		*g = group{all: g.all}
	}
	s.LinksChanged()
}

// LinksChanged takes ports whose link is down out of their ECMP groups, and back in when it is up; it follows changed
// rates too. Groups that are not concerned stay as they are.
func (s *Switch) LinksChanged() {
	s.loads()
	for _, g := range s.groups {
		s.update(g)
	}
}

// weight is a port's share of what its groups carry, relative to others. Rates count in Mb/s.
func (s *Switch) weight(port int) int64 {
	w := max(int64(s.ecmp.set.PortWeight[port]), 1)
	if s.ecmp.set.Weights == WeightsRate {
		w *= max(s.node.Ports[port].Rate()/1e6, 1)
	}
	return w
}

// loads works out by what each port's backlog counts: relative to its weight, so that equal loads drain in equal times where
// weights are rates.
func (s *Switch) loads() {
	var top int64 = 1
	for p := range s.node.Ports {
		top = max(top, s.weight(p))
	}
	for p, port := range s.node.Ports {
		x := float64(top) / float64(s.weight(p))
		if n := s.ecmp.set.Bands; n > 0 {
			limit := s.ecmp.limit
			if limit == 0 {
				limit = port.Config().Queue
			}
			x *= float64(n) / float64(max(limit, 1))
		}
		s.ecmp.scale[p] = x
	}
}

// choose picks a port of the group, which is not dead, for an IP packet.
func (s *Switch) choose(now vt.Time, g *group, ip []byte) int {
	x := &s.ecmp
	if g.n == 1 && !g.remembers {
		return int(g.tab[0])
	}
	switch x.balance {
	case byLoad:
		return s.leastLoaded(g)
	case byChance:
		return int(g.tab[x.rng.Uint64()>>32*uint64(len(g.tab))>>32])
	case byTurn:
		p := g.tab[g.turn]
		if g.turn++; g.turn == len(g.tab) {
			g.turn = 0
		}
		return int(p)
	}
	h := x.hash(ip)
	switch {
	case x.balance == byFlowlet:
		return s.flowlet(now, g, h)
	case x.spread == byModulo:
		return int(g.tab[h%uint32(len(g.tab))])
	}
	i := uint64(h) * uint64(len(g.tab)) >> 32
	if g.remembers {
		g.touch(int(i), now, x.idle)
	}
	return int(g.tab[i])
}

// flowlet keeps the port of a flow that goes on, and gives a flow that paused the least loaded one.
func (s *Switch) flowlet(now vt.Time, g *group, h uint32) int {
	f := &s.ecmp.lets[h%flowletSlots]
	if !f.used || now.Sub(f.last) > s.ecmp.gap || g.live>>f.port&1 == 0 {
		f.used, f.port = true, uint8(s.leastLoaded(g))
	}
	f.last = now
	return int(f.port)
}

// leastLoaded picks the port with the smallest backlog in bands, one of several by chance.
func (s *Switch) leastLoaded(g *group) int {
	var best int64 = 1<<63 - 1
	var ties uint64
	for m := g.live; m != 0; m &= m - 1 {
		p := bits.TrailingZeros64(m)
		load := int64(float64(s.node.Ports[p].Backlog()) * s.ecmp.scale[p])
		switch {
		case load < best:
			best, ties = load, m&-m
		case load == best:
			ties |= m & -m
		}
	}
	if ties&(ties-1) != 0 {
		for k := s.ecmp.rng.Uint64() >> 32 * uint64(bits.OnesCount64(ties)) >> 32; k > 0; k-- {
			ties &= ties - 1
		}
	}
	return bits.TrailingZeros64(ties)
}
