package filter

import (
	"fmt"
)

// layer says how a protocol is found: what its name alone means, and where its bytes begin.
type layer uint8

const (
	layerLink  layer = iota // the Ethernet header
	layerEther              // what the EtherType announces
	layerIP                 // over IPv4
	layerIP6                // over IPv6
	layerBoth               // over IPv4 or IPv6; accessors mean IPv4, as in libpcap
)

type protocol struct {
	layer layer
	num   uint32
}

// protocols are the names that can qualify a primitive, stand alone or have bytes taken from them.
var protocols = map[string]protocol{
	"ether": {layer: layerLink}, "link": {layer: layerLink},
	"ip": {layerEther, etherIP}, "ip6": {layerEther, etherIP6},
	"arp": {layerEther, etherARP}, "rarp": {layerEther, etherRARP},
	"tcp": {layerBoth, ipTCP}, "udp": {layerBoth, ipUDP}, "sctp": {layerBoth, ipSCTP},
	"ah": {layerBoth, 51}, "esp": {layerBoth, 50}, "pim": {layerBoth, 103},
	"icmp": {layerIP, 1}, "igmp": {layerIP, 2}, "igrp": {layerIP, 9}, "vrrp": {layerIP, 112}, "carp": {layerIP, 112},
	"icmp6": {layerIP6, ipICMP6},
}

// direction tells which of the two addresses or ports is meant.
type direction uint8

const (
	dirEither direction = iota // src or dst, also when nothing is said
	dirSrc
	dirDst
	dirBoth // src and dst
)

// qual is what stands before an identifier: tcp dst port. Later identifiers of a list inherit it.
type qual struct {
	proto string // "" if not said
	dir   direction
	kind  string // host, net, port, portrange or proto
	col   int
}

// parser is a recursive descent over the tokens. Where libpcap's grammar and state matter it does the same: and binds no
// tighter than or, and a vlan shifts the offsets of all that is written after it.
type parser struct {
	toks  []token
	pos   int
	opts  Options
	q     *qual  // qualifiers of the last primitive, nil if it had none
	vlans uint32 // bytes of VLAN tags passed so far
	depth int
}

func newParser(expr string, opts Options) (*parser, error) {
	if len(expr) > maxExpr {
		return nil, &Error{Column: maxExpr, What: fmt.Sprintf("the expression has more than %d bytes", maxExpr)}
	}
	toks, err := lex(expr)
	if err != nil {
		return nil, err
	}
	return &parser{toks: toks, opts: opts}, nil
}

func (p *parser) peek() token { return p.toks[p.pos] }

// ahead looks n tokens further, at most to the end.
func (p *parser) ahead(n int) token { return p.toks[min(p.pos+n, len(p.toks)-1)] }

func (p *parser) take() token {
	t := p.toks[p.pos]
	if t.kind != tokEnd {
		p.pos++
	}
	return t
}

// is reports whether the token is this keyword or operator.
func (t token) is(text string) bool {
	return (t.kind == tokOp || t.kind == tokWord && !t.plain) && t.text == text
}

func (t token) junction() bool { return t.is("and") || t.is("or") }

func (t token) String() string {
	if t.kind == tokEnd {
		return "the end"
	}
	return fmt.Sprintf("%q", t.text)
}

func (p *parser) accept(text string) bool {
	if p.peek().is(text) {
		p.pos++
		return true
	}
	return false
}

func (p *parser) expect(text string) error {
	if t := p.peek(); !p.accept(text) {
		return &Error{Column: t.col, What: fmt.Sprintf("expected %q before %v", text, t)}
	}
	return nil
}

// enter guards the recursion; leave undoes it.
func (p *parser) enter() error {
	if p.depth++; p.depth > 2*maxDepth {
		return &Error{Column: p.peek().col, What: "the expression is nested too deeply"}
	}
	return nil
}

func (p *parser) leave() { p.depth-- }

func (p *parser) parse() (*node, error) {
	if p.peek().kind == tokEnd {
		return truth(true), nil
	}
	n, err := p.expr()
	if err != nil {
		return nil, err
	}
	if t := p.peek(); t.kind != tokEnd {
		return nil, p.unexpected(t)
	}
	return n, nil
}

// unexpected explains a token that cannot follow a complete term.
func (p *parser) unexpected(t token) error {
	e := &Error{Column: t.col, What: fmt.Sprintf("unexpected %v", t), Hint: `join terms with "and" or "or"`}
	if t.kind == tokWord && !keyword(t.text) {
		if k := nearest(t.text, vocabulary()); k != "" {
			e.Hint = fmt.Sprintf("did you mean %q?", k)
		}
	}
	return e
}

func (p *parser) expr() (*node, error) {
	n, err := p.term()
	for err == nil && p.peek().junction() {
		isAnd := p.take().text == "and"
		var m *node
		if m, err = p.term(); isAnd {
			n = and(n, m)
		} else {
			n = or(n, m)
		}
	}
	return n, err
}

// term is a primitive, an identifier that takes the qualifiers of the last primitive, or one of these negated or in
// parentheses.
func (p *parser) term() (*node, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	t := p.peek()
	switch {
	case t.is("not"):
		p.take()
		n, err := p.term()
		return not(n), err
	case t.is("(") && !operator(p.toks[t.match+1]):
		p.take()
		n, err := p.expr()
		if err != nil {
			return nil, err
		}
		return n, p.expect(")")
	case p.arithmetic(t):
		p.q = nil
		return p.relation()
	case t.kind == tokWord && (keyword(t.text) && !t.plain):
		return p.primitive()
	case t.kind == tokNumber || t.kind == tokWord:
		return p.inherit(t)
	case t.kind == tokEnd:
		return nil, &Error{Column: t.col, What: "the expression ends where a term should stand"}
	}
	return nil, &Error{Column: t.col, What: fmt.Sprintf("unexpected %v where a term should stand", t)}
}

// arithmetic reports whether a relation begins here.
func (p *parser) arithmetic(t token) bool {
	next := p.ahead(1)
	_, isProto := protocols[t.text]
	_, isConst := constants[t.text]
	switch {
	case t.is("("), t.is("-"), t.is("len"):
		return true // term has looked behind the closing parenthesis
	case t.kind == tokNumber:
		return operator(next)
	case t.kind == tokWord && !t.plain:
		return isProto && next.is("[") || isConst && operator(next)
	}
	return false
}

// operator reports whether the token joins two numbers.
func operator(t token) bool {
	if t.kind != tokOp {
		return false
	}
	_, binary := precedence[t.text]
	_, relational := relations[t.text]
	return binary || relational
}

// inherit reads an identifier without qualifiers of its own.
func (p *parser) inherit(t token) (*node, error) {
	if p.q == nil {
		e := &Error{Column: t.col, What: fmt.Sprintf("%v is no word of the filter language", t),
			Hint: `say what it is: "host", "net" or "port"`}
		if t.kind == tokWord {
			if k := nearest(t.text, vocabulary()); k != "" {
				e.Hint = fmt.Sprintf("did you mean %q?", k)
			}
		}
		return nil, e
	}
	return p.atom(*p.q)
}

// primitive reads a term that begins with a keyword.
func (p *parser) primitive() (*node, error) {
	t := p.take()
	p.q = nil
	if hint, ok := unsupported[t.text]; ok {
		return nil, &Error{Column: t.col, What: fmt.Sprintf("%q is not supported", t.text), Hint: hint}
	}
	switch t.text {
	case "less", "greater":
		return p.lengthTest(t)
	case "vlan":
		return p.vlan()
	case "uet":
		q := qual{proto: "udp", dir: dirDst, kind: "port", col: t.col}
		return p.portNode(q, uetPort, uetPort)
	case "broadcast", "multicast":
		return p.castNode("ether", t)
	}
	q := qual{col: t.col}
	if _, ok := protocols[t.text]; ok {
		q.proto = t.text
		next := p.peek()
		switch {
		case next.is("broadcast"), next.is("multicast"):
			return p.castNode(t.text, p.take())
		case !p.headword(next):
			return p.protoName(t)
		}
		t = p.take()
	}
	return p.head(q, t)
}

// headword reports whether a token goes on with a head that a protocol began.
func (p *parser) headword(t token) bool {
	switch t.text {
	case "src", "dst", "host", "net", "port", "portrange", "proto", "protochain", "gateway":
		return t.kind == tokWord && !t.plain
	}
	return false
}

// head reads direction and kind, then the identifiers: tcp [src or dst] [port] 80. t is the first word after the
// protocol.
func (p *parser) head(q qual, t token) (*node, error) {
	if t.is("src") || t.is("dst") {
		q.dir = dirSrc
		if t.text == "dst" {
			q.dir = dirDst
		}
		if j, o := p.peek(), p.ahead(1); j.junction() && (o.is("src") || o.is("dst")) && o.text != t.text {
			p.take()
			p.take()
			q.dir = dirEither
			if j.text == "and" {
				q.dir = dirBoth
			}
		}
		if t = p.peek(); !p.headword(t) {
			q.kind = "host" // src 10.0.0.1
			return p.ids(q)
		}
		p.take()
	}
	if hint, ok := unsupported[t.text]; ok {
		return nil, &Error{Column: t.col, What: fmt.Sprintf("%q is not supported", t.text), Hint: hint}
	}
	if !p.headword(t) || t.text == "src" || t.text == "dst" {
		return nil, &Error{Column: t.col, What: fmt.Sprintf("unexpected %v", t)}
	}
	if t.text == "proto" && q.dir != dirEither {
		return nil, &Error{Column: t.col, What: "a protocol has no direction", Hint: `leave "src" or "dst" out`}
	}
	q.kind = t.text
	return p.ids(q)
}

// ids reads what follows a head: one identifier, negated perhaps, or a list of them in parentheses.
func (p *parser) ids(q qual) (*node, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	p.q = &q
	t := p.peek()
	switch {
	case t.is("not"):
		p.take()
		n, err := p.ids(q)
		return not(n), err
	case t.is("("):
		p.take()
		n, err := p.expr()
		if err != nil {
			return nil, err
		}
		p.q = &q
		return n, p.expect(")")
	}
	return p.atom(q)
}
