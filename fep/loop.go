package fep

import (
	"time"

	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/vt"
)

// LoopLatency is what a packet takes within an end point, from its last bit out of the sender's half to its last bit into the
// receiver's, where both processes are on the same node. UE 1.0.2 says nothing of it: it is of the order of a turn over the
// node's own bus.
const LoopLatency = 500 * time.Nanosecond

// loop carries packets to the end point's own address: the network would not bring them back, since a link to another end
// point ends there. They are taken in their turn with all others, when the port is free, and then pass a line of their own, at
// the port's nominal rate, and LoopLatency. They are on no link: no capture shows them, nothing damages, marks or trims them.
type loop struct {
	q      []looped // FIFO from head on
	head   int
	freePs int64   // when the line is free, virtual picoseconds
	timer  vt.Time // when the end point is called, 0: it is not
}

type looped struct {
	at vt.Time
	fr *link.Frame
}

// timerLoop is the engine's timer of the loop; the other is packet delivery's.
const timerLoop = 1

// reset drops what is under way.
func (l *loop) reset() {
	for _, x := range l.q[l.head:] {
		x.fr.Release()
	}
	*l = loop{q: l.q[:0]}
}

// turnBack takes a packet that goes to this end point itself.
func (f *FEP) turnBack(now vt.Time, fr *link.Frame) {
	l := &f.loop
	l.freePs = max(l.freePs, int64(now)*1000) + link.LinePs(len(fr.B), f.node.Ports[0].Config().Rate)
	x := looped{vt.Time((l.freePs + 999) / 1000).Add(LoopLatency), fr}
	if l.head > len(l.q)/2 { // so that a line that never runs empty keeps to its memory
		l.q, l.head = l.q[:copy(l.q, l.q[l.head:])], 0
	}
	l.q = append(l.q, x)
	f.armLoop()
}

// armLoop asks to be called when the first packet has come round.
func (f *FEP) armLoop() {
	l := &f.loop
	if l.timer == 0 && l.head < len(l.q) {
		l.timer = l.q[l.head].at
		f.node.SetTimer(l.timer, timerLoop)
	}
}

// turned hands over the packets that have come round by now.
func (f *FEP) turned(now vt.Time) {
	l := &f.loop
	if l.timer > now {
		return // a timer of before the last Reset
	}
	for l.head < len(l.q) && l.q[l.head].at <= now {
		fr := l.q[l.head].fr
		l.q[l.head] = looped{}
		l.head++
		f.Arrive(now, 0, fr)
	}
	l.timer = 0
	f.armLoop()
}
