package experiment

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

const head = "name: x\ntopology: pair\nworkload: incast --size 1MiB\n"

func parse(t *testing.T, text string) *Experiment {
	t.Helper()
	e, err := Parse("x.yaml", []byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return e
}

func TestExperimentsAreRead(t *testing.T) {
	e := parse(t, `name: ecmp-collisions
claim: "a claim: with a colon"
source: a talk
topology: toy.topo
fep: {cc: nscc, nscc: {gamma: 0.5}, ack: packet}
switch: {ecn: {kmin: 20%}}
workload: permutation --size 2MB --seed 1
links: ['leaf0-spine0 rate=25%']
seeds: [1, 2, 3]
vary:
  - {name: ecmp, fep: {lb: fixed}}
  - name: reps
    fep:
      lb: reps
      ack: coalesced
      reps.freeze: 100us
    switch: {ecn.kmin: 10%}
    links: leaf1-spine0 fail at=+30us
    flags: --ordered --op write
expect:
  - ecmp.max / ideal >= 2.5
  - reps.mean <= 0.97 * ecmp.mean
`)
	if e.Name != "ecmp-collisions" || e.Claim != "a claim: with a colon" || e.Source != "a talk" || e.Topology != "toy.topo" ||
		strings.Join(e.Workload, "|") != "permutation|--size|2MB|--seed|1" || !reflect.DeepEqual(e.Seeds, []uint64{1, 2, 3}) || len(e.Expect) != 2 {
		t.Errorf("%+v", e)
	}
	want := []Variant{
		{Name: "ecmp", FEP: map[string]string{"cc": "nscc", "nscc.gamma": "0.5", "ack": "packet", "lb": "fixed"}, Switch: map[string]string{"ecn.kmin": "20%"}, Links: []string{"leaf0-spine0 rate=25%"}},
		{Name: "reps", FEP: map[string]string{"cc": "nscc", "nscc.gamma": "0.5", "ack": "coalesced", "lb": "reps", "reps.freeze": "100us"},
			Switch: map[string]string{"ecn.kmin": "10%"}, Links: []string{"leaf0-spine0 rate=25%", "leaf1-spine0 fail at=+30us"}, Flags: []string{"--ordered", "--op", "write"}},
	}
	for i := range want {
		e.Variants[i].at.Line, e.Variants[i].at.Col = 0, 0
	}
	if !reflect.DeepEqual(e.Variants, want) {
		t.Errorf("got  %+v\nwant %+v", e.Variants, want)
	}
	if jobs := e.Jobs(true); len(jobs) != 6 || jobs[0].Seed != 1 || !jobs[0].Series || jobs[1].Series || jobs[3].Variant.Name != "reps" || !jobs[3].Series {
		t.Errorf("%+v", jobs)
	}
}

func TestProducts(t *testing.T) {
	for text, want := range map[string]string{
		"cc: [nscc, swift]\nlb: [reps, mp-8]\n": "nscc_reps:cc=nscc,lb=reps nscc_mp_8:cc=nscc,lb=mp-8 swift_reps:cc=swift,lb=reps swift_mp_8:cc=swift,lb=mp-8",
		"cc: nscc\nlb: [reps, oblivious]\n":     "reps:cc=nscc,lb=reps oblivious:cc=nscc,lb=oblivious",
		"cc: nscc+rccc\nlb: reps\n":             "nscc_rccc_reps:cc=nscc+rccc,lb=reps",
		"ack: [packet, coalesced]\n":            "packet:ack=packet coalesced:ack=coalesced",
	} {
		var got []string
		for _, v := range parse(t, head+text).Variants {
			got = append(got, v.Name+":"+strings.Join(Assign(v.FEP), ","))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: got %s", text, got)
		}
	}
}

func TestExperimentsThatAreRefused(t *testing.T) {
	const vary = "vary: [{name: a, fep: {lb: reps}}]\n"
	for text, want := range map[string]string{
		"":                                "x.yaml:1:1: file: empty",
		"a: [":                            "x.yaml:1:4: file: not YAML",
		"- 1":                             "x.yaml:1:1: file: not a mapping",
		"\xff":                            "x.yaml:1:1: file: not UTF-8",
		strings.Repeat("[", 40):           "x.yaml:1:1: file: nested too deeply",
		strings.Repeat("#\n", 6000):       "x.yaml:1:1: file: 6001 lines",
		head + vary + "---\nname: y\n":    "x.yaml:6:1: file: more than one document",
		head + vary + "expekt: [1]\n":     `x.yaml:5:1: expekt: not a key here; did you mean "expect"?`,
		head + vary + "name: y\n":         "x.yaml:5:1: name: given twice",
		head + "vary: []\n":               "x.yaml:4:1: vary: an empty list",
		head:                              "says nothing to compare",
		"topology: pair\n" + vary:         "file: says no name",
		"name: X Y\n":                     "x.yaml:1:7: name (X Y): not a name",
		head + "seeds: [1, x]\n" + vary:   "x.yaml:4:12: seeds (x): not a seed",
		head + "seeds: [1, 1]\n" + vary:   "x.yaml:4:12: seeds (1): given twice",
		head + vary + "cc: [nscc]\n":      "vary: beside a product",
		head + "vary:\n- {fep: {a: b}}\n": "variant: has no name",
		head + "vary:\n- {name: a}\n- {name: a}\n":                          "x.yaml:6:3: variant (a): there is one of that name",
		head + "lb: [mp-8, mp_8]\n":                                         "variant (mp_8): there is one of that name",
		head + "vary:\n- {name: a-b}\n":                                     "x.yaml:5:10: name (a-b): not a name of a variant",
		head + "vary:\n- {name: not}\n":                                     "means something else in expressions",
		head + "vary:\n- {name: ideal}\n":                                   "means something else in expressions",
		head + "vary:\n- {name: a, swich: {a: b}}\n":                        `x.yaml:5:13: swich: not a key here; did you mean "switch"?`,
		head + "vary:\n- {name: a, fep: {lb: }}\n":                          "lb: no value",
		head + "vary:\n- {name: a, fep: 3}\n":                               "fep (3): not a mapping",
		head + "vary:\n- {name: a, fep: {n: {a: 1}, n.a: 2}}":               "n.a: given twice",
		head + vary + "expect: a.maxx > 1\n":                                `x.yaml:5:9: expect (a.maxx > 1): a.maxx: not a statistic; did you mean "max"?`,
		head + vary + "expect:\n- ok.max > 1\n- a.max < b.max\n- a.max >\n": "x.yaml:7:3: expect (a.max < b.max): b: not a variant; valid are ideal, a",
	} {
		_, err := Parse("x.yaml", []byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80q: %v\nwant %s", text, err, want)
		}
	}
}

// TestOurExperiments reads what lies under labs.
func TestOurExperiments(t *testing.T) {
	files, err := filepath.Glob("../../labs/*.yaml")
	if err != nil || len(files) < 2 {
		t.Fatalf("%q, %v", files, err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		e, err := Parse(f, text)
		if err != nil {
			t.Error(err)
			continue
		}
		if e.Claim == "" || e.Source == "" || len(e.Expect) == 0 || e.Name+".yaml" != filepath.Base(f) {
			t.Errorf("%s: has no claim, no source, nothing to expect, or another name than its file", f)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(head + "vary: [{name: a, fep: {lb: reps}}]\nexpect: ['a.max > ideal']\n"))
	f.Add([]byte(head + "cc: [nscc, swift]\nlb: [reps, mp-8]\nseeds: 3\nlinks: x\nswitch: {ecn: {kmin: [1, 2]}}\n"))
	f.Add([]byte("vary: &a [*a]\n? {}\n: - - -\nexpect: max(a.b, {c: d})[1:2]\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		e, err := Parse("x", text)
		if (e == nil) == (err == nil) {
			t.Fatalf("%v, %v", e, err)
		}
		if err != nil {
			return
		}
		list := make([]Outcome, len(e.Variants))
		for i := range list {
			list[i].Variant = e.Variants[i]
		}
		for _, x := range e.Expect {
			x.check(list)
		}
		if n := len(e.Jobs(false)); n != len(e.Variants)*max(1, len(e.Seeds)) {
			t.Fatalf("%d jobs", n)
		}
	})
}
