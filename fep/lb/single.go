package lb

import "github.com/uetlab/uetlab/internal/vt"

// fixed never moves.
type fixed struct{ ev uint16 }

func (b *fixed) Next(vt.Time, Packet) uint16 { return b.ev }

func (b *fixed) Feedback(vt.Time, Feedback) {}

func (b *fixed) Look(v *View) { v.begin(Fixed); v.current(b.ev, 0) }

// ecmp moves when it may, but not often. Answers to packets of a path that was left say nothing about the new one.
type ecmp struct {
	pool  *Pool
	ev    uint16
	used  bool
	moves uint32
	moved vt.Time
}

func (b *ecmp) Next(now vt.Time, p Packet) uint16 {
	if p.Idle && b.used {
		b.move(now)
	}
	b.used = true
	return b.ev
}

func (b *ecmp) Feedback(now vt.Time, f Feedback) {
	if f.EV != b.ev {
		return
	}
	on := b.pool.p.RerouteOn
	if f.Kind == Timeout && on != OnIdle || f.Kind == Nack && (on == OnNack || on == OnECN) || f.Kind == ECN && on == OnECN {
		b.move(now)
	}
}

func (b *ecmp) move(now vt.Time) {
	if now-b.moved >= b.pool.reroute {
		b.ev, b.moved = b.pool.other(b.ev), now
		b.moves++
	}
}

func (b *ecmp) Look(v *View) {
	v.begin(ECMP)
	v.current(b.ev, 0)
	v.Moves = b.moves
}

// other is another EV than this one.
func (o *Pool) other(ev uint16) uint16 {
	for {
		if e := o.draw(); e != ev {
			return e
		}
	}
}

// plb moves after some rounds of one RTT in which too many bytes came back marked, and from a path on which packets vanish.
type plb struct {
	pool   *Pool
	ev     uint16
	rounds uint8 // congested ones in a row
	moves  uint32
	start  vt.Time // of the round
	bytes  uint32  // delivered in it
	marked uint32
}

func (b *plb) Next(_ vt.Time, p Packet) uint16 {
	if p.Idle && int(b.rounds) >= b.pool.p.PLBIdleRounds {
		b.move()
	}
	return b.ev
}

func (b *plb) Feedback(now vt.Time, f Feedback) {
	switch f.Kind {
	case Timeout:
		if f.EV == b.ev {
			b.move()
		}
		return
	case ECN:
		b.marked += uint32(f.Bytes)
	}
	b.bytes += uint32(f.Bytes)
	if now-b.start < b.pool.rtt {
		return
	}
	if float64(b.marked) > b.pool.p.PLBShare*float64(b.bytes) {
		b.rounds++
	} else {
		b.rounds = 0
	}
	b.start, b.bytes, b.marked = now, 0, 0
	if int(b.rounds) >= b.pool.p.PLBRounds {
		b.move()
	}
}

func (b *plb) move() {
	b.ev, b.rounds = b.pool.other(b.ev), 0
	b.moves++
}

func (b *plb) Look(v *View) {
	v.begin(PLB)
	v.current(b.ev, int64(b.rounds))
	v.Moves = b.moves
}

// flowlet moves where a gap is long enough that nothing is overtaken.
type flowlet struct {
	pool  *Pool
	ev    uint16
	moves uint32
	moved vt.Time
	acked vt.Time // the last answer
}

func (b *flowlet) Next(now vt.Time, _ Packet) uint16 {
	if now-b.acked > b.pool.gap && now-b.moved > b.pool.hold {
		b.ev, b.moved = b.pool.other(b.ev), now
		b.moves++
	}
	return b.ev
}

func (b *flowlet) Feedback(now vt.Time, f Feedback) {
	if f.Kind != Timeout && f.Kind != None {
		b.acked = now
	}
}

func (b *flowlet) Look(v *View) {
	v.begin(Flowlet)
	v.current(b.ev, 0)
	v.Moves = b.moves
}
