package switchd

import (
	"math"
	"testing"
	"time"

	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/wire"
)

// hold keeps the queue of port 1 at so many frames of 976 bytes, which take 80 ns each at 100 Gb/s, while n leave, and returns the share of
// them that was marked. Every frame leaves the same backlog behind.
func hold(t *testing.T, r *rig, frames, n int, p pkt) float64 {
	t.Helper()
	p.to, p.size, p.dscp = 1, 976, dscpData
	r.send(frames+1, p) // within the line time of the first
	before := r.stat(1, 1, link.QMarked)
	sent := r.stat(1, 1, link.QTxFrames)
	for r.stat(1, 1, link.QTxFrames) < sent+uint64(n) {
		r.send(1, p)
		if got := r.Ports[1].QueueBytes(1); got != int64(frames+1)*976 {
			t.Fatalf("%d bytes wait, want %d", got, (frames+1)*976)
		}
		r.wait(79)
	}
	marked := r.stat(1, 1, link.QMarked) - before
	r.drain()
	r.got(1)
	return float64(marked) / float64(n)
}

// ECN-01: the probability of a mark follows the line from min to max.
func TestECN01_ProbabilityFollowsLine(t *testing.T) {
	const n, kmin, kmax = 5000, 10 * 976, 30 * 976
	for _, pmax := range []float64{1, 0.2} {
		for _, c := range []struct {
			frames int // left behind
			p      float64
		}{{9, 0}, {10, 0}, {15, 0.25 * pmax}, {20, 0.5 * pmax}, {25, 0.75 * pmax}, {30, 1}, {40, 1}} {
			set := plan()
			set.Queues[1].Kmin, set.Queues[1].Kmax, set.Queues[1].Pmax = kmin, kmax, pmax
			r := newRig(t, set, 400*gig, 100*gig)
			got := hold(t, r, c.frames, n, pkt{ecn: wire.ECNECT0, v6: c.frames%2 == 0})
			if dev := 4 * math.Sqrt(c.p*(1-c.p)/n); math.Abs(got-c.p) > dev {
				t.Errorf("pmax %v, %d frames: %.4f marked, want %.4f ± %.4f", pmax, c.frames, got, c.p, dev)
			}
		}
	}
}

// ECN-02: the decision falls when a frame leaves, on the backlog that it leaves behind.
func TestECN02_AtDequeue(t *testing.T) {
	set := plan()
	set.Queues[1].Kmin, set.Queues[1].Kmax, set.Queues[1].Pmax = 20_000, 20_000, 1
	r := newRig(t, set, 400*gig, gig)
	r.send(61, pkt{to: 1, size: 1000, dscp: dscpData, ecn: wire.ECNECT1}) // one on the line, 60 wait
	r.drain()
	for i, f := range r.got(1) {
		left := 60 - i
		want := uint8(wire.ECNECT1)
		if i > 0 && left >= 20 {
			want = wire.ECNCE
		}
		if ecnIn(f) != want {
			t.Errorf("frame %d, which left %d behind: ECN %d, want %d", i, left, ecnIn(f), want)
		}
		if ip := wire.IPv4(f.B[wire.EthLen:]); !ip.ChecksumOK() {
			t.Fatalf("frame %d: checksum", i)
		}
	}
	if r.stat(1, 1, link.QMarked) != 40 || r.stat(1, 1, link.QMarkedBytes) != 40_000 || r.Ports[1].C[link.Marked] != 40 {
		t.Errorf("counted %d, %d bytes, %d at the port", r.stat(1, 1, link.QMarked), r.stat(1, 1, link.QMarkedBytes), r.Ports[1].C[link.Marked])
	}
}

// ECN-03: Not-ECT never becomes CE; with WRED it is dropped instead, where ECN-capable packets are marked.
func TestECN03_NotECT(t *testing.T) {
	for _, wred := range []bool{false, true} {
		for _, v6 := range []bool{false, true} {
			set := plan()
			set.Queues[1].Kmin, set.Queues[1].Kmax, set.Queues[1].Pmax, set.Queues[1].WRED = 5000, 20_000, 1, wred
			r := newRig(t, set, 400*gig, gig)
			r.send(80, pkt{to: 1, size: 1000, dscp: dscpData, v6: v6})
			r.drain()
			frames := r.got(1)
			for _, f := range frames {
				if ecnIn(f) != wire.ECNNotECT {
					t.Fatalf("a packet that is not ECN-capable left with ECN %d", ecnIn(f))
				}
			}
			lost := r.Ports[1].C[link.DropQueue]
			if !wred && lost != 0 || wred && (lost < 59 || lost > 74) || int(lost)+len(frames) != 80 || r.stat(1, 1, link.QDrop) != lost {
				t.Errorf("wred=%v v6=%v: %d lost, %d forwarded", wred, v6, lost, len(frames))
			}
			if r.Ports[1].C[link.Marked] != 0 || r.Ports[1].C[link.Trimmed] != 0 {
				t.Errorf("%d marked, %d trimmed", r.Ports[1].C[link.Marked], r.Ports[1].C[link.Trimmed])
			}
			r.send(80, pkt{to: 1, size: 1000, dscp: dscpData, v6: v6, ecn: wire.ECNECT0})
			r.drain()
			if r.Ports[1].C[link.DropQueue] != lost || r.Ports[1].C[link.Marked] < 50 {
				t.Errorf("wred=%v: of ECN-capable packets %d were marked", wred, r.Ports[1].C[link.Marked])
			}
		}
	}
}

// What is CE already stays so and is not counted again.
func TestCEStays(t *testing.T) {
	set := plan()
	set.Queues[1].Kmin, set.Queues[1].Kmax, set.Queues[1].Pmax = 0, 1, 1
	r := newRig(t, set, 400*gig, gig)
	r.send(20, pkt{to: 1, size: 1000, dscp: dscpData, ecn: wire.ECNCE})
	r.wait(time.Millisecond)
	for _, f := range r.got(1) {
		if ecnIn(f) != wire.ECNCE {
			t.Fatalf("ECN %d", ecnIn(f))
		}
	}
	if r.Ports[1].C[link.Marked] != 0 {
		t.Errorf("%d counted", r.Ports[1].C[link.Marked])
	}
}
