package embedded_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/uetlab/uetlab/fabric/runtime"
	"github.com/uetlab/uetlab/fabric/runtime/embedded"
	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/fabric/wiring/hostnet"
)

// order is what a test tells a node: configure as a plain host, or only bring ports up.
type order struct {
	Host    *hostnet.Host
	Ports   []string
	Forward bool
}

// nodeMain is a node that enters its root, reports to the test over the lab's socket and obeys orders until it is killed.
func nodeMain(args []string) error {
	var name, id, dir string
	for i := 0; i+1 < len(args); i += 2 {
		switch args[i] {
		case "--node":
			name = args[i+1]
		case "--id":
			id = args[i+1]
		case "--dir":
			dir = args[i+1]
		}
	}
	if err := embedded.Enter(dir); err != nil {
		return err
	}
	conn, err := net.Dial("unix", filepath.Join(dir, "node.sock"))
	if err != nil {
		return err
	}
	page := filepath.Join(dir, "pages", id)
	if err := os.WriteFile(page, []byte(name), 0); err != nil {
		return fmt.Errorf("own page: %w", err)
	}
	host, _ := os.Hostname()
	fmt.Fprintf(conn, "%s %s %d %s\n", id, host, os.Getpid(), readOnlyState(dir, id))
	in := json.NewDecoder(conn)
	for {
		var o order
		if err := in.Decode(&o); err != nil {
			_ = unix.Pause() // outlives the test's end of the socket, as nodes outlive the daemon
		}
		answer := "ok"
		if err := obey(o); err != nil {
			answer = err.Error()
		}
		fmt.Fprintln(conn, answer)
	}
}

// readOnlyState tries to write where a node must not.
func readOnlyState(dir, id string) string {
	n, _ := strconv.Atoi(id)
	for _, path := range []string{filepath.Join(dir, "pages", strconv.Itoa(n^1)), filepath.Join(dir, "new"), "/uetlab"} {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
		if err == nil {
			f.Close()
			return "could-write-" + path
		}
	}
	return "confined"
}

func obey(o order) error {
	prepare := hostnet.PrepareLab
	if o.Host != nil {
		prepare = hostnet.PrepareHost
	}
	if err := prepare(); err != nil {
		return err
	}
	if o.Forward {
		if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0); err != nil {
			return err
		}
	}
	if o.Host != nil {
		return hostnet.ConfigureHost(*o.Host)
	}
	for _, p := range o.Ports {
		if err := hostnet.Guard(p); err != nil {
			return err
		}
		if err := hostnet.Up(p); err != nil {
			return err
		}
	}
	return nil
}

// lab is a lab directory, its nodes and the socket on which they report.
type lab struct {
	t       testing.TB
	rt      *embedded.Runtime
	name    string
	dir     string
	ln      *net.UnixListener
	specs   []runtime.Spec
	handles []runtime.Handle
	conns   []net.Conn
	readers []*bufio.Reader
}

func newLab(t testing.TB, name string, n int, kind topology.Kind) *lab {
	t.Helper()
	needNamespaces(t)
	dir, err := os.MkdirTemp("", "uet") // short: a unix socket's path is limited
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	l := &lab{t: t, rt: embedded.New(), name: name, dir: dir}
	if err := os.Mkdir(filepath.Join(dir, "pages"), 0o700); err != nil {
		t.Fatal(err)
	}
	l.ln, err = net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "node.sock"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		page := filepath.Join(dir, "pages", strconv.Itoa(i))
		if err := os.WriteFile(page, make([]byte, 4096), 0o600); err != nil {
			t.Fatal(err)
		}
		node := fmt.Sprintf("n%d", i)
		l.specs = append(l.specs, runtime.Spec{
			Lab: name, Name: node, ID: i, Kind: kind, Dir: dir, Page: page, Log: filepath.Join(dir, node+".log"),
		})
	}
	t.Cleanup(l.close)
	return l
}

// close ends everything, whatever state the test left.
func (l *lab) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	if err := l.rt.Stop(ctx, l.name, l.handles); err != nil {
		l.t.Error(err)
	}
	for _, c := range l.conns {
		if c != nil {
			c.Close()
		}
	}
	l.ln.Close()
	if l.t.Failed() {
		for _, s := range l.specs {
			if b, _ := os.ReadFile(s.Log); len(b) > 0 {
				l.t.Logf("%s: %s", s.Name, b)
			}
		}
	}
}

// start starts all nodes and waits until each has reported from inside its root.
func (l *lab) start() {
	l.t.Helper()
	handles, err := l.rt.Start(context.Background(), l.specs, nil)
	if err != nil {
		l.t.Fatal(err)
	}
	l.handles = make([]runtime.Handle, len(l.specs))
	for _, h := range handles {
		l.handles[h.ID] = h
	}
	l.conns = make([]net.Conn, len(l.specs))
	l.readers = make([]*bufio.Reader, len(l.specs))
	for range l.specs {
		l.accept()
	}
}

// accept takes one node's report.
func (l *lab) accept() {
	l.t.Helper()
	_ = l.ln.SetDeadline(time.Now().Add(90 * time.Second)) // a guard against hanging, not a measure
	c, err := l.ln.Accept()
	if err != nil {
		l.t.Fatalf("waiting for nodes: %v", err)
	}
	r := bufio.NewReader(c)
	line, err := r.ReadString('\n')
	if err != nil {
		l.t.Fatal(err)
	}
	f := strings.Fields(line)
	id, _ := strconv.Atoi(f[0])
	if want := fmt.Sprintf("n%d 1 confined", id); strings.Join(f[1:], " ") != want {
		l.t.Errorf("node %d reports %q, want %q", id, strings.Join(f[1:], " "), want)
	}
	l.conns[id], l.readers[id] = c, r
}

// tell sends an order to a node and fails the test if it is not carried out.
func (l *lab) tell(id int, o order) {
	l.t.Helper()
	l.send(id, o)
	l.obeyed(id)
}

func (l *lab) send(id int, o order) {
	l.t.Helper()
	if err := json.NewEncoder(l.conns[id]).Encode(o); err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) obeyed(id int) {
	l.t.Helper()
	answer, err := l.readers[id].ReadString('\n')
	if err != nil || answer != "ok\n" {
		l.t.Fatalf("node %d: %q %v", id, answer, err)
	}
}

// exec runs a command in a node and returns its exit code and output.
func (l *lab) exec(id int, argv ...string) (int, string) {
	l.t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		l.t.Fatal(err)
	}
	defer r.Close()
	out := make(chan string, 1)
	go func() {
		var b strings.Builder
		_, _ = bufio.NewReader(r).WriteTo(&b)
		out <- b.String()
	}()
	code, err := l.rt.Exec(context.Background(), runtime.Exec{
		Handle: l.handles[id], Argv: argv, Env: []string{"PATH=" + os.Getenv("PATH")}, Files: [3]*os.File{nil, w, w},
	})
	w.Close()
	text := <-out
	if err != nil {
		l.t.Fatalf("exec %v in node %d: %v", argv, id, err)
	}
	return code, text
}

// kill9 kills a node behind the runtime's back.
func (l *lab) kill9(id int) {
	l.t.Helper()
	if err := syscall.Kill(l.handles[id].Pid, syscall.SIGKILL); err != nil {
		l.t.Fatal(err)
	}
}
