package fep

import (
	"bytes"
	"strings"
	"testing"

	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// farEnd is a peerStub for sources that put all messages on one PDC.
type farEnd struct{ *peerStub }

func newFarEnd(t testing.TB, cfg Config) *farEnd {
	cfg.PDCsPerKey = 1
	return &farEnd{newPeerStub(t, cfg)}
}

// write posts writes of these sizes, their contexts from ctx on.
func (e *farEnd) write(ctx uint64, sizes ...int) {
	e.post(func(now vt.Time) error {
		for i, n := range sizes {
			if err := e.eps[0].Write(now, 1, make([]byte, n), 1, 0, ctx+uint64(i)); err != nil {
				return err
			}
		}
		return nil
	})
}

// farAck is an ACK with PSNs relative to the start.
type farAck struct {
	cack, named int32
	bits        uint64 // from cack+1 on
	mpr         int    // 0: 8, -1: 0 on the wire
	req         wire.AckReq
	rc          wire.ReturnCode // 0: default response
	mid         uint16
}

func (e *farEnd) ack(a farAck) {
	f := wire.AckFields{Next: wire.NextResponse, Req: a.req, AckOffset: int16(a.named - a.cack), MPR: uint8(a.mpr), SACKOffset: 1, SACKBitmap: a.bits}
	r := wire.ResponseFields{RespFields: wire.RespFields{Opcode: wire.RespDefault, ReturnCode: wire.RCOK, JobID: testJob}}
	if a.rc != 0 {
		r.Opcode, r.ReturnCode, r.MessageID = wire.RespResponse, a.rc, a.mid
	}
	if a.mpr >= 0 {
		e.ackWith(f, a.cack, wire.AppendSESResponse(nil, &r))
		return
	}
	f.Type, f.MPR, f.CACK, f.SPDCID, f.DPDCID = wire.TypeAckCC, 0, e.start.Add(a.cack), peerPDC, e.spdc
	e.inject(0, e.ev, 46, 0, func(b []byte) []byte { return wire.AppendSESResponse(wire.AppendAck(b, &f), &r) })
	e.pass(500)
}

// fresh counts the data packets since the last call that were sent for the first time.
func (e *farEnd) fresh() (n int) {
	for _, s := range e.got {
		if strings.Contains(s, " RUD_REQ ") && !strings.HasSuffix(s, "RETX") {
			n++
		}
	}
	e.got = nil
	return n
}

// done returns the contexts of the operations that completed without an error.
func (e *farEnd) done() (ctx []uint64) {
	for _, c := range e.lab.got[0] {
		if c.Err == nil {
			ctx = append(ctx, c.Ctx)
		}
	}
	return ctx
}

// store is a stub whose target has memory with key 1, opened by a write of one byte at PSN start.
func store(t testing.TB, cfg Config) (s *stub, mem []byte) {
	s = newStub(t, cfg)
	mem = make([]byte, 1<<20)
	s.eps[1].Register(mem)
	s.request(req{flags: wire.ReqSYN, clear: -1, mid: 1, op: wire.OpWrite, tag: 1, total: 1, n: 1})
	s.expect("1 ACK_CC cack 0 off 0 RESPONSE OK 1")
	return s, mem
}

// put writes n bytes in a packet and message of its own. It clears no more than the first PSN, and neither does bad.
func (s *stub) put(psn int32, fl wire.ReqFlags, n int) {
	s.request(req{psn: psn, flags: fl, clear: int16(-psn), mid: uint16(psn + 1), op: wire.OpWrite, tag: 1, total: uint32(n), n: n})
}

// bad is a packet that is answered NO_MATCH, which must not be lost.
func (s *stub) bad(psn int32, fl wire.ReqFlags) {
	s.request(req{psn: psn, flags: fl, clear: int16(-psn), mid: uint16(psn + 1), op: wire.OpSend, total: 1, n: 1})
}

// last is the latest ACK.
func (s *stub) last() wire.Ack {
	a, err := wire.ParseAck(firstUET(s.raw[len(s.raw)-1]))
	if err != nil {
		s.t.Fatal(err)
	}
	return a
}

// after runs d nanoseconds from the latest event.
func (l *lab) after(d vt.Time) { l.run(l.now() + d) }

// writeOne posts a write with data of its own; same says whether they have arrived.
func (l *lab) writeOne(ctx uint64, n int) (same func() bool) {
	src, dst := fill(n, ctx), make([]byte, n)
	key := l.eps[1].Register(dst)
	l.call(0, l.now()+1, func(now vt.Time) {
		if err := l.eps[0].Write(now, 1, src, key, 0, ctx); err != nil {
			l.t.Error(err)
		}
	})
	return func() bool { return bytes.Equal(src, dst) }
}
