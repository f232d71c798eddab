package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/link/cbfc"
)

// randomLinks has all of the link layer but LLR, which scripts turn on and off.
const randomLinks = `
name: randomlinks
fabric: {kind: leaf-spine, spines: 1, leaves: 2, hostsPerLeaf: 2}
defaults: {link: {lldp: static, cbfc: {channels: [data, control], ccEvery: 20us}}, switch: {trim: {enabled: false}}}
`

// envRandomLinks is the first seed of TestRandomLinkLayerEqualsTheSimulation, 1 without it.
const envRandomLinks = "UETLAB_RANDOM_LINKS"

// randomStorm draws a script of what may happen to a link, a third of it in the first nanosecond of a run.
func randomStorm(rng *rand.Rand, links []string) string {
	words := []string{"llr=on", "llr=on", "llr=off", "cbfc=off", "ber=1e-6", "ucr=1e-3", "rawber=1e-3", "exact=%d:drop,1r:corrupt", "exact=%d:seqskip", "corrupt=1%,llr", "poison=1%",
		"setloss=30%", "setloss=100%,nack", "ccloss=50%", "duplicate=1%", "jitter=300ns", "delay=+700ns", "rate=50%", "loss=0.5%", "burst=p:2%,r:25%"}
	var b strings.Builder
	b.WriteString("steps:\n")
	for range 8 {
		at, l, w := max(0, rng.IntN(45_000)-15_000), links[rng.IntN(len(links))], words[rng.IntN(len(words))]
		if strings.Contains(w, "%d") {
			w = fmt.Sprintf(w, 1+rng.IntN(40))
		}
		fmt.Fprintf(&b, "  - {at: +%dns, link: %s, set: %q}\n", at, l, w)
	}
	l, at := links[rng.IntN(len(links))], max(0, rng.IntN(30_000)-15_000)
	fmt.Fprintf(&b, "  - {at: +%dns, link: %s, set: down}\n  - {at: +%dns, link: %s, set: down=off}\n", at, l, at+1+rng.IntN(70_000), l)
	return b.String()
}

// TestRandomLinkLayerEqualsTheSimulation plays random scripts on a fabric with credits and LLDP: LLR comes and goes, credits go, links go down, and frames, ordered
// sets and credits are lost. Each run must be the simulation to the nanosecond, beside a hog and with somebody who looks as well, and
// one after the links have been mended the simulation without a script: nothing may be left.
func TestRandomLinkLayerEqualsTheSimulation(t *testing.T) {
	needRoot(t)
	topo := writeFile(t, "randomlinks.yaml", randomLinks)
	l := up(t, topo)
	l.freeClock(t)
	var links []string
	for _, k := range l.plan.Links {
		links = append(links, k.Name)
	}
	seed, err := strconv.ParseUint(os.Getenv(envRandomLinks), 10, 64)
	if err != nil {
		seed = 1
	}
	t.Logf("seeds %d to %d; %s=%d for others", seed, seed+2, envRandomLinks, seed+3)
	runs := []string{"permutation --size 256KiB --seed 2 --cc fixed --lb spray", "allreduce --size 128KiB --check --ack packet", "incast --size 96KiB --cc dctcp --iters 2"}
	for i, run := range runs {
		calm := shape{run: run}
		storm := shape{run: run, chaos: randomStorm(rand.New(rand.NewPCG(seed+uint64(i), 0)), links)}
		want := storm.simulate(t, topo)
		if len(differences("", calm.simulate(t, topo), want)) == 0 {
			t.Errorf("seed %d: the script does nothing:\n%s", seed+uint64(i), storm.chaos)
		}
		for busy := range 2 {
			stop := func() {}
			if busy == 1 {
				stop = hog(t, 1)
				for _, what := range []string{"phy", "llr", "cbfc", "stats"} {
					defer l.start(t, what).wait() // they run beside what follows
				}
			}
			l.repeats(t, storm, want)
			stop()
			for _, k := range links { // repeats has restored the links, which leaves both as they are
				if strings.Contains(storm.chaos, k+", set: \"llr") || strings.Contains(storm.chaos, k+", set: \"cbfc") {
					l.ok(t, "link", "set", k, "llr=off", "cbfc=on")
				}
			}
			l.mend(t)
		}
		l.repeats(t, calm, calm.simulate(t, topo))
	}
	name := (link.FirstCBFC + link.Counter(cbfc.CFRx)).String()
	if sum(l.counters(t), func(_, _, counter string) bool { return counter == name }) == 0 {
		t.Errorf("no %s: the test is of no use", name)
	}
}
