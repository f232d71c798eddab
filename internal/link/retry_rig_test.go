package link

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/uetlab/uetlab/internal/link/llr"
	"github.com/uetlab/uetlab/internal/vethtest"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// testLLR are the parameters that tests change.
func testLLR() llr.Config {
	return llr.Config{Frames: 128, Bytes: 256 << 10, ReplayTimer: 5 * time.Microsecond, ReplayCount: 3, PCSLost: 50 * time.Microsecond,
		Init: llr.BestEffort, Flush: llr.BestEffort, ReInit: true, AckEvery: 16 << 10, AckDelay: time.Microsecond}
}

// end is one of two ports back to back, and what has come of it.
type end struct {
	p   *Port
	got []uint32 // contents of the frames delivered
}

// line joins two ports and plays their nodes. What leaves a port passes meddle, which may drop it (nil), harm it or do it again. What is left
// of it crosses the line as octets with a link trailer, as nodes write and read them; with UETLAB_TEST_VETH=1 through a veth pair.
type line struct {
	t      testing.TB
	pool   *Pool
	q      vt.Queue[func(now vt.Time)]
	now    vt.Time
	ends   [2]*end
	sets   [2][32]int // ordered sets that left a port, by type
	words  []uint32   // LLR words that left port 0
	plain  int        // frames without one that left port 0, ordered sets left aside
	meddle func(from int, f *Frame) []*Frame
	keep   func(now vt.Time, to int, f *Frame)  // takes what was delivered, if not nil
	tap    func(from int, b []byte)             // sees the octets that have crossed the line, trailer and all, if not nil
	after  func()                               // is called after each event, if not nil
	left   func(from int, f *Frame, sent bool)  // sees what leaves a queue, if not nil
	tag    int                                  // goes with what is put on the line; left sets it
	came   func(to, tag int, f *Frame, ok bool) // sees what has come to a port, and whether it was delivered, if not nil
	bare   bool                                 // the ends are no lab nodes to each other: frames cross without trailer
	put    [2]uint64                            // frames that port has put on the line
	rx     [2]uint64                            // of those that came to a port undamaged before the preamble's end, the eligible ones
}

type lineHost struct {
	l    *line
	from int
}

func (h lineHost) TxFreeAt(_ int, t vt.Time) {
	h.l.q.Push(t, vt.ClassTxFree, h.from, h.l.ends[h.from].p.TxFree)
}

func (h lineHost) LinkTimerAt(_ int, t vt.Time) {
	h.l.q.Push(t, vt.ClassTimer, h.from, h.l.ends[h.from].p.LinkTimer)
}

func (h lineHost) Now() vt.Time { return h.l.now }

func (h lineHost) Transmit(_ int, f *Frame) {
	l := h.l
	if isSets(f.B) && !f.Damaged {
		b, err := wire.ParseCtlOSBundle(f.B[wire.EthLen:])
		if err != nil {
			l.t.Fatal(err)
		}
		for i := range b.Len() {
			l.sets[h.from][b.At(i).Type()]++
		}
	} else if h.from == 0 {
		if f.LLR != 0 {
			l.words = append(l.words, f.LLR)
		} else {
			l.plain++
		}
	}
	all := []*Frame{f}
	if l.meddle != nil {
		all = l.meddle(h.from, f)
	}
	to, tag := l.ends[1-h.from], l.tag
	for _, f := range all {
		f := l.cross(h.from, f)
		l.q.Push(f.Due, vt.ClassArrival, 1-h.from, func(now vt.Time) {
			if f.LLR>>28 == wire.LLREligible && f.Flip == 0 && !to.p.wasCut(f.Due) {
				l.rx[1-h.from]++
			}
			ok := to.p.Received(now, f)
			if l.came != nil {
				l.came(1-h.from, tag, f, ok)
			}
			if ok && l.keep != nil {
				l.keep(now, 1-h.from, f)
			} else if ok {
				to.got = append(to.got, binary.BigEndian.Uint32(f.B[34:]))
				f.Release()
			}
		})
	}
}

// cross takes a frame over the line from a port.
func (l *line) cross(from int, f *Frame) *Frame {
	l.put[from]++
	g := l.pool.Get()
	if l.bare {
		g.B, g.Due = append(g.B, vethtest.Cross(l.t, from, 1-from, f.B)...), f.Due
		if l.tap != nil {
			l.tap(from, g.B)
		}
		f.Release()
		return g
	}
	b := vethtest.Cross(l.t, from, 1-from, f.Encode(false))
	if l.tap != nil {
		l.tap(from, b)
	}
	if why, ok := g.Decode(b); !ok || g.Due != f.Due {
		l.t.Fatalf("a frame of %d bytes, due at %v, was read as one due at %v: %v", len(f.B), f.Due, g.Due, why)
	}
	f.Release()
	return g
}

func (h lineHost) NextFrame(vt.Time, int) *Frame { return nil }

func (h lineHost) Dequeued(_ vt.Time, _ int, f *Frame, sent bool) {
	if h.l.left != nil {
		h.l.left(h.from, f, sent)
	}
}

func drop(f *Frame) []*Frame { f.Release(); return nil }

func newLine(t testing.TB, cfg *llr.Config, delay time.Duration) *line {
	l := &line{t: t, pool: NewPool(9300)}
	for i := range 2 {
		c := Config{Rate: 400e9, Delay: delay, Queue: 1 << 30, MTU: 9000, Queued: true, Pool: l.pool, LLR: cfg, MAC: wire.MAC{2, 0, 0, 0, 0, byte(i)}}
		l.ends[i] = &end{p: NewPort(i, c, lineHost{l, i}, lineHost{l, i})}
		l.ends[i].p.Reset(rand.New(rand.NewPCG(uint64(i), 7)))
	}
	for i := range 2 {
		l.ends[i].p.Begin(0)
	}
	return l
}

// at schedules fn.
func (l *line) at(t vt.Time, fn func(now vt.Time)) { l.q.Push(t, vt.ClassChange, 0, fn) }

// run handles all events up to and including t.
func (l *line) run(t vt.Time) {
	for l.q.Next() <= t {
		k, fn := l.q.Pop()
		l.now = k.T
		fn(k.T)
		if l.after != nil {
			l.after()
		}
	}
	l.now = t
}

// frame makes an IPv4 frame of n bytes with a number in it; ARP where plain.
func (l *line) frame(id uint32, n int, plain bool) *Frame {
	f := l.pool.Get()
	f.B = f.B[:n]
	clear(f.B)
	f.B[12] = 0x08
	if plain {
		f.B[13] = 0x06
	} else {
		f.B[14] = 0x45
	}
	binary.BigEndian.PutUint32(f.B[34:], id)
	return f
}

// offer queues count frames of n bytes, numbered from first on, at port 0.
func (l *line) offer(first uint32, count, n int) {
	for i := range uint32(count) {
		l.ends[0].p.Offer(l.now, 0, l.frame(first+i, n, false))
	}
}

// c is a counter of port i.
func (l *line) c(i int, c llr.Counter) uint64 { return l.ends[i].p.C.LLR()[c] }

// begin sets the number of port 0's next frame, at both ends.
func (l *line) begin(seq uint32) {
	l.ends[0].p.llr.tx.Reset(seq, 1)
	l.ends[1].p.llr.rx.Reset(seq)
}

// want checks counters of port i.
func (l *line) want(i int, counts map[llr.Counter]uint64) {
	l.t.Helper()
	for c, n := range counts {
		if got := l.c(i, c); got != n {
			l.t.Errorf("port %d: %s is %d, not %d", i, c, got, n)
		}
	}
}

// whole checks that frames first to first+n-1 were delivered at port 1, once each and in order, and the identities of the counters.
func (l *line) whole(first uint32, n int) {
	l.t.Helper()
	got := l.ends[1].got
	if len(got) != n {
		l.t.Fatalf("%d frames delivered, not %d", len(got), n)
	}
	for i, id := range got {
		if id != first+uint32(i) {
			l.t.Fatalf("frame %d delivered as number %d", id, i)
		}
	}
	l.identities()
}

// identities checks those of uet-link-switch 2.10 at both ends, and that each frame that came to a port is counted once. Nothing is on the line.
func (l *line) identities() {
	l.t.Helper()
	for i := range 2 {
		all := l.c(i, llr.RxOK) + l.c(i, llr.RxPoisoned) + l.c(i, llr.RxBad)
		if by := l.c(i, llr.RxExpected) + l.c(i, llr.RxExpPoisoned) + l.c(i, llr.RxExpBad) + l.c(i, llr.RxMissing) + l.c(i, llr.RxDuplicate); by != all {
			l.t.Errorf("port %d: %d frames by FCS, %d by number", i, all, by)
		}
		if all != l.rx[i] {
			l.t.Errorf("port %d: %d eligible frames came, %d are counted", i, l.rx[i], all)
		}
		if n := l.ends[i].p.C.Arrived(); n != l.put[1-i] {
			l.t.Errorf("port %d: %d frames were put on the line to it, %d are counted", i, l.put[1-i], n)
		}
	}
}

// nth drops or harms the nth eligible frame of port 0 that is sent for the first time, counted from 1.
func nth(n int, do func(f *Frame) []*Frame) func(int, *Frame) []*Frame {
	seen := 0
	return func(from int, f *Frame) []*Frame {
		if from == 0 && f.LLR != 0 && f.LLR>>20&wire.LLRFlagReplay == 0 {
			if seen++; seen == n {
				return do(f)
			}
		}
		return []*Frame{f}
	}
}

// corrupt turns a bit of the frame's payload.
func corrupt(f *Frame) []*Frame {
	if !f.Damaged {
		f.FCS, f.Damaged = wire.FCS(f.B), true
	}
	f.B[50] ^= 4
	return []*Frame{f}
}

// answers drops the ordered sets of port 1 as long as that says so.
func answers(lost func(kind wire.CtlOSType) bool) func(int, *Frame) []*Frame {
	return func(from int, f *Frame) []*Frame {
		if from == 1 && isSets(f.B) && lost(wire.CtlOS(f.B[wire.EthLen:]).Type()) {
			return drop(f)
		}
		return []*Frame{f}
	}
}
