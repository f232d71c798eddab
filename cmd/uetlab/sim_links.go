package main

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/chaos"
	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/internal/ctl"
	"github.com/uetlab/uetlab/internal/faults"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/sim"
	"github.com/uetlab/uetlab/switchd"
)

// simFaults are what --link, --chaos and a matrix do to the links and switches of a simulated fabric.
type simFaults struct {
	before []faults.Fault // long before the run begins: the fabric has converged
	during []faults.Fault // at so many ns after its start
	script *chaos.Script  // nil: none
}

// linkFaults reads the values of --link: LINK SETTING… [from=NODE] [at=TIME], where LINK may be a pattern.
func linkFaults(plan *topology.Plan, values []string) (*simFaults, error) {
	s := &simFaults{}
	for _, v := range eachLink(plan, values) {
		f, timed, err := linkFault(plan, v)
		if err != nil {
			e := api.AsError(err)
			return nil, api.Errorf(e.Code, "--link (%s): %w", v, e).WithHint("%s", e.Hint)
		}
		if timed {
			s.during = append(s.during, f)
		} else {
			s.before = append(s.before, f)
		}
	}
	return s, nil
}

// eachLink puts in the place of each value whose link is a pattern, leaf*-spine*, one for every link that it means.
func eachLink(plan *topology.Plan, values []string) (each []string) {
	for _, v := range values {
		name, settings, _ := strings.Cut(strings.TrimSpace(v), " ")
		ids, err := plan.FindLinks([]string{name})
		if err != nil { // which is told where the value is read
			each = append(each, v)
		}
		for _, id := range ids {
			each = append(each, plan.Links[id].Name+" "+settings)
		}
	}
	return each
}

func linkFault(plan *topology.Plan, value string) (f faults.Fault, timed bool, err error) {
	words := strings.Fields(value)
	if len(words) == 0 {
		return f, false, usage("no link").WithHint("write --link 'leaf0-spine0 loss=0.1%%', or --link 'leaf0-spine0 fail at=+30us'")
	}
	f = faults.Fault{From: faults.Both, Op: faults.Change}
	if f.Link, _, err = plan.FindLink(words[0]); err != nil {
		return f, false, notFound(err)
	}
	var settings []string
	for _, w := range words[1:] {
		if at, ok := strings.CutPrefix(w, "at="); ok {
			ns, _, err := api.ParseAt(at)
			if err != nil {
				return f, false, err
			}
			if most := 24 * time.Hour; ns > int64(most) {
				return f, false, usage("at (%s): that is more than %v ahead", at, most).WithHint("give a time within the run")
			}
			f.At, timed = vt.Time(ns), true
		} else if name, ok := strings.CutPrefix(w, "from="); ok {
			n, err := plan.Node(name)
			if err != nil {
				return f, false, notFound(err)
			}
			f.From = n.ID
		} else {
			settings = append(settings, w)
		}
	}
	if len(settings) == 1 && slices.Contains([]string{faults.Fail, faults.Restore}, settings[0]) {
		f.Op = settings[0]
	} else if f.Set, err = faults.ParseSettings(settings); err != nil {
		return f, false, faultError(err)
	}
	return f, timed, faultError(f.Check(plan))
}

// faultError words what a change of a link is refused for.
func faultError(err error) error {
	var e *faults.Error
	if errors.As(err, &e) {
		return usage("%w", err).WithHint("%s", e.Hint)
	}
	return err
}

// schedule has a fabric whose time is before from do all that, and gives the earliest time at which a run may begin.
func (s *simFaults) schedule(fabric *sim.Fabric, plan *topology.Plan, from vt.Time) (t0 vt.Time, err error) {
	t0 = from
	var list []faults.Fault
	for _, f := range s.before {
		f.At = from + 1
		t0 = f.At.Add(max(0, plan.Convergence) + 1)
		list = append(list, f)
	}
	for _, f := range s.during {
		f.At += t0
		list = append(list, f)
	}
	var switches map[int][]ctl.Change
	if s.script != nil {
		list = append(list, s.script.Faults(t0)...)
		switches = s.script.Switches(t0)
	}
	for i := range list {
		if on := list[i].Set.LLR; on != nil && *on {
			if err := faults.Headroom(plan, list[i].Link, func(node int) *switchd.Settings { return plan.Nodes[node].Switch }); err != nil {
				return t0, faultError(err)
			}
		}
	}
	batch, err := faults.New(plan).Schedule(list...)
	if err != nil {
		return t0, faultError(err)
	}
	if err := batch.Each(fabric.Change); err != nil {
		return t0, err
	}
	for node, changes := range switches {
		if err := fabric.Change(node, changes...); err != nil {
			return t0, err
		}
	}
	return t0, nil
}
