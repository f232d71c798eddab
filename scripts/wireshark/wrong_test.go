package wireshark

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/uetlab/uetlab/wire"
)

var macA, macB = wire.MAC{2, 0, 0, 0, 0, 1}, wire.MAC{2, 0, 0, 0, 0, 2}

// TestLinkControl shows ordered sets, CC_Update, an ordinary PAUSE and an ARP request, all with link trailers.
func TestLinkControl(t *testing.T) {
	sets := wire.AppendCtlOSHeader(nil, macA)
	sets = wire.AppendLLRSeq(sets, wire.CtlOSNack, 0x4A2D3)
	sets = wire.AppendLLRInit(sets, wire.CtlOSInit, 7, 0xBEEF)
	sets = wire.AppendCFUpdate(sets, wire.CFEntry{VC: 3, Count: 0x7ABC}, wire.CFEntry{VC: 31, Count: 1})
	counts := [wire.CCCounters]uint32{0: 1, 15: 0xFFFFF}
	pause := append(wire.AppendEth(nil, wire.LinkControlAddr, macA, wire.EtherMACControl), 0, 1, 0, 9)
	arp := append(wire.AppendEth(nil, wire.Broadcast, macA, wire.EtherARP), 0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1,
		0, 0, 0, 0, 0, 0, 10, 0, 0, 2)
	frames := [][]byte{sets, wire.AppendCCUpdate(nil, macB, macA, false, &counts), append(pause, make([]byte, 42)...), arp}
	want := []string{
		"uet.ctlos.seq=303827 uet.ctlos.init_seq=7 uet.ctlos.init_data=48879 uet.ctlos.vc1=3 uet.ctlos.count1=31420 uet.ctlos.vc2=31 uet.ctlos.count2=1",
		"uet.cc.type=1 uet.cc.count0=1 uet.cc.count15=1048575", "macc.pause_time=9", "arp.opcode=1",
	}
	for i := range frames {
		frames[i] = wire.AppendTrailer(frames[i], int64(i), 0)
	}
	for i, p := range tshark(t, frames, "-o", "uet_link.fcs:TRUE") {
		for _, w := range strings.Fields(want[i]) {
			name, value, _ := strings.Cut(w, "=")
			if got := p[name]; len(got) != 1 || canon(got[0]) != value {
				t.Errorf("frame %d: %s = %v, want %s", i+1, name, got, value)
			}
		}
		p.number(t, "trailer.due", uint64(i))
		sound(t, p, false)
	}
}

// TestWrong shows packets with one thing wrong: the dissector says so, and never fails itself.
func TestWrong(t *testing.T) {
	good := frameOf(fromA, request(psn0, wire.ReqSYN))
	reserved := wire.AppendUUD(nil, wire.NextNone)
	reserved[0] = 20 << 3
	crc := wire.AppendUETCRC(append(wire.AppendUDPFrame(nil, &fromA), request(psn0, wire.ReqSYN)...))
	crc[len(crc)-5] ^= 1
	fcs := wire.AppendTrailer(slices.Clone(good), 1, 0)
	fcs[20] ^= 1
	damaged := wire.AppendTrailer(slices.Clone(good), 1, 0)
	damaged[len(damaged)-13] ^= 1
	version := slices.Clone(good)
	binary.BigEndian.PutUint16(version[42:], binary.BigEndian.Uint16(version[42:])|7<<7) // next_hdr 7 | 1
	cases := []struct {
		name, want string
		frame      []byte
	}{
		{"one byte", "uet.truncated", frameOf(fromA, []byte{0x11})},
		{"cut in the PDS header", "uet.truncated", frameOf(fromA, request(psn0, 0)[:10])},
		{"cut in the SES header", "uet.truncated", frameOf(fromA, request(psn0, 0)[:30])},
		{"reserved PDS type", "uet.malformed", frameOf(fromA, reserved)},
		{"reserved next_hdr", "uet.malformed", version},
		{"bytes behind", "uet.malformed", frameOf(fromA, append(request(psn0, 0), 1, 2))},
		{"UET CRC", "uet.crc.bad", crc},
		{"FCS", "uet.malformed", fcs},
		{"trailer CRC", "uet.malformed", damaged},
		{"TSS cut", "uet.truncated", frameOf(fromA, []byte{0x08, 0, 0, 1, 0, 0})},
		{"TSS without ICV", "uet.truncated", frameOf(fromA, append([]byte{0x08}, make([]byte, 15)...))},
	}
	var frames [][]byte
	for _, c := range cases {
		frames = append(frames, c.frame)
	}
	for i, p := range tshark(t, frames, "-o", "uet_link.fcs:TRUE") {
		if len(p[cases[i].want]) == 0 {
			t.Errorf("%s: no %s", cases[i].name, cases[i].want)
		}
		if len(p["_ws.lua.error"]) > 0 {
			t.Errorf("%s: the dissector failed: %v", cases[i].name, p["_ws.lua.error"])
		}
	}
}

// TestEveryPrefix cuts all vectors everywhere: the dissector never fails.
func TestEveryPrefix(t *testing.T) {
	var frames [][]byte
	for _, v := range loadVectors(t) {
		b := v.frame(t)
		for n := wire.EthLen; n < len(b); n++ {
			cut := slices.Clone(b[:n])
			wire.FinishUDP(cut)
			frames = append(frames, cut)
		}
	}
	for i, p := range tshark(t, frames) {
		if len(p["_ws.lua.error"]) > 0 {
			t.Fatalf("%x: the dissector failed: %v", frames[i], p["_ws.lua.error"])
		}
	}
	t.Logf("%d packets", len(frames))
}

// TestNameTaken loads the dissector into a Wireshark that has one of the name uet: it goes by another name.
func TestNameTaken(t *testing.T) {
	taken := write(t, "taken.lua", `Proto("uet", "UET of Wireshark's own")`)
	p := tshark(t, [][]byte{frameOf(fromA, request(psn0, wire.ReqSYN))}, "-X", "lua_script:"+taken)[0]
	if got := p["uetlab.pds.psn"]; len(got) != 1 || canon(got[0]) != "4294967295" {
		t.Errorf("uetlab.pds.psn = %v in %v", got, p)
	}
}
