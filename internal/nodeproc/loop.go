package nodeproc

import (
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sys/unix"

	"github.com/uetlab/uetlab/internal/clock"
	"github.com/uetlab/uetlab/internal/ctl"
	"github.com/uetlab/uetlab/internal/engine"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/pktio"
	"github.com/uetlab/uetlab/internal/vt"
)

// port is what the loop knows of a port beyond the link model.
type port struct {
	lab    bool            // the far end is a lab node: trailer and agreement
	peer   *clock.NodePage // its page
	peerID int
	theirs int           // the far end's port index
	ahead  time.Duration // lookahead of the link into us, plus our own pipeline latency
	sent   uint64        // frames written on this port
	taken  uint64        // lab frames read from it
	valid  vt.Time       // the peer's horizon, as far as all its frames are here
	claim  vt.Time       // a horizon read in this sweep …
	need   uint64        // … and the frames that must be here before it counts

	room  int64  // frames that the peer's ring is sure to hold for this link …
	seen  uint64 // … and how many it had taken when we last looked
	short int64  // wall time since when frames are missing that the peer has sent, 0 = none are
	stuck uint64 // what we had taken then
}

type outgoing struct {
	port int
	f    *link.Frame
}

// loop drives one node: it takes what the ring holds, handles every event that is safe, writes what comes of it in one
// batch, publishes how far it has come, and yields. One thread owns everything.
type loop struct {
	node  *engine.Node
	sock  *pktio.Socket
	page  *clock.NodePage
	clk   *clock.ClockPage
	conn  *ctl.Conn
	id    int
	ports []port
	wall  clock.Wall

	seg       clock.Segment
	bell      uint32
	horizon   vt.Time
	out       []outgoing
	busy      bool          // the page's Seq is odd
	control   uint8         // DSCP of an end point's control packets, 0: the node is none
	spin      time.Duration // at the wall's pace: how long to look for work before sleeping
	spare     bool          // processes that use the node have processors of their own, too
	sharedTil int64         // wall time up to which others are at work on the processor that a process shares with us
	shown     vt.Time       // at the wall's pace: when the page was last published
	idle      patience
	late      uint64
	worst     time.Duration
	frames    uint64
	latency   time.Duration

	onMessage func(m *ctl.Message) error // set by the process
	settled   func() bool                // nothing will come of the node by itself; may be nil
	publish   func()                     // copies the core's counters into the page
	reconnect func() (*ctl.Conn, error)  // looks for a new daemon; nil: there is none yet
	orphan    int64                      // wall time of the next look for one; 0 = the daemon is there
	beat      uint64                     // the daemon's heartbeat …
	beatWall  int64                      // … and when it last moved
	ringDrops uint64                     // frames that found the ring full, as far as counted
	owner     uint64                     // number of the daemon that we are connected to
	lonely    bool                       // the heartbeat is missing
	turns     uint                       // of the loop, to look at the clock only now and then
	stop      bool
	clients   clients
}

const (
	napAfter   = 20 * time.Millisecond  // no progress for so long: the loop sleeps between sweeps
	nap        = 50 * time.Microsecond  // that sleep
	restNap    = time.Millisecond       // the same in a lab that rests
	restLong   = 2 * time.Second        // the same at the limit: the message that a new segment brings may have been used up
	lostAfter  = 200 * time.Millisecond // a neighbour's frames are missing for so long: they were dropped
	roomAfter  = 10 * time.Second       // a neighbour takes no frames for so long: it will not
	deadAfter  = 3 * time.Second        // a heartbeat is missing for so long: the daemon is dead
	saneWindow = 10 * time.Second       // a due time further ahead is not one of ours
)

// Transmit implements engine.Out.
func (l *loop) Transmit(port int, f *link.Frame) {
	l.out = append(l.out, outgoing{port, f})
	if len(l.out) == cap(l.out) {
		l.flush()
	}
}

// enter marks the page as being changed.
func (l *loop) enter() {
	if !l.busy {
		l.busy = true
		l.page.Seq.Add(1)
	}
}

// flush writes all frames that have left their ports, each with its trailer.
func (l *loop) flush() {
	for _, o := range l.out {
		b := o.f.B
		if p := &l.ports[o.port]; p.lab {
			if int64(p.sent-p.seen) >= p.room {
				l.makeRoom(p)
			}
			b = o.f.Encode(l.seg.Flags&clock.Real != 0) // in real time nothing flips bits on the way, and looking would cost as much as all else here
		}
		l.ports[o.port].sent++
		if l.sock.Queue(o.port, b) {
			l.sock.Flush(l.refused)
		}
	}
	l.sock.Flush(l.refused)
	for i := range l.out {
		l.out[i].f.Release()
		l.out[i].f = nil
	}
	l.out = l.out[:0]
}

// refused counts a frame that the kernel did not take: it never counts as sent, and the run is not exact.
func (l *loop) refused(port int, err error) {
	l.ports[port].sent--
	l.node.Ports[port].C[link.DropKernel]++
	if l.ports[port].lab {
		l.fault(clock.FaultSend)
	}
}

func (l *loop) fault(f clock.Fault) {
	l.page.Fault.CompareAndSwap(uint64(clock.FaultNone), uint64(f))
}

// drain takes all frames from the ring and says whether there were any.
func (l *loop) drain(now vt.Time) (any bool) {
	for {
		i, b, ok := l.sock.Next()
		if !ok {
			return any
		}
		any = true
		l.enter()
		l.take(i, b, now)
		l.sock.Release()
	}
}

func (l *loop) take(i int, b []byte, now vt.Time) {
	p, lp := &l.ports[i], l.node.Ports[i]
	f := l.node.Pool.Get()
	if !p.lab {
		if len(b) > l.node.Pool.MaxFrame() {
			lp.Drop(link.DropPacket, f)
			return
		}
		f.B, f.Due = append(f.B, b...), now
		l.node.Deliver(i, f)
		return
	}
	why, ok := f.Decode(b)
	if ok || why != link.DropTrailer {
		p.taken++
		l.frames++
	}
	switch {
	case !ok:
		lp.Drop(why, f)
		return
	case l.seg.Flags&clock.Real != 0:
		f.Due = now
	case f.Due < 0 || f.Due.Sub(l.horizon) > saneWindow:
		lp.Drop(link.DropWindow, f)
		return
	default:
		if by := l.horizon.Sub(l.node.ArrivesAt(i, f.Due)); by >= 0 {
			l.late++
			l.worst = max(l.worst, by)
			lp.C[link.Late]++
			l.fault(clock.FaultLate)
		}
	}
	l.node.Deliver(i, f)
}

// safe says up to when no frame can arrive any more: the least of all neighbours' horizons plus lookahead, as far as all
// the frames that belong to a horizon have been taken.
func (l *loop) safe() vt.Time {
	bound := vt.Never
	for i := range l.ports {
		p := &l.ports[i]
		if !p.lab || l.clk.Dead(p.peerID) {
			continue
		}
		if p.taken >= p.need {
			p.valid = max(p.valid, p.claim)
		}
		bound = min(bound, p.valid.Add(p.ahead))
	}
	return bound
}

// lookAhead works out anew how long the links take at least.
func (l *loop) lookAhead() {
	for i := range l.ports {
		l.ports[i].ahead = l.node.Ahead(i)
	}
}

// readPeers notes the neighbours' horizons before the ring is drained: first the horizon, then the count, so that the
// count can only be too new, which is harmless.
func (l *loop) readPeers() {
	for i := range l.ports {
		if p := &l.ports[i]; p.lab {
			p.claim = vt.Time(p.peer.Horizon.Load())
			p.need = p.peer.Sent[p.theirs].Load()
		}
	}
}

// agreed is a sweep in agreement with all other nodes. It says whether anything was handled or gained.
func (l *loop) agreed() bool {
	l.readPeers()
	l.drain(l.horizon.Add(1 - l.latency))
	bound := max(l.safe(), l.seg.Jump)
	if l.seg.K > 0 {
		gone := l.wall.Now() - l.seg.Wall0
		bound = min(bound, l.seg.Virt0+vt.Time(float64(gone)*1000/float64(l.seg.K)))
	}
	bound = min(bound, l.seg.Limit)
	held := l.serve(l.horizon)
	if bound <= l.horizon && !l.busy {
		return false
	}
	l.enter()
	if bound > l.horizon && !held {
		if l.node.Advance(bound) > 0 {
			l.page.Sweeps.Add(1)
		}
		l.flush()
		l.horizon = l.reached(bound)
	}
	l.show()
	return true
}

// show publishes the page: counters first, the horizon last.
func (l *loop) show() {
	p := l.page
	for i := range l.ports {
		p.Sent[i].Store(l.ports[i].sent)
		p.Taken[i].Store(l.ports[i].taken)
		for c, v := range l.node.Ports[i].C {
			p.Ports[i][c].Store(v)
		}
	}
	l.publish()
	p.Frames.Store(l.frames)
	p.Late.Store(l.late)
	p.Worst.Store(int64(l.worst))
	call := l.showClients()
	next := min(l.node.Next(), call)
	p.Next.Store(int64(next))
	if call == vt.Never && l.settled != nil && l.settled() {
		next = vt.Never
	}
	p.Left.Store(int64(next))
	p.Horizon.Store(int64(l.horizon))
	l.busy = false
	p.Seq.Add(1)
}

// rejoin begins a link anew after the node at its other end was restarted: counts of frames start at 0 at both ends.
func (l *loop) rejoin(i int) {
	p := &l.ports[i]
	p.sent, p.taken, p.need, p.claim, p.seen, p.room, p.short = 0, 0, 0, 0, 0, 0, 0
	p.valid = l.horizon
}

// past says whether virtual time has gone beyond t at this node.
func (l *loop) past(t vt.Time) bool { return l.seg.Flags&clock.Real == 0 && t <= l.horizon }

// messages handles all that the daemon has sent.
func (l *loop) messages() error {
	for {
		var m ctl.Message
		files, err := l.conn.Recv(&m, false)
		for _, f := range files {
			f.Close()
		}
		switch {
		case errors.Is(err, ctl.ErrAgain):
			return nil
		case errors.Is(err, io.EOF):
			l.orphan = l.wall.Now() + int64(redial)
			return nil
		case err != nil:
			return err
		}
		if err := l.onMessage(&m); err != nil && !errors.Is(err, unix.EPIPE) {
			return err
		}
	}
}

// abandonedNow asks abandoned now and then, or always once it has said yes.
func (l *loop) abandonedNow() bool {
	if l.turns%256 != 0 && !l.lonely {
		return false
	}
	if o := l.clk.Owner.Load(); o != l.owner { // a new daemon is there before the old one was missed
		l.owner, l.orphan, l.lonely = o, 1, true
		return true
	}
	l.lonely = l.abandoned()
	return l.lonely
}

// abandoned says whether the daemon has died in the middle of a run: nobody would ever stop the nodes, so they slow down
// until a new one comes or the lab goes.
func (l *loop) abandoned() bool {
	now := l.wall.Now()
	if b := l.clk.Beat.Load(); b != l.beat || l.beatWall == 0 {
		l.beat, l.beatWall = b, now
	}
	return now-l.beatWall > int64(deadAfter)
}

// look tries to find a new daemon from time to time.
func (l *loop) look() error {
	if l.orphan == 0 {
		return nil
	}
	now := l.wall.Now()
	if now < l.orphan {
		return nil
	}
	l.orphan = now + int64(redial)
	c, err := l.reconnect()
	if c != nil {
		l.conn, l.orphan, l.beatWall, l.owner = c, 0, 0, l.clk.Owner.Load()
	}
	return err
}

// run loops until a stop message or the end of the lab's directory.
func (l *loop) run() error {
	for !l.stop {
		if n := l.clk.Bell[l.id].Load(); n != l.bell {
			l.bell = n
			if err := l.messages(); err != nil {
				return err
			}
		}
		s, read := l.clk.Read()
		if read && s.Seq != l.seg.Seq {
			l.seg = s
			l.page.Ack.Store(s.Seq)
		}
		if l.turns++; l.abandonedNow() {
			if err := errors.Join(l.block(redial), l.look()); err != nil {
				return err
			}
			read = false // a message that came meanwhile may have been that of a new segment
		}
		progress := false
		if l.seg.Flags&clock.Real != 0 {
			progress = l.realtime()
		} else {
			progress = l.agreed()
		}
		if progress || !read { // who sleeps on an old segment has used up the message that was to wake it for the new one
			l.idle.tries, l.idle.nap = 0, false
			continue
		}
		if err := l.wait(); err != nil {
			return err
		}
	}
	return nil
}

// wait passes the time when nothing can be handled: it yields for a while, since the others are most likely about to go
// on, and then sleeps; at rest it blocks until a message or a frame comes.
func (l *loop) wait() error {
	if err := l.look(); err != nil {
		return err
	}
	if l.clients.stands() {
		return l.block(thinks)
	}
	if l.seg.Flags&clock.Real != 0 {
		return l.waitReal()
	}
	resting := l.seg.Flags&clock.Rest != 0
	if resting && l.horizon >= l.seg.Limit && l.idle.tries > 2 {
		return l.block(restLong)
	}
	if resting && l.idle.tries > 4 { // nobody waits for what a lab at rest does: others need not find us awake
		l.missing()
		return l.block(restNap)
	}
	if l.idle.nap {
		l.missing()
	}
	l.idle.rest(l.wall.Now)
	return nil
}

// overflows counts what the kernel could not place in the ring. It does not say for which port, so the first has them all.
func (l *loop) overflows() (any bool) {
	n := l.sock.Drops()
	l.node.Ports[0].C[link.DropRing] += n - l.ringDrops
	any = n != l.ringDrops
	l.ringDrops = n
	return any
}

// block sleeps until a frame or a message arrives, or d has passed (forever if negative).
func (l *loop) block(d time.Duration) error {
	fds := []unix.PollFd{{Fd: int32(l.conn.FD()), Events: unix.POLLIN}, {Fd: int32(l.sock.FD()), Events: unix.POLLIN}}
	if l.orphan != 0 {
		fds = fds[1:]
		d = redial
	}
	if l.clients.Server != nil {
		fds = append(fds, unix.PollFd{Fd: int32(l.clients.FD()), Events: unix.POLLIN})
		defer l.clients.Awake()
		if !l.clients.Sleep() {
			return nil
		}
	}
	var ts *unix.Timespec
	if d >= 0 {
		t := unix.NsecToTimespec(int64(d))
		ts = &t
	}
	if _, err := unix.Ppoll(fds, ts, nil); err != nil && err != unix.EINTR {
		return fmt.Errorf("poll: %w", err)
	}
	if l.orphan == 0 && fds[0].Revents != 0 {
		return l.messages()
	}
	return nil
}
