package faults

import (
	"strings"
	"testing"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/internal/vt"
)

// TestWishesOfALink: on a negotiated link a change is one of wishes, of both ends or of one, both ends are told, and it can be taken back.
func TestWishesOfALink(t *testing.T) {
	spec, err := topology.Parse("t", []byte("name: t\nfabric: {kind: star, hosts: 3}\ndefaults: {link: {lldp: on, cbfc: on}}\nlinks:\n  - {endpoints: [host1, leaf0], lldp: static}\n  - {endpoints: [host2, leaf0], cbfc: off}\n"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := topology.BuildPlan(spec)
	if err != nil {
		t.Fatal(err)
	}
	link := func(name string) *topology.Link {
		id, _, err := p.FindLink(name)
		if err != nil {
			t.Fatal(err)
		}
		return &p.Links[id]
	}
	l := link("host0-leaf0")
	change := func(l *topology.Link, at vt.Time, from int, words ...string) Fault {
		set, err := ParseSettings(words)
		if err != nil {
			t.Fatal(err)
		}
		return Fault{At: at, Link: l.ID, From: from, Op: Change, Set: set}
	}
	s := New(p)
	if is := s.At(0)[l.ID]; is.LLR || !is.CBFC || is.Wish != [2]topology.Wish{{CBFC: true}, {CBFC: true}} {
		t.Errorf("at first: %+v", is)
	}
	b, err := s.Schedule(change(l, 10, l.A.Node, "llr=on", "cbfc=limit:32KiB"), change(l, 20, Both, "cbfc=off"))
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range []topology.End{l.A, l.B} {
		var got []topology.Wish
		for _, c := range b.Changes[e.Node] {
			if c.Retry != nil || c.Credit != nil || c.Wish != nil && c.Wish.Retry == nil {
				t.Errorf("%+v", c)
			}
			if c.Wish != nil {
				got = append(got, c.Wish.Wish)
			}
		}
		want := [][]topology.Wish{{{LLR: true, CBFC: true, Limit: 32 << 10}, {LLR: true, Limit: 32 << 10}}, {{CBFC: true}, {}}}[i]
		if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
			t.Errorf("end %d is told %+v, want %+v", i, got, want)
		}
	}
	if is := s.At(20)[l.ID]; !is.LLR || is.CBFC {
		t.Errorf("afterwards: %+v", is)
	}
	undone := 0
	for _, list := range s.Undo(b).Changes {
		for _, c := range list {
			if c.Wish != nil && c.Wish.Wish == (topology.Wish{CBFC: true}) {
				undone++
			}
		}
	}
	if undone != 4 {
		t.Errorf("%d wishes taken back", undone)
	}
	for hint, f := range map[string]Fault{
		"llr=on":                   change(l, 25, Both, "llr=reinit"), // only A wants it
		"lldp: on in the topology": change(link("host1-leaf0"), 30, link("host1-leaf0").B.Node, "llr=on"),
		"{lldp: on, cbfc: on}":     change(link("host1-leaf0"), 30, Both, "cbfc=limit:64KiB"),
		"{cbfc: on}":               change(link("host2-leaf0"), 30, Both, "cbfc=limit:64KiB"),
		"some frames":              change(l, 30, Both, "cbfc=limit:1KiB"),
	} {
		if _, err := s.Schedule(f); err == nil || !strings.Contains(err.(*Error).Hint, hint) {
			t.Errorf("%s: %v", hint, err)
		}
	}
}
