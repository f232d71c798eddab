package lb

import (
	"testing"

	"github.com/uetlab/uetlab/internal/vt"
)

// BenchmarkPerPacket is one Next and one Feedback, with a few bad answers among them.
func BenchmarkPerPacket(b *testing.B) {
	for _, a := range algorithms {
		b.Run(string(a), func(b *testing.B) { perPacket(b, newPool(b, Params{Algorithm: a}, 1).New(0)) })
	}
	b.Run("reps-watched", func(b *testing.B) { perPacket(b, NewWatch(newPool(b, Params{}, 1).New(0))) })
}

func perPacket(b *testing.B, lb Balancer) {
	now, i := vt.Time(0), 0
	var out [64]uint16
	b.ReportAllocs()
	for b.Loop() {
		now += 330
		f := Feedback{EV: out[i%64], Kind: Good, RTT: 12_000, Bytes: 4096}
		switch {
		case i%16 == 5:
			f.Kind = ECN
		case i%4096 == 9:
			f.Kind = Timeout
		}
		lb.Feedback(now, f)
		out[i%64] = lb.Next(now, Packet{Size: 4096})
		i++
	}
}

// BenchmarkBitmapSaturated is the walk past nearly all EVs of the set: each is marked as soon as it is used.
func BenchmarkBitmapSaturated(b *testing.B) {
	lb := newPool(b, Params{Algorithm: Bitmap}, 1).New(0)
	b.ReportAllocs()
	for b.Loop() {
		lb.Feedback(0, Feedback{EV: lb.Next(0, Packet{}), Kind: ECN})
	}
}
