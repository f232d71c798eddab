package match

import (
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
)

// seeds are the runs of the property test: UETLAB_MATCH_SEED repeats one, UETLAB_MATCH_SEEDS says how many.
func seeds(t *testing.T) (first, n uint64) {
	t.Helper()
	number := func(name string, otherwise uint64) uint64 {
		s := os.Getenv(name)
		if s == "" {
			return otherwise
		}
		v, err := strconv.ParseUint(s, 0, 64)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return v
	}
	if os.Getenv("UETLAB_MATCH_SEED") != "" {
		return number("UETLAB_MATCH_SEED", 0), 1
	}
	return 1, number("UETLAB_MATCH_SEEDS", 10_000)
}

// model is both queues as slices, searched from the front.
type model struct {
	recvs []*Recv[int]
	msgs  []*Msg[int]
}

// fits is the condition of uet-pds-ses.md section 14, word for word.
func fits(r *Recv[int], from uint32, tag uint64) bool {
	return tag|r.Ignore == r.Tag|r.Ignore && (r.Any || r.From == from)
}

func (m *model) recv(from uint32, tag uint64) *Recv[int] {
	if i := slices.IndexFunc(m.recvs, func(r *Recv[int]) bool { return fits(r, from, tag) }); i >= 0 {
		return m.recvs[i]
	}
	return nil
}

func (m *model) msg(r *Recv[int]) *Msg[int] {
	if i := slices.IndexFunc(m.msgs, func(g *Msg[int]) bool { return fits(r, g.From, g.Tag) }); i >= 0 {
		return m.msgs[i]
	}
	return nil
}

// world is a model beside what it is a model of, and the random choices of one seed.
type world struct {
	t    *testing.T
	seed uint64
	rng  *rand.Rand
	model
	posted     *Posted[int]
	unexpected *Unexpected[int]
	tags       int // how many tags and sources there are: few make duplicates
	masks      int // how many masks: above maxMasks the list is in use
	freeRecvs  []*Recv[int]
	freeMsgs   []*Msg[int]
	made       int
}

func newWorld(t *testing.T, seed uint64) *world {
	rng := rand.New(rand.NewPCG(seed, 0))
	w := &world{t: t, seed: seed, rng: rng, posted: NewPosted[int](rng.Uint64()), unexpected: NewUnexpected[int](rng.Uint64())}
	w.tags = 1 << rng.IntN(6)
	w.masks = []int{0, 1, 3, 40}[rng.IntN(4)]
	return w
}

func (w *world) tag() uint64 { return uint64(w.rng.IntN(w.tags)) * 0x0100_0000_0001 }

func (w *world) source() uint32 { return uint32(w.rng.IntN(1 + w.tags/4)) }

// ignore is a mask: half are 0, some all ones, the rest random bits of the tags' range.
func (w *world) ignore() uint64 {
	switch x := w.rng.IntN(8); {
	case x < 4 || w.masks == 0:
		return 0
	case x == 4:
		return ^uint64(0)
	}
	return rand.New(rand.NewPCG(uint64(w.rng.IntN(w.masks)), 1)).Uint64()
}

// newRecv is a receive with a random key, used before if one is free.
func (w *world) newRecv() *Recv[int] {
	r := &Recv[int]{}
	if n := len(w.freeRecvs); n > 0 {
		r, w.freeRecvs = w.freeRecvs[n-1], w.freeRecvs[:n-1]
	}
	w.made++
	r.Tag, r.Ignore, r.From, r.Any, r.V = w.tag(), w.ignore(), w.source(), w.rng.IntN(3) == 0, w.made
	if w.rng.IntN(2) == 0 {
		r.Tag |= r.Ignore // bits that are ignored must not count
	}
	return r
}

func (w *world) removeRecv(r *Recv[int]) {
	w.posted.Remove(r)
	w.recvs = slices.DeleteFunc(w.recvs, func(o *Recv[int]) bool { return o == r })
	w.freeRecvs = append(w.freeRecvs, r)
}

func (w *world) removeMsg(m *Msg[int]) {
	w.unexpected.Remove(m)
	w.msgs = slices.DeleteFunc(w.msgs, func(o *Msg[int]) bool { return o == m })
	w.freeMsgs = append(w.freeMsgs, m)
}

// post posts a receive as an endpoint does: it takes an unexpected message or is queued.
func (w *world) post() {
	r := w.newRecv()
	got, want := w.unexpected.Find(r.Tag, r.Ignore, r.From, r.Any), w.msg(r)
	if got != want {
		w.t.Fatalf("seed %d: receive %+v finds message %v, not %v", w.seed, r, got, want)
	}
	if got != nil && w.rng.IntN(4) > 0 {
		w.removeMsg(got)
		w.freeRecvs = append(w.freeRecvs, r)
		return
	}
	w.posted.Post(r)
	w.recvs = append(w.recvs, r)
}

// arrive lets a message come in: it takes a receive, which may stay, or is queued.
func (w *world) arrive() {
	from, tag := w.source(), w.tag()
	got, want := w.posted.Find(from, tag), w.recv(from, tag)
	if got != want {
		w.t.Fatalf("seed %d: message from %d with tag %#x finds receive %v, not %v", w.seed, from, tag, got, want)
	}
	switch x := w.rng.IntN(4); {
	case got != nil && x > 1:
		w.removeRecv(got)
		return
	case got != nil && x == 1:
		return
	}
	m := &Msg[int]{}
	if n := len(w.freeMsgs); n > 0 {
		m, w.freeMsgs = w.freeMsgs[n-1], w.freeMsgs[:n-1]
	}
	w.made++
	m.Tag, m.From, m.V = tag, from, w.made
	w.unexpected.Add(m)
	w.msgs = append(w.msgs, m)
}

// check compares lengths and orders.
func (w *world) check() {
	var recvs []*Recv[int]
	for r := w.posted.First(); r != nil; r = w.posted.Next(r) {
		recvs = append(recvs, r)
	}
	var msgs []*Msg[int]
	for m := w.unexpected.First(); m != nil; m = w.unexpected.Next(m) {
		msgs = append(msgs, m)
	}
	if !slices.Equal(recvs, w.recvs) || w.posted.Len() != len(recvs) {
		w.t.Fatalf("seed %d: %d receives, %d in order, not the %d of the model in theirs", w.seed, w.posted.Len(), len(recvs), len(w.recvs))
	}
	if !slices.Equal(msgs, w.msgs) || w.unexpected.Len() != len(msgs) {
		w.t.Fatalf("seed %d: %d messages, %d in order, not the %d of the model in theirs", w.seed, w.unexpected.Len(), len(msgs), len(w.msgs))
	}
	if w.posted.index.used > len(recvs) || w.unexpected.index.used > int(kinds)*len(msgs) {
		w.t.Fatalf("seed %d: more keys than elements", w.seed)
	}
}

func (w *world) run() {
	steps := 20 + w.rng.IntN(180)
	for i := range steps {
		switch x := w.rng.IntN(20); {
		case x < 9:
			w.post()
		case x < 17:
			w.arrive()
		case x == 17 && len(w.recvs) > 0:
			w.removeRecv(w.recvs[w.rng.IntN(len(w.recvs))])
		case x == 18 && len(w.msgs) > 0:
			w.removeMsg(w.msgs[w.rng.IntN(len(w.msgs))])
		}
		if i%8 == 0 {
			w.check()
		}
	}
	w.check()
	for len(w.recvs) > 0 {
		w.removeRecv(w.recvs[w.rng.IntN(len(w.recvs))])
	}
	for len(w.msgs) > 0 {
		w.removeMsg(w.msgs[w.rng.IntN(len(w.msgs))])
	}
	w.check()
	if w.posted.live != 0 || w.posted.list.eldest != nil {
		w.t.Fatalf("seed %d: the queue is empty, but kinds %#x or its list are not", w.seed, w.posted.live)
	}
}

func TestQueuesEqualSlices(t *testing.T) {
	first, n := seeds(t)
	for seed := first; seed < first+n; seed++ {
		newWorld(t, seed).run()
	}
}
