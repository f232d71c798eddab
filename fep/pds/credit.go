package pds

import (
	"net/netip"

	"github.com/uetlab/uetlab/fep/cms"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/internal/wheel"
	"github.com/uetlab/uetlab/wire"
)

// creditKey names a congestion control context of a peer that asks for credit.
type creditKey struct {
	peer netip.Addr
	id   uint8 // ccc_id
}

// creditDst is how Credit CPs reach a source: by the PDC that it last used, nil if that is no more.
type creditDst struct{ p *PDC }

type creditSource = cms.Source[creditDst]

// credits is the destination's side of receiver credit (uet-cms.md 7): what our port can take is given to all peers in turn.
type credits struct {
	m       *Manager
	pacer   *cms.Pacer[creditDst]
	sources map[creditKey]*creditSource
	timer   wheel.Timer
}

func newCredits(m *Manager, pacer *cms.Pacer[creditDst]) *credits {
	c := &credits{m: m, pacer: pacer, sources: map[creditKey]*creditSource{}}
	c.timer = wheel.Timer{Owner: c}
	return c
}

// Fire implements wheel.Owner: it is time for a grant.
func (c *credits) Fire(now vt.Time, _ *wheel.Timer) {
	for s := c.pacer.Grant(now); s != nil; s = c.pacer.Grant(now) {
		if s.V.p != nil {
			s.V.p.control(wire.CtlCredit, 0, 0, s.Credit()<<8)
		}
	}
	c.pace(now)
}

func (c *credits) pace(now vt.Time) {
	if at := c.pacer.Next(now); at < c.timer.At() {
		c.m.arm(&c.timer, max(at, now))
	}
}

// source finds or opens what is kept of the source behind a PDC. It outlives its PDCs, since credit goes on counting.
func (c *credits) source(now vt.Time, p *PDC, id uint8) *creditSource {
	key := creditKey{p.peer, id}
	s := c.sources[key]
	if s == nil {
		if len(c.sources) >= most {
			c.forget()
		}
		s = &creditSource{}
		c.sources[key] = s
	}
	if s.V.p == nil {
		c.pacer.Open(now, s)
	}
	if p.src != nil && p.src != s && p.src.V.p == p {
		c.leave(p)
	}
	s.V.p, p.src = p, s
	return s
}

// forget drops the sources without a PDC.
func (c *credits) forget() {
	for k, s := range c.sources {
		if s.V.p == nil {
			delete(c.sources, k)
		}
	}
}

// leave takes a PDC that ends from its source.
func (c *credits) leave(p *PDC) {
	if s := p.src; s != nil && s.V.p == p {
		s.V.p = nil
		c.pacer.Close(s)
	}
	p.src = nil
}

// wants takes the credit target of a request that has arrived, whole or trimmed.
func (p *PDC) wants(now vt.Time, a *arrival, r wire.Request, trimmed, inner bool) {
	c := p.m.credits
	if c == nil || !r.HasCC() {
		return
	}
	s := c.source(now, p, r.CCCID())
	c.pacer.OnTarget(now, s, r.CreditTarget())
	if trimmed {
		c.pacer.OnTrim(now, s, p.m.full)
	}
	c.pacer.OnArrival(now, a.ce(), inner)
	c.pace(now)
}

// onCreditRequest takes a Credit Request CP.
func (p *PDC) onCreditRequest(now vt.Time, payload uint32) {
	if c := p.m.credits; c != nil {
		c.pacer.OnCreditRequest(now, c.source(now, p, uint8(payload>>24)), payload&0xFFFFFF)
		c.pace(now)
	}
}
