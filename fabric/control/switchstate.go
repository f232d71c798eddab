package control

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/internal/ctl"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/switchd"
)

// switchEdit is a change of the settings of some switches.
type switchEdit struct {
	At     vt.Time  `json:"at"`
	Nodes  []int    `json:"nodes"`
	Assign []string `json:"assignments,omitempty"` // none: back to the topology's settings
}

// text says what is done, as one would write it.
func (e *switchEdit) text() string {
	if len(e.Assign) == 0 {
		return "reset"
	}
	return "set " + strings.Join(e.Assign, " ")
}

// over gives the settings that follow from cur at a switch.
func (e *switchEdit) over(plan *topology.Plan, node int, cur switchd.Settings) (switchd.Settings, error) {
	if len(e.Assign) == 0 {
		return *plan.Nodes[node].Switch, nil
	}
	next, err := plan.SetSwitch(node, cur, e.Assign)
	if err != nil { // several complaints are one line
		return next, api.Errorf(api.CodeUsage, "switch %s: %s", plan.Nodes[node].Name, strings.ReplaceAll(err.Error(), "\n", "; also: "))
	}
	return next, nil
}

// switchStates is what the settings of a fabric's switches are, and are going to be. Edits take place in the order of
// their times, whatever the order in which they are scheduled. It is not for concurrent use.
type switchStates struct {
	plan    *topology.Plan
	settled map[int]switchd.Settings // by node: up to some time …
	pending []*switchEdit            // … and what follows, in order
}

func newSwitchStates(plan *topology.Plan) *switchStates {
	s := &switchStates{plan: plan, settled: map[int]switchd.Settings{}}
	for i := range plan.Nodes {
		if set := plan.Nodes[i].Switch; set != nil {
			s.settled[i] = *set
		}
	}
	return s
}

// replay visits the settings of a switch after each pending edit of it, in order.
func (s *switchStates) replay(node int, visit func(e *switchEdit, set switchd.Settings)) error {
	cur := s.settled[node]
	for _, e := range s.pending {
		if !slices.Contains(e.Nodes, node) {
			continue
		}
		next, err := e.over(s.plan, node, cur)
		if err != nil {
			return err
		}
		cur = next
		visit(e, cur)
	}
	return nil
}

// at gives a switch's settings at time t.
func (s *switchStates) at(node int, t vt.Time) switchd.Settings {
	set := s.settled[node]
	_ = s.replay(node, func(e *switchEdit, next switchd.Settings) { // what is pending has been replayed before
		if e.At <= t {
			set = next
		}
	})
	return set
}

// after lists a switch's changes that lie behind time t, as a node is told of them.
func (s *switchStates) after(node int, t vt.Time) (list []ctl.Change) {
	_ = s.replay(node, func(e *switchEdit, next switchd.Settings) {
		if e.At > t {
			list = append(list, ctl.Change{At: e.At, Port: -1, Switch: &next})
		}
	})
	return list
}

// settle says that nothing will be scheduled at now or before it any more.
func (s *switchStates) settle(now vt.Time) {
	for node := range s.settled {
		s.settled[node] = s.at(node, now)
	}
	s.pending = slices.DeleteFunc(s.pending, func(e *switchEdit) bool { return e.At <= now })
}

// add takes an edit up and gives what nodes must be told: the edit, and those that follow it and come out differently now.
// An edit that cannot be, or makes a later one impossible, is not taken up.
func (s *switchStates) add(e *switchEdit) (map[int][]ctl.Change, error) {
	s.pending = append(s.pending, e)
	slices.SortStableFunc(s.pending, func(a, b *switchEdit) int { return cmp.Compare(a.At, b.At) })
	changes := map[int][]ctl.Change{}
	for _, node := range e.Nodes {
		from := false
		if err := s.replay(node, func(x *switchEdit, set switchd.Settings) {
			if from = from || x == e; from {
				changes[node] = append(changes[node], ctl.Change{At: x.At, Port: -1, Switch: &set})
			}
		}); err != nil {
			if from { // the edit can be, but what follows it cannot any more
				err = fmt.Errorf("%w; that is a change which is scheduled for later already", err)
			}
			s.drop(e)
			return nil, err
		}
	}
	return changes, nil
}

func (s *switchStates) drop(e *switchEdit) {
	s.pending = slices.DeleteFunc(s.pending, func(x *switchEdit) bool { return x == e })
}

// remove takes an edit back of which some nodes may have been told, and gives what to tell all.
func (s *switchStates) remove(e *switchEdit) map[int][]ctl.Change {
	s.drop(e)
	changes := map[int][]ctl.Change{}
	for _, node := range e.Nodes {
		was := s.at(node, e.At)
		changes[node] = append([]ctl.Change{{At: e.At, Port: -1, Switch: &was}}, s.after(node, e.At)...)
	}
	return changes
}

// savedSwitches is the state as it stands in a file.
type savedSwitches struct {
	Settings map[int]switchd.Settings `json:"settings,omitempty"` // of switches where they are not the topology's
	Pending  []*switchEdit            `json:"pending,omitempty"`
}

func (s *switchStates) save() savedSwitches {
	v := savedSwitches{Settings: map[int]switchd.Settings{}, Pending: slices.Clone(s.pending)}
	for node, set := range s.settled {
		if !reflect.DeepEqual(set, *s.plan.Nodes[node].Switch) {
			v.Settings[node] = set
		}
	}
	return v
}

// load takes a state over that another has saved for the same plan.
func (s *switchStates) load(v savedSwitches) error {
	fresh := newSwitchStates(s.plan)
	for node, set := range v.Settings {
		if _, ok := fresh.settled[node]; !ok {
			return fmt.Errorf("settings: node %d is no switch", node)
		}
		if err := set.Validate(len(s.plan.Nodes[node].Ports)); err != nil {
			return fmt.Errorf("settings of %s: %w", s.plan.Nodes[node].Name, err)
		}
		fresh.settled[node] = set
	}
	for _, e := range v.Pending {
		for _, node := range e.Nodes {
			if _, ok := fresh.settled[node]; !ok {
				return fmt.Errorf("settings: node %d is no switch", node)
			}
		}
		if _, err := fresh.add(e); err != nil {
			return err
		}
	}
	*s = *fresh
	return nil
}
