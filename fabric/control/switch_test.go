package control

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/internal/ctl"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/switchd"
)

// TestEditsTakePlaceInTheirOrder schedules edits out of order: what follows an edit that came late is told to nodes anew,
// and again when the edit is taken back.
func TestEditsTakePlaceInTheirOrder(t *testing.T) {
	plan := generate(t, "fat-tree-2x2")
	s := newSwitchStates(plan)
	id := slices.IndexFunc(plan.Nodes, func(n topology.Node) bool { return n.Name == "leaf0" })
	own := *plan.Nodes[id].Switch
	set := func(cur switchd.Settings, a ...string) switchd.Settings {
		t.Helper()
		next, err := plan.SetSwitch(id, cur, a)
		if err != nil {
			t.Fatal(err)
		}
		return next
	}
	last := &switchEdit{At: 300, Nodes: []int{id}, Assign: []string{"ecn.kmax=5000B"}}
	first := &switchEdit{At: 100, Nodes: []int{id}, Assign: []string{"ecn.kmin=1000B"}}
	one := set(own, first.Assign...)
	for _, c := range []struct {
		e    *switchEdit
		want []ctl.Change
	}{
		{first, []ctl.Change{{At: 100, Port: -1, Switch: &one}}},
		{last, []ctl.Change{{At: 300, Port: -1, Switch: ptr(set(one, last.Assign...))}}},
		{&switchEdit{At: 200, Nodes: []int{id}, Assign: []string{"buffer=64KiB"}}, []ctl.Change{{At: 200, Port: -1, Switch: ptr(set(one, "buffer=64KiB"))},
			{At: 300, Port: -1, Switch: ptr(set(set(one, "buffer=64KiB"), last.Assign...))}}},
	} {
		got, err := s.add(c.e)
		if err != nil || len(got) != 1 || !reflect.DeepEqual(got[id], c.want) {
			t.Errorf("%s at %v: %v\n got %+v\nwant %+v", c.e.text(), c.e.At, err, got[id], c.want)
		}
	}
	two := s.pending[1]
	if got := s.at(id, 250); !reflect.DeepEqual(got, set(one, "buffer=64KiB")) {
		t.Errorf("at 250: %+v", got)
	}
	// An edit that a later one cannot follow.
	if _, err := s.add(&switchEdit{At: 150, Nodes: []int{id}, Assign: []string{"ecn.kmin=6000B", "ecn.kmax=7000B"}}); err == nil || !strings.Contains(err.Error(), "scheduled for later") || api.AsError(err).Code != api.CodeUsage {
		t.Errorf("an edit in the way of a later one: %v", err)
	}
	if _, err := s.add(&switchEdit{At: 400, Nodes: []int{id}, Assign: []string{"ecn.kmin=7000B", "no=1"}}); err == nil || strings.Contains(err.Error(), "later") || strings.Contains(err.Error(), "\n") {
		t.Errorf("an edit that is none: %v", err)
	}
	if len(s.pending) != 3 {
		t.Fatalf("%d edits are pending", len(s.pending))
	}
	saved := roundTrip(t, s)
	if other := newSwitchStates(plan); other.load(saved) != nil || !reflect.DeepEqual(roundTrip(t, other), saved) || !reflect.DeepEqual(other.at(id, 300), s.at(id, 300)) {
		t.Errorf("loaded %+v", other)
	}
	if got := s.remove(two)[id]; len(got) != 2 || got[0].At != 200 || !reflect.DeepEqual(*got[0].Switch, one) || !reflect.DeepEqual(*got[1].Switch, set(one, last.Assign...)) {
		t.Errorf("taken back: %+v", got)
	}
	s.settle(100)
	if !reflect.DeepEqual(s.settled[id], one) || len(s.pending) != 1 || len(s.after(id, 100)) != 1 {
		t.Errorf("settled %+v, pending %v", s.settled[id], s.pending)
	}
	saved = roundTrip(t, s)
	if other := newSwitchStates(plan); other.load(saved) != nil || !reflect.DeepEqual(other.at(id, 300), s.at(id, 300)) || len(saved.Settings) != 1 {
		t.Errorf("saved %+v", saved)
	}
	// Back to what the topology says.
	if _, err := s.add(&switchEdit{At: 500, Nodes: []int{id}}); err != nil || !reflect.DeepEqual(s.at(id, vt.Never), own) {
		t.Errorf("reset: %v", err)
	}
	bad := own
	bad.Queues[1].Pmax = 2
	for name, v := range map[string]savedSwitches{
		"a node that is none":  {Settings: map[int]switchd.Settings{99: own}},
		"an end point":         {Pending: []*switchEdit{{At: 1, Nodes: []int{len(plan.Nodes) - 1}}}},
		"settings that cannot": {Settings: map[int]switchd.Settings{id: bad}},
		"no such setting":      {Pending: []*switchEdit{{At: 1, Nodes: []int{id}, Assign: []string{"no=1"}}}},
	} {
		if other := newSwitchStates(plan); other.load(v) == nil {
			t.Errorf("loaded: %s", name)
		}
	}
}

// roundTrip gives what a state file holds.
func roundTrip(t *testing.T, s *switchStates) (v savedSwitches) {
	t.Helper()
	b, err := json.Marshal(s.save())
	if err == nil {
		err = json.Unmarshal(b, &v)
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestSwitchesAreChangedTogether sets switches at rest, while paused, for the next run, and where one of them refuses.
func TestSwitchesAreChangedTogether(t *testing.T) {
	l := newLab(t, "fat-tree-2x2", "auto")
	l.connect()
	l.obey(1000)
	ctx := context.Background()
	if _, err := l.clockOp(ctx, api.ClockOp{Op: api.ClockPause}); err != nil {
		t.Fatal(err)
	}
	change := func(at string, a ...string) ([]api.SwitchChangeResult, error) {
		nodes, err := l.switchesNamed([]string{"leaf*", "spine0", "leaf0"})
		if err != nil || len(nodes) != 3 {
			t.Fatalf("%v, %v", nodes, err)
		}
		w := switchDeed{switchEdit{Nodes: nodes, Assign: a}}
		tm, err := l.arrange(ctx, at, w)
		return []api.SwitchChangeResult{{When: tm.when, AtNs: int64(tm.at), RelNs: tm.rel}}, err
	}
	r, err := change("", "ecn.kmin=1000B")
	if err != nil || r[0].When != api.WhenNow {
		t.Fatalf("%+v, %v", r, err)
	}
	for _, name := range []string{"leaf0", "leaf1", "spine0", "spine1", "host0"} {
		got := l.changes(name)
		want := name != "spine1" && name != "host0"
		if want != (len(got) == 1) || want && (got[0].At != vt.Time(r[0].AtNs) || got[0].Switch == nil || got[0].Switch.Queues[1].Kmin != 1000) {
			t.Errorf("%s is told %+v", name, got)
		}
	}
	if list, err := l.switches(ctx, "leaf1"); err != nil || len(list) != 1 || len(list[0].Pending) != 1 || len(list[0].Changed) != 0 {
		t.Errorf("before it takes place: %+v, %v", list, err)
	}
	// For the next run: checked now, told when it begins.
	if _, err := change("+30us", "ecn.kmin=9GiB"); err == nil || len(l.armed) != 0 {
		t.Errorf("armed nonsense: %v", err)
	}
	if r, err = change("+30us", "ecn.kmin=2000B"); err != nil || r[0].When != api.WhenNextRun || r[0].RelNs != 30_000 || len(l.armed) != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	for _, f := range l.fakes {
		f.take()
	}
	if err := l.fireArmed(ctx, 1<<40); err != nil {
		t.Fatal(err)
	}
	if got := l.changes("leaf1"); len(got) != 1 || got[0].At != 1<<40+30_000 || got[0].Switch.Queues[1].Kmin != 2000 || len(l.armed) != 0 || l.converged != 1<<40+30_000 {
		t.Errorf("%+v; no run before %v", got, l.converged)
	}
}

// TestRefusedSettingsAreTakenBack has one node say no.
func TestRefusedSettingsAreTakenBack(t *testing.T) {
	l := newLab(t, "star-2", "auto")
	id := slices.IndexFunc(l.plan.Nodes, func(n topology.Node) bool { return n.Kind == topology.KindSwitch })
	l.connect()
	l.obey(1000)
	ctx := context.Background()
	if _, err := l.clockOp(ctx, api.ClockOp{Op: api.ClockPause}); err != nil {
		t.Fatal(err)
	}
	l.fakes[id].mu.Lock() // before its next message
	l.fakes[id].refuse = &l.refuse
	l.fakes[id].mu.Unlock()
	l.refuse.Store(true)
	own := *l.plan.Nodes[id].Switch
	if _, err := l.arrange(ctx, "", switchDeed{switchEdit{Nodes: []int{id}, Assign: []string{"ecn.kmin=1000B"}}}); err == nil {
		t.Fatal("the node has refused")
	}
	got := l.changes(l.nodes[id].name)
	if len(got) != 2 || got[0].At != got[1].At || !reflect.DeepEqual(*got[1].Switch, own) || len(l.settings.pending) != 0 {
		t.Errorf("told %+v; pending %v", got, l.settings.pending)
	}
}

func TestDifferences(t *testing.T) {
	kv := func(s ...string) (list []topology.KeyValue) {
		for i := 0; i < len(s); i += 2 {
			list = append(list, topology.KeyValue{Key: s[i], Value: s[i+1]})
		}
		return list
	}
	got := differences(kv("a", "1", "b", "2", "c", "3"), kv("a", "1", "b", "5", "d", "4"))
	want := []api.SettingChange{{Key: "b", Value: "5", Topology: "2"}, {Key: "d", Value: "4"}, {Key: "c", Topology: "3"}}
	if !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestCongestionOfARun tells of what queues did between two looks.
func TestCongestionOfARun(t *testing.T) {
	l := newLab(t, "star-2", "auto")
	sw := slices.IndexFunc(l.plan.Nodes, func(n topology.Node) bool { return n.Kind == topology.KindSwitch })
	before, after := make([][]ctl.Queue, len(l.nodes)), make([][]ctl.Queue, len(l.nodes))
	before[sw] = []ctl.Queue{{Port: "eth1", Queue: 1, C: map[string]uint64{"ecn_marked": 5, "trimmed": 1, "dropped_frames": 1, "peak_bytes": 900}}}
	after[sw] = []ctl.Queue{
		{Port: "eth1", Queue: 1, C: map[string]uint64{"ecn_marked": 8, "trimmed": 3, "dropped_frames": 7, "trim_dropped": 1, "peak_bytes": 700, "watchdog": 2, "watchdog_dropped": 10}},
		{Port: "eth2", Queue: 3, C: map[string]uint64{"tx_frames": 8}},
		{Port: "eth2", Queue: 4, C: map[string]uint64{"ecn_marked": 1}}}
	before[sw+1], after[sw+1] = nil, []ctl.Queue{{Port: "eth1", C: map[string]uint64{"ecn_marked": 1}}} // it was not there at first
	got := l.congestion(before, after)
	if len(got) != 2 || got[0].ECNMarked != 3 || got[0].Trimmed != 2 || got[0].TrimDropped != 1 || got[0].Dropped != 14 || got[0].PeakBytes != 700 || got[1].Queue != 4 || got[1].ECNMarked != 1 {
		t.Errorf("%+v", got)
	}
	list, _ := l.events.since(0)
	if len(list) != 2 || list[0].Kind != "pfc-watchdog" || !strings.Contains(list[0].Text, "2 times at eth1, queue data") || list[1].Kind != "congestion" ||
		!strings.Contains(list[1].Text, "4 frames marked, 2 trimmed, 15 lost") {
		t.Errorf("events %+v", list)
	}
	if n := len(after[sw][0].Depth); n != link.DepthBuckets {
		t.Errorf("%d buckets", n)
	}
}
