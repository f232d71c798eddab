package wire

import (
	"encoding/binary"
	"hash/crc32"
)

// The UET CRC (uet-wire 14) is CRC-32C over the IP source address up to the last payload byte, stored least significant
// byte first. TTL, DSCP, ECN and the IP lengths lie outside; the UDP length lies inside, and counts the 4 bytes.

// crcStart returns the offset of the IP source address, 0 if b is no IP packet.
func crcStart(b []byte) int {
	switch {
	case len(b) >= IPv4Len && b[0]>>4 == 4:
		return 12
	case len(b) >= IPv6Len && b[0]>>4 == 6:
		return 8
	}
	return 0
}

// UETCRC returns the CRC of an IP packet (version 4 or 6) that does not yet carry it, but whose UDP length counts it.
func UETCRC(ipPacketWithoutCRC []byte) uint32 {
	return crc32.Checksum(ipPacketWithoutCRC[crcStart(ipPacketWithoutCRC):], castagnoli)
}

// AppendUETCRC adds the 4-byte CRC to a frame laid down by AppendUDPFrame and does the work of FinishUDP.
func AppendUETCRC(frame []byte) []byte {
	frame, tail := grow(frame, CRCLen)
	if !FinishUDP(frame) {
		return frame
	}
	binary.LittleEndian.PutUint32(tail, UETCRC(frame[EthLen:len(frame)-CRCLen]))
	return frame
}

// CheckUETCRC reports whether an IP packet, cut to its length, ends in its right CRC. A trimmed packet has none.
func CheckUETCRC(ipPacket []byte) bool {
	n := len(ipPacket) - CRCLen
	if n < 0 || crcStart(ipPacket[:n]) == 0 {
		return false
	}
	return binary.LittleEndian.Uint32(ipPacket[n:]) == UETCRC(ipPacket[:n])
}
