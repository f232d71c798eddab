package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/labdir"
)

// crashTopology is big where labs are cheap.
func crashTopology() string {
	if runtime == "docker" {
		return "star-4"
	}
	return "fat-tree-2x4"
}

// daemonPid is the daemon's process.
func (l *lab) daemonPid(t testing.TB) int {
	t.Helper()
	s, err := l.api.Lab(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return s.Pid
}

// busy starts a run that goes on for minutes and waits until packets flow.
func (l *lab) busy(t testing.TB) *process {
	t.Helper()
	l.clockTo(t, "cap", "1000000")
	p := l.startRun(t, "permutation", "--size", "2MiB")
	until(t, "packets", func() bool { return p.ended() || dataSent(l.counters(t)) > 20 })
	if p.ended() {
		t.Fatal(p.wait())
	}
	return p
}

func (l *lab) down(t testing.TB) {
	t.Helper()
	if a := uetlab(t, "down", l.name); a.code != 0 {
		t.Error(a)
	}
	if a := uetlab(t, "down", l.name); a.code != 0 || !strings.Contains(a.stderr, "not there") {
		t.Errorf("a second down: %v", a)
	}
}

// TestKilledDaemon kills the daemon during a run. The nodes outlive it; down removes all.
func TestKilledDaemon(t *testing.T) {
	needRoot(t)
	before := takeSnapshot(t)
	l := up(t, crashTopology())
	p := l.busy(t)
	if err := syscall.Kill(l.daemonPid(t), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if a := p.wait(); a.code == 0 {
		t.Errorf("the run does not notice that its daemon is gone: %v", a)
	}
	until(t, "commands to notice", func() bool { return l.do(t, "ps").code != 0 })
	if a := l.do(t, "ps"); a.code != api.CodeFailure || !strings.Contains(a.stderr, "does not answer") {
		t.Errorf("a command on a lab without daemon: %v", a)
	}
	if d := before.diff(takeSnapshot(t)); !strings.Contains(strings.Join(d, "\n"), "+ namespace net:") {
		t.Errorf("no node has outlived the daemon; the snapshot has only\n%s", strings.Join(d, "\n"))
	}
	l.down(t)
	before.unchanged(t)
}

// TestDeletedFiles deletes what a lab knows of itself, and takes it down nevertheless.
func TestDeletedFiles(t *testing.T) {
	needRoot(t)
	for name, remove := range map[string]func(*labdir.Dir) error{
		"state file":      func(d *labdir.Dir) error { return os.Remove(d.State()) },
		"node directory":  func(d *labdir.Dir) error { return os.RemoveAll(d.Node()) },
		"everything":      func(d *labdir.Dir) error { return d.Remove() },
		"daemon's socket": func(d *labdir.Dir) error { return os.Remove(d.Sock()) },
	} {
		for _, kill := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, daemon killed %v", name, kill), func(t *testing.T) {
				before := takeSnapshot(t)
				l := up(t, "pair")
				pid := l.daemonPid(t)
				if kill {
					if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
						t.Fatal(err)
					}
				}
				if err := remove(l.dir); err != nil {
					t.Fatal(err)
				}
				l.down(t)
				before.unchanged(t)
			})
		}
	}
}

// TestKilledNode kills a node in the middle of a run. The run says which, the lab says so too, and down cleans up.
func TestKilledNode(t *testing.T) {
	needRoot(t)
	before := takeSnapshot(t)
	l := up(t, "star-4")
	p := l.busy(t)
	var victim api.NodeStatus
	for _, n := range decode[[]api.NodeStatus](t, l.ok(t, "ps", "--format", "json")) {
		if n.Name == "host2" {
			victim = n
		}
	}
	if victim.Pid == 0 || victim.State != api.NodeUp || len(victim.Ranks) != 1 {
		t.Fatalf("host2 is %+v", victim)
	}
	if err := syscall.Kill(victim.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if a := p.wait(); a.code != api.CodePartial || !strings.Contains(a.stderr, "host2") {
		t.Errorf("the run on a killed node: %v", a)
	}
	l.clockTo(t, "auto")
	for _, n := range decode[[]api.NodeStatus](t, l.ok(t, "ps", "--format", "json")) {
		if want := map[bool]string{true: api.NodeDead, false: api.NodeUp}[n.Name == "host2"]; n.State != want {
			t.Errorf("%s is %s, want %s", n.Name, n.State, want)
		}
	}
	if a := l.do(t, "run", "sendrecv", "--size", "64KiB"); a.code != api.CodePartial || !strings.Contains(a.stderr, "host2") {
		t.Errorf("a run on a dead node: %v", a)
	}
	if a := l.do(t, "exec", "host2", "--", "true"); a.code == 0 {
		t.Errorf("exec in a dead node: %v", a)
	}
	// The others are well.
	if r := l.run(t, "sendrecv", "--ranks", "0,1,3", "--size", "64KiB", "--check"); r.Correct == nil || !*r.Correct {
		t.Errorf("a run on the nodes that live is not correct: %+v", r)
	}
	l.down(t)
	before.unchanged(t)
}

// TestInterruptedUp sends Ctrl-C at ten random moments of up.
func TestInterruptedUp(t *testing.T) {
	needRoot(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	before := takeSnapshot(t)
	start := time.Now()
	up(t, crashTopology()).down(t)
	whole := time.Since(start) // of up and down: more than up takes
	before.unchanged(t)
	hit, tries := 0, 0
	for span := whole; hit < 10 && tries < 40; tries++ {
		name := newName()
		wait := time.Duration(rng.Int64N(int64(span)))
		p := spawn(t, nil, "up", crashTopology(), "--name", name, "--runtime", runtime)
		select {
		case <-time.After(wait): // the random moment
			p.signal(t, syscall.SIGINT)
		case <-p.done:
		}
		a := p.wait()
		switch a.code {
		case api.CodeInterrupted:
			hit++
			t.Logf("interrupted after %v", wait)
			if a := uetlab(t, "ps", "--name", name); a.code != api.CodeNotFound {
				t.Errorf("seed %d: after an interrupted up: %v", seed, a)
			}
		case api.CodeOK: // it was up before; the next moments lie earlier
			span = span * 3 / 4
			if a := uetlab(t, "down", name); a.code != 0 {
				t.Errorf("seed %d: %v", seed, a)
			}
		case -1: // the signal came before the process had a handler for it, and ended it: nothing was made
			t.Logf("ended by the signal itself after %v", wait)
		default:
			t.Errorf("seed %d: interrupted after %v: %v", seed, wait, a)
		}
		before.unchanged(t)
		if t.Failed() {
			_ = uetlab(t, "down", name)
			return
		}
	}
	if hit < 10 {
		t.Errorf("seed %d: only %d of %d attempts hit up while it ran", seed, hit, tries)
	}
}
