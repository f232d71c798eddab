package control

import (
	"slices"
	"testing"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/internal/ctl"
)

func TestHeardIsComparedWithTheTopology(t *testing.T) {
	spec, err := topology.Parse("t", []byte("name: t\nfabric: {kind: leaf-spine, spines: 2, leaves: 2, hostsPerLeaf: 1}\ndefaults: {link: {lldp: on}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	plan, err := topology.BuildPlan(spec)
	if err != nil {
		t.Fatal(err)
	}
	lists := make([][]ctl.LLDPPort, len(plan.Nodes))
	for i := range plan.Nodes {
		for _, q := range plan.Nodes[i].Ports {
			peer := &plan.Nodes[q.Peer]
			lists[i] = append(lists[i], ctl.LLDPPort{Port: q.Name, Neighbour: &ctl.LLDPNeighbour{System: peer.Name, Port: peer.Ports[q.PeerIdx].Name}})
		}
	}
	for _, p := range heard(plan, lists) {
		if p.Mistake != "" {
			t.Errorf("all is as it should be: %s", p.Mistake)
		}
	}
	leaf, err := plan.Node("leaf0")
	if err != nil {
		t.Fatal(err)
	}
	ports := lists[leaf.ID]
	ports[1].Neighbour, ports[2].Neighbour = ports[2].Neighbour, nil
	var got []string
	for _, p := range heard(plan, lists) {
		if p.Mistake != "" {
			got = append(got, p.Mistake)
		}
	}
	if want := []string{"leaf0 eth2: LLDP neighbour spine1 eth1, expected spine0 eth1", "leaf0 eth3: no LLDP neighbour, expected spine1 eth1"}; !slices.Equal(got, want) {
		t.Errorf("mistakes %q, want %q", got, want)
	}
}
