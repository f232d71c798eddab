package nodeproc

import (
	"errors"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/uetlab/uetlab/internal/clock"
	"github.com/uetlab/uetlab/internal/engine"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/pktio"
)

// lonely is the loop of node 0 with one port, whose far end is the page of node 1.
func lonely(t *testing.T) (l *loop, peer *clock.NodePage, daemon *clock.ClockPage) {
	t.Helper()
	dir := t.TempDir()
	daemon, err := clock.Create(dir, 2)
	if err != nil {
		t.Fatal(err)
	}
	l = &loop{wall: clock.NewWall(), clk: daemon, ports: []port{{lab: true, peerID: 1}}}
	if l.page, err = clock.OpenNode(dir, 0, true); err != nil {
		t.Fatal(err)
	}
	if peer, err = clock.OpenNode(dir, 1, true); err != nil {
		t.Fatal(err)
	}
	l.ports[0].peer = peer
	l.node = engine.New(engine.Config{Ports: []link.Config{{Rate: 1e9, Queue: 1e4, MTU: 1500}}, MaxFrame: 1518}, l)
	if l.sock, err = pktio.Open(nil, 1518, 8); errors.Is(err, unix.EPERM) {
		t.Skip("packet sockets need CAP_NET_RAW")
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.sock.Close() })
	return l, peer, daemon
}

func TestMakeRoomWaitsForTheOtherEnd(t *testing.T) {
	l, peer, daemon := lonely(t)
	p := &l.ports[0]
	p.sent, p.taken = 10, 42
	l.makeRoom(p) // the other end has no ring yet
	peer.Room.Store(4)
	done := make(chan struct{})
	go func() { // ends when the other end has taken all
		defer close(done)
		for i := range 10 {
			for tries := 0; i == 6 && l.page.Taken[0].Load() != 42 && tries < 1<<24; tries++ { // with this one there is room
				runtime.Gosched()
			}
			peer.Taken[0].Add(1)
		}
	}()
	l.makeRoom(p)
	if left := int64(p.sent - p.seen); left >= 4 {
		t.Errorf("went on with %d frames under way", left)
	}
	if got := l.page.Taken[0].Load(); got != 42 {
		t.Errorf("told the others of %d frames taken: they would wait in a circle", got)
	}
	<-done
	p.sent = 100
	daemon.SetDead(1, true)
	l.makeRoom(p) // nobody there to take them
	daemon.SetDead(1, false)
	l.seg.Flags = clock.Real
	l.makeRoom(p) // at the wall's pace nobody waits
}

// TestMissingFramesAreThoseThatStayAway: a count that is ahead of the frames for a moment is no loss, however long the node
// has had nothing to do.
func TestMissingFramesAreThoseThatStayAway(t *testing.T) {
	l, _, daemon := lonely(t)
	p := &l.ports[0]
	fault := func() clock.Fault { return clock.Fault(l.page.Fault.Load()) }
	p.need, p.taken = 5, 3
	l.missing()
	if p.short == 0 || fault() != clock.FaultNone {
		t.Fatalf("missing since %d, fault %v", p.short, fault())
	}
	p.short -= int64(lostAfter) // a long time passes, and one of them comes
	p.taken++
	l.missing()
	if p.taken != 4 || fault() != clock.FaultNone {
		t.Fatalf("taken %d, fault %v: frames that come are given up", p.taken, fault())
	}
	p.short -= int64(lostAfter)
	daemon.SetDead(1, true)
	l.missing()
	if p.short != 0 || p.taken != 4 {
		t.Errorf("waits for a dead neighbour")
	}
	daemon.SetDead(1, false)
	l.missing()
	p.short -= int64(lostAfter) + 1
	l.missing()
	if p.taken != 5 || fault() != clock.FaultLost || l.node.Ports[0].C[link.DropRing] != 1 {
		t.Errorf("taken %d, fault %v, %d counted", p.taken, fault(), l.node.Ports[0].C[link.DropRing])
	}
}
