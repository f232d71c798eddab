package switchd

import (
	"time"

	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/vt"
)

// watchdog looks after one lossless queue of an egress port: if the far end keeps it from sending for a whole interval,
// what waits there would spread back through the fabric.
type watchdog struct {
	armed  bool          // a timer is under way
	active bool          // it has fired and not restored
	from   vt.Time       // the interval began here
	sent   uint64        // frames that the queue had sent then
	paused time.Duration // and how long it had been paused
}

// blocks says whether frames for the queue are dropped.
func (d *watchdog) blocks(set *PFC) bool { return d.active && set.Action == ActionDrop }

// guard watches a lossless queue from now on, if something waits in it and it is not watched yet: an idle switch has no
// timers.
func (s *Switch) guard(now vt.Time, p *link.Port, q int) {
	d := &s.dogs[p.Index][q]
	if d.armed || s.set.PFC.Watchdog == 0 || p.QueueBytes(q) == 0 {
		return
	}
	d.begin(now, p, q)
	s.wake(now.Add(s.set.PFC.Watchdog), p, q)
}

func (d *watchdog) begin(now vt.Time, p *link.Port, q int) {
	d.from, d.sent, d.paused = now, p.Stats(q).C[link.QTxFrames], p.PausedFor(now, q)
}

func (s *Switch) wake(at vt.Time, p *link.Port, q int) {
	s.dogs[p.Index][q].armed = true
	s.node.SetTimer(at, timerID(timerDog, p.Index, q))
}

// watch is the watchdog's timer.
func (s *Switch) watch(now vt.Time, port, q int) {
	p, d, set := s.node.Ports[port], &s.dogs[port][q], &s.set.PFC
	d.armed = false
	if !s.set.Queues[q].Lossless || set.Watchdog == 0 {
		return
	}
	interval := set.Watchdog
	if d.active {
		interval = set.Restore
	}
	if end := d.from.Add(interval); end > now { // the interval has begun anew since the timer was set
		s.wake(end, p, q)
		return
	}
	paused, length := p.PausedFor(now, q)-d.paused, now.Sub(d.from)
	switch {
	case d.active && paused > 0: // the storm goes on
	case d.active:
		s.restore(now, p, q)
	case p.QueueBytes(q) > 0 && p.Stats(q).C[link.QTxFrames] == d.sent && paused > length-length/100:
		s.fire(now, p, q)
	}
	if d.active {
		d.begin(now, p, q)
		s.wake(now.Add(set.Restore), p, q)
		return
	}
	s.guard(now, p, q)
}

// fire does with a stuck queue what the settings say.
func (s *Switch) fire(now vt.Time, p *link.Port, q int) {
	s.dogs[p.Index][q].active = true
	p.Stats(q).C[link.QWatchdog]++
	switch s.set.PFC.Action {
	case ActionDrop:
		before := p.C[link.DropWatchdog]
		p.Flush(now, 1<<q, link.DropWatchdog)
		p.Stats(q).C[link.QWatchdogDrop] += p.C[link.DropWatchdog] - before
	case ActionForward:
		p.IgnorePause(now, s.ignored(p.Index))
	}
}

// restore lets a queue work as before.
func (s *Switch) restore(now vt.Time, p *link.Port, q int) {
	d := &s.dogs[p.Index][q]
	d.active = false
	d.begin(now, p, q)
	p.IgnorePause(now, s.ignored(p.Index))
}

// ignored is the set of queues of a port, by bit, that send in spite of a pause.
func (s *Switch) ignored(port int) (mask uint8) {
	for q := range s.dogs[port] {
		if s.dogs[port][q].active && s.set.PFC.Action == ActionForward {
			mask |= 1 << q
		}
	}
	return mask
}
