package wire

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"
)

var testMAC = MAC{2, 0, 0, 0, 0, 7}

var testCBFC = UECBFCFields{CreditSize: 256, PktOvhd: -4, Method: CBFCPerVC, Total: 70000, Lossless: 0x80000001,
	VCs: []CBFCVC{{Index: 0, Limit: 32767, Map: VCMapDSCP, Value: 10, Mask: 0x3F}, {Index: 31, Limit: 0xABCDEF, Map: VCMapPCP, Value: 5, Mask: 7}}}

var testOptions = UEOptionsFields{LLRWanted: WishBoth, LLREnabled: WishNo, CBFCWanted: WishBoth, CBFCEnabled: WishBoth,
	SpecVersion: UESpecVersion, LabFlags: LabTrailer, BootID: 0xDEADBEEF}

// lldpFrame is an LLDP frame with both TLVs of the UEC.
func lldpFrame() []byte {
	b := AppendLLDP(nil, &LLDPFields{Src: testMAC, ChassisSubtype: LLDPChassisMAC, Chassis: testMAC[:],
		PortSubtype: LLDPPortIfName, Port: []byte("eth1"), TTL: 4})
	b = AppendUECBFC(AppendUEOptions(b, &testOptions), &testCBFC)
	return AppendLLDPEnd(AppendTLV(b, 5, []byte("leaf1")))
}

func ccFrame(high bool) []byte {
	var counts [CCCounters]uint32
	for i := range counts {
		counts[i] = uint32(i)*0x11111 + 1
	}
	return AppendCCUpdate(nil, LinkControlAddr, testMAC, high, &counts)
}

// ctlosFrame holds one ordered set of each kind.
func ctlosFrame() []byte {
	b := AppendLLRSeq(AppendLLRSeq(AppendCtlOSHeader(nil, testMAC), CtlOSAck, 0xABCDE), CtlOSNack, 0x12345)
	b = AppendLLRInit(AppendLLRInit(b, CtlOSInit, 0x4A2D3, 0xBEEF), CtlOSInitEcho, 0x4A2D3, 0xBEEF)
	return AppendCFUpdate(b, CFEntry{VC: 17, Count: 0x7ABC}, CFEntry{VC: 3, Count: 0x0123})
}

func linkFrames() [][]byte { return [][]byte{ctlosFrame(), ccFrame(false), ccFrame(true), lldpFrame()} }

// TestLinkOctets pins the octets, worked out by hand from uet-link-switch 2.2, 3.4, 3.5 and 4.
func TestLinkOctets(t *testing.T) {
	if want := []byte{
		1, 0x80, 0xC2, 0, 0, 1, 2, 0, 0, 0, 0, 7, 0x88, 0xB5,
		0x5C, 0x01, 0xAB, 0xCD, 0xE6, 0, 0, 0,
		0x5C, 0x02, 0x12, 0x34, 0x56, 0, 0, 0,
		0x5C, 0x03, 0x4A, 0x2D, 0x36, 0xEF, 0xBE, 0,
		0x5C, 0x04, 0x4A, 0x2D, 0x36, 0xEF, 0xBE, 0,
		0x5C, 0x10, 17<<3 | 7, 0xAB, 0xC6, 3 << 3, 0x12, 0x30,
	}; !bytes.Equal(ctlosFrame(), want) {
		t.Errorf("ordered sets\n%x, want\n%x", ctlosFrame(), want)
	}
	cc := ccFrame(true)
	if want := []byte{0x88, 0x08, 0xFF, 0xFE, 0xFA, 0x7A, 0xCB, 2, 0x00, 0x00, 0x11, 0x11, 0x12, 0x22, 0x22, 0x33, 0x33, 0x34}; !bytes.Equal(cc[12:30], want) || len(cc) != 60 {
		t.Errorf("CC_Update of %d bytes\n%x, want\n%x", len(cc), cc[12:30], want)
	}
	if want := []byte{
		2, 7, 4, 2, 0, 0, 0, 0, 7, 4, 5, 5, 'e', 't', 'h', '1', 6, 2, 0, 4,
		254, 12, 0xFA, 0x7A, 0xCB, 1, 0xCF, 0x13, 0, 1, 0xDE, 0xAD, 0xBE, 0xEF,
		254, 31, 0xFA, 0x7A, 0xCB, 2, 1, 0, 0xFC, 1, 0, 1, 0x11, 0x70, 2, 0x80, 0, 0, 1,
		0, 0, 0x7F, 0xFF, 0, 10, 0x3F, 31, 0xAB, 0xCD, 0xEF, 1, 5, 7, 10, 5, 'l', 'e', 'a', 'f', '1', 0, 0,
	}; !bytes.Equal(lldpFrame()[EthLen:], want) {
		t.Errorf("LLDP\n%x, want\n%x", lldpFrame()[EthLen:], want)
	}
}

func TestLinkSummary(t *testing.T) {
	for i, want := range []string{
		"LINK_CONTROL LLR_ACK seq 703710 LLR_NACK seq 74565 LLR_INIT seq 303827 data 0xbeef LLR_INIT_ECHO seq 303827 data 0xbeef CF_Update vc17 31420 vc3 291",
		"MAC_CONTROL CC_Update vc0 1 vc1 69906 vc2 139811",
		"MAC_CONTROL CC_Update vc16 1 vc17 69906",
		`LLDP chassis 02:00:00:00:00:07 port "eth1" ttl 4 LLR BIDIRECTIONAL enabled NO CBFC BIDIRECTIONAL enabled BIDIRECTIONAL boot 0xdeadbeef CBFC PER_VC credits 70000 of 256 vcs 2 system "leaf1"`,
	} {
		p := Decode(linkFrames()[i], Options{})
		if got := p.Summary(); !strings.Contains(got, want) || len(p.Errs) != 0 {
			t.Errorf("%s\nwant … %s", got, want)
		}
	}
	pause := append(AppendEth(nil, LinkControlAddr, testMAC, EtherMACControl), 0, 1, 0xFF, 0xFF)
	other := append(AppendEth(nil, Broadcast, testMAC, EtherExperiment), 1, 2, 3)
	for _, b := range [][]byte{pause, other} {
		if p := Decode(b, Options{}); len(p.Errs) != 0 || len(p.Flat()) != 3 {
			t.Errorf("%s: not ours, but decoded", p.Summary())
		}
	}
	name := func(s interface{ String() string }, want string) {
		if s.String() != want {
			t.Errorf("%s, want %s", s, want)
		}
	}
	name(CtlOSCFUpdate, "CF_Update")
	name(CtlOSType(5), "RESERVED_5")
	name(LLDPOrg, "Organizationally Specific")
	name(WishBoth, "BIDIRECTIONAL")
	name(LinkWish(1), "RESERVED_1")
	name(CBFCTotal, "TOTAL")
	name(VCMapPCP, "PCP")
}

// TestLinkRoundTrip writes random contents and reads them back.
func TestLinkRoundTrip(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 2))
	t.Logf("seed %d", seed)
	for range 2000 {
		seq, data := r.Uint32()&0xFFFFF, uint16(r.Uint32())
		for _, typ := range []CtlOSType{CtlOSAck, CtlOSNack} {
			if c, err := ParseCtlOS(AppendLLRSeq(nil, typ, seq|0xF00000)); err != nil || c.Validate() != nil || c.Type() != typ || c.Seq() != seq {
				t.Fatalf("%v seq %#x: %x %v", typ, seq, []byte(c), err)
			}
		}
		if c, err := ParseCtlOS(AppendLLRInit(nil, CtlOSInit, seq, data)); err != nil || c.Validate() != nil || c.Seq() != seq || c.InitData() != data {
			t.Fatalf("INIT %#x %#x: %x %v", seq, data, []byte(c), err)
		}
		a, b := CFEntry{uint8(r.IntN(32)), uint16(r.IntN(0x8000))}, CFEntry{uint8(r.IntN(32)), uint16(r.IntN(0x8000))}
		c, err := ParseCtlOS(AppendCFUpdate(nil, a, b))
		if a2, b2 := c.CF(); err != nil || c.Validate() != nil || a2 != a || b2 != b {
			t.Fatalf("CF_Update %v %v: %x %v", a, b, []byte(c), err)
		}
		var counts [CCCounters]uint32
		for i := range counts {
			counts[i] = r.Uint32()
		}
		high := r.IntN(2) == 1
		cc, err := ParseCCUpdate(AppendCCUpdate(nil, Broadcast, testMAC, high, &counts)[EthLen:])
		if err != nil || cc.Validate() != nil || cc.FirstVC() != 16*uint8(bit(high, 1)) {
			t.Fatalf("CC_Update: %v %x", err, []byte(cc))
		}
		for i, n := range counts {
			if cc.Count(i) != n&0xFFFFF {
				t.Fatalf("counter %d = %#x, want %#x", i, cc.Count(i), n&0xFFFFF)
			}
		}
		roundTripUE(t, r)
		roundTripFEP(t, r)
		tag := VLANTag{PCP: uint8(r.IntN(8)), DEI: r.IntN(2) == 1, VID: uint16(r.IntN(0x1000))}
		frame := AppendVLAN(AppendVLAN(AppendEth(nil, Broadcast, testMAC, EtherQinQ), tag, EtherVLAN), VLANTag{}, EtherARP)
		p := Decode(append(frame, 9), Options{})
		if len(p.Tags) != 2 || VLANTagOf(p.Tags[0]) != tag || p.Type != EtherARP || len(p.Body) != 1 {
			t.Fatalf("tag %+v: %x", tag, frame)
		}
	}
}

func roundTripUE(t *testing.T, r *rand.Rand) {
	t.Helper()
	f := UEOptionsFields{LinkWish(r.IntN(4)), LinkWish(r.IntN(4)), LinkWish(r.IntN(4)), LinkWish(r.IntN(4)), uint8(r.Uint32()), uint8(r.Uint32()), uint8(r.IntN(MaxLife + 1)), uint8(r.IntN(4)), r.Uint32()}
	tlv, err := ParseTLV(AppendUEOptions(nil, &f))
	if err != nil {
		t.Fatal(err)
	}
	o, err := ParseUEOptions(tlv)
	if err != nil || o.Fields() != f {
		t.Fatalf("options %+v: %x %v", f, []byte(tlv), err)
	}
	b := UECBFCFields{CreditSize: uint16(1 + r.IntN(0xFFFF)), PktOvhd: int8(r.Uint32()), Method: CBFCMethod(r.IntN(2)), Total: r.Uint32(), Lossless: r.Uint32()}
	for range r.IntN(MaxCBFCVCs + 1) {
		b.VCs = append(b.VCs, CBFCVC{uint8(r.IntN(32)), r.Uint32() & 0xFFFFFF, VCMap(r.IntN(2)), uint8(r.Uint32()), uint8(r.Uint32())})
	}
	if tlv, err = ParseTLV(AppendUECBFC(nil, &b)); err != nil {
		t.Fatal(err)
	}
	c, err := ParseUECBFC(tlv)
	if err != nil || c.Validate() != nil || c.NumVC() != len(b.VCs) || c.CreditSize() != b.CreditSize || c.PktOvhd() != b.PktOvhd || c.Method() != b.Method || c.Total() != b.Total || c.Lossless() != b.Lossless {
		t.Fatalf("CBFC %+v: %x %v", b, []byte(tlv), err)
	}
	for i, v := range b.VCs {
		if c.VC(i) != v {
			t.Fatalf("VC %d: %+v, want %+v", i, c.VC(i), v)
		}
	}
}

func roundTripFEP(t *testing.T, r *rand.Rand) {
	t.Helper()
	a := FEPAddr{Flags: FEPFlags(r.Uint32()), Caps: FEPCaps(r.Uint32()), PIDonFEP: uint16(r.IntN(4096)), StartRI: uint16(r.IntN(4096)),
		NumRI: uint16(r.IntN(4096)), Initiator: r.Uint32()}
	var ip [16]byte
	for i := range ip {
		ip[i] = byte(r.Uint32())
	}
	a.Address = netip.AddrFrom16(ip)
	if a.Flags&FEPIPv6 == 0 {
		a.Address = netip.AddrFrom4([4]byte(ip[:4]))
	}
	b := AppendFEPAddr(nil, &a)
	if got, err := ParseFEPAddr(b); err != nil || got != a || len(b) != FEPAddrLen {
		t.Fatalf("%x is %+v, want %+v: %v", b, got, a, err)
	}
	for i := range tabFEPAddr.Fields {
		f := &tabFEPAddr.Fields[i]
		want := map[string]any{"fep.flags": uint64(a.Flags), "fep.caps": uint64(a.Caps), "fep.address": a.Address.String(), "fep.version": uint64(0),
			"fep.pid_on_fep": uint64(a.PIDonFEP), "fep.start_ri": uint64(a.StartRI), "fep.num_ri": uint64(a.NumRI), "fep.initiator": uint64(a.Initiator)}[f.Name]
		if f.Kind != KindReserved && f.Present(b) && f.Value(b) != want {
			t.Fatalf("%s = %v, want %v", f.Name, f.Value(b), want)
		}
	}
}

// TestFEPAddrErrors spoils an address.
func TestFEPAddrErrors(t *testing.T) {
	good := AppendFEPAddr(nil, &FEPAddr{Address: netip.MustParseAddr("10.0.0.1")})
	for _, c := range []struct {
		off  int
		mask byte
		want error
	}{{0, 0x10, errFEPVersion}, {0, 1, errFEPReserved}, {20, 0x10, errFEPReserved}, {26, 1, errFEPReserved}, {8, 1, errFEPAddress}, {19, 1, errFEPAddress}} {
		b := bytes.Clone(good)
		b[c.off] ^= c.mask
		if _, err := ParseFEPAddr(b); err != c.want {
			t.Errorf("byte %d: %v, want %v", c.off, err, c.want)
		}
	}
	if _, err := ParseFEPAddr(good[:31]); err != errFEPShort {
		t.Error(err)
	}
	if a, err := ParseFEPAddr(AppendFEPAddr(nil, &FEPAddr{})); err != nil || a.Address != netip.IPv4Unspecified() {
		t.Error(a, err)
	}
}

// TestCRCForms writes a packet with each form of the CRC; no other form may accept it.
func TestCRCForms(t *testing.T) {
	forms := []CRCForm{{}, {PayloadOnly: true}, {BigEndian: true}, {PayloadOnly: true, BigEndian: true}}
	for _, native := range []uint8{0, ProtoNative} {
		for _, src := range []string{"10.0.0.1", "fd00::1"} {
			a := netip.MustParseAddr(src)
			for i, form := range forms {
				b := AppendUDPFrame(nil, &FrameFields{Src: a, Dst: a, Native: native})
				b = form.Append(AppendAck(b, &AckFields{Type: TypeAck, SPDCID: 1, DPDCID: 2}))
				for j, other := range forms {
					if got := other.Check(b[EthLen:]); got != (i == j) {
						t.Errorf("written as %+v, read as %+v: %v", form, other, got)
					}
				}
				p := Decode(b, Options{CRC: CRCOn, CRCForm: form})
				if p.CRC != CRCGood || len(p.Errs) != 0 || p.CRCValue != form.Sum(b[EthLen:len(b)-CRCLen]) {
					t.Errorf("%+v: %s", form, p.Summary())
				}
			}
		}
	}
	if (CRCForm{PayloadOnly: true}).Check(make([]byte, 3)) || (CRCForm{PayloadOnly: true}).Check([]byte{0x4F, 23: 0}) {
		t.Error("CRC of a scrap")
	}
}

// TestLLDPSurvives cuts and damages LLDP frames: TLVs before the damage stay (LLDP-04).
func TestLLDPSurvives(t *testing.T) {
	body := lldpFrame()[EthLen:]
	for n := range body {
		list, err := ParseLLDP(body[:n])
		if err == nil {
			t.Fatalf("cut to %d bytes, but no error", n)
		}
		total := 0
		for _, tlv := range list {
			total += len(tlv)
		}
		if total > n || n >= 20 && len(list) < 3 {
			t.Fatalf("cut to %d bytes: %d TLVs of %d bytes", n, len(list), total)
		}
	}
	if list, err := ParseLLDP(append(bytes.Clone(body), 0, 0, 0)); err != nil || len(list) != 7 {
		t.Errorf("padding: %d TLVs, %v", len(list), err)
	}
	for _, c := range []struct {
		b    []byte
		want error
	}{
		{[]byte{4, 2, 7, 1, 0, 0}, errLLDPOrder}, {[]byte{2, 1, 7}, errTLVTooSmall}, {[]byte{2}, errTLVShort},
		{append(bytes.Clone(body[:20]), 6, 2, 0, 1), errLLDPAgain}, {append(bytes.Clone(body[:20]), 254, 3, 1, 2, 3), errTLVTooSmall},
	} {
		if _, err := ParseLLDP(c.b); !errors.Is(err, c.want) {
			t.Errorf("%x: %v, want %v", c.b, err, c.want)
		}
	}
}
