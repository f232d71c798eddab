package chaos

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/fabric/yamltree"
)

const example = "for example steps: [{at: +20us, link: leaf0-spine0, fail: true}]"

// place is a place in the file, counted from 1.
type place struct{ line, col int }

// value is a YAML node, where to point when it is wrong, and what to call it.
type value struct {
	node ast.Node
	at   place
	what string
}

// entry is a key of a mapping and its value.
type entry struct {
	key string
	at  place
	val value
}

// reader walks the YAML tree of one script and collects problems.
type reader struct {
	file     string
	plan     *topology.Plan
	problems topology.Problems
	out      Script
}

func (r *reader) problem(at place, what, got, why, hint string) {
	if got != "" {
		const most = 60
		if c := []rune(got); len(c) > most {
			got = string(c[:most]) + "…"
		}
		what += " (" + got + ")"
	}
	if what != "" {
		what += ": "
	}
	r.problems = append(r.problems, topology.Problem{File: r.file, Line: at.line, Col: at.col, Msg: what + why, Hint: hint})
}

// parse gives the root of the YAML tree, nil with a problem where there is none.
func (r *reader) parse(text []byte) (root ast.Node) {
	if at, why := unreadable(text); why != "" {
		r.problem(at, "file", "", why, "")
		return nil
	}
	docs, bad := yamltree.Parse(text)
	if bad != nil {
		r.problem(place{bad.Line, bad.Col}, "file", "", bad.Msg, "")
		return nil
	}
	for _, doc := range docs {
		if doc.Body == nil {
			continue
		}
		if root != nil {
			r.problem(placeOf(doc.Body, place{1, 1}), "file", "", "more than one document", "put each script into a file of its own")
			return nil
		}
		root = doc.Body
	}
	if root == nil {
		r.problem(place{1, 1}, "file", "", "empty", example)
	}
	return root
}

// unreadable looks for what must not reach the YAML parser, whose stack grows with the depth of a file.
func unreadable(text []byte) (place, string) {
	if len(text) > maxFile {
		return place{1, 1}, fmt.Sprintf("%d bytes, at most %d are read", len(text), maxFile)
	}
	lines := bytes.Split(text, []byte{'\n'})
	if len(lines) > maxLines {
		return place{1, 1}, fmt.Sprintf("%d lines, at most %d are read", len(lines), maxLines)
	}
	brackets := 0
	for i, line := range lines {
		if !utf8.Valid(line) {
			return place{i + 1, 1}, "not UTF-8 text"
		}
		nested := 0
		for _, c := range line {
			switch c {
			case '[', '{':
				brackets++
			case ']', '}':
				brackets = max(brackets-1, 0)
			case '-', '?', '!', '&', '*':
				nested++
			case ':', ',':
				if brackets == 0 {
					nested++
				}
			}
		}
		if brackets > maxDepth || nested > 20*maxDepth {
			return place{i + 1, 1}, "nested too deeply, or too much in one line"
		}
	}
	return place{}, ""
}

// placeOf gives the place of a node: a block mapping's first key, else its first character.
func placeOf(n ast.Node, otherwise place) place {
	if m, ok := n.(*ast.MappingNode); ok && len(m.Values) > 0 && !m.IsFlowStyle {
		n = m.Values[0].Key
	}
	if m, ok := n.(*ast.MappingValueNode); ok {
		n = m.Key
	}
	if n == nil || n.GetToken() == nil || n.GetToken().Position == nil {
		return otherwise
	}
	p := n.GetToken().Position
	return place{max(p.Line, 1), max(p.Column, 1)}
}

// scalar gives the characters of a string, number or bool.
func scalar(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		if n.Value != nil {
			return n.Value.Value, true
		}
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, true
	}
	return "", false
}

// text expects a word.
func (r *reader) text(v value, example string) (string, bool) {
	s, ok := scalar(v.node)
	if !ok || s == "" {
		r.problem(v.at, v.what, "", "not a word", "write it like "+example)
		return "", false
	}
	return s, true
}

// list expects a list, or takes one word for a list of one.
func (r *reader) list(v value, example string) []value {
	seq, ok := v.node.(*ast.SequenceNode)
	if !ok {
		return []value{v}
	}
	var out []value
	for _, n := range seq.Values {
		out = append(out, value{n, placeOf(n, v.at), v.what})
	}
	if len(out) == 0 {
		r.problem(v.at, v.what, "", "an empty list", "write it like "+example)
	}
	return out
}

// mapping expects a mapping and takes duplicate keys out of it.
func (r *reader) mapping(v value, example string) ([]entry, bool) {
	var pairs []*ast.MappingValueNode
	switch n := v.node.(type) {
	case *ast.MappingNode:
		pairs = n.Values
	case *ast.MappingValueNode:
		pairs = []*ast.MappingValueNode{n}
	default:
		got, _ := scalar(v.node)
		what := v.what
		if what == "" {
			what = "file"
		}
		r.problem(v.at, what, got, "not a mapping of keys to values", "write it like "+example)
		return nil, false
	}
	var out []entry
	seen := map[string]int{}
	for _, p := range pairs {
		at := placeOf(p.Key, v.at)
		name, ok := p.Key.(*ast.StringNode)
		if !ok {
			r.problem(at, v.what, "", "a key that is not a word", "write it like "+example)
			continue
		}
		if line, twice := seen[name.Value]; twice {
			r.problem(at, name.Value, "", fmt.Sprintf("given twice, first in line %d", line), "keep one of them")
			continue
		}
		seen[name.Value] = at.line
		e := entry{key: name.Value, at: at, val: value{p.Value, at, name.Value}}
		switch p.Value.(type) {
		case nil, *ast.NullNode, *ast.MappingNode, *ast.MappingValueNode, *ast.SequenceNode:
		default:
			e.val.at = placeOf(p.Value, at)
		}
		out = append(out, e)
	}
	return out, true
}
