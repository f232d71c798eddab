package sim

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/link/phy"
	"github.com/uetlab/uetlab/workload"
)

// TestPHY01_UCRThroughAFabric runs an all-to-all over links whose codewords are uncorrectable now and then, until a million have passed: their
// share is the one that was set, and every frame that they damage is found by the FCS at the far end, as many as the formula says for the mean frame.
func TestPHY01_UCRThroughAFabric(t *testing.T) {
	without := uint64(0)
	for _, mode := range []string{"off", "on"} {
		const ucr = 1e-3
		plan, f := fromFile(t, fmt.Sprintf("name: ft\nfabric: {kind: leaf-spine, spines: 2, leaves: 4, hostsPerLeaf: 2}\ndefaults: {link: {llr: %s, ucr: %g}}\n", mode, ucr), nil)
		res, err := f.Run(spec(t, plan, workload.Alltoall, 16<<20, 1), f.Now().Add(time.Millisecond), Options{})
		if err != nil || !*res.Correct {
			t.Fatalf("llr %s: %v", mode, err)
		}
		var words, bad, frames, bytes, turned, found float64
		for _, n := range f.nodes {
			for i, p := range n.PHY(f.Now()) {
				words, bad, turned = words+float64(p.Codewords), bad+float64(p.Uncorrectable), turned+float64(p.WrongBits)
				frames, bytes = frames+float64(p.TxFrames), bytes+float64(p.TxBytes)
				found += float64(p.FCSErrors) + float64(p.Preambles)
				if p.Codewords == 0 || p.Corrected != 0 || n.Ports[i].C[link.TxFrames] != p.TxFrames {
					t.Errorf("llr %s: node %d: %+v", mode, n.ID, p)
				}
			}
		}
		got, flr := bad/words, found/frames
		want := ucr * (2 + (bytes/frames+24)*8/phy.PayloadBits)
		t.Logf("llr %s: %.0f codewords, UCR %.4g; %.0f frames of %.0f bytes, FLR %.4g, formula %.4g", mode, words, got, frames, bytes/frames, flr, want)
		if words < 1e6 || math.Abs(got-ucr) > 0.1*ucr || math.Abs(flr-want) > 0.1*want || turned < found {
			t.Errorf("llr %s: not within 10 %%", mode)
		}
		if mode == "on" && res.Retransmits*2 > without {
			t.Errorf("%d retransmissions end to end with LLR, %d without", res.Retransmits, without)
		}
		without = res.Retransmits
	}
}
