package fep

import (
	"testing"

	"github.com/uetlab/uetlab/fep/mr"
	"github.com/uetlab/uetlab/wire"
)

// raw sends a RUD request with any SES header to FEP 1: the PSN after the one before, AR set.
func (s *stub) raw1(psn *int32, next wire.NextHdr, ses func(b []byte) []byte) {
	*psn++
	n := *psn
	s.send(0, func(b []byte) []byte {
		return ses(wire.AppendRequest(b, &wire.RequestFields{Type: wire.TypeRUDReq, Next: next, Flags: wire.ReqAR, PSN: s.start.Add(n),
			SPDCID: stubPDC, DPDCID: s.peer, ClearOffset: -1}))
	})
}

// answered is the return code of the latest answer, or the NACK.
func (s *stub) answered() string {
	s.t.Helper()
	if len(s.raw) == 0 {
		return "nothing"
	}
	u := firstUET(s.raw[len(s.raw)-1])
	if n, err := wire.ParseNack(u); err == nil {
		return "NACK " + n.Code().String()
	}
	a, err := wire.ParseAck(u)
	if err != nil || !a.Next().IsResponse() {
		return "no response"
	}
	return wire.RespHead(u[len(a):][:2]).ReturnCode().String()
}

// TestCheckOrder breaks several rules of uet-pds-ses.md 17.1 at once: the earliest is the answer, and nothing else happens.
func TestCheckOrder(t *testing.T) {
	s := newStub(t, Config{GtdSlots: 1000})
	s.open()
	mem := fill(100, 1)
	ro, _ := s.eps[1].RegisterMR(MR{Buf: buf(mem), Access: mr.RemoteRead})
	rw, _ := s.eps[1].RegisterMR(MR{Buf: buf(mem), Access: mr.RemoteRead | mr.RemoteWrite})
	theirs, _ := s.eps[1].RegisterMR(MR{Buf: buf(mem), Access: mr.RemoteRead | mr.RemoteWrite, Job: 1})
	s.recv(20, 10)
	psn, mid := int32(0), uint16(100)
	const ok = wire.SESRel | wire.SESSOM | wire.SESEOM
	for i, c := range []struct {
		f    wire.StdFields
		n    int // payload
		ver  byte
		want string
	}{
		{wire.StdFields{HeadFields: wire.HeadFields{Opcode: 0x20, Flags: ok, JobID: 99}}, 0, 1, "UNCOR"},
		{wire.StdFields{HeadFields: wire.HeadFields{Opcode: 0x10, Flags: ok, JobID: 99}}, 0, 0, "UNSUPPORTED_OP"},
		{wire.StdFields{HeadFields: wire.HeadFields{Opcode: 0x11, Flags: ok, JobID: testJob}}, 0, 0, "UNSUPPORTED_OP"},
		{wire.StdFields{HeadFields: wire.HeadFields{Opcode: wire.OpTSendAtomic, Flags: ok, JobID: testJob}}, 0, 0, "UNSUPPORTED_OP"},
		{wire.StdFields{HeadFields: wire.HeadFields{Opcode: wire.OpDatagramSend, Flags: ok, JobID: testJob}}, 0, 0, "OP_VIOLATION"},
		{wire.StdFields{HeadFields: wire.HeadFields{Opcode: wire.OpAtomic, Flags: ok, JobID: testJob}}, 0, 0, "OP_VIOLATION"}, // no extension
		{wire.StdFields{HeadFields: wire.HeadFields{Opcode: wire.OpTaggedSend, Flags: ok, JobID: 99, PIDonFEP: 9}, RequestLength: 5000}, 10, 0, "BAD_JOB_ID"},
		{wire.StdFields{HeadFields: wire.HeadFields{Opcode: wire.OpTaggedSend, Flags: ok, JobID: testJob, PIDonFEP: 9, ResourceIndex: 1}, RequestLength: 5000}, 10, 0, "BAD_PID"},
		{wire.StdFields{HeadFields: wire.HeadFields{Opcode: wire.OpTaggedSend, Flags: ok, JobID: testJob, PIDonFEP: 1, ResourceIndex: 1}, RequestLength: 5000}, 10, 0, "BAD_INDEX"},
		{wire.StdFields{HeadFields: wire.HeadFields{Opcode: wire.OpTaggedSend, Flags: ok &^ wire.SESRel, JobID: testJob, PIDonFEP: 1, ResourceIndex: 15}, RequestLength: 10}, 10, 0, "BAD_PID"},
		{wire.StdFields{HeadFields: wire.HeadFields{Opcode: wire.OpTaggedSend, Flags: ok, JobID: testJob, PIDonFEP: 1, ResourceIndex: 15, RIGeneration: 3}, RequestLength: 5000}, 10, 0, "OP_VIOLATION"},
		{wire.StdFields{HeadFields: wire.HeadFields{Opcode: wire.OpTaggedSend, Flags: ok, JobID: testJob, PIDonFEP: 1, ResourceIndex: 15, RIGeneration: 3}, RequestLength: 10, MatchBits: 21}, 10, 0, "BAD_GENERATION"},
		{wire.StdFields{HeadFields: wire.HeadFields{Opcode: wire.OpTaggedSend, Flags: ok | wire.SESIE, JobID: testJob, PIDonFEP: 1, ResourceIndex: 15}, RequestLength: 10, MatchBits: 21}, 10, 0, "NO_MATCH"},
		{wire.StdFields{HeadFields: wire.HeadFields{Opcode: wire.OpWrite, Flags: ok | wire.SESIE, JobID: testJob, PIDonFEP: 1, ResourceIndex: 15}, RequestLength: 10, MatchBits: rw + 999}, 10, 0, "BAD_MKEY"},
		{wire.StdFields{HeadFields: wire.HeadFields{Opcode: wire.OpWrite, Flags: ok, JobID: testJob, PIDonFEP: 1, ResourceIndex: 15}, RequestLength: 10, MatchBits: theirs}, 10, 0, "BAD_MKEY"},
		{wire.StdFields{HeadFields: wire.HeadFields{Opcode: wire.OpWrite, Flags: ok, JobID: testJob, PIDonFEP: 1, ResourceIndex: 15}, RequestLength: 10, MatchBits: ro, BufferOffset: 99}, 10, 0, "PERM_VIOLATION"},
		{wire.StdFields{HeadFields: wire.HeadFields{Opcode: wire.OpWrite, Flags: ok | wire.SESIE, JobID: testJob, PIDonFEP: 1, ResourceIndex: 15}, RequestLength: 10, MatchBits: rw, BufferOffset: 91}, 10, 0, "BAD_ADDR"},
		{wire.StdFields{HeadFields: wire.HeadFields{Opcode: wire.OpRead, Flags: ok | wire.SESHD | wire.SESIE, JobID: testJob, PIDonFEP: 1, ResourceIndex: 15}, RequestLength: 10, MatchBits: rw}, 0, 0, "UNSUPPORTED_OP"},
		{wire.StdFields{HeadFields: wire.HeadFields{Opcode: wire.OpWrite, Flags: ok | wire.SESIE, JobID: testJob, PIDonFEP: 1, ResourceIndex: 15}, RequestLength: 10, MatchBits: rw}, 10, 0, "INITIATOR_ERROR"},
		{wire.StdFields{HeadFields: wire.HeadFields{Opcode: wire.OpNoOp, Flags: ok, JobID: testJob, PIDonFEP: 1, ResourceIndex: 15}, RequestLength: 10}, 10, 0, "OP_VIOLATION"},
		{wire.StdFields{HeadFields: wire.HeadFields{Opcode: wire.OpNoOp, Flags: ok, JobID: testJob, PIDonFEP: 1, ResourceIndex: 15}}, 0, 0, "OK"},
		{wire.StdFields{HeadFields: wire.HeadFields{Opcode: wire.OpMsgError, Flags: wire.SESRel | wire.SESIE | wire.SESEOM, JobID: testJob, PIDonFEP: 1, ResourceIndex: 15}}, 0, 0, "OK"},
		{wire.StdFields{HeadFields: wire.HeadFields{Opcode: wire.OpWrite, Flags: ok, JobID: testJob, PIDonFEP: 1, ResourceIndex: 15}, MatchBits: rw, BufferOffset: 100}, 0, 0, "OK"},
		{wire.StdFields{HeadFields: wire.HeadFields{Opcode: wire.OpRead, Flags: ok, JobID: testJob, PIDonFEP: 1, ResourceIndex: 15}, MatchBits: ro}, 0, 0, "OK"},
		{wire.StdFields{HeadFields: wire.HeadFields{Opcode: wire.OpTaggedSend, Flags: ok | wire.SESIE, JobID: testJob, PIDonFEP: 1, ResourceIndex: 15}, RequestLength: 10, MatchBits: 20, Initiator: 100}, 10, 0, "INITIATOR_ERROR"},
		{wire.StdFields{HeadFields: wire.HeadFields{Opcode: wire.OpTaggedSend, Flags: ok, JobID: testJob, PIDonFEP: 1, ResourceIndex: 15}, RequestLength: 10, MatchBits: 20, Initiator: 100}, 10, 0, "NO_MATCH"}, // it is consumed
	} {
		mid++
		c.f.MessageID = mid
		before := len(s.lab.got[1])
		s.raw1(&psn, wire.NextRequestStd, func(b []byte) []byte {
			at := len(b)
			b = wire.AppendSESStd(b, &c.f)
			b[at+1] |= c.ver << 6
			return append(b, make([]byte, c.n)...)
		})
		if got := s.answered(); got != c.want {
			t.Errorf("%d: %v: %s, want %s", i, c.f.Opcode, got, c.want)
		}
		if n := len(s.lab.got[1]) - before; n != 0 && i != 24 {
			t.Errorf("%d: %d completions", i, n)
		}
	}
	if string(mem) != string(fill(100, 1)) {
		t.Error("memory was written")
	}
	if f := s.feps[1]; f.rx.n != 0 {
		t.Errorf("%d messages left", f.rx.n)
	}
}

// TestMessageDisagrees: a later packet that contradicts the first one spoils the message; the ones after that get the same code, and
// the receive completes once.
func TestMessageDisagrees(t *testing.T) {
	s := newStub(t, Config{})
	s.open()
	s.recv(5, 4*4096)
	psn := int32(0)
	before := len(s.lab.got[1])
	send := func(f func(h *wire.StdFields)) string {
		h := wire.StdFields{HeadFields: wire.HeadFields{Opcode: wire.OpTaggedSend, Flags: wire.SESRel, JobID: testJob, PIDonFEP: 1, ResourceIndex: 15},
			MessageID: 9, Initiator: 100, MatchBits: 5, RequestLength: 4 * 4096, PayloadLength: 4096}
		f(&h)
		s.raw1(&psn, wire.NextRequestStd, func(b []byte) []byte { return append(wire.AppendSESStd(b, &h), make([]byte, 4096)...) })
		return s.answered()
	}
	if rc := send(func(h *wire.StdFields) { h.MessageOffset = 8192 }); rc != "OK" {
		t.Errorf("the first: %s", rc)
	}
	if rc := send(func(h *wire.StdFields) { h.MessageOffset, h.BufferOffset = 4096, 1 }); rc != "OP_VIOLATION" {
		t.Errorf("another buffer_offset: %s", rc)
	}
	if rc := send(func(h *wire.StdFields) { h.MessageOffset, h.Flags = 3*4096, h.Flags|wire.SESEOM }); rc != "OP_VIOLATION" {
		t.Errorf("a good one after that: %s", rc)
	}
	if c := s.lab.got[1][before:]; len(c) != 1 || code(c[0].Err) != wire.RCOpViolation {
		t.Errorf("completions %+v", c)
	}
}
