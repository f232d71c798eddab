package lb

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/uetlab/uetlab/internal/vt"
)

// each runs a property for every algorithm with some seeds, which a failure names.
func each(t *testing.T, evs int, f func(t *testing.T, a Algorithm, o *Pool, seed uint64)) {
	for _, a := range algorithms {
		for seed := range uint64(4) {
			t.Run(fmt.Sprintf("%s/seed%d", a, seed), func(t *testing.T) { f(t, a, newPool(t, Params{Algorithm: a, EVs: evs}, seed), seed) })
		}
	}
}

func newPool(t testing.TB, p Params, seed uint64) *Pool {
	t.Helper()
	o, err := NewPool(p, rand.New(rand.NewPCG(seed, 7)))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// play lets packets go and come back as chance has it, and hands every EV to see.
func play(b Balancer, r *rand.Rand, n int, see func(ev uint16, f *Feedback)) {
	var out []uint16
	for i := range n {
		now := vt.Time(i) * 800
		ev := b.Next(now, Packet{Size: r.IntN(9000), Msg: max(0, r.Int64N(60000)-30000), Again: r.IntN(20) == 0, Idle: len(out) == 0})
		see(ev, nil)
		for out = append(out, ev); len(out) > r.IntN(40); {
			j := r.IntN(min(len(out), 5))
			f := Feedback{EV: out[j], Kind: Kind(r.IntN(int(nKinds))), RTT: vt.Time(r.IntN(90_000)), Bytes: r.IntN(16384)}
			out = slices.Delete(out, j, j+1)
			b.Feedback(now, f)
			see(0, &f)
		}
	}
}

func TestDeterminismAndNoZero(t *testing.T) {
	each(t, 256, func(t *testing.T, a Algorithm, o *Pool, seed uint64) {
		trace := func(o *Pool) (evs []uint16) {
			for range 2 {
				play(o.New(0), rand.New(rand.NewPCG(seed, 1)), 5000, func(ev uint16, f *Feedback) {
					if f != nil {
						return
					}
					if evs = append(evs, ev); ev == 0 {
						t.Fatal("EV 0")
					}
				})
			}
			return evs
		}
		first := trace(o)
		if !slices.Equal(first, trace(newPool(t, o.Params(), seed))) {
			t.Error("the same seed gives other EVs")
		}
		if slices.Equal(first, trace(newPool(t, o.Params(), seed+100))) {
			t.Error("another seed gives the same EVs")
		}
	})
}

func TestNoZeroInTheWholeSpace(t *testing.T) {
	for _, a := range []Algorithm{REPS, REPSLegacy, Oblivious, Spray} {
		b := newPool(t, Params{Algorithm: a, EVs: full}, 3).New(0)
		seen := make([]bool, full)
		for range 2 * full {
			ev := b.Next(0, Packet{})
			if ev == 0 {
				t.Fatalf("%s: EV 0", a)
			}
			seen[ev] = true
		}
		if n := len(slices.DeleteFunc(seen, func(b bool) bool { return !b })); a == Oblivious && n != full-1 {
			t.Errorf("%s: %d EVs used", a, n)
		}
	}
}

// chiSquare of counts against equal shares.
func chiSquare(counts map[uint16]int, cells, total int) (x float64) {
	e := float64(total) / float64(cells)
	for _, n := range counts {
		x += (float64(n) - e) * (float64(n) - e) / e
	}
	return x + float64(cells-len(counts))*e
}

func TestUniform(t *testing.T) {
	// Over whole rounds oblivious has no spread at all; in pairs of neighbours chance shows, and must.
	const n, rounds = 64, 2000
	for seed := range uint64(4) {
		b := newPool(t, Params{Algorithm: Oblivious, EVs: n}, seed).New(0)
		first, all := map[uint16]int{}, map[uint16]int{}
		for range rounds {
			round := map[uint16]int{}
			for i := range n {
				ev := b.Next(0, Packet{})
				round[ev]++
				all[ev]++
				if i == 0 {
					first[ev]++
				}
			}
			if len(round) != n {
				t.Fatalf("seed %d: a round has %d EVs", seed, len(round))
			}
		}
		if x := chiSquare(all, n, n*rounds); x != 0 {
			t.Errorf("seed %d: chi square %v over whole rounds", seed, x)
		}
		// 63 degrees of freedom: 0.1 % to 99.9 % is 34 to 104.
		if x := chiSquare(first, n, rounds); x < 34 || x > 104 {
			t.Errorf("seed %d: chi square %v of the first of each round", seed, x)
		}
		spray, counts := newPool(t, Params{Algorithm: Spray, EVs: n}, seed).New(0), map[uint16]int{}
		for range n * rounds {
			counts[spray.Next(0, Packet{})]++
		}
		if x := chiSquare(counts, n, n*rounds); x < 34 || x > 104 {
			t.Errorf("seed %d: chi square %v of spray", seed, x)
		}
	}
}

// TestREPSReturnsOnlyWhatWasGood: of EVs that are each sent and reported once, one that was marked never comes back, and a
// good one comes back once, as long as something fresh is there.
func TestREPSReturnsOnlyWhatWasGood(t *testing.T) {
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 2))
		b := newPool(t, Params{EVs: full, Freeze: -1}, seed).New(0).(*reps)
		var fresh []uint16 // what a slice makes of the ring
		for ev := uint16(1); ev < 60000; ev++ {
			k := Kind(1 + r.IntN(4))
			b.Feedback(0, Feedback{EV: ev, Kind: k})
			if k == Good {
				if fresh = append(fresh, ev); len(fresh) > ringLen {
					fresh = fresh[1:]
				}
			}
			for r.IntN(3) == 0 {
				explores := b.fresh == 0
				if explores != (len(fresh) == 0) {
					t.Fatalf("seed %d: fresh %d, want %d", seed, b.fresh, len(fresh))
				}
				got := b.Next(0, Packet{})
				if explores {
					continue
				}
				if got != fresh[0] {
					t.Fatalf("seed %d: EV %d, want %d", seed, got, fresh[0])
				}
				fresh = fresh[1:]
			}
		}
	}
}

func TestFrozenREPSOnlyCyclesItsRing(t *testing.T) {
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 3))
		b := newPool(t, Params{EVs: full}, seed).New(0).(*reps)
		play(b, r, 50+r.IntN(100), func(uint16, *Feedback) {})
		b.explore = 0
		b.Feedback(1, Feedback{EV: 9, Kind: Timeout})
		if !b.frozen {
			t.Fatalf("seed %d: not frozen", seed)
		}
		ring, turn := b.ring, int(b.turn)
		for i := range 10 * int(b.count) {
			if got, want := b.Next(2, Packet{}), ring[(turn+i)%int(b.count)]; got != want {
				t.Fatalf("seed %d: packet %d has EV %d, want %d", seed, i, got, want)
			}
			b.Feedback(2, Feedback{EV: 77, Kind: []Kind{ECN, Nack, Timeout}[r.IntN(3)]})
		}
		for ev := uint16(1); ev <= ringLen; ev++ { // what comes back takes over
			b.Feedback(3, Feedback{EV: ev, Kind: Good})
		}
		for range 100 {
			if ev := b.Next(4, Packet{}); ev == 0 || ev > ringLen {
				t.Fatalf("seed %d: EV %d of before", seed, ev)
			}
		}
	}
}

func TestBitmapAvoidsBadEVs(t *testing.T) {
	for _, a := range []Algorithm{Bitmap, Mixed} {
		for seed := range uint64(4) {
			b := newPool(t, Params{Algorithm: a}, seed).New(0)
			bad := func(ev uint16) bool { return ev%8 == 3 }
			hits, sent := 0, 256*64
			for range sent {
				ev := b.Next(0, Packet{})
				f := Feedback{EV: ev, Kind: Good}
				if bad(ev) {
					hits++
					f.Kind = Timeout
				}
				b.Feedback(0, f)
			}
			// One of eight EVs is bad; each comes up in one of 16 rounds.
			if share := float64(hits) / float64(sent); share > 1./8/12 {
				t.Errorf("%s, seed %d: %.4f of the packets went wrong", a, seed, share)
			}
		}
	}
}

// TestBitmapScores compares the packed scores and their count with a plain array.
func TestBitmapScores(t *testing.T) {
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 4))
		b := newPool(t, Params{Algorithm: Bitmap, EVs: 16}, seed).New(0).(*bitmap)
		ref := map[uint16]int{}
		for range 20000 {
			ev := b.ev(uint16(r.IntN(16)))
			k := Kind(1 + r.IntN(4))
			ref[ev] = min(15, ref[ev]+[]int{0, 0, 1, 4, 15}[k])
			b.Feedback(0, Feedback{EV: ev, Kind: k})
			for range r.IntN(30) {
				first := b.ev(b.walk.at(&b.set))
				clear := ref[first] == 0
				got := b.Next(0, Packet{})
				if clear && got != first {
					t.Fatalf("seed %d: passed EV %d without a penalty", seed, first)
				}
				ref[first] = max(ref[first]-1, 0)
			}
			bad := 0
			for i := range uint16(16) {
				if want := ref[b.ev(i)]; int(b.score(i)) != want {
					t.Fatalf("seed %d: score %d, want %d", seed, b.score(i), want)
				} else if want > 0 {
					bad++
				}
			}
			if int(b.bad) != bad {
				t.Fatalf("seed %d: counts %d with a penalty, want %d", seed, b.bad, bad)
			}
		}
	}
}

func TestMPUsesItsPathsEqually(t *testing.T) {
	for seed := range uint64(50) {
		k := int(1 + seed*5)
		b, n := newPool(t, Params{Algorithm: MP, SubPaths: k}, seed).New(0), map[uint16]int{}
		for range 3 * k {
			n[b.Next(0, Packet{})]++
		}
		if len(n) != k || chiSquare(n, k, 3*k) != 0 {
			t.Errorf("seed %d: %d paths of %d: %v", seed, len(n), k, n)
		}
	}
}

func TestNothingAllocates(t *testing.T) {
	each(t, 256, func(t *testing.T, _ Algorithm, o *Pool, seed uint64) {
		b, now := o.New(0), vt.Time(0)
		round := func() {
			for i := range 64 {
				now += 100
				ev := b.Next(now, Packet{Size: 4096})
				b.Feedback(now, Feedback{EV: ev, Kind: []Kind{Good, Good, ECN, Nack, Timeout}[i%5], RTT: 9000, Bytes: 4096})
			}
		}
		round()
		if n := testing.AllocsPerRun(50, round); n != 0 {
			t.Errorf("%v allocations", n)
		}
	})
}
