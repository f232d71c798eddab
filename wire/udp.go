package wire

import "net/netip"

// UDP is a view of a UDP header and what follows.
type UDP []byte

var (
	errUDPShort    = fieldErr("UDP", "length", "shorter than 8 bytes")
	errUDPLen      = fieldErr("UDP", "length", "below 8")
	errEntropyLen  = fieldErr("entropy", "length", "shorter than 4 bytes")
	errEtherNotIP  = fieldErr("Ethernet", "type", "is neither IPv4 nor IPv6")
	errFragment    = fieldErr("IPv4", "fragment", "UET is never fragmented")
	errNotUET      = fieldErr("IP", "protocol", "is neither UDP to port 4793 nor the native UET protocol")
	errUETEmpty    = fieldErr("UET", "length", "shorter than the 2-byte prologue")
	errUDPNotToUET = fieldErr("UDP", "destination port", "is not 4793")
)

// ParseUDP returns the UDP datagram at the start of b, cut to its length field; a length beyond b, which a trimmed packet
// has, leaves b whole.
func ParseUDP(b []byte) (UDP, error) {
	if len(b) < UDPLen {
		return nil, errUDPShort
	}
	n := int(u16(b, 4))
	if n < UDPLen {
		return nil, errUDPLen
	}
	n = min(n, len(b))
	return UDP(b[:n:n]), nil
}

// SrcPort returns the source port, which is the entropy value of a UET packet.
func (u UDP) SrcPort() uint16 { return u16(u, 0) }

// DstPort returns the destination port.
func (u UDP) DstPort() uint16 { return u16(u, 2) }

// Len returns the length field: 8 and the bytes that followed when the packet was sent.
func (u UDP) Len() int { return int(u16(u, 4)) }

// Checksum returns the checksum field; UET sends 0 and ignores it.
func (u UDP) Checksum() uint16 { return u16(u, 6) }

// SetSrcPort writes the source port (EV).
func (u UDP) SetSrcPort(ev uint16) { put16(u, 0, ev) }

// Payload returns what follows the header.
func (u UDP) Payload() []byte { return u[UDPLen:] }

// Cut reports whether the datagram is shorter than its length field says: it was trimmed, or damaged.
func (u UDP) Cut() bool { return u.Len() > len(u) }

// FrameFields describes the outer headers of a UET packet.
type FrameFields struct {
	DstMAC, SrcMAC MAC
	Src, Dst       netip.Addr // both IPv4 or both IPv6
	EV             uint16     // entropy value
	DSCP, ECN      uint8
	TTL            uint8 // 0 stands for 64
	Native         uint8 // IP protocol number of native UET with an entropy header; 0 for UDP
}

// AppendUDPFrame lays down Ethernet, IP and UDP (or entropy) headers with all lengths zero. Append the UET packet behind
// it, then call FinishUDP. IPv4 has DF set and identification 0; the UDP checksum is 0 (uet-wire 1).
func AppendUDPFrame(dst []byte, f *FrameFields) []byte {
	proto, ttl := f.Native, f.TTL
	if proto == 0 {
		proto = ProtoUDP
	}
	if ttl == 0 {
		ttl = 64
	}
	tos := f.DSCP<<2 | f.ECN&3
	var b []byte
	if f.Src.Is4() {
		dst, b = grow(dst, EthLen+IPv4Len+UDPLen)
		Eth(b).SetType(EtherIPv4)
		ip := b[EthLen:]
		ip[0], ip[1], ip[6], ip[8], ip[9] = 0x45, tos, 0x40, ttl, proto
		*(*[4]byte)(ip[12:]), *(*[4]byte)(ip[16:]) = f.Src.As4(), f.Dst.As4()
	} else {
		dst, b = grow(dst, EthLen+IPv6Len+UDPLen)
		Eth(b).SetType(EtherIPv6)
		ip := b[EthLen:]
		ip[0], ip[1], ip[6], ip[7] = 0x60|tos>>4, tos<<4, proto, ttl
		*(*[16]byte)(ip[8:]), *(*[16]byte)(ip[24:]) = f.Src.As16(), f.Dst.As16()
	}
	Eth(b).SetDst(f.DstMAC)
	Eth(b).SetSrc(f.SrcMAC)
	l4 := b[len(b)-UDPLen:]
	put16(l4, 0, f.EV)
	if proto != ProtoUDP {
		return dst[:len(dst)-UDPLen+EntropyLen]
	}
	put16(l4, 2, UDPPort)
	return dst
}

// FinishUDP sets the IP and UDP lengths and the IPv4 checksum of a frame begun with AppendUDPFrame; it returns false if
// the frame is not one, or too long for the length field.
func FinishUDP(frame []byte) bool {
	if len(frame) < EthLen+IPv4Len+EntropyLen {
		return false
	}
	ip := frame[EthLen:]
	if len(ip) > 0xFFFF {
		return false
	}
	if ip[0] == 0x45 {
		put16(ip, 2, uint16(len(ip)))
		if ip[9] == ProtoUDP && len(ip) >= IPv4Len+UDPLen {
			put16(ip, IPv4Len+4, uint16(len(ip)-IPv4Len))
		}
		IPv4(ip).SetChecksum()
		return true
	}
	if ip[0]>>4 != 6 || len(ip) < IPv6Len+EntropyLen {
		return false
	}
	n := uint16(len(ip) - IPv6Len)
	put16(ip, 4, n)
	if ip[6] == ProtoUDP && n >= UDPLen {
		put16(ip, IPv6Len+4, n)
	}
	return true
}

// Inbound is where the parts of a received UET packet lie.
type Inbound struct {
	IP     []byte // IP packet, cut to its length
	UET    []byte // from the TSS header or PDS prologue to the end, CRC or ICV included
	V6     bool
	Native bool  // native IP form; else UDP
	Cut    bool  // UDP says there was more: only a trimmed packet may be so
	DSCP   uint8 // code point
	ECN    uint8
	EV     uint16 // entropy value
}

// Type returns the PDS type of the packet.
func (in *Inbound) Type() PDSType { return PDSType(in.UET[0] >> 3) }

// ParseUET finds the UET packet in a frame without link trailer, tags looked through, in the order of uet-wire 1. native
// is the IP protocol number of the native form, 0 for none. IPv4 fragments, IPv6 extension headers and anything that is
// not UET are errors; the IPv4 checksum is checked. Whether a Cut packet is legal is for the caller, who knows the DSCPs.
func ParseUET(frame []byte, native uint8) (in Inbound, err error) {
	t, b, err := Network(frame)
	if err != nil {
		return in, err
	}
	var proto uint8
	var l4 []byte
	switch t {
	case EtherIPv4:
		p, err := ParseIPv4(b)
		if err != nil {
			return in, err
		}
		if !p.ChecksumOK() {
			return in, errV4Sum
		}
		if frag, _ := p.Fragment(); frag {
			return in, errFragment
		}
		in.IP, in.DSCP, in.ECN, proto, l4 = p, p.DSCP(), p.ECN(), p.Proto(), p.Payload()
	case EtherIPv6:
		p, err := ParseIPv6(b)
		if err != nil {
			return in, err
		}
		in.IP, in.V6, in.DSCP, in.ECN, proto, l4 = p, true, p.DSCP(), p.ECN(), p.Proto(), p.Payload()
	default:
		return in, errEtherNotIP
	}
	return in, in.transport(proto, native, l4)
}

func (in *Inbound) transport(proto, native uint8, l4 []byte) error {
	switch {
	case proto == ProtoUDP:
		u, err := ParseUDP(l4)
		if err != nil {
			return err
		}
		if u.DstPort() != UDPPort {
			return errUDPNotToUET
		}
		in.EV, in.Cut, in.UET = u.SrcPort(), u.Cut(), u.Payload()
	case native != 0 && proto == native:
		if len(l4) < EntropyLen {
			return errEntropyLen
		}
		in.EV, in.Native, in.UET = u16(l4, 0), true, l4[EntropyLen:]
	default:
		return errNotUET
	}
	return check(len(in.UET) < prologueLen, errUETEmpty)
}
