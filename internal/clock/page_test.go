package clock

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"testing"
	"unsafe"

	"github.com/uetlab/uetlab/internal/vt"
)

// pages makes the pages of a lab of n nodes, and maps the clock page for its writer and for a reader.
func pages(t testing.TB, n int) (dir string, write, read *ClockPage) {
	t.Helper()
	dir = t.TempDir()
	write, err := Create(dir, n)
	if err != nil {
		t.Fatal(err)
	}
	if read, err = OpenClock(dir, false); err != nil {
		t.Fatal(err)
	}
	if unsafe.Pointer(write) == unsafe.Pointer(read) {
		t.Fatal("one mapping: the test is of no use")
	}
	return dir, write, read
}

func TestSegmentsArriveWhole(t *testing.T) {
	_, w, r := pages(t, 1)
	if s, ok := r.Read(); !ok || s.Flags != Rest || s.Seq != 1 {
		t.Errorf("a fresh page has %+v", s)
	}
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	for i := range 100 {
		s := Segment{Limit: vt.Time(rng.Int64()), Jump: vt.Time(rng.Int64()), Flags: rng.Uint64(), K: rng.Uint64(), Wall0: -rng.Int64(), Virt0: vt.Time(-rng.Int64())}
		s.Seq = w.Write(s)
		if got, ok := r.Read(); !ok || got != s || s.Seq != uint64(i+2) {
			t.Fatalf("seed %d: got %+v, want %+v", seed, got, s)
		}
	}
}

// TestEveryFieldOfASegmentIsCarried fills a segment's fields with different values, whatever fields it has.
func TestEveryFieldOfASegmentIsCarried(t *testing.T) {
	_, w, r := pages(t, 1)
	var s Segment
	v := reflect.ValueOf(&s).Elem()
	for i := range v.NumField() {
		if f := v.Field(i); f.CanUint() {
			f.SetUint(uint64(100 + i))
		} else {
			f.SetInt(int64(100 + i))
		}
	}
	s.Seq = w.Write(s)
	if got, ok := r.Read(); !ok || got != s {
		t.Errorf("got %+v, want %+v", got, s)
	}
}

// TestReadersNeverSeeHalfASegment reads while another goroutine writes as fast as it can: every segment that counts is one
// that was written, and their order is that of writing.
func TestReadersNeverSeeHalfASegment(t *testing.T) {
	_, w, r := pages(t, 1)
	const writes = 300_000
	first := w.Write(Segment{}) + 1
	var wg sync.WaitGroup
	wg.Add(1)
	go func() { // ends after its writes
		defer wg.Done()
		for i := range uint64(writes) {
			n := int64(first + i)
			w.Write(Segment{Limit: vt.Time(n), Jump: vt.Time(n), Flags: uint64(n), K: uint64(n), Wall0: n, Virt0: vt.Time(n)})
		}
	}()
	whole, last := 0, first-1
	for last < first+writes-1 {
		s, ok := r.Read()
		if !ok || s.Seq < first {
			continue
		}
		n := int64(s.Seq)
		if want := (Segment{s.Seq, vt.Time(n), vt.Time(n), uint64(n), uint64(n), n, vt.Time(n)}); s != want || s.Seq < last {
			t.Fatalf("after segment %d: %+v", last, s)
		}
		last = s.Seq
		whole++
	}
	wg.Wait()
	if whole == 0 {
		t.Error("nothing was read")
	}
}

func TestDeadNodes(t *testing.T) {
	_, w, r := pages(t, 1)
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	dead := map[int]bool{}
	for range 2000 {
		id := rng.IntN(MaxNodes)
		dead[id] = rng.IntN(3) > 0
		w.SetDead(id, dead[id])
	}
	for id := range MaxNodes {
		if r.Dead(id) != dead[id] {
			t.Fatalf("seed %d: node %d: dead %v", seed, id, r.Dead(id))
		}
	}
}

func TestNodePageIsSeenByOthers(t *testing.T) {
	dir, _, _ := pages(t, 3)
	w, err := OpenNode(dir, 2, true)
	if err != nil {
		t.Fatal(err)
	}
	r, err := OpenNode(dir, 2, false)
	if err != nil {
		t.Fatal(err)
	}
	other, err := OpenNode(dir, 1, false)
	if err != nil {
		t.Fatal(err)
	}
	w.Horizon.Store(-5)
	w.Seq.Add(1)
	w.Sent[MaxPorts-1].Store(7)
	w.Taken[0].Store(8)
	w.Ports[MaxPorts-1][0].Store(9)
	w.FEP[MaxFEP-1].Store(math.MaxUint64)
	w.Fault.Store(uint64(FaultLate))
	if r.Horizon.Load() != -5 || r.Seq.Load() != 1 || r.Sent[MaxPorts-1].Load() != 7 || r.Taken[0].Load() != 8 || r.Ports[MaxPorts-1][0].Load() != 9 ||
		r.FEP[MaxFEP-1].Load() != math.MaxUint64 || Fault(r.Fault.Load()) != FaultLate {
		t.Error("a reader sees other values than were written")
	}
	if other.Horizon.Load() != 0 || other.Seq.Load() != 0 {
		t.Error("another node's page has changed")
	}
	w.Reset(1234)
	if r.Horizon.Load() != 1234 || r.Sent[MaxPorts-1].Load() != 0 || r.Taken[0].Load() != 0 || r.Fault.Load() != 0 || vt.Time(r.Next.Load()) != vt.Never {
		t.Error("Reset leaves something")
	}
	again, err := OpenNode(dir, 2, true) // the node was started anew: what it counted stays until it joins
	if err != nil || again.FEP[MaxFEP-1].Load() != math.MaxUint64 {
		t.Errorf("opened again: %v", err)
	}
}

// TestResetEndsASweep: a node that is killed in the middle of a sweep leaves its page odd. The one that takes its place
// must not sweep with the parity turned round, or its sweeps would look like rest to the daemon.
func TestResetEndsASweep(t *testing.T) {
	dir, _, _ := pages(t, 1)
	n, err := OpenNode(dir, 0, true)
	if err != nil {
		t.Fatal(err)
	}
	for seq, want := range map[uint64]uint64{0: 0, 7: 8, 8: 8} {
		n.Seq.Store(seq)
		n.Reset(5)
		if got := n.Seq.Load(); got != want {
			t.Errorf("reset at %d: %d, want %d", seq, got, want)
		}
	}
}

func TestWrongFiles(t *testing.T) {
	if _, err := Create(t.TempDir(), MaxNodes+1); err == nil {
		t.Error("too many nodes are taken")
	}
	dir, w, _ := pages(t, 1)
	w.Write(Segment{Limit: 99})
	if err := os.WriteFile(NodeFile(dir, 0), make([]byte, 100), 0o600); err != nil {
		t.Fatal(err)
	}
	open := func(name string, f func() error, want bool) {
		t.Helper()
		if err := f(); (err == nil) != want {
			t.Errorf("%s: error %v", name, err)
		}
	}
	clock := func(write bool) func() error { return func() error { _, err := OpenClock(dir, write); return err } }
	node := func(id int) func() error { return func() error { _, err := OpenNode(dir, id, false); return err } }
	open("clock, to read", clock(false), true)
	open("clock, to write", clock(true), true)
	open("short page", node(0), false)
	open("no page", node(1), false)
	for name, b := range map[string][]byte{"empty": nil, "short": make([]byte, clockLen-1), "no magic": make([]byte, clockLen), "another magic": append([]byte("uetlab, another version"), make([]byte, clockLen)...)} {
		if err := os.WriteFile(ClockFile(dir)+".new", b, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(ClockFile(dir)+".new", ClockFile(dir)); err != nil {
			t.Fatal(err)
		}
		open(name, clock(false), false)
		open(name, clock(true), false)
	}
	if err := os.RemoveAll(filepath.Join(dir, "pages")); err != nil {
		t.Fatal(err)
	}
	open("no clock", clock(false), false)
	if s, ok := w.Read(); !ok || s.Limit != 99 {
		t.Error("a mapping has to outlive its file")
	}
}

// TestManyOpenAtOnce maps pages from many goroutines while the writer goes on, as the nodes of a lab do when it comes up.
func TestManyOpenAtOnce(t *testing.T) {
	const n = 32
	dir, w, _ := pages(t, n)
	errs := make(chan error, n)
	for id := range n {
		go func() { // ends after one look
			own, err := OpenNode(dir, id, true)
			if err == nil {
				_, err = OpenClock(dir, false)
			}
			if err == nil {
				own.Horizon.Store(int64(id) + 1)
			}
			errs <- err
		}()
		w.Write(Segment{Limit: vt.Time(id)})
		w.Bell[id].Add(1)
	}
	for range n {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	for id := range n {
		p, err := OpenNode(dir, id, false)
		if err != nil || p.Horizon.Load() != int64(id)+1 {
			t.Errorf("node %d: %v", id, err)
		}
	}
}

func TestFaultsHaveNames(t *testing.T) {
	seen := map[string]bool{}
	for f := FaultNone; f <= FaultLate+1; f++ { // a page may hold anything
		if s := f.String(); s == "" || seen[s] {
			t.Errorf("fault %d: %q", f, s)
		}
		seen[f.String()] = true
	}
}

func TestWallGoesForward(t *testing.T) {
	a := NewWall()
	last := a.Now()
	for range 1000 {
		now := a.Now()
		if now < last {
			t.Fatalf("from %d back to %d", last, now)
		}
		last = now
	}
	// NewWall reads two clocks one after the other: it is off by as long as it was interrupted in between, so the best of some counts.
	best := int64(math.MaxInt64)
	for range 1000 {
		b := NewWall()
		before, now, after := a.Now(), b.Now(), a.Now()
		best = min(best, max(before-now, now-after, 0))
	}
	if best > 1e6 {
		t.Errorf("two clocks of one machine differ by %d ns", best)
	}
}

func BenchmarkRead(b *testing.B) {
	_, w, r := pages(b, 1)
	w.Write(Segment{Limit: 5})
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := r.Read(); !ok {
			b.Fatal("not read")
		}
	}
}

func TestNodesAreCounted(t *testing.T) {
	dir := t.TempDir()
	if _, err := Nodes(dir); err == nil {
		t.Error("pages where there are none")
	}
	if _, err := Create(dir, 3); err != nil {
		t.Fatal(err)
	}
	if n, err := Nodes(dir); n != 3 || err != nil {
		t.Errorf("%d nodes, %v", n, err)
	}
}
