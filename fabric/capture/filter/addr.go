package filter

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// atom reads one identifier under its qualifiers.
func (p *parser) atom(q qual) (*node, error) {
	t := p.take()
	_, service := services[t.text]
	named := t.plain || q.kind == "proto" || q.kind == "port" && service || !keyword(t.text)
	if t.kind != tokNumber && (t.kind != tokWord || !named) {
		return nil, &Error{Column: t.col, What: fmt.Sprintf("expected something after %q, not %v", q.kind, t)}
	}
	switch q.kind {
	case "proto":
		return p.protoAtom(q, t)
	case "port":
		v, err := port(t)
		if err != nil {
			return nil, err
		}
		return p.portNode(q, v, v)
	case "portrange":
		lo, hi, err := portRange(t)
		if err != nil {
			return nil, err
		}
		return p.portNode(q, lo, hi)
	}
	return p.addressAtom(q, t)
}

func (p *parser) protoAtom(q qual, t token) (*node, error) {
	table, limit, what := ipProtocols, uint32(255), "an IP protocol"
	if q.proto == "ether" || q.proto == "link" {
		table, limit, what = etherTypes, 0xffff, "an EtherType"
	}
	v := t.num
	if t.kind == tokWord {
		var ok bool
		if v, ok = table[t.text]; !ok {
			return nil, unknownName(t, what, words(table))
		}
	}
	if v > limit {
		return nil, &Error{Column: t.col, What: fmt.Sprintf("%v is not %s, the largest is %d", t, what, limit)}
	}
	return p.protoNode(q, t, v)
}

func unknownName(t token, what string, table []string) error {
	e := &Error{Column: t.col, What: fmt.Sprintf("%v is not %s that is known here", t, what), Hint: "write its number"}
	if k := nearest(t.text, table); k != "" {
		e.Hint = fmt.Sprintf("did you mean %q? Or write its number", k)
	}
	return e
}

func port(t token) (uint32, error) {
	if t.kind == tokNumber {
		if t.num > 0xffff {
			return 0, &Error{Column: t.col, What: fmt.Sprintf("%v is not a port, the largest is 65535", t)}
		}
		return t.num, nil
	}
	if v, ok := services[t.text]; ok {
		return v, nil
	}
	return 0, unknownName(t, "a port", words(services))
}

// portRange reads low-high, or one port; names may have dashes of their own.
func portRange(t token) (lo, hi uint32, err error) {
	if t.kind == tokNumber || strings.IndexByte(t.text, '-') < 0 {
		lo, err = port(t)
		return lo, lo, err
	}
	side := func(s string) (uint32, error) {
		v, err := strconv.ParseUint(s, 0, 32)
		if err != nil || !numeric(s) {
			return port(token{kind: tokWord, text: s, col: t.col})
		}
		return port(token{kind: tokNumber, text: s, num: uint32(v), col: t.col})
	}
	for i := range len(t.text) {
		if t.text[i] != '-' {
			continue
		}
		var err2 error
		lo, err = side(t.text[:i])
		if hi, err2 = side(t.text[i+1:]); err == nil && err2 == nil {
			return min(lo, hi), max(lo, hi), nil
		}
	}
	return 0, 0, &Error{Column: t.col, What: fmt.Sprintf("%v is not a range of ports", t), Hint: "write it as 5000-5010, without blanks"}
}

// addressAtom reads the operand of host and net.
func (p *parser) addressAtom(q qual, t token) (*node, error) {
	m, isMAC := parseMAC(t.text)
	if q.proto == "ether" || q.proto == "link" {
		if !isMAC || q.kind != "host" {
			return nil, &Error{Column: t.col, What: fmt.Sprintf("%v is not a MAC address", t), Hint: `write "ether host 02:00:00:00:00:01"`}
		}
		return q.towards(mac(6, m), mac(0, m)), nil
	}
	if a, err := netip.ParseAddr(t.text); err == nil && a.Is6() && a.Zone() == "" {
		return p.ip6Atom(q, t, a)
	}
	if t.kind == tokNumber {
		v, bits := parseNumber(q, t)
		return p.ip4Atom(q, t, v, bits)
	}
	if v, bits, ok := parseDotted(t); ok {
		return p.ip4Atom(q, t, v, bits)
	}
	if isMAC {
		return nil, &Error{Column: t.col, What: fmt.Sprintf("%v is a MAC address", t), Hint: `write "ether host"`}
	}
	return p.nameAtom(q, t)
}

// nameAtom reads a host name, which stands for all its addresses of the right family.
func (p *parser) nameAtom(q qual, t token) (*node, error) {
	var n *node
	if q.kind == "host" && t.kind == tokWord && p.opts.Names != nil {
		for _, a := range p.opts.Names(t.text) {
			var m *node
			var err error
			switch a = a.Unmap(); {
			case a.Is4() && q.proto != "ip6":
				b := a.As4()
				m, err = p.host4(q, t, binary.BigEndian.Uint32(b[:]), 0xffffffff)
			case a.Is6() && (q.proto == "" || q.proto == "ip6"):
				m, err = p.host6(q, t, a, 128)
			default:
				continue
			}
			if err != nil {
				return nil, err
			}
			n = or(n, m)
		}
	}
	if n == nil {
		return nil, &Error{Column: t.col, What: fmt.Sprintf("%v is not an address and names nothing here", t),
			Hint: "write an address like 10.0.0.1, 10.0.0.0/8 or 2001:db8::1"}
	}
	return n, nil
}

// ip4Atom reads what follows an IPv4 address and takes its mask from there; bits is how many of the 32 were written.
func (p *parser) ip4Atom(q qual, t token, v uint32, bits int) (*node, error) {
	mask := ^uint32(0) << (32 - bits)
	if q.kind == "host" {
		if next := p.peek(); next.is("/") || next.is("mask") {
			return nil, &Error{Column: next.col, What: "a host has no mask", Hint: `write "net"`}
		}
		return p.host4(q, t, v, mask)
	}
	switch {
	case p.accept("/"):
		n, err := p.number("a prefix length", 32)
		if err != nil {
			return nil, err
		}
		mask = ^uint32(0) << (32 - n)
	case p.accept("mask"):
		m := p.take()
		var ok bool
		if mask, _, ok = parseDotted(m); !ok {
			return nil, &Error{Column: m.col, What: fmt.Sprintf("%v is not a mask", m), Hint: "write one like 255.255.0.0"}
		}
	}
	if v&^mask != 0 {
		return nil, &Error{Column: t.col, What: fmt.Sprintf("%v has bits set outside the mask", t),
			Hint: fmt.Sprintf("the net is %v", netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, v&mask))))}
	}
	return p.host4(q, t, v, mask)
}

func (p *parser) ip6Atom(q qual, t token, a netip.Addr) (*node, error) {
	bits := uint32(128)
	if next := p.peek(); next.is("/") {
		if q.kind == "host" {
			return nil, &Error{Column: next.col, What: "a host has no mask", Hint: `write "net"`}
		}
		p.take()
		var err error
		if bits, err = p.number("a prefix length", 128); err != nil {
			return nil, err
		}
	}
	if pre := netip.PrefixFrom(a, int(bits)).Masked(); pre.Addr() != a {
		return nil, &Error{Column: t.col, What: fmt.Sprintf("%v has bits set outside the mask", t), Hint: fmt.Sprintf("the net is %v", pre)}
	}
	return p.host6(q, t, a, bits)
}

// host4 tests addresses of IPv4, ARP and RARP under a mask.
func (p *parser) host4(q qual, t token, v, mask uint32) (*node, error) {
	pl := p.payload()
	var n *node
	for _, l := range []struct {
		name           string
		etherType      uint32
		srcOff, dstOff uint32
	}{{"ip", etherIP, 12, 16}, {"arp", etherARP, 14, 24}, {"rarp", etherRARP, 14, 24}} {
		if q.proto == "" || q.proto == l.name {
			addrs := q.towards(masked(4, pl+l.srcOff, v, mask), masked(4, pl+l.dstOff, v, mask))
			n = or(n, and(p.etherNode(l.etherType), addrs))
		}
	}
	if n == nil {
		return nil, noAddress(q, t, "IPv4")
	}
	return n, nil
}

func (p *parser) host6(q qual, t token, a netip.Addr, bits uint32) (*node, error) {
	if q.proto != "" && q.proto != "ip6" {
		return nil, noAddress(q, t, "IPv6")
	}
	b, pl := a.As16(), p.payload()
	match := func(off uint32) *node {
		n := truth(true)
		for i := uint32(0); i < 4 && 32*i < bits; i++ {
			mask := ^uint32(0) << (32 - min(32, bits-32*i))
			n = and(n, masked(4, off+4*i, binary.BigEndian.Uint32(b[4*i:]), mask))
		}
		return n
	}
	return and(p.etherNode(etherIP6), q.towards(match(pl+8), match(pl+24))), nil
}

func noAddress(q qual, t token, family string) error {
	return &Error{Column: q.col, What: fmt.Sprintf("%s has no %s addresses", q.proto, family),
		Hint: fmt.Sprintf(`write "%s and %s %s"`, q.proto, q.kind, t.text)}
}

// mac tests a MAC address at off.
func mac(off uint32, m [6]byte) *node {
	return and(is(4, off+2, binary.BigEndian.Uint32(m[2:])), is(2, off, uint32(m[0])<<8|uint32(m[1])))
}

// parseNumber reads a lone number as libpcap does: a whole address after host, the top bytes of a net (10 is 10.0.0.0/8).
func parseNumber(q qual, t token) (v uint32, bits int) {
	v, bits = t.num, 32
	for q.kind == "net" && v != 0 && v < 1<<24 {
		v <<= 8
		bits -= 8
	}
	return v, bits
}

// parseDotted reads an IPv4 address of one to four parts; bits says how many of the 32 they make.
func parseDotted(t token) (v uint32, bits int, ok bool) {
	parts := strings.Split(t.text, ".")
	if len(parts) > 4 {
		return 0, 0, false
	}
	for _, s := range parts {
		n, err := strconv.ParseUint(s, 10, 8)
		if err != nil {
			return 0, 0, false
		}
		v = v<<8 | uint32(n)
	}
	bits = 8 * len(parts)
	return v << (32 - bits), bits, true
}

// parseMAC reads six bytes written as 2:0:0:0:0:1, 02-00-00-00-00-01, 0200.0000.0001 or 020000000001.
func parseMAC(s string) (m [6]byte, ok bool) {
	var parts []string
	width := 2
	switch {
	case strings.Count(s, ":") == 5:
		parts = strings.Split(s, ":")
	case strings.Count(s, "-") == 5:
		parts = strings.Split(s, "-")
	case strings.Count(s, ".") == 5:
		parts = strings.Split(s, ".")
	case strings.Count(s, ".") == 2 && len(s) == 14:
		parts, width = strings.Split(s, "."), 4
	case len(s) == 12:
		parts, width = []string{s}, 12
	default:
		return m, false
	}
	var all uint64
	for _, part := range parts {
		n, err := strconv.ParseUint(part, 16, 4*width)
		if err != nil || len(part) > width || width > 2 && len(part) != width {
			return m, false
		}
		all = all<<(4*width) | n
	}
	for i := range m {
		m[i] = byte(all >> (40 - 8*i))
	}
	return m, true
}
