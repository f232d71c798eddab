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
	"github.com/uetlab/uetlab/internal/faults"
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
				r.step(value{n, placeOf(n, e.val.at), "step"})
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
	if near := faults.Nearest(e.key, valid); near != "" {
		hint = "did you mean " + near + "?"
	}
	r.problem(e.at, "key", e.key, "not one that stands here", hint)
}

var (
	actions  = []string{faults.Fail, faults.Restore, faults.Blackhole, faults.Change, faults.Flap}
	stepKeys = append([]string{"at", "link", "from"}, actions...)
)

const stepExample = "{at: +20us, link: leaf0-spine0, fail: true}"

// step reads one step of the file, which becomes a step for every link that it names.
func (r *reader) step(v value) {
	entries, ok := r.mapping(v, stepExample)
	if !ok {
		return
	}
	before := len(r.problems)
	by := map[string]entry{}
	var action []entry
	for _, e := range entries {
		by[e.key] = e
		switch {
		case slices.Contains(actions, e.key):
			action = append(action, e)
		case !slices.Contains(stepKeys, e.key):
			r.unknown(e, stepKeys)
		}
	}
	f := faults.Fault{From: faults.Both}
	if e, ok := by["at"]; ok {
		f.At = vt.Time(r.span(e.val, "+20us", farthest))
	} else {
		r.problem(v.at, "step", "", "at is missing", "say when, after the start of the run: at: +20us")
	}
	switch {
	case len(action) == 0 && len(r.problems) == before:
		r.problem(v.at, "step", "", "nothing is done", "add one of fail: true, restore: true, blackhole: true, set: loss=0.1%, flap: {down: 20us, period: 100us, count: 3}")
	case len(action) > 1:
		r.problem(action[1].at, action[1].key, "", "a second action in one step", "make it a step of its own")
	case len(action) == 1:
		r.action(action[0], &f)
	}
	links, ok := by["link"]
	if !ok {
		r.problem(v.at, "step", "", "link is missing", "name one, or several: link: leaf*-spine0")
		return
	}
	from := by["from"]
	fits := len(r.problems) == before
	for _, one := range r.list(links.val, "leaf0-spine0") {
		for _, id := range r.links(one) {
			n := len(r.problems)
			if r.add(f, id, one.at, from, action, v.at.line, fits); len(r.problems) > n {
				return // once is enough
			}
		}
	}
}

// add adds a step for one link where all is well with it.
func (r *reader) add(f faults.Fault, id int, at place, from entry, action []entry, line int, fits bool) {
	l := &r.plan.Links[id]
	s := Step{On: l.Name, Line: line}
	f.Link = id
	if from.key != "" {
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
	if !fits {
		return // the step has been complained about
	}
	var e *faults.Error
	if err := f.Check(r.plan); errors.As(err, &e) {
		if len(action) > 0 {
			at = action[0].val.at
		}
		r.problem(at, "", "", e.Msg, e.Hint)
		return
	}
	s.Fault = f
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
		words, ok := r.words(e.val)
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
		if s, _ := scalar(e.val.node); s != "true" {
			r.problem(e.val.at, e.key, s, "not true", "write "+e.key+": true, or leave the step out")
		}
	}
}

// words reads settings: a line of words, a list of words, or a mapping.
func (r *reader) words(v value) ([]string, bool) {
	const like = "set: loss=0.1% delay=+2us, or set: {loss: 0.1%, delay: +2us}"
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
		s, ok := scalar(n)
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
			s, _ := scalar(e.val.node)
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
