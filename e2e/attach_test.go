package e2e

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/uetlab/uetlab/fep"
	"github.com/uetlab/uetlab/fep/client"
	"github.com/uetlab/uetlab/workload"
)

const (
	attachRMA  = "attach-rma"  // this binary in a node: writes and reads a peer's memory for so many rounds
	attachStat = "attach-stat" // tells what the processes of the FEP hold
	attachBusy = "attach-busy" // attaches, and never waits
	rmaSize    = 1 << 18
	rmaRounds  = 30      // of those that go on
	rmaEndless = 1 << 40 // of those that are killed
	rmaSome    = 5       // rounds after which a process says that it is in the middle
)

// attachment is a process with one endpoint.
type attachment struct {
	d  *client.Domain
	av *client.AV
	ep *client.Endpoint
}

func attach(ctx context.Context, o client.DomainOptions) (*attachment, error) {
	f, err := client.Open("")
	if err != nil {
		return nil, err
	}
	a := &attachment{}
	if a.d, err = f.Domain(ctx, o); err != nil {
		return nil, err
	}
	if a.av, err = a.d.OpenAV(ctx); err == nil {
		a.ep, err = a.d.OpenEndpoint(ctx, client.EndpointConfig{AV: a.av})
	}
	if err != nil {
		return nil, errors.Join(err, a.d.Close())
	}
	return a, nil
}

// attachHelper is what this binary does as a process of a node.
func attachHelper(args []string) error {
	ctx := context.Background()
	if args[0] == attachStat {
		f, err := client.Open("")
		if err != nil {
			return err
		}
		d, err := f.Domain(ctx, client.DomainOptions{PID: client.AnyPID})
		if err != nil {
			return err
		}
		st, err := d.Stat(ctx)
		if err != nil {
			return err
		}
		if err := json.NewEncoder(os.Stdout).Encode(&st); err != nil {
			return err
		}
		return d.Close()
	}
	a, err := attach(ctx, client.DomainOptions{PID: client.AnyPID})
	if err != nil {
		return err
	}
	if args[0] == attachBusy {
		fmt.Println("attached")
		for n := 0; ; n++ {
			_ = n
		}
	}
	rounds, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	return a.rma(ctx, rounds)
}

// rma tells where the process is to be reached, learns that of its peer, and writes into that one's memory and reads it, again and again.
func (a *attachment) rma(ctx context.Context, rounds int) error {
	var mem [2]*client.Memory
	for i := range mem {
		var err error
		if mem[i], err = a.d.Alloc(ctx, rmaSize); err != nil {
			return err
		}
	}
	mr, err := a.ep.RegisterMR(ctx, mem[0].Bytes(), client.MRConfig{Access: client.RemoteWrite | client.RemoteRead})
	if err != nil {
		return err
	}
	fmt.Printf("at %x %d\n", client.MarshalAddress(a.ep.Addr()), mr.Key())
	var text string
	var key uint64
	a.d.Outside(func() { _, err = fmt.Fscan(os.Stdin, &text, &key) })
	if err != nil {
		return err
	}
	b, err := hex.DecodeString(text)
	if err != nil {
		return err
	}
	peer, err := client.UnmarshalAddress(b)
	if err != nil {
		return err
	}
	if _, err := a.av.Insert(ctx, peer); err != nil {
		return err
	}
	for i := range rounds {
		out := mem[1].Bytes()
		for k := range out {
			out[k] = byte(i + k*7)
		}
		for _, kind := range []fep.Kind{fep.OpWrite, fep.OpRead} {
			if kind == fep.OpRead {
				clear(out)
			}
			if _, err := a.ep.Do(ctx, &client.Op{Kind: kind, Buf: out, Key: key}); err != nil {
				return fmt.Errorf("round %d: %w", i, err)
			}
		}
		for k := range out {
			if out[k] != byte(i+k*7) {
				return fmt.Errorf("round %d: byte %d is wrong", i, k)
			}
		}
		if i == rmaSome {
			fmt.Println("some")
		}
	}
	fmt.Println("done")
	a.d.Outside(func() { _, _ = io.Copy(io.Discard, os.Stdin) }) // the peer may not be done with our memory
	return a.d.Close()
}

// inNode is a helper that runs in a node.
type inNode struct {
	*process
	node  string
	in    io.WriteCloser
	lines chan string // closed at the end
}

// helperIn starts a helper in a node.
func (l *lab) helperIn(t testing.TB, node, what string, rounds int) *inNode {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	h := &inNode{node: node, lines: make(chan string, 16)}
	var out io.ReadCloser
	h.process = spawn(t, func(c *exec.Cmd) {
		if l.as != nil {
			l.as(c)
		}
		c.Stdout = nil
		if h.in, err = c.StdinPipe(); err == nil {
			out, err = c.StdoutPipe()
		}
		if err != nil {
			t.Fatal(err)
		}
	}, "exec", node, "--name", l.name, "--no-tty", "--", self, what, strconv.Itoa(rounds))
	var read sync.WaitGroup
	read.Go(func() { // ends with the process
		defer close(h.lines)
		s := bufio.NewScanner(out)
		for s.Scan() {
			h.lines <- s.Text()
		}
	})
	t.Cleanup(func() { h.kill(); read.Wait() })
	return h
}

// line is the next line that a helper says.
func (h *inNode) line() string {
	if s, ok := <-h.lines; ok {
		return s
	}
	return "(ended) " + h.err.String()
}

// helpers are the helpers' own processes.
func helpers(t testing.TB, what string, rounds int) (pids []int) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, _ := os.ReadFile(f) // it may have ended just now
		if string(b) == self+"\x00"+what+"\x00"+strconv.Itoa(rounds)+"\x00" {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(f)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// held is what the processes of a node's FEP hold, the asking one not counted.
func (l *lab) held(t testing.TB, node string) client.Stat {
	t.Helper()
	h := l.helperIn(t, node, "attach-stat", 0)
	line := h.line()
	var st client.Stat
	if err := json.Unmarshal([]byte(line), &st); err != nil {
		t.Fatalf("statistics of %s: %v: %s", node, err, line)
	}
	st.Processes--
	return st
}

// exchange tells two helpers of each other.
func exchange(t testing.TB, a, b *inNode) {
	t.Helper()
	at := [2]string{a.line(), b.line()}
	for i, h := range []*inNode{b, a} {
		addr, ok := strings.CutPrefix(at[i], "at ")
		if !ok {
			t.Fatal(at[i])
		}
		if _, err := fmt.Fprintln(h.in, addr); err != nil {
			t.Fatal(err)
		}
	}
}

// shared is how much memory a process shares with others, kB.
func sharedMemory(t testing.TB, pid int) (kb int) {
	t.Helper()
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), "RssShmem:")
	if _, err := fmt.Sscan(rest, &kb); err != nil {
		t.Fatal(err)
	}
	return kb
}

// TestKilledProcessesOfANode has two processes on each of two nodes write and read each other's memory, and kills one in the middle. Its peer
// hears of it, the others go on, and the FEPs let go of all that the dead one had.
func TestKilledProcessesOfANode(t *testing.T) {
	l := sharedLab(t)
	names := []string{"host0", "host5"}
	pid := func(name string) int {
		nodes, err := l.api.Nodes(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range nodes {
			if n.Name == name {
				return n.Pid
			}
		}
		t.Fatalf("no node %s", name)
		return 0
	}
	var before [2]client.Stat
	var memory [2]int
	for i, n := range names {
		before[i], memory[i] = l.held(t, n), sharedMemory(t, pid(n))
	}
	good := [2]*inNode{l.helperIn(t, names[0], attachRMA, rmaRounds), l.helperIn(t, names[1], attachRMA, rmaRounds)}
	bad := [2]*inNode{l.helperIn(t, names[0], attachRMA, rmaEndless), l.helperIn(t, names[1], attachRMA, rmaEndless+1)}
	exchange(t, bad[0], bad[1])
	exchange(t, good[0], good[1])
	if s := bad[0].line(); s != "some" {
		t.Fatal(s)
	}
	if st := l.held(t, names[0]); st.Processes != 2 || st.Endpoints != 2 || st.Bytes < 4*rmaSize || sharedMemory(t, pid(names[0])) < memory[0]+2*rmaSize>>10 {
		t.Errorf("in the middle: %+v", st)
	}
	dead := helpers(t, attachRMA, rmaEndless)
	if len(dead) != 1 {
		t.Fatalf("processes to be killed: %v", dead)
	}
	if err := syscall.Kill(dead[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if a := bad[0].wait(); a.code != 128+int(syscall.SIGKILL) {
		t.Error(a)
	}
	if s := bad[1].line(); s == "some" || !strings.HasPrefix(s, "(ended)") {
		s += bad[1].line()
		if !strings.Contains(s, "round ") {
			t.Errorf("the peer of the dead one: %s", s)
		}
	}
	for _, h := range good {
		for _, want := range []string{"some", "done"} {
			if s := h.line(); s != want {
				t.Fatalf("a process that has nothing to do with it says %q, want %q", s, want)
			}
		}
	}
	for _, h := range append(good[:], bad[1]) {
		h.in.Close()
		h.wait()
	}
	for i, n := range names {
		var st client.Stat
		until(t, "the FEP to let go", func() bool {
			st = l.held(t, n)
			st.FreeCalls = before[i].FreeCalls
			return st == before[i]
		})
		if kb := sharedMemory(t, pid(n)); kb > memory[i]+rmaSize>>11 {
			t.Errorf("%s shares %d kB, %d before", n, kb, memory[i])
		}
	}
	l.asBefore(t)
}

// TestAProcessThatNeverWaits holds its lab up until the FEP sets it free, and no longer; it does not hold up what is not in virtual time.
func TestAProcessThatNeverWaits(t *testing.T) {
	needRoot(t)
	l := up(t, "pair")
	if s := l.helperIn(t, "host0", attachBusy, 0).line(); s != "attached" {
		t.Fatal(s)
	}
	l.clock(t)
	l.ok(t, "link", "ls")
	spec := workload.Spec{Workload: workload.Sendrecv, Size: 1 << 16, Iters: 1, Seed: 1}
	want := simulateRanks(t, &l.plan, spec, 1)
	same(t, "a run once it is free", l.run(t, "sendrecv", "--size", "64KiB"), want)
	if s := l.helperIn(t, "host1", attachBusy, 0).line(); s != "attached" { // down has both to deal with, one of them held
		t.Fatal(s)
	}
}

// TestRanksAndProcessesShareAFEP: processes get numbers that no rank has, and ranks do not take those of processes.
func TestRanksAndProcessesShareAFEP(t *testing.T) {
	needRoot(t)
	l := up(t, "pair")
	l.ok(t, "run", "allreduce", "--per-node", "2", "--size", "64KiB")
	l.ok(t, "perf", "send", "lat", "--iters", "5")
	a, b := l.helperIn(t, "host0", attachRMA, 10), l.helperIn(t, "host1", attachRMA, 10)
	exchange(t, a, b)
	for _, h := range []*inNode{a, b} {
		for _, want := range []string{"some", "done"} {
			if s := h.line(); s != want {
				t.Fatalf("%q, want %q", s, want)
			}
		}
	}
	if r := l.do(t, "run", "allreduce", "--per-node", "2", "--size", "64KiB"); r.code == 0 || !strings.Contains(r.stderr, "PIDonFEP 1 of job 1 is that of an attached process") {
		t.Error(r)
	}
	l.ok(t, "run", "allreduce", "--per-node", "2", "--size", "64KiB", "--processes")
	for i, n := range []string{"host0", "host1"} {
		if st := l.held(t, n); st.Endpoints != 1 || st.MRs != 1 {
			t.Errorf("the process of node %d has lost something: %+v", i, st)
		}
	}
	for _, h := range []*inNode{a, b} {
		h.in.Close()
		if r := h.wait(); r.code != 0 {
			t.Error(r)
		}
	}
	l.ok(t, "run", "allreduce", "--per-node", "2", "--size", "64KiB")
}
