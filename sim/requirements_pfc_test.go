package sim

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/fep"
	"github.com/uetlab/uetlab/internal/faults"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/link/llr"
	"github.com/uetlab/uetlab/switchd"
	"github.com/uetlab/uetlab/workload"
	"github.com/uetlab/uetlab/workload/matrix"
)

// lossless is a fabric whose data goes into the lossless class, from end points that have more under way than a switch
// lets in before it stops them.
const lossless = `name: lossless
fabric: %s
defaults:
  link: {llr: %s}
  switch: {pfc: {enabled: true}, classes: {10: roce, 12: roce}}
  fep: {window: 600%%}
`

// PFC-02: an incast in the lossless class loses nothing with the headroom that the plan works out, over one tier
// and over two, whose leaves are stopped by their spines in turn. With much less it does.
func TestPFC02_IncastLosesNothing(t *testing.T) {
	for _, fabric := range []string{"{kind: star, hosts: 9}", "{kind: leaf-spine, spines: 2, leaves: 4}", "{kind: fat-tree, k: 4}"} {
		pfcIncast(t, fabric, "off", true)
		pfcIncast(t, fabric, "off", false)
		pfcIncast(t, fabric, "on", true)
	}
}

// PFC-02 with LLR turned off and on again while the incast runs, and links that lose frames meanwhile: what a switch has set aside has room for whole windows
// that are sent again after a pause.
func TestPFC02_RetryTurnedOnLive(t *testing.T) {
	plan, f := fromFile(t, fmt.Sprintf(lossless, "{kind: star, hosts: 9}", "on"), nil)
	var list []faults.Fault
	for id := range plan.Links {
		for i, words := range [][]string{{"llr=off"}, {"llr=on"}, {"ber=1e-6"}, {"ber=off"}} {
			set, err := faults.ParseSettings(words)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, faults.Fault{At: t0.Add(time.Duration(30+10*i) * time.Microsecond), Link: id, From: faults.Both, Op: faults.Change, Set: set})
		}
	}
	list[2].At, list[3].At = t0.Add(60*time.Microsecond), t0.Add(160*time.Microsecond)
	b, err := faults.New(plan).Schedule(list...)
	if err == nil {
		err = b.Each(f.Change)
	}
	if err != nil {
		t.Fatal(err)
	}
	res, err := f.Run(spec(t, plan, workload.Incast, 2<<20, 1), t0, Options{})
	if err != nil || !*res.Correct {
		t.Fatalf("correct %v, %v", *res.Correct, err)
	}
	var stopped, again, refused uint64
	for _, n := range f.nodes {
		for _, p := range n.Ports {
			stopped += p.C[link.PauseRx]
			again += p.C.LLR()[llr.TxReplayed]
			refused += p.C[link.DropQueue] + p.C[link.DropTrim]
		}
	}
	if refused != 0 || res.Trims != 0 || res.Retransmits != 0 || stopped == 0 || again == 0 {
		t.Errorf("%d frames found no room, %d trimmed, %d retransmits; %d PFC frames, %d frames sent again", refused, res.Trims, res.Retransmits, stopped, again)
	}
	t.Logf("%d PFC frames, %d frames sent again", stopped, again)
}

// pfcIncast runs an incast in a lossless class, with the headroom worked out or much less.
func pfcIncast(t *testing.T, fabric, llr string, enough bool) {
	t.Helper()
	plan, f := fromFile(t, fmt.Sprintf(lossless, fabric, llr), func(set *switchd.Settings) {
		if !enough {
			set.PFC.Headroom = 10_000
		}
	})
	for _, id := range hosts(plan) {
		if c := f.nodes[id].FEP.Config().Class; c != 4 {
			t.Fatalf("data of %s is of class %d, its switch has it in 4", plan.Nodes[id].Name, c)
		}
	}
	res, err := f.Run(spec(t, plan, workload.Incast, 2<<20, 1), t0, Options{})
	if err != nil || enough && !*res.Correct {
		t.Fatalf("%s: correct %v, %v", fabric, *res.Correct, err)
	}
	var stopped, hostsStopped, most uint64 // PFC frames obeyed, by end points, and the deepest queue
	for _, n := range f.nodes {
		for _, p := range n.Ports {
			stopped += p.C[link.PauseRx]
			most = max(most, p.Stats(4).C[link.QPeak])
			if n.FEP != nil {
				hostsStopped += p.C[link.PauseRx]
			}
		}
	}
	t.Logf("%s, llr %s, headroom %v: %d PFC frames, %d of them to end points, deepest queue %d bytes, %d drops, slowdown %.3f", fabric, llr, enough, stopped, hostsStopped, most, res.Drops, res.Ratio)
	if enough && (res.Drops != 0 || res.Trims != 0 || res.Retransmits != 0) {
		t.Errorf("%s: %d drops, %d trimmed, %d retransmits in a lossless class", fabric, res.Drops, res.Trims, res.Retransmits)
	}
	if !enough && res.Drops == 0 {
		t.Errorf("%s: nothing is lost without headroom: the test shows nothing", fabric)
	}
	if enough && (hostsStopped == 0 || stopped == hostsStopped && plan.Nodes[0].Tier > 1) {
		t.Errorf("%s: %d PFC frames, %d of them to end points: not all were stopped that could be", fabric, stopped, hostsStopped)
	}
}

// QOS-05: with a dynamic threshold N congested queues settle at alpha × B / (1 + alpha × N) each, with end points that never
// stop. Two senders fill each queue.
func TestQOS05_DynamicThresholdInAFabric(t *testing.T) {
	const pool = 4 << 20
	for _, alpha := range []float64{0.5, 1, 4} {
		for _, n := range []int{1, 2, 4} {
			plan, f := fromFile(t, "name: shared\nfabric: {kind: star, hosts: 12}\ndefaults:\n  fep: {window: 16MiB}\n", func(set *switchd.Settings) {
				set.Trim.Enabled = false
				set.Buffer.Shared = pool
				set.Queues[1].Limit, set.Queues[1].Alpha = 0, alpha
			})
			m := &matrix.Matrix{Nodes: 12}
			for to := range n {
				for from := range 2 {
					m.Flows = append(m.Flows, matrix.Flow{ID: len(m.Flows) + 1, Src: 4 + 2*to + from, Dst: to, Size: 8 << 20})
				}
			}
			leaf := topology.End{Node: plan.Nodes[hosts(plan)[0]].Ports[0].Peer}
			// Long enough to fill the queues, at the rate of the one sender too many, and over before senders notice the losses.
			want := alpha * pool / (1 + alpha*float64(n))
			fill := time.Duration(want / (400e9 / 8) * 1e9)
			if _, err := f.Run(matrixSpec(plan, m, ""), t0, Options{Until: t0.Add(fill*5/4 + 10*time.Microsecond)}); !errors.Is(err, ErrUntil) {
				t.Fatal(err)
			}
			var sent, dropped uint64
			for to := range n {
				leaf.Port = plan.Nodes[hosts(plan)[to]].Ports[0].PeerIdx
				p := f.nodes[leaf.Node].Ports[leaf.Port]
				c := p.Stats(1).C
				if got := float64(c[link.QPeak]); math.Abs(got-want) > want/50 {
					t.Errorf("alpha %v, %d queues: queue %d grows to %.0f bytes, not %.0f", alpha, n, to, got, want)
				}
				dropped += c[link.QDrop]
				sent += c[link.QTxFrames] + c[link.QDrop]
			}
			if dropped == 0 || f.nodes[hosts(plan)[0]].FEP.C[fep.DataRx] == 0 {
				t.Errorf("alpha %v, %d queues: %d of %d dropped", alpha, n, dropped, sent)
			}
		}
	}
}
