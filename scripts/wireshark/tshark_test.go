package wireshark

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/uetlab/uetlab/wire"
)

// vector is a record of wire/testdata/vectors.
type vector struct {
	Name    string         `json:"name"`
	Layer   string         `json:"layer"`
	Hex     string         `json:"hex"`
	Fields  map[string]any `json:"fields"`
	Derived map[string]any `json:"derived"`
	TSS     map[string]any `json:"tss"`
}

func loadVectors(t *testing.T) (all []vector) {
	t.Helper()
	files, err := filepath.Glob("../../wire/testdata/vectors/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no vectors: %v", err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		d := json.NewDecoder(bytes.NewReader(b))
		d.UseNumber()
		var list []vector
		if err := d.Decode(&list); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, list...)
	}
	return all
}

// frame is the vector as a frame; what has no outer headers gets some.
func (v *vector) frame(t *testing.T) []byte {
	t.Helper()
	b, err := hex.DecodeString(v.Hex)
	if err != nil {
		t.Fatalf("%s: %v", v.Name, err)
	}
	if v.Layer == "udp_payload" {
		b = frameOf(fromA, b)
	}
	return b
}

var (
	addrR        = netip.MustParseAddr("10.9.9.9") // of a switch
	addrA, addrB = netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	fromA        = wire.FrameFields{Src: addrA, Dst: addrB, EV: 0xC000}
	fromB        = wire.FrameFields{Src: addrB, Dst: addrA, EV: 0xC000}
)

func frameOf(f wire.FrameFields, uet []byte) []byte {
	b := append(wire.AppendUDPFrame(nil, &f), uet...)
	wire.FinishUDP(b)
	return b
}

// pcapOf makes a pcap of frames 1 µs apart.
func pcapOf(frames [][]byte) []byte {
	le := binary.LittleEndian
	b := le.AppendUint32(nil, 0xA1B2C3D4)
	b = le.AppendUint16(le.AppendUint16(b, 2), 4)
	b = append(b, make([]byte, 8)...)
	b = le.AppendUint32(le.AppendUint32(b, 1<<18), 1)
	for i, f := range frames {
		b = le.AppendUint32(le.AppendUint32(b, 0), uint32(i))
		b = le.AppendUint32(le.AppendUint32(b, uint32(len(f))), uint32(len(f)))
		b = append(b, f...)
	}
	return b
}

// packet is what tshark says of a packet: field names to their values, in the order in which they came.
type packet map[string][]string

func (p packet) walk(v any, name string) {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			p.walk(x, k)
		}
	case []any:
		for _, x := range v {
			p.walk(x, name)
		}
	case string:
		p[name] = append(p[name], v)
	default:
		p[name] = append(p[name], "")
	}
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// runsLua asks tshark to run a script that does nothing but say so.
func runsLua(t *testing.T, bin string) bool {
	t.Helper()
	script, empty := write(t, "hello.lua", `print("a script ran")`), write(t, "empty.pcap", string(pcapOf(nil)))
	out, err := exec.Command(bin, "-X", "lua_script:"+script, "-r", empty).Output()
	return err == nil && bytes.Contains(out, []byte("a script ran"))
}

// tshark runs the dissector over frames, once, in two passes.
func tshark(t *testing.T, frames [][]byte, args ...string) []packet {
	t.Helper()
	bin, err := exec.LookPath("tshark")
	if err != nil {
		t.Skip("tshark is not installed: the dissector cannot be tried here")
	}
	if !runsLua(t, bin) {
		t.Skip("tshark runs no Lua scripts here: it was built without Lua, or its init.lua forbids them to root")
	}
	file := write(t, "frames.pcap", string(pcapOf(frames)))
	script, err := filepath.Abs(FileName)
	if err != nil {
		t.Fatal(err)
	}
	args = append(args, "-X", "lua_script:"+script, "-2", "-n", "-T", "json", "--no-duplicate-keys", "-r", file)
	cmd := exec.Command(bin, args...)
	home := t.TempDir() // no plugins and settings of the user's
	cmd.Env = append(os.Environ(), "HOME="+home, "XDG_CONFIG_HOME="+home)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	if s := errs.String(); err != nil || strings.Contains(s, "Lua") {
		t.Fatalf("tshark: %v\n%s", err, s)
	}
	var list []any
	if err := json.Unmarshal(out.Bytes(), &list); err != nil {
		t.Fatalf("tshark's JSON: %v", err)
	}
	var packets []packet
	for _, v := range list {
		p := packet{}
		p.walk(v, "")
		packets = append(packets, p)
	}
	if len(packets) != len(frames) {
		t.Fatalf("tshark shows %d packets of %d", len(packets), len(frames))
	}
	return packets
}

// canon brings a value of a vector and one of tshark into one form.
func canon(s string) string {
	if hexed := strings.ReplaceAll(s, ":", ""); hexed != s || strings.HasPrefix(s, "0x") {
		s = hexed
	}
	if n, err := strconv.ParseUint(s, 0, 64); err == nil {
		return strconv.FormatUint(n, 10)
	}
	return strings.ToLower(s)
}

// alias tells where Wireshark's own dissectors show a field.
var alias = map[string][]string{
	"eth.dst": {"eth.dst"}, "eth.src": {"eth.src"}, "eth.type": {"eth.type"},
	"ip.version": {"ip.version", "ipv6.version"}, "ip.dscp": {"ip.dsfield.dscp", "ipv6.tclass.dscp"},
	"ip.ecn": {"ip.dsfield.ecn", "ipv6.tclass.ecn"}, "ip.total_length": {"ip.len"}, "ip.payload_length": {"ipv6.plen"},
	"ip.id": {"ip.id"}, "ip.checksum": {"ip.checksum"}, "ip.ttl": {"ip.ttl", "ipv6.hlim"}, "ip.proto": {"ip.proto", "ipv6.nxt"}, "ip.flow_label": {"ipv6.flow"},
	"ip.src": {"ip.src", "ipv6.src"}, "ip.dst": {"ip.dst", "ipv6.dst"},
	"udp.src_port": {"udp.srcport"}, "udp.dst_port": {"udp.dstport"}, "udp.length": {"udp.length"}, "udp.checksum": {"udp.checksum"},
}

func (p packet) value(name string) (string, bool) {
	names := alias[name]
	if v := p["uet.udp_length"]; name == "udp.length" && len(v) > 0 {
		return v[0], true // trimmed: Wireshark's own UDP is shown another one
	}
	if names == nil {
		names = []string{"uet." + name}
	}
	for _, n := range names {
		if v := p[n]; len(v) > 0 {
			return v[0], true
		}
	}
	return "", false
}

// check compares a listed field. A payload of whole bytes stays text, so that leading zeros count.
func (p packet) check(t *testing.T, name string, want any) {
	t.Helper()
	if list, ok := want.([]any); ok {
		got := p["uet."+name]
		if len(got) != len(list) {
			t.Errorf("%s: %d values %v, want %v", name, len(got), got, list)
			return
		}
		for i := range list {
			if canon(got[i]) != list[i].(json.Number).String() {
				t.Errorf("%s: %v, want %v", name, got, list)
			}
		}
		return
	}
	got, ok := p.value(name)
	if !ok {
		t.Errorf("%s: not shown, want %v", name, want)
		return
	}
	w := ""
	switch x := want.(type) {
	case json.Number:
		w, got = x.String(), canon(got)
	case string:
		w = x
		if _, err := hex.DecodeString(x); err == nil {
			got = strings.ReplaceAll(got, ":", "")
		}
	}
	if got != w {
		t.Errorf("%s: %s, want %s", name, got, w)
	}
}

// TestVectors shows all vectors to tshark in one run and compares all fields that they list, and all that the Go codec finds. Of a secured one, which tshark
// has no key for, these are the outer fields and the body.
func TestVectors(t *testing.T) {
	vectors := loadVectors(t)
	var frames [][]byte
	for _, v := range vectors {
		frames = append(frames, v.frame(t))
	}
	packets := tshark(t, frames)
	fields, flat := 0, 0
	for i, v := range vectors {
		t.Run(v.Name, func(t *testing.T) {
			p, want := packets[i], map[string]any{}
			for name, x := range v.Fields {
				if !strings.HasPrefix(name, "inner.") {
					want[name] = x
				}
			}
			if v.TSS == nil {
				for name, x := range v.Derived {
					want[name] = x
				}
			} else if c, ok := v.TSS["ciphertext"]; ok {
				want["tss.ciphertext"], want["tss.icv"] = c, v.TSS["icv"]
			}
			for name, x := range want {
				p.check(t, name, x)
			}
			fields += len(want)
			decoded := wire.Decode(frames[i], wire.Options{})
			for _, f := range decoded.Flat() {
				if strings.HasPrefix(f.Name, "ip.") && alias[f.Name] == nil {
					continue // Wireshark has it in other units
				}
				if n, ok := f.Value.(uint64); ok {
					p.check(t, f.Name, json.Number(strconv.FormatUint(n, 10)))
				} else {
					p.check(t, f.Name, f.Value)
				}
				flat++
			}
			sound(t, p, odd[v.Name])
		})
	}
	t.Logf("%d vectors: %d fields as listed, %d as decoded by package wire", len(vectors), fields, flat)
}

// odd are vectors that no end point would send, made to pin the place of a field: the dissector may call them malformed.
var odd = map[string]bool{"rsp_data_max_len": true}

// sound checks that nothing went wrong in the dissector, and that it finds nothing wrong with the packet.
func sound(t *testing.T, p packet, odd bool) {
	t.Helper()
	for name, v := range p {
		if odd && strings.HasPrefix(name, "_ws.malformed") {
			continue
		}
		wrong := strings.HasPrefix(name, "_ws.malformed") || name == "_ws.lua.error"
		if !odd {
			wrong = wrong || name == "uet.malformed" || name == "uet.truncated" || name == "uet.crc.bad"
		}
		if wrong {
			t.Errorf("%s: %v (%v)", name, v, p["_ws.expert.message"])
		}
	}
}
