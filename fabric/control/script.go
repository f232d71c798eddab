package control

import (
	"context"
	"slices"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/internal/faults"
	"github.com/uetlab/uetlab/internal/vt"
)

// deeds are several deeds that the lab takes all or none of.
type deeds []deed

func (w deeds) later(by vt.Time) deed {
	out := make(deeds, len(w))
	for i := range w {
		out[i] = w[i].later(by)
	}
	return out
}

func (w deeds) span() (first, last vt.Time) {
	first = vt.Never
	for _, x := range w {
		a, b := x.span()
		first, last = min(first, a), max(last, b)
	}
	return first, last
}

// check looks at each as if those before it were waiting already.
func (w deeds) check(d *Daemon) error {
	n := len(d.armed)
	defer func() { d.armed = d.armed[:n] }()
	for _, x := range w {
		if err := x.check(d); err != nil {
			return err
		}
		d.armed = append(d.armed, x)
	}
	return nil
}

func (w deeds) schedule(ctx context.Context, d *Daemon, held vt.Time) (done, error) {
	var all done
	var undo []func()
	all.undo = func() {
		for _, f := range slices.Backward(undo) {
			f()
		}
	}
	for _, x := range w {
		one, err := x.schedule(ctx, d, held)
		if err != nil {
			all.undo()
			return done{}, err
		}
		undo = append(undo, one.undo)
		if one.routes != 0 {
			all.routes = one.routes
		}
	}
	return all, nil
}

func (w deeds) tell(d *Daemon, when func(at vt.Time) string) {
	for _, x := range w {
		x.tell(d, when)
	}
}

// parts are the deeds of which one is made.
func parts(w deed) []deed {
	if all, ok := w.(deeds); ok {
		return all
	}
	return []deed{w}
}

// script schedules a list of changes, all or none.
func (d *Daemon) script(ctx context.Context, s api.FaultScript) (api.FaultScriptResult, error) {
	var none api.FaultScriptResult
	w, changes, err := d.readScript(s.Steps)
	if err != nil {
		return none, err
	}
	_, last := w.span()
	t, err := d.arrange(ctx, s.At, w)
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

// readScript makes a deed of steps: first the links, then the switches in the order of time. It counts the changes.
func (d *Daemon) readScript(steps []api.FaultStep) (w deeds, changes int, err error) {
	if len(steps) == 0 {
		return nil, 0, api.Errorf(api.CodeUsage, "faults: no steps")
	}
	var links linkDeed
	var switches []switchDeed
	for i, step := range steps {
		if step.Switch != "" {
			x, err := d.switchStep(step)
			if err != nil {
				return nil, 0, inStep(i, err)
			}
			switches = append(switches, x)
			changes += len(x.Nodes)
			continue
		}
		f, err := d.fault(step)
		if err != nil {
			return nil, 0, inStep(i, err)
		}
		links = append(links, f)
		changes += max(1, 2*f.Flap.Count)
	}
	if changes > faults.MaxFaults {
		return nil, 0, api.Errorf(api.CodeUsage, "faults: %d changes at once", changes).WithHint("give at most %d", faults.MaxFaults)
	}
	if len(links) > 0 {
		w = append(w, links)
	}
	slices.SortStableFunc(switches, func(a, b switchDeed) int { return int(a.At - b.At) })
	for _, x := range switches {
		w = append(w, x)
	}
	return w, changes, nil
}

func inStep(i int, err error) error {
	e := api.AsError(err)
	return api.Errorf(e.Code, "step %d: %w", i+1, e).WithHint("%s", e.Hint)
}

// switchStep reads and checks one step for a switch.
func (d *Daemon) switchStep(s api.FaultStep) (w switchDeed, err error) {
	switch {
	case s.Link != "" || s.Op != "" || s.From != "":
		return w, api.Errorf(api.CodeUsage, "switch %s: a link and a switch in one step", s.Switch).WithHint("make it two steps")
	case s.AtNs < 0 || s.AtNs > int64(farthest):
		return w, api.Errorf(api.CodeUsage, "at (%d ns): give between 0 and %v", s.AtNs, farthest)
	}
	w.At, w.Assign = vt.Time(s.AtNs), s.Assignments
	w.Nodes, err = d.switchesNamed([]string{s.Switch})
	return w, err
}
