package control

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/runtime"
	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/internal/clock"
	"github.com/uetlab/uetlab/internal/ctl"
	"github.com/uetlab/uetlab/internal/vt"
)

// lab is a daemon whose nodes are the test's: it writes their pages and answers their messages.
type lab struct {
	*Daemon
	t     testing.TB
	pages []*clock.NodePage // the nodes' own mappings
	clock *clock.ClockPage  // as nodes see it
	fakes []*fake

	refuse atomic.Bool // the last node says no to changes
}

// fake is the far end of a node's connection: it notes what it is sent and says yes.
type fake struct {
	conn   *ctl.Conn
	refuse *atomic.Bool
	mu     sync.Mutex
	got    []ctl.Message
	pdcs   func(from int) ctl.PDCs // under mu: answers "pdcs"
}

func (f *fake) take() []ctl.Message {
	f.mu.Lock()
	defer f.mu.Unlock()
	got := f.got
	f.got = nil
	return got
}

func generate(t testing.TB, name string) *topology.Plan {
	t.Helper()
	spec, err := topology.Generate(name)
	if err != nil {
		t.Fatal(err)
	}
	p, err := topology.BuildPlan(spec)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// newLab makes the daemon of a plan, with pages but without nodes.
func newLab(t testing.TB, topo, time string) *lab {
	t.Helper()
	plan := generate(t, topo)
	d, err := New(Options{UpOptions: api.UpOptions{Lab: "test", Time: time, Seed: 1, Plan: plan}}, nil, noRuntime{}, slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{Daemon: d, t: t}
	dir := t.TempDir()
	if d.clk, err = clock.Create(dir, len(plan.Nodes)); err != nil {
		t.Fatal(err)
	}
	if l.clock, err = clock.OpenClock(dir, false); err != nil {
		t.Fatal(err)
	}
	for i := range plan.Nodes {
		own, err := clock.OpenNode(dir, i, true)
		if err != nil {
			t.Fatal(err)
		}
		own.Reset(0)
		l.pages = append(l.pages, own)
		n := &node{id: i, name: plan.Nodes[i].Name, wait: map[uint64]chan answer{}, hello: make(chan struct{})}
		if n.page, err = clock.OpenNode(dir, i, false); err != nil {
			t.Fatal(err)
		}
		d.nodes = append(d.nodes, n)
	}
	d.startClock()
	return l
}

// pairOf makes the two ends of a node's connection.
func pairOf(t testing.TB) (daemon, node *ctl.Conn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return ctl.NewConn(fds[0]), ctl.NewConn(fds[1])
}

// connect gives every node a far end.
func (l *lab) connect() {
	l.t.Helper()
	for i, n := range l.nodes {
		near, far := pairOf(l.t)
		f := &fake{conn: far}
		if i == len(l.nodes)-1 {
			f.refuse = &l.refuse
		}
		l.fakes = append(l.fakes, f)
		served := make(chan struct{})
		go func() { defer close(served); l.serveNode(near) }() // ends with the far end
		null, err := os.Open(os.DevNull)
		if err != nil {
			l.t.Fatal(err)
		}
		if err := f.conn.Send(&ctl.Reply{Hello: &ctl.Hello{Lab: "test", Node: n.name, ID: i}}, null); err != nil {
			l.t.Fatal(err)
		}
		null.Close()
		<-n.hello
		answered := make(chan struct{})
		go func() { defer close(answered); f.answer() }() // ends with the connection
		l.t.Cleanup(func() {
			l.stopping.Store(true)
			f.conn.Shutdown()
			<-answered
			<-served
			f.conn.Close()
		})
	}
}

func (f *fake) answer() {
	for {
		var m ctl.Message
		if _, err := f.conn.Recv(&m, true); err != nil {
			return
		}
		if m.ID == 0 {
			continue
		}
		if m.Op != "queues" { // only looks
			f.mu.Lock()
			f.got = append(f.got, m)
			f.mu.Unlock()
		}
		r := ctl.Reply{ID: m.ID}
		f.mu.Lock()
		if m.Op == "pdcs" && f.pdcs != nil {
			r.Data, _ = json.Marshal(f.pdcs(m.From)) // of plain fields
		}
		f.mu.Unlock()
		if m.Op == "change" && f.refuse != nil && f.refuse.Load() {
			r.Error = "no"
		}
		if f.conn.Send(&r) != nil {
			return
		}
	}
}

// obey lets nodes follow the clock on their own until the test ends: each goes up to the limit, or to the jump, in steps.
func (l *lab) obey(step vt.Time) {
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for _, p := range l.pages {
		wg.Add(1)
		go func() { // ends with stop
			defer wg.Done()
			var seg clock.Segment
			for {
				select {
				case <-stop:
					return
				default:
				}
				if s, ok := l.clock.Read(); ok && s.Seq != seg.Seq {
					seg = s
					p.Ack.Store(s.Seq)
				}
				h := vt.Time(p.Horizon.Load())
				if to := min(seg.Limit, max(seg.Jump, h+step)); to > h {
					p.Seq.Add(1)
					sleep(20_000) // a sweep takes its time, whatever the clock says meanwhile
					p.Horizon.Store(int64(to))
					p.Seq.Add(1)
				}
				sleep(5000)
			}
		}()
	}
	l.t.Cleanup(func() { close(stop); wg.Wait() })
}

// segment is what nodes are told. Where the daemon's goroutines write at the same time, a look that meets a change is none.
func (l *lab) segment() clock.Segment {
	for {
		if s, ok := l.clock.Read(); ok {
			return s
		}
	}
}

func (l *lab) id(name string) int {
	l.t.Helper()
	i := slices.IndexFunc(l.nodes, func(n *node) bool { return n.name == name })
	if i < 0 {
		l.t.Fatalf("no node %s", name)
	}
	return i
}

// noRuntime runs nothing.
type noRuntime struct{}

func (noRuntime) Name() string { return "embedded" }
func (noRuntime) Start(context.Context, []runtime.Spec, func(runtime.Handle)) ([]runtime.Handle, error) {
	return nil, nil
}
func (noRuntime) Stop(context.Context, string, []runtime.Handle) error { return nil }
func (noRuntime) Restart(_ context.Context, h runtime.Handle, _ runtime.Spec) (runtime.Handle, error) {
	return h, nil
}
func (noRuntime) Alive(context.Context, runtime.Handle) bool      { return false }
func (noRuntime) Exec(context.Context, runtime.Exec) (int, error) { return 0, nil }
