package pds

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/uetlab/uetlab/fep/cms"
	"github.com/uetlab/uetlab/fep/lb"
	"github.com/uetlab/uetlab/internal/vt"
)

// feedback is what congestion management does for a packet and its ACK: may it leave, with which entropy value, does it ask for an ACK, how much
// credit does it want; and then what the ACK says of it.
type feedback struct {
	ctx  *cms.Context
	flow cms.Flow
	bal  lb.Balancer
	now  vt.Time
	evs  [64]uint16
	i    int
	got  uint32 // credit
	no   int
}

const fbSize = 4208

func newFeedback(t testing.TB, alg cms.Algorithm, bal string) *feedback {
	t.Helper()
	cfg := &cms.Config{Algorithm: alg, Net: cms.Network{Rate: 400e9, BaseRTT: 8 * time.Microsecond, MTU: fbSize, Trimming: true}}
	if err := cfg.Resolve(); err != nil {
		t.Fatal(err)
	}
	p, err := lb.Parse(bal)
	if err != nil {
		t.Fatal(err)
	}
	p.RTT = cfg.Net.BaseRTT
	pool, err := lb.NewPool(p, rand.New(rand.NewPCG(1, 2)))
	if err != nil {
		t.Fatal(err)
	}
	f := &feedback{ctx: cms.Open(0, cfg, 0), bal: pool.New(0)}
	f.ctx.OnNewData(&f.flow, 1<<40)
	return f
}

// step sends a packet and takes an ACK of one that left 64 packets ago; one in 16 is marked, and delays vary.
func (f *feedback) step() {
	f.now += 85
	at := max(f.now, f.ctx.SendAt(f.now))
	if !f.ctx.CanSend(at, fbSize) {
		f.no++
	}
	slot := f.i % len(f.evs)
	ev := f.evs[slot]
	f.evs[slot] = f.bal.Next(at, lb.Packet{Size: 4096})
	f.ctx.OnSend(at, &f.flow, fbSize, false)
	f.ctx.AckRequest()
	f.ctx.CreditTarget(1)
	f.i++
	if ev == 0 {
		return
	}
	rtt := vt.Time(8000 + f.i*37%4000)
	mark, kind := f.i%16 == 5, lb.Good
	if mark {
		kind = lb.ECN
	}
	f.ctx.OnAck(f.now, &f.flow, &cms.Feedback{Newly: fbSize, Packets: 1, Sent: f.now - rtt, Named: true, ECN: mark})
	f.got += 17
	f.ctx.OnCredit(f.now, f.got&(1<<24-1))
	f.bal.Feedback(f.now, lb.Feedback{EV: ev, Kind: kind, RTT: rtt, Bytes: fbSize})
}

// pairs are all algorithms of congestion control with reps, and all load balancers with nscc.
func pairs(run func(name string, alg cms.Algorithm, bal string)) {
	for a, name := range cms.Names() {
		run(name+"+reps", cms.Algorithm(a), "reps")
	}
	for _, name := range lb.Names()[1:] {
		run("nscc+"+name, cms.AlgNSCC, name)
	}
}

// BenchmarkFeedback is the whole cost of congestion management for a packet and its ACK.
func BenchmarkFeedback(b *testing.B) {
	pairs(func(name string, alg cms.Algorithm, bal string) {
		b.Run(name, func(b *testing.B) {
			f := newFeedback(b, alg, bal)
			b.ReportAllocs()
			for b.Loop() {
				f.step()
			}
		})
	})
}

// TestFeedbackAllocates nothing, whatever the algorithms.
func TestFeedbackAllocates(t *testing.T) {
	pairs(func(name string, alg cms.Algorithm, bal string) {
		f := newFeedback(t, alg, bal)
		for range 10_000 { // until the greatest window was reached
			f.step()
		}
		if n := testing.AllocsPerRun(5000, f.step); n != 0 {
			t.Errorf("%s: %v allocations a packet", name, n)
		}
	})
}
