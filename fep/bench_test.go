package fep

import (
	"testing"
	"time"

	"github.com/uetlab/uetlab/fep/cms"
	"github.com/uetlab/uetlab/internal/vt"
)

// testCC is congestion control for the link between the two nodes of a lab.
func testCC(a cms.Algorithm) *cms.Config {
	return &cms.Config{Algorithm: a, Net: cms.Network{Rate: 400e9, BaseRTT: 2 * time.Microsecond, Trimming: true}}
}

// BenchmarkMessage pushes one long message between two end points on an ideal link: both of them, both ports and the
// event queues are in the figure. An op is one data packet.
func BenchmarkMessage(b *testing.B) {
	for _, c := range []struct {
		name string
		cfg  Config
	}{{"crc", Config{}}, {"nocrc", Config{NoCRC: true}},
		{"nocrc-acks", Config{NoCRC: true, AckGenTrigger: -1}},
		{"nscc-reps", Config{NoCRC: true, AckGenTrigger: -1, LB: "reps", CC: testCC(cms.AlgNSCC)}},
		{"nscc+rccc-reps", Config{NoCRC: true, AckGenTrigger: -1, LB: "reps", CC: testCC(cms.AlgNSCCRCCC)}}} {
		b.Run(c.name, func(b *testing.B) {
			l := newLab(b, c.cfg)
			buf := make([]byte, 64<<20)
			key := l.eps[1].Register(buf)
			done := true
			l.eps[0].done = func(_ vt.Time, c Completion) { done = true }
			f := l.feps[0]
			b.ReportAllocs()
			b.SetBytes(4096)
			sent := func() uint64 { return f.C[DataTx] }
			end := uint64(b.N)
			b.ResetTimer()
			for sent() < end {
				if done {
					done = false
					l.call(0, l.nodes[0].Now()+1, func(now vt.Time) {
						if err := l.eps[0].Write(now, 1, buf, key, 0, 0); err != nil {
							b.Error(err)
						}
					})
				}
				if !l.step(vt.Never) {
					b.Fatal("nothing left to do")
				}
			}
		})
	}
}

// BenchmarkTagged is a tagged message of 8 bytes with a receive for it: both end points, both ports and the event queues.
func BenchmarkTagged(b *testing.B) {
	l := newLab(b, Config{})
	src, dst := make([]byte, 8), make([]byte, 8)
	n := 0
	for i := range l.eps {
		l.eps[i].done = func(vt.Time, Completion) { n++ }
	}
	post := func(now vt.Time) {
		if err := l.eps[1].TagRecv(now, 0, dst, 5, 0); err != nil {
			b.Error(err)
		}
	}
	send := func(now vt.Time) {
		if err := l.eps[0].TagSend(now, 1, src, 5, 0); err != nil {
			b.Error(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		n = 0
		at := l.now() + 1
		l.call(1, at, post)
		l.call(0, at+1, send)
		for n < 2 {
			if !l.step(vt.Never) {
				b.Fatal("nothing left to do")
			}
		}
	}
}
