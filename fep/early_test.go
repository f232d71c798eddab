package fep

import (
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// said is a request packet of SES as it left an end point.
type said struct {
	at  vt.Time
	pdc uint16 // SPDCID
	typ wire.PDSType
	std wire.SESStd
	ext []byte
	n   int // bytes of payload
}

func (s said) op() wire.Opcode { return s.std.Head().Opcode() }

// saidBy lists what an end point sent for the first time, with standard headers.
func saidBy(list []passed, from int) (out []said) {
	for _, p := range requestsIn(list, from) {
		r, _ := p.request()
		if r.RETX() || r.Next() != wire.NextRequestStd {
			continue
		}
		b := p.u[len(r):]
		s := said{at: p.at, pdc: r.SPDCID(), typ: wire.Prologue(p.u).Type(), std: wire.SESStd(b[:44])}
		b = b[44:]
		if s.op().IsRendezvous() {
			s.ext, b = b[:24], b[24:]
		}
		s.n = len(b)
		out = append(out, s)
	}
	return out
}

// count says how many of them have the operation.
func count(list []said, op wire.Opcode) (n int) {
	for _, s := range list {
		if s.op() == op {
			n++
		}
	}
	return n
}

// firsts picks the first packet of each message.
func firsts(list []said, op wire.Opcode) (out []said) {
	for _, s := range list {
		if s.op() == op && s.std.Head().SOM() {
			out = append(out, s)
		}
	}
	return out
}

// saidBack is a response.
type saidBack struct {
	gtd  bool
	list wire.List
	rc   wire.ReturnCode
	mod  uint32
	mid  uint16
}

// answersOf lists the responses that an end point gave with ACKs, without those that any PDS may make.
func answersOf(list []passed, from int) (out []saidBack) {
	for _, p := range list {
		a, ok := p.ack()
		if !ok || p.from != from || a.Next() != wire.NextResponse {
			continue
		}
		r, err := wire.ParseSESResponse(p.u[len(a):])
		if err != nil || r.Head().Opcode() == wire.RespDefault {
			continue
		}
		out = append(out, saidBack{a.Req() == wire.AckReqClear, r.Head().List(), r.Head().ReturnCode(), r.ModifiedLength(), r.MessageID()})
	}
	return out
}

// earlyLeft looks for what messages that came early left behind.
func (l *lab) earlyLeft() {
	l.t.Helper()
	for i, f := range l.feps {
		if f.lands.n != 0 || f.sends.n != 0 || f.deferred.n != 0 || f.exposed.n != 0 || f.driven.n != 0 || f.C[EarlyMsgs] != 0 || f.C[EarlyBytes] != 0 {
			l.t.Errorf("node %d: %d landings; tokens of %d sends, %d deferred, %d exposed, %d driven; %d bytes in %d messages", i, f.lands.n,
				f.sends.n, f.deferred.n, f.exposed.n, f.driven.n, f.C[EarlyBytes], f.C[EarlyMsgs])
		}
		for _, ep := range f.dir.list {
			if ep.early != (earlyUse{}) || ep.open.head != nil {
				l.t.Errorf("node %d: in use %+v, operations open: %v", i, ep.early, ep.open.head != nil)
			}
		}
	}
}

// spent lets all timers run out, and looks for what is left.
func (l *lab) spent() {
	l.t.Helper()
	l.settle()
	l.earlyLeft()
	l.checkEmpty()
}

// done counts completions of node i by their context, and their errors.
func (l *lab) done(i int, ctx uint64) (c Completion, n int) {
	for _, g := range l.got[i] {
		if g.Ctx == ctx {
			c, n = g, n+1
		}
	}
	return c, n
}
