package topology

import (
	"strings"
	"testing"
)

// TestOneMistakeOfManyLinksIsToldOnce: what defaults say wrongly of all links is one problem, where it stands.
func TestOneMistakeOfManyLinksIsToldOnce(t *testing.T) {
	for text, want := range map[string]string{
		"defaults: {link: {llr: {ends: [leaf0]}}}":                                                             "3:25: llr.ends (leaf0): link host0-leaf0, like 3 more, negotiates nothing, so both ends have the same; say lldp: on, or leave ends out",
		"defaults: {link: {cbfc: {method: total, limit: 64KiB}}}":                                              "3:19: cbfc (host0-leaf0 and 3 more): limit is for method: perVC",
		"links:\n  - {endpoints: [host0, leaf0], cbfc: {channels: [roce, data], limit: 64KiB, method: total}}": "4:33: cbfc (host0-leaf0): limit is for",
	} {
		_, err := planText(t, "name: x\nfabric: {kind: star, hosts: 4}\n"+text+"\n")
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s:\n%v", text, err)
		}
	}
}

// TestWhoWantsWhat: with lldp: on each end of a link wants what its topology says, and ports have parameters for when it is agreed on.
func TestWhoWantsWhat(t *testing.T) {
	const text = `name: x
fabric: {kind: leaf-spine, spines: 1, leaves: 2, hostsPerLeaf: 2}
defaults: {link: {lldp: on, llr: on, cbfc: {ends: ["leaf*"], limit: 64KiB}}}
links:
  - {endpoints: [leaf0, spine0], llr: {ends: [spine0], ackEvery: 4KiB}}
  - {endpoints: [leaf1, spine0], lldp: static}
  - {endpoints: [host1, leaf0], lldp: off, cbfc: off, llr: off}
nodes:
  host3: {kind: host}
`
	_, err := planText(t, text)
	if err == nil || !strings.Contains(err.Error(), "link leaf1-spine0 negotiates nothing") {
		t.Fatalf("%v", err)
	}
	p, err := planText(t, strings.Replace(text, "lldp: static}", "lldp: static, cbfc: off}", 1))
	if err != nil {
		t.Fatal(err)
	}
	both := Wish{LLR: true, CBFC: true}
	for name, want := range map[string]Link{
		"host0-leaf0":  {LLDP: true, Negotiated: true, Wishes: [2]Wish{{LLR: true}, both}},
		"leaf0-spine0": {LLDP: true, Negotiated: true, Wishes: [2]Wish{{CBFC: true}, {LLR: true}}},
		"leaf1-spine0": {LLDP: true},
		"host1-leaf0":  {},
		"host3-leaf1":  {LLDP: true},
	} {
		id, _, err := p.FindLink(name)
		if err != nil {
			t.Fatal(err)
		}
		l := &p.Links[id]
		if l.LLDP != want.LLDP || l.Negotiated != want.Negotiated || l.Wishes != want.Wishes {
			t.Errorf("%s: %+v", name, l)
		}
		for i, e := range []End{l.A, l.B} {
			if q := &p.Nodes[e.Node].Ports[e.Port]; q.Negotiated != l.Negotiated || q.Wish != l.Wishes[i] || q.LLR != l.LLR || q.CBFC != l.CBFC {
				t.Errorf("%s: its port %+v", name, q)
			}
		}
		if l.Negotiated && (l.LLR == nil || l.CBFC == nil) || name == "leaf1-spine0" && l.LLR == nil {
			t.Errorf("%s: no parameters: %+v", name, l)
		}
	}
	s, err := Parse("x", []byte(strings.Replace(text, "lldp: static}", "lldp: static, cbfc: off}", 1)))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := Parse("x", s.YAML()); err != nil || string(again.YAML()) != string(s.YAML()) || !strings.Contains(string(s.YAML()), "ends: [spine0]") {
		t.Errorf("printed: %v\n%s", err, s.YAML())
	}
}

// TestWrongEnds names the line and what to do.
func TestWrongEnds(t *testing.T) {
	const head = "name: x\nfabric: {kind: leaf-spine, spines: 1, leaves: 2, hostsPerLeaf: 1}\n"
	for text, want := range map[string]string{
		"defaults: {link: {lldp: dynamic}}":                                                                    "test.yaml:3",
		"defaults: {link: {llr: {ends: [leaf0]}}}":                                                             "test.yaml:3",
		"defaults: {link: {lldp: static, cbfc: {ends: [leaf0]}}}":                                              "say lldp: on",
		"defaults: {link: {lldp: on, llr: {ends: [leafx]}}}":                                                   "name one of the two nodes",
		"defaults: {link: {lldp: on, llr: {ends: []}}}":                                                        "say off",
		"defaults: {link: {lldp: on, llr: {ends: leaf0}}}":                                                     "llr.ends",
		"defaults: {link: {lldp: on, llr: {ends: [Leaf 0]}}}":                                                  "not a node or pattern",
		"defaults: {link: {lldp: on}}\nlinks:\n  - endpoints: [leaf0, spine0]\n    llr: {ends: [leaf1]}":       "test.yaml:6",
		"defaults: {link: {lldp: on}}\nlinks:\n  - endpoints: [leaf0, spine0]\n    cbfc:\n      ends: [host0]": "test.yaml:7",
	} {
		if _, err := planText(t, head+text+"\n"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
