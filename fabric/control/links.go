package control

import (
	"context"
	"errors"
	"slices"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/internal/faults"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/switchd"
)

// linkDeed is a list of faults.
type linkDeed []faults.Fault

func (l linkDeed) later(by vt.Time) deed { return linkDeed(later(l, by)) }

func (l linkDeed) span() (first, last vt.Time) {
	first = vt.Never
	for i := range l {
		first, last = min(first, l[i].At), max(last, l[i].Last())
	}
	return first, last
}

// check looks whether there will be link layer retry where ports are to shake hands anew, and room for it where it is turned on; the rest of each fault has
// been looked at when it was read.
func (l linkDeed) check(d *Daemon) error {
	if err := l.roomForRetry(d); err != nil {
		return err
	}
	for i := range l {
		if l[i].Set.ReInit == nil {
			continue
		}
		p, state := &d.plan.Links[l[i].Link], d.faults.Final(l[i].Link)
		for _, w := range append(slices.Clone(d.armed), l) {
			links, _ := w.(linkDeed)
			for k := range links {
				if f := &links[k]; f.Link == l[i].Link && f.At <= l[i].At {
					state.Want(p, f)
				}
			}
		}
		if !state.Retries(p) {
			return wrong(faults.NoRetry(d.plan.Links[l[i].Link].Name))
		}
	}
	return nil
}

// inVirtualTime refuses LLR and CBFC in a lab at the wall's pace, which has neither.
func (d *Daemon) inVirtualTime(f *faults.Fault) error {
	s, key := &f.Set, ""
	switch {
	case s.LLR != nil && *s.LLR || s.ReInit != nil:
		key = "llr"
	case s.CBFC != nil && *s.CBFC || s.Limit != nil:
		key = "cbfc"
	}
	if d.real() && key != "" {
		return api.Errorf(api.CodeUsage, "%s: labs with --time real have none", key).WithHint("bring the lab up with --time auto")
	}
	return nil
}

func (l linkDeed) tell(d *Daemon, when func(at vt.Time) string) {
	for i := range l {
		d.event("link", "", d.plan.Links[l[i].Link].Name, l[i].Text()+when(l[i].At))
	}
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
	t, err := d.arrange(ctx, ch.At, linkDeed{f})
	if err != nil {
		return none, err
	}
	return api.LinkChangeResult{Link: d.plan.Links[f.Link].Name, When: t.when, AtNs: int64(t.at), RelNs: t.rel, RoutesAtNs: int64(t.routes)}, nil
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
	if err := wrong(f.Check(d.plan)); err != nil {
		return f, err
	}
	return f, d.inVirtualTime(&f)
}

// roomForRetry says whether switches have room for what link layer retry may send again after a pause, where it is to be turned on.
func (l linkDeed) roomForRetry(d *Daemon) error {
	for i := range l {
		if on := l[i].Set.LLR; on != nil && *on {
			if err := faults.Headroom(d.plan, l[i].Link, d.finally); err != nil {
				return wrong(err)
			}
		}
	}
	return nil
}

// finally gives the settings of a switch when all has happened that is scheduled.
func (d *Daemon) finally(node int) *switchd.Settings {
	set := d.settings.at(node, vt.Never)
	return &set
}

// wrong words what a change is refused for.
func wrong(err error) error {
	var e *faults.Error
	if errors.As(err, &e) {
		return api.Errorf(api.CodeUsage, "%w", err).WithHint("%s", e.Hint)
	}
	return err
}

// later gives the same faults by so much later.
func later(list []faults.Fault, by vt.Time) []faults.Fault {
	list = slices.Clone(list)
	for i := range list {
		list[i].At += by
	}
	return list
}

// schedule sends faults to both ends of their links, and, where they take links down or up, the new routes to all switches
// for the time when the fabric has converged.
func (l linkDeed) schedule(ctx context.Context, d *Daemon, held vt.Time) (done, error) {
	var none done
	if err := l.roomForRetry(d); err != nil {
		return none, err
	}
	d.faults.Settle(held)
	b, err := d.faults.Schedule(l...)
	if err != nil {
		return none, wrong(err)
	}
	for _, id := range b.Comes {
		if d.noCarrier[id] {
			if err := d.restoreCarrier(ctx, id); err != nil {
				d.faults.Undo(b) // nobody has been told
				return none, err
			}
		}
	}
	undo := func() { d.takeBack(d.faults.Undo(b).Changes) }
	if err := d.send(ctx, b.Changes); err != nil {
		undo()
		return none, err
	}
	d.converged = max(d.converged, b.Routes)
	return done{routes: b.Routes, undo: undo}, nil
}
