package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// page is the table of all requirements.
type page struct {
	lists []checklist
	byReq map[string]*entry
}

// entry is a requirement with its tests and how they ended.
type entry struct {
	requirement
	tests  []test
	ended  []result
	veth   []result // the same tests with their frames through veth pairs; empty for a test that did not run so
	reason string   // why there is no test, or what its tests leave out
}

// Verdicts on a requirement.
const (
	verdictPass   = "pass"
	verdictPart   = "pass in part"
	verdictFail   = "fail"
	verdictNot    = "not yet"
	verdictNotRun = "not run" // there are tests, but none of them ran to its end
)

// makePage joins requirements, tests and results. Each requirement has a test, or a reason for which it has none.
func makePage(lists []checklist, tests []test, ended map[string]result) (*page, error) {
	p := &page{lists: lists, byReq: map[string]*entry{}}
	ids := map[string]bool{}
	for _, l := range lists {
		for _, g := range l.Groups {
			for _, r := range g.Reqs {
				p.byReq[r.Group+r.Number] = &entry{requirement: r, reason: reasons[r.ID]}
				ids[r.ID], ids[r.Group] = true, true
			}
		}
	}
	for _, t := range tests {
		e := p.byReq[t.Req]
		e.tests = append(e.tests, t)
		res, ran := ended[t.String()]
		if !ran {
			res = resultNone
		}
		e.ended, e.veth = append(e.ended, res), append(e.veth, ended[t.String()+vethRun])
	}
	for _, e := range p.rows() {
		if len(e.tests) > 0 {
			continue
		}
		if e.reason == "" {
			e.reason = reasons[e.Group]
		}
		if e.reason == "" {
			return nil, fmt.Errorf("%s has no test whose name begins with Test%s%s, and reasons.go does not say why", e.ID, e.Group, e.Number)
		}
	}
	for id := range reasons {
		if !ids[id] {
			return nil, fmt.Errorf("reasons.go: no checklist has %s", id)
		}
	}
	return p, nil
}

// rows are all requirements in the order of the checklists.
func (p *page) rows() (list []*entry) {
	for _, l := range p.lists {
		for _, g := range l.Groups {
			list = append(list, p.of(g)...)
		}
	}
	return list
}

func (p *page) of(g group) (list []*entry) {
	for _, r := range g.Reqs {
		list = append(list, p.byReq[r.Group+r.Number])
	}
	return list
}

func (e *entry) verdict() string {
	switch {
	case len(e.tests) == 0:
		return verdictNot
	case slices.Contains(e.ended, resultFail), slices.Contains(e.veth, resultFail):
		return verdictFail
	case !slices.Contains(e.ended, resultPass):
		return verdictNotRun
	case e.reason != "":
		return verdictPart
	}
	return verdictPass
}

// cell is the verdict with its reason.
func (e *entry) cell() string {
	switch v := e.verdict(); v {
	case verdictNot, verdictPart:
		return v + ": " + e.reason
	case verdictFail:
		return "**fail**"
	default:
		return v
	}
}

// where lists on what the tests ran that came to an end.
func (e *entry) where() string {
	var list []string
	for _, w := range []string{"unit", "simulator", "real labs"} {
		for i, t := range e.tests {
			if t.where() == w && (e.ended[i] == resultPass || e.ended[i] == resultFail) {
				list = append(list, w)
				break
			}
		}
	}
	if slices.Contains(e.veth, resultPass) || slices.Contains(e.veth, resultFail) {
		list = append(list, "veth")
	}
	return strings.Join(list, ", ")
}

// links names the tests; what is not in the verdict stands beside the name.
func (e *entry) links() string {
	var list []string
	for i, t := range e.tests {
		s := fmt.Sprintf("[%s](../%s)", t, t.File)
		if e.ended[i] != resultPass {
			s += " (" + string(e.ended[i]) + ")"
		}
		if v := e.veth[i]; v != "" {
			s += vethRun
			if v != resultPass {
				s += " (" + string(v) + ")"
			}
		}
		list = append(list, s)
	}
	return strings.Join(list, "<br>")
}

const pageHead = `# Conformance

For every requirement in the checklists of the [specification pages](spec/): which tests show it and how they ended. This page is made by
` + "`make conformance`" + `, which runs exactly these tests; a change by hand is undone by the next run, and a test of the tree notices when
requirements, statements or tests here are not those of the tree.

A test belongs to the requirement with which its name begins: ` + "`TestTRIM01_TrimmedToSize`" + ` is for TRIM-01. *Unit* tests drive one switch, port or
codec frame by frame. *Simulator* tests run whole fabrics with end points. *Real labs* are namespaces joined by veth pairs, with packets through the
kernel. All times are virtual in each of them. Run one with ` + "`go test -v -run TestTRIM01 ./switchd`" + `.

Tests marked *veth* ran a second time with every frame through the kernel, damaged ones and ordered sets too. Each end point has a veth pair with the stub
that faces it, or a scripted link, on the far end; the two ports or LLDP agents of a test of the link layer are at the two ends of one. What is read there, link
trailer included, is what the test goes on with; when it arrives, its due time says. Run one so with ` + "`sudo UETLAB_TEST_VETH=1 go test -v -run TestB01 ./fep`" + `.

`

// markdown is the page.
func (p *page) markdown() []byte {
	var b bytes.Buffer
	b.WriteString(pageHead)
	p.summary(&b)
	for _, l := range p.lists {
		fmt.Fprintf(&b, "\n## [%s](%s), section %s\n", l.Title, strings.TrimPrefix(l.File, "docs/"), l.Section)
		waves := l.waves()
		if waves {
			b.WriteString("\n" + p.waves(l))
		}
		for _, g := range l.Groups {
			head := []string{"Id", "Requirement", "Tests", "Where", "Result"}
			if waves {
				head = slices.Insert(head, 1, "Wave")
			}
			fmt.Fprintf(&b, "\n### %s\n\n| %s |\n|%s\n", g.Title, strings.Join(head, " | "), strings.Repeat("---|", len(head)))
			for _, e := range p.of(g) {
				row := []string{e.ID, e.Statement, e.links(), e.where(), e.cell()}
				if waves {
					row = slices.Insert(row, 1, e.Wave)
				}
				fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
			}
		}
	}
	return b.Bytes()
}

// waves says of each wave of a checklist how many requirements pass.
func (p *page) waves(l checklist) string {
	var order []string
	all, pass := map[string]int{}, map[string]int{}
	for _, g := range l.Groups {
		for _, e := range p.of(g) {
			if e.Wave == "" {
				continue
			}
			if all[e.Wave] == 0 {
				order = append(order, e.Wave)
			}
			all[e.Wave]++
			if e.verdict() == verdictPass {
				pass[e.Wave]++
			}
		}
	}
	slices.Sort(order)
	var parts []string
	for _, w := range order {
		parts = append(parts, fmt.Sprintf("wave %s, %d of %d", w, pass[w], all[w]))
	}
	return "The waves say what is built first. Requirements that pass: " + strings.Join(parts, "; ") + ".\n"
}

// summary counts the verdicts by group of ids.
func (p *page) summary(b *bytes.Buffer) {
	verdicts := []string{verdictPass, verdictPart, verdictFail, verdictNotRun, verdictNot}
	var order []string
	count := map[[2]string]int{}
	for _, e := range p.rows() {
		if !slices.Contains(order, e.Group) {
			order = append(order, e.Group)
		}
		for _, g := range []string{e.Group, "all"} {
			count[[2]string{g, e.verdict()}]++
			count[[2]string{g, ""}]++
		}
	}
	fmt.Fprintf(b, "| Group | Requirements | %s |\n|---|%s\n", strings.Join(verdicts, " | "), strings.Repeat("---|", 1+len(verdicts)))
	for _, g := range append(order, "all") {
		fmt.Fprintf(b, "| %s | %d |", g, count[[2]string{g, ""}])
		for _, v := range verdicts {
			fmt.Fprintf(b, " %s |", number(count[[2]string{g, v}]))
		}
		b.WriteString("\n")
	}
}

// number is a count, of which none needs no ink.
func number(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}
