package sim

import (
	"strings"
	"testing"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/fep"
	"github.com/uetlab/uetlab/workload"
)

// profiled is a fabric of four end points that speak what words say; one word is for all.
func profiled(t *testing.T, words ...string) (*topology.Plan, *Fabric) {
	t.Helper()
	text := "name: p\nfabric: {kind: leaf-spine, spines: 2, leaves: 2, hostsPerLeaf: 2}\ndefaults: {fep: {profile: " + words[0] + "}}\n"
	if len(words) > 1 {
		text += "nodes:\n"
	}
	for i, w := range words[1:] {
		text += "  host" + string(rune('1'+i)) + ": {profile: " + w + "}\n"
	}
	top, err := topology.Parse("p.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return fabricOf(t, top)
}

// TestProfilesOfAllKinds plays every workload between end points of one profile and of several: the data is right, and what the pairs use
// for it is what both have.
func TestProfilesOfAllKinds(t *testing.T) {
	for _, c := range []struct {
		words []string
		per   int
		op    string
	}{
		{[]string{"ai-base"}, 1, ""}, {[]string{"ai-base"}, 2, ""}, {[]string{"ai-base"}, 1, workload.OpWrite},
		{[]string{"hpc", "ai-full"}, 1, ""}, {[]string{"hpc", "ai-full"}, 2, ""}, {[]string{"hpc", "hpc", "ai-base"}, 1, ""},
		{[]string{"[hpc, ai-base]", "[ai-full, ai-base]", "ai-base"}, 1, ""}, {[]string{"[hpc]", "[ai-full]", "[hpc]"}, 1, ""},
	} {
		for _, w := range workload.Workloads() {
			if s := (workload.Spec{Workload: w.Name}); w.Name == workload.Matrix || c.op != "" && !s.Flows() {
				continue
			}
			for _, ordered := range []bool{false, true} {
				plan, f := profiled(t, c.words...)
				nodes := crowd(plan, c.per)
				if err := workload.Talk(plan, nodes...); err != nil {
					t.Fatal(err)
				}
				spec := workload.Spec{Workload: w.Name, Size: 100_000, Iters: 3, Check: true, Seed: 5, Op: c.op, Nodes: nodes, Ranks: len(nodes), Ordered: ordered}
				var err error
				if spec.Guard, err = workload.SafeGuard(spec, plan); err != nil {
					t.Fatal(err)
				}
				res, err := f.Run(spec, 1000, Options{})
				if err != nil {
					t.Errorf("%s of %v, ordered %v: %v: %+v", w.Name, c.words, ordered, err, res.PerRank)
					continue
				}
				if res.Correct == nil || !*res.Correct {
					t.Errorf("%s of %v, ordered %v: wrong data: %+v", w.Name, c.words, ordered, res.PerRank)
				}
				var notices uint64
				for _, id := range plan.Nodes {
					if n := f.nodes[id.ID].FEP; n != nil {
						notices += n.C[fep.NoticesTx]
					}
				}
				if base := strings.Contains(c.words[len(c.words)-1], "base"); base != (notices > 0) {
					t.Errorf("%s of %v: %d receives have told their source", w.Name, c.words, notices)
				}
			}
		}
	}
}

// TestProfilesThatHaveNothingInCommon are refused with both names.
func TestProfilesThatHaveNothingInCommon(t *testing.T) {
	plan, f := profiled(t, "hpc", "[hpc]", "[ai-base]")
	nodes := crowd(plan, 1)
	err := workload.Talk(plan, nodes...)
	if err == nil || !strings.Contains(err.Error(), "host1 (hpc)") || !strings.Contains(err.Error(), "host2 (ai-base)") {
		t.Errorf("error %v", err)
	}
	if err := workload.Talk(plan, nodes[0], nodes[1], nodes[3]); err != nil {
		t.Error(err)
	}
	res, err := f.Run(workload.Spec{Workload: workload.Sendrecv, Size: 1, Iters: 1, Nodes: nodes, Ranks: 4}, 1000, Options{})
	if err == nil && res.PerRank[1].Error == "" {
		t.Errorf("it is run nevertheless: %+v", res.PerRank)
	}
}
