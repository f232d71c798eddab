package filter

import (
	"fmt"

	"golang.org/x/net/bpf"
)

// typeAt and payload are the offsets of the EtherType and of what it announces, behind the VLAN tags passed so far.
func (p *parser) typeAt() uint32  { return 12 + p.vlans }
func (p *parser) payload() uint32 { return 14 + p.vlans }

// fragmented tests that an IPv4 packet is a later fragment and so has no transport header.
func (p *parser) fragmented() *node {
	return &node{load: []bpf.Instruction{bpf.LoadAbsolute{Off: p.payload() + 6, Size: 2}}, cond: bpf.JumpBitsSet, val: 0x1fff}
}

// etherNode tests the EtherType, or for values that are no EtherType the LLC header behind a length.
func (p *parser) etherNode(v uint32) *node {
	pl := p.payload()
	llc := not(&node{load: []bpf.Instruction{bpf.LoadAbsolute{Off: p.typeAt(), Size: 2}}, cond: bpf.JumpGreaterThan, val: etherMax})
	snap := func(hi, lo uint32) *node { return and(is(4, pl+4, lo), is(4, pl, hi)) }
	switch {
	case v == sapISO, v == sapIP, v == sapNetBEUI: // both service access points
		return and(llc, is(2, pl, v<<8|v))
	case v == sapIPX: // four encapsulations
		raw := or(or(snap(0xaaaa0300, etherIPX), is(1, pl, sapIPX)), is(2, pl, 0xffff))
		return or(is(2, p.typeAt(), etherIPX), and(llc, raw))
	case v == etherATalk:
		return or(is(2, p.typeAt(), v), and(llc, snap(0xaaaa0308, 0x00070000|v)))
	case v == etherAARP:
		return or(is(2, p.typeAt(), v), and(llc, snap(0xaaaa0300, v)))
	case v <= etherMax:
		return and(llc, is(1, pl, v))
	}
	return is(2, p.typeAt(), v)
}

// ipProto and ip6Proto test the protocol over IPv4 and IPv6; the latter also behind one fragment header.
func (p *parser) ipProto(v uint32) *node {
	return and(p.etherNode(etherIP), is(1, p.payload()+9, v))
}

func (p *parser) ip6Proto(v uint32) *node {
	behind := and(is(1, p.payload()+6, ipFragment), is(1, p.payload()+40, v))
	return and(p.etherNode(etherIP6), or(is(1, p.payload()+6, v), behind))
}

// protoName is a protocol that stands alone.
func (p *parser) protoName(t token) (*node, error) {
	proto := protocols[t.text]
	switch proto.layer {
	case layerEther:
		return p.etherNode(proto.num), nil
	case layerIP:
		return p.ipProto(proto.num), nil
	case layerIP6:
		return p.ip6Proto(proto.num), nil
	case layerBoth:
		return or(p.ipProto(proto.num), p.ip6Proto(proto.num)), nil
	}
	return nil, &Error{Column: t.col, What: fmt.Sprintf("%v alone says nothing, every frame is Ethernet", t),
		Hint: `go on with "host", "src", "dst", "proto", "broadcast" or "multicast"`}
}

// accessBase says where the bytes of a protocol begin.
func (p *parser) accessBase(proto protocol) (valueKind, uint32) {
	switch proto.layer {
	case layerLink:
		return valFixed, 0
	case layerEther:
		return valFixed, p.payload()
	case layerIP6:
		return valFixed, p.payload() + 40
	}
	return valIP4, p.payload()
}

// accessCheck is what must hold for the bytes of a protocol to be there; nil for those of the link.
func (p *parser) accessCheck(proto protocol) *node {
	switch proto.layer {
	case layerLink:
		return nil
	case layerEther:
		return p.etherNode(proto.num)
	case layerIP6:
		return and(p.etherNode(etherIP6), is(1, p.payload()+6, proto.num))
	}
	return and(p.ipProto(proto.num), not(p.fragmented()))
}

func (p *parser) castNode(proto string, t token) (*node, error) {
	pl := p.payload()
	switch proto + " " + t.text {
	case "ether broadcast", "link broadcast":
		return mac(0, [6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}), nil
	case "ether multicast", "link multicast":
		return &node{load: []bpf.Instruction{bpf.LoadAbsolute{Size: 1}}, cond: bpf.JumpBitsSet, val: 1}, nil
	case "ip broadcast": // no netmask is known here
		return and(p.etherNode(etherIP), or(is(4, pl+16, 0), is(4, pl+16, 0xffffffff))), nil
	case "ip multicast":
		top := &node{load: []bpf.Instruction{bpf.LoadAbsolute{Off: pl + 16, Size: 1}}, cond: bpf.JumpGreaterOrEqual, val: 224}
		return and(p.etherNode(etherIP), top), nil
	case "ip6 multicast":
		return and(p.etherNode(etherIP6), is(1, pl+24, 0xff)), nil
	}
	return nil, &Error{Column: t.col, What: fmt.Sprintf("%s has no %s", proto, t.text),
		Hint: `"ether" and "ip" have both, "ip6" has multicast`}
}

// number takes a number in what, at most limit.
func (p *parser) number(what string, limit uint32) (uint32, error) {
	t := p.take()
	if t.kind != tokNumber {
		return 0, &Error{Column: t.col, What: fmt.Sprintf("%v is not %s", t, what), Hint: fmt.Sprintf("write a number up to %d", limit)}
	}
	if t.num > limit {
		return 0, &Error{Column: t.col, What: fmt.Sprintf("%v is not %s, the largest is %d", t, what, limit)}
	}
	return t.num, nil
}

func (p *parser) lengthTest(t token) (*node, error) {
	k, err := p.number("a length in bytes", 1<<32-1)
	if err != nil {
		return nil, err
	}
	n := &node{load: []bpf.Instruction{bpf.LoadExtension{Num: bpf.ExtLen}}, val: k}
	if t.text == "greater" {
		n.cond = bpf.JumpGreaterOrEqual
		return n, nil
	}
	n.cond = bpf.JumpGreaterThan
	return not(n), nil
}

// vlan tests for a tag, and its id if one is given; what is written behind it looks at what the tag carries.
func (p *parser) vlan() (*node, error) {
	var n *node
	for _, tpid := range []uint32{0x8100, 0x88a8, 0x9100} {
		n = or(n, is(2, p.typeAt(), tpid))
	}
	if p.peek().kind == tokNumber && !operator(p.ahead(1)) {
		id, err := p.number("a VLAN id", 4095)
		if err != nil {
			return nil, err
		}
		n = and(n, masked(2, p.payload(), id, 0xfff))
	}
	p.vlans += 4
	return n, nil
}

// towards joins the test of the source with that of the destination as the direction says.
func (q qual) towards(src, dst *node) *node {
	switch q.dir {
	case dirSrc:
		return src
	case dirDst:
		return dst
	case dirBoth:
		return and(src, dst)
	}
	return or(src, dst)
}

// protoNode is proto N under ether, ip, ip6 or none.
func (p *parser) protoNode(q qual, t token, v uint32) (*node, error) {
	switch q.proto {
	case "":
		return or(p.ipProto(v), p.ip6Proto(v)), nil
	case "ip":
		return p.ipProto(v), nil
	case "ip6":
		return p.ip6Proto(v), nil
	case "ether", "link":
		return p.etherNode(v), nil
	}
	return nil, &Error{Column: q.col, What: fmt.Sprintf("%s has no protocols within", q.proto),
		Hint: fmt.Sprintf(`"ether", "ip" and "ip6" have; or write "%s and proto %s"`, q.proto, t.text)}
}

// portNode tests TCP, UDP and SCTP ports from lo to hi, over IPv6 without and over IPv4 behind options.
func (p *parser) portNode(q qual, lo, hi uint32) (*node, error) {
	protos := []uint32{ipSCTP, ipTCP, ipUDP}
	switch q.proto {
	case "":
	case "tcp", "udp", "sctp":
		protos = []uint32{protocols[q.proto].num}
	default:
		return nil, &Error{Column: q.col, What: fmt.Sprintf("%s has no ports", q.proto),
			Hint: fmt.Sprintf(`"tcp", "udp" and "sctp" have; or write "%s and port …"`, q.proto)}
	}
	pl := p.payload()
	var over4, over6 *node
	for _, v := range protos {
		over4 = or(over4, is(1, pl+9, v))
		over6 = or(over6, is(1, pl+6, v))
	}
	at4 := func(off uint32) *node {
		return between(lo, hi, bpf.LoadMemShift{Off: pl}, bpf.LoadIndirect{Off: pl + off, Size: 2})
	}
	at6 := func(off uint32) *node { return between(lo, hi, bpf.LoadAbsolute{Off: pl + 40 + off, Size: 2}) }
	v6 := and(p.etherNode(etherIP6), and(over6, q.towards(at6(0), at6(2))))
	v4 := and(p.etherNode(etherIP), and(over4, and(not(p.fragmented()), q.towards(at4(0), at4(2)))))
	return or(v6, v4), nil
}

// between tests that what load leaves in A lies in lo to hi.
func between(lo, hi uint32, load ...bpf.Instruction) *node {
	if lo == hi {
		return &node{load: load, cond: bpf.JumpEqual, val: lo}
	}
	return and(&node{load: load, cond: bpf.JumpGreaterOrEqual, val: lo}, not(&node{load: load, cond: bpf.JumpGreaterThan, val: hi}))
}
