package workload

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/uetlab/uetlab/internal/vt"
)

// network joins fake end points in memory. Messages take a random time, so that they overtake each other;
// acknowledgements take another, at times a very long one. It refuses what the transport refuses: a send without a posted
// receive. It sees to it that nobody touches a buffer that is being sent.
type network struct {
	t      *testing.T
	rng    *rand.Rand
	q      vt.Queue[func(now vt.Time)]
	ranks  []*Rank
	eps    []*fake
	sent   []int64 // payload bytes of ops per rank
	early  int     // sends that met no receive
	spoil  func(src, dst int, b []byte)
	fail   func(src, dst int) error // completion error of a send
	now    vt.Time
	window int // most sends of one rank that were under way at once
}

type posted struct {
	buf []byte
	ctx uint64
}

type fake struct {
	n     *network
	me    int
	recvs map[[2]uint64]posted
	mem   map[uint64][]byte
	under int
}

// wakeful is a fake that is a Waker.
type wakeful struct{ *fake }

func (f wakeful) Wake(t vt.Time, ctx uint64) {
	if t < f.n.now {
		f.n.t.Errorf("wake at %v, %v is past", t, f.n.now)
	}
	f.n.q.Push(t, vt.ClassCall, 0, func(now vt.Time) { f.n.ranks[f.me].Complete(now, Done{Ctx: ctx}) })
}

func (n *network) delay() vt.Time {
	if n.rng.IntN(20) == 0 {
		return vt.Time(5000 + n.rng.IntN(20000))
	}
	return vt.Time(1 + n.rng.IntN(500))
}

func sum(b []byte) uint64 {
	h := fnv.New64a()
	h.Write(b)
	return h.Sum64()
}

func (n *network) at(t vt.Time, fn func(now vt.Time)) { n.q.Push(t, vt.ClassCall, 0, fn) }

// carry moves buf to dst by deliver, and completes it at the sender.
func (f *fake) carry(now vt.Time, dst int, buf []byte, ctx uint64, deliver func(now vt.Time, b []byte)) {
	n := f.n
	want := sum(buf)
	if kind, _, _ := unpack(ctx); kind == ctxOp {
		n.sent[f.me] += int64(len(buf))
		f.under++
		n.window = max(n.window, f.under)
	}
	n.at(now+n.delay(), func(now vt.Time) {
		b := bytes.Clone(buf)
		if n.spoil != nil {
			n.spoil(f.me, dst, b)
		}
		deliver(now, b)
		acked := now + n.delay()
		n.at(acked+vt.Time(n.rng.IntN(3)), func(now vt.Time) {
			if sum(buf) != want {
				n.t.Errorf("rank %d changed a buffer that it was sending to rank %d", f.me, dst)
			}
			if kind, _, _ := unpack(ctx); kind == ctxOp {
				f.under--
			}
			var err error
			if n.fail != nil {
				err = n.fail(f.me, dst)
			}
			n.ranks[f.me].Complete(now, Done{Ctx: ctx, Acked: acked, Err: err})
		})
	})
}

func (f *fake) TagSend(now vt.Time, dst int, buf []byte, tag, ctx uint64) error {
	if dst == f.me {
		return fmt.Errorf("rank %d sends to itself", f.me)
	}
	f.carry(now, dst, buf, ctx, func(now vt.Time, b []byte) {
		to := f.n.eps[dst]
		k := [2]uint64{uint64(f.me), tag}
		p, ok := to.recvs[k]
		if !ok {
			f.n.early++
			f.n.t.Errorf("rank %d to %d, tag %x: no receive is posted", f.me, dst, tag)
			return
		}
		delete(to.recvs, k)
		if len(b) > len(p.buf) {
			f.n.t.Errorf("rank %d to %d: %d bytes for a buffer of %d", f.me, dst, len(b), len(p.buf))
		}
		copy(p.buf, b)
		f.n.ranks[dst].Complete(now, Done{Ctx: p.ctx, Len: len(b)})
	})
	return nil
}

func (f *fake) TagRecv(_ vt.Time, src int, buf []byte, tag, ctx uint64) error {
	k := [2]uint64{uint64(src), tag}
	if _, ok := f.recvs[k]; ok {
		return fmt.Errorf("rank %d posts tag %x from %d twice", f.me, tag, src)
	}
	f.recvs[k] = posted{buf, ctx}
	return nil
}

func (f *fake) Write(now vt.Time, dst int, buf []byte, key, offset, ctx uint64) error {
	f.carry(now, dst, buf, ctx, func(_ vt.Time, b []byte) {
		mem, ok := f.n.eps[dst].mem[key]
		if !ok || offset+uint64(len(b)) > uint64(len(mem)) {
			f.n.t.Errorf("rank %d writes %d bytes at %d outside memory %d of rank %d", f.me, len(b), offset, key, dst)
			return
		}
		copy(mem[offset:], b)
	})
	return nil
}

func (f *fake) Register(buf []byte) uint64 {
	k := uint64(len(f.mem) + 100)
	f.mem[k] = buf
	return k
}

// newNetwork makes the ranks of a run on a network seeded with seed.
func newNetwork(t *testing.T, spec Spec, seed uint64) (*network, func() []RankResult) {
	t.Helper()
	n := &network{t: t, rng: rand.New(rand.NewPCG(seed, 1)), sent: make([]int64, spec.Ranks)}
	results := make([]RankResult, 0, spec.Ranks)
	for i := range spec.Ranks {
		f := &fake{n: n, me: i, recvs: map[[2]uint64]posted{}, mem: map[uint64][]byte{}}
		n.eps = append(n.eps, f)
		var ep Endpoint = f
		if spec.Guard > 0 {
			ep = wakeful{f}
		}
		r, err := NewRank(spec, i, ep, func(rr RankResult) { results = append(results, rr) })
		if err != nil {
			t.Fatal(err)
		}
		n.ranks = append(n.ranks, r)
	}
	return n, func() []RankResult {
		const t0 = 1000
		for _, r := range n.ranks {
			n.at(t0, r.Start)
		}
		for n.q.Len() > 0 {
			k, fn := n.q.Pop()
			n.now = k.T
			fn(k.T)
		}
		return results
	}
}

// variants are all workloads with their choices.
func variants() []Spec {
	return []Spec{
		{Workload: Allreduce}, {Workload: Allreduce, Type: Float32}, {Workload: Allreduce, Type: Int32, Algo: AlgoRD},
		{Workload: Allreduce, Algo: AlgoRD, Type: Float32}, {Workload: Allgather}, {Workload: Alltoall},
		{Workload: Alltoall, Window: 1}, {Workload: Broadcast}, {Workload: Broadcast, Root: 1}, {Workload: Permutation},
		{Workload: Permutation, Op: OpWrite}, {Workload: Incast}, {Workload: Incast, Root: 1, Op: OpWrite},
		{Workload: Sendrecv}, {Workload: Sendrecv, Op: OpWrite}, {Workload: Broadcast, Guard: 200 * time.Microsecond},
		{Workload: Incast, Op: OpWrite, Guard: 200 * time.Microsecond},
	}
}

func label(s Spec) string {
	return fmt.Sprintf("%s/%s%s%s/root%d/w%d/g%d/n%d/%dB", s.Workload, s.Algo, s.Op, s.Type, s.Root, s.Window, s.Guard, s.Ranks, s.Size)
}
