package lb

import (
	"math/rand/v2"
	"testing"

	"github.com/uetlab/uetlab/internal/vt"
)

func FuzzParse(f *testing.F) {
	for _, n := range append(Names(), "mp-0", "mp-99999999999999999999", "rep") {
		f.Add(n)
	}
	f.Fuzz(func(t *testing.T, name string) {
		p, err := Parse(name)
		if err != nil {
			return
		}
		if err := p.Resolve(); err != nil {
			t.Errorf("%q is taken and then refused: %v", name, err)
		}
	})
}

// FuzzBalancer feeds any balancer what no network would: it must give EVs of its own or of the feedback, and never 0.
func FuzzBalancer(f *testing.F) {
	for i := range algorithms {
		f.Add(uint8(i), uint8(8), uint64(i), []byte{1, 2, 3, 0, 5, 200, 17, 99, 4, 0, 0, 7, 250, 3, 3, 1})
	}
	f.Fuzz(func(t *testing.T, alg, logEVs uint8, seed uint64, ops []byte) {
		p := Params{Algorithm: algorithms[int(alg)%len(algorithms)], EVs: 1 << (logEVs % 17), Lifetime: 1 + int(alg>>4)%15, Explore: int(seed % 9)}
		o, err := NewPool(p, rand.New(rand.NewPCG(seed, 1)))
		if err != nil {
			return
		}
		now := vt.Time(0)
		w := NewWatch(o.New(now))
		for len(ops) >= 4 {
			op, a, b, c := ops[0], ops[1], ops[2], ops[3]
			ops = ops[4:]
			now += vt.Time(c) * 100_000
			ev := uint16(a)<<8 | uint16(b)
			if op&1 == 0 {
				ev := w.Next(now, Packet{Size: int(a) << (b % 32), Msg: int64(b) << (a % 56), Again: op&2 != 0, Idle: op&4 != 0})
				if ev == 0 {
					t.Fatal("EV 0")
				}
				w.Sent(ev, int(a))
				continue
			}
			w.Feedback(now, Feedback{EV: ev, Kind: Kind(op >> 1), RTT: vt.Time(int64(c)<<(b%56)) - 9, Bytes: int(int8(b))})
		}
		var v View
		if w.Look(&v); v.Algorithm != p.Algorithm && p.Algorithm != "" {
			t.Errorf("the view says %s, not %s", v.Algorithm, p.Algorithm)
		}
		for i := 1; i < len(v.Paths); i++ {
			if v.Paths[i-1].EV >= v.Paths[i].EV {
				t.Fatalf("paths are not in order: %d, %d", v.Paths[i-1].EV, v.Paths[i].EV)
			}
		}
	})
}
