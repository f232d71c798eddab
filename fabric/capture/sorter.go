package capture

import (
	"math"

	"github.com/uetlab/uetlab/internal/vt"
)

// SorterConfig tells a Sorter about its input.
type SorterConfig struct {
	Directions int  // number of interfaces, at least 1
	Wall       bool // no order: packets go through as they come
	Reorders   bool // an impairment lets dues decrease within a direction, so that only the watermark releases
	Limit      int  // packets held at most, beyond that the earliest goes; 0 = 65536
}

// Sorter puts the packets of all directions into the order of (due, direction, arrival). Within a direction dues never
// decrease, so a packet may go once every other direction has shown a later one, or the watermark has passed it. It reads
// no clock and is for one goroutine.
type Sorter struct {
	cfg       SorterConfig
	held      packetHeap
	seq       uint64
	frontier  []vt.Time // no packet of this direction will be due earlier
	watermark vt.Time   // nor of any
	emitted   vt.Time
	flushing  bool
	free      [][]byte
	lent      []byte // Data of the packet that Next returned last

	late, forced uint64
}

// early stands before all times.
const early = vt.Time(math.MinInt64)

// NewSorter returns an empty Sorter.
func NewSorter(cfg SorterConfig) *Sorter {
	if cfg.Limit == 0 {
		cfg.Limit = 1 << 16
	}
	s := &Sorter{cfg: cfg, frontier: make([]vt.Time, cfg.Directions), watermark: early, emitted: early}
	s.held.wall = cfg.Wall
	for i := range s.frontier {
		s.frontier[i] = early
	}
	return s
}

// Push takes a packet in; Data is copied. A packet without a time of its own gets the latest that is known not to lie
// behind: it arrives "now".
func (s *Sorter) Push(p Packet) {
	if !p.Timed {
		p.Due = max(s.watermark, s.frontier[p.Iface], s.emitted, 0)
	}
	if !s.cfg.Wall {
		if p.Due < s.emitted {
			s.late++
		}
		s.Saw(p.Iface, p.Due)
	}
	p.Data = append(s.buffer(), p.Data...)
	p.Len = max(p.Len, len(p.Data))
	s.held.push(held{p, s.seq})
	s.seq++
}

// Saw notes that a direction has come to this due, with a packet that the filter kept out of the Sorter.
func (s *Sorter) Saw(iface int, due vt.Time) { s.frontier[iface] = max(s.frontier[iface], due) }

// Watermark promises that no packet still to be pushed is due before w. To keep the promise read the fabric's smallest
// horizon first, then empty all sockets, then call this.
func (s *Sorter) Watermark(w vt.Time) { s.watermark = max(s.watermark, w) }

// Flush says that nothing more will come: Next gives all that is held.
func (s *Sorter) Flush() { s.flushing = true }

// Held is the number of packets that wait.
func (s *Sorter) Held() int { return len(s.held.list) }

// Late counts packets that came after a later one had gone out; their time stamps break the order. 0 unless the
// watermark was wrong, the kernel delivered late, or the limit forced packets out.
func (s *Sorter) Late() uint64 { return s.late }

// Forced counts packets released only because more than the limit were held.
func (s *Sorter) Forced() uint64 { return s.forced }

// Next returns the earliest packet if it may go. Its Data is valid until the next call of Next.
func (s *Sorter) Next() (Packet, bool) {
	if s.lent != nil {
		s.free = append(s.free, s.lent[:0])
		s.lent = nil
	}
	if s.Held() == 0 {
		return Packet{}, false
	}
	if !s.ready(&s.held.list[0].Packet) {
		if s.Held() <= s.cfg.Limit {
			return Packet{}, false
		}
		s.forced++
	}
	h := s.held.pop()
	s.emitted = max(s.emitted, h.Due)
	s.lent = h.Data
	return h.Packet, true
}

// ready reports whether nothing can come that belongs before p.
func (s *Sorter) ready(p *Packet) bool {
	if s.flushing || s.cfg.Wall {
		return true
	}
	for i, f := range s.frontier {
		bound := s.watermark
		if !s.cfg.Reorders {
			if i == p.Iface {
				continue
			}
			bound = max(bound, f)
		}
		if bound < p.Due || bound == p.Due && i < p.Iface {
			return false
		}
	}
	return true
}

func (s *Sorter) buffer() []byte {
	if n := len(s.free); n > 0 {
		b := s.free[n-1]
		s.free = s.free[:n-1]
		return b
	}
	return make([]byte, 0, 2048)
}

// held is a packet that waits; n counts arrivals.
type held struct {
	Packet
	n uint64
}

// packetHeap is a binary heap with the earliest packet at list[0]. It is written out because container/heap allocates for
// every element.
type packetHeap struct {
	list []held
	wall bool
}

func (h *packetHeap) less(i, j int) bool {
	a, b := &h.list[i], &h.list[j]
	switch {
	case h.wall || a.Due == b.Due && a.Iface == b.Iface:
		return a.n < b.n
	case a.Due == b.Due:
		return a.Iface < b.Iface
	}
	return a.Due < b.Due
}

func (h *packetHeap) swap(i, j int) { h.list[i], h.list[j] = h.list[j], h.list[i] }

func (h *packetHeap) push(x held) {
	h.list = append(h.list, x)
	for i := len(h.list) - 1; i > 0 && h.less(i, (i-1)/2); i = (i - 1) / 2 {
		h.swap(i, (i-1)/2)
	}
}

func (h *packetHeap) pop() held {
	top, n := h.list[0], len(h.list)-1
	h.swap(0, n)
	h.list[n] = held{} // let go of its data
	h.list = h.list[:n]
	for i := 0; ; {
		child := 2*i + 1
		if child+1 < n && h.less(child+1, child) {
			child++
		}
		if child >= n || !h.less(child, i) {
			return top
		}
		h.swap(i, child)
		i = child
	}
}
