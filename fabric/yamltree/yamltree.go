// Package yamltree parses YAML that nobody vouches for, and says where and why it is none. What a file may hold, and how deep
// and long it may be, is for its reader, who looks before.
package yamltree

import (
	"errors"
	"fmt"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// Error says why a text is not YAML, and where, counted from 1.
type Error struct {
	Line, Col int
	Msg       string
}

// Parse gives the documents of a text. A key may stand twice in a mapping: the reader tells.
func Parse(text []byte) (docs []*ast.DocumentNode, bad *Error) {
	defer func() { // a parser's bug on odd input is a problem of the file, and must not take a daemon down
		if p := recover(); p != nil {
			docs, bad = nil, &Error{1, 1, fmt.Sprintf("not YAML (%v)", p)}
		}
	}()
	tree, err := parser.ParseBytes(text, 0, parser.AllowDuplicateMapKey())
	if err == nil {
		return tree.Docs, nil
	}
	bad = &Error{1, 1, "not YAML: " + err.Error()}
	var syntax yaml.Error
	if errors.As(err, &syntax) {
		bad.Msg = "not YAML: " + syntax.GetMessage()
		if t := syntax.GetToken(); t != nil && t.Position != nil {
			bad.Line, bad.Col = max(t.Position.Line, 1), max(t.Position.Column, 1)
		}
	}
	return nil, bad
}
