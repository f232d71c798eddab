package link

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/uetlab/uetlab/internal/link/cbfc"
	"github.com/uetlab/uetlab/internal/link/llr"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// channelLine is a line with several lossless channels, by DSCP, whose port 1 keeps frames for a while, those of frozen channels until they thaw. It
// checks the credits of all channels after every event.
type channelLine struct {
	*line
	setup  *cbfc.Setup
	stay   time.Duration
	frozen uint32
	stored [8][]*Frame // those that are frozen
	held   [8]uint32   // credits of all that are stored
	peak   uint32      // the most that ever were, on all channels
	came   [8]int      // frames delivered
	best   [8]int      // of them, those that nobody had paid for
	loose  bool        // frames may overtake CC_Updates: no law holds
}

// channels makes a setup whose channel i is selected by DSCP 10·i; total, if not 0, is shared by all.
func channels(total uint32, limits map[uint8]uint32) *cbfc.Setup {
	s := &cbfc.Setup{Config: cbfc.Config{Rate: 400e9}}
	s.Fill()
	s.Profile = cbfc.Profile{CreditSize: 128, Method: wire.CBFCPerVC, Total: total}
	if total > 0 {
		s.Profile.Method = wire.CBFCTotal
	}
	for vc := range uint8(8) {
		if n, ok := limits[vc]; ok {
			s.Profile.Lossless |= 1 << vc
			s.Profile.VCs = append(s.Profile.VCs, wire.CBFCVC{Index: vc, Limit: n, Map: wire.VCMapDSCP, Value: 10 * (vc % 6), Mask: 0x3F})
		}
	}
	return s
}

func newChannelLine(t testing.TB, retry *llr.Config, setup *cbfc.Setup, delay time.Duration) *channelLine {
	c := &channelLine{line: newLine(t, retry, delay), setup: setup, stay: 200 * time.Nanosecond}
	for i, e := range c.ends {
		cfg := e.p.cfg
		cfg.CBFC, cfg.MTU = setup, 4500
		e.p = NewPort(i, cfg, lineHost{c.line, i}, lineHost{c.line, i})
		e.p.Reset(rand.New(rand.NewPCG(uint64(i), 7)))
		e.p.Begin(0)
	}
	c.keep = func(now vt.Time, to int, f *Frame) {
		vc := c.ends[to].p.crd.vcs.VC(f.B)
		if to == 0 || vc == cbfc.NoVC {
			f.Release()
			return
		}
		c.came[vc]++
		if !f.Credited() {
			c.best[vc]++
			f.Release()
			return
		}
		c.held[vc] += uint32(f.cost)
		sum := uint32(0)
		for _, n := range c.held {
			sum += n
		}
		c.peak = max(c.peak, sum)
		if c.frozen>>vc&1 != 0 {
			c.stored[vc] = append(c.stored[vc], f)
			return
		}
		c.leave(f, vc)
	}
	return c
}

// leave has a frame leave the buffer of port 1's node after its stay.
func (c *channelLine) leave(f *Frame, vc uint8) {
	c.at(c.now.Add(c.stay), func(vt.Time) {
		c.held[vc] -= uint32(f.cost)
		f.Release()
	})
}

// thaw has what is frozen go on.
func (c *channelLine) thaw(vcs uint32) {
	c.frozen &^= vcs
	for vc := range c.stored {
		if vcs>>vc&1 != 0 {
			for _, f := range c.stored[vc] {
				c.leave(f, uint8(vc))
			}
			c.stored[vc] = nil
		}
	}
}

// offer queues frames of n bytes in channel vc, in the queue of that number.
func (c *channelLine) offer(vc uint8, count, n int) {
	for range count {
		f := c.frame(0, n, false)
		f.B[15] = 10 * (vc % 6) << 2
		c.ends[0].p.Offer(c.now, int(vc), f)
	}
}

func (c *channelLine) run(t vt.Time) {
	c.t.Helper()
	for c.q.Next() <= t {
		c.line.run(c.q.Next())
		if !c.loose {
			c.conserved(false)
		}
	}
	c.line.run(t)
}

// conserved checks all channels: who knows what, and nothing beyond limits. At rest all credits are back.
func (c *channelLine) conserved(rest bool) {
	c.t.Helper()
	const cycle = 1<<20 - 1
	p := &c.setup.Profile
	tx, rx := c.ends[0].p.crd.tx, c.ends[1].p.crd.rx
	used := uint32(0)
	for _, v := range p.VCs {
		vc, limit := int(v.Index), v.Limit
		if p.Method == wire.CBFCTotal {
			limit = p.Total
		}
		if rx.Stays(vc) != c.held[vc] {
			c.t.Fatalf("%v, channel %d: the receiver says that %d credits are stored, not %d", c.now, vc, rx.Stays(vc), c.held[vc])
		}
		if tx.State(vc) == cbfc.Off || rx.On()>>vc&1 == 0 {
			continue
		}
		a, b := tx.VC(c.now, vc), rx.VC(vc)
		used += a.Used
		way, untold := (a.Consumed-b.Consumed)&cycle, (b.Freed-a.Freed)&cycle
		if max(a.Used, way, untold, b.Used) > limit || way+b.Used+untold != a.Used || rest && a.Used != 0 {
			c.t.Fatalf("%v, channel %d: sender %+v, receiver %+v", c.now, vc, a, b)
		}
	}
	if p.Method == wire.CBFCTotal && used > p.Total {
		c.t.Fatalf("%v: %d credits are out, of %d", c.now, used, p.Total)
	}
}

// remove turns credits off at both ends.
func (c *channelLine) remove(at vt.Time) {
	c.at(at, func(now vt.Time) {
		for _, e := range c.ends {
			e.p.SetCBFC(now, nil)
		}
	})
}

// TestCBFC04_PortsKeepChannelsApart offers a quarter of the line to each of four channels, and freezes one.
func TestCBFC04_PortsKeepChannelsApart(t *testing.T) {
	limits := map[uint8]uint32{1: 800, 2: 800, 3: 800, 4: 800}
	c := newChannelLine(t, nil, channels(0, limits), 500*time.Nanosecond)
	const size, quarter = 1000, 82 * time.Nanosecond // 1024 bytes of line time four times over
	for at := vt.Time(0); at < 300*us; at = at.Add(quarter) {
		c.at(at, func(vt.Time) {
			for vc := range limits {
				c.offer(vc, 1, size)
			}
		})
	}
	c.at(50*us, func(vt.Time) { c.frozen = 1 << 1 })
	c.run(100 * us)
	before := c.came
	c.run(300 * us)
	for vc := range limits {
		share := float64(c.came[vc]-before[vc]) * float64(LinePs(size, 400e9)) / (200 * 1e6)
		if want := 0.25; vc != 1 && (share < want-0.02 || share > want+0.02) || vc == 1 && share != 0 {
			t.Errorf("channel %d has %.3f of the line", vc, share)
		}
	}
	v := c.ends[0].p.crd.tx.VC(c.now, 1)
	if v.Blocked < 200*time.Microsecond || v.Used != 800 || c.ends[0].p.crd.tx.VC(c.now, 2).Blocked != 0 {
		t.Errorf("channel 1: %+v", v)
	}
	c.thaw(1 << 1)
	c.run(600 * us)
	c.conserved(true)
	if c.came[1] != c.came[2] || c.pool.Out() != 0 {
		t.Errorf("%v frames came, %d are out", c.came, c.pool.Out())
	}
}

// TestCBFC05_PortsShareATotal freezes one of two channels that share a total: both stop, and go on with it.
func TestCBFC05_PortsShareATotal(t *testing.T) {
	c := newChannelLine(t, nil, channels(600, map[uint8]uint32{1: 0, 2: 0}), 500*time.Nanosecond)
	c.frozen = 1 << 1
	c.offer(1, 500, 1000)
	c.offer(2, 500, 1000)
	c.run(100 * us)
	before := c.came
	c.run(ms)
	if c.came != before || c.came[2] == 0 || c.came[2] == 500 || c.peak > 600 {
		t.Errorf("%v frames came, and %v before; %d credits stored", c.came, before, c.peak)
	}
	c.thaw(1 << 1)
	c.run(2 * ms)
	c.conserved(true)
	if c.came[1] != 500 || c.came[2] != 500 {
		t.Errorf("thawed: %v frames came", c.came)
	}
}

// TestCBFC12_RaceDemo has the first frames of a full window lost and waits for their replay. A CC_Update that overtakes it frees credits for what is still to
// come, so that more is stored than there is room for; one that is numbered does not.
func TestCBFC12_RaceDemo(t *testing.T) {
	for _, race := range []bool{false, true} {
		retry, setup := testLLR(), channels(0, map[uint8]uint32{1: 100})
		setup.CCEvery, setup.RaceDemo = time.Microsecond, race
		c := newChannelLine(t, &retry, setup, 500*time.Nanosecond)
		c.loose, c.frozen = race, 1<<1
		seen := 0
		c.meddle = func(from int, f *Frame) []*Frame {
			if from == 0 && c.ends[0].p.crd.vcs.VC(f.B) == 1 && f.LLR>>20&wire.LLRFlagReplay == 0 {
				if seen++; seen > 1 && seen <= 12 {
					return drop(f)
				}
			}
			return []*Frame{f}
		}
		c.offer(1, 50, 1000)
		c.run(100 * us)
		if (c.peak > 100) != race {
			t.Errorf("race %v: %d credits stored, of 100", race, c.peak)
		}
		t.Logf("race %v: at most %d credits stored, of 100", race, c.peak)
	}
}

// TestCBFC13_PortsSelectChannels sends six flows: IPv4 and IPv6 by DSCP, tagged frames by PCP and DEI, with either, and one whose tag selects nothing. Both ends count
// each in its channel.
func TestCBFC13_PortsSelectChannels(t *testing.T) {
	setup := channels(0, map[uint8]uint32{1: 4000, 2: 4000})
	p := &setup.Profile
	p.Lossless |= 1<<5 | 1<<6
	p.VCs = append(p.VCs, wire.CBFCVC{Index: 5, Limit: 4000, Map: wire.VCMapPCP, Value: 5 << 1, Mask: 0xF}, wire.CBFCVC{Index: 6, Limit: 4000, Map: wire.VCMapPCP, Value: 5<<1 | 1, Mask: 0xF})
	c := newChannelLine(t, nil, setup, 500*time.Nanosecond)
	v4 := func(dscp byte) []byte { return []byte{0x08, 0x00, 0x45, dscp << 2} }
	v6 := func(dscp byte) []byte { return []byte{0x86, 0xDD, 0x60 | dscp>>2, dscp << 6} }
	tag := func(tci byte, rest []byte) []byte { return append([]byte{0x81, 0, tci, 1}, rest...) }
	want := [8]uint32{}
	for i, flow := range []struct {
		head []byte
		vc   int // -1: none
	}{{v4(10), 1}, {v6(10), 1}, {v6(20), 2}, {tag(5<<5, v4(10)), 5}, {tag(5<<5|1<<4, v6(20)), 6}, {tag(3<<5, v4(20)), 2}, {v4(11), -1}} {
		for range 10 + i {
			f := c.frame(0, 500, false)
			copy(f.B[12:], flow.head)
			c.ends[0].p.Offer(c.now, 0, f)
			if flow.vc >= 0 {
				want[flow.vc] += 4
			}
		}
	}
	c.run(ms)
	c.conserved(true)
	for vc, n := range want {
		if a, b := c.ends[0].p.crd.tx.VC(c.now, vc), c.ends[1].p.crd.rx.VC(vc); a.Consumed != n || b.Consumed != n || b.Freed != n {
			t.Errorf("channel %d: sender %+v, receiver %+v, want %d credits", vc, a, b, n)
		}
	}
}

// TestCBFC14_PortsRemoveChannelsUnderLoad turns credits off while frames of two channels wait and others follow: those that wait are paid for, in the room that
// there is, those that follow are not, and all arrive.
func TestCBFC14_PortsRemoveChannelsUnderLoad(t *testing.T) {
	for _, retry := range []*llr.Config{nil, new(testLLR())} {
		for _, total := range []uint32{0, 300} {
			c := newChannelLine(t, retry, channels(total, map[uint8]uint32{1: 200, 2: 200}), 500*time.Nanosecond)
			c.frozen = 1 << 1
			c.offer(1, 100, 1000)
			c.offer(2, 100, 1000)
			c.remove(us)
			c.at(us, func(vt.Time) {
				c.offer(1, 70, 1000)
				c.offer(2, 70, 1000)
			})
			c.run(100 * us)
			if s := c.ends[0].p.crd.tx; s.State(1) != cbfc.Draining || c.ends[1].p.crd.rx.On()&2 == 0 || c.best[1] != 0 || c.came[1] == 100 {
				t.Fatalf("total %d, frozen: %s, %v frames came, %v unpaid", total, s.State(1), c.came, c.best)
			}
			c.thaw(1 << 1)
			c.run(5 * ms)
			s, r := c.ends[0].p.crd.tx, c.ends[1].p.crd.rx
			if c.came[1] != 170 || c.came[2] != 170 || c.best[1] != 70 || c.best[2] != 70 || c.pool.Out() != 0 {
				t.Errorf("total %d: %v frames came, %v of them unpaid; %d are out", total, c.came, c.best, c.pool.Out())
			}
			if s.On() != 0 || r.On() != 0 || s.Used() != 0 || s.VC(c.now, 1).Consumed != 800 || c.peak > 400 {
				t.Errorf("total %d: %#x and %#x are on, %+v, %d credits stored at most", total, s.On(), r.On(), s.VC(c.now, 1), c.peak)
			}
			if b := c.ends[0].p.C.CBFC(); b[cbfc.CFOff]+b[cbfc.CFStale] != 0 {
				t.Errorf("total %d: counters %v", total, b)
			}
			c.ends[0].p.SetCBFC(c.now, c.setup) // not before the next run
			c.offer(1, 10, 1000)
			c.run(6 * ms)
			if s.On() != 0 || c.best[1] != 80 {
				t.Errorf("total %d: on again: %#x, %v frames unpaid", total, s.On(), c.best)
			}
		}
	}
}

// TestCreditsProperty draws channels, limits, a total or none, bit errors, flaps, LLR or none, channels that stand still for a while and a removal in the middle, and
// looks at all credits after every event. In the end all are back and no frame is missing that nobody counted.
func TestCreditsProperty(t *testing.T) {
	seeds := uint64(1500)
	if testing.Short() {
		seeds = 150
	}
	var removed, leaks, flushes int
	for seed := range seeds {
		c, off := creditsOf(t, seed)
		if off {
			removed++
		}
		leaks += int(c.ends[1].p.C.CBFC()[cbfc.LeakCredits])
		flushes += int(c.c(0, llr.TxFlushes))
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Logf("%d removals, %d credits leaked, %d flushes", removed, leaks, flushes)
	if removed == 0 || leaks == 0 || flushes == 0 {
		t.Error("the seeds reach too little")
	}
}

func creditsOf(t *testing.T, seed uint64) (c *channelLine, removal bool) {
	rng := rand.New(rand.NewPCG(seed, 13))
	limits := map[uint8]uint32{}
	for range 1 + rng.IntN(5) {
		limits[uint8(1+rng.IntN(5))] = 40 + uint32(rng.IntN(600))
	}
	total := uint32(0)
	if rng.IntN(3) == 0 {
		total = 60 + uint32(rng.IntN(800))
	}
	setup := channels(total, limits)
	setup.CCEvery = time.Duration(1+rng.IntN(50)) * time.Microsecond
	setup.CFMin = 800 + rng.IntN(6000)
	var retry *llr.Config
	if rng.IntN(2) == 0 {
		retry = new(testLLR())
	}
	c = newChannelLine(t, retry, setup, time.Duration(1+rng.IntN(1000)))
	c.stay = time.Duration(1 + rng.IntN(2000))
	defer func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	}()
	for i := range 2 {
		if rng.IntN(2) == 0 {
			c.ends[i].p.SetImpair(0, Impair{BER: []float64{1e-7, 1e-6, 1e-5}[rng.IntN(3)], Loss: 0.05 * rng.Float64()})
		}
	}
	for range rng.IntN(3) {
		c.flap(rng)
	}
	offered := [8]int{}
	for vc := range uint8(8) {
		if _, ok := limits[vc]; !ok && vc != 0 {
			continue
		}
		for range 100 {
			offered[vc]++
			size := 60 + rng.IntN(4000)
			c.at(vt.Time(rng.IntN(200_000)), func(vt.Time) { c.offer(vc, 1, size) })
		}
		if rng.IntN(2) == 0 {
			c.at(vt.Time(rng.IntN(200_000)), func(vt.Time) { c.frozen |= 1 << vc })
		}
	}
	if removal = rng.IntN(2) == 0; removal {
		c.remove(vt.Time(1 + rng.IntN(250_000)))
	}
	c.at(300*us, func(now vt.Time) {
		for i := range 2 {
			c.ends[i].p.SetImpair(now, Impair{})
			c.ends[i].p.SetRxDown(now, false)
		}
		c.thaw(0xFF)
	})
	c.run(12 * ms)
	c.conserved(true)
	all, came := 0, 0
	for vc := range limits {
		all, came = all+offered[vc], came+c.came[vc]
	}
	a, b := c.ends[0].p, c.ends[1].p
	if gone := int(a.C.Drops()+b.C.Drops()) + int(c.c(0, llr.TxFlushed)); all-came > gone || came > all || a.QueueLen() != 0 || c.pool.Out() != 0 {
		t.Errorf("%d of %d frames came, %d were counted as lost, %d wait, %d are out", came, all, gone, a.QueueLen(), c.pool.Out())
	}
	if removal && (a.crd.tx.On() != 0 || b.crd.rx.On() != 0) {
		t.Errorf("removed, but %#x and %#x are on", a.crd.tx.On(), b.crd.rx.On())
	}
	return c, removal
}

// TestCBFCWatchdogCountsChannels freezes one of two channels, with all its CF_Updates, for longer than the watchdog waits.
func TestCBFCWatchdogCountsChannels(t *testing.T) {
	setup := channels(0, map[uint8]uint32{1: 100, 2: 100})
	setup.Watchdog = time.Millisecond
	c := newChannelLine(t, nil, setup, 500*time.Nanosecond)
	c.meddle = func(from int, f *Frame) []*Frame {
		if from == 1 && binary.BigEndian.Uint16(f.B[12:]) == uint16(wire.EtherExperiment) {
			return drop(f)
		}
		return []*Frame{f}
	}
	c.offer(1, 50, 1000)
	c.offer(2, 5, 1000)
	c.run(5 * ms)
	tx := c.ends[0].p.crd.tx
	if a, b := tx.VC(c.now, 1), tx.VC(c.now, 2); a.Watchdogs != 1 || b.Watchdogs != 0 || c.ends[0].p.C.CBFC()[cbfc.Watchdogs] != 1 {
		t.Errorf("channels %+v and %+v", a, b)
	}
}

// TestCreditsWakeUpAfterAFarewell has what a port has to tell wait for a busy line until the far end's farewell takes it back: the port still tells in time what it has
// used, without which credits of lost frames do not come back and what waits would wait for ever.
func TestCreditsWakeUpAfterAFarewell(t *testing.T) {
	c := newChannelLine(t, nil, channels(0, map[uint8]uint32{1: 40}), 500*time.Nanosecond)
	lost := 0
	c.meddle = func(from int, f *Frame) []*Frame {
		if from == 0 && lost < 5 && c.ends[0].p.crd.sends.VC(f.B) == 1 {
			lost++
			return drop(f)
		}
		return []*Frame{f}
	}
	c.ends[0].p.SetImpair(0, Impair{Rate: 0.001})
	c.offer(1, 6, 1000)
	f := c.frame(0, 1000, false)
	f.B[15] = 10 << 2
	c.ends[1].p.Offer(0, 1, f)
	c.remove(100)
	c.run(20 * us)
	if c.ends[0].p.crd.rx.On() != 0 || c.ends[0].p.C.CBFC()[cbfc.CFTx] != 0 {
		t.Fatal("no farewell has come in time")
	}
	c.run(ms)
	if c.came[1] != 1 || c.ends[0].p.crd.tx.On() != 0 {
		t.Errorf("%d frames came after %d were lost, %d wait", c.came[1], lost, c.ends[0].p.QueueLen())
	}
}

// TestCreditsOfWhatIsGivenUpAreToldAtOnce turns LLR off and on again while frames wait for an ACK: these are given up, and their credits do not wait for the next CC_Update.
func TestCreditsOfWhatIsGivenUpAreToldAtOnce(t *testing.T) {
	retry := testLLR()
	c := newChannelLine(t, &retry, channels(0, map[uint8]uint32{1: 80}), 500*time.Nanosecond)
	c.meddle = func(from int, f *Frame) []*Frame {
		if from == 0 && c.now < 3*us {
			return drop(f)
		}
		return []*Frame{f}
	}
	c.offer(1, 20, 1000)
	for i, at := range []vt.Time{2 * us, 3 * us} {
		c.at(at, func(now vt.Time) {
			for _, e := range c.ends {
				if err := e.p.SetLLR(now, []*llr.Config{nil, &retry}[i]); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
	c.run(50 * us)
	if c.came[1] != 10 || c.ends[0].p.C.CBFC()[cbfc.CCTx] == 0 {
		t.Errorf("%d of 10 frames that waited for credits came, %d CC_Updates", c.came[1], c.ends[0].p.C.CBFC()[cbfc.CCTx])
	}
}

// TestCBFC14_LostFarewells loses all that a sender says of channels that it has removed: it says so once more as long as it hears of them.
func TestCBFC14_LostFarewells(t *testing.T) {
	for _, retry := range []*llr.Config{nil, new(testLLR())} {
		c := newChannelLine(t, retry, channels(0, map[uint8]uint32{1: 80}), 500*time.Nanosecond)
		c.loose = true
		for i := range c.ends {
			c.ends[i].p.SetImpair(0, Impair{CCLoss: 1})
		}
		c.offer(1, 20, 1000)
		c.remove(us)
		c.at(5*ms, func(now vt.Time) {
			if c.ends[1].p.crd.rx.On() == 0 && retry == nil {
				t.Error("a farewell has come")
			}
			for i := range c.ends {
				c.ends[i].p.SetImpair(now, Impair{})
			}
			c.offer(1, 20, 1000)
		})
		c.run(40 * ms)
		if on := c.ends[1].p.crd.rx.On(); on != 0 || c.pool.Out() != 0 || c.q.Next() != vt.Never {
			t.Errorf("LLR %v: channels %#x are on, %d frames out, next %v", retry != nil, on, c.pool.Out(), c.q.Next())
		}
	}
}
