package embedded_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/uetlab/uetlab/fabric/runtime"
	"github.com/uetlab/uetlab/fabric/topology"
)

func TestExecExitCodes(t *testing.T) {
	l := newLab(t, "codes", 2, topology.KindHost)
	l.specs[1].Kind = topology.KindFEP // node 1 has no programs of its own
	l.start()
	for node := range l.specs {
		for _, c := range []struct {
			argv []string
			code int
		}{
			{[]string{"true"}, 0},
			{[]string{"sh", "-c", "exit 7"}, 7},
			{[]string{"sh", "-c", "kill -TERM $$"}, 128 + 15},
			{[]string{"/bin/sh", "-c", "kill -KILL $$"}, 128 + 9},
			{[]string{"no-such-command"}, 127},
			{[]string{"/no/such/command"}, 127},
			{[]string{"/etc/passwd"}, 126},
			{[]string{"/usr"}, 126},
			{[]string{""}, 127},
		} {
			if code, out := l.exec(node, c.argv...); code != c.code {
				t.Errorf("node %d: exec %q: exit code %d, want %d (%s)", node, c.argv, code, c.code, out)
			}
		}
	}
}

func TestExecNamespaces(t *testing.T) {
	l := newLab(t, "spaces", 2, topology.KindHost)
	l.specs[1].Kind = topology.KindFEP
	l.start()
	self := func(kind string) string {
		ns, err := os.Readlink("/proc/self/ns/" + kind)
		if err != nil {
			t.Fatal(err)
		}
		return ns
	}
	for node, h := range l.handles {
		for _, kind := range []string{"net", "uts", "ipc", "pid", "mnt", "user"} {
			want, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", h.Pid, kind))
			if err != nil {
				t.Fatal(err)
			}
			proc := "/proc/self/ns/"
			if node == 1 {
				// The host's binary keeps the host's files, and the host's /proc.
				if kind == "mnt" {
					want = self(kind)
				}
			}
			if kind != "mnt" && kind != "user" && want == self(kind) {
				t.Errorf("node %d shares its %s namespace with the host", node, kind)
			}
			if code, out := l.exec(node, "readlink", proc+kind); code != 0 || strings.TrimSpace(out) != want {
				t.Errorf("node %d: %s namespace of a command is %q (exit code %d), want %q", node, kind, out, code, want)
			}
		}
		if _, out := l.exec(node, "hostname"); strings.TrimSpace(out) != fmt.Sprintf("n%d", node) {
			t.Errorf("node %d: host name %q", node, out)
		}
	}
	if _, out := l.exec(0, "sh", "-c", "ls -d /proc/[0-9]*"); !strings.Contains(out, "/proc/1\n") || strings.Count(out, "\n") > 4 {
		t.Errorf("a host node's /proc shows %q", out)
	}
	for _, path := range []string{"/usr/x", "/etc/passwd", "/bin/x", "/lab/x", "/uetlab"} {
		if code, _ := l.exec(0, "sh", "-c", "echo > "+path); code == 0 {
			t.Errorf("a host node can write %s", path)
		}
	}
	if code, out := l.exec(0, "sh", "-c", "echo a > /tmp/x && cat /tmp/x /etc/os-release < /dev/null > /dev/null && cat /etc/hostname"); code != 0 || out != "n0\n" {
		t.Errorf("a host node's own files: exit code %d, %q", code, out)
	}
}

func TestExecEndsWithItsContext(t *testing.T) {
	l := newLab(t, "ctx", 1, topology.KindHost)
	l.start()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	ctx, cancel := context.WithCancel(context.Background())
	go func() { // ends when the command has spoken
		_, _ = r.Read(make([]byte, 8))
		cancel()
	}()
	code, err := l.rt.Exec(ctx, runtime.Exec{
		Handle: l.handles[0], Argv: []string{"sh", "-c", "echo here; sleep 1000"}, Files: [3]*os.File{nil, w, w},
	})
	w.Close()
	if err != context.Canceled || code != 128+9 {
		t.Errorf("Exec = %d, %v", code, err)
	}
}

func TestStopEndsCommandsInNodes(t *testing.T) {
	needNamespaces(t)
	before := takeSnapshot(t)
	l := newLab(t, "inside", 1, topology.KindHost)
	l.start()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	result := make(chan int, 1)
	go func() { // ends with the node
		code, _ := l.rt.Exec(context.Background(), runtime.Exec{
			Handle: l.handles[0], Argv: []string{"sh", "-c", "echo here; sleep 1000 & exec sleep 1000"}, Files: [3]*os.File{nil, w, w},
		})
		result <- code
	}()
	_, _ = r.Read(make([]byte, 8))
	l.stop()
	if code := <-result; code != 128+9 {
		t.Errorf("the command's exit code is %d", code)
	}
	w.Close()
	before.unchanged(t)
	_, err = l.rt.Exec(context.Background(), runtime.Exec{Handle: l.handles[0], Argv: []string{"true"}})
	if err == nil {
		t.Error("exec in a stopped node succeeds")
	}
}

func TestExecTerminal(t *testing.T) {
	l := newLab(t, "tty", 1, topology.KindHost)
	l.start()
	master, slave := openTerminal(t)
	defer master.Close()
	code, err := l.rt.Exec(context.Background(), runtime.Exec{
		Handle: l.handles[0], Argv: []string{"sh", "-c", "test -t 0 && echo via-tty > /dev/tty && exit 3"},
		Env: []string{"PATH=/usr/bin:/bin"}, Files: [3]*os.File{slave, slave, slave}, TTY: true,
	})
	slave.Close()
	if code != 3 || err != nil {
		t.Errorf("Exec = %d, %v", code, err)
	}
	buf := make([]byte, 64)
	_ = master.SetReadDeadline(time.Now().Add(60 * time.Second))
	n, _ := master.Read(buf)
	if !strings.Contains(string(buf[:n]), "via-tty") {
		t.Errorf("the terminal shows %q", buf[:n])
	}
}

// TestExecLeaksNothing runs many commands and compares threads, descriptors and the namespaces of all threads.
func TestExecLeaksNothing(t *testing.T) {
	l := newLab(t, "leak", 2, topology.KindHost)
	l.specs[1].Kind = topology.KindFEP
	l.start()
	count := func(glob string) int {
		m, err := filepath.Glob(glob)
		if err != nil {
			t.Fatal(err)
		}
		return len(m)
	}
	for i := range 4 { // lets the runtime make the threads it wants
		l.exec(i%2, "true")
	}
	threads, fds := count("/proc/self/task/*"), count("/proc/self/fd/*")
	for i := range 50 {
		if code, out := l.exec(i%2, "true"); code != 0 {
			t.Fatalf("exec %d: exit code %d: %s", i, code, out)
		}
	}
	// Threads that were in a node end on their own, a moment after the call.
	for deadline := time.Now().Add(60 * time.Second); ; {
		stray := strayThreads(t)
		if len(stray) == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("threads outside of the process's namespaces: %v", stray)
		}
	}
	if n := count("/proc/self/task/*"); n > threads+10 {
		t.Errorf("%d threads after 50 commands, %d before", n, threads)
	}
	if n := count("/proc/self/fd/*"); n > fds {
		t.Errorf("%d descriptors after 50 commands, %d before", n, fds)
	}
}

// strayThreads lists threads of this process that are in other namespaces than its main thread.
func strayThreads(t *testing.T) (stray []string) {
	t.Helper()
	for _, kind := range []string{"net", "mnt", "uts", "ipc", "pid_for_children"} {
		want, err := os.Readlink("/proc/self/ns/" + kind)
		if err != nil {
			t.Fatal(err)
		}
		tasks, _ := filepath.Glob("/proc/self/task/*/ns/" + kind)
		for _, task := range tasks {
			if ns, err := os.Readlink(task); err == nil && ns != want {
				stray = append(stray, task+" in "+ns)
			}
		}
	}
	return stray
}
