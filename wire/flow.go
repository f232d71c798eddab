package wire

import (
	"encoding/binary"
	"net/netip"
)

// FlowKey tells flows apart for ECMP: source address (16 bytes, IPv4 left-aligned), destination address (16), source port
// (2), destination port (2), protocol (1), IP version (1), two zero bytes. It is comparable and its bytes may be hashed.
// What a switch or marker changes on the way (DSCP, ECN, TTL, length) is not in it.
type FlowKey [40]byte

const portsTCP = 4 // bytes of the ports at the start of TCP and UDP

// Flow returns the key of an IP packet. Ports are those of UDP and TCP; a native UET packet (protocol 253) gives its
// entropy value as the source port and 0 as the other; fragments and everything else have ports 0, so that all fragments
// of a packet take one path. It returns false for what is not IP or too short.
func Flow(ipPacket []byte) (k FlowKey, ok bool) {
	if len(ipPacket) < IPv4Len {
		return k, false
	}
	var l4 []byte
	switch ipPacket[0] >> 4 {
	case 4:
		hl := int(ipPacket[0]&0x0F) * 4
		if hl < IPv4Len || hl > len(ipPacket) {
			return k, false
		}
		*(*[4]byte)(k[0:]), *(*[4]byte)(k[16:]) = [4]byte(ipPacket[12:16]), [4]byte(ipPacket[16:20])
		k[36], k[37] = ipPacket[9], 4
		if u16(ipPacket, 6)&0x3FFF == 0 {
			l4 = ipPacket[hl:]
		}
	case 6:
		if len(ipPacket) < IPv6Len {
			return k, false
		}
		*(*[32]byte)(k[0:]) = [32]byte(ipPacket[8:40])
		k[36], k[37] = ipPacket[6], 6
		l4 = ipPacket[IPv6Len:]
	default:
		return k, false
	}
	if len(l4) >= portsTCP {
		switch k[36] {
		case ProtoUDP, ProtoTCP:
			*(*[4]byte)(k[32:]) = [4]byte(l4)
		case ProtoNative:
			*(*[2]byte)(k[32:]) = [2]byte(l4)
		}
	}
	return k, true
}

// Words returns the key as five little-endian 64-bit words, for hashes that eat words.
func (k *FlowKey) Words() (w [5]uint64) {
	for i := range w {
		w[i] = binary.LittleEndian.Uint64(k[i*8:])
	}
	return w
}

// Src returns the source address, the zero Addr for the zero key.
func (k *FlowKey) Src() netip.Addr { return k.addr(0) }

// Dst returns the destination address.
func (k *FlowKey) Dst() netip.Addr { return k.addr(16) }

func (k *FlowKey) addr(off int) netip.Addr {
	switch k[37] {
	case 4:
		return netip.AddrFrom4([4]byte(k[off : off+4]))
	case 6:
		return netip.AddrFrom16([16]byte(k[off : off+16]))
	}
	return netip.Addr{}
}

// SrcPort returns the source port or entropy value.
func (k *FlowKey) SrcPort() uint16 { return u16(k[:], 32) }

// DstPort returns the destination port.
func (k *FlowKey) DstPort() uint16 { return u16(k[:], 34) }

// Proto returns the IP protocol number.
func (k *FlowKey) Proto() uint8 { return k[36] }
