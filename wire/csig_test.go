package wire

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"
)

// csigFrame puts a tag into a UET frame; whatever else the frame holds is as it was.
func csigFrame(f CSIGFields) []byte {
	for _, k := range outerKinds() {
		if k.name == "IPv6" {
			b, _ := InsertCSIG(bytes.Clone(k.b), &f)
			return b
		}
	}
	panic("no frame to put a tag into")
}

// CSIG-01: the layout of both tags, bit by bit (uet-link-switch 10).
func TestCSIG01_TagLayout(t *testing.T) {
	for _, c := range []struct {
		f    CSIGFields
		want []byte
	}{
		// t 010 | r 0 | s 10101 | lm 101011 | d 1
		{CSIGFields{Type: CSIGDelay, Signal: 21, Locator: 0x2B, Trimmed: true}, []byte{0xCC, 0xDD, 0x4A, 0xD7}},
		{CSIGFields{Type: CSIGABW, Signal: 31, Locator: 0}, []byte{0xCC, 0xDD, 0x0F, 0x80}},
		{CSIGFields{Type: CSIGQueue, Signal: 1, Locator: 63, TPID: 0x9999}, []byte{0x99, 0x99, 0x60, 0xFE}},
		// lm 101101000111100 | d 0 | t 0011 | s 10101011110011011110 | r 0
		{CSIGFields{Wide: true, Type: CSIGQueue, Signal: 0xABCDE, Locator: 0x5A3C}, []byte{0xCC, 0xDE, 0xB4, 0x78, 0x3A, 0xBC, 0xDE, 0}},
		{CSIGFields{Wide: true, Type: CSIGABWShare, Signal: 0xFFFFF, Locator: 0x7FFF, Trimmed: true}, []byte{0xCC, 0xDE, 0xFF, 0xFF, 0x1F, 0xFF, 0xFF, 0}},
	} {
		plain := AppendEth(nil, Broadcast, testMAC, EtherIPv6)
		plain = append(plain, 1, 2, 3)
		b, ok := InsertCSIG(bytes.Clone(plain), &c.f)
		if want := append(append(bytes.Clone(plain[:12]), c.want...), plain[12:]...); !ok || !bytes.Equal(b, want) {
			t.Errorf("%+v:\n%x, want\n%x", c.f, b, want)
			continue
		}
		compact, wide := EtherCSIG, EtherCSIGWide
		if c.f.TPID != 0 {
			compact = c.f.TPID
		}
		tag := CSIGTag(b, compact, wide)
		if !bytes.Equal(tag, c.want) || tag.Wide() != c.f.Wide || tag.Type() != c.f.Type || tag.Signal() != c.f.Signal || tag.Locator() != c.f.Locator || tag.Trimmed() != c.f.Trimmed {
			t.Errorf("%x reads as %v %v %v %v", []byte(tag), tag.Type(), tag.Signal(), tag.Locator(), tag.Trimmed())
		}
		if b = RemoveCSIG(b, tag); !bytes.Equal(b, plain) {
			t.Errorf("%+v: without the tag %x, want %x", c.f, b, plain)
		}
	}
}

// A setter leaves all bits of the other fields alone, the reserved ones too.
func TestCSIGSettersKeepTheRest(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 1))
	t.Logf("seed %d", seed)
	for range 5000 {
		n := []int{CSIGCompactLen, CSIGWideLen}[r.IntN(2)]
		tag := make(CSIG, n)
		for i := range tag {
			tag[i] = byte(r.Uint32())
		}
		was := bytes.Clone(tag)
		s, lm := tag.Signal(), tag.Locator()
		tag.SetSignal(r.Uint32())
		tag.SetLocator(uint16(r.Uint32()))
		d := tag.Trimmed()
		tag.SetTrimmed()
		if !tag.Trimmed() {
			t.Fatal("d is not set")
		}
		if !d {
			tag[3] &^= 1
		}
		tag.SetSignal(s)
		tag.SetLocator(lm)
		if !bytes.Equal(tag, was) {
			t.Fatalf("%x became %x", was, []byte(tag))
		}
		tag.SetSignal(tag.MaxSignal() + 5)
		if tag.Signal() != 4 || tag.Locator() != lm || tag.TPID() != CSIG(was).TPID() || tag.Type() != CSIG(was).Type() {
			t.Fatalf("%x: a signal too great became %d", was, tag.Signal())
		}
	}
}

// Behind a tag everything is found as before, and the tables read what the accessors read.
func TestPacketsBehindCSIG(t *testing.T) {
	for _, f := range []CSIGFields{{Type: CSIGDelay, Signal: 9, Locator: 5}, {Wide: true, Type: CSIGABWShare, Signal: 70_000, Locator: 3000, Trimmed: true}} {
		for _, k := range outerKinds() {
			b, ok := InsertCSIG(bytes.Clone(k.b), &f)
			if !ok {
				t.Fatal("no frame")
			}
			with, without := Decode(b, Options{}), Decode(k.b, Options{})
			if with.Type != without.Type || !bytes.Equal(with.Body, without.Body) || with.UET != without.UET || with.EV != without.EV || len(with.Tags) != len(without.Tags) || len(with.Errs) != len(without.Errs) {
				t.Errorf("%s: %s, without the tag %s", k.name, with.Summary(), without.Summary())
			}
			if with.CSIG == nil || without.CSIG != nil {
				t.Errorf("%s: tags %x and %x", k.name, with.CSIG, without.CSIG)
			}
			holdToAccessors(t, k.name, &with)
			for n := range b {
				Decode(b[:n], Options{})
			}
			a, errA := ParseUET(b, ProtoNative)
			c, errC := ParseUET(k.b, ProtoNative)
			if (errA == nil) != (errC == nil) || !bytes.Equal(a.UET, c.UET) || a.EV != c.EV || a.DSCP != c.DSCP {
				t.Errorf("%s: ParseUET %v, without the tag %v", k.name, errA, errC)
			}
		}
	}
	b := csigFrame(CSIGFields{Wide: true})
	for n := EthLen; n < EthLen+CSIGWideLen; n++ {
		if _, _, err := Network(b[:n]); err != errCSIGShort {
			t.Errorf("cut to %d: %v", n, err)
		}
		if p := Decode(b[:n], Options{}); len(p.Errs) != 1 || p.CSIG != nil {
			t.Errorf("cut to %d: %v", n, p.Errs)
		}
	}
	if _, ok := InsertCSIG(b[:13], &CSIGFields{}); ok {
		t.Error("a tag in 13 bytes")
	}
	if CSIGABWShare.String() != "ABW/C" || CSIGType(7).String() != "RESERVED_7" || EtherCSIG.String() != "CSIG" || EtherCSIGWide.String() != "CSIG_WIDE" {
		t.Error("names")
	}
}

// InsertCSIG in a buffer with room, as an end point has it, neither copies nor allocates; nor does taking it out.
func TestCSIGDoesNotAllocate(t *testing.T) {
	b := append(make([]byte, 0, 256), csigFrame(CSIGFields{})...)
	b = RemoveCSIG(b, CSIGTag(b, EtherCSIG, EtherCSIGWide))
	f := CSIGFields{Wide: true, Type: CSIGDelay}
	if n := testing.AllocsPerRun(100, func() {
		b, _ = InsertCSIG(b, &f)
		b = RemoveCSIG(b, CSIGTag(b, EtherCSIG, EtherCSIGWide))
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzCSIG(f *testing.F) {
	f.Add(csigFrame(CSIGFields{Type: CSIGDelay, Signal: 3}), uint32(7), uint16(9))
	f.Add(csigFrame(CSIGFields{Wide: true, Type: CSIGQueue, Signal: 3}), uint32(1<<20), uint16(1<<15))
	f.Add([]byte{0xCC, 0xDD}, uint32(0), uint16(0))
	f.Fuzz(func(t *testing.T, b []byte, s uint32, lm uint16) {
		p := Decode(b, Options{})
		p.Flat()
		_ = p.Summary()
		_, _ = ParseUET(b, ProtoNative)
		tag := CSIGTag(b, EtherCSIG, EtherCSIGWide)
		if tag == nil {
			return
		}
		typ := tag.Type()
		tag.SetSignal(s)
		tag.SetLocator(lm)
		tag.SetTrimmed()
		if tag.Signal() != s&tag.MaxSignal() || tag.Type() != typ || !tag.Trimmed() {
			t.Fatalf("%x: signal %d, set to %d", []byte(tag), tag.Signal(), s)
		}
		whole := bytes.Clone(b)
		fields := CSIGFields{Wide: tag.Wide(), TPID: tag.TPID(), Type: typ, Signal: tag.Signal(), Locator: tag.Locator(), Trimmed: true}
		r := CSIG(whole[12 : 12+len(tag)]) // reserved bits are not among the fields
		if tag.Wide() {
			r[7] = 0
		} else {
			r[2] &^= 0x10
		}
		again, ok := InsertCSIG(RemoveCSIG(b, tag), &fields)
		if !ok || !bytes.Equal(again, whole) {
			t.Fatalf("out and in again:\n%x, was\n%x", again, whole)
		}
	})
}
