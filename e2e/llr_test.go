package e2e

import (
	"testing"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/link/llr"
	"github.com/uetlab/uetlab/workload"
)

// retrying turns link layer retry on everywhere, has bits arrive wrong, and takes links down for less and for more time than LLR waits.
const retrying = `
name: retrying
steps:
  - {at: +0, link: "host*-leaf*", set: "llr=on ber=1e-6"}
  - {at: +0, link: "leaf*-spine*", set: "llr=on ber=1e-6"}
  - {at: +20us, link: leaf0-spine0, set: down}
  - {at: +30us, link: leaf0-spine0, set: down=off}
  - {at: +25us, link: leaf1-spine1, set: down}
  - {at: +95us, link: leaf1-spine1, set: down=off}
  - {at: +40us, link: leaf2-spine0, set: llr=off}
  - {at: +60us, link: leaf2-spine0, set: llr=on}
`

// TestLLREqualsTheSimulation runs a permutation with link layer retry through the kernel: control ordered sets, replays, flipped bits of
// frames and of the LLR word. It must equal the simulation to the nanosecond, and a run after LLR is off again one before it.
func TestLLREqualsTheSimulation(t *testing.T) {
	l := sharedLab(t)
	l.freeClock(t)
	single := func() { l.setAll(t, "llr=off") }
	t.Cleanup(func() { single(); l.mend(t) })
	file := write(t, retrying)
	spec := workload.Spec{Workload: workload.Permutation, Size: 1 << 20, Iters: 1, Check: true, Seed: 1}
	calm, want := simulate(t, &l.plan, spec, nil), simulate(t, &l.plan, spec, storming(t, l, retrying))
	if want.FCT == calm.FCT || want.Drops == 0 || want.Correct != "true" {
		t.Fatalf("the script does too little: %+v", want)
	}
	for i := range 2 {
		before := l.counters(t)
		l.ok(t, "chaos", file)
		stop := func() {}
		if i == 1 {
			stop = hog(t, 2)
		}
		res := l.run(t, "permutation", "--size", "1MiB", "--check", "--seed", "1")
		stop()
		same(t, "a run with LLR", res, want)
		gained := minus(l.counters(t), before)
		for _, c := range []llr.Counter{llr.TxInit, llr.TxInitEcho, llr.TxAck, llr.TxNack, llr.TxOK, llr.TxReplay, llr.RxReplay, llr.RxBad, llr.RxMissing, llr.TxFlushes} {
			name := (link.FirstLLR + link.Counter(c)).String()
			if sum(gained, func(_, _, counter string) bool { return counter == name }) == 0 {
				t.Errorf("run %d: no %s", i, name)
			}
		}
		for _, s := range decode[[]api.LinkStatus](t, l.ok(t, "link", "ls", "--format", "json")) {
			if !s.LLR || s.AB.LLR != llr.Advance.String() || s.BA.LLR != llr.Advance.String() {
				t.Errorf("link %s: LLR %v, %s and %s", s.Name, s.LLR, s.AB.LLR, s.BA.LLR)
			}
		}
		t.Logf("run %d: max %d ns, %d retransmits, %d drops, wall %.2f s", i, res.FCT.Max, res.Retransmits, res.Drops, res.WallSeconds)
		single()
		l.mend(t)
	}
	same(t, "a run after it", l.run(t, "permutation", "--size", "1MiB", "--check", "--seed", "1"), calm)
}
