package switchd

import (
	"testing"

	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/wire"
)

// With a coin either the arriving packet or the last of the queue is the victim, both about as often.
func TestCoinChoosesVictim(t *testing.T) {
	set := plan()
	set.Trim.Coin = true
	set.Queues[2].Limit = 1 << 20
	r := newRig(t, set, 400*gig, gig)
	for i := range 1000 {
		r.send(1, pkt{to: 1, size: 4000, dscp: dscpData, ev: uint16(i)})
	}
	if n := r.Ports[1].QueueBytes(1); n != 100_000 {
		t.Errorf("%d bytes wait", n)
	}
	if r.s.buf.total != r.Ports[1].Backlog() {
		t.Errorf("%d accounted, %d wait", r.s.buf.total, r.Ports[1].Backlog())
	}
	r.drain()
	frames := r.got(1)
	last := ofDSCP(frames, dscpData)
	if len(frames) != 1000 || len(last) != 26 || r.stat(1, 1, link.QTrimTx) != 974 {
		t.Fatalf("%d frames, %d whole", len(frames), len(last))
	}
	ev := wire.UDP(last[25].B[wire.EthLen+wire.IPv4Len:]).SrcPort()
	if ev < 980 { // the chance that 20 tosses in a row favour the queue is one in a million
		t.Errorf("the last place is still that of packet %d", ev)
	}
	swaps := 0
	for i, f := range ofDSCP(frames, dscpTrimmed) {
		if i > 0 && wire.UDP(f.B[wire.EthLen+wire.IPv4Len:]).SrcPort() != uint16(26+i) {
			swaps++
		}
	}
	if swaps < 400 || swaps > 600 {
		t.Errorf("%d of 974 times not the arriving packet was trimmed", swaps)
	}
}

// The queue's last frame stays where it is if it may not be trimmed, or makes too little room.
func TestCoinSparesWhatCannotBeTrimmed(t *testing.T) {
	set := plan()
	set.Trim.Coin = true
	set.Classes[dscpBest] = 1
	r := newRig(t, set, 400*gig, gig)
	r.send(26, pkt{to: 1, size: 4000, dscp: dscpBest})
	r.send(50, pkt{to: 1, size: 4000, dscp: dscpData})
	if r.stat(1, 1, link.QTrim) != 50 || r.Ports[1].C[link.DropQueue] != 0 || r.Ports[1].QueueBytes(1) != 100_000 {
		t.Error("a frame that may not be trimmed gave its place")
	}
	r = newRig(t, set, 400*gig, gig)
	r.send(25, pkt{to: 1, size: 4000, dscp: dscpData})
	r.send(40, pkt{to: 1, size: 100, dscp: dscpData})
	r.send(50, pkt{to: 1, size: 1000, dscp: dscpData})
	if n := r.Ports[1].QueueBytes(1); n > 100_000 || r.s.buf.total != r.Ports[1].Backlog() {
		t.Errorf("%d bytes wait, %d accounted", n, r.s.buf.total)
	}
}
