package control

import (
	"slices"
	"testing"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/internal/ctl"
	"github.com/uetlab/uetlab/internal/lldp"
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

// TestMistakesAreToldOnce makes an event when a port hears the wrong neighbour, another wrong one, and the right one again, and none otherwise.
func TestMistakesAreToldOnce(t *testing.T) {
	d := &Daemon{wrongTold: map[lldp.End]string{}}
	heardAs := func(mistake string, found bool) {
		p := api.LLDP{Node: "leaf0", Mistake: mistake, LLDPPort: ctl.LLDPPort{Port: "eth3"}}
		if found {
			p.Neighbour = &ctl.LLDPNeighbour{}
		}
		d.tellMistakes([]api.LLDP{p})
	}
	heardAs("leaf0 eth3: no LLDP neighbour, expected spine0 eth1", false)
	heardAs("", true)
	heardAs("leaf0 eth3: wrong", true)
	heardAs("leaf0 eth3: wrong", true)
	heardAs("leaf0 eth3: no LLDP neighbour, expected spine0 eth1", false)
	heardAs("leaf0 eth3: wronger", true)
	heardAs("", true)
	heardAs("", true)
	var got []string
	list, _ := d.events.since(0)
	for _, e := range list {
		got = append(got, e.Kind+" "+e.Node+" "+e.Text)
	}
	if want := []string{"lldp leaf0 leaf0 eth3: wrong", "lldp leaf0 leaf0 eth3: wronger", "lldp leaf0 leaf0 eth3: the neighbour is the one of the topology again"}; !slices.Equal(got, want) {
		t.Errorf("events %q, want %q", got, want)
	}
}
