// Package filter compiles pcap filter expressions for Ethernet into classic BPF, without libpcap: the language of
// pcap-filter(7) as far as it makes sense on an Ethernet link, and the name uet for UET over UDP. A compiled Program
// runs in user space (Match) and gives the instructions for SO_ATTACH_FILTER (Kernel).
//
// Verdicts are those of libpcap 1.10, also on frames that are too short: a load behind the end of the frame rejects it,
// wherever it stands in the expression. Three things differ on purpose. An accessor such as tcp[13] asks for its
// protocol wherever it stands, where libpcap forgets those right of an arithmetic operator. Expressions in which
// libpcap binds % and ^ otherwise than C are refused; parentheses settle them. And what can never match (ip and arp) is
// a filter that matches nothing, not an error. Additions: keywords may follow proto without a backslash, and net takes
// short prefixes such as 10/8.
//
// The package opens no sockets, resolves no names over the network and reads no files. A Program is immutable and may
// be used from several goroutines.
package filter

import (
	"fmt"
	"net/netip"

	"golang.org/x/net/bpf"
)

// accept is what a matching program returns: more bytes than any frame has.
const accept = 0x40000

// maxExpr bounds the length of an expression in bytes, maxDepth the nesting of parentheses and nots.
const (
	maxExpr  = 16 << 10
	maxDepth = 128
)

// maxProgram is BPF_MAXINSNS, the longest program that the kernel takes.
const maxProgram = 4096

// Options tune Compile; the zero value is fine.
type Options struct {
	// Names gives the addresses of a host name, for example those of a node of the lab; nil or an empty answer
	// makes names an error.
	Names func(name string) []netip.Addr
}

// Program is a compiled filter.
type Program struct {
	root  *node
	insns []bpf.Instruction
	vm    *bpf.VM
}

// Error says what is wrong with an expression, and where.
type Error struct {
	Column int    // byte column of the culprit, from 1
	What   string // what is wrong
	Hint   string // what to write instead: the nearest keyword, or advice; may be empty
}

// Error implements error.
func (e *Error) Error() string {
	s := fmt.Sprintf("filter: column %d: %s", e.Column, e.What)
	if e.Hint != "" {
		s += "; " + e.Hint
	}
	return s
}

// Compile translates an expression; the empty one matches every frame. The error is an *Error.
func Compile(expr string, opts Options) (*Program, error) {
	p, err := newParser(expr, opts)
	if err != nil {
		return nil, err
	}
	root, err := p.parse()
	if err != nil {
		return nil, err
	}
	prog := &Program{root: root}
	prog.insns, err = emit(root, 0, false)
	if err != nil {
		return nil, err
	}
	if prog.vm, err = bpf.NewVM(prog.insns); err != nil {
		return nil, &Error{Column: 1, What: "the program does not hold together: " + err.Error()}
	}
	return prog, nil
}

// Match reports whether the frame, which begins with the Ethernet header, passes. It must come without its link
// trailer, so that len, less and greater mean the length of the Ethernet frame without FCS.
func (p *Program) Match(frame []byte) bool {
	n, err := p.vm.Run(frame)
	return err == nil && n != 0
}

// Instructions returns the program that Match runs.
func (p *Program) Instructions() []bpf.Instruction {
	return append([]bpf.Instruction(nil), p.insns...)
}

// Kernel returns the program for a socket on a port whose frames carry trailer more bytes at their end (24 between
// lab nodes, 0 towards plain hosts); len is corrected by as much. The kernel sees those bytes and the program cannot
// know, so its verdict only saves work: it passes all that Match passes, and perhaps a short frame more, so run Match
// on what arrives. Frames whose VLAN tag the kernel has taken off pass, for the same reason. The error is an *Error:
// the program is longer than the kernel takes.
func (p *Program) Kernel(trailer int) ([]bpf.RawInstruction, error) {
	insns, err := emit(p.root, uint32(trailer), true)
	if err != nil {
		return nil, err
	}
	raw, err := bpf.Assemble(insns)
	if err != nil {
		return nil, fmt.Errorf("filter: assemble: %w", err)
	}
	return raw, nil
}
