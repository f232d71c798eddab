package chaos

import (
	"errors"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/fabric/yamltree"
	"github.com/uetlab/uetlab/internal/faults"
	"github.com/uetlab/uetlab/internal/nearest"
	"github.com/uetlab/uetlab/internal/vt"
)

// script reads the file as a whole.
func (r *reader) script(v value) {
	entries, _ := r.mapping(v, example)
	found := false
	for _, e := range entries {
		switch e.key {
		case "name":
			r.out.Name, _ = r.text(e.val, "my-script")
		case "description":
			r.text(e.val, "what it shows")
		case "steps":
			found = true
			seq, ok := e.val.node.(*ast.SequenceNode)
			if !ok {
				r.problem(e.val.at, "steps", "", "not a list", example)
				continue
			}
			for _, n := range seq.Values {
				r.step(value{n, yamltree.PlaceOf(n, e.val.at), "step"})
			}
		default:
			r.unknown(e, []string{"name", "description", "steps"})
		}
	}
	if !found && len(r.problems) == 0 {
		r.problem(v.at, "file", "", "steps are missing", example)
	}
}

func (r *reader) unknown(e entry, valid []string) {
	hint := "valid are " + strings.Join(valid, ", ")
	if near := nearest.Word(e.key, valid); near != "" {
		hint = "did you mean " + near + "?"
	}
	r.problem(e.at, "key", e.key, "not one that stands here", hint)
}

// reset is the action that gives a switch the settings of the topology again.
const reset = "reset"

var (
	linkActions = []string{faults.Fail, faults.Restore, faults.Blackhole, faults.Change, faults.Flap}
	actions     = append([]string{reset}, linkActions...)
	stepKeys    = append([]string{"at", "link", "switch", "from"}, actions...)
)

const stepExample = "{at: +20us, link: leaf0-spine0, fail: true}"

// draft is a step of the file while it is read.
type draft struct {
	at     vt.Time
	place  place
	by     map[string]entry
	action entry // empty where there is none
	sound  bool  // nothing has been complained about
}

// step reads one step of the file, which becomes a step for every link or switch that it names.
func (r *reader) step(v value) {
	entries, ok := r.mapping(v, stepExample)
	if !ok {
		return
	}
	before := len(r.problems)
	s := draft{place: v.at, by: map[string]entry{}}
	for _, e := range entries {
		s.by[e.key] = e
		switch {
		case slices.Contains(actions, e.key) && s.action.key != "":
			r.problem(e.at, e.key, "", "a second action in one step", "make it a step of its own")
		case slices.Contains(actions, e.key):
			s.action = e
		case !slices.Contains(stepKeys, e.key):
			r.unknown(e, stepKeys)
		}
	}
	if e, ok := s.by["at"]; ok {
		s.at = vt.Time(r.span(e.val, "+20us", farthest))
	} else {
		r.problem(v.at, "step", "", "at is missing", "say when, after the start of the run: at: +20us")
	}
	if s.action.key == "" && len(r.problems) == before {
		r.problem(v.at, "step", "", "nothing is done", "add one of fail: true, restore: true, blackhole: true, set: loss=0.1%, flap: {down: 20us, period: 100us, count: 3}")
	}
	s.sound = len(r.problems) == before
	links, isLink := s.by["link"]
	switches, isSwitch := s.by["switch"]
	switch {
	case isLink && isSwitch:
		r.problem(switches.at, "switch", "", "a link and a switch in one step", "make it two steps")
	case isLink:
		r.linkStep(&s, links)
	case isSwitch:
		r.switchStep(&s, switches)
	default:
		r.problem(v.at, "step", "", "link or switch is missing", "name one, or several: link: leaf*-spine0")
	}
}

func (r *reader) linkStep(s *draft, links entry) {
	f := faults.Fault{At: s.at, From: faults.Both}
	before := len(r.problems)
	switch {
	case s.action.key == reset:
		r.problem(s.action.at, reset, "", "not for a link", "write restore: true")
	case s.action.key != "":
		r.action(s.action, &f)
	}
	s.sound = s.sound && len(r.problems) == before
	for _, one := range r.list(links.val, "leaf0-spine0") {
		for _, id := range r.links(one) {
			n := len(r.problems)
			if r.add(s, f, id, one.at); len(r.problems) > n {
				return // once is enough
			}
		}
	}
}

// switchStep reads a step that changes the settings of switches. That the values can be is checked when all is read.
func (r *reader) switchStep(s *draft, switches entry) {
	if e, ok := s.by["from"]; ok {
		r.problem(e.at, "from", "", "not for a switch", "leave it out")
	}
	var words []string
	ok := true
	switch e := s.action; e.key {
	case reset:
		r.isTrue(e)
	case faults.Change:
		words, ok = r.words(e.val, "set: trim.enabled=false, or set: {trim.enabled: false}")
	case "":
	default:
		r.problem(e.at, e.key, "", "not for a switch", "use set or reset")
	}
	for _, one := range r.list(switches.val, "leaf0") {
		for _, id := range r.switches(one) {
			if s.sound && ok {
				r.out.Steps = append(r.out.Steps, Step{At: s.at, On: r.plan.Nodes[id].Name, Line: s.place.Line, Settings: &Settings{id, words}, value: s.action.val.at})
			}
		}
	}
}

// switches finds the switches that a name or a glob means.
func (r *reader) switches(v value) (ids []int) {
	name, ok := r.text(v, "leaf0 or leaf*")
	if !ok {
		return nil
	}
	for id := range r.plan.Nodes {
		if n := &r.plan.Nodes[id]; n.Kind == topology.KindSwitch && matches(name, n.Name) {
			ids = append(ids, id)
		}
	}
	if len(ids) > 0 {
		return ids
	}
	if n, err := r.plan.Node(name); isGlob(name) {
		r.problem(v.at, "switch", name, "no switch of the topology is like that", "uetlab topo show lists them")
	} else if err != nil {
		msg, hint, _ := strings.Cut(err.Error(), "; ")
		r.problem(v.at, "", "", msg, hint)
	} else {
		r.problem(v.at, "switch", name, "is a "+string(n.Kind), "name a switch")
	}
	return nil
}

// add adds a step for one link, named at a place, where all is well with it.
func (r *reader) add(d *draft, f faults.Fault, id int, at place) {
	l := &r.plan.Links[id]
	s := Step{At: d.at, On: l.Name, Line: d.place.Line}
	f.Link = id
	if from, ok := d.by["from"]; ok {
		name, ok := r.text(from.val, "leaf0")
		if !ok {
			return
		}
		a, b := r.plan.Nodes[l.A.Node].Name, r.plan.Nodes[l.B.Node].Name
		switch {
		case matches(name, a):
			f.From, s.From = l.A.Node, a
		case matches(name, b):
			f.From, s.From = l.B.Node, b
		default:
			r.problem(from.val.at, "from", name, "link "+l.Name+" joins "+a+" and "+b, "name one of the two")
			return
		}
	}
	if !d.sound {
		return // the step has been complained about
	}
	var e *faults.Error
	if err := f.Check(r.plan); errors.As(err, &e) {
		if d.action.key != "" {
			at = d.action.val.at
		}
		r.problem(at, "", "", e.Msg, e.Hint)
		return
	}
	s.Fault = &f
	r.out.Steps = append(r.out.Steps, s)
}

func isGlob(s string) bool { return strings.ContainsAny(s, "*?[") }

func matches(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return pattern == name || err == nil && ok
}

// links finds the links that a name or a glob means.
func (r *reader) links(v value) []int {
	name, ok := r.text(v, "leaf0-spine0, leaf0:eth3 or leaf*-spine0")
	if !ok {
		return nil
	}
	if !isGlob(name) {
		id, _, err := r.plan.FindLink(name)
		if err != nil {
			msg, hint, _ := strings.Cut(err.Error(), "; ")
			r.problem(v.at, "", "", msg, hint)
			return nil
		}
		return []int{id}
	}
	if _, err := path.Match(name, ""); err != nil {
		r.problem(v.at, "link", name, "not a pattern", "* stands for any characters, ? for one, [ab] for one of these")
		return nil
	}
	var ids []int
	for id, l := range r.plan.Links {
		if matches(name, l.Name) || matches(name, swapped(&l, r.plan)) {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		r.problem(v.at, "link", name, "no link of the topology is like that", "uetlab link ls lists them")
	}
	return ids
}

// swapped is a link's name with its ends in the other order.
func swapped(l *topology.Link, plan *topology.Plan) string {
	_, number, parallel := strings.Cut(l.Name, "#")
	name := plan.Nodes[l.B.Node].Name + "-" + plan.Nodes[l.A.Node].Name
	if parallel {
		name += "#" + number
	}
	return name
}

// span expects a duration, with or without a plus.
func (r *reader) span(v value, example string, most time.Duration) time.Duration {
	s, ok := r.text(v, example)
	if !ok {
		return 0
	}
	d, err := time.ParseDuration(strings.TrimPrefix(s, "+"))
	switch {
	case err != nil || strings.HasPrefix(s, "++") || strings.HasPrefix(s, "+-"):
		r.problem(v.at, v.what, s, "not a virtual time", "write it like "+example)
	case d < 0 || d > most:
		r.problem(v.at, v.what, s, "out of range", "from 0 to "+most.String())
	default:
		return d
	}
	return 0
}

// action reads what a step does.
func (r *reader) action(e entry, f *faults.Fault) {
	f.Op = e.key
	switch e.key {
	case faults.Change:
		words, ok := r.words(e.val, "set: loss=0.1% delay=+2us, or set: {loss: 0.1%, delay: +2us}")
		if !ok {
			return
		}
		set, err := faults.ParseSettings(words)
		var wrong *faults.Error
		if errors.As(err, &wrong) {
			r.problem(e.val.at, "", "", wrong.Msg, wrong.Hint)
		}
		f.Set = set
	case faults.Flap:
		r.flap(e.val, f)
	default:
		r.isTrue(e)
	}
}

func (r *reader) isTrue(e entry) {
	if s, _ := yamltree.Scalar(e.val.node); s != "true" {
		r.problem(e.val.at, e.key, s, "not true", "write "+e.key+": true, or leave the step out")
	}
}

// words reads settings: a line of words, a list of words, or a mapping.
func (r *reader) words(v value, like string) ([]string, bool) {
	switch n := v.node.(type) {
	case *ast.SequenceNode:
		var words []string
		for _, one := range r.list(v, like) {
			s, ok := r.text(one, "loss=0.1%")
			if !ok {
				return nil, false
			}
			words = append(words, strings.Fields(s)...)
		}
		return words, true
	case *ast.MappingNode, *ast.MappingValueNode:
		var words []string
		entries, _ := r.mapping(v, like)
		for _, e := range entries {
			s, ok := r.setting(e)
			if !ok {
				return nil, false
			}
			words = append(words, e.key+"="+s)
		}
		return words, true
	default:
		s, ok := yamltree.Scalar(n)
		if !ok || strings.TrimSpace(s) == "" {
			r.problem(v.at, v.what, "", "nothing to set", "write it like "+like)
		}
		return strings.Fields(s), ok && strings.TrimSpace(s) != ""
	}
}

// setting reads the value of one setting; burst may be a mapping of its own.
func (r *reader) setting(e entry) (string, bool) {
	switch e.val.node.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
	default:
		return r.text(e.val, "loss: 0.1%")
	}
	parts, _ := r.mapping(e.val, "burst: {p: 1%, r: 25%}")
	var out []string
	for _, p := range parts {
		s, ok := r.text(p.val, "burst: {p: 1%, r: 25%}")
		if !ok {
			return "", false
		}
		out = append(out, p.key+":"+s)
	}
	return strings.Join(out, ","), true
}

func (r *reader) flap(v value, f *faults.Fault) {
	const like = "flap: {down: 20us, period: 100us, count: 3}"
	entries, ok := r.mapping(v, like)
	if !ok {
		return
	}
	before := len(r.problems)
	f.Flap.Count = 1
	found := map[string]bool{}
	for _, e := range entries {
		found[e.key] = true
		switch e.key {
		case "down":
			f.Flap.DownNs = int64(r.span(e.val, "20us", farthest))
		case "period":
			f.Flap.PeriodNs = int64(r.span(e.val, "100us", farthest))
		case "count":
			s, _ := yamltree.Scalar(e.val.node)
			n, err := strconv.Atoi(s)
			if err != nil {
				r.problem(e.val.at, "count", s, "not a whole number", "write digits only, e.g. 3")
			}
			f.Flap.Count = n
		default:
			r.unknown(e, []string{"down", "period", "count"})
		}
	}
	for _, k := range []string{"down", "period"} {
		if !found[k] && len(r.problems) == before {
			r.problem(v.at, "flap", "", k+" is missing", "write it like "+like)
		}
	}
}
