package sim

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/uetlab/uetlab/fep"
	"github.com/uetlab/uetlab/internal/ctl"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// trio is a fabric of three end points, each with an endpoint of one job and 4 MiB of memory that the others may read and write.
type trio struct {
	t    *testing.T
	f    *Fabric
	node [3]int
	ep   [3]*fep.Endpoint
	mem  [3][]byte
	got  [3][]fep.Completion
}

const trioMem = 4 << 20

func newTrio(t *testing.T) *trio {
	plan, f := managed(t, "star-3", fixedWindow)
	x := &trio{t: t, f: f}
	for i, id := range hosts(plan) {
		x.node[i] = id
		x.ep[i] = f.nodes[id].FEP.OpenEndpoint(9, uint16(i), uint32(i), func(_ vt.Time, c fep.Completion) { x.got[i] = append(x.got[i], c) })
		x.mem[i] = make([]byte, trioMem)
		if key := x.ep[i].Register(x.mem[i]); key != 1 {
			t.Fatalf("key %d", key)
		}
	}
	for i := range x.ep {
		for j := range x.ep {
			x.ep[i].InsertAddr(plan.Nodes[x.node[j]].Addr4, uint16(j), uint32(j))
		}
	}
	return x
}

// run lets everything happen up to a time.
func (x *trio) run(until vt.Time) {
	for x.f.step(until) {
	}
}

// post starts n operations of size bytes from one to another at a time, every other one a read, and returns the buffers.
func (x *trio) post(at vt.Time, from, to, n, size int, ctx uint64) [][]byte {
	bufs := make([][]byte, n)
	for i := range bufs {
		bufs[i] = make([]byte, size)
		for j := range bufs[i] {
			bufs[i][j] = byte(int(ctx) + i + j*7)
		}
	}
	x.f.nodes[x.node[from]].Call(at, func(now vt.Time) {
		for i, b := range bufs {
			var err error
			if i%2 == 0 {
				err = x.ep[from].Write(now, to, b, 1, uint64(i*size), ctx+uint64(i))
			} else {
				err = x.ep[from].Read(now, to, b, 1, uint64(i*size), ctx+uint64(i))
			}
			if err != nil {
				x.t.Error(err)
			}
		}
	})
	return bufs
}

// restart makes an end point lose all it knows at a time, and cuts it off from the fabric until another.
func (x *trio) restart(i int, at, back vt.Time, seed uint64) {
	n := x.f.nodes[x.node[i]]
	n.Node.Change(at, func(now vt.Time) { n.Node.StartRun(now, seed) })
	if back == at {
		return
	}
	p := x.f.plan.Nodes[x.node[i]].Ports[0]
	for _, c := range []struct {
		at   vt.Time
		down bool
	}{{at, true}, {back, false}} {
		if err := x.f.Change(p.Peer, ctl.Change{At: c.at, Port: p.PeerIdx, Impair: &link.Impair{Down: c.down}}, ctl.Change{At: c.at, Port: p.PeerIdx, RxDown: &c.down}); err != nil {
			x.t.Fatal(err)
		}
	}
}

// TestC12_FEPRestartsInTheMiddle: an end point restarts while it is written to and read from. Its peers' operations end once, done
// or failed, within the 63 ms that a packet is tried; those between others do not notice; and new ones work as soon as it is back, in
// both directions, once each PDC that was idle at the restart has cost an operation: INV_DPDCID.
func TestC12_FEPRestartsInTheMiddle(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	for _, outage := range []time.Duration{0, 10 * time.Millisecond, 200 * time.Millisecond} {
		x := newTrio(t)
		const n, size = 8, 500_000
		crash := t0.Add(time.Duration(1000 + rng.IntN(60_000))) // all takes 90 us
		back := crash.Add(outage)
		x.post(t0, 0, 1, n, size, 100) // to the one that restarts
		x.post(t0, 1, 0, n, size, 200) // of the one that restarts
		x.post(t0, 2, 0, 2, size, 300)
		x.restart(1, crash, back, seed)
		end := crash.Add(max(outage, 100*time.Millisecond))
		x.run(end)

		count := map[uint64]int{}
		failed := 0
		var last time.Duration
		for _, c := range x.got[0] {
			count[c.Ctx]++
			last = max(last, c.Acked.Sub(crash))
			var pe *fep.PDCError
			if errors.As(c.Err, &pe) && (pe.Code == 0 || pe.Code == wire.NackInvDPDCID) {
				failed++
			} else if c.Err != nil {
				t.Errorf("seed %d: outage %v: operation %d: %v", seed, outage, c.Ctx, c.Err)
			}
		}
		for i := range uint64(n) {
			if count[100+i] != 1 {
				t.Errorf("seed %d: outage %v: operation %d has %d completions", seed, outage, i, count[100+i])
			}
		}
		t.Logf("seed %d: restart %v after the first post, away for %v: %d of %d operations failed, the last one ended %v after the restart",
			seed, crash.Sub(t0), outage, failed, n, last)
		if early := crash < t0.Add(10*time.Microsecond); last > 64*time.Millisecond || failed == 0 && !early { // an open can be repeated
			t.Errorf("seed %d: outage %v: the last operation ended %v after the restart, %d failed", seed, outage, last, failed)
		}
		if len(x.got[2]) != 2 || x.got[2][0].Err != nil || x.got[2][1].Err != nil {
			t.Errorf("seed %d: outage %v: between others: %+v", seed, outage, x.got[2])
		}
		x.got = [3][]fep.Completion{}
		for i := range 8 {
			x.post(end.Add(time.Duration(1+10_000*i)), 0, 1, 1, 100, 400)
		}
		end = end.Add(100 * time.Microsecond)
		x.run(end)
		for _, c := range x.got[0] {
			var pe *fep.PDCError
			if c.Err != nil && (!errors.As(c.Err, &pe) || pe.Code != wire.NackInvDPDCID) {
				t.Errorf("seed %d: outage %v: on an old PDC: %v", seed, outage, c.Err)
			}
		}
		if len(x.got[0]) != 8 || x.got[0][7].Err != nil {
			t.Errorf("seed %d: outage %v: on old PDCs: %+v", seed, outage, x.got[0])
		}
		x.anew(seed, end+1)
	}
}

// anew posts operations in both directions after the restart and looks at what they did, and at what is left.
func (x *trio) anew(seed uint64, at vt.Time) {
	x.t.Helper()
	x.got = [3][]fep.Completion{}
	const n, size = 4, 100_000
	var bufs [2][][]byte
	for i := range bufs {
		bufs[i] = x.post(at, i, 1-i, n, size, uint64(1000*i))
	}
	x.run(at.Add(time.Millisecond))
	for i := range bufs {
		if len(x.got[i]) != n {
			x.t.Errorf("seed %d: new operations of %d: %d of %d done", seed, i, len(x.got[i]), n)
		}
		for _, c := range x.got[i] {
			if c.Err != nil {
				x.t.Errorf("seed %d: new operation %d of %d: %v", seed, c.Ctx, i, c.Err)
			}
		}
		for j, b := range bufs[i] { // written there, or read from there
			if !bytes.Equal(b, x.mem[1-i][j*size:(j+1)*size]) {
				x.t.Errorf("seed %d: new operation %d of %d: contents differ", seed, j, i)
			}
		}
	}
	x.run(at.Add(3 * time.Minute)) // targets find out that their initiators are gone
	for i, id := range x.node {
		if r := x.f.nodes[id].FEP.PDS().Residue(); r != "" {
			x.t.Errorf("seed %d: left at %d:%s", seed, i, r)
		}
	}
	if out := x.f.mem.Pool.Out(); out != 0 {
		x.t.Errorf("seed %d: %d frames leaked", seed, out)
	}
}
