package sim

import (
	"testing"

	"github.com/uetlab/uetlab/workload"
)

// TestProfilesInASimulation runs every workload with end points of each profile: the data is right in all of them. That the allreduce takes
// another time with each shows that long messages really went in another way: driven by the receiver (AI Base), as sends that may be
// deferred (AI Full), by rendezvous (HPC).
func TestProfilesInASimulation(t *testing.T) {
	for _, w := range workload.Workloads() {
		if w.Name == workload.Matrix {
			continue
		}
		times := map[int64]string{}
		for _, profile := range []string{"ai-base", "ai-full", "hpc"} {
			plan, f := fromFile(t, twoSpines+"defaults: {fep: {profile: "+profile+"}}\n", nil)
			res, err := f.Run(spec(t, plan, w.Name, 1<<20, 1), t0, Options{})
			if err != nil || !*res.Correct {
				t.Fatalf("%s, %s: correct %v, %v", w.Name, profile, *res.Correct, err)
			}
			times[res.FCT.Max] = profile
		}
		t.Logf("%s: %v", w.Name, times)
		if w.Name == workload.Allreduce && len(times) != 3 {
			t.Errorf("allreduce: %v", times)
		}
	}
}
