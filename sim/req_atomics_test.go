package sim

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/uetlab/uetlab/fep"
	"github.com/uetlab/uetlab/fep/mr"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// J14: 8 end points add to the same words of a ninth at the same time, fetching and not: the sums are exact, and of every word each
// value between was fetched at most once.
func TestJ14_ConcurrentSums(t *testing.T) {
	const adders, words, rounds = 8, 3, 100
	plan, f := build(t, "star-9")
	ids := hosts(plan)
	mem := make([]byte, 8*words)
	var key uint64
	done, failed := 0, 0
	fetched := [words]map[uint64]bool{}
	for i := range fetched {
		fetched[i] = map[uint64]bool{}
	}
	var eps []*fep.Endpoint
	old := [adders][words][rounds][8]byte{}
	for i, id := range ids {
		ep := f.nodes[id].FEP.OpenEndpoint(9, uint16(i), uint32(i), func(_ vt.Time, c fep.Completion) {
			done++
			if c.Err != nil {
				failed++
			}
		})
		if i == 0 {
			var err error
			if key, err = ep.RegisterMR(fep.MR{Buf: fep.Buffer{B: mem}, Access: mr.RemoteRead | mr.RemoteWrite | mr.RemoteAtomic}); err != nil {
				t.Fatal(err)
			}
		}
		eps = append(eps, ep)
	}
	want := [words]uint64{}
	for i := 1; i <= adders; i++ {
		eps[i].InsertAddr(plan.Nodes[ids[0]].Addr4, 0, 0)
		for w := range words {
			for r := range rounds {
				v := uint64(i*1000 + r)
				want[w] += v
				op := fep.Op{Kind: fep.OpAtomic, Atomic: wire.AtomicSum, Type: wire.AtomicUint64, Key: key, Offset: uint64(8 * w),
					Buf: fep.Buffer{B: binary.LittleEndian.AppendUint64(nil, v)}}
				if w > 0 {
					op.Kind, op.Result = fep.OpFetchAtomic, fep.Buffer{B: old[i-1][w][r][:]}
				}
				f.nodes[ids[i]].Call(t0, func(now vt.Time) {
					if err := eps[i].Post(now, &op); err != nil {
						t.Error(err)
					}
				})
			}
		}
	}
	for f.step(t0.Add(time.Second)) {
	}
	if done != adders*words*rounds || failed != 0 {
		t.Fatalf("%d completions, %d in error", done, failed)
	}
	for w := range words {
		if got := binary.LittleEndian.Uint64(mem[8*w:]); got != want[w] {
			t.Errorf("word %d is %d, want %d", w, got, want[w])
		}
		for i := range adders {
			for r := range rounds {
				v := binary.LittleEndian.Uint64(old[i][w][r][:])
				if w > 0 && (fetched[w][v] || v >= want[w]) {
					t.Errorf("word %d: %d was fetched twice, or never was there", w, v)
				}
				fetched[w][v] = true
			}
		}
	}
}
