package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"syscall"
	"testing"
	"time"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/sim"
	"github.com/uetlab/uetlab/workload"
)

// figures are what two runs of the same must share.
type figures struct {
	FCT                                                            workload.FCT
	Packets, PacketHops, DataPacketHops, Retransmits, Trims, Drops uint64
	Correct                                                        string
	PerRank                                                        []workload.RankResult
	Queues                                                         []workload.QueueResult
}

func figuresOf(r workload.Result) figures {
	f := figures{r.FCT, r.Packets, r.PacketHops, r.DataPacketHops, r.Retransmits, r.Trims, r.Drops, "not checked", r.PerRank, r.Queues}
	if r.Correct != nil {
		f.Correct = fmt.Sprint(*r.Correct)
	}
	return f
}

// same fails the test when a run differs from what it should equal.
func same(t testing.TB, what string, got workload.Result, want figures) {
	t.Helper()
	if g := figuresOf(got); !reflect.DeepEqual(g, want) {
		t.Errorf("%s differs:\n got %+v\nwant %+v", what, g, want)
	}
}

// congestion adds up what queues marked and trimmed.
func congestion(r workload.Result) (marked, trimmed uint64) {
	for _, q := range r.Queues {
		marked += q.ECNMarked
		trimmed += q.Trimmed
	}
	return marked, trimmed
}

// t0 is where a simulated run begins.
const t0 = vt.Time(1000)

// simulate runs a workload on all end points of a plan in the simulator, as the lab of seed 1 would. prepare may
// schedule changes relative to t0.
func simulate(t testing.TB, plan *topology.Plan, spec workload.Spec, prepare func(*sim.Fabric)) figures {
	t.Helper()
	f, err := sim.New(plan, 1)
	if err != nil {
		t.Fatal(err)
	}
	for i := range plan.Nodes {
		if plan.Nodes[i].Kind == topology.KindFEP {
			spec.Nodes = append(spec.Nodes, i)
		}
	}
	spec.Ranks = len(spec.Nodes)
	if spec.Iters > 1 {
		if spec.Guard, err = workload.SafeGuard(spec, plan); err != nil {
			t.Fatal(err)
		}
	}
	if prepare != nil {
		prepare(f)
	}
	r, err := f.Run(spec, t0, sim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return figuresOf(r)
}

// hog keeps n cores busy until the function that it gives is called.
func hog(t testing.TB, n int) (stop func()) {
	t.Helper()
	var hogs []*exec.Cmd
	stop = func() {
		for _, h := range hogs {
			_ = h.Process.Kill() // by its own number; it may have been stopped already
			_ = h.Wait()
		}
		hogs = nil
	}
	t.Cleanup(stop)
	for range n {
		h := exec.Command("/proc/self/exe")
		h.Env = append(os.Environ(), envHelper+"=spin", envMark+"="+mark)
		h.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := h.Start(); err != nil {
			t.Fatal(err)
		}
		hogs = append(hogs, h)
	}
	return stop
}

// TestTenRunsAreEqual runs the same permutation ten times, three of them beside a hog on every core. All must equal the
// simulation.
func TestTenRunsAreEqual(t *testing.T) {
	l := sharedLab(t)
	want := simulate(t, &l.plan, workload.Spec{Workload: workload.Permutation, Size: 2 << 20, Iters: 1, Seed: 1}, nil)
	for i := range 10 {
		stop := func() {}
		if i%3 == 2 {
			stop = hog(t, 2)
		}
		start := time.Now()
		r := l.run(t, "permutation", "--size", "2MiB", "--seed", "1")
		stop()
		same(t, fmt.Sprintf("run %d", i), r, want)
		t.Logf("run %d, hog %v: max %d ns, %.2f s in the lab, %.2f s in all", i, i%3 == 2, r.FCT.Max, r.WallSeconds, time.Since(start).Seconds())
	}
}

// TestWorkloadsEqualTheSimulation runs other patterns; in one of them queues mark and trim. What each queue did must be the same too.
func TestWorkloadsEqualTheSimulation(t *testing.T) {
	l := sharedLab(t)
	for _, c := range []struct {
		spec workload.Spec
		args []string
	}{
		{workload.Spec{Workload: workload.Permutation, Size: 2 << 20, Iters: 1, Seed: 4}, nil},
		{workload.Spec{Workload: workload.Allreduce, Size: 4 << 20, Iters: 1, Check: true, Seed: 1}, []string{"--check"}},
		{workload.Spec{Workload: workload.Allreduce, Size: 300_000, Iters: 2, Check: true, Seed: 7}, []string{"--iters", "2", "--check"}},
		{workload.Spec{Workload: workload.Alltoall, Size: 256 << 10, Iters: 1, Check: true, Seed: 3}, []string{"--check"}},
		{workload.Spec{Workload: workload.Broadcast, Size: 100_000, Iters: 1, Check: true, Seed: 5, Root: 3}, []string{"--check", "--root", "3"}},
		{workload.Spec{Workload: workload.Sendrecv, Size: 64 << 10, Iters: 3, Seed: 2, Op: workload.OpWrite}, []string{"--iters", "3", "--op", "write"}},
		{workload.Spec{Workload: workload.Incast, Size: 1 << 20, Iters: 1, Check: true, Seed: 1}, []string{"--check"}},
	} {
		t.Run(c.spec.Workload, func(t *testing.T) {
			want := simulate(t, &l.plan, c.spec, nil)
			args := append([]string{c.spec.Workload, "--size", fmt.Sprint(c.spec.Size), "--seed", fmt.Sprint(c.spec.Seed)}, c.args...)
			for i := range 2 {
				r := l.run(t, args...)
				same(t, fmt.Sprintf("run %d", i), r, want)
				if c.spec.Check && (r.Correct == nil || !*r.Correct) {
					t.Errorf("run %d is not correct: %+v", i, r.PerRank)
				}
				marked, trimmed := congestion(r)
				if trimmed != r.Trims {
					t.Errorf("%d trims in all, %d of queues", r.Trims, trimmed)
				}
				if c.spec.Workload == workload.Incast && (marked == 0 || trimmed == 0 || r.Retransmits == 0) {
					t.Errorf("incast with %d marks, %d trims and %d retransmits: the test is of no use without any", marked, trimmed, r.Retransmits)
				}
				t.Logf("max %d ns, %d packets, %d marks, %d trims, %d retransmits, %d drops, wall %.2f s", r.FCT.Max, r.Packets, marked, trimmed, r.Retransmits, r.Drops, r.WallSeconds)
			}
		})
	}
}
