package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const root = "../.."

// TestPageIsCurrent compares the page with checklists and tests of the tree. How tests ended it takes from the page.
func TestPageIsCurrent(t *testing.T) {
	written, err := os.ReadFile(filepath.Join(root, pageFile))
	if err != nil {
		t.Fatal(err)
	}
	lists, err := readChecklists(root)
	if err != nil {
		t.Fatal(err)
	}
	tests, err := findTests(root, lists)
	if err != nil {
		t.Fatal(err)
	}
	if len(tests) == 0 {
		t.Fatal("no tests of requirements in the tree")
	}
	for _, name := range gone(written, tests) {
		t.Errorf("%s shows %s, which is not in the tree", pageFile, name)
	}
	p, err := makePage(lists, tests, resultsIn(written))
	if err != nil {
		t.Fatal(err)
	}
	if want := p.markdown(); !bytes.Equal(written, want) {
		t.Errorf("%s is not what the tree gives (make conformance writes it): %s", pageFile, difference(written, want))
	}
}

// difference shows the first line in which two texts differ.
func difference(got, want []byte) string {
	g, w := strings.Split(string(got), "\n"), strings.Split(string(want), "\n")
	for i := range max(len(g), len(w)) {
		a, b := "", ""
		if i < len(g) {
			a = g[i]
		}
		if i < len(w) {
			b = w[i]
		}
		if a != b {
			return "\n got " + a + "\nwant " + b
		}
	}
	return "nothing"
}

const sample = `# A page
## 1. Else
| id | statement |
|---|---|
| NO-01 | not of the section |
## 2. Testable requirements
### First
| ID | Wave | Requirement | Test |
|---|---|---|---|
| A01 | 1 | it goes | look |
| A02 | 2 | it stays | look |

Text | with a bar.
### Second, more
| id | statement | test |
|---|---|---|
| LONG-07 | never | wait |
| no id | at all | |
## 20. Later
| id | statement |
|---|---|
| NO-02 | not of the section either |
`

func TestChecklistIsRead(t *testing.T) {
	l, err := parseChecklist([]byte(sample), "2")
	if err != nil {
		t.Fatal(err)
	}
	want := []group{{"First", []requirement{{"A", "01", "A01", "it goes", "1"}, {"A", "02", "A02", "it stays", "2"}}}, {"Second, more", []requirement{{"LONG", "07", "LONG-07", "never", ""}}}}
	if l.Title != "A page" || len(l.Groups) != 2 || l.Groups[0].Title != want[0].Title || l.Groups[1].Title != want[1].Title {
		t.Fatalf("read %+v", l)
	}
	for i, g := range want {
		for j, r := range g.Reqs {
			if l.Groups[i].Reqs[j] != r {
				t.Errorf("read %+v, not %+v", l.Groups[i].Reqs[j], r)
			}
		}
	}
	if _, err := parseChecklist([]byte(sample), "3"); err == nil {
		t.Error("a section that is not there has requirements")
	}
}

func TestWavesAreShown(t *testing.T) {
	l, err := parseChecklist([]byte(sample), "2")
	if err != nil {
		t.Fatal(err)
	}
	p := &page{lists: []checklist{l}, byReq: map[string]*entry{}}
	for _, g := range l.Groups {
		for _, r := range g.Reqs {
			p.byReq[r.Group+r.Number] = &entry{requirement: r, reason: "because"}
		}
	}
	p.byReq["A01"].reason, p.byReq["A01"].tests, p.byReq["A01"].ended = "", []test{{Dir: "fep", File: "fep/x_test.go", Name: "TestA01", Req: "A01"}}, []result{resultPass}
	p.byReq["A01"].veth = []result{resultPass}
	got := string(p.markdown())
	for _, want := range []string{"pass: wave 1, 1 of 1; wave 2, 0 of 1.", "| Id | Wave | Requirement |", "| A02 | 2 | it stays |"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

func TestNamesOfTests(t *testing.T) {
	for name, want := range map[string]string{"TestTRIM01": "TRIM01", "TestTRIM01_Words": "TRIM01", "TestECN01Words": "ECN01", "TestA01x": "A01",
		"TestTRIM011": "TRIM011", "TestCSIG": "", "TestCSIGSettings01": "", "TestTrim01": "", "BenchmarkTRIM01": ""} {
		got := ""
		if m := nameForm.FindStringSubmatch(name); m != nil {
			got = m[1]
		}
		if got != want {
			t.Errorf("%s is for %q, not %q", name, got, want)
		}
	}
}

func TestVerdicts(t *testing.T) {
	one := test{Dir: "switchd", File: "switchd/x_test.go", Name: "TestPFC02", Req: "PFC02"}
	real := test{Dir: "e2e", File: "e2e/x_test.go", Name: "TestPFC02", Req: "PFC02"}
	for _, c := range []struct {
		ended          []result
		veth           result // of the first
		reason         string
		verdict, where string
	}{
		{nil, "", "because", verdictNot, ""},
		{[]result{resultPass, resultPass}, "", "", verdictPass, "unit, real labs"},
		{[]result{resultPass, resultSkip}, "", "", verdictPass, "unit"},
		{[]result{resultPass, resultFail}, "", "because", verdictFail, "unit, real labs"},
		{[]result{resultPass, resultNone}, "", "because", verdictPart, "unit"},
		{[]result{resultSkip, resultNone}, "", "", verdictNotRun, ""},
		{[]result{resultPass, resultSkip}, resultPass, "", verdictPass, "unit, veth"},
		{[]result{resultPass, resultPass}, resultFail, "", verdictFail, "unit, real labs, veth"},
		{[]result{resultFail, resultPass}, resultPass, "", verdictFail, "unit, real labs, veth"},
		{[]result{resultPass, resultPass}, resultSkip, "", verdictPass, "unit, real labs"},
	} {
		e := entry{ended: c.ended, veth: []result{c.veth, ""}[:len(c.ended)], reason: c.reason, tests: []test{one, real}[:len(c.ended)]}
		if e.verdict() != c.verdict || e.where() != c.where {
			t.Errorf("%v is %q on %q, not %q on %q", c.ended, e.verdict(), e.where(), c.verdict, c.where)
		}
		got := resultsIn([]byte(e.links()))
		for i, r := range c.ended {
			if got[e.tests[i].String()] != r {
				t.Errorf("%q says that %s ended with %q, not %q", e.links(), e.tests[i], got[e.tests[i].String()], r)
			}
			if v := got[e.tests[i].String()+vethRun]; v != e.veth[i] {
				t.Errorf("%q says that %s ended with %q on veth, not %q", e.links(), e.tests[i], v, e.veth[i])
			}
		}
	}
	e := entry{tests: []test{one}, ended: []result{resultPass}, veth: []result{""}}
	if names := gone([]byte(e.links()), []test{real}); len(names) != 1 || names[0] != one.String() {
		t.Errorf("a removed test was not noticed: %v", names)
	}
	if names := gone([]byte(e.links()), []test{one}); len(names) != 0 {
		t.Errorf("%v are said to be gone", names)
	}
}

func TestResultsAreRead(t *testing.T) {
	const out = `{"Action":"start","Package":"github.com/uetlab/uetlab/switchd"}
{"Action":"run","Package":"github.com/uetlab/uetlab/switchd","Test":"TestTRIM01"}
{"Action":"fail","Package":"github.com/uetlab/uetlab/switchd","Test":"TestTRIM01/part"}
{"Action":"pass","Package":"github.com/uetlab/uetlab/switchd","Test":"TestTRIM01","Elapsed":0.1}
{"Action":"skip","Package":"github.com/uetlab/uetlab/e2e","Test":"TestTRIM01"}
{"Action":"pass","Package":"github.com/uetlab/uetlab/e2e"}
`
	got, err := readResults(strings.NewReader(out))
	if err != nil || len(got) != 2 || got["switchd.TestTRIM01"] != resultPass || got["e2e.TestTRIM01"] != resultSkip {
		t.Errorf("%v, %v", got, err)
	}
	const twice = `{"Action":"pass","Package":"github.com/uetlab/uetlab/fep","Test":"TestB01"}
{"Action":"fail","Package":"github.com/uetlab/uetlab/fep","Test":"TestB02"}
{"Action":"fail","Package":"github.com/uetlab/uetlab/fep"}
{"Action":"attr","Package":"github.com/uetlab/uetlab/fep","Test":"TestB01/part","Key":"link","Value":"veth"}
{"Action":"fail","Package":"github.com/uetlab/uetlab/fep","Test":"TestB01"}
{"Action":"pass","Package":"github.com/uetlab/uetlab/fep","Test":"TestB02"}
{"Action":"fail","Package":"github.com/uetlab/uetlab/fep"}
`
	got, err = readResults(strings.NewReader(twice))
	if err != nil || len(got) != 3 || got["fep.TestB01"] != resultPass || got["fep.TestB01"+vethRun] != resultFail || got["fep.TestB02"] != resultFail {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := readResults(strings.NewReader(twice + `{"Action":"fail","Package":"github.com/uetlab/uetlab/fep"}`)); err == nil {
		t.Error("a package that could not be built the second time was taken for tested")
	}
	if _, err := readResults(strings.NewReader(`{"Action":"fail","Package":"github.com/uetlab/uetlab/sim"}`)); err == nil {
		t.Error("a package that could not be built was taken for tested")
	}
	if _, err := readResults(strings.NewReader("FAIL")); err == nil {
		t.Error("text was taken for the output of go test -json")
	}
}
