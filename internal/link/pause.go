package link

import (
	"math/bits"
	"time"

	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// pause obeys a PAUSE or PFC frame.
func (p *Port) pause(now vt.Time, m *wire.Pause) {
	p.C[PauseRx]++
	for e := m.Enabled; e != 0; e &= e - 1 {
		q := bits.TrailingZeros8(e)
		if m.Quanta[q] == 0 {
			p.sched.pause(q, now, now)
			continue
		}
		if p.sched.q[q].until <= now {
			p.sched.stats[q].C[QPaused]++
		}
		until := now.Add(time.Duration((int64(m.Quanta[q])*wire.QuantumBits*1_000_000_000 + p.cfg.Rate - 1) / p.cfg.Rate))
		p.sched.pause(q, now, until)
		p.host.TxFreeAt(p.Index, until)
	}
	p.Kick(now)
}

// Paused is the set of queues, by bit, that the far end has stopped, or for whose longest frame it has no credits. A source that sends
// in such a class waits.
func (p *Port) Paused(now vt.Time) (queues uint8) {
	if p.sched.paused != 0 {
		queues = p.sched.stopped(now)
	}
	if p.crd != nil {
		queues |= p.crd.short(now)
	}
	return queues
}

// PausedFor is how long, up to now, the far end has stopped queue q in all of this run.
func (p *Port) PausedFor(now vt.Time, q int) time.Duration {
	x := &p.sched.q[q]
	return x.pauses + min(x.until, now).Sub(x.since)
}

// IgnorePause says which queues, by bit, are served from now on even while the far end stops them.
func (p *Port) IgnorePause(now vt.Time, queues uint8) {
	p.sched.ignore = queues
	p.Kick(now)
}
