package cms

import (
	"math"

	"github.com/uetlab/uetlab/internal/vt"
)

// swift keeps the round-trip time at a target that grows as the window gets small.
type swift struct {
	p     *Swift
	fixed float64 // ns: target without flow scaling
	alpha float64
	beta  float64
	cut   bool
	last  vt.Time // of a decrease
	next  vt.Time // below a packet: when the next one may leave
}

// Flow scaling goes from its full range at a tenth of a packet to none at a hundred.
var fsSmall, fsLarge = 1 / math.Sqrt(0.1), 1 / math.Sqrt(100)

func newSwift(p *Swift) *swift {
	t := float64(p.Target)
	a := float64(p.Range) / (fsSmall - fsLarge)
	return &swift{p: p, fixed: t + float64(float64(p.Hops)*t/6.55), alpha: a, beta: -a * fsLarge}
}

func (s *swift) target(c *Context) float64 {
	if s.p.Range == 0 {
		return s.fixed
	}
	return s.fixed + min(max(s.alpha/math.Sqrt(c.cwnd/c.mtu)+s.beta, 0), float64(s.p.Range))
}

func (s *swift) onAck(c *Context, now vt.Time, n int64, rtt vt.Time) {
	d, t := float64(rtt), s.target(c)
	switch {
	case d < t:
		c.decided(DecUp)
		c.cwnd += float64(s.p.AI * float64(n) * min(1, c.mtu/c.cwnd))
	case s.may(c, now):
		c.decided(DecDown)
		c.cwnd *= max(1-float64(s.p.Beta*(d-t)/d), 1-s.p.MaxMDF)
	}
	c.cwnd = min(max(c.cwnd, float64(s.p.MinWnd)), c.maxWnd)
}

// may lets a decrease happen once per round trip.
func (s *swift) may(c *Context, now vt.Time) bool {
	if s.cut && now-s.last < max(c.lastRTT, c.baseRTT) {
		return false
	}
	s.cut, s.last = true, now
	return true
}

func (s *swift) onLoss(c *Context, now vt.Time, why Loss) {
	if s.may(c, now) {
		c.cwnd = max(c.cwnd*(1-s.p.MaxMDF), float64(s.p.MinWnd))
	}
}

func (s *swift) onSend(c *Context, now vt.Time, n int64) {
	if c.cwnd < c.mtu {
		s.next = now + vt.Time(float64(max(c.lastRTT, c.baseRTT))*float64(n)/c.cwnd)
	}
}
