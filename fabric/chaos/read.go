package chaos

import (
	"fmt"

	"github.com/goccy/go-yaml/ast"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/fabric/yamltree"
)

const example = "for example steps: [{at: +20us, link: leaf0-spine0, fail: true}]"

// place is a place in the file.
type place = yamltree.Place

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
	r.problems = append(r.problems, topology.Problem{File: r.file, Line: at.Line, Col: at.Col, Msg: what + why, Hint: hint})
}

// parse gives the root of the YAML tree, nil with a problem where there is none.
func (r *reader) parse(text []byte) (root ast.Node) {
	if bad := (yamltree.Limits{Bytes: maxFile, Lines: maxLines, Depth: maxDepth}).Check(text); bad != nil {
		r.problem(place{Line: bad.Line, Col: bad.Col}, "file", "", bad.Msg, "")
		return nil
	}
	docs, bad := yamltree.Parse(text)
	if bad != nil {
		r.problem(place{Line: bad.Line, Col: bad.Col}, "file", "", bad.Msg, "")
		return nil
	}
	for _, doc := range docs {
		if doc.Body == nil {
			continue
		}
		if root != nil {
			r.problem(yamltree.PlaceOf(doc.Body, place{Line: 1, Col: 1}), "file", "", "more than one document", "put each script into a file of its own")
			return nil
		}
		root = doc.Body
	}
	if root == nil {
		r.problem(place{Line: 1, Col: 1}, "file", "", "empty", example)
	}
	return root
}

// text expects a word.
func (r *reader) text(v value, example string) (string, bool) {
	s, ok := yamltree.Scalar(v.node)
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
		out = append(out, value{n, yamltree.PlaceOf(n, v.at), v.what})
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
		got, _ := yamltree.Scalar(v.node)
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
		at := yamltree.PlaceOf(p.Key, v.at)
		name, ok := p.Key.(*ast.StringNode)
		if !ok {
			r.problem(at, v.what, "", "a key that is not a word", "write it like "+example)
			continue
		}
		if line, twice := seen[name.Value]; twice {
			r.problem(at, name.Value, "", fmt.Sprintf("given twice, first in line %d", line), "keep one of them")
			continue
		}
		seen[name.Value] = at.Line
		e := entry{key: name.Value, at: at, val: value{p.Value, at, name.Value}}
		switch p.Value.(type) {
		case nil, *ast.NullNode, *ast.MappingNode, *ast.MappingValueNode, *ast.SequenceNode:
		default:
			e.val.at = yamltree.PlaceOf(p.Value, at)
		}
		out = append(out, e)
	}
	return out, true
}
