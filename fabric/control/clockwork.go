package control

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/internal/clock"
	"github.com/uetlab/uetlab/internal/vt"
)

// clockwork drives the clock page: how far virtual time may go. All fields are under mu, which is held for the short
// while that a decision takes; whoever needs virtual time to stand still while it talks to nodes calls hold.
type clockwork struct {
	mu     sync.Mutex
	seg    clock.Segment
	run    bool // a run is under way: time goes on by itself
	open   bool // the limit goes on ahead of the nodes
	paused bool
	k      float64 // cap, wall per virtual; 0 = none
	wall   clock.Wall

	patience time.Duration // how long a node may take to obey

	lowered uint64 // the last segment that took the limit back: it holds a node once that node has acknowledged it

	restWall int64   // at rest virtual time follows the wall from here
	restVirt vt.Time // …

	markWall int64 // for the dilation of late
	markVirt vt.Time
	dilation float64
}

const (
	forever = vt.Never - 1
	// window is how far the limit lies ahead of the slowest node while time goes on by itself. Nodes that share no living
	// neighbours do not hold one another back: without a limit, one that is cut off would run away to the end of time.
	window   = time.Millisecond
	tick     = 250 * time.Microsecond
	ackLimit = 10 * time.Second     // a node that does not obey the clock for so long is reported
	hostWait = 5 * time.Millisecond // how long a frame of a plain host may wait at a lab that rests: nobody tells of it
	burst    = 2 * time.Microsecond // from an event at rest to those that follow from it at the far end of a usual link
	ahead    = time.Microsecond     // a change is scheduled so far beyond every horizon
	farthest = 24 * time.Hour       // that time is moved at once: ports keep picoseconds, which last for 106 days in all
)

func sleep(d time.Duration) {
	ts := unix.NsecToTimespec(int64(d))
	_ = unix.Nanosleep(&ts, nil) // woken early: the caller looks again anyway
}

// write publishes the segment. Callers hold mu.
func (d *Daemon) write(c *clockwork) uint64 {
	c.seg.K = 0
	if c.k > 0 && c.run { // at rest nobody watches, and an idle wait of seconds would take days
		c.seg.K = uint64(c.k * 1000)
	}
	// A leap ends at the limit: what is scheduled while time is held there may lie before the leap's old end.
	c.seg.Jump = min(c.seg.Jump, c.seg.Limit)
	c.seg.Seq = d.clk.Write(c.seg)
	return c.seg.Seq
}

// horizons gives the least and the greatest horizon of the nodes that live.
func (d *Daemon) horizons() (lo, hi vt.Time) {
	lo = vt.Never
	for _, n := range d.agreeing() {
		h := vt.Time(n.page.Horizon.Load())
		lo, hi = min(lo, h), max(hi, h)
	}
	if lo == vt.Never {
		lo = hi
	}
	return lo, hi
}

// agreeing is the nodes that take part in virtual time and live.
func (d *Daemon) agreeing() []*node {
	var ns []*node
	for _, n := range d.nodes {
		if d.takesPart(n.id) && !d.clk.Dead(n.id) {
			ns = append(ns, n)
		}
	}
	return ns
}

// hold stops time a little ahead of every node and returns a moment that none has passed: what is scheduled after it is
// ahead of every horizon. release lets time go on. After an error nothing is held. Callers hold mu.
func (d *Daemon) hold(ctx context.Context, c *clockwork) (vt.Time, error) {
	if d.real() {
		return d.realNow(c), nil
	}
	was, wasOpen := c.seg, c.open
	c.open = false
	if _, hi := d.horizons(); c.seg.Limit > hi && c.seg.Flags&clock.Rest == 0 { // else nobody can go beyond the limit, which stays
		c.seg.Limit = hi
		c.lowered = d.write(c)
	}
	if err := d.obeyed(ctx, c.lowered); err != nil {
		c.seg, c.open = was, wasOpen
		d.write(c)
		return 0, err
	}
	_, hi := d.horizons()
	return max(hi, c.seg.Limit), nil
}

// obeyed waits until every node acts by segment seq or a later one. What a node has done by an earlier one shows in its
// horizon then.
func (d *Daemon) obeyed(ctx context.Context, seq uint64) error {
	deadline := time.Now().Add(d.time.patience)
	for _, n := range d.agreeing() {
		for n.page.Ack.Load() < seq && !d.clk.Dead(n.id) {
			if err := ctx.Err(); err != nil {
				return err
			}
			if time.Now().After(deadline) {
				return api.Errorf(api.CodeTimeout, "node %s does not obey the clock", n.name).WithHint("see `uetlab logs %s`; `uetlab restart %s` gives it a new start", n.name, n.name)
			}
			sleep(tick / 5)
		}
	}
	return nil
}

// release lets time go on as far as the lab's state allows: ahead of the nodes during a run, not at all when paused or resting.
func (d *Daemon) release(c *clockwork, held vt.Time) {
	if d.real() {
		return
	}
	switch {
	case c.paused:
		c.seg.Limit = held
		c.seg.Flags |= clock.Rest
	case c.run:
		lo, _ := d.horizons()
		c.open = true
		c.seg.Limit = max(c.seg.Limit, lo.Add(window))
		c.seg.Flags &^= clock.Rest
	default:
		c.seg.Limit = max(c.seg.Limit, held) // a change may have taken time further
		c.seg.Flags |= clock.Rest
	}
	d.anchor(c)
	d.write(c)
	d.wake()
}

// extend keeps the limit ahead of the nodes while time goes on by itself. Callers hold mu.
func (d *Daemon) extend(c *clockwork) {
	lo, _ := d.horizons()
	if to := lo.Add(window); c.open && to.Sub(c.seg.Limit) > window/4 {
		c.seg.Limit = to
		d.write(c)
	}
}

// anchor ties the cap to this moment, so that a pause is not made up for.
func (d *Daemon) anchor(c *clockwork) {
	_, hi := d.horizons()
	c.seg.Wall0, c.seg.Virt0 = c.wall.Now(), hi
	c.markWall, c.markVirt = c.seg.Wall0, hi
}

// quiet looks at all pages twice: if nothing changed in between, no frame is under way and nobody has an event before
// next, then nothing happens anywhere before next.
func (d *Daemon) quiet(ns []*node, seqs []uint64) (next vt.Time, ok bool) {
	next = vt.Never
	for i, n := range ns {
		s := n.page.Seq.Load()
		if s&1 == 1 {
			return 0, false
		}
		seqs[i] = s
		next = min(next, vt.Time(n.page.Next.Load()))
	}
	if d.inFlight() {
		return 0, false
	}
	for i, n := range ns {
		if n.page.Seq.Load() != seqs[i] {
			return 0, false
		}
	}
	return next, true
}

// leap moves all nodes to just before the next event when nothing happens before it and allowed, asked while the lab is
// quiet, says so. It tells whether the lab is quiet and when that event is. Callers hold mu.
func (d *Daemon) leap(c *clockwork, allowed func() bool) (next vt.Time, quiet bool) {
	d.leaping.Lock()
	defer d.leaping.Unlock()
	ns := d.agreeing()
	if len(d.seqs) < len(ns) {
		d.seqs = make([]uint64, len(d.nodes))
	}
	next, quiet = d.quiet(ns, d.seqs)
	if !quiet || !allowed() {
		return next, quiet
	}
	lo, _ := d.horizons()
	to := next - 1
	if !c.open {
		to = min(to, c.seg.Limit)
	}
	if to > lo+vt.Time(ahead) && to != forever && to > c.seg.Jump {
		c.seg.Jump = to
		if c.open {
			c.seg.Limit = max(c.seg.Limit, to.Add(window))
		}
		d.write(c)
	}
	return next, true
}

// reach lets time go on until every node has come to limit. When it cannot, time stays where it is. Callers hold mu.
func (d *Daemon) reach(ctx context.Context, c *clockwork, limit vt.Time) error {
	c.seg.Flags &^= clock.Rest
	return d.reachAsIs(ctx, c, limit)
}

// reachAsIs is reach in which nodes sleep at the limit at once if the lab rests.
func (d *Daemon) reachAsIs(ctx context.Context, c *clockwork, limit vt.Time) error {
	c.open = false
	c.seg.Limit = limit
	d.anchor(c)
	seq, since := d.write(c), time.Now()
	d.leap(c, func() bool { return true }) // before anybody wakes, to go there step by step
	d.wake()
	for {
		lo, _ := d.horizons()
		if lo >= limit || len(d.agreeing()) == 0 {
			return nil
		}
		if err := ctx.Err(); err != nil {
			if _, herr := d.hold(context.Background(), c); herr != nil {
				d.log.Warn("stop time where it is", "err", herr)
			}
			d.rest(c)
			return err
		}
		if time.Since(since) > ackLimit { // slow, or is somebody stuck?
			if err := d.obeyed(ctx, seq); err != nil {
				d.rest(c)
				return err
			}
			seq, since = d.write(c), time.Now()
		}
		d.leap(c, func() bool { return true })
		sleep(tick / 5)
	}
}

// rest lets the nodes sleep at the limit that they have reached.
func (d *Daemon) rest(c *clockwork) {
	_, hi := d.horizons()
	c.open = false
	c.seg.Flags |= clock.Rest
	c.seg.Limit = max(c.seg.Limit, hi)
	c.restVirt, c.restWall = c.seg.Limit, c.wall.Now()
	d.write(c)
}

// virtualNow is the lab's virtual time: at rest it follows the wall.
func (d *Daemon) virtualNow(c *clockwork) vt.Time {
	if d.real() {
		return d.realNow(c)
	}
	if !c.run && !c.paused {
		return c.restVirt + vt.Time(c.wall.Now()-c.restWall)
	}
	_, hi := d.horizons()
	return min(hi, c.seg.Limit)
}

func (d *Daemon) realNow(c *clockwork) vt.Time {
	return c.seg.Virt0 + vt.Time(c.wall.Now()-c.seg.Wall0)
}

// heartbeat tells the nodes that the daemon lives.
func (d *Daemon) heartbeat(ctx context.Context) {
	t := time.NewTicker(250 * time.Millisecond)
	defer t.Stop()
	for {
		d.clk.Beat.Add(1)
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// inFlight says whether a frame is between two nodes.
func (d *Daemon) inFlight() bool {
	for i := range d.plan.Links {
		if d.frameOn(&d.plan.Links[i]) {
			return true
		}
	}
	return false
}

// frameOn says whether a frame that an end of a link has sent is under way to a node that lives.
func (d *Daemon) frameOn(l *topology.Link) bool { return d.frameFrom(l.A) || d.frameFrom(l.B) }

func (d *Daemon) frameFrom(from topology.End) bool {
	to := d.plan.Nodes[from.Node].Ports[from.Port].Far()
	a, b := d.nodes[from.Node], d.nodes[to.Node]
	if !d.takesPart(a.id) || !d.takesPart(b.id) || d.clk.Dead(a.id) || d.clk.Dead(b.id) {
		return false
	}
	return a.page.Sent[from.Port].Load() != b.page.Taken[to.Port].Load()
}

// clockOp changes how time passes.
func (d *Daemon) clockOp(ctx context.Context, op api.ClockOp) (api.Clock, error) {
	c := &d.time
	c.mu.Lock()
	defer c.mu.Unlock()
	if d.real() {
		return api.Clock{}, api.Errorf(api.CodePrecondition, "clock %s: the lab runs with --time real", op.Op).
			WithHint("bring it up with --time auto to steer its time")
	}
	switch op.Op {
	case api.ClockPause, api.ClockResume:
		if err := d.pause(ctx, c, op.Op == api.ClockPause); err != nil {
			return api.Clock{}, err
		}
	case api.ClockStep:
		if !c.paused {
			return api.Clock{}, api.Errorf(api.CodeUsage, "clock step: the clock is not paused").WithHint("say `uetlab clock pause` first")
		}
		if op.StepNs <= 0 || op.StepNs > int64(farthest) {
			return api.Clock{}, api.Errorf(api.CodeUsage, "clock step (%d ns): give a duration above 0 and up to %v", op.StepNs, farthest)
		}
		if err := d.reach(ctx, c, c.seg.Limit+vt.Time(op.StepNs)); err != nil {
			return api.Clock{}, err
		}
		c.seg.Flags |= clock.Rest
		d.write(c)
	case api.ClockCap:
		if !(op.Cap >= 1 && op.Cap <= 1e9) {
			return api.Clock{}, api.Errorf(api.CodeUsage, "clock cap (%v): give K between 1 and 1e9: virtual time at most at 1/K of the wall", op.Cap)
		}
		c.k = op.Cap
		d.anchor(c)
		d.write(c)
	case api.ClockAuto:
		c.k = 0
		d.write(c)
	default:
		return api.Clock{}, api.Errorf(api.CodeUsage, "clock %q: not known", op.Op).WithHint("use show, pause, resume, step, cap or auto")
	}
	return d.showClock(c), nil
}

// pause stops time where it is, or lets it go on. Callers hold mu.
func (d *Daemon) pause(ctx context.Context, c *clockwork, stop bool) error {
	if stop == c.paused {
		return nil
	}
	if stop && !c.run { // at rest virtual time is where the wall is
		if err := d.reach(ctx, c, d.virtualNow(c)); err != nil {
			return err
		}
	}
	held, err := d.hold(ctx, c)
	if err != nil {
		return err
	}
	c.paused = stop
	c.restVirt, c.restWall = held, c.wall.Now()
	d.release(c, held)
	if stop && !d.real() {
		d.stand(ctx, held)
	}
	d.event("clock", "", "", map[bool]string{true: "paused", false: "resumed"}[stop])
	return nil
}

// stand waits for the nodes that were behind the others when time stopped: then nothing moves any more. It is not worth an
// error if one of them does not come.
func (d *Daemon) stand(ctx context.Context, limit vt.Time) {
	for since := time.Now(); ctx.Err() == nil && time.Since(since) < ackLimit; sleep(tick / 5) {
		if lo, _ := d.horizons(); lo >= limit || len(d.agreeing()) == 0 {
			return
		}
	}
}

// showClock describes the clock. Callers hold mu.
func (d *Daemon) showClock(c *clockwork) api.Clock {
	lo, hi := d.horizons()
	r := api.Clock{State: api.ClockResting, NowNs: int64(d.virtualNow(c)), LimitNs: int64(c.seg.Limit), Cap: c.k,
		MinHorizonNs: int64(lo), MaxHorizonNs: int64(hi), Dilation: c.dilation}
	switch {
	case d.real():
		r.State = api.ClockReal
	case c.paused:
		r.State = api.ClockPaused
	case c.run:
		r.State = api.ClockRunning
		if wall, virt := c.wall.Now()-c.markWall, int64(hi-c.markVirt); virt > 0 {
			r.Dilation = float64(wall) / float64(virt)
		}
	}
	if c.open || d.real() {
		r.LimitNs = -1
	}
	return r
}

// fidelityFault names the first node whose results are worthless, if any.
func (d *Daemon) fidelityFault() string {
	for _, n := range d.nodes {
		if f := clock.Fault(n.page.Fault.Load()); f != clock.FaultNone {
			return fmt.Sprintf("%s: %s", n.name, f)
		}
	}
	return ""
}
