package wire

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// onlyInTables are fields that nothing but the tables reads: no accessor could drift from them.
func onlyInTables(name string) bool {
	for _, s := range []string{"ip.ihl", "ip.id", "ip.fragment", "ip.checksum", "vlan.", "csig.type", "trailer.magic", "trailer.crc",
		"ctlos.lane0", "ctlos.ocode"} {
		if _, after, found := strings.Cut("."+name, "."+s); found && (after == "" || strings.HasSuffix(s, ".")) {
			return true
		}
	}
	return false
}

// holdToAccessors compares what the tables read with what the accessors read.
func holdToAccessors(t *testing.T, what string, p *Packet) {
	t.Helper()
	have := map[string]string{}
	for _, f := range p.Flat() {
		if _, twice := have[f.Name]; twice {
			t.Fatalf("%s: %s given twice", what, f.Name)
		}
		have[f.Name] = canon(f.Value)
	}
	for _, f := range accessFlat(p) {
		if have[f.Name] != canon(f.Value) {
			t.Fatalf("%s: table reads %s = %q, accessor %q", what, f.Name, have[f.Name], canon(f.Value))
		}
		delete(have, f.Name)
	}
	for name, v := range have {
		if !onlyInTables(name) && !damagedUE(p) {
			t.Fatalf("%s: table reads %s = %s, no accessor does", what, name, v)
		}
	}
}

// damagedUE tells a UE TLV that does not parse, of which the tables still show what is there.
func damagedUE(p *Packet) bool {
	for _, t := range p.LLDP {
		if isUE(t, UESubtypeOptions) && len(t) < ueOptionsLen {
			return true
		}
		if _, err := ParseUECBFC(t); isUE(t, UESubtypeCBFC) && err != nil {
			return true
		}
	}
	return false
}

// TestTables holds tables and accessors to each other over all vectors, over damaged vectors and over random bytes.
func TestTables(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 1))
	t.Logf("seed %d", seed)
	var frames [][]byte
	for _, file := range vectorFiles {
		list := loadVectors(t, file)
		for i := range list {
			p := decodeVector(t, &list[i])
			holdToAccessors(t, list[i].Name, &p)
			if list[i].Layer == "frame" {
				frames = append(frames, list[i].bytes(t))
			} else {
				randomUET(t, r, list[i].bytes(t))
			}
		}
	}
	for _, f := range append(frames, linkFrames()...) {
		p := Decode(f, Options{})
		holdToAccessors(t, p.Summary(), &p)
		for range 200 {
			b := AppendTrailer(damage(r, f), int64(r.Uint64()), r.Uint32())
			p := Decode(b, Options{Trailer: true, CRC: CRCOn, CRCForm: CRCForm{BigEndian: r.IntN(2) == 0}})
			holdToAccessors(t, p.Summary(), &p)
		}
	}
}

// damage changes a few bits behind the Ethernet header.
func damage(r *rand.Rand, b []byte) []byte {
	b = bytes.Clone(b)
	for range 1 + r.IntN(4) {
		b[EthLen+r.IntN(len(b)-EthLen)] ^= 1 << r.IntN(8)
	}
	return b
}

// randomUET decodes random bytes under the type and next_hdr of a vector.
func randomUET(t *testing.T, r *rand.Rand, v []byte) {
	for range 50 {
		b := make([]byte, 120)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		b[0], b[1] = v[0], b[1]&0x7F|v[1]&0x80
		if n := PDSType(v[0] >> 3).HeaderLen(); n < len(v) && r.IntN(2) == 0 {
			b[n] = v[n] // the SES opcode, so that extensions are met
		}
		p := DecodeUET(b, Options{})
		holdToAccessors(t, p.Summary(), &p)
		whole := p.pdsHeader()
		if whole == nil {
			continue
		}
		p.SES = SES{} // a header whose payload does not fit is still a header
		if next := Prologue(b).Next(); next.HeaderLen() > 0 && !p.PDS.IsNack() && p.PDS != TypeCtrl {
			p.SES = SES{Next: next, Header: b[len(whole):][:next.HeaderLen():next.HeaderLen()]}
		}
		holdToAccessors(t, p.Summary(), &p)
	}
}

// TestTablesAreSound checks what generators rely on.
func TestTablesAreSound(t *testing.T) {
	enums := Enums()
	used := map[string]bool{}
	codes := map[string]bool{}
	for _, tab := range Tables() {
		if tab.Name == "" || tab.Layer == "" || tab.Bytes == 0 {
			t.Errorf("%+v: name, layer or size missing", tab)
		}
		for _, c := range tab.Codes {
			key := tab.Layer + string(rune(c))
			if codes[key] {
				t.Errorf("%s: code %d of layer %s taken twice", tab.Name, c, tab.Layer)
			}
			codes[key] = true
		}
		for i := range tab.Fields {
			f := &tab.Fields[i]
			used[f.Enum] = true
			octet := f.Kind == KindBytes || f.Kind == KindMAC || f.Kind == KindIP
			switch {
			case !strings.Contains(f.Name, ".") && f.Name != "ev" && f.Name != "crc32c", f.Doc == "":
				t.Errorf("%s: %s: name or doc", tab.Name, f.Name)
			case f.Bits == 0 && f.Kind != KindBytes, octet && (f.Off%8 != 0 || f.Bits%8 != 0):
				t.Errorf("%s: %s: octets", tab.Name, f.Name)
			case !octet && f.Off%8+f.Bits > 64:
				t.Errorf("%s: %s: spans more than 8 bytes", tab.Name, f.Name)
			case f.LittleEndian && (f.Off%8 != 0 || f.Bits%8 != 0):
				t.Errorf("%s: %s: little-endian, but not whole octets", tab.Name, f.Name)
			case len(f.When) == 0 && f.Off+f.Bits > tab.Bytes*8 && tab.Layer != "pds":
				t.Errorf("%s: %s: lies beyond the header without a condition", tab.Name, f.Name)
			case (f.Kind == KindEnum || f.Kind == KindFlags) && f.Enum != "" && len(enums[f.Enum]) == 0:
				t.Errorf("%s: %s: no enumeration %s", tab.Name, f.Name, f.Enum)
			}
		}
	}
	for name, list := range enums {
		if !used[name] {
			t.Errorf("enumeration %s is not used", name)
		}
		for i, v := range list {
			if v.Name == "" || i > 0 && v.Value == list[i-1].Value {
				t.Errorf("%s: %+v", name, v)
			}
		}
	}
}

// TestReservedBits sets every bit that no field of the RUD request covers: Validate must see each.
func TestReservedBits(t *testing.T) {
	for _, c := range []struct {
		tab   *HeaderTable
		b     []byte
		valid func(b []byte) error
	}{
		{tabStd, AppendSESStd(nil, &StdFields{HeadFields: HeadFields{Opcode: OpSend}}), func(b []byte) error { return SESStd(b).Validate() }},
		{tabSmall, AppendSESSmall(nil, &SmallFields{HeadFields: HeadFields{Flags: SESSOM | SESEOM}}), func(b []byte) error { return SESSmall(b).Validate() }},
		{tabMedium, AppendSESMedium(nil, &MediumFields{HeadFields: HeadFields{Flags: SESSOM | SESEOM}}), func(b []byte) error { return SESMedium(b).Validate() }},
		{tabResponseData, AppendSESResponseData(nil, &ResponseDataFields{RespFields: RespFields{Opcode: RespWithData}}), func(b []byte) error { return SESResponseData(b).Validate() }},
		{tabResponseDataSmall, AppendSESResponseDataSmall(nil, &ResponseDataSmallFields{RespFields: RespFields{Opcode: RespWithData}}), func(b []byte) error { return SESResponseDataSmall(b).Validate() }},
		{tabAtomic, AppendAtomic(nil, &AtomicFields{}), func(b []byte) error { return Atomic(b).Validate() }},
		{tabTSS, AppendTSS(nil, &TSSFields{}), func(b []byte) error { return TSS(b).Validate() }},
	} {
		if err := c.valid(c.b); err != nil {
			t.Fatalf("%s: %v", c.tab.Name, err)
		}
		for i := range c.tab.Fields {
			f := &c.tab.Fields[i]
			if f.Kind != KindReserved || !f.Present(c.b) {
				continue
			}
			for bit := f.Off; bit < f.Off+f.Bits; bit++ {
				c.b[bit/8] ^= 0x80 >> (bit % 8)
				if c.valid(c.b) == nil {
					t.Errorf("%s: reserved bit %d goes unseen", c.tab.Name, bit)
				}
				c.b[bit/8] ^= 0x80 >> (bit % 8)
			}
		}
	}
}
