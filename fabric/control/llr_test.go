package control

import (
	"testing"

	dto "github.com/prometheus/client_model/go"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/internal/ctl"
)

func TestDirectionsJoinBothPorts(t *testing.T) {
	spec, err := topology.Parse("t", []byte("name: t\nfabric: {kind: star, hosts: 3}\n"))
	if err != nil {
		t.Fatal(err)
	}
	plan, err := topology.BuildPlan(spec)
	if err != nil {
		t.Fatal(err)
	}
	lists := make([][]ctl.LLRPort, len(plan.Nodes))
	for i := range plan.Nodes {
		for q, p := range plan.Nodes[i].Ports {
			lists[i] = append(lists[i], ctl.LLRPort{Port: p.Name, On: true, TX: ctl.LLRSender{Next: uint32(10*i + q)}, RX: ctl.LLRReceiver{Next: uint32(10*p.Peer + p.PeerIdx)}})
		}
	}
	all := joinLLR(plan, []int{0, 1, 2}, lists)
	if len(all) != 2*len(plan.Links) {
		t.Fatalf("%d directions of %d links", len(all), len(plan.Links))
	}
	for _, x := range all {
		if x.TX.Next != x.RX.Next || x.From == x.To || !x.On {
			t.Errorf("%+v", x)
		}
	}
	l := &plan.Links[1]
	if one := joinLLR(plan, []int{1}, lists); len(one) != 2 || one[0].Link != l.Name || one[0].From.Node != plan.Nodes[l.A.Node].Name || one[1].From != one[0].To {
		t.Errorf("%+v", one)
	}
	lists[l.A.Node] = nil // it does not answer
	if one := joinLLR(plan, []int{1}, lists); len(one) != 1 || one[0].From.Node != plan.Nodes[l.B.Node].Name || one[0].RX.Next != 0 {
		t.Errorf("%+v", one)
	}
}

func TestLatencyAsAHistogram(t *testing.T) {
	m := latencyMetric(&ctl.LLRLatency{Count: 12, SumNs: 30_000, Buckets: []ctl.LLRBucket{{BelowNs: 96, Count: 1}, {BelowNs: 1152, Count: 4}, {BelowNs: 2048, Count: 5}, {BelowNs: 4_128_768, Above: true, Count: 2}}},
		[]string{"lab", "node", "eth1", "link"})
	var out dto.Metric
	if err := m.Write(&out); err != nil {
		t.Fatal(err)
	}
	h := out.GetHistogram()
	if h.GetSampleCount() != 12 || h.GetSampleSum() != 30e-6 || len(h.GetBucket()) != 15 {
		t.Fatalf("%v", h)
	}
	for _, b := range h.GetBucket() {
		want := map[bool]uint64{true: 10, false: 1}[b.GetUpperBound() >= 2048e-9]
		if b.GetCumulativeCount() != want {
			t.Errorf("up to %v: %d, not %d", b.GetUpperBound(), b.GetCumulativeCount(), want)
		}
	}
}
