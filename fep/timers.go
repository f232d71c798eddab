package fep

import "github.com/uetlab/uetlab/internal/vt"

// Timers of a PDC. Each has at most one event that counts: a later deadline only moves the figure it looks at when it
// fires, an earlier one makes the old event stale.
type timerKind uint8

const (
	timerRTO   timerKind = iota // initiator: retransmission, NACK wait, window probe
	timerIdle                   // both: nothing to do for long
	timerAck                    // target: delayed ACK
	timerClear                  // target: stored responses are not cleared
	timerHold                   // target: end of linger
	numTimers
	timerSweep = numTimers // of the FEP: silent messages
)

// arm asks for timer k at t unless it fires before that anyway.
func (p *pdc) arm(k timerKind, t vt.Time) {
	if p.at[k] <= t {
		return
	}
	p.at[k] = t
	p.f.node.SetTimer(t, p.gen<<20|uint64(k)<<16|uint64(p.id))
}

// Timer implements engine.Core.
func (f *FEP) Timer(now vt.Time, id uint64) {
	k := timerKind(id >> 16 & 15)
	if k == timerSweep {
		if now == f.sweep {
			f.sweepMessages(now)
		}
		return
	}
	p := f.pdcs.get(uint16(id))
	if p == nil || p.gen != id>>20 || p.at[k] != now {
		return
	}
	p.at[k] = vt.Never
	switch k {
	case timerRTO:
		p.onRTO(now)
	case timerIdle:
		p.onIdle(now)
	case timerAck:
		p.onAckDelay(now)
	case timerClear:
		p.onClearTime(now)
	case timerHold:
		p.free(PDCClosed)
	}
	f.kick(now)
}
