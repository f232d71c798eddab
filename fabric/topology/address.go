package topology

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// The address plan. Subnet s of the IPv4 prefix is the s-th /24, of the IPv6 prefix the s-th /64. A switch with
// end points owns one: it is .254 (::fe) there, and the end point at its port p is .p (::p). Switches without
// end points share the last subnets, counted down from the top: .1, .2, ….
const (
	gatewayHost  = 254
	perTopSubnet = 254
)

var (
	defaultIPv4 = netip.MustParsePrefix("10.0.0.0/8")
	defaultIPv6 = netip.MustParsePrefix("fd00::/48")
)

// Prefix bounds: room for at least 256 subnets of IPv4, and for the 2^16 subnets of IPv6.
const (
	minIPv4Bits, maxIPv4Bits = 8, 16
	minIPv6Bits, maxIPv6Bits = 8, 48
)

// macOf is a locally administered address that tells node and port: 02:nn:nn:nn:nn:pp, port counted from 1.
func macOf(node, port int) (mac [6]byte) {
	mac[0] = 0x02
	binary.BigEndian.PutUint32(mac[1:5], uint32(node))
	mac[5] = byte(port + 1)
	return mac
}

// plane is where addresses come from.
type plane struct{ v4, v6 netip.Prefix }

func (s *Spec) plane() plane {
	p := plane{defaultIPv4, defaultIPv6}
	if s.Addressing.IPv4.IsValid() {
		p.v4 = s.Addressing.IPv4.Masked()
	}
	if s.Addressing.IPv6.IsValid() {
		p.v6 = s.Addressing.IPv6.Masked()
	}
	return p
}

// subnets counts the IPv4 subnets; the IPv6 prefix always has as many.
func (p plane) subnets() int { return 1 << (24 - p.v4.Bits()) }

// at gives the addresses of one host in one subnet.
func (p plane) at(subnet, host int) (netip.Addr, netip.Addr) {
	b4 := p.v4.Addr().As4()
	v4 := binary.BigEndian.Uint32(b4[:]) + uint32(subnet)<<8 + uint32(host)
	binary.BigEndian.PutUint32(b4[:], v4)
	b6 := p.v6.Addr().As16()
	binary.BigEndian.PutUint16(b6[6:8], uint16(subnet))
	b6[15] = byte(host)
	return netip.AddrFrom4(b4), netip.AddrFrom16(b6)
}

// owners lists the switches that own a subnet, in subnet order: all of tier 1, then others with end points.
func owners(p *Plan) []int {
	var first, others []int
	for i := range p.Nodes {
		n := &p.Nodes[i]
		if n.Kind != KindSwitch {
			continue
		}
		if n.Tier == 1 {
			first = append(first, i)
			continue
		}
		for _, port := range n.Ports {
			if p.Nodes[port.Peer].Kind != KindSwitch {
				others = append(others, i)
				break
			}
		}
	}
	return append(first, others...)
}

// address gives every node its addresses.
func (d *draft) address(p *Plan) {
	pl := d.spec.plane()
	owned := owners(p)
	for subnet, id := range owned {
		sw := &p.Nodes[id]
		sw.Addr4, sw.Addr6 = pl.at(subnet, gatewayHost)
		for i, port := range sw.Ports {
			if n := &p.Nodes[port.Peer]; n.Kind != KindSwitch {
				n.Addr4, n.Addr6 = pl.at(subnet, i+1)
				n.Gate4, n.Gate6 = sw.Addr4, sw.Addr6
			}
		}
	}
	top, paired := 0, 0
	for i := range p.Nodes {
		n := &p.Nodes[i]
		switch {
		case n.Addr4.IsValid():
		case n.Kind == KindSwitch:
			n.Addr4, n.Addr6 = pl.at(pl.subnets()-1-top/perTopSubnet, top%perTopSubnet+1)
			top++
		default: // its peer is an end point too
			paired++
			n.Addr4, n.Addr6 = pl.at(len(owned), paired)
		}
	}
	if used := len(owned) + 1 + (top+perTopSubnet-1)/perTopSubnet; used > pl.subnets() {
		d.problem(d.spec.at(&d.spec.Addressing.IPv4), "addressing.ipv4", pl.v4.String(), fmt.Sprintf("%d subnets of /24 are needed", used), "write a shorter prefix, e.g. 10.0.0.0/8")
	}
}
