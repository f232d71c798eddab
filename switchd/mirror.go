package switchd

import (
	"fmt"

	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/vt"
)

// mirrorState counts towards the next sample.
type mirrorState struct {
	set  Mirror
	on   bool
	seen int // forwarded since the latest sample
}

// setMirror applies settings from now on.
func (s *Switch) setMirror(set *Settings) error {
	m, ports := set.Mirror, len(s.node.Ports)
	if m.To >= ports || m.To >= 0 && m.From >= ports {
		return fmt.Errorf("mirror from port %d to %d: the switch has %d ports", m.From, m.To, ports)
	}
	if m.Sample < 0 {
		return fmt.Errorf("mirror sample %d: use 1 for all frames, n for one of n, 0 for none", m.Sample)
	}
	if s.mirrors.set != m {
		s.mirrors.seen = 0
	}
	s.mirrors.set, s.mirrors.on = m, m.To >= 0 && m.Sample > 0
	return nil
}

// resetMirror begins to count anew.
func (s *Switch) resetMirror() { s.mirrors.seen = 0 }

// mirror copies one of Sample frames that go out by a port, as they are when they are queued, to the mirror port's best effort
// queue. What leaves by the mirror port itself is not mirrored.
func (s *Switch) mirror(now vt.Time, out int, f *link.Frame) {
	x := &s.mirrors
	if !x.on || out == x.set.To || x.set.From >= 0 && x.set.From != out {
		return
	}
	if x.seen++; x.seen < x.set.Sample {
		return
	}
	x.seen = 0
	to := s.node.Ports[x.set.To]
	to.C[link.Mirrored]++
	g := f.Copy()
	if _, l3 := s.network(g.B); len(g.B)-l3 > to.Config().MTU {
		to.Drop(link.DropPacket, g)
		return
	}
	s.offer(now, to, 0, g)
}
