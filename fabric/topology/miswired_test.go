package topology

import (
	"strings"
	"testing"
)

const miswiredText = "name: x\nfabric: {kind: leaf-spine, spines: 2, leaves: 2, hostsPerLeaf: 2}\n"

// TestMiswiredCables: the far ends of two links are swapped, and all else of the plan is as without.
func TestMiswiredCables(t *testing.T) {
	right, err := planText(t, miswiredText)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := planText(t, miswiredText+"miswired: [[leaf0-spine0, leaf1-spine1]]\n")
	if err != nil {
		t.Fatal(err)
	}
	at := func(e End) string { return plan.Nodes[e.Node].Name + " " + plan.Nodes[e.Node].Ports[e.Port].Name }
	want := map[string]string{"leaf0 eth3": "spine1 eth2", "spine1 eth2": "leaf0 eth3", "leaf1 eth4": "spine0 eth1", "spine0 eth1": "leaf1 eth4"}
	for i := range plan.Nodes {
		for p := range plan.Nodes[i].Ports {
			q := &plan.Nodes[i].Ports[p]
			far := q.Far()
			if back := plan.Nodes[far.Node].Ports[far.Port].Far(); back != (End{i, p}) {
				t.Errorf("%s: its cable comes from %s at the far end", at(End{i, p}), at(back))
			}
			if to, wrong := want[at(End{i, p})]; wrong != (q.Miswired != nil) || wrong != plan.Miswired(q.Link) || wrong && at(far) != to || !wrong && far != (End{q.Peer, q.PeerIdx}) {
				t.Errorf("%s: its cable ends at %s", at(End{i, p}), at(far))
			}
			if n := len(plan.Ends(q.Link)); plan.Miswired(q.Link) && n != 4 || !plan.Miswired(q.Link) && n != 2 {
				t.Errorf("%s: %d ends", plan.Links[q.Link].Name, n)
			}
			u, v := *q, right.Nodes[i].Ports[p]
			if u.Miswired = nil; u != v {
				t.Errorf("%s: %+v, without the mistake %+v", at(End{i, p}), u, v)
			}
		}
	}
}

func TestMiswiredIsChecked(t *testing.T) {
	for list, why := range map[string]string{
		"[[leaf0-spine0, leaf1-spine7]]":                             "test.yaml:3:27: miswired (leaf1-spine7): no such link",
		"[[leaf0-spine0, leaf0-spine0]]":                             "test.yaml:3:27: miswired (leaf0-spine0): named twice",
		"[[leaf0-spine0, leaf1-spine1], [leaf1-spine0, leaf0:eth3]]": "named twice",
		"[[host0-leaf0, leaf0-spine0]]":                              "test.yaml:3:13: miswired (host0-leaf0, leaf0-spine0): a cable would join two ports of one node",
		"[[leaf0-spine0]]":                                           "1 links; the far ends of two are swapped",
		"leaf0-spine0":                                               "test.yaml:3:11",
		"[[leaf0-spine0, leaf1-spine1]]\nlinks: [{endpoints: [leaf0, spine0], delay: 2us}]": "not alike",
		"[[host0-leaf0, host2-leaf1]]\nnodes: {host2: {kind: host}}":                        "plain host",
	} {
		_, err := planText(t, miswiredText+"miswired: "+list+"\n")
		if err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v, want %s", list, err, why)
		}
	}
}
