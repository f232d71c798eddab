package pcapfile_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/uetlab/uetlab/fabric/capture"
	"github.com/uetlab/uetlab/fabric/capture/pcapfile"
)

// file builds captures of either byte order.
type file struct {
	o binary.AppendByteOrder
	b []byte
}

func (f *file) u16(v ...uint16) *file {
	for _, v := range v {
		f.b = f.o.AppendUint16(f.b, v)
	}
	return f
}

func (f *file) u32(v ...uint32) *file {
	for _, v := range v {
		f.b = f.o.AppendUint32(f.b, v)
	}
	return f
}

func (f *file) text(s string) *file {
	f.b = append(f.b, s...)
	for len(f.b)%4 != 0 {
		f.b = append(f.b, 0)
	}
	return f
}

// block appends a block with the body that fill writes.
func (f *file) block(kind uint32, fill func(*file)) *file {
	body := file{o: f.o}
	fill(&body)
	n := uint32(len(body.b) + 12)
	f.u32(kind, n)
	f.b = append(f.b, body.b...)
	return f.u32(n)
}

func (f *file) section() *file {
	return f.block(0x0A0D0D0A, func(b *file) { b.u32(0x1A2B3C4D).u16(1, 0).u32(math.MaxUint32, math.MaxUint32) })
}

func (f *file) iface(link uint16, snap uint32, options func(*file)) *file {
	return f.block(1, func(b *file) { b.u16(link, 0).u32(snap); options(b) })
}

func (f *file) packet(iface uint32, units uint64, length uint32, data string, comment string) *file {
	return f.block(6, func(b *file) {
		b.u32(iface, uint32(units>>32), uint32(units), uint32(len(data)), length).text(data)
		if comment != "" {
			b.u16(1, uint16(len(comment))).text(comment).u32(0)
		}
	})
}

func none(*file) {}

// both calls f with each byte order.
func both(t *testing.T, f func(*testing.T, *file)) {
	for _, o := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
		t.Run(fmt.Sprint(o), func(t *testing.T) { f(t, &file{o: o}) })
	}
}

// all reads a capture to its end. The lines name offset, interface, link type, time, length, data and comment.
func all(b []byte) (lines []string, err error) {
	r, err := pcapfile.NewReader(bytes.NewReader(b))
	for err == nil {
		var p *pcapfile.Packet
		if p, err = r.Next(); err == nil {
			lines = append(lines, fmt.Sprintf("%d %q %d %v %d %d %q %q", p.Offset, p.Iface, p.LinkType, p.Timed, p.Time, p.Len, p.Data, p.Comment))
		}
	}
	return lines, err
}

func check(t *testing.T, b []byte, want ...string) {
	t.Helper()
	got, err := all(b)
	if err != io.EOF || strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%v, packets\n%s\nwant\n%s", err, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func classic(f *file, magic uint32) *file {
	return f.u32(magic).u16(2, 4).u32(0, 0, 65535, 0x44000001). // FCS bits above the link type
									u32(7, 999, 5, 5).raw("abcde").u32(8, 1, 2, 90).raw("xy").u32(9, 0, 0, 0)
}

func (f *file) raw(s string) *file {
	f.b = append(f.b, s...)
	return f
}

func TestClassic(t *testing.T) {
	both(t, func(t *testing.T, f *file) {
		check(t, classic(&file{o: f.o}, 0xA1B2C3D4).b, `24 "" 1 true 7000999000 5 "abcde" ""`, `45 "" 1 true 8000001000 90 "xy" ""`, `63 "" 1 true 9000000000 0 "" ""`)
		check(t, classic(&file{o: f.o}, 0xA1B23C4D).b, `24 "" 1 true 7000000999 5 "abcde" ""`, `45 "" 1 true 8000000001 90 "xy" ""`, `63 "" 1 true 9000000000 0 "" ""`)
	})
}

// sections is a file of two sections with interfaces of all kinds and blocks to pass over.
func sections(f *file) *file {
	f.section().iface(1, 0, none)
	f.iface(113, 3, func(b *file) { b.u16(2, 5).text("left0").u16(9, 1).text("\x09").u16(0, 0) })
	f.packet(1, 1<<40, 9, "abc", "why").packet(0, 5, 5, "abcde", "")
	f.block(5, func(b *file) { b.u32(0, 0, 0) }).block(0x0BAD, none)
	f.block(2, func(b *file) { b.u16(1, 0).u32(0, 77, 1, 1).text("o") })
	f.block(3, func(b *file) { b.u32(4).text("sp") })
	f.section().iface(1, 2, func(b *file) { b.u16(9, 1).text("\x80").u16(14, 8); b.offset(-2) })
	return f.packet(0, 10, 1, "z", "").block(3, func(b *file) { b.u32(40).text("qr") })
}

func (f *file) offset(v int64) *file {
	if f.o.String() == binary.BigEndian.String() {
		return f.u32(uint32(uint64(v)>>32), uint32(v))
	}
	return f.u32(uint32(v), uint32(uint64(v)>>32))
}

func TestSectionsAndInterfaces(t *testing.T) {
	both(t, func(t *testing.T, f *file) {
		check(t, sections(f).b,
			`92 "left0" 113 true 1099511627776 9 "abc" "why"`, `140 "" 1 true 5000 5 "abcde" ""`,
			`216 "left0" 113 true 77 1 "o" ""`, `252 "" 1 false 0 4 "sp\x00\x00" ""`,
			`340 "" 1 true 8000000000 1 "z" ""`, `376 "" 1 false 0 40 "qr" ""`)
	})
}

func TestResolutions(t *testing.T) {
	for _, c := range []struct {
		unit  byte
		units uint64
		want  int64
	}{
		{0, 3, 3e9}, {3, 1234, 1_234_000_000}, {6, 1, 1000}, {9, math.MaxInt64 - 9e9, math.MaxInt64 - 9e9}, {12, 1999, 1}, {19, math.MaxUint64, 1_844_674_407},
		{20, math.MaxUint64, 0}, {127, 1, 0}, {128 + 1, 3, 1_500_000_000}, {128 + 30, 1 << 29, 500_000_000}, {128 + 63, math.MaxUint64, 1_999_999_999},
		{128 + 64, 1, 0}, {255, 1, 0}, {0, math.MaxUint64, math.MaxInt64},
	} {
		f := (&file{o: binary.LittleEndian}).section().iface(1, 0, func(b *file) { b.u16(9, 1).raw(string([]byte{c.unit, 0, 0, 0})) }).packet(0, c.units, 0, "", "")
		r, err := pcapfile.NewReader(bytes.NewReader(f.b))
		if err != nil {
			t.Fatal(err)
		}
		if p, err := r.Next(); err != nil || p.Time != c.want {
			t.Errorf("unit %d, %d: %+v, %v, want %d", c.unit, c.units, p, err, c.want)
		}
	}
}

// TestReadsWhatTcpdumpWrites reads the file of a capture.Writer.
func TestReadsWhatTcpdumpWrites(t *testing.T) {
	var b bytes.Buffer
	dirs := []capture.Direction{{FromNode: "leaf0", FromPort: "eth3", ToNode: "spine0", ToPort: "eth1"}, {FromNode: "spine0", FromPort: "eth1", ToNode: "leaf0", ToPort: "eth3"}}
	w, err := capture.NewWriter(&b, dirs, "udp", false)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if err := w.Packet(&capture.Packet{Iface: i % 2, Due: 12345, Data: []byte("frame")[:i+1], Len: 7, Comment: "odd"[:i]}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(make([]capture.Stats, 2)); err != nil {
		t.Fatal(err)
	}
	got, err := all(b.Bytes())
	if err != io.EOF || len(got) != 3 || !strings.HasSuffix(got[1], `"spine0:eth1 > leaf0:eth3" 1 true 12345 7 "fr" "o"`) {
		t.Errorf("%v, %q", err, got)
	}
}

// TestCutAnywhere cuts files at every byte: whole packets come out, then an error with the offset of the one that is cut.
func TestCutAnywhere(t *testing.T) {
	for _, whole := range [][]byte{classic(&file{o: binary.LittleEndian}, 0xA1B2C3D4).b, sections(&file{o: binary.BigEndian}).b} {
		want, _ := all(whole)
		for n := 4; n < len(whole); n++ {
			got, err := all(whole[:n])
			var e *pcapfile.Error
			switch {
			case len(got) > len(want) || strings.Join(got, "\n") != strings.Join(want[:len(got)], "\n"):
				t.Fatalf("cut at %d: %q", n, got)
			case err == io.EOF: // between two records
			case !errors.As(err, &e) || !errors.Is(err, io.ErrUnexpectedEOF) || e.Offset > int64(n) || len(got) > 0 && e.Offset == 0:
				t.Fatalf("cut at %d: %v", n, err)
			}
		}
	}
}

func TestDamage(t *testing.T) {
	le := func() *file { return &file{o: binary.LittleEndian} }
	sound := func() *file { return le().section().iface(1, 0, none) } // 48 bytes
	for _, c := range []struct {
		b    []byte
		want string
	}{
		{le().u32(0xA1B2C3D4).u16(3, 4).u32(0, 0, 1, 1).b, "offset 0: pcap version 3: only 2 is known"},
		{le().u32(0xA1B2C3D4).u16(2, 4).u32(0, 0, 1, 1, 0, 0, 1<<31, 0).b, "offset 24: a packet of 2147483648 bytes"},
		{le().u32(0x0A0D0D0A, 28, 0x11111111).b, "offset 0: a section header with byte-order magic 11111111"},
		{le().block(0x0A0D0D0A, func(b *file) { b.u32(0x1A2B3C4D).u16(2, 0).u32(0, 0) }).b, "offset 0: pcapng version 2"},
		{le().block(0x0A0D0D0A, func(b *file) { b.u32(0x1A2B3C4D) }).b, "offset 0: a section header of 16 bytes"},
		{sound().u32(6, 1<<31).b, "offset 48: a block of 2147483648 bytes"},
		{sound().u32(6, 13).b, "offset 48: a block of 13 bytes"},
		{sound().u32(6, 12, 16).b, "offset 48: a block of 12 bytes that ends in the length 16"},
		{sound().block(6, none).b, "offset 48: a packet block of 0 bytes"},
		{sound().packet(1, 0, 0, "", "").b, "offset 48: a packet of interface 1, the section has 1"},
		{sound().block(6, func(b *file) { b.u32(0, 0, 0, 5, 5).text("abcd") }).b, "offset 48: a packet of 5 bytes in a block with room for 4"},
		{sound().block(3, none).b, "offset 48: a simple packet block of 0 bytes"},
		{sound().block(3, func(b *file) { b.u32(9) }).b, "offset 48: a packet of 9 bytes in a block with room for 0"},
		{le().section().block(3, func(b *file) { b.u32(0) }).b, "offset 28: a simple packet block before any interface"},
		{le().section().block(1, none).b, "offset 28: an interface description of 0 bytes"},
	} {
		got, err := all(c.b)
		if err == nil || !strings.HasPrefix(err.Error(), "capture file, "+c.want) || len(got) > 0 {
			t.Errorf("%q, %v; want %s", got, err, c.want)
		}
	}
	for _, b := range []string{"", "abc", "\x1f\x8b\x08\x00", "PK\x03\x04"} {
		if _, err := pcapfile.NewReader(strings.NewReader(b)); !errors.Is(err, pcapfile.ErrFormat) || pcapfile.Is([]byte(b)) {
			t.Errorf("%q: %v", b, err)
		}
	}
}

// TestErrorsStay reads on after the end and after damage.
func TestErrorsStay(t *testing.T) {
	whole := classic(&file{o: binary.LittleEndian}, 0xA1B2C3D4).b
	for _, b := range [][]byte{whole, whole[:30]} {
		r, err := pcapfile.NewReader(bytes.NewReader(b))
		for err == nil {
			_, err = r.Next()
		}
		if _, again := r.Next(); again != err {
			t.Errorf("%v, then %v", err, again)
		}
	}
}

func FuzzReader(f *testing.F) {
	f.Add(classic(&file{o: binary.LittleEndian}, 0xA1B2C3D4).b)
	f.Add(classic(&file{o: binary.BigEndian}, 0xA1B23C4D).b)
	f.Add(sections(&file{o: binary.LittleEndian}).b)
	f.Add(sections(&file{o: binary.BigEndian}).b)
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := pcapfile.NewReader(bytes.NewReader(b))
		last := int64(-1)
		for err == nil {
			var p *pcapfile.Packet
			if p, err = r.Next(); err != nil {
				break
			}
			if len(p.Data) > len(b) || p.Len < len(p.Data) || p.Offset <= last || p.Offset >= int64(len(b)) {
				t.Fatalf("packet %+v of a file of %d bytes", p, len(b))
			}
			last = p.Offset
		}
		var e *pcapfile.Error
		if errors.As(err, &e) && (e.Offset < 0 || e.Offset > int64(len(b))) {
			t.Fatalf("%v in a file of %d bytes", err, len(b))
		}
	})
}
