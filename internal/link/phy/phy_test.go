package phy

import (
	"math"
	"testing"
)

func near(a, b, share float64) bool { return math.Abs(a-b) <= share*math.Abs(b) }

func TestDistribution(t *testing.T) {
	for _, raw := range []float64{0, 1e-9, 1e-6, 2e-4, 1e-3, 5e-3, 0.1, 0.5} {
		d := Of(raw)
		sum, mean := 0.0, 0.0
		for k, p := range d.Correct {
			if !(p >= 0 && p <= 1) {
				t.Fatalf("%g: share %d is %g", raw, k, p)
			}
			sum += p
			mean += float64(k) * p
		}
		if !near(sum, 1, 1e-12) || !(d.Tail >= 0 && d.Tail <= 1) {
			t.Errorf("%g: shares add up to %v, tail %g", raw, sum, d.Tail)
		}
		if d.Tail < 1e-9 { // then next to nothing is cut off
			if q := -math.Expm1(SymbolBits * math.Log1p(-raw)); !near(mean, Symbols*q, 1e-6) {
				t.Errorf("%g: %g wrong symbols, want %g", raw, mean, Symbols*q)
			}
			if bits := mean * d.Bits; !near(bits, LineBits*raw, 1e-6) {
				t.Errorf("%g: %g wrong bits, want %g", raw, bits, LineBits*raw)
			}
		}
	}
}

// TestTail compares with the sum over the other side, where that is exact enough.
func TestTail(t *testing.T) {
	for _, raw := range []float64{1e-3, 2e-3, 5e-3} {
		b := binomial(raw)
		rest := 1.0
		for k := range Correctable + 1 {
			rest -= math.Exp(b.log(k))
		}
		if d := Of(raw); !near(d.Tail, rest, 1e-6) {
			t.Errorf("%g: tail %g, want %g", raw, d.Tail, rest)
		}
	}
	for _, raw := range []float64{1e-5, 1e-4, 2e-4} { // the first term rules: 544 over 16 times q to the 16th
		b := binomial(raw)
		if first, d := math.Exp(b.log(16)), Of(raw); d.Tail < first || d.Tail > first*1.1 {
			t.Errorf("%g: tail %g, first term %g", raw, d.Tail, first)
		}
	}
}

func TestRawIsTheInverse(t *testing.T) {
	last := 0.0
	for _, post := range []float64{1e-30, 1e-15, 1e-12, 1e-8, 1e-6, 1e-3, 0.1} {
		raw := Raw(post)
		if raw <= last || raw < post || !near(Post(raw), post, 1e-6) {
			t.Errorf("%g: raw %g, which leaves %g", post, raw, Post(raw))
		}
		last = raw
	}
	if Raw(0) != 0 || Post(0) != 0 || Raw(0.5) != 0.5 {
		t.Errorf("ends: %g, %g, %g", Raw(0), Post(0), Raw(0.5))
	}
}

// TestSpread counts on and on: parts add up and never fall.
func TestSpread(t *testing.T) {
	for _, raw := range []float64{0, 1e-6, 2e-4, 1e-3, 3e-3, 0.5} {
		d := Of(raw)
		var last [Correctable + 1]uint64
		for n := uint64(0); n < 1<<50; n += 1 + n/300 {
			parts, sum := d.Spread(n), uint64(0)
			for k, v := range parts {
				sum += v
				if v+1 < last[k] || v < last[k] && n < 1<<40 { // above, shares are rounded by more than one
					t.Fatalf("%g: part %d falls from %d to %d at %d", raw, k, last[k], v, n)
				}
				if x := d.Correct[k] * float64(n); n < 1<<40 && (float64(v) < math.Floor(x) || float64(v) > x+17) {
					t.Fatalf("%g: part %d is %d of %g", raw, k, v, x)
				}
			}
			if sum != n {
				t.Fatalf("%g: parts of %d add up to %d", raw, n, sum)
			}
			last = parts
		}
	}
}

func TestInterleave(t *testing.T) {
	for rate, want := range map[int64]int{25e9: 1, 100e9: 1, 200e9: 2, 400e9: 2, 800e9: 4, 1600e9: 4} {
		if got := Interleave(rate); got != want {
			t.Errorf("%d: %d codewords", rate, got)
		}
	}
}
