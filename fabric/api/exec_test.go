package api

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// stdio gives three descriptors that lead nowhere.
func stdio(t *testing.T) [3]*os.File {
	t.Helper()
	f, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return [3]*os.File{f, f, f}
}

// execDaemon listens on an exec socket and serves one client with h.
func execDaemon(t *testing.T, h func(*net.UnixConn)) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ux")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "exec.sock")
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := l.AcceptUnix()
		if err != nil {
			return
		}
		defer conn.Close()
		h(conn)
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
		os.RemoveAll(dir)
	})
	return path
}

func TestExecHandsOverFilesSignalsAndTheExitCode(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	path := execDaemon(t, func(c *net.UnixConn) {
		req, files, err := ReadExecRequest(c)
		if err != nil || req.Node != "leaf0" || strings.Join(req.Argv, " ") != "ip link" || !req.TTY || req.Rows != 24 {
			t.Errorf("%+v, %v", req, err)
			return
		}
		_, _ = files[1].WriteString("output")
		for _, f := range files {
			f.Close()
		}
		if s, err := ReadExecSignal(c); err != nil || s != syscall.SIGINT {
			t.Errorf("signal %v, %v", s, err)
		}
		if err := WriteExecReply(c, ExecReply{Code: 42}); err != nil {
			t.Error(err)
		}
	})
	sigs := make(chan os.Signal, 1)
	sigs <- syscall.SIGINT
	files := stdio(t)
	files[1] = w
	code, err := Exec(context.Background(), path, ExecRequest{Node: "leaf0", Argv: []string{"ip", "link"}, TTY: true, Rows: 24}, files, sigs)
	if code != 42 || err != nil {
		t.Errorf("code %d, %v", code, err)
	}
	w.Close()
	buf := make([]byte, 16)
	if n, _ := r.Read(buf); string(buf[:n]) != "output" {
		t.Errorf("output %q", buf[:n])
	}
}

func TestExecError(t *testing.T) {
	path := execDaemon(t, func(c *net.UnixConn) {
		_, files, err := ReadExecRequest(c)
		if err != nil {
			t.Error(err)
			return
		}
		for _, f := range files {
			f.Close()
		}
		_ = WriteExecReply(c, ExecReply{Code: CodeExecMissing, Error: Errorf(CodeFailure, "nonesuch: not there")})
	})
	code, err := Exec(context.Background(), path, ExecRequest{Node: "leaf0", Argv: []string{"nonesuch"}}, stdio(t), nil)
	if code != CodeExecMissing || AsError(err).Message != "nonesuch: not there" {
		t.Errorf("code %d, %v", code, err)
	}
}

func TestExecDaemonThatGoes(t *testing.T) {
	path := execDaemon(t, func(c *net.UnixConn) {
		if _, files, err := ReadExecRequest(c); err == nil {
			for _, f := range files {
				f.Close()
			}
		}
	})
	if _, err := Exec(context.Background(), path, ExecRequest{Node: "leaf0"}, stdio(t), nil); !errors.Is(err, ErrNoDaemon) {
		t.Errorf("%v", err)
	}
}

func TestExecEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	path := execDaemon(t, func(c *net.UnixConn) {
		_, files, err := ReadExecRequest(c)
		if err != nil {
			t.Error(err)
			return
		}
		for _, f := range files {
			f.Close()
		}
		cancel()
		if _, err := ReadExecSignal(c); err == nil {
			t.Error("the client did not hang up")
		}
	})
	if _, err := Exec(ctx, path, ExecRequest{Node: "leaf0"}, stdio(t), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// TestExecRefusesWhatIsNotARequest sends packets that are no request, and counts descriptors before and after.
func TestExecRefusesWhatIsNotARequest(t *testing.T) {
	null := int(stdio(t)[0].Fd())
	for name, send := range map[string]struct {
		body []byte
		fds  []int
	}{
		"no descriptors": {[]byte(`{"node":"leaf0"}`), nil},
		"too few":        {[]byte(`{"node":"leaf0"}`), []int{null, null}},
		"not JSON":       {[]byte(`node`), []int{null, null, null}},
		"empty":          {nil, []int{null, null, null}},
	} {
		t.Run(name, func(t *testing.T) {
			before := openFiles(t)
			path := execDaemon(t, func(c *net.UnixConn) {
				if _, _, err := ReadExecRequest(c); err == nil {
					t.Error("took it for a request")
				}
			})
			c, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"})
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := c.WriteMsgUnix(send.body, syscall.UnixRights(send.fds...), nil); err != nil {
				t.Fatal(err)
			}
			_, _ = c.Read(make([]byte, 1)) // until the daemon hangs up
			c.Close()
			t.Cleanup(func() {
				if after := openFiles(t); after > before+2 { // the listener goes later
					t.Errorf("%d files open before, %d after", before, after)
				}
			})
		})
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}
