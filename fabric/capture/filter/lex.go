package filter

import (
	"fmt"
	"strconv"
	"strings"
)

type tokenKind uint8

const (
	tokEnd    tokenKind = iota
	tokWord             // keyword, name, address
	tokNumber           // integer
	tokOp               // operator or bracket; two-letter ones in their one spelling
)

type token struct {
	kind  tokenKind
	text  string
	col   int
	num   uint32
	match int  // opening parenthesis: index of the closing one
	plain bool // word that was escaped with a backslash: never a keyword
}

// spellings maps the operators that can be written in several ways.
var spellings = map[string]string{"&&": "and", "||": "or", "!": "not", "==": "="}

// lex cuts an expression into tokens; the last is tokEnd.
func lex(s string) ([]token, error) {
	l := &lexer{s: s}
	for l.pos < len(s) {
		if strings.IndexByte(" \t\r\n", s[l.pos]) >= 0 {
			l.pos++
			continue
		}
		if err := l.next(); err != nil {
			return nil, err
		}
	}
	if n := len(l.open); n > 0 {
		t := l.toks[l.open[n-1]]
		return nil, &Error{Column: t.col, What: fmt.Sprintf("%q is not closed", t.text)}
	}
	return append(l.toks, token{kind: tokEnd, col: len(s) + 1}), nil
}

type lexer struct {
	s       string
	pos     int
	toks    []token
	open    []int // indices of the brackets not closed yet
	bracket int   // how many of them are [
}

func (l *lexer) next() error {
	c := l.s[l.pos]
	if wordByte(c) || c == '\\' || c == ':' && l.bracket == 0 && strings.HasPrefix(l.s[l.pos:], "::") {
		return l.word()
	}
	n := 1
	if l.pos+1 < len(l.s) {
		switch l.s[l.pos : l.pos+2] {
		case "&&", "||", "==", "!=", "<=", ">=", "<<", ">>":
			n = 2
		}
	}
	text := l.s[l.pos : l.pos+n]
	if n == 1 && strings.IndexByte("()[]:!&|^+-*/%<>=", c) < 0 {
		return &Error{Column: l.pos + 1, What: fmt.Sprintf("unexpected character %q", c)}
	}
	t := token{kind: tokOp, text: text, col: l.pos + 1}
	if s, ok := spellings[text]; ok {
		t.text = s
	}
	l.pos += n
	return l.brackets(t)
}

// brackets pairs ( with ) and [ with ], and adds the token.
func (l *lexer) brackets(t token) error {
	switch t.text {
	case "(", "[":
		if len(l.open) >= maxDepth {
			return &Error{Column: t.col, What: fmt.Sprintf("more than %d brackets within each other", maxDepth)}
		}
		l.open = append(l.open, len(l.toks))
		if t.text == "[" {
			l.bracket++
		}
	case ")", "]":
		n := len(l.open) - 1
		if n < 0 || (l.toks[l.open[n]].text == "(") != (t.text == ")") {
			return &Error{Column: t.col, What: fmt.Sprintf("%q closes nothing", t.text)}
		}
		l.toks[l.open[n]].match = len(l.toks)
		l.open = l.open[:n]
		if t.text == "]" {
			l.bracket--
		}
	}
	l.toks = append(l.toks, t)
	return nil
}

func wordByte(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_'
}

// word takes a name, number or address. Colons, dots and dashes belong to addresses and names, but within [ ] they do
// so only in the named constants (tcp-syn), so that ip[6:2] and ip[len-4] read as they should.
func (l *lexer) word() error {
	start, t := l.pos, token{kind: tokWord, col: l.pos + 1}
	if l.s[l.pos] == '\\' {
		t.plain = true
		start++
		l.pos++
	}
	for l.pos < len(l.s) && (wordByte(l.s[l.pos]) || strings.IndexByte(":.-", l.s[l.pos]) >= 0) {
		l.pos++
	}
	t.text = l.s[start:l.pos]
	cut := -1
	if _, known := constants[t.text]; !known {
		switch {
		case l.bracket > 0:
			cut = strings.IndexAny(t.text, ":.-")
		case strings.HasPrefix(t.text, "len-"):
			cut = len("len")
		}
	}
	if cut >= 0 {
		l.pos = start + cut
		t.text = t.text[:cut]
	}
	if t.text == "" {
		return &Error{Column: t.col, What: "a backslash must stand before a name"}
	}
	if !t.plain && numeric(t.text) && len(t.text) != 12 { // twelve digits are a MAC address
		n, err := strconv.ParseUint(t.text, 0, 32)
		if err != nil {
			return &Error{Column: t.col, What: fmt.Sprintf("%s is not a number of 32 bits", t.text)}
		}
		t.kind, t.num = tokNumber, uint32(n)
	}
	l.toks = append(l.toks, t)
	return nil
}

// numeric reports whether s is written as a number: digits, or 0x and hexadecimal digits.
func numeric(s string) bool {
	digits := "0123456789"
	if len(s) > 2 && (s[:2] == "0x" || s[:2] == "0X") {
		s, digits = s[2:], "0123456789abcdefABCDEF"
	}
	return strings.Trim(s, digits) == ""
}
