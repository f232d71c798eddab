package cbfc

import "github.com/uetlab/uetlab/wire"

// Map selects the channel of a frame. Both ends of a link must have the same: the receiver's, which its TLV carries.
type Map struct {
	dscp [64]uint8
	pcp  [16]uint8 // by PCP and DEI, DEI being the lowest bit
	tags bool      // pcp selects something
}

// NewMap makes the map of a profile. Where several selectors match, the first one listed counts.
func NewMap(p *Profile) *Map {
	m := &Map{}
	for i := range m.dscp {
		m.dscp[i] = NoVC
	}
	for i := range m.pcp {
		m.pcp[i] = NoVC
	}
	for _, v := range p.VCs {
		table := m.dscp[:]
		if v.Map == wire.VCMapPCP {
			table, m.tags = m.pcp[:], true
		}
		for i := range table {
			if table[i] == NoVC && uint8(i)&v.Mask == v.Value {
				table[i] = v.Index
			}
		}
	}
	return m
}

// VC returns the channel of an Ethernet frame: by the PCP and DEI of its outermost VLAN tag if they select one, else by the
// DSCP of IPv4 or IPv6 behind the tags. Frames of other kinds, which link control is among, belong to none.
func (m *Map) VC(frame []byte) uint8 {
	tagged := false
	for off := 12; off+4 <= len(frame); {
		switch wire.EtherType(uint16(frame[off])<<8 | uint16(frame[off+1])) {
		case wire.EtherVLAN, wire.EtherQinQ:
			if vc := m.pcp[frame[off+2]>>4]; m.tags && !tagged && vc != NoVC {
				return vc
			}
			tagged = true
			off += 4
		case wire.EtherCSIG:
			off += wire.CSIGCompactLen
		case wire.EtherCSIGWide:
			off += wire.CSIGWideLen
		case wire.EtherIPv4:
			return m.dscp[frame[off+3]>>2]
		case wire.EtherIPv6:
			return m.dscp[frame[off+2]&0x0F<<2|frame[off+3]>>6]
		default:
			return NoVC
		}
	}
	return NoVC
}
