package control

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/internal/ctl"
	"github.com/uetlab/uetlab/internal/vt"
)

// deed is something that is to happen to the lab at given virtual times. Until its moment is known the times count from
// there.
type deed interface {
	later(by vt.Time) deed
	span() (first, last vt.Time)
	check(d *Daemon) error // before it waits for a run
	// schedule has all nodes take it, or none. Time is held, and all that was scheduled up to held has happened.
	schedule(ctx context.Context, d *Daemon, held vt.Time) (done, error)
	tell(d *Daemon, when func(at vt.Time) string) // in events
}

// done is what came of a deed.
type done struct {
	routes vt.Time // when the last change of routes takes effect: 0 none, -1 never
	undo   func()
}

// timing says when a deed takes place.
type timing struct {
	when   string // api.When…
	at     vt.Time
	rel    int64 // ns after the start of the run
	routes vt.Time
}

// arrange schedules a deed whose times count from the moment that text gives (api.LinkChange.At), or arms it for the next
// run.
func (d *Daemon) arrange(ctx context.Context, text string, w deed) (t timing, err error) {
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
		return d.arm(time.Duration(ns), w)
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
	w = w.later(t.at)
	if err := checkTimes(text, w, held, cur); err != nil {
		return t, err
	}
	if cur != nil {
		t.rel = int64(t.at - cur.t0)
	}
	what, err := w.schedule(ctx, d, held)
	if err != nil {
		return t, err
	}
	w.tell(d, at)
	t.routes = what.routes
	if isRel {
		d.notBefore(w)
	}
	if !c.run && !c.paused && !d.real() { // when the answer comes all of it has happened
		_, last := w.span()
		if err := d.reach(ctx, c, max(t.at, last)); err != nil {
			return t, err
		}
		d.rest(c)
		d.cutCarriers(ctx)
	}
	d.poke()
	return t, nil
}

func at(t vt.Time) string { return " at " + t.String() }

// arm keeps a deed for the next run, after its start.
func (d *Daemon) arm(after time.Duration, w deed) (timing, error) {
	if after > farthest {
		return timing{}, api.Errorf(api.CodeUsage, "--at (+%v): that is more than %v ahead", after, farthest)
	}
	if err := w.check(d); err != nil {
		return timing{}, err
	}
	w = w.later(vt.Time(after))
	d.armed = append(d.armed, parts(w)...)
	w.tell(d, func(at vt.Time) string { return " armed for the next run at +" + time.Duration(at).String() })
	return timing{when: api.WhenNextRun, rel: int64(after)}, nil
}

// checkTimes says whether a deed, at a moment given as text, can still be scheduled when time is held.
func checkTimes(text string, w deed, held vt.Time, cur *run) error {
	first, last := w.span()
	if last.Sub(held) > farthest {
		return api.Errorf(api.CodeUsage, "--at (%s): that is more than %v ahead", text, farthest)
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

// fireArmed schedules what waited for a run, all or none.
func (d *Daemon) fireArmed(ctx context.Context, t0 vt.Time) error {
	waiting := d.armed
	d.armed = nil
	var all []done
	for _, w := range waiting {
		w = w.later(t0)
		what, err := w.schedule(ctx, d, t0-1)
		if err != nil {
			for _, x := range slices.Backward(all) {
				x.undo()
			}
			return err
		}
		all = append(all, what)
		w.tell(d, at)
		d.notBefore(w)
	}
	return nil
}

// notBefore has the next run begin after all that was scheduled for this one: what of it happens after this one's end
// must not show in the next by chance.
func (d *Daemon) notBefore(w deed) {
	_, last := w.span()
	d.converged = max(d.converged, last)
}

// takeBack has the nodes forget what not all of them have taken.
func (d *Daemon) takeBack(changes map[int][]ctl.Change) {
	ctx, cancel := context.WithTimeout(context.Background(), ackLimit)
	defer cancel()
	if err := d.send(ctx, changes); err != nil {
		d.log.Warn("take a change back", "err", err)
	}
}

// send tells nodes of changes, in messages that are not too long.
func (d *Daemon) send(ctx context.Context, changes map[int][]ctl.Change) error {
	rest := make(map[int][]ctl.Change, len(changes))
	for id, list := range changes {
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
	const most, change, word, settings = 512 << 10, 512, 48, 4 << 10 // bytes of JSON
	size := 0
	for i, c := range list {
		size += change
		if c.Switch != nil {
			size += settings
		}
		for _, g := range c.Routes {
			size += word * (len(g.Ports) + len(g.Prefixes))
		}
		if size > most {
			return max(1, i)
		}
	}
	return len(list)
}
