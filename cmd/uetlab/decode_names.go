package main

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/uetlab/uetlab/wire"
)

// tableField is a field of a header that the wire package describes.
type tableField struct {
	*wire.Field
	layer string
	codes []uint64
}

// codebook has the described fields by name, and the names of code points by enumeration. It is made when first needed:
// the nodes of a lab run this binary too.
var codebook = sync.OnceValue(func() (b struct {
	fields map[string][]tableField
	enums  map[string][]wire.EnumValue
}) {
	b.fields, b.enums = map[string][]tableField{}, wire.Enums()
	for _, t := range wire.Tables() {
		for i := range t.Fields {
			f := &t.Fields[i]
			b.fields[f.Name] = append(b.fields[f.Name], tableField{f, t.Layer, t.Codes})
		}
	}
	return b
})

// bareName is a field's name without the marks of unsealed packets and of headers that come again, as in "1.vlan.vid".
func bareName(name string) string {
	name = strings.TrimPrefix(name, "inner.")
	for {
		n, rest, ok := strings.Cut(name, ".")
		if _, err := strconv.Atoi(n); !ok || err != nil {
			return name
		}
		name = rest
	}
}

// described finds the description of a field of p, nil where there is none.
func described(p *wire.Packet, name string) *wire.Field {
	for _, f := range codebook().fields[bareName(name)] {
		switch {
		case f.layer == "prologue": // says less of its fields than the headers that begin with it
		case f.layer == "pds" && !slices.Contains(f.codes, uint64(p.PDS)):
		case f.layer == "ses" && !slices.Contains(f.codes, uint64(p.SES.Next)):
		default:
			return f.Field
		}
	}
	return nil
}

// valueName names a code point, or the flags that are set, in the standard's words; "" where there is no name to give.
func valueName(p *wire.Packet, f field) string {
	v, ok := f.value.(uint64)
	if !ok {
		return lldpText(f)
	}
	if bareName(f.name) == "ip.proto" {
		if p.Native {
			return "UET"
		}
		return protocols[v]
	}
	d := described(p, f.name)
	if d == nil || d.Enum == "" {
		return ""
	}
	values := codebook().enums[d.Enum]
	if d.Kind == wire.KindFlags {
		return setFlags(values, v)
	}
	for _, e := range values {
		if e.Value == v {
			return e.Name
		}
	}
	if d.Enum == "EtherType" {
		return wire.EtherType(v).String()
	}
	return fmt.Sprintf("RESERVED_%d", v)
}

// lldpText shows port names, system names and descriptions as the text that they are; "" for all else.
func lldpText(f field) string {
	s, _ := f.value.(string)
	if n := bareName(f.name); n != "lldp.port" && n != "lldp.value" {
		return ""
	}
	b, err := hex.DecodeString(s)
	if err != nil || len(b) < 2 || bytes.ContainsFunc(b, func(r rune) bool { return r < ' ' || r > '~' }) {
		return ""
	}
	return strconv.Quote(string(b))
}

// setFlags names the masks of which v has bits; one of several bits has its value with it.
func setFlags(masks []wire.EnumValue, v uint64) string {
	var set []string
	for _, m := range masks {
		n := (v & m.Value) >> bits.TrailingZeros64(m.Value)
		switch {
		case v&m.Value == 0:
		case bits.OnesCount64(m.Value) == 1:
			set = append(set, m.Name)
		case m.Name == "REQ":
			set = append(set, "REQ="+wire.AckReq(n).String())
		default:
			set = append(set, fmt.Sprintf("%s=%d", m.Name, n))
		}
	}
	return strings.Join(set, " ")
}

var protocols = map[uint64]string{wire.ProtoICMP: "ICMP", wire.ProtoTCP: "TCP", wire.ProtoUDP: "UDP", wire.ProtoICMPv6: "ICMPv6"}
