package match

import (
	"fmt"
	"testing"
)

// load is a queue of n elements, of which one round matches a part: each element is found, removed and queued again, and
// afterwards all stand as before.
type load struct {
	name  string
	build func(n int) (round func(), matches int)
}

// recvLoad posts n receives with the keys that set gives them; a round matches the younger half from the far end backwards.
func recvLoad(name string, set func(i int, r *Recv[int])) load {
	return load{"posted/" + name, func(n int) (func(), int) {
		p, all := NewPosted[int](1), make([]Recv[int], n)
		for i := range all {
			all[i].Tag, all[i].From = uint64(i)<<16, uint32(i)
			set(i, &all[i])
			p.Post(&all[i])
		}
		return func() {
			for i := n - 1; i >= n/2; i-- {
				r := p.Find(uint32(i), uint64(i)<<16)
				if r != &all[i] {
					panic(fmt.Sprintf("message %d finds another receive", i))
				}
				p.Remove(r)
			}
			for i := n / 2; i < n; i++ {
				p.Post(&all[i])
			}
		}, n - n/2
	}}
}

// msgLoad queues n messages; a round takes the younger half from the far end backwards with receives as key gives them:
// far is how many stand behind the message at first.
func msgLoad(name string, key func(far int) (ignore uint64, any bool)) load {
	return load{"unexpected/" + name, func(n int) (func(), int) {
		u, all := NewUnexpected[int](1), make([]Msg[int], n)
		for i := range all {
			all[i].Tag, all[i].From = uint64(i)<<16, uint32(i%64)
			u.Add(&all[i])
		}
		return func() {
			for i := n - 1; i >= n/2; i-- {
				ignore, any := key(n - 1 - i)
				m := u.Find(all[i].Tag, ignore, all[i].From, any)
				if m != &all[i] {
					panic(fmt.Sprintf("receive %d finds another message", i))
				}
				u.Remove(m)
			}
			for i := n / 2; i < n; i++ {
				u.Add(&all[i])
			}
		}, n - n/2
	}}
}

// recvFIFO takes n untagged receives in order.
func recvFIFO(n int) (func(), int) {
	p, all := NewPosted[int](1), make([]Recv[int], n)
	for i := range all {
		all[i].Ignore, all[i].Any = ^uint64(0), true
		p.Post(&all[i])
	}
	return func() {
		for i := range all {
			r := p.Find(7, 0)
			if r != &all[i] {
				panic("not the eldest")
			}
			p.Remove(r)
			p.Post(r)
		}
	}, n
}

// msgFIFO takes n untagged messages in order.
func msgFIFO(n int) (func(), int) {
	u, all := NewUnexpected[int](1), make([]Msg[int], n)
	for i := range all {
		all[i].From = uint32(i % 64)
		u.Add(&all[i])
	}
	return func() {
		for i := range all {
			m := u.Find(0, ^uint64(0), 0, true)
			if m != &all[i] {
				panic("not the eldest")
			}
			u.Remove(m)
			u.Add(m)
		}
	}, n
}

// loads are the rows of the table in docs/matching.md.
var loads = []load{
	recvLoad("exact", func(int, *Recv[int]) {}),
	recvLoad("any-source", func(_ int, r *Recv[int]) { r.Any = true }),
	{"posted/fifo", recvFIFO},
	recvLoad("wildcard-1%", func(i int, r *Recv[int]) {
		if i%100 == 0 {
			r.Ignore = 0xffff
		}
	}),
	recvLoad("wildcard-1%-all-masks-differ", func(i int, r *Recv[int]) {
		if i%100 == 0 {
			r.Ignore = uint64(i/100 + 1)
		}
	}),
	msgLoad("exact", func(int) (uint64, bool) { return 0, false }),
	msgLoad("any-source", func(int) (uint64, bool) { return 0, true }),
	{"unexpected/fifo", msgFIFO},
	msgLoad("wildcard-1%", func(far int) (uint64, bool) {
		if far%100 == 0 {
			return 0xffff, true
		}
		return 0, false
	}),
	msgLoad("wildcard-1%-of-one-source", func(far int) (uint64, bool) {
		if far%100 == 0 {
			return 0xffff, false
		}
		return 0, false
	}),
}

// BenchmarkMatch tells what one match costs: the element found, removed and queued again.
func BenchmarkMatch(b *testing.B) {
	for _, l := range loads {
		for _, n := range []int{10, 1_000, 100_000} {
			b.Run(fmt.Sprintf("%s/%d", l.name, n), func(b *testing.B) {
				round, matches := l.build(n)
				round()
				b.ReportAllocs()
				b.ResetTimer()
				done := 0
				for done < b.N {
					round()
					done += matches
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(done), "ns/match")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

func TestNothingIsAllocatedOnceWarm(t *testing.T) {
	for _, l := range loads {
		t.Run(l.name, func(t *testing.T) {
			round, _ := l.build(1_000)
			if a := testing.AllocsPerRun(3, round); a != 0 {
				t.Errorf("%v allocations in a round", a)
			}
		})
	}
}
