package sequence

import (
	"fmt"
	"net/netip"
	"strings"
)

// placed is a row whose ends have no lane yet.
type placed struct {
	row
	src, dst netip.Addr
}

// flow is one kind of packets of a PDC in one direction.
type flow struct {
	src, dst netip.Addr
	pdc      *pdc
	tone     tone
}

// span is a part of a run that no other packet interrupts.
type span struct {
	first    *event
	last     int64 // arrival of the last packet
	n, ce    int
	min, max int64
}

// fold makes rows of packets. A packet that is like the one before it of its flow needs no arrow of its own: those between
// two packets that need one are put together, a row for each flow. A row of one packet shows it.
func fold(events []event, all bool, number func(int64) string) []placed {
	var rows []placed
	class := map[flow]string{}
	open := map[flow]*span{}
	var order []*span
	flush := func() {
		for _, s := range order {
			rows = append(rows, s.row(number))
		}
		order = order[:0]
		clear(open)
	}
	for i := range events {
		e := &events[i]
		f := flow{e.src, e.dst, e.pdc, e.tone}
		if all || e.ses.edge || e.class == "" || class[f] != e.class {
			flush()
			class[f] = e.class
			rows = append(rows, e.row())
			continue
		}
		s := open[f]
		if s == nil {
			s = &span{first: e, min: e.num, max: e.num}
			open[f] = s
			order = append(order, s)
		}
		s.add(e)
	}
	flush()
	return rows
}

func (s *span) add(e *event) {
	s.n++
	s.last = max(s.last, e.last)
	s.min, s.max = min(s.min, e.num), max(s.max, e.num)
	if e.ce {
		s.ce++
	}
}

func (s *span) row(number func(int64) string) placed {
	r := s.first.row()
	if s.n == 1 {
		return r
	}
	e := s.first
	r.folded, r.until, r.copies = true, s.last, 1
	r.label = fmt.Sprintf("… %d more %s", s.n, e.noun)
	last := e.noun[strings.LastIndexByte(e.noun, ' ')+1:]
	one := last == "psn" || last == "cack" || last == "pkt" // the noun says what is counted
	switch {
	case s.min != s.max && !one && s.max-s.min+1 != int64(s.n):
		r.label += " in " + number(s.min) + ".." + number(s.max)
	case s.min != s.max:
		r.label += " " + number(s.min) + ".." + number(s.max)
	case one:
		r.label += " " + number(s.min)
	}
	r.label += e.flags
	if s.ce > 0 {
		r.label += fmt.Sprintf("  %d CE", s.ce)
	}
	return r
}

// row is the arrow of one packet.
func (e *event) row() placed {
	r := placed{src: e.src, dst: e.dst, row: row{at: e.at, until: e.last, copies: e.copies, label: e.label, tone: e.tone,
		hurt: e.trimmed || e.fault != ""}}
	if e.pdc != nil {
		r.pdc = e.pdc.name
	}
	return r
}
