package wire

import (
	"encoding/binary"
	"hash/crc32"
)

// CRCForm says what the UET CRC covers and how it is stored. The zero value is that of uet-wire 14: CRC-32C over the IP
// source address up to the last payload byte, least significant byte first. TTL, DSCP, ECN and the IP lengths lie outside;
// the UDP length lies inside, and counts the 4 bytes.
type CRCForm struct {
	PayloadOnly bool // from behind the UDP or entropy header on, as one implementation has it
	BigEndian   bool // most significant byte first
}

// start returns the offset of the first byte covered, -1 if b is no IP packet or too short.
func (c CRCForm) start(b []byte) int {
	var addr, l4 int
	var proto uint8
	switch {
	case len(b) >= IPv4Len && b[0]>>4 == 4:
		addr, l4, proto = 12, int(b[0]&0x0F)*4, b[9]
	case len(b) >= IPv6Len && b[0]>>4 == 6:
		addr, l4, proto = 8, IPv6Len, b[6]
	default:
		return -1
	}
	if !c.PayloadOnly {
		return addr
	}
	if l4 += EntropyLen; proto == ProtoUDP {
		l4 += UDPLen - EntropyLen
	}
	if l4 > len(b) {
		return -1
	}
	return l4
}

func (c CRCForm) order() binary.ByteOrder {
	if c.BigEndian {
		return binary.BigEndian
	}
	return binary.LittleEndian
}

// Sum returns the CRC of an IP packet (version 4 or 6) that does not yet carry it, but whose UDP length counts it.
func (c CRCForm) Sum(ipPacketWithoutCRC []byte) uint32 {
	return crc32.Checksum(ipPacketWithoutCRC[max(c.start(ipPacketWithoutCRC), 0):], castagnoli)
}

// Append adds the 4-byte CRC to a frame laid down by AppendUDPFrame and does the work of FinishUDP.
func (c CRCForm) Append(frame []byte) []byte {
	frame, tail := grow(frame, CRCLen)
	if !FinishUDP(frame) {
		return frame
	}
	c.order().PutUint32(tail, c.Sum(frame[EthLen:len(frame)-CRCLen]))
	return frame
}

// Check reports whether an IP packet, cut to its length, ends in its right CRC. A trimmed packet has none.
func (c CRCForm) Check(ipPacket []byte) bool {
	n := len(ipPacket) - CRCLen
	if n < 0 || c.start(ipPacket[:n]) < 0 {
		return false
	}
	return c.order().Uint32(ipPacket[n:]) == c.Sum(ipPacket[:n])
}

// UETCRC is CRCForm.Sum in the form of uet-wire 14.
func UETCRC(ipPacketWithoutCRC []byte) uint32 { return CRCForm{}.Sum(ipPacketWithoutCRC) }

// SealUET writes the CRC, in the form of uet-wire 14, into the last 4 bytes of a frame whose IP header is complete.
func SealUET(frame []byte) {
	if _, ip, err := Network(frame); err == nil && len(ip) >= CRCLen {
		n := len(ip) - CRCLen
		CRCForm{}.order().PutUint32(ip[n:], UETCRC(ip[:n]))
	}
}

// AppendUETCRC is CRCForm.Append in the form of uet-wire 14.
func AppendUETCRC(frame []byte) []byte { return CRCForm{}.Append(frame) }

// CheckUETCRC is CRCForm.Check in the form of uet-wire 14.
func CheckUETCRC(ipPacket []byte) bool { return CRCForm{}.Check(ipPacket) }
