// Package chaos reads scripts of faults: what is to be done to which links of a fabric, and when in virtual time after a
// moment, usually the start of a run. A script is checked against the topology as a whole before anything of it happens.
// The package schedules nothing: the lab daemon and the simulator do, through internal/faults.
package chaos

import (
	"cmp"
	"slices"
	"time"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/internal/faults"
	"github.com/uetlab/uetlab/internal/vt"
)

// Script is a script that has been checked.
type Script struct {
	Name  string // empty where the file has none
	Steps []Step // one for every link that a step of the file names, in the order of the file
}

// Step is one thing that is done to one link or switch.
type Step struct {
	Fault faults.Fault // At counts from the script's moment
	On    string       // the link's or switch's name
	From  string       // the node that sends in the only direction; empty: both
	Line  int          // where it stands in the file, from 1
}

// Faults gives what to do when the script's moment is t0: in order where times are equal.
func (s *Script) Faults(t0 vt.Time) []faults.Fault {
	list := make([]faults.Fault, len(s.Steps))
	for i := range s.Steps {
		list[i] = s.Steps[i].Fault
		list[i].At += t0
	}
	return list
}

// Timeline gives the single changes of the script in the order in which they take place.
func (s *Script) Timeline() []Step {
	var list []Step
	for _, step := range s.Steps {
		for _, f := range step.Fault.Expand() {
			one := step
			one.Fault = f
			list = append(list, one)
		}
	}
	slices.SortStableFunc(list, func(a, b Step) int { return cmp.Compare(a.Fault.At, b.Fault.At) })
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
	r := &reader{file: file, plan: plan}
	if root := r.parse(text); root != nil {
		r.script(value{root, placeOf(root, place{1, 1}), ""})
	}
	if len(r.problems) == 0 && len(r.out.Steps) == 0 {
		r.problem(place{1, 1}, "steps", "", "none", example)
	}
	if n := r.changes(); n > faults.MaxFaults {
		r.problem(place{1, 1}, "steps", "", "more than 20000 changes in all", "let links flap less often")
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
		n += max(1, 2*r.out.Steps[i].Fault.Flap.Count)
	}
	return n
}
