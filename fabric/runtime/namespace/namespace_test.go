package namespace

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/uetlab/uetlab/fabric/runtime"
)

func TestSearchStaysInTheRoot(t *testing.T) {
	root := t.TempDir()
	for name, mode := range map[string]os.FileMode{"bin/tool": 0o755, "bin/plain": 0o644} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{
		"bin/abs": "/bin/tool", "bin/up": "../../../../bin/tool", "bin/host": "/proc/self/exe", "bin/dangling": "nowhere",
	} {
		if err := os.Symlink(to, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		candidates []string
		want       found
	}{
		{[]string{"/bin/tool"}, found{file: "/bin/tool"}},
		{[]string{"/sbin/tool", "/bin/tool"}, found{file: "/bin/tool"}},
		{[]string{"/bin/abs"}, found{file: "/bin/abs"}}, // leads to root's own /bin/tool
		{[]string{"/bin/up"}, found{file: "/bin/up"}},
		{[]string{"/bin/plain"}, found{present: true}},
		{[]string{"/bin/plain", "/bin/tool"}, found{file: "/bin/tool"}},
		{[]string{"/bin"}, found{present: true}},
		{[]string{"/bin/host"}, found{}}, // exists outside only
		{[]string{"/bin/dangling", "/../bin/missing"}, found{}},
		{nil, found{}},
	} {
		if got := search(root, c.candidates); got != c.want {
			t.Errorf("search(%q) = %+v, want %+v", c.candidates, got, c.want)
		}
	}
}

func TestCandidates(t *testing.T) {
	for _, c := range []struct {
		argv0 string
		env   []string
		first string
		n     int
	}{
		{"ip", nil, "/usr/local/sbin/ip", 6},
		{"ip", []string{"A=B", "PATH=/a:/b"}, "/a/ip", 2},
		{"ip", []string{"PATH=/a::rel"}, "/a/ip", 3},
		{"./ip", []string{"PATH=/a"}, "/ip", 1},
		{"/x/../ip", nil, "/ip", 1},
		{"", nil, "", 0},
	} {
		got := candidates(runtime.Exec{Argv: []string{c.argv0}, Env: c.env})
		if len(got) != c.n || c.n > 0 && got[0] != c.first {
			t.Errorf("candidates(%q, %q) = %q", c.argv0, c.env, got)
		}
	}
}

func TestOnThreadKeepsChangesToItself(t *testing.T) {
	before, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	sentinel := errors.New("from inside")
	err = OnThread(func() error {
		if unix.Gettid() == unix.Getpid() {
			t.Error("runs on the main thread")
		}
		if err := unix.Chdir(dir); err != nil {
			t.Error(err)
		}
		return sentinel
	})
	if errors.Is(err, unix.EPERM) {
		t.Skip("unshare is not allowed here")
	}
	if err != sentinel {
		t.Errorf("OnThread = %v", err)
	}
	if after, _ := unix.Getwd(); after != before {
		t.Errorf("the working directory moved from %s to %s", before, after)
	}
}

func TestProcessExitCodes(t *testing.T) {
	for script, want := range map[string]int{"exit 0": 0, "exit 42": 42, "kill -KILL $$": 137, "kill -TERM $$": 143} {
		p, err := Start("/bin/sh", []string{"sh", "-c", script}, &syscall.ProcAttr{Sys: &syscall.SysProcAttr{}})
		if err != nil {
			t.Fatal(err)
		}
		<-p.Done()
		if p.ExitCode() != want {
			t.Errorf("%q: exit code %d, want %d", script, p.ExitCode(), want)
		}
		p.KillGroup(syscall.SIGKILL) // after the end: reaches nobody
	}
	if _, err := Start("/no/such/program", []string{"x"}, &syscall.ProcAttr{Sys: &syscall.SysProcAttr{}}); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("Start of a missing program: %v", err)
	}
}
