package fep

import (
	"testing"

	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// say is one request packet of a stub, with any SES header. It asks for an ACK unless it is quiet, and clears all before it.
type say struct {
	psn     int32
	flags   wire.ReqFlags
	quiet   bool
	typ     wire.PDSType // 0: RUD_REQ
	next    wire.NextHdr // 0: the standard header; medium and small ones take what they have of h
	h       wire.StdFields
	ext     *wire.AtomicFields
	payload []byte
	version uint8
}

// message is the header of a message of one packet, from process 0 to process 1 of the job.
func message(op wire.Opcode, mid uint16, n int) wire.StdFields {
	return wire.StdFields{HeadFields: wire.HeadFields{Opcode: op, Flags: wire.SESRel | wire.SESSOM | wire.SESEOM, JobID: testJob, PIDonFEP: 1,
		ResourceIndex: 15}, MessageID: mid, Initiator: 100, RequestLength: uint32(n)}
}

// part is the i-th packet of a message of packets of 1024 bytes.
func part(psn int32, h wire.StdFields, data []byte, i int) say {
	const mtu = 1024
	end := min((i+1)*mtu, len(data))
	h.Flags &^= wire.SESSOM | wire.SESEOM
	if i == 0 {
		h.Flags |= wire.SESSOM
	}
	if end == len(data) {
		h.Flags |= wire.SESEOM
	}
	h.RequestLength, h.MessageOffset, h.PayloadLength = uint32(len(data)), uint32(i*mtu), uint16(end-i*mtu)
	return say{psn: psn, h: h, payload: data[i*mtu : end]}
}

// whole is a message of one packet.
func whole(psn int32, h wire.StdFields, data []byte) say {
	h.RequestLength = uint32(len(data))
	return say{psn: psn, h: h, payload: data}
}

// say sends a packet.
func (s *stub) say(p say) {
	if p.typ == 0 {
		p.typ = wire.TypeRUDReq
	}
	if p.next == 0 {
		p.next = wire.NextRequestStd
	}
	if !p.quiet {
		p.flags |= wire.ReqAR
	}
	s.send(0, func(b []byte) []byte {
		b = wire.AppendRequest(b, &wire.RequestFields{Type: p.typ, Next: p.next, Flags: p.flags, ClearOffset: -1, PSN: s.start.Add(p.psn),
			SPDCID: stubPDC, DPDCID: s.peer, PSNOffset: uint16(p.psn)})
		at := len(b)
		switch p.next {
		case wire.NextRequestMedium:
			b = wire.AppendSESMedium(b, &wire.MediumFields{HeadFields: p.h.HeadFields, RequestLength: uint16(p.h.RequestLength),
				BufferOffset: p.h.BufferOffset, HeaderData: p.h.HeaderData, Initiator: p.h.Initiator, MatchBits: p.h.MatchBits})
		case wire.NextRequestSmall:
			b = wire.AppendSESSmall(b, &wire.SmallFields{HeadFields: p.h.HeadFields, RequestLength: uint16(p.h.RequestLength),
				BufferOffset: p.h.BufferOffset})
		default:
			b = wire.AppendSESStd(b, &p.h)
		}
		b[at+1] |= p.version << 6
		if p.ext != nil {
			b = wire.AppendAtomic(b, p.ext)
		}
		return append(b, p.payload...)
	})
}

// reply is the answer of a target to one packet.
type reply struct {
	ack  wire.Ack
	next wire.NextHdr
	gtd  bool // REQ_CLEAR
	op   wire.RespOpcode
	rc   wire.ReturnCode
	list wire.List
	mod  uint32
	gen  uint8
	mid  uint16   // message_id, or read_request_message_id
	psn  wire.PSN // original_request_psn
	off  uint32
	data []byte
}

// ask sends a packet and takes the answer, which must be one ACK for it.
func (s *stub) ask(p say) reply {
	s.t.Helper()
	s.got, s.raw = nil, nil
	s.say(p)
	if len(s.raw) != 1 {
		s.t.Fatalf("PSN %d: %d answers: %q", p.psn, len(s.raw), s.got)
	}
	a := parseSaid(s.t, firstUET(s.raw[0]))
	if a.ack.AckPSN() != s.start.Add(p.psn) {
		s.t.Fatalf("PSN %d: answer %q", p.psn, s.got[0])
	}
	return a
}

// parseSaid takes an ACK with its response apart.
func parseSaid(t testing.TB, u []byte) (a reply) {
	t.Helper()
	var err error
	if a.ack, err = wire.ParseAck(u); err != nil || !wire.Prologue(u).Type().IsAck() {
		t.Fatalf("no ACK: %s", describe(u))
	}
	a.next, a.gtd = a.ack.Next(), a.ack.Req() == wire.AckReqClear
	return parseResponse(t, a, u[len(a.ack):])
}

// parseResponse fills in what a SES response says.
func parseResponse(t testing.TB, a reply, b []byte) reply {
	t.Helper()
	var h wire.RespHead
	switch a.next {
	case wire.NextNone:
		a.rc = wire.RCOK
		return a
	case wire.NextResponse:
		r, err := wire.ParseSESResponse(b)
		if err != nil {
			t.Fatal(err)
		}
		h, a.mod, a.gen, a.mid = r.Head(), r.ModifiedLength(), r.RIGeneration(), r.MessageID()
	case wire.NextResponseData:
		r, err := wire.ParseSESResponseData(b)
		if err != nil {
			t.Fatal(err)
		}
		h, a.mod, a.mid, a.off, a.data = wire.RespHead(b[:2]), r.ModifiedLength(), r.ReadRequestMessageID(), r.MessageOffset(), b[len(r):]
		a.data = a.data[:r.PayloadLength()]
	case wire.NextResponseDataSmall:
		r, err := wire.ParseSESResponseDataSmall(b)
		if err != nil {
			t.Fatal(err)
		}
		h, a.psn, a.data = wire.RespHead(b[:2]), r.OriginalRequestPSN(), b[len(r):]
		a.data = a.data[:r.PayloadLength()]
	default:
		t.Fatalf("%v behind an ACK", a.next)
	}
	a.op, a.rc, a.list = h.Opcode(), h.ReturnCode(), h.List()
	return a
}

// refused sends a packet that must be answered with an error that cannot get lost.
func (s *stub) refused(p say, rc wire.ReturnCode) reply {
	s.t.Helper()
	a := s.ask(p)
	if a.rc != rc || !a.gtd || a.op != wire.RespResponse || a.mod != 0 || p.next == 0 && a.mid != p.h.MessageID {
		s.t.Errorf("PSN %d, %v: %v %v, modified_length %d, guaranteed %v, message %d; want %v", p.psn, p.h.Opcode, a.op, a.rc, a.mod, a.gtd, a.mid, rc)
	}
	return a
}

// taken sends a packet that must complete its message.
func (s *stub) taken(p say) reply {
	s.t.Helper()
	a := s.ask(p)
	if a.rc != wire.RCOK || a.gtd || a.op != wire.RespResponse || a.mod != p.h.RequestLength || p.next == 0 && a.mid != p.h.MessageID {
		s.t.Errorf("PSN %d, %v: %v %v, modified_length %d, guaranteed %v, message %d; want %d bytes", p.psn, p.h.Opcode, a.op, a.rc, a.mod, a.gtd, a.mid,
			p.h.RequestLength)
	}
	return a
}

// partial sends a packet that must be taken without completing its message.
func (s *stub) partial(p say) {
	s.t.Helper()
	if a := s.ask(p); a.rc > wire.RCOK || a.gtd || a.op != wire.RespDefault {
		s.t.Errorf("PSN %d, %v: %v %v, guaranteed %v; want a default response", p.psn, p.h.Opcode, a.op, a.rc, a.gtd)
	}
}

// openBy opens a PDC of a type, with a NO_OP at PSN start.
func (s *stub) openBy(typ wire.PDSType) {
	s.t.Helper()
	s.taken(say{typ: typ, flags: wire.ReqSYN, h: message(wire.OpNoOp, 0xFFF0, 0)})
}

// wait lets time go.
func (s *stub) wait(d vt.Time) {
	s.now = max(s.now, s.lab.now()) + d
	s.run(s.now)
}

// newLabWith is newLab with other endpoints: what is 0 of job, PID and initiator is what newLab gives.
func newLabWith(t testing.TB, cfg Config, eps ...EndpointConfig) *lab {
	t.Helper()
	l := newLab(t, cfg)
	for i, c := range eps {
		if c.Job == 0 {
			c.Job = testJob
		}
		if c.PID == 0 {
			c.PID = uint16(i)
		}
		if c.Initiator == 0 {
			c.Initiator = uint32(100 + i)
		}
		l.eps[i].Close(0)
		l.eps[i] = l.open(i, c)
	}
	for i := range l.eps {
		l.eps[i].av, l.eps[i].ranks = nil, map[uint32]int{}
		for j := range l.eps {
			if _, err := l.eps[i].Insert(l.eps[j].Addr()); err != nil {
				t.Fatalf("node %d: insert %d: %v", i, j, err)
			}
		}
	}
	l.got = [2][]Completion{}
	return l
}

// open opens one more endpoint on node i, whose completions go where the others' go.
func (l *lab) open(i int, c EndpointConfig) *Endpoint {
	l.t.Helper()
	ep, err := l.feps[i].Open(c, func(_ vt.Time, c Completion) { l.got[i] = append(l.got[i], c) })
	if err != nil {
		l.t.Fatal(err)
	}
	return ep
}

// by has an endpoint post an operation, a little later than everything so far.
func (l *lab) by(ep *Endpoint, op Op) {
	l.t.Helper()
	n := 0
	if ep.f == l.feps[1] {
		n = 1
	}
	l.call(n, l.now()+10, func(now vt.Time) {
		if err := ep.Post(now, &op); err != nil {
			l.t.Errorf("%v: %v", op.Kind, err)
		}
	})
	l.run(l.now() + 10)
}
