package nodecore

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/uetlab/uetlab/fabric/topology"
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
	addr := p.Nodes[n.ID].Addr4.String()
	spec := workload.Spec{Workload: workload.Sendrecv, Ranks: 3, Iters: 1, Nodes: []int{n.ID, n.ID, n.ID}}
	if err := n.StartRun(ctl.Run{At: 7, Spec: spec, Job: 9, Ranks: []int{0, 1, 2}, Addrs: []string{addr, addr, addr}}); err != nil {
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
