package capture

import (
	"cmp"
	"flag"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/uetlab/uetlab/internal/vt"
)

var seedFlag = flag.Uint64("seed", 0, "seed of the property test; 0 = 200 seeds from 1 on")

func push(s *Sorter, iface int, due vt.Time) {
	s.Push(Packet{Iface: iface, Due: due, Timed: true, Data: []byte{byte(iface)}})
}

func next(s *Sorter) []Packet {
	var c collect
	for p, ok := s.Next(); ok; p, ok = s.Next() {
		_ = c.Packet(&p)
	}
	return c.packets
}

func TestSorterWaitsForTheOtherDirection(t *testing.T) {
	s := NewSorter(SorterConfig{Directions: 2})
	push(s, 0, 100)
	if got := next(s); len(got) != 0 {
		t.Fatalf("released %v although the other direction may be earlier", dues(got))
	}
	push(s, 1, 50)
	if got := dues(next(s)); !slices.Equal(got, []vt.Time{50}) {
		t.Fatalf("released %v", got)
	}
	s.Saw(1, 99)
	if got := next(s); len(got) != 0 {
		t.Fatalf("released %v", dues(got))
	}
	s.Saw(1, 100) // direction 0 comes first among equals
	if got := dues(next(s)); !slices.Equal(got, []vt.Time{100}) {
		t.Fatalf("released %v", got)
	}
	push(s, 1, 100)
	if got := next(s); len(got) != 0 {
		t.Fatalf("released %v, direction 0 may have another one due at 100", dues(got))
	}
	s.Watermark(101)
	if got := dues(next(s)); !slices.Equal(got, []vt.Time{100}) || s.Late() != 0 {
		t.Fatalf("released %v, %d late", got, s.Late())
	}
}

func TestSorterGivesUntimedPacketsTheTimeOfTheFabric(t *testing.T) {
	s := NewSorter(SorterConfig{Directions: 2})
	s.Push(Packet{Iface: 0})
	s.Watermark(1000)
	s.Push(Packet{Iface: 0})
	push(s, 1, 2000)
	s.Push(Packet{Iface: 1})
	s.Flush()
	got := next(s)
	if want := []vt.Time{0, 1000, 2000, 2000}; !slices.Equal(dues(got), want) || got[2].Timed == got[3].Timed {
		t.Errorf("dues %v, want %v", dues(got), want)
	}
}

func TestSorterWallPassesThrough(t *testing.T) {
	s := NewSorter(SorterConfig{Directions: 2, Wall: true})
	push(s, 0, 100)
	push(s, 1, 50)
	push(s, 0, 7)
	if got := dues(next(s)); !slices.Equal(got, []vt.Time{100, 50, 7}) || s.Late() != 0 {
		t.Errorf("%v, %d late", got, s.Late())
	}
}

func TestSorterCountsWhatComesLate(t *testing.T) {
	s := NewSorter(SorterConfig{Directions: 1})
	s.Watermark(100)
	push(s, 0, 90)
	if len(next(s)) != 1 {
		t.Fatal("held back")
	}
	push(s, 0, 80)
	if got := dues(next(s)); !slices.Equal(got, []vt.Time{80}) || s.Late() != 1 {
		t.Errorf("%v, %d late", got, s.Late())
	}
}

func TestSorterLimitBoundsWhatIsHeld(t *testing.T) {
	s := NewSorter(SorterConfig{Directions: 2, Limit: 3})
	for due := range vt.Time(10) {
		push(s, 0, due)
		next(s)
		if s.Held() > 3 {
			t.Fatalf("%d held", s.Held())
		}
	}
	if s.Forced() != 7 {
		t.Errorf("%d forced", s.Forced())
	}
}

func TestSorterReordersWaitsForTheWatermark(t *testing.T) {
	s := NewSorter(SorterConfig{Directions: 1, Reorders: true})
	push(s, 0, 100)
	push(s, 0, 60)
	s.Watermark(80)
	if got := dues(next(s)); !slices.Equal(got, []vt.Time{60}) {
		t.Fatalf("%v", got)
	}
	push(s, 0, 90)
	s.Watermark(100)
	if got := dues(next(s)); !slices.Equal(got, []vt.Time{90, 100}) || s.Late() != 0 {
		t.Errorf("%v, %d late", got, s.Late())
	}
}

// TestSorterProperty interleaves directions at random, as a capture sees them, and compares with a stable sort of all.
func TestSorterProperty(t *testing.T) {
	first, last := uint64(1), uint64(200)
	if *seedFlag != 0 {
		first, last = *seedFlag, *seedFlag
	}
	for seed := first; seed <= last; seed++ {
		if !sorterRun(t, seed) {
			t.Fatalf("reproduce with: go test -run %s -seed %d", t.Name(), seed)
		}
	}
}

func sorterRun(t *testing.T, seed uint64) bool {
	g := rand.New(rand.NewPCG(seed, 1))
	dirs := 1 + g.IntN(4)
	s := NewSorter(SorterConfig{Directions: dirs, Reorders: seed%5 == 0})
	queues := make([][]Packet, dirs)
	var all, got []Packet
	for i := range queues {
		due := vt.Time(g.IntN(20))
		for n := range g.IntN(60) {
			p := Packet{Iface: i, Due: due, Timed: true, Data: []byte{byte(n)}}
			queues[i], all = append(queues[i], p), append(all, p)
			due += vt.Time(g.IntN(4)) // often equal
		}
	}
	slices.SortStableFunc(all, func(a, b Packet) int {
		return cmp.Or(cmp.Compare(a.Due, b.Due), cmp.Compare(a.Iface, b.Iface))
	})
	for left := len(all); left > 0; {
		i := g.IntN(dirs)
		for n := g.IntN(8); n > 0 && len(queues[i]) > 0; n-- {
			if p := queues[i][0]; g.IntN(8) > 0 {
				s.Push(p)
			} else { // the filter keeps it out
				s.Saw(i, p.Due)
				all = slices.DeleteFunc(all, func(q Packet) bool { return q.Iface == i && q.Due == p.Due && q.Data[0] == p.Data[0] })
			}
			queues[i] = queues[i][1:]
			left--
		}
		if g.IntN(3) == 0 {
			w := vt.Never
			for _, q := range queues {
				if len(q) > 0 {
					w = min(w, q[0].Due)
				}
			}
			if w != vt.Never {
				s.Watermark(w)
			}
		}
		got = append(got, next(s)...)
	}
	s.Flush()
	got = append(got, next(s)...)
	same := func(a, b Packet) bool { return a.Due == b.Due && a.Iface == b.Iface && a.Data[0] == b.Data[0] }
	if !slices.EqualFunc(got, all, same) || s.Late() != 0 || s.Held() != 0 {
		t.Errorf("seed %d: %d directions: order %v, want %v; %d late", seed, dirs, dues(got), dues(all), s.Late())
		return false
	}
	return true
}

func BenchmarkSorter(b *testing.B) {
	s := NewSorter(SorterConfig{Directions: 2})
	data := make([]byte, 4200)
	b.ReportAllocs()
	for due := vt.Time(0); b.Loop(); due++ {
		s.Push(Packet{Iface: int(due) & 1, Due: due, Timed: true, Data: data})
		for _, ok := s.Next(); ok; _, ok = s.Next() {
		}
	}
}
