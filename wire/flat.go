package wire

import (
	"encoding/hex"
	"strconv"
)

// FlatField is one decoded field. Value is a uint64, or a string: hex for octets, text for addresses.
type FlatField struct {
	Name  string
	Value any
}

type fieldList struct {
	prefix string
	list   []FlatField
}

func (l *fieldList) num(name string, v uint64) {
	l.list = append(l.list, FlatField{l.prefix + name, v})
}

func (l *fieldList) flag(name string, v bool) { l.num(name, uint64(bit(v, 1))) }

func (l *fieldList) hex(name string, b []byte) {
	if len(b) > 0 {
		l.list = append(l.list, FlatField{l.prefix + name, hex.EncodeToString(b)})
	}
}

// table reads all fields that header h has.
func (l *fieldList) table(t *HeaderTable, h []byte) {
	if t == nil {
		return
	}
	for i := range t.Fields {
		if f := &t.Fields[i]; f.Kind != KindReserved && f.Present(h) {
			l.list = append(l.list, FlatField{l.prefix + f.Name, f.Value(h)})
		}
	}
}

// nth reads the header that is the i-th of its kind in the packet; all but the first have their number before the name.
func (l *fieldList) nth(i int, t *HeaderTable, h []byte) {
	before := l.prefix
	if i > 0 {
		l.prefix += strconv.Itoa(i) + "."
	}
	l.table(t, h)
	l.prefix = before
}

// Flat returns all fields in the order of the packet, under the names of the packet vectors: "pds.psn", "ses.opcode". It
// reads them through Tables; a signed field is given as its unsigned bits. Fields of an unsealed packet begin with
// "inner."; of several headers of one kind (tags, ordered sets, TLVs) the second has its fields under "1.", and so on.
func (p *Packet) Flat() []FlatField {
	var l fieldList
	l.table(tabEth, p.Eth)
	if p.CSIG != nil {
		l.table(p.csigTable())
	}
	if p.Eth != nil {
		for i := range p.Tags {
			off := EthLen + len(p.CSIG) + i*VLANLen
			l.nth(i, tabVLAN, p.Frame[off:off+VLANLen])
		}
	}
	l.table(tabIPv4, p.IPv4)
	l.table(tabIPv6, p.IPv6)
	l.table(tabUDP, p.UDP)
	l.table(tabEntropy, p.entropy)
	p.flatUET(&l)
	p.flatLink(&l)
	l.table(tabCRC, p.crc)
	l.table(tabTrailer, p.Trailer)
	return l.list
}

func (p *Packet) flatUET(l *fieldList) {
	if p.TSS == nil {
		b := p.pdsHeader()
		if b != nil {
			l.table(pdsTable(p.PDS), b)
		}
		p.SES.flat(l)
		return
	}
	l.table(tabTSS, p.TSS)
	if p.Inner != nil {
		in := fieldList{prefix: "inner.", list: l.list}
		p.Inner.flatUET(&in)
		l.list = in.list
		return
	}
	body := p.Sealed
	if n := len(body) - ICVLen; !p.cut() && n >= 0 {
		l.hex("tss.ciphertext", body[:n])
		l.hex("tss.icv", body[n:])
		return
	}
	l.hex("tss.ciphertext", body)
}

// pdsHeader returns the bytes of the PDS header, nil if there is none.
func (p *Packet) pdsHeader() []byte {
	for _, v := range [...][]byte{p.Request, p.Ack, p.Nack, p.Ctrl, p.RUDI, p.UUD} {
		if v != nil {
			return v
		}
	}
	return nil
}

// pdsTables and sesTables find a table by pds.type and pds.next_hdr.
var pdsTables, sesTables = tablesBy("pds"), tablesBy("ses")

func tablesBy(layer string) (by [32]*HeaderTable) {
	for _, t := range allTables {
		if t.Layer == layer {
			for _, c := range t.Codes {
				by[c] = t
			}
		}
	}
	return by
}

func pdsTable(t PDSType) *HeaderTable { return pdsTables[t&31] }

func sesTable(n NextHdr) *HeaderTable { return sesTables[n&15] }

func (s *SES) flat(l *fieldList) {
	if len(s.Header) == 0 {
		return
	}
	l.table(sesTable(s.Next), s.Header)
	if len(s.Ext) > 0 {
		l.table(s.extTable(), s.Ext)
	}
	l.hex("payload", s.Payload)
}

// extTable returns the table of the extension that the request's opcode calls for.
func (s *SES) extTable() *HeaderTable {
	if SESHead(s.Header).Opcode().IsRendezvous() {
		return tabRendezvous
	}
	return tabAtomic
}
