package nodeproc

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/uetlab/uetlab/internal/clock"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// TestRealTimeSendsDataFirst lets data overtake control packets in small batches, and nothing else overtake anything.
func TestRealTimeSendsDataFirst(t *testing.T) {
	const data, control = 10, 46
	for name, c := range map[string]struct {
		control uint8
		in, out []uint8 // DSCPs; a place number is added where order is to be seen
	}{
		"an ACK and data":    {control, []uint8{control, data}, []uint8{1, 0}},
		"data and an ACK":    {control, []uint8{data, control}, []uint8{0, 1}},
		"order stays":        {control, []uint8{control, data, control, data}, []uint8{1, 3, 0, 2}},
		"alone":              {control, []uint8{control}, []uint8{0}},
		"large":              {control, []uint8{control, data, data, data, data, data, data, data, data}, []uint8{0, 1, 2, 3, 4, 5, 6, 7, 8}},
		"not an end point's": {0, []uint8{control, data}, []uint8{0, 1}},
	} {
		for _, v6 := range []bool{false, true} {
			l := &loop{control: c.control}
			pool := link.NewPool(200)
			var frames []*link.Frame
			for _, dscp := range c.in {
				f := pool.Get()
				if v6 {
					f.B = append(f.B, make([]byte, 54)...)
					f.B[12], f.B[13] = 0x86, 0xDD
					wire.IPv6(f.B[14:]).SetDSCP(dscp)
					f.B[14] |= 0x60
				} else {
					f.B = append(f.B, make([]byte, 34)...)
					f.B[12], f.B[13], f.B[14] = 0x08, 0x00, 0x45
					f.B[15], f.B[17] = dscp<<2, 20
				}
				frames = append(frames, f)
				l.out = append(l.out, outgoing{0, f})
			}
			l.dataFirst()
			for i, want := range c.out {
				if l.out[i].f != frames[want] {
					t.Errorf("%s, IPv6 %v: another frame than number %d in place %d", name, v6, want, i)
				}
			}
		}
	}
}

// TestRealTimeLeavesTheFCSOut looks at frames as they leave: only one whose bits were flipped has an FCS.
func TestRealTimeLeavesTheFCSOut(t *testing.T) {
	r := newRig(t)
	for _, c := range []struct {
		flags uint64
		hurt  bool
		kind  uint8
		fcs   bool
	}{{clock.Real, false, wire.LLRNoFCS, false}, {clock.Real, true, wire.LLRPlain, true}, {0, false, wire.LLRPlain, true}} {
		r.clock(clock.Segment{Flags: c.flags, Limit: 1 << 60, Wall0: r.wall.Now()})
		f := r.node.Pool.Get()
		f.B = append(f.B, eth(1, 100)...)
		sum := wire.FCS(f.B)
		if c.hurt {
			f.FCS, f.Damaged = sum, true
			f.B[50] ^= 4
		}
		r.Transmit(0, f)
		r.flush()
		_, b := r.next(t)
		_, tr, ok := wire.SplitTrailer(b)
		if want := map[bool]uint32{true: sum}[c.fcs]; !ok || tr.LLRKind() != c.kind || tr.FCS != want || wire.FCSOK(b) == c.hurt {
			t.Errorf("%+v: %+v, FCS right %v, trailer %v", c, tr, wire.FCSOK(b), ok)
		}
	}
}

// next is the next frame at the far ends.
func (r *rig) next(t *testing.T) (int, []byte) {
	t.Helper()
	for range 2000 { // 20 s
		if port, b, ok := r.far.Next(); ok {
			b = append([]byte(nil), b...)
			r.far.Release()
			return port, b
		}
		_, _ = unix.Poll([]unix.PollFd{{Fd: int32(r.far.FD()), Events: unix.POLLIN}}, 10)
	}
	t.Fatal("no frame")
	return 0, nil
}

// TestRealTimeTellsBeforeItSleeps lets a node take a frame right after it has told of another: the page has the second one
// as soon as the node has nothing to do.
func TestRealTimeTellsBeforeItSleeps(t *testing.T) {
	r := newRig(t)
	r.clock(clock.Segment{Flags: clock.Real, Limit: 1 << 60, Wall0: r.wall.Now()})
	take := func(n byte) {
		t.Helper()
		r.send(0, n)
		for i := 0; !r.realtime(); i++ {
			if i > 1_000_000 {
				t.Fatal("no frame")
			}
		}
	}
	r.shown = -vt.Time(time.Hour)
	take(1)
	r.shown = vt.Time(time.Hour) // told a moment ago
	take(2)
	if r.page.Frames.Load() != 1 || r.page.Seq.Load()&1 != 1 {
		t.Errorf("%d frames in the page, sweep %d", r.page.Frames.Load(), r.page.Seq.Load())
	}
	r.node.SetTimer(vt.Time(r.wall.Now()-r.seg.Wall0).Add(50*time.Millisecond), 0) // else it would sleep for ever
	for i := 0; r.busy; i++ {
		if i > 10_000_000 {
			t.Fatal("it never sleeps")
		}
		if err := r.waitReal(); err != nil {
			t.Fatal(err)
		}
	}
	if r.page.Frames.Load() != 2 || r.page.Seq.Load()&1 != 0 {
		t.Errorf("%d frames in the page, sweep %d", r.page.Frames.Load(), r.page.Seq.Load())
	}
}

// TestSettleTakesOneProcessor binds nodes to processors where there are enough.
func TestSettleTakesOneProcessor(t *testing.T) {
	inNet(t) // the thread ends with the test
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil || all.Count() < 2 {
		t.Skip("needs two processors")
	}
	n := all.Count()
	seen := map[unix.CPUSet]bool{}
	for id := range n {
		var got unix.CPUSet
		l := &loop{id: id}
		l.settle(n)
		_ = unix.SchedGetaffinity(0, &got)
		_ = unix.SchedSetaffinity(0, &all)
		if got.Count() != 1 || seen[got] || l.spin == 0 {
			t.Errorf("node %d: %d processors, taken %v, spins %v", id, got.Count(), seen[got], l.spin)
		}
		seen[got] = true
	}
	var got unix.CPUSet
	l := &loop{id: n}
	l.settle(n + 1)
	if _ = unix.SchedGetaffinity(0, &got); got != all || l.spin != 0 {
		t.Errorf("more nodes than processors: %d of %d, spins %v", got.Count(), n, l.spin)
	}
}
