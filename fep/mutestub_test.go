package fep

import (
	"testing"

	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// passed is a UET packet as it left an end point.
type passed struct {
	at   vt.Time
	from int
	in   wire.Inbound
	u    []byte // PDS header .. payload
}

func (p passed) request() (wire.Request, bool) {
	r, err := wire.ParseRequest(p.u)
	return r, err == nil && wire.Prologue(p.u).Type().IsRequest()
}

func (p passed) ack() (wire.Ack, bool) {
	a, err := wire.ParseAck(p.u)
	return a, err == nil && wire.Prologue(p.u).Type().IsAck()
}

func (p passed) nack() (wire.Nack, bool) {
	n, err := wire.ParseNack(p.u)
	return n, err == nil && wire.Prologue(p.u).Type().IsNack()
}

// watch keeps every packet that leaves either end point from now on.
func (l *lab) watch() *[]passed {
	var list []passed
	l.tap = func(now vt.Time, from int, b []byte) {
		in, u := uet(append([]byte(nil), b...))
		list = append(list, passed{now, from, in, u})
	}
	return &list
}

// requestsIn picks the requests of one end point.
func requestsIn(list []passed, from int) (out []passed) {
	for _, p := range list {
		if _, ok := p.request(); ok && p.from == from {
			out = append(out, p)
		}
	}
	return out
}

func nacksIn(list []passed) (out []passed) {
	for _, p := range list {
		if _, ok := p.nack(); ok {
			out = append(out, p)
		}
	}
	return out
}

// trim does what a switch does to a packet that finds no room: it sends on what keep bytes of the frame hold, with another code
// point. fix says whether it adjusts the length in the IP header, which some switches do not.
func (l *lab) trim(from int, due vt.Time, b []byte, dscp uint8, keep int, fix bool) {
	to := l.nodes[1-from]
	g := to.Pool.Get()
	g.B = append(g.B, b[:min(keep, len(b))]...)
	ip := wire.IPv4(g.B[wire.EthLen:])
	ip[1] = dscp<<2 | ip[1]&3
	if fix {
		ip.SetTotalLen(len(ip))
	}
	ip.SetChecksum()
	g.Due = due
	l.deliver(1-from, g)
}

// trimming is a script that trims the packets that pick chooses.
func (l *lab) trimming(dscp uint8, pick func(from int, u []byte) bool) func(int, []byte) fate {
	return func(from int, b []byte) fate {
		if !pick(from, firstUET(b)) {
			return fate{}
		}
		l.trim(from, l.nodes[from].Now()+560, b, dscp, 128, true)
		return fate{drop: true}
	}
}

// nthOf picks the n-th packet, from 0, of those that pick chooses.
func nthOf(n int, pick func(from int, u []byte) bool) func(from int, u []byte) bool {
	return func(from int, u []byte) bool {
		if !pick(from, u) {
			return false
		}
		n--
		return n == -1
	}
}

// mute plays the target: what node 0 sends goes nowhere, and node 0 hears what the test says in the target's name.
type mute struct {
	*lab
	list  *[]passed
	id    uint16 // PDCID of the PDC under test, and its start
	start wire.PSN
}

const mutePDC = 0x0456

func newMute(t testing.TB, cfg Config) *mute {
	m := &mute{lab: newLab(t, cfg)}
	m.script = func(int, []byte) fate { return fate{drop: true} }
	m.list = m.watch()
	return m
}

// post has node 0 write n bytes, and runs until that has left.
func (m *mute) post(n int) {
	m.t.Helper()
	key := m.eps[1].Register(make([]byte, n))
	m.call(0, m.nodes[0].Now()+1, func(now vt.Time) {
		if err := m.eps[0].Write(now, 1, make([]byte, n), key, 0, 1); err != nil {
			m.t.Error(err)
		}
	})
	m.run(m.nodes[0].Now() + 20_000)
	if m.id == 0 {
		r, _ := requestsIn(*m.list, 0)[0].request()
		m.id, m.start = r.SPDCID(), r.StartPSN()
	}
}

// hear delivers a packet to node 0 at a time.
func (m *mute) hear(at vt.Time, build func(b []byte) []byte) {
	g := m.nodes[0].Pool.Get()
	ff := wire.FrameFields{DstMAC: testMAC(0), SrcMAC: testMAC(1), Src: testAddr(1), Dst: testAddr(0), EV: 3, DSCP: 46}
	g.B = wire.AppendUETCRC(build(wire.AppendUDPFrame(g.B, &ff)))
	g.Due = at
	m.deliver(0, g)
}

func (m *mute) nack(at vt.Time, code wire.NackCode, psn int32) {
	m.hear(at, func(b []byte) []byte {
		return wire.AppendNack(b, &wire.NackFields{Type: wire.TypeNack, Code: code, PSN: m.start.Add(psn), SPDCID: mutePDC,
			DPDCID: m.id, Payload: uint32(m.start.Add(psn))})
	})
}

// ack names a PSN and shows a bitmap that begins behind cack.
func (m *mute) ack(at vt.Time, cack, psn int32, bitmap uint64) {
	m.hear(at, func(b []byte) []byte {
		return wire.AppendAck(b, &wire.AckFields{Type: wire.TypeAckCC, CACK: m.start.Add(cack), AckOffset: int16(psn - cack),
			SPDCID: mutePDC, DPDCID: m.id, MPR: 8, SACKOffset: 1, SACKBitmap: bitmap})
	})
}

// sentAt says when the packets of a PSN left.
func (m *mute) sentAt(psn int32) (at []vt.Time) {
	for _, p := range requestsIn(*m.list, 0) {
		if r, _ := p.request(); r.PSN() == m.start.Add(psn) {
			at = append(at, p.at)
		}
	}
	return at
}

// sendCut gives node 1 a request as a switch leaves it: with another code point and without most of its payload.
func (s *stub) sendCut(r req, dscp uint8, keep int, fix bool) {
	s.now += 1000
	s.trim(0, s.now, s.build(r), dscp, keep, fix)
	s.run(s.now + 999)
}

// build makes the frame of a request.
func (s *stub) build(r req) []byte {
	f := wire.RequestFields{Type: wire.TypeRUDReq, Next: wire.NextRequestStd, Flags: r.flags, ClearOffset: r.clear,
		PSN: s.start.Add(r.psn), SPDCID: stubPDC, DPDCID: s.peer, PSNOffset: uint16(r.psn)}
	h := wire.StdFields{HeadFields: wire.HeadFields{Opcode: r.op, Flags: wire.SESRel | wire.SESSOM | wire.SESEOM, JobID: testJob, PIDonFEP: 1,
		ResourceIndex: 15}, MessageID: r.mid, Initiator: 100, MatchBits: r.tag, RequestLength: r.total}
	ff := wire.FrameFields{DstMAC: testMAC(1), SrcMAC: testMAC(0), Src: testAddr(0), Dst: testAddr(1), EV: s.ev, DSCP: 10, ECN: r.ecn}
	b := wire.AppendSESStd(wire.AppendRequest(wire.AppendUDPFrame(nil, &ff), &f), &h)
	return wire.AppendUETCRC(append(b, make([]byte, r.n)...))
}
