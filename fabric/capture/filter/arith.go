package filter

import (
	"fmt"
	"slices"

	"golang.org/x/net/bpf"
)

// precedence ranks the binary operators: the larger binds tighter. % and ^ stand apart, see mixed.
var precedence = map[string]int{
	"|": 1, "^": 2, "&": 3, "<<": 4, ">>": 4, "+": 5, "-": 5, "*": 6, "/": 6, "%": 6,
}

var aluOps = map[string]bpf.ALUOp{
	"|": bpf.ALUOpOr, "^": bpf.ALUOpXor, "&": bpf.ALUOpAnd, "<<": bpf.ALUOpShiftLeft, ">>": bpf.ALUOpShiftRight,
	"+": bpf.ALUOpAdd, "-": bpf.ALUOpSub, "*": bpf.ALUOpMul, "/": bpf.ALUOpDiv, "%": bpf.ALUOpMod,
}

// relation is a comparison as BPF has it: one of three tests, perhaps turned round.
type relation struct {
	cond   bpf.JumpTest
	negate bool
	mirror string // the same with sides exchanged
}

var relations = map[string]relation{
	"=": {bpf.JumpEqual, false, "="}, "!=": {bpf.JumpEqual, true, "!="},
	">": {bpf.JumpGreaterThan, false, "<"}, "<=": {bpf.JumpGreaterThan, true, ">="},
	">=": {bpf.JumpGreaterOrEqual, false, "<="}, "<": {bpf.JumpGreaterOrEqual, true, ">"},
}

type valueKind uint8

const (
	valConst  valueKind = iota
	valLen              // length of the frame
	valFixed            // bytes at an offset from the start of the frame
	valIP4              // bytes at an offset from the end of the IPv4 header at base
	valBinary           // a op b
)

// value is an arithmetic expression over 32-bit unsigned numbers.
type value struct {
	kind  valueKind
	k     uint32 // constant
	op    string
	a, b  *value // operands; a alone is the offset of bytes
	base  uint32 // bytes: what the offset is counted from; valIP4: where the IPv4 header begins
	size  int    // bytes: 1, 2 or 4
	proto string // bytes: the protocol that the frame must have
}

// relation reads value, comparison, value.
func (p *parser) relation() (*node, error) {
	a, err := p.value(1)
	if err != nil {
		return nil, err
	}
	t := p.take()
	if _, ok := relations[t.text]; !ok || t.kind != tokOp {
		return nil, &Error{Column: t.col, What: fmt.Sprintf("expected a comparison before %v", t),
			Hint: `a number is not a condition; write "… != 0"`}
	}
	b, err := p.value(1)
	if err != nil {
		return nil, err
	}
	return p.compare(t, a, b)
}

func (p *parser) compare(t token, a, b *value) (*node, error) {
	op := t.text
	checks := p.checks(p.checks(nil, a), b)
	if a.kind == valConst && b.kind != valConst {
		a, b, op = b, a, relations[op].mirror
	}
	rel := relations[op]
	n := &node{cond: rel.cond}
	var err error
	switch {
	case a.kind == valConst:
		n = truth(rel.cond == bpf.JumpEqual && a.k == b.k || rel.cond == bpf.JumpGreaterThan && a.k > b.k ||
			rel.cond == bpf.JumpGreaterOrEqual && a.k >= b.k)
	case b.kind == valConst:
		n.val = b.k
		n.load, err = a.code(nil, 0)
	default:
		n.x = true
		n.load, err = pair(nil, a, b, 0)
	}
	if err != nil {
		return nil, &Error{Column: t.col, What: err.Error(), Hint: "simplify the expression"}
	}
	if rel.negate {
		n = not(n)
	}
	for _, c := range slices.Backward(checks) {
		n = and(c.node, n)
	}
	return n, nil
}

// check is a condition that an accessor brings with it.
type check struct {
	proto string
	node  *node
}

// checks adds the conditions of all accessors in v to those in list, each once.
func (p *parser) checks(list []check, v *value) []check {
	if v == nil {
		return list
	}
	list = p.checks(p.checks(list, v.a), v.b)
	if v.proto == "" || slices.ContainsFunc(list, func(c check) bool { return c.proto == v.proto }) {
		return list
	}
	if n := p.accessCheck(protocols[v.proto]); n != nil {
		list = append(list, check{v.proto, n})
	}
	return list
}

// value reads operators that bind at least as tight as rank.
func (p *parser) value(rank int) (*value, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	a, err := p.operand()
	if err != nil {
		return nil, err
	}
	last := ""
	for {
		t := p.peek()
		r, ok := precedence[t.text]
		if !ok || t.kind != tokOp || r < rank {
			return a, nil
		}
		p.take()
		if err := p.mixed(last, t); err != nil {
			return nil, err
		}
		b, err := p.value(r + 1)
		if err != nil {
			return nil, err
		}
		if err := p.mixed(t.text, p.peek()); err != nil {
			return nil, err
		}
		if a, err = compute(t, a, b); err != nil {
			return nil, err
		}
		last = t.text
	}
}

// mixed refuses what C and libpcap read differently: libpcap gives % and ^ no rank, so that len & 3 ^ 1 is
// len & (3 ^ 1) and len % 3 + 1 is len % (3 + 1).
func (p *parser) mixed(before string, t token) error {
	_, binary := precedence[t.text]
	if before == "" || !binary || t.kind != tokOp || before == t.text && t.text != "%" {
		return nil
	}
	for _, op := range []string{"%", "^"} {
		if before == op || t.text == op {
			return &Error{Column: t.col, What: fmt.Sprintf("%q and %q beside each other are read in different ways by "+
				"different programs", before, t.text), Hint: "put parentheses around what belongs together"}
		}
	}
	return nil
}

// operand is a number, len, bytes of a protocol, or one of these negated or in parentheses.
func (p *parser) operand() (*value, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	t := p.take()
	if t.kind == tokNumber {
		return &value{k: t.num}, nil
	}
	if c, ok := constants[t.text]; ok && t.kind == tokWord {
		return &value{k: c}, nil
	}
	if _, ok := protocols[t.text]; ok && t.kind == tokWord && p.peek().is("[") {
		return p.access(t)
	}
	switch {
	case t.is("len"):
		return &value{kind: valLen}, nil
	case t.is("-"):
		v, err := p.operand()
		if err != nil {
			return nil, err
		}
		return compute(token{text: "-", col: t.col}, &value{}, v)
	case t.is("("):
		v, err := p.value(1)
		if err != nil {
			return nil, err
		}
		return v, p.expect(")")
	}
	e := &Error{Column: t.col, What: fmt.Sprintf("%v is not a number", t)}
	if t.kind == tokWord {
		if k := nearest(t.text, append(words(constants), append(words(protocols), "len")...)); k != "" {
			e.Hint = fmt.Sprintf("did you mean %q?", k)
		}
	}
	return nil, e
}

// access reads [offset] or [offset:size] after a protocol.
func (p *parser) access(t token) (*value, error) {
	p.take()
	off, err := p.value(1)
	if err != nil {
		return nil, err
	}
	v := &value{kind: valFixed, a: off, size: 1, proto: t.text}
	if p.accept(":") {
		s := p.take()
		if s.kind != tokNumber || s.num != 1 && s.num != 2 && s.num != 4 {
			return nil, &Error{Column: s.col, What: fmt.Sprintf("%v bytes cannot be read at once", s), Hint: "sizes are 1, 2 and 4"}
		}
		v.size = int(s.num)
	}
	if err := p.expect("]"); err != nil {
		return nil, err
	}
	v.kind, v.base = p.accessBase(protocols[t.text])
	if off.kind == valConst && v.kind == valFixed && v.base+off.k > 1<<31-1 {
		return nil, &Error{Column: t.col, What: "the offset lies before the frame", Hint: "offsets count from the header's first byte"}
	}
	return v, nil
}

// compute joins two values, working out what is constant.
func compute(t token, a, b *value) (*value, error) {
	if b.kind == valConst {
		switch {
		case b.k == 0 && (t.text == "/" || t.text == "%"):
			return nil, &Error{Column: t.col, What: "division by zero"}
		case b.k > 31 && (t.text == "<<" || t.text == ">>"):
			return nil, &Error{Column: t.col, What: "shift by more than 31 bits"}
		case a.kind == valConst:
			return &value{k: fold(t.text, a.k, b.k)}, nil
		}
	}
	return &value{kind: valBinary, op: t.text, a: a, b: b}, nil
}

func fold(op string, a, b uint32) uint32 {
	switch op {
	case "|":
		return a | b
	case "^":
		return a ^ b
	case "&":
		return a & b
	case "<<":
		return a << b
	case ">>":
		return a >> b
	case "+":
		return a + b
	case "-":
		return a - b
	case "*":
		return a * b
	case "/":
		return a / b
	}
	return a % b
}

var errTooDeep = fmt.Errorf("more than 16 values would have to be kept at once")

// code appends instructions that leave the value in A, with scratch memory from slot on.
func (v *value) code(to []bpf.Instruction, slot int) ([]bpf.Instruction, error) {
	switch v.kind {
	case valConst:
		return append(to, bpf.LoadConstant{Dst: bpf.RegA, Val: v.k}), nil
	case valLen:
		return append(to, bpf.LoadExtension{Num: bpf.ExtLen}), nil
	case valFixed, valIP4:
		return v.bytes(to, slot)
	}
	if v.b.kind == valConst {
		to, err := v.a.code(to, slot)
		return append(to, bpf.ALUOpConstant{Op: aluOps[v.op], Val: v.b.k}), err
	}
	to, err := pair(to, v.a, v.b, slot)
	return append(to, bpf.ALUOpX{Op: aluOps[v.op]}), err
}

// pair leaves a in A and b in X.
func pair(to []bpf.Instruction, a, b *value, slot int) ([]bpf.Instruction, error) {
	if slot > 15 {
		return nil, errTooDeep
	}
	to, err := b.code(to, slot)
	if err != nil {
		return nil, err
	}
	to = append(to, bpf.StoreScratch{Src: bpf.RegA, N: slot})
	if to, err = a.code(to, slot+1); err != nil {
		return nil, err
	}
	return append(to, bpf.LoadScratch{Dst: bpf.RegX, N: slot}), nil
}

// bytes loads from the frame. A computed offset is summed up in A, where it wraps around at 32 bits as in libpcap.
func (v *value) bytes(to []bpf.Instruction, slot int) ([]bpf.Instruction, error) {
	behind := bpf.LoadMemShift{Off: v.base}
	switch {
	case v.a.kind == valConst && v.kind == valFixed:
		return append(to, bpf.LoadAbsolute{Off: v.base + v.a.k, Size: v.size}), nil
	case v.a.kind == valConst && v.base+v.a.k < 1<<31:
		return append(to, behind, bpf.LoadIndirect{Off: v.base + v.a.k, Size: v.size}), nil
	}
	to, err := v.a.code(to, slot)
	if err != nil {
		return nil, err
	}
	to = append(to, bpf.ALUOpConstant{Op: bpf.ALUOpAdd, Val: v.base})
	if v.kind == valIP4 {
		to = append(to, behind, bpf.ALUOpX{Op: bpf.ALUOpAdd})
	}
	return append(to, bpf.TAX{}, bpf.LoadIndirect{Off: 0, Size: v.size}), nil
}
