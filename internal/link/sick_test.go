package link

import (
	"cmp"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// randomImpair makes every impairment likely, alone and together.
func randomImpair(rng *rand.Rand) (i Impair) {
	some := func(top float64) float64 { return float64(rng.IntN(2)) * rng.Float64() * top }
	for range 1 + rng.IntN(3) {
		switch rng.IntN(13) {
		case 0:
			i.Down = rng.IntN(2) == 0
		case 1:
			i.Blackhole = rng.IntN(2) == 0
		case 2:
			i.Loss = some(1)
		case 3:
			i.Burst = Burst{ToBad: some(0.3), ToGood: 0.05 + some(0.9), LossBad: some(1), LossGood: some(0.1)}
		case 4:
			i.BER = some(1) * some(1e-3)
		case 5:
			i.Duplicate = some(1)
		case 6:
			i.Reorder, i.ReorderBy = some(1), time.Duration(some(3000))
		case 7:
			i.Delay = time.Duration(some(5000))
		case 8, 9:
			i.Jitter, i.Dist = time.Duration(some(5000)), []Dist{"", Uniform, Normal, Exponential, Pareto}[rng.IntN(5)]
		case 10:
			i.Rate = max(rng.Float64(), 1e-3)
		case 11:
			i.Corrupt, i.Poison = Corrupt{Share: some(1), Region: []Region{"", RegionHeader, RegionPayload, RegionLLR, RegionFCS}[rng.IntN(5)], Bits: rng.IntN(33)}, some(0.3)
		case 12:
			i.Exact, i.CCLoss, i.SetLoss.Share = Hits{{First: 1, Last: 5, Do: Deed(rng.IntN(int(numDeeds)))}, {First: 3, Last: 1000, Do: Deed(rng.IntN(int(numDeeds)))}}, some(1), some(1)
		}
	}
	return i
}

// TestReorderOvertakes sends a backlog over a line that holds frames back, and over one that does not: a held frame is due
// exactly ReorderBy later, all others as ever, so that what follows within ReorderBy overtakes it and nothing else does.
func TestReorderOvertakes(t *testing.T) {
	const by = 500
	run := func(imp Impair) []sent {
		src := &endless{rng: rand.New(rand.NewPCG(8, 8)), left: 5000}
		r := newRig(t, Config{Rate: 400e9, Delay: 300, MTU: 9000}, src)
		src.r = r
		r.p.SetImpair(0, imp)
		r.p.Kick(0)
		r.to(vt.Never - 1)
		return r.out
	}
	plain, held := run(Impair{}), run(Impair{Reorder: 0.1, ReorderBy: by})
	n, overtaken := 0, 0
	for i := range plain {
		switch held[i].due - plain[i].due {
		case 0:
			continue
		case by:
			n++
		default:
			t.Fatalf("frame %d is due %v, without reordering %v", i, held[i].due, plain[i].due)
		}
		for j := i + 1; j < len(held) && plain[j].due-plain[i].due < by; j++ {
			if held[j].due < held[i].due {
				overtaken++
				break
			}
		}
	}
	within(t, "held frames", n, len(plain), 0.1)
	if overtaken < n*95/100 { // all but those that only held ones follow
		t.Errorf("%d of %d held frames are overtaken", overtaken, n)
	}
}

// TestReorderByDefault: under load the default lets 4 frames of full length overtake a held one, at any rate.
func TestReorderByDefault(t *testing.T) {
	for _, imp := range []Impair{{Reorder: 0.02}, {Reorder: 0.02, Rate: 0.3}} {
		for _, rate := range []int64{1e9, 100e9, 399_999_999_989} {
			s := newFull(t, Config{Rate: rate, Delay: 300, MTU: 4096, Queued: true}, [NumQueues]Service{}, [NumQueues]func() int{0: always(4110)})
			s.r.p.SetImpair(0, imp)
			s.r.to(vt.Time(2000 * LinePs(4110, s.r.p.Rate()) / 1000))
			held := 0
			for i, x := range s.r.out[:len(s.r.out)-10] {
				after := 0
				for _, y := range s.r.out[i+1 : i+10] {
					if y.due < x.due {
						after++
					}
				}
				if after > 4 {
					t.Fatalf("rate %d, %+v: frame %d is overtaken by %d", rate, imp, i, after)
				}
				if after == 4 {
					held++
				}
			}
			if held < 10 {
				t.Errorf("rate %d, %+v: only %d of %d frames are overtaken by 4", rate, imp, held, len(s.r.out))
			}
		}
	}
}

// TestJitterKeepsOrder: frames with jitter are late but never overtake each other, and catch up when it ends.
func TestJitterKeepsOrder(t *testing.T) {
	r := newRig(t, Config{Rate: 400e9, Delay: 300, MTU: 4096, Queued: true}, nil)
	for _, dist := range []Dist{Uniform, Normal, Exponential, Pareto} {
		start := len(r.out)
		r.p.SetImpair(r.now, Impair{Jitter: 2000, Dist: dist})
		late := 0
		for range 1000 {
			r.enqueueIn(0, 976)
			r.to(r.now + 100)
		}
		for i, x := range r.out[start:] {
			if i+start > 0 && x.due < r.out[i+start-1].due {
				t.Fatalf("%s: frame %d overtakes", dist, i)
			}
			if x.due > x.at+320 {
				late++
			}
		}
		if late < 900 {
			t.Errorf("%s: only %d of 1000 frames are late", dist, late)
		}
		r.p.SetImpair(r.now, Impair{})
		r.to(r.now + 100_000)
		r.enqueueIn(0, 976)
		if x := r.out[len(r.out)-1]; x.due != x.at+320 {
			t.Errorf("%s: after it ended a frame is due %v after it left", dist, x.due-x.at)
		}
	}
}

// TestDuplicatesShareTheirDamage: a frame that is doubled arrives twice at the same time, wrong bits and all, and takes the line
// once.
func TestDuplicatesShareTheirDamage(t *testing.T) {
	r := newRig(t, Config{Rate: 1e9, MTU: 1500, Queued: true}, nil)
	var got []*Frame
	r.far = func(f *Frame) { got = append(got, f) }
	r.p.SetImpair(0, Impair{Duplicate: 1, BER: 0.002})
	damaged := 0
	for range 100 {
		r.enqueueIn(1, 100)
		r.to(r.now + 10_000)
	}
	for i := 0; i < len(got); i += 2 {
		a, b := got[i], got[i+1]
		if a == b || &a.B[0] == &b.B[0] || a.Due != b.Due || string(a.B) != string(b.B) || a.Damaged != b.Damaged || a.Damaged && a.FCS != b.FCS {
			t.Fatalf("frame %d and its copy differ, or are one", i/2)
		}
		ok := r.p.Received(r.now, a)
		if ok == (r.p.C[DropFCS] > uint64(damaged)) || r.p.Received(r.now, b) != ok {
			t.Fatalf("frame %d: received %v, drops %d", i/2, ok, r.p.C[DropFCS])
		}
		if ok {
			a.Release()
			b.Release()
		} else {
			damaged += 2
		}
	}
	if c := &r.p.C; c[TxFrames] != 100 || c[TxTwice] != 100 || len(got) != 200 || damaged < 100 || damaged > 195 || c[RxFrames]+c[DropFCS] != 200 || r.pool.Out() != 0 {
		t.Errorf("%d damaged, %v", damaged, r.p.C)
	}
}

// TestDamageSparesTheSender: the wrong bits of a frame that refers to its payload are its own.
func TestDamageSparesTheSender(t *testing.T) {
	pool, payload := NewPool(9018), make([]byte, 1000)
	imp := Impair{BER: 0.01}
	d := sick(2, imp)
	for range 20 {
		f, whole := pool.Get(), pool.Get()
		f.B = append(f.B, packet(false, 0, 17, 4793, 2)...)
		f.Refer(payload)
		whole.B = append(whole.B, f.B[:len(f.B)-len(payload)-wire.CRCLen]...)
		whole.Refer(payload)
		whole.Fill()
		d.next(&imp, f)
		wrong := 0
		for i := range f.B {
			wrong += bits.OnesCount8(f.B[i] ^ whole.B[i])
		}
		if !f.Damaged || f.Ref() != nil || wrong < 30 || wrong > 150 || bits.OnesCount32(f.FCS^wire.FCS(whole.B)) > 6 {
			t.Fatalf("damaged %v, %d wrong bits, FCS %08x of %08x", f.Damaged, wrong, f.FCS, wire.FCS(whole.B))
		}
		f.Release()
		whole.Release()
	}
	if !slices.Equal(payload, make([]byte, 1000)) {
		t.Error("the sender's payload is damaged")
	}
}

// TestMendedFrameGoesOn: a frame whose FCS fits in spite of wrong bits is as good as any other, also on the next link.
func TestMendedFrameGoesOn(t *testing.T) {
	r := newRig(t, Config{Rate: 1e9, MTU: 1500, Queued: true}, nil)
	f := r.frame(64, 5)
	r.p.SetImpair(0, Impair{BER: 0.5})
	x := extentOf(f)
	r.p.dmg.bits(0.5, &x)
	if !f.Damaged {
		t.Fatal("not damaged")
	}
	f.FCS = wire.FCS(f.B)
	if !r.receive(f) || f.Damaged {
		t.Errorf("damaged %v, %v", f.Damaged, r.p.C)
	}
}

// TestNothingIsLostSilently passes frames through two ports of a link whose impairments, direction and receiver change at
// random, and counts: what was offered is dropped for a reason or sent; what was sent, and what was sent twice, arrives or
// is dropped for a reason. Every buffer comes back.
func TestNothingIsLostSilently(t *testing.T) {
	seen := Counters{}
	for round := range 200 {
		seed := rand.Uint64()
		rng := rand.New(rand.NewPCG(seed, 0))
		r := newRig(t, Config{Rate: []int64{1e9, 400e9, 3_333_333_333}[rng.IntN(3)], Delay: time.Duration(rng.IntN(2000)), Queue: 30_000, MTU: 9000, Queued: true}, nil)
		r.mute = true
		r.p.Reset(rand.New(rand.NewPCG(seed, 1)))
		r.p.Serve([NumQueues]Service{7: {Strict: true}, 1: {Weight: 3}})
		far := newRig(t, r.p.cfg, nil)
		var flying []*Frame
		r.far = func(f *Frame) { flying = append(flying, f) }
		arrived, offered, data := uint64(0), uint64(0), packet(false, 0, 17, 4793, 2)
		land := func() {
			slices.SortStableFunc(flying, func(a, b *Frame) int { return cmp.Compare(a.Due, b.Due) })
			for len(flying) > 0 && flying[0].Due <= r.now {
				f := flying[0]
				flying = flying[1:]
				if far.now = max(far.now, f.Due); far.p.Received(f.Due, f) {
					arrived++
					f.Release()
				}
			}
		}
		for range 300 {
			r.to(r.now + vt.Time(rng.IntN(1+rng.IntN(3000))))
			land()
			switch rng.IntN(12) {
			case 0:
				imp := randomImpair(rng)
				r.p.SetImpair(r.now, imp)
				far.p.SetRxDown(r.now, imp.Down)
			case 1:
				r.receive(r.pfc(uint8(rng.IntN(256)), uint16(rng.IntN(300))))
			case 2:
				r.p.Flush(r.now, uint8(1<<rng.IntN(8)), DropWatchdog)
			default:
				for range 1 + rng.IntN(4) {
					offered++
					f := r.frame(14+rng.IntN(1+rng.IntN(9000)), 0)
					copy(f.B, data)
					r.p.Offer(r.now, rng.IntN(NumQueues), f)
				}
			}
		}
		if up := r.p.imp; up.Down {
			up.Down = false
			r.p.SetImpair(r.now, up)
		}
		r.to(1e15)
		land()
		c, d := &r.p.C, &far.p.C
		if out := c[TxFrames] + c[DropQueue] + c[DropDown] + c[DropWatchdog]; offered != out || r.p.QueueLen() != 0 || r.p.Backlog() != 0 || c[QueueBytes] != 0 {
			t.Errorf("seed %d: %d frames offered, %d accounted for, %d wait: %v", seed, offered, out, r.p.QueueLen(), c)
		}
		in := arrived + c[DropBlack] + c[DropLoss] + c[DropBurst] + c[DropExact] + d[DropCut] + d[DropFCS] + d[DropPoisoned] + d[DropPreamble]
		if c[TxFrames]+c[TxTwice] != in || d[RxFrames] != arrived || len(flying) != 0 || r.pool.Out() != 0 {
			t.Errorf("seed %d: %d frames sent and %d sent twice, %d accounted for, %d fly, %d buffers out: %v %v", seed, c[TxFrames], c[TxTwice], in,
				len(flying), r.pool.Out(), c, d)
		}
		if c.Drops()+d.Drops() != offered+c[TxTwice]-arrived {
			t.Errorf("seed %d: the drops do not add up: %v %v", seed, c, d)
		}
		if uint64(r.left[1]) != c[TxFrames] {
			t.Errorf("seed %d: the core was told of %d frames that left, %d did", seed, r.left[1], c[TxFrames])
		}
		for i := range seen {
			seen[i] += c[i] + d[i]
		}
		if t.Failed() || round < 199 {
			continue
		}
		for _, k := range []Counter{DropQueue, DropDown, DropWatchdog, DropBlack, DropLoss, DropBurst, DropCut, DropFCS, DropPoisoned, DropPreamble, DropExact, TxTwice, PauseRx} {
			if seen[k] < 20 {
				t.Errorf("%s happened %d times in all rounds: the test does not look at it", k, seen[k])
			}
		}
	}
}
