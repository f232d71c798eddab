package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/fep"
	"github.com/uetlab/uetlab/internal/ctl"
	"github.com/uetlab/uetlab/internal/nodecore"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/workload"
)

// run is a workload that is under way.
type run struct {
	spec  workload.Spec
	t0    vt.Time
	began time.Time // wall
	ranks []int     // node of every rank
	nodes []int     // those that have ranks, each once
	base  uint64    // results that the nodes had reported before
	rx    []uint64  // payload bytes that each of these nodes had received before

	queues [][]ctl.Queue    // at its end, by node
	series *workload.Series // nil: nobody has asked for one
	armed  bool             // changes had waited for it
	crew   *crew            // processes of the ranks; nil: the FEPs play them

	mu      sync.Mutex
	results map[int]workload.RankResult
}

func newRun(spec workload.Spec) *run {
	return &run{spec: spec, ranks: spec.Nodes, nodes: slices.Compact(slices.Sorted(slices.Values(spec.Nodes))), results: map[int]workload.RankResult{}}
}

const (
	runWait    = 30 * time.Second       // for nodes to take a run
	noticeWait = 500 * time.Millisecond // for it to be known here that a caller has gone
	queueWait  = 10 * time.Second       // for nodes to tell of their queues
)

// result notes the result of a rank that runs on node n.
func (d *Daemon) result(n *node, r workload.RankResult) {
	d.runMu.Lock()
	cur := d.cur
	d.runMu.Unlock()
	if cur == nil || r.Rank < 0 || r.Rank >= len(cur.ranks) || cur.ranks[r.Rank] != n.id {
		return
	}
	cur.mu.Lock()
	defer cur.mu.Unlock()
	if _, ok := cur.results[r.Rank]; !ok { // once complete they are read without the lock
		cur.results[r.Rank] = r
	}
}

// reported counts the ranks whose pages say that they have finished; their results may still be on their way.
func (d *Daemon) reported(r *run) uint64 {
	var n uint64
	for _, id := range r.nodes {
		n += d.nodes[id].page.Results.Load()
	}
	return n - r.base
}

func (r *run) finished() bool { return r.left() == 0 }

// left is the number of ranks that have not finished.
func (r *run) left() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.ranks) - len(r.results)
}

// failed tells of a rank that has given up; the others would wait for it without end.
func (r *run) failed() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.ranks {
		if res, ok := r.results[i]; ok && res.Error != "" {
			return api.Errorf(api.CodeCheck, "run: rank %d: %s", i, res.Error).WithHint("see `uetlab pdc --all`, `uetlab stats` and `uetlab events`")
		}
	}
	return nil
}

// runWorkload runs every size of a request in turn and emits progress and results.
func (d *Daemon) runWorkload(ctx context.Context, req api.RunRequest, emit func(api.RunEvent) error) error {
	if !d.takeTurn(ctx) {
		return api.Errorf(api.CodeExists, "run: another run is under way in lab %s", d.opt.Lab).WithHint("wait for it, or interrupt it")
	}
	defer d.endTurn()
	defer d.tellRunEnd()
	if len(req.Sizes) == 0 {
		return api.Errorf(api.CodeUsage, "run: no size given").WithHint("for example --size 1MiB")
	}
	if err := d.checkSettings(&req); err != nil {
		return err
	}
	for _, size := range req.Sizes {
		spec, err := d.spec(req, size)
		if err != nil {
			return err
		}
		res, err := d.runOne(ctx, spec, req, emit)
		if err != nil {
			return err
		}
		if err := emit(api.RunEvent{Type: api.RunResult, Result: res}); err != nil {
			return err
		}
	}
	return nil
}

// checkSettings refuses overrides that the lab would ignore, and a warm run for which windows and PDCs would have to change.
func (d *Daemon) checkSettings(req *api.RunRequest) error {
	if err := d.plan.CheckFEP(req.FEP); err != nil {
		return api.Errorf(api.CodeUsage, "run: %w", err)
	}
	if key := topology.IgnoredInRealTime(req.FEP); d.real() && key != "" {
		return api.Errorf(api.CodeUsage, "run: fep.%s: has no effect with --time real, where round trips are the machine's and windows fixed", key).
			WithHint("leave it out, or bring the lab up with --time auto")
	}
	if !req.Warm || maps.Equal(req.FEP, d.inForce) {
		return nil
	}
	for i := range d.nodes {
		now, err := d.plan.OverrideFEP(i, d.inForce)
		next, err2 := d.plan.OverrideFEP(i, req.FEP)
		if err != nil || err2 != nil {
			return errors.Join(err, err2)
		}
		if !reflect.DeepEqual(cmp.Or(now, d.plan.Nodes[i].FEP), cmp.Or(next, d.plan.Nodes[i].FEP)) {
			return api.Errorf(api.CodeUsage, "run: --warm keeps windows and PDCs, and the settings of end points are others than in the run before").
				WithHint("leave --warm out, or give the settings of the run before")
		}
	}
	return nil
}

// takeTurn keeps other runs and measurements away until endTurn. One whose caller has gone is about to end and is waited for, so that
// after Ctrl-C the next can be asked for at once; false: one goes on.
func (d *Daemon) takeTurn(ctx context.Context) bool {
	for asked := time.Now(); !d.runBusy.TryLock(); sleep(40 * tick) {
		d.runMu.Lock()
		going := d.turn != nil && d.turn.Err() != nil
		d.runMu.Unlock()
		if waited := time.Since(asked); ctx.Err() != nil || waited > runWait || !going && waited > noticeWait {
			return false
		}
	}
	d.runMu.Lock()
	defer d.runMu.Unlock()
	d.turn = ctx
	return true
}

func (d *Daemon) endTurn() {
	d.runMu.Lock()
	d.turn = nil
	d.runMu.Unlock()
	d.runBusy.Unlock()
}

// nextRunEnd gives a channel that is closed when the next run request ends: the one that runs, if any.
func (d *Daemon) nextRunEnd() <-chan struct{} {
	d.runMu.Lock()
	defer d.runMu.Unlock()
	if d.runEnd == nil {
		d.runEnd = make(chan struct{})
	}
	return d.runEnd
}

func (d *Daemon) tellRunEnd() {
	d.runMu.Lock()
	defer d.runMu.Unlock()
	if d.runEnd != nil {
		close(d.runEnd)
		d.runEnd = nil
	}
}

// spec works a request out for one size.
func (d *Daemon) spec(req api.RunRequest, size int64) (workload.Spec, error) {
	return req.Spec(d.plan, size, func(id int) bool { return !d.nodes[id].isDead() })
}

func (d *Daemon) runOne(ctx context.Context, spec workload.Spec, req api.RunRequest, emit func(api.RunEvent) error) (*workload.Result, error) {
	r := newRun(spec)
	if req.Processes {
		c, err := d.gather(ctx, r, req.Free)
		if err != nil {
			return nil, err
		}
		r.crew = c
		defer c.leave()
	}
	before, err := d.begin(ctx, r, req.Warm)
	if err != nil {
		return nil, err
	}
	if r.armed {
		err = d.saveState() // what has waited for this run is scheduled now
	}
	if err == nil {
		err = d.follow(ctx, r, emit)
	}
	wall := time.Since(r.began).Seconds()
	var totals workload.Totals
	if err == nil {
		totals, err = d.end(ctx, r, before)
	}
	if err != nil {
		d.abort(r)
	}
	d.tellPDCs(ctx, r.t0, before.failed)
	d.tellRetries(before.retries)
	d.tellStarved(ctx, before.starvings)
	if err != nil {
		return nil, err
	}
	totals.WallSeconds = wall
	ranks := make([]workload.RankResult, 0, len(r.results))
	for i := range r.ranks {
		ranks = append(ranks, r.results[i])
	}
	res := workload.Summarize(spec, ranks, totals, d.plan)
	res.Queues, res.Series = d.congestion(before.queues, r.queues), r.series
	res.PeakQueue = nodecore.PeakQueue(d.plan, r.queues)
	d.event("run", "", "", fmt.Sprintf("%s of %d bytes on %d ranks: %d ns, %s", spec.Workload, spec.Size, spec.Ranks, res.FCT.Max, res.Fidelity.Verdict))
	return &res, nil
}

// begin schedules t0 at all nodes and lets time go.
func (d *Daemon) begin(ctx context.Context, r *run, warm bool) (before totals, err error) {
	c := &d.time
	c.mu.Lock()
	defer c.mu.Unlock()
	held, err := d.hold(ctx, c)
	if err != nil {
		return before, err
	}
	// A run begins on a fabric that has converged: how long ago a link was changed by hand must not show in its result.
	now := max(held, d.virtualNow(c), d.converged)
	if !d.real() {
		if c.paused {
			now = held
		}
		if err := d.reach(ctx, c, now); err != nil { // what is due by now happens before the run
			return before, err
		}
		d.rest(c)
		held = c.seg.Limit
		if err := d.landed(ctx); err != nil {
			return before, err
		}
	}
	r.t0 = max(held, c.seg.Limit) + 1 // nobody is beyond; nothing else can happen before
	if d.real() {
		r.t0 = now.Add(50 * time.Millisecond) // no agreement: the message must be there before its time
	}
	d.runMu.Lock()
	d.cur = r
	d.runMu.Unlock()
	before = d.counters()
	before.queues = d.queues(ctx, queueWait)
	r.base = d.reported(r)
	for _, id := range r.nodes {
		r.rx = append(r.rx, d.nodes[id].page.FEP[fep.DataRxBytes].Load())
	}
	if err := d.tell(ctx, r, warm); err != nil {
		d.forget(r)
		fctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ackLimit)
		defer cancel()
		if ferr := d.forgetRun(fctx, r.t0); ferr != nil { // those that have taken it would begin it alone
			d.log.Warn("take a run back", "err", ferr)
		}
		d.release(c, held)
		return before, err
	}
	c.run = true
	r.began = time.Now() // before time goes on: afterwards this process may have to wait for its turn
	d.release(c, held)
	return before, nil
}

// tell schedules a run at all nodes, and with it the changes that have waited for one.
func (d *Daemon) tell(ctx context.Context, r *run, warm bool) error {
	ctx, cancel := context.WithTimeout(ctx, runWait)
	defer cancel()
	peers, keep := r.spec.Peers(d.plan), nodecore.SeriesRoom(d.plan)
	ranks := map[int][]int{}
	for i, id := range r.ranks {
		ranks[id] = append(ranks[id], i)
	}
	own := make([]*topology.FEPConfig, len(d.nodes))
	for i := range own {
		var err error
		if own[i], err = d.plan.OverrideFEP(i, r.spec.FEP); err != nil {
			return err
		}
	}
	if err := d.each(ctx, func(n *node) *ctl.Message {
		if !d.takesPart(n.id) {
			return nil
		}
		return &ctl.Message{Op: "run", Run: &ctl.Run{At: r.t0, Seed: r.spec.Seed, Warm: warm, Spec: r.spec, Ranks: ranks[n.id], Peers: peers, Job: r.crew.jobID(), FEP: own[n.id], Keep: keep}}
	}); err != nil {
		return err
	}
	d.inForce = r.spec.FEP
	r.armed = len(d.armed) > 0
	return d.fireArmed(ctx, r.t0)
}

// landed waits, while virtual time stands still, until every frame that was written has reached the other end: nodes that
// are told of a run then know that whatever waits with them was sent before it.
func (d *Daemon) landed(ctx context.Context) error {
	deadline := time.Now().Add(ackLimit)
	for i := range d.plan.Links {
		l := &d.plan.Links[i]
		for d.frameOn(l) {
			if err := ctx.Err(); err != nil {
				return err
			}
			if time.Now().After(deadline) {
				return api.Errorf(api.CodeFailure, "run: the frames that went into link %s and came out of it do not add up", l.Name).
					WithHint("`uetlab restart %s` wires its links anew", d.nodes[l.A.Node].name)
			}
			sleep(tick / 5)
		}
	}
	return nil
}

func (d *Daemon) forget(r *run) {
	d.runMu.Lock()
	if d.cur == r {
		d.cur = nil
	}
	d.runMu.Unlock()
}

// follow waits for all ranks, moves time over idle stretches, and tells how far the run is.
func (d *Daemon) follow(ctx context.Context, r *run, emit func(api.RunEvent) error) error {
	c := &d.time
	var told time.Time
	stuck := 0
	for !r.finished() {
		if ctx.Err() != nil {
			return api.Errorf(api.CodeInterrupted, "run: %w", context.Cause(ctx))
		}
		for _, id := range r.nodes {
			if d.nodes[id].isDead() {
				return api.Errorf(api.CodePartial, "run: node %s has died", d.nodes[id].name).WithHint("see `uetlab logs %s`", d.nodes[id].name)
			}
		}
		if err := r.failed(); err != nil {
			return r.crew.blame(err)
		}
		if r.crew != nil {
			if err := r.crew.crashed(); err != nil {
				return err
			}
		}
		c.mu.Lock()
		if !c.paused && !d.real() {
			// When all ranks have finished, time need not go further, and must not leap to an idle close seconds away.
			open := func() bool { return d.reported(r) < uint64(len(r.ranks)) }
			if open() {
				d.extend(c)
			}
			switch _, quiet := d.leap(c, open); {
			case quiet && !d.left() && !r.finished():
				stuck++
			case quiet || !d.agents: // agents say something now and then, which is no work
				stuck = 0
			}
		}
		_, hi := d.horizons()
		c.mu.Unlock()
		if stuck > 400 { // a rank's result may still be on its way to us
			return api.Errorf(api.CodeFailure, "run: nothing is left to happen at virtual time %v, and %d of %d ranks have not finished", hi, r.left(), len(r.ranks)).
				WithHint("see `uetlab stats` and `uetlab events`")
		}
		if time.Since(told) > 100*time.Millisecond {
			told = time.Now()
			if err := emit(api.RunEvent{Type: api.RunProgress, Progress: d.progress(r, hi)}); err != nil {
				return err
			}
		}
		sleep(tick)
	}
	return r.crew.blame(r.failed()) // all at once
}

func (d *Daemon) progress(r *run, hi vt.Time) *api.RunProgressInfo {
	p := &api.RunProgressInfo{SizeBytes: r.spec.Size, VirtualNs: max(0, int64(hi-r.t0))}
	for i, id := range r.nodes {
		// The bytes that arrived show a message that is long under way; what a rank counts, only whole ones.
		p.DoneBytes += int64(d.nodes[id].page.FEP[fep.DataRxBytes].Load() - r.rx[i])
		p.TotalBytes += d.nodes[id].page.Total.Load()
	}
	p.DoneBytes = min(p.DoneBytes, p.TotalBytes)
	if p.TotalBytes > 0 {
		p.Iteration = min(r.spec.Iters, 1+int(int64(r.spec.Iters)*p.DoneBytes/p.TotalBytes))
	}
	return p
}

// end lets the last acknowledgements arrive, puts the lab to rest, and counts before anything else can happen.
func (d *Daemon) end(ctx context.Context, r *run, before totals) (workload.Totals, error) {
	var none workload.Totals
	c := &d.time
	c.mu.Lock()
	defer c.mu.Unlock()
	if d.real() {
		c.run = false
		sleep(20 * time.Millisecond)
		d.forget(r)
		r.queues, r.series = d.queues(ctx, queueWait), d.series(ctx, r)
		return d.totals(before), nil
	}
	for c.paused { // just when the last rank had finished
		c.mu.Unlock()
		sleep(tick)
		c.mu.Lock()
		if err := ctx.Err(); err != nil {
			return none, api.Errorf(api.CodeInterrupted, "run: %w", err)
		}
	}
	var last int64
	for _, res := range r.results {
		for _, s := range res.Iterations {
			last = max(last, s.EndNs, s.AckedNs)
		}
	}
	held, err := d.hold(ctx, c)
	if err != nil {
		return none, err
	}
	limit := max(held, r.t0.Add(time.Duration(last)+workload.Settle))
	wall, virt := c.wall.Now()-c.markWall, int64(held-c.markVirt)
	if virt > 0 {
		c.dilation = float64(wall) / float64(virt)
	}
	c.run = false
	if err := d.reach(ctx, c, limit); err != nil {
		return none, err
	}
	d.rest(c)
	r.queues, r.series = d.queues(ctx, queueWait), d.series(ctx, r)
	d.forget(r)
	d.poke()
	return d.totals(before), nil
}

// abort ends a run in the middle: at one virtual time all nodes forget it, unless they end themselves.
func (d *Daemon) abort(r *run) {
	select {
	case <-d.down:
		d.forget(r)
		return
	default:
	}
	ctx, cancel := context.WithTimeout(context.Background(), runWait)
	defer cancel()
	c := &d.time
	c.mu.Lock()
	defer c.mu.Unlock()
	defer d.forget(r)
	held, err := d.hold(ctx, c)
	for err != nil && ctx.Err() == nil { // a node that kept the run would keep the next one from its end
		held, err = d.hold(ctx, c)
	}
	if err == nil {
		at := held + 1 // no later than any run can begin that follows
		if d.real() {
			at = held.Add(50 * time.Millisecond)
		}
		err = d.forgetRun(ctx, at)
		c.run = false
		if err == nil && !c.paused && !d.real() {
			err = d.reach(ctx, c, at)
		}
	}
	if err != nil {
		d.log.Warn("abort a run", "err", err)
	}
	c.run = false
	if !d.real() {
		d.rest(c)
	}
	d.event("run", "", "", "aborted")
}

// forgetRun has all nodes drop a run, and all that is under way, at one virtual time.
func (d *Daemon) forgetRun(ctx context.Context, at vt.Time) error {
	d.inForce = nil
	return d.each(ctx, func(n *node) *ctl.Message {
		if !d.takesPart(n.id) {
			return nil
		}
		return &ctl.Message{Op: "run", Run: &ctl.Run{At: at}}
	})
}
