package switchd

import (
	"bytes"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

const testInterval = 10 * time.Microsecond

func csigSettings() Settings {
	set := Settings{Mirror: Mirror{To: -1}, CSIG: CSIG{Enabled: true, Interval: testInterval}}
	for q := range set.Queues {
		set.Queues[q].Limit = 100_000
	}
	return set
}

// chain is three hops; their egress ports, which are their locators, are 1, 2 and 3, and the second is the slow one.
func chain(t testing.TB, set Settings) *testFabric {
	f := newFabric(t, set, [][]int64{{400, 400}, {400, 400, 100}, {400, 400, 400, 400}}, [2]end{{0, 1}, {1, 0}}, [2]end{{1, 2}, {2, 0}})
	f.route(0, 1)
	f.route(1, 2)
	f.route(2, 3)
	return f
}

// CSIG-02: of the signals of three hops the lowest bandwidth, or the highest delay or depth, is kept, and the locator is that
// of the hop that won.
func TestCSIG02_TheWorstHopWins(t *testing.T) {
	const payload = 1000 - 42 // frames of 1000 bytes, 1024 on the line
	load := 1024 * 8 / 100e-9 // bits per second, of one each 100 ns
	for _, c := range []struct {
		f     wire.CSIGFields
		burst bool
		want  float64
		off   float64 // may be off by
	}{
		{wire.CSIGFields{Type: wire.CSIGABW, Signal: 31}, false, math.Floor((100e9 - load) / 25e9), 0},
		{wire.CSIGFields{Type: wire.CSIGABWShare, Signal: 31}, false, math.Floor((100e9 - load) / 100e9 * 32), 0},
		{wire.CSIGFields{Wide: true, Type: wire.CSIGABW, Signal: 1<<20 - 1}, false, (100e9 - load) / (1 << 20), 2},
		{wire.CSIGFields{Wide: true, Type: wire.CSIGABWShare, Signal: 1<<20 - 1}, false, (100e9 - load) / 100e9 * (1 << 20), 100},
		// The last of 20 at once: 19 times 20.56 ns behind each other at the first hop, and 61.7 ns more for each at the second.
		{wire.CSIGFields{Wide: true, Type: wire.CSIGDelay}, true, 19 * 1028 * 8 * (1/100e0 - 1/400e0), 25},
		{wire.CSIGFields{Type: wire.CSIGDelay}, true, math.Floor(19 * 1028 * 8 * (1/100e0 - 1/400e0) / 512), 0},
		// Behind the last one are 20 more by then, which came by another port: 21 008 bytes of 100 000 that the queue may hold.
		{wire.CSIGFields{Wide: true, Type: wire.CSIGQueue}, true, 0.21008 * (1 << 20), 1},
		{wire.CSIGFields{Type: wire.CSIGQueue}, true, 6, 0},
	} {
		f := chain(t, csigSettings())
		var probe vt.Time
		if c.burst {
			for i := range 20 {
				tag := c.f
				f.arrive(end{0, 0}, 1000, uint16(i), payload, &tag)
				if c.f.Type == wire.CSIGQueue {
					f.arrive(end{1, 1}, 2600, uint16(i), payload, nil)
				}
			}
		} else {
			for probe = 1000; probe < 50_000; probe += 100 {
				f.arrive(end{0, 0}, probe, 7, payload, nil)
			}
			f.arrive(end{0, 0}, probe, 7, payload-42, &c.f)
		}
		f.run(1e9)
		var tag wire.CSIG // of the last frame that has one
		for _, g := range f.got[end{2, 3}] {
			if x := wire.CSIGTag(g.B, wire.EtherCSIG, wire.EtherCSIGWide); x != nil {
				tag = x
			}
		}
		lm := uint16(2)
		if c.f.Wide {
			lm |= 1 << 6 // node 1
		}
		if got := float64(tag.Signal()); math.Abs(got-c.want) > c.off || tag.Locator() != lm || tag.Trimmed() {
			t.Errorf("%v, wide %v: signal %v of hop %d, want %v of %d", c.f.Type, c.f.Wide, got, tag.Locator(), c.want, lm)
		}
	}
}

// A tag with a better signal than all hops have is changed by the first; a worse one by none, nor one of an unknown type.
func TestCSIGKeepsWorseSignals(t *testing.T) {
	for _, c := range []wire.CSIGFields{{Type: wire.CSIGABW, Signal: 0, Locator: 60}, {Type: wire.CSIGDelay, Signal: 31, Locator: 60}, {Type: 7, Signal: 5, Locator: 60},
		{Wide: true, Type: 15, Signal: 5, Locator: 0x7FFF}, {Type: wire.CSIGABW, Signal: 31, Locator: 60, Trimmed: true}} {
		f := chain(t, csigSettings())
		tag := c
		f.arrive(end{0, 0}, 1000, 7, 500, &tag)
		f.run(1e9)
		if got := f.tag(f.got[end{2, 3}][0]); got.Signal() != c.Signal || got.Locator() != c.Locator || got.Trimmed() != c.Trimmed {
			t.Errorf("%+v became signal %d of hop %d", c, got.Signal(), got.Locator())
		}
	}
	f := chain(t, csigSettings())
	f.arrive(end{0, 0}, 1000, 7, 500, &wire.CSIGFields{Type: wire.CSIGABW, Signal: 31, Locator: 60})
	f.run(1e9)
	if got := f.tag(f.got[end{2, 3}][0]); got.Signal() != 4 || got.Locator() != 2 { // 100 Gb/s idle, in steps of 25
		t.Errorf("an idle path shows %d of hop %d, want 4 of hop 2", got.Signal(), got.Locator())
	}
}

// CSIG-03: a trimmed packet has d = 1, its signal is that of the hop that trimmed it, and later hops keep it.
func TestCSIG03_TrimmedPacketKeepsItsSignal(t *testing.T) {
	set := csigSettings()
	set.Classes[10], set.Classes[34] = 1, 2
	set.Queues[1] = Queue{Limit: 20_000, Trim: true}
	set.Queues[2] = Queue{Limit: 100_000}
	set.Trim = Trim{Enabled: true, Size: 64, Trimmable: []uint8{10}, Trimmed: 34, LastHop: 36, FixIP: true}
	// The first hop is the narrow one; the last has less bandwidth still, and would win.
	f := newFabric(t, set, [][]int64{{400, 100}, {400, 400, 400}, {400, 400, 400, 50}}, [2]end{{0, 1}, {1, 0}}, [2]end{{1, 2}, {2, 0}})
	f.route(0, 1)
	f.route(1, 2)
	f.route(2, 3)
	for i := range 40 {
		f.arrive(end{0, 0}, 1000, uint16(i), 2000, &wire.CSIGFields{Type: wire.CSIGABW, Signal: 31, Locator: 60})
	}
	f.run(1e9)
	whole, trimmed := 0, 0
	for _, g := range f.got[end{2, 3}] {
		tag := f.tag(g)
		ip := wire.IPv4(g.B[wire.EthLen+len(tag):])
		if ip.DSCP() == 10 {
			whole++
			if tag.Trimmed() || tag.Locator() != 3 || tag.Signal() != 2 {
				t.Errorf("whole packet: signal %d of hop %d, d %v", tag.Signal(), tag.Locator(), tag.Trimmed())
			}
			continue
		}
		trimmed++
		if !tag.Trimmed() || tag.Locator() != 1 || tag.Signal() != 4 || !ip.ChecksumOK() {
			t.Errorf("trimmed packet: signal %d of hop %d, d %v", tag.Signal(), tag.Locator(), tag.Trimmed())
		}
	}
	if whole < 5 || trimmed < 20 {
		t.Errorf("%d whole, %d trimmed", whole, trimmed)
	}
}

// CSIG-04: towards a port that does not speak it the tag is taken off, and the frame is as if there had been none.
func TestCSIG04_StripOnAPortThatDoesNotSpeakIt(t *testing.T) {
	set := csigSettings()
	set.CSIG.Strip[3] = true
	for _, wide := range []bool{false, true} {
		var with, without []*link.Frame
		for _, tag := range []*wire.CSIGFields{nil, {Wide: wide, Type: wire.CSIGDelay}} {
			f := chain(t, set)
			for i := range 5 {
				f.arrive(end{0, 0}, 1000, uint16(i), 4458, tag) // 4486 bytes of IP
			}
			f.run(1e9)
			without, with = with, f.got[end{2, 3}]
			if n := f.nodes[2].Ports[3].C[link.TxBytes]; n != 5*4500 {
				t.Errorf("%d bytes sent, want 5 frames of 4500", n)
			}
		}
		if len(with) != 5 || len(without) != 5 {
			t.Fatalf("%d and %d frames", len(with), len(without))
		}
		for i := range with {
			if !bytes.Equal(with[i].B, without[i].B) {
				t.Errorf("frame %d differs:\n%x\n%x", i, with[i].B[:40], without[i].B[:40])
			}
		}
	}
}

// What does not speak CSIG does not know the tag's EtherType.
func TestCSIGDisabledDropsTags(t *testing.T) {
	set := csigSettings()
	set.CSIG.Enabled = false
	f := chain(t, set)
	f.arrive(end{0, 0}, 1000, 7, 500, &wire.CSIGFields{})
	f.arrive(end{0, 0}, 1000, 7, 500, nil)
	f.run(1e9)
	if n := len(f.got[end{2, 3}]); n != 1 || f.nodes[0].Ports[0].C[link.DropPacket] != 1 {
		t.Errorf("%d arrived, %d dropped", n, f.nodes[0].Ports[0].C[link.DropPacket])
	}
}

// Windows follow each other without gap, and an idle one counts as such.
func TestMeterWindows(t *testing.T) {
	var m meter
	for _, c := range []struct {
		now         vt.Time
		last, bytes int64
	}{{0, 0, 100}, {999, 0, 200}, {1000, 200, 100}, {1999, 200, 200}, {2500, 200, 100}, {4000, 0, 100}, {5999, 100, 100}, {6000, 100, 100}} {
		m.count(c.now, 1000, 100)
		if m.last != c.last || m.bytes != c.bytes {
			t.Errorf("at %v: %d before, %d now, want %d and %d", c.now, m.last, m.bytes, c.last, c.bytes)
		}
	}
}

// TestMeterCountsFromTheStartOfTheRun begins the same run at several times: what is measured in it does not depend on when
// it begins.
func TestMeterCountsFromTheStartOfTheRun(t *testing.T) {
	signals := func(t0 vt.Time) (out []uint32) {
		r := newRig(t, csigSettings(), 400e9, 100e9)
		r.Change(t0, func(now vt.Time) { r.StartRun(now, 1) })
		r.Advance(t0)
		for i := range 40 {
			at := t0 + 1000 + vt.Time(i*i)*20
			tag := wire.CSIGFields{Wide: true, Type: wire.CSIGABW, Signal: 1<<20 - 1}
			f := r.frame(pkt{from: 0, to: 1, ev: 7, size: 1500})
			f.B, _ = wire.InsertCSIG(f.B, &tag)
			f.Due = at
			r.Deliver(0, f)
		}
		r.Advance(t0 + 1e6)
		for _, f := range r.got(1) {
			out = append(out, wire.CSIGTag(f.B, wire.EtherCSIG, wire.EtherCSIGWide).Signal())
		}
		return out
	}
	want := signals(0)
	if slices.Max(want) == slices.Min(want) {
		t.Fatalf("signals %v: nothing was measured", want)
	}
	for _, t0 := range []vt.Time{1, 3_333, 10_000, 123_456_789} {
		if got := signals(t0); !slices.Equal(got, want) {
			t.Errorf("run from %v:\n got %v\nwant %v", t0, got, want)
		}
	}
}

func TestCSIGSettingsAreChecked(t *testing.T) {
	_, s := fan(t, "leaf0", 2, ECMP{})
	for _, c := range []CSIG{{Interval: -1}, {Compact: 5, Wide: 5}, {Compact: uint16(wire.EtherCSIGWide)}} {
		if err := s.setCSIG(&Settings{CSIG: c}); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
}

func TestCSIGDepartsDoesNotAllocate(t *testing.T) {
	f := chain(t, csigSettings())
	f.arrive(end{0, 0}, 1000, 7, 500, &wire.CSIGFields{})
	f.run(1e9)
	g, now := f.got[end{2, 3}][0], vt.Time(0)
	if n := testing.AllocsPerRun(100, func() {
		now += 5000
		f.tag(g).SetSignal(31)
		f.sw[0].csigDeparts(now, 1, g)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Whatever stands behind the MAC addresses, a switch that speaks CSIG drops the frame or sends it on, with a tag if it had one.
func FuzzArriveCSIG(f *testing.F) {
	set := csigSettings()
	set.Mirror = Mirror{To: 0, Sample: 2, From: -1}
	fab := chain(f, set)
	for _, tag := range []*wire.CSIGFields{nil, {Type: wire.CSIGDelay}, {Wide: true, Type: wire.CSIGQueue}} {
		b := wire.AppendUDPFrame(nil, &wire.FrameFields{Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("10.9.0.1"), TTL: 9})
		wire.FinishUDP(b)
		if tag != nil {
			b, _ = wire.InsertCSIG(b, tag)
		}
		f.Add(b[12:])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		n := fab.nodes[0]
		g := n.Pool.Get()
		to := macOf(end{0, 0})
		g.B = append(append(append(g.B, to[:]...), 2, 9, 9, 9, 9, 9), b[:min(len(b), 4400)]...)
		tagged := wire.CSIGTag(g.B, wire.EtherCSIG, wire.EtherCSIGWide) != nil
		g.Due = n.Now() + 2000
		n.Deliver(0, g)
		fab.run(n.Now() + 1e6)
		for at, list := range fab.got {
			for _, g := range list {
				if (wire.CSIGTag(g.B, wire.EtherCSIG, wire.EtherCSIGWide) != nil) != tagged && at.node == 2 {
					t.Errorf("%x went in, %x came out", b, g.B)
				}
				g.Release()
			}
			delete(fab.got, at)
		}
		for _, n := range fab.nodes {
			if n.Pool.Out() != 0 {
				t.Fatalf("%d frames leaked", n.Pool.Out())
			}
		}
	})
}

// BenchmarkCSIGDeparts measures what a tag costs at the dequeue.
func BenchmarkCSIGDeparts(b *testing.B) {
	for _, wide := range []bool{false, true} {
		for typ := range wire.CSIGType(4) {
			b.Run(fmt.Sprintf("%v/wide=%v", typ, wide), func(b *testing.B) {
				f := chain(b, csigSettings())
				f.arrive(end{0, 0}, 1000, 7, 500, &wire.CSIGFields{Wide: wide, Type: typ})
				f.run(1e9)
				g, now := f.got[end{2, 3}][0], vt.Time(0)
				b.ReportAllocs()
				for b.Loop() {
					now += 20
					f.sw[0].csigDeparts(now, 1, g)
				}
			})
		}
	}
}
