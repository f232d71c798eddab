package switchd

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/vt"
)

// QOS-01: the map of DSCP to class to queue.
func TestQOS01_EveryDSCP(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, v6 := range []bool{false, true} {
		set := plan()
		var want [link.NumQueues]uint64
		for d := range set.Classes {
			q := rng.IntN(link.NumQueues)
			if d == dscpTrimmed || d == dscpLastHop {
				q = 2
			}
			set.Classes[d] = uint8(q)
			want[q] += uint64(d + 1)
		}
		r := newRig(t, set, 400*gig, 400*gig)
		for d := range set.Classes {
			for range d + 1 {
				r.send(1, pkt{to: 1, size: 100, dscp: uint8(d), v6: v6})
				r.wait(20)
			}
		}
		r.drain()
		for q, n := range want {
			if got := r.stat(1, q, link.QTxFrames); got != n {
				t.Errorf("v6=%v: queue %d sent %d frames, want %d", v6, q, got, n)
			}
		}
	}
}

// QOS-02: strict control never waits longer than one frame of full length behind data.
func TestQOS02_ControlWaitsOneFrame(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	r := newRig(t, plan(), 400*gig, 10*gig)
	const size = 9000
	line := link.LinePs(size, 10*gig)/1000 + 1
	var at []vt.Time
	for range 500 {
		r.send(3, pkt{to: 1, size: size, dscp: dscpData})
		r.wait(time.Duration(rng.IntN(15_000)))
		r.send(1, pkt{to: 1, size: 200, dscp: dscpControl})
		at = append(at, r.Now())
	}
	r.drain()
	frames := ofDSCP(r.got(1), dscpControl)
	if len(frames) != len(at) {
		t.Fatalf("%d of %d control packets left", len(frames), len(at))
	}
	own := vt.Time(link.LinePs(200, 10*gig)/1000 + 500)
	var most vt.Time
	for i, f := range frames {
		most = max(most, f.Due-own-at[i])
	}
	if most > vt.Time(line)+1 {
		t.Errorf("a control packet waited %d ns, one frame takes %d", most, line)
	}
	if most < vt.Time(line)*9/10 {
		t.Errorf("at most %d ns: the port was not under load", most)
	}
}

// QOS-03: shares by deficit round robin hold within 3 % for mixed sizes.
func TestQOS03_SharesOfMixedSizes(t *testing.T) {
	for _, w := range [][2]int{{1, 1}, {3, 1}, {1, 3}, {75, 25}} {
		set := plan()
		for q := range set.Queues {
			set.Queues[q].Trim, set.Queues[q].Limit = false, 200_000
		}
		set.Queues[1].Weight, set.Queues[5].Weight = w[0], w[1]
		r := newRig(t, set, 400*gig, 10*gig)
		for r.Now() < 5_000_000 {
			for r.Ports[1].QueueBytes(1) < 100_000 {
				r.send(1, pkt{to: 1, size: 9000, dscp: dscpData})
			}
			for r.Ports[1].QueueBytes(5) < 50_000 {
				r.send(1, pkt{to: 1, size: 64, dscp: dscpUUD})
			}
			r.wait(2000)
		}
		big, small := r.line(1, 1), r.line(1, 5)
		want := float64(w[0]) / float64(w[0]+w[1])
		if got := big / (big + small); math.Abs(got-want) > 0.03 {
			t.Errorf("weights %v: 9 kB frames have %.3f, want %.3f", w, got, want)
		}
	}
}

// QOS-04: the port's rate is exact: due times differ by wire size / rate under load.
func TestQOS04_RateExact(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	for _, rate := range []int64{10 * gig, 123_456_789_012, 400 * gig, 800 * gig} {
		set := plan()
		for q := range set.Queues {
			set.Queues[q].Limit = 0
		}
		r := newRig(t, set, 3200*gig, rate)
		var frames []*link.Frame
		for range 2000 {
			r.send(1, pkt{to: 1, size: 64 + rng.IntN(9000), dscp: []uint8{dscpBest, dscpData, dscpControl}[rng.IntN(3)]})
		}
		r.drain()
		frames = r.got(1)
		ps := int64(frames[0].Due-500) * 1000 // rounded up
		first := ps
		for _, f := range frames[1:] {
			ps += link.LinePs(len(f.B), rate)
			if got := int64(f.Due-500) * 1000; got < ps-1000 || got > ps+1000 {
				t.Fatalf("rate %d: due %d ps, want %d", rate, got, ps)
			}
		}
		if span := int64(frames[len(frames)-1].Due-500)*1000 - first; span > ps-first+1000 || span < ps-first-1000 {
			t.Errorf("rate %d: 2000 frames took %d ps, want %d", rate, span, ps-first)
		}
	}
}

// QOS-05: with a dynamic threshold each of N queues settles at alpha B/(1 + alpha N).
func TestQOS05_DynamicThreshold(t *testing.T) {
	const pool = 2_000_000
	for _, alpha := range []float64{0.25, 1, 4} {
		for _, n := range []int{1, 2, 4} {
			set := plan()
			set.Queues[4].Lossless = false
			set.Buffer.Shared = pool
			set.Queues[1].Limit, set.Queues[1].Alpha, set.Queues[1].Trim = 0, alpha, false
			r := newRig(t, set, 400*gig, gig/100, gig/100, gig/100, gig/100)
			for range 2 * pool / 1000 {
				for out := 1; out <= n; out++ {
					r.send(1, pkt{to: out, size: 1000, dscp: dscpData})
				}
			}
			want := alpha * pool / (1 + alpha*float64(n))
			for out := 1; out <= n; out++ {
				if got := float64(r.Ports[out].QueueBytes(1)); math.Abs(got-want) > 1000*(1+alpha) {
					t.Errorf("alpha %v, %d queues: %v bytes, want %.0f", alpha, n, got, want)
				}
			}
		}
	}
}

// What a queue has in reserve it gets although others have filled the buffer.
func TestReserve(t *testing.T) {
	set := plan()
	set.Queues[4].Lossless = false
	set.Buffer = Buffer{Shared: 500_000, Reserved: 10_000}
	for q := range set.Queues {
		set.Queues[q].Limit, set.Queues[q].Trim = 0, false
	}
	r := newRig(t, set, 400*gig, gig/100, gig/100)
	r.send(1000, pkt{to: 1, size: 1000, dscp: dscpData})
	if n := r.Ports[1].QueueBytes(1); n != 500_000-23*10_000 { // all but 23 other queues' reserve
		t.Errorf("the first queue has %d bytes", n)
	}
	r.send(100, pkt{to: 2, size: 1000, dscp: dscpBest})
	if n := r.Ports[2].QueueBytes(0); n != 10_000 {
		t.Errorf("a queue has %d bytes of its reserve of 10 000", n)
	}
	if r.s.Status(r.Now()).Buffer.Peak > 500_000 {
		t.Error("more than the buffer was used")
	}
}
