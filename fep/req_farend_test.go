package fep

import (
	"bytes"
	"strings"
	"testing"

	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// farEnd speaks raw packets to node 0 in the name of node 1, and collects what node 0 sends: it is to a source what the stub is
// to a target.
type farEnd struct {
	*lab
	start wire.PSN
	peer  uint16 // node 0's PDCID
	known bool
	got   []string
	now   vt.Time
}

const farPDC = 0x0456

// newFarEnd makes one PDC per peer, so that all messages share it.
func newFarEnd(t testing.TB, cfg Config) *farEnd {
	cfg.PDCsPerKey = 1
	e := &farEnd{lab: newLab(t, cfg), now: 1000}
	e.script = func(from int, b []byte) fate {
		if r, err := wire.ParseRequest(firstUET(b)); err == nil && !e.known {
			e.start, e.peer, e.known = r.StartPSN(), r.SPDCID(), true
		}
		e.got = append(e.got, line(from, b, e.start))
		return fate{drop: true}
	}
	return e
}

// wait lets d nanoseconds pass.
func (e *farEnd) wait(d vt.Time) { e.now += d; e.run(e.now) }

// write posts writes of n bytes, their contexts from ctx on.
func (e *farEnd) write(ctx uint64, sizes ...int) {
	e.call(0, e.now+1, func(now vt.Time) {
		for i, n := range sizes {
			if err := e.eps[0].Write(now, 1, make([]byte, n), 1, 0, ctx+uint64(i)); err != nil {
				e.t.Error(err)
			}
		}
	})
	e.wait(1000)
}

func (e *farEnd) send(build func(b []byte) []byte) {
	g := e.nodes[0].Pool.Get()
	ff := wire.FrameFields{DstMAC: testMAC(0), SrcMAC: testMAC(1), Src: testAddr(1), Dst: testAddr(0), EV: 9, DSCP: 46}
	g.B = wire.AppendUETCRC(build(wire.AppendUDPFrame(g.B, &ff)))
	e.now += 1000
	g.Due = e.now
	e.nodes[0].Deliver(0, g)
	e.wait(999)
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
	e.send(func(b []byte) []byte {
		f := wire.AckFields{Type: wire.TypeAckCC, Next: wire.NextResponse, Req: a.req, AckOffset: int16(a.named - a.cack),
			CACK: e.start.Add(a.cack), SPDCID: farPDC, DPDCID: e.peer, MPR: uint8(a.mpr), SACKOffset: 1, SACKBitmap: a.bits}
		switch a.mpr {
		case 0:
			f.MPR = 8
		case -1:
			f.MPR = 0
		}
		r := wire.ResponseFields{RespFields: wire.RespFields{Opcode: wire.RespDefault, ReturnCode: wire.RCOK, JobID: testJob}}
		if a.rc != 0 {
			r.Opcode, r.ReturnCode, r.MessageID = wire.RespResponse, a.rc, a.mid
		}
		return wire.AppendSESResponse(wire.AppendAck(b, &f), &r)
	})
}

func (e *farEnd) ctrl(ctl wire.CtlType, payload uint32) {
	e.send(func(b []byte) []byte {
		return wire.AppendCtrl(b, &wire.CtrlFields{Ctl: ctl, SPDCID: farPDC, DPDCID: e.peer, Payload: payload})
	})
}

// expect compares what node 0 said since the last call.
func (e *farEnd) expect(want ...string) {
	e.t.Helper()
	wantLines(e.t.(*testing.T), e.got, want)
	e.got = nil
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

// pass runs d nanoseconds from the latest event.
func (l *lab) pass(d vt.Time) { l.run(max(l.nodes[0].Now(), l.nodes[1].Now()) + d) }

// write posts one message with data of its own and returns source and destination.
func (l *lab) write(ctx uint64, n int) (same func() bool) {
	src, dst := fill(n, ctx), make([]byte, n)
	key := l.eps[1].Register(dst)
	l.call(0, max(l.nodes[0].Now(), l.nodes[1].Now())+1, func(now vt.Time) {
		if err := l.eps[0].Write(now, 1, src, key, 0, ctx); err != nil {
			l.t.Error(err)
		}
	})
	return func() bool { return bytes.Equal(src, dst) }
}
