package wire

import (
	"bytes"
	"net/netip"
	"testing"
)

// unchecked clears the reserved bits that Validate lets pass, which no encoder writes.
func unchecked(p *Packet, b []byte) []byte {
	b = bytes.Clone(b)
	switch {
	case p.RUDI != nil, p.UUD != nil:
		put16(b, 2, 0)
	case p.Ctrl != nil && p.Ctrl.Ctl() == CtlNegotiation:
		if p.Ctrl.SYN() {
			b[10] &= 0x8F
		}
		if len(b) >= 16 {
			put16(b, 14, 0)
		}
	}
	return b
}

// FuzzUET checks every PDS and SES decoder: what is accepted is written again the same, no view reaches beyond the
// bytes, and tables and accessors agree.
func FuzzUET(f *testing.F) {
	seedVectors(f, func(b []byte, layer string) {
		if layer == "udp_payload" {
			f.Add(b)
		}
	})
	for _, k := range kinds() {
		if !k.frame {
			f.Add(k.b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		exact := b[:len(b):len(b)]
		p := DecodeUET(exact, Options{})
		for _, err := range p.Errs {
			if fe, ok := err.(*FieldError); !ok || fe.Off < 0 || fe.Off > len(b) || fe.Value == "" {
				t.Errorf("error without a place: %v", err)
			}
		}
		// Of a NEGOTIATION that is cut, the tables show what is left.
		if cut := p.Ctrl != nil && p.Ctrl.Ctl() == CtlNegotiation && len(p.Ctrl) < 20; !cut && len(b) < 200 {
			holdToAccessors(t, "fuzz", &p)
		}
		if len(p.Errs) > 0 {
			return
		}
		got, want := reencode(&p), unchecked(&p, b)
		if len(got) > len(b) || !bytes.Equal(got, want[:len(got)]) {
			t.Errorf("%x written again is\n%x", want, got)
		}
	})
}

// FuzzLinkControl checks ordered sets and CC_Update the same way.
func FuzzLinkControl(f *testing.F) {
	for _, b := range linkFrames() {
		f.Add(b[EthLen:])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if sets, err := ParseCtlOSBundle(b); err == nil {
			for i := range sets.Len() {
				c := sets.At(i)
				if c.Validate() != nil {
					continue
				}
				var again []byte
				switch first, second := c.CF(); c.Type() {
				case CtlOSCFUpdate:
					again = AppendCFUpdate(nil, first, second)
				case CtlOSInit, CtlOSInitEcho:
					again = AppendLLRInit(nil, c.Type(), c.Seq(), c.InitData())
				default:
					again = append(AppendLLRSeq(nil, c.Type(), c.Seq())[:5], c[5:]...)
				}
				if !bytes.Equal(again, c) {
					t.Errorf("%x written again is %x", []byte(c), again)
				}
			}
		}
		if c, err := ParseCCUpdate(b); err == nil && c.Validate() == nil {
			var counts [CCCounters]uint32
			for i := range counts {
				counts[i] = c.Count(i)
			}
			if again := AppendCCUpdate(nil, MAC{}, MAC{}, c.Type() == 2, &counts)[EthLen:]; !bytes.Equal(again, c) {
				t.Errorf("%x written again is %x", []byte(c), again)
			}
		}
		for _, typ := range []EtherType{EtherExperiment, EtherMACControl} {
			p := Decode(append(AppendEth(nil, LinkControlAddr, testMAC, typ), b...), Options{})
			holdToAccessors(t, "fuzz", &p)
			if p.Summary() == "" {
				t.Error("no summary")
			}
		}
	})
}

// FuzzLLDP checks that TLVs lie within the frame, and that those of the UEC are written again the same.
func FuzzLLDP(f *testing.F) {
	f.Add(lldpFrame()[EthLen:])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		list, _ := ParseLLDP(b[:len(b):len(b)])
		for _, tlv := range list {
			if again := AppendTLV(nil, tlv.Type(), tlv.Value()); !bytes.Equal(again, tlv) {
				t.Errorf("%x written again is %x", []byte(tlv), again)
			}
			if o, err := ParseUEOptions(tlv); err == nil && len(tlv) == ueOptionsLen {
				fields := o.Fields()
				again := AppendUEOptions(nil, &fields)
				if !bytes.Equal(again, tlv) {
					t.Errorf("%x written again is %x", []byte(tlv), again)
				}
			}
			if c, err := ParseUECBFC(tlv); err == nil && len(tlv) == ueCBFCLen+c.NumVC()*ueVCLen {
				w := UECBFCFields{CreditSize: c.CreditSize(), PktOvhd: c.PktOvhd(), Method: c.Method(), Total: c.Total(), Lossless: c.Lossless()}
				for i := range c.NumVC() {
					w.VCs = append(w.VCs, c.VC(i))
				}
				if again := AppendUECBFC(nil, &w); !bytes.Equal(again, tlv) {
					t.Errorf("%x written again is %x", []byte(tlv), again)
				}
			}
		}
		p := Decode(append(AppendEth(nil, LLDPAddr, testMAC, EtherLLDP), b...), Options{})
		if bytes.ContainsAny([]byte(p.Summary()), "\n\r\x1b") {
			t.Errorf("summary is not one line: %q", p.Summary())
		}
		if len(p.LLDP) == len(list) && len(p.Errs) == 0 {
			holdToAccessors(t, "fuzz", &p)
		}
	})
}

// FuzzFEPAddr checks that an address that is accepted is written again the same.
func FuzzFEPAddr(f *testing.F) {
	f.Add(AppendFEPAddr(nil, &FEPAddr{Flags: 0xBF, Caps: FEPHPC, Address: netip.MustParseAddr("10.0.0.1"), PIDonFEP: 7, StartRI: 8, NumRI: 9, Initiator: 1 << 31}))
	f.Add(AppendFEPAddr(nil, &FEPAddr{Address: netip.MustParseAddr("fd00::1")}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if a, err := ParseFEPAddr(b); err == nil {
			if again := AppendFEPAddr(nil, &a); !bytes.Equal(again, b[:FEPAddrLen]) {
				t.Errorf("%x written again is %x", b, again)
			}
		}
	})
}
