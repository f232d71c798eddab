package lb

import "github.com/uetlab/uetlab/internal/vt"

// mostQueued bounds a queue of EVs. It never holds more than were under way at once, unless the peer repeats itself.
const mostQueued = 1 << 16

// fifo is a queue of EVs that grows.
type fifo struct {
	evs  []uint16 // its length is a power of two
	head uint32
	n    uint32
}

func (q *fifo) push(ev uint16) {
	if int(q.n) == len(q.evs) {
		if q.n == mostQueued {
			q.pop()
		} else {
			q.grow()
		}
	}
	q.evs[(q.head+q.n)&uint32(len(q.evs)-1)] = ev
	q.n++
}

func (q *fifo) grow() {
	evs := make([]uint16, max(2*len(q.evs), 16))
	for i := range q.n {
		evs[i] = q.evs[(q.head+i)&uint32(len(q.evs)-1)]
	}
	q.evs, q.head = evs, 0
}

// pop takes the oldest, which there must be.
func (q *fifo) pop() uint16 {
	ev := q.evs[q.head]
	q.head = (q.head + 1) & uint32(len(q.evs)-1)
	q.n--
	return ev
}

func (q *fifo) look(v *View) {
	for i := range q.n {
		p := v.path(q.evs[(q.head+i)&uint32(len(q.evs)-1)])
		p.State, p.Uses = StateCached, p.Uses+1
	}
	v.sort()
}

// legacy is REPS as it was first described: all EVs that came back wait in a queue.
type legacy struct {
	set
	i     uint16
	first uint32 // packets of the first window that are still to leave
	q     fifo
}

func (b *legacy) Next(vt.Time, Packet) uint16 {
	for b.first > 0 {
		b.first--
		b.i++
		if ev := b.ev(b.i); ev != 0 {
			return ev
		}
	}
	if b.q.n > 0 {
		return b.q.pop()
	}
	return b.random()
}

func (b *legacy) Feedback(_ vt.Time, f Feedback) {
	if f.Kind == Good && f.EV != 0 {
		b.q.push(f.EV)
	}
}

func (b *legacy) Look(v *View) {
	v.begin(REPSLegacy)
	v.Explore = int(b.first)
	b.q.look(v)
}

// mixed takes what came back, and asks the bitmap where there is nothing.
type mixed struct {
	scores
	q fifo
}

func (b *mixed) Next(vt.Time, Packet) uint16 {
	if b.q.n > 0 {
		return b.q.pop()
	}
	return b.next()
}

func (b *mixed) Feedback(_ vt.Time, f Feedback) {
	if f.Kind == Good && f.EV != 0 {
		b.q.push(f.EV)
	}
	b.punish(f)
}

func (b *mixed) Look(v *View) {
	v.begin(Mixed)
	b.look(v)
	b.q.look(v)
}
