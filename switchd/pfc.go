package switchd

import (
	"time"

	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// ingress is what one priority of an ingress port has in the switch.
type ingress struct {
	bytes  int64
	peak   int64
	pauses uint64  // times that the sender was stopped
	lost   uint64  // frames beyond the headroom
	paused bool    // it is stopped
	armed  bool    // a timer is under way
	again  vt.Time // when the pause is to be repeated
}

// pause stops the sender of a priority at an ingress port, until resume: the frame is repeated before half of its time has
// passed, so that one that is lost does no harm.
func (s *Switch) pause(now vt.Time, port, q int) {
	x := &s.buf.in[port][q]
	x.paused = true
	x.pauses++
	s.sendPause(now, port, q)
}

func (s *Switch) sendPause(now vt.Time, port, q int) {
	x := &s.buf.in[port][q]
	x.again = now.Add(max(s.pauseTime(port)/2-1, s.pauseRest(port)))
	if !x.armed {
		x.armed = true
		s.node.SetTimer(x.again, timerID(timerPause, port, q))
	}
	s.sendPFC(now, port, q, s.set.PFC.Quanta)
}

// pauseTime is how long a PFC frame stops the far end of a port: quanta count in bit times of the nominal rate.
func (s *Switch) pauseTime(port int) time.Duration {
	bits := int64(s.set.PFC.Quanta) * wire.QuantumBits
	return time.Duration(bits * 1_000_000_000 / s.node.Ports[port].Config().Rate)
}

// pauseRest is the least time between the PFC frames of a pause, whatever their quanta: with all priorities paused half of
// the line is left for others, and frames never pile up before a line that is slow.
func (s *Switch) pauseRest(port int) time.Duration {
	return time.Duration(2 * link.NumQueues * link.LinePs(pfcFrame, s.node.Ports[port].Rate()) / 1000)
}

const pfcFrame = 60 // bytes

// repeatPause is the timer of a pause that lasts, or of one that is over.
func (s *Switch) repeatPause(now vt.Time, port, q int) {
	x := &s.buf.in[port][q]
	x.armed = false
	switch {
	case !x.paused:
	case now < x.again: // resumed and paused again since
		x.armed = true
		s.node.SetTimer(x.again, timerID(timerPause, port, q))
	default:
		s.sendPause(now, port, q)
	}
}

func (s *Switch) resume(now vt.Time, port, q int) {
	s.buf.in[port][q].paused = false
	s.sendPFC(now, port, q, 0)
}

func (s *Switch) sendPFC(now vt.Time, port, q int, quanta uint16) {
	if !s.node.Ports[port].Up() {
		return // nobody to stop; a pause is repeated
	}
	f := s.node.Pool.Get()
	m := wire.Pause{Enabled: 1 << q}
	m.Quanta[q] = quanta
	f.B = wire.AppendPFC(f.B, s.cfg.Ports[port].MAC, &m)
	s.node.Ports[port].EnqueuePause(now, f)
}

// reconsider brings pauses and watchdogs in line with settings that have changed.
func (s *Switch) reconsider(now vt.Time) {
	for i, p := range s.node.Ports {
		for q := range link.NumQueues {
			lossless := s.set.Queues[q].Lossless
			switch x := &s.buf.in[i][q]; {
			case x.paused && (!lossless || x.bytes <= s.set.PFC.Xon):
				s.resume(now, i, q)
			case !x.paused && lossless && x.bytes > s.set.PFC.Xoff:
				s.pause(now, i, q)
			}
			if d := &s.dogs[i][q]; d.active {
				s.restore(now, p, q)
			}
			if lossless {
				s.guard(now, p, q)
			}
		}
	}
}
