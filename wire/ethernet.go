package wire

import (
	"encoding/hex"
	"fmt"
)

// MAC is an Ethernet address.
type MAC [6]byte

// Broadcast is the address of all stations.
var Broadcast = MAC{0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF}

// String prints the address as six hex pairs with colons.
func (m MAC) String() string {
	var out [17]byte
	for i, b := range m {
		hex.Encode(out[i*3:], []byte{b})
		if i < 5 {
			out[i*3+2] = ':'
		}
	}
	return string(out[:])
}

// EtherType says what follows an Ethernet header.
type EtherType uint16

// EtherTypes uetlab meets.
const (
	EtherIPv4        EtherType = 0x0800
	EtherARP         EtherType = 0x0806
	EtherVLAN        EtherType = 0x8100
	EtherQinQ        EtherType = 0x88A8
	EtherIPv6        EtherType = 0x86DD
	EtherMACControl  EtherType = 0x8808 // CC_Update of CBFC
	EtherExperiment  EtherType = 0x88B5 // link control ordered sets (LLR, CBFC)
	EtherLLDP        EtherType = 0x88CC
	ethTagsTolerated           = 2 // uet-wire 1: up to two 802.1Q tags
)

// String names the type, or prints the number.
func (t EtherType) String() string {
	switch t {
	case EtherIPv4:
		return "IPv4"
	case EtherARP:
		return "ARP"
	case EtherVLAN:
		return "802.1Q"
	case EtherQinQ:
		return "802.1ad"
	case EtherIPv6:
		return "IPv6"
	case EtherMACControl:
		return "MAC_CONTROL"
	case EtherExperiment:
		return "LINK_CONTROL"
	case EtherLLDP:
		return "LLDP"
	case EtherCSIG:
		return "CSIG"
	case EtherCSIGWide:
		return "CSIG_WIDE"
	}
	return fmt.Sprintf("0x%04x", uint16(t))
}

// Eth is a view of a frame that begins with an Ethernet II header.
type Eth []byte

var errEthShort = fieldErr("Ethernet", "length", "shorter than 14 bytes")

// ParseEth returns the 14-byte header of a frame.
func ParseEth(b []byte) (Eth, error) {
	if len(b) < EthLen {
		return nil, errEthShort
	}
	return Eth(b[:EthLen:EthLen]), nil
}

// Dst returns the destination address.
func (e Eth) Dst() MAC { return MAC(e[0:6]) }

// Src returns the source address.
func (e Eth) Src() MAC { return MAC(e[6:12]) }

// SetDst writes the destination address.
func (e Eth) SetDst(m MAC) { *(*MAC)(e[0:6]) = m }

// SetSrc writes the source address.
func (e Eth) SetSrc(m MAC) { *(*MAC)(e[6:12]) = m }

// Type returns the EtherType at offset 12, which is that of a tag if there is one.
func (e Eth) Type() EtherType { return EtherType(u16(e, 12)) }

// SetType writes the EtherType.
func (e Eth) SetType(t EtherType) { put16(e, 12, uint16(t)) }

// AppendEth writes an Ethernet II header.
func AppendEth(dst []byte, to, from MAC, t EtherType) []byte {
	dst = append(dst, to[:]...)
	dst = append(dst, from[:]...)
	return append(dst, byte(t>>8), byte(t))
}

// VLANTag is the contents of one 802.1Q tag.
type VLANTag struct {
	PCP uint8  // priority, 0..7
	DEI bool   // drop eligible
	VID uint16 // 12 bits
}

// VLANTagOf takes a tag control word apart.
func VLANTagOf(tci uint16) VLANTag {
	return VLANTag{PCP: uint8(tci >> 13), DEI: tci&0x1000 != 0, VID: tci & 0x0FFF}
}

// TCI returns the tag control word.
func (t VLANTag) TCI() uint16 {
	return uint16(t.PCP&7)<<13 | uint16(bit(t.DEI, 0x10))<<8 | t.VID&0x0FFF
}

// AppendVLAN writes a tag behind an Ethernet header (or tag) whose type is EtherVLAN or EtherQinQ; next is the type of what
// follows.
func AppendVLAN(dst []byte, tag VLANTag, next EtherType) []byte {
	w := tag.TCI()
	return append(dst, byte(w>>8), byte(w), byte(next>>8), byte(next))
}

// Network returns the EtherType and the bytes behind the Ethernet header, looking through a CSIG tag with the lab's TPIDs and
// up to two 802.1Q tags behind it.
func Network(frame []byte) (EtherType, []byte, error) {
	if len(frame) < EthLen {
		return 0, nil, errEthShort
	}
	t, rest := EtherType(u16(frame, 12)), frame[EthLen:]
	if t == EtherIPv4 || t == EtherIPv6 {
		return t, rest, nil
	}
	if t == EtherCSIG || t == EtherCSIGWide {
		n := len(CSIGTag(frame, EtherCSIG, EtherCSIGWide))
		if n == 0 {
			return 0, nil, errCSIGShort
		}
		t, rest = EtherType(u16(rest, n-2)), rest[n:]
	}
	for i := 0; i < ethTagsTolerated && (t == EtherVLAN || t == EtherQinQ); i++ {
		if len(rest) < VLANLen {
			return 0, nil, errEthShort
		}
		t, rest = EtherType(u16(rest, 2)), rest[VLANLen:]
	}
	return t, rest, nil
}

// LineBytes returns what a frame of frameLen bytes (without link trailer) takes on the line: padded to 60, with 4 bytes
// FCS, 8 preamble and 12 gap.
func LineBytes(frameLen int) int { return max(frameLen, 60) + 4 + 8 + 12 }
