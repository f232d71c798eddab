package fep

import (
	"testing"

	"github.com/uetlab/uetlab/fep/pds"
	"github.com/uetlab/uetlab/internal/engine"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// bare is a node with packet delivery and, above it, a SES of a few lines that uses the header of short messages: it takes all that
// it is told to write, and returns a hundred bytes for a read.
type bare struct {
	n    *engine.Node
	m    *pds.Manager
	c    pds.Counters
	data []wire.PSN // read data that came: original_request_psn
}

// newBare puts the core in place of a lab's FEP.
func newBare(l *lab, i int, cfg pds.Config) *bare {
	b := &bare{n: l.nodes[i]}
	cfg.MAC, cfg.NextHop, cfg.FA, cfg.PayloadMTU, cfg.PDCsPerKey = testMAC(i), testMAC(1-i), testAddr(i), 4096, 1
	if err := cfg.Resolve(); err != nil {
		l.t.Fatal(err)
	}
	b.m = pds.New(cfg, pds.Host{Pool: b.n.Pool, Port: b.n.Ports[0], Timer: func(t vt.Time) { b.n.SetTimer(t, 0) }}, b, &b.c)
	b.n.Attach(b)
	return b
}

func (b *bare) Reset(now vt.Time)                              { b.m.Reset(now, b.n.Rand("fep"), b.n.Rand("fep-ev")) }
func (b *bare) NextFrame(now vt.Time, _ int) *link.Frame       { return b.m.NextFrame(now) }
func (b *bare) Dequeued(vt.Time, int, *link.Frame, bool)       {}
func (b *bare) Timer(now vt.Time, _ uint64)                    { b.m.Timer(now) }
func (b *bare) Closed(now vt.Time, p *pds.PDC, err *pds.Error) {}
func (b *bare) Pause(vt.Time, bool, bool)                      {}
func (b *bare) Arrive(now vt.Time, _ int, f *link.Frame) {
	in, _ := uet(f.B)
	src, _ := addrs(&in)
	b.m.Packet(now, &in, nil, src)
	f.Release()
	b.m.Kick(now)
}

// Request implements pds.Upper.
func (b *bare) Request(now vt.Time, q *pds.Request, r *pds.Response) wire.NackCode {
	r.Job = testJob
	if q.Return {
		h, _ := wire.ParseSESResponseDataSmall(q.B)
		b.data = append(b.data, h.OriginalRequestPSN())
		return 0
	}
	h, _ := wire.ParseSESMedium(q.B)
	r.Set(&wire.ResponseFields{RespFields: wire.RespFields{Opcode: wire.RespResponse, ReturnCode: wire.RCOK, JobID: testJob}})
	if h.Head().Opcode() == wire.OpRead {
		s := &short{data: true, psn: q.PSN, n: int(h.RequestLength())}
		s.S, s.Len = s, int64(s.n)
		b.m.Return(now, q.PDC, &s.Msg)
	}
	return 0
}

// post sends count requests of op.
func (b *bare) post(l *lab, i int, op wire.Opcode, count, n int) {
	l.call(i, l.now()+1, func(now vt.Time) {
		for range count {
			s := &short{op: op, n: n}
			s.S, s.Peer, s.Job = s, testAddr(1-i), testJob
			b.m.Submit(now, &s.Msg)
		}
		b.m.Kick(now)
	})
}

// short is a message of one packet: a request without data, or data that a read asked for. It implements pds.Sender.
type short struct {
	pds.Msg
	op   wire.Opcode
	data bool
	psn  wire.PSN // of the read
	n    int
}

func (s *short) Next() (int, wire.NextHdr) {
	if s.data {
		return s.n, wire.NextResponseDataSmall
	}
	return 0, wire.NextRequestMedium
}

func (s *short) Cut(k *pds.Packet) bool {
	if s.data {
		k.N = uint16(s.n)
	}
	return true
}

func (s *short) Header(b []byte, _ *pds.Packet) []byte {
	if s.data {
		return wire.AppendSESResponseDataSmall(b, &wire.ResponseDataSmallFields{RespFields: wire.RespFields{Opcode: wire.RespWithData,
			ReturnCode: wire.RCOK, JobID: testJob}, PayloadLength: uint16(s.n), OriginalRequestPSN: s.psn})
	}
	return wire.AppendSESMedium(b, &wire.MediumFields{HeadFields: wire.HeadFields{Opcode: s.op, Flags: wire.SESRel | wire.SESSOM | wire.SESEOM,
		JobID: testJob, PIDonFEP: 1, ResourceIndex: 15}, RequestLength: uint16(s.n), Initiator: 100, MatchBits: 1})
}

func (s *short) Payload(*pds.Packet) []byte                          { return make([]byte, s.n) }
func (s *short) Response(vt.Time, *pds.Packet, wire.NextHdr, []byte) {}
func (s *short) Done(vt.Time)                                        {}
func (s *short) Rewind() bool                                        { return false }
func (s *short) Failed(vt.Time, *pds.Error)                          {}

// TestSequenceF is sequence F of uet-pds-ses.md 5.6: as E, but with the header of short messages, whose data names the PSN of its
// request.
func TestSequenceF(t *testing.T) {
	l := newLab(t, Config{})
	a, b := newBare(l, 0, pds.Config{Secure: fixed(48)}), newBare(l, 1, pds.Config{Secure: fixed(48)})
	a.post(l, 0, wire.OpWrite, 332-48+1, 0)
	l.after(200_000)
	r := &recorder{l: l}
	r.record()
	a.post(l, 0, wire.OpRead, 1, 100)
	l.after(100_000)
	if len(a.data) != 1 || a.data[0] != 333 || b.c[pds.DataRx] != 286 {
		t.Errorf("data of requests %d, %d requests", a.data, b.c[pds.DataRx])
	}
	golden(t, "F", r.lines, []string{
		"I->T RUD_REQ psn 333 AR", "T->I ACK_CC cack 333 off +0 (ack 333) req NONE", "RESPONSE OK",
		"T->I RUD_REQ psn 48 AR clear 47 (-1) | RESPONSE_DATA_SMALL OK request psn 333", "I->T ACK_CC cack 48 off +0 (ack 48) req NONE",
	})
}
