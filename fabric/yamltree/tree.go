package yamltree

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
)

// Place is a place in a text, counted from 1.
type Place struct{ Line, Col int }

// Limits of what a reader takes. Depth counts brackets that are open at once.
type Limits struct{ Bytes, Lines, Depth int }

// Check looks for what must not reach the YAML parser, whose stack grows with the depth of a text. Nil: it may.
func (l Limits) Check(text []byte) *Error {
	if len(text) > l.Bytes {
		return &Error{1, 1, fmt.Sprintf("%d bytes, at most %d are read", len(text), l.Bytes)}
	}
	lines := bytes.Split(text, []byte{'\n'})
	if len(lines) > l.Lines {
		return &Error{1, 1, fmt.Sprintf("%d lines, at most %d are read", len(lines), l.Lines)}
	}
	brackets := 0
	for i, line := range lines {
		if !utf8.Valid(line) {
			return &Error{i + 1, 1, "not UTF-8 text"}
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
		if brackets > l.Depth || nested > 20*l.Depth {
			return &Error{i + 1, 1, "nested too deeply, or too much in one line"}
		}
	}
	return nil
}

// PlaceOf gives the place of a node: a block mapping's first key, else its first character; otherwise where it has none.
func PlaceOf(n ast.Node, otherwise Place) Place {
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
	return Place{max(p.Line, 1), max(p.Column, 1)}
}

// Scalar gives the characters of a string, number or bool.
func Scalar(n ast.Node) (string, bool) {
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
