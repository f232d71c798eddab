package wire

import (
	"encoding/hex"
	"net/netip"
)

// Kind says how the value of a field is to be read and shown.
type Kind uint8

// Kinds of fields.
const (
	KindUint     Kind = iota // a number, two's complement if Signed
	KindEnum                 // a code point of the enumeration Enum
	KindFlags                // a set of bits; Enum lists the masks
	KindBytes                // octets, shown in hex
	KindMAC                  // an Ethernet address
	KindIP                   // an IPv4 or IPv6 address
	KindReserved             // bits that are sent as 0 and ignored on receipt; Packet.Flat leaves them out
)

// Cond is a condition on the bits of the same header: they hold one of the values In, or none of them if Not.
type Cond struct {
	Off, Bits int // bit offset in the header and width, as in Field
	In        []uint64
	Not       bool
}

// Field is the place of one field in its header. Bit 0 is the most significant bit of the first octet.
type Field struct {
	Name         string // as in the packet vectors: "pds.psn"
	Off          int    // bit offset in the header
	Bits         int    // width; 0: octets up to the end of the header
	Kind         Kind
	Signed       bool   // two's complement; Packet.Flat gives the unsigned bits
	LittleEndian bool   // octets in reverse, whole octets only
	Enum         string // key of Enums, for KindEnum and KindFlags
	Doc          string
	When         []Cond // the field is there only if all of them hold; nil: always
}

// HeaderTable describes a header: which bits mean what. Packet.Flat reads packets through these tables, and tests hold
// the accessors of the views to them.
//
// Layer groups the headers that stand in one place of a packet, and Codes are the code points that choose among them:
// "csig", "vlan" and "ip" by EtherType, "udp" by the protocol of IP, "tss" and "pds" by pds.type, "ses" by pds.next_hdr, "ext" by
// ses.opcode, "ctlos" by ctlos.type, "mac_control" by mac.opcode, "lldp" by lldp.type, "lldp_ue" by lldp.subtype where
// lldp.oui is UECID. "eth", "entropy", "prologue", "crc", "trailer", "lldp_vc" (what follows the CBFC receiver TLV's
// Bytes, once for each VC) and "fep_address" have one header each. A table without Codes in a layer with others stands for
// code points that are not known.
type HeaderTable struct {
	Name   string // in the standard's words where it has one: "ACK_CC", "REQUEST_STD"
	Layer  string
	Codes  []uint64
	Bytes  int     // size without variable and conditional parts
	Fields []Field // in the order of the packet; they may overlap where conditions part them, or one is part of another
}

// Tables returns the tables of all headers of uet-wire, of the link control frames and of the lab's own formats, in the
// order of a packet from the outside in. The caller must not change their Fields.
func Tables() []HeaderTable {
	list := make([]HeaderTable, len(allTables))
	for i, t := range allTables {
		list[i] = *t
	}
	return list
}

var allTables = []*HeaderTable{
	tabEth, tabCSIG, tabCSIGWide, tabVLAN, tabIPv4, tabIPv6, tabUDP, tabEntropy, tabTSS, tabPrologue, tabRequest, tabRequestCC, tabAck, tabAckCC,
	tabAckCCX, tabNack, tabNackCCX, tabCtrl, tabRUDI, tabUUD, tabSmall, tabMedium, tabStd, tabResponse, tabResponseData,
	tabResponseDataSmall, tabRendezvous, tabAtomic, tabCRC, tabTrailer, tabCtlOS, tabLLRSeq, tabLLRInit, tabCFUpdate, tabCCUpdate,
	tabLLDPTLV, tabLLDPChassis, tabLLDPPort, tabLLDPTTL, tabLLDPOrg, tabUEOptions, tabUECBFC, tabUECBFCVC, tabFEPAddr,
}

// Holds reports whether the condition holds in header h; bits that h does not have fulfil nothing.
func (c *Cond) Holds(h []byte) bool {
	if c.Off+c.Bits > len(h)*8 {
		return false
	}
	v := readBits(h, c.Off, c.Bits)
	for _, w := range c.In {
		if v == w {
			return !c.Not
		}
	}
	return c.Not
}

// Present reports whether header h has the field: it lies within h and its conditions hold.
func (f *Field) Present(h []byte) bool {
	if f.Off+f.Bits > len(h)*8 || f.Bits == 0 && f.Off >= len(h)*8 {
		return false
	}
	for i := range f.When {
		if !f.When[i].Holds(h) {
			return false
		}
	}
	return true
}

// Uint reads a field of up to 64 bits that is Present. A Signed field comes as its unsigned bits.
func (f *Field) Uint(h []byte) uint64 {
	v := readBits(h, f.Off, f.Bits)
	if !f.LittleEndian {
		return v
	}
	var r uint64
	for n := f.Bits; n > 0; n -= 8 {
		r, v = r<<8|v&0xFF, v>>8
	}
	return r
}

// Octets returns the bytes of a KindBytes, KindMAC or KindIP field that is Present.
func (f *Field) Octets(h []byte) []byte {
	if f.Bits == 0 {
		return h[f.Off/8:]
	}
	return h[f.Off/8 : (f.Off+f.Bits)/8]
}

// Value reads a field that is Present: a uint64, or a string for octets (hex) and addresses (text).
func (f *Field) Value(h []byte) any {
	switch f.Kind {
	case KindBytes:
		return hex.EncodeToString(f.Octets(h))
	case KindMAC:
		return MAC(f.Octets(h)).String()
	case KindIP:
		a, _ := netip.AddrFromSlice(f.Octets(h))
		return a.String()
	}
	return f.Uint(h)
}

// readBits reads up to 64 bits that lie within 8 octets.
func readBits(h []byte, off, bits int) uint64 {
	var v uint64
	end := off + bits
	for i := off / 8; i < (end+7)/8; i++ {
		v = v<<8 | uint64(h[i])
	}
	v >>= (8 - end%8) % 8
	if bits < 64 {
		v &= 1<<bits - 1
	}
	return v
}

// Makers of fields; their names are short because the tables are long.

func num(name string, off, bits int, doc string) Field {
	return Field{Name: name, Off: off, Bits: bits, Doc: doc}
}

func signed(name string, off, bits int, doc string) Field {
	return Field{Name: name, Off: off, Bits: bits, Signed: true, Doc: doc}
}

func enum(name string, off, bits int, of, doc string) Field {
	return Field{Name: name, Off: off, Bits: bits, Kind: KindEnum, Enum: of, Doc: doc}
}

func flags(name string, off, bits int, of, doc string) Field {
	return Field{Name: name, Off: off, Bits: bits, Kind: KindFlags, Enum: of, Doc: doc}
}

func octets(name string, off, bits int, doc string) Field {
	return Field{Name: name, Off: off, Bits: bits, Kind: KindBytes, Doc: doc}
}

func little(name string, off, bits int, doc string) Field {
	return Field{Name: name, Off: off, Bits: bits, LittleEndian: true, Doc: doc}
}

func reserved(name string, off, bits int) Field {
	return Field{Name: name, Off: off, Bits: bits, Kind: KindReserved, Doc: "reserved, 0"}
}

// when adds conditions to a field.
func (f Field) when(c ...Cond) Field {
	f.When = append(f.When[:len(f.When):len(f.When)], c...)
	return f
}

func isIn(off, bits int, values ...uint64) Cond { return Cond{Off: off, Bits: bits, In: values} }
func notIn(off, bits int, values ...uint64) Cond {
	return Cond{Off: off, Bits: bits, In: values, Not: true}
}

func join(parts ...[]Field) (all []Field) {
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}
