package control

import (
	"testing"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/internal/ctl"
)

// TestJoinCredits puts the two ends of each direction together, those of an end that has not answered being 0.
func TestJoinCredits(t *testing.T) {
	spec, err := topology.Parse("t", []byte("name: t\nfabric: {kind: star, hosts: 2}\ndefaults: {link: {cbfc: {channels: [data, control]}}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	plan, err := topology.BuildPlan(spec)
	if err != nil {
		t.Fatal(err)
	}
	lists := make([][]ctl.Credits, len(plan.Nodes))
	for id := range plan.Nodes {
		for _, q := range plan.Nodes[id].Ports {
			for _, vc := range []int{1, 3} {
				if plan.Nodes[id].Name != "host1" {
					lists[id] = append(lists[id], ctl.Credits{Port: q.Name, VC: vc, State: "on", Used: uint32(100*id + 10*vc), CreditsReceived: ctl.CreditsReceived{Receives: true, RxHeld: uint32(1000*id + vc)}})
				}
			}
		}
	}
	rows := joinCredits(plan, []int{0, 1}, lists)
	if len(rows) != 2*2*2 {
		t.Fatalf("%d rows", len(rows))
	}
	for _, r := range rows {
		from, _ := plan.Node(r.From.Node)
		to, _ := plan.Node(r.To.Node)
		used, held := uint32(100*from.ID+10*r.VC), uint32(1000*to.ID+r.VC)
		if r.From.Node == "host1" {
			used = 0
		}
		if r.To.Node == "host1" {
			held = 0
		}
		if r.Used != used || r.RxHeld != held || r.Receives != (r.To.Node != "host1") || r.Class != topology.QueueName(r.VC) && used != 0 && r.Class != "" {
			t.Errorf("%s to %s: %+v", r.From, r.To, r)
		}
	}
}
