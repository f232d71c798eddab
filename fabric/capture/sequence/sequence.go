// Package sequence draws sequence diagrams of captured UET packets: a lane for every fabric address, an arrow for every
// packet, labels in the standard's terms.
//
// A Maker takes packets as they come out of captures, taken apart by package wire. A packet that was captured on several
// links of its path becomes one arrow (see sight.go for how copies are told from repeats), PSNs count from the Start_PSN
// of their PDC, and runs of packets that differ in nothing but their numbers become one line. The Diagram is printed as
// text, as a Mermaid sequenceDiagram or as SVG; the same packets and options give the same bytes.
//
// The package does not read files, does not judge what the packets do, and looks into nothing that is encrypted. What
// it is given is not trusted: packets that are wrong are drawn as far as they are right.
package sequence

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/uetlab/uetlab/wire"
)

// ErrNone says that no packet is left to draw: the capture has no UET packet, or the options leave none.
var ErrNone = errors.New("no UET packet to draw")

// Options say what is drawn. The zero value draws everything, with runs collapsed.
type Options struct {
	Names    map[netip.Addr]string // of lanes; others are named by the capture, or by their address
	All      bool                  // an arrow for every packet: runs are not collapsed
	Absolute bool                  // PSNs and packet ids as they are on the wire
	PDC      string                // only this PDC: its short name, or a PDCID of one of its ends; "": all
	Between  [2]string             // only packets between two lanes: names or addresses; "": all
}

// A Capture is what a capture file says about a packet.
type Capture struct {
	Timed   bool
	Time    int64  // ns, when its last bit arrived at the far end of the link; only if Timed
	Iface   string // "host0:eth1 > leaf0:eth1", as package capture names directions, or anything else
	Comment string // what is wrong with the frame, or ""
}

// Maker collects packets. It is for one goroutine.
type Maker struct {
	opt    Options
	seen   []sighting
	names  map[netip.Addr]string // as the interfaces of the capture tell
	others int                   // packets that are not UET over IP
	total  int
}

// New returns an empty Maker.
func New(opt Options) *Maker { return &Maker{opt: opt, names: map[netip.Addr]string{}} }

// Add takes one packet. Nothing of p is kept.
func (m *Maker) Add(p *wire.Packet, c Capture) {
	m.total++
	s, ok := newSighting(p, c)
	if !ok {
		m.others++
		return
	}
	if node := sender(c.Iface); node != "" && fresh(s.ttl) && m.names[s.src] == "" {
		m.names[s.src] = node
	}
	m.seen = append(m.seen, s)
}

// fresh says that a TTL or hop limit is one that packets begin with: no router has had the packet yet.
func fresh(ttl uint8) bool { return ttl == 64 || ttl == 128 || ttl == 255 }

// sender is the node that sends into an interface of a capture, "" where its name does not tell.
func sender(iface string) string {
	from, _, ok := strings.Cut(iface, " > ")
	node, _, port := strings.Cut(from, ":")
	if !ok || !port {
		return ""
	}
	return clean(node)
}

// clean makes a name from a capture or a command line fit for one line of any format.
func clean(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7F || r == 0xFFFD {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	const most = 24
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}

// Diagram is what there is to draw. Its methods Text, Mermaid and SVG print it.
type Diagram struct {
	lanes []string
	rows  []row
	notes []string // the legend: PDCs, and what was left out
	timed bool
	ways  bool // some packet was captured more than once
}

// Rows is how many lines and arrows the diagram has.
func (d *Diagram) Rows() int { return len(d.rows) }

// row is an arrow.
type row struct {
	from, to int    // lanes
	at       int64  // ns since the first packet
	until    int64  // ns: arrival at the last link, or of the last packet of a run
	copies   int    // captures of the packet
	pdc      string // short name, or ""
	label    string
	tone     tone
	folded   bool // it is a run of packets
	hurt     bool // it did not arrive as it was sent
}

// tone is how an arrow is drawn.
type tone uint8

const (
	toneData tone = iota
	toneAck
	toneBad   // NACKs, packets that are trimmed, damaged or wrong, and what is sent again
	toneCtrl  // control packets
	toneCount // how many there are
)

// Diagram makes the diagram of the packets so far. The error wraps ErrNone, or says which option does not fit.
func (m *Maker) Diagram() (*Diagram, error) {
	if len(m.seen) == 0 {
		return nil, fmt.Errorf("%w: %d packets, none of UET over IP", ErrNone, m.total)
	}
	events, timed := merge(m.seen)
	book := newBook(m.opt.Absolute)
	for i := range events {
		book.enter(&events[i])
	}
	d := &Diagram{timed: timed}
	name := m.laneNames(events)
	kept, err := m.filter(events, name)
	if err != nil {
		return nil, err
	}
	lane := d.setLanes(kept, name)
	start := kept[0].at
	for _, r := range fold(kept, m.opt.All, book.number) {
		r.from, r.to = lane[r.src], lane[r.dst]
		r.at, r.until = r.at-start, r.until-start
		d.ways = d.ways || r.copies > 1
		d.rows = append(d.rows, r.row)
	}
	d.legend(m, book, kept, name, start)
	return d, nil
}

// laneNames gives every address its name: as the options say, as the capture does, or the address. Names that two
// addresses would share get the address behind them.
func (m *Maker) laneNames(events []event) map[netip.Addr]string {
	name, used := map[netip.Addr]string{}, map[string]int{}
	for i := range events {
		for _, a := range [2]netip.Addr{events[i].src, events[i].dst} {
			if name[a] != "" {
				continue
			}
			name[a] = cmp.Or(clean(m.opt.Names[a]), m.names[a], a.String())
			used[name[a]]++
		}
	}
	for a, n := range name {
		if used[n] > 1 {
			name[a] = n + " " + a.String()
		}
	}
	return name
}

// filter leaves what the options ask for.
func (m *Maker) filter(events []event, name map[netip.Addr]string) ([]event, error) {
	var ends [2]netip.Addr
	for i, want := range m.opt.Between {
		if want == "" {
			continue
		}
		for a, n := range name {
			if (n == want || a.String() == want) && (!ends[i].IsValid() || a.Less(ends[i])) {
				ends[i] = a
			}
		}
		if !ends[i].IsValid() {
			return nil, fmt.Errorf("lane (%s): no such lane; there are %s", clean(want), strings.Join(sorted(name), ", "))
		}
	}
	id, isNumber := strconv.ParseUint(m.opt.PDC, 10, 16)
	var kept []event
	for _, e := range events {
		fits := m.opt.PDC == "" || e.pdc != nil && (e.pdc.name == m.opt.PDC || isNumber == nil && e.pdc.has(uint16(id)))
		if ends[0].IsValid() {
			fits = fits && (e.src == ends[0] && e.dst == ends[1] || e.src == ends[1] && e.dst == ends[0])
		}
		if fits {
			kept = append(kept, e)
		}
	}
	if len(kept) == 0 {
		return nil, fmt.Errorf("%w: the filters leave none of %d", ErrNone, len(events))
	}
	return kept, nil
}

// sorted lists names.
func sorted(name map[netip.Addr]string) []string {
	var out []string
	for _, n := range name {
		out = append(out, n)
	}
	slices.Sort(out)
	return out
}

// setLanes gives the addresses their lanes, in the order of addresses.
func (d *Diagram) setLanes(events []event, name map[netip.Addr]string) map[netip.Addr]int {
	lane := map[netip.Addr]int{}
	for i := range events {
		lane[events[i].src], lane[events[i].dst] = 0, 0
	}
	var addrs []netip.Addr
	for a := range lane {
		addrs = append(addrs, a)
	}
	slices.SortFunc(addrs, netip.Addr.Compare)
	for i, a := range addrs {
		lane[a] = i
		d.lanes = append(d.lanes, name[a])
	}
	return lane
}

// legend says what the short names stand for and what is not drawn.
func (d *Diagram) legend(m *Maker, b *book, kept []event, name map[netip.Addr]string, start int64) {
	used := map[*pdc]bool{}
	for i := range kept {
		used[kept[i].pdc] = true
	}
	for _, p := range b.all {
		if used[p] {
			d.notes = append(d.notes, p.legend(name))
		}
	}
	if slices.ContainsFunc(d.rows, func(r row) bool { return r.hurt }) {
		d.notes = append(d.notes, "x: not whole when it was captured last")
	}
	if m.others > 0 {
		d.notes = append(d.notes, fmt.Sprintf("%d of %d packets are not UET over IP and not drawn", m.others, m.total))
	}
	if d.timed {
		d.notes = append(d.notes, "time 0 is "+seconds(start)+" s of the capture")
	}
}

// seconds writes ns as seconds with nine decimals.
func seconds(ns int64) string {
	sign, v := "", uint64(ns)
	if ns < 0 {
		sign, v = "-", -v
	}
	return fmt.Sprintf("%s%d.%09d", sign, v/1e9, v%1e9)
}

// micros writes ns as microseconds with three decimals.
func micros(ns int64) string {
	sign, v := "", uint64(ns)
	if ns < 0 {
		sign, v = "-", -v
	}
	return fmt.Sprintf("%s%d.%03d", sign, v/1000, v%1000)
}
