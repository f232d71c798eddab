package fep

import (
	"net/netip"
	"testing"
	"time"

	"github.com/uetlab/uetlab/internal/engine"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// far plays all the peers of one end point, which is under test as an initiator; on answers what that sends.
type far struct {
	t    *testing.T
	n    *engine.Node
	f    *FEP
	ep   *Endpoint
	seen []*seen
	got  []Completion
	on   func(p *seen)
	to   vt.Time // how far it has run
	busy bool    // on is being called
}

// seen is a packet that the end point sent.
type seen struct {
	at  vt.Time
	ev  uint16
	dst netip.Addr
	req wire.Request // nil if it is something else, like the next ones
	ctl wire.Ctrl
	ack wire.Ack
	std wire.SESStd
}

const (
	farPDC  = 0x0456 // what peers call their PDCs
	farLink = 1000   // ns one way
)

func farAddr(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}) }

func newFar(t *testing.T, cfg Config, peers int) *far {
	x := &far{t: t}
	x.n = engine.New(engine.Config{ID: 1, Seed: 42, MaxFrame: 4600, Ports: []link.Config{{Rate: 400e9, Delay: 500, MTU: 4500}}}, x)
	cfg.MAC, cfg.NextHop, cfg.Addr4 = testMAC(0), testMAC(1), testAddr(0)
	if cfg.PayloadMTU == 0 {
		cfg.PayloadMTU = 1024
	}
	x.f = New(x.n, cfg)
	x.ep = x.endpoint(testJob, peers)
	return x
}

func (x *far) endpoint(job uint32, peers int) *Endpoint {
	ep := x.f.OpenEndpoint(job, 0, 1, func(_ vt.Time, c Completion) { x.got = append(x.got, c) })
	for i := range peers {
		ep.InsertAddr(farAddr(i), 0, uint32(i))
	}
	return ep
}

// Transmit implements engine.Out.
func (x *far) Transmit(_ int, f *link.Frame) {
	leave(x.t, 0, f)
	in, u := uet(append([]byte(nil), f.B...))
	f.Release()
	p := &seen{at: x.n.Now(), ev: in.EV}
	_, p.dst = addrs(&in)
	switch t := wire.Prologue(u).Type(); {
	case t.IsRequest():
		p.req, _ = wire.ParseRequest(u)
		p.std, _ = wire.ParseSESStd(u[len(p.req):])
	case t.IsAck():
		p.ack, _ = wire.ParseAck(u)
	case t == wire.TypeCtrl:
		p.ctl, _ = wire.ParseCtrl(u)
	}
	x.seen = append(x.seen, p)
	if x.on != nil {
		x.busy = true
		x.on(p)
		x.busy = false
	}
}

// reply delivers a packet to the end point in the name of the peer that p went to.
func (x *far) reply(p *seen, build func(b []byte) []byte) {
	g := x.n.Pool.Get()
	ff := wire.FrameFields{DstMAC: testMAC(0), SrcMAC: testMAC(1), Src: p.dst, Dst: testAddr(0), EV: p.ev, DSCP: 46}
	g.B = wire.AppendUETCRC(build(wire.AppendUDPFrame(g.B, &ff)))
	g.Due = max(p.at, x.n.Now()) + farLink
	if !x.busy {
		g.Due = x.to + farLink
	}
	arrive(x.t, 0, g)
	x.n.Deliver(0, g)
}

// ack acknowledges everything up to p, a request with RC_OK. It may be changed by edit.
func (x *far) ack(p *seen, edit func(*wire.AckFields)) {
	a := wire.AckFields{Type: wire.TypeAckCC, SPDCID: farPDC, MPR: 8}
	if p.req != nil {
		a.Next, a.CACK, a.DPDCID = wire.NextResponse, p.req.PSN(), p.req.SPDCID()
	} else {
		a.CACK, a.DPDCID = p.ctl.PSN(), p.ctl.SPDCID()
	}
	if edit != nil {
		edit(&a)
	}
	x.reply(p, func(b []byte) []byte {
		b = wire.AppendAck(b, &a)
		if a.Next == wire.NextResponse {
			b = wire.AppendSESResponse(b, &wire.ResponseFields{RespFields: wire.RespFields{Opcode: wire.RespResponse, ReturnCode: wire.RCOK,
				JobID: testJob}, MessageID: p.std.MessageID(), ModifiedLength: p.std.RequestLength()})
		}
		return b
	})
}

func (x *far) nack(p *seen, code wire.NackCode, spdcid uint16, payload uint32) {
	x.reply(p, func(b []byte) []byte {
		return wire.AppendNack(b, &wire.NackFields{Type: wire.TypeNack, Code: code, PSN: p.req.PSN(), SPDCID: spdcid, DPDCID: p.req.SPDCID(), Payload: payload})
	})
}

// polite answers requests and Close Commands as a target without troubles does.
func (x *far) polite(p *seen) {
	if p.req != nil || p.ctl != nil && p.ctl.Ctl() == wire.CtlCloseCommand {
		x.ack(p, nil)
	}
}

func (x *far) call(fn func(now vt.Time)) { x.n.Call(x.to+1, fn) }

func (x *far) send(ep *Endpoint, dst, n int, ctx uint64) {
	x.call(func(now vt.Time) {
		if err := ep.Send(now, dst, make([]byte, n), ctx); err != nil {
			x.t.Error(err)
		}
	})
}

func (x *far) run(d time.Duration) {
	x.to = x.to.Add(d)
	x.n.Advance(x.to)
}

// requests are the requests seen from the i-th packet on.
func (x *far) requests(i int) (list []*seen) {
	for _, p := range x.seen[i:] {
		if p.req != nil {
			list = append(list, p)
		}
	}
	return list
}

// from delivers a packet to node 1 in the name of any node, with any code point, and runs what follows at once.
func (s *stub) from(src int, dscp uint8, build func(b []byte) []byte) {
	g := s.nodes[1].Pool.Get()
	ff := wire.FrameFields{DstMAC: testMAC(1), SrcMAC: testMAC(0), Src: testAddr(src), Dst: testAddr(1), EV: s.ev, DSCP: dscp}
	g.B = build(wire.AppendUDPFrame(g.B, &ff))
	if s.feps[1].m.TrimmedDSCP(dscp) {
		wire.FinishUDP(g.B)
	} else {
		g.B = wire.AppendUETCRC(g.B)
	}
	s.now += 1000
	g.Due = s.now
	s.deliver(1, g)
	s.run(s.now + 999)
}

// plain is a one-packet tagged message of n zeros.
func plain(b []byte, f wire.RequestFields, mid uint16, tag uint64, n int) []byte {
	b = wire.AppendSESStd(wire.AppendRequest(b, &f), &wire.StdFields{HeadFields: wire.HeadFields{Opcode: wire.OpTaggedSend,
		Flags: wire.SESRel | wire.SESSOM | wire.SESEOM, JobID: testJob, PIDonFEP: 1, ResourceIndex: 15}, MessageID: mid, Initiator: 100,
		MatchBits: tag, PayloadLength: uint16(n), RequestLength: uint32(n)})
	return append(b, make([]byte, n)...)
}

// syn is the header of a request that opens a PDC with the packet at off.
func (s *stub) syn(id uint16, off uint16) wire.RequestFields {
	return wire.RequestFields{Type: wire.TypeRUDReq, Next: wire.NextRequestStd, Flags: wire.ReqSYN, PSN: s.start.Add(int32(off)), SPDCID: id, PSNOffset: off}
}

// readRequest asks for total bytes of a region in one packet.
func (s *stub) readRequest(psn int32, fl wire.ReqFlags, mid uint16, key uint64, total int) {
	s.from(0, 10, func(b []byte) []byte {
		f := wire.RequestFields{Type: wire.TypeRUDReq, Next: wire.NextRequestStd, Flags: fl, PSN: s.start.Add(psn), SPDCID: stubPDC,
			DPDCID: s.peer, PSNOffset: uint16(psn)}
		return wire.AppendSESStd(wire.AppendRequest(b, &f), &wire.StdFields{HeadFields: wire.HeadFields{Opcode: wire.OpRead,
			Flags: wire.SESRel | wire.SESSOM | wire.SESEOM, JobID: testJob, PIDonFEP: 1, ResourceIndex: 15}, MessageID: mid, Initiator: 100,
			MatchBits: key, PayloadLength: uint16(total), RequestLength: uint32(total)})
	})
}

// last is the latest NACK of node 1.
func (s *stub) lastNack() wire.Nack {
	s.t.Helper()
	if len(s.raw) == 0 {
		s.t.Fatal("no answer")
	}
	n, err := wire.ParseNack(firstUET(s.raw[len(s.raw)-1]))
	if err != nil {
		s.t.Fatalf("the answer is no NACK: %s", line(1, s.raw[len(s.raw)-1], s.start))
	}
	return n
}

// header sends a one-packet message with any request header.
func (s *stub) header(typ wire.PDSType, next wire.NextHdr, fl wire.ReqFlags, psn int32, id, dpdcid uint16) {
	s.from(0, 10, func(b []byte) []byte {
		return plain(b, wire.RequestFields{Type: typ, Next: next, Flags: fl, PSN: s.start.Add(psn), SPDCID: id, DPDCID: dpdcid, PSNOffset: uint16(psn)}, 9, 9, 10)
	})
}

// controls are the control packets of a kind that were seen, from the i-th packet on.
func (x *far) controls(ctl wire.CtlType, i int) (list []*seen) {
	for _, p := range x.seen[i:] {
		if p.ctl != nil && p.ctl.Ctl() == ctl {
			list = append(list, p)
		}
	}
	return list
}
