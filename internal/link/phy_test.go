package link

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/uetlab/uetlab/internal/link/llr"
	"github.com/uetlab/uetlab/internal/link/phy"
	"github.com/uetlab/uetlab/internal/vt"
)

// stream is a port that sends frames of one length back to back, and one that they come to.
type stream struct {
	p, far *Port
	pool   *Pool
	length int
	now    vt.Time
	free   vt.Time
}

func (s *stream) TxFreeAt(_ int, t vt.Time)           { s.free = t }
func (s *stream) LinkTimerAt(int, vt.Time)            {}
func (s *stream) Now() vt.Time                        { return s.now }
func (s *stream) Dequeued(vt.Time, int, *Frame, bool) {}
func (s *stream) Transmit(_ int, f *Frame) {
	if s.far.Received(f.Due, f) {
		f.Release()
	}
}

func (s *stream) NextFrame(vt.Time, int) *Frame {
	f := s.pool.Get()
	f.B = f.B[:s.length]
	return f
}

func newStream(rate int64, interleave, length int, imp Impair) *stream {
	s := &stream{pool: NewPool(9100), length: length}
	c := Config{Rate: rate, Interleave: interleave, Delay: 500, Queue: 1 << 30, MTU: 9000, Pool: s.pool}
	s.p, s.far = NewPort(0, c, s, s), NewPort(1, c, s, s)
	s.p.Reset(rand.New(rand.NewPCG(3, 5)))
	s.p.Begin(0)
	s.p.SetImpair(0, imp)
	return s
}

// to sends until t.
func (s *stream) to(t vt.Time) {
	for s.p.Kick(s.now); s.free <= t; {
		s.now = s.free
		s.p.TxFree(s.now)
	}
	s.now = t
}

func fecLine(rate int64, interleave, length int, imp Impair, until vt.Time) *stream {
	s := newStream(rate, interleave, length, imp)
	s.to(until)
	return s
}

func sums(t *testing.T, s PHY) {
	t.Helper()
	all, symbols, right := uint64(0), uint64(0), uint64(0)
	for k, v := range s.Histogram {
		all += v
		if k <= phy.Correctable {
			symbols += uint64(k) * v
			if k > 0 {
				right += v
			}
		}
	}
	if all != s.Codewords || symbols != s.SymbolErrors || right != s.Corrected || s.Histogram[phy.Correctable+1] != s.Uncorrectable {
		t.Errorf("sums do not hold: %+v", s)
	}
}

// TestPHY01_UCRAndFrameLossRatio sends a million codewords full of frames of three lengths. As many are uncorrectable as it says, and as
// many frames are lost as UCR x (CIR + 1/FPC) says, within 10 %.
func TestPHY01_UCRAndFrameLossRatio(t *testing.T) {
	for _, c := range []struct {
		rate       int64
		interleave int
		length     int
	}{{400e9, 0, 60}, {400e9, 0, 1024}, {400e9, 0, 4160}, {100e9, 0, 1024}, {800e9, 0, 4160}, {400e9, 1, 60}, {400e9, 4, 1024}} {
		t.Run(fmt.Sprintf("%dG/%d/%d", c.rate/1e9, c.interleave, c.length), func(t *testing.T) {
			const ucr, words = 1e-3, 1_000_000
			l := fecLine(c.rate, c.interleave, c.length, Impair{UCR: ucr}, vt.Time(float64(words)*phy.PayloadBits*1e9/float64(c.rate)))
			p := l.p
			s := p.PHY(l.now)
			sums(t, s)
			cir, fpc := float64(s.Interleave), phy.PayloadBits/float64(8*(c.length+24))
			want := ucr * (cir + 1/fpc)
			flr := float64(l.far.C[DropFCS]) / float64(p.C[TxFrames])
			got := float64(s.Uncorrectable) / float64(s.Codewords)
			t.Logf("%d codewords, UCR %.3g; %d frames, FLR %.4g, formula %.4g", s.Codewords, got, p.C[TxFrames], flr, want)
			if s.Codewords < words || math.Abs(got-ucr) > 0.1*ucr || math.Abs(flr-want) > 0.1*want {
				t.Error("not within 10 %")
			}
			if float64(s.WrongBits) < float64(l.far.C[DropFCS]) {
				t.Errorf("%d wrong bits in %d bad frames", s.WrongBits, l.far.C[DropFCS])
			}
		})
	}
}

// TestEveryFrameInABadGroupIsDamaged makes all codewords bad, so that nothing arrives: long frames and short ones, on a slow line too.
func TestEveryFrameInABadGroupIsDamaged(t *testing.T) {
	for _, length := range []int{40, 60, 700, 9000} {
		for _, slow := range []float64{0, 0.3, 0.001} {
			l := fecLine(400e9, 2, length, Impair{UCR: 1, Rate: slow}, ms/2)
			if c := &l.far.C; c[RxFrames] != 0 || c[DropFCS] == 0 {
				t.Errorf("%d bytes at %v: %d frames arrived, %d did not", length, slow, c[RxFrames], c[DropFCS])
			}
			s := l.p.PHY(l.now)
			sums(t, s)
			if ns := max(float64(l.now), float64(l.p.freePs)/1000); s.Codewords != s.Uncorrectable || math.Abs(float64(s.Codewords)*s.CodewordNs-ns) > 100 {
				t.Errorf("%d bytes: %+v", length, s)
			}
		}
	}
}

// TestAlmostCertainlyBadIsBad: what is left of good codewords may be less than a figure can tell from none.
func TestAlmostCertainlyBadIsBad(t *testing.T) {
	for _, ucr := range []float64{0.9, 1 - 1e-6, 1 - 1e-12, 1 - 1e-16} {
		l := fecLine(400e9, 4, 9000, Impair{UCR: ucr}, ms/10)
		s := l.p.PHY(l.now)
		sums(t, s)
		if got := float64(s.Uncorrectable) / float64(s.Codewords); math.Abs(got-ucr) > 0.02 || l.far.C[RxFrames] != 0 {
			t.Errorf("UCR %g of %g, %d frames arrived", got, ucr, l.far.C[RxFrames])
		}
	}
}

// TestCodewordsHitPreamblesAndOrderedSets: what LLR says to the far end is damaged like frames are.
func TestCodewordsHitPreamblesAndOrderedSets(t *testing.T) {
	l := newRetry(t, nil)
	for i := range 2 {
		l.ends[i].p.SetImpair(0, Impair{UCR: 0.02})
	}
	l.offer(0, 20_000, 64)
	l.run(5 * ms)
	l.whole(0, 20_000)
	c := &l.ends[1].p.C
	if c[DropPreamble] == 0 || c[DropFCS] == 0 || l.c(0, llr.CtlBad) == 0 {
		t.Errorf("%d preambles, %d frames and %d ordered sets are damaged", c[DropPreamble], c[DropFCS], l.c(0, llr.CtlBad))
	}
	for i := range 2 {
		sums(t, l.ends[i].p.PHY(l.now))
	}
}

// TestPHYReadingChangesNothing reads at random moments and goes on as if nobody had; totals never fall.
func TestPHYReadingChangesNothing(t *testing.T) {
	seed := rand.Uint64()
	moments := rand.New(rand.NewPCG(seed, 0))
	for _, imp := range []Impair{{UCR: 1e-3}, {UCR: 0.3}, {RawBER: 2e-3}, {BER: 1e-5}, {}} {
		run := func(read bool) (PHY, Counters) {
			l := newLine(t, nil, time.Microsecond)
			p := l.ends[0].p
			p.SetImpair(0, imp)
			rng := rand.New(rand.NewPCG(1, 2))
			var last PHY
			for i := range 200 {
				l.offer(0, rng.IntN(40), 60+rng.IntN(3000))
				end := l.now + vt.Time(rng.IntN(20_000))
				if i%50 == 49 {
					end += 100 * ms
				}
				for l.now < end {
					l.run(min(end, l.now+vt.Time(moments.Int64N(max(2, int64(end-l.now))))+1))
					if read {
						s := p.PHY(l.now)
						sums(t, s)
						for k := range s.Histogram {
							if s.Histogram[k] < last.Histogram[k] {
								t.Fatalf("seed %d: %+v: histogram falls at %d: %v, %v", seed, imp, k, last.Histogram, s.Histogram)
							}
						}
						last = s
					}
				}
			}
			return p.PHY(l.now), l.ends[1].p.C
		}
		s1, c1 := run(false)
		s2, c2 := run(true)
		if s1 != s2 || c1 != c2 {
			t.Errorf("seed %d: %+v: reading changes it:\n%+v\n%+v", seed, imp, s1, s2)
		}
	}
}

// TestPHYOfALongIdleTime reads a line on which nothing is sent for hours, at a cost that does not grow with it.
func TestPHYOfALongIdleTime(t *testing.T) {
	l := newLine(t, nil, 500)
	p := l.ends[0].p
	p.SetImpair(0, Impair{UCR: 0.01})
	last := uint64(0)
	for now := vt.Time(1000); now < vt.Time(100*time.Hour); now += 1 + now/8 {
		s := p.PHY(now)
		sums(t, s)
		if s.Uncorrectable < last {
			t.Fatalf("%v: %d uncorrectable, before %d", now, s.Uncorrectable, last)
		}
		last = s.Uncorrectable
		if got := float64(last) / float64(s.Codewords); s.Codewords > 1e7 && math.Abs(got-0.01) > 1e-4 {
			t.Fatalf("%v: UCR %g", now, got)
		}
	}
}

// TestPHYOfRawBitErrors compares what is drawn and what is expected with the distribution.
func TestPHYOfRawBitErrors(t *testing.T) {
	const raw = 2e-3
	d := phy.Of(raw)
	l := fecLine(400e9, 2, 4160, Impair{RawBER: raw}, 10*ms)
	s := l.p.PHY(l.now)
	sums(t, s)
	n := float64(s.Codewords)
	if got := float64(s.Uncorrectable) / n; math.Abs(got-d.Tail) > 0.05*d.Tail {
		t.Errorf("UCR %g, tail %g", got, d.Tail)
	}
	for k, share := range d.Correct {
		if want := (1 - d.Tail) * share; math.Abs(float64(s.Histogram[k])/n-want) > 0.01*want+1e-5 {
			t.Errorf("%d wrong symbols: %d of %g codewords, share %g", k, s.Histogram[k], n, want)
		}
	}
	if est := s.CorrectedBits / n / phy.LineBits; est > raw || est < 0.85*raw { // those of uncorrectable codewords are missing
		t.Errorf("raw bit error rate %g", est)
	}
}

// TestPHYOfBitErrorsBehindFEC shows what a decoder would that lets these bits through.
func TestPHYOfBitErrorsBehindFEC(t *testing.T) {
	const ber = 1e-6
	l := fecLine(400e9, 2, 1000, Impair{BER: ber}, 10*ms)
	p := l.p
	s := p.PHY(l.now)
	sums(t, s)
	if got := float64(s.WrongBits) / float64(8*(p.C[TxBytes]+4*p.C[TxFrames])); math.Abs(got-ber) > 0.1*ber {
		t.Errorf("bit error rate behind FEC %g", got)
	}
	if s.Uncorrectable == 0 || s.Uncorrectable > s.WrongBits || s.Uncorrectable < s.WrongBits*9/10 {
		t.Errorf("%d uncorrectable codewords, %d wrong bits", s.Uncorrectable, s.WrongBits)
	}
	raw := phy.Raw(ber)
	if got := s.CorrectedBits / float64(s.Codewords) / phy.LineBits; math.Abs(got-raw) > 0.02*raw {
		t.Errorf("raw bit error rate %g, should be %g", got, raw)
	}
}

// TestPHYWhileDown counts nothing while there is no signal, and how often it went.
func TestPHYWhileDown(t *testing.T) {
	l := newLine(t, nil, 500)
	p := l.ends[0].p
	for i := range vt.Time(5) {
		l.run(i * ms)
		p.SetImpair(l.now, Impair{UCR: 0.1, Down: i%2 == 1})
	}
	l.run(5 * ms)
	s := p.PHY(l.now)
	sums(t, s)
	if ns := float64(s.Codewords) * s.CodewordNs; s.Flaps != 2 || !s.Up || math.Abs(ns-3e6) > 1000 {
		t.Errorf("%+v, %g ns", s, ns)
	}
	if got := float64(s.Uncorrectable) / float64(s.Codewords); math.Abs(got-0.1) > 0.01 {
		t.Errorf("UCR %g", got)
	}
	p.Reset(rand.New(rand.NewPCG(3, 5))) // a run begins: totals go on
	p.Begin(5 * ms)
	if again := p.PHY(5 * ms); again.Codewords < s.Codewords || again.Codewords > s.Codewords+2*uint64(s.Interleave) {
		t.Errorf("after a run's start %+v", again)
	}
}
