package cms

import "github.com/uetlab/uetlab/internal/vt"

// creditSource is the source's side of RCCC (uet-cms.md 7).
type creditSource struct {
	p           *RCCC
	credit      int64  // bytes that may be sent; the last packet may overdraw it
	pull        uint32 // latest cumulative credit, 24 bits
	speculating bool   // nothing was heard yet: the credit is what it gave itself
	starved     bool   // something was lost since the last grant, and needs credit that the destination may not know of
	asks        uint8  // credit requests since the last grant
	last        vt.Time
	asked       vt.Time
}

func newCreditSource(now vt.Time, p *RCCC) *creditSource {
	return &creditSource{p: p, credit: p.MaxWnd, speculating: true, last: now, asked: now}
}

// heard ends the speculation: what is left of the credit that the source gave itself is void.
func (r *creditSource) heard(now vt.Time) {
	r.last = now
	if r.speculating {
		r.speculating = false
		r.credit = min(r.credit, 0)
	}
}

// OnCredit takes the cumulative credit (24 bits, 256-byte units) of a Credit CP, or of an ACK with cc_type 1. Old ones change
// nothing. Speculative credit goes first, so that none of the granted is lost with it.
func (c *Context) OnCredit(now vt.Time, credit uint32) {
	r := c.rccc
	if r == nil {
		return
	}
	r.heard(now)
	d := ahead(credit, r.pull)
	if d <= 0 {
		return
	}
	r.credit = min(r.credit+int64(d)<<8, r.p.MaxWnd)
	r.pull = credit & mask24
	r.asks, r.starved = 0, false
	c.stats.grants++
}

// CreditTarget is the cumulative credit that the source would like to have, for the header of a packet that was just counted by
// OnSend or for a Credit Request (24 bits, 256-byte units). So many other contexts of the port have something to send now, and
// may: from two on nobody asks for more than its share of the own link. Those that wait for credit do not count, or all would ask for little and
// none get much. What a source holds counts against its wants, and where it holds more
// the target is behind the credit and says how much was used.
func (c *Context) CreditTarget(rivals int) uint32 {
	r := c.rccc
	if r == nil {
		return 0
	}
	want := c.backlog + c.rtxBacklog
	if c.cfg.Algorithm.Windows() {
		want = min(want, int64(c.cwnd+c.mtu))
	}
	want = min(want, r.p.MaxWnd) - r.credit
	if r.speculating && c.backlog > 0 {
		want = max(want, int64(c.mtu))
	}
	if rivals > 1 && want > 0 {
		want /= int64(rivals)
	}
	return (r.pull + uint32((want+255)>>8)) & mask24
}

// CreditRequestAt is when a Credit Request should leave: at once if a loss left the source without credit, else when it has heard
// nothing for the credit timer; each further one takes twice as long, not less than a base RTT. Never if no credit is needed.
func (c *Context) CreditRequestAt(now vt.Time) vt.Time {
	r := c.rccc
	if r == nil || r.credit > 0 || c.backlog+c.rtxBacklog <= 0 {
		return vt.Never
	}
	wait := min(r.asks, 16)
	if r.starved {
		if r.asks == 0 {
			return now
		}
		return max(now, r.asked+c.baseRTT<<(wait-1))
	}
	return max(now, max(r.last, r.asked)+vt.Time(r.p.Timer)<<wait)
}

// OnCreditRequest notes that a Credit Request leaves.
func (c *Context) OnCreditRequest(now vt.Time) {
	if r := c.rccc; r != nil {
		r.asked = now
		r.asks = min(r.asks+1, 100)
	}
}
