package sequence

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/uetlab/uetlab/wire"
)

var update = flag.Bool("update", false, "rewrite golden files")

var (
	addrA = netip.MustParseAddr("10.0.0.1")
	addrB = netip.MustParseAddr("10.0.0.2")
)

// scene is a capture under construction: frames with the time and the link of each.
type scene struct {
	frames []shot
	now    int64
}

type shot struct {
	frame []byte
	Capture
}

// send puts a packet onto the links of a path, 500 ns each. b is the PDS packet.
func (s *scene) send(src, dst netip.Addr, b []byte, links ...string) {
	f := wire.FrameFields{Src: src, Dst: dst, EV: 7, TTL: 64}
	for i, l := range links {
		f.TTL = uint8(64 - i)
		s.frame(f, b, l, s.now+500*int64(i+1))
	}
	s.now += 100
}

func (s *scene) frame(f wire.FrameFields, b []byte, link string, at int64) {
	frame := append(wire.AppendUDPFrame(nil, &f), b...)
	wire.FinishUDP(frame)
	s.frames = append(s.frames, shot{frame, Capture{Timed: true, Time: at, Iface: link}})
}

// pair sends over the link between two end points.
func (s *scene) pair(fromA bool, b []byte) {
	if fromA {
		s.send(addrA, addrB, b, "host0:eth1 > host1:eth1")
	} else {
		s.send(addrB, addrA, b, "host1:eth1 > host0:eth1")
	}
}

const startPSN = wire.PSN(0xFFFFFFFE) // PSNs wrap early

// request makes a data packet of the first PDC.
func request(n int32, f wire.RequestFields, ses wire.StdFields, ext []byte, payload int) []byte {
	f.PSN, f.SPDCID = startPSN.Add(n), 11
	if f.Type == 0 {
		f.Type = wire.TypeRUDReq
	}
	f.Next = wire.NextRequestStd
	if f.Flags&wire.ReqSYN != 0 {
		f.PSNOffset = uint16(n)
	} else {
		f.DPDCID = 22
	}
	b := append(wire.AppendSESStd(wire.AppendRequest(nil, &f), &ses), ext...)
	return append(b, make([]byte, payload)...)
}

// answer makes an ACK of the first PDC.
func answer(cack int32, f wire.AckFields, ses wire.RespFields) []byte {
	f.Type, f.Next, f.CACK, f.SPDCID, f.DPDCID = wire.TypeAckCC, wire.NextResponse, startPSN.Add(cack), 22, 11
	return wire.AppendSESResponse(wire.AppendAck(nil, &f), &wire.ResponseFields{RespFields: ses, MessageID: 1, ModifiedLength: 65536})
}

// protocols has one of everything.
func protocols() *scene {
	s := &scene{}
	rts := wire.StdFields{MessageID: 1, RequestLength: 65536}
	rts.Opcode, rts.Flags = wire.OpRendezvousTSend, wire.SESSOM|wire.SESRel
	ext := wire.AppendRendezvous(nil, &wire.RendezvousFields{EagerLength: 16384, MatchBits: 0x7000000000000001})
	s.pair(true, request(0, wire.RequestFields{Flags: wire.ReqSYN | wire.ReqAR}, rts, ext, 4096))
	more := rts
	more.Flags = wire.SESRel
	for i := int32(1); i < 4; i++ {
		more.MessageOffset, more.PayloadLength = uint32(i)*4096, 4096
		s.pair(true, request(i, wire.RequestFields{Flags: wire.ReqSYN}, more, ext, 4096))
	}
	s.pair(false, answer(2, wire.AckFields{SACKOffset: 2, SACKBitmap: 0b1101}, wire.RespFields{ReturnCode: wire.RCOK}))
	s.pair(false, answer(3, wire.AckFields{Req: wire.AckReqClear, Flags: wire.AckM}, wire.RespFields{List: wire.ListOverflow, Opcode: wire.RespResponse, ReturnCode: wire.RCOK}))
	s.pair(false, wire.AppendNack(nil, &wire.NackFields{Type: wire.TypeNack, Code: wire.NackRODOOO, PSN: startPSN.Add(4), SPDCID: 22, DPDCID: 11}))
	read := wire.StdFields{MessageID: 2, RequestLength: 8192}
	read.Opcode, read.Flags = wire.OpRead, wire.SESSOM|wire.SESEOM
	s.pair(true, request(4, wire.RequestFields{Flags: wire.ReqRETX, ClearOffset: -1}, read, nil, 0))
	ret := wire.AppendSESResponseData(wire.AppendAck(nil, &wire.AckFields{Type: wire.TypeAck, Next: wire.NextResponseData, CACK: startPSN.Add(4), SPDCID: 22, DPDCID: 11}),
		&wire.ResponseDataFields{RespFields: wire.RespFields{Opcode: wire.RespWithData, ReturnCode: wire.RCOK}, ReadRequestMessageID: 2, PayloadLength: 64, ModifiedLength: 8192})
	s.pair(false, append(ret, make([]byte, 64)...))
	rtr := wire.StdFields{MessageID: 3, BufferOffset: 8192, InitiatorToken: 0xA, TargetToken: 0xB}
	rtr.Opcode, rtr.Flags = wire.OpDeferrableRTR, wire.SESSOM|wire.SESEOM
	s.pair(true, request(5, wire.RequestFields{}, rtr, nil, 0))
	s.pair(true, wire.AppendCtrl(nil, &wire.CtrlFields{Ctl: wire.CtlProbe, PSN: startPSN.Add(5), SPDCID: 11, DPDCID: 22, ProbeOpaque: 1, Payload: uint32(startPSN.Add(3))}))
	s.pair(true, wire.AppendCtrl(nil, &wire.CtrlFields{Ctl: wire.CtlClearCommand, SPDCID: 11, DPDCID: 22, Payload: uint32(startPSN.Add(5))}))
	s.datagrams()
	return s
}

// datagrams adds packets that belong to no PDC.
func (s *scene) datagrams() {
	small := wire.SmallFields{RequestLength: 8}
	small.Opcode, small.Flags = wire.OpWrite, wire.SESSOM|wire.SESEOM
	for i := range uint32(4) {
		b := wire.AppendRUDI(nil, &wire.RUDIFields{Type: wire.TypeRUDIReq, Next: wire.NextRequestSmall, PktID: 900 + i})
		s.pair(true, append(wire.AppendSESSmall(b, &small), make([]byte, 8)...))
	}
	b := wire.AppendRUDI(nil, &wire.RUDIFields{Type: wire.TypeRUDIResp, Next: wire.NextResponse, PktID: 900})
	s.pair(false, wire.AppendSESResponse(b, &wire.ResponseFields{RespFields: wire.RespFields{ReturnCode: wire.RCOK}}))
	gram := wire.StdFields{MessageID: 9, RequestLength: 16}
	gram.Opcode, gram.Flags = wire.OpDatagramSend, wire.SESSOM|wire.SESEOM
	s.pair(true, append(wire.AppendSESStd(wire.AppendUUD(nil, wire.NextRequestStd), &gram), make([]byte, 16)...))
	s.pair(true, []byte{0x78, 0, 0, 0}) // a type that there is not
	s.frames = append(s.frames, shot{frame: make([]byte, 60), Capture: Capture{Timed: true, Time: s.now}})
}

// memory has one-sided operations: a write with header data, a read of four requests with the data that returns, an atomic.
func memory() *scene {
	s := &scene{}
	write := wire.StdFields{MessageID: 1, RequestLength: 64, MatchBits: 0x2A, BufferOffset: 512, HeaderData: 0xCAFE}
	write.Opcode, write.Flags = wire.OpWrite, wire.SESSOM|wire.SESEOM|wire.SESHD
	s.pair(true, request(0, wire.RequestFields{Flags: wire.ReqSYN}, write, nil, 64))
	read := wire.StdFields{MessageID: 2, RequestLength: 16384, MatchBits: 0x2A, BufferOffset: 4096}
	read.Opcode = wire.OpRead
	for i := range 4 {
		f := read
		f.MessageOffset, f.PayloadLength = uint32(i)*4096, 4096
		switch i {
		case 0:
			f.Flags, f.MessageOffset, f.PayloadLength = wire.SESSOM, 0, 0
		case 3:
			f.Flags = wire.SESEOM
		}
		s.pair(true, request(int32(1+i), wire.RequestFields{}, f, nil, 0))
	}
	for i := range 4 {
		b := wire.AppendRequest(nil, &wire.RequestFields{Type: wire.TypeRUDReq, Next: wire.NextResponseData, PSN: startPSN.Add(int32(i)), SPDCID: 22, DPDCID: 11})
		b = wire.AppendSESResponseData(b, &wire.ResponseDataFields{RespFields: wire.RespFields{Opcode: wire.RespWithData, ReturnCode: wire.RCOK}, ReadRequestMessageID: 2,
			MessageOffset: uint32(i) * 4096, PayloadLength: 4096, ModifiedLength: 16384})
		s.pair(false, append(b, make([]byte, 4096)...))
	}
	atomic := wire.StdFields{MessageID: 3, RequestLength: 8, MatchBits: 0x2A}
	atomic.Opcode, atomic.Flags = wire.OpFetchingAtomic, wire.SESSOM|wire.SESEOM
	s.pair(true, request(5, wire.RequestFields{}, atomic, wire.AppendAtomic(nil, &wire.AtomicFields{Op: wire.AtomicSum, Type: wire.AtomicUint64}), 8))
	return s
}

// path has packets that cross a switch, each captured on both links; one is trimmed there, one is sent twice.
func path() *scene {
	s := &scene{}
	const in, out = "host0:eth1 > leaf0:eth1", "leaf0:eth2 > host1:eth1"
	ses := wire.StdFields{MessageID: 1, RequestLength: 12288}
	ses.Opcode, ses.Flags = wire.OpWrite, wire.SESSOM
	s.send(addrA, addrB, request(0, wire.RequestFields{Flags: wire.ReqSYN}, ses, nil, 4096), in, out)
	ses.Flags, ses.MessageOffset, ses.PayloadLength = 0, 4096, 4096
	b := request(1, wire.RequestFields{Flags: wire.ReqSYN}, ses, nil, 4096)
	s.send(addrA, addrB, b, in)
	trimmed := wire.FrameFields{Src: addrA, Dst: addrB, EV: 7, TTL: 63, DSCP: wire.DSCPTrimmed}
	s.frame(trimmed, b[:len(b)-4096], out, s.now+1000)
	again := request(1, wire.RequestFields{Flags: wire.ReqSYN | wire.ReqRETX}, ses, nil, 4096)
	s.send(addrA, addrB, again, in) // lost in the switch
	s.now += 5000
	s.send(addrA, addrB, again, in, out)
	return s
}

func (s *scene) maker(opt Options) *Maker {
	m := New(opt)
	for _, f := range s.frames {
		p := wire.Decode(f.frame, wire.Options{})
		m.Add(&p, f.Capture)
	}
	return m
}

func (s *scene) draw(t *testing.T, opt Options) *Diagram {
	t.Helper()
	d, err := s.maker(opt).Diagram()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// forms are the outputs of a diagram by the endings of their files.
func forms(d *Diagram) map[string]func(io.Writer) error {
	return map[string]func(io.Writer) error{"txt": d.Text, "mmd": d.Mermaid, "svg": d.SVG}
}

func printed(t testing.TB, form func(io.Writer) error) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := form(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestGolden(t *testing.T) {
	for name, s := range map[string]*scene{"protocols": protocols(), "memory": memory(), "path": path()} {
		for ext, form := range forms(s.draw(t, Options{})) {
			file := filepath.Join("testdata", name+"."+ext)
			got := printed(t, form)
			if *update {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
				continue
			}
			want, err := os.ReadFile(file)
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s, %v: got\n%s", file, err, got)
			}
		}
	}
}

// TestOncePerPacket counts the arrows of packets that were captured on two links, and holds times to both captures.
func TestOncePerPacket(t *testing.T) {
	d := path().draw(t, Options{All: true})
	var copies []int
	for _, r := range d.rows {
		copies = append(copies, r.copies)
	}
	if len(d.rows) != 4 || copies[0] != 2 || copies[1] != 2 || copies[2] != 1 || copies[3] != 2 {
		t.Fatalf("copies %v, want 2 2 1 2", copies)
	}
	if !strings.Contains(d.rows[1].label, "TRIMMED") || !d.rows[1].hurt || d.rows[0].hurt {
		t.Errorf("rows 0 and 1: %+v", d.rows[:2])
	}
	if r := d.rows[0]; r.at != 0 || r.until != 500 {
		t.Errorf("at %d until %d, want 0 and 500", r.at, r.until)
	}
	if d.lanes[0] != "host0" || d.lanes[1] != addrB.String() {
		t.Errorf("lanes %v: host1 sent nothing, so its address has no name", d.lanes)
	}
}

// TestOrderOfTime gives the packets of a capture backwards.
func TestOrderOfTime(t *testing.T) {
	s := path()
	back := &scene{}
	for i := range s.frames {
		back.frames = append(back.frames, s.frames[len(s.frames)-1-i])
	}
	if a, b := printed(t, s.draw(t, Options{}).Text), printed(t, back.draw(t, Options{}).Text); !bytes.Equal(a, b) {
		t.Errorf("differ:\n%s\n%s", a, b)
	}
}

func TestOptions(t *testing.T) {
	s := protocols()
	for _, c := range []struct {
		name       string
		opt        Options
		want, lack string
	}{
		{"names", Options{Names: map[netip.Addr]string{addrA: "left\x1b"}}, "left ", "host0"},
		{"absolute", Options{Absolute: true}, "psn 4294967294 SOM", "+0"},
		{"relative", Options{}, "RUD_REQ RETX psn +4", "4294967294 SOM"},
		{"runs", Options{}, "… 3 more data packets +1..+3", "off 8192"},
		{"all", Options{All: true}, "off 8192", "more data"},
		{"pdc", Options{PDC: "a"}, "DEFERRABLE_RTR", "RUDI_REQ"},
		{"pdcid", Options{PDC: "22"}, "DEFERRABLE_RTR", "RUDI_REQ"},
		{"between", Options{Between: [2]string{"host1", addrA.String()}}, "UUD_REQ", "no such"},
	} {
		got := string(printed(t, s.draw(t, c.opt).Text))
		if !strings.Contains(got, c.want) || strings.Contains(got, c.lack) {
			t.Errorf("%s: want %q, not %q, in\n%s", c.name, c.want, c.lack, got)
		}
	}
}

func TestNothingToDraw(t *testing.T) {
	if _, err := New(Options{}).Diagram(); !errors.Is(err, ErrNone) {
		t.Errorf("empty: %v", err)
	}
	if _, err := protocols().maker(Options{PDC: "zz"}).Diagram(); !errors.Is(err, ErrNone) {
		t.Errorf("no such PDC: %v", err)
	}
	_, err := protocols().maker(Options{Between: [2]string{"host0", "host7"}}).Diagram()
	if err == nil || errors.Is(err, ErrNone) || !strings.Contains(err.Error(), "host7") || !strings.Contains(err.Error(), "host0, host1") {
		t.Errorf("no such lane: %v", err)
	}
}

// TestPDCsAreToldApart reuses a PDCID with another Start_PSN, and moves a PDC by NEW_START_PSN.
func TestPDCsAreToldApart(t *testing.T) {
	ses := wire.StdFields{MessageID: 1, RequestLength: 1}
	ses.Opcode, ses.Flags = wire.OpSend, wire.SESSOM|wire.SESEOM
	open := func(start wire.PSN) []byte {
		b := wire.AppendRequest(nil, &wire.RequestFields{Type: wire.TypeRODReq, Next: wire.NextRequestStd, Flags: wire.ReqSYN, PSN: start, SPDCID: 5})
		return append(wire.AppendSESStd(b, &ses), 0)
	}
	s := &scene{}
	s.pair(true, open(100))
	s.pair(true, open(900000))
	s.pair(false, wire.AppendNack(nil, &wire.NackFields{Type: wire.TypeNack, Code: wire.NackNewStartPSN, PSN: 900000, DPDCID: 5, Payload: 5000}))
	s.pair(true, open(5000))
	d := s.draw(t, Options{All: true})
	got := ""
	for _, r := range d.rows {
		got += r.pdc
	}
	if got != "abbb" || !strings.Contains(d.rows[3].label, "psn +0 ") {
		t.Errorf("PDCs %s, want abbb; last: %s", got, d.rows[3].label)
	}
}

// TestShortNames goes beyond the alphabet.
func TestShortNames(t *testing.T) {
	for n, want := range map[int]string{0: "a", 25: "z", 26: "aa", 51: "az", 52: "ba", 701: "zz", 702: "aaa"} {
		if got := shortName(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

// wellFormed reads a whole XML document.
func wellFormed(t testing.TB, b []byte) {
	t.Helper()
	in := xml.NewDecoder(bytes.NewReader(b))
	for {
		_, err := in.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, b)
		}
	}
}

func TestHostileNamesInEveryForm(t *testing.T) {
	opt := Options{Names: map[netip.Addr]string{addrA: "<b>&\"';--\x00\xff\ufffe\n", addrB: strings.Repeat("w", 99)}}
	d := protocols().draw(t, opt)
	svg := printed(t, d.SVG)
	wellFormed(t, svg)
	if bytes.Contains(svg, []byte("<b>")) {
		t.Error("a name became an element")
	}
	for _, line := range strings.Split(string(printed(t, d.Mermaid)), "\n")[1:] {
		if line != "" && !strings.HasPrefix(line, "    ") || strings.Contains(line, "<b>") {
			t.Errorf("Mermaid line %q", line)
		}
	}
}

// FuzzDiagram draws captures of arbitrary frames: bytes 0 and 1 of each say how long it is and where it was taken. The
// diagram has a row for at most every frame, is the same again, and its picture is XML.
func FuzzDiagram(f *testing.F) {
	for _, s := range []*scene{protocols(), memory(), path()} {
		var b []byte
		for _, fr := range s.frames {
			n := min(len(fr.frame), 150)
			b = append(append(b, byte(n), 1), fr.frame[:n]...)
		}
		f.Add(b)
	}
	f.Add([]byte{})
	ifaces := []string{"host0:eth1 > leaf0:eth1", "a:1 > b:2", " > ", "<&\n:x > y", ""}
	f.Fuzz(func(t *testing.T, b []byte) {
		make := func(all bool) (*Diagram, int) {
			m := New(Options{All: all, Absolute: len(b)%2 == 1})
			n := 0
			for rest := b; len(rest) >= 2; n++ {
				size, how := min(int(rest[0]), len(rest)-2), rest[1]
				p := wire.Decode(rest[2:2+size], wire.Options{})
				m.Add(&p, Capture{Timed: how != 255, Time: int64(how) << (how % 56), Iface: ifaces[int(how)%len(ifaces)]})
				rest = rest[2+size:]
			}
			d, err := m.Diagram()
			if err != nil && !errors.Is(err, ErrNone) {
				t.Fatal(err)
			}
			return d, n
		}
		for _, all := range []bool{false, true} {
			d, n := make(all)
			if d == nil {
				return
			}
			if d.Rows() < 1 || d.Rows() > n {
				t.Fatalf("%d rows of %d frames", d.Rows(), n)
			}
			again, _ := make(all)
			other := forms(again)
			for ext, form := range forms(d) {
				out := printed(t, form)
				if ext == "svg" {
					wellFormed(t, out)
				}
				if !bytes.Equal(out, printed(t, other[ext])) {
					t.Fatalf("%s differs the second time", ext)
				}
			}
		}
	})
}
