package fep

import (
	"fmt"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/uetlab/uetlab/internal/engine"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// answerer acknowledges every request at once, in the name of any number of peers.
type answerer struct {
	n    *engine.Node
	acks int
}

func (a *answerer) Transmit(_ int, f *link.Frame) {
	in, u := uet(f.B)
	src, dst := addrs(&in)
	r, err := wire.ParseRequest(u)
	if err != nil {
		f.Release()
		return
	}
	s, _ := wire.ParseSESStd(u[len(r):])
	g := a.n.Pool.Get()
	ff := wire.FrameFields{DstMAC: testMAC(0), SrcMAC: testMAC(1), Src: dst, Dst: src, EV: in.EV, DSCP: 46}
	g.B = wire.AppendUDPFrame(g.B, &ff)
	g.B = wire.AppendAck(g.B, &wire.AckFields{Type: wire.TypeAckCC, Next: wire.NextResponse, CACK: r.PSN(), SPDCID: r.SPDCID(), DPDCID: r.SPDCID(), MPR: 8})
	g.B = wire.AppendUETCRC(wire.AppendSESResponse(g.B, &wire.ResponseFields{RespFields: wire.RespFields{Opcode: wire.RespResponse,
		ReturnCode: wire.RCOK}, MessageID: s.MessageID(), ModifiedLength: s.RequestLength()}))
	g.Due = f.Due + 1000
	f.Release()
	a.acks++
	a.n.Deliver(0, g)
}

// many is an end point with PDCs to n peers.
type many struct {
	a    *answerer
	f    *FEP
	ep   *Endpoint
	buf  []byte
	done int
}

func newMany(t testing.TB, n int) *many {
	m := &many{a: &answerer{}, buf: make([]byte, 100)}
	m.a.n = engine.New(engine.Config{ID: 1, Seed: 1, MaxFrame: 4600, Ports: []link.Config{{Rate: 400e9, Delay: 500, MTU: 4500}}}, m.a)
	m.f = New(m.a.n, Config{MAC: testMAC(0), NextHop: testMAC(1), Addr4: testAddr(0), MaxPDCs: n + 10, IdleClose: time.Hour, TargetIdle: time.Hour})
	m.ep = m.f.OpenEndpoint(testJob, 0, 1, func(vt.Time, Completion) { m.done++ })
	for i := range n {
		m.ep.InsertAddr(netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}), 0, uint32(i))
	}
	return m
}

// send sends one packet to peer i and waits for its completion.
func (m *many) send(t testing.TB, i int) {
	m.a.n.Call(m.a.n.Now()+1, func(now vt.Time) {
		if err := m.ep.Send(now, i, m.buf, 0); err != nil {
			t.Error(err)
		}
	})
	for want := m.done + 1; m.done < want; {
		m.a.n.Advance(m.a.n.Next())
	}
}

func heap() uint64 {
	var s runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}

// idlePDCs opens n PDCs and says how much memory they take.
func idlePDCs(t testing.TB, n int) (*FEP, uint64) {
	m := newMany(t, n)
	before := heap()
	for i := range n {
		m.send(t, i)
	}
	after := heap()
	runtime.KeepAlive(m)
	return m.f, after - before
}

// BenchmarkOpen: what a PDC costs to open, with one packet on it, by how many there are already. The table of a FEP is emptied
// now and then: an id has 16 bits.
func BenchmarkOpen(b *testing.B) {
	for _, n := range []int{10, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			const most = 10_000
			b.ReportAllocs()
			for left := b.N; left > 0; left -= most {
				b.StopTimer()
				m := newMany(b, n+min(left, most))
				for i := range n {
					m.send(b, i)
				}
				b.StartTimer()
				for i := range min(left, most) {
					m.send(b, n+i)
				}
			}
		})
	}
}

// BenchmarkPacketWithPDCs: what a packet costs, its timers included, by how many PDCs are open; they are used in turn, or only one
// of them is.
func BenchmarkPacketWithPDCs(b *testing.B) {
	for _, n := range []int{10, 1000, 10_000} {
		for _, used := range []int{n, 1} {
			b.Run(fmt.Sprintf("open=%d/used=%d", n, used), func(b *testing.B) {
				m := newMany(b, n)
				for i := range n {
					m.send(b, i)
				}
				b.ReportAllocs()
				b.ResetTimer()
				for i := range b.N {
					m.send(b, i%used)
				}
			})
		}
	}
}
