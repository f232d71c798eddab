package fep

import (
	"testing"

	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// peerStub answers FEP 0 in the name of node 1 by hand, and collects what FEP 0 sends:
//
//	s := newPeerStub(t, Config{…})
//	s.post(func(now) error { return s.eps[0].TagSend(now, 1, buf, tag, ctx) })
//	s.expect("0 RUD_REQ psn 0 clr -1 SYN off 0 AR")     PSNs relative to the first Start_PSN
//	s.ack(0, 0)                                          CACK 0, names PSN 0, default response; ackWith changes the fields
//	s.nack(wire.NackTrimmed, 1)                          refuses PSN 1
//	s.ctrl(wire.CtlClearRequest, 0, 5)                   a control packet
//	s.pass(time.Millisecond)                             lets time go
type peerStub struct {
	*lab
	start wire.PSN
	spdc  uint16 // of FEP 0's first PDC
	ev    uint16 // of the latest packet
	got   []string
	raw   [][]byte
	at    []vt.Time // when each packet of raw was sent
}

// peerPDC is the PDCID that the stub gives its end of the first PDC.
const peerPDC = 0x0456

func newPeerStub(t testing.TB, cfg Config) *peerStub {
	s := &peerStub{lab: newLab(t, cfg)}
	s.script = func(from int, b []byte) fate {
		if from != 0 {
			return fate{}
		}
		in, u := uet(b)
		s.ev = in.EV
		if r, err := wire.ParseRequest(u); err == nil && s.spdc == 0 {
			s.start, s.spdc = r.StartPSN(), r.SPDCID()
		}
		s.got, s.raw = append(s.got, line(from, b, s.start)), append(s.raw, append([]byte(nil), b...))
		s.at = append(s.at, s.nodes[0].Now())
		return fate{drop: true}
	}
	return s
}

// post runs an application's call on FEP 0, and what follows at once.
func (s *peerStub) post(fn func(now vt.Time) error) {
	s.t.Helper()
	s.call(0, s.now()+1, func(now vt.Time) {
		if err := fn(now); err != nil {
			s.t.Error(err)
		}
	})
	s.pass(1000)
}

// pass lets d nanoseconds go by.
func (s *peerStub) pass(d vt.Time) { s.run(s.now() + d) }

// ack acknowledges everything up to cack, and PSN cack + off by name, with a default response.
func (s *peerStub) ack(cack int32, off int16) { s.ackWith(wire.AckFields{AckOffset: off}, cack, nil) }

// ackWith sends an ACK_CC with these fields; ids, CACK and a default MPR are filled in. resp is what follows if f.Next says so.
func (s *peerStub) ackWith(f wire.AckFields, cack int32, resp []byte) {
	if f.Type == 0 {
		f.Type = wire.TypeAckCC
	}
	if f.MPR == 0 {
		f.MPR = 8
	}
	f.CACK, f.SPDCID, f.DPDCID = s.start.Add(cack), peerPDC, s.spdc
	s.inject(0, s.ev, 46, 0, func(b []byte) []byte { return append(wire.AppendAck(b, &f), resp...) })
	s.pass(500)
}

// nack refuses a PSN.
func (s *peerStub) nack(code wire.NackCode, psn int32) {
	s.inject(0, s.ev, 46, 0, func(b []byte) []byte {
		return wire.AppendNack(b, &wire.NackFields{Type: wire.TypeNack, Code: code, PSN: s.start.Add(psn), SPDCID: peerPDC, DPDCID: s.spdc})
	})
	s.pass(500)
}

// ctrl sends a control packet with AR; payload is relative to the start like psn.
func (s *peerStub) ctrl(ctl wire.CtlType, psn, payload int32) {
	s.inject(0, s.ev, 46, 0, func(b []byte) []byte {
		return wire.AppendCtrl(b, &wire.CtrlFields{Ctl: ctl, Flags: wire.CtrlAR, PSN: s.start.Add(psn), SPDCID: peerPDC, DPDCID: s.spdc,
			Payload: uint32(s.start.Add(payload))})
	})
	s.pass(500)
}

// expect compares what FEP 0 sent since the last call.
func (s *peerStub) expect(want ...string) {
	s.t.Helper()
	wantLines(s.t.(*testing.T), s.got, want)
	s.got = nil
}

// TestPeerStub: an initiator keeps SYN until the first ACK, clears what was kept for it, and answers a Clear Request.
func TestPeerStub(t *testing.T) {
	s := newPeerStub(t, Config{PDCsPerKey: 1, NoInfer: true})
	s.post(func(now vt.Time) error { return s.eps[0].TagSend(now, 1, make([]byte, 2*4096), 1, 1) })
	s.expect("0 RUD_REQ psn 0 clr -1 SYN off 0 AR", "0 RUD_REQ psn 1 clr -2 SYN off 1 AR")
	s.ack(0, 0)
	s.post(func(now vt.Time) error { return s.eps[0].TagSend(now, 1, make([]byte, 10), 1, 2) })
	s.expect("0 RUD_REQ psn 2 clr -2 AR")
	s.ackWith(wire.AckFields{AckOffset: 1, Req: wire.AckReqClear}, 0, nil)
	s.ack(0, 2)
	s.expect("0 CLEAR_COMMAND clear 2")
	s.ctrl(wire.CtlClearRequest, 0, 2)
	s.expect("0 CLEAR_COMMAND clear 2")
	s.want(0, Completion{Kind: OpTagSend, Ctx: 1, Len: 2 * 4096}, Completion{Kind: OpTagSend, Ctx: 2, Len: 10})
}
