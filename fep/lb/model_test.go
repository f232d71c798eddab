package lb

import (
	"testing"

	"github.com/uetlab/uetlab/internal/vt"
)

// The model: one sender at seven tenths of what k healthy paths carry together, with EVs hashed to paths. Each path is a queue that serves a
// packet per k ticks, marks above a threshold and trims above a limit; one path is slow, or swallows everything. A tick is a
// packet time of 100 Gb/s.
const (
	paths   = 8
	tick    = 332 // ns
	baseRTT = 30  // ticks: 10 us
	lostIn  = 8 * baseRTT
	markAt  = 6
	trimAt  = 30
)

type network struct {
	free   [paths]int // tick at which the path has served all that it was given
	serve  [paths]int // ticks per packet; 0: dead
	events [1 << 13][]Feedback
	sent   [paths]int
	lost   int
	cover  int // packets that an ACK covers, 0: 1
	silent int // … and that wait for one
}

// hash is the switch: nothing of an EV's order is left in it.
func hash(ev uint16) int {
	x := uint64(ev)*0x9E3779B97F4A7C15 + 12345
	x ^= x >> 29
	x *= 0xBF58476D1CE4E5B9
	return int(x>>40) % paths
}

func (n *network) send(now int, ev uint16) {
	p := hash(ev)
	n.sent[p]++
	f := Feedback{EV: ev, Kind: Good, Bytes: 4096}
	at := now + baseRTT
	switch s := n.serve[p]; {
	case s == 0:
		f.Kind, at = Timeout, now+lostIn
		n.lost++
	case (max(n.free[p], now)-now)/s >= trimAt:
		f.Kind = Nack
	default:
		n.free[p] = max(n.free[p], now) + s
		if (n.free[p]-now)/s > markAt {
			f.Kind = ECN
		}
		at += n.free[p] - now
	}
	if f.Kind == Good {
		if n.silent++; n.silent < n.cover {
			return
		}
		n.silent = 0
	}
	f.RTT = vt.Time(at-now) * tick
	i := at % len(n.events)
	n.events[i] = append(n.events[i], f)
}

// share runs the model and gives the share of packets on path 0.
func (n *network) share(b Balancer, packets int) float64 {
	for now := 0; packets > 0; now++ {
		i := now % len(n.events)
		for _, f := range n.events[i] {
			b.Feedback(vt.Time(now)*tick, f)
		}
		n.events[i] = n.events[i][:0]
		if now%10 >= 7 { // less than the healthy ones among them carry
			continue
		}
		n.send(now, b.Next(vt.Time(now)*tick, Packet{Size: 4096}))
		packets--
	}
	total := 0
	for _, s := range n.sent {
		total += s
	}
	return float64(n.sent[0]) / float64(total)
}

func newNetwork(path0 int) *network {
	n := &network{}
	for i := range n.serve {
		n.serve[i] = paths
	}
	n.serve[0] = path0
	return n
}

// TestShareOfABadPath has the order of the acceptance rows: with a slow path and with a dead one oblivious keeps 1/k of its packets
// there, bitmap and uccl far fewer, and REPS about what it carries. Fair is what the slow path can carry: 0.25/7.25.
func TestShareOfABadPath(t *testing.T) {
	type band struct{ lo, hi float64 }
	for _, c := range []struct {
		name  string
		path0 int
		want  map[Algorithm]band
	}{
		{"quarter", 4 * paths, map[Algorithm]band{
			Oblivious: {0.08, 0.17}, Spray: {0.08, 0.17}, Bitmap: {0, 0.09}, REPS: {0, 0.06}, REPSLegacy: {0, 0.06}, Mixed: {0, 0.06}, UCCL: {0, 0.06}}},
		{"half", 2 * paths, map[Algorithm]band{
			Oblivious: {0.08, 0.17}, Spray: {0.08, 0.17}, Bitmap: {0, 0.11}, REPS: {0, 0.09}, REPSLegacy: {0, 0.09}, Mixed: {0, 0.09}, UCCL: {0, 0.09}}},
		{"dead", 0, map[Algorithm]band{
			Oblivious: {0.08, 0.17}, Spray: {0.08, 0.17}, Bitmap: {0, 0.02}, REPS: {0, 0.005}, REPSLegacy: {0, 0.06}, Mixed: {0, 0.02}, UCCL: {0, 0.04}}},
	} {
		for a, w := range c.want {
			for seed := range uint64(3) {
				share := newNetwork(c.path0).share(newPool(t, Params{Algorithm: a}, seed).New(0), 20000)
				t.Logf("%s %s seed %d: %.4f", c.name, a, seed, share)
				if share < w.lo || share > w.hi {
					t.Errorf("%s, %s, seed %d: share %.4f of the bad path, want %v to %v", c.name, a, seed, share, w.lo, w.hi)
				}
			}
		}
	}
}

// TestFreezing: a path dies under load, and an ACK covers four packets, so that REPS explores with three of four. Oblivious keeps
// losing; REPS loses what was under way, and little after that.
func TestFreezing(t *testing.T) {
	lost := func(p Params) int {
		b, n := newPool(t, p, 5).New(0), newNetwork(paths)
		n.cover = 4
		n.share(b, 2000)
		// What is under way comes back still: only the clock begins anew.
		n.serve[0] = 0
		n.free = [paths]int{}
		n.share(b, 20000)
		return n.lost
	}
	obl, reps := lost(Params{Algorithm: Oblivious}), lost(Params{})
	off, reuse := lost(Params{Freeze: -1}), lost(Params{Freeze: -1, Lifetime: 4})
	t.Logf("lost: oblivious %d, REPS %d; without freezing %d, and with a lifetime of four %d", obl, reps, off, reuse)
	if reps*6 > obl {
		t.Errorf("REPS loses %d packets, oblivious %d: want a sixth at most", reps, obl)
	}
	if reps*2 > off {
		t.Errorf("freezing loses %d packets, without it %d: want half at most", reps, off)
	}
	if reuse*2 > off {
		t.Errorf("a lifetime of four loses %d packets, of one %d: want half at most", reuse, off)
	}
}

// TestSinglePathsLeaveADeadOne: those that move find a way, those that do not never do.
func TestSinglePathsLeaveADeadOne(t *testing.T) {
	for a, leaves := range map[Algorithm]bool{Fixed: false, ECMP: true, PLB: true, Flowlet: true} {
		for seed := range uint64(40) {
			b, n := newPool(t, Params{Algorithm: a, RTO: lostIn * tick}, seed).New(0), newNetwork(0)
			if hash(b.Next(0, Packet{})) != 0 {
				continue
			}
			n.share(b, 5000)
			if moved := n.lost < 2000; moved != leaves {
				t.Errorf("%s, seed %d: %d of 5000 packets lost", a, seed, n.lost)
			}
		}
	}
}
