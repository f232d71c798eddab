package sim

import (
	"os"
	"testing"
	"time"

	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/link/cbfc"
	"github.com/uetlab/uetlab/switchd"
	"github.com/uetlab/uetlab/workload/matrix"
)

// losslessRun is what labs/lossless-vs-trimming plays, on one way to lose nothing.
type losslessRun struct {
	victim, slowest time.Duration
	lost            uint64 // drops, trims, retransmissions
	cf, pauses      uint64 // messages that say what may be sent
	room            int64  // bytes that a port of a leaf keeps for the far end's data
	held            int64  // the most that a switch held at once, bytes
}

func lossless12(t *testing.T, link12, set12, file string, victim int) (r losslessRun) {
	t.Helper()
	text, err := os.ReadFile("../labs/data/" + file)
	if err != nil {
		t.Fatal(err)
	}
	m, _, err := matrix.Parse(file, text, matrix.Options{})
	if err != nil {
		t.Fatal(err)
	}
	plan, f := fromFile(t, "name: ls12\nfabric: {kind: leaf-spine, spines: 3, leaves: 4, hostsPerLeaf: 3}\ndefaults: {fep: {cc: fixed, lb: spray}, link: {"+link12+"}, switch: {trim: {enabled: false}"+set12+"}}\n", func(set *switchd.Settings) {
		set.Buffer.Shared = 1 << 40 // never full: who has counted it tells the most
		if set12 != "" {
			r.room = set.PFC.Xoff + set.PFC.Headroom
		}
	})
	res, err := f.Run(matrixSpec(plan, m, ""), t0, Options{})
	if err != nil || !*res.Correct {
		t.Fatal(err)
	}
	r.slowest, r.victim, r.lost = time.Duration(res.FCT.Max), time.Duration(res.PerFlow[victim].FCTNs), res.Drops+res.Trims+res.Retransmits
	for _, n := range f.nodes {
		for _, p := range n.Ports {
			r.pauses += p.C[link.PauseTx]
			r.cf += p.C.CBFC()[cbfc.CFTx]
			if s, _ := p.CBFC(); s != nil {
				for vc := range link.NumQueues {
					r.room = max(r.room, int64(s.VC(f.now, vc).Limit)*int64(s.Cell().Size))
				}
			}
		}
		if n.Switch != nil {
			r.held = max(r.held, n.Switch.Status(f.now).Buffer.Peak)
		}
	}
	return r
}

// TestLosslessBesidePFC has the incast of labs/lossless-vs-trimming lose nothing, by credits and by PFC, and looks at what each has to keep room for, and says. Both have the
// victim wait several times as long as it takes alone. A credit is given out before a frame is sent, so that credits need room for a round trip; PFC stops senders when xoff is
// reached, and needs the round trip beyond it.
func TestLosslessBesidePFC(t *testing.T) {
	const pfc = ", pfc: {enabled: true}, classes: {10: roce, 12: roce}"
	alone := lossless12(t, "cbfc: on", "", "victim12.cm", 0)
	credits, paused := lossless12(t, "cbfc: on", "", "incast12.cm", 7), lossless12(t, "cbfc: off", pfc, "incast12.cm", 7)
	for _, c := range []struct {
		name string
		r    losslessRun
	}{{"alone", alone}, {"credits", credits}, {"PFC", paused}} {
		t.Logf("%-7s victim %v, slowest %v, %d lost, %d CF_Updates, %d pause frames, %d bytes of room a port and sender, at most %d held in a switch", c.name, c.r.victim, c.r.slowest, c.r.lost, c.r.cf, c.r.pauses, c.r.room, c.r.held)
		if c.r.lost != 0 {
			t.Errorf("%s: %d packets lost", c.name, c.r.lost)
		}
	}
	if credits.pauses != 0 || credits.cf == 0 || paused.pauses == 0 || paused.cf != 0 {
		t.Error("pauses where there are credits, or the other way round")
	}
	if credits.victim < 3*alone.victim || paused.victim < 3*alone.victim {
		t.Error("the victim does not feel the incast")
	}
	if credits.room == 0 || 2*credits.room > paused.room || 2*credits.held > paused.held {
		t.Error("credits need more room than half of what PFC needs")
	}
}
