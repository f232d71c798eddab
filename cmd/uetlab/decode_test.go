package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/wire"
)

// packetVector is one packet of the wire package's vectors.
type packetVector struct {
	Name   string
	Layer  string
	Hex    string
	Fields map[string]any
}

// vectors reads the packet vectors: file to packets.
func vectors(t *testing.T) map[string][]packetVector {
	t.Helper()
	files, err := filepath.Glob("../../wire/testdata/vectors/*.json")
	if err != nil || len(files) < 9 {
		t.Fatalf("%d files of vectors, %v", len(files), err)
	}
	all := map[string][]packetVector{}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var list []packetVector
		exact(t, b, &list)
		all[strings.TrimSuffix(filepath.Base(file), ".json")] = list
	}
	return all
}

// exact reads JSON without rounding its numbers.
func exact(t *testing.T, b []byte, v any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := d.Decode(v); err != nil {
		t.Fatalf("%v in %s", err, b)
	}
}

// TestDecodeGivesTheFieldsOfEveryVector compares values, and for headers that there is no field besides the listed ones.
func TestDecodeGivesTheFieldsOfEveryVector(t *testing.T) {
	packets, fields := 0, 0
	for file, list := range vectors(t) {
		for _, v := range list {
			o := runLine(t, context.Background(), "decode --flat --format json --layer "+v.Layer+" "+v.Hex)
			var got map[string]any
			if exact(t, []byte(o.out), &got); o.code != 0 {
				t.Errorf("%s: %+v", v.Name, o)
			}
			for name, want := range v.Fields {
				if strings.HasPrefix(name, "inner.") { // sealed
					continue
				}
				fields++
				if !reflect.DeepEqual(got[name], want) {
					t.Errorf("%s/%s: %s is %v (%T), want %v (%T)", file, v.Name, name, got[name], got[name], want, want)
				}
			}
			_, trimmed := v.Fields["udp.length"] // lists its PDS header only
			for name := range got {
				if _, listed := v.Fields[name]; !listed && !trimmed && (strings.HasPrefix(name, "pds.") || strings.HasPrefix(name, "ses.") || strings.HasPrefix(name, "ext.")) {
					t.Errorf("%s/%s: %s is not in the vector", file, v.Name, name)
				}
			}
			packets++
		}
	}
	t.Logf("%d vectors, %d fields compared", packets, fields)
	if packets < 100 {
		t.Errorf("only %d vectors", packets)
	}
}

// TestDecodeGuessesWhereAPacketBegins decodes every vector without --layer, and all forms of output tell the same.
func TestDecodeGuessesWhereAPacketBegins(t *testing.T) {
	for file, list := range vectors(t) {
		for _, v := range list {
			j := runLine(t, context.Background(), "decode --format json "+v.Hex)
			var views []struct {
				Begins string
				Layers []struct {
					Name           string
					Offset, Length int
					Fields         map[string]any
				}
			}
			exact(t, []byte(j.out), &views)
			if len(views) != 1 || views[0].Begins != v.Layer {
				t.Errorf("%s/%s: taken for %s, want %s", file, v.Name, views[0].Begins, v.Layer)
			}
			end, joined := 0, map[string]any{}
			for _, l := range views[0].Layers {
				if l.Offset != end || l.Length == 0 && l.Name != "tss" {
					t.Errorf("%s/%s: %s at %d, %d bytes; the one before ended at %d", file, v.Name, l.Name, l.Offset, l.Length, end)
				}
				end = l.Offset + l.Length
				for name, value := range l.Fields {
					joined[name] = value
				}
			}
			var flat map[string]any
			exact(t, []byte(runLine(t, context.Background(), "decode --flat --format json "+v.Hex).out), &flat)
			if !reflect.DeepEqual(joined, flat) {
				t.Errorf("%s/%s: layers have\n%v, flat is\n%v", file, v.Name, joined, flat)
			}
			y, err := yaml.YAMLToJSON([]byte(runLine(t, context.Background(), "decode --format yaml "+v.Hex).out))
			var a, b any
			if exact(t, y, &a); err != nil {
				t.Fatal(err)
			}
			if exact(t, []byte(j.out), &b); !reflect.DeepEqual(a, b) {
				t.Errorf("%s/%s: YAML differs:\n%v\n%v", file, v.Name, a, b)
			}
		}
	}
}

// vectorBytes gives one vector's packet.
func vectorBytes(t *testing.T, file, name string) []byte {
	t.Helper()
	list := vectors(t)[file]
	i := slices.IndexFunc(list, func(v packetVector) bool { return v.Name == name })
	if i < 0 {
		t.Fatalf("no vector %s", name)
	}
	b, err := hex.DecodeString(list[i].Hex)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// pcapOf is a capture of these packets, 1 µs apart, of one link type.
func pcapOf(link uint32, packets ...[]byte) []byte {
	le := binary.LittleEndian
	var b []byte
	for _, v := range []uint32{0xA1B2C3D4, 0x00040002, 0, 0, 65535, link} {
		b = le.AppendUint32(b, v)
	}
	for i, p := range packets {
		for _, v := range []uint32{7, uint32(i), uint32(len(p)), uint32(len(p))} {
			b = le.AppendUint32(b, v)
		}
		b = append(b, p...)
	}
	return b
}

// fileOf writes a file and gives its name.
func fileOf(t *testing.T, name string, b []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestDecodeOutput(t *testing.T) {
	request, ack := vectorBytes(t, "frames", "frame_ipv4_udp_crc"), vectorBytes(t, "frames", "frame_ipv6_native_crc")
	wrong := slices.Clone(request)
	wrong[len(wrong)-1] ^= 1
	arp, _ := hex.DecodeString("ffffffffffff020000000001080600010800060400010200000000010a000001000000000000" + "0a000002")
	file := fileOf(t, "a.pcap", pcapOf(1, wire.AppendTrailer(slices.Clone(request), 12345, 0), ack, wrong, arp))
	for name, flags := range map[string]string{"tree.txt": "", "summary.txt": "--summary", "view.txt": "--format json", "view-yaml.txt": "--format yaml",
		"flat.txt": "--flat", "flat-json.txt": "--flat --format json", "flat-yaml.txt": "--flat --format yaml"} {
		o := runLine(t, context.Background(), "decode "+file+" "+flags)
		if o.code != 0 || (o.err != "") != strings.HasPrefix(name, "flat") {
			t.Errorf("%s: code %d, %s", name, o.code, o.err)
		}
		golden(t, filepath.Join("testdata", "decode", name), o.out)
	}
}

func TestDecodeFlags(t *testing.T) {
	request := vectorBytes(t, "frames", "frame_ipv4_udp_crc")
	trailed := hex.EncodeToString(wire.AppendTrailer(slices.Clone(request), 12345, 0))
	native := hex.EncodeToString(vectorBytes(t, "frames", "frame_ipv6_native_crc"))
	capture := fileOf(t, "a.pcap", pcapOf(1, request, request, request))
	for _, c := range []struct {
		cmd  string
		has  string
		not  string
		code int
	}{
		{trailed, "link trailer", "!", 0},
		{"--trailer off " + trailed, "UET CRC", "link trailer", 0},
		{"--trailer on " + hex.EncodeToString(request), "! link trailer: magic/crc: is damaged or missing", "", 0},
		{"--native 200 " + native, "proto                    253", "entropy", 0},
		{"--count 2 " + capture, "packet 2", "packet 3", 0},
		{"--layer udp_payload " + hex.EncodeToString(request), "! ", "Ethernet", 0},
		{"--layer frame 58080000010203041122334400000000", "Ethernet", "CTRL", 0},
		{"--native 17 00", "", "", 2}, {"--native 0 00", "", "", 2}, {"--count 0 00", "", "", 2}, {"--count -1 00", "", "", 2},
		{"--layer payload 00", "", "", 2}, {"--trailer yes 00", "", "", 2}, {"--summary --flat 00", "", "", 2}, {"--summary --format json 00", "", "", 2},
	} {
		o := runLine(t, context.Background(), "decode "+c.cmd)
		if o.code != c.code || !strings.Contains(o.out, c.has) || c.not != "" && strings.Contains(o.out, c.not) || c.code != 0 && !strings.Contains(o.err, "hint: ") {
			t.Errorf("decode %s: code %d, %s\n%s", c.cmd, o.code, o.err, o.out)
		}
	}
	if o := runLine(t, context.Background(), "decode --tss-sdk 00 "+native); o.code != api.CodeUsage || !strings.Contains(o.err, "TSS is not built yet") {
		t.Errorf("%+v", o)
	}
}

func TestDecodeRefuses(t *testing.T) {
	whole := pcapOf(1, vectorBytes(t, "frames", "frame_ipv4_udp_crc"), vectorBytes(t, "frames", "frame_ipv6_udp_crc"))
	file := func(b string) string { return fileOf(t, "in", []byte(b)) }
	for _, c := range []struct {
		arg, err string
		code     int
	}{
		{"0102zz", "column 5: 'z' is no hex digit", 2},
		{"01 02 3", "column 7: half a byte", 2},
		{"010 203", "column 3: half a byte", 2},
		{"link.pcapng", "column 1: 'l' is no hex digit", 2},
		{"0x", "HEX without a digit", 2},
		{file("\x1f\x8b\x08\x00xyz"), "begins with 1f8b0800: neither pcap, pcapng nor hex", 2},
		{file(""), "is empty", 2},
		{file("# one\n0102\n\n01 0g\n"), "line 4, column 5: 'g' is no hex digit", 2},
		{file("0000  01 02\n0010  03 04\n"), "line 2, column 1: offset 0x10 of a dump, but 0x2 bytes came before", 2},
		{file(strings.Repeat("00", maxHexLine)), "line 1, column 1048576: the line goes on", 2},
		{file(string(whole[:len(whole)-5])), "offset 158: cut in a packet, 5 bytes are missing", 1},
		{file(string(whole[:30])), "offset 24: cut in a packet header, 10 bytes are missing", 1},
		{file(string(pcapOf(113, []byte{1, 2}))), "1 of the packets not of Ethernet", 1},
	} {
		o := runLine(t, context.Background(), "decode "+c.arg)
		if o.code != c.code || !strings.Contains(o.err, c.err) || !strings.Contains(o.err, "hint: ") {
			t.Errorf("%s: code %d, %s; want %d, %s", c.arg, o.code, o.err, c.code, c.err)
		}
	}
	cut := fileOf(t, "cut.pcap", whole[:len(whole)-5])
	o := runLine(t, context.Background(), "decode --format json "+cut)
	var loose []map[string]any
	if exact(t, []byte(o.out), &loose); len(loose) != 1 || o.code != 1 {
		t.Errorf("%d packets before the cut, code %d", len(loose), o.code)
	}
}

// TestDecodeReadsText gives the same packets as lines and as dumps of several programs.
func TestDecodeReadsText(t *testing.T) {
	request, other := vectorBytes(t, "frames", "frame_ipv4_udp_crc"), vectorBytes(t, "frames", "frame_ipv6_native_crc")
	want := runLine(t, context.Background(), "decode --summary "+fileOf(t, "a.txt", []byte(hex.EncodeToString(request)+"\n"+hex.EncodeToString(other)+"\n"))).out
	if strings.Count(want, "\n") != 2 || !strings.Contains(want, "10.0.0.1 > 10.0.0.2 UET RUD_REQ") {
		t.Fatalf("%s", want)
	}
	dump := func(b []byte, format func(offset int, row []byte) string) string {
		var s strings.Builder
		for i := 0; i < len(b); i += 16 {
			s.WriteString(format(i, b[i:min(len(b), i+16)]))
		}
		return s.String()
	}
	ascii := func(row []byte) string {
		return strings.Map(func(r rune) rune {
			if r < ' ' || r > '~' {
				return '.'
			}
			return r
		}, string(row))
	}
	xxd := func(o int, row []byte) string {
		var s strings.Builder
		for i := 0; i < len(row); i += 2 {
			fmt.Fprintf(&s, "%x ", row[i:min(len(row), i+2)])
		}
		return fmt.Sprintf("%08x: %-40s %s\n", o, s.String(), "ab  "+ascii(row)) // characters that look like bytes
	}
	tshark := func(o int, row []byte) string {
		return fmt.Sprintf("%04x  %-48s  %s\n", o, fmt.Sprintf("% x", row), ascii(row))
	}
	tcpdump := func(o int, row []byte) string { return fmt.Sprintf("\t0x%04x:  %x\n", o, row) }
	for name, text := range map[string]string{
		"xxd":     dump(request, xxd) + dump(other, xxd),
		"tshark":  dump(request, tshark) + "\n" + dump(other, tshark),
		"tcpdump": dump(request, tcpdump) + dump(other, tcpdump),
		"hexdump": hex.Dump(request) + fmt.Sprintf("%08x\n", len(request)) + hex.Dump(other) + fmt.Sprintf("%08x\r\n", len(other)),
		"colons":  fmt.Sprintf("# remark\n  0x% x\n", request) + strings.ReplaceAll(fmt.Sprintf("% X", other), " ", ":"),
		"mixed":   dump(request, xxd) + hex.EncodeToString(other),
	} {
		o := runLine(t, context.Background(), "decode --summary "+fileOf(t, name, []byte(text)))
		if o.code != 0 || o.out != want {
			t.Errorf("%s: %s\n%swant\n%s", name, o.err, o.out, want)
		}
	}
}

func TestDecodeReadsStandardInput(t *testing.T) {
	request := vectorBytes(t, "frames", "frame_ipv4_udp_crc")
	for name, b := range map[string][]byte{"pcap": pcapOf(1, request), "hex": []byte(hex.EncodeToString(request))} {
		for _, words := range [][]string{{"decode", "--summary", "-"}, {"decode", "--summary"}} {
			f, err := os.Open(fileOf(t, name, b))
			if err != nil {
				t.Fatal(err)
			}
			var out, errOut bytes.Buffer
			u := &ui{in: f, out: &counter{Writer: &out}, err: &errOut, signals: &signals{}}
			if code := run(context.Background(), u, words); code != 0 || !strings.Contains(out.String(), "UET RUD_REQ") {
				t.Errorf("%s, %v: code %d, %s%s", name, words, code, out.String(), errOut.String())
			}
			f.Close()
		}
	}
	spaced := []string{"decode", "--summary"}
	for _, b := range request {
		spaced = append(spaced, fmt.Sprintf("0x%02x", b))
	}
	var out, errOut bytes.Buffer
	u := &ui{in: os.Stdin, out: &counter{Writer: &out}, err: &errOut, signals: &signals{}}
	if code := run(context.Background(), u, spaced); code != 0 || !strings.Contains(out.String(), "UET RUD_REQ") {
		t.Errorf("code %d, %s%s", code, out.String(), errOut.String())
	}
}

// TestDecodeOfLinkFrames shows frames of the link itself, and tags.
func TestDecodeOfLinkFrames(t *testing.T) {
	mac := wire.MAC{2, 0, 0, 0, 0, 1}
	sets := wire.AppendLLRSeq(wire.AppendLLRSeq(wire.AppendCtlOSHeader(nil, mac), wire.CtlOSAck, 77), wire.CtlOSAck, 78)
	tagged := append(wire.AppendEth(nil, wire.Broadcast, mac, wire.EtherVLAN), 0x60, 5, 0x90, 0)
	lldp := wire.AppendEth(nil, wire.LLDPAddr, mac, wire.EtherLLDP)
	for i, value := range []string{"\x04\x02\x00\x00\x00\x00\x01", "\x05eth3", "\x00\x78", "", "leaf0"} {
		lldp = wire.AppendTLV(lldp, wire.LLDPType(i+1), []byte(value))
	}
	lldp = wire.AppendLLDPEnd(lldp)
	for _, c := range []struct {
		b    []byte
		want []string
	}{
		{sets, []string{"LINK_CONTROL", "control ordered set (ctlos)  at 14, 8 bytes", "(1.ctlos)  at 22, 8 bytes", "seq                      78"}},
		{tagged, []string{"802.1Q tag (vlan)  at 14, 4 bytes", "vid                      5", "0x9000"}},
		{lldp, []string{"LLDP TLV (lldp)  at 14, 9 bytes", "LLDP TLV (1.lldp)  at 23, 7 bytes", "(4.lldp)  at 36, 7 bytes", "6c65616630"}},
	} {
		o := runLine(t, context.Background(), "decode --layer frame "+hex.EncodeToString(c.b))
		for _, want := range c.want {
			if !strings.Contains(o.out, want) {
				t.Errorf("no %q in\n%s", want, o.out)
			}
		}
	}
}

func TestNumbersAreExact(t *testing.T) {
	b, err := compact(fieldList{{"a", uint64(1<<64 - 1)}, {"t", uint64(1)}, {"t", uint64(2)}, {"none", []uint64{}}})
	if err != nil || string(b) != `{"a":18446744073709551615,"t":[1,2],"none":[]}` {
		t.Errorf("%s, %v", b, err)
	}
}

func FuzzHexReader(f *testing.F) {
	for _, s := range []string{"0102\n# x\n\n03:04", "00000000: 0102 0304  ....\n00000004: 05\n", "0000  01 02\n\n0000  03", "\t0x0000:  0102\n", hex.Dump([]byte("hello, world, hello")) + "00000013\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		h := newHexReader(strings.NewReader(s))
		for total := 0; ; {
			p, err := h.next()
			if err != nil {
				return
			}
			if total += len(p.data); len(p.data) == 0 || total > len(s) {
				t.Fatalf("%d bytes out of %d characters", total, len(s))
			}
		}
	})
}

// FuzzDecode shows any bytes in all forms: none fails, JSON is sound, and layers lie within the packet.
func FuzzDecode(f *testing.F) {
	for _, file := range []string{"frames", "pds_ctrl", "tss", "ses_req"} {
		b, err := os.ReadFile("../../wire/testdata/vectors/" + file + ".json")
		if err != nil {
			f.Fatal(err)
		}
		var list []packetVector
		if err := json.Unmarshal(b, &list); err != nil {
			f.Fatal(err)
		}
		for _, v := range list {
			if raw, err := hex.DecodeString(v.Hex); err == nil {
				f.Add(raw)
			}
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, layer := range []string{layerGuess, layerFrame, layerUET} {
			o := decodeOptions{layer: layer, trailer: trailerAuto, native: wire.ProtoNative}
			d := o.take(1, &rawPacket{data: b, length: len(b) + len(b)%2})
			for _, form := range []func(*decoded) (string, error){treeText, summaryText, flatText, flatJSON, viewJSON} {
				if s, err := form(d); err != nil || s == "" && len(d.flat()) > 0 {
					t.Fatalf("%q, %v", s, err)
				}
			}
			if s, _ := viewJSON(d); !json.Valid([]byte(s)) {
				t.Fatalf("%s", s)
			}
			for _, l := range d.layers() {
				if l.Offset != nil && (*l.Offset < 0 || *l.Offset+l.Length > len(b)) {
					t.Fatalf("%s at %d, %d bytes, of %d", l.Name, *l.Offset, l.Length, len(b))
				}
			}
		}
	})
}
