package control

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/runtime"
	"github.com/uetlab/uetlab/internal/rankproc"
	"github.com/uetlab/uetlab/workload"
)

// rankRuntime plays the processes of ranks.
type rankRuntime struct {
	noRuntime
	play func(task rankproc.Task, e runtime.Exec) int

	mu    sync.Mutex
	tasks map[int]rankproc.Task
	nodes map[int]string
	argv  []string
}

func (r *rankRuntime) Exec(ctx context.Context, e runtime.Exec) (int, error) {
	in := bufio.NewReader(e.Files[0])
	line, err := in.ReadBytes('\n')
	var task rankproc.Task
	if err == nil {
		err = json.Unmarshal(line, &task)
	}
	if err != nil {
		return 1, err
	}
	r.mu.Lock()
	r.tasks[task.Rank], r.nodes[task.Rank], r.argv = task, e.Handle.Node, e.Argv
	r.mu.Unlock()
	code := r.play(task, e)
	if code < 0 { // it stays until its input ends, or it is killed
		over := make(chan struct{})
		go func() { _, _ = io.Copy(io.Discard, in); close(over) }() // ends with the input, at the latest when the caller closes it
		select {
		case <-over:
		case <-ctx.Done():
			return 137, ctx.Err()
		}
		return 0, nil
	}
	return code, nil
}

// crewLab is a lab whose runtime plays ranks.
func crewLab(t *testing.T, play func(task rankproc.Task, e runtime.Exec) int) (*lab, *rankRuntime, *run) {
	t.Helper()
	l := newLab(t, "fat-tree-2x2", "auto")
	l.connect()
	rt := &rankRuntime{play: play, tasks: map[int]rankproc.Task{}, nodes: map[int]string{}}
	l.rt = rt
	for _, n := range l.nodes {
		l.handles = append(l.handles, runtime.Handle{Node: n.name, ID: n.id})
	}
	spec, err := l.spec(api.RunRequest{Workload: workload.Sendrecv, PerNode: 2, RankCount: 4, Seed: 3}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	return l, rt, newRun(spec)
}

func stays(_ rankproc.Task, e runtime.Exec) int {
	fmt.Fprintln(e.Files[1], rankproc.Ready)
	return -1
}

// TestACrewIsToldWhatToPlay gathers ranks, two on each of two nodes, and lets them go.
func TestACrewIsToldWhatToPlay(t *testing.T) {
	l, rt, r := crewLab(t, stays)
	c, err := l.gather(t.Context(), r, true)
	if err != nil {
		t.Fatal(err)
	}
	if c.jobID() < firstJob || (*crew)(nil).jobID() != 0 {
		t.Errorf("job %d", c.jobID())
	}
	rt.mu.Lock() // what came through pipes is not in order for everybody
	for rank := range 4 {
		task := rt.tasks[rank]
		if rt.nodes[rank] != fmt.Sprint("host", rank/2) || task.Job != c.job.ID || len(task.Token) != 16 || !task.Free || task.Meet || len(task.Peers) != 4 || task.Spec.Size != 1000 {
			t.Errorf("rank %d on %s: %+v", rank, rt.nodes[rank], task)
		}
		if p := task.Peers[rank]; int(p.PID) != rank%2 || p.Addr != l.plan.Nodes[r.ranks[rank]].Addr4 {
			t.Errorf("rank %d is at %+v", rank, p)
		}
	}
	if strings.Join(rt.argv, " ") != "/uetlab rank --task -" {
		t.Errorf("started as %q", rt.argv)
	}
	rt.mu.Unlock()
	if err := c.crashed(); err != nil {
		t.Error(err)
	}
	if err := c.blame(nil); err != nil {
		t.Error(err)
	}
	c.leave()
	for _, f := range []int{r.nodes[0], r.nodes[1]} {
		got := l.fakes[f].take()
		if len(got) != 2 || got[0].Op != "job" || got[1].Op != "job" || got[0].Job.End || !got[1].Job.End || got[0].Job.ID != c.job.ID {
			t.Errorf("node %d was told %+v", f, got)
		}
	}
	again, err := l.gather(t.Context(), r, false)
	if err != nil {
		t.Fatal(err)
	}
	if again.job.ID == c.job.ID || again.job.Token == c.job.Token {
		t.Error("two runs have one job")
	}
	again.leave()
}

// TestAProcessThatEndsFailsTheRun by rank, node, how it ended and what it said, before the run and in it.
func TestAProcessThatEndsFailsTheRun(t *testing.T) {
	l, _, r := crewLab(t, func(task rankproc.Task, e runtime.Exec) int {
		if task.Rank != 2 {
			return stays(task, e)
		}
		for i := range 10 {
			fmt.Fprintf(e.Files[2], "line %d\n", i)
		}
		return 5
	})
	_, err := l.gather(t.Context(), r, false)
	if err == nil || !strings.Contains(err.Error(), "rank 2: its process on host1 ended with exit code 5: line 6; line 7; line 8; line 9") {
		t.Errorf("%v", err)
	}
	die := make(chan struct{})
	l, _, r = crewLab(t, func(task rankproc.Task, e runtime.Exec) int {
		stays(task, e)
		if task.Rank != 1 {
			return -1
		}
		<-die
		return 137
	})
	c, err := l.gather(t.Context(), r, false)
	if err != nil {
		t.Fatal(err)
	}
	close(die)
	c.patience = time.Minute // the test does not depend on how fast it is known
	err = c.blame(api.Errorf(api.CodeCheck, "run: rank 0: send to rank 1: nobody there"))
	if err == nil || !strings.Contains(err.Error(), "rank 1: its process on host0 was killed by signal 9") {
		t.Errorf("%v", err)
	}
	c.leave()
}

// TestACrewThatDoesNotCome is given up when the run is, and refused while the clock stands.
func TestACrewThatDoesNotCome(t *testing.T) {
	l, _, r := crewLab(t, func(rankproc.Task, runtime.Exec) int { return -1 })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.gather(ctx, r, false); err == nil {
		t.Error("a run that was given up goes on")
	}
	l.time.paused = true
	if _, err := l.gather(t.Context(), r, false); err == nil || api.AsError(err).Code != api.CodePrecondition {
		t.Errorf("paused: %v", err)
	}
}
