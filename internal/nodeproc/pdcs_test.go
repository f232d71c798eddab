package nodeproc

import (
	"net/netip"
	"testing"

	"github.com/uetlab/uetlab/fep"
	"github.com/uetlab/uetlab/internal/ctl"
	"github.com/uetlab/uetlab/internal/engine"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/nodecore"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// void takes frames and loses them.
type void struct{}

func (void) Transmit(_ int, f *link.Frame) { f.Release() }

// TestPDCsComeInParts reads a long list part by part, and wants every PDC once.
func TestPDCsComeInParts(t *testing.T) {
	n := engine.New(engine.Config{ID: 1, Seed: 1, MaxFrame: 4600, Ports: []link.Config{{Rate: 400e9, Delay: 500, Queue: 1 << 20, MTU: 4500}}}, void{})
	const pdcs = 2*pdcsAtOnce + 7
	f := fep.New(n, fep.Config{MAC: wire.MAC{2}, NextHop: wire.MAC{4}, Addr4: netip.MustParseAddr("10.0.0.1"), PDCsPerKey: pdcs})
	ep := f.OpenEndpoint(3, 0, 0, func(vt.Time, fep.Completion) {})
	ep.InsertAddr(netip.MustParseAddr("10.0.0.2"), 0, 1)
	n.Call(1, func(now vt.Time) {
		for i := range uint64(pdcs) {
			if err := ep.TagSend(now, 0, make([]byte, 20000), i, i); err != nil {
				t.Error(err)
			}
		}
	})
	n.Advance(5000)
	p := &proc{core: &nodecore.Node{Node: n, FEP: f}}
	seen := map[uint16]bool{}
	var sizes []int
	for from := 0; len(sizes) == 0 || from > 0; {
		part := p.pdcs(from)
		for _, d := range part.List {
			if seen[d.ID] || d.State != "opening" || d.Role != ctl.RoleInitiator || d.PeerAddr != "10.0.0.2" || d.PeerID != 0 || d.Job != 3 || d.Mode != "RUD" || d.Ended {
				t.Fatalf("%+v", d)
			}
			if d.Messages != 1 || d.Tx.CACK+1 != d.StartPSN || d.Tx.Next-d.StartPSN > 5 {
				t.Fatalf("%+v", d)
			}
			seen[d.ID] = true
		}
		sizes, from = append(sizes, len(part.List)), part.Next
		if (len(sizes) == 1) != (part.NacksTx != nil) {
			t.Errorf("part %d has NACKs %v", len(sizes), part.NacksTx)
		}
	}
	if len(seen) != pdcs || len(sizes) != 3 {
		t.Errorf("%d PDCs in parts of %v", len(seen), sizes)
	}
	if got := p.pdcs(1e6); len(got.List) != 0 || got.Next != 0 {
		t.Errorf("beyond the end: %+v", got)
	}
	if got := (&proc{core: &nodecore.Node{Node: n}}).pdcs(0); got.List == nil || len(got.List) != 0 {
		t.Errorf("of a switch: %+v", got)
	}
}
