package filter

import (
	"fmt"

	"golang.org/x/net/bpf"
)

type nodeOp uint8

const (
	opTest nodeOp = iota
	opAnd
	opOr
	opNot
	opTrue
	opFalse
)

// node is a boolean expression: a test, or a connective of a and b.
type node struct {
	op   nodeOp
	a, b *node

	load []bpf.Instruction // test: leaves the value in A, and its partner in X if x is set
	cond bpf.JumpTest      // JumpEqual, JumpGreaterThan, JumpGreaterOrEqual or JumpBitsSet
	val  uint32
	x    bool
}

func and(a, b *node) *node {
	if a == nil {
		return b
	}
	return &node{op: opAnd, a: a, b: b}
}

func or(a, b *node) *node {
	if a == nil {
		return b
	}
	return &node{op: opOr, a: a, b: b}
}

func not(a *node) *node { return &node{op: opNot, a: a} }

func truth(v bool) *node {
	if v {
		return &node{op: opTrue}
	}
	return &node{op: opFalse}
}

// is tests size bytes at off for a value.
func is(size int, off, val uint32) *node {
	return &node{load: []bpf.Instruction{bpf.LoadAbsolute{Off: off, Size: size}}, cond: bpf.JumpEqual, val: val}
}

// masked is is under a mask. A mask of zero needs no load: every value fits, and libpcap's optimizer drops it too.
func masked(size int, off, val, mask uint32) *node {
	full := uint32(1)<<(8*size) - 1 // size 4: the shift gives 0, and 0-1 all ones
	switch mask {
	case 0:
		return truth(val == 0)
	case full:
		return is(size, off, val)
	}
	n := is(size, off, val)
	n.load = append(n.load, bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: mask})
	return n
}

// label names an instruction by its distance from the end of the program, which is known at once because the program
// is written from its end.
type label int

type emitter struct {
	code    []bpf.Instruction // last instruction first
	trailer uint32
}

// emit writes the program. With kernel set it first passes frames whose tag the kernel holds beside them.
func emit(root *node, trailer uint32, kernel bool) ([]bpf.Instruction, error) {
	e := &emitter{trailer: trailer}
	reject := e.add(bpf.RetConstant{Val: 0})
	pass := e.add(bpf.RetConstant{Val: accept})
	entry := e.node(root, pass, reject)
	if int(entry) != len(e.code) { // the root is a constant: go there
		entry = e.add(bpf.Jump{Skip: uint32(len(e.code) - int(entry))})
	}
	if kernel {
		e.jump(&node{cond: bpf.JumpEqual, val: 0}, entry, pass)
		e.add(bpf.LoadExtension{Num: bpf.ExtVLANTagPresent})
	}
	if len(e.code) > maxProgram {
		return nil, &Error{Column: 1, What: fmt.Sprintf("the filter takes %d instructions, the kernel at most %d",
			len(e.code), maxProgram), Hint: "shorten it"}
	}
	for i, j := 0, len(e.code)-1; i < j; i, j = i+1, j-1 {
		e.code[i], e.code[j] = e.code[j], e.code[i]
	}
	return e.code, nil
}

func (e *emitter) add(i bpf.Instruction) label {
	e.code = append(e.code, i)
	return label(len(e.code))
}

// node writes n in front of what is there and returns where it begins; it goes on at t or f.
func (e *emitter) node(n *node, t, f label) label {
	switch n.op {
	case opAnd:
		return e.node(n.a, e.node(n.b, t, f), f)
	case opOr:
		return e.node(n.a, t, e.node(n.b, t, f))
	case opNot:
		return e.node(n.a, f, t)
	case opTrue:
		return t
	case opFalse:
		return f
	}
	at := e.jump(n, t, f)
	for i := len(n.load) - 1; i >= 0; i-- {
		ext, isExt := n.load[i].(bpf.LoadExtension)
		if isExt && ext.Num == bpf.ExtLen && e.trailer != 0 {
			e.add(bpf.ALUOpConstant{Op: bpf.ALUOpSub, Val: e.trailer})
		}
		at = e.add(n.load[i])
	}
	return at
}

func (e *emitter) jump(n *node, t, f label) label {
	f = e.near(f)
	t = e.near(t)
	st, sf := uint8(len(e.code)-int(t)), uint8(len(e.code)-int(f))
	if n.x {
		return e.add(bpf.JumpIfX{Cond: n.cond, SkipTrue: st, SkipFalse: sf})
	}
	return e.add(bpf.JumpIf{Cond: n.cond, Val: n.val, SkipTrue: st, SkipFalse: sf})
}

// near makes a label reachable by the 8 bits of a conditional jump, one instruction to spare, by way of a long jump.
func (e *emitter) near(l label) label {
	if d := len(e.code) - int(l); d > 254 {
		return e.add(bpf.Jump{Skip: uint32(d)})
	}
	return l
}
