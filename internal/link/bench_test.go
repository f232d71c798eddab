package link

import (
	"testing"

	"github.com/uetlab/uetlab/internal/vt"
)

// load is a port under steady load in its lowest queues, for figures of time and memory.
type load struct {
	r      *rig
	queues int
	step   vt.Time
}

func newLoad(t testing.TB, imp Impair, queues int) *load {
	l := &load{r: newRig(t, Config{Rate: 400e9, Queue: 1 << 20, MTU: 4096, Queued: true}, nil), queues: queues}
	l.r.p.Serve([NumQueues]Service{0: {Weight: 25}, 1: {Weight: 75}, 2: {Strict: queues > 2}})
	l.r.p.SetImpair(0, imp)
	l.r.mute = true
	l.step = vt.Time(LinePs(1000, l.r.p.Rate())/1000) + 1
	for q := range queues * 20 { // a backlog in every queue
		l.r.enqueueIn(q%queues, 1000)
	}
	return l
}

// frame passes one frame through the port.
func (l *load) frame(i int) {
	f := l.r.pool.Get()
	f.B = f.B[:1000]
	l.r.p.Offer(l.r.now, i%l.queues, f)
	l.r.to(l.r.now + l.step)
}

var loads = []struct {
	name   string
	imp    Impair
	queues int
}{{"healthy/1queue", Impair{}, 1}, {"healthy/3queues", Impair{}, 3}, {"sick/1queue", everything, 1}, {"sick/3queues", everything, 3},
	{"codewords", Impair{UCR: 1e-3, RawBER: 1e-3}, 1}}

// TestPortAllocatesNothing passes frames through queues and serializer in the steady state, on a healthy line and on a sick one.
func TestPortAllocatesNothing(t *testing.T) {
	for _, c := range loads {
		l, i := newLoad(t, c.imp, c.queues), 0
		work := func() {
			for range 10 {
				i++
				l.frame(i)
			}
		}
		for range 50 {
			work()
		}
		if n := testing.AllocsPerRun(200, work); n != 0 {
			t.Errorf("%s: %v allocations for 10 frames", c.name, n)
		}
	}
}

// BenchmarkPort is one frame through the port: queue, scheduler, serializer and line.
func BenchmarkPort(b *testing.B) {
	for _, c := range loads {
		b.Run(c.name, func(b *testing.B) {
			l, i := newLoad(b, c.imp, c.queues), 0
			b.ReportAllocs()
			for b.Loop() {
				i++
				l.frame(i)
			}
		})
	}
}
