package wire

import "net/netip"

// IPv4 is a view of a packet that begins with an IPv4 header; what is behind the header may be there or not.
type IPv4 []byte

var (
	errV4Short   = fieldErr("IPv4", "length", "shorter than 20 bytes")
	errV4Version = fieldErr("IPv4", "version", "is not 4")
	errV4IHL     = fieldErr("IPv4", "ihl", "below 5 words, or beyond the packet")
	errV4Total   = fieldErr("IPv4", "total_length", "below the header length, or beyond the frame")
	errV4Sum     = fieldErr("IPv4", "checksum", "does not fit the header")
)

// ParseIPv4 checks version and lengths, and returns the packet cut to its total length: Ethernet padding falls off. It
// does not check the checksum (see Validate).
func ParseIPv4(b []byte) (IPv4, error) {
	if len(b) < IPv4Len {
		return nil, errV4Short
	}
	if b[0]>>4 != 4 {
		return nil, errV4Version
	}
	hl := int(b[0]&0x0F) * 4
	if hl < IPv4Len || hl > len(b) {
		return nil, errV4IHL
	}
	n := int(u16(b, 2))
	if n < hl || n > len(b) {
		return nil, errV4Total
	}
	return IPv4(b[:n:n]), nil
}

// Validate reports a wrong header checksum.
func (p IPv4) Validate() error { return check(!p.ChecksumOK(), errV4Sum) }

// HeaderLen returns the header's bytes, options included.
func (p IPv4) HeaderLen() int { return int(p[0]&0x0F) * 4 }

// TotalLen returns the bytes of header and payload as written in the header.
func (p IPv4) TotalLen() int { return int(u16(p, 2)) }

// SetTotalLen writes the total length and corrects the checksum.
func (p IPv4) SetTotalLen(n int) { p.replace(2, uint16(n)) }

// ID returns the identification field.
func (p IPv4) ID() uint16 { return u16(p, 4) }

// Fragment reports whether the packet is a fragment, and the offset of its payload in bytes.
func (p IPv4) Fragment() (frag bool, offset int) {
	w := u16(p, 6)
	return w&0x3FFF != 0, int(w&0x1FFF) * 8
}

// TTL returns the time to live.
func (p IPv4) TTL() uint8 { return p[8] }

// Proto returns the protocol number of the payload.
func (p IPv4) Proto() uint8 { return p[9] }

// DSCP returns the 6-bit code point.
func (p IPv4) DSCP() uint8 { return p[1] >> 2 }

// ECN returns the 2-bit ECN field.
func (p IPv4) ECN() uint8 { return p[1] & 3 }

// SetDSCP writes the code point and corrects the checksum.
func (p IPv4) SetDSCP(v uint8) { p.replace(0, u16(p, 0)&0xFF03|uint16(v&0x3F)<<2) }

// SetECN writes the ECN field and corrects the checksum.
func (p IPv4) SetECN(v uint8) { p.replace(0, u16(p, 0)&0xFFFC|uint16(v&3)) }

// DecTTL takes one off the TTL and corrects the checksum. It returns false, and leaves the packet alone, if the TTL is 0
// or 1: such a packet is not to be forwarded.
func (p IPv4) DecTTL() bool {
	if p[8] <= 1 {
		return false
	}
	p.replace(8, u16(p, 8)-0x0100)
	return true
}

// Src returns the source address.
func (p IPv4) Src() netip.Addr { return netip.AddrFrom4([4]byte(p[12:16])) }

// Dst returns the destination address.
func (p IPv4) Dst() netip.Addr { return netip.AddrFrom4([4]byte(p[16:20])) }

// Src4 returns the source address as a number.
func (p IPv4) Src4() uint32 { return u32(p, 12) }

// Dst4 returns the destination address as a number.
func (p IPv4) Dst4() uint32 { return u32(p, 16) }

// Payload returns what follows header and options, up to the end of the view.
func (p IPv4) Payload() []byte { return p[p.HeaderLen():] }

// ChecksumOK reports whether the header checksum holds.
func (p IPv4) ChecksumOK() bool { return sum(0, p[:p.HeaderLen()]) == 0xFFFF }

// SetChecksum computes the header checksum afresh.
func (p IPv4) SetChecksum() {
	put16(p, 10, 0)
	put16(p, 10, ^sum(0, p[:p.HeaderLen()]))
}

// replace overwrites the 16-bit word at off and corrects the checksum by the difference (RFC 1624, equation 3), so that
// damage elsewhere in the header is still seen by the next hop.
func (p IPv4) replace(off int, v uint16) {
	s := uint32(^u16(p, 10)) + uint32(^u16(p, off)) + uint32(v)
	s = s&0xFFFF + s>>16
	s = s&0xFFFF + s>>16
	put16(p, off, v)
	put16(p, 10, ^uint16(s))
}

// sum folds b into the Internet checksum (RFC 1071) acc, not complemented.
func sum(acc uint32, b []byte) uint16 {
	s := uint64(acc)
	for len(b) >= 4 {
		s += uint64(u32(b, 0))
		b = b[4:]
	}
	if len(b) >= 2 {
		s += uint64(u16(b, 0))
		b = b[2:]
	}
	if len(b) == 1 {
		s += uint64(b[0]) << 8
	}
	for s > 0xFFFF {
		s = s&0xFFFF + s>>16
	}
	return uint16(s)
}
