package workload

import (
	"errors"
	"math/bits"
	"strings"
	"testing"
	"time"

	"github.com/uetlab/uetlab/internal/vt"
)

// sentTotal is what all ranks together send per iteration (workloads.md 3.1).
func sentTotal(s Spec) int64 {
	n, v := int64(s.Ranks), s.vector()
	switch {
	case s.Workload == Allreduce && s.Algo == AlgoRD:
		pow := int64(1) << (bits.Len64(uint64(n)) - 1)
		return v * (pow*int64(bits.TrailingZeros64(uint64(pow))) + 2*(n-pow))
	case s.Workload == Allreduce:
		return 2 * v * (n - 1)
	case s.Workload == Allgather, s.Workload == Alltoall, s.Workload == Broadcast, s.Workload == Incast:
		return v * (n - 1)
	}
	return v * n
}

func elements(s Spec, n int64) int64 { return (n + element - 1) / element }

// TestRuns drives every workload over a network that delays and reorders, and asks for the data, for the bytes that the
// formulas name, and for order: no send without a receive (the network complains itself).
func TestRuns(t *testing.T) {
	for _, v := range variants() {
		for ranks := 2; ranks <= 9; ranks++ {
			for k, size := range []int64{0, 1, 7, 4096, 100003} {
				s := v
				s.Ranks, s.Size, s.Iters, s.Check, s.Seed = ranks, size, 3, true, uint64(ranks*10+k)
				t.Run(label(s), func(t *testing.T) { checkRun(t, s) })
			}
		}
	}
}

func checkRun(t *testing.T, s Spec) {
	seed := s.Seed * 7
	n, run := newNetwork(t, s, seed)
	results := run()
	if len(results) != s.Ranks {
		t.Fatalf("network seed %d: %d of %d ranks finished", seed, len(results), s.Ranks)
	}
	var sent, counted, checked int64
	for i, r := range results {
		if r.Error != "" || r.Wrong != 0 || len(r.Iterations) != s.Iters {
			t.Errorf("network seed %d: %+v", seed, r)
		}
		for j, sp := range r.Iterations {
			if sp.EndNs < sp.StartNs || j > 0 && sp.StartNs < r.Iterations[j-1].EndNs || sp.AckedNs > sp.EndNs {
				t.Errorf("rank %d: iterations out of order: %+v", r.Rank, r.Iterations)
			}
			if s.Guard > 0 && sp.StartNs != results[0].Iterations[j].StartNs {
				t.Errorf("rank %d starts iteration %d at %d, rank %d at %d", r.Rank, j, sp.StartNs,
					results[0].Rank, results[0].Iterations[j].StartNs)
			}
		}
		if done, total := n.ranks[i].Progress(); done != total {
			t.Errorf("rank %d: progress %d of %d", i, done, total)
		}
		sent += r.SentBytes
		counted += n.sent[i]
		checked += r.Checked
	}
	if want := sentTotal(s) * int64(s.Iters); sent != want || counted != want {
		t.Errorf("ranks report %d bytes sent, the network saw %d, the formula says %d", sent, counted, want)
	}
	if s.Size > 0 && checked < elements(s, s.Size)*int64(s.Iters) {
		t.Errorf("only %d elements were checked", checked)
	}
	for i, ep := range n.eps {
		if len(ep.recvs) != 0 {
			t.Errorf("rank %d leaves %d receives behind", i, len(ep.recvs))
		}
	}
}

// TestRanksSendEqually pins the sent bytes of single ranks where ranks divide the size.
func TestRanksSendEqually(t *testing.T) {
	for w, want := range map[string]int64{Allreduce: 2 * 4096 * 7 / 8, Allgather: 4096 * 7 / 8, Alltoall: 4096 * 7 / 8,
		Permutation: 4096, Sendrecv: 4096} {
		_, run := newNetwork(t, Spec{Workload: w, Ranks: 8, Size: 4096, Iters: 1}, 3)
		for _, r := range run() {
			if r.SentBytes != want {
				t.Errorf("%s: rank %d sent %d bytes, want %d", w, r.Rank, r.SentBytes, want)
			}
		}
	}
}

func TestWindow(t *testing.T) {
	for _, w := range []int{1, 3, 100} {
		n, run := newNetwork(t, Spec{Workload: Alltoall, Ranks: 9, Size: 900, Iters: 2, Window: w}, 5)
		run()
		if n.window != min(w, 8) {
			t.Errorf("window %d: %d sends under way", w, n.window)
		}
	}
}

// TestCorruptionShows flips one bit on one pair's messages.
func TestCorruptionShows(t *testing.T) {
	for _, v := range variants() {
		s := v
		s.Ranks, s.Size, s.Iters, s.Check = 5, 4099, 3, true
		n, run := newNetwork(t, s, 11)
		spoilt := false
		n.spoil = func(_, _ int, b []byte) {
			if len(b) > stampBytes && !spoilt {
				b[len(b)/2] ^= 0x10
				spoilt = true
			}
		}
		var wrong int64
		results := run()
		for _, r := range results {
			wrong += r.Wrong
		}
		if wrong == 0 {
			t.Errorf("%s: a flipped bit was not noticed", label(s))
		}
		if c := Summarize(s, results, Totals{}, nil).Correct; c == nil || *c {
			t.Errorf("%s: correct = %v", label(s), c)
		}
	}
}

// TestPatternsDiffer sees to it that data of another rank, iteration, part or place is not taken for right.
func TestPatternsDiffer(t *testing.T) {
	for _, typ := range []string{Uint32, Float32} {
		s := Spec{Workload: Allreduce, Ranks: 20, Size: 4096, Iters: 1, Type: typ}
		right := s.pattern(0, block{sum: true})
		b := make([]byte, 4096)
		right.write(b, 0)
		if wrong, all := right.compare(b, 0); wrong != 0 || all != 1024 {
			t.Fatalf("%s: %d of %d wrong", typ, wrong, all)
		}
		if wrong, _ := right.compare(b, 1); wrong < 900 && typ == Uint32 || wrong < 500 {
			t.Errorf("%s: only %d elements differ when shifted by one", typ, wrong)
		}
		if wrong, _ := s.pattern(1, block{sum: true}).compare(b, 0); wrong < 500 {
			t.Errorf("%s: only %d elements differ from those of another iteration", typ, wrong)
		}
		for lost := range 20 { // rank lost+1 counted twice, rank lost not at all
			x := right
			a, d := s.pattern(0, block{from: lost}), s.pattern(0, block{from: (lost + 1) % 20})
			x.mul, x.add = x.mul-a.mul+d.mul, x.add-a.add+d.add
			if wrong, _ := x.compare(b, 0); wrong < 500 {
				t.Errorf("%s: a part of rank %d that is lost makes only %d elements wrong", typ, lost, wrong)
			}
		}
	}
	s := Spec{Workload: Permutation, Ranks: 4, Size: 4096, Iters: 1}
	b := make([]byte, 4096)
	s.pattern(0, block{from: 1, to: 2}).write(b, 0)
	for _, other := range []block{{from: 2, to: 1}, {from: 1, to: 3}, {from: 0, to: 2}} {
		if wrong, _ := s.pattern(0, other).compare(b, 0); wrong < 1000 {
			t.Errorf("%+v: only %d elements differ", other, wrong)
		}
	}
}

func TestFloatSumsAreExact(t *testing.T) {
	s := Spec{Workload: Allreduce, Ranks: MaxRanks, Size: 4, Iters: 1, Type: Float32}
	p := s.pattern(0, block{sum: true})
	if top := 15*uint64(p.mul) + uint64(p.add); top >= 1<<24 {
		t.Errorf("sums go up to %d: beyond what a float32 holds", top)
	}
}

func TestDerangement(t *testing.T) {
	for n := 2; n < 70; n++ {
		for seed := range uint64(20) {
			seen := make([]bool, n)
			for i, to := range derangement(seed, n) {
				if i == to || seen[to] {
					t.Fatalf("seed %d, n %d: rank %d to %d", seed, n, i, to)
				}
				seen[to] = true
			}
		}
	}
	count := map[[3]int]int{}
	for seed := range uint64(3000) { // 3 ranks have two derangements
		d := derangement(seed, 3)
		count[[3]int(d)]++
	}
	if len(count) != 2 || count[[3]int{1, 2, 0}] < 1300 || count[[3]int{2, 0, 1}] < 1300 {
		t.Errorf("derangements of 3 are not drawn alike: %v", count)
	}
}

func TestFailures(t *testing.T) {
	s := Spec{Workload: Allreduce, Ranks: 4, Size: 4096, Iters: 3}
	n, run := newNetwork(t, s, 1)
	n.fail = func(src, dst int) error {
		if src == 2 {
			return errors.New("the peer is gone")
		}
		return nil
	}
	results := run()
	if len(results) != 1 || results[0].Rank != 2 ||
		!strings.HasPrefix(results[0].Error, "rank 2: iteration 0, send to rank 3: the peer is gone") {
		t.Errorf("%+v", results)
	}
	if r := Summarize(s, results, Totals{}, nil); r.OK() || r.Correct == nil || *r.Correct {
		t.Errorf("a failed run passes: %+v", r)
	}

	calls := 0
	r, err := NewRank(s, 0, refusing{}, func(RankResult) { calls++ })
	if err != nil {
		t.Fatal(err)
	}
	r.Start(5)
	r.Complete(6, Done{})
	if calls != 1 || !strings.Contains(r.res.Error, "receive from rank 3: no more room") {
		t.Errorf("%d calls, %q", calls, r.res.Error)
	}

	calls = 0
	r, err = NewRank(s, 0, accepting{}, func(RankResult) { calls++ })
	if err != nil {
		t.Fatal(err)
	}
	r.Start(5)
	r.Complete(6, Done{Ctx: pack(ctxOp, 0, 1), Len: 3})
	if calls != 1 || !strings.Contains(r.res.Error, "3 bytes arrived, 1024 were expected") {
		t.Errorf("%d calls, %q", calls, r.res.Error)
	}
	if _, err := NewRank(s, 4, accepting{}, nil); err == nil {
		t.Error("rank 4 of 4 is accepted")
	}
	if _, err := NewRank(Spec{}, 0, accepting{}, nil); err == nil {
		t.Error("an empty spec is accepted")
	}
}

// TestLateGuard: when the barrier takes longer than the guard, ranks begin as they leave it, and all is still right.
func TestLateGuard(t *testing.T) {
	s := Spec{Workload: Alltoall, Ranks: 7, Size: 777, Iters: 5, Check: true, Guard: 300 * time.Nanosecond}
	_, run := newNetwork(t, s, 9)
	results := run()
	if len(results) != 7 {
		t.Fatalf("%d ranks finished", len(results))
	}
	for _, r := range results {
		if r.Error != "" || r.Wrong > 0 {
			t.Errorf("%+v", r)
		}
	}
}

// TestSteadyStateAllocatesNothing plays two ranks by hand.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	s := Spec{Workload: Allreduce, Ranks: 2, Size: 64, Iters: 3000, Check: true}
	wire := &pair{}
	for i := range 2 {
		r, err := NewRank(s, i, &side{wire, i}, nil)
		if err != nil {
			t.Fatal(err)
		}
		wire.ranks[i] = r
	}
	wire.ranks[0].Start(0)
	wire.ranks[1].Start(0)
	wire.run(4000)
	if got := testing.AllocsPerRun(100, func() { wire.run(20) }); got > 0 {
		t.Errorf("%v allocations in 20 completions", got)
	}
	if n := len(wire.ranks[0].res.Iterations); n < 200 || n == s.Iters {
		t.Errorf("%d iterations were played", n)
	}
	if wire.ranks[0].res.Wrong > 0 {
		t.Error("wrong data")
	}
}

// pair is two end points that deliver in order, without allocating.
type pair struct {
	ranks [2]*Rank
	recvs [2][16]struct {
		posted
		tag uint64
	}
	q [64]struct {
		to  int
		tag uint64
		ctx uint64
		buf []byte
	}
	head, tail int
	now        vt.Time
}

type side struct {
	*pair
	me int
}

func (p *pair) run(n int) {
	for ; n > 0 && p.head != p.tail; n-- {
		m := p.q[p.head%len(p.q)]
		p.head++
		p.now++
		for i := range p.recvs[m.to] {
			r := &p.recvs[m.to][i]
			if r.buf == nil || r.tag != m.tag {
				continue
			}
			copy(r.buf, m.buf)
			r.buf = nil
			p.ranks[m.to].Complete(p.now, Done{Ctx: r.ctx, Len: len(m.buf)})
			break
		}
		p.ranks[1-m.to].Complete(p.now, Done{Ctx: m.ctx})
	}
}

func (s *side) TagSend(_ vt.Time, dst int, buf []byte, tag, ctx uint64) error {
	m := &s.q[s.tail%len(s.q)]
	m.to, m.tag, m.ctx, m.buf = dst, tag, ctx, buf
	s.tail++
	return nil
}

func (s *side) TagRecv(_ vt.Time, _ int, buf []byte, tag, ctx uint64) error {
	for i := range s.recvs[s.me] {
		if r := &s.recvs[s.me][i]; r.buf == nil {
			r.buf, r.ctx, r.tag = buf, ctx, tag
			return nil
		}
	}
	return errors.New("no room")
}

func (*side) Write(vt.Time, int, []byte, uint64, uint64, uint64) error { return errors.ErrUnsupported }
func (*side) Register([]byte) uint64                                   { return 0 }

type refusing struct{ accepting }

func (refusing) TagRecv(vt.Time, int, []byte, uint64, uint64) error {
	return errors.New("no more room")
}

type accepting struct{}

func (accepting) TagSend(vt.Time, int, []byte, uint64, uint64) error       { return nil }
func (accepting) TagRecv(vt.Time, int, []byte, uint64, uint64) error       { return nil }
func (accepting) Write(vt.Time, int, []byte, uint64, uint64, uint64) error { return nil }
func (accepting) Register([]byte) uint64                                   { return 0 }
