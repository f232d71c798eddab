package fep

import (
	"testing"

	"github.com/uetlab/uetlab/internal/vt"
)

// BenchmarkMessage pushes one long message between two end points on an ideal link: both of them, both ports and the
// event queues are in the figure. An op is one data packet.
func BenchmarkMessage(b *testing.B) {
	for _, c := range []struct {
		name string
		cfg  Config
	}{{"crc", Config{}}, {"nocrc", Config{NoCRC: true}}} {
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
