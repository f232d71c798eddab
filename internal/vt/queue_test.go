package vt

import (
	"math/rand/v2"
	"sort"
	"testing"
)

func TestQueueOrderEqualsSort(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	type ev struct {
		t    Time
		c    Class
		port int
		n    int
	}
	var q Queue[ev]
	var want []ev
	for i := 0; i < 5000; i++ {
		e := ev{Time(r.IntN(50)), Class(r.IntN(5)), r.IntN(4), i}
		q.Push(e.t, e.c, e.port, e)
		want = append(want, e)
	}
	q.RemoveIf(func(_ Key, e ev) bool { return e.n%7 == 0 })
	kept := want[:0]
	for _, e := range want {
		if e.n%7 != 0 {
			kept = append(kept, e)
		}
	}
	sort.SliceStable(kept, func(i, j int) bool {
		a, b := kept[i], kept[j]
		if a.t != b.t {
			return a.t < b.t
		}
		if a.c != b.c {
			return a.c < b.c
		}
		if a.port != b.port {
			return a.port < b.port
		}
		return a.n < b.n
	})
	for i, w := range kept {
		if q.Next() != w.t {
			t.Fatalf("seed %d: event %d: Next %v, want %v", seed, i, q.Next(), w.t)
		}
		if _, got := q.Pop(); got != w {
			t.Fatalf("seed %d: event %d: got %+v, want %+v", seed, i, got, w)
		}
	}
	if q.Len() != 0 || q.Next() != Never {
		t.Fatalf("seed %d: %d events left", seed, q.Len())
	}
}

func BenchmarkQueue(b *testing.B) {
	var q Queue[uint64]
	r := rand.New(rand.NewPCG(1, 2))
	for i := 0; i < 256; i++ {
		q.Push(Time(r.IntN(1000)), ClassArrival, i%8, 0)
	}
	b.ReportAllocs()
	for b.Loop() {
		k, v := q.Pop()
		q.Push(k.T+Time(r.IntN(1000)), ClassArrival, int(k.Port), v)
	}
}
