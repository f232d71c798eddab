package cms

import "github.com/uetlab/uetlab/internal/vt"

// dctcp counts the marked bytes of a round trip.
type dctcp struct {
	end    vt.Time
	alpha  float64
	acked  int64
	marked int64
	began  bool
}

// dctcpAck applies n acknowledged bytes: per round trip, or per ACK in htsim's form.
func (c *Context) dctcpAck(now vt.Time, n int64, ecn bool) {
	if c.cfg.DCTCP.Htsim {
		c.perAck(n, ecn, 1./3)
		return
	}
	d := c.dctcp
	rtt := c.lastRTT
	if rtt == 0 {
		rtt = c.baseRTT
	}
	if !d.began {
		d.began, d.alpha, d.end = true, 1, now+rtt
	}
	d.acked += n
	if ecn {
		d.marked += n
	}
	if now < d.end || d.acked == 0 {
		return
	}
	g := c.cfg.DCTCP.G
	d.alpha = float64((1-g)*d.alpha) + float64(g*float64(d.marked)/float64(d.acked))
	c.decided(DecUp)
	if d.marked > 0 {
		c.decided(DecDown)
		c.cwnd *= 1 - d.alpha/2
	}
	c.cwnd += c.mtu
	c.clamp()
	d.acked, d.marked, d.end = 0, 0, now+rtt
}

func (c *Context) mprdmaAck(n int64, ecn bool) { c.perAck(n, ecn, c.cfg.MPRDMA.Cut) }

// perAck adds a packet per window of unmarked bytes, and takes a share of marked ones.
func (c *Context) perAck(n int64, ecn bool, cut float64) {
	if ecn {
		c.decided(DecDown)
		c.cwnd -= float64(cut * float64(n))
	} else {
		c.decided(DecUp)
		c.cwnd += float64(n) * c.mtu / c.cwnd
	}
	c.clamp()
}
