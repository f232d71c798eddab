package e2e

import (
	"context"
	"strings"
	"syscall"
	"testing"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/link/cbfc"
	"github.com/uetlab/uetlab/internal/link/llr"
	"github.com/uetlab/uetlab/workload"
)

// negotiating is a fabric whose links negotiate both LLR and CBFC, and have wrong bits.
const negotiating = `
name: negotiating
fabric: {kind: leaf-spine, spines: 2, leaves: 2, hostsPerLeaf: 2}
defaults: {fep: {cc: fixed, lb: spray}, link: {lldp: on, llr: on, cbfc: on, ber: 1e-7}, switch: {trim: {enabled: false}}}
`

// minds has ends change their minds in the middle of a run.
const minds = `
name: minds
steps:
  - {at: +20us, link: leaf0-spine0, from: leaf0, set: llr=off}
  - {at: +25us, link: leaf1-spine0, from: spine0, set: cbfc=off}
  - {at: +30us, link: host0-leaf0, from: leaf0, set: "cbfc=limit:24KiB"}
  - {at: +40us, link: leaf0-spine0, set: llr=on}
  - {at: +50us, link: leaf1-spine0, set: cbfc=on}
`

// agreedOn are the links that have LLR and CBFC.
func (l *lab) agreedOn(t testing.TB) (retry, credit []string) {
	t.Helper()
	for _, s := range decode[[]api.LinkStatus](t, l.ok(t, "link", "ls", "--format", "json")) {
		if s.Agreed != nil && s.Agreed.LLR {
			retry = append(retry, s.Name)
		}
		if s.Agreed != nil && s.Agreed.CBFC {
			credit = append(credit, s.Name)
		}
	}
	return retry, credit
}

// allAgree waits until all links have come up.
func (l *lab) allAgree(t testing.TB) {
	t.Helper()
	until(t, "all links to have LLR and CBFC", func() bool {
		retry, credit := l.agreedOn(t)
		return len(retry) == len(l.plan.Links) && len(credit) == len(l.plan.Links)
	})
}

// TestNegotiationEqualsTheSimulation negotiates LLR and CBFC through the kernel at the beginning of a run, and again in its middle: all as in the
// simulation, to the nanosecond.
func TestNegotiationEqualsTheSimulation(t *testing.T) {
	needRoot(t)
	l := up(t, writeFile(t, "negotiating.yaml", negotiating))
	l.freeClock(t)
	spec := workload.Spec{Workload: workload.Permutation, Size: 1 << 20, Iters: 1, Check: true, Seed: 1}
	calm, want := simulate(t, &l.plan, spec, nil), simulate(t, &l.plan, spec, storming(t, l, minds))
	if want.FCT == calm.FCT || want.Correct != "true" {
		t.Fatalf("changes of mind do nothing: %+v", want)
	}
	before := l.counters(t)
	same(t, "a run", l.run(t, "permutation", "--size", "1MiB", "--check", "--seed", "1"), calm)
	l.allAgree(t)
	l.ok(t, "chaos", write(t, minds))
	same(t, "a run with changes of mind", l.run(t, "permutation", "--size", "1MiB", "--check", "--seed", "1"), want)
	gained := minus(l.counters(t), before)
	for _, c := range []link.Counter{link.FirstLLR + link.Counter(llr.TxInit), link.FirstLLR + link.Counter(llr.TxReplay), link.FirstCBFC + link.Counter(cbfc.CFRx)} {
		if sum(gained, func(_, _, counter string) bool { return counter == c.String() }) == 0 {
			t.Errorf("no %s", c)
		}
	}
}

// heard are the events of LLDP at a node.
func (l *lab) heard(t testing.TB, node string) string {
	t.Helper()
	var text []string
	for line := range strings.Lines(l.ok(t, "events")) {
		if f := strings.Fields(line); len(f) > 3 && f[2] == "lldp" && f[3] == node {
			text = append(text, line)
		}
	}
	return strings.Join(text, "")
}

// TestLLDP02_KilledNeighbour kills a switch: its neighbours, which hear nothing any more, have neither LLR nor CBFC there once its word has expired, a
// run goes around it, and all is back when it is started again.
func TestLLDP02_KilledNeighbour(t *testing.T) {
	needRoot(t)
	l := up(t, writeFile(t, "negotiating.yaml", negotiating))
	l.freeClock(t)
	l.allAgree(t)
	nodes, err := l.api.Nodes(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		if n.Name == "spine1" {
			if err := syscall.Kill(n.Pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
	}
	until(t, "what spine1 said to expire", func() bool {
		return strings.Count(l.heard(t, "leaf0")+l.heard(t, "leaf1"), "is gone; LLR off; CBFC off") == 2
	})
	if retry, credit := l.agreedOn(t); len(retry) != 6 || len(credit) != 6 {
		t.Errorf("LLR on %v, CBFC on %v", retry, credit)
	}
	if a := l.run(t, "permutation", "--size", "256KiB", "--check"); a.Correct == nil || !*a.Correct {
		t.Errorf("a run without spine1: %+v", a)
	}
	l.ok(t, "restart", "spine1")
	l.allAgree(t)
	l.run(t, "permutation", "--size", "256KiB", "--check")
	l.allAgree(t)
}

// TestLLDP05_RestartedNode starts a switch again between two runs, faster than its word expires: its neighbours take it for the same with another boot
// ID and begin LLR and CBFC anew. What was wrong with its links still is, and the next run is what it was before.
func TestLLDP05_RestartedNode(t *testing.T) {
	needRoot(t)
	l := up(t, writeFile(t, "negotiating.yaml", negotiating))
	l.freeClock(t)
	l.ok(t, "link", "set", "leaf0-spine0", "delay=+1us")
	run := func() workload.Result {
		t.Helper()
		return l.run(t, "permutation", "--size", "1MiB", "--check", "--seed", "1")
	}
	before := run()
	l.allAgree(t)
	l.ok(t, "restart", "spine0")
	until(t, "the neighbours to notice", func() bool {
		text := l.heard(t, "leaf0") + l.heard(t, "leaf1")
		return strings.Count(text, "neighbour spine0 ") >= 4
	})
	l.allAgree(t)
	if s := l.linkState(t, "leaf0-spine0"); s.AB.Impair.DelayNs != 1000 || s.BA.Impair.DelayNs != 1000 {
		t.Errorf("the link has lost its delay: %+v", s)
	}
	after := run()
	if after.FCT != before.FCT || after.Retransmits != before.Retransmits {
		t.Errorf("a run after the restart: %+v, before it %+v", after.FCT, before.FCT)
	}
	for _, p := range decode[[]api.LLDP](t, l.ok(t, "lldp", "leaf0", "--format", "json")) {
		if n := p.Neighbour; n != nil && n.System == "spine0" && n.UE.BootID == 1 {
			t.Errorf("spine0 still has its first boot ID: %+v", n.UE)
		}
	}
	t.Log(l.heard(t, "leaf0"))
}
