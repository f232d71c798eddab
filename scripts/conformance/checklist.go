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
// tables with a column "id" and one "statement" or "requirement".
var checklists = []struct{ file, section string }{
	{"docs/spec/uet-link-switch.md", "15"},
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
	idCol, textCol := -1, -1
	for line := range bytes.Lines(page) {
		s := strings.TrimSpace(string(line))
		switch {
		case strings.HasPrefix(s, "# ") && l.Title == "":
			l.Title = s[2:]
		case strings.HasPrefix(s, "## "):
			inside = strings.HasPrefix(s, "## "+section+".")
		case !inside:
		case strings.HasPrefix(s, "### "):
			title, idCol = s[4:], -1
		case !strings.HasPrefix(s, "|"):
			idCol = -1
		case idCol < 0:
			idCol, textCol = columns(cells(s))
		default:
			if r, ok := row(cells(s), idCol, textCol); ok {
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

// columns finds the columns of id and text in the head of a table.
func columns(head []string) (id, text int) {
	id, text = -1, -1
	for i, h := range head {
		switch strings.ToLower(h) {
		case "id":
			id = i
		case "statement", "requirement":
			text = i
		}
	}
	return id, text
}

func row(c []string, id, text int) (r requirement, ok bool) {
	if text < 0 || max(id, text) >= len(c) {
		return r, false
	}
	m := idForm.FindStringSubmatch(c[id])
	if m == nil {
		return r, false
	}
	return requirement{Group: m[1], Number: m[2], ID: c[id], Statement: c[text]}, true
}
