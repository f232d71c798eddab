package link

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/uetlab/uetlab/wire"
)

// fates draws what happens to n frames of a length under imp, on a line of 400 Gb/s with an MTU of 4096.
func fates(seed uint64, imp Impair, n, length int) []fate {
	d, f := sick(seed, imp), plain(NewPool(length), length)
	out := make([]fate, n)
	for i := range out {
		out[i] = d.next(&imp, f)
	}
	return out
}

func sick(seed uint64, imp Impair) *damage {
	d := &damage{phy: newCodewords(&Config{Rate: 400e9})}
	d.phy.frame(0, 400e9)
	d.reset(rand.New(rand.NewPCG(seed, 77)))
	d.set(&Impair{}, &imp, 400e9, 4096)
	return d
}

func plain(p *Pool, n int) *Frame {
	f := p.Get()
	f.B = f.B[:n]
	clear(f.B)
	return f
}

// within fails unless k of n trials of probability p lie within 4 standard deviations: one seed of 16000 fails.
func within(t *testing.T, what string, k, n int, p float64) {
	t.Helper()
	mean, sd := float64(n)*p, math.Sqrt(float64(n)*p*(1-p))
	if math.Abs(float64(k)-mean) > 4*sd {
		t.Errorf("%s: %d of %d, expected %.1f ± %.1f", what, k, n, mean, sd)
	}
}

// chiSquare fails unless counts agree with n trials of probabilities p: bound is where one seed of 10000 fails.
func chiSquare(t *testing.T, what string, counts []int, n int, p []float64, bound float64) {
	t.Helper()
	chi := 0.0
	for i, c := range counts {
		e := float64(n) * p[i]
		chi += (float64(c) - e) * (float64(c) - e) / e
	}
	if chi > bound {
		t.Errorf("%s: chi-square %.1f over %d classes, bound %.1f: %v", what, chi, len(counts), bound, counts)
	}
}

func count(x []fate, what func(fate) bool) (n int) {
	for _, f := range x {
		if what(f) {
			n++
		}
	}
	return n
}

func TestSharesHold(t *testing.T) {
	const n = 40_000
	for seed := uint64(1); seed <= 3; seed++ {
		for _, p := range []float64{0.0005, 0.01, 0.3, 0.97, 1} {
			for name, c := range map[string]struct {
				imp  Impair
				what func(fate) bool
			}{
				"loss":       {Impair{Loss: p}, func(x fate) bool { return x.lost && x.why == DropLoss }},
				"good state": {Impair{Burst: Burst{LossGood: p}}, func(x fate) bool { return x.lost && x.why == DropBurst }},
				"duplicate":  {Impair{Duplicate: p}, func(x fate) bool { return x.twice && !x.lost }},
				"reorder":    {Impair{Reorder: p, ReorderBy: 5}, func(x fate) bool { return x.held == 5 }},
				"all alike":  {Impair{Duplicate: p, Reorder: p, ReorderBy: 5}, func(x fate) bool { return x.twice && x.held == 5 }},
			} {
				if name == "all alike" { // that the two are independent
					within(t, name, count(fates(seed, c.imp, n, 60), c.what), n, p*p)
					continue
				}
				within(t, name, count(fates(seed, c.imp, n, 60), c.what), n, p)
			}
		}
	}
}

// TestBurstsAreGeometric looks at bursts where the bad state loses all: their lengths are geometric with mean 1/ToGood, the
// gaps with mean 1/ToBad, and the share of lost frames is that of the bad state in the long run.
func TestBurstsAreGeometric(t *testing.T) {
	const n = 100_000
	for seed := uint64(1); seed <= 3; seed++ {
		for _, b := range []Burst{{ToBad: 0.01, ToGood: 0.2, LossBad: 1}, {ToBad: 0.05, ToGood: 0.5, LossBad: 1}, {ToBad: 0.3, ToGood: 0.1, LossBad: 1}} {
			var lengths [2][]int // of gaps, of bursts
			length, was := 0, -1
			for _, x := range fates(seed, Impair{Burst: b}, n, 60) {
				state := 0
				if x.lost {
					state = 1
				}
				if state != was && was >= 0 {
					lengths[was] = append(lengths[was], length)
					length = 0
				}
				was = state
				length++
			}
			for state, end := range []float64{b.ToBad, b.ToGood} {
				sum, classes, p := 0, make([]int, 8), make([]float64, 8)
				for _, l := range lengths[state] {
					sum += l
					classes[min(l, 8)-1]++
				}
				for i := range p {
					p[i] = math.Pow(1-end, float64(i)) * end
				}
				p[7] = math.Pow(1-end, 7)
				runs := float64(len(lengths[state]))
				if mean, sd := float64(sum)/runs, math.Sqrt(1-end)/end/math.Sqrt(runs); math.Abs(mean-1/end) > 4*sd {
					t.Errorf("seed %d, %+v: state %d lasts %.3f frames, expected %.3f ± %.3f", seed, b, state, mean, 1/end, sd)
				}
				chiSquare(t, "lengths", classes, len(lengths[state]), p, 29.9) // 7 degrees of freedom
			}
		}
	}
}

// TestBurstStartsInTheLongRun: the first frame already meets the bad state as often as any other; the losses of both states
// add up.
func TestBurstStartsInTheLongRun(t *testing.T) {
	const n = 4000
	b := Burst{ToBad: 0.01, ToGood: 0.03, LossBad: 0.8, LossGood: 0.1}
	first := 0
	for seed := range uint64(n) {
		if fates(seed, Impair{Burst: b}, 1, 60)[0].lost {
			first++
		}
	}
	within(t, "loss of the first frame", first, n, 0.25*0.8+0.75*0.1)
	lost := count(fates(5, Impair{Burst: b}, 400_000, 60), func(x fate) bool { return x.lost })
	if share := float64(lost) / 4e5; math.Abs(share-0.275) > 0.014 { // successive frames depend on each other: wider than binomial
		t.Errorf("loss in the long run %.4f, expected 0.275", share)
	}
}

// TestBitErrors counts turned bits: as many as the rate says, everywhere alike in frame and FCS, and the FCS tells every
// frame that has one.
func TestBitErrors(t *testing.T) {
	const length = 124 // 1024 bits with FCS
	pool := NewPool(9018)
	for seed := uint64(1); seed <= 3; seed++ {
		for _, ber := range []float64{1e-5, 1e-3, 0.1, 0.5} {
			frames := min(20_000, int(2000/ber))
			imp := Impair{BER: ber}
			d := sick(seed, imp)
			clean, turned, fcsOnly, pairs := 0, 0, 0, 0
			where, p := make([]int, 32), make([]float64, 32)
			for i := range p {
				p[i] = 1.0 / 32
			}
			last := -2
			for i := range frames {
				f := plain(pool, length)
				f.B[3] = byte(i)
				f.B[99] = byte(seed)
				want := wire.FCS(f.B)
				before := d.gen[kindBER]
				first := d.scale == 0
				x := d.next(&imp, f)
				if x != (fate{}) {
					t.Fatalf("fate %+v", x)
				}
				if !f.Damaged {
					if d.gen[kindBER] != before && !first {
						t.Fatal("a clean frame costs a draw")
					}
					clean++
					f.Release()
					continue
				}
				f.B[3] ^= byte(i)
				f.B[99] ^= byte(seed)
				bits := append(append([]byte{}, f.B...), byte(f.FCS^want), byte((f.FCS^want)>>8), byte((f.FCS^want)>>16), byte((f.FCS^want)>>24))
				f.B[3] ^= byte(i)
				f.B[99] ^= byte(seed)
				if wire.FCS(f.B) == f.FCS {
					t.Fatalf("seed %d, ber %v: the FCS misses % x", seed, ber, bits)
				}
				n := 0
				for j, b := range bits {
					for k := 0; b != 0 && k < 8; k++ {
						if b>>k&1 == 1 {
							n++
							where[j/4]++
							at := (i*len(bits)+j)*8 + k
							if at == last+1 {
								pairs++
							}
							last = at
						}
					}
				}
				if f.FCS != want && wire.FCS(f.B) == want {
					fcsOnly++
				}
				turned += n
				if n == 0 {
					t.Fatal("damaged without a wrong bit")
				}
				f.Release()
			}
			bits := frames * 8 * (length + 4)
			within(t, "wrong bits", turned, bits, ber)
			within(t, "clean frames", clean, frames, math.Pow(1-ber, 8*(length+4)))
			within(t, "wrong bits side by side", pairs, turned, ber)
			if ber < 0.1 && fcsOnly == 0 {
				t.Errorf("ber %v: no frame is damaged in its FCS only", ber)
			}
			if ber < 0.5 { // in words of 32 bits; at 0.5 the spread is less than Poisson's
				chiSquare(t, "places", where, turned, p, 68) // 31 degrees of freedom
			}
		}
	}
	if pool.Out() != 0 {
		t.Errorf("%d frames out", pool.Out())
	}
}

func TestRareBitErrorsAreFarAway(t *testing.T) {
	imp := Impair{BER: 1e-300}
	d, f := sick(1, imp), plain(NewPool(9018), 9018)
	for range 1000 {
		if d.next(&imp, f); f.Damaged || d.good < 1<<50 {
			t.Fatalf("damaged %v, next wrong bit after %d", f.Damaged, d.good)
		}
	}
}

// TestJitter holds every distribution to its mean, its support and its shape.
func TestJitter(t *testing.T) {
	const n, j = 100_000, time.Millisecond
	x := func(late time.Duration) float64 { return float64(late) / float64(j) }
	for dist, c := range map[Dist]struct {
		mean, top float64
		cdf       func(v float64) float64
	}{
		"":          {0.5, 1, func(v float64) float64 { return v }},
		Uniform:     {0.5, 1, func(v float64) float64 { return v }},
		Normal:      {math.Sqrt(2 / math.Pi), 9, func(v float64) float64 { return math.Erf(v / math.Sqrt2) }},
		Exponential: {1, 40, func(v float64) float64 { return 1 - math.Exp(-v) }},
		Pareto:      {0.25, 20, func(v float64) float64 { return 1 - math.Pow(1+2*v, -3) }},
	} {
		for seed := uint64(1); seed <= 3; seed++ {
			sum, top, classes, p := 0.0, 0.0, make([]int, 20), make([]float64, 20)
			for i := range p {
				p[i] = 0.05
			}
			for _, f := range fates(seed, Impair{Jitter: j, Dist: dist}, n, 60) {
				v := x(f.late)
				if v < 0 || v > c.top || f.lost || f.held != 0 {
					t.Fatalf("%s: %+v", dist, f)
				}
				sum += v
				top = max(top, v)
				classes[min(int(c.cdf(v)*20), 19)]++
			}
			if mean := sum / n; math.Abs(mean/c.mean-1) > 0.02 {
				t.Errorf("seed %d: %s: mean %.4f J, expected %.4f", seed, dist, mean, c.mean)
			}
			if c.cdf(top) < 0.9999 {
				t.Errorf("seed %d: %s: never above %.3f J", seed, dist, top)
			}
			chiSquare(t, string(dist), classes, n, p, 50) // 19 degrees of freedom
		}
	}
	for _, dist := range []Dist{Uniform, Normal, Exponential, Pareto} { // the ends of what can be drawn
		if a, b := late(dist, time.Second, 0), late(dist, time.Second, 1-1.0/(1<<53)); a != 0 || b < time.Second || b > 40*time.Second {
			t.Errorf("%s: from %v to %v", dist, a, b)
		}
	}
	if late(Uniform, 1, 0.49) != 0 || late(Uniform, 1, 0.51) != 1 || late(Pareto, time.Second, 1-1e-9) != 20*time.Second {
		t.Error("a jitter of 1 ns is 0 or 1, and Pareto is cut at 20 J")
	}
}

var everything = Impair{Loss: 0.1, Burst: Burst{ToBad: 0.05, ToGood: 0.2, LossBad: 0.9, LossGood: 0.01}, BER: 1e-4, Duplicate: 0.2, Reorder: 0.3,
	ReorderBy: 900, Delay: 77, Jitter: 1000, Dist: Exponential, Rate: 0.5}

// TestImpairmentsAreIndependent turns everything on and compares with each impairment on its own: none shifts what another
// one draws. The same seed repeats, another one differs.
func TestImpairmentsAreIndependent(t *testing.T) {
	const n = 5000
	all := fates(9, everything, n, 200)
	if again, other := fates(9, everything, n, 200), fates(10, everything, n, 200); !equal(all, again) || equal(all, other) {
		t.Error("the same seed does not repeat, or another one does")
	}
	e := &everything
	loss, burst := fates(9, Impair{Loss: e.Loss}, n, 200), fates(9, Impair{Burst: e.Burst}, n, 200)
	twice, held := fates(9, Impair{Duplicate: e.Duplicate}, n, 200), fates(9, Impair{Reorder: e.Reorder, ReorderBy: e.ReorderBy}, n, 200)
	late := fates(9, Impair{Jitter: e.Jitter, Dist: e.Dist}, n, 200)
	for i, x := range all {
		want := fate{twice: twice[i].twice, held: held[i].held, late: late[i].late}
		switch {
		case loss[i].lost:
			want.lost, want.why = true, DropLoss
		case burst[i].lost:
			want.lost, want.why = true, DropBurst
		}
		if x != want {
			t.Fatalf("frame %d: %+v together, %+v each alone", i, x, want)
		}
	}
	pool, alone := NewPool(300), Impair{BER: e.BER}
	a, b := sick(9, everything), sick(9, alone)
	for i := range n {
		f, g := plain(pool, 200), plain(pool, 200)
		a.next(e, f)
		b.next(&alone, g)
		if f.Damaged != g.Damaged || string(f.B) != string(g.B) || f.Damaged && f.FCS != g.FCS {
			t.Fatalf("frame %d is damaged otherwise together", i)
		}
		f.Release()
		g.Release()
	}
}

func equal(a, b []fate) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// TestChangeDrawsAnewOnlyWhatChanged changes one figure midway.
func TestChangeDrawsAnewOnlyWhatChanged(t *testing.T) {
	now := everything
	d := sick(4, now)
	f := plain(NewPool(300), 200)
	for range 1000 {
		d.next(&now, f)
	}
	was := *d
	imp := now
	imp.Loss, imp.Delay, imp.Rate, imp.Dist = 0.9, 0, 0, Normal
	if d.set(&now, &imp, 400e9, 4096); *d != was {
		t.Errorf("loss, delay, rate and distribution have no state: %+v, was %+v", *d, was)
	}
	imp.ReorderBy = 1234
	if d.set(&now, &imp, 400e9, 4096); d.held != 1234 {
		t.Errorf("held %v", d.held)
	}
	var slow damage
	if slow.set(&Impair{}, &Impair{Reorder: 0.1}, 20_000, 9000); slow.held != maxImpairDelay { // four frames take 14 s
		t.Errorf("held %v at 20 kb/s", slow.held)
	}
	imp = now
	imp.BER = 1e-5
	if d.set(&now, &imp, 400e9, 4096); d.scale != 0 || !d.state || d.bad != was.bad {
		t.Errorf("another bit error rate: %+v", d)
	}
	*d = was
	imp = now
	imp.Burst.ToBad = 0.5
	if d.set(&now, &imp, 400e9, 4096); d.scale != was.scale || d.good != was.good || d.state {
		t.Errorf("another burst: %+v", d)
	}
	if d.gen != was.gen {
		t.Error("a change draws at once")
	}
	if d.reset(rand.New(rand.NewPCG(4, 77))); d.state || d.scale != 0 || d.held == 0 {
		t.Errorf("after a reset: %+v", d)
	}
}

// TestOnlyWhatIsOnDraws: a healthy line draws nothing, and an impairment draws from its own generator only.
func TestOnlyWhatIsOnDraws(t *testing.T) {
	for k, imp := range map[kind]Impair{
		numKinds: {Blackhole: true, Delay: 5, Rate: 0.5, Dist: Pareto, ReorderBy: 7, Burst: Burst{ToBad: 0.5, ToGood: 0.5}}, kindLoss: {Loss: 0.1},
		kindBurst: {Burst: Burst{LossGood: 0.1}}, kindBER: {BER: 0.01}, kindDuplicate: {Duplicate: 0.1}, kindReorder: {Reorder: 0.1},
		kindJitter: {Jitter: 1},
	} {
		d, f := sick(3, imp), plain(NewPool(300), 200)
		was := d.gen
		for range 100 {
			d.next(&imp, f)
		}
		for i := range d.gen {
			if drew := d.gen[i] != was[i]; drew != (kind(i) == k) {
				t.Errorf("%+v: kind %d: draws: %v", imp, i, drew)
			}
		}
	}
}

func TestHealthy(t *testing.T) {
	for _, imp := range []Impair{{}, {Rate: 1}, {Dist: Pareto}, {ReorderBy: 5}, {Burst: Burst{ToBad: 0.1, ToGood: 0.2}}, {Burst: Burst{LossBad: 1, ToGood: 1}}} {
		if !imp.Healthy() {
			t.Errorf("%+v is not healthy", imp)
		}
	}
	for _, imp := range []Impair{{Down: true}, {Blackhole: true}, {Loss: 1e-9}, {Burst: Burst{LossGood: 0.1}}, {Burst: Burst{ToBad: 0.1, LossBad: 0.1}},
		{BER: 1e-15}, {Duplicate: 0.1}, {Reorder: 0.1}, {Delay: 1}, {Jitter: 1}, {Rate: 0.99}, everything} {
		if imp.Healthy() {
			t.Errorf("%+v is healthy", imp)
		}
	}
}

func TestValidate(t *testing.T) {
	for _, imp := range []Impair{{}, everything, {Loss: 1, Duplicate: 1, Reorder: 1, BER: 0.5, Rate: 1, Delay: time.Second, Jitter: time.Second,
		ReorderBy: time.Second, Dist: Pareto, Burst: Burst{1, 1, 1, 1}}, {Rate: minImpairRate}, {Down: true, Blackhole: true}, {Dist: Uniform}, {Dist: Normal}} {
		if err := imp.Validate(); err != nil {
			t.Errorf("%+v: %v", imp, err)
		}
	}
	nan := math.NaN()
	for _, c := range []struct {
		imp  Impair
		says string
	}{
		{Impair{Loss: -0.1}, "loss: -0.1 is not a share from 0 to 1"}, {Impair{Loss: nan}, "loss: NaN"}, {Impair{Loss: 5}, "loss: 5"},
		{Impair{Burst: Burst{ToBad: 2}}, "become bad: 2"}, {Impair{Burst: Burst{ToGood: nan}}, "become good: NaN"},
		{Impair{Burst: Burst{LossBad: 1.01}}, "loss while bad: 1.01"}, {Impair{Burst: Burst{LossGood: -1}}, "loss while good: -1"},
		{Impair{Burst: Burst{ToBad: 0.1, LossBad: 1}}, "never good again"}, {Impair{BER: 0.51}, "bit error rate: 0.51 is not a share from 0 to 0.5"},
		{Impair{Duplicate: math.Inf(1)}, "duplicate: +Inf"}, {Impair{Reorder: 1.5}, "reorder: 1.5"}, {Impair{ReorderBy: -1}, "reorder delay: -1ns"},
		{Impair{Delay: time.Second + 1}, "delay: 1.000000001s is not within 0 to 1s"}, {Impair{Jitter: -time.Second}, "jitter: -1s"},
		{Impair{Dist: "zipf"}, `no distribution "zipf", use uniform, normal, exponential or pareto`}, {Impair{Rate: 1.1}, "rate: 1.1"},
		{Impair{Rate: -0.5}, "rate: -0.5"}, {Impair{Rate: 1e-7}, "rate: 1e-07 of the nominal rate is too little"},
	} {
		if err := c.imp.Validate(); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v, want %q", c.imp, err, c.says)
		}
	}
}
