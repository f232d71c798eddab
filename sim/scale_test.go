package sim

import (
	"runtime"
	"testing"
	"time"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/fep"
	"github.com/uetlab/uetlab/internal/vt"
)

// manyPDCs opens n PDCs from one end point of a pair to the other, each of its own job, by a write on each of them. ready is called
// when all is prepared, and before the first of them.
func manyPDCs(t testing.TB, p topology.FEPParams, n int, ready func()) (f *Fabric, from, to *fep.FEP) {
	t.Helper()
	plan, f := managed(t, "pair", p)
	var feps [2]*fep.FEP
	for i, h := range hosts(plan) {
		c := f.nodes[h].FEP.Config()
		c.MaxPDCs, c.IdleClose, c.TargetIdle = n+1, time.Hour, time.Hour
		feps[i] = fep.New(f.nodes[h].Node, c)
		f.nodes[h].FEP = feps[i]
	}
	done, buf := 0, make([]byte, 100)
	eps := make([]*fep.Endpoint, n)
	for job := range n {
		eps[job] = feps[0].OpenEndpoint(uint32(job+1), 0, 0, func(_ vt.Time, c fep.Completion) {
			if c.Err != nil {
				t.Error(c.Err)
			}
			done++
		})
		eps[job].InsertAddr(feps[1].Addr(), 0, 1)
		feps[1].OpenEndpoint(uint32(job+1), 0, 1, nil).Register(buf)
	}
	ready()
	next := t0
	for job := range n {
		f.nodes[hosts(plan)[0]].Call(next, func(now vt.Time) {
			if err := eps[job].Write(now, 0, buf, 1, 0, 0); err != nil {
				t.Error(err)
			}
		})
		next += 50
		if job%100 == 99 {
			for f.step(next - 1) {
			}
		}
	}
	for f.step(next.Add(time.Millisecond)) {
	}
	if done != n {
		t.Fatalf("%d of %d writes done", done, n)
	}
	runtime.KeepAlive(eps)
	return f, feps[0], feps[1]
}

// TestTenThousandPDCs opens 10 000 PDCs between two end points of a simulated fabric and counts what they cost when idle: half of
// them are initiators, half are targets.
func TestTenThousandPDCs(t *testing.T) {
	const n = 10_000
	heap := func() uint64 {
		var s runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&s)
		return s.HeapAlloc
	}
	for _, c := range []struct {
		name string
		fep  topology.FEPParams
		most int64
	}{{"fixed, spray", fixedWindow, 1024}, {"nscc, reps", topology.FEPParams{}, 1024 + 128}} {
		before := uint64(0)
		f, from, to := manyPDCs(t, c.fep, n, func() { before = heap() })
		each := (int64(heap()) - int64(before)) / (2 * n)
		runtime.KeepAlive(f)
		if from.C[fep.PDCsOpen] != n || to.C[fep.PDCsOpen] != n {
			t.Fatalf("%d and %d PDCs are open", from.C[fep.PDCsOpen], to.C[fep.PDCsOpen])
		}
		t.Logf("%s: %d bytes for each of %d idle PDCs", c.name, each, 2*n)
		if each <= 0 || each > c.most {
			t.Errorf("%s: %d bytes for an idle PDC, want at most %d", c.name, each, c.most)
		}
	}
}
