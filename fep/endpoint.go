package fep

import (
	"cmp"

	"github.com/uetlab/uetlab/internal/vt"
)

// EndpointConfig fixes an endpoint. Zero values stand for what the comments say.
type EndpointConfig struct {
	Job       uint32 // 24 bits; with Absolute: what its own messages carry
	PID       uint16 // PIDonFEP, 12 bits: counts within the job
	Initiator uint32 // what its messages carry for matching
	Absolute  bool   // a service: PID counts on the FEP, and messages of all jobs reach it

	RMARI, SendRI, TagRI uint16 // resource indices of the three spaces; 0: Config.RI

	Profiles      Profiles   // 0: the FEP's
	Ordered       bool       // messages keep their order (ROD)
	TC            uint8      // traffic class: part of the choice of a PDC
	RejectTooLong bool       // messages longer than their receive are refused instead of truncated
	MinMultiRecv  int        // bytes: a multi-receive buffer with less than this left is given back; 0: 64
	MaxRTR        int        // messages that may wait for a receive after a deferrable send (AI Full); 0: 8, -1: none
	Unexpected    int        // bytes of messages without a receive that are kept (HPC); 0: 1 MiB, -1: none
	EagerSize     int        // bytes that a rendezvous send brings at once (HPC), in whole packets up to 64 KiB; 0: what the PDC's window has room for, without PDC 16 KiB
	KeptMessages  int        // messages without a receive that are kept, whole or in part (HPC); 0: 1024, -1: none
	Queue         *RecvQueue // receives come from there; Post of receives is refused
}

// Endpoint is one process on the FEP, shaped like a libfabric endpoint with its address vector, memory registrations and
// completion queue. Its methods are called from within the node's events (class 4 calls).
type Endpoint struct {
	f         *FEP
	cfg       EndpointConfig
	job       uint32
	pid       uint16
	ri        [numSpaces]uint16
	initiator uint32
	absolute  bool
	profiles  Profiles
	closed    bool
	done      func(now vt.Time, c Completion)
	out       completions

	av    []*peer
	ranks map[uint32]int // index in av by initiator ID
	mem   memory
	key   uint64 // the latest of Register
	q     *RecvQueue
	gens  [numSpaces]generation
	open  chain[txMsg, *txMsg] // operations under way, in the order of posting
	early earlyUse
	base  drivenEnd
}

// Open makes an endpoint. onComplete, which may be nil, is called once for every operation, as a class 4 call. It fails with
// ErrAddress if somebody else is reachable there, ErrClosed if the queue is, and ErrInvalid if that is another FEP's, or SendRI is the
// index of control messages (0xFFE).
func (f *FEP) Open(cfg EndpointConfig, onComplete func(now vt.Time, c Completion)) (*Endpoint, error) {
	ep := &Endpoint{f: f, cfg: cfg, job: cfg.Job & 0xFFFFFF, pid: cfg.PID & 0xFFF, initiator: cfg.Initiator, absolute: cfg.Absolute,
		profiles: cfg.Profiles & allProfiles, done: onComplete, ranks: map[uint32]int{}, q: cfg.Queue}
	for s, v := range [numSpaces]uint16{cfg.RMARI, cfg.SendRI, cfg.TagRI} {
		if v == 0 {
			v = f.cfg.RI
		}
		ep.ri[s] = v & 0xFFF
	}
	if ep.profiles == 0 {
		ep.profiles = f.cfg.Profiles
	}
	ep.cfg.MaxRTR, ep.cfg.Unexpected = cmp.Or(cfg.MaxRTR, f.cfg.MaxRTR), cmp.Or(cfg.Unexpected, f.cfg.Unexpected)
	ep.cfg.EagerSize = cmp.Or(cfg.EagerSize, f.cfg.EagerSize)
	ep.cfg.RejectTooLong = cfg.RejectTooLong || f.cfg.RejectTooLong
	if ep.cfg.MinMultiRecv == 0 {
		ep.cfg.MinMultiRecv = 64
	}
	ep.cfg.earlyDefaults()
	switch {
	case ep.q != nil && ep.q.f != f, ep.ri[spaceSend] == controlRI:
		return nil, ErrInvalid
	case ep.q != nil && ep.q.closed:
		return nil, ErrClosed
	}
	if !f.dir.add(ep) {
		return nil, ErrAddress
	}
	if ep.q == nil {
		ep.q = f.newRecvQueue(ep.cfg.MinMultiRecv, ep.deliver)
	}
	ep.q.users = append(ep.q.users, ep)
	return ep, nil
}

// FEP is the end point that the endpoint is on.
func (ep *Endpoint) FEP() *FEP { return ep.f }

func (ep *Endpoint) ordered() bool { return ep.cfg.Ordered || ep.f.cfg.Ordered }

// SetOrdered says whether messages that are posted from now on keep their order (ROD).
func (ep *Endpoint) SetOrdered(on bool) { ep.cfg.Ordered = on }

// SetTC puts messages that are posted from now on into a traffic class: they share no PDC with those of another.
func (ep *Endpoint) SetTC(tc uint8) { ep.cfg.TC = tc }

// Post begins an operation; op is copied. It fails, and the operation does not exist, with ErrPeer, ErrTooLarge, ErrDatagram,
// ErrUnsupported, ErrWildcard, ErrInvalid, ErrMemory, ErrAgain or ErrClosed.
func (ep *Endpoint) Post(now vt.Time, op *Op) error {
	switch {
	case ep.closed:
		return ErrClosed
	case op.Kind != OpRecv && op.Kind != OpTagRecv:
		return ep.start(now, op)
	case ep.cfg.Queue != nil:
		return ErrInvalid
	}
	if ep.drives(op) {
		return ep.postDriven(now, op)
	}
	return ep.postRecv(now, op)
}

// postRecv posts a receive of the endpoint's own queue.
func (ep *Endpoint) postRecv(now vt.Time, op *Op) error {
	var from uint32
	if op.Peer != AnySource && op.Kind == OpTagRecv {
		if op.Peer < 0 || op.Peer >= len(ep.av) || ep.av[op.Peer] == nil {
			return ErrPeer
		}
		from = ep.av[op.Peer].initiator
	}
	if op.Ignore != 0 && ep.profiles&HPC == 0 {
		return ErrWildcard
	}
	return ep.q.post(now, op, from)
}

// Cancel takes back the oldest receive with this Ctx that no message has matched; it completes with ErrCancelled. False says that
// there is none.
func (ep *Endpoint) Cancel(now vt.Time, ctx uint64) bool {
	return !ep.closed && ep.cfg.Queue == nil && (ep.q.Cancel(now, ctx) || ep.cancelDriven(now, ctx))
}

// Close ends the endpoint. When it returns the FEP holds no reference to any buffer or region of the endpoint: packets under way
// that have to be repeated carry zeros and say so (ie), what arrives for it is answered CANCELLED or DISABLED, and return data of
// reads ends in an error. Open operations complete with ErrClosed.
func (ep *Endpoint) Close(now vt.Time) {
	if ep.closed {
		return
	}
	ep.closed = true
	f := ep.f
	for m := ep.open.head; m != nil; {
		next := m.next
		m.abandon(now)
		m = next
	}
	for m := f.rx.head; m != nil; m = m.next {
		if m.ep == ep {
			m.abandon(now)
		}
	}
	f.lands.close(now, func(l *landing) bool { return l.ep == ep })
	ep.closeDriven(now)
	if ep.cfg.Queue == nil {
		ep.q.drain(now, ErrClosed)
	}
	ep.q.users = without(ep.q.users, ep)
	ep.mem.DeregisterAll()
	ep.av = nil
	if len(f.tombs) == mostTombs {
		f.dir.remove(f.tombs[0].ep)
		f.tombs = f.tombs[1:]
	}
	f.tombs = append(f.tombs, tomb{ep, now})
	f.armSweep(now)
	f.m.Kick(now)
}

// mostTombs is how many of them there are.
const mostTombs = 1024

// tomb is an endpoint that was closed a while ago: latecomers get another answer than those to a wrong address.
type tomb struct {
	ep    *Endpoint
	since vt.Time
}

// reset forgets what is under way.
func (ep *Endpoint) reset() {
	ep.resetEarly()
	ep.open = chain[txMsg, *txMsg]{}
	ep.gens = [numSpaces]generation{}
	for _, p := range ep.av {
		if p != nil {
			p.streams, p.control = [numSpaces]*stream{}, nil
		}
	}
}

// completions are on their way to an application: each has a class 4 call that takes the oldest.
type completions struct {
	ring []late
	head int
	n    int
	next func(now vt.Time)
}

type late struct {
	epoch uint64
	c     Completion
}

// deliver hands a completion to the application at now, after all protocol events of that instant.
func (ep *Endpoint) deliver(now vt.Time, c Completion) {
	if ep.done != nil {
		ep.out.add(now, ep.f, &ep.done, &c)
	}
}

func (q *completions) add(now vt.Time, f *FEP, done *func(vt.Time, Completion), c *Completion) {
	if q.next == nil {
		q.next = func(now vt.Time) {
			if l := q.pop(); l.epoch == f.epoch && *done != nil {
				(*done)(now, l.c)
			}
		}
	}
	if q.n == len(q.ring) {
		grown := make([]late, max(1, 2*q.n))
		for i := range q.n {
			grown[i] = q.ring[(q.head+i)%q.n]
		}
		q.ring, q.head = grown, 0
	}
	q.ring[(q.head+q.n)%len(q.ring)] = late{f.epoch, *c}
	q.n++
	f.node.Call(now, q.next)
}

func (q *completions) pop() late {
	l := q.ring[q.head]
	q.ring[q.head] = late{}
	q.head = (q.head + 1) % len(q.ring)
	q.n--
	return l
}
