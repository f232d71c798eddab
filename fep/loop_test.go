package fep

import (
	"net/netip"
	"testing"

	"github.com/uetlab/uetlab/internal/engine"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/vt"
)

// nowhere takes what a node sends, and fails the test.
type nowhere struct{ t testing.TB }

func (o nowhere) Transmit(_ int, f *link.Frame) {
	o.t.Error("a packet to the own address goes out")
	f.Release()
}

// TestPacketsToTheOwnAddress has two processes of one end point talk to each other while nobody is at the other end of its link.
func TestPacketsToTheOwnAddress(t *testing.T) {
	n := engine.New(engine.Config{ID: 1, Seed: 1, MaxFrame: 4600, Ports: []link.Config{{Rate: 400e9, Delay: 500, Queue: 1 << 20, MTU: 4500}}}, nowhere{t})
	addr := netip.MustParseAddr("10.0.0.1")
	f := New(n, Config{Addr4: addr, MAC: [6]byte{2, 0, 0, 0, 0, 1}, NextHop: [6]byte{2, 0, 0, 0, 0, 9}})
	var done [2]int
	var eps [2]*Endpoint
	for i := range eps {
		eps[i] = f.OpenEndpoint(1, uint16(i), uint32(i), func(now vt.Time, c Completion) {
			if c.Err != nil {
				t.Errorf("%v: %v", c.Kind, c.Err)
			}
			done[i]++
		})
		eps[i].InsertAddr(addr, 0, 0)
		eps[i].InsertAddr(addr, 1, 1)
	}
	const size, rounds = 100_000, 50
	out, in := make([]byte, size), make([]byte, size)
	for i := range out {
		out[i] = byte(i * 7)
	}
	at := vt.Time(1000)
	for range rounds { // the line never runs empty within one, and forgets what has passed
		clear(in)
		n.Call(at, func(now vt.Time) {
			if err := eps[1].TagRecv(now, 0, in, 5, 1); err != nil {
				t.Error(err)
			}
			if err := eps[0].TagSend(now, 1, out, 5, 2); err != nil {
				t.Error(err)
			}
		})
		n.Advance(at + 100_000)
		if string(in) != string(out) {
			t.Fatal("wrong data")
		}
		at = n.Now() + 200_000
	}
	if done != [2]int{rounds, rounds} {
		t.Errorf("%v completions", done)
	}
	if n.Pool.Out() != 0 || len(f.loop.q) > 256 || f.C[Retx] != 0 {
		t.Errorf("%d frames out, line of %d, %d sent again", n.Pool.Out(), len(f.loop.q), f.C[Retx])
	}
	// A run that begins forgets what is under way.
	n.Call(at, func(now vt.Time) { _ = eps[0].TagSend(now, 1, out, 5, 3) })
	n.Advance(at)
	n.Change(at+100, func(now vt.Time) { n.StartRun(now, 1) })
	if n.Advance(at + 1_000_000); n.Pool.Out() != 0 || len(f.loop.q) != 0 {
		t.Errorf("%d frames out, %d on the line", n.Pool.Out(), len(f.loop.q))
	}
}
