// Package attach lets processes of a node use its FEP: it accepts them on a unix socket, maps the memory that they share, turns
// their submissions into operations of package fep and the completions back, and has the node stand still while a synchronous
// process thinks. It trusts no byte of a process, bounds what one may hold, and frees everything when one dies. It does not run
// the node: whoever does calls Serve between its events and asks Held before it goes on.
package attach

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/uetlab/uetlab/fep"
	"github.com/uetlab/uetlab/internal/engine"
	"github.com/uetlab/uetlab/internal/shm"
	"github.com/uetlab/uetlab/internal/vt"
)

// Config of a Server. Zero values stand for what the comments say.
type Config struct {
	Limits   shm.Limits    // of one process; zero: DefaultLimits
	Clients  int           // processes at one time; 0: 256
	Patience time.Duration // wall time after which a process that does not wait is set free; 0: 10 s
	Wall     func() int64  // CLOCK_MONOTONIC, ns
	// Report takes what a process reports as a rank of a run; its error is the answer. Nil: nothing is taken.
	Report func(job uint32, pid uint16, b []byte) error
	// Yield asks whoever uses the FEP from within to close what it has left open with a PIDonFEP of a job that a process wants; false: it is in use.
	// Nil: nobody does.
	Yield func(now vt.Time, job uint32, pid uint16) bool
}

// DefaultLimits are those of one process.
var DefaultLimits = shm.Limits{Endpoints: 64, CQs: 64, MRs: 4096, Addresses: 1 << 18, Regions: 256, Ops: 1 << 16, Bytes: 4 << 30, Copies: 256 << 20}

// openFor is the wall time after the last call of a free process for which time does not leap: the next call is about to come.
const openFor = int64(50 * time.Millisecond)

// Server is the FEP's side. All methods are called by the one thread that runs the node.
type Server struct {
	node *engine.Node
	fep  *fep.FEP
	cfg  Config

	listen  int
	epoll   int
	byFD    map[int32]*client
	clients []*client // in the order of coming
	tokens  map[uint32][16]byte
	procs   map[procKey]*client
	turn    uint

	near    int  // processes that look for work on our processor
	cpu     int  // that processor, -1: none
	handed  bool // something was handed over to one of them
	held    int
	wants   bool    // somebody needs an instant
	asked   bool    // … and the host has been told
	granted bool    // … and the call for it waits
	floor   vt.Time // no instant before this …
	openTil int64   // … and until this wall time the next needs no question
	real    bool
	virt0   vt.Time
	wall0   int64

	wakes    wakeHeap
	wakeSeq  uint64
	wakeCall func(now vt.Time)
	openCall func(now vt.Time)

	initiated int // open operations that send
	total     shm.Stat
	sqe       shm.SQE
	buf       [shm.MaxMessage + 1]byte
}

type procKey struct {
	job uint32
	pid uint16
}

// New makes a server for the FEP of a node. Nobody can come before Listen.
func New(node *engine.Node, f *fep.FEP, cfg Config) (*Server, error) {
	if cfg.Limits == (shm.Limits{}) {
		cfg.Limits = DefaultLimits
	}
	if cfg.Clients == 0 {
		cfg.Clients = 256
	}
	if cfg.Patience == 0 {
		cfg.Patience = 10 * time.Second
	}
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("attach: epoll: %w", err)
	}
	s := &Server{node: node, fep: f, cfg: cfg, listen: -1, cpu: -1, epoll: ep, byFD: map[int32]*client{}, tokens: map[uint32][16]byte{}, procs: map[procKey]*client{}}
	s.wakeCall, s.openCall = s.onWake, s.onInstant
	return s, nil
}

// Listen opens the socket: a path, or @ and an abstract name.
func (s *Server) Listen(name string) error {
	fd, err := shm.Listen(name)
	if err != nil {
		return fmt.Errorf("attach: %w", err)
	}
	s.listen = fd
	return s.watch(fd)
}

// watch adds a descriptor to those that Look looks at. Edges suffice: what is not taken at once is remembered, and the eventfds are never read, for a
// process could make that block.
func (s *Server) watch(fd int) error {
	ev := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLRDHUP | unix.EPOLLET&0xFFFFFFFF, Fd: int32(fd)}
	if err := unix.EpollCtl(s.epoll, unix.EPOLL_CTL_ADD, fd, &ev); err != nil {
		return fmt.Errorf("attach: epoll: %w", err)
	}
	return nil
}

// FD becomes readable when a process wants something; for poll.
func (s *Server) FD() int { return s.epoll }

// Close lets all processes go. The FEP is not touched afterwards.
func (s *Server) Close(now vt.Time) {
	for len(s.clients) > 0 {
		s.remove(s.clients[0], now)
	}
	if s.listen >= 0 {
		unix.Close(s.listen)
	}
	unix.Close(s.epoll)
}

// AllowJob lets processes with the token be of a job, or, with allowed false, no longer. Job 1 needs none.
func (s *Server) AllowJob(job uint32, token [16]byte, allowed bool) {
	if allowed {
		s.tokens[job] = token
	} else {
		delete(s.tokens, job)
	}
}

// SetReal says that virtual time is the wall's: it is virt0 at wall0, CLOCK_MONOTONIC ns. All processes are free then.
func (s *Server) SetReal(real bool, virt0 vt.Time, wall0 int64) {
	if s.real == real && s.virt0 == virt0 && s.wall0 == wall0 {
		return
	}
	s.real, s.virt0, s.wall0 = real, virt0, wall0
	for _, c := range s.clients {
		c.showTime()
	}
}

// Held says that the node must handle nothing more: a process thinks at Now of the node.
func (s *Server) Held() bool { return s.held > 0 }

// Next is when something may happen that the node's queue does not know of yet, vt.Never if that cannot be. Nobody may leap over it.
func (s *Server) Next(horizon vt.Time) vt.Time {
	switch {
	case s.held > 0:
		return s.node.Now()
	case s.wants && !s.granted:
		return max(horizon+1, s.floor)
	case s.openTil != 0:
		return max(horizon+1, s.floor)
	}
	return vt.Never
}

// Work counts what time has to go on for: processes that think or want something, operations that they began, wakes.
func (s *Server) Work() uint64 {
	n := s.held + s.initiated + len(s.wakes)
	if s.wants || s.granted || s.openTil != 0 {
		n++
	}
	return uint64(n)
}

// FreeCalls counts the operations that were taken when the FEP happened to see them: of free processes, and unasked.
func (s *Server) FreeCalls() uint64 { return s.total.FreeCalls }

// Wants says, once, that an instant is needed. The host makes sure that nobody leaps over Next any more, and calls Grant.
func (s *Server) Wants() bool {
	if !s.wants || s.asked {
		return false
	}
	s.asked = true
	return true
}

// Grant gives the instant that was wanted, at t, which is ahead of the node's horizon and of every leap.
func (s *Server) Grant(t vt.Time) {
	if !s.wants || s.granted {
		return
	}
	s.granted, s.floor = true, t
	s.node.Call(t, s.openCall)
}

// Open says that an instant needs no question: nobody has been able to leap since the last one.
func (s *Server) Open() bool { return s.openTil != 0 || s.real }

// onInstant is a class 4 call in which processes that were waiting, or are free, may act.
func (s *Server) onInstant(now vt.Time) {
	s.wants, s.asked, s.granted = false, false, false
	for _, c := range s.clients {
		if c.wants {
			s.admit(c, now)
		}
	}
	s.sweep(now)
}

// admit lets a process act at now: a synchronous one is held, a free one acts at once.
func (s *Server) admit(c *client, now vt.Time) {
	c.wants = false
	if c.dead {
		return
	}
	c.intruded = c.first == nil
	if c.first != nil {
		b := c.first
		c.first = nil
		if c.message(now, b, nil); c.sq == nil {
			c.dead = true // refused
			return
		}
	}
	if c.sync() {
		c.hold(now)
		return
	}
	if !s.real {
		s.openTil = s.cfg.Wall() + openFor
	}
	c.work(now)
}

// sweep removes the dead.
func (s *Server) sweep(now vt.Time) {
	for i := 0; i < len(s.clients); {
		if c := s.clients[i]; c.dead {
			s.remove(c, now)
			continue
		}
		i++
	}
}

// Pending says that Serve may do something to the node.
func (s *Server) Pending() bool {
	if s.held > 0 {
		return true
	}
	for _, c := range s.clients {
		if c.dead || !c.wants && c.pending() {
			return true
		}
	}
	return false
}

// Serve looks at what processes have written, and says whether anything was done. The host calls it in every turn, outside of the node's
// events; what is posted happens at the node's Now.
func (s *Server) Serve() (progress bool) {
	if s.turn++; s.held > 0 || s.wants || s.turn%64 == 0 {
		progress = s.Look()
	}
	now := s.node.Now()
	dead := false
	for _, c := range s.clients {
		if c.sq == nil && c.readable && c.first == nil && !c.dead {
			c.greet()
			progress = true
		}
		switch {
		case c.dead && c.sq == nil:
			dead = true
		case c.dead:
			dead, c.wants = true, true
		case c.held:
			progress = c.serve(now) || progress
		case c.sq != nil && !c.wants && c.pending():
			c.wants = true
		}
		if c.wants && !s.wants {
			s.wants, progress = true, true
		}
	}
	if dead {
		s.turnAway(now)
	}
	switch {
	case s.wants && s.held > 0: // the node stands still, and nobody can leap
		for _, c := range s.clients {
			if c.wants {
				s.admit(c, now)
			}
		}
		if dead {
			s.sweep(now)
		}
		if !s.granted {
			s.wants, s.asked = false, false
		}
		progress = true
	case s.openTil != 0 && !s.real && s.cfg.Wall() > s.openTil && !s.wants:
		s.openTil, progress = 0, true
	}
	return progress
}

// turnAway removes those that never got in.
func (s *Server) turnAway(now vt.Time) {
	for i := 0; i < len(s.clients); {
		if c := s.clients[i]; c.dead && c.sq == nil {
			s.remove(c, now)
			continue
		}
		i++
	}
}

// Look takes what sockets and bells have to tell.
func (s *Server) Look() (progress bool) {
	var evs [32]unix.EpollEvent
	for {
		n, err := unix.EpollWait(s.epoll, evs[:], 0)
		if err != nil && err != unix.EINTR || n <= 0 {
			return progress
		}
		for _, ev := range evs[:n] {
			progress = true
			if int(ev.Fd) == s.listen {
				s.accept()
				continue
			}
			if c := s.byFD[ev.Fd]; c != nil && int(ev.Fd) == c.sock {
				c.readable = true
				if ev.Events&(unix.EPOLLHUP|unix.EPOLLRDHUP|unix.EPOLLERR) != 0 {
					c.dead = true
				}
			}
		}
		if n < len(evs) {
			return progress
		}
	}
}

// Sleep prepares for the node to sleep: processes ring from now on. False: there is something to do. Awake must follow.
func (s *Server) Sleep() bool {
	for _, c := range s.clients {
		if c.sq != nil {
			c.sq.FEPSleeps.Store(1)
		}
	}
	for _, c := range s.clients {
		if c.dead || c.pending() || c.held && c.sq != nil && c.sq.Wait.Load() == c.holds {
			return false
		}
	}
	return s.held == 0 || len(s.clients) > 0
}

// Awake ends a sleep.
func (s *Server) Awake() {
	for _, c := range s.clients {
		if c.sq != nil {
			c.sq.FEPSleeps.Store(0)
		}
	}
	s.Look()
}

// BindTo says that the node is bound to this processor and looks for work there before it sleeps: processes that ask for it may join it there at the
// wall's pace. It is called before Listen.
func (s *Server) BindTo(cpu int) { s.cpu = cpu }

// Near is the number of processes that look for work on the node's processor.
func (s *Server) Near() int { return s.near }

// HandedNear says, once, that one of those was handed something.
func (s *Server) HandedNear() bool {
	h := s.handed
	s.handed = false
	return h
}

// Processes is the number of those that are attached.
func (s *Server) Processes() int { return len(s.clients) }

// accept takes processes in; those of other users and those that are too many are shown the door.
func (s *Server) accept() {
	for {
		fd, _, err := unix.Accept4(s.listen, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.ECONNABORTED) {
			continue
		}
		if err != nil {
			return
		}
		cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
		if err != nil || int(cred.Uid) != os.Geteuid() && cred.Uid != 0 || len(s.clients) >= s.cfg.Clients || s.watch(fd) != nil {
			unix.Close(fd)
			continue
		}
		c := &client{s: s, sock: fd, bell: -1, pidfd: pidfdOf(fd, int(cred.Pid)), pid: int(cred.Pid), readable: true}
		s.byFD[int32(fd)] = c
		s.clients = append(s.clients, c)
		s.total.Processes++
	}
}

// AfterReset follows a Reset of the FEP at the start of a run: it has forgotten all operations, and the node all calls. What was open
// completes with StatusReset; wakes stay.
func (s *Server) AfterReset(now vt.Time) {
	for _, c := range s.clients {
		c.reset(now)
	}
	s.rearm(now)
	if s.granted { // its call is gone
		s.node.Call(now, s.openCall)
	}
}

// Stat is what all processes hold together.
func (s *Server) Stat() shm.Stat { return s.total }
