package topology

import (
	"bytes"
	"fmt"
	"math/big"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/uetlab/uetlab/fabric/yamltree"
)

// Bounds on a file, above any that describes maxNodes; the YAML parser's stack grows with the depth of a file, and its
// time with the square of the lines and of the marks between values.
const (
	maxFile  = 512 << 10
	maxLines = 16_000
	maxMarks = 60_000 // colons, commas and quotes
	maxDepth = 64     // brackets open at once, or nesting indicators on one line outside of brackets
)

// decoder walks the YAML tree of one file along the tables of fields and collects problems.
type decoder struct {
	file         string
	problems     Problems
	where        map[any]position
	fabricBroken bool // the fabric section has a problem: names cannot be checked
	entryBroken  bool // an entry of nodes or links has one: the graph cannot be checked as a whole
}

// value is a YAML node, where to point when it is wrong, and what to call it.
type value struct {
	node ast.Node
	at   position
	what string
}

func (d *decoder) form(at position, what, value, why, hint string) {
	d.problems = append(d.problems, Problem{File: d.file, Line: at.Line, Col: at.Col, Msg: about(what, value) + ": " + why, Hint: hint})
}

// meaning reports what is well formed and still wrong, which no JSON schema could tell.
func (d *decoder) meaning(at position, what, value, why, hint string) {
	d.form(at, what, value, why, hint)
	d.problems[len(d.problems)-1].meaning = true
}

// decode reads a file as far as it can be read.
func decode(file string, data []byte) (*Spec, *decoder) {
	s := &Spec{File: file}
	d := &decoder{file: file, where: map[any]position{}}
	s.where = d.where
	root := d.parse(data)
	if len(d.problems) > 0 {
		d.fabricBroken = true
		return s, d
	}
	at := position{Line: 1, Col: 1}
	if root == nil {
		d.form(at, "file", "", "empty", "the shortest topology is: name: my-lab, fabric: {kind: pair}")
		d.fabricBroken = true
		return s, d
	}
	d.fabricBroken = d.object(value{root, at, ""}, s.fields()) == nil || d.fabricBroken
	return s, d
}

// parse gives the root of the YAML tree; nil when the file is empty.
func (d *decoder) parse(data []byte) (root ast.Node) {
	if at, why := unreadable(data); why != "" {
		d.form(at, "file", "", why, "")
		return nil
	}
	docs, bad := yamltree.Parse(data)
	if bad != nil {
		d.form(position{Line: bad.Line, Col: bad.Col}, "file", "", bad.Msg, "")
		return nil
	}
	for i, doc := range docs {
		if doc.Body == nil {
			continue
		}
		if root != nil {
			d.form(yamltree.PlaceOf(doc.Body, position{Line: 1, Col: 1}), "file", "", fmt.Sprintf("document %d of a file that has one topology", i+1), "put it into a file of its own")
			return nil
		}
		root = doc.Body
	}
	return root
}

// unreadable looks for what must not reach the YAML parser.
func unreadable(data []byte) (position, string) {
	if len(data) > maxFile {
		return position{Line: 1, Col: 1}, fmt.Sprintf("%d bytes, at most %d are read", len(data), maxFile)
	}
	if n := bytes.Count(data, []byte{'\n'}); n > maxLines {
		return position{Line: 1, Col: 1}, fmt.Sprintf("%d lines, at most %d are read", n, maxLines)
	}
	brackets, marks := 0, 0
	for i, line := range bytes.Split(data, []byte{'\n'}) {
		at := position{Line: i + 1, Col: 1}
		if !utf8.Valid(line) {
			return at, "not UTF-8 text"
		}
		nested := 0
		for _, c := range line {
			if c == ':' || c == ',' || c == '"' || c == '\'' {
				marks++
			}
			switch c {
			case '[', '{':
				brackets++
			case ']', '}':
				brackets = max(brackets-1, 0)
			case '-', '?', '!', '&', '*', ':':
				if brackets == 0 {
					nested++
				}
			}
			if brackets > maxDepth || nested > 4*maxDepth {
				return at, "nested too deeply"
			}
			if marks > maxMarks {
				return at, fmt.Sprintf("more than %d colons, commas and quotes", maxMarks)
			}
		}
	}
	return position{}, ""
}

// describe says what a node is, for a reader who expected something else.
func describe(n ast.Node) string {
	switch n.(type) {
	case nil, *ast.NullNode:
		return "nothing"
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return "a bare number"
	case *ast.BoolNode:
		return "true or false"
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode, *ast.TagNode:
		return "an anchor, alias or tag, which topology files do not use"
	}
	return "a string"
}

// raw gives the characters of a scalar.
func raw(n ast.Node) string {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value
	}
	return ""
}

// text expects a string.
func (d *decoder) text(v value, example string) (string, bool) {
	switch n := v.node.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		if n.Value != nil {
			return n.Value.Value, true
		}
	case *ast.IntegerNode, *ast.FloatNode:
		d.form(v.at, v.what, raw(n), "a bare number", "write it like "+example)
		return "", false
	}
	d.form(v.at, v.what, raw(v.node), describe(v.node)+", not a string", "write it like "+example)
	return "", false
}

// integer expects a whole number.
func (d *decoder) integer(v value) (*big.Int, bool) {
	switch n := v.node.(type) {
	case *ast.IntegerNode:
		switch i := n.Value.(type) {
		case int64:
			return big.NewInt(i), true
		case uint64:
			return new(big.Int).SetUint64(i), true
		}
	case *ast.FloatNode:
		if n.Value == float64(int64(n.Value)) {
			d.meaning(v.at, v.what, raw(n), "written as a fraction", fmt.Sprintf("write %d", int64(n.Value)))
			return nil, false
		}
	}
	d.form(v.at, v.what, raw(v.node), "not a whole number", "write digits only, e.g. 4")
	return nil, false
}

// quantity expects a number with a unit, within bounds.
func (d *decoder) quantity(v value, s string, m measure, word string, low, high int64) (int64, bool) {
	n, form, ok := m.parse(s)
	switch {
	case !form:
		hint := m.hint(s)
		if word != "" && nearest(s, []string{word}) != "" {
			hint = fmt.Sprintf("did you mean %q?", word)
		}
		d.form(v.at, v.what, s, "not "+m.noun, hint)
	case !ok:
		d.meaning(v.at, v.what, s, "not a whole number of "+m.units[0].name+", or far too large", "write it like "+m.example)
	case n < low || n > high:
		d.meaning(v.at, v.what, s, "out of range", fmt.Sprintf("from %s to %s", m.format(low), m.format(high)))
	default:
		return n, true
	}
	return 0, false
}

// list expects a list.
func (d *decoder) list(v value, example string) ([]value, bool) {
	seq, ok := v.node.(*ast.SequenceNode)
	if !ok {
		d.form(v.at, v.what, raw(v.node), describe(v.node)+", not a list", "write it like "+example)
		return nil, false
	}
	items := make([]value, len(seq.Values))
	for i, n := range seq.Values {
		n = rejoin(n)
		items[i] = value{n, yamltree.PlaceOf(n, v.at), fmt.Sprintf("%s[%d]", v.what, i)}
	}
	return items, true
}

// rejoin puts "leaf0:eth3" together again: in a list inside braces the parser takes it for a mapping, although YAML
// wants a space after the colon of one.
func rejoin(n ast.Node) ast.Node {
	m, ok := n.(*ast.MappingNode)
	if !ok || m.IsFlowStyle || len(m.Values) != 1 {
		return n
	}
	key, ok := m.Values[0].Key.(*ast.StringNode)
	if !ok || m.Values[0].Value == nil {
		return n
	}
	val := m.Values[0].Value.GetToken()
	if val == nil || key.Token.Type != token.StringType || val.Type == token.DoubleQuoteType || val.Type == token.SingleQuoteType ||
		val.Position.Line != key.Token.Position.Line || val.Position.Column != key.Token.Position.Column+utf8.RuneCountInString(key.Value)+1 {
		return n
	}
	switch m.Values[0].Value.(type) {
	case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return &ast.StringNode{Token: key.Token, Value: key.Value + ":" + val.Value}
	}
	return n
}

// entry is one key of a mapping.
type entry struct {
	key string
	at  position // of the key
	val value
}

// isMapping says whether a node is a mapping.
func isMapping(n ast.Node) bool {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return true
	}
	return false
}

// mapping expects a mapping whose keys are words and takes duplicate keys out of it.
func (d *decoder) mapping(v value) ([]entry, bool) { return d.mappingOf(v, false) }

// mappingOf expects a mapping whose keys are words, or numbers as well.
func (d *decoder) mappingOf(v value, numbers bool) ([]entry, bool) {
	var pairs []*ast.MappingValueNode
	switch n := v.node.(type) {
	case *ast.MappingNode:
		pairs = n.Values
	case *ast.MappingValueNode:
		pairs = []*ast.MappingValueNode{n}
	default:
		what := v.what
		if what == "" {
			what = "file"
		}
		d.form(v.at, what, raw(v.node), describe(v.node)+", not a mapping of keys to values", "write key: value lines, or {key: value}")
		return nil, false
	}
	first := map[string]position{}
	entries := make([]entry, 0, len(pairs))
	for _, p := range pairs {
		at := yamltree.PlaceOf(p.Key, v.at)
		key, ok := "", false
		switch n := p.Key.(type) {
		case *ast.StringNode:
			key, ok = n.Value, true
		case *ast.IntegerNode:
			key, ok = raw(n), numbers
		}
		if !ok {
			d.form(at, v.what+" key", raw(p.Key), describe(p.Key)+", not a key", "keys are words")
			continue
		}
		e := entry{key: key, at: at, val: value{p.Value, at, strings.TrimPrefix(v.what+"."+key, ".")}}
		switch p.Value.(type) {
		case nil, *ast.NullNode, *ast.MappingNode, *ast.MappingValueNode, *ast.SequenceNode:
		default:
			e.val.at = yamltree.PlaceOf(p.Value, at)
		}
		if before, twice := first[e.key]; twice {
			d.form(at, "key", e.val.what, fmt.Sprintf("given twice, first in line %d", before.Line), "keep one of them")
			continue
		}
		first[e.key] = at
		entries = append(entries, e)
	}
	return entries, true
}

// object decodes a mapping along its table. It returns the keys that were there, a misspelt one
// without its position; nil when v is no mapping.
func (d *decoder) object(v value, fields []field) map[string]position {
	entries, ok := d.mapping(v)
	if !ok {
		return nil
	}
	valid := make([]string, len(fields))
	for i, f := range fields {
		valid[i] = f.key
	}
	present := map[string]position{}
	for _, e := range entries {
		present[e.key] = e.at
		known := false
		for _, f := range fields {
			if f.key == e.key {
				known = true
				d.where[f.to.pointer()] = e.val.at
				f.to.decode(d, e.val)
			}
		}
		if !known {
			d.form(e.at, "key", e.val.what, "not a key of "+section(v.what), didYouMean(e.key, valid))
			delete(present, e.key)
			if near := nearest(e.key, valid); near != "" && present[near] == (position{}) {
				present[near] = position{} // misspelt, so not missing as well
			}
		}
	}
	for _, f := range fields {
		if _, there := present[f.key]; f.required && !there {
			d.form(v.at, section(v.what), "", f.key+" is missing", "add "+f.key)
		}
	}
	return present
}

func section(what string) string {
	if what == "" {
		return "the file"
	}
	return what
}
