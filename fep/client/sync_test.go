package client_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/uetlab/uetlab/fep"
	"github.com/uetlab/uetlab/fep/client"
	"github.com/uetlab/uetlab/internal/attach/attachtest"
	"github.com/uetlab/uetlab/internal/vt"
)

// start is when the programs of these tests begin: by then all processes are attached.
const start = time.Millisecond

// rounds is what the ping-pong sends: sizes in turn.
var rounds = []int{8, 4096, 60_000, 1, 200_000, 0, 9000}

// played records completions in one line each.
type played struct {
	mu  sync.Mutex
	all []string
}

func (l *played) add(node int, k fep.Kind, n int, posted, acked, at int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, fmt.Sprintf("%9d node %d: %v %d, posted %d, acked %d, %v", at, node, k, n, posted, acked, err))
}

func (l *played) sorted() []string { slices.Sort(l.all); return l.all }

// playProcesses has two processes play the ping-pong.
func playProcesses(t *testing.T, think time.Duration) []string {
	var log played
	f := fabric(t, attachtest.Config{})
	a, b := pair(t, f, client.DomainOptions{})
	program := func(me int) func(testing.TB, *proc) {
		return func(t testing.TB, p *proc) {
			if err := p.d.SleepUntil(limit(t), start); err != nil {
				t.Error(err)
			}
			post := func(err error) {
				if err != nil {
					t.Error(err)
				}
			}
			round := 0
			turn := func() { // of who has the ball
				post(p.ep.TSend(fill(rounds[round]), 0, uint64(round), nil))
				if round++; round < len(rounds) {
					post(p.ep.TRecv(make([]byte, 1<<20), 0, uint64(round), 0, nil))
				}
			}
			if me == 0 {
				turn()
			} else {
				post(p.ep.TRecv(make([]byte, 1<<20), 0, 0, 0, nil))
			}
			for open := 2*len(rounds) - 1; ; {
				_ = open
				c := p.one(t)
				log.add(me, c.Kind, c.Len, int64(c.Posted), int64(c.Acked), int64(c.At), c.Err)
				time.Sleep(think) // of the wall
				if c.Kind == fep.OpTagRecv {
					if round++; round < len(rounds) {
						turn()
					}
				}
				if round >= len(rounds) && (c.Kind == fep.OpTagSend || me == len(rounds)%2) {
					return
				}
			}
		}
	}
	both(t, a, b, program(0), program(1))
	var free uint64
	f.Do(func() { free = f.Server(0).FreeCalls() + f.Server(1).FreeCalls() })
	if free != 0 {
		t.Errorf("%d calls were free", free)
	}
	return log.sorted()
}

// playCore plays the same within the FEPs.
func playCore(t *testing.T) []string {
	var log played
	f := fabric(t, attachtest.Config{})
	done := make(chan struct{})
	p := join(t, f, 0, client.DomainOptions{PID: 5}) // has time go on
	f.Do(func() {
		left := 2
		for me := range 2 {
			var ep *fep.Endpoint
			round := 0
			check := func(err error) {
				if err != nil {
					t.Error(err)
				}
			}
			turn := func(now vt.Time) {
				check(ep.TagSend(now, 0, fill(rounds[round]), uint64(round), 0))
				if round++; round < len(rounds) {
					check(ep.TagRecv(now, 0, make([]byte, 1<<20), uint64(round), 0))
				}
			}
			over := false
			ep, _ = f.FEP(me).Open(fep.EndpointConfig{Job: 1, PID: 1}, func(now vt.Time, c fep.Completion) {
				if over {
					return
				}
				log.add(me, c.Kind, c.Len, int64(c.Posted), int64(c.Acked), int64(now), c.Err)
				if c.Kind == fep.OpTagRecv {
					if round++; round < len(rounds) {
						turn(now)
					}
				}
				if round >= len(rounds) && (c.Kind == fep.OpTagSend || me == len(rounds)%2) {
					over = true
					if left--; left == 0 {
						close(done)
					}
				}
			})
			addr := ep.Addr()
			addr.FA = attachtest.Addr(1 - me)
			if _, err := ep.Insert(addr); err != nil {
				t.Error(err)
			}
			f.Node(me).Call(vt.Time(start), func(now vt.Time) {
				if me == 0 {
					turn(now)
				} else {
					check(ep.TagRecv(now, 0, make([]byte, 1<<20), 0, 0))
				}
			})
		}
	})
	if err := p.d.SleepUntil(limit(t), 2*start); err != nil {
		t.Fatal(err)
	}
	<-done
	return log.sorted()
}

// TestProcessesPlayLikeTheCore holds synchronous processes to the nanosecond: however long they think, completions come as if their
// programs ran inside of the FEPs.
func TestProcessesPlayLikeTheCore(t *testing.T) {
	want := playCore(t)
	if len(want) < 2*len(rounds)-2 {
		t.Fatalf("%d completions", len(want))
	}
	for _, think := range []time.Duration{0, 0, 2 * time.Millisecond} {
		got := playProcesses(t, think)
		for i := range max(len(got), len(want)) {
			if i >= len(got) || i >= len(want) || got[i] != want[i] {
				t.Fatalf("thinking %v: completion %d differs:\n%v\nin the core:\n%v", think, i, got, want)
			}
		}
	}
}

func TestManyProcessesWakeInOneOrder(t *testing.T) {
	var first []string
	for range 3 {
		f := fabric(t, attachtest.Config{Nodes: 1})
		var procs []*proc
		for i := range 5 {
			procs = append(procs, join(t, f, 0, client.DomainOptions{PID: 5 - i}))
		}
		var mu sync.Mutex
		var order []string
		var wg sync.WaitGroup
		for i, p := range procs {
			wg.Go(func() {
				defer p.d.Close()
				for _, at := range []time.Duration{start, start, 2 * start} {
					if err := p.d.SleepUntil(limit(t), at); err != nil {
						t.Error(err)
					}
					mu.Lock()
					order = append(order, fmt.Sprint(5-i, " ", p.d.Now()))
					mu.Unlock()
				}
				if err := p.d.Compute(limit(t), time.Duration(7-i)*time.Microsecond); err != nil {
					t.Error(err)
				}
				mu.Lock()
				order = append(order, fmt.Sprint(5-i, " ", p.d.Now()))
				mu.Unlock()
			})
		}
		wg.Wait()
		if first == nil {
			first = order
		}
		if !slices.Equal(order, first) || order[0] != "1 1ms" || order[len(order)-1] != "5 2.007ms" {
			t.Fatalf("order of waking %v, before %v", order, first)
		}
	}
}

func TestSeveralGoroutines(t *testing.T) {
	f := fabric(t, attachtest.Config{})
	a, b := pair(t, f, client.DomainOptions{})
	const threads, each = 8, 50
	work := func(send bool) func(testing.TB, *proc) {
		return func(t testing.TB, p *proc) {
			var wg sync.WaitGroup
			for i := range threads {
				wg.Add(1)
				p.d.Go(func() {
					defer wg.Done()
					for k := range each {
						op := &client.Op{Kind: fep.OpTagRecv, Buf: make([]byte, 300*k), Tag: uint64(i)}
						if send {
							op.Kind = fep.OpTagSend
						}
						if _, err := p.ep.Do(limit(t), op); err != nil {
							t.Errorf("thread %d, message %d: %v", i, k, err)
						}
					}
				})
			}
			p.d.Outside(wg.Wait)
		}
	}
	// receivers first: they have the earlier instants
	both(t, b, a, work(false), func(t testing.TB, p *proc) {
		if err := p.d.SleepUntil(limit(t), start); err != nil {
			t.Error(err)
		}
		work(true)(t, p)
	})
	empty(t, f)
}

func sendAll(t testing.TB, p *proc, n int) {
	t.Helper()
	for range n {
		if _, err := p.ep.Do(limit(t), &client.Op{Kind: fep.OpTagSend, Buf: fill(5000), Tag: 1}); err != nil {
			t.Error(err)
		}
	}
}

// recvAll posts its receives before it closes ready.
func recvAll(t testing.TB, p *proc, n int, ready chan struct{}) {
	t.Helper()
	for range n {
		if err := p.ep.TRecv(make([]byte, 5000), 0, 1, 0, nil); err != nil {
			t.Error(err)
		}
	}
	if _, err := p.d.Stat(limit(t)); err != nil { // the FEP has taken what was posted before
		t.Error(err)
	}
	close(ready)
	for range n {
		if c := p.one(t); c.Err != nil || c.Len != 5000 {
			t.Errorf("%+v", c)
		}
	}
}

func TestFreeProcesses(t *testing.T) {
	f := fabric(t, attachtest.Config{})
	a, b := pair(t, f, client.DomainOptions{Free: true})
	if !a.d.Free() {
		t.Error("not free")
	}
	ready := make(chan struct{})
	both(t, a, b, func(t testing.TB, p *proc) {
		<-ready
		sendAll(t, p, 20)
	}, func(t testing.TB, p *proc) { recvAll(t, p, 20, ready) })
	f.Do(func() {
		if n := f.Server(0).FreeCalls(); n < 20 {
			t.Errorf("%d free calls", n)
		}
	})
	empty(t, f)
}

func TestRealTime(t *testing.T) {
	f := fabric(t, attachtest.Config{Real: true, FEP: fep.Config{RTOInit: time.Second}})
	a, b := pair(t, f, client.DomainOptions{})
	if !a.d.Info().Real {
		t.Error("not real")
	}
	before := a.d.Now()
	ready := make(chan struct{})
	both(t, b, a, func(t testing.TB, p *proc) { recvAll(t, p, 50, ready) }, func(t testing.TB, p *proc) {
		<-ready
		sendAll(t, p, 50)
		if err := p.d.Sleep(limit(t), time.Millisecond); err != nil || p.d.Now()-before < time.Millisecond {
			t.Errorf("slept until %v from %v: %v", p.d.Now(), before, err)
		}
	})
	empty(t, f)
}

func TestPatienceEnds(t *testing.T) {
	cfg := attachtest.Config{Nodes: 1}
	cfg.Attach.Patience = time.Millisecond
	f := fabric(t, cfg)
	p := join(t, f, 0, client.DomainOptions{PID: 1})
	for ctx := limit(t); !p.d.Free() && ctx.Err() == nil; { // does not wait for the FEP
	}
	if !p.d.Free() {
		t.Error("a process that does not wait is waited for")
	}
	if err := p.d.Sleep(limit(t), time.Second); err != nil {
		t.Error(err)
	}
}
