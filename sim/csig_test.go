package sim

import (
	"testing"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/fep"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/workload"
)

// TestEndPointsReadTheNarrowestHop sends one large message over a link at a quarter of its speed: the end point learns that
// nothing is left there, and where.
func TestEndPointsReadTheNarrowestHop(t *testing.T) {
	for _, form := range []string{fep.CSIGCompact, fep.CSIGWide} {
		text := "name: csig\nfabric: {kind: dumbbell, hosts: 2}\ndefaults: {switch: {csig: {enabled: true, interval: 4us, wide: 0x9999}}, fep: {csig: " + form + "}}\n" +
			"links: [{endpoints: [leaf0, leaf1], rate: 100Gbps}]\n"
		s, err := topology.Parse("csig.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		plan, f := fabricOf(t, s)
		w := spec(t, plan, workload.Sendrecv, 4<<20, 1)
		if res, err := f.Run(w, t0, Options{}); err != nil || !*res.Correct {
			t.Fatalf("%s: %v, %+v", form, err, res)
		}
		far := f.nodes[hosts(plan)[2]].FEP // its peer is behind the narrow link
		if n := f.nodes[hosts(plan)[2]].Ports[0].C[link.RxData]; far.C[fep.CSIGRx] < 900 || form == fep.CSIGCompact && n < far.C[fep.CSIGRx] {
			t.Errorf("%s: %d tagged packets, %d data frames", form, far.C[fep.CSIGRx], n)
		}
		for _, p := range far.PDCs(nil) {
			if p.Initiator {
				continue
			}
			out := uint16(2) // port of leaf0, node 0, to leaf1
			t.Logf("%s: signal %d, locator %d", form, p.CSIGSignal, p.CSIGLocator)
			if !p.CSIG || p.CSIGLocator != out || p.CSIGSignal > 1<<20/16 || form == fep.CSIGCompact && p.CSIGSignal > 2 {
				t.Errorf("%s: signal %d of locator %d", form, p.CSIGSignal, p.CSIGLocator)
			}
		}
	}
}
