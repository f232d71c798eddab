package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/labdir"
	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/workload"
)

// answer is how a command ended.
type answer struct {
	args           []string
	stdout, stderr string
	code           int
}

func (a answer) String() string {
	return fmt.Sprintf("uetlab %s: exit code %d\n%s%s", strings.Join(a.args, " "), a.code, a.stdout, a.stderr)
}

// process is a uetlab command that runs.
type process struct {
	cmd    *exec.Cmd
	cancel context.CancelFunc
	args   []string
	out    bytes.Buffer
	err    syncBuffer
	done   chan struct{}
}

// syncBuffer can be read while a process still writes.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// commandTime is how long a command may take before it is killed as stuck.
const commandTime = 120 * time.Second

// spawn starts a command. With prepare the caller may change how.
func spawn(t testing.TB, prepare func(*exec.Cmd), args ...string) *process {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), commandTime)
	p := &process{cmd: exec.CommandContext(ctx, binary, args...), cancel: cancel, args: args, done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), envMark+"="+mark)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.err
	p.cmd.WaitDelay = 5 * time.Second
	if prepare != nil {
		prepare(p.cmd)
	}
	if err := p.cmd.Start(); err != nil {
		cancel()
		t.Fatalf("uetlab %s: %v", strings.Join(args, " "), err)
	}
	go func() { // ends with the process
		_ = p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() { p.kill() })
	return p
}

// kill ends the process if it has not ended.
func (p *process) kill() {
	select {
	case <-p.done:
	default:
		_ = p.cmd.Process.Kill()
		<-p.done
	}
	p.cancel()
}

func (p *process) signal(t testing.TB, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// wait gives the process's answer.
func (p *process) wait() answer {
	<-p.done
	p.cancel()
	return answer{p.args, p.out.String(), p.err.String(), p.cmd.ProcessState.ExitCode()}
}

// uetlab runs a command to its end.
func uetlab(t testing.TB, args ...string) answer {
	t.Helper()
	return spawn(t, nil, args...).wait()
}

// lab is a lab under test.
type lab struct {
	name string
	dir  *labdir.Dir
	api  *api.Client
	plan topology.Plan
	as   func(*exec.Cmd) // nil: as this user
}

var labCount int

// newName makes a name that no other lab has.
func newName() string {
	labCount++
	return mark + "-" + strconv.Itoa(labCount)
}

// up brings a lab up on the runtime under test and takes it down when the test ends.
func up(t testing.TB, topo string, flags ...string) *lab {
	t.Helper()
	l, err := bringUp(newName(), runtime, topo, flags...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		l.tell(t)
		if a := uetlab(t, "down", l.name); a.code != 0 {
			t.Error(a)
		}
		l.api.Close()
	})
	return l
}

func bringUp(name, rt, topo string, flags ...string) (*lab, error) {
	start := time.Now()
	args := append([]string{"up", topo, "--name", name, "--runtime", rt, "--format", "json"}, flags...)
	cmd := exec.Command(binary, args...)
	cmd.Env = append(os.Environ(), envMark+"="+mark)
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("uetlab %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	upTimes = append(upTimes, fmt.Sprintf("up %s on %s: %.2f s", topo, rt, time.Since(start).Seconds()))
	d, err := labdir.Open(name)
	if err != nil {
		return nil, err
	}
	l := &lab{name: name, dir: d, api: api.Unix(d.Sock())}
	l.plan, err = l.api.Plan(context.Background())
	return l, err
}

// tell prints the logs of a lab whose test has failed.
func (l *lab) tell(t testing.TB) {
	if !t.Failed() {
		return
	}
	entries, err := os.ReadDir(l.dir.Logs())
	if err != nil {
		t.Logf("logs of lab %s: %v", l.name, err)
	}
	for _, e := range entries {
		b, err := os.ReadFile(l.dir.Logs() + "/" + e.Name())
		if err == nil && len(b) > 0 {
			t.Logf("%s:\n%s", e.Name(), b[max(0, len(b)-4096):])
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_ = l.api.Events(ctx, false, func(e api.Event) error {
		t.Logf("event %d at %d ns: %s %s%s: %s", e.Seq, e.VirtualNs, e.Kind, e.Node, e.Link, e.Text)
		return nil
	})
}

var shared struct {
	lab  *lab
	err  error
	once sync.Once
}

// sharedLab is one fat-tree-2x4 for all tests that leave a lab as they find it.
func sharedLab(t *testing.T) *lab {
	t.Helper()
	needRoot(t)
	shared.once.Do(func() { shared.lab, shared.err = bringUp(mark+"-shared", runtime, "fat-tree-2x4") })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	l := shared.lab
	t.Cleanup(func() { l.tell(t) })
	return l
}

// kept are labs of topologies that several tests share, by name.
var kept = map[string]*lab{}

// keptLab is one lab of a topology for all tests that ask for it by this name and leave it as they find it.
func keptLab(t *testing.T, name, topo string) *lab {
	t.Helper()
	needRoot(t)
	l := kept[name]
	if l == nil {
		var err error
		if l, err = bringUp(mark+"-"+name, runtime, writeFile(t, name+".yaml", topo)); err != nil {
			t.Fatal(err)
		}
		kept[name] = l
	}
	t.Cleanup(func() { l.tell(t) })
	return l
}

// dropShared takes the shared labs down.
func dropShared() error {
	for _, l := range kept {
		if out, err := exec.Command(binary, "down", l.name).CombinedOutput(); err != nil {
			return fmt.Errorf("down %s: %w\n%s", l.name, err, out)
		}
	}
	if shared.lab == nil && shared.err == nil {
		return nil
	}
	start := time.Now()
	out, err := exec.Command(binary, "down", mark+"-shared").CombinedOutput()
	if err != nil {
		return fmt.Errorf("down %s-shared: %w\n%s", mark, err, out)
	}
	upTimes = append(upTimes, fmt.Sprintf("down fat-tree-2x4 on %s: %.2f s", runtime, time.Since(start).Seconds()))
	return nil
}

// start starts a command on the lab.
func (l *lab) start(t testing.TB, args ...string) *process {
	t.Helper()
	return spawn(t, l.as, withName(args, l.name)...)
}

// withName puts --name before the first "--".
func withName(args []string, name string) []string {
	for i, a := range args {
		if a == "--" {
			return append(append(append([]string{}, args[:i]...), "--name", name), args[i:]...)
		}
	}
	return append(append([]string{}, args...), "--name", name)
}

// do runs a command on the lab to its end.
func (l *lab) do(t testing.TB, args ...string) answer {
	t.Helper()
	return l.start(t, args...).wait()
}

// ok runs a command on the lab that must succeed and gives its output.
func (l *lab) ok(t testing.TB, args ...string) string {
	t.Helper()
	a := l.do(t, args...)
	if a.code != 0 {
		t.Fatal(a)
	}
	return a.stdout
}

// decode reads JSON that a command printed.
func decode[T any](t testing.TB, text string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("not the JSON expected: %v\n%s", err, text)
	}
	return v
}

// run runs a workload to its end.
func (l *lab) run(t testing.TB, args ...string) workload.Result {
	t.Helper()
	return result(t, l.startRun(t, args...))
}

func (l *lab) startRun(t testing.TB, args ...string) *process {
	t.Helper()
	return l.start(t, append([]string{"run", "--format", "json"}, args...)...)
}

// result waits for a run and demands that it is exact.
func result(t testing.TB, p *process) workload.Result {
	t.Helper()
	a := p.wait()
	if a.code != 0 {
		t.Fatal(a)
	}
	r := decode[workload.Result](t, a.stdout)
	if r.Fidelity.Verdict != "exact" || r.Fidelity.Late != 0 {
		t.Errorf("%s: fidelity %+v, want exact and none late", strings.Join(a.args, " "), r.Fidelity)
	}
	return r
}

// clock reads the lab's clock.
func (l *lab) clock(t testing.TB) api.Clock {
	t.Helper()
	c, err := l.api.Clock(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// counters gives all counters of the lab, by node, port and name.
func (l *lab) counters(t testing.TB) map[string]uint64 {
	t.Helper()
	all, err := l.api.Stats(context.Background(), "")
	if err != nil {
		t.Fatal(err)
	}
	m := map[string]uint64{}
	for _, n := range all {
		for _, p := range n.Ports {
			for k, v := range p.Counters {
				m[n.Name+" "+p.Name+" "+k] = v
			}
		}
		for k, v := range n.FEP {
			m[n.Name+" fep "+k] = v
		}
	}
	return m
}

// sum adds up what pick picks of counters; keys are "node port counter", with "fep" for an end point's own.
func sum(counters map[string]uint64, pick func(node, port, counter string) bool) uint64 {
	var n uint64
	for k, v := range counters {
		if f := strings.Fields(k); pick(f[0], f[1], f[2]) {
			n += v
		}
	}
	return n
}

// minus gives what counters have gained.
func minus(after, before map[string]uint64) map[string]uint64 {
	d := map[string]uint64{}
	for k, v := range after {
		if v != before[k] {
			d[k] = v - before[k]
		}
	}
	return d
}
