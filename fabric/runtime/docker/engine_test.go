package docker

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/uetlab/uetlab/fabric/runtime"
	"github.com/uetlab/uetlab/fabric/topology"
)

// engine connects to the engine of this machine with a small binary as the node, or skips the test.
func engine(t *testing.T) *Runtime {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a Docker engine; left out with -short")
	}
	if os.Getuid() != 0 {
		t.Skip("nodes in containers need a root lab daemon")
	}
	r, err := New(t.Context(), Config{Binary: nodeBinary(t), Version: "test"})
	if errors.Is(err, ErrNoDaemon) || errors.Is(err, ErrPermission) || errors.Is(err, ErrRemote) {
		t.Skipf("needs a Docker engine: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

var buildNode = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "uetlab-node-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, "node")
	cmd := exec.Command("go", "build", "-trimpath", "-o", out, "./testdata/node")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if msg, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, msg)
	}
	return os.ReadFile(out)
})

// nodeBinary builds testdata/node once and writes it where the test can find it.
func nodeBinary(t *testing.T) string {
	t.Helper()
	data, err := buildNode()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "node")
	if err := os.WriteFile(path, data, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// newLab makes the files of a lab of n nodes and has everything of it removed at the end.
func newLab(t *testing.T, r *Runtime, n int) []runtime.Spec {
	t.Helper()
	var b [4]byte
	_, _ = rand.Read(b[:])
	lab := "test-" + hex.EncodeToString(b[:])
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "pages"), 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(path, text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(dir, "pages", "clock"), "tick")
	logs := t.TempDir()
	var specs []runtime.Spec
	for i := range n {
		s := runtime.Spec{Lab: lab, Name: fmt.Sprintf("host%d", i), ID: i, Kind: topology.KindFEP, Dir: dir,
			Page: filepath.Join(dir, "pages", fmt.Sprint(i)), Log: filepath.Join(logs, fmt.Sprintf("host%d.log", i)),
			Labels: map[string]string{labelLab: lab, "uetlab.extra": "kept"}}
		write(s.Page, "")
		specs = append(specs, s)
	}
	if r != nil {
		t.Cleanup(func() {
			if err := r.Stop(context.Background(), lab, nil); err != nil {
				t.Errorf("clean up lab %s: %v", lab, err)
			}
		})
	}
	return specs
}

// waitLog reads a node's log until it says that the node is ready.
func waitLog(t *testing.T, path string) string {
	t.Helper()
	for end := time.Now().Add(60 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if b, _ := os.ReadFile(path); bytes.Contains(b, []byte("ready\n")) {
			return string(b)
		}
	}
	b, _ := os.ReadFile(path)
	t.Fatalf("node did not become ready; its log: %q", b)
	return ""
}

func TestNodesAreConfined(t *testing.T) {
	r := engine(t)
	ctx := t.Context()
	specs := newLab(t, r, 3)
	var seen []runtime.Handle
	handles, err := r.Start(ctx, specs, func(h runtime.Handle) { seen = append(seen, h) })
	if err != nil {
		t.Fatal(err)
	}
	if len(handles) != 3 || len(seen) != 3 {
		t.Fatalf("%d handles, %d reported; want 3 of each", len(handles), len(seen))
	}
	for i, h := range handles {
		_, v4, _ := execute(t, r, h, []string{"cat", "/proc/sys/net/ipv4/ip_forward"}, nil, "")
		if v4 != "0\n" {
			t.Errorf("node %d: ip_forward is %q", i, v4)
		}
		if h.Node != specs[i].Name || h.ID != i || h.Pid <= 0 || !slices.Contains(seen, h) || !r.Alive(ctx, h) {
			t.Errorf("handle %d: %+v, alive %v, reported %v", i, h, r.Alive(ctx, h), seen)
		}
		log := waitLog(t, specs[i].Log)
		for _, want := range []string{"own page: true", "other page: false", "new page: false", "lab directory: false",
			"root: false", "tmp: true", "clock page: tick", "hostname: " + specs[i].Name} {
			if !strings.Contains(log, want+"\n") {
				t.Errorf("node %d: log lacks %q:\n%s", i, want, log)
			}
		}
		if page, _ := os.ReadFile(specs[i].Page); string(page) != specs[i].Name {
			t.Errorf("node %d wrote %q to its page", i, page)
		}
	}
	c, err := r.cli.ContainerInspect(ctx, handles[1].Ref)
	if err != nil {
		t.Fatal(err)
	}
	checkContainer(t, c, specs[1])
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", handles[1].Pid))
	if err != nil {
		t.Fatal(err)
	}
	// NET_ADMIN 12, NET_RAW 13, SYS_NICE 23
	for _, want := range []string{"CapEff:\t0000000000803000", "CapBnd:\t0000000000803000", "NoNewPrivs:\t1", "Seccomp:\t2"} {
		if !strings.Contains(string(status), want) {
			t.Errorf("process status lacks %q:\n%s", want, status)
		}
	}
}

func checkContainer(t *testing.T, c container.InspectResponse, s runtime.Spec) {
	t.Helper()
	if got, want := c.Name, "/uetlab-"+s.Lab+"-"+s.Name; got != want {
		t.Errorf("name %s, want %s", got, want)
	}
	h := c.HostConfig
	if h.NetworkMode != "none" || !h.ReadonlyRootfs || h.Privileged || h.PublishAllPorts ||
		!slices.Equal(h.CapDrop, []string{"ALL"}) || len(h.CapAdd) != 3 || h.RestartPolicy.Name != "no" {
		t.Errorf("rights: %+v", h)
	}
	if !slices.Contains(h.SecurityOpt, "no-new-privileges:true") || len(h.SecurityOpt) != 1 {
		t.Errorf("security options %v", h.SecurityOpt)
	}
	if h.Memory != defaultMemory && h.Memory != 0 { // 0 where the engine has no memory cgroup
		t.Errorf("memory limit %d", h.Memory)
	}
	if h.PidsLimit == nil || *h.PidsLimit != 64 {
		t.Errorf("pids limit %v", h.PidsLimit)
	}
	for k, want := range map[string]string{"uetlab.lab": s.Lab, "uetlab.node": s.Name, "uetlab.uid": fmt.Sprint(os.Getuid()),
		"uetlab.id": fmt.Sprint(s.ID), "uetlab.version": "test", "uetlab.extra": "kept"} {
		if got := c.Config.Labels[k]; got != want {
			t.Errorf("label %s is %q, want %q", k, got, want)
		}
	}
}

func TestImageIsBuiltOnceAndPruned(t *testing.T) {
	r := engine(t)
	ctx := t.Context()
	first, err := r.Image(ctx)
	if err != nil {
		t.Fatal(err)
	}
	a, err := r.cli.ImageInspect(ctx, first)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := r.Image(ctx); err != nil || again != first {
		t.Fatalf("second call: %s, %v; want %s", again, err, first)
	}
	// A name that points at other content is mended.
	if err := r.build(ctx, executable{data: []byte("x"), sha: "other"}, first, kindNode, "scratch"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Image(ctx); err != nil {
		t.Fatal(err)
	}
	if b, err := r.cli.ImageInspect(ctx, first); err != nil || b.Config.Labels[labelSHA256] != a.Config.Labels[labelSHA256] {
		t.Fatalf("stale image stayed: %+v, %v", b.Config, err)
	}

	// Another binary: the image of the first goes, the one that a container uses stays.
	specs := newLab(t, r, 1)
	if _, err := r.Start(ctx, specs, nil); err != nil {
		t.Fatal(err)
	}
	next, idle := engine(t), engine(t)
	for i, o := range []*Runtime{next, idle} {
		f, err := os.OpenFile(o.cfg.Binary, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(f, "%d %d", i, time.Now().UnixNano())
		f.Close()
	}
	old, err := idle.Image(ctx)
	if err != nil {
		t.Fatal(err)
	}
	now, err := next.Image(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.cli.ImageInspect(ctx, old); !notFound(err) {
		t.Errorf("image %s of an old binary stayed: %v", old, err)
	}
	for _, tag := range []string{first, now} {
		if _, err := r.cli.ImageInspect(ctx, tag); err != nil {
			t.Errorf("image %s: %v", tag, err)
		}
	}
}

func TestStopIsIdempotentAndLeavesOthersAlone(t *testing.T) {
	r := engine(t)
	ctx := t.Context()
	specs, other := newLab(t, r, 2), newLab(t, r, 1)
	if _, err := r.Start(ctx, append(specs, other...), nil); err != nil {
		t.Fatal(err)
	}
	image, err := r.Image(ctx)
	if err != nil {
		t.Fatal(err)
	}
	foreign := map[string]map[string]string{
		"nolabels":  nil,
		"otheruser": {labelLab: specs[0].Lab, labelNode: "host0", labelUID: "4294967294"},
		"nonode":    {labelLab: specs[0].Lab, labelUID: r.uid},
	}
	var handles []runtime.Handle
	for name, labels := range foreign {
		c, err := r.cli.ContainerCreate(ctx, &container.Config{Image: image, Labels: labels}, nil, nil, nil, specs[0].Lab+"-"+name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := r.cli.ContainerRemove(context.Background(), c.ID, container.RemoveOptions{Force: true}); err != nil {
				t.Errorf("container %s: %v", name, err) // also shows that it was still there
			}
		})
		handles = append(handles, runtime.Handle{Node: "host0", Ref: c.ID})
	}
	if err := r.Stop(ctx, specs[0].Lab, handles); err != nil {
		t.Fatal(err)
	}
	if err := r.Stop(ctx, specs[0].Lab, handles); err != nil {
		t.Fatalf("second stop: %v", err)
	}
	if found, err := r.List(ctx, specs[0].Lab); err != nil || len(found) != 0 {
		t.Errorf("left: %v, %v", found, err)
	}
	found, err := r.List(ctx, other[0].Lab)
	if err != nil || len(found) != 1 || !found[0].Running || found[0].Node != "host0" {
		t.Fatalf("the other lab: %+v, %v", found, err)
	}
	if h, err := r.Inspect(ctx, found[0]); err != nil || h.Pid == 0 || h.ID != 0 {
		t.Errorf("adopted handle %+v, %v", h, err)
	}
	if err := r.Stop(ctx, "", nil); err == nil {
		t.Error("stop without a lab's name did not fail")
	}
}

// TestTwoStopsAtOnce has the loser meet removals that are under way.
func TestTwoStopsAtOnce(t *testing.T) {
	r := engine(t)
	specs := newLab(t, r, 2)
	if _, err := r.Start(t.Context(), specs, nil); err != nil {
		t.Fatal(err)
	}
	errs := make(chan error, 2)
	for range 2 {
		go func() { errs <- r.Stop(t.Context(), specs[0].Lab, nil) }()
	}
	for range 2 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

func TestCancelledStartLeavesNothing(t *testing.T) {
	r := engine(t)
	for _, at := range []int{0, 1} { // before the first, after the first node runs
		t.Run(fmt.Sprintf("after %d", at), func(t *testing.T) {
			specs := newLab(t, r, 6)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if at == 0 {
				go func() { // when the first container is created
					for found, err := r.List(t.Context(), specs[0].Lab); err == nil && len(found) == 0; {
						found, err = r.List(t.Context(), specs[0].Lab)
					}
					cancel()
				}()
			}
			n := 0
			handles, err := r.Start(ctx, specs, func(runtime.Handle) {
				if n++; n == at {
					cancel()
				}
			})
			if !errors.Is(err, context.Canceled) || handles != nil {
				t.Fatalf("got %v, %v; want cancelled", handles, err)
			}
			if n > at {
				t.Errorf("%d nodes reported after the end", n-at)
			}
			if found, err := r.List(t.Context(), specs[0].Lab); err != nil || len(found) != 0 {
				t.Errorf("left: %+v, %v", found, err)
			}
		})
	}
}

func TestFailedStartLeavesNothing(t *testing.T) {
	r := engine(t)
	specs := newLab(t, r, 3)
	if err := os.Remove(specs[1].Page); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Start(t.Context(), specs, nil); err == nil || !strings.Contains(err.Error(), "node host1: page of the node") {
		t.Fatalf("got %v", err)
	}
	if found, err := r.List(t.Context(), specs[0].Lab); err != nil || len(found) != 0 {
		t.Errorf("left: %+v, %v", found, err)
	}
}

// TestNodeThatEnds has a node give up: Start says so with the node's own words, or, if it looked too early, Alive does.
func TestNodeThatEnds(t *testing.T) {
	r := engine(t)
	specs := newLab(t, r, 1)
	specs[0].Name = "broken"
	handles, err := r.Start(t.Context(), specs, nil)
	if err != nil {
		if !strings.Contains(err.Error(), "broken ended at once with code 3: no such fabric") {
			t.Fatal(err)
		}
		return
	}
	code, errs := r.cli.ContainerWait(t.Context(), handles[0].Ref, container.WaitConditionNotRunning)
	select {
	case c := <-code:
		if c.StatusCode != 3 || r.Alive(t.Context(), handles[0]) {
			t.Errorf("code %d, alive %v", c.StatusCode, r.Alive(t.Context(), handles[0]))
		}
	case err := <-errs:
		t.Fatal(err)
	}
}

// TestSecondStartKeepsTheFirst starts a lab whose names are taken: the running lab must survive the clean-up.
func TestSecondStartKeepsTheFirst(t *testing.T) {
	r := engine(t)
	specs := newLab(t, r, 2)
	if _, err := r.Start(t.Context(), specs[:1], nil); err != nil {
		t.Fatal(err)
	}
	_, err := r.Start(t.Context(), specs, nil)
	if !errors.Is(err, ErrNameTaken) || !strings.Contains(err.Error(), "uetlab down "+specs[0].Lab) {
		t.Fatalf("got %v", err)
	}
	if found, err := r.List(t.Context(), specs[0].Lab); err != nil || len(found) != 1 || !found[0].Running {
		t.Errorf("first lab: %+v, %v", found, err)
	}
}

func TestRestartGivesANewProcess(t *testing.T) {
	r := engine(t)
	specs := newLab(t, r, 1)
	handles, err := r.Start(t.Context(), specs, nil)
	if err != nil {
		t.Fatal(err)
	}
	h, err := r.Restart(t.Context(), handles[0], runtime.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	if h.Pid == handles[0].Pid || h.Pid == 0 || h.Ref != handles[0].Ref || !r.Alive(t.Context(), h) {
		t.Errorf("before %+v, after %+v", handles[0], h)
	}
}
