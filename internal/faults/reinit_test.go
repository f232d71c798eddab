package faults

import (
	"errors"
	"strings"
	"testing"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/internal/ctl"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/switchd"
)

// handshakes gives what ports of link 0 are told of new handshakes, by the end: 1 to do it, -1 not to.
func handshakes(p *topology.Plan, changes map[int][]ctl.Change) (told [2]int) {
	for i, e := range []topology.End{p.Links[0].A, p.Links[0].B} {
		for _, c := range changes[e.Node] {
			if c.ReInit != nil && c.Port == e.Port && *c.ReInit {
				told[i]++
			} else if c.ReInit != nil {
				told[i]--
			}
		}
	}
	return told
}

func TestReInitIsOfSendingPortsWithLLR(t *testing.T) {
	p := plan(t, "fat-tree-2x4")
	set := func(words ...string) Set {
		s, err := ParseSettings(words)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	again := set("llr=reinit")
	if again.Text() != "llr=reinit" || again.LLR != nil {
		t.Fatalf("%q", again.Text())
	}
	s := New(p)
	refused := func(what string, list ...Fault) {
		t.Helper()
		var e *Error
		if _, err := s.Schedule(list...); !errors.As(err, &e) || e.Hint == "" {
			t.Errorf("%s: %v", what, err)
		}
	}
	refused("LLR is off", Fault{At: 100, From: Both, Op: Change, Set: again})
	refused("LLR is off again by then", Fault{At: 10, From: Both, Op: Change, Set: set("llr=on")}, Fault{At: 50, From: Both, Op: Change, Set: set("llr=off")},
		Fault{At: 100, From: Both, Op: Change, Set: again})
	both := set("llr=on")
	both.ReInit = again.ReInit
	refused("on and a new handshake at once", Fault{At: 100, From: Both, Op: Change, Set: both})
	if _, err := s.Schedule(Fault{At: 10, From: Both, Op: Change, Set: set("llr=on")}); err != nil {
		t.Fatal(err)
	}
	for from, want := range map[int][2]int{Both: {1, 1}, p.Links[0].A.Node: {1, 0}, p.Links[0].B.Node: {0, 1}} {
		b, err := s.Schedule(Fault{At: vt.Time(100 + from), From: from, Op: Change, Set: again})
		if err != nil {
			t.Fatal(err)
		}
		if got := handshakes(p, b.Changes); got != want {
			t.Errorf("from %d: told %v, not %v", from, got, want)
		}
		if got := handshakes(p, s.Undo(b).Changes); got != [2]int{-want[0], -want[1]} {
			t.Errorf("from %d, taken back: told %v", from, got)
		}
	}
	if s.Final(0).AB != New(p).Final(0).AB || !s.Final(0).LLR {
		t.Errorf("a handshake leaves %+v", s.Final(0))
	}
}

// PFC-02: what PFC sets aside is known before the run, and must have room for what LLR sends again.
func TestPFC02_RetryNeedsHeadroom(t *testing.T) {
	build := func(link string) *topology.Plan {
		spec, err := topology.Parse("t", []byte("name: t\nfabric: {kind: star, hosts: 3}\ndefaults:\n  link: {llr: "+link+"}\n  switch: {pfc: {enabled: true}, classes: {10: roce, 12: roce}}\n"))
		if err != nil {
			t.Fatal(err)
		}
		p, err := topology.BuildPlan(spec)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	p := build("off")
	leaf := p.Nodes[0].Ports[0].Peer
	if p.Nodes[leaf].Switch == nil {
		leaf = 0
	}
	set := *p.Nodes[leaf].Switch
	at := func(int) *switchd.Settings { return &set }
	err := Headroom(p, 0, at)
	var e *Error
	if !errors.As(err, &e) || !strings.Contains(e.Hint, "pfc.headroom=") || !strings.Contains(e.Msg, "headroom") {
		t.Fatalf("LLR is turned on without room for it: %v", err)
	}
	short := set.PFC.Headroom
	set.PFC.Headroom = build("on").Nodes[leaf].Switch.PFC.Headroom
	if got := set.PFC.Headroom - short; got != p.Retry(0).Bytes {
		t.Errorf("a topology with LLR sets %d bytes more aside, its window is %d", got, p.Retry(0).Bytes)
	}
	if err := Headroom(p, 0, at); err != nil {
		t.Errorf("with the headroom of a topology with LLR: %v", err)
	}
	set.PFC.Headroom = short - 1 // somebody knows better
	if err := Headroom(p, 0, at); err != nil {
		t.Errorf("with less than what is worked out: %v", err)
	}
	set = *plan(t, "star-4").Nodes[leaf].Switch
	if err := Headroom(p, 0, at); err != nil {
		t.Errorf("nothing is lossless: %v", err)
	}
}
