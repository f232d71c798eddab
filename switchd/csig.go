package switchd

import (
	"fmt"
	"time"

	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// Quantisation of signals (uet-link-switch.md section 10). Bandwidth and delay are compared between hops of different rates, so
// that their steps must be the same in the whole fabric.
const (
	compactABW   = 25e9    // bits per second in a band: 32 bands of an 800 Gb/s link
	wideABW      = 1 << 20 // bits per second in a step
	compactDelay = 512     // ns in a band; a step of the wide form is 1 ns
	shareBits    = 20      // ABW/C and nQD are fractions with so many bits, of which the compact form has the upper 5
)

const defaultInterval = 128 * time.Microsecond

// csigState is what a switch measures for the signals.
type csigState struct {
	set   CSIG
	limit [link.NumQueues]int64 // what nQD is relative to; 0: what the port holds
	meter [link.NumPorts]meter
}

// meter counts what leaves by a port in windows of virtual time that follow each other without gap.
type meter struct {
	end   vt.Time // of the window that is being counted
	bytes int64   // in it, on the line
	last  int64   // in the one before
}

// setCSIG applies settings from now on.
func (s *Switch) setCSIG(set *Settings) error {
	c := set.CSIG
	if c.Compact == 0 {
		c.Compact = uint16(wire.EtherCSIG)
	}
	if c.Wide == 0 {
		c.Wide = uint16(wire.EtherCSIGWide)
	}
	if c.Interval == 0 {
		c.Interval = defaultInterval
	}
	if c.Interval < 0 {
		return fmt.Errorf("csig interval %v: must be positive", c.Interval)
	}
	if c.Compact == c.Wide {
		return fmt.Errorf("csig: compact and wide tags have the same TPID 0x%04x", c.Wide)
	}
	if c.Interval != s.csig.set.Interval {
		s.resetCSIG()
	}
	s.csig.set = c
	for q := range set.Queues {
		s.csig.limit[q] = set.Queues[q].Limit
	}
	return nil
}

// resetCSIG forgets what was measured.
func (s *Switch) resetCSIG() { clear(s.csig.meter[:]) }

// count adds n bytes that leave at now; windows are multiples of the interval from time 0 on, which is the start of the run.
func (m *meter) count(now vt.Time, interval time.Duration, n int64) {
	if now >= m.end {
		m.last = 0
		if m.end > 0 && now < m.end.Add(interval) {
			m.last = m.bytes
		}
		m.bytes = 0
		m.end = (now/vt.Time(interval) + 1) * vt.Time(interval)
	}
	m.bytes += n
}

// csigLen is the length of the tag that a frame begins with, 0 if it has none.
func csigLen(b []byte, set *CSIG) int {
	if !set.Enabled {
		return 0
	}
	return len(csigTag(b, set))
}

func csigTag(b []byte, set *CSIG) wire.CSIG {
	compact, wide := set.Compact, set.Wide
	if compact == 0 {
		compact = uint16(wire.EtherCSIG)
	}
	if wide == 0 {
		wide = uint16(wire.EtherCSIGWide)
	}
	return wire.CSIGTag(b, wire.EtherType(compact), wire.EtherType(wide))
}

// csigTrimmed tells the hops to come, in the tag if a frame has one, that it was trimmed here: none of them writes the signal
// any more. This one still may.
func csigTrimmed(b []byte, set *CSIG) {
	if c := csigTag(b, set); set.Enabled && c != nil {
		c.SetTrimmed()
	}
}

// csigDeparts counts a frame that leaves by a port now, and brings its tag, if it has one, up to date: the signal of this hop
// replaces a better one, unless a hop before trimmed it. Towards a port that does not speak CSIG the tag is taken off; copies
// for a mirror are shown as they are.
//
// A hop is known by its locator: of the compact form the number of the egress port, of the wide form the low nine bits of
// the node's number and six of the port's.
func (s *Switch) csigDeparts(now vt.Time, port int, f *link.Frame) {
	x := &s.csig
	if !x.set.Enabled {
		return
	}
	c := csigTag(f.B, &x.set)
	if c != nil && x.set.Strip[port] {
		f.B = wire.RemoveCSIG(f.B, c)
		c = nil
	}
	x.meter[port].count(now-s.node.Epoch(), x.set.Interval, int64(wire.LineBytes(len(f.B))))
	if c == nil || c.Trimmed() && f.Group == 0 || s.mirrors.on && port == s.mirrors.set.To {
		return
	}
	v, ok := s.signal(now, port, f, c)
	if old := c.Signal(); !ok || c.Type().IsMin() && v >= old || !c.Type().IsMin() && v <= old {
		return
	}
	c.SetSignal(v)
	lm := uint16(port) & 0x3F
	if c.Wide() {
		lm |= uint16(s.node.ID) << 6
	}
	c.SetLocator(lm)
}

// signal is this hop's, in the steps of the tag's form; false if its type is not known.
func (s *Switch) signal(now vt.Time, port int, f *link.Frame, c wire.CSIG) (uint32, bool) {
	p := s.node.Ports[port]
	switch c.Type() {
	case wire.CSIGABW:
		step := int64(compactABW)
		if c.Wide() {
			step = wideABW
		}
		return clamp(s.available(port)/step, c), true
	case wire.CSIGABWShare:
		return fraction(s.available(port), p.Rate(), c), true
	case wire.CSIGDelay:
		d := int64(now.Sub(f.Queued))
		if !c.Wide() {
			d /= compactDelay
		}
		return clamp(d, c), true
	case wire.CSIGQueue: // what waits behind the frame, and the frame
		limit := s.csig.limit[f.Queue]
		if limit == 0 {
			limit = p.Config().Queue
		}
		return fraction(p.QueueBytes(int(f.Queue))+int64(len(f.B)), limit, c), true
	}
	return 0, false
}

// available is the bandwidth that the port had left in the window before this, in bits per second.
func (s *Switch) available(port int) int64 {
	used := float64(s.csig.meter[port].last) * 8 / s.csig.set.Interval.Seconds()
	return max(s.node.Ports[port].Rate()-int64(used), 0)
}

// clamp keeps a signal within the form.
func clamp(v int64, c wire.CSIG) uint32 { return uint32(min(max(v, 0), int64(c.MaxSignal()))) }

// fraction is a/b in the steps of the form.
func fraction(a, b int64, c wire.CSIG) uint32 {
	v := int64(float64(a) / float64(max(b, 1)) * (1 << shareBits))
	if !c.Wide() {
		v >>= shareBits - 5
	}
	return clamp(v, c)
}
