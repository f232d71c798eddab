package nodecore

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/fep"
	"github.com/uetlab/uetlab/internal/ctl"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/workload"
)

// TestRanksThatAreProcesses begins them in the order of ranks at t0, fails those that are not there, and takes reports of the others once.
func TestRanksThatAreProcesses(t *testing.T) {
	p := plan(t, "star-2")
	n, _ := make1(t, p, kind(p, topology.KindFEP))
	var told []string
	n.report = func(r workload.RankResult) { told = append(told, fmt.Sprint(r.Rank, r.Error != "")) }
	n.AfterReset = func(now vt.Time) { told = append(told, fmt.Sprint("reset ", now)) }
	n.Begin = func(now vt.Time, job uint32, pid uint16) bool {
		told = append(told, fmt.Sprint("begin ", now, job, pid))
		return pid != 1
	}
	spec := workload.Spec{Workload: workload.Sendrecv, Ranks: 3, Iters: 1, Nodes: []int{n.ID, n.ID, n.ID}}
	if err := n.StartRun(ctl.Run{At: 7, Spec: spec, Job: 9, Ranks: []int{0, 1, 2}, Peers: spec.Peers(p)}); err != nil {
		t.Fatal(err)
	}
	report := func(job uint32, pid uint16, rank int) error {
		b, _ := json.Marshal(workload.RankResult{Rank: rank})
		return n.Report(job, pid, b)
	}
	if report(9, 0, 0) == nil {
		t.Error("a report before the run")
	}
	n.Advance(7)
	want := fmt.Sprint([]string{"reset " + fmt.Sprint(vt.Time(7)), fmt.Sprint("begin ", vt.Time(7), uint32(9), uint16(0)), fmt.Sprint("begin ", vt.Time(7), uint32(9), uint16(1)), "1 true", fmt.Sprint("begin ", vt.Time(7), uint32(9), uint16(2))})
	if fmt.Sprint(told) != want {
		t.Errorf("told %v, want %v", told, want)
	}
	told = nil
	for _, c := range []struct {
		job  uint32
		pid  uint16
		rank int
		why  string
	}{{9, 0, 2, "another process"}, {9, 3, 3, "another process"}, {8, 0, 0, "no run of this job"}, {9, 1, 1, "already"}, {9, 2, 2, ""}, {9, 2, 2, "already"}, {9, 0, 0, ""}} {
		err := report(c.job, c.pid, c.rank)
		if (err == nil) != (c.why == "") || err != nil && !strings.Contains(err.Error(), c.why) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if n.Report(9, 0, []byte("{")) == nil {
		t.Error("a report that is none is taken")
	}
	if fmt.Sprint(told) != "[2 false 0 false]" {
		t.Errorf("told %v", told)
	}
}

// TestEndpointsOfRanksThatAreNoMoreAreClosed has fewer ranks in a FEP, cold and warm, then processes, then none.
func TestEndpointsOfRanksThatAreNoMoreAreClosed(t *testing.T) {
	p := plan(t, "star-2")
	n, _ := make1(t, p, kind(p, topology.KindFEP))
	n.Begin = func(vt.Time, uint32, uint16) bool { return true }
	for _, c := range []struct {
		ranks int
		warm  bool
		job   uint32
	}{{4, false, 0}, {2, true, 0}, {3, false, 0}, {1, false, 0}, {2, false, 9}, {2, false, 0}, {0, false, 0}} {
		r := ctl.Run{At: n.Now() + 1000, Warm: c.warm, Job: c.job, Spec: workload.Spec{Workload: workload.Incast, Ranks: max(2, c.ranks), Iters: 1}}
		for i := range c.ranks {
			r.Ranks, r.Spec.Nodes = append(r.Ranks, i), append(r.Spec.Nodes, n.ID)
		}
		r.Peers = r.Spec.Peers(p)
		if err := n.StartRun(r); err != nil {
			t.Fatal(err)
		}
		n.Advance(r.At)
		want := c.ranks
		if c.job != 0 {
			want = 0
		}
		if got := len(n.opened); got != want {
			t.Errorf("%+v: %d endpoints", c, got)
		}
		for pid := range uint16(4) { // a place is free, or is taken
			probe, err := n.FEP.Open(fep.EndpointConfig{Job: jobID, PID: pid}, nil)
			if taken := err != nil; taken != (int(pid) < want) {
				t.Errorf("%+v: process %d: %v", c, pid, err)
			}
			if probe != nil {
				probe.Close(n.Now())
			}
		}
	}
}
