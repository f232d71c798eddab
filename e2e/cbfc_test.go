package e2e

import (
	"testing"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/link/cbfc"
	"github.com/uetlab/uetlab/workload"
)

// creditedLab has two lossless channels on every link and does not trim.
const creditedLab = `
name: credited
fabric: {kind: leaf-spine, spines: 2, leaves: 4, hostsPerLeaf: 2}
defaults:
  fep: {cc: fixed, lb: spray}
  link: {cbfc: {channels: [data, control], limit: {control: 32KiB}}}
  switch: {trim: {enabled: false}}
`

// uncredited takes the credits off in the middle of a run.
const uncredited = `
name: uncredited
steps:
  - {at: +40us, link: "host*-leaf*", set: cbfc=off}
  - {at: +40us, link: "leaf*-spine*", set: cbfc=off}
`

// TestCBFCEqualsTheSimulation runs seven to one through the kernel with credits for data and control: nothing is dropped or trimmed, and all is as in the
// simulation. Credits that go in the middle drain as they do there, and packets are dropped from then on; with them back the first run comes again.
func TestCBFCEqualsTheSimulation(t *testing.T) {
	l := labOf(t, creditedLab)
	l.freeClock(t)
	spec := workload.Spec{Workload: workload.Incast, Size: 1 << 20, Iters: 1, Check: true, Seed: 1}
	calm, want := simulate(t, &l.plan, spec, nil), simulate(t, &l.plan, spec, storming(t, l, uncredited))
	if calm.Drops != 0 || calm.Trims != 0 || calm.Retransmits != 0 || want.Drops == 0 || want.Correct != "true" {
		t.Fatalf("with credits %+v, without from the middle on %+v", calm, want)
	}
	run := func(what string, want figures) {
		t.Helper()
		res := l.run(t, "incast", "--size", "1MiB", "--check", "--seed", "1")
		same(t, what, res, want)
		t.Logf("%s: max %d ns, %d drops, wall %.2f s", what, res.FCT.Max, res.Drops, res.WallSeconds)
	}
	run("a run with credits", calm)
	list := decode[[]api.Credits](t, l.ok(t, "cbfc", "--format", "json"))
	if len(list) != 2*2*len(l.plan.Links) {
		t.Errorf("%d channels of %d links", len(list), len(l.plan.Links))
	}
	for _, c := range list {
		if c.State != cbfc.On || !c.Receives || c.Used != 0 || c.RxHeld != 0 || c.Consumed != c.RxConsumed || c.Freed != c.RxFreed || c.Consumed != c.Freed || c.Peak > c.Limit {
			t.Errorf("at rest: %+v", c)
		}
	}
	before := l.counters(t)
	l.ok(t, "chaos", write(t, uncredited))
	run("a run that loses its credits", want)
	for _, c := range decode[[]api.Credits](t, l.ok(t, "cbfc", "--format", "json")) {
		if c.State != cbfc.Off || c.Receives {
			t.Errorf("taken off: %+v", c)
		}
	}
	gained := minus(l.counters(t), before)
	for _, c := range []cbfc.Counter{cbfc.CFOff, cbfc.CFStale, cbfc.CCStale, cbfc.LeakCredits, cbfc.BackCredits} {
		name := (link.FirstCBFC + link.Counter(c)).String()
		if n := sum(gained, func(_, _, counter string) bool { return counter == name }); n != 0 {
			t.Errorf("%s: %d", name, n)
		}
	}
	l.setAll(t, "cbfc=on")
	run("a run with credits again", calm)
}
