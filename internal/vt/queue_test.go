package vt

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// pair drives a Queue and its reference alike and compares all that they say.
type pair struct {
	q    Queue[int]
	ref  heapQueue[int]
	now  Time // of the event popped last
	made int
}

func (p *pair) push(t Time, c Class, port int) {
	p.made++
	p.q.Push(t, c, port, p.made)
	p.ref.Push(t, c, port, p.made)
}

func (p *pair) pop() error {
	if p.ref.Len() == 0 {
		return nil
	}
	gk, g := p.q.Pop()
	wk, w := p.ref.Pop()
	if g != w || gk != wk {
		return fmt.Errorf("popped event %d with %+v, want %d with %+v", g, gk, w, wk)
	}
	p.now = gk.T
	return nil
}

func (p *pair) check() error {
	if p.q.Len() != p.ref.Len() || p.q.Next() != p.ref.Next() {
		return fmt.Errorf("Len %d, Next %d, want %d, %d", p.q.Len(), p.q.Next(), p.ref.Len(), p.ref.Next())
	}
	return nil
}

// at turns two numbers into an instant: near, at the same time as before, far, before, anywhere.
func (p *pair) at(kind, x int) Time {
	switch kind {
	case 0:
		return p.now
	case 1:
		return p.now.Add(81)
	case 2:
		return p.now.Add(10_000 << (x % 18))
	case 3:
		return max(0, p.now-Time(x))
	case 4:
		return Time(x)
	case 5:
		return p.now&^4095 + 4095 + Time(x%3) // where the wheel turns
	case 6:
		return Never - Time(x%9000)
	default:
		return p.now + Time(x%3000)
	}
}

func (p *pair) drain() error {
	for p.ref.Len() > 0 {
		if err := p.pop(); err != nil {
			return err
		}
		if err := p.check(); err != nil {
			return err
		}
	}
	return nil
}

// run lets both queues grow to about size events and go through steps operations; kinds are the instants it draws from.
func (p *pair) run(r *rand.Rand, kinds []int, size, steps int) error {
	for range steps {
		var err error
		switch d := r.IntN(2000); {
		case d < 1000+(p.ref.Len()-size):
			err = p.pop()
		default:
			p.push(p.at(kinds[r.IntN(len(kinds))], r.IntN(100_000)), Class(r.IntN(5)), r.IntN(4))
		}
		if err == nil {
			err = p.check()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func TestQueueEqualsHeap(t *testing.T) {
	loads := map[string][]int{
		"near":     {0, 1, 7, 7, 7},
		"mix":      {0, 1, 2, 7, 7, 7, 7, 7},
		"far":      {2},
		"same":     {0, 0, 0, 0, 1},
		"turn":     {5, 5, 7},
		"backward": {3, 4, 7},
		"all":      {0, 1, 2, 3, 4, 5, 7},
		"never":    {6, 6, 6, 0, 4},
	}
	seed := rand.Uint64()
	for name, kinds := range loads {
		t.Run(name, func(t *testing.T) {
			for i := range uint64(12) {
				r := rand.New(rand.NewPCG(seed, i))
				var p pair
				for round, size := range []int{1 + r.IntN(8), 64, 500} {
					err := p.run(r, kinds, size, 4000)
					if err == nil && round == 1 {
						err = p.drain() // and go on with a queue that was empty
					}
					if err != nil {
						t.Fatalf("seed %d, %d, size %d: %v", seed, i, size, err)
					}
				}
				if err := p.drain(); err != nil {
					t.Fatalf("seed %d, %d: %v", seed, i, err)
				}
			}
		})
	}
}

func FuzzQueue(f *testing.F) {
	f.Add([]byte{0x70, 1, 9, 0x71, 200, 3, 0x20, 5, 0, 0x78, 0, 0, 0x0f, 0, 0, 0x1f, 0, 2})
	f.Add([]byte{0x50, 0, 1, 0x50, 1, 0, 0x50, 2, 0, 0x08, 0, 0, 0x57, 0, 7, 0x0e, 0, 0, 0x0f, 0, 1})
	f.Fuzz(func(t *testing.T, ops []byte) {
		var p pair
		for ; len(ops) >= 3; ops = ops[3:] {
			kind, x, y := ops[0], int(ops[1]), int(ops[2])
			var err error
			switch {
			case kind&8 != 0:
				err = p.pop()
			default:
				p.push(p.at(int(kind>>4)%8, x<<4|y>>4), Class(kind&7%5), y&15)
			}
			if err == nil {
				err = p.check()
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := p.drain(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestQueuePopOfEmptyPanics(t *testing.T) {
	for _, pushed := range []int{0, 1, 3} {
		func() {
			var q Queue[int]
			for range pushed {
				q.Push(5, ClassTimer, 0, 1)
			}
			for range pushed {
				q.Pop()
			}
			defer func() {
				if recover() == nil {
					t.Errorf("no panic after %d events", pushed)
				}
				if q.Len() != 0 || q.Next() != Never {
					t.Errorf("Len %d, Next %v after the panic", q.Len(), q.Next())
				}
			}()
			q.Pop()
		}()
	}
}

// Slots beyond the wheel's reach are the heap's.
func TestQueueOfManyEqualsHeap(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	var p pair
	for range maxSlot + 3000 {
		p.push(Time(r.IntN(4000)), Class(r.IntN(5)), r.IntN(64))
	}
	if err := p.run(r, []int{0, 7}, p.made, 4000); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	if err := p.drain(); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
}

// An event that is popped must not keep its value from the garbage collector.
func TestQueueForgetsValues(t *testing.T) {
	var q Queue[*int]
	for i := range 300 {
		q.Push(Time(i*i), ClassArrival, i%4, new(i))
	}
	for range 200 {
		q.Pop()
	}
	kept := 0
	for i := range q.slab {
		if q.slab[i].val != nil {
			kept++
		}
	}
	if kept != q.Len() || kept != 100 {
		t.Errorf("the slab holds %d values of %d events, want 100", kept, q.Len())
	}
}

func TestQueueAllocatesNothingWhenSteady(t *testing.T) {
	var q Queue[benchEvent]
	d := ahead("mix")
	for i := range 200 {
		q.Push(Time(i), Class(1+i%3), i%8, benchEvent{})
	}
	n := 0
	for ; n < 100_000; n++ {
		step(&q, &d, n)
	}
	if a := testing.AllocsPerRun(100_000, func() { step(&q, &d, n); n++ }); a != 0 {
		t.Errorf("%v allocations per event", a)
	}
}
