package control

import (
	"context"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/internal/ctl"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/vt"
)

func ptr[T any](v T) *T { return &v }

func TestApply(t *testing.T) {
	bad := link.Impair{Down: true, Blackhole: true, Loss: 0.5, Delay: 7, Rate: 0.5}
	for name, c := range map[string]struct {
		was  link.Impair
		ch   api.LinkChange
		want link.Impair
	}{
		"fail":           {link.Impair{Loss: 0.1}, api.LinkChange{Op: api.LinkOpFail}, link.Impair{Loss: 0.1, Down: true}},
		"restore":        {bad, api.LinkChange{Op: api.LinkOpRestore}, link.Impair{}},
		"blackhole":      {link.Impair{}, api.LinkChange{Op: api.LinkOpBlackhole}, link.Impair{Blackhole: true}},
		"set nothing":    {bad, api.LinkChange{Op: api.LinkOpSet}, bad},
		"set loss":       {link.Impair{Delay: 7}, api.LinkChange{Op: api.LinkOpSet, Set: api.LinkSet{Loss: ptr(0.2)}}, link.Impair{Delay: 7, Loss: 0.2}},
		"set loss 0":     {bad, api.LinkChange{Op: api.LinkOpSet, Set: api.LinkSet{Loss: ptr(0.0)}}, link.Impair{Down: true, Blackhole: true, Delay: 7, Rate: 0.5}},
		"set delay":      {link.Impair{}, api.LinkChange{Op: api.LinkOpSet, Set: api.LinkSet{DelayNs: ptr(int64(2000))}}, link.Impair{Delay: 2 * time.Microsecond}},
		"set rate":       {link.Impair{}, api.LinkChange{Op: api.LinkOpSet, Set: api.LinkSet{Rate: ptr(0.25)}}, link.Impair{Rate: 0.25}},
		"set rate full":  {bad, api.LinkChange{Op: api.LinkOpSet, Set: api.LinkSet{Rate: ptr(1.0)}}, link.Impair{Down: true, Blackhole: true, Loss: 0.5, Delay: 7}},
		"set up":         {bad, api.LinkChange{Op: api.LinkOpSet, Set: api.LinkSet{Down: ptr(false), Blackhole: ptr(false)}}, link.Impair{Loss: 0.5, Delay: 7, Rate: 0.5}},
		"restore is all": {bad, api.LinkChange{Op: api.LinkOpRestore, Set: api.LinkSet{Loss: ptr(0.3)}}, link.Impair{}},
	} {
		if got := apply(c.was, &c.ch); got != c.want {
			t.Errorf("%s: %+v becomes %+v, want %+v", name, c.was, got, c.want)
		}
	}
}

func TestChangesThatAreRefused(t *testing.T) {
	l := newLab(t, "fat-tree-2x2", "auto")
	nan := 0.0
	nan /= nan
	for name, c := range map[string]struct {
		link string
		ch   api.LinkChange
		code int
	}{
		"no such link":   {"leaf0-spine9", api.LinkChange{Op: api.LinkOpFail}, api.CodeNotFound},
		"stranger":       {"leaf0-spine1", api.LinkChange{Op: api.LinkOpFail, From: "leaf1"}, api.CodeUsage},
		"no op":          {"leaf0-spine1", api.LinkChange{}, api.CodeUsage},
		"unknown op":     {"leaf0-spine1", api.LinkChange{Op: "cut"}, api.CodeUsage},
		"nothing to set": {"leaf0-spine1", api.LinkChange{Op: api.LinkOpSet}, api.CodeUsage},
		"loss below 0":   {"leaf0-spine1", api.LinkChange{Op: api.LinkOpSet, Set: api.LinkSet{Loss: ptr(-0.1)}}, api.CodeUsage},
		"loss above 1":   {"leaf0-spine1", api.LinkChange{Op: api.LinkOpSet, Set: api.LinkSet{Loss: ptr(1.1)}}, api.CodeUsage},
		"loss NaN":       {"leaf0-spine1", api.LinkChange{Op: api.LinkOpSet, Set: api.LinkSet{Loss: &nan}}, api.CodeUsage},
		"rate 0":         {"leaf0-spine1", api.LinkChange{Op: api.LinkOpSet, Set: api.LinkSet{Rate: ptr(0.0)}}, api.CodeUsage},
		"rate above 1":   {"leaf0-spine1", api.LinkChange{Op: api.LinkOpSet, Set: api.LinkSet{Rate: ptr(1.5)}}, api.CodeUsage},
		"rate NaN":       {"leaf0-spine1", api.LinkChange{Op: api.LinkOpSet, Set: api.LinkSet{Rate: &nan}}, api.CodeUsage},
		"delay below 0":  {"leaf0-spine1", api.LinkChange{Op: api.LinkOpSet, Set: api.LinkSet{DelayNs: ptr(int64(-1))}}, api.CodeUsage},
		"delay too long": {"leaf0-spine1", api.LinkChange{Op: api.LinkOpSet, Set: api.LinkSet{DelayNs: ptr(int64(2e9))}}, api.CodeUsage},
		"no time":        {"leaf0-spine1", api.LinkChange{Op: api.LinkOpFail, At: "soon"}, api.CodeUsage},
		"time past":      {"leaf0-spine1", api.LinkChange{Op: api.LinkOpFail, At: "0s"}, api.CodeUsage},
		"before a run":   {"leaf0-spine1", api.LinkChange{Op: api.LinkOpFail, At: "+-5us"}, api.CodeUsage},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := l.planChange(context.Background(), c.link, c.ch)
			if e := api.AsError(err); e == nil || e.Code != c.code {
				t.Errorf("error %v, want code %d", err, c.code)
			}
		})
	}
	for i, s := range l.links {
		if s != (linkState{}) {
			t.Errorf("link %d: %+v", i, s)
		}
	}
	if len(l.armed) != 0 {
		t.Errorf("armed: %+v", l.armed)
	}
}

// changes gives what a node was told to change since the last look.
func (l *lab) changes(name string) (list []ctl.Change) {
	l.t.Helper()
	for _, m := range l.fakes[l.id(name)].take() {
		if m.Op != "change" {
			l.t.Errorf("%s is told to %s", name, m.Op)
		}
		list = append(list, m.Changes...)
	}
	return list
}

// TestChangeIsOneMomentAtBothEnds fails a link while the lab is paused: both ends learn of one virtual time ahead of all
// nodes, switches of their new routes for when the fabric has converged.
func TestChangeIsOneMomentAtBothEnds(t *testing.T) {
	l := newLab(t, "fat-tree-2x2", "auto")
	l.connect()
	l.obey(1000)
	for i, p := range l.pages {
		p.Horizon.Store(int64(1000 * i))
	}
	ctx := context.Background()
	if _, err := l.clockOp(ctx, api.ClockOp{Op: api.ClockPause}); err != nil {
		t.Fatal(err)
	}
	_, hi := l.horizons()
	r, err := l.planChange(ctx, "spine1-leaf0", api.LinkChange{Op: api.LinkOpFail}) // in either order
	if err != nil {
		t.Fatal(err)
	}
	at := vt.Time(r.AtNs)
	if r.Link != "leaf0-spine1" || r.When != api.WhenNow || at <= hi || r.RoutesAtNs != int64(at.Add(l.plan.Convergence)) {
		t.Errorf("%+v; nodes are at %v", r, hi)
	}
	id, _, _ := l.plan.FindLink("leaf0-spine1")
	if s := l.links[id]; !s.AB.Down || !s.BA.Down || !s.down() {
		t.Errorf("link state %+v", s)
	}
	for _, name := range []string{"leaf0", "spine1", "spine0", "leaf1", "host0"} {
		var sides, routes int
		for _, c := range l.changes(name) {
			switch {
			case c.Impair != nil && c.Impair.Down && c.At == at, c.RxDown != nil && *c.RxDown && c.At == at:
				sides++
				if p := l.plan.Nodes[l.id(name)].Ports[c.Port]; p.Link != id {
					t.Errorf("%s: port %d is not of the link", name, c.Port)
				}
			case c.Routes != nil && c.At == vt.Time(r.RoutesAtNs):
				routes++
			default:
				t.Errorf("%s: %+v", name, c)
			}
		}
		end, sw := name == "leaf0" || name == "spine1", !strings.HasPrefix(name, "host")
		if sides != map[bool]int{true: 2}[end] || routes != map[bool]int{true: 1}[sw] {
			t.Errorf("%s is told of %d sides and %d changes of routes", name, sides, routes)
		}
	}
	if s := l.segment(); s.Limit >= at {
		t.Errorf("paused, and time may go to %v", s.Limit)
	}
	// One direction of a link: one sender, and nobody's routes.
	if r, err = l.planChange(ctx, "leaf1-spine0", api.LinkChange{Op: api.LinkOpSet, From: "spine0", Set: api.LinkSet{Loss: ptr(0.5)}}); err != nil || r.RoutesAtNs != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	for name, want := range map[string]int{"spine0": 1, "leaf1": 0, "leaf0": 0} {
		if got := l.changes(name); len(got) != want || want == 1 && (got[0].Impair == nil || got[0].Impair.Loss != 0.5) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestLastLinkOfASwitch takes all links of a spine down: it is told that it has no routes left, and not nothing.
func TestLastLinkOfASwitch(t *testing.T) {
	l := newLab(t, "fat-tree-2x2", "auto")
	l.connect()
	l.obey(1000)
	for _, name := range []string{"leaf0-spine1", "leaf1-spine1"} {
		if _, err := l.planChange(context.Background(), name, api.LinkChange{Op: api.LinkOpFail}); err != nil {
			t.Fatal(err)
		}
	}
	list := l.changes("spine1")
	if last := list[len(list)-1]; last.Routes == nil || len(last.Routes) != 0 {
		t.Errorf("the last change is %+v", last)
	}
}

// TestChangeAtRestTakesPlaceAtOnce changes a link of a lab at rest: when the answer comes the change has happened.
func TestChangeAtRestTakesPlaceAtOnce(t *testing.T) {
	l := newLab(t, "pair", "auto")
	l.connect()
	l.obey(1000)
	name := l.plan.Links[0].Name
	r, err := l.planChange(context.Background(), name, api.LinkChange{Op: api.LinkOpBlackhole})
	if err != nil {
		t.Fatal(err)
	}
	if lo, _ := l.horizons(); lo < vt.Time(r.AtNs) {
		t.Errorf("the change is at %v, a node is at %v", vt.Time(r.AtNs), lo)
	}
	if got := l.linkStatus()[0]; got.State != api.LinkImpaired || !got.AB.Impair.Blackhole || got.AB.Impair.Rate != 1 {
		t.Errorf("status %+v", got)
	}
}

func TestArmedChangesWaitForTheRun(t *testing.T) {
	l := newLab(t, "pair", "auto")
	l.connect()
	l.obey(1000)
	name := l.plan.Links[0].Name
	ctx := context.Background()
	r, err := l.planChange(ctx, name, api.LinkChange{Op: api.LinkOpFail, At: "+30us"})
	if err != nil || r.When != api.WhenNextRun || r.RelNs != 30_000 || r.AtNs != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	if l.links[0].down() || len(l.changes(l.nodes[0].name)) != 0 {
		t.Error("it took place already")
	}
	if err := l.fireArmed(ctx, 5_000_000); err != nil {
		t.Fatal(err)
	}
	got := l.changes(l.nodes[0].name)
	if len(got) != 2 || got[0].At != 5_030_000 || got[1].At != 5_030_000 || !l.links[0].down() || len(l.armed) != 0 {
		t.Errorf("%+v", got)
	}
	if err := l.fireArmed(ctx, 9_000_000); err != nil || len(l.changes(l.nodes[0].name)) != 0 {
		t.Error("it is armed for every run")
	}
	// With a run under way, +30us counts from its start.
	l.cur, l.time.run = &run{t0: 1 << 40}, true
	r, err = l.planChange(ctx, name, api.LinkChange{Op: api.LinkOpRestore, At: "+30us"})
	if err != nil || r.When != api.WhenThisRun || r.AtNs != 1<<40+30_000 || r.RelNs != 30_000 {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := l.planChange(ctx, name, api.LinkChange{Op: api.LinkOpRestore, At: "0s"}); api.AsError(err) == nil || api.AsError(err).Code != api.CodeUsage {
		t.Errorf("a time that is past: %v", err)
	}
}

func TestLinkStates(t *testing.T) {
	l := newLab(t, "pair", "auto")
	for _, c := range []struct {
		s    linkState
		want string
	}{
		{linkState{}, api.LinkUp},
		{linkState{AB: link.Impair{Down: true}}, api.LinkDown},
		{linkState{BA: link.Impair{Down: true, Loss: 1}}, api.LinkDown},
		{linkState{BA: link.Impair{Rate: 0.5}}, api.LinkImpaired},
	} {
		l.links[0] = c.s
		got := l.linkStatus()[0]
		want := api.Direction{Impair: impair(c.s.BA), Counters: l.portCounters(1, 0)}
		if got.State != c.want || !reflect.DeepEqual(got.BA, want) {
			t.Errorf("%+v: %+v", c.s, got)
		}
	}
}
