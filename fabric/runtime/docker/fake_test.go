package docker

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/docker/docker/client"

	"github.com/uetlab/uetlab/fabric/runtime"
)

// fake is an engine made of canned answers by method and path without the version; others are 404. It notes what was
// asked for.
type fake struct {
	mu      sync.Mutex
	asked   []string
	answers map[string]http.HandlerFunc
}

// newFake serves answers on a unix socket and connects a Runtime to it.
func newFake(t *testing.T, answers map[string]http.HandlerFunc) (*fake, *Runtime) {
	t.Helper()
	f := &fake{answers: answers}
	dir, err := os.MkdirTemp("", "uetlab-fake-") // t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	l, err := net.Listen("unix", filepath.Join(dir, "sock"))
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(f)
	srv.Listener.Close()
	srv.Listener = l
	srv.Start()
	t.Cleanup(srv.Close)
	t.Setenv("DOCKER_HOST", "unix://"+l.Addr().String())
	r, err := New(t.Context(), Config{Binary: staticFile(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return f, r
}

func (f *fake) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	path := req.URL.Path
	if rest, ok := strings.CutPrefix(path, "/v1.41"); ok {
		path = rest
	}
	key := req.Method + " " + path
	if path == "/_ping" {
		w.Header().Set("Api-Version", "1.41")
		return
	}
	f.mu.Lock()
	f.asked = append(f.asked, key)
	f.mu.Unlock()
	if h, ok := f.answers[key]; ok {
		h(w, req)
		return
	}
	refuse(http.StatusNotFound, "no such thing: "+key)(w, req)
}

func refuse(code int, message string) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(map[string]string{"message": message})
	}
}

func reply(v any) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v)
	}
}

// elfFile is the start of an executable with one program header.
func elfFile(segment uint32) []byte {
	var b bytes.Buffer
	le := binary.LittleEndian
	b.WriteString("\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00")
	for _, v := range []any{uint16(2), uint16(62), uint32(1), uint64(0), uint64(64), uint64(0), uint32(0),
		uint16(64), uint16(56), uint16(1), uint16(0), uint16(0), uint16(0), // file header
		segment, uint32(4), uint64(0), uint64(0), uint64(0), uint64(8), uint64(8), uint64(1)} {
		_ = binary.Write(&b, le, v)
	}
	return b.Bytes()
}

func staticFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "uetlab")
	if err := os.WriteFile(path, elfFile(1), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestNewSaysWhyThereIsNoEngine(t *testing.T) {
	t.Setenv("DOCKER_HOST", "unix:///nonexistent/docker.sock")
	if _, err := New(t.Context(), Config{}); !errors.Is(err, ErrNoDaemon) || !strings.Contains(err.Error(), "/nonexistent/docker.sock") {
		t.Errorf("no socket: %v", err)
	}

	dead := filepath.Join(t.TempDir(), "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: dead, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	t.Setenv("DOCKER_HOST", "unix://"+dead)
	if _, err := New(t.Context(), Config{}); !errors.Is(err, ErrNoDaemon) {
		t.Errorf("nobody listens: %v", err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := New(ctx, Config{}); !errors.Is(err, context.Canceled) || errors.Is(err, ErrNoDaemon) {
		t.Errorf("cancelled: %v", err)
	}

	t.Setenv("DOCKER_HOST", "tcp://192.0.2.1:2375")
	if _, err := New(t.Context(), Config{}); !errors.Is(err, ErrRemote) {
		t.Errorf("remote: %v", err)
	}
	t.Setenv("DOCKER_HOST", "nonsense")
	if _, err := New(t.Context(), Config{}); err == nil {
		t.Error("nonsense in DOCKER_HOST did not fail")
	}
}

// TestNoPermission lets the client itself wrap the error, since root could open any socket.
func TestNoPermission(t *testing.T) {
	denied := &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError("connect", syscall.EACCES)}
	}}}
	cli, err := client.NewClientWithOpts(client.WithHost("unix:///run/docker.sock"), client.WithHTTPClient(denied))
	if err != nil {
		t.Fatal(err)
	}
	_, err = cli.Ping(t.Context())
	if err = connectError(cli.DaemonHost(), err); !errors.Is(err, ErrPermission) || !strings.Contains(err.Error(), "group") {
		t.Errorf("got %v", err)
	}
}

func TestBinaryMustBeStatic(t *testing.T) {
	write := func(data []byte) string {
		path := filepath.Join(t.TempDir(), "b")
		if err := os.WriteFile(path, data, 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	if _, err := readBinary(write(elfFile(3))); !errors.Is(err, ErrNotStatic) || !strings.Contains(err.Error(), "CGO_ENABLED=0") {
		t.Errorf("with interpreter: %v", err)
	}
	if _, err := readBinary(write([]byte("#!/bin/sh\n"))); err == nil {
		t.Error("a script was taken")
	}
	if _, err := readBinary("/nonexistent"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
	if b, err := readBinary(write(elfFile(1))); err != nil || len(b.sha) != 64 {
		t.Errorf("static: %+v, %v", b, err)
	}
}

func TestFailedBuild(t *testing.T) {
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"refused": {refuse(http.StatusInternalServerError, "no space left on device"), "no space left on device"},
		"in the stream": {func(w http.ResponseWriter, req *http.Request) {
			_, _ = io.Copy(io.Discard, req.Body)
			fmt.Fprint(w, `{"stream":"Step 1/4"}{"errorDetail":{"message":"COPY failed"},"error":"COPY failed"}`)
		}, "COPY failed"},
		"old style":   {reply(map[string]string{"error": "unpack failed"}), "unpack failed"},
		"not JSON":    {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }, "engine's answer"},
		"upload ends": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }, "build image uetlab:"},
	} {
		t.Run(name, func(t *testing.T) {
			f, r := newFake(t, map[string]http.HandlerFunc{"POST /build": c.answer, "GET /containers/json": reply([]any{})})
			_, err := r.Start(t.Context(), newLab(t, nil, 2), nil)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want %q", err, c.want)
			}
			if slices.Contains(f.asked, "POST /containers/create") {
				t.Error("containers were created without an image")
			}
		})
	}
}

// TestUnknownFiltersDoNoHarm has an engine that ignores filters and lists a container that is not ours.
func TestUnknownFiltersDoNoHarm(t *testing.T) {
	list := []map[string]any{
		{"Id": "aaaa", "Labels": map[string]string{}},
		{"Id": "bbbb", "Labels": map[string]string{labelLab: "other", labelNode: "n", labelUID: fmt.Sprint(os.Getuid())}},
		{"Id": "cccc", "Labels": map[string]string{labelLab: "mine", labelNode: "n", labelUID: "4294967294"}},
	}
	f, r := newFake(t, map[string]http.HandlerFunc{"GET /containers/json": reply(list)})
	if err := r.Stop(t.Context(), "mine", []runtime.Handle{{Node: "n", Ref: "aaaa"}}); err != nil {
		t.Fatal(err)
	}
	for _, a := range f.asked {
		if strings.HasPrefix(a, "DELETE") {
			t.Errorf("asked for %s", a)
		}
	}
}

func TestStopSaysWhatStays(t *testing.T) {
	list := []map[string]any{{"Id": "dddd", "Names": []string{"/uetlab-mine-n"},
		"Labels": map[string]string{labelLab: "mine", labelNode: "n", labelUID: fmt.Sprint(os.Getuid())}}}
	_, r := newFake(t, map[string]http.HandlerFunc{
		"GET /containers/json":    reply(list),
		"DELETE /containers/dddd": refuse(http.StatusInternalServerError, "device or resource busy"),
	})
	err := r.Stop(t.Context(), "mine", nil)
	if err == nil || !strings.Contains(err.Error(), "uetlab-mine-n") || !strings.Contains(err.Error(), "busy") {
		t.Errorf("got %v", err)
	}
}

// TestCreateFails has the engine refuse the second container: the first must be removed.
func TestCreateFails(t *testing.T) {
	var mu sync.Mutex
	var made map[string]string // labels of the container that exists
	answers := map[string]http.HandlerFunc{
		"POST /build": reply(map[string]string{"stream": "done"}),
		"POST /containers/create": func(w http.ResponseWriter, req *http.Request) {
			var body struct{ Labels map[string]string }
			_ = json.NewDecoder(req.Body).Decode(&body)
			mu.Lock()
			defer mu.Unlock()
			if made != nil {
				refuse(http.StatusInternalServerError, "disk full")(w, req)
				return
			}
			made = body.Labels
			reply(map[string]string{"Id": "eeee"})(w, req)
		},
		"GET /containers/json": func(w http.ResponseWriter, req *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			list := []map[string]any{}
			if made != nil {
				list = append(list, map[string]any{"Id": "eeee", "Labels": made})
			}
			reply(list)(w, req)
		},
		"DELETE /containers/eeee": func(http.ResponseWriter, *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			made = nil
		},
	}
	f, r := newFake(t, answers)
	_, err := r.Start(t.Context(), newLab(t, nil, 3), nil)
	if err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Fatalf("got %v", err)
	}
	if made != nil {
		t.Errorf("a container stayed; asked: %v", f.asked)
	}
}
