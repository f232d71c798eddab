package link

import (
	"math/rand/v2"
	"time"

	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// Host is what a port needs of the node that it belongs to.
type Host interface {
	// TxFreeAt asks for a call of TxFree at t.
	TxFreeAt(port int, t vt.Time)
	// Transmit takes a frame whose Due is set; the frame leaves for the far end now.
	Transmit(port int, f *Frame)
}

// Source is asked for the next frame when the serializer is free and the queue is empty: an end point builds a packet
// only when it can leave. It returns nil when there is nothing to send; Kick wakes the port up later.
type Source interface {
	NextFrame(now vt.Time, port int) *Frame
}

// Config fixes a port. Rate is in bits per second, Queue in bytes of line (preamble and gap not counted).
type Config struct {
	Rate  int64
	Delay time.Duration
	Queue int64
	MTU   int // IP bytes
}

// Impair holds what is wrong with one direction of a link. The zero value is a healthy link.
type Impair struct {
	Down      bool          `json:"down,omitempty"`
	Blackhole bool          `json:"blackhole,omitempty"` // carrier up, nothing arrives
	Loss      float64       `json:"loss,omitempty"`      // probability that a frame is lost, 0..1
	Delay     time.Duration `json:"delayNs,omitempty"`   // extra propagation delay
	Rate      float64       `json:"rate,omitempty"`      // share of the nominal rate that is left, 0 = all
}

// Port is the egress of one direction of a link, and the ingress check of the other.
type Port struct {
	Index int
	C     Counters

	cfg    Config
	imp    Impair
	host   Host
	src    Source
	rng    *rand.Rand
	q      fifo
	qBytes int64
	freePs int64   // when the serializer is free, virtual picoseconds
	armed  bool    // a TxFree call is under way
	last   vt.Time // the latest due time: frames of one direction never overtake each other

	rxDown   bool
	downFrom vt.Time // the latest interval in which the receiving side was down
	downTo   vt.Time
}

// NewPort makes port number index of host; src may be nil.
func NewPort(index int, cfg Config, host Host, src Source) *Port {
	return &Port{Index: index, cfg: cfg, host: host, src: src, downFrom: -1, downTo: -1}
}

// Config returns the port's fixed figures.
func (p *Port) Config() Config { return p.cfg }

// Impair returns what is wrong with the port now.
func (p *Port) Impair() Impair { return p.imp }

// Up says whether the port may send.
func (p *Port) Up() bool { return !p.imp.Down }

// Reset empties the port, forgets serializer state and takes a new generator; impairments and counters stay.
func (p *Port) Reset(rng *rand.Rand) {
	for f := p.q.pop(); f != nil; f = p.q.pop() {
		f.Release()
	}
	p.qBytes, p.freePs, p.armed, p.last, p.rng = 0, 0, false, 0, rng
	p.C[QueueBytes], p.C[QueuePeak] = 0, 0
}

// LinePs is how long a frame of n bytes (without FCS) occupies a line of rate bits per second, in picoseconds:
// at least 60 bytes, plus FCS 4, preamble 8 and gap 12.
func LinePs(n int, rate int64) int64 {
	const psBits = 8_000_000_000_000
	b := int64(wire.LineBytes(n))
	return (b*psBits + rate - 1) / rate
}

// Lookahead is the shortest time from an event at the sending node to the arrival of a frame that it sends over a link
// like this one: propagation plus the smallest frame. It holds under every impairment, since these only slow a link down.
func (p *Port) Lookahead() time.Duration {
	return p.cfg.Delay + time.Duration(LinePs(60, p.cfg.Rate)/1000)
}

// Enqueue queues the frame for sending, or drops it when the queue is full or the link is down.
func (p *Port) Enqueue(now vt.Time, f *Frame) {
	switch {
	case p.imp.Down:
		p.Drop(DropDown, f)
		return
	case p.qBytes+int64(len(f.B)) > p.cfg.Queue:
		p.Drop(DropQueue, f)
		return
	}
	p.q.push(f)
	p.qBytes += int64(len(f.B))
	p.gauge()
	p.Kick(now)
}

func (p *Port) gauge() {
	p.C[QueueBytes] = uint64(p.qBytes)
	p.C[QueuePeak] = max(p.C[QueuePeak], p.C[QueueBytes])
}

// Drop counts a frame under its reason and releases it.
func (p *Port) Drop(why Counter, f *Frame) {
	p.C[why]++
	f.Release()
}

// QueueLen is the number of frames that wait.
func (p *Port) QueueLen() int { return p.q.n }

// Idle says whether a frame handed over now would start at once.
func (p *Port) Idle(now vt.Time) bool {
	return !p.armed && !p.imp.Down && p.q.n == 0 && p.freePs <= int64(now)*1000
}

// Kick starts sending if the serializer is free: call it when the source has something new.
func (p *Port) Kick(now vt.Time) {
	if !p.armed {
		p.run(now)
	}
}

// TxFree is the serializer's event.
func (p *Port) TxFree(now vt.Time) {
	p.armed = false
	p.run(now)
}

// run sends frames until the serializer is busy beyond now, and then asks to be called when it is free.
func (p *Port) run(now vt.Time) {
	for !p.imp.Down {
		if at := (p.freePs + 999) / 1000; at > int64(now) {
			p.armed = true
			p.host.TxFreeAt(p.Index, vt.Time(at))
			return
		}
		f := p.q.pop()
		if f != nil {
			p.qBytes -= int64(len(f.B))
			p.gauge()
		} else if p.src != nil {
			f = p.src.NextFrame(now, p.Index)
		}
		if f == nil {
			return
		}
		p.send(now, f)
	}
}

func (p *Port) send(now vt.Time, f *Frame) {
	// A backlogged serializer starts the next frame to the picosecond where the last one ended; after a pause
	// it starts at the event.
	start := int64(now) * 1000
	if p.freePs > start-1000 && p.freePs < start {
		start = p.freePs
	}
	rate := p.cfg.Rate
	if p.imp.Rate > 0 {
		rate = max(1, int64(float64(rate)*p.imp.Rate))
	}
	p.freePs = start + LinePs(len(f.B), rate)
	p.C[TxFrames]++
	p.C[TxBytes] += uint64(len(f.B))
	switch {
	case p.imp.Blackhole:
		p.Drop(DropBlack, f)
		return
	case p.imp.Loss > 0 && p.rng.Float64() < p.imp.Loss:
		p.Drop(DropLoss, f)
		return
	}
	f.Due = max(p.last, vt.Time((p.freePs+999)/1000).Add(p.cfg.Delay+p.imp.Delay))
	p.last = f.Due
	p.host.Transmit(p.Index, f)
}

// SetImpair changes what is wrong with the port at virtual time now. Going down drops what waits; coming up starts anew.
func (p *Port) SetImpair(now vt.Time, imp Impair) {
	was := p.imp
	p.imp = imp
	if imp.Down && !was.Down {
		for f := p.q.pop(); f != nil; f = p.q.pop() {
			p.Drop(DropDown, f)
		}
		p.qBytes = 0
		p.gauge()
	}
	if !imp.Down {
		p.Kick(now)
	}
}

// SetRxDown tells the receiving side that the link is down, or up again, from now on.
func (p *Port) SetRxDown(now vt.Time, down bool) {
	if down == p.rxDown {
		return
	}
	p.rxDown = down
	if down {
		p.downFrom, p.downTo = now, vt.Never
	} else {
		p.downTo = now
	}
}

// Received counts an arrival and says whether the frame counts as arrived; otherwise it is dropped.
func (p *Port) Received(f *Frame) bool {
	if p.downFrom >= 0 && f.Due > p.downFrom && f.Due <= p.downTo {
		p.Drop(DropDown, f)
		return false
	}
	p.C[RxFrames]++
	p.C[RxBytes] += uint64(len(f.B))
	if isData(f.B) {
		p.C[RxData]++
	}
	return true
}
