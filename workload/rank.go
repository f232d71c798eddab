package workload

import (
	"fmt"
	"slices"

	"github.com/uetlab/uetlab/internal/vt"
)

// Endpoint is what a rank needs of its end point. dst and src are rank numbers; buffers belong to the end point from the
// call until the operation completes. Completions come by Rank.Complete, later: never from within a call of these.
type Endpoint interface {
	// TagSend sends buf to dst as a tagged message; ctx comes back with the completion.
	TagSend(now vt.Time, dst int, buf []byte, tag, ctx uint64) error
	// TagRecv posts buf for the message of src with that tag.
	TagRecv(now vt.Time, src int, buf []byte, tag, ctx uint64) error
	// Write writes buf at offset into the memory that dst registered under key.
	Write(now vt.Time, dst int, buf []byte, key, offset, ctx uint64) error
	// Register opens buf to writes of other ranks. Keys are handed out in order of the calls, alike at every end point:
	// ranks register the same number of buffers and so know each other's keys.
	Register(buf []byte) uint64
}

// Waker is an Endpoint that can also call back: Complete with ctx, no error, at virtual time t (not before now).
type Waker interface {
	Wake(t vt.Time, ctx uint64)
}

// Zeros is an Endpoint that has memory for data that nobody checks: bytes that are 0 and stay so, since all that is ever
// written over them is zeros too. All ranks of one process may share them.
type Zeros interface {
	Zeros(n int64) []byte
}

// Allocator is an Endpoint with memory that it reaches more easily than any other. It is zeroed.
type Allocator interface {
	Alloc(n int64) []byte
}

// Done is a completion.
type Done struct {
	Ctx   uint64
	Len   int     // bytes received
	Acked vt.Time // sends and writes: when the last PSN was cumulatively acknowledged; 0 stands for now
	Err   error
}

// Rank plays one rank's part of a run. It is not for concurrent use.
//
// The receives of iteration 0 are posted at the start of the run, those of every other one before the barrier ahead of
// it, and those of a barrier before the barrier ahead of that: no send ever meets a receive that is not posted.
type Rank struct {
	spec Spec
	me   int
	ep   Endpoint
	wake Waker // nil: none, or no guard
	at   Waker // nil: none
	done func(RankResult)

	sched  *schedule
	mem    [][]byte
	target [2][]byte // writes: the last buffer of even and odd iterations
	keys   [2]uint64
	waits  [][]int32 // per op, those that wait for it
	state  []opState // of the ops of the iteration
	hits   []int32   // of its gates
	began  []int64   // when its ops were posted, ns since t0; nil where no flows of a matrix begin

	t0       vt.Time
	iter     int     // the iteration that runs, or comes next
	running  bool    // false: in the barrier ahead of it
	early    []int32 // receives done before the iteration began here, because others left the barrier first
	pending  int     // ops of the iteration that are not done
	open     int     // operations posted and not completed, of any kind
	span     Span
	bar      barrier
	over     bool // the last iteration is done; only acknowledgements may be missing
	finished bool
	res      RankResult
	moved    int64
	total    int64
}

type opState uint8

const (
	opOpen    opState = iota
	opArrived         // a receive that has its data but not what it waits for
	opDone
)

// Completion contexts and tags: kind (2 bits), iteration or barrier (30), op or round (32).
const (
	ctxOp uint64 = iota
	ctxBarSend
	ctxBarRecv
	ctxStart // index 0: the iteration; i+1: op i
)

func pack(kind uint64, iter, index int) uint64 {
	return kind<<62 | uint64(iter)<<32 | uint64(uint32(index))
}

func unpack(ctx uint64) (kind uint64, iter, index int) {
	return ctx >> 62, int(ctx >> 32 & (1<<30 - 1)), int(uint32(ctx))
}

// NewRank makes rank number rank of the run and allocates its memory. done is called once, from within Start or Complete, when
// the rank has finished or failed.
func NewRank(spec Spec, rank int, ep Endpoint, done func(RankResult)) (*Rank, error) {
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	if rank < 0 || rank >= spec.Ranks {
		return nil, fmt.Errorf("rank %d: the run has ranks 0 to %d", rank, spec.Ranks-1)
	}
	r := &Rank{spec: spec, me: rank, ep: ep, done: done, sched: spec.schedule(rank)}
	r.at, _ = ep.(Waker)
	if spec.Guard > 0 {
		r.wake = r.at
	}
	if r.at == nil && slices.ContainsFunc(r.sched.ops, func(o op) bool { return o.start > 0 }) {
		return nil, fmt.Errorf("rank %d: a matrix with start times needs an end point that can be woken", rank)
	}
	r.allocate(ep)
	r.waits = r.sched.waits()
	for _, o := range r.sched.ops {
		r.total += o.at.n * int64(spec.Iters)
	}
	r.state, r.hits = make([]opState, len(r.sched.ops)), make([]int32, len(r.sched.gates))
	r.early = make([]int32, 0, len(r.sched.ops))
	r.res = RankResult{Rank: rank, Iterations: make([]Span, 0, spec.Iters)}
	if n := r.sched.flows(); n > 0 {
		r.began = make([]int64, len(r.sched.ops))
		r.res.Flows = make([]FlowSpan, 0, n*spec.Iters)
	}
	return r, nil
}

// allocate takes the rank's memory.
func (r *Rank) allocate(ep Endpoint) {
	take := allocate
	if a, ok := ep.(Allocator); ok {
		take = a.Alloc
	}
	r.bar.init(r.spec.Ranks, r.wake != nil, take)
	if z, ok := ep.(Zeros); ok && !r.spec.Check {
		take = z.Zeros
	}
	for _, n := range r.sched.bufs {
		r.mem = append(r.mem, take(n))
	}
	if r.spec.write() {
		last := r.mem[len(r.mem)-1]
		r.target = [2][]byte{last, last}
		if r.spec.Iters > 1 {
			r.target[1] = take(int64(len(last)))
		}
	}
}

func allocate(n int64) []byte { return make([]byte, n) }

// Start begins the run at t0 = now; every rank starts at the same instant.
func (r *Rank) Start(now vt.Time) {
	r.t0 = now
	if r.spec.write() {
		r.keys[0] = r.ep.Register(r.target[0])
		r.keys[1] = r.ep.Register(r.target[1])
	}
	r.prepare(now)
	r.postBarrier(now, 1)
	r.begin(now)
}

// Progress gives the payload bytes that this rank has sent (acknowledged) and received so far, and will in all.
func (r *Rank) Progress() (done, total int64) { return r.moved, r.total }

// Complete hands over a completion.
func (r *Rank) Complete(now vt.Time, c Done) {
	if r.finished {
		return
	}
	kind, iter, i := unpack(c.Ctx)
	if kind != ctxStart {
		r.open--
	}
	if c.Err != nil {
		r.fail(r.describe(kind, iter, i), c.Err)
		return
	}
	switch kind {
	case ctxOp:
		r.opComplete(now, i, c)
	case ctxBarSend:
		r.bar.sends[iter&1]--
	case ctxBarRecv:
		r.barrierRecv(now, iter, i)
	case ctxStart:
		if i > 0 {
			r.post(now, i-1)
		} else {
			r.iterate(now)
		}
	}
	if r.over && r.open == 0 && !r.finished {
		r.finish()
	}
}

func (r *Rank) describe(kind uint64, iter, i int) string {
	switch {
	case kind == ctxBarSend || kind == ctxBarRecv:
		return fmt.Sprintf("barrier %d, round %d", iter, i)
	case i >= len(r.sched.ops):
		return "completion of an unknown operation"
	}
	o := r.sched.ops[i]
	verb := [...]string{"send to", "receive from", "write to"}[o.kind]
	if o.flow > 0 {
		verb = fmt.Sprintf("connection %d: %s", r.spec.Matrix.Flows[o.flow-1].ID, verb)
	}
	return fmt.Sprintf("iteration %d, %s rank %d", iter, verb, o.peer)
}

// begin starts iteration r.iter.
func (r *Rank) begin(now vt.Time) {
	t := int64(now - r.t0)
	r.span.StartNs, r.span.EndNs = t, t
	r.running = true
	for i := range r.sched.ops {
		switch o := &r.sched.ops[i]; {
		case o.kind == opRecv || o.after != none:
		case o.start > 0:
			r.at.Wake(now+vt.Time(o.start), pack(ctxStart, r.iter, i+1))
		default:
			r.post(now, i)
		}
	}
	for _, i := range r.early {
		r.release(now, int(i))
	}
	r.early = r.early[:0]
	r.settle(now)
}

// release lets go what waits for op i: sends are posted, receives that have their data are done.
func (r *Rank) release(now vt.Time, i int) {
	for _, w := range r.waits[i] {
		switch {
		case r.sched.ops[w].kind != opRecv:
			r.post(now, int(w))
		case r.state[w] == opArrived:
			r.opDone(now, int(w), int64(now-r.t0))
		}
	}
	if h := r.sched.ops[i].hits; h > 0 {
		r.hit(now, int(h-1))
	}
}

// hit counts a hit of a gate and posts what it lets through.
func (r *Rank) hit(now vt.Time, i int) {
	r.hits[i]++
	for _, k := range r.sched.gates[i].open(r.hits[i]) {
		r.post(now, int(k))
	}
}

func (r *Rank) slice(g region) []byte { return r.mem[g.buf][g.off : g.off+g.n : g.off+g.n] }

func (r *Rank) post(now vt.Time, i int) {
	if r.finished {
		return
	}
	o := &r.sched.ops[i]
	ctx, buf := pack(ctxOp, r.iter, i), r.slice(o.at)
	if r.began != nil {
		r.began[i] = int64(now - r.t0)
	}
	var err error
	if o.kind == opWrite {
		err = r.ep.Write(now, int(o.peer), buf, r.keys[r.iter&1], uint64(o.there), ctx)
	} else {
		err = r.ep.TagSend(now, int(o.peer), buf, pack(ctxOp, r.iter, int(o.tag)), ctx)
	}
	r.posted(err, ctxOp, r.iter, i)
}

// posted accounts for an operation handed to the end point.
func (r *Rank) posted(err error, kind uint64, iter, i int) {
	if err != nil {
		r.fail(r.describe(kind, iter, i), err)
		return
	}
	r.open++
}

func (r *Rank) postRecvs(now vt.Time) {
	for i := range r.sched.ops {
		o := &r.sched.ops[i]
		if o.kind != opRecv || r.finished {
			continue
		}
		err := r.ep.TagRecv(now, int(o.peer), r.slice(o.at), pack(ctxOp, r.iter, int(o.tag)), pack(ctxOp, r.iter, i))
		r.posted(err, ctxOp, r.iter, i)
	}
}

// opComplete handles the end point's completion of op i.
func (r *Rank) opComplete(now vt.Time, i int, c Done) {
	o := &r.sched.ops[i]
	at := int64(now - r.t0)
	if o.kind == opRecv {
		if int64(c.Len) != o.at.n {
			r.fail(r.describe(ctxOp, r.iter, i), fmt.Errorf("%d bytes arrived, %d were expected", c.Len, o.at.n))
			return
		}
		if o.after >= 0 && r.state[o.after] != opDone {
			r.state[i] = opArrived
			return
		}
	} else if c.Acked > 0 {
		at = int64(c.Acked - r.t0)
	}
	r.opDone(now, i, at)
	r.settle(now)
}

// opDone counts op i, done at time at of the run, and lets go what waits for it.
func (r *Rank) opDone(now vt.Time, i int, at int64) {
	o := &r.sched.ops[i]
	switch {
	case o.note: // not the workload's own
		at = r.span.EndNs
	case o.kind == opRecv:
		if o.add >= 0 {
			from := o.at
			from.buf = o.add
			addInto(r.slice(o.at), r.slice(from), r.spec.Type == Float32)
		}
		r.res.RecvBytes += o.at.n
	default:
		r.span.AckedNs = max(r.span.AckedNs, at)
		r.res.SentBytes += o.at.n
		r.res.Messages++
		if o.flow > 0 {
			r.res.Flows = append(r.res.Flows, FlowSpan{Flow: int(o.flow - 1), Iteration: r.iter, StartNs: r.began[i], EndNs: at})
		}
	}
	r.moved += o.at.n
	r.span.EndNs = max(r.span.EndNs, at)
	r.state[i] = opDone
	r.pending--
	if r.running {
		r.release(now, i)
	} else {
		r.early = append(r.early, int32(i))
	}
}

// settle moves on when the iteration is complete.
func (r *Rank) settle(now vt.Time) {
	if r.pending > 0 || !r.running || r.finished {
		return
	}
	r.res.Iterations = append(r.res.Iterations, r.span)
	r.running = false
	r.iter++
	r.check(r.iter-1, false)
	if r.iter == r.spec.Iters && !r.spec.confirms() {
		r.end()
		return
	}
	if r.iter < r.spec.Iters {
		r.prepare(now)
	}
	r.enterBarrier(now, r.iter)
}

// prepare makes iteration r.iter ready: inputs filled, receives posted.
func (r *Rank) prepare(now vt.Time) {
	r.pending = len(r.sched.ops)
	r.span = Span{AckedNs: -1}
	clear(r.state)
	clear(r.hits)
	r.fill(r.iter)
	r.postRecvs(now)
}

// iterate follows a barrier: all ranks are done with the iteration before it.
func (r *Rank) iterate(now vt.Time) {
	r.check(r.iter-1, true)
	if r.iter == r.spec.Iters {
		r.end()
		return
	}
	r.begin(now)
}

// end waits for the acknowledgements of barrier messages that may be missing still.
func (r *Rank) end() {
	r.over = true
	if r.open == 0 {
		r.finish()
	}
}

func (r *Rank) fill(iter int) {
	if !r.spec.Check {
		return
	}
	for _, b := range r.sched.fill {
		r.spec.pattern(iter, b).write(r.slice(b.region), b.first)
	}
}

// check looks at what was received, or at what others wrote.
func (r *Rank) check(iter int, written bool) {
	if !r.spec.Check {
		return
	}
	if r.spec.write() {
		r.mem[len(r.mem)-1] = r.target[iter&1]
	}
	for _, b := range r.sched.want {
		if (r.spec.write() && int(b.buf) == len(r.mem)-1) != written {
			continue
		}
		wrong, all := r.spec.pattern(iter, b).compare(r.slice(b.region), b.first)
		r.res.Wrong += wrong
		r.res.Checked += all
	}
}

func (r *Rank) fail(what string, err error) {
	if !r.finished {
		r.res.Error = fmt.Sprintf("rank %d: %s: %v", r.me, what, err)
		r.finish()
	}
}

func (r *Rank) finish() {
	r.finished = true
	if r.done != nil {
		r.done(r.res)
	}
}
