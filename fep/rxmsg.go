package fep

import (
	"github.com/uetlab/uetlab/fep/pds"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// rxMsg is a message at its target, from its first packet to its last (uet-pds-ses.md 13.3). It has the receive or the region that it
// goes to, and asks them for memory anew with each packet: that may have been taken back.
type rxMsg struct {
	mid          uint16
	op           wire.Opcode
	som          bool // seen
	hd           bool // with completion data
	rc           wire.ReturnCode
	ri           uint16
	initiator    uint32
	length       uint32
	eager        uint32 // how much of it its packets carry
	got          uint32 // payload bytes accounted for
	offset       uint64
	match        uint64
	data         uint64
	ep           *Endpoint
	recv         *recvOp     // sends
	land         *landing    // sends that came before their receive, and rendezvous
	driven       *drivenRecv // writes into the buffer of a receive (AI Base)
	deferred     bool        // its packets are answered, and dropped
	told         bool        // deferred: its sender has the guaranteed answer
	region       *region     // one-sided operations
	at           int         // where in that memory the message begins
	room         int         // how many bytes of it have a place
	began        vt.Time
	last         vt.Time
	set          *rxSet
	chain        *rxMsg // in set
	links[rxMsg]        // in the list of all, or in the pool
}

// memory is where the message goes; false if that was taken back.
func (m *rxMsg) memory() (b *Buffer, ok bool) {
	if m.region != nil {
		r, ok := m.region.Memory()
		if !ok {
			return nil, false
		}
		return &r.Buffer, true
	}
	if m.recv != nil {
		return &m.recv.buf, true
	}
	if m.land != nil {
		return &m.land.store, true
	}
	return nil, false
}

// rxSet are the messages that have begun on one PDC, by message ID.
type rxSet struct {
	n       int
	buckets []*rxMsg // a power of two
}

func (s *rxSet) find(mid uint16) *rxMsg {
	if s == nil || s.n == 0 {
		return nil
	}
	m := s.buckets[int(mid)&(len(s.buckets)-1)]
	for m != nil && m.mid != mid {
		m = m.chain
	}
	return m
}

func (s *rxSet) add(m *rxMsg) {
	if s.n >= len(s.buckets) {
		s.grow()
	}
	b := &s.buckets[int(m.mid)&(len(s.buckets)-1)]
	m.chain, *b = *b, m
	m.set = s
	s.n++
}

func (s *rxSet) grow() {
	old := s.buckets
	s.buckets = make([]*rxMsg, max(1, 2*len(old)))
	for _, m := range old {
		for m != nil {
			next := m.chain
			b := &s.buckets[int(m.mid)&(len(s.buckets)-1)]
			m.chain, *b = *b, m
			m = next
		}
	}
}

func (s *rxSet) remove(m *rxMsg) {
	p := &s.buckets[int(m.mid)&(len(s.buckets)-1)]
	for *p != m {
		p = &(*p).chain
	}
	*p, m.chain, m.set = m.chain, nil, nil
	s.n--
}

// rxSetOf is the messages of a PDC, nil if there are none.
func rxSetOf(p *pds.PDC) *rxSet {
	set, _ := p.User.(*rxSet)
	return set
}

// rxList is all messages that have begun, in the order in which they did, and a pool of contexts.
type rxList struct {
	chain[rxMsg, *rxMsg]
	n    int
	free *rxMsg
}

// add takes a context and puts it last.
func (l *rxList) add() *rxMsg {
	m := l.free
	if m == nil {
		m = &rxMsg{}
	} else {
		l.free = m.next
		*m = rxMsg{}
	}
	l.chain.add(m)
	l.n++
	return m
}

// remove takes a context out and back into the pool.
func (l *rxList) remove(m *rxMsg) {
	l.chain.remove(m)
	l.n--
	*m = rxMsg{}
	m.next, l.free = l.free, m
}

// forget drops the context of a message.
func (f *FEP) forget(m *rxMsg) {
	if m.land != nil {
		m.land.in = nil
	}
	if m.set != nil {
		m.set.remove(m)
	}
	f.rx.remove(m)
}
