package fep

import (
	"math/rand/v2"
	"testing"

	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// stub speaks raw packets to FEP 1 in the name of node 0, and collects what FEP 1 answers:
//
//	s := newStub(t, Config{…})
//	s.open()                                 opens the PDC with a message at PSN start (relative 0)
//	s.recv(tag, n)                           posts a receive at FEP 1
//	s.request(req{psn: 1, flags: …, …})      one request packet; mode, next and data choose other kinds
//	s.ctrl(ctl, psn, payload)                one control packet
//	s.ackData(psn, off)                      acknowledges return data
//	s.send(ecn, func(b []byte) []byte)       anything else; s.ev and s.dscp are its outer headers
//	s.expect("1 ACK_CC cack 0 off 0 …", …)   what FEP 1 has said since, see line()
//	s.now += 300_000; s.run(s.now)           lets time go
type stub struct {
	*lab
	start wire.PSN
	peer  uint16 // target's PDCID, once known
	ev    uint16
	dscp  uint8
	got   []string
	raw   [][]byte
	now   vt.Time
}

const stubPDC = 0x0123

func newStub(t testing.TB, cfg Config) *stub {
	s := &stub{lab: newLab(t, cfg), start: 1000, ev: 77, dscp: 10, now: 1000}
	s.script = func(from int, b []byte) fate {
		if from == 1 {
			s.got = append(s.got, line(from, b, s.start))
			s.raw = append(s.raw, append([]byte(nil), b...))
			if a, err := wire.ParseAck(firstUET(b)); err == nil {
				s.peer = a.SPDCID()
			}
		}
		return fate{drop: true}
	}
	return s
}

// send delivers a UET packet to node 1 and runs all that follows within a microsecond.
func (s *stub) send(ecn uint8, build func(b []byte) []byte) {
	g := s.nodes[1].Pool.Get()
	ff := wire.FrameFields{DstMAC: testMAC(1), SrcMAC: testMAC(0), Src: testAddr(0), Dst: testAddr(1), EV: s.ev, DSCP: s.dscp, ECN: ecn}
	g.B = wire.AppendUETCRC(build(wire.AppendUDPFrame(g.B, &ff)))
	s.now += 1000
	g.Due = s.now
	s.deliver(1, g)
	s.run(s.now + 999)
}

// req is one packet of a message, by its place in PSN and message.
type req struct {
	psn   int32 // relative to start
	flags wire.ReqFlags
	clear int16
	mid   uint16
	op    wire.Opcode
	tag   uint64
	off   uint32
	total uint32
	n     int
	ecn   uint8
	job   uint32
	typ   wire.PDSType // 0: RUD_REQ
	next  wire.NextHdr // 0: the standard header; else what next_hdr says
	key   uint64       // memory key, in place of tag
	read  bool         // n bytes are asked for, not sent
}

func (s *stub) request(r req) {
	if r.typ == 0 {
		r.typ = wire.TypeRUDReq
	}
	if r.next == 0 {
		r.next = wire.NextRequestStd
	}
	if r.key != 0 {
		r.tag = r.key
	}
	s.send(r.ecn, func(b []byte) []byte {
		f := wire.RequestFields{Type: r.typ, Next: r.next, Flags: r.flags, ClearOffset: r.clear,
			PSN: s.start.Add(r.psn), SPDCID: stubPDC, DPDCID: s.peer, PSNOffset: uint16(r.psn)}
		h := wire.StdFields{HeadFields: wire.HeadFields{Opcode: r.op, Flags: wire.SESRel, JobID: testJob + r.job, PIDonFEP: 1,
			ResourceIndex: 15}, MessageID: r.mid, Initiator: 100, MatchBits: r.tag, PayloadLength: uint16(r.n),
			MessageOffset: r.off, RequestLength: r.total}
		if r.off == 0 {
			h.Flags |= wire.SESSOM
		}
		if r.off+uint32(r.n) == r.total {
			h.Flags |= wire.SESEOM
		}
		b = wire.AppendSESStd(wire.AppendRequest(b, &f), &h)
		if r.read {
			return b
		}
		return append(b, make([]byte, r.n)...)
	})
}

func (s *stub) ctrl(ctl wire.CtlType, psn int32, payload uint32) {
	s.send(0, func(b []byte) []byte {
		return wire.AppendCtrl(b, &wire.CtrlFields{Ctl: ctl, Flags: wire.CtrlAR, PSN: s.start.Add(psn), SPDCID: stubPDC,
			DPDCID: s.peer, Payload: payload, ProbeOpaque: 0xBEEF})
	})
}

// ackData acknowledges read data of FEP 1: everything up to psn, and by name psn + off.
func (s *stub) ackData(psn int32, off int16) {
	s.send(0, func(b []byte) []byte {
		return wire.AppendAck(b, &wire.AckFields{Type: wire.TypeAckCC, CACK: s.start.Add(psn), AckOffset: off, SPDCID: stubPDC, DPDCID: s.peer, MPR: 8,
			SACKOffset: 1})
	})
}

// expect compares what node 1 said since the last call.
func (s *stub) expect(want ...string) {
	s.t.Helper()
	wantLines(s.t.(*testing.T), s.got, want)
	s.got = nil
}

func (s *stub) recv(tag uint64, n int) []byte {
	b := make([]byte, n)
	s.now += 1000
	s.call(1, s.now, func(now vt.Time) {
		if err := s.eps[1].TagRecv(now, -1, b, tag, tag); err != nil {
			s.t.Error(err)
		}
	})
	s.run(s.now)
	return b
}

// open opens the PDC with a one-packet message at PSN start.
func (s *stub) open() {
	s.recv(1, 10)
	s.request(req{flags: wire.ReqSYN, clear: -1, mid: 1, op: wire.OpTaggedSend, tag: 1, total: 10, n: 10})
	s.expect("1 ACK_CC cack 0 off 0 RESPONSE OK 10")
}

// TestCoalesce is sequence D of uet-pds-ses.md 5.6, and the 16 KiB trigger of 5.7.
func TestCoalesce(t *testing.T) {
	s := newStub(t, Config{})
	s.open()
	const total = 4 * 4096
	s.recv(2, total)
	for i := range uint32(4) {
		fl := wire.ReqFlags(0)
		if i == 3 {
			fl = wire.ReqAR
		}
		s.request(req{psn: int32(i) + 1, flags: fl, clear: -1, mid: 2, op: wire.OpTaggedSend, tag: 2, off: i * 4096, total: total, n: 4096})
	}
	s.expect("1 ACK_CC cack 4 off 0 RESPONSE OK 16384")

	// Without AR: each packet counts 4 KiB, small ones 1 KiB.
	s.recv(3, 16*4096)
	for i := range uint32(9) {
		s.request(req{psn: int32(i) + 5, mid: 3, op: wire.OpTaggedSend, tag: 3, off: i * 4096, total: 16 * 4096, n: 4096})
	}
	s.expect("1 ACK_CC cack 8 off 0 DEFAULT_RESPONSE OK 0", "1 ACK_CC cack 12 off 0 DEFAULT_RESPONSE OK 0")
	s.now += 300_000
	s.run(s.now)
	s.expect("1 ACK_CC cack 13 off 0 DEFAULT_RESPONSE OK 0") // MaxAckDelay
}

// TestGapFill: a packet that asked for an ACK above a gap is acknowledged again when the gap closes.
func TestGapFill(t *testing.T) {
	s := newStub(t, Config{})
	s.open()
	s.recv(2, 3*4096)
	r := req{psn: 3, flags: wire.ReqAR, mid: 2, op: wire.OpTaggedSend, tag: 2, off: 2 * 4096, total: 3 * 4096, n: 4096}
	s.request(r)
	s.expect("1 ACK_CC cack 0 off 3 DEFAULT_RESPONSE OK 0")
	r.psn, r.off, r.flags = 1, 0, 0
	s.request(r)
	s.expect()
	r.psn, r.off = 2, 4096
	s.request(r)
	s.expect("1 ACK_CC cack 3 off -1 RESPONSE OK 12288")
}

// TestGuaranteed is the worked example of uet-pds-ses.md 20.1 with sequence B: an error response pins CACK until it is
// cleared, and is repeated byte by byte.
func TestGuaranteed(t *testing.T) {
	s := newStub(t, Config{})
	s.open()
	s.recv(2, 10)
	s.recv(4, 10)
	one := func(psn int32, tag uint64, fl wire.ReqFlags) {
		s.request(req{psn: psn, flags: wire.ReqAR | fl, clear: int16(-psn), mid: uint16(tag), op: wire.OpTaggedSend, tag: tag, total: 10, n: 10})
	}
	one(2, 2, 0)
	s.expect("1 ACK_CC cack 0 off 2 RESPONSE OK 10")
	one(1, 9, 0) // nothing posted
	s.expect("1 ACK_CC cack 0 off 1 req CLEAR RESPONSE NO_MATCH 0")
	first := s.raw[len(s.raw)-1]
	one(3, 4, 0)
	s.expect("1 ACK_CC cack 0 off 3 RESPONSE OK 10")
	a, _ := wire.ParseAck(firstUET(s.raw[len(s.raw)-1]))
	if a.SACKBase() != s.start+1 || a.SACKBitmap() != 7 {
		t.Errorf("SACK base %d bitmap %b, want +1 111", a.SACKBase()-s.start, a.SACKBitmap())
	}
	one(1, 9, wire.ReqRETX)
	s.expect("1 ACK_CC cack 0 off 1 req CLEAR RETX RESPONSE NO_MATCH 0")
	again := s.raw[len(s.raw)-1]
	if x, y := firstUET(first), firstUET(again); string(x[32:]) != string(y[32:]) {
		t.Errorf("stored response differs: % x, % x", x[32:], y[32:])
	}
	if g := s.feps[1].C[GtdInUse]; g != 1 {
		t.Errorf("%d responses kept, want 1", g)
	}
	s.ctrl(wire.CtlClearCommand, 0, uint32(s.start)+3)
	s.expect()
	if g := s.feps[1].C[GtdInUse]; g != 0 {
		t.Errorf("%d responses kept after CLEAR", g)
	}
	s.ctrl(wire.CtlProbe, 0, 0)
	a, _ = wire.ParseAck(firstUET(s.raw[len(s.raw)-1]))
	if !a.P() || a.ProbeOpaque() != 0xBEEF || a.CACK() != s.start+3 {
		t.Errorf("Probe: P %v opaque %x cack %d", a.P(), a.ProbeOpaque(), a.CACK()-s.start)
	}
}

func TestDuplicateAndWindow(t *testing.T) {
	s := newStub(t, Config{})
	s.open()
	s.request(req{flags: wire.ReqSYN | wire.ReqRETX, mid: 1, op: wire.OpTaggedSend, tag: 1, total: 10, n: 10})
	s.expect("1 ACK_CC cack 0 off 0 RETX DEFAULT_RESPONSE OK 0")
	if s.feps[1].C[PDCOpened] != 1 || s.feps[1].C[DupRx] != 1 || s.feps[1].C[MsgsRx] != 1 {
		t.Errorf("opened %d, duplicates %d, messages %d", s.feps[1].C[PDCOpened], s.feps[1].C[DupRx], s.feps[1].C[MsgsRx])
	}
	r := req{mid: 2, op: wire.OpTaggedSend, tag: 2, total: 10, n: 10}
	for _, c := range []struct {
		psn  int32
		fl   wire.ReqFlags
		want string
	}{
		{1025, 0, "1 NACK PSN_OOR_WINDOW psn 1025"},
		{-1024, 0, "1 NACK PSN_OOR_WINDOW psn -1024"},
		{1025, wire.ReqSYN, "1 NACK INVALID_SYN psn 1025"},
	} {
		s.now += 300_000 // such NACKs are limited to one in RTO_Init/4
		r.psn, r.flags = c.psn, c.fl
		s.request(r)
		s.expect(c.want)
	}
	r.psn, r.flags = 1024, wire.ReqAR
	s.request(r)
	s.expect("1 ACK_CC cack 0 off 1024 req CLEAR RESPONSE NO_MATCH 0")
	peer := s.peer
	s.peer = 0x7777
	s.request(r)
	s.expect("1 NACK INV_DPDCID psn 1024")
	s.peer = peer
	s.start += 5
	s.request(req{flags: wire.ReqSYN, mid: 3, op: wire.OpSend, total: 1, n: 1})
	s.expect("1 NACK INVALID_SYN psn 0")
}

// TestSACK sends 64 packets in random order and compares every bitmap with what has arrived.
func TestSACK(t *testing.T) {
	s := newStub(t, Config{})
	s.open()
	s.recv(2, 64*4096)
	seed := rand.Uint64()
	have := map[wire.PSN]bool{s.start: true}
	for _, i := range rand.New(rand.NewPCG(seed, 0)).Perm(64) {
		s.request(req{psn: int32(i) + 1, flags: wire.ReqAR, mid: 2, op: wire.OpTaggedSend, tag: 2, off: uint32(i) * 4096, total: 64 * 4096, n: 4096})
		have[s.start.Add(int32(i)+1)] = true
		a, err := wire.ParseAck(firstUET(s.raw[len(s.raw)-1]))
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		ooo := 0
		for p := range have {
			if p.After(a.CACK()) {
				ooo++
			}
		}
		if !have[a.CACK()] || have[a.CACK()+1] || a.AckPSN() != s.start.Add(int32(i)+1) {
			t.Fatalf("seed %d: cack %d, ack %d after %d", seed, a.CACK()-s.start, a.AckPSN()-s.start, i+1)
		}
		for b := range int32(64) {
			if p := a.SACKBase().Add(b); a.SACKBitmap()>>b&1 != 0 != have[p] {
				t.Fatalf("seed %d: SACK of %d is %v", seed, p-s.start, !have[p])
			}
		}
		rcvd := (8 + 12 + 44 + 10 + 4 + 40 + (len(have)-1)*(8+12+44+4096+4+40) + 255) / 256
		if n := wire.UnpackNSCC(a.CCState()); int(n.OOO) != ooo || n.ServiceTime == 0 || int(n.RcvdBytes) != rcvd {
			t.Fatalf("seed %d: ooo_count %d, want %d; rcvd_bytes %d, want %d", seed, n.OOO, ooo, n.RcvdBytes, rcvd)
		}
	}
	if s.feps[1].C[MsgsRx] != 2 {
		t.Errorf("seed %d: message not complete", seed)
	}
}

// TestRejected goes through the return codes of uet-pds-ses.md 17.1.
func TestRejected(t *testing.T) {
	s := newStub(t, Config{})
	s.open()
	mem := make([]byte, 100)
	key := s.eps[1].Register(mem)
	s.recv(20, 10)
	r := func(f func(*req)) req {
		q := req{flags: wire.ReqAR, op: wire.OpTaggedSend, tag: 20, total: 10, n: 10}
		f(&q)
		return q
	}
	for i, c := range []struct {
		q    req
		want string
	}{
		{r(func(q *req) { q.job = 1 }), "BAD_JOB_ID"},
		{r(func(q *req) { q.op = wire.OpTSendAtomic }), "UNSUPPORTED_OP"},
		{r(func(q *req) { q.tag = 21 }), "NO_MATCH"},
		{r(func(q *req) { q.op = wire.OpSend }), "NO_MATCH"},
		{r(func(q *req) { q.op = wire.OpWrite; q.tag = key + 1 }), "BAD_MKEY"},
		{r(func(q *req) { q.op = wire.OpWrite; q.tag = key; q.total, q.n = 101, 101 }), "BAD_ADDR"},
		{r(func(q *req) { q.n = 5 }), "OP_VIOLATION"}, // before a receive is looked for
	} {
		c.q.psn, c.q.mid = int32(i)+1, uint16(i)+2
		s.request(c.q)
		s.expect("1 ACK_CC cack 0 off " + string('1'+rune(i)) + " req CLEAR RESPONSE " + c.want + " 0")
	}
	if g := s.lab.got[1]; len(g) != 1 {
		t.Errorf("completions at the target: %+v", g)
	}
	if s.feps[1].C[RespErrTx] != 7 || s.feps[1].C[GtdInUse] != 7 {
		t.Errorf("%d error responses, %d kept", s.feps[1].C[RespErrTx], s.feps[1].C[GtdInUse])
	}
	s.ctrl(wire.CtlAckRequest, 2, 0)
	s.expect("1 ACK_CC cack 0 off 2 req CLEAR RESPONSE UNSUPPORTED_OP 0")
	s.ctrl(wire.CtlAckRequest, 50, 0)
	s.expect("1 NACK PKT_NOT_RCVD psn 50")
	s.ctrl(wire.CtlCloseCommand, 8, 0)
	s.expect("1 ACK_CC cack 8 off 0 NONE")
	s.request(req{psn: 9, mid: 40, op: wire.OpSend, total: 1, n: 1})
	s.expect("1 NACK CLOSING psn 9")
	if s.feps[1].C[GtdInUse] != 0 {
		t.Errorf("%d responses kept after Close", s.feps[1].C[GtdInUse])
	}
	s.leaks()
}

func TestNoResources(t *testing.T) {
	s := newStub(t, Config{GtdSlots: 1, MaxPDCs: 1})
	s.open()
	s.request(req{psn: 1, flags: wire.ReqAR, mid: 2, op: wire.OpSend, total: 1, n: 1})
	s.expect("1 ACK_CC cack 0 off 1 req CLEAR RESPONSE NO_MATCH 0")
	s.request(req{psn: 2, mid: 3, op: wire.OpSend, total: 1, n: 1})
	s.expect("1 NACK NO_GTD_DEL_AVAIL psn 2")
	s.request(req{psn: 2, flags: wire.ReqAR, clear: -1, mid: 3, op: wire.OpSend, total: 1, n: 1})
	s.expect("1 ACK_CC cack 1 off 1 req CLEAR RESPONSE NO_MATCH 0")
	s.send(0, func(b []byte) []byte {
		return append(wire.AppendRequest(b, &wire.RequestFields{Type: wire.TypeRUDReq, Next: wire.NextRequestStd,
			Flags: wire.ReqSYN, PSN: s.start, SPDCID: 9}), make([]byte, 44)...)
	})
	s.expect("1 NACK NO_PDC_AVAIL psn 0")
}

// TestCE: a marked packet is acknowledged at once and the mark is echoed, as is the entropy value.
func TestCE(t *testing.T) {
	s := newStub(t, Config{})
	s.open()
	s.recv(2, 3*4096)
	s.ev = 0x4321
	s.request(req{psn: 1, mid: 2, op: wire.OpTaggedSend, tag: 2, total: 3 * 4096, n: 4096, ecn: wire.ECNCE})
	in, u := uet(s.raw[len(s.raw)-1])
	a, _ := wire.ParseAck(u)
	if !a.M() || in.EV != 0x4321 || in.DSCP != 46 || a.AckPSN() != s.start+1 {
		t.Errorf("M %v, EV %x, DSCP %d, ack %d", a.M(), in.EV, in.DSCP, a.AckPSN()-s.start)
	}
}
