package control

import (
	"math"
	"testing"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/internal/ctl"
	"github.com/uetlab/uetlab/internal/link"
)

// TestDirectionJoinsBothEnds: what was sent stands at one end, what was found wrong at the other, which may be silent.
func TestDirectionJoinsBothEnds(t *testing.T) {
	spec, err := topology.Parse("t", []byte("name: t\nfabric: {kind: pair}\n"))
	if err != nil {
		t.Fatal(err)
	}
	plan, err := topology.BuildPlan(spec)
	if err != nil {
		t.Fatal(err)
	}
	s := link.PHY{Codewords: 1000, Uncorrectable: 10, Corrected: 100, CorrectedBits: 544, WrongBits: 8, Up: true, CodewordNs: 12.85}
	lists := make([][]ctl.PHYPort, len(plan.Nodes))
	l := &plan.Links[0]
	lists[l.A.Node] = []ctl.PHYPort{{Port: "eth1", PHY: s, TxFrames: 100, TxBytes: 9600, FCSErrors: 77}}
	lists[l.B.Node] = []ctl.PHYPort{{Port: "eth1", FCSErrors: 3, Preambles: 2}}
	got := joinPHY(plan, []int{0}, lists)
	p, q := &got[0], &got[1]
	near := func(a, b float64) bool { return math.Abs(a-b) <= 1e-12*b }
	if p.From.String() != "host0:eth1" || p.To.String() != "host1:eth1" || p.PCS != "up" || !near(p.UCR, 0.01) || !near(p.MTBPENs, 1285) || !near(p.RawBER, 1e-4) || !near(p.PostBER, 1e-4) || p.FCSErrors != 3 || !near(p.FrameLoss, 0.05) {
		t.Errorf("%+v", *p)
	}
	if q.From.String() != "host1:eth1" || q.PCS != "down" || q.FCSErrors != 77 || q.UCR != 0 || q.MTBPENs != 0 || q.FrameLoss != 0 {
		t.Errorf("%+v", *q)
	}
	lists[l.B.Node] = nil
	got = joinPHY(plan, []int{0}, lists)
	if len(got) != 1 || got[0].FCSErrors != 0 || got[0].Codewords != 1000 {
		t.Errorf("of a silent far end %+v", got)
	}
}
