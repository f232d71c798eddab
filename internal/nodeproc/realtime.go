package nodeproc

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// At the wall's pace every system call and every wake-up is part of what a message costs.
const (
	// showEvery is how long a node that is at work leaves its page as it is; it has some two hundred words.
	showEvery = 500 * time.Microsecond
	// batchAhead is how far a node with work goes beyond the wall: what its ports would send one by one within that time leaves
	// in one system call, at once.
	batchAhead = 5 * time.Microsecond
	// spinFor is how long a node without work looks for more before it blocks: a wake-up costs both sides about as much, and
	// whoever has just heard of the other is most likely about to hear more.
	spinFor = 100 * time.Microsecond
	// spinYield is how many times it looks before it lets others have the processor, such as the process that it works for.
	spinYield = 16
	// handOvers is how many times a node yields to a process on its processor that it has handed something: the scheduler does not always let it in at
	// the first.
	handOvers = 3
	// robbed is a yield that takes so long, and shared is for how long after it the node takes its processor for one that others use, too: they do not
	// give it back as soon, so it sleeps at once instead of looking for work, and is woken out of its turn.
	robbed = 300 * time.Microsecond
	shared = 5 * time.Millisecond
	// smallBatch is how many frames a batch may have in which order counts.
	smallBatch = 8
	// dropsEvery is how many sweeps go by between questions to the kernel for frames that the ring had no room for.
	dropsEvery = 1 << 14
)

func (l *loop) wallTime() vt.Time { return l.seg.Virt0 + vt.Time(l.wall.Now()-l.seg.Wall0) }

// realtime is a sweep of an ordinary network: virtual time is the wall's. It says whether anything was handled.
func (l *loop) realtime() bool {
	now := l.wallTime()
	got := l.drain(now)
	l.serve(now)
	if l.turns%dropsEvery == 0 {
		l.overflows()
	}
	if !got && l.node.Next() > now {
		return false
	}
	l.enter()
	l.node.Advance(now.Add(batchAhead))
	if l.near() && l.clients.HandedNear() && len(l.out) <= smallBatch && l.wall.Now() > l.sharedTil {
		l.answer()
	}
	l.dataFirst()
	l.flush()
	l.horizon = now
	if now.Sub(l.shown) >= showEvery {
		l.tell(now)
	}
	return true
}

// answer lets a process on this processor that was handed something go on at once. What it sends leaves together with what the node has to
// send, such as the ACK, and before that. It can have nothing for the node at other times, except for what it computes in between.
func (l *loop) answer() {
	for i := 0; i < handOvers && !l.clients.Pending(); i++ {
		l.yield()
	}
	now := l.wallTime()
	if l.serve(now); l.node.Next() <= now {
		l.node.Advance(now.Add(batchAhead))
	}
}

// dataFirst lets data overtake the control packets that leave in the same small batch. The kernel takes as long for an ACK as
// for data, and somebody waits for the data.
func (l *loop) dataFirst() {
	if len(l.out) < 2 || len(l.out) > smallBatch || l.control == 0 {
		return
	}
	var held [smallBatch]outgoing
	n, data := 0, l.out[:0]
	for _, o := range l.out {
		if isDSCP(o.f.B, l.control) {
			held[n] = o
			n++
		} else {
			data = append(data, o)
		}
	}
	copy(l.out[len(data):], held[:n])
}

// isDSCP says whether a frame is an IP packet with this DSCP.
func isDSCP(b []byte, dscp uint8) bool {
	switch t, ip, err := wire.Network(b); {
	case err != nil:
		return false
	case t == wire.EtherIPv4:
		p, err := wire.ParseIPv4(ip)
		return err == nil && p.DSCP() == dscp
	case t == wire.EtherIPv6:
		p, err := wire.ParseIPv6(ip)
		return err == nil && p.DSCP() == dscp
	}
	return false
}

// settle lets a node of a lab of so many look for work before it sleeps, and binds its thread to a processor of its own, if
// there is one for each. Where nodes outnumber processors, whoever spins is in the way of those that have work.
func (l *loop) settle(nodes int) {
	var may, one unix.CPUSet
	if unix.SchedGetaffinity(0, &may) != nil || nodes > may.Count() || l.id >= nodes {
		return
	}
	l.spin, l.spare = spinFor, 2*nodes <= may.Count()
	mine := -1
	for n, cpu := 0, 0; n <= l.id; cpu++ {
		if may.IsSet(cpu) {
			n++
			one.Zero()
			one.Set(cpu)
			mine = cpu
		}
	}
	if unix.SchedSetaffinity(0, &one) == nil && !l.spare && l.clients.Server != nil {
		l.clients.BindTo(mine) // with processors to spare processes do better on those
	}
}

// tell publishes the page.
func (l *loop) tell(now vt.Time) {
	l.shown = now
	l.show()
}

// waitReal passes the time when there is nothing to do at the wall's pace.
func (l *loop) waitReal() error {
	p, spin, atOnce := &l.idle, l.spin, l.crowded()
	if atOnce {
		spin = 0
	}
	p.tries++
	switch {
	case p.tries == 1:
		p.since = l.wall.Now()
	case spin > 0 && p.tries%spinYield != 0:
		return nil
	}
	if atOnce || p.tries > 2 && l.wall.Now()-p.since > int64(spin) {
		now := l.wallTime()
		if l.busy {
			l.overflows()
			l.tell(now)
		}
		switch next := l.node.Next(); {
		case next == vt.Never:
			return l.block(-1)
		case next.Sub(now) > spin:
			return l.block(next.Sub(now))
		}
	}
	l.yield()
	return nil
}

// yield lets others have the processor, and notes whether they kept it for long.
func (l *loop) yield() {
	if !l.near() {
		_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
		return
	}
	before := l.wall.Now()
	_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
	if now := l.wall.Now(); now-before > int64(robbed) {
		l.sharedTil = now + int64(shared)
	}
}
