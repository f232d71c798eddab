package wire

// Capabilities of a system as the System Capabilities TLV of LLDP has them (IEEE 802.1AB 8.5.8).
const (
	LLDPCapBridge  = 0x0004
	LLDPCapRouter  = 0x0010
	LLDPCapStation = 0x0080
)

// Subtypes of management addresses, which are IANA's address families.
const (
	lldpFamilyIPv4 = 1
	lldpFamilyIPv6 = 2
	lldpIfIndex    = 2
)

// Capabilities returns what a system can do and what of it is enabled, from a System Capabilities TLV; 0 for other types.
func (t TLV) Capabilities() (can, enabled uint16) {
	if t.Type() != LLDPSysCap || len(t) < 6 {
		return 0, 0
	}
	return u16(t, 2), u16(t, 4)
}

// AppendLLDPCapabilities writes a System Capabilities TLV.
func AppendLLDPCapabilities(dst []byte, can, enabled uint16) []byte {
	return append(dst, byte(LLDPSysCap)<<1, 4, byte(can>>8), byte(can), byte(enabled>>8), byte(enabled))
}

// Management returns the IPv4 or IPv6 address and the interface number of a Management Address TLV; addr is nil for addresses of other
// families, TLVs that are too short, and other types.
func (t TLV) Management() (addr []byte, ifIndex uint32) {
	if t.Type() != LLDPManagement || len(t) < 4 {
		return nil, 0
	}
	n := int(t[2]) // subtype and address
	if fits := n == 5 && t[3] == lldpFamilyIPv4 || n == 17 && t[3] == lldpFamilyIPv6; !fits || len(t) < 3+n+6 {
		return nil, 0
	}
	return t[4 : 3+n : 3+n], u32(t, 3+n+1)
}

// AppendLLDPManagement writes a Management Address TLV: 4 bytes of IPv4 or 16 of IPv6, and the interface's number.
func AppendLLDPManagement(dst, addr []byte, ifIndex uint32) []byte {
	family := byte(lldpFamilyIPv4)
	if len(addr) == 16 {
		family = lldpFamilyIPv6
	}
	dst = append(dst, byte(LLDPManagement)<<1, byte(len(addr)+8), byte(len(addr)+1), family)
	dst = append(dst, addr...)
	return append(dst, lldpIfIndex, byte(ifIndex>>24), byte(ifIndex>>16), byte(ifIndex>>8), byte(ifIndex), 0)
}
