package fep

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/uetlab/uetlab/internal/engine"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

const testJob = 7

// fate is what the script does to a frame on its way.
type fate struct {
	drop  bool
	dup   int
	delay time.Duration
	flip  bool // one bit of the payload
}

// lab joins two end points by a link and runs them in virtual time, always the node with the earliest event first. It is what
// the tests of this package stand on:
//
//	l := newLab(t, Config{…})        two FEPs, 0 and 1, with one endpoint each (job testJob, PID and rank 0 and 1)
//	l.script = func(from, frame) …   what the link does to each frame: drop, dup, delay, flip; nth() picks one
//	got := l.trace()                 one line for each packet, PSNs relative to the first PDC's start
//	l.call(i, t, func(now) …)        an application's call on node i; l.exchange(n) sends and checks a whole message
//	l.run(t), l.step(t)              let time go
//	l.want(i, Completion…)           completions of node i, in order
//	l.source(), l.target()           PDCInfo of the first PDC by role; l.count(C) a counter of both FEPs together
//	l.checkEmpty(), l.leaks()        nothing is left
//
// stub plays node 0 against FEP 1, which is then a target under test; peerStub plays node 1 against FEP 0, an initiator under
// test. Both see every packet that the FEP sends and answer by hand.
type lab struct {
	t      testing.TB
	nodes  [2]*engine.Node
	feps   [2]*FEP
	eps    [2]*Endpoint
	got    [2][]Completion
	script func(from int, b []byte) fate
	tap    func(now vt.Time, from int, b []byte)
}

type side struct {
	l    *lab
	from int
}

func (s side) Transmit(_ int, f *link.Frame) {
	l := s.l
	leave(l.t, s.from, f)
	if l.tap != nil {
		l.tap(l.nodes[s.from].Now(), s.from, f.B)
	}
	var ft fate
	if l.script != nil {
		ft = l.script(s.from, f.B)
	}
	if ft.flip {
		f.B[len(f.B)-7] ^= 4
	}
	to := l.nodes[1-s.from]
	for i := 0; !ft.drop && i <= ft.dup; i++ {
		g := to.Pool.Get()
		g.B = append(g.B, f.B...)
		g.Due = f.Due.Add(ft.delay + time.Duration(i)*300)
		l.deliver(1-s.from, g)
	}
	f.Release()
}

func testMAC(i int) wire.MAC       { return wire.MAC{2, 0, 0, 0, 0, byte(i + 1)} }
func testAddr(i int) netip.Addr    { return netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}) }
func testAddr6(i int) netip.Addr   { return netip.AddrFrom16([16]byte{0xfd, 15: byte(i + 1)}) }
func (l *lab) target() *PDCInfo    { return l.role(1, false) }
func (l *lab) source() *PDCInfo    { return l.role(0, true) }
func (l *lab) count(c Counter) int { return int(l.feps[0].C[c] + l.feps[1].C[c]) }

// role returns what is known of the first PDC of a FEP in that role, nil if there is none.
func (l *lab) role(i int, initiator bool) *PDCInfo {
	for _, p := range l.feps[i].PDCs(nil) {
		if p.Initiator == initiator {
			return &p
		}
	}
	return nil
}

func newLab(t testing.TB, cfg Config) *lab {
	l := &lab{t: t}
	for i := range l.nodes {
		c := engine.Config{ID: i + 1, Seed: 42, MaxFrame: 4600,
			Ports: []link.Config{{Rate: 400e9, Delay: 500, Queue: 1 << 20, MTU: 4500}}}
		l.nodes[i] = engine.New(c, side{l, i})
		fc := cfg
		fc.NoRestart = cfg.MaxRestarts == 0 // a message without a receive fails at once, unless the test asks for restarts
		fc.MAC, fc.NextHop, fc.Addr4, fc.Addr6 = testMAC(i), testMAC(1-i), testAddr(i), testAddr6(i)
		l.feps[i] = New(l.nodes[i], fc)
		l.eps[i] = l.feps[i].OpenEndpoint(testJob, uint16(i), uint32(100+i), func(_ vt.Time, c Completion) {
			l.got[i] = append(l.got[i], c)
		})
	}
	for i := range l.eps {
		for j := range l.eps {
			l.eps[i].InsertAddr(l.feps[j].Addr(), uint16(j), uint32(100+j))
		}
	}
	return l
}

// deliver has a frame reach a node.
func (l *lab) deliver(to int, f *link.Frame) {
	arrive(l.t, to, f)
	l.nodes[to].Deliver(0, f)
}

// step handles the earliest event; false if there is none up to limit.
func (l *lab) step(limit vt.Time) bool {
	n := l.nodes[0]
	if l.nodes[1].Next() < n.Next() {
		n = l.nodes[1]
	}
	if n.Next() > limit || n.Next() == vt.Never {
		return false
	}
	n.Advance(n.Next())
	return true
}

func (l *lab) run(until vt.Time) {
	for l.step(until) {
	}
}

// call runs fn on node i at its time t, or the earliest time that lies ahead of all events.
func (l *lab) call(i int, t vt.Time, fn func(now vt.Time)) { l.nodes[i].Call(t, fn) }

// inject delivers a UET packet to node `to`, as if the other node had sent it, a nanosecond from now; build appends what is
// behind the UDP header.
func (l *lab) inject(to int, ev uint16, dscp, ecn uint8, build func(b []byte) []byte) {
	g := l.nodes[to].Pool.Get()
	ff := wire.FrameFields{DstMAC: testMAC(to), SrcMAC: testMAC(1 - to), Src: testAddr(1 - to), Dst: testAddr(to), EV: ev, DSCP: dscp, ECN: ecn}
	g.B = wire.AppendUETCRC(build(wire.AppendUDPFrame(g.B, &ff)))
	g.Due = l.now() + 1
	l.deliver(to, g)
}

// now is the later of the two nodes' times.
func (l *lab) now() vt.Time { return max(l.nodes[0].Now(), l.nodes[1].Now()) }

// leaks reports frames that nobody gave back.
func (l *lab) leaks() {
	l.t.Helper()
	for i, n := range l.nodes {
		if n.Pool.Out() != 0 {
			l.t.Errorf("node %d: %d frames leaked", i, n.Pool.Out())
		}
	}
}

func (l *lab) want(i int, want ...Completion) {
	l.t.Helper()
	if len(l.got[i]) != len(want) {
		l.t.Fatalf("node %d: completions %+v, want %d", i, l.got[i], len(want))
	}
	for j, w := range want {
		g := l.got[i][j]
		if g.Kind != w.Kind || g.Ctx != w.Ctx || g.Len != w.Len || (g.Err == nil) != (w.Err == nil) {
			l.t.Errorf("node %d: completion %d: %+v, want %+v", i, j, g, w)
		}
	}
}

func fill(n int, seed uint64) []byte {
	b := make([]byte, n)
	r := rand.New(rand.NewPCG(seed, 99))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// uet cuts a frame down to its PDS header and what follows, without CRC.
func uet(b []byte) (in wire.Inbound, u []byte) {
	in, err := wire.ParseUET(b, 0)
	if err != nil {
		panic(err)
	}
	return in, in.UET[:len(in.UET)-wire.CRCLen]
}

// line describes a UET packet in one line, PSNs relative to start.
func line(from int, b []byte, start wire.PSN) string {
	_, u := uet(b)
	rel := func(p wire.PSN) int32 { return p.Diff(start) }
	switch t := wire.Prologue(u).Type(); {
	case t.IsRequest():
		r, _ := wire.ParseRequest(u)
		s := fmt.Sprintf("%d %v psn %d clr %d", from, t, rel(r.PSN()), r.ClearOffset())
		if r.SYN() {
			s += fmt.Sprintf(" SYN off %d", r.PSNOffset())
		}
		if r.AR() {
			s += " AR"
		}
		if r.RETX() {
			s += " RETX"
		}
		return s
	case t.IsAck():
		a, _ := wire.ParseAck(u)
		s := fmt.Sprintf("%d %v cack %d off %d", from, t, rel(a.CACK()), a.AckOffset())
		if a.Req() != wire.AckReqNone {
			s += " req " + a.Req().String()
		}
		if a.RETX() {
			s += " RETX"
		}
		if a.Next() == wire.NextResponse {
			r, _ := wire.ParseSESResponse(u[len(a):])
			s += fmt.Sprintf(" %v %v %d", r.Head().Opcode(), r.Head().ReturnCode(), r.ModifiedLength())
		} else {
			s += " " + a.Next().String()
		}
		return s
	case t.IsNack():
		n, _ := wire.ParseNack(u)
		return fmt.Sprintf("%d %v %v psn %d", from, t, n.Code(), rel(n.PSN()))
	}
	c, _ := wire.ParseCtrl(u)
	s := fmt.Sprintf("%d %v", from, c.Ctl())
	if c.Ctl() == wire.CtlClearCommand {
		return s + fmt.Sprintf(" clear %d", rel(wire.PSN(c.Payload())))
	}
	s += fmt.Sprintf(" psn %d", rel(c.PSN()))
	if c.AR() {
		s += " AR"
	}
	if c.RETX() {
		s += " RETX"
	}
	return s
}

// trace records one line for each packet, PSNs relative to the first request's.
func (l *lab) trace() *[]string {
	var out []string
	start, seen := wire.PSN(0), false
	l.tap = func(_ vt.Time, from int, b []byte) {
		if r, err := wire.ParseRequest(firstUET(b)); err == nil && !seen && from == 0 {
			start, seen = r.StartPSN(), true
		}
		out = append(out, line(from, b, start))
	}
	return &out
}

func firstUET(b []byte) []byte { _, u := uet(b); return u }

func wantLines(t *testing.T, got, want []string) {
	t.Helper()
	for i := 0; i < max(len(got), len(want)); i++ {
		g, w := "(nothing)", "(nothing)"
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g != w {
			t.Errorf("packet %d:\n got  %s\n want %s", i, g, w)
		}
	}
}

// exchange sends one tagged message from 0 to 1 and checks every byte.
func (l *lab) exchange(n int) {
	l.t.Helper()
	src, dst := fill(n, uint64(n)), make([]byte, n)
	now := max(l.nodes[0].Now(), l.nodes[1].Now()) + 1
	l.call(1, now, func(now vt.Time) {
		if err := l.eps[1].TagRecv(now, 0, dst, 5, 11); err != nil {
			l.t.Error(err)
		}
	})
	l.call(0, now+1, func(now vt.Time) {
		if err := l.eps[0].TagSend(now, 1, src, 5, 22); err != nil {
			l.t.Error(err)
		}
	})
	l.got = [2][]Completion{}
	l.run(now + vt.Time(time.Second))
	l.want(0, Completion{Kind: OpTagSend, Ctx: 22, Len: n})
	l.want(1, Completion{Kind: OpTagRecv, Ctx: 11, Len: n})
	if !bytes.Equal(src, dst) {
		l.t.Errorf("%d bytes: contents differ", n)
	}
}
