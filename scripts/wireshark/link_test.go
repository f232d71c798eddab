package wireshark

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/uetlab/uetlab/wire"
)

// The conversation passes 2^32 at once.
const (
	psn0 wire.PSN = 0xFFFFFFFF
	psn1 wire.PSN = 0
	psn2 wire.PSN = 1
)

func request(psn wire.PSN, flags wire.ReqFlags) []byte {
	f := wire.RequestFields{Type: wire.TypeRUDReq, Next: wire.NextRequestSmall, Flags: flags, PSN: psn, SPDCID: 5}
	if flags&wire.ReqSYN != 0 {
		f.PSNOffset = uint16(psn - psn0)
	} else {
		f.DPDCID = 9
	}
	b := wire.AppendRequest(nil, &f)
	b = wire.AppendSESSmall(b, &wire.SmallFields{HeadFields: wire.HeadFields{Opcode: wire.OpWrite, Flags: wire.SESSOM | wire.SESEOM}, RequestLength: 3})
	return append(b, "abc"...)
}

// trimmed is what a switch leaves of a request.
func trimmed(psn wire.PSN) []byte {
	f := fromA
	f.DSCP = wire.DSCPTrimmed
	b := frameOf(f, request(psn, wire.ReqSYN))[:wire.EthLen+wire.IPv4Len+24]
	length := [2]byte(b[38:40])
	wire.FinishUDP(b)
	copy(b[38:], length[:])
	return b
}

func ack(typ wire.PDSType, cack wire.PSN, more wire.AckFields) []byte {
	more.Type, more.CACK, more.SPDCID, more.DPDCID, more.CCState = typ, cack, 9, 5, wire.NSCCState{}.Pack()
	return frameOf(fromB, wire.AppendAck(nil, &more))
}

func rudi(typ wire.PDSType) []byte {
	next, b := wire.NextRequestSmall, []byte(nil)
	if typ == wire.TypeRUDIResp {
		next = wire.NextNone
	}
	b = wire.AppendRUDI(b, &wire.RUDIFields{Type: typ, Next: next, PktID: 77})
	if typ == wire.TypeRUDIReq {
		b = wire.AppendSESSmall(b, &wire.SmallFields{HeadFields: wire.HeadFields{Opcode: wire.OpRead, Flags: wire.SESSOM | wire.SESEOM}, RequestLength: 3})
	}
	return b
}

// TestConversation shows tshark a conversation on a link of the lab: opening across the end of the PSN space, a packet that
// is trimmed, refused and sent again, a probe, RUDI. All that belongs together is linked, and nothing else is.
func TestConversation(t *testing.T) {
	probe := wire.AppendCtrl(nil, &wire.CtrlFields{Ctl: wire.CtlProbe, Flags: wire.CtrlAR, ProbeOpaque: 0xBEEF, SPDCID: 5, DPDCID: 9})
	nack := wire.AppendNack(nil, &wire.NackFields{Type: wire.TypeNack, Code: wire.NackTrimmed, PSN: psn2, SPDCID: 9, DPDCID: 5})
	quoting := wire.AppendEth(nil, macA, macB, wire.EtherIPv4)
	quoting, ok := wire.AppendICMPError(quoting, frameOf(fromA, request(psn2, wire.ReqSYN))[wire.EthLen:], addrR, wire.ICMPTimeExceeded, 0)
	if !ok {
		t.Fatal("no ICMP error was made")
	}
	steps := []struct {
		frame []byte
		want  string // fields, "name=value"
	}{
		1:  {frameOf(fromA, request(psn0, wire.ReqSYN)), "stream=0 acked_in=3"},
		2:  {frameOf(fromA, request(psn1, wire.ReqSYN)), "stream=0 acked_in=7"},
		3:  {ack(wire.TypeAck, psn0, wire.AckFields{}), "stream=0 acks=1 ack_psn=4294967295"},
		4:  {trimmed(psn2), "stream=0 acked_in=7 nacked_in=5 trimmed"},
		5:  {frameOf(fromB, nack), "stream=0 nacks=4 nack"},
		6:  {frameOf(fromA, request(psn2, wire.ReqRETX)), "stream=0 retransmits=4 acked_in=7 retransmission"},
		7:  {ack(wire.TypeAckCC, psn1, wire.AckFields{SACKOffset: 1, SACKBitmap: 1}), "stream=0 acks=2 ack_psn=0 sacked_psns=1"},
		8:  {frameOf(fromA, probe), "stream=0 acked_in=9"},
		9:  {ack(wire.TypeAck, psn1, wire.AckFields{Flags: wire.AckP, ProbeOpaque: 0xBEEF}), "stream=0 acks=8"},
		10: {frameOf(fromA, rudi(wire.TypeRUDIReq)), "answered_in=11"},
		11: {frameOf(fromB, rudi(wire.TypeRUDIResp)), "answers=10"},
		12: {frameOf(fromB, request(psn1, wire.ReqSYN)), "stream=1"}, // the other side opens one, under a PDCID of its own
		13: {quoting, ""},
		14: {frameOf(fromA, request(psn2, wire.ReqRETX)), "stream=0 retransmits=4 retransmission"},
	}
	var frames [][]byte
	for i, s := range steps[1:] {
		frames = append(frames, wire.AppendTrailer(slices.Clone(s.frame), int64(i+1)*1000, wire.LLRWord(wire.LLREligible, 0, uint32(i))))
	}
	packets := tshark(t, frames, "-o", "uet_link.fcs:TRUE")
	linked := []string{"stream", "acked_in", "acks", "nacked_in", "nacks", "retransmits", "answered_in", "answers", "trimmed", "nack", "retransmission"}
	for i, p := range packets {
		n := i + 1
		want := strings.Fields(steps[n].want)
		for _, w := range want {
			name, value, exact := strings.Cut(w, "=")
			if got := p["uet."+name]; len(got) != 1 || exact && got[0] != value {
				t.Errorf("frame %d: %s = %v, want %s", n, name, got, value)
			}
		}
		for _, name := range linked {
			if len(p["uet."+name]) > 0 && !slices.ContainsFunc(want, func(w string) bool { return w == name || strings.HasPrefix(w, name+"=") }) {
				t.Errorf("frame %d: %s = %v", n, name, p["uet."+name])
			}
		}
		p.number(t, "trailer.due", uint64(n)*1000)
		p.number(t, "trailer.llr_seq", uint64(i))
		sound(t, p, false)
	}
}

func (p packet) number(t *testing.T, name string, want uint64) {
	t.Helper()
	if v := p["uet."+name]; len(v) == 0 || canon(v[0]) != strconv.FormatUint(want, 10) {
		t.Errorf("%s = %v, want %d", name, v, want)
	}
}

// TestEntropyIsNoPort sends from ports that Wireshark knows as other protocols: to UET the port is an entropy value, and to
// nobody else.
func TestEntropyIsNoPort(t *testing.T) {
	evs := []uint16{53, 67, 123, 161, 443, 1812, 2152, 3784, 4500, 4789, 4793, 6081}
	var frames [][]byte
	for _, ev := range evs {
		f := fromA
		f.EV = ev
		frames = append(frames, frameOf(f, request(psn0, wire.ReqSYN)))
	}
	dns := frameOf(fromB, []byte{0, 1, 0x81, 0x80, 0, 0, 0, 0, 0, 0, 0, 0})
	dns[35], dns[36], dns[37], dns[34] = 53, 0x20, 0, 0 // from port 53 to 8192
	packets := tshark(t, append(frames, dns))
	for i, ev := range evs {
		if got := packets[i]["uet.ev"]; len(got) != 1 || canon(got[0]) != strconv.Itoa(int(ev)) || len(packets[i]["uet.pds.psn"]) != 1 {
			t.Errorf("port %d: ev = %v, protocols %v", ev, got, packets[i]["frame.protocols"])
		}
		sound(t, packets[i], false)
	}
	if got := packets[len(evs)]["frame.protocols"]; len(got) != 1 || !strings.HasSuffix(got[0], ":dns") {
		t.Errorf("DNS is taken for %v", got)
	}
}
