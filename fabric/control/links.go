package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/internal/ctl"
	"github.com/uetlab/uetlab/internal/faults"
	"github.com/uetlab/uetlab/internal/vt"
)

// armed is what waits for the next run; its times count from the run's start.
type armed []faults.Fault

// timing says when faults take place.
type timing struct {
	when   string // api.When…
	at     vt.Time
	rel    int64 // ns after the start of the run
	routes vt.Time
}

// changeLink schedules a change at one virtual time at both ends.
func (d *Daemon) changeLink(ctx context.Context, name string, ch api.LinkChange) (api.LinkChangeResult, error) {
	res, err := d.planChange(ctx, name, ch)
	if err == nil && res.When != api.WhenNextRun {
		err = d.saveState()
	}
	return res, err
}

func (d *Daemon) planChange(ctx context.Context, name string, ch api.LinkChange) (api.LinkChangeResult, error) {
	var none api.LinkChangeResult
	f, err := d.fault(api.FaultStep{Link: name, Op: ch.Op, From: ch.From, Set: ch.Set, Flap: ch.Flap})
	if err != nil {
		return none, err
	}
	t, err := d.arrange(ctx, ch.At, []faults.Fault{f})
	if err != nil {
		return none, err
	}
	return api.LinkChangeResult{Link: d.plan.Links[f.Link].Name, When: t.when, AtNs: int64(t.at), RelNs: t.rel, RoutesAtNs: int64(t.routes)}, nil
}

// script schedules a list of changes, all or none.
func (d *Daemon) script(ctx context.Context, s api.FaultScript) (api.FaultScriptResult, error) {
	var none api.FaultScriptResult
	if len(s.Steps) == 0 {
		return none, api.Errorf(api.CodeUsage, "faults: no steps")
	}
	var list []faults.Fault
	var last vt.Time
	changes := 0
	for i, step := range s.Steps {
		f, err := d.fault(step)
		if err != nil {
			e := api.AsError(err)
			return none, api.Errorf(e.Code, "step %d: %w", i+1, e).WithHint("%s", e.Hint)
		}
		list = append(list, f)
		last = max(last, f.Last())
		changes += max(1, 2*f.Flap.Count)
	}
	if changes > faults.MaxFaults {
		return none, api.Errorf(api.CodeUsage, "faults: %d changes at once", changes).WithHint("give at most %d", faults.MaxFaults)
	}
	t, err := d.arrange(ctx, s.At, list)
	if err != nil {
		return none, err
	}
	res := api.FaultScriptResult{When: t.when, AtNs: int64(t.at), RelNs: t.rel, Changes: changes, RoutesAtNs: int64(t.routes)}
	if t.when == api.WhenNextRun {
		return res, nil
	}
	res.LastNs = int64(t.at + last)
	return res, d.saveState()
}

// fault reads and checks one step.
func (d *Daemon) fault(s api.FaultStep) (f faults.Fault, err error) {
	id, _, err := d.plan.FindLink(s.Link)
	if err != nil {
		return f, api.Errorf(api.CodeNotFound, "link: %w", err)
	}
	l := &d.plan.Links[id]
	f = faults.Fault{At: vt.Time(s.AtNs), Link: id, From: faults.Both, Op: s.Op, Set: s.Set, Flap: s.Flap}
	if a, b := d.nodes[l.A.Node].name, d.nodes[l.B.Node].name; s.From == a {
		f.From = l.A.Node
	} else if s.From == b {
		f.From = l.B.Node
	} else if s.From != "" {
		return f, api.Errorf(api.CodeUsage, "--from (%s): link %s joins %s and %s", s.From, l.Name, a, b)
	}
	if s.AtNs < 0 || s.AtNs > int64(farthest) {
		return f, api.Errorf(api.CodeUsage, "at (%d ns): give between 0 and %v", s.AtNs, farthest)
	}
	return f, wrong(f.Check(d.plan))
}

// wrong words what a change is refused for.
func wrong(err error) error {
	var e *faults.Error
	if errors.As(err, &e) {
		return api.Errorf(api.CodeUsage, "%w", err).WithHint("%s", e.Hint)
	}
	return err
}

// arrange schedules faults whose times count from the moment that text gives (api.LinkChange.At), or arms them for the next
// run.
func (d *Daemon) arrange(ctx context.Context, text string, list []faults.Fault) (t timing, err error) {
	ctx, cancel := context.WithTimeout(ctx, runWait)
	defer cancel()
	c := &d.time
	c.mu.Lock()
	defer c.mu.Unlock()
	d.runMu.Lock()
	cur := d.cur
	d.runMu.Unlock()
	t.when = api.WhenNow
	var ns int64
	isRel := false
	if text != "" {
		if ns, isRel, err = api.ParseAt(text); err != nil {
			return t, err
		}
	}
	if isRel && cur == nil {
		return d.arm(time.Duration(ns), list)
	}
	held, err := d.hold(ctx, c)
	if err != nil {
		return t, err
	}
	defer d.release(c, held)
	held = max(held, d.virtualNow(c))
	t.at = held.Add(ahead)
	switch {
	case isRel:
		t.at, t.when = cur.t0.Add(time.Duration(ns)), api.WhenThisRun
	case text != "":
		t.at = vt.Time(ns)
	}
	list = later(list, t.at)
	if err := checkTimes(text, list, held, cur); err != nil {
		return t, err
	}
	if cur != nil {
		t.rel = int64(t.at - cur.t0)
	}
	b, err := d.schedule(ctx, list, held)
	if err != nil {
		return t, err
	}
	t.routes = b.Routes
	if isRel {
		d.notBefore(list)
	}
	if !c.run && !c.paused && !d.real() { // when the answer comes all of it has happened
		last := t.at
		for i := range list {
			last = max(last, list[i].Last())
		}
		if err := d.reach(ctx, c, last); err != nil {
			return t, err
		}
		d.rest(c)
		d.cutCarriers(ctx)
	}
	d.poke()
	return t, nil
}

// arm keeps faults for the next run, after its start.
func (d *Daemon) arm(after time.Duration, list []faults.Fault) (timing, error) {
	if after > farthest {
		return timing{}, api.Errorf(api.CodeUsage, "--at (+%v): that is more than %v ahead", after, farthest)
	}
	list = later(list, vt.Time(after))
	d.armed = append(d.armed, list)
	for i := range list {
		d.event("link", "", d.plan.Links[list[i].Link].Name, list[i].Text()+" armed for the next run at +"+time.Duration(list[i].At).String())
	}
	return timing{when: api.WhenNextRun, rel: int64(after)}, nil
}

// later gives the same faults by so much later.
func later(list []faults.Fault, by vt.Time) []faults.Fault {
	list = slices.Clone(list)
	for i := range list {
		list[i].At += by
	}
	return list
}

// checkTimes says whether faults, at a moment given as text, can still be scheduled when time is held.
func checkTimes(text string, list []faults.Fault, held vt.Time, cur *run) error {
	first := vt.Never
	for i := range list {
		if first = min(first, list[i].At); list[i].Last().Sub(held) > farthest {
			return api.Errorf(api.CodeUsage, "--at (%s): that is more than %v ahead", text, farthest)
		}
	}
	if first > held {
		return nil
	}
	where := held.String()
	if cur != nil {
		where += fmt.Sprintf(" (%v after the start of the run)", held.Sub(cur.t0))
	}
	return api.Errorf(api.CodeUsage, "--at (%s): that is past, the lab is at %s", text, where).
		WithHint("give a later time, or schedule the change before the run begins")
}

// fireArmed schedules the changes that waited for a run.
func (d *Daemon) fireArmed(ctx context.Context, t0 vt.Time) error {
	waiting := d.armed
	d.armed = nil
	var done []*faults.Batch
	for _, a := range waiting {
		list := later(a, t0)
		b, err := d.schedule(ctx, list, t0-1)
		if err != nil {
			for _, b := range slices.Backward(done) {
				d.takeBack(b)
			}
			return err
		}
		done = append(done, b)
		d.notBefore(list)
	}
	return nil
}

// notBefore has the next run begin after all that was scheduled for this one: what of it happens after this one's end
// must not show in the next by chance.
func (d *Daemon) notBefore(list []faults.Fault) {
	for i := range list {
		d.converged = max(d.converged, list[i].Last())
	}
}

// schedule sends faults to both ends of their links, and, where they take links down or up, the new routes to all switches
// for the time when the fabric has converged. All nodes take them or none. Time is held.
func (d *Daemon) schedule(ctx context.Context, list []faults.Fault, held vt.Time) (*faults.Batch, error) {
	d.faults.Settle(held)
	b, err := d.faults.Schedule(list...)
	if err != nil {
		return nil, wrong(err)
	}
	for _, id := range b.Comes {
		if d.noCarrier[id] {
			if err := d.restoreCarrier(ctx, id); err != nil {
				d.faults.Undo(b) // nobody has been told
				return nil, err
			}
		}
	}
	if err := d.send(ctx, b); err != nil {
		d.takeBack(b)
		return nil, err
	}
	for i := range list {
		d.event("link", "", d.plan.Links[list[i].Link].Name, list[i].Text()+" at "+list[i].At.String())
	}
	d.converged = max(d.converged, b.Routes)
	return b, nil
}

// takeBack has the nodes forget a batch that not all of them have taken.
func (d *Daemon) takeBack(b *faults.Batch) {
	ctx, cancel := context.WithTimeout(context.Background(), ackLimit)
	defer cancel()
	if err := d.send(ctx, d.faults.Undo(b)); err != nil {
		d.log.Warn("take a change back", "err", err)
	}
}

// send tells nodes of changes, in messages that are not too long.
func (d *Daemon) send(ctx context.Context, b *faults.Batch) error {
	rest := make(map[int][]ctl.Change, len(b.Changes))
	for id, list := range b.Changes {
		if d.takesPart(id) {
			rest[id] = list
		}
	}
	for len(rest) > 0 {
		part := make(map[int][]ctl.Change, len(rest))
		for id, list := range rest {
			n := fitting(list)
			part[id] = list[:n]
			if rest[id] = list[n:]; n == len(list) {
				delete(rest, id)
			}
		}
		if err := d.each(ctx, func(n *node) *ctl.Message {
			if len(part[n.id]) == 0 {
				return nil
			}
			return &ctl.Message{Op: "change", Changes: part[n.id]}
		}); err != nil {
			return err
		}
	}
	return nil
}

// fitting is how many changes one message should have, at least one.
func fitting(list []ctl.Change) int {
	const most, change, word = 512 << 10, 512, 48 // bytes of JSON
	size := 0
	for i, c := range list {
		size += change
		for _, g := range c.Routes {
			size += word * (len(g.Ports) + len(g.Prefixes))
		}
		if size > most {
			return max(1, i)
		}
	}
	return len(list)
}
