package attach

import (
	"io"
	"time"

	"golang.org/x/sys/unix"

	"github.com/uetlab/uetlab/internal/shm"
	"github.com/uetlab/uetlab/internal/vt"
)

// client is a process.
type client struct {
	s        *Server
	sock     int
	bell     int // rings us
	pid      int
	pidfd    int
	readable bool   // the socket may have messages
	dead     bool   // it hung up, or broke the rules: to be removed at the next instant
	gone     bool   // removed: completions that still come are nobody's
	wants    bool   // it needs an instant
	intruded bool   // it acts although it had said that it waits
	first    []byte // its hello, until there is an instant for it

	sq    *shm.SQ
	sqMem []byte
	head  uint32 // submissions taken
	steps int    // that are left of this turn
	short bool   // the turn was over before all submissions were taken
	kept  []byte // a message that comes after those
	fds   []int  // of kept
	holds uint64 // as in the page
	held  bool
	since int64 // wall time of the hold
	free  bool
	near  bool // it looks for work on our processor

	job     uint32
	process uint16 // PIDonFEP
	claimed []procKey

	cqs     []*queue // by ID - 1; nil: closed
	avs     []*vector
	regions []*region
	eps     []*endpoint
	srxs    []*shared
	mrs     []*registration
	ops     []slot
	spare   []uint32
	counts  counts

	start  uint32 // 1 + index of the operation that waits for a run
	report []byte // what has come of a report
}

// counts are what the limits bound.
type counts struct {
	objects, cqs, mrs, addresses, regions, ops uint32
	bytes, copies                              uint64
}

// sync says whether the node waits for the process.
func (c *client) sync() bool { return !c.free && !c.s.real }

// hold has the node stand still at now until the process waits; a free one only hears of it.
func (c *client) hold(now vt.Time) {
	if c.sq != nil {
		c.holds++
		c.sq.Now.Store(int64(now))
		c.sq.Hold.Store(c.holds)
		c.ring()
	}
	if !c.sync() {
		c.s.handed = c.s.handed || c.near
		return
	}
	if !c.held {
		c.held = true
		c.s.held++
		c.since = c.s.cfg.Wall()
	}
	c.s.node.Interrupt()
}

func (c *client) release() {
	if c.held {
		c.held, c.intruded = false, false
		c.s.held--
	}
}

// ring wakes the process if it sleeps. A full socket wakes it just as well.
func (c *client) ring() {
	if c.sq.Sleeps.Load() != 0 && c.sq.Sleeps.CompareAndSwap(1, 0) {
		shm.SendDoorbell(c.sock)
	}
}

// setFree stops waiting for the process, for good.
func (c *client) setFree() {
	c.free = true
	c.release()
	c.showTime()
	if c.sq != nil {
		c.sq.Hold.Store(c.holds) // unchanged: it looks because it is rung
		c.ring()
	}
}

func (c *client) showTime() {
	if c.sq == nil {
		return
	}
	var fl uint32
	if c.s.real {
		fl |= shm.PageReal
	}
	if c.free {
		fl |= shm.PageFree
	}
	c.sq.Virt0.Store(int64(c.s.virt0))
	c.sq.Wall0.Store(c.s.wall0)
	c.sq.Flags.Store(fl)
}

// pending says whether there is something to take.
func (c *client) pending() bool {
	return c.readable || c.kept != nil || c.sq != nil && c.sq.SQTail.Load() != c.head
}

// greet takes the first message of a process, which must be its hello. Nobody waits for one that says nothing, and one that goes again
// leaves nothing behind.
func (c *client) greet() {
	n, fds, err := shm.Recv(c.sock, c.s.buf[:])
	shm.CloseAll(fds)
	switch {
	case err == shm.ErrAgain:
		c.readable = false
	case err != nil || n > shm.MaxMessage:
		c.dead = true
	default:
		c.first = append([]byte{}, c.s.buf[:n]...)
		c.wants = true
	}
}

// serve is a turn of a process that is held.
func (c *client) serve(now vt.Time) (progress bool) {
	wait, waits := uint64(0), false
	if c.sq != nil {
		wait, waits = c.sq.Wait.Load(), true // before the ring: what it posted before it waited is there
	}
	progress = c.work(now)
	switch {
	case c.dead:
	case waits && wait == c.holds && !c.readable && !c.short && c.kept == nil || !c.sync():
		c.release()
		progress = true
	case c.s.cfg.Wall()-c.since > int64(c.s.cfg.Patience/time.Nanosecond):
		c.setFree()
		progress = true
	}
	return progress
}

// A turn of one process is bounded, so that none can keep the node busy: in messages, and in steps, one for each submission and more for those that
// look for something.
const (
	mostAtOnce  = 16
	stepsAtOnce = 4096
	lookPerStep = 16 // operations
)

// work takes messages and submissions at now. What was submitted before a message was sent comes before it.
func (c *client) work(now vt.Time) (progress bool) {
	c.steps = stepsAtOnce
	progress = c.take(now)
	for range mostAtOnce {
		if c.dead || c.short || c.kept == nil && !c.readable {
			break
		}
		b, fds, err := c.kept, c.fds, error(nil)
		if c.kept, c.fds = nil, nil; b == nil {
			var n int
			if n, fds, err = shm.Recv(c.sock, c.s.buf[:]); err == nil {
				b = c.s.buf[:n]
			}
		}
		switch {
		case err == shm.ErrAgain:
			c.readable = false
		case err == io.EOF || err != nil || len(b) > shm.MaxMessage:
			shm.CloseAll(fds)
			c.dead = true
		default:
			progress = true
			if c.take(now); c.short {
				c.kept, c.fds = append([]byte{}, b...), fds
				break
			}
			c.message(now, b, fds)
		}
	}
	return progress
}

// take carries out what is in the submission ring.
func (c *client) take(now vt.Time) bool {
	if c.sq == nil || c.dead {
		return false
	}
	tail := c.sq.SQTail.Load()
	if tail-c.head > c.sq.Size() {
		c.dead = true // more than the ring holds: it is not ours any more
		return true
	}
	if tail == c.head {
		c.short = false
		return false
	}
	before := c.head
	for c.head != tail && c.steps > 0 {
		c.steps--
		c.sq.Take(c.head, &c.s.sqe)
		c.head++
		c.submit(now, &c.s.sqe)
	}
	if c.intruded || !c.sync() {
		c.s.total.FreeCalls += uint64(c.head - before)
		c.sq.FreeCalls.Store(c.sq.FreeCalls.Load() + uint64(c.head-before)) // read back for people only
	}
	c.short = c.head != tail
	c.sq.SQHead.Store(c.head)
	return true
}

// remove frees all that a process held: first the FEP lets go of its memory, then the memory goes.
func (s *Server) remove(c *client, now vt.Time) {
	c.release()
	if c.near {
		s.near--
	}
	c.dead, c.gone, c.near = true, true, false
	for _, e := range c.eps {
		if e != nil {
			e.close(now)
		}
	}
	for _, x := range c.srxs {
		if x != nil {
			x.q.Close(now)
		}
	}
	s.forgetWakes(c)
	for i := range c.ops {
		if c.ops[i].used {
			c.retire(uint32(i))
		}
	}
	for _, r := range c.regions {
		r.free()
	}
	for _, q := range c.cqs {
		if q != nil {
			shm.Unmap(q.mem)
		}
	}
	shm.Unmap(c.sqMem)
	c.sq, c.sqMem = nil, nil
	shm.CloseAll(c.fds)
	delete(s.byFD, int32(c.sock))
	if c.bell >= 0 { // the process may keep its own descriptor of it, whose events would be those of the next one with our number
		_ = unix.EpollCtl(s.epoll, unix.EPOLL_CTL_DEL, c.bell, nil)
	}
	for _, fd := range []int{c.sock, c.bell, c.pidfd} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
	for _, k := range c.claimed {
		delete(s.procs, k)
	}
	s.total.Processes--
	s.total.Endpoints -= uint64(c.live())
	s.total.MRs -= uint64(c.counts.mrs)
	s.total.Regions -= uint64(c.counts.regions)
	s.total.Bytes -= c.counts.bytes
	s.total.Copies -= c.counts.copies
	for i, x := range s.clients {
		if x == c {
			s.clients = append(s.clients[:i], s.clients[i+1:]...)
			break
		}
	}
	c.cqs, c.avs, c.regions, c.eps, c.srxs, c.mrs, c.ops = nil, nil, nil, nil, nil, nil, nil
}

func (c *client) live() (n int) {
	for _, e := range c.eps {
		if e != nil {
			n++
		}
	}
	return n
}

// reset completes all operations, which the FEP has forgotten.
func (c *client) reset(now vt.Time) {
	for i := range c.ops {
		o := &c.ops[i]
		if !o.used || o.wake {
			continue
		}
		e := shm.CQE{Op: o.op, Object: o.object, Peer: -1, Status: shm.StatusReset, Posted: int64(o.posted)}
		c.finish(now, uint32(i), &e, true)
	}
}
