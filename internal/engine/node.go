// Package engine runs one node in virtual time: its ports, its event queue and its core (a switch or an end point).
// The core is a state machine without goroutines, sockets or clock; whoever drives the node, a process with real veth
// ports or the simulator, hands it frames and says up to when it may go. The same node therefore behaves the same in
// both, to the nanosecond.
package engine

import (
	"encoding/binary"
	"hash/fnv"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/vt"
)

// Core is a node's protocol machine. Frames handed to Arrive are the core's: it enqueues, keeps or releases them.
type Core interface {
	link.Source
	// Arrive handles a frame at virtual time now (its due time plus the node's pipeline latency).
	Arrive(now vt.Time, port int, f *link.Frame)
	// Timer is a timer that the core set with SetTimer; the core ignores those that it no longer wants.
	Timer(now vt.Time, id uint64)
	// Reset forgets all protocol state at the start of a run and takes its random choices anew from the node.
	Reset(now vt.Time)
}

// Out takes frames that leave the node: Due is set, the frame is the taker's.
type Out interface {
	Transmit(port int, f *link.Frame)
}

type event struct {
	fn func(now vt.Time)
	id uint64
}

// Node is one node of the fabric. It is not for concurrent use.
type Node struct {
	ID    int
	Pool  *link.Pool
	Ports []*link.Port

	core    Core
	out     Out
	changes vt.Queue[event] // scheduled changes, the first of every instant
	lines   lines           // then arrivals and serializers
	q       vt.Queue[event] // then ends of pauses, timers and calls
	now     vt.Time
	stop    bool // Interrupt was called
	aside   int  // timers in q that are Aside
	latency time.Duration
	labSeed uint64
	runSeed uint64
	epoch   vt.Time
	retries []func(now vt.Time) // LinkTimer of the ports
}

// Config describes a node.
type Config struct {
	ID       int
	Ports    []link.Config
	Latency  time.Duration // constant pipeline latency, added to every arrival
	Seed     uint64        // lab seed
	MaxFrame int           // longest Ethernet frame, bytes without trailer
	Pool     *link.Pool    // shared by the nodes of one thread, so that frames pass by reference; nil: a pool of its own
}

// New makes a node; Attach gives it a core before anything else happens.
func New(c Config, out Out) *Node {
	n := &Node{ID: c.ID, Pool: c.Pool, out: out, latency: c.Latency, labSeed: c.Seed}
	if n.Pool == nil {
		n.Pool = link.NewPool(c.MaxFrame)
	}
	n.lines.init(len(c.Ports))
	for i, pc := range c.Ports {
		if pc.Pool == nil {
			pc.Pool = n.Pool
		}
		p := link.NewPort(i, pc, n, source{n})
		n.Ports, n.retries = append(n.Ports, p), append(n.retries, p.LinkTimer)
		if pc.LLR != nil {
			n.ExpectLLR(i, 0)
		}
	}
	return n
}

type source struct{ n *Node }

func (s source) NextFrame(now vt.Time, port int) *link.Frame { return s.n.core.NextFrame(now, port) }
func (s source) Dequeued(now vt.Time, port int, f *link.Frame, sent bool) {
	s.n.core.Dequeued(now, port, f, sent)
}

// Attach gives the node its core and seeds ports and core.
func (n *Node) Attach(core Core) {
	n.core = core
	n.reset(0)
}

// Interpose puts core before the one that is attached, whose calls it passes on. Nothing is reset.
func (n *Node) Interpose(core Core) { n.core = core }

// Now is the time of the event being handled.
func (n *Node) Now() vt.Time { return n.now }

// Epoch is the virtual time at which the current run began; protocol phases are taken relative to it.
func (n *Node) Epoch() vt.Time { return n.epoch }

// Rand makes the generator of one component: the same for the same lab seed, run seed, node and component.
func (n *Node) Rand(component string) *rand.Rand {
	h := fnv.New64a()
	var b [24]byte
	binary.BigEndian.PutUint64(b[0:], n.labSeed)
	binary.BigEndian.PutUint64(b[8:], n.runSeed)
	binary.BigEndian.PutUint64(b[16:], uint64(n.ID))
	h.Write(b[:])
	h.Write([]byte(component))
	return rand.New(rand.NewPCG(h.Sum64(), n.runSeed^0x9e3779b97f4a7c15))
}

// SetTimer asks for a Timer call of the core at t.
func (n *Node) SetTimer(t vt.Time, id uint64) {
	if id&Aside != 0 {
		n.aside++
	}
	n.q.Push(t, vt.ClassTimer, 0, event{id: id})
}

// Aside is a bit of the numbers of timers that go on for ever and are no work: see Waits.
const Aside = 1 << 63

// Waits says whether anything is to happen here but timers that are Aside.
func (n *Node) Waits() bool {
	return n.q.Len() > n.aside || n.lines.arrival != vt.Never || n.lines.freed != vt.Never || n.changes.Len() > 0
}

// Call asks for an application's call at t.
func (n *Node) Call(t vt.Time, fn func(now vt.Time)) { n.q.Push(t, vt.ClassCall, 0, event{fn: fn}) }

// Change schedules a change of state or configuration at t. It must lie ahead of Now.
func (n *Node) Change(t vt.Time, fn func(now vt.Time)) {
	n.changes.Push(t, vt.ClassChange, 1, event{fn: fn})
}

// BeginAt schedules the beginning of a run at t, which must lie ahead of Now: ahead of all changes at t, whichever were asked for first. A simulation
// knows them before its run, a lab has them wait for one.
func (n *Node) BeginAt(t vt.Time, fn func(now vt.Time)) {
	n.changes.Push(t, vt.ClassChange, 0, event{fn: fn})
}

// TxFreeAt implements link.Host.
func (n *Node) TxFreeAt(port int, t vt.Time) {
	if !n.lines.freeAt(port, t) {
		n.q.Push(t, vt.ClassTxFree, port, event{})
	}
}

// LinkTimerAt implements link.Host.
func (n *Node) LinkTimerAt(port int, t vt.Time) {
	n.q.Push(t, vt.ClassTimer, port, event{fn: n.retries[port]})
}

// Transmit implements link.Host.
func (n *Node) Transmit(port int, f *link.Frame) { n.out.Transmit(port, f) }

// Deliver hands over a frame that reached a port; its Due is set and lies ahead of Now.
func (n *Node) Deliver(port int, f *link.Frame) {
	n.lines.push(port, n.ArrivesAt(port, f.Due), f)
}

// ArrivesAt is when a frame that is due at a port is handled first: by link layer retry at once, else by the core.
func (n *Node) ArrivesAt(port int, due vt.Time) vt.Time { return n.lines.at(port, due, n.latency) }

// Ahead is the shortest time from an event at the far end of a port to one that it causes here.
func (n *Node) Ahead(port int) time.Duration {
	d := n.Ports[port].Lookahead()
	if n.lines.mac == nil || n.lines.mac[port] == vt.Never {
		d += n.latency
	}
	return d
}

// ExpectLLR says that a port gets link layer retry at t, which lies ahead of Now. Ahead has it in mind from now on, so both ends must
// be told before any node is at t.
func (n *Node) ExpectLLR(port int, t vt.Time) {
	n.Ports[port].ExpectSets()
	n.lines.split(port, t, n.latency)
}

// ForgetLLR says at the start of a run that a port has no link layer retry any more: from here to the next time that ExpectLLR was told of, what comes in is
// taken when it reaches the core, as where there never was any. Ahead stays as it is.
func (n *Node) ForgetLLR(port int) { n.lines.join(port, n.now, n.latency) }

// Next is the time of the node's next event, vt.Never if it has none.
func (n *Node) Next() vt.Time {
	return min(n.lines.arrival, n.lines.freed, n.q.Next(), n.changes.Next())
}

// Interrupt has Advance return after the event that is being handled, so that something outside of the node can act at its
// time. Outside of Advance it does nothing.
func (n *Node) Interrupt() { n.stop = true }

// Advance handles all events up to and including bound, in order, and says how many there were. Interrupt ends it earlier.
func (n *Node) Advance(bound vt.Time) int {
	n.stop = false
	handled := 0
	for {
		t := n.Next()
		if t > bound || t == vt.Never || n.stop {
			return handled
		}
		n.now = max(n.now, t)
		handled++
		switch t {
		case n.changes.Next():
			_, ev := n.changes.Pop()
			ev.fn(n.now)
		case n.lines.arrival:
			port, a := n.lines.pop()
			n.lines.fetch(port)
			switch {
			case n.lines.mac != nil:
				n.arrive(port, a)
			case n.Ports[port].Received(n.now, a.f):
				n.core.Arrive(n.now, port, a.f)
			}
		case n.lines.freed:
			n.Ports[n.lines.popFree()].TxFree(n.now)
		default:
			n.handle(n.q.Pop())
		}
	}
}

// arrive handles the frame of an inbox where ports may have two.
func (n *Node) arrive(inbox int, a arrival) {
	port := inbox / 2
	if inbox%2 == 0 {
		late := n.latency > 0 && a.f.Due >= n.lines.mac[port]
		if !n.Ports[port].Received(n.now, a.f) {
			return
		}
		if late {
			a.t = a.f.Due.Add(n.latency)
			n.lines.insert(inbox+1, a)
			return
		}
	}
	n.core.Arrive(n.now, port, a.f)
}

func (n *Node) handle(k vt.Key, ev event) {
	switch k.Class {
	case vt.ClassTxFree:
		n.Ports[k.Port].TxFree(n.now)
	case vt.ClassTimer:
		if ev.fn != nil {
			ev.fn(n.now)
			return
		}
		if ev.id&Aside != 0 {
			n.aside--
		}
		n.core.Timer(n.now, ev.id)
	default:
		ev.fn(n.now)
	}
}

// Mark counts the frames that have come in so far, for DropArrivals.
func (n *Node) Mark() uint64 { return n.lines.n }

// DropArrivals forgets the frames that had reached the node when Mark gave mark and still wait for their time.
func (n *Node) DropArrivals(mark uint64) {
	n.lines.drop(func(_ int, a *arrival) bool { return a.n <= mark })
}

// StartRun begins a run at now, from within a Change: timers, calls and frames sent before now are forgotten, ports and
// core start anew with the run's seed. Scheduled changes stay, and so do frames of neighbours that have begun the run
// already. Those are told by their due times, which a frame may have that was sent long before on a slow link: the caller
// lets the fabric drain first, or drops what has arrived with DropArrivals.
func (n *Node) StartRun(now vt.Time, seed uint64) {
	n.runSeed = seed
	n.q, n.aside = vt.Queue[event]{}, 0
	n.lines.reset()
	n.lines.drop(func(port int, a *arrival) bool { return a.f.Due < now.Add(n.Ports[port].Lookahead()) })
	n.reset(now)
}

func (n *Node) reset(now vt.Time) {
	n.epoch = now
	for i, p := range n.Ports {
		p.Reset(n.Rand("port" + strconv.Itoa(i)))
		p.Begin(now)
	}
	n.core.Reset(now)
}
