package faults

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/internal/ctl"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/vt"
)

func plan(t testing.TB, name string) *topology.Plan {
	t.Helper()
	spec, err := topology.Generate(name)
	if err != nil {
		t.Fatal(err)
	}
	p, err := topology.BuildPlan(spec)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func share1(v float64) *float64 { return &v }

func TestOneFailureIsOneMomentAtBothEnds(t *testing.T) {
	p := plan(t, "fat-tree-2x2")
	s := New(p)
	id, _, err := p.FindLink("leaf0-spine1")
	if err != nil {
		t.Fatal(err)
	}
	b, err := s.Schedule(Fault{At: 5000, Link: id, From: Both, Op: Fail})
	if err != nil || b.Routes != vt.Time(5000).Add(p.Convergence) || !slices.Equal(b.Links, []int{id}) || len(b.Comes) != 0 {
		t.Fatalf("%+v, %v", b, err)
	}
	for n := range p.Nodes {
		sides, routes := 0, 0
		for _, c := range b.Changes[n] {
			switch {
			case c.Routes != nil && c.At == b.Routes:
				routes++
			case c.At == 5000 && p.Nodes[n].Ports[c.Port].Link == id && (c.Impair != nil && c.Impair.Down || c.RxDown != nil && *c.RxDown):
				sides++
			default:
				t.Errorf("%s: %+v", p.Nodes[n].Name, c)
			}
		}
		l := p.Links[id]
		if end, sw := n == l.A.Node || n == l.B.Node, p.Nodes[n].Kind == topology.KindSwitch; sides != map[bool]int{true: 2}[end] || routes != map[bool]int{true: 1}[sw] {
			t.Errorf("%s is told of %d sides and %d changes of routes", p.Nodes[n].Name, sides, routes)
		}
	}
	if now, then := s.At(4999)[id], s.At(5000)[id]; !now.Healthy() || !then.Down() || !then.AB.Down || !then.BA.Down || then != s.Final(id) {
		t.Errorf("%+v becomes %+v", now, then)
	}
	// One direction's loss concerns one sender.
	b, err = s.Schedule(Fault{At: 6000, Link: 0, From: p.Links[0].B.Node, Op: Change, Set: Set{Loss: share1(0.5)}})
	if err != nil || b.Routes != 0 || len(b.Changes) != 1 || len(b.Changes[p.Links[0].B.Node]) != 1 || b.Changes[p.Links[0].B.Node][0].Impair.Loss != 0.5 {
		t.Errorf("%+v, %v", b, err)
	}
}

// nodes keeps what nodes are told and says what they are at a time.
type nodes struct{ told map[int][]ctl.Change }

func (n *nodes) take(b *Batch) {
	for id, c := range b.Changes {
		n.told[id] = append(n.told[id], c...)
	}
}

type side struct {
	imp    link.Impair
	rxDown bool
}

// at gives every port and the text of every switch's routes at time t: what is told first is done first.
func (n *nodes) at(p *topology.Plan, t vt.Time) (map[topology.End]side, map[int]string) {
	sides, routes := map[topology.End]side{}, map[int]string{}
	for id, list := range n.told {
		list = slices.Clone(list)
		slices.SortStableFunc(list, func(a, b ctl.Change) int { return int(a.At - b.At) })
		for _, c := range list {
			if c.At > t {
				break
			}
			if c.Routes != nil {
				routes[id] = fmt.Sprint(c.Routes)
				continue
			}
			e := topology.End{Node: id, Port: c.Port}
			x := sides[e]
			if c.Impair != nil {
				x.imp = *c.Impair
			}
			if c.RxDown != nil {
				x.rxDown = *c.RxDown
			}
			sides[e] = x
		}
	}
	return sides, routes
}

// check compares what the nodes have been told with the state at time t.
func (n *nodes) check(tb testing.TB, what string, s *State, t vt.Time) {
	tb.Helper()
	sides, routes := n.at(s.plan, t)
	for id, l := range s.At(t) {
		a, b := s.plan.Links[id].A, s.plan.Links[id].B
		if wantA, wantB := (side{l.AB, l.BA.Down}), (side{l.BA, l.AB.Down}); sides[a] != wantA || sides[b] != wantB {
			tb.Fatalf("%s: link %s at %v: %+v and %+v, want %+v and %+v", what, s.plan.Links[id].Name, t, sides[a], sides[b], wantA, wantB)
		}
	}
	for sw, want := range s.around(s.At(t - vt.Time(s.plan.Convergence))) {
		got, told := routes[sw]
		if !told {
			got = fmt.Sprint(s.around(make([]Link, len(s.plan.Links)))[sw])
		}
		if got != fmt.Sprint(want) {
			tb.Fatalf("%s: routes of %s at %v are %v, want %v", what, s.plan.Nodes[sw].Name, t, got, want)
		}
	}
}

func someFault(rng *rand.Rand, p *topology.Plan) Fault {
	f := Fault{At: vt.Time(1 + rng.IntN(40)), Link: rng.IntN(len(p.Links)), From: Both, Op: []string{Fail, Restore, Blackhole, Change, Change, Flap}[rng.IntN(6)]}
	if rng.IntN(3) == 0 {
		f.From = p.Links[f.Link].A.Node
	}
	switch f.Op {
	case Change:
		if f.Set = (Set{Loss: share1(rng.Float64())}); rng.IntN(2) == 0 {
			f.Set = Set{Down: new(bool)}
		}
	case Flap:
		f.Flap = Times{DownNs: 1 + rng.Int64N(5), Count: 1 + rng.IntN(3)}
		f.Flap.PeriodNs = f.Flap.DownNs + 1 + rng.Int64N(5)
	}
	return f
}

// TestOrderOfSchedulingLeavesNoTrace schedules faults by chance, one batch or undone batch after the other, and holds what
// the nodes were told to be what one fault after the other in the order of their times makes.
func TestOrderOfSchedulingLeavesNoTrace(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	p := plan(t, "fat-tree-2x2")
	p.Convergence = 7
	for round := range 100 {
		what := fmt.Sprintf("seed %d, round %d", seed, round)
		s, n := New(p), &nodes{map[int][]ctl.Change{}}
		for range 1 + rng.IntN(6) {
			var list []Fault
			for range 1 + rng.IntN(3) {
				list = append(list, someFault(rng, p))
			}
			before := s.At(vt.Never - 1)
			b, err := s.Schedule(list...)
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			n.take(b)
			if rng.IntN(3) == 0 {
				n.take(s.Undo(b))
				if after := s.At(vt.Never - 1); !reflect.DeepEqual(after, before) {
					t.Fatalf("%s: undone, it is %+v, not %+v", what, after, before)
				}
			}
		}
		for at := vt.Time(0); at < 120; at += 3 {
			n.check(t, what, s, at)
		}
		saved, other := s.Save(), New(p)
		if err := other.Load(saved); err != nil || !reflect.DeepEqual(other.At(30), s.At(30)) {
			t.Fatalf("%s: saved and loaded: %v", what, err)
		}
		want := s.At(60)
		if s.Settle(20); !reflect.DeepEqual(s.At(60), want) {
			t.Fatalf("%s: settled at 20, it comes out differently", what)
		}
	}
}

func TestNeverConverges(t *testing.T) {
	p := plan(t, "fat-tree-2x2")
	p.Convergence = -1
	b, err := New(p).Schedule(Fault{At: 1, Link: len(p.Links) - 1, From: Both, Op: Fail})
	if err != nil || b.Routes != -1 {
		t.Errorf("%+v, %v", b, err)
	}
}

func TestFlapIsExpanded(t *testing.T) {
	f := Fault{At: 100, Link: 3, From: Both, Op: Flap, Flap: Times{DownNs: 20, PeriodNs: 100, Count: 3}}
	var got []string
	for _, o := range f.Expand() {
		got = append(got, fmt.Sprint(o.Op, " ", int64(o.At)))
	}
	if want := "fail 100, restore 120, fail 200, restore 220, fail 300, restore 320"; strings.Join(got, ", ") != want || f.Last() != 320 {
		t.Errorf("%v, last %v", got, f.Last())
	}
}

func TestFaultsThatAreRefused(t *testing.T) {
	p := plan(t, "fat-tree-2x2")
	s := New(p)
	nan, neg, long, slow, fast := share1(0), int64(-1), int64(2e9), share1(1e-9), int64(800e9)
	*nan /= *nan
	dist := link.Dist("gauss")
	for name, f := range map[string]Fault{
		"no link":         {Link: 99, From: Both, Op: Fail},
		"stranger":        {From: len(p.Nodes), Op: Fail},
		"no op":           {From: Both},
		"unknown op":      {From: Both, Op: "cut"},
		"nothing to set":  {From: Both, Op: Change},
		"loss below 0":    {From: Both, Op: Change, Set: Set{Loss: share1(-0.1)}},
		"loss above 1":    {From: Both, Op: Change, Set: Set{Loss: share1(1.1)}},
		"loss NaN":        {From: Both, Op: Change, Set: Set{Loss: nan}},
		"ber":             {From: Both, Op: Change, Set: Set{BER: share1(2)}},
		"burst":           {From: Both, Op: Change, Set: Set{Burst: &link.Burst{ToBad: 2, ToGood: 1}}},
		"endless burst":   {From: Both, Op: Change, Set: Set{Burst: &link.Burst{ToBad: 0.5}}},
		"rate 0":          {From: Both, Op: Change, Set: Set{Rate: share1(0)}},
		"rate above 1":    {From: Both, Op: Change, Set: Set{Rate: share1(1.5)}},
		"rate NaN":        {From: Both, Op: Change, Set: Set{Rate: nan}},
		"rate too slow":   {From: Both, Op: Change, Set: Set{Rate: slow}},
		"rate too fast":   {From: Both, Op: Change, Set: Set{RateBps: &fast}},
		"two rates":       {From: Both, Op: Change, Set: Set{RateBps: &fast, Rate: share1(1)}},
		"delay below 0":   {From: Both, Op: Change, Set: Set{DelayNs: &neg}},
		"delay too long":  {From: Both, Op: Change, Set: Set{DelayNs: &long}},
		"jitter too long": {From: Both, Op: Change, Set: Set{JitterNs: &long}},
		"distribution":    {From: Both, Op: Change, Set: Set{Dist: &dist}},
		"no flap":         {From: Both, Op: Flap},
		"flap too often":  {From: Both, Op: Flap, Flap: Times{DownNs: 1, PeriodNs: 2, Count: MaxFlaps + 1}},
		"flap down":       {From: Both, Op: Flap, Flap: Times{DownNs: 0, PeriodNs: 2, Count: 1}},
		"flap period":     {From: Both, Op: Flap, Flap: Times{DownNs: 2, PeriodNs: 2, Count: 1}},
	} {
		f.At = 10
		good := Fault{At: 5, Link: 1, From: Both, Op: Fail}
		_, err := s.Schedule(good, f)
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("%s: %v", name, err)
		}
	}
	many := make([]Fault, 30)
	for i := range many {
		many[i] = Fault{At: 1, From: Both, Op: Flap, Flap: Times{DownNs: 1, PeriodNs: 2, Count: MaxFlaps}}
	}
	if _, err := s.Schedule(many...); err == nil {
		t.Error("60000 changes at once")
	}
	for i, l := range s.At(vt.Never - 1) {
		if l != (Link{}) {
			t.Errorf("link %d: %+v", i, l)
		}
	}
}

// TestRoutesAreBounded flaps a link of a large fabric more often than the memory of its nodes could take.
func TestRoutesAreBounded(t *testing.T) {
	s := New(plan(t, "fat-tree-k8"))
	id, _, err := s.plan.FindLink("edge0-agg0")
	if err != nil {
		t.Fatal(err)
	}
	flap := Fault{At: 1, Link: id, From: Both, Op: Flap, Flap: Times{DownNs: 1, PeriodNs: 2, Count: MaxFlaps}}
	var e *Error
	if _, err := s.Schedule(flap); !errors.As(err, &e) || len(s.Save().Pending) != 0 {
		t.Errorf("%v, %d changes pending", err, len(s.Save().Pending))
	}
	flap.Flap.Count = 20
	if _, err := s.Schedule(flap); err != nil {
		t.Error(err)
	}
}
