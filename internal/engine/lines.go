package engine

import (
	"slices"
	"time"

	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/vt"
)

// lines holds what is due at the ports of a node: frames on their way in, and serializers that will be free. These are
// nearly all events of a node, and each port has them in order by itself, so a ring for each port and the times of their
// first elements in one short array take the place of a queue: nothing is sorted, and a node's next event is found in a few
// cache lines.
//
// At a port with link layer retry (mac) the end of the line and the core lie a node's latency apart: such a frame is taken from the line
// when it is due and waits for the core in an inbox of its own. The inboxes of port i are i, or 2i and 2i+1 where a node has such ports.
type lines struct {
	in   []inbox
	mac  []vt.Time   // per port: frames due from then on are taken from the line when they are due; vt.Never: it never was one; nil: no such port
	told [][]vt.Time // per port: the times given to split that may still be ahead
	head []vt.Time   // of the first frame of every port, vt.Never
	free []vt.Time   // of every serializer, vt.Never

	arrival     vt.Time // the first of head …
	arrivalPort int     // … and its inbox, the lowest of those at one instant
	freed       vt.Time // the same of free
	freedPort   int

	n uint64 // frames that have come in
}

// inbox is a ring of the frames that wait for their time at one port, in order.
type inbox struct {
	ring []arrival
	at   int
	n    int
}

type arrival struct {
	t vt.Time
	n uint64 // counts the node's frames
	f *link.Frame
}

func (l *lines) init(ports int) {
	l.in = make([]inbox, ports)
	l.head, l.free = make([]vt.Time, ports), make([]vt.Time, ports)
	for i := range ports {
		l.head[i], l.free[i] = vt.Never, vt.Never
	}
	l.arrival, l.freed = vt.Never, vt.Never
}

// unsplit is the mac of a port that was split once, and is not before split says so again.
const unsplit = vt.Never - 1

// split has a port's frames that are due from a time ahead on taken from the line then, those that have come in already too.
func (l *lines) split(port int, from vt.Time, latency time.Duration) {
	if l.mac == nil {
		in, head := l.in, l.head
		l.in, l.head, l.mac = make([]inbox, 2*len(in)), make([]vt.Time, 2*len(in)), make([]vt.Time, len(in))
		l.told = make([][]vt.Time, len(in))
		for i := range in {
			l.in[2*i] = in[i]
			l.head[2*i], l.head[2*i+1], l.mac[i] = head[i], vt.Never, vt.Never
		}
	}
	l.told[port] = append(l.told[port], from)
	if from < l.mac[port] {
		l.setMac(port, from, latency)
	}
}

// join ends what split began, until the first time from now on that it was told of.
func (l *lines) join(port int, now vt.Time, latency time.Duration) {
	if l.mac == nil || l.mac[port] == vt.Never {
		return
	}
	l.told[port] = slices.DeleteFunc(l.told[port], func(t vt.Time) bool { return t < now })
	from := vt.Time(unsplit)
	for _, t := range l.told[port] {
		from = min(from, t)
	}
	l.setMac(port, from, latency)
}

// setMac puts the frames of a port that has come to be split at another time where they belong by now.
func (l *lines) setMac(port int, from vt.Time, latency time.Duration) {
	l.mac[port] = from
	b := &l.in[2*port]
	was := *b
	*b, l.head[2*port] = inbox{}, vt.Never
	for i := range was.n {
		a := was.ring[(was.at+i)&(len(was.ring)-1)]
		l.insert(2*port, arrival{l.at(port, a.f.Due, latency), a.n, a.f})
	}
	l.arrival, l.arrivalPort = first(l.head)
}

// at is when a frame due at a port is handled there. Where a port has come to be split, frames of before are still on their way to the core; those that follow
// wait for them, lest credits are counted before the frames that they are of.
func (l *lines) at(port int, due vt.Time, latency time.Duration) vt.Time {
	switch {
	case l.mac == nil || due < l.mac[port]:
		return due.Add(latency)
	case l.mac[port] == 0:
		return due
	}
	return max(due, l.mac[port].Add(latency))
}

// first finds the earliest of a few times, and of equal ones the first.
func first(times []vt.Time) (vt.Time, int) {
	t, at := vt.Never, 0
	for i, x := range times {
		if x < t {
			t, at = x, i
		}
	}
	return t, at
}

// push takes a frame that comes in at a port, to be handled at t.
func (l *lines) push(port int, t vt.Time, f *link.Frame) {
	l.n++
	if l.mac != nil {
		port *= 2
	}
	l.insert(port, arrival{t, l.n, f})
}

// insert puts a frame into an inbox.
func (l *lines) insert(port int, a arrival) {
	b, t := &l.in[port], a.t
	if b.n == len(b.ring) {
		b.grow()
	}
	mask := len(b.ring) - 1
	i := b.n
	for ; i > 0; i-- { // only a link that reorders makes a frame pass others
		before := &b.ring[(b.at+i-1)&mask]
		if before.t <= t {
			break
		}
		b.ring[(b.at+i)&mask] = *before
	}
	b.ring[(b.at+i)&mask] = a
	b.n++
	if i > 0 {
		return
	}
	l.head[port] = t
	if t < l.arrival || t == l.arrival && port < l.arrivalPort {
		l.arrival, l.arrivalPort = t, port
	}
}

func (b *inbox) grow() {
	ring := make([]arrival, max(16, 2*len(b.ring)))
	for i := range b.n {
		ring[i] = b.ring[(b.at+i)&(len(b.ring)-1)]
	}
	b.ring, b.at = ring, 0
}

// pop takes the first frame of all and its inbox.
func (l *lines) pop() (int, arrival) {
	port := l.arrivalPort
	b := &l.in[port]
	mask := len(b.ring) - 1
	a := b.ring[b.at]
	b.ring[b.at].f = nil
	b.at = (b.at + 1) & mask
	b.n--
	l.head[port] = vt.Never
	if b.n > 0 {
		l.head[port] = b.ring[b.at].t
	}
	l.arrival, l.arrivalPort = first(l.head)
	return port, a
}

// fetch has the processor fetch what comes next at a port: memory is what a large fabric waits for. The headers of the next
// frame are found through the frame itself, which was fetched a step before.
func (l *lines) fetch(port int) {
	b := &l.in[port]
	mask := len(b.ring) - 1
	if b.n > 1 {
		b.ring[(b.at+1)&mask].f.Fetch()
	}
	if b.n > 0 {
		b.ring[b.at].f.FetchHeader()
	}
}

// drop releases the frames for which gone says so.
func (l *lines) drop(gone func(port int, a *arrival) bool) {
	for at := range l.in {
		b, port := &l.in[at], at
		if l.mac != nil {
			port /= 2
		}
		kept := 0
		for i := range b.n {
			a := &b.ring[(b.at+i)&(len(b.ring)-1)]
			if gone(port, a) {
				a.f.Release()
				continue
			}
			b.ring[(b.at+kept)&(len(b.ring)-1)] = *a
			kept++
		}
		for i := kept; i < b.n; i++ {
			b.ring[(b.at+i)&(len(b.ring)-1)] = arrival{}
		}
		b.n = kept
		l.head[at] = vt.Never
		if kept > 0 {
			l.head[at] = b.ring[b.at].t
		}
	}
	l.arrival, l.arrivalPort = first(l.head)
}

// freeAt notes that a port's serializer is free at t; false if the port waits for another such moment already.
func (l *lines) freeAt(port int, t vt.Time) bool {
	if l.free[port] != vt.Never {
		return l.free[port] == t
	}
	l.free[port] = t
	if t < l.freed || t == l.freed && port < l.freedPort {
		l.freed, l.freedPort = t, port
	}
	return true
}

// popFree takes the first serializer that is free.
func (l *lines) popFree() int {
	port := l.freedPort
	l.free[port] = vt.Never
	l.freed, l.freedPort = first(l.free)
	return port
}

// reset forgets the serializers.
func (l *lines) reset() {
	for i := range l.free {
		l.free[i] = vt.Never
	}
	l.freed = vt.Never
}
