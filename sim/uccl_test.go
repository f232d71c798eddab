package sim

import (
	"fmt"
	"testing"

	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/wire"
	"github.com/uetlab/uetlab/workload"
)

// TestUCCLChunks looks at the packets of one flow as UCCL's software transport has them: 32 KiB of a message share an entropy value, the next
// 32 KiB have another one out of 256. Of two at random the one with the shorter round-trip time is taken, so that a slow spine gets
// less than the quarter that spraying gives it (uet-cms.md 12).
func TestUCCLChunks(t *testing.T) {
	const (
		msg   = 32 << 20
		chunk = 32 << 10 / 4096
		text  = "name: x\nfabric: {kind: leaf-spine, spines: 4, leaves: 2, hostsPerLeaf: 1}\ndefaults:\n  fep: {cc: %s, lb: %s, ack: packet}\n" +
			"links:\n  - {endpoints: [leaf*, spine3], rate: 50Gbps}\n"
	)
	slow := map[string]float64{}
	for _, lb := range []string{"uccl", "oblivious"} {
		plan, f := fromFile(t, fmt.Sprintf(text, "uccl", lb), nil)
		var evs []uint16
		f.Tap(hosts(plan)[0], 0, func(fr *link.Frame) {
			in, err := wire.ParseUET(fr.B, 0)
			if err != nil || !in.Type().IsRequest() || len(in.UET) < 1000 {
				return
			}
			if r, err := wire.ParseRequest(in.UET); err == nil && !r.RETX() {
				evs = append(evs, in.EV)
			}
		})
		r, err := f.Run(spec(t, plan, workload.Permutation, msg, 1), t0, Options{})
		if err != nil || !*r.Correct || len(evs) != msg/4096 {
			t.Fatalf("%s: %v, %d packets, %+v", lb, err, len(evs), r)
		}
		var all uint64
		for i, n := range f.nodes {
			if plan.Nodes[i].Tier != 2 {
				continue
			}
			for _, p := range n.Ports {
				bytes := p.C[link.TxBytes]
				if all += bytes; plan.Nodes[i].Name == "spine3" {
					slow[lb] += float64(bytes)
				}
			}
		}
		slow[lb] /= float64(all)
		t.Logf("%s: %.3f x ideal, the slow spine carries %.3f, %d trims", lb, r.Ratio, slow[lb], r.Trims)
		if lb == "uccl" {
			inChunks(t, evs, chunk)
		}
	}
	if slow["uccl"] > slow["oblivious"]*2/3 {
		t.Errorf("the slow spine carries %.3f of all with uccl, %.3f with oblivious", slow["uccl"], slow["oblivious"])
	}
}

func inChunks(t *testing.T, evs []uint16, chunk int) {
	t.Helper()
	all, same := map[uint16]bool{}, 0
	for i, ev := range evs {
		if i%chunk != 0 && ev != evs[i-1] {
			t.Fatalf("packet %d has another entropy value than the one before it in its chunk", i)
		}
		if i%chunk == 0 && i > 0 && ev == evs[i-1] {
			same++
		}
		if ev>>8 != evs[0]>>8 {
			t.Fatalf("entropy value %#x is not of the 256 of %#x", ev, evs[0])
		}
		all[ev] = true
	}
	if chunks := len(evs) / chunk; len(all) < min(256, chunks)*3/4 || same > chunks/10 {
		t.Errorf("%d entropy values in %d chunks, %d times the same twice", len(all), chunks, same)
	}
}
