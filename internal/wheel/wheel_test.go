package wheel

import (
	"math/rand/v2"
	"testing"

	"github.com/uetlab/uetlab/internal/vt"
)

type log struct {
	t     *testing.T
	fired map[*Timer]vt.Time
	last  vt.Time
}

func (l *log) Fire(now vt.Time, t *Timer) {
	if now < l.last {
		l.t.Errorf("fired at %d after one at %d", now, l.last)
	}
	l.last = now
	l.fired[t] = now
}

// TestAgainstReference arms, moves and cancels timers at random, and compares with a plain list.
func TestAgainstReference(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	var w Wheel
	l := &log{t: t, fired: map[*Timer]vt.Time{}}
	want := map[*Timer]vt.Time{}
	timers := make([]Timer, 200)
	now := vt.Time(0)
	for range 20_000 {
		x := &timers[r.IntN(len(timers))]
		x.Owner = l
		switch r.IntN(4) {
		case 0:
			w.Cancel(x)
			delete(want, x)
		case 1:
			now += vt.Time(r.Int64N(1 << r.IntN(30)))
			next := w.Next()
			due := vt.Never
			for _, at := range want {
				due = min(due, at)
			}
			if next > due {
				t.Fatalf("seed %d: Next %d, but a timer is due at %d", seed, next, due)
			}
			w.Advance(now)
			for x, at := range want {
				if at > now {
					continue
				}
				if l.fired[x] != at {
					t.Fatalf("seed %d: fired at %d, want %d", seed, l.fired[x], at)
				}
				delete(want, x)
				delete(l.fired, x)
			}
			if len(l.fired) != 0 {
				t.Fatalf("seed %d: %d fired that were not due", seed, len(l.fired))
			}
		default:
			at := now + vt.Time(r.Int64N(1<<r.IntN(40)))
			w.Arm(x, at)
			want[x] = at
		}
		if w.Len() != len(want) {
			t.Fatalf("seed %d: %d armed, want %d", seed, w.Len(), len(want))
		}
	}
}

// again arms itself anew whenever it fires.
type again struct {
	w *Wheel
	n int
}

func (a *again) Fire(now vt.Time, t *Timer) {
	if a.n++; a.n < 10 {
		a.w.Arm(t, now)
	}
}

func TestArmFromWithin(t *testing.T) {
	var w Wheel
	a := &again{w: &w}
	x := Timer{Owner: a}
	w.Arm(&x, 1000)
	w.Advance(999)
	if a.n != 0 || x.At() != 1000 {
		t.Fatalf("fired %d times before its time", a.n)
	}
	w.Advance(1000)
	if a.n != 10 || x.At() != vt.Never || w.Next() != vt.Never {
		t.Errorf("fired %d times", a.n)
	}
}

type silent struct{}

func (silent) Fire(vt.Time, *Timer) {}

// BenchmarkArm: the cost does not depend on how many timers there are.
func BenchmarkArm(b *testing.B) {
	for _, n := range []int{10, 1000, 100_000} {
		b.Run(vt.Time(n).String(), func(b *testing.B) {
			var w Wheel
			ts := make([]Timer, n)
			r := rand.New(rand.NewPCG(1, 2))
			for i := range ts {
				ts[i].Owner = silent{}
				w.Arm(&ts[i], vt.Time(r.Int64N(1<<30)))
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				w.Arm(&ts[i%n], vt.Time(1<<20+i))
			}
		})
	}
}
