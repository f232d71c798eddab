package wire

import "net/netip"

// FEPAddrLen is the size of a FEP address in the lab's serialization.
const FEPAddrLen = 32

// FEPFlags say what of a FEP address is valid (uet-wire 12).
type FEPFlags uint8

// FEP address flags.
const (
	FEPCapsValid      FEPFlags = 0x01
	FEPAddressValid   FEPFlags = 0x02
	FEPPIDValid       FEPFlags = 0x04
	FEPRIValid        FEPFlags = 0x08
	FEPInitiatorValid FEPFlags = 0x10
	FEPAbsolute       FEPFlags = 0x20 // absolute addressing; else relative
	FEPIPv6           FEPFlags = 0x40
	FEPOneMTU         FEPFlags = 0x80 // messages are limited to one MTU
)

// FEPCaps are the profiles and abilities of a FEP (uet-wire 12).
type FEPCaps uint16

// FEP capabilities.
const (
	FEPAIBase    FEPCaps = 0x01
	FEPAIFull    FEPCaps = 0x02
	FEPHPC       FEPCaps = 0x04 // RUDI may be used only with such a peer
	FEPInOrder   FEPCaps = 0x40
	FEPOptimized FEPCaps = 0x80 // takes the SMALL header
)

var (
	errFEPShort    = fieldErr("FEP address", "length", "shorter than 32 bytes")
	errFEPVersion  = fieldErr("FEP address", "version", "is not 0")
	errFEPReserved = fieldErr("FEP address", "reserved", "bits are set")
	errFEPAddress  = fieldErr("FEP address", "address", "is IPv4, but octets follow it")
)

// FEPAddr is the address of a FEP's endpoint, which goes out of band, never on the wire. Version is always 0.
type FEPAddr struct {
	Flags     FEPFlags // FEPIPv6 follows Address
	Caps      FEPCaps
	Address   netip.Addr
	PIDonFEP  uint16 // 12 bits
	StartRI   uint16 // 12 bits
	NumRI     uint16 // 12 bits
	Initiator uint32
}

// ParseFEPAddr reads an address from the first 32 bytes of b. Anything reserved that is set is an error: there are no
// later versions whose bits one could ignore.
func ParseFEPAddr(b []byte) (FEPAddr, error) {
	if len(b) < FEPAddrLen {
		return FEPAddr{}, errFEPShort
	}
	a := FEPAddr{Flags: FEPFlags(b[1]), Caps: FEPCaps(u16(b, 2)), PIDonFEP: u16(b, 20), StartRI: u16(b, 22), NumRI: u16(b, 24),
		Initiator: u32(b, 28)}
	switch {
	case b[0]>>4 != 0:
		return FEPAddr{}, errFEPVersion
	case b[0] != 0 || (a.PIDonFEP|a.StartRI|a.NumRI)&0xF000 != 0 || u16(b, 26) != 0:
		return FEPAddr{}, errFEPReserved
	case a.Flags&FEPIPv6 != 0:
		a.Address = netip.AddrFrom16([16]byte(b[4:20]))
	case u64(b, 8)|uint64(u32(b, 16)) != 0:
		return FEPAddr{}, errFEPAddress
	default:
		a.Address = netip.AddrFrom4([4]byte(b[4:8]))
	}
	return a, nil
}

// AppendFEPAddr writes the 32 bytes. An Address that is not set is written as IPv4 zeros; clear FEPAddressValid with it.
func AppendFEPAddr(dst []byte, a *FEPAddr) []byte {
	dst, b := grow(dst, FEPAddrLen)
	b[1] = byte(a.Flags &^ FEPIPv6)
	put16(b, 2, uint16(a.Caps))
	switch {
	case a.Address.Is4():
		*(*[4]byte)(b[4:]) = a.Address.As4()
	case a.Address.IsValid():
		*(*[16]byte)(b[4:]) = a.Address.As16()
		b[1] |= byte(FEPIPv6)
	}
	put16(b, 20, a.PIDonFEP&0x0FFF)
	put16(b, 22, a.StartRI&0x0FFF)
	put16(b, 24, a.NumRI&0x0FFF)
	put32(b, 28, a.Initiator)
	return dst
}
