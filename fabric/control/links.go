package control

import (
	"context"
	"fmt"
	"time"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/internal/ctl"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/nodecore"
	"github.com/uetlab/uetlab/internal/vt"
)

// linkState is what is wrong with a link, as of the last change that was scheduled.
type linkState struct {
	AB link.Impair `json:"ab"`
	BA link.Impair `json:"ba"`

	Since     vt.Time `json:"sinceNs"`             // when that change takes effect
	NoCarrier bool    `json:"noCarrier,omitempty"` // the veth pair has been taken down
}

func (s *linkState) healthy() bool { return s.AB == link.Impair{} && s.BA == link.Impair{} }

func (s *linkState) down() bool { return s.AB.Down || s.BA.Down }

// minRate is the slowest that a link may become, in bit/s: the longest frame takes some seconds then, which receivers still
// take for a sane time of arrival.
const minRate = 20e3

// armed is a change that waits for the next run.
type armed struct {
	link   int
	change api.LinkChange
	after  time.Duration
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
	id, _, err := d.plan.FindLink(name)
	if err != nil {
		return none, api.Errorf(api.CodeNotFound, "link: %w", err)
	}
	l := &d.plan.Links[id]
	if err := d.checkChange(l, &ch); err != nil {
		return none, err
	}
	ctx, cancel := context.WithTimeout(ctx, runWait)
	defer cancel()
	c := &d.time
	c.mu.Lock()
	defer c.mu.Unlock()
	d.runMu.Lock()
	cur := d.cur
	d.runMu.Unlock()

	res := api.LinkChangeResult{Link: l.Name, When: api.WhenNow}
	var ns int64
	isRel := false
	if ch.At != "" {
		if ns, isRel, err = api.ParseAt(ch.At); err != nil {
			return none, err
		}
	}
	if isRel && cur == nil {
		after := time.Duration(ns)
		d.armed = append(d.armed, armed{id, ch, after})
		res.When, res.RelNs = api.WhenNextRun, ns
		d.event("link", "", l.Name, ch.Op+" armed for the next run at +"+after.String())
		return res, nil
	}
	held, err := d.hold(ctx, c)
	if err != nil {
		return none, err
	}
	defer d.release(c, held)
	held = max(held, d.virtualNow(c))
	at := held.Add(ahead)
	switch {
	case isRel:
		at, res.When = cur.t0.Add(time.Duration(ns)), api.WhenThisRun
	case ch.At != "":
		at = vt.Time(ns)
	}
	if err := checkTime(ch.At, at, held, cur); err != nil {
		return none, err
	}
	res.AtNs = int64(at)
	if cur != nil {
		res.RelNs = int64(at - cur.t0)
	}
	routes, err := d.schedule(ctx, id, ch, at)
	if err != nil {
		return none, err
	}
	res.RoutesAtNs = int64(routes)
	if !c.run && !c.paused && !d.real() {
		if err := d.reach(ctx, c, at); err != nil {
			return none, err
		}
		d.rest(c)
		d.cutCarriers(ctx)
	}
	d.poke()
	return res, nil
}

// checkTime says whether a change at virtual time at, given as text, can still be scheduled when time is held.
func checkTime(text string, at, held vt.Time, cur *run) error {
	switch {
	case at.Sub(held) > farthest:
		return api.Errorf(api.CodeUsage, "--at (%s): that is more than %v ahead", text, farthest)
	case at > held:
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
	for _, a := range waiting {
		if _, err := d.schedule(ctx, a.link, a.change, t0.Add(a.after)); err != nil {
			return err
		}
	}
	return nil
}

func (d *Daemon) checkChange(l *topology.Link, ch *api.LinkChange) error {
	if ch.From != "" && ch.From != d.nodes[l.A.Node].name && ch.From != d.nodes[l.B.Node].name {
		return api.Errorf(api.CodeUsage, "--from (%s): link %s joins %s and %s", ch.From, l.Name, d.nodes[l.A.Node].name, d.nodes[l.B.Node].name)
	}
	switch ch.Op {
	case api.LinkOpFail, api.LinkOpRestore, api.LinkOpBlackhole:
		return nil
	case api.LinkOpSet:
	default:
		return api.Errorf(api.CodeUsage, "link %q: not known", ch.Op).WithHint("use fail, restore, blackhole or set")
	}
	s := &ch.Set
	if s.Down == nil && s.Blackhole == nil && s.Loss == nil && s.DelayNs == nil && s.Rate == nil {
		return api.Errorf(api.CodeUsage, "link set %s: nothing to set", l.Name).WithHint("for example loss=0.1%% delay=+2us rate=25%%")
	}
	if s.Loss != nil && !(*s.Loss >= 0 && *s.Loss <= 1) {
		return api.Errorf(api.CodeUsage, "loss (%v): give a share between 0%% and 100%%", *s.Loss)
	}
	if s.Rate != nil && !(*s.Rate > 0 && *s.Rate <= 1) {
		return api.Errorf(api.CodeUsage, "rate (%v): give a share above 0%% and up to 100%%", *s.Rate)
	}
	if s.Rate != nil && float64(l.Rate)**s.Rate < minRate {
		return api.Errorf(api.CodeUsage, "rate (%v): leaves %.0f bit/s of %s; give at least %g%%", *s.Rate, float64(l.Rate)**s.Rate, l.Name, 100*minRate/float64(l.Rate))
	}
	if s.DelayNs != nil && !(*s.DelayNs >= 0 && *s.DelayNs <= int64(time.Second)) {
		return api.Errorf(api.CodeUsage, "delay (%d ns): give between 0 and 1s", *s.DelayNs)
	}
	return nil
}

func apply(imp link.Impair, ch *api.LinkChange) link.Impair {
	switch ch.Op {
	case api.LinkOpFail:
		imp.Down = true
	case api.LinkOpRestore:
		return link.Impair{}
	case api.LinkOpBlackhole:
		imp.Blackhole = true
	}
	s := &ch.Set
	if s.Down != nil {
		imp.Down = *s.Down
	}
	if s.Blackhole != nil {
		imp.Blackhole = *s.Blackhole
	}
	if s.Loss != nil {
		imp.Loss = *s.Loss
	}
	if s.DelayNs != nil {
		imp.Delay = time.Duration(*s.DelayNs)
	}
	if s.Rate != nil {
		if imp.Rate = *s.Rate; imp.Rate == 1 {
			imp.Rate = 0
		}
	}
	return imp
}

// schedule sends a change to both ends of a link, and, where it takes the link down or up, the new routes to all switches
// for the time when the fabric has converged, which it returns (0: no change of routes, -1: never). Time is held.
func (d *Daemon) schedule(ctx context.Context, id int, ch api.LinkChange, at vt.Time) (vt.Time, error) {
	l, s := &d.plan.Links[id], d.links[id]
	wasDown := s.down()
	per := map[int][]ctl.Change{}
	dir := func(from, to topology.End, imp *link.Impair) {
		if ch.From != "" && ch.From != d.nodes[from.Node].name {
			return
		}
		was := imp.Down
		*imp = apply(*imp, &ch)
		sent := *imp
		per[from.Node] = append(per[from.Node], ctl.Change{At: at, Port: from.Port, Impair: &sent})
		if was != imp.Down {
			per[to.Node] = append(per[to.Node], ctl.Change{At: at, Port: to.Port, RxDown: &sent.Down})
		}
	}
	dir(l.A, l.B, &s.AB)
	dir(l.B, l.A, &s.BA)
	if s.NoCarrier && !(s.AB.Down && s.BA.Down) {
		if err := d.restoreCarrier(ctx, id); err != nil {
			return 0, err
		}
		s.NoCarrier = false
	}
	s.Since = at
	if err := d.each(ctx, func(n *node) *ctl.Message {
		if len(per[n.id]) == 0 || !d.takesPart(n.id) {
			return nil
		}
		return &ctl.Message{Op: "change", Changes: per[n.id]}
	}); err != nil {
		return 0, err
	}
	d.links[id] = s
	d.event("link", "", l.Name, ch.Op+" at "+at.String())
	if s.down() == wasDown {
		return 0, nil
	}
	if d.plan.Convergence < 0 {
		return -1, nil
	}
	routesAt := at.Add(d.plan.Convergence)
	d.converged = max(d.converged, routesAt)
	return routesAt, d.pushRoutes(ctx, routesAt)
}

// pushRoutes sends every switch its routes around the links that are down, for time at.
func (d *Daemon) pushRoutes(ctx context.Context, at vt.Time) error {
	down := map[int]bool{}
	for i := range d.links {
		if d.links[i].down() {
			down[i] = true
		}
	}
	all := d.plan.Routes(down)
	return d.each(ctx, func(n *node) *ctl.Message {
		r, ok := all[n.id]
		if !ok {
			return nil
		}
		return &ctl.Message{Op: "change", Changes: []ctl.Change{{At: at, Port: -1, Routes: nodecore.Groups(r)}}}
	})
}
