package sim

import (
	"testing"

	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/link/llr"
	"github.com/uetlab/uetlab/workload"
)

// TestLLRLeavesCongestionAlone overflows a queue of a switch, by an incast without trimming. What is dropped there has come over its link unharmed: link layer retry asks for none of it and sends
// none of it again, and as many frames are dropped and sent again from end to end as without it. The same with trimming.
func TestLLRLeavesCongestionAlone(t *testing.T) {
	for _, trim := range []string{"false", "true"} {
		var lost [2]uint64
		for i, mode := range []string{"off", "on"} {
			plan, f := fromFile(t, "name: star\nfabric: {kind: star, hosts: 5}\ndefaults: {fep: {cc: fixed, lb: spray}, link: {llr: "+mode+"}, switch: {trim: {enabled: "+trim+"}, buffer: 50KiB}}\n", nil)
			res, err := f.Run(spec(t, plan, workload.Incast, 128<<10, 1), t0, Options{})
			if err != nil || !*res.Correct {
				t.Fatal(err)
			}
			var c llr.Counters
			var bad uint64
			for _, n := range f.nodes {
				for _, p := range n.Ports {
					for k, v := range p.C.LLR() {
						c[k] += v
					}
					bad += p.C.Drops() - p.C[link.DropQueue] - p.C[link.DropTrim]
				}
			}
			lost[i] = res.Drops + res.Trims
			t.Logf("trimming %s, llr %s: %d drops, %d trims, %d retransmissions end to end; %d frames protected, %d NACKs, %d replays", trim, mode, res.Drops, res.Trims, res.Retransmits, c[llr.TxOK], c[llr.TxNack], c[llr.TxReplay])
			if lost[i] == 0 || res.Retransmits == 0 || bad != 0 || (c[llr.TxOK] > 0) != (mode == "on") {
				t.Errorf("llr %s: %d drops and trims, %d retransmissions, %d lost otherwise", mode, lost[i], res.Retransmits, bad)
			}
			if c[llr.TxNack]+c[llr.RxNack]+c[llr.TxReplay]+c[llr.TxReplayed]+c[llr.RxMissing]+c[llr.RxDuplicate] != 0 || c[llr.RxExpected] != c[llr.TxOK] {
				t.Errorf("llr %s: it took drops by congestion for its own: %v", mode, c)
			}
		}
		if lost[1] != lost[0] {
			t.Errorf("trimming %s: %d frames dropped or trimmed without LLR, %d with it", trim, lost[0], lost[1])
		}
	}
}
