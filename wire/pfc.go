package wire

import "encoding/binary"

// MAC control opcodes (IEEE 802.3 annex 31).
const (
	opPause uint16 = 0x0001 // whole link
	opPFC   uint16 = 0x0101 // by priority
)

// PFCDst is where PAUSE and PFC frames go: the far end of the link and no further.
var PFCDst = MAC{0x01, 0x80, 0xC2, 0, 0, 1}

// QuantumBits is the unit of pause times, in bit times of the link.
const QuantumBits = 512

// Pause is what a PAUSE or PFC frame says: Quanta[i] counts for the priorities i whose bit is set in Enabled.
// A PAUSE frame enables all eight with one time.
type Pause struct {
	Enabled uint8
	Quanta  [8]uint16 // 0: go on
}

const pfcLen = EthLen + 2 + 2 + 8*2

// AppendPFC writes a PFC frame of 60 bytes (IEEE 802.1Qbb).
func AppendPFC(dst []byte, src MAC, p *Pause) []byte {
	at := len(dst)
	dst = AppendEth(dst, PFCDst, src, EtherMACControl)
	dst = binary.BigEndian.AppendUint16(dst, opPFC)
	dst = binary.BigEndian.AppendUint16(dst, uint16(p.Enabled))
	for _, q := range p.Quanta {
		dst = binary.BigEndian.AppendUint16(dst, q)
	}
	for len(dst) < at+60 {
		dst = append(dst, 0)
	}
	return dst
}

// ParsePause reads a PAUSE or PFC frame; false if the frame is neither.
func ParsePause(frame []byte) (p Pause, ok bool) {
	if len(frame) < EthLen+4 || Eth(frame).Type() != EtherMACControl {
		return p, false
	}
	switch binary.BigEndian.Uint16(frame[EthLen:]) {
	case opPause:
		p.Enabled = 0xFF
		for i := range p.Quanta {
			p.Quanta[i] = binary.BigEndian.Uint16(frame[EthLen+2:])
		}
		return p, true
	case opPFC:
		if len(frame) < pfcLen {
			return p, false
		}
		p.Enabled = frame[EthLen+3]
		for i := range p.Quanta {
			p.Quanta[i] = binary.BigEndian.Uint16(frame[EthLen+4+2*i:])
		}
		return p, true
	}
	return p, false
}
