package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/workload"
)

// nobody is an ordinary user.
const nobody = 65534

// asNobody has commands run as an ordinary user with directories of its own.
func asNobody(t *testing.T) func(*exec.Cmd) {
	t.Helper()
	home, err := os.MkdirTemp("", "e2e-home-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(home) })
	run := filepath.Join(home, "run")
	if err := os.Mkdir(run, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{home, run} {
		if err := os.Chown(d, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	return func(c *exec.Cmd) {
		c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "XDG_RUNTIME_DIR=" + run, envMark + "=" + mark}
		c.Dir = home
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
}

// TestRootless does as an ordinary user what a newcomer does first.
func TestRootless(t *testing.T) {
	needRoot(t) // to become somebody else
	as := asNobody(t)
	if unshare, err := exec.LookPath("unshare"); err == nil {
		c := exec.Command(unshare, "-Urn", "true")
		as(c)
		if out, err := c.CombinedOutput(); err != nil {
			t.Skipf("user namespaces are not to be had: %v: %s", err, out)
		}
	}
	before := takeSnapshot(t)
	l := &lab{name: newName(), as: as}
	t.Cleanup(func() {
		if a := spawn(t, as, "down", l.name).wait(); a.code != 0 {
			t.Error(a)
		}
	})
	a := l.do(t, "up", "fat-tree-2x4", "--format", "json")
	if a.code != 0 {
		t.Fatal(a)
	}
	s := decode[api.Lab](t, a.stdout)
	if !s.Rootless || s.Runtime != "embedded" || s.Nodes != 14 {
		t.Errorf("lab: %+v", s)
	}
	t.Cleanup(func() {
		if t.Failed() {
			b, _ := os.ReadFile(s.Dir + "/logs/labd.log")
			t.Logf("labd.log:\n%s", b)
		}
	})
	// Its own limits hold: it does not see root's labs, and root does not need to see this one.
	if out := spawn(t, as, "ls", "--format", "json").wait(); strings.Count(out.stdout, `"name"`) != 1 {
		t.Errorf("ls as %d: %v", nobody, out)
	}

	sniff := l.start(t, "tcpdump", "host0-leaf0", "-c", "5", "udp")
	first := l.run(t, "allreduce", "--size", "256KiB", "--check", "--seed", "4")
	for !sniff.ended() { // it may have begun to listen too late for the first
		same(t, "a repeated rootless run", l.run(t, "allreduce", "--size", "256KiB", "--check", "--seed", "4"), figuresOf(first))
	}
	if a := sniff.wait(); a.code != 0 || strings.Count(a.stdout, "UET") != 5 {
		t.Errorf("tcpdump: %v", a)
	}
	l.plan = planOf(t, "fat-tree-2x4")
	same(t, "a rootless run", first, simulate(t, &l.plan, workload.Spec{Workload: workload.Allreduce, Size: 256 << 10, Iters: 1, Check: true, Seed: 4}, nil))

	same(t, "processes of a rootless lab", l.run(t, "allreduce", "--size", "256KiB", "--check", "--seed", "4", "--processes"), figuresOf(first))

	l.ok(t, "link", "fail", failing, "--at", "+5us")
	r := l.run(t, "allreduce", "--size", "256KiB", "--check", "--seed", "4")
	if r.Correct == nil || !*r.Correct || r.Drops == 0 {
		t.Errorf("a run with a failing link: %d drops, correct %v", r.Drops, r.Correct)
	}
	if a := l.do(t, "exec", "host0", "--", "id", "-u"); a.code != 0 || strings.TrimSpace(a.stdout) != "0" {
		t.Errorf("exec: %v", a)
	}
	if a := l.do(t, "down"); a.code != 0 {
		t.Error(a)
	}
	before.unchanged(t)
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(s.Dir), "*")); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
	if a := l.do(t, "up", "pair", "--runtime", "docker"); a.code != api.CodePrecondition {
		t.Errorf("docker without root: %v", a)
	}
}
