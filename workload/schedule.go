package workload

// A schedule is one rank's part of one iteration: memory, messages and what they wait for, what its inputs are
// and what its result must be. It is data, built from the Spec alone, so that a rank plays it, Ideal walks it, and tests
// count it. Tags are unique among the receives of a rank.
type schedule struct {
	bufs []int64 // sizes of the rank's buffers; target is the last one where the operation is a write
	ops  []op
	fill []block // inputs
	want []block // results

	gates []gate // matrix: triggers, so far as they act in this rank
}

type opKind uint8

const (
	opSend opKind = iota
	opRecv
	opWrite
)

// region is a piece of one of the rank's buffers.
type region struct {
	buf    int8
	off, n int64
}

// op is one message. A receive whose add is 0 or more adds the same range of that buffer to what arrived; it is posted
// like all others when the iteration is made ready, but done only when the op that it waits for is done too.
type op struct {
	kind  opKind
	add   int8
	peer  int32
	tag   int32  // of a write: unused
	after int32  // index of the op that must be done first, -1: none
	at    region // where the message lies
	there int64  // write: offset in the target's memory

	// Of a matrix:
	note  bool  // an empty message, or the receive of one, that tells another rank of an activation
	flow  int32 // 1 + index of the flow that it sends; 0: none
	hits  int32 // 1 + index of the gate that it hits when it is done; 0: none
	start int64 // ns after the iteration's begin at which it is posted
}

// gate posts ops when others are done: all of out at hit number need, or, if it steps, the next of out at every hit.
type gate struct {
	need  int32
	steps bool
	out   []int32
}

// open is what hit number n lets through.
func (g *gate) open(n int32) []int32 {
	switch {
	case g.steps && int(n) <= len(g.out):
		return g.out[n-1 : n]
	case !g.steps && n == g.need:
		return g.out
	}
	return nil
}

// block is a region with the data pattern that it holds: of one origin (see pattern), or the sum over all ranks.
type block struct {
	region
	from  int   // rank that made the data
	to    int   // rank or block that it is made for
	first int64 // element number of the first element
	sum   bool
}

const (
	none  = -1
	gated = -2 // op.after: a gate posts it
)

func (s *schedule) send(peer int, tag, after int, at region) int {
	s.ops = append(s.ops, op{kind: opSend, add: none, peer: int32(peer), tag: int32(tag), after: int32(after), at: at})
	return len(s.ops) - 1
}

func (s *schedule) recv(peer, tag int, at region) int {
	s.ops = append(s.ops, op{kind: opRecv, add: none, peer: int32(peer), tag: int32(tag), after: none, at: at})
	return len(s.ops) - 1
}

// reduce receives, and adds buffer add to what arrived when op after is done.
func (s *schedule) reduce(peer, tag, after int, at region, add int8) int {
	i := s.recv(peer, tag, at)
	s.ops[i].add, s.ops[i].after = add, int32(after)
	return i
}

// waits gives for every op those that wait for it.
func (s *schedule) waits() [][]int32 {
	w := make([][]int32, len(s.ops))
	for i, o := range s.ops {
		if o.after >= 0 {
			w[o.after] = append(w[o.after], int32(i))
		}
	}
	return w
}

// schedule builds the part of rank me. The spec is valid.
func (s *Spec) schedule(me int) *schedule {
	sc := &schedule{}
	switch s.Workload {
	case Allreduce:
		if s.Algo == AlgoRD {
			s.allreduceRD(sc, me)
		} else {
			s.allreduceRing(sc, me)
		}
	case Allgather:
		s.allgather(sc, me)
	case Alltoall:
		s.alltoall(sc, me)
	case Broadcast:
		s.broadcast(sc, me)
	case Permutation:
		to := derangement(s.Seed, s.Ranks)
		from := 0
		for to[from] != me {
			from++
		}
		s.pointToPoint(sc, me, to[me], from)
	case Sendrecv:
		s.pointToPoint(sc, me, (me+1)%s.Ranks, (me+s.Ranks-1)%s.Ranks)
	case Incast:
		s.incast(sc, me)
	case Matrix:
		s.matrix(sc, me)
	}
	return sc
}

// allreduceRing reduces and gathers around a ring of ranks. Buffer 0 is the input; partial sums arrive in buffer 1. A
// finished part lands in buffer 0, whose own values are added up by then, except that part me, whose input
// may still be under way, lands in buffer 1. So nothing arrives in memory that is being sent.
func (s *Spec) allreduceRing(sc *schedule, me int) {
	n, v := s.Ranks, s.vector()
	next, prev := (me+1)%n, (me+n-1)%n
	sc.bufs = []int64{v, v}
	sc.fill = []block{{region: region{0, 0, v}, from: me}}
	part := func(buf int8, c int) region {
		off, l := s.part(c)
		return region{buf, off, l}
	}
	mod := func(i int) int { return (i + 2*n) % n }
	last := none
	src := int8(0)
	for step := range n - 1 { // reduce-scatter
		sc.send(next, step, last, part(src, mod(me-step)))
		last = sc.reduce(prev, step, none, part(1, mod(me-step-1)), 0)
		src = 1
	}
	for step := range n - 1 { // all-gather
		sc.send(next, n-1+step, last, part(src, mod(me+1-step)))
		src = 0
		if step == 0 {
			src = 1
		}
		last = sc.recv(prev, n-1+step, part(src, mod(me-step)))
	}
	for c := range n {
		r := part(0, c)
		if c == me || c == mod(me+1) {
			r.buf = 1
		}
		sc.want = append(sc.want, block{region: r, first: r.off / element, sum: true})
	}
}

// allreduceRD doubles the group whose sum a rank holds with every step. Ranks beyond a power of two hand their vector to
// a neighbour first and get the result back. Each step has a buffer of its own, since the next may arrive early.
func (s *Spec) allreduceRD(sc *schedule, me int) {
	n, v := s.Ranks, s.vector()
	pow := 1
	for pow*2 <= n {
		pow *= 2
	}
	rest := n - pow // the first 2*rest ranks work in pairs
	const foldTag, backTag = 1000, 1001
	whole := func(buf int) region { return region{int8(buf), 0, v} }
	sc.bufs = []int64{v}
	sc.fill = []block{{region: whole(0), from: me}}
	grow := func() int {
		sc.bufs = append(sc.bufs, v)
		return len(sc.bufs) - 1
	}
	sum := func(buf int) { sc.want = []block{{region: whole(buf), sum: true}} }
	cur, last, id := 0, none, me-rest
	if me < 2*rest {
		if me%2 == 0 {
			sc.send(me+1, foldTag, none, whole(0))
			b := grow()
			sc.recv(me+1, backTag, whole(b))
			sum(b)
			return
		}
		b := grow()
		last = sc.reduce(me-1, foldTag, none, whole(b), 0)
		cur, id = b, me/2
	}
	for bit, step := 1, 0; bit < pow; bit, step = bit*2, step+1 {
		peer := id ^ bit
		if peer < rest {
			peer = 2*peer + 1
		} else {
			peer += rest
		}
		sc.send(peer, step, last, whole(cur))
		b := grow()
		last = sc.reduce(peer, step, last, whole(b), int8(cur))
		cur = b
	}
	if me < 2*rest {
		sc.send(me-1, backTag, last, whole(cur))
	}
	sum(cur)
}

// allgather hands every part once around the ring.
func (s *Spec) allgather(sc *schedule, me int) {
	n := s.Ranks
	next, prev := (me+1)%n, (me+n-1)%n
	sc.bufs = []int64{s.vector()}
	part := func(c int) region {
		off, l := s.part((c + 2*n) % n)
		return region{0, off, l}
	}
	sc.fill = []block{{region: part(me), from: me}}
	last := none
	for step := range n - 1 {
		sc.send(next, step, last, part(me-step))
		last = sc.recv(prev, step, part(me-step-1))
	}
	for c := range n {
		sc.want = append(sc.want, block{region: part(c), from: c})
	}
}

// alltoall begins with the rank's right-hand neighbour and goes round, so that no receiver is everybody's first. Send
// i waits until send i-window is done.
func (s *Spec) alltoall(sc *schedule, me int) {
	n, w := s.Ranks, s.window()
	_, mine := s.part(me)
	sc.bufs = []int64{s.vector(), mine * int64(n)}
	sends := make([]int, 0, n)
	for k := 1; k < n; k++ {
		to, from := (me+k)%n, (me+n-k)%n
		off, l := s.part(to)
		out, in := region{0, off, l}, region{1, int64(from) * mine, mine}
		after := none
		if k > w {
			after = sends[k-1-w]
		}
		sends = append(sends, sc.send(to, k, after, out))
		sc.recv(from, k, in)
		sc.fill = append(sc.fill, block{region: out, from: me, to: to})
		sc.want = append(sc.want, block{region: in, from: from, to: me})
	}
}

// chainAbove is the message length from which a broadcasting rank serves its children one after the other: longer
// ones would share its link and all come late.
const chainAbove = 64 << 10

// broadcast sends down a binomial tree, the largest subtree first.
func (s *Spec) broadcast(sc *schedule, me int) {
	n, v := s.Ranks, s.vector()
	sc.bufs = []int64{v}
	all := region{0, 0, v}
	rel := (me - s.Root + n) % n
	rank := func(rel int) int { return (rel + s.Root) % n }
	last := none
	bit := 1
	for ; bit < n; bit *= 2 {
		if rel&bit != 0 {
			last = sc.recv(rank(rel-bit), 0, all)
			break
		}
	}
	for bit /= 2; bit > 0; bit /= 2 {
		if rel+bit < n {
			i := sc.send(rank(rel+bit), 0, last, all)
			if v > chainAbove {
				last = i
			}
		}
	}
	b := []block{{region: all, from: s.Root}}
	if me == s.Root {
		sc.fill = b
	} else {
		sc.want = b
	}
}

// pointToPoint sends the vector to one rank and receives one from another.
func (s *Spec) pointToPoint(sc *schedule, me, to, from int) {
	v := s.vector()
	sc.bufs = []int64{v, v}
	out, in := region{0, 0, v}, region{1, 0, v}
	sc.fill = []block{{region: out, from: me, to: to}}
	sc.want = []block{{region: in, from: from, to: me}}
	s.transfer(sc, to, 0, out, 0)
	if !s.write() {
		sc.recv(from, 0, in)
	}
}

// incast sends the vector to the root, which receives all of them side by side.
func (s *Spec) incast(sc *schedule, me int) {
	n, v := s.Ranks, s.vector()
	slot := func(from int) int64 { return int64((from+n-s.Root)%n-1) * v }
	if me != s.Root {
		out := region{0, 0, v}
		sc.bufs = []int64{v, 0}
		sc.fill = []block{{region: out, from: me, to: s.Root}}
		s.transfer(sc, s.Root, me, out, slot(me))
		return
	}
	sc.bufs = []int64{0, int64(n-1) * v}
	for from := range n {
		if from == me {
			continue
		}
		in := region{1, slot(from), v}
		sc.want = append(sc.want, block{region: in, from: from, to: me})
		if !s.write() {
			sc.recv(from, from, in)
		}
	}
}

// transfer sends or writes, as the spec says.
func (s *Spec) transfer(sc *schedule, to, tag int, out region, there int64) {
	i := sc.send(to, tag, none, out)
	if s.write() {
		sc.ops[i].kind, sc.ops[i].there = opWrite, there
	}
}
