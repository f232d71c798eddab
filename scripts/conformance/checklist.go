package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// checklists names the pages whose requirements are followed, and the section of each that lists them. A section holds
// tables with a column "id" and one "statement" or "requirement"; a column "wave" says which of them come first.
var checklists = []struct{ file, section string }{
	{"docs/spec/uet-link-switch.md", "15"},
	{"docs/spec/uet-pds-ses.md", "22"},
}

// checklist is what one page asks.
type checklist struct {
	File, Title, Section string
	Groups               []group
}

// group is one table of a checklist.
type group struct {
	Title string
	Reqs  []requirement
}

// requirement is one row.
type requirement struct {
	Group, Number string // TRIM, 01
	ID            string // TRIM-01
	Statement     string
	Wave          string // 1, the first, or 2; empty where the page has none
}

// waves says whether the checklist's requirements are in waves.
func (l *checklist) waves() bool {
	for _, g := range l.Groups {
		for _, r := range g.Reqs {
			if r.Wave != "" {
				return true
			}
		}
	}
	return false
}

// idForm is a group of capital letters, an optional dash, and digits.
var idForm = regexp.MustCompile(`^([A-Z]+)-?([0-9]+)$`)

func readChecklists(root string) (lists []checklist, err error) {
	seen := map[string]string{}
	for _, c := range checklists {
		b, err := os.ReadFile(filepath.Join(root, c.file))
		if err != nil {
			return nil, err
		}
		l, err := parseChecklist(b, c.section)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.file, err)
		}
		l.File = c.file
		for _, g := range l.Groups {
			for _, r := range g.Reqs {
				if other := seen[r.Group+r.Number]; other != "" {
					return nil, fmt.Errorf("%s: requirement %s is in %s already: tests could not tell them apart", c.file, r.ID, other)
				}
				seen[r.Group+r.Number] = c.file
			}
		}
		lists = append(lists, l)
	}
	return lists, nil
}

// parseChecklist reads the tables of a section.
func parseChecklist(page []byte, section string) (l checklist, err error) {
	l.Section = section
	inside := false
	title := ""
	var cols columns
	inTable := false
	for line := range bytes.Lines(page) {
		s := strings.TrimSpace(string(line))
		switch {
		case strings.HasPrefix(s, "# ") && l.Title == "":
			l.Title = s[2:]
		case strings.HasPrefix(s, "## "):
			inside = strings.HasPrefix(s, "## "+section+".")
		case !inside:
		case strings.HasPrefix(s, "### "):
			title, inTable = s[4:], false
		case !strings.HasPrefix(s, "|"):
			inTable = false
		case !inTable:
			cols, inTable = columnsOf(cells(s)), true
		default:
			if r, ok := cols.row(cells(s)); ok {
				if n := len(l.Groups); n == 0 || l.Groups[n-1].Title != title {
					l.Groups = append(l.Groups, group{Title: title})
				}
				g := &l.Groups[len(l.Groups)-1]
				g.Reqs = append(g.Reqs, r)
			}
		}
	}
	if len(l.Groups) == 0 {
		return l, fmt.Errorf("section %s has no requirements", section)
	}
	return l, nil
}

// cells splits a row of a table.
func cells(line string) (list []string) {
	for _, c := range strings.Split(strings.Trim(line, "|"), "|") {
		list = append(list, strings.TrimSpace(c))
	}
	return list
}

// columns are the places of what is read from a table's rows, -1 for none.
type columns struct{ id, text, wave int }

// columnsOf finds them in the head of a table.
func columnsOf(head []string) columns {
	c := columns{-1, -1, -1}
	for i, h := range head {
		switch strings.ToLower(h) {
		case "id":
			c.id = i
		case "statement", "requirement":
			c.text = i
		case "wave":
			c.wave = i
		}
	}
	return c
}

func (c columns) row(cells []string) (r requirement, ok bool) {
	if min(c.id, c.text) < 0 || max(c.id, c.text, c.wave) >= len(cells) {
		return r, false
	}
	m := idForm.FindStringSubmatch(cells[c.id])
	if m == nil {
		return r, false
	}
	r = requirement{Group: m[1], Number: m[2], ID: cells[c.id], Statement: cells[c.text]}
	if c.wave >= 0 {
		r.Wave = cells[c.wave]
	}
	return r, true
}
