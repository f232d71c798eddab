// Package chaos reads scripts of faults: what is to be done to which links and switches of a fabric, and when in virtual time after a
// moment, usually the start of a run. A script is checked against the topology as a whole before anything of it happens.
// The package schedules nothing: the lab daemon and the simulator do, through internal/faults.
package chaos

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/fabric/yamltree"
	"github.com/uetlab/uetlab/internal/ctl"
	"github.com/uetlab/uetlab/internal/faults"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/switchd"
)

// Script is a script that has been checked.
type Script struct {
	plan  *topology.Plan
	Name  string // empty where the file has none
	Steps []Step // one for every link or switch that a step of the file names, in the order of the file
}

// Step is one thing that is done to one link or switch: Fault or Settings is set.
type Step struct {
	At       vt.Time // after the script's moment
	On       string  // the link's or switch's name
	From     string  // the node that sends in the only direction; empty: both
	Line     int     // where it stands in the file, from 1
	Fault    *faults.Fault
	Settings *Settings

	value place // of what is done
}

// Settings are assignments to the settings of a switch, as topology.Plan.SetSwitch takes them; none means back to those of the
// topology.
type Settings struct {
	Node   int
	Assign []string
}

// Text says what the step does, as one would write it.
func (s *Step) Text() string {
	switch {
	case s.Fault != nil:
		return s.Fault.Text()
	case len(s.Settings.Assign) == 0:
		return reset
	}
	return "set " + strings.Join(s.Settings.Assign, " ")
}

// Faults gives what to do to links when the script's moment is t0: in order where times are equal.
func (s *Script) Faults(t0 vt.Time) []faults.Fault {
	var list []faults.Fault
	for _, x := range s.Steps {
		if x.Fault != nil {
			f := *x.Fault
			f.At = t0 + x.At
			list = append(list, f)
		}
	}
	return list
}

// Switches gives what switches must be told when the script's moment is t0, by node.
func (s *Script) Switches(t0 vt.Time) map[int][]ctl.Change {
	told := map[int][]ctl.Change{}
	_ = s.settings(func(x *Step, set switchd.Settings) { // Parse has seen that they can be
		node := x.Settings.Node
		told[node] = append(told[node], ctl.Change{At: t0 + x.At, Port: -1, Switch: &set})
	})
	return told
}

// Schedule gives what all nodes of a sound fabric must be told when the script's moment is t0: of links first.
func (s *Script) Schedule(t0 vt.Time) (*faults.Batch, error) {
	b, err := faults.New(s.plan).Schedule(s.Faults(t0)...)
	if err != nil {
		return nil, err
	}
	for node, list := range s.Switches(t0) {
		b.Changes[node] = append(b.Changes[node], list...)
		for _, c := range list {
			b.Done = max(b.Done, c.At)
		}
	}
	return b, nil
}

// settings visits the settings of switches after every step that changes them, in the order of time.
func (s *Script) settings(visit func(x *Step, set switchd.Settings)) error {
	now := map[int]switchd.Settings{}
	for _, x := range s.Timeline() {
		if x.Settings == nil {
			continue
		}
		node := x.Settings.Node
		cur, ok := now[node]
		if !ok || len(x.Settings.Assign) == 0 {
			cur = *s.plan.Nodes[node].Switch
		}
		next, err := s.plan.SetSwitch(node, cur, x.Settings.Assign)
		if err != nil {
			return &stepError{x, err}
		}
		now[node] = next
		visit(&x, next)
	}
	return nil
}

// stepError is something wrong with the settings that a step asks for.
type stepError struct {
	step Step
	err  error
}

func (e *stepError) Error() string { return e.step.On + ": " + e.err.Error() }

func (e *stepError) Unwrap() error { return e.err }

// Timeline gives the single changes of the script in the order in which they take place.
func (s *Script) Timeline() []Step {
	var list []Step
	for _, step := range s.Steps {
		if step.Fault == nil {
			list = append(list, step)
			continue
		}
		for _, f := range step.Fault.Expand() {
			one := step
			one.At, one.Fault = f.At, &f
			list = append(list, one)
		}
	}
	slices.SortStableFunc(list, func(a, b Step) int { return cmp.Compare(a.At, b.At) })
	return list
}

// Bounds of a script.
const (
	maxFile  = 256 << 10
	maxLines = 5000
	maxDepth = 16
	farthest = 24 * time.Hour
)

// Parse reads a script's text and checks it against a plan; file is what problems call it. The error, if any, is
// topology.Problems: all that is wrong, with lines and columns.
func Parse(file string, text []byte, plan *topology.Plan) (*Script, error) {
	r := &reader{file: file, plan: plan, out: Script{plan: plan}}
	if root := r.parse(text); root != nil {
		r.script(value{root, yamltree.PlaceOf(root, place{Line: 1, Col: 1}), ""})
	}
	if len(r.problems) == 0 && len(r.out.Steps) == 0 {
		r.problem(place{Line: 1, Col: 1}, "steps", "", "none", example)
	}
	if n := r.changes(); n > faults.MaxFaults {
		r.problem(place{Line: 1, Col: 1}, "steps", "", "more than 20000 changes in all", "let links flap less often")
	}
	var wrong *stepError
	if err := r.out.settings(func(*Step, switchd.Settings) {}); errors.As(err, &wrong) && len(r.problems) == 0 {
		r.problem(wrong.step.value, "", "", strings.ReplaceAll(wrong.Error(), "\n", "; also: "), "")
	}
	if len(r.problems) > 0 {
		slices.SortStableFunc(r.problems, func(a, b topology.Problem) int {
			return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
		})
		return nil, r.problems
	}
	return &r.out, nil
}

func (r *reader) changes() (n int) {
	for i := range r.out.Steps {
		if f := r.out.Steps[i].Fault; f != nil {
			n += 2 * f.Flap.Count
		}
		n++
	}
	return n
}
