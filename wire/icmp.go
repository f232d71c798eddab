package wire

import "net/netip"

// ICMP is a view of an ICMPv4 or ICMPv6 message.
type ICMP []byte

// ICMP types that uetlab answers or sends.
const (
	ICMP4EchoReply    = 0
	ICMP4Unreachable  = 3
	ICMP4EchoRequest  = 8
	ICMP4TimeExceeded = 11

	ICMP6Unreachable  = 1
	ICMP6PacketTooBig = 2
	ICMP6TimeExceeded = 3
	ICMP6EchoRequest  = 128
	ICMP6EchoReply    = 129
)

// ICMPError is a kind of error message, the same for both IP versions.
type ICMPError uint8

// Kinds of ICMP errors.
const (
	ICMPTimeExceeded    ICMPError = iota // TTL ran out on the way
	ICMPNetUnreachable                   // no route
	ICMPHostUnreachable                  // no neighbour, or the port is down
	ICMPPortUnreachable                  // nobody listens
	ICMPTooBig                           // does not fit the next link's MTU
)

// icmpCodes holds type and code per kind, for IPv4 and IPv6.
var icmpCodes = [...]struct{ t4, c4, t6, c6 uint8 }{
	ICMPTimeExceeded:    {ICMP4TimeExceeded, 0, ICMP6TimeExceeded, 0},
	ICMPNetUnreachable:  {ICMP4Unreachable, 0, ICMP6Unreachable, 0},
	ICMPHostUnreachable: {ICMP4Unreachable, 1, ICMP6Unreachable, 3},
	ICMPPortUnreachable: {ICMP4Unreachable, 3, ICMP6Unreachable, 4},
	ICMPTooBig:          {ICMP4Unreachable, 4, ICMP6PacketTooBig, 0},
}

const (
	icmpHeaderLen = 8
	icmp4MaxLen   = 576  // RFC 1812 4.3.2.3
	icmp6MaxLen   = 1280 // RFC 4443 2.4 (c)
)

// ParseICMP returns the message in b.
func ParseICMP(b []byte) (ICMP, error) {
	if len(b) < icmpHeaderLen {
		return nil, errICMPShort
	}
	return ICMP(b), nil
}

var errICMPShort = fieldErr("ICMP", "length", "shorter than 8 bytes")

// Type returns the message type.
func (m ICMP) Type() uint8 { return m[0] }

// Code returns the code within the type.
func (m ICMP) Code() uint8 { return m[1] }

// ID returns the identifier of an echo message.
func (m ICMP) ID() uint16 { return u16(m, 4) }

// Seq returns the sequence number of an echo message.
func (m ICMP) Seq() uint16 { return u16(m, 6) }

// ICMPSum returns the checksum of the ICMP message in an IP packet as it stands: 0 if the checksum in it is right.
func ICMPSum(ipPacket []byte) uint16 {
	if ipPacket[0]>>4 == 4 {
		return ^sum(0, IPv4(ipPacket).Payload())
	}
	m := ipPacket[IPv6Len:]
	pseudo := uint32(sum(0, ipPacket[8:40])) + uint32(len(m)>>16) + uint32(len(m)&0xFFFF) + ProtoICMPv6
	return ^sum(pseudo, m)
}

// AppendICMPEchoReply appends the whole IP packet that answers an echo request: addresses swapped, TTL 64, the DSCP of
// the request. It returns false, and dst as it was, if the packet is not a sound echo request, or is a fragment.
func AppendICMPEchoReply(dst, ipPacket []byte) ([]byte, bool) {
	p, v6, proto, off := cutIP(ipPacket)
	if p == nil || len(p)-off < icmpHeaderLen || ICMPSum(p) != 0 {
		return dst, false
	}
	reply := uint8(ICMP4EchoReply)
	switch {
	case !v6 && proto == ProtoICMP && p[off] == ICMP4EchoRequest:
	case v6 && proto == ProtoICMPv6 && p[off] == ICMP6EchoRequest:
		reply = ICMP6EchoReply
	default:
		return dst, false
	}
	if frag, _ := fragment(p); frag || badSource(p) || groupDst(p) {
		return dst, false
	}
	dst, out, m := growICMP(dst, v6, len(p)-off, p[1]&0xFC)
	if v6 {
		out[0], out[1] = p[0], p[1]&0xCF // traffic class without ECN; flow label 0
		*(*[16]byte)(out[8:]), *(*[16]byte)(out[24:]) = [16]byte(p[24:40]), [16]byte(p[8:24])
	} else {
		*(*[4]byte)(out[12:]), *(*[4]byte)(out[16:]) = [4]byte(p[16:20]), [4]byte(p[12:16])
	}
	copy(m, p[off:])
	m[0], m[1] = reply, 0
	finishICMP(out, m)
	return dst, true
}

// AppendICMPError appends the IP packet by which a router or host at address from says that it could not carry orig. mtu
// counts for ICMPTooBig only. It returns false, and dst as it was, where the RFCs forbid an answer: to ICMP errors, to
// fragments but the first, to group addresses or from sources that are not one station; and if from is of another IP
// version than orig.
func AppendICMPError(dst, orig []byte, from netip.Addr, kind ICMPError, mtu int) ([]byte, bool) {
	p, v6, proto, off := cutIP(orig)
	if p == nil || int(kind) >= len(icmpCodes) || from.Is4() == v6 || !from.IsValid() || badSource(p) || groupDst(p) {
		return dst, false
	}
	if _, at := fragment(p); at != 0 || isICMPError(proto, p[off:]) {
		return dst, false
	}
	quote := p[:min(len(p), icmp4MaxLen-IPv4Len-icmpHeaderLen)]
	if v6 {
		quote = p[:min(len(p), icmp6MaxLen-IPv6Len-icmpHeaderLen)]
	}
	dst, out, m := growICMP(dst, v6, icmpHeaderLen+len(quote), 0)
	c := icmpCodes[kind]
	if v6 {
		*(*[16]byte)(out[8:]), *(*[16]byte)(out[24:]) = from.As16(), [16]byte(p[8:24])
		m[0], m[1] = c.t6, c.c6
	} else {
		*(*[4]byte)(out[12:]), *(*[4]byte)(out[16:]) = from.As4(), [4]byte(p[12:16])
		m[0], m[1] = c.t4, c.c4
	}
	if kind == ICMPTooBig {
		put32(m, 4, uint32(mtu)) // IPv4 has the MTU in the low half, which is the same place
	}
	copy(m[icmpHeaderLen:], quote)
	finishICMP(out, m)
	return dst, true
}

// cutIP returns a well-formed IP packet cut to its length, its protocol and where its payload begins; nil if it is none.
func cutIP(b []byte) (p []byte, v6 bool, proto uint8, off int) {
	if len(b) > 0 && b[0]>>4 == 6 {
		v, err := ParseIPv6(b)
		if err != nil {
			return nil, true, 0, 0
		}
		return v, true, v.Proto(), IPv6Len
	}
	v, err := ParseIPv4(b)
	if err != nil {
		return nil, false, 0, 0
	}
	return v, false, v.Proto(), v.HeaderLen()
}

func fragment(p []byte) (bool, int) {
	if p[0]>>4 == 6 {
		return false, 0
	}
	return IPv4(p).Fragment()
}

// badSource reports a source that is not one station: unspecified, group or broadcast.
func badSource(p []byte) bool {
	if p[0]>>4 == 6 {
		a := IPv6(p).Src()
		return a.IsUnspecified() || a.IsMulticast()
	}
	return p[12] == 0 || p[12] >= 224
}

func groupDst(p []byte) bool {
	if p[0]>>4 == 6 {
		return p[24] == 0xFF
	}
	return p[16] >= 224
}

// isICMPError reports whether the payload m is an ICMP message that is not a query, of which none may answer another.
func isICMPError(proto uint8, m []byte) bool {
	switch proto {
	case ProtoICMP:
		return len(m) == 0 || m[0] != ICMP4EchoRequest && m[0] != ICMP4EchoReply
	case ProtoICMPv6:
		return len(m) == 0 || m[0] < 128
	}
	return false
}

// growICMP adds an IP header, complete but for the addresses, and room for an ICMP message of n bytes.
func growICMP(dst []byte, v6 bool, n int, tos uint8) (whole, out, m []byte) {
	if v6 {
		whole, out = grow(dst, IPv6Len+n)
		out[0], out[6], out[7] = 0x60, ProtoICMPv6, 64
		put16(out, 4, uint16(n))
		return whole, out, out[IPv6Len:]
	}
	whole, out = grow(dst, IPv4Len+n)
	out[0], out[1], out[8], out[9] = 0x45, tos, 64, ProtoICMP
	put16(out, 2, uint16(len(out)))
	return whole, out, out[IPv4Len:]
}

func finishICMP(out, m []byte) {
	put16(m, 2, 0)
	put16(m, 2, ICMPSum(out))
	if out[0]>>4 == 4 {
		IPv4(out).SetChecksum()
	}
}
