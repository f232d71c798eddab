package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/creack/pty"

	"github.com/uetlab/uetlab/fabric/runtime"
	"github.com/uetlab/uetlab/fabric/runtime/namespace"
	"github.com/uetlab/uetlab/fabric/topology"
)

func TestExec(t *testing.T) {
	r := engine(t)
	specs := newLab(t, r, 1)
	handles, err := r.Start(t.Context(), specs, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name           string
		argv, env      []string
		in             string
		code           int
		stdout, stderr string
	}{
		{name: "inside, code", argv: []string{"/uetlab", "exit", "7"}, code: 7},
		{name: "inside, streams", argv: []string{"/uetlab", "cat"}, in: "to and fro", stdout: "to and fro", stderr: "copying\n"},
		{name: "inside, environment", argv: []string{"/uetlab", "env", "COLOUR"}, env: []string{"COLOUR=blue"}, stdout: "blue\n"},
		{name: "inside, signal", argv: []string{"/uetlab", "kill"}, code: 128 + 15},
		{name: "host, namespaces", argv: []string{"sh", "-c", "hostname; ls /sys/class/net; exit 9"}, code: 9, stdout: "host0\n"},
		{name: "host, streams", argv: []string{"cat"}, in: "to and fro", stdout: "to and fro"},
		{name: "nowhere", argv: []string{"no-such-command-anywhere"}, code: 127, stderr: "uetlab: exec no-such-command-anywhere: no such command, in the node or on this machine\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, stdout, stderr := execute(t, r, handles[0], c.argv, c.env, c.in)
			if code != c.code || !strings.HasPrefix(stdout, c.stdout) || stderr != c.stderr {
				t.Errorf("code %d, stdout %q, stderr %q; want %d, %q, %q", code, stdout, stderr, c.code, c.stdout, c.stderr)
			}
		})
	}
	t.Run("out of reach", func(t *testing.T) {
		far := handles[0]
		far.Pid = os.Getpid() // as good as a PID of another namespace
		_, err := r.Exec(t.Context(), runtime.Exec{Handle: far, Argv: []string{"ls"}})
		if err == nil || !strings.Contains(err.Error(), "the node's image has no ls") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("gone", func(t *testing.T) {
		if err := r.Stop(t.Context(), specs[0].Lab, handles); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Exec(t.Context(), runtime.Exec{Handle: handles[0], Argv: []string{"/uetlab"}}); err == nil {
			t.Error("exec in a node that is gone did not fail")
		}
	})
}

// TestHostNodes starts plain Linux nodes: one with the programs of this machine, one from an image.
func TestHostNodes(t *testing.T) {
	r := engine(t)
	image, err := r.Image(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	specs := newLab(t, r, 2)
	for i := range specs {
		specs[i].Kind = topology.KindHost
	}
	specs[1].Image = image
	handles, err := r.Start(t.Context(), specs, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range specs {
		waitLog(t, specs[i].Log)
	}
	path := []string{"PATH=" + namespace.DefaultPath}
	for _, c := range []struct {
		script string
		code   int
	}{
		{"ping -c1 -W1 127.0.0.1", 0},
		{"test ! -e /etc/shadow", 0},
		{"! touch /usr/new /etc/new", 0},
		{"touch /run/new /tmp/new", 0},
		{"ip link set lo mtu 9000", 0},
		{"timeout 1 tcpdump -ni lo", 124}, // changes its user
		{"ip addr add fd00::1/64 dev lo && ping -c1 -W1 fd00::1", 0},
	} {
		code, stdout, stderr := execute(t, r, handles[0], []string{"sh", "-c", c.script}, path, "")
		if code != c.code {
			t.Errorf("%s: code %d, want %d: %s%s", c.script, code, c.code, stdout, stderr)
		}
	}
	for _, argv := range [][]string{{"/uetlab", "exit", "5"}, {"uetlab", "exit", "5"}, {"sh", "-c", "exit 5"}} {
		if code, _, stderr := execute(t, r, handles[1], argv, []string{"PATH=/nowhere:/:/bin"}, ""); code != 5 {
			t.Errorf("node from an image: %v: code %d: %s", argv, code, stderr)
		}
	}
	// Without a PID that means anything here the engine runs the command.
	far := handles[0]
	far.Pid = os.Getpid()
	if code, stdout, _ := execute(t, r, far, []string{"sh", "-c", "hostname; exit 6"}, path, ""); code != 6 || stdout != "host0\n" {
		t.Errorf("through the engine: code %d, %q", code, stdout)
	}
	c, err := r.cli.ContainerInspect(t.Context(), handles[1].Ref)
	if err != nil || !strings.HasPrefix(c.Config.Image, hostRepo+":") {
		t.Errorf("image of a host node: %s, %v", c.Config.Image, err)
	}
}

// TestExecWithTerminal types into a command and sees its echo and its terminal.
func TestExecWithTerminal(t *testing.T) {
	r := engine(t)
	specs := newLab(t, r, 1)
	handles, err := r.Start(t.Context(), specs, nil)
	if err != nil {
		t.Fatal(err)
	}
	master, slave, err := pty.Open()
	if err != nil {
		t.Skipf("no terminal: %v", err)
	}
	defer master.Close()
	if err := pty.Setsize(master, &pty.Winsize{Rows: 33, Cols: 99}); err != nil {
		t.Fatal(err)
	}
	if _, err := master.WriteString("typed\n"); err != nil {
		t.Fatal(err)
	}
	code, err := r.Exec(t.Context(), runtime.Exec{Handle: handles[0], Argv: []string{"/uetlab", "tty"}, Files: [3]*os.File{slave, slave, slave}, TTY: true})
	slave.Close()
	if err != nil || code != 0 {
		t.Fatalf("code %d, %v", code, err)
	}
	out, _ := io.ReadAll(master) // ends with an error once the other end is closed
	// What was typed before the terminal became raw shows twice, as on any terminal.
	if !strings.HasSuffix(string(out), "typed\r\ntyped 33 99\r\n") {
		t.Errorf("terminal says %q", out)
	}
}

// execute runs a command with in as its input and returns what it wrote.
func execute(t *testing.T, r *Runtime, h runtime.Handle, argv, env []string, in string) (code int, stdout, stderr string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "0"), []byte(in), 0o600); err != nil {
		t.Fatal(err)
	}
	e := runtime.Exec{Handle: h, Argv: argv, Env: env}
	for i, flags := range []int{os.O_RDONLY, os.O_RDWR | os.O_CREATE, os.O_RDWR | os.O_CREATE} {
		f, err := os.OpenFile(filepath.Join(dir, fmt.Sprint(i)), flags, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		e.Files[i] = f
	}
	code, err := r.Exec(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	read := func(f *os.File) string {
		_, _ = f.Seek(0, io.SeekStart)
		b, _ := io.ReadAll(f)
		return string(b)
	}
	return code, read(e.Files[1]), read(e.Files[2])
}

func TestExecEndsWithItsContext(t *testing.T) {
	r := engine(t)
	specs := newLab(t, r, 1)
	handles, err := r.Start(t.Context(), specs, nil)
	if err != nil {
		t.Fatal(err)
	}
	out, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { // cancel once the command runs
		_, _ = out.Read(make([]byte, 8))
		cancel()
	}()
	_, err = r.Exec(ctx, runtime.Exec{Handle: handles[0], Argv: []string{"/uetlab", "wait"}, Files: [3]*os.File{1: w}})
	w.Close()
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	top, err := r.cli.ContainerTop(t.Context(), handles[0].Ref, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(top.Processes) != 1 {
		t.Errorf("the command still runs: %v", top.Processes)
	}
}
