package fep

import (
	"testing"

	"github.com/uetlab/uetlab/internal/engine"
	"github.com/uetlab/uetlab/internal/link"
)

// TestIncarnation: a FEP that is started again, without a new run, chooses other PDCIDs and Start_PSNs than before; a run is the same
// in every incarnation.
func TestIncarnation(t *testing.T) {
	draw := func(incarnation uint64, run bool) (uint16, uint32) {
		n := engine.New(engine.Config{ID: 1, Seed: 42, MaxFrame: 4600, Ports: []link.Config{{Rate: 400e9, Queue: 1 << 20, MTU: 4500}}}, sink{})
		f := New(n, Config{MAC: testMAC(0), NextHop: testMAC(1), Addr4: testAddr(0), Incarnation: incarnation})
		if run {
			n.StartRun(10, 7)
		}
		ep := f.OpenEndpoint(testJob, 0, 1, nil)
		ep.InsertAddr(testAddr(1), 0, 2)
		if err := ep.Send(20, 0, nil, 0); err != nil {
			t.Fatal(err)
		}
		n.Advance(100)
		p := f.PDCs(nil)[0]
		return p.ID, uint32(p.Tx.Next)
	}
	for _, run := range []bool{false, true} {
		id0, psn0 := draw(0, run)
		id1, psn1 := draw(1, run)
		id2, psn2 := draw(2, run)
		if same := id0 == id1 && psn0 == psn1 && id1 == id2 && psn1 == psn2; same != run {
			t.Errorf("run %v: %d %d, %d %d, %d %d", run, id0, psn0, id1, psn1, id2, psn2)
		}
	}
}

// sink drops what is sent.
type sink struct{}

func (sink) Transmit(_ int, f *link.Frame) { f.Release() }
