package control

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/labdir"
	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/internal/ctl"
	"github.com/uetlab/uetlab/internal/faults"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/vt"
)

func ptr[T any](v T) *T { return &v }

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
	for i, s := range l.faults.At(vt.Never - 1) {
		if s != (faults.Link{}) {
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
	if s := l.faults.Final(id); !s.AB.Down || !s.BA.Down || !s.Down() {
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
	if !l.healthy(0) || len(l.changes(l.nodes[0].name)) != 0 {
		t.Error("it took place already")
	}
	if err := l.fireArmed(ctx, 5_000_000); err != nil {
		t.Fatal(err)
	}
	got := l.changes(l.nodes[0].name)
	if len(got) != 2 || got[0].At != 5_030_000 || got[1].At != 5_030_000 || l.healthy(0) || len(l.armed) != 0 {
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
		s    faults.Link
		want string
	}{
		{faults.Link{}, api.LinkUp},
		{faults.Link{AB: link.Impair{Down: true}}, api.LinkDown},
		{faults.Link{BA: link.Impair{Down: true, Loss: 1}}, api.LinkDown},
		{faults.Link{BA: link.Impair{Rate: 0.5}}, api.LinkImpaired},
	} {
		if err := l.faults.Load(faults.Saved{Links: []faults.Link{c.s}}); err != nil {
			t.Fatal(err)
		}
		got := l.linkStatus()[0]
		want := api.Direction{Impair: api.ImpairOf(c.s.BA), Counters: l.portCounters(1, 0)}
		if got.State != c.want || !reflect.DeepEqual(got.BA, want) {
			t.Errorf("%+v: %+v", c.s, got)
		}
	}
}

func (l *lab) healthy(id int) bool {
	s := l.faults.Final(id)
	return s.Healthy()
}

// TestScriptIsAllOrNothing sends scripts of which a step is wrong, or which a node refuses: no link changes.
func TestScriptIsAllOrNothing(t *testing.T) {
	l := newLab(t, "fat-tree-2x2", "auto")
	l.connect()
	l.obey(1000)
	ctx := context.Background()
	flap := api.FaultStep{Link: "leaf0-spine0", Op: api.LinkOpFlap, Flap: api.LinkFlap{DownNs: 20_000, PeriodNs: 100_000, Count: 3}}
	for name, bad := range map[string]api.FaultStep{
		"no link": {Link: "leaf0-spine7", Op: api.LinkOpFail}, "early": {AtNs: -1, Link: "leaf0-spine1", Op: api.LinkOpFail},
		"too late": {AtNs: int64(farthest) + 1, Link: "leaf0-spine1", Op: api.LinkOpFail}, "no flap": {Link: "leaf0-spine1", Op: api.LinkOpFlap},
	} {
		if _, err := l.script(ctx, api.FaultScript{Steps: []api.FaultStep{flap, bad}}); err == nil || !strings.Contains(err.Error(), "step 2") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := l.script(ctx, api.FaultScript{}); err == nil {
		t.Error("no steps")
	}
	id := l.plan.Nodes[len(l.nodes)-1].Ports[0].Link
	l.refuse.Store(true)
	_, err := l.arrange(ctx, "", linkDeed{{Link: id, From: faults.Both, Op: faults.Fail}})
	l.refuse.Store(false)
	if err == nil || !l.healthy(id) {
		t.Fatalf("a node refuses, and the link is %+v: %v", l.faults.Final(id), err)
	}
	for _, e := range []topology.End{l.plan.Links[id].A, l.plan.Links[id].B} { // both ends are as they were
		list := l.changes(l.nodes[e.Node].name)
		var tx, rx *ctl.Change
		for i, c := range list {
			if c.Impair != nil {
				tx = &list[i]
			}
			if c.RxDown != nil {
				rx = &list[i]
			}
		}
		if tx == nil || rx == nil || tx.Impair.Down || *rx.RxDown {
			t.Errorf("%s was told %+v", l.nodes[e.Node].name, list)
		}
	}
}

// TestFlapAtRestIsOver flaps a link of a lab at rest: when the answer comes it is up again, and every switch was told its
// routes for each time that it went down or up.
func TestFlapAtRestIsOver(t *testing.T) {
	l := newLab(t, "fat-tree-2x2", "auto")
	l.connect()
	l.obey(1000)
	r, err := l.planChange(context.Background(), "leaf0-spine0", api.LinkChange{Op: api.LinkOpFlap, Flap: api.LinkFlap{DownNs: 2_000, PeriodNs: 10_000, Count: 3}})
	if err != nil {
		t.Fatal(err)
	}
	if lo, _ := l.horizons(); lo < vt.Time(r.AtNs+22_000) || r.RoutesAtNs != r.AtNs+22_000+int64(l.plan.Convergence) {
		t.Errorf("%+v, and a node is at %v", r, lo)
	}
	routes := 0
	for _, c := range l.changes("leaf1") {
		if c.Routes != nil {
			routes++
		}
	}
	id, _, _ := l.plan.FindLink("leaf0-spine0")
	if routes != 6 || !l.healthy(id) {
		t.Errorf("leaf1 was told %d times of routes; the link is %+v", routes, l.faults.Final(id))
	}
}

// TestLongListsAreCut sends more than one message holds.
func TestLongListsAreCut(t *testing.T) {
	l := newLab(t, "pair", "auto")
	l.connect()
	l.obey(1000)
	if _, err := l.planChange(context.Background(), l.plan.Links[0].Name, api.LinkChange{Op: api.LinkOpFlap, Flap: api.LinkFlap{DownNs: 10, PeriodNs: 100, Count: faults.MaxFlaps}}); err != nil {
		t.Fatal(err)
	}
	messages, changes := 0, 0
	for _, m := range l.fakes[0].take() {
		messages++
		changes += len(m.Changes)
	}
	if messages < 2 || changes != 4*faults.MaxFlaps {
		t.Errorf("%d changes in %d messages", changes, messages)
	}
}

// TestScriptsWithSwitches schedules and arms scripts that change links and switches; one that asks a switch for what
// cannot be changes neither.
func TestScriptsWithSwitches(t *testing.T) {
	l := newLab(t, "fat-tree-2x2", "auto")
	t.Setenv(labdir.EnvDir, t.TempDir())
	dir, err := labdir.Create("test")
	if err != nil {
		t.Fatal(err)
	}
	l.dir = dir
	l.connect()
	l.obey(1000)
	ctx := context.Background()
	fail := api.FaultStep{AtNs: 3000, Link: "leaf0-spine0", Op: api.LinkOpFail}
	set := func(at int64, name string, assignments ...string) api.FaultStep {
		return api.FaultStep{AtNs: at, Switch: name, Assignments: assignments}
	}
	for name, bad := range map[string]api.FaultStep{
		"no switch": set(5, "leaf7", "trim.enabled=false"), "a host": set(5, "host0", "trim.enabled=false"), "no such key": set(5, "leaf0", "trim.enabeld=false"),
		"both": {Link: "leaf0-spine0", Switch: "leaf0"}, "before": set(-1, "leaf0", "trim.enabled=false"),
	} {
		for _, at := range []string{"", "+0s"} {
			if _, err := l.script(ctx, api.FaultScript{At: at, Steps: []api.FaultStep{fail, bad}}); api.AsError(err) == nil || api.AsError(err).Code == api.CodeFailure {
				t.Errorf("%s at %q: %v", name, at, err)
			}
		}
	}
	id, _, _ := l.plan.FindLink("leaf0-spine0")
	leaf := l.id("leaf0")
	before := l.settings.at(leaf, vt.Never)
	if !l.healthy(id) || len(l.armed) != 0 || !before.Trim.Enabled {
		t.Fatalf("link %+v, armed %v, trimming %v", l.faults.Final(id), l.armed, before.Trim.Enabled)
	}
	l.changes("leaf0")
	steps := []api.FaultStep{set(9000, "leaf*", "trim.enabled=true"), fail, set(5000, "leaf0", "trim.enabled=false")}
	r, err := l.script(ctx, api.FaultScript{Steps: steps})
	if err != nil || r.Changes != 4 || r.LastNs != r.AtNs+9000 || r.RoutesAtNs != r.AtNs+3000+int64(l.plan.Convergence) {
		t.Errorf("%+v, %v", r, err)
	}
	var enabled []bool
	for _, m := range l.fakes[leaf].take() { // the carrier goes as well
		for _, c := range m.Changes {
			if c.Switch != nil {
				enabled = append(enabled, c.Switch.Trim.Enabled)
			}
		}
	}
	if !slices.Equal(enabled, []bool{false, true}) || l.healthy(id) {
		t.Errorf("leaf0 is told of trimming %v, the link is %+v", enabled, l.faults.Final(id))
	}
	if r, err = l.script(ctx, api.FaultScript{At: "+1us", Steps: steps}); err != nil || r.When != api.WhenNextRun || len(l.armed) != 3 {
		t.Fatalf("%+v, %v, armed %v", r, err, l.armed)
	}
	if err := l.fireArmed(ctx, 5_000_000_000); err != nil || l.converged < 5_000_010_000 {
		t.Errorf("%v, a run begins from %v on", err, l.converged)
	}
	if set := l.settings.at(leaf, 5_000_006_500); set.Trim.Enabled {
		t.Error("leaf0 trims after the step that ends it")
	}
}
