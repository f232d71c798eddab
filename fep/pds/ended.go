package pds

import (
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// End is how a PDC ended.
type End uint8

// Ends of a PDC.
const (
	NotEnded End = iota
	EndClosed
	EndFailed  // in error, with operations under way
	EndExpired // forgotten because the peer was silent
)

var endNames = [...]string{"", "closed", "failed", "expired"}

// String is the end's name in tables, empty for NotEnded.
func (e End) String() string { return endNames[e] }

// keptEnded is how many PDCs that have ended are remembered.
const keptEnded = 16

// endedPDCs remembers the latest PDCs that have ended, for listings only: nothing is decided by it.
type endedPDCs struct {
	ring []Info
	next int // the oldest, once the ring is full
}

// add remembers a PDC that is about to end.
func (r *endedPDCs) add(i Info) {
	if r.ring == nil {
		r.ring = make([]Info, 0, keptEnded)
	}
	if len(r.ring) < keptEnded {
		r.ring = append(r.ring, i)
		return
	}
	r.ring[r.next] = i
	r.next = (r.next + 1) % keptEnded
}

// find gives what is remembered of a PDC, or nil.
func (r *endedPDCs) find(gen uint64) *Info {
	for i := range r.ring {
		if r.ring[i].gen == gen {
			return &r.ring[i]
		}
	}
	return nil
}

// remember keeps what the PDC is as it ends.
func (p *PDC) remember(now vt.Time, why Counter, err *Error) {
	i := p.info(now)
	i.State, i.Ended = Closed, now
	switch why {
	case PDCClosed:
		i.End = EndClosed
	case PDCFailed:
		i.End = EndFailed
	default:
		i.End = EndExpired
	}
	if err != nil {
		i.Code = err.Code
	}
	p.m.ended.add(i)
}

// Ended appends to buf the latest PDCs that have ended and are no more, as they were then, the oldest first. They are remembered
// over Reset.
func (m *Manager) Ended(buf []Info) []Info {
	for k := range m.ended.ring {
		i := &m.ended.ring[(m.ended.next+k)%len(m.ended.ring)]
		if p := m.pdcs.get(i.ID); p == nil || p.gen != i.gen {
			buf = append(buf, *i)
		}
	}
	return buf
}

// Nacks calls each for every code of which NACKs were sent or accepted, in the order of the codes.
func (m *Manager) Nacks(each func(code wire.NackCode, tx, rx uint64)) {
	for c := range m.nacksTx {
		if m.nacksTx[c]+m.nacksRx[c] > 0 {
			each(wire.NackCode(c), m.nacksTx[c], m.nacksRx[c])
		}
	}
}
