package nodeproc

import (
	"golang.org/x/sys/unix"

	"github.com/uetlab/uetlab/internal/clock"
	"github.com/uetlab/uetlab/internal/link"
)

// makeRoom waits until the ring at the other end of a port is sure to hold one more frame. Lookahead bounds what may be
// under way in virtual time, but on a long link that is more than any ring holds, and the other node may not get a
// processor for a long while. Whoever waits here goes on taking frames itself, so that nobody waits for it in a circle. It
// costs wall time alone.
func (l *loop) makeRoom(p *port) {
	var wait patience
	for l.seg.Flags&clock.Real == 0 && !l.clk.Dead(p.peerID) {
		p.room, p.seen = int64(p.peer.Room.Load()), p.peer.Taken[p.theirs].Load()
		if p.room == 0 || int64(p.sent-p.seen) < p.room {
			return
		}
		if wait.tries == 0 {
			l.sock.Flush(l.refused) // the other end cannot take what waits here
		}
		l.readPeers()
		l.drain(max(l.horizon.Add(1), l.node.Now()).Add(-l.latency))
		for i := range l.ports {
			l.page.Taken[i].Store(l.ports[i].taken)
		}
		l.missing()
		if wait.rest(l.wall.Now); l.wall.Now()-wait.since > int64(roomAfter) {
			return
		}
	}
}

// patience says how a node passes the time while it waits for others.
type patience struct {
	tries int
	since int64 // wall time of the first try
	nap   bool
}

// rest yields the processor; the others are most likely about to go on. Only after a while without any progress, as when
// one of them is stopped, does it sleep in between: nodes that sleep too soon make each other wait.
func (p *patience) rest(now func() int64) {
	switch p.tries++; {
	case p.tries == 1:
		p.since, p.nap = now(), false
	case p.tries%64 == 0:
		p.nap = now()-p.since > int64(napAfter)
	}
	if !p.nap {
		_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
		return
	}
	ts := unix.NsecToTimespec(int64(nap))
	_ = unix.Nanosleep(&ts, nil)
}

// missing looks for frames that a neighbour has written and that do not come for a long while: the kernel dropped them.
// The count is forgiven so that the lab goes on, and the run is marked.
func (l *loop) missing() {
	now := l.wall.Now()
	for i := range l.ports {
		p := &l.ports[i]
		switch {
		case !p.lab || p.taken >= p.need || l.clk.Dead(p.peerID):
			p.short = 0
		case p.short == 0 || p.stuck != p.taken:
			p.short, p.stuck = now, p.taken
		case now-p.short > int64(lostAfter):
			l.node.Ports[i].C[link.DropRing] += p.need - p.taken
			p.taken, p.short = p.need, 0
			if drops := l.sock.Drops(); drops > l.ringDrops {
				l.ringDrops = drops
				l.fault(clock.FaultRing)
			} else {
				l.fault(clock.FaultLost)
			}
		}
	}
}
