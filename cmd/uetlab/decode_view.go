package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/uetlab/uetlab/wire"
)

// packetView is a decoded packet for programs.
type packetView struct {
	Index     int         `json:"index"` // from 1
	TimeNs    *int64      `json:"timeNs,omitempty"`
	Interface string      `json:"interface,omitempty"`
	Length    int         `json:"length"`   // on the wire, as the capture has it
	Captured  int         `json:"captured"` // bytes that are there
	Begins    string      `json:"begins"`   // frame | udp_payload | other
	Summary   string      `json:"summary"`
	Comment   string      `json:"comment,omitempty"`
	Layers    []layerView `json:"layers"`
	Derived   fieldList   `json:"derived,omitempty"`
	Errors    []faultView `json:"errors,omitempty"`
}

// layerView is one header, or payload.
type layerView struct {
	Name   string    `json:"name"`             // the prefix of its fields: "pds"
	Title  string    `json:"title"`            // in the standard's words: "RUD_REQ"
	Offset *int      `json:"offset,omitempty"` // in bytes from the start of the packet
	Length int       `json:"length,omitempty"`
	Fields fieldList `json:"fields"`
	Names  fieldList `json:"names,omitempty"` // of code points, by field
}

// faultView is one thing that is wrong.
type faultView struct {
	Layer   string `json:"layer,omitempty"`
	Field   string `json:"field,omitempty"`
	Offset  *int   `json:"offset,omitempty"` // in bytes from the start of the packet
	Value   string `json:"value,omitempty"`  // what stands there
	Message string `json:"message"`
}

// field is a name and a value: uint64, []uint64 or string.
type field struct {
	name  string
	value any
}

// fieldList is an object that keeps the order of its keys; a key that comes again makes an array of the values.
type fieldList []field

// MarshalJSON implements json.Marshaler.
func (l fieldList) MarshalJSON() ([]byte, error) {
	values := make(map[string][]any, len(l))
	for _, f := range l {
		values[f.name] = append(values[f.name], f.value)
	}
	b := []byte{'{'}
	for _, f := range l {
		all, ok := values[f.name]
		if !ok {
			continue // written with the first of its name
		}
		delete(values, f.name)
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(strconv.AppendQuote(b, f.name), ':')
		if n, ok := f.value.(uint64); ok && len(all) == 1 {
			b = strconv.AppendUint(b, n, 10)
			continue
		}
		var v any = all
		if len(all) == 1 {
			v = all[0]
		}
		text, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		b = append(b, text...)
	}
	return append(b, '}'), nil
}

// flat gives all fields under the names of the packet vectors.
func (d *decoded) flat() fieldList {
	l := fieldList{}
	for _, f := range d.p.Flat() {
		l = append(l, field{f.Name, f.Value})
	}
	return l
}

func (d *decoded) derived() (l fieldList) {
	for _, f := range d.p.Derived() {
		l = append(l, field{f.Name, f.Value})
	}
	return l
}

// faults gives what is wrong, the input first.
func (d *decoded) faults() (list []faultView) {
	if d.raw.foreign {
		list = append(list, faultView{Message: fmt.Sprintf("link type %d of the capture is not Ethernet", d.raw.link)})
	}
	if cut := d.raw.length - len(d.raw.data); cut > 0 {
		list = append(list, faultView{Message: fmt.Sprintf("the capture has %d of %d bytes", len(d.raw.data), d.raw.length)})
	}
	for _, err := range d.p.Errs {
		v := faultView{Message: strings.TrimPrefix(err.Error(), "wire: ")}
		var fe *wire.FieldError
		if errors.As(err, &fe) {
			v.Layer, v.Field, v.Value = fe.Header, fe.Field, fe.Value
			if fe.Off >= 0 {
				v.Offset = &fe.Off
			}
		}
		list = append(list, v)
	}
	return list
}

func (d *decoded) summary() string {
	if d.raw.foreign {
		return fmt.Sprintf("link type %d, %d bytes", d.raw.link, d.raw.length)
	}
	return d.p.Summary()
}

// view gives the packet as programs get it.
func (d *decoded) view() packetView {
	v := packetView{Index: d.n, Interface: d.raw.iface, Length: d.raw.length, Captured: len(d.raw.data), Begins: d.layer, Summary: d.summary(),
		Comment: d.raw.comment, Layers: d.layers(), Derived: d.derived(), Errors: d.faults()}
	if d.raw.timed {
		v.TimeNs = &d.raw.time
	}
	if d.raw.foreign {
		v.Begins = "other"
	}
	return v
}

// layers groups the fields by header.
func (d *decoded) layers() []layerView {
	places := d.places()
	list, at := []layerView{}, map[string]int{}
	for _, f := range d.flat() {
		name := d.layerOf(f.name)
		i, ok := at[name]
		if !ok {
			i = len(list)
			at[name] = i
			v := layerView{Name: name, Title: name}
			if s, ok := places[name]; ok {
				v.Title, v.Offset, v.Length = s.title, &s.offset, s.length
			}
			list = append(list, v)
		}
		list[i].Fields = append(list[i].Fields, f)
		if n := valueName(&d.p, f); n != "" {
			list[i].Names = append(list[i].Names, field{f.name, n})
		}
	}
	return list
}

// layerOf says to which layer a field belongs.
func (d *decoded) layerOf(name string) string {
	i := strings.LastIndexByte(name, '.')
	switch {
	case i >= 0 && name[:i] == "cc": // one header with mac
		return "mac"
	case i >= 0:
		return name[:i]
	case name == "ev" && d.p.UDP != nil:
		return "udp"
	case name == "ev":
		return "entropy"
	}
	return name
}

// place is where a layer lies.
type place struct {
	title          string
	offset, length int
}

// places lays the headers end to end, as they stand in the packet.
func (d *decoded) places() map[string]place {
	p, m, off := &d.p, map[string]place{}, 0
	add := func(name, title string, length int) {
		if length > 0 {
			m[name] = place{title, off, length}
			off += length
		}
	}
	if p.Eth != nil {
		add("eth", "Ethernet", wire.EthLen)
		add("csig", "CSIG tag", len(p.CSIG))
		for i := range p.Tags {
			add(nth(i, "vlan"), "802.1Q tag", wire.VLANLen)
		}
	}
	for i := range p.CtlOS.Len() {
		add(nth(i, "ctlos"), "control ordered set", wire.CtlOSLen)
	}
	add("mac", "CC_Update", len(p.CCUpdate))
	for i, t := range p.LLDP {
		add(nth(i, "lldp"), "LLDP TLV", len(t))
	}
	if p.IPv4 != nil {
		add("ip", "IPv4", p.IPv4.HeaderLen())
	} else if p.IPv6 != nil {
		add("ip", "IPv6", p.IPv6.HeaderLen())
	}
	if p.UDP != nil {
		add("udp", "UDP", wire.UDPLen)
	} else if p.Native {
		add("entropy", "entropy header", wire.EntropyLen)
	}
	add("tss", "TSS", len(p.TSS))
	if p.UET && p.TSS == nil {
		add("pds", p.PDS.String(), len(p.Request)+len(p.Ack)+len(p.Nack)+len(p.Ctrl)+len(p.RUDI)+len(p.UUD))
		add("ses", p.SES.Next.String(), len(p.SES.Header))
		add("ext", extTitle(p), len(p.SES.Ext))
		add("payload", "payload", len(p.SES.Payload))
		if p.CRC != wire.CRCNone {
			add("crc32c", "UET CRC", wire.CRCLen)
		}
	}
	off = len(p.Frame)
	add("trailer", "link trailer", len(p.Trailer))
	return m
}

// nth is the name of the i-th layer of its kind, as in wire.Packet.Flat.
func nth(i int, name string) string {
	if i == 0 {
		return name
	}
	return strconv.Itoa(i) + "." + name
}

func extTitle(p *wire.Packet) string {
	if len(p.SES.Header) > 0 && wire.SESHead(p.SES.Header).Opcode().IsRendezvous() {
		return "rendezvous extension"
	}
	return "atomic extension"
}
