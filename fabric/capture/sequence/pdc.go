package sequence

import (
	"fmt"
	"net/netip"
	"strconv"

	"github.com/uetlab/uetlab/wire"
)

// pdc is a packet delivery context as the packets tell of it.
type pdc struct {
	name    string
	addr    [2]netip.Addr // initiator, target
	id      [2]uint16
	known   [2]bool     // the id
	base    [2]wire.PSN // PSNs of each end count from here
	based   [2]bool
	start   bool   // base is the Start_PSN
	mode    string // "RUD", "ROD", or "" if no packet told
	guessed bool   // no SYN was captured: who is the initiator is not known
	rebase  bool   // a NACK asked for another Start_PSN
	clear   bool   // the target asked for a clear
	cleared wire.PSN
}

func (p *pdc) has(id uint16) bool { return p.known[0] && p.id[0] == id || p.known[1] && p.id[1] == id }

// side is the end at which an address uses an id.
func (p *pdc) side(a netip.Addr, id uint16) int {
	if p.addr[0] == a && (!p.known[0] || p.id[0] == id) {
		return 0
	}
	return 1
}

// rel is how far a PSN of one end lies behind the first one.
func (p *pdc) rel(side int, n wire.PSN) int64 {
	if !p.based[side] {
		p.base[side], p.based[side] = n, true
	}
	return int64(n.Diff(p.base[side]))
}

// begin sets the Start_PSN, from which both directions count.
func (p *pdc) begin(start wire.PSN) {
	p.base, p.based, p.start = [2]wire.PSN{start, start}, [2]bool{true, true}, true
	p.cleared = start.Add(-1)
}

func (p *pdc) legend(name map[netip.Addr]string) string {
	end := func(i int) string {
		if !p.known[i] {
			return name[p.addr[i]]
		}
		return fmt.Sprintf("%s pdcid %d", name[p.addr[i]], p.id[i])
	}
	s := "PDC " + p.name + ": "
	if p.mode != "" {
		s += p.mode + ", "
	}
	if p.guessed {
		return s + end(0) + " and " + end(1) + ", its beginning was not captured"
	}
	return s + end(0) + " to " + end(1) + fmt.Sprintf(", Start_PSN %d", p.base[0])
}

// half is one end of a PDC.
type half struct {
	addr netip.Addr
	id   uint16
	peer netip.Addr
}

// book keeps the PDCs of a capture, and writes labels.
type book struct {
	absolute bool
	all      []*pdc
	ends     map[half]*pdc
	firstPkt map[netip.Addr]uint32 // packet ids of RUDI count from here
}

func newBook(absolute bool) *book {
	return &book{absolute: absolute, ends: map[half]*pdc{}, firstPkt: map[netip.Addr]uint32{}}
}

// shortName is the name of the n-th PDC: a … z, aa, ab …
func shortName(n int) string {
	s := ""
	for n++; n > 0; n = (n - 1) / 26 {
		s = string(rune('a'+(n-1)%26)) + s
	}
	return s
}

// open makes a PDC between two addresses.
func (b *book) open(a, peer netip.Addr) *pdc {
	p := &pdc{name: shortName(len(b.all)), addr: [2]netip.Addr{a, peer}}
	b.all = append(b.all, p)
	return p
}

// learn sets the id of one end, unless it is known.
func (b *book) learn(p *pdc, side int, id uint16) {
	if p.known[side] {
		return
	}
	p.id[side], p.known[side] = id, true
	b.ends[half{p.addr[side], id, p.addr[1-side]}] = p
}

// syn finds the PDC of a packet with SYN, which has the id of its sender only, or opens it.
func (b *book) syn(e *event, sid uint16, start wire.PSN) *pdc {
	p := b.ends[half{e.src, sid, e.dst}]
	switch {
	case p != nil && p.rebase && p.base[0] != start:
		p.begin(start)
		p.rebase = false
	case p == nil || p.side(e.src, sid) != 0 || p.start && p.base[0] != start: // the id is used anew
		p = b.open(e.src, e.dst)
		b.ends[half{e.src, sid, e.dst}] = p
		p.id[0], p.known[0] = sid, true
		p.begin(start)
	}
	return p
}

// find finds the PDC of a packet with both ids. Id 0 of the sender stands for none: a NACK of an end that has no PDC.
func (b *book) find(e *event, sid, did uint16, nack bool) *pdc {
	fits := func(p *pdc, a netip.Addr, id, other uint16) bool {
		if p == nil {
			return false
		}
		far := 1 - p.side(a, id)
		return !p.known[far] || p.id[far] == other || nack && other == 0
	}
	if p := b.ends[half{e.dst, did, e.src}]; fits(p, e.dst, did, sid) {
		if !nack || sid != 0 {
			b.learn(p, 1-p.side(e.dst, did), sid)
		}
		return p
	}
	if p := b.ends[half{e.src, sid, e.dst}]; sid != 0 && fits(p, e.src, sid, did) {
		b.learn(p, 1-p.side(e.src, sid), did)
		return p
	}
	initiator, target := e.src, e.dst
	ids := [2]uint16{sid, did}
	if e.kind.IsAck() || nack {
		initiator, target, ids = target, initiator, [2]uint16{did, sid}
	}
	p := b.open(initiator, target)
	p.guessed = true
	for side, id := range ids {
		if !nack || id != 0 {
			p.id[side], p.known[side] = id, true
			b.ends[half{p.addr[side], id, p.addr[1-side]}] = p
		}
	}
	return p
}

// psn writes a PSN of one end of a PDC.
func (b *book) psn(p *pdc, side int, n wire.PSN) string {
	return b.number(b.num(p, side, n))
}

// num is a PSN as a number that runs are counted by.
func (b *book) num(p *pdc, side int, n wire.PSN) int64 {
	v := p.rel(side, n)
	if b.absolute {
		return int64(n)
	}
	return v
}

func signed(v int64) string {
	if v < 0 {
		return strconv.FormatInt(v, 10)
	}
	return "+" + strconv.FormatInt(v, 10)
}

// number writes a number of a run as the labels do.
func (b *book) number(v int64) string {
	if b.absolute {
		return strconv.FormatInt(v, 10)
	}
	return signed(v)
}
