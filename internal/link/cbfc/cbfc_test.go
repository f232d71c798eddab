package cbfc

import (
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/uetlab/uetlab/internal/vethtest"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

func TestCBFC01_CreditsOfAFrame(t *testing.T) {
	for _, x := range []struct {
		c    Cell
		n    int // with FCS
		want uint32
	}{{Cell{64, -4}, 64, 1}, {Cell{64, -4}, 1518, 24}, {Cell{64, -4}, 9216, 144}, {Cell{64, 0}, 64, 1}, {Cell{64, 1}, 64, 2}, {Cell{128, 127}, 64, 2},
		{Cell{2048, 0}, 2048, 1}, {Cell{2048, 0}, 2049, 2}, {Cell{32, -16}, 20, 2}} {
		if got := x.c.Credits(x.n - 4); got != x.want {
			t.Errorf("%+v: %d bytes with FCS cost %d credits, want %d", x.c, x.n, got, x.want)
		}
	}
	for _, size := range []uint16{32, 64, 128, 256, 512, 1024, 2048} {
		for _, ovhd := range []int8{-16, -4, 0, 127} {
			c := Cell{size, ovhd}
			p := profile(wire.CBFCPerVC, 0, map[int]uint32{3: MaxLimit})
			p.CreditSize, p.PktOvhd = size, ovhd
			g := newRig(t, 1, p, nil, Config{})
			s := g.dirs[0].s
			want := uint32(0)
			for n := 64; n <= 9217; n++ {
				cost := c.Credits(n - 4)
				if b := n + int(ovhd); int(cost)*int(size) < b || (int(cost)-1)*int(size) >= b {
					t.Fatalf("%+v: %d bytes cost %d credits", c, n, cost)
				}
				s.Consume(0, 3, cost)
				s.release(3, cost)
				want = (want + cost) % (1 << 20)
			}
			if got := s.VC(0, 3).Consumed; got != want {
				t.Errorf("%+v: S_CC %d after all sizes, want %d", c, got, want)
			}
		}
	}
}

func TestCBFC02_NoSendWithoutCredit(t *testing.T) {
	g := newRig(t, 1, profile(wire.CBFCPerVC, 0, map[int]uint32{0: 1000}), nil, Config{})
	x := g.dirs[0]
	g.after = g.conserved
	g.frozen = 1
	x.waiting[0] = 10_000
	g.run(20_000)
	sent := x.sent[0]
	if want := 1000 / int(x.s.Cell().Credits(4146)); sent != want {
		t.Errorf("%d frames sent, want %d: the limit's worth", sent, want)
	}
	g.run(vt.Time(time.Millisecond))
	if x.sent[0] != sent || x.stored[0] > 1000 {
		t.Errorf("%d more frames without credit, %d credits stored", x.sent[0]-sent, x.stored[0])
	}
	if b := x.s.VC(g.now, 0).Blocked; b < 990*time.Microsecond {
		t.Errorf("blocked for %v, want most of a millisecond", b)
	}
}

func TestCBFC03_TrafficResumes(t *testing.T) {
	g := newRig(t, 1, profile(wire.CBFCPerVC, 0, map[int]uint32{0: 1000}), nil, Config{})
	x := g.dirs[0]
	g.after = g.conserved
	x.waiting[0] = 2000
	for i := range 20 {
		g.frozen = uint32(i+1) % 2
		g.run(g.now.Add(10 * time.Microsecond))
	}
	g.frozen = 0
	g.run(g.now.Add(time.Millisecond))
	if x.gone[0] != 2000 || x.lost[0] != 0 {
		t.Errorf("%d of 2000 frames came through, %d lost", x.gone[0], x.lost[0])
	}
	g.idle()
}

// fourVCs has four channels that share a line, and freezes the first; it returns how much the others sent after that.
func fourVCs(t *testing.T, p *Profile, d *Division) (counts [4]int) {
	g := newRig(t, 1, p, d, Config{})
	x := g.dirs[0]
	g.after = g.conserved
	for vc := range 4 {
		x.waiting[vc] = 1_000_000
	}
	g.run(100_000)
	g.frozen = 1
	g.run(150_000)
	before := x.sent
	g.run(650_000)
	for vc := range 4 {
		counts[vc] = x.sent[vc] - before[vc]
	}
	return counts
}

func TestCBFC04_BlockedChannelStopsNoOther(t *testing.T) {
	got := fourVCs(t, profile(wire.CBFCPerVC, 0, map[int]uint32{0: 1500, 1: 1500, 2: 1500, 3: 1500}), nil)
	// Three share what the line carries in 500 µs: none has less than its quarter.
	quarter := int(500*time.Microsecond/lineTime(4146, rigRate)) / 4
	if got[0] != 0 {
		t.Errorf("the frozen channel sent %d frames", got[0])
	}
	for vc := 1; vc < 4; vc++ {
		if got[vc] < quarter*98/100 || got[vc] < got[1]*98/100 {
			t.Errorf("channel %d sent %d frames, want at least %d and all alike: %v", vc, got[vc], quarter, got)
		}
	}
}

func TestCBFC05_TotalIsShared(t *testing.T) {
	total := profile(wire.CBFCTotal, 6000, map[int]uint32{0: 0, 1: 0, 2: 0, 3: 0})
	if got := fourVCs(t, total, nil); got != [4]int{} {
		t.Errorf("one total, channel 0 frozen: frames sent %v, want none", got)
	}
	d := &Division{Pools: [MaxPools]uint32{2000}}
	for vc := range 4 {
		d.VC[vc] = Share{Reserved: 1000}
	}
	if got := fourVCs(t, total, d); got[0] != 0 || got[1] == 0 || got[2] == 0 || got[3] == 0 {
		t.Errorf("a reserve for each: frames sent %v, want none of channel 0 alone", got)
	}
}

func TestCBFC06_LostCFUpdatesAreHarmless(t *testing.T) {
	const n = 3000
	took := func(p float64) vt.Time {
		rng := rand.New(rand.NewPCG(6, 6))
		g := newRig(t, 1, profile(wire.CBFCPerVC, 0, map[int]uint32{0: 2000, 9: 2000}), nil, Config{})
		x := g.dirs[0]
		x.loseCF = func() bool { return rng.Float64() < p }
		done := vt.Time(0)
		g.after = func() {
			g.conserved()
			if x.gone[0]+x.gone[9] == 2*n && done == 0 {
				done = g.now
			}
		}
		x.waiting[0], x.waiting[9] = n, n
		g.run(vt.Time(20 * time.Millisecond))
		if done == 0 {
			t.Fatalf("CF loss of %v: stalled after %d and %d frames", p, x.gone[0], x.gone[9])
		}
		g.idle()
		return done
	}
	clean, lossy := took(0), took(0.9)
	if lossy < clean {
		t.Errorf("done at %v with losses, %v without", lossy, clean)
	}
	// While they are lost: afterwards one longest distance is enough.
	g := newRig(t, 1, profile(wire.CBFCPerVC, 0, map[int]uint32{0: 2000}), nil, Config{})
	x := g.dirs[0]
	mute := true
	x.loseCF = func() bool { return mute }
	x.waiting[0] = n
	g.run(50_000)
	stuck := x.sent[0]
	mute = false
	g.run(g.now.Add(x.r.cfg.lineTime(x.r.cfg.CFMax) + 2*rigDelay))
	if x.sent[0] <= stuck {
		t.Errorf("%d frames before, %d a longest distance after the first CF_Update gets through", stuck, x.sent[0])
	}
}

func TestCBFC07_LostFrameLeaksUntilCCUpdate(t *testing.T) {
	g := newRig(t, 1, profile(wire.CBFCPerVC, 0, map[int]uint32{2: 10_000}), nil, Config{})
	x := g.dirs[0]
	g.after = g.conserved
	x.muteCC = true
	x.lose = func(f *frame) bool { return f.cc == nil }
	x.waiting[2] = 100
	g.run(vt.Time(2 * time.Millisecond))
	if v := x.s.VC(g.now, 2); v.Freed != 0 || v.Used != 100*65 {
		t.Errorf("CC muted: %+v, want nothing freed", v)
	}
	x.muteCC = false
	g.run(g.now.Add(time.Millisecond))
	if v := x.s.VC(g.now, 2); v.Freed != v.Consumed || v.Consumed != 100*65 || x.r.C[LeakCredits] != 6500 {
		t.Errorf("CC unmuted: %+v, recovered %d; want S_CF = S_CC", v, x.r.C[LeakCredits])
	}
	g.idle()
}

func TestCBFC08_OctetsOfCCUpdate(t *testing.T) {
	p := profile(wire.CBFCPerVC, 0, map[int]uint32{0: MaxLimit, 1: MaxLimit, 15: MaxLimit, 16: MaxLimit, 31: MaxLimit})
	g := newRig(t, 1, p, nil, Config{})
	s := g.dirs[0].s
	for vc, n := range map[int]uint32{0: 0x12345, 1: 0xABCDE, 15: 0xFFFFF, 16: 1, 31: 0x80000} {
		for ; n > 0; n-- {
			s.Consume(0, vc, 1)
			s.release(vc, 1)
		}
	}
	s.Force(5)
	to, from := wire.LinkControlAddr, wire.MAC{2, 0, 0, 0, 0, 7}
	for i, want := range []string{
		"0180c2000001" + "020000000007" + "8808" + "fffe" + "fa7acb" + "01" + "12345abcde" + strings.Repeat("00", 30) + "00000fffff",
		"0180c2000001" + "020000000007" + "8808" + "fffe" + "fa7acb" + "02" + "0000100000" + strings.Repeat("00", 30) + "0000080000",
	} {
		b, ok := s.CCUpdate(5, nil, to, from)
		b = vethtest.Carry(t, b)
		if got := hex.EncodeToString(b); !ok || got != want || len(b) != 60 {
			t.Errorf("CC_Update %d, %v:\n got %s\nwant %s", i+1, ok, got, want)
		}
	}
	if b, ok := s.CCUpdate(5, nil, to, from); ok {
		t.Errorf("a third: %x", b)
	}
}

func TestCBFC09_BadCCUpdates(t *testing.T) {
	r, err := NewReceiver(Config{Rate: rigRate}, profile(wire.CBFCPerVC, 0, map[int]uint32{0: 1000}))
	if err != nil {
		t.Fatal(err)
	}
	r.Enable(0, 1)
	hear := func(now vt.Time, body []byte) {
		b := append(wire.AppendCCUpdate(nil, wire.LinkControlAddr, wire.MAC{2}, false, &[16]uint32{})[:wire.EthLen], body...)
		r.CCUpdate(now, vethtest.Carry(t, b)[wire.EthLen:])
	}
	good := wire.AppendCCUpdate(nil, wire.LinkControlAddr, wire.MAC{2}, false, &[16]uint32{500})[14:]
	bad := func(i int, v byte) []byte { b := append([]byte(nil), good...); b[i] = v; return b }
	for _, x := range []struct {
		b []byte
		c Counter
	}{{bad(0, 1), CCBadOpcode}, {bad(2, 0xFB), CCBadCID}, {bad(5, 0), CCBadType}, {bad(5, 3), CCBadType}, {good[:45], CCShort}, {nil, CCBadOpcode}} {
		was := *r.C
		hear(1, x.b)
		was[x.c]++
		if *r.C != was || r.VC(0) != (VCStats{}) {
			t.Errorf("%x: counters %v, channel %+v: want only %v", x.b, r.C, r.VC(0), x.c)
		}
	}
	hear(2, good)
	if v := r.VC(0); v.Consumed != 500 || v.Freed != 500 || r.C[CCRx] != 1 {
		t.Errorf("a good one: %+v", v)
	}
	hear(3, wire.AppendCCUpdate(nil, wire.LinkControlAddr, wire.MAC{2}, false, &[16]uint32{400})[14:])
	if v := r.VC(0); v.Consumed != 500 || r.C[CCStale] != 1 {
		t.Errorf("one behind: %+v, counters %v", v, r.C)
	}
}

func TestCBFC10_CountersWrap(t *testing.T) {
	for _, limit := range []uint32{100, 5000, MaxLimit} {
		g := newRig(t, 1, profile(wire.CBFCPerVC, 0, map[int]uint32{0: limit}), nil, Config{CFMin: 800})
		x := g.dirs[0]
		g.after = g.conserved
		const n = 3 << 20 / 65 // three times round
		x.waiting[0] = n
		g.run(vt.Time(100 * time.Millisecond))
		if x.gone[0] != n {
			t.Errorf("limit %d: %d of %d frames came through", limit, x.gone[0], n)
		}
		if got, want := x.s.VC(g.now, 0).Consumed, uint32(n*65)%(1<<20); got != want {
			t.Errorf("limit %d: S_CC %d, want %d", limit, got, want)
		}
		g.idle()
	}
}

func TestCBFC11_ReplaysAreFree(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 11))
	g := newRig(t, 1, profile(wire.CBFCPerVC, 0, map[int]uint32{0: 3000}), nil, Config{})
	x := g.dirs[0]
	x.llr = newGoBackN()
	g.after = g.conserved
	x.lose = func(*frame) bool { return rng.IntN(20) == 0 }
	x.waiting[0] = 2000
	g.run(vt.Time(20 * time.Millisecond))
	if v := x.s.VC(g.now, 0); v.Consumed != 2000*65 || x.gone[0] != 2000 || x.llr.replays == 0 {
		t.Errorf("S_CC %d after %d frames and %d replays, want %d", v.Consumed, x.gone[0], x.llr.replays, 2000*65)
	}
	g.idle()
}

// replayStorm has ten frames of 10 credits wait, of which the first arrives and the others are to be replayed, when a CC_Update
// is due: behind them, or (the order that release 1.0.3 forbids) past them. It returns the most credits that were stored
// while the output stood still.
func replayStorm(t *testing.T, overtake bool) uint32 {
	p := profile(wire.CBFCPerVC, 0, map[int]uint32{0: 100})
	g := newRig(t, 1, p, nil, Config{CCEvery: 2 * time.Microsecond})
	x := g.dirs[0]
	if err := x.s.Attach(0, p, nil, 60); err != nil {
		t.Fatal(err)
	}
	x.len[0] = 640
	x.waiting[0] = 1000
	g.frozen = 1
	x.muteCC = true
	x.llr = newGoBackN()
	broken := true
	x.lose = func(f *frame) bool { return broken && f.seq > 1 }
	g.run(3_000)
	if x.came[0] != 1 || x.sent[0] != 10 {
		t.Fatalf("%d frames came of %d", x.came[0], x.sent[0])
	}
	if overtake {
		b, ok := x.s.CCUpdate(g.now, nil, wire.LinkControlAddr, wire.MAC{2})
		if !ok {
			t.Fatal("no CC_Update is due")
		}
		x.r.CCUpdate(g.now, b[14:])
	}
	g.run(4_000)
	broken, x.muteCC = false, overtake
	g.run(100_000)
	return x.r.VC(0).Peak + (x.s.VC(g.now, 0).Freed) // what the receiver freed without a frame having left is stored too
}

func TestCBFC12_CCUpdateNeverOvertakesReplay(t *testing.T) {
	if got := replayStorm(t, false); got > 100 {
		t.Errorf("in order: %d credits stored of 100", got)
	}
	if got := replayStorm(t, true); got <= 100 {
		t.Errorf("overtaking: %d credits stored; it was to show what goes wrong", got)
	}
	seeds(t, 20, func(t *testing.T, rng *rand.Rand) {
		g := newRig(t, 1, profile(wire.CBFCPerVC, 0, map[int]uint32{0: 700, 20: 900}), nil, Config{CCEvery: 3 * time.Microsecond})
		x := g.dirs[0]
		x.llr = newGoBackN()
		x.lose = func(*frame) bool { return rng.IntN(8) == 0 }
		g.after = func() {
			g.conserved()
			if x.stored[0] > 700 || x.stored[20] > 900 {
				t.Fatalf("at %v: %d and %d credits stored", g.now, x.stored[0], x.stored[20])
			}
		}
		for range 40 {
			x.waiting[rng.IntN(2)*20] += rng.IntN(20)
			g.frozen = rng.Uint32() & (1 | 1<<20)
			g.run(g.now.Add(time.Duration(rng.IntN(10_000))))
		}
		g.frozen = 0
		g.run(g.now.Add(20 * time.Millisecond))
		if x.gone != x.sent {
			t.Errorf("%d and %d frames came of %d and %d", x.gone[0], x.gone[20], x.sent[0], x.sent[20])
		}
		g.idle()
	})
}

func TestCBFC13_ChannelOfAFrame(t *testing.T) {
	p := profile(wire.CBFCPerVC, 0, nil)
	p.VCs = []wire.CBFCVC{
		{Index: 1, Limit: 500, Map: wire.VCMapDSCP, Value: 10, Mask: 0x3F},
		{Index: 1, Limit: 500, Map: wire.VCMapDSCP, Value: 46, Mask: 0x3F},
		{Index: 2, Limit: 500, Map: wire.VCMapDSCP, Value: 0x20, Mask: 0x38},
		{Index: 20, Limit: 500, Map: wire.VCMapPCP, Value: 5<<1 | 1, Mask: 0x0F},
		{Index: 21, Limit: 500, Map: wire.VCMapPCP, Value: 5 << 1, Mask: 0x0E},
	}
	p.Lossless = 1<<1 | 1<<2 | 1<<20 | 1<<21
	if err := CheckProfile(p, 4146); err != nil {
		t.Fatal(err)
	}
	m := NewMap(p)
	eth := func(rest ...byte) []byte { return append(make([]byte, 12, 64), rest...) }
	v4 := func(dscp byte) []byte { return append([]byte{8, 0, 0x45, dscp << 2}, make([]byte, 18)...) }
	v6 := func(dscp byte) []byte {
		return append([]byte{0x86, 0xDD, 0x60 | dscp>>2, dscp << 6}, make([]byte, 38)...)
	}
	tag := func(tci byte, inner []byte) []byte { return append([]byte{0x81, 0, tci, 1}, inner...) }
	for name, x := range map[string]struct {
		b    []byte
		want uint8
	}{
		"IPv4 by DSCP":               {eth(v4(10)...), 1},
		"IPv6 by DSCP":               {eth(v6(10)...), 1},
		"IPv6, a second value":       {eth(v6(46)...), 1},
		"IPv4 by mask":               {eth(v4(0x27)...), 2},
		"tag with PCP 5 and DEI":     {eth(tag(0xB0, v4(10))...), 20},
		"tag with PCP 5":             {eth(tag(0xA0, v6(10))...), 21},
		"tag of another PCP":         {eth(tag(0x20, v6(10))...), 1},
		"tag within a tag":           {eth(tag(0x20, tag(0xA0, v6(10)))...), 1},
		"CSIG tag":                   {eth(append([]byte{0xCC, 0xDD, 0, 0}, v4(10)...)...), 1},
		"DSCP that selects nothing":  {eth(v4(11)...), NoVC},
		"ARP":                        {eth(8, 6, 0, 1), NoVC},
		"ordered sets":               {eth(0x88, 0xB5, 0x5C, 0x10), NoVC},
		"MAC control":                {eth(0x88, 0x08, 0xFF, 0xFE), NoVC},
		"cut short behind its tag":   {eth(0x81, 0, 0x20, 1, 8), NoVC},
		"cut short before its types": {make([]byte, 13), NoVC},
	} {
		if got := m.VC(vethtest.Carry(t, x.b)); got != x.want {
			t.Errorf("%s: channel %d, want %d", name, got, x.want)
		}
	}
}

func TestCBFC14_RemovalDrains(t *testing.T) {
	p := profile(wire.CBFCPerVC, 0, map[int]uint32{0: 1000, 1: 1000})
	g := newRig(t, 1, p, nil, Config{})
	x := g.dirs[0]
	g.after = g.conserved
	x.waiting[0], x.waiting[1] = 500, 100_000
	g.run(20_000)
	x.s.Remove(1)
	if x.s.Accepts(0) || !x.s.Accepts(1) || x.waiting[0] == 0 {
		t.Fatalf("under removal: channel 0 accepts %v, 1 %v, %d frames wait", x.s.Accepts(0), x.s.Accepts(1), x.waiting[0])
	}
	g.run(300_000)
	if x.waiting[0] != 0 || x.gone[0] != 500 || x.lost[0] != 0 {
		t.Fatalf("drained: %d frames wait, %d came through, %d lost", x.waiting[0], x.gone[0], x.lost[0])
	}
	x.s.Drained(g.now, 1)
	x.r.Disable(1)
	if !x.s.Accepts(0) || x.s.On() != 2 || x.s.VC(g.now, 0).Limit != 0 {
		t.Errorf("removed: accepts %v, on %#x, %+v", x.s.Accepts(0), x.s.On(), x.s.VC(g.now, 0))
	}
	// Best effort now: what the output does not take is not counted, and nothing waits for credits.
	g.frozen = 1
	x.waiting[0] = 1000
	before := x.sent[1]
	g.run(g.now.Add(500 * time.Microsecond))
	if x.sent[0] != 1500 || x.s.VC(g.now, 0).Used != 0 || x.sent[1] == before {
		t.Errorf("best effort: %d frames sent, %+v; the other channel sent %d", x.sent[0], x.s.VC(g.now, 0), x.sent[1]-before)
	}
	// And up again, with frames of before still in the buffer.
	bringUp(t, g.now, x, p, nil)
	x.onWay, x.leaked, x.stored = [VCs]uint32{}, [VCs]uint32{}, [VCs]uint32{}
	x.line, x.back, x.store = nil, nil, [VCs][]frame{}
	g.frozen = 0
	x.waiting[0], x.waiting[1] = 100, 0
	g.run(g.now.Add(time.Millisecond))
	if x.sent[0] != 1600 {
		t.Errorf("up again: %d frames sent, want 1600", x.sent[0])
	}
	g.idle()
}

func TestCBFC15_IncastIsFairAndLossless(t *testing.T) {
	g := newRig(t, 3, profile(wire.CBFCPerVC, 0, map[int]uint32{0: 1000}), nil, Config{})
	g.after = g.conserved
	for _, x := range g.dirs {
		x.waiting[0] = 1_000_000
		x.gate = func(x *dir, f frame) bool { return f.vc == 0 || len(x.store[5]) < 15 }
	}
	g.run(100_000)
	var before [3]int
	for i, x := range g.dirs {
		before[i] = x.gone[0]
	}
	g.run(1_100_000)
	all := int(time.Millisecond / lineTime(4146, rigRate))
	for i, x := range g.dirs {
		if n := x.gone[0] - before[i]; n < all/3*98/100 || n > all/3*102/100 || x.lost[0] != 0 {
			t.Errorf("sender %d: %d frames of %d, %d lost; want a third and none", i, n, all, x.lost[0])
		}
		x.waiting[0], x.waiting[5] = 0, 10_000 // the same with a best effort channel
	}
	g.run(2_100_000)
	for i, x := range g.dirs {
		if x.lost[5] == 0 || x.lost[0] != 0 {
			t.Errorf("sender %d: %d best effort frames lost, want some; %d lossless ones", i, x.lost[5], x.lost[0])
		}
	}
}

func TestStepsInOrder(t *testing.T) {
	p := profile(wire.CBFCPerVC, 0, map[int]uint32{0: 1000, 1: 1000})
	s, err := NewSender(Config{Rate: rigRate})
	if err != nil {
		t.Fatal(err)
	}
	if !s.Ready(0, 0, 1_000_000) || !s.Ready(0, NoVC, 1) {
		t.Error("a channel is not best effort before it is brought up")
	}
	if err := s.Enable(0, 1); !errors.Is(err, ErrOrder) {
		t.Errorf("enabled before it was held: %v", err)
	}
	s.Hold(0, 3)
	if s.Ready(0, 0, 1) || !s.Ready(0, 2, 1) {
		t.Error("held: channel 0 sends, or 2 does not")
	}
	if err := s.Enable(0, 3); !errors.Is(err, ErrOrder) {
		t.Errorf("enabled without a profile: %v", err)
	}
	if err := s.Attach(0, p, nil, 4146); err != nil {
		t.Fatal(err)
	}
	if err := s.Enable(0, 3); err != nil {
		t.Fatal(err)
	}
	q := *p
	q.CreditSize = 128
	if err := s.Attach(0, &q, nil, 4146); !errors.Is(err, ErrOrder) {
		t.Errorf("another cell while on: %v", err)
	}
	// Another limit is fine, below what is out too: nothing more goes until enough is back.
	s.Consume(0, 0, 900)
	q = *profile(wire.CBFCPerVC, 0, map[int]uint32{0: 500, 1: 1000})
	if err := s.Attach(0, &q, nil, 4146); err != nil || s.Ready(0, 0, 1) {
		t.Errorf("a lower limit: %v, or it sends", err)
	}
	if s.CFUpdate(1, wire.AppendCFUpdate(nil, wire.CFEntry{VC: 0, Count: 400}, wire.CFEntry{VC: 0, Count: 400})) {
		t.Error("500 out of 500, and it may send")
	}
	if !s.CFUpdate(2, wire.AppendCFUpdate(nil, wire.CFEntry{VC: 1, Count: 0}, wire.CFEntry{VC: 0, Count: 401})) || !s.Ready(2, 0, 1) {
		t.Error("499 out of 500, and it may not send")
	}
}

// TestFramesOfBefore disables a channel whose frames are still in the buffer: what they took is not given back once more.
func TestFramesOfBefore(t *testing.T) {
	r, err := NewReceiver(Config{Rate: rigRate}, profile(wire.CBFCPerVC, 0, map[int]uint32{0: 1000}))
	if err != nil {
		t.Fatal(err)
	}
	r.Enable(0, 1)
	r.Stored(0, 0, 300)
	r.Disable(1)
	if r.Held() != 0 || r.Deadline(0) != vt.Never {
		t.Errorf("disabled: %d credits held, deadline %v", r.Held(), r.Deadline(0))
	}
	r.Enable(1, 1)
	r.Stored(2, 0, 100)
	r.Freed(3, 0, 250)
	if v := r.VC(0); v.Freed != 0 || v.Used != 100 {
		t.Errorf("a frame of before freed: %+v", v)
	}
	r.Freed(4, 0, 80) // 50 of before
	if v := r.VC(0); v.Freed != 30 || v.Used != 70 || r.Held() != 70 {
		t.Errorf("all of before freed: %+v, %d held", v, r.Held())
	}
	r.Freed(5, 0, 500)
	if v := r.VC(0); v.Used != 0 || v.Freed != 100 {
		t.Errorf("more freed than stored: %+v", v)
	}
}

func TestCheapestFrameWakesAChannel(t *testing.T) {
	g := newRig(t, 1, profile(wire.CBFCTotal, MaxTotal, map[int]uint32{0: 0, 1: 0}), nil, Config{})
	s := g.dirs[0].s
	if !s.Ready(0, 0, MaxLimit) || s.Ready(0, 0, MaxLimit+1) {
		t.Errorf("a channel has a limit other than %d of a larger total", MaxLimit)
	}
	s.Consume(0, 0, MaxLimit)
	s.Ready(0, 0, 10)
	s.Ready(0, 0, 60)
	if !s.CFUpdate(1, wire.AppendCFUpdate(nil, wire.CFEntry{Count: 10}, wire.CFEntry{Count: 10})) {
		t.Error("10 credits are back, and the frame of 10 was not remembered")
	}
}

func TestRecoveredCreditsAreToldAtOnce(t *testing.T) {
	r, err := NewReceiver(Config{Rate: rigRate}, profile(wire.CBFCPerVC, 0, map[int]uint32{4: 1000}))
	if err != nil {
		t.Fatal(err)
	}
	r.Enable(0, 1<<4)
	r.CCUpdate(7, wire.AppendCCUpdate(nil, wire.LinkControlAddr, wire.MAC{2}, false, &[16]uint32{4: 77})[14:])
	b, ok := r.CFUpdate(7, nil)
	if want := wire.AppendCFUpdate(nil, wire.CFEntry{VC: 4, Count: 77}, wire.CFEntry{VC: 4, Count: 77}); !ok || hex.EncodeToString(b) != hex.EncodeToString(want) {
		t.Errorf("%x, want %x", b, want)
	}
	r.Freed(7, 4, 1)
	r.Dropped(8, 4, 5)
	if at := r.Deadline(8); at != 7+128 { // 6400 bytes at 400 Gb/s
		t.Errorf("the next one is due at %v, want 135ns", at)
	}
	if _, ok := r.CFUpdate(134, nil); ok {
		t.Error("closer than the least distance")
	}
}

func TestWatchdog(t *testing.T) {
	g := newRig(t, 1, profile(wire.CBFCPerVC, 0, map[int]uint32{0: 100, 1: 100}), nil, Config{Watchdog: 10 * time.Microsecond})
	s := g.dirs[0].s
	s.Consume(0, 0, 100)
	s.Consume(0, 1, 100)
	s.Ready(1000, 0, 50)
	s.Ready(4000, 1, 50)
	s.CFUpdate(5000, wire.AppendCFUpdate(nil, wire.CFEntry{VC: 1}, wire.CFEntry{VC: 1})) // nothing new, but a sign of life
	if at := s.Deadline(5000); at != 11_000 || s.Watchdog(10_999) != 0 {
		t.Errorf("deadline %v, want 11µs", at)
	}
	if got := s.Watchdog(11_000); got != 1 {
		t.Errorf("fired %b, want channel 0", got)
	}
	if at := s.Deadline(11_000); at != 15_000 || s.Watchdog(15_000) != 2 || s.Watchdog(90_000) != 0 {
		t.Errorf("deadline %v, want 15µs; each fires once", at)
	}
	s.Idle(20_000, 0)
	if s.Ready(30_000, 0, 50) || s.Watchdog(40_000) != 1 || s.C[Watchdogs] != 3 {
		t.Error("a new wait does not count anew")
	}
	if b := s.VC(40_000, 0).Blocked; b != 29*time.Microsecond {
		t.Errorf("blocked for %v, want 19 + 10 µs", b)
	}
}

func TestDivision(t *testing.T) {
	p := profile(wire.CBFCTotal, 1000, map[int]uint32{0: 0, 1: 0, 2: 0})
	d := &Division{Pools: [MaxPools]uint32{600, 100}}
	d.VC[0] = Share{Reserved: 100, Cap: 150}
	d.VC[1] = Share{Reserved: 100, Dynamic: true}
	d.VC[2] = Share{Pool: 1, Dynamic: true, Shift: -1}
	g := newRig(t, 1, p, nil, Config{})
	s := g.dirs[0].s
	if err := s.Attach(0, p, d, 4146); err != nil {
		t.Fatal(err)
	}
	// Channel 0 has 100 of its own and 150. Channel 1 has 100, and while 450 are free of the pool, as many as are free then: 225.
	// Channel 2 has none, and half of what is free of 100.
	for vc, want := range []int{250, 100 + 225, 33} {
		n := 0
		for s.Ready(0, vc, 1) && n < 2000 {
			s.Consume(0, vc, 1)
			n++
		}
		if n != want {
			t.Errorf("channel %d got %d credits, want %d", vc, n, want)
		}
	}
	d.VC[5].Reserved = 101
	if err := s.Attach(0, p, d, 4146); err == nil {
		t.Error("a division of more than there is")
	}
}

func TestLinesThatDoubleFrames(t *testing.T) {
	seeds(t, 30, func(t *testing.T, rng *rand.Rand) {
		g := newRig(t, 1, profile(wire.CBFCPerVC, 0, map[int]uint32{0: 1000, 17: 1000}), nil, Config{CCEvery: 20 * time.Microsecond})
		x := g.dirs[0]
		x.lose = func(f *frame) bool { return rng.IntN(20) == 0 }
		x.twice = func(f *frame) bool { return rng.IntN(10) == 0 }
		for range 30 {
			x.waiting[rng.IntN(2)*17] += rng.IntN(30)
			g.run(g.now.Add(time.Duration(rng.IntN(20_000))))
		}
		x.lose, x.twice = nil, nil
		g.run(g.now.Add(20 * time.Millisecond))
		if x.waiting[0]+x.waiting[17] != 0 {
			t.Errorf("stalled with %d and %d frames", x.waiting[0], x.waiting[17])
		}
		g.idle()
	})
}

// TestCreditsAreConserved loses frames, CC_Updates and CF_Updates, doubles CC_Updates, and doubles and swaps CF_Updates.
func TestCreditsAreConserved(t *testing.T) {
	n := 300
	if testing.Short() {
		n = 50
	}
	seeds(t, n, func(t *testing.T, rng *rand.Rand) {
		limits := map[int]uint32{}
		for range 1 + rng.IntN(6) {
			limits[rng.IntN(VCs)] = 65 + rng.Uint32N(3000)
		}
		total, d := rng.IntN(3) == 0, Division{}
		p := profile(wire.CBFCPerVC, 0, limits)
		if total {
			p.Method, p.Total = wire.CBFCTotal, 3000+rng.Uint32N(6000)
			if d.Pools[0] = 65 + rng.Uint32N(2000); rng.IntN(2) == 0 {
				for vc := range limits {
					d.VC[vc] = Share{Reserved: rng.Uint32N(100), Cap: 65 + rng.Uint32N(400)}
				}
			}
		}
		g := newRig(t, 1, p, &d, Config{CCEvery: time.Duration(2+rng.IntN(60)) * time.Microsecond, CFMin: 768 + rng.IntN(8000), Steady: rng.IntN(4) == 0})
		x := g.dirs[0]
		if total {
			x.limit = [VCs]uint32{}
		}
		loss := rng.Float64() * 0.3
		x.lose = func(*frame) bool { return rng.Float64() < loss }
		x.twice = func(f *frame) bool { return f.cc != nil && rng.IntN(5) == 0 }
		x.loseCF = func() bool {
			if n := len(x.back); n >= 2 && rng.IntN(5) == 0 {
				x.back[n-1].cc, x.back[n-2].cc = x.back[n-2].cc, x.back[n-1].cc
			}
			if n := len(x.back); n > 0 && rng.IntN(5) == 0 {
				x.back = append(x.back, x.back[n-1])
			}
			return rng.Float64() < loss
		}
		g.after = g.conserved
		for range 40 {
			for vc := range limits {
				x.waiting[vc] += rng.IntN(20)
				x.len[vc] = 46 + rng.IntN(4100)
			}
			g.frozen = rng.Uint32()
			g.run(g.now.Add(time.Duration(rng.IntN(20_000))))
		}
		x.lose, x.twice, x.loseCF, g.frozen = nil, nil, nil, 0
		g.run(g.now.Add(10 * time.Millisecond))
		for vc := range limits {
			if x.waiting[vc] != 0 || x.gone[vc]+x.lost[vc] != x.sent[vc] {
				t.Errorf("channel %d: %d wait, %d came and %d were lost of %d", vc, x.waiting[vc], x.gone[vc], x.lost[vc], x.sent[vc])
			}
		}
		if x.s.Used() != 0 || x.r.Held() != 0 {
			t.Errorf("%d credits out, %d held", x.s.Used(), x.r.Held())
		}
	})
}

func TestProfilesAndConfigs(t *testing.T) {
	good := profile(wire.CBFCPerVC, 0, map[int]uint32{0: 65})
	if err := CheckProfile(good, 4146); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Profile){
		"credit size 100":       func(p *Profile) { p.CreditSize = 100 },
		"credit size 4096":      func(p *Profile) { p.CreditSize = 4096 },
		"packet overhead":       func(p *Profile) { p.PktOvhd = -17 },
		"method 2":              func(p *Profile) { p.Method = 2 },
		"total of 1048576":      func(p *Profile) { p.Total = 1 << 20 },
		"needs 65":              func(p *Profile) { p.Method, p.Total = wire.CBFCTotal, 64 },
		"limit of 64 credits":   func(p *Profile) { p.VCs[0].Limit = 64 },
		"limit of 32768":        func(p *Profile) { p.VCs[0].Limit = 32768 },
		"limit of 0 credits":    func(p *Profile) { p.Lossless |= 2 },
		"two limits, 65 and 66": func(p *Profile) { p.VCs = append(p.VCs, wire.CBFCVC{Limit: 66}) },
		"index":                 func(p *Profile) { p.VCs[0].Index = 32 },
	} {
		p := *good
		p.VCs = append([]wire.CBFCVC(nil), good.VCs...)
		change(&p)
		if err := CheckProfile(&p, 4146); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for want, c := range map[string]Config{
		"rate":    {},
		"timer":   {Rate: 1, CCEvery: time.Second},
		"least":   {Rate: 1, CFMin: 100},
		"longest": {Rate: 1, CFMax: 100_000},
		"above":   {Rate: 1, CFMin: 20_000, CFMax: 16384},
		"repeats": {Rate: 1, Repeats: -1},
		"dog":     {Rate: 1, Watchdog: -1},
	} {
		if _, err := NewSender(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", c, err, want)
		}
	}
}

// FuzzMessages feeds both sides what a broken or malicious peer may send.
func FuzzMessages(f *testing.F) {
	f.Add([]byte{1, 0x5C, 0x10, 0, 0, 0x16, 0, 0, 0x10})
	f.Add(append([]byte{0}, wire.AppendCCUpdate(nil, wire.LinkControlAddr, wire.MAC{2}, true, &[16]uint32{1 << 19})[14:]...))
	f.Fuzz(func(t *testing.T, b []byte) {
		g := newRig(t, 1, profile(wire.CBFCPerVC, 0, map[int]uint32{0: 1000, 16: 1000}), nil, Config{})
		x := g.dirs[0]
		now := vt.Time(0)
		for len(b) > 0 {
			n := min(len(b)-1, []int{46, 8}[b[0]&1])
			body := b[1 : 1+n]
			if b[0]&1 == 1 {
				x.s.CFUpdate(now, body)
			} else {
				x.r.CCUpdate(now, body)
			}
			b = b[1+n:]
			for _, vc := range []int{0, 16} {
				if c := uint32(n + 1); x.s.Ready(now, vc, c) {
					x.s.Consume(now, vc, c)
					x.r.Stored(now, vc, c)
				}
				if v := x.s.VC(now, vc); v.Used > 1000 {
					t.Fatalf("channel %d: %+v: more out than the limit", vc, v)
				}
			}
			x.r.CFUpdate(now, nil)
			x.s.CCUpdate(now, nil, wire.LinkControlAddr, wire.MAC{2})
			now = min(x.s.Deadline(now), x.r.Deadline(now), now+1000)
		}
	})
}

func TestHotPathAllocatesNothing(t *testing.T) {
	p := profile(wire.CBFCPerVC, 0, map[int]uint32{0: 1000, 17: 1000})
	g := newRig(t, 1, p, nil, Config{Steady: true})
	s, r, m := g.dirs[0].s, g.dirs[0].r, NewMap(p)
	cf, cc, now := make([]byte, 0, 8), make([]byte, 0, 64), vt.Time(0)
	pkt := append(make([]byte, 12, 64), 8, 0, 0x45, 0, 0, 0)
	if got := testing.AllocsPerRun(1000, func() {
		now += 400_000
		vc := int(m.VC(pkt))
		if s.Ready(now, vc, 65) {
			s.Consume(now, vc, 65)
			r.Stored(now, vc, 65)
			r.Freed(now, vc, 65)
		}
		if b, ok := r.CFUpdate(now, cf); ok {
			s.CFUpdate(now, b)
		}
		if b, ok := s.CCUpdate(now, cc, wire.LinkControlAddr, wire.MAC{2}); ok {
			r.CCUpdate(now, b[14:])
		}
		s.Watchdog(now)
	}); got != 0 {
		t.Errorf("%v allocations", got)
	}
}

// BenchmarkFrame is what credits cost for a frame at both ends, a CF_Update for two of them included.
func BenchmarkFrame(b *testing.B) {
	p := profile(wire.CBFCPerVC, 0, map[int]uint32{0: 10_000})
	cfg := Config{Rate: rigRate}
	s, _ := NewSender(cfg)
	r, _ := NewReceiver(cfg, p)
	s.Hold(0, 1)
	if err := s.Attach(0, p, nil, 4146); err != nil {
		b.Fatal(err)
	}
	r.Enable(0, 1)
	if err := s.Enable(0, 1); err != nil {
		b.Fatal(err)
	}
	m, cf, now := NewMap(p), make([]byte, 0, 8), vt.Time(0)
	pkt := append(make([]byte, 12, 64), 8, 0, 0x45, 0, 0, 0)
	cell := s.Cell()
	b.ReportAllocs()
	for b.Loop() {
		now += 83
		vc := int(m.VC(pkt))
		c := cell.Credits(4146)
		if !s.Ready(now, vc, c) {
			b.Fatal("blocked")
		}
		s.Consume(now, vc, c)
		r.Stored(now, vc, c)
		r.Freed(now, vc, c)
		if r.Deadline(now) <= now {
			if u, ok := r.CFUpdate(now, cf); ok {
				s.CFUpdate(now, u)
			}
		}
	}
}
