package e2e

import (
	"strings"
	"syscall"
	"testing"

	"github.com/uetlab/uetlab/fabric/api"
)

// TestRestartedNodes ends nodes and starts them again: their links are wired anew, and results are as before.
func TestRestartedNodes(t *testing.T) {
	needRoot(t)
	before := takeSnapshot(t)
	l := up(t, "star-4")
	want := l.run(t, "permutation", "--size", "128KiB", "--check")
	for _, node := range []string{"leaf0", "host1"} {
		l.ok(t, "restart", node)
		if got := l.run(t, "permutation", "--size", "128KiB", "--check"); got.FCT != want.FCT || got.Fidelity.Verdict != "exact" || !*got.Correct {
			t.Errorf("after a restart of %s: %+v, want %+v", node, got, want)
		}
	}
	for _, k := range decode[[]api.LinkStatus](t, l.ok(t, "link", "ls", "--format", "json")) {
		if k.State != api.LinkUp {
			t.Errorf("%s is %s", k.Name, k.State)
		}
	}
	if a := l.do(t, "restart", "leaf7"); a.code != api.CodeNotFound {
		t.Errorf("restart of a node that is not there: %v", a)
	}
	l.down(t)
	before.unchanged(t)
}

// TestAdoptedLab kills the daemon in the middle of a run and gives the lab a new one, which knows of the failed link.
func TestAdoptedLab(t *testing.T) {
	needRoot(t)
	before := takeSnapshot(t)
	l := up(t, "fat-tree-2x4")
	l.ok(t, "link", "fail", "leaf0-spine0")
	want := l.run(t, "permutation", "--size", "128KiB", "--check")
	if a := l.do(t, "adopt", l.name); a.code != api.CodeExists {
		t.Errorf("adopting a lab whose daemon lives: %v", a)
	}
	p := l.busy(t)
	if err := syscall.Kill(l.daemonPid(t), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	p.wait()
	l.adopt(t)
	for _, k := range decode[[]api.LinkStatus](t, l.ok(t, "link", "ls", "--format", "json")) {
		if down := k.Name == "leaf0-spine0"; (k.State == api.LinkDown) != down {
			t.Errorf("%s is %s", k.Name, k.State)
		}
	}
	if got := l.run(t, "permutation", "--size", "128KiB", "--check"); got.FCT != want.FCT || got.Fidelity.Verdict != "exact" {
		t.Errorf("on the adopted lab: %+v, want %+v", got, want)
	}
	if events := l.ok(t, "events"); !strings.Contains(events, "adopted") {
		t.Errorf("events say nothing of it:\n%s", events)
	}
	l.down(t)
	before.unchanged(t)
}

// adopt gives a lab whose daemon was killed a new one. The dead may hold its lock for a moment yet.
func (l *lab) adopt(t testing.TB) {
	t.Helper()
	until(t, "the lab to be adopted", func() bool {
		a := uetlab(t, "adopt", l.name)
		if a.code != 0 && !strings.Contains(a.stderr, "has a daemon") {
			t.Fatal(a)
		}
		return a.code == 0
	})
}

// TestCarrierFollows takes a link down and up and looks at it from inside.
func TestCarrierFollows(t *testing.T) {
	needRoot(t)
	l := sharedLab(t)
	has := func(want bool) {
		t.Helper()
		until(t, "the carrier to follow", func() bool {
			return strings.Contains(l.ok(t, "exec", "spine1", "--", "ip", "link", "show", "eth2"), "NO-CARRIER") != want
		})
	}
	has(true)
	l.ok(t, "link", "fail", "leaf1-spine1")
	has(false)
	l.ok(t, "link", "restore", "leaf1-spine1")
	has(true)
	if r := l.run(t, "permutation", "--size", "64KiB", "--check"); r.Drops != 0 || !*r.Correct {
		t.Errorf("after the link is back: %+v", r)
	}
}
