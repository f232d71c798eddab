package chaos

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/uetlab/uetlab/fabric/topology"
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

// lines writes a script as one line for each step.
func lines(s *Script) (out []string) {
	for _, x := range s.Timeline() {
		line := fmt.Sprintf("%v %s %s", x.At, x.On, x.Text())
		if x.From != "" {
			line += " from " + x.From
		}
		out = append(out, line)
	}
	return out
}

func TestScriptsAreRead(t *testing.T) {
	p := plan(t, "fat-tree-2x2")
	for text, want := range map[string][]string{
		"steps: [{at: +20us, link: leaf0-spine0, fail: true}]":                                              {"20µs leaf0-spine0 fail"},
		"name: x\ndescription: y\nsteps:\n- at: 0\n  link: spine0-leaf0\n  from: spine0\n  restore: true\n": {"0ns leaf0-spine0 restore from spine0"},
		"steps:\n  - at: 1ms\n    link: leaf*-spine0\n    blackhole: true\n":                                {"1ms leaf0-spine0 blackhole", "1ms leaf1-spine0 blackhole"},
		"steps:\n  - {at: +5us, link: \"spine[01]-leaf1\", from: spine*, set: loss=0.1% delay=+2us}\n": {
			"5µs leaf1-spine0 set loss=0.1% delay=+2us from spine0", "5µs leaf1-spine1 set loss=0.1% delay=+2us from spine1"},
		"steps: [{at: +5us, link: leaf0:eth1, set: [loss=0.1%, delay=+2us]}]":                                                {"5µs host0-leaf0 set loss=0.1% delay=+2us"},
		"steps: [{at: +5us, link: leaf0:eth1, set: {loss: 0.1%, burst: {p: 1%, r: 25%}, down: off, ber: 1e-7}}]":             {"5µs leaf0-spine0 set burst=p:1%,r:25% loss"},
		"steps:\n- {at: +9us, link: [leaf0-spine0, leaf1-spine0], fail: true}\n- {at: +2us, link: leaf1-spine1, fail: true}": {"2µs leaf1-spine1 fail", "9µs leaf0-spine0 fail", "9µs leaf1-spine0 fail"},
		"steps: [{at: +1us, link: leaf0-spine0, flap: {down: 1us, period: 4us, count: 2}}, {at: +2us, link: leaf1-spine1, fail: true}]": {
			"1µs leaf0-spine0 fail", "2µs leaf0-spine0 restore", "2µs leaf1-spine1 fail", "5µs leaf0-spine0 fail", "6µs leaf0-spine0 restore"},
	} {
		s, err := Parse("x.yaml", []byte(text), p)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		got := lines(s)
		if strings.Contains(text, "burst") {
			set := s.Steps[0].Fault.Set
			if len(got) != 1 || set.Text() != "loss=0.1% burst=p:1%,r:25% ber=1e-7 down=off" {
				t.Errorf("%s: %q", text, set.Text())
			}
			continue
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("%s:\n got %q\nwant %q", text, got, want)
		}
		for i, f := range s.Faults(1000) {
			if f.At != s.Steps[i].At+1000 {
				t.Errorf("%s: step %d at %v", text, i, f.At)
			}
		}
		if b, err := s.Schedule(1000); err != nil || b.Done < 1000 {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestSettingsOfSwitches plays steps for switches, the later first, and looks at what the switches are told.
func TestSettingsOfSwitches(t *testing.T) {
	p := plan(t, "fat-tree-2x2")
	s, err := Parse("x", []byte("steps:\n- {at: 9us, switch: leaf*, set: {trim.enabled: true, ecn.kmin: 10%}}\n- {at: 5us, switch: leaf0, set: trim.enabled=false}\n"+
		"- {at: 12us, switch: leaf0, reset: true}\n"), p)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(lines(s), "\n"), "5µs leaf0 set trim.enabled=false\n9µs leaf0 set trim.enabled=true ecn.kmin=10%\n9µs leaf1 set trim.enabled=true ecn.kmin=10%\n12µs leaf0 reset"; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	b, err := s.Schedule(1000)
	if err != nil || b.Done != 13_000 || len(b.Changes) != 2 {
		t.Fatalf("%+v, %v", b, err)
	}
	n, err := p.Node("leaf0")
	if err != nil {
		t.Fatal(err)
	}
	c := b.Changes[n.ID]
	if len(c) != 3 || c[0].At != 6000 || c[0].Switch.Trim.Enabled || !c[1].Switch.Trim.Enabled || reflect.DeepEqual(c[1].Switch, n.Switch) || !reflect.DeepEqual(c[2].Switch, n.Switch) {
		t.Errorf("leaf0 is told %+v", c)
	}
	if len(s.Faults(0)) != 0 {
		t.Errorf("faults of links: %+v", s.Faults(0))
	}
}

func TestScriptsThatAreRefused(t *testing.T) {
	p := plan(t, "fat-tree-2x2")
	step := func(s string) string { return "steps:\n  - {at: +5us, link: leaf0-spine0, " + s + "}\n" }
	for text, want := range map[string]string{
		"":                                     "x:1:1: file: empty",
		"a: [":                                 "x:1:4: file: not YAML",
		"- 1":                                  "x:1:1: file: not a mapping",
		"step: []":                             "x:1:1: key (step): not one that stands here; did you mean steps?",
		"steps: 3":                             "x:1:8: steps: not a list",
		"steps: []":                            "x:1:1: steps: none",
		"name: x":                              "steps are missing",
		"steps: [fail]":                        "x:1:9: step (fail): not a mapping",
		step("fial: true"):                     "x:2:36: key (fial): not one that stands here; did you mean fail?",
		step("fail: 1"):                        "x:2:42: fail (1): not true",
		step("from: leaf0"):                    "x:2:5: step: nothing is done",
		step("fail: true, from: leaf1"):        "x:2:54: from (leaf1): link leaf0-spine0 joins leaf0 and spine0",
		step("fail: true, restore: true"):      "x:2:48: restore: a second action",
		step("fail: true, at: 1"):              "given twice, first in line 2",
		step("set: los=1%"):                    "x:2:41: los=1%: no such setting of a link; did you mean loss?",
		step("set: {loss: 200%}"):              "loss=200%: not what loss can be; write loss=0.1%, or loss=off",
		step("set: []"):                        "empty list",
		step("set:"):                           "nothing to set",
		step("set: rate=800Gbps"):              "more than the 400Gbps of leaf0-spine0",
		step("flap: {down: 5us}"):              "period is missing",
		step("flap: {down: 5us, period: 5us}"): "not longer than",
		step("flap: {down: 5us, period: 9us, count: 0}"): "flap count (0): out of range; give 1 to 1000",
		step("flap: {down: 5us, period: 9us, count: x}"): "count (x): not a whole number",
		step("flap: {down: 5us, period: 9us, cuont: 2}"): "did you mean count?",
		step("flap: often"):                                                  "flap (often): not a mapping",
		"steps: [{link: leaf0-spine0, fail: true}]":                          "at is missing",
		"steps: [{at: +5us, link: leaf0-spine0, switch: leaf0, fail: true}]": "a link and a switch in one step",
		"steps: [{at: +5us, link: leaf0-spine0, reset: true}]":               "reset: not for a link; write restore: true",
		"steps: [{at: +5us, switch: leaf0, fail: true}]":                     "fail: not for a switch; use set or reset",
		"steps: [{at: +5us, switch: leaf0, from: leaf0, reset: true}]":       "from: not for a switch",
		"steps: [{at: +5us, switch: host0, reset: true}]":                    "switch (host0): is a fep",
		"steps: [{at: +5us, switch: laef0, reset: true}]":                    "did you mean",
		"steps: [{at: +5us, switch: \"spline*\", reset: true}]":              "no switch of the topology is like that",
		"steps:\n- at: +5us\n  switch: leaf0\n  set: {trim.enabeld: false}":  "x:4:3: leaf0: ",
		"steps: [{at: +5us, fail: true}]":                                    "link or switch is missing",
		"steps: [{at: soon, link: leaf0-spine0, fail: true}]":                "x:1:14: at (soon): not a virtual time; write it like +20us",
		"steps: [{at: 5, link: leaf0-spine0, fail: true}]":                   "at (5): not a virtual time",
		"steps: [{at: -5us, link: leaf0-spine0, fail: true}]":                "at (-5us): out of range",
		"steps: [{at: 25h, link: leaf0-spine0, fail: true}]":                 "out of range",
		"steps: [{at: 5us, link: leaf0-spine9, fail: true}]":                 "x:1:25: link (leaf0-spine9): no such name; did you mean",
		"steps: [{at: 5us, link: \"leaf9*\", fail: true}]":                   "link (leaf9*): no link of the topology is like that",
		"steps: [{at: 5us, link: \"leaf[\", fail: true}]":                    "not a pattern",
		"steps: [{at: 5us, link: \"*\", from: leaf0, fail: true}]":           "name one of the two",
		"steps: [{at: 5us, link: \"leaf*\", set: rate=1e-9%}]":               "rate=1e-9%: not what rate can be",
		"\xff":                     "not UTF-8",
		strings.Repeat("[", 100):   "nested too deeply",
		strings.Repeat("\n", 6000): "lines, at most",
		"steps:\n" + strings.Repeat("  - {at: 0, link: \"leaf*-spine*\", flap: {down: 1ns, period: 2ns, count: 1000}}\n", 3): "more than 20000 changes",
	} {
		s, err := Parse("x", []byte(text), p)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.100q:\n got %v, %+v\nwant %s", text, err, s, want)
		}
	}
	// All that is wrong is said, in order.
	_, err := Parse("x", []byte("steps:\n- {at: x, link: leaf0-spine0, fail: true}\n- {at: 0, link: y, fail: true}\nz: 1\n"), p)
	if ps, ok := err.(topology.Problems); !ok || len(ps) != 3 || ps[0].Line != 2 || ps[1].Line != 3 || ps[2].Line != 4 {
		t.Errorf("%v", err)
	}
}

func FuzzParse(f *testing.F) {
	p := plan(f, "fat-tree-2x2")
	f.Add([]byte("steps:\n  - {at: +5us, link: \"leaf*-spine0\", from: leaf*, set: {burst: {p: 1%, r: 1%}}}\n"))
	f.Add([]byte("steps: [{at: 0, link: leaf0:eth1, flap: {down: 1us, period: 2us, count: 3}}]"))
	f.Add([]byte("steps: [{at: 0, link: [a, b], set: [loss=1%, down]}]"))
	f.Add([]byte("steps: [{at: 0, switch: [leaf0, leaf1], set: [ecn.kmin=1%]}, {at: 0, switch: spine*, reset: true}]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := Parse("x", text, p)
		if err != nil {
			if ps, ok := err.(topology.Problems); !ok || len(ps) == 0 {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		if _, err := s.Schedule(vt.Time(1)); err != nil {
			t.Fatalf("%q is accepted, and then refused: %v", text, err)
		}
	})
}
