package rankproc

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/uetlab/uetlab/internal/attach"
	"github.com/uetlab/uetlab/internal/attach/attachtest"
	"github.com/uetlab/uetlab/workload"
)

// tasks puts per ranks on each node of a test fabric.
func tasks(spec workload.Spec, nodes, per int, job uint32) []Task {
	first := uint16(0)
	if job == 1 { // its process 0 is the FEP's own
		first = 1
	}
	spec.Ranks = nodes * per
	list := make([]Task, spec.Ranks)
	var peers []workload.Peer
	for i := range spec.Ranks {
		peers = append(peers, workload.Peer{Addr: attachtest.Addr(i / per), PID: uint16(i%per) + first})
	}
	for i := range list {
		list[i] = Task{Spec: spec, Rank: i, Peers: peers, Job: job}
	}
	return list
}

// TestRanksMeet has ranks on two nodes find each other and play, with checked data.
func TestRanksMeet(t *testing.T) {
	for _, c := range []struct {
		spec workload.Spec
		per  int
	}{
		{workload.Spec{Workload: workload.Sendrecv, Size: 300_000}, 1},
		{workload.Spec{Workload: workload.Allreduce, Size: 100_001}, 1},
		{workload.Spec{Workload: workload.Permutation, Size: 70_000, Op: workload.OpWrite, Iters: 3, Guard: 20 * time.Microsecond}, 1},
		{workload.Spec{Workload: workload.Broadcast, Size: 0}, 1},
		{workload.Spec{Workload: workload.Alltoall, Size: 50_000}, 2},
	} {
		c.spec.Seed, c.spec.Check, c.spec.Iters = 3, true, max(c.spec.Iters, 1)
		t.Run(fmt.Sprint(c.spec.Workload, c.per), func(t *testing.T) {
			f, err := attachtest.New(attachtest.Config{})
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			list := tasks(c.spec, 2, c.per, 1)
			results := make([]workload.RankResult, len(list))
			var wg, played sync.WaitGroup
			played.Add(len(list))
			for i, task := range list {
				task.Meet = true
				wg.Go(func() {
					r, err := Attach(t.Context(), f.Socket(i/c.per), task)
					if err == nil {
						defer r.Close()
						results[i], err = r.Run(t.Context(), func() {})
					}
					played.Done()
					if err != nil {
						t.Error(err)
						return
					}
					r.Linger(played.Wait)
				})
			}
			wg.Wait()
			for i, r := range results {
				if r.Error != "" || r.Wrong != 0 || r.Checked == 0 && c.spec.Size > 0 || len(r.Iterations) != c.spec.Iters || r.Iterations[0].StartNs != 0 {
					t.Errorf("rank %d: %+v", i, r)
				}
			}
		})
	}
}

// TestRunsBeginWithTheNode starts ranks as a node does, and takes their reports as it does.
func TestRunsBeginWithTheNode(t *testing.T) {
	token := []byte("sixteen bytes ok")
	var mu sync.Mutex
	reports := map[uint16]workload.RankResult{}
	f, err := attachtest.New(attachtest.Config{Attach: attach.Config{Report: func(job uint32, pid uint16, b []byte) error {
		var r workload.RankResult
		if err := json.Unmarshal(b, &r); err != nil || job != 7 {
			return errors.Join(err, fmt.Errorf("job %d", job))
		}
		mu.Lock()
		defer mu.Unlock()
		reports[pid] = r
		return nil
	}}})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	f.Do(func() { f.Server(0).AllowJob(7, [16]byte(token), true) })
	// Both on one node, and 200 iterations: the report is longer than a message.
	list := tasks(workload.Spec{Workload: workload.Sendrecv, Size: 100, Iters: 200, Check: true, Seed: 1, Guard: time.Microsecond}, 1, 2, 7)
	if _, err := Attach(t.Context(), f.Socket(0), list[0]); err == nil {
		t.Error("a stranger joins the job")
	}
	begin := func(pid uint16) (ok bool) {
		f.Do(func() { ok = f.Server(0).Begin(f.Node(0).Now(), 7, pid) })
		return ok
	}
	if begin(0) {
		t.Error("a rank begins that is not there")
	}
	var ready, played, done sync.WaitGroup
	played.Add(len(list))
	for _, task := range list {
		task.Token = token
		ready.Add(1)
		done.Go(func() {
			r, err := Attach(t.Context(), f.Socket(0), task)
			if err == nil {
				defer r.Close()
				_, err = r.Run(t.Context(), ready.Done)
			}
			played.Done()
			if err != nil {
				t.Error(err)
				return
			}
			r.Linger(played.Wait)
		})
	}
	ready.Wait()
	for both := false; !both; { // ready says that the FEP is about to know
		f.Do(func() {
			if n, s := f.Node(0), f.Server(0); s.Stat().Ops == 2 {
				both = s.Begin(n.Now(), 7, 0) && s.Begin(n.Now(), 7, 1)
			}
		})
	}
	done.Wait()
	mu.Lock() // the reports came by shared memory, which orders nothing for the race detector
	defer mu.Unlock()
	for pid := range uint16(2) {
		if r := reports[pid]; r.Rank != int(pid) || r.Wrong != 0 || r.Error != "" || len(r.Iterations) != 200 {
			t.Errorf("process %d: rank %d, %d wrong, %q, %d iterations", pid, r.Rank, r.Wrong, r.Error, len(r.Iterations))
		}
	}
}

// TestTasksThatAreNone are refused before anything is attached, or by the FEP.
func TestTasksThatAreNone(t *testing.T) {
	f, err := attachtest.New(attachtest.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	good := tasks(workload.Spec{Workload: workload.Sendrecv, Size: 1, Iters: 1}, 2, 1, 1)[0]
	for want, edit := range map[string]func(t *Task){
		"2 ranks are to be reached": func(t *Task) { t.Rank = 2 },
		"the run has 3":             func(t *Task) { t.Spec.Ranks = 3 },
		"a token of 3 bytes":        func(t *Task) { t.Token = []byte("abc") },
		"no such workload":          func(t *Task) { t.Spec.Workload = "juggle" },
	} {
		task := good
		edit(&task)
		r, err := Attach(t.Context(), f.Socket(0), task)
		if err == nil {
			r.Close()
			t.Errorf("%s: accepted", want)
		} else if !strings.Contains(err.Error(), want) && want != "no such workload" {
			t.Errorf("%v, want %s", err, want)
		}
	}
	good.Meet, good.Wait = true, 50*time.Millisecond // in vain, however long it is
	r, err := Attach(t.Context(), f.Socket(0), good)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := r.Run(t.Context(), func() {}); !errors.Is(err, ErrNoPeer) {
		t.Errorf("alone: %v", err)
	}
}

func TestArena(t *testing.T) {
	asked := []int{}
	full := false
	a := arena{take: func(n int) ([]byte, error) {
		if full {
			return nil, errors.New("no more")
		}
		asked = append(asked, n)
		return make([]byte, n), nil
	}}
	for _, n := range []int64{1, 0, 64, 100, arenaLarge, arenaLarge - 1} {
		b, err := a.alloc(n)
		if err != nil || int64(len(b)) != n || int64(cap(b)) != n {
			t.Errorf("%d bytes: %d, %v", n, len(b), err)
		}
	}
	if fmt.Sprint(asked) != fmt.Sprint([]int{arenaChunk, arenaLarge}) {
		t.Errorf("asked for %v", asked)
	}
	x, _ := a.zeros(10)
	y, _ := a.zeros(5)
	if &x[0] != &y[0] || len(y) != 5 {
		t.Error("zeros are not shared")
	}
	full = true
	if b, err := a.alloc(arenaChunk); err == nil || len(b) != arenaChunk {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}
