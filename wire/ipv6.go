package wire

import "net/netip"

// IPv6 is a view of a packet that begins with an IPv6 header.
type IPv6 []byte

var (
	errV6Short   = fieldErr("IPv6", "length", "shorter than 40 bytes")
	errV6Version = fieldErr("IPv6", "version", "is not 6")
	errV6Payload = fieldErr("IPv6", "payload_length", "beyond the frame")
)

// ParseIPv6 checks version and length, and returns the packet cut to its payload length.
func ParseIPv6(b []byte) (IPv6, error) {
	if len(b) < IPv6Len {
		return nil, errV6Short
	}
	if b[0]>>4 != 6 {
		return nil, errV6Version
	}
	n := IPv6Len + int(u16(b, 4))
	if n > len(b) {
		return nil, errV6Payload
	}
	return IPv6(b[:n:n]), nil
}

// HeaderLen returns 40: extension headers count as payload.
func (p IPv6) HeaderLen() int { return IPv6Len }

// TotalLen returns the bytes of header and payload as written in the header.
func (p IPv6) TotalLen() int { return IPv6Len + int(u16(p, 4)) }

// SetTotalLen writes the payload length that makes header and payload n bytes.
func (p IPv6) SetTotalLen(n int) { put16(p, 4, uint16(n-IPv6Len)) }

// FlowLabel returns the 20-bit flow label.
func (p IPv6) FlowLabel() uint32 { return u32(p, 0) & 0xFFFFF }

// HopLimit returns the hop limit.
func (p IPv6) HopLimit() uint8 { return p[7] }

// TTL is HopLimit by its IPv4 name.
func (p IPv6) TTL() uint8 { return p[7] }

// Proto returns the next header number.
func (p IPv6) Proto() uint8 { return p[6] }

// DSCP returns the 6-bit code point.
func (p IPv6) DSCP() uint8 { return uint8(u16(p, 0)>>6) & 0x3F }

// ECN returns the 2-bit ECN field.
func (p IPv6) ECN() uint8 { return p[1] >> 4 & 3 }

// SetDSCP writes the code point.
func (p IPv6) SetDSCP(v uint8) { put16(p, 0, u16(p, 0)&0xF03F|uint16(v&0x3F)<<6) }

// SetECN writes the ECN field.
func (p IPv6) SetECN(v uint8) { p[1] = p[1]&0xCF | v&3<<4 }

// DecHopLimit takes one off the hop limit. It returns false, and leaves the packet alone, if it is 0 or 1.
func (p IPv6) DecHopLimit() bool {
	if p[7] <= 1 {
		return false
	}
	p[7]--
	return true
}

// Src returns the source address.
func (p IPv6) Src() netip.Addr { return netip.AddrFrom16(p.Src16()) }

// Dst returns the destination address.
func (p IPv6) Dst() netip.Addr { return netip.AddrFrom16(p.Dst16()) }

// Src16 returns the source address as bytes.
func (p IPv6) Src16() [16]byte { return [16]byte(p[8:24]) }

// Dst16 returns the destination address as bytes.
func (p IPv6) Dst16() [16]byte { return [16]byte(p[24:40]) }

// Payload returns what follows the 40 bytes, up to the end of the view.
func (p IPv6) Payload() []byte { return p[IPv6Len:] }
