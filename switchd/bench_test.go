package switchd

import (
	"net/netip"
	"testing"

	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// benchRig has 1024 host routes and a group of four ports for them.
func benchRig(b testing.TB, v6 bool, set Settings) (*rig, []*link.Frame) {
	r := newRig(b, set, 400*gig, 400*gig, 400*gig, 400*gig, 400*gig)
	route := Route{Ports: []int{1, 2, 3, 4}}
	var frames []*link.Frame
	for i := range 1024 {
		a, src, bits := addr4(1, i+2), addr4(0, 1), 32
		if v6 {
			a, src, bits = addr6(1, i+2), addr6(0, 1), 128
		}
		route.Prefixes = append(route.Prefixes, netip.PrefixFrom(a, bits))
		f := r.Pool.Get()
		f.B = wire.AppendUDPFrame(f.B, &wire.FrameFields{DstMAC: mac(0), SrcMAC: peer(0), Src: src, Dst: a,
			EV: uint16(i * 31), DSCP: dscpData, ECN: wire.ECNECT0, TTL: 255})
		f.B = append(f.B, make([]byte, 4096)...)
		wire.FinishUDP(f.B)
		frames = append(frames, f)
	}
	r.s.SetRoutes([]Route{route})
	return r, frames
}

// again makes a frame that was forwarded arrive anew.
func again(f *link.Frame) {
	wire.Eth(f.B).SetDst(mac(0))
	if wire.Eth(f.B).Type() == wire.EtherIPv6 {
		f.B[wire.EthLen+7] = 255
		return
	}
	f.B[wire.EthLen+8] = 255
	wire.IPv4(f.B[wire.EthLen:]).SetChecksum()
}

// BenchmarkForward is the way of a packet through the switch without the event queue: checks, route, choice of a port, admission, queue,
// ECN, serializer.
func BenchmarkForward(b *testing.B) {
	ecn := plan()
	ecn.Queues[1].Kmin, ecn.Queues[1].Kmax, ecn.Queues[1].Pmax = 20_000, 80_000, 1
	shared := ecn
	shared.Buffer, shared.Queues[1].Alpha = Buffer{Shared: 10_000_000, Reserved: 5000}, 1
	csig := shared
	csig.CSIG.Enabled = true
	for _, c := range []struct {
		name string
		v6   bool
		set  Settings
	}{{"IPv4", false, ecn}, {"IPv6", true, ecn}, {"IPv4 shared buffer", false, shared}, {"IPv4 CSIG", false, csig}} {
		b.Run(c.name, func(b *testing.B) {
			r, frames := benchRig(b, c.v6, c.set)
			now := vt.Time(1000)
			i := 0
			b.ReportAllocs()
			for b.Loop() {
				f := frames[i%len(frames)]
				i++
				again(f)
				r.s.Arrive(now, 0, f)
				r.out.frames, r.out.ports = r.out.frames[:0], r.out.ports[:0]
				now += 1000 // the line is free again
			}
		})
	}
}

// BenchmarkTrim is the same for packets that find their queue full.
func BenchmarkTrim(b *testing.B) {
	set := plan()
	set.Queues[1].Limit = 1
	r, frames := benchRig(b, false, set)
	full := append([]byte(nil), frames[0].B...)
	now := vt.Time(1000)
	b.ReportAllocs()
	for b.Loop() {
		f := frames[0]
		f.B = append(f.B[:0], full...)
		r.s.Arrive(now, 0, f)
		r.out.frames, r.out.ports = r.out.frames[:0], r.out.ports[:0]
		now += 1000
	}
}

// BenchmarkForwardNode is Forward with the event queue.
func BenchmarkForwardNode(b *testing.B) {
	r, frames := benchRig(b, false, plan())
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		f := frames[i%len(frames)]
		i++
		again(f)
		f.Due = r.Now() + 1000
		r.Deliver(0, f)
		r.Advance(f.Due)
		r.out.frames, r.out.ports = r.out.frames[:0], r.out.ports[:0]
	}
}

// Forwarding and trimming take no memory once the pool has grown.
func TestForwardAllocatesNothing(t *testing.T) {
	for _, limit := range []int64{100_000, 1} {
		set := plan()
		set.Queues[1].Limit = limit
		set.CSIG.Enabled = true
		r, frames := benchRig(t, false, set)
		full := append([]byte(nil), frames[0].B...)
		now := vt.Time(1000)
		if n := testing.AllocsPerRun(1000, func() {
			frames[0].B = append(frames[0].B[:0], full...)
			r.s.Arrive(now, 0, frames[0])
			r.out.frames, r.out.ports = r.out.frames[:0], r.out.ports[:0]
			now += 1000
		}); n != 0 {
			t.Errorf("limit %d: %v allocations for a packet", limit, n)
		}
		if trimmed := r.Ports[1].C[link.Trimmed] + r.Ports[2].C[link.Trimmed] + r.Ports[3].C[link.Trimmed] + r.Ports[4].C[link.Trimmed]; (trimmed > 0) != (limit == 1) {
			t.Errorf("limit %d: %d trimmed", limit, trimmed)
		}
	}
}
