package control

import (
	"slices"
	"testing"

	"github.com/uetlab/uetlab/fabric/topology"
)

// TestDirectionsFollowCables: what has come of a direction is known where its cable leads, the topology's mistakes and all.
func TestDirectionsFollowCables(t *testing.T) {
	spec, err := topology.Parse("t", []byte("name: t\nfabric: {kind: leaf-spine, spines: 2, leaves: 2, hostsPerLeaf: 1}\nmiswired: [[leaf0-spine0, leaf1-spine1]]\n"))
	if err != nil {
		t.Fatal(err)
	}
	plan, err := topology.BuildPlan(spec)
	if err != nil {
		t.Fatal(err)
	}
	links, err := plan.FindLinks([]string{"leaf0-spine*", "leaf1-spine1"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	eachDirection(plan, links, func(l *topology.Link, from, to topology.End) {
		got = append(got, l.Name+": "+apiEnd(plan, from).String()+" to "+apiEnd(plan, to).String())
	})
	want := []string{"leaf0-spine0: leaf0:eth2 to spine1:eth2", "leaf0-spine0: spine0:eth1 to leaf1:eth3", "leaf0-spine1: leaf0:eth3 to spine1:eth1",
		"leaf0-spine1: spine1:eth1 to leaf0:eth3", "leaf1-spine1: leaf1:eth3 to spine0:eth1", "leaf1-spine1: spine1:eth2 to leaf0:eth2"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, not %q", got, want)
	}
}
