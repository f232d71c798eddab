package vt

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// benchEvent has the shape of the engine's event: pointers and a number.
type benchEvent struct {
	f *int
	_ func(Time)
	_ uint64
}

// events is what Queue and its reference have in common.
type events[V any] interface {
	Len() int
	Next() Time
	Push(Time, Class, int, V)
	Pop() (Key, V)
}

// BenchmarkQueue pops an event and pushes its successor, with the distances seen in the simulator: serializers 3 and
// 81 ns ahead, arrivals up to 2 us, some timers 10 us to 2 s. "slow" has everything beyond the wheel, as slow links do;
// "burst" has frames arrive at all ports in the same instants.
func BenchmarkQueue(b *testing.B) {
	for _, load := range []string{"mix", "slow", "burst"} {
		for _, pending := range []int{8, 64, 512, 4096} {
			b.Run(fmt.Sprintf("heap/%s/%d", load, pending), func(b *testing.B) {
				hold(b, &heapQueue[benchEvent]{}, load, pending)
			})
			b.Run(fmt.Sprintf("wheel/%s/%d", load, pending), func(b *testing.B) {
				hold(b, &Queue[benchEvent]{}, load, pending)
			})
		}
	}
}

// ahead gives distances for the events of each class.
func ahead(load string) (d [5][1024]Time) {
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 1024 {
		d[ClassArrival][i] = 1 + Time(r.IntN(2000))
		d[ClassTxFree][i] = []Time{3, 81, 81}[r.IntN(3)]
		d[ClassTimer][i] = 10_000 << r.IntN(18)
		switch load {
		case "slow":
			d[ClassArrival][i] *= 40
			d[ClassTxFree][i] *= 400
		case "burst":
			d[ClassArrival][i] = 81 * Time(1+r.IntN(20))
			d[ClassTxFree][i] = 81
		}
	}
	return d
}

// fill pushes pending events, of which a quarter are serializers and a sixteenth timers.
func fill[Q events[benchEvent]](q Q, d *[5][1024]Time, pending, from int) {
	for i := range pending {
		c := ClassArrival
		switch {
		case i%16 == 15:
			c = ClassTimer
		case i%4 == 1:
			c = ClassTxFree
		}
		q.Push(d[c][(from+i)%1024], c, i%64, benchEvent{f: new(int)})
	}
}

// step pops an event and pushes its successor.
func step[Q events[benchEvent]](q Q, d *[5][1024]Time, n int) {
	k, v := q.Pop()
	q.Push(k.T+d[k.Class][n%1024], k.Class, int(k.Port), v)
}

func hold[Q events[benchEvent]](b *testing.B, q Q, load string, pending int) {
	d := ahead(load)
	fill(q, &d, pending, 0)
	n := 0
	for ; n < 20*pending; n++ {
		step(q, &d, n)
	}
	b.ReportAllocs()
	for b.Loop() {
		step(q, &d, n)
		n++
		if q.Next() == Never {
			b.Fatal("empty")
		}
	}
}

// BenchmarkQueues takes 16 events at a time from each of 1400 queues with 64 events: more than the caches hold.
func BenchmarkQueues(b *testing.B) {
	b.Run("heap", func(b *testing.B) { visit(b, func() *heapQueue[benchEvent] { return new(heapQueue[benchEvent]) }) })
	b.Run("wheel", func(b *testing.B) { visit(b, func() *Queue[benchEvent] { return new(Queue[benchEvent]) }) })
}

func visit[Q events[benchEvent]](b *testing.B, make func() Q) {
	d := ahead("mix")
	var qs [1400]Q
	for i := range qs {
		qs[i] = make()
		fill(qs[i], &d, 64, i)
	}
	n := 0
	for ; n < 500*len(qs); n++ {
		step(qs[n%len(qs)], &d, n)
	}
	for b.Loop() {
		step(qs[n/16*617%len(qs)], &d, n)
		n++
	}
}
