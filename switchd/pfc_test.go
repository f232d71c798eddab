package switchd

import (
	"testing"
	"time"

	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// pauses reads the PFC frames that have left by a port.
func (r *rig) pauses(t *testing.T, port int) (list []wire.Pause, at []vt.Time) {
	t.Helper()
	for _, f := range r.got(port) {
		p, ok := wire.ParsePause(f.B)
		if !ok {
			t.Fatalf("port %d sent a frame that is no PFC: % x", port, f.B)
		}
		if len(f.B) != 60 || wire.Eth(f.B).Dst() != wire.PFCDst || wire.Eth(f.B).Src() != mac(port) {
			t.Errorf("PFC frame % x", f.B)
		}
		list, at = append(list, p), append(at, f.Due)
		f.Release()
	}
	return list, at
}

// PFC-01: XOFF and XON at the thresholds, with the right class bit and quanta; XOFF is repeated before half of its time.
func TestPFC01_ThresholdsAndQuanta(t *testing.T) {
	for _, quanta := range []uint16{65535, 1000} {
		set := plan()
		set.PFC.Quanta = quanta
		r := newRig(t, set, 400*gig, gig)
		r.send(51, pkt{to: 1, size: 1000, dscp: dscpRoCE}) // one on the line, 50 kB wait: Xoff is not exceeded
		if list, _ := r.pauses(t, 0); len(list) != 0 {
			t.Fatalf("%d PFC frames below the threshold", len(list))
		}
		r.send(1, pkt{to: 1, size: 1000, dscp: dscpRoCE})
		if list, _ := r.pauses(t, 0); len(list) != 1 || list[0].Enabled != 1<<4 || list[0].Quanta[4] != quanta {
			t.Fatalf("beyond the threshold: %+v", list)
		}
		r.send(20, pkt{to: 1, size: 1000, dscp: dscpRoCE}) // into the headroom
		if list, _ := r.pauses(t, 0); len(list) != 0 {
			t.Fatalf("%d more PFC frames at once", len(list))
		}
		begin := r.Now()
		for r.s.buf.in[0][4].paused {
			r.wait(100)
		}
		if n := r.s.buf.in[0][4].bytes; n != set.PFC.Xon {
			t.Errorf("resumed at %d bytes, want %d", n, set.PFC.Xon)
		}
		list, at := r.pauses(t, 0)
		last := begin
		half := vt.Time(int64(quanta) * 512 * 1_000_000_000 / (400 * gig) / 2)
		for i, p := range list {
			xon := i == len(list)-1
			if p.Enabled != 1<<4 || (p.Quanta[4] == 0) != xon || !xon && p.Quanta[4] != quanta {
				t.Errorf("frame %d of %d: %+v", i, len(list), p)
			}
			if gap := at[i] - last; !xon && (i > 0 && gap >= half || gap < half/2) {
				t.Errorf("repeated after %d ns, half of the time is %d", gap, half)
			}
			last = at[i]
		}
		if len(list) < int((r.Now()-begin)/half) {
			t.Errorf("%d PFC frames in %v", len(list), r.Now()-begin)
		}
		r.drain()
		if r.Ports[1].C.Drops() != 0 || r.stat(1, 4, link.QTxFrames) != 72 || r.Ports[0].C[link.PauseTx] != uint64(1+len(list)) {
			t.Errorf("%d dropped, %d sent, %d pauses", r.Ports[1].C.Drops(), r.stat(1, 4, link.QTxFrames), r.Ports[0].C[link.PauseTx])
		}
	}
}

// Each ingress port is stopped for what came in by it only, and nothing stops other classes.
func TestPFCStopsTheCulprit(t *testing.T) {
	r := newRig(t, plan(), 400*gig, gig, 400*gig)
	r.send(10, pkt{from: 2, to: 1, size: 1000, dscp: dscpRoCE})
	r.send(60, pkt{from: 0, to: 1, size: 1000, dscp: dscpRoCE})
	r.send(60, pkt{from: 2, to: 1, size: 1000, dscp: dscpData})
	if a, _ := r.pauses(t, 0); len(a) != 1 {
		t.Errorf("the culprit got %d PFC frames", len(a))
	}
	if b, _ := r.pauses(t, 2); len(b) != 0 {
		t.Errorf("a port within its thresholds got %d PFC frames", len(b))
	}
}

// PFC-02 within one switch: with the headroom that the pause's way takes nothing lossless is lost; with less it is, and counted. The
// sender goes on for what was under way when the pause reaches it.
func TestPFC02_HeadroomAtOneSwitch(t *testing.T) {
	for _, c := range []struct {
		headroom int64
		lossless bool
	}{{60_000, true}, {10_000, false}} {
		set := plan()
		set.PFC.Headroom = c.headroom
		r := newRig(t, set, 400*gig, 40*gig, 400*gig, 400*gig)
		var sent uint64
		stopped := [4]vt.Time{}
		for r.Now() < 1_000_000 {
			for _, from := range []int{0, 2, 3} {
				if r.Now() >= stopped[from] {
					r.send(1, pkt{from: from, to: 1, size: 4000, dscp: dscpRoCE})
					sent++
				}
				list, at := r.pauses(t, from)
				for i, p := range list {
					stopped[from] = at[i].Add(500) // its last frame is 500 ns on the way
					if p.Quanta[4] != 0 {
						stopped[from] = vt.Never
					}
				}
				if stopped[from] == vt.Never && r.s.buf.in[from][4].paused && len(list) > 0 {
					for range 12 { // 1 us at 400 Gb/s: propagation both ways
						r.send(1, pkt{from: from, to: 1, size: 4000, dscp: dscpRoCE})
						sent++
					}
				}
			}
			r.wait(80)
		}
		r.drain()
		lost := r.Ports[1].C.Drops()
		if (lost == 0) != c.lossless || lost != r.stat(1, 4, link.QDrop) || r.stat(1, 4, link.QTxFrames)+lost != sent {
			t.Errorf("headroom %d: %d of %d lost, %d sent on", c.headroom, lost, sent, r.stat(1, 4, link.QTxFrames))
		}
		var counted uint64
		for _, p := range r.s.Status(r.Now()).PFC {
			counted += p.Lost
		}
		if counted != lost {
			t.Errorf("%d counted as beyond the headroom, %d lost", counted, lost)
		}
	}
}

// storm pauses priority 4 of port 1 without end until a time.
func (r *rig) storm(until vt.Time) {
	for r.Now() < until {
		r.pausePort(1, 4, 65535) // 84 us at 400 Gb/s
		r.wait(60 * time.Microsecond)
	}
}

// PFC-03: the watchdog fires on a pause storm of 200 ms, acts, restores and counts.
func TestPFC03_Watchdog(t *testing.T) {
	const ms = 1_000_000
	for _, action := range []string{ActionDrop, ActionForward, ActionAlert} {
		set := plan()
		set.PFC.Watchdog, set.PFC.Restore, set.PFC.Action = 200*time.Millisecond, 200*time.Millisecond, action
		r := newRig(t, set, 400*gig, 400*gig)
		r.pausePort(1, 4, 65535)
		r.send(40, pkt{to: 1, size: 1000, dscp: dscpRoCE})
		r.storm(199 * ms)
		if r.stat(1, 4, link.QWatchdog) != 0 || r.stat(1, 4, link.QBytes) != 40_000 {
			t.Fatalf("%s: fired early", action)
		}
		r.storm(201 * ms)
		if r.stat(1, 4, link.QWatchdog) != 1 || !r.s.dogs[1][4].active {
			t.Fatalf("%s: fired %d times", action, r.stat(1, 4, link.QWatchdog))
		}
		r.send(10, pkt{to: 1, size: 1000, dscp: dscpRoCE})
		r.storm(500 * ms) // goes on, so that nothing is restored
		lost, sent, waits := r.Ports[1].C[link.DropWatchdog], r.stat(1, 4, link.QTxFrames), r.stat(1, 4, link.QBytes)/1000
		want := map[string][3]uint64{ActionDrop: {50, 0, 0}, ActionForward: {0, 50, 0}, ActionAlert: {0, 0, 50}}[action]
		if [3]uint64{lost, sent, waits} != want || r.stat(1, 4, link.QWatchdogDrop) != lost {
			t.Errorf("%s: %d dropped, %d sent, %d wait; want %v", action, lost, sent, waits, want)
		}
		if !r.s.dogs[1][4].active {
			t.Errorf("%s: restored in the middle of the storm", action)
		}
		r.wait(500 * time.Millisecond) // silence
		if r.s.dogs[1][4].active {
			t.Errorf("%s: not restored", action)
		}
		r.send(5, pkt{to: 1, size: 1000, dscp: dscpRoCE})
		r.drain()
		if got := r.stat(1, 4, link.QTxFrames); got != 55-lost {
			t.Errorf("%s: %d sent in the end, want %d", action, got, 55-lost)
		}
		r.pausePort(1, 4, 65535)
		r.send(3, pkt{to: 1, size: 1000, dscp: dscpRoCE})
		if r.stat(1, 4, link.QBytes) != 3000 {
			t.Errorf("%s: a restored queue does not obey pauses", action)
		}
		r.drain()
		if r.stat(1, 4, link.QWatchdog) != 1 || r.s.buf.total != 0 {
			t.Errorf("%s: fired %d times, %d bytes still accounted", action, r.stat(1, 4, link.QWatchdog), r.s.buf.total)
		}
	}
}

// A queue that is paused most of the time but sends now and then is no storm; nor is an empty one.
func TestWatchdogSparesWorkingQueues(t *testing.T) {
	set := plan()
	set.PFC.Watchdog, set.PFC.Restore, set.PFC.Action = 10*time.Millisecond, 10*time.Millisecond, ActionDrop
	r := newRig(t, set, 400*gig, 400*gig)
	for range 20 {
		r.send(1, pkt{to: 1, size: 1000, dscp: dscpRoCE})
		r.storm(r.Now() + 5_000_000)
		r.pausePort(1, 4, 0)
	}
	r.storm(r.Now() + 100_000_000)
	if n := r.stat(1, 4, link.QWatchdog); n != 0 {
		t.Errorf("fired %d times", n)
	}
}

// A change of settings lets paused senders go when their class is no longer lossless, and stops them when it becomes so.
func TestConfigureSettlesPauses(t *testing.T) {
	set := plan()
	r := newRig(t, set, 400*gig, gig)
	r.send(70, pkt{to: 1, size: 1000, dscp: dscpRoCE})
	r.pauses(t, 0)
	lossy := set
	lossy.Queues[4].Lossless = false
	if err := r.s.Configure(r.Now(), lossy); err != nil {
		t.Fatal(err)
	}
	r.wait(time.Microsecond)
	if list, _ := r.pauses(t, 0); len(list) != 1 || list[0].Quanta[4] != 0 {
		t.Errorf("no longer lossless: %+v", list)
	}
	if err := r.s.Configure(r.Now(), set); err != nil {
		t.Fatal(err)
	}
	r.wait(time.Microsecond)
	if list, _ := r.pauses(t, 0); len(list) != 1 || list[0].Quanta[4] == 0 {
		t.Errorf("lossless again: %+v", list)
	}
	r.drain()
	if r.s.buf.total != 0 || r.s.buf.in[0][4].bytes != 0 || r.stat(1, 4, link.QTxFrames) != 70 {
		t.Errorf("%d bytes accounted, %d frames sent", r.s.buf.total, r.stat(1, 4, link.QTxFrames))
	}
}

// TestPFCOfShortPausesLeavesTheLine pauses a sender for a millisecond with the shortest quanta and over a slow line: the PFC frames
// take a small part of it, and none is left behind.
func TestPFCOfShortPausesLeavesTheLine(t *testing.T) {
	for _, c := range []struct {
		quanta uint16
		rate   float64
	}{{1, 1}, {1, 0.001}, {65535, 1e-5}} {
		set := plan()
		set.PFC.Quanta = c.quanta
		r := newRig(t, set, 400e9, 10e9)
		r.pausePort(1, 4, 65535) // what comes stays
		r.Ports[0].SetImpair(r.Now(), link.Impair{Rate: c.rate})
		r.send(20, pkt{from: 0, to: 1, size: 4000, dscp: dscpRoCE})
		r.wait(time.Millisecond)
		sent, line := len(r.got(0)), time.Duration(link.LinePs(60, r.Ports[0].Rate())/1000)
		if most := int(time.Millisecond/line)/16 + 2; sent < 1 || sent > most || r.Ports[0].C[link.PauseTx] > uint64(sent)+1 {
			t.Errorf("quanta %d, rate %v: %d PFC frames sent of %d, at most %d fit", c.quanta, c.rate, sent, r.Ports[0].C[link.PauseTx], most)
		}
	}
}
