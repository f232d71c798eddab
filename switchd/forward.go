package switchd

import (
	"encoding/binary"

	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// Arrive implements engine.Core.
func (s *Switch) Arrive(now vt.Time, port int, f *link.Frame) {
	in := s.node.Ports[port]
	f.In, f.Group = uint8(port), 0
	if len(f.B) < wire.EthLen+wire.IPv4Len || wire.Eth(f.B).Dst() != s.cfg.Ports[port].MAC {
		in.Drop(link.DropPacket, f)
		return
	}
	switch t, l3 := s.network(f.B); t {
	case wire.EtherIPv4:
		s.arrive4(now, in, f, l3)
	case wire.EtherIPv6:
		s.arrive6(now, in, f, l3)
	default:
		in.Drop(link.DropPacket, f)
	}
}

// network returns the type of what a frame of at least an Ethernet header carries, and where that begins: behind a CSIG tag
// if there is one.
func (s *Switch) network(b []byte) (wire.EtherType, int) {
	if n := csigLen(b, &s.set.CSIG); n > 0 {
		return wire.Eth(b[n:]).Type(), wire.EthLen + n
	}
	return wire.Eth(b).Type(), wire.EthLen
}

func (s *Switch) arrive4(now vt.Time, in *link.Port, f *link.Frame, l3 int) {
	ip := s.parse4(f.B[l3:])
	if ip == nil {
		in.Drop(link.DropPacket, f)
		return
	}
	dst := ip.Dst4()
	if dst == s.own4 {
		s.local(now, in, f, l3)
		return
	}
	if ip.TTL() <= 1 {
		s.expired(now, in, f, l3)
		return
	}
	g := s.lookup4(dst)
	if g == nil || g.dead() {
		in.Drop(link.DropNoRoute, f)
		return
	}
	out := s.choose(now, g, ip)
	ip.DecTTL()
	s.forward(now, out, f, l3, ip.DSCP())
}

func (s *Switch) arrive6(now vt.Time, in *link.Port, f *link.Frame, l3 int) {
	ip := s.parse6(f.B[l3:])
	if ip == nil {
		in.Drop(link.DropPacket, f)
		return
	}
	if ip.Dst16() == s.own6 {
		s.local(now, in, f, l3)
		return
	}
	if ip.HopLimit() <= 1 {
		s.expired(now, in, f, l3)
		return
	}
	g := s.lookup6(ip)
	if g == nil || g.dead() {
		in.Drop(link.DropNoRoute, f)
		return
	}
	out := s.choose(now, g, ip)
	ip.DecHopLimit()
	s.forward(now, out, f, l3, ip.DSCP())
}

// parse4 returns a valid IPv4 packet, nil if b is none. A trimmed packet may be shorter than it says: some switches leave
// the length as it was.
func (s *Switch) parse4(b []byte) wire.IPv4 {
	ip, err := wire.ParseIPv4(b)
	if err != nil {
		if len(b) < wire.IPv4Len || b[0]>>4 != 4 {
			return nil
		}
		ip = wire.IPv4(b)
		if hl := ip.HeaderLen(); hl < wire.IPv4Len || hl > len(b) || ip.TotalLen() <= len(b) || !s.isTrimmed(ip.DSCP()) {
			return nil
		}
	}
	if !ip.ChecksumOK() {
		return nil
	}
	return ip
}

func (s *Switch) parse6(b []byte) wire.IPv6 {
	ip, err := wire.ParseIPv6(b)
	if err == nil {
		return ip
	}
	if len(b) < wire.IPv6Len || b[0]>>4 != 6 || !s.isTrimmed(wire.IPv6(b).DSCP()) {
		return nil
	}
	return wire.IPv6(b)
}

// forward sends a packet of a DSCP out of a port.
func (s *Switch) forward(now vt.Time, out int, f *link.Frame, l3 int, dscp uint8) {
	p, o := &s.cfg.Ports[out], s.node.Ports[out]
	e := wire.Eth(f.B)
	e.SetDst(p.Peer)
	e.SetSrc(p.MAC)
	if len(f.B)-l3 > o.Config().MTU {
		o.Drop(link.DropPacket, f)
		return
	}
	s.mirror(now, out, f)
	s.enqueue(now, o, dscp, f)
}

// dscpOf reads the DSCP of a frame that has been parsed before; it is an IP packet.
func (s *Switch) dscpOf(b []byte) uint8 {
	t, l3 := s.network(b)
	if t == wire.EtherIPv4 {
		return b[l3+1] >> 2
	}
	return uint8(binary.BigEndian.Uint16(b[l3:])>>6) & 0x3F
}
