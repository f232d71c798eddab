package link

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// full keeps some queues of a port from running empty: for every frame that leaves, one of the same length follows. It counts
// what leaves, in bytes of line.
type full struct {
	r    *rig
	lens [NumQueues]func() int // nil: the queue is left alone
	line [NumQueues]int64
}

func (s *full) NextFrame(vt.Time, int) *Frame { return nil }

func (s *full) Dequeued(now vt.Time, port int, f *Frame, sent bool) {
	s.line[f.Queue] += int64(wire.LineBytes(len(f.B)))
	if q := int(f.Queue); s.lens[q] != nil && sent {
		s.r.p.Enqueue(now, q, s.r.frame(s.lens[q](), byte(q)))
	}
}

// newFull makes a port that is about to start.
func newFull(t testing.TB, cfg Config, services [NumQueues]Service, lens [NumQueues]func() int) *full {
	s := &full{lens: lens}
	s.r = newRig(t, cfg, s)
	s.r.p.Serve(services)
	for q, l := range lens {
		for range 2 {
			if l != nil {
				s.r.enqueueIn(q, l())
			}
		}
	}
	return s
}

func (r *rig) enqueueIn(q, n int) { r.p.Enqueue(r.now, q, r.frame(n, byte(q))) }

func always(n int) func() int { return func() int { return n } }

// TestQOS02_ControlWaitsForOneFrame: strict control never waits more than 1 MTU behind data. Control frames arrive at random
// in a port whose two data queues are never empty; the histogram of their waits is flat up to what a frame of full length
// takes on the line, and empty beyond. In a queue with data they wait longer.
func TestQOS02_ControlWaitsForOneFrame(t *testing.T) {
	const rate, mtu, frames = 100e9, 9000, 9000
	cfg := Config{Rate: rate, Delay: 500, MTU: mtu, Queued: true}
	longest := vt.Time(LinePs(mtu+wire.EthLen, rate)/1000) + 1
	for _, control := range []int{0, 5, 7} { // any queue can be strict
		var services [NumQueues]Service
		services[control].Strict = true
		services[1].Weight, services[2].Weight = 75, 25
		s := newFull(t, cfg, services, [NumQueues]func() int{1: always(mtu + wire.EthLen), 2: always(mtu + wire.EthLen)})
		rng := rand.New(rand.NewPCG(uint64(control), 2))
		var waits [10]int
		for range frames {
			s.r.to(s.r.now + 3*longest + vt.Time(rng.Int64N(int64(longest)))) // the control frame before has left
			n := 60 + rng.IntN(200)
			asked := s.r.now
			s.r.out = s.r.out[:0]
			s.r.enqueueIn(control, n)
			for len(s.r.out) == 0 || int(s.r.out[len(s.r.out)-1].id) != control {
				s.r.to(s.r.free[0])
			}
			wait := s.r.now - asked
			if wait > longest {
				t.Fatalf("queue %d: a control frame waits %v, the longest frame takes %v", control, wait, longest)
			}
			waits[wait*9/longest]++
		}
		for i, n := range waits[:9] {
			if n < frames/9*8/10 || n > frames/9*12/10 {
				t.Errorf("queue %d: wait histogram %v is not flat at %d", control, waits, i)
			}
		}
		s.r.out = s.r.out[:0]
		asked := s.r.now // among data, for comparison
		s.r.enqueueIn(1, 60)
		for len(s.r.out) == 0 || s.r.out[len(s.r.out)-1].n != 60 {
			s.r.to(s.r.free[0])
		}
		if shared := s.r.now - asked; shared < 2*longest {
			t.Errorf("behind data a control frame waits only %v: the port was not loaded", shared)
		}
	}
}

func TestStrictQueuesByNumber(t *testing.T) {
	r := newRig(t, Config{Rate: 1e9, MTU: 1500}, nil)
	r.p.Serve([NumQueues]Service{2: {Strict: true}, 5: {Strict: true}})
	for _, q := range []int{0, 1, 2, 5, 7, 2, 5} {
		r.enqueueIn(q, 1000)
	}
	r.p.EnqueuePause(0, r.frame(60, 99))
	r.to(1e9)
	ids := ""
	for _, s := range r.out {
		ids += fmt.Sprint(s.id, " ")
	}
	if ids != "0 99 5 5 2 2 1 7 " && ids != "0 99 5 5 2 2 7 1 " {
		t.Errorf("order %s", ids)
	}
	if r.p.C[PauseTx] != 1 || r.left != [2]int{0, 7} {
		t.Errorf("counters %v, %v left the queues", r.p.C, r.left)
	}
}

// TestControlAloneLeaves: MAC control that finds the line busy leaves as soon as it is free, though nothing else waits.
func TestControlAloneLeaves(t *testing.T) {
	r := newRig(t, Config{Rate: 1e9, MTU: 1500, Queued: true}, nil)
	r.enqueueIn(0, 976) // 8 µs
	r.to(10)
	r.p.EnqueuePause(r.now, r.frame(60, 99))
	r.to(1e6)
	if len(r.out) != 2 || r.out[1].at != 8000 || r.out[1].id != 99 {
		t.Errorf("%+v", r.out)
	}
}

// TestQOS03_SharesOfTheLine: deficit round robin divides the line by weight within 3 %, whatever the queues' frame lengths.
func TestQOS03_SharesOfTheLine(t *testing.T) {
	const mtu = 9000
	rng := rand.New(rand.NewPCG(3, 3))
	small, large := always(60), always(mtu+wire.EthLen) // 64 B and 9018 B with FCS
	mixed := func() int { return 60 + rng.IntN(mtu+wire.EthLen-60) }
	for _, c := range []struct {
		lens    [NumQueues]func() int
		weights [NumQueues]int
	}{
		{[NumQueues]func() int{0: small, 1: large}, [NumQueues]int{0: 1, 1: 1}},
		{[NumQueues]func() int{0: large, 1: small}, [NumQueues]int{}}, // 0 counts as 1
		{[NumQueues]func() int{1: large, 2: small}, [NumQueues]int{1: 75, 2: 25}},
		{[NumQueues]func() int{1: small, 2: large}, [NumQueues]int{1: 75, 2: 25}},
		{[NumQueues]func() int{1: large, 2: large}, [NumQueues]int{1: 97, 2: 3}},
		{[NumQueues]func() int{0: small, 7: large}, [NumQueues]int{0: 10, 7: 1}},
		{[NumQueues]func() int{0: small, 3: large, 6: mixed}, [NumQueues]int{0: 1, 3: 7, 6: 2}},
		{[NumQueues]func() int{mixed, small, large, mixed, small, large, mixed, small}, [NumQueues]int{1, 2, 3, 4, 5, 6, 7, 8}},
		{[NumQueues]func() int{0: large, 1: small}, [NumQueues]int{0: 1, 1: 1, 5: 100}}, // a weight that nobody uses
	} {
		var services [NumQueues]Service
		for q, w := range c.weights {
			services[q].Weight = w
		}
		s := newFull(t, Config{Rate: 400e9, MTU: mtu, Queued: true}, services, c.lens)
		s.r.mute = true
		s.r.to(800_000) // 40 MB of line
		all, weights := int64(0), 0
		for q, n := range s.line {
			if all += n; c.lens[q] != nil {
				weights += max(c.weights[q], 1)
			}
		}
		if all < 39e6 {
			t.Fatalf("weights %v: %d bytes of line", c.weights, all)
		}
		for q, n := range s.line {
			if c.lens[q] == nil {
				continue
			}
			want := float64(all) * float64(max(c.weights[q], 1)) / float64(weights)
			if got := float64(n); got < 0.97*want || got > 1.03*want {
				t.Errorf("weights %v: queue %d has %.0f bytes of line, its share is %.0f", c.weights, q, got, want)
			}
		}
	}
}

// TestRoundsAreShort: with the usual weights a queue of small frames that wakes up is served after at most a few frames of the
// others, not after a burst of as many as their weights.
func TestRoundsAreShort(t *testing.T) {
	s := newFull(t, Config{Rate: 400e9, MTU: 4096, Queued: true}, [NumQueues]Service{0: {Weight: 1}, 1: {Weight: 75}, 2: {Weight: 25}},
		[NumQueues]func() int{1: always(4110)})
	line := vt.Time(LinePs(4110, 400e9) / 1000)
	for i := range 1000 {
		s.r.to(s.r.now + 10*line + vt.Time(i)%line)
		asked := s.r.now
		s.r.out = s.r.out[:0]
		s.r.enqueueIn(2, 64)
		for len(s.r.out) == 0 || s.r.out[len(s.r.out)-1].id != 2 {
			s.r.to(s.r.free[0])
		}
		if wait := s.r.now - asked; wait > 3*line {
			t.Fatalf("a trimmed frame waits %v, a data frame takes %v", wait, line)
		}
	}
}

// TestUnusedShareIsNotSaved: a queue that was alone, or empty now and then, has no claim on the past.
func TestUnusedShareIsNotSaved(t *testing.T) {
	s := newFull(t, Config{Rate: 400e9, MTU: 4096, Queued: true}, [NumQueues]Service{}, [NumQueues]func() int{1: always(4110)})
	s.r.mute = true
	s.r.to(1_000_000) // alone for a long time
	s.lens[3] = s.lens[1]
	s.r.enqueueIn(3, 4110)
	s.r.enqueueIn(3, 4110)
	for range 1000 {
		s.r.enqueueIn(2, 60)
		s.r.to(s.r.now + 500) // it is gone
	}
	s.line = [NumQueues]int64{}
	s.lens[2] = always(60)
	s.r.enqueueIn(2, 60)
	s.r.enqueueIn(2, 60)
	s.r.to(s.r.now + 30_000)
	for _, q := range []int{1, 3} {
		if a, b := float64(s.line[q]), float64(s.line[2]); a/b > 1.02 || b/a > 1.02 {
			t.Errorf("%v bytes against %v", a, b)
		}
	}
}

// shy is a source that queues its frames when it is asked for one, and those of MAC control.
type shy struct {
	r    *rig
	left int
}

func (s *shy) Dequeued(now vt.Time, port int, f *Frame, sent bool) {}

func (s *shy) NextFrame(now vt.Time, port int) *Frame {
	if s.left == 0 {
		return nil
	}
	if s.left--; s.left%2 == 0 {
		s.r.p.EnqueuePause(now, s.r.frame(60, 9))
	} else {
		s.r.p.Enqueue(now, 3, s.r.frame(60, 3))
	}
	return nil
}

// TestSourceMayQueueInstead: what a source queues from within NextFrame leaves without another kick, one after the other.
func TestSourceMayQueueInstead(t *testing.T) {
	s := &shy{left: 10}
	s.r = newRig(t, Config{Rate: 84e9, MTU: 1500}, s)
	s.r.p.Kick(0)
	s.r.to(1e6)
	for i, x := range s.r.out {
		if x.at != vt.Time(8*i) || x.due != x.at+8 {
			t.Errorf("frame %d: %+v", i, x)
		}
	}
	if len(s.r.out) != 10 || s.r.pool.Out() != 0 {
		t.Errorf("%d frames left", len(s.r.out))
	}
}

// TestQOS04_DueStampsFollowTheRate: under load the due stamps of successive frames differ by exactly size on the wire / rate,
// and after 10^6 frames of random lengths and queues no error has added up: every stamp is the exact sum, rounded up to
// the nanosecond.
func TestQOS04_DueStampsFollowTheRate(t *testing.T) {
	const frames, delay = 1_000_000, 750
	for _, rate := range []int64{25e9, 100e9, 400e9, 800e9} {
		frames := frames // 10^6 at one rate
		if rate != 400e9 {
			frames /= 20
		}
		rng := rand.New(rand.NewPCG(uint64(rate), 4))
		mixed := func() int { return 14 + rng.IntN(9005) }
		s := newFull(t, Config{Rate: rate, Delay: delay, MTU: 9000, Queued: true}, [NumQueues]Service{3: {Strict: true}, 1: {Weight: 3}},
			[NumQueues]func() int{0: mixed, 1: always(9018), 2: mixed})
		bytes, n := int64(0), 0
		s.r.mute = true
		s.r.far = func(f *Frame) {
			bytes += int64(wire.LineBytes(len(f.B)))
			n++
			ps := bytes * (8_000_000_000_000 / rate) // exact: the rates divide
			if want := (ps+999)/1000 + delay; int64(f.Due) != want {
				t.Fatalf("rate %d: frame %d is due at %d, want %d", rate, n, f.Due, want)
			}
			f.Release()
		}
		s.r.out = nil
		s.r.p.Reset(rand.New(rand.NewPCG(1, 1))) // the frames that have begun before the count are no part of it
		s.r.free, s.r.now = nil, 0
		for q, l := range s.lens {
			if l != nil {
				s.r.enqueueIn(q, l())
				s.r.enqueueIn(q, l())
			}
		}
		for n < frames {
			s.r.to(s.r.free[0])
		}
	}
	even := newFull(t, Config{Rate: 400e9, Delay: delay, MTU: 9000, Queued: true}, [NumQueues]Service{}, [NumQueues]func() int{0: always(976)})
	even.r.to(1e6)
	for i, x := range even.r.out { // 1000 bytes with FCS, preamble and gap: 20 ns
		if x.due != vt.Time(20*(i+1)+delay) {
			t.Fatalf("frame %d of 1000 bytes of line is due at %v", i, x.due)
		}
	}
	if len(even.r.out) != 50_001 {
		t.Errorf("%d frames in 1 ms, the line carries 50000", len(even.r.out))
	}
	// A rate that divides nothing: each frame is rounded up to the picosecond, so that the error of 10^6 frames is below 1 µs.
	const odd = 399_999_999_989
	s := newFull(t, Config{Rate: odd, MTU: 9000, Queued: true}, [NumQueues]Service{}, [NumQueues]func() int{0: always(1000)})
	s.r.mute = true
	n, due := int64(0), vt.Time(0)
	s.r.far = func(f *Frame) { n, due = n+1, f.Due; f.Release() }
	for n < frames {
		s.r.to(s.r.free[0])
	}
	sum := new(big.Int).Mul(big.NewInt((n+1)*int64(wire.LineBytes(1000))*8), big.NewInt(1e9)) // one left before the count
	exact := vt.Time(sum.Div(sum, big.NewInt(odd)).Int64())
	if due < exact || due > exact+1001 {
		t.Errorf("after %d frames due %d, exactly %d", n+1, due, exact)
	}
}

// pfc makes a PFC frame, for a port to receive.
func (r *rig) pfc(enabled uint8, quanta uint16) *Frame {
	f := r.pool.Get()
	p := wire.Pause{Enabled: enabled}
	for i := range p.Quanta {
		p.Quanta[i] = quanta
	}
	f.B = wire.AppendPFC(f.B, wire.MAC{2}, &p)
	f.Due = r.now
	return f
}

func (r *rig) receive(f *Frame) bool { return r.p.Received(r.now, f) }

// TestPauseStopsOneQueue: the frame on the line ends, the queue sends nothing more until the very end of the quanta, and the
// others go on as if it were empty.
func TestPauseStopsOneQueue(t *testing.T) {
	for _, rate := range []int64{1e9, 25e9, 400e9, 3_333_333_333} {
		for _, quanta := range []uint16{1, 7, 1000, 65535} {
			r := newRig(t, Config{Rate: rate, MTU: 1500, Queued: true}, nil)
			for range 4 {
				r.enqueueIn(4, 1000) // the first one leaves at once
			}
			if r.receive(r.pfc(1<<4, quanta)) || r.p.Paused(0) != 1<<4 {
				t.Fatal("a PFC frame goes on to the core, or stops nothing")
			}
			r.enqueueIn(1, 500)
			r.to(vt.Never - 1)
			bits := new(big.Int).Mul(big.NewInt(int64(quanta)*wire.QuantumBits), big.NewInt(1e9))
			bits.Add(bits, big.NewInt(rate-1))
			end := vt.Time(bits.Div(bits, big.NewInt(rate)).Int64()) // rounded up to the nanosecond
			line := vt.Time((LinePs(1000, rate) + 999) / 1000)
			if len(r.out) != 5 || r.out[0].at != 0 || r.out[0].due != line {
				t.Fatalf("%+v", r.out)
			}
			if end > line && (r.out[1].id != 1 || r.out[1].at != line) {
				t.Errorf("rate %d, %d quanta: the other queue waits: %+v", rate, quanta, r.out)
			}
			resumed := r.out[1]
			if resumed.id == 1 {
				resumed = r.out[2]
			}
			busy := vt.Time((LinePs(1000, rate) + LinePs(500, rate) + 999) / 1000)
			if end > busy && resumed.at != end {
				t.Errorf("rate %d, %d quanta: the queue goes on at %v, its pause ends at %v", rate, quanta, resumed.at, end)
			}
			if r.p.Stats(4).C[QPaused] != 1 || r.p.C[PauseRx] != 1 || r.p.Paused(r.now) != 0 || r.pool.Out() != 0 {
				t.Errorf("counters %v, %v", r.p.Stats(4).C, r.p.C)
			}
			if got := r.p.PausedFor(r.now, 4); got != time.Duration(end) {
				t.Errorf("paused for %v, not %v", got, end)
			}
		}
	}
}

// TestPauseEndsAtXON: a pause ends at XON, is prolonged by another XOFF, and stops strict queues too; MAC control passes.
func TestPauseEndsAtXON(t *testing.T) {
	r := newRig(t, Config{Rate: 400e9, MTU: 1500, Queued: true}, nil)
	r.p.Serve([NumQueues]Service{3: {Strict: true}})
	r.receive(r.pfc(1<<3|1<<5, 1000)) // 1280 ns
	r.enqueueIn(3, 60)
	r.enqueueIn(5, 60)
	r.p.EnqueuePause(r.now, r.frame(60, 77))
	r.to(1000)
	if len(r.out) != 1 || r.out[0].id != 77 || r.p.QueueLen() != 2 {
		t.Fatalf("while paused: %+v", r.out)
	}
	r.receive(r.pfc(1<<3|1<<5, 1000)) // until 2280
	r.to(2000)
	if len(r.out) != 1 {
		t.Fatalf("the pause is not prolonged: %+v", r.out)
	}
	r.receive(r.pfc(1<<3, 0))
	if len(r.out) != 2 || r.out[1].at != 2000 || r.out[1].id != 3 || r.p.Paused(2000) != 1<<5 {
		t.Fatalf("XON at 2000: %+v", r.out)
	}
	r.to(2279)
	if len(r.out) != 2 {
		t.Fatalf("too early: %+v", r.out)
	}
	r.to(1e6)
	if len(r.out) != 3 || r.out[2].at != 2280 || r.out[2].id != 5 {
		t.Fatalf("after the pause: %+v", r.out)
	}
	if a, b := r.p.Stats(3).C[QPaused], r.p.Stats(5).C[QPaused]; a != 1 || b != 1 || r.p.C[PauseRx] != 3 || r.p.C[PauseTx] != 1 {
		t.Errorf("paused %d and %d times, %v", a, b, r.p.C)
	}
	if a, b := r.p.PausedFor(r.now, 3), r.p.PausedFor(r.now, 5); a != 2000 || b != 2280 {
		t.Errorf("paused for %d and %d ns", a, b)
	}
	b := wire.AppendEth(nil, wire.PFCDst, wire.MAC{2}, wire.EtherMACControl) // PAUSE stops all
	f := r.pool.Get()
	f.B = append(append(f.B, b...), 0, 1, 0, 100)
	f.B = append(f.B, make([]byte, 42)...)
	f.Due = r.now
	if r.receive(f) || r.p.Paused(r.now) != 0xFF {
		t.Errorf("PAUSE stops %08b", r.p.Paused(r.now))
	}
	r.p.IgnorePause(r.now, 1<<2)
	if r.enqueueIn(2, 60); len(r.out) != 4 {
		t.Error("a queue whose pause is ignored waits")
	}
}

// TestDepthHistogram queues frames of 128 bytes behind a paused queue: each finds 128 more than the one before.
func TestDepthHistogram(t *testing.T) {
	r := newRig(t, Config{Rate: 1e9, MTU: 9000, Queued: true}, nil)
	r.receive(r.pfc(1<<2, 65535))
	for range 4096 {
		r.enqueueIn(2, 128)
	}
	var want [DepthBuckets]uint64
	for i := range 4096 {
		found := int64(i) * 128
		b := 0
		for b < DepthBuckets-1 && (b == 0 && found > 0 || b > 0 && found >= 128<<b) {
			b++
		}
		want[b]++
	}
	if got := r.p.Stats(2).Depth; got != want || want[0] != 1 || want[1] != 1 || want[12] != 2048 {
		t.Errorf("histogram %v, want %v", got, want)
	}
	for range 10 {
		r.enqueueIn(2, 9000)
	}
	for range 1500 {
		r.enqueueIn(2, 9000)
	}
	if d := r.p.Stats(2).Depth; d[17] == 0 {
		t.Errorf("nothing in the last bucket: %v", d)
	}
	if st := r.p.Stats(2).C; st[QPeak] != st[QBytes] || st[QBytes] != uint64(4096*128+1510*9000) || r.p.QueueBytes(2) != int64(st[QBytes]) || r.p.Backlog() != int64(st[QBytes]) {
		t.Errorf("gauges %v", st)
	}
	r.p.Flush(r.now, 1<<2, DropWatchdog)
	if r.left != [2]int{5606, 0} || r.p.C[DropWatchdog] != 5606 || r.p.QueueLen() != 0 || r.p.Stats(2).C[QBytes] != 0 || r.pool.Out() != 0 {
		t.Errorf("flush: %v, %v", r.left, r.p.C)
	}
}
