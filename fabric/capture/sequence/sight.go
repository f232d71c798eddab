package sequence

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/uetlab/uetlab/wire"
)

// A packet that crosses several captured links is captured on each. Two captures show the same packet if
//
//   - addresses, IPv4 identification and entropy value are the same, and the whole PDS header: type, flags, PDCIDs, PSN or
//     packet id and, of an ACK, its congestion control state. A UUD packet has nothing of that: its bytes count;
//   - the later one has the lower TTL: every switch takes one off. A packet that was sent again with the same bytes begins
//     with a full TTL and so is another one.
//
// A later capture belongs to the latest earlier one that fits. Headers that switches change (Ethernet addresses, tags,
// ECN, the DSCP and length of a trimmed packet) do not count. The arrow has the time of the first capture; that of the
// last, where there is one, is when the packet arrived.

// sighting is a packet on one link.
type sighting struct {
	src, dst netip.Addr
	at       int64
	timed    bool
	ttl      uint8
	key      string // what is the same on every link
	body
}

// body is what labels are made of.
type body struct {
	kind    wire.PDSType
	head    []byte // PDS header, nil where it is not to be had
	ses     ses
	trimmed bool
	ce      bool // congestion was marked on the way
	fault   string
}

// newSighting takes what is needed of a packet. It says no to what is not UET over IP.
func newSighting(p *wire.Packet, c Capture) (s sighting, ok bool) {
	switch {
	case !p.UET:
		return s, false
	case p.IPv4 != nil:
		s.src, s.dst, s.ttl, s.ce = p.IPv4.Src(), p.IPv4.Dst(), p.IPv4.TTL(), p.IPv4.ECN() == wire.ECNCE
	case p.IPv6 != nil:
		s.src, s.dst, s.ttl, s.ce = p.IPv6.Src(), p.IPv6.Dst(), p.IPv6.TTL(), p.IPv6.ECN() == wire.ECNCE
	default:
		return s, false
	}
	s.at, s.timed = c.Time, c.Timed
	s.kind, s.trimmed, s.fault = p.PDS, p.Trimmed, clean(c.Comment)
	s.head = slices.Clone(pdsHeader(p))
	s.ses = newSES(&p.SES)
	if len(p.Errs) > 0 && s.fault == "" {
		s.fault = faultOf(p.Errs[0])
	}
	s.key = key(p, &s)
	return s, true
}

// pdsHeader is the PDS header, nil where there is none that can be read.
func pdsHeader(p *wire.Packet) []byte {
	for _, h := range [][]byte{p.Request, p.Ack, p.Nack, p.Ctrl, p.RUDI, p.UUD} {
		if h != nil {
			return h
		}
	}
	return nil
}

// key is what is the same of a packet on every link.
func key(p *wire.Packet, s *sighting) string {
	src, dst := s.src.As16(), s.dst.As16()
	k := append(src[:], dst[:]...)
	k = binary.BigEndian.AppendUint16(k, p.EV)
	if p.IPv4 != nil {
		k = binary.BigEndian.AppendUint16(k, p.IPv4.ID())
	}
	if s.head != nil && p.UUD == nil {
		return string(append(k, s.head...))
	}
	k = append(append(k, p.TSS...), p.Sealed...)
	k = append(append(append(k, s.head...), p.SES.Header...), p.SES.Payload...)
	return string(append(k, byte(p.PDS)))
}

// event is a packet.
type event struct {
	src, dst netip.Addr
	at, last int64 // ns: captured first and last
	copies   int
	body
	ttl   uint8 // at its last capture
	pdc   *pdc
	label string
	class string // packets of a class may be one run; "" is in none
	noun  string // what a run of them is called: "data packets"
	num   int64  // its number in a run: PSN, CACK or packet id
	flags string // what is wrong with it
	tone  tone
}

// merge puts captures into the order of time, and those of one packet together. Without times it keeps their order.
func merge(seen []sighting) (events []event, timed bool) {
	seen = slices.Clone(seen)
	timed = !slices.ContainsFunc(seen, func(s sighting) bool { return !s.timed })
	if timed {
		slices.SortStableFunc(seen, func(a, b sighting) int {
			switch {
			case a.at < b.at:
				return -1
			case a.at > b.at:
				return 1
			}
			return 0
		})
	}
	open := map[string][]int{}
	for i := range seen {
		s := &seen[i]
		if !timed {
			s.at = int64(i)
		}
		if e := earlier(events, open[s.key], s); e != nil {
			e.join(s)
			continue
		}
		open[s.key] = append(open[s.key], len(events))
		events = append(events, event{src: s.src, dst: s.dst, at: s.at, last: s.at, copies: 1, body: s.body, ttl: s.ttl})
	}
	return events, timed
}

// earlier finds the packet that s shows again. Only the last few can be on their way still.
func earlier(events []event, same []int, s *sighting) *event {
	const most = 16
	for n, i := 0, len(same)-1; i >= 0 && n < most; n, i = n+1, i-1 {
		if e := &events[same[i]]; e.ttl > s.ttl {
			return e
		}
	}
	return nil
}

// join adds a later capture: what happened to the packet on its way counts, its headers are known.
func (e *event) join(s *sighting) {
	e.last, e.ttl = s.at, s.ttl
	e.copies++
	e.trimmed, e.ce = e.trimmed || s.trimmed, e.ce || s.ce
	if e.fault == "" {
		e.fault = s.fault
	}
}
