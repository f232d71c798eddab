package filter

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/net/bpf"
)

// expressions reads testdata/expressions.txt: one expression a line, comments with #.
func expressions(t testing.TB) []string {
	t.Helper()
	f, err := os.Open("testdata/expressions.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var list []string
	for sc := bufio.NewScanner(f); sc.Scan(); {
		if s := strings.TrimSpace(sc.Text()); s != "" && s[0] != '#' {
			list = append(list, s)
		}
	}
	return list
}

var errRejectsAll = errors.New("expression rejects all packets")

// libpcap has tcpdump compile an expression.
func libpcap(tcpdump, expr string, flags ...string) (*bpf.VM, error) {
	var stderr bytes.Buffer
	cmd := exec.Command(tcpdump, append(flags, "-ddd", "-y", "EN10MB", expr)...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if strings.Contains(stderr.String(), errRejectsAll.Error()) {
		return nil, errRejectsAll
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, stderr.String())
	}
	var n int
	r := bytes.NewReader(out)
	if _, err := fmt.Fscan(r, &n); err != nil {
		return nil, err
	}
	prog := make([]bpf.Instruction, n)
	for i := range prog {
		var ri bpf.RawInstruction
		if _, err := fmt.Fscan(r, &ri.Op, &ri.Jt, &ri.Jf, &ri.K); err != nil {
			return nil, err
		}
		prog[i] = ri.Disassemble()
	}
	return bpf.NewVM(prog)
}

func TestVerdictsEqualTcpdump(t *testing.T) {
	tcpdump, err := exec.LookPath("tcpdump")
	if err != nil {
		t.Skip("tcpdump is not installed, so there is no libpcap to compare with")
	}
	frames, exprs := corpus(), append(expressions(t), longExpression(60))
	if len(frames) < 300 || len(exprs) < 120 {
		t.Fatalf("%d frames and %d expressions are too few to mean anything", len(frames), len(exprs))
	}
	var telling atomic.Int32
	for _, expr := range exprs {
		t.Run(expr, func(t *testing.T) {
			t.Parallel()
			p, err := Compile(expr, Options{})
			if err != nil {
				t.Fatal(err)
			}
			vm, err := libpcap(tcpdump, expr)
			if err != nil && !errors.Is(err, errRejectsAll) {
				t.Fatalf("tcpdump: %v", err)
			}
			passed := 0
			for i, f := range frames {
				if p.Match(f) {
					passed++
				}
				want := 0
				if vm != nil {
					if want, err = vm.Run(f); err != nil {
						t.Fatal(err)
					}
				}
				if got := p.Match(f); got != (want != 0) {
					t.Fatalf("frame %d (%d bytes): %v, tcpdump says %v\n%x\n%v", i, len(f), got, want != 0, f, p.insns)
				}
			}
			if passed > 0 && passed < len(frames) {
				telling.Add(1)
			}
		})
	}
	t.Cleanup(func() { // after the parallel subtests
		if n := int(telling.Load()); n < len(exprs)*9/10 {
			t.Errorf("only %d of %d expressions tell frames of the corpus apart", n, len(exprs))
		}
	})
}

// longExpression makes a program whose jumps do not fit into the 8 bits of a conditional one.
func longExpression(n int) string {
	var terms []string
	for i := range n {
		terms = append(terms, fmt.Sprintf("tcp port %d", 5000+i))
	}
	return strings.Join(terms, " or ")
}
