package link

import (
	"math/bits"
	"math/rand/v2"
	"time"

	"github.com/uetlab/uetlab/internal/link/cbfc"
	"github.com/uetlab/uetlab/internal/link/llr"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// Host is what a port needs of the node that it belongs to.
type Host interface {
	// TxFreeAt asks for a call of TxFree at t.
	TxFreeAt(port int, t vt.Time)
	// Transmit takes a frame whose Due is set; the frame leaves for the far end now.
	Transmit(port int, f *Frame)
	// LinkTimerAt asks for a call of LinkTimer at t.
	LinkTimerAt(port int, t vt.Time)
	// Now is the time of the event that is being handled.
	Now() vt.Time
}

// Source is asked for the next frame when the serializer is free and the queue is empty: an end point builds a packet
// only when it can leave. It returns nil when there is nothing to send; Kick wakes the port up later.
type Source interface {
	NextFrame(now vt.Time, port int) *Frame
	// Dequeued tells of a queued frame, in queue f.Queue, that leaves it: for the line if sent, else it is about to be dropped
	// because the link went down or its watchdog fired. A frame that is sent may be changed here, its length too.
	Dequeued(now vt.Time, port int, f *Frame, sent bool)
}

// Config fixes a port. Rate is in bits per second, Queue what Offer lets a queue hold, in bytes without preamble and gap.
type Config struct {
	Rate  int64
	Delay time.Duration
	Queue int64
	MTU   int // IP bytes
	// Queued says that the source has nothing: the node sends only what it has queued, and a port whose queues run empty
	// needs no event.
	Queued bool
	MAC    wire.MAC    // source of its ordered sets
	Pool   *Pool       // for these; needed where there is LLR
	LLR    *llr.Config // link layer retry, at both ends alike; nil: none until SetLLR says so
	CBFC   *cbfc.Setup // credit-based flow control, at both ends alike; nil: none
	// Interleave is how many codewords the line sends in turn, 1 to 4; 0: as many as is usual at its rate.
	Interleave int
	// Negotiated says that LLDP decides about both: they begin off, whatever CBFC says, and LLR is nil.
	Negotiated bool
}

// Port is the egress of one direction of a link, and the ingress check of the other.
type Port struct {
	Index int
	C     Counters
	// Changed is called when the port goes down later than its link, because LLR hoped that it would be back; may be nil.
	Changed func(now vt.Time)

	cfg    Config
	imp    Impair
	sick   bool // imp touches frames
	host   Host
	src    Source
	dmg    damage
	rate   int64 // bits per second, impairment counted
	ctlq   fifo  // MAC control: before everything else, never paused
	sched  scheduler
	freePs int64   // when the serializer is free, virtual picoseconds
	busy   bool    // run is at work: the core may queue frames from within Dequeued
	armed  vt.Time // when a TxFree call is due that run asked for, unarmed if none
	last   vt.Time // the latest due time: without the reorder impairment frames of one direction never overtake each other

	rxDown bool
	cuts   [8]cut // the latest intervals in which the receiving side was down, the newest at nCuts-1 modulo their number
	nCuts  int

	llr   *retry   // nil: none
	sets  bool     // there is LLR, or may be soon
	seed  uint64   // of its handshakes
	crd   *credits // nil: no CBFC
	began vt.Time  // when the run began: the latest Begin

	series *Series // nil: nobody wants it
	phy    *codewords
}

const unarmed = vt.Time(-1)

// NewPort makes port number index of host. All its queues share the line in equal parts until Serve says otherwise.
func NewPort(index int, cfg Config, host Host, src Source) *Port {
	p := &Port{Index: index, cfg: cfg, host: host, src: src, rate: cfg.Rate, armed: unarmed, phy: newCodewords(&cfg)}
	p.dmg.phy = p.phy
	p.Serve([NumQueues]Service{})
	if cfg.LLR != nil {
		p.sets = true
		p.makeLLR(*cfg.LLR)
		p.llr.tx.Reset(0, 0)
		p.llr.rx.Reset(0)
	}
	if cfg.CBFC != nil {
		p.sets = true
		p.resetCredits(0)
	}
	return p
}

// Config returns the port's fixed figures.
func (p *Port) Config() Config { return p.cfg }

// Impair returns what is wrong with the port now.
func (p *Port) Impair() Impair { return p.imp }

// Rate is what the line carries now, in bits per second: the nominal rate less the impairment.
func (p *Port) Rate() int64 { return p.rate }

// Up says whether the port may send. With LLR a link that is down is up for others until that has lasted too long.
func (p *Port) Up() bool { return !p.imp.Down || p.llr != nil && p.llr.held }

// Serve sets how the queues are served from now on.
func (p *Port) Serve(services [NumQueues]Service) { p.sched.serve(&services, p.cfg.MTU) }

// Stats are the counters of queue q; the node's core adds its own to them.
func (p *Port) Stats(q int) *QueueStats { return &p.sched.stats[q] }

// QueueBytes is what waits in queue q, in bytes.
func (p *Port) QueueBytes(q int) int64 { return p.sched.q[q].bytes }

// Tail is the last frame of queue q, nil if it is empty. It stays the port's: it may be read only.
func (p *Port) Tail(q int) *Frame { return p.sched.q[q].tail }

// SwapTail puts f in the place of the last frame of queue q, which is not empty, and makes f that frame. Dequeued is not
// called.
func (p *Port) SwapTail(now vt.Time, q int, f *Frame) {
	p.sched.swapTail(q, f)
	p.gauge(now)
}

// Backlog is what waits in all queues, in bytes.
func (p *Port) Backlog() int64 { return p.sched.bytes }

// Reset empties the port, forgets serializer state and takes a new generator; impairments and counters stay.
func (p *Port) Reset(rng *rand.Rand) {
	p.sched.reset()
	for f := p.ctlq.pop(); f != nil; f = p.ctlq.pop() {
		f.Release()
	}
	p.freePs, p.armed, p.last = 0, unarmed, 0
	p.dmg.reset(rng)
	p.resetLLR(rng)
	p.crd = nil // of the frames of the run before nobody gives credits back any more
	p.C[QueueBytes], p.C[QueuePeak] = 0, 0
}

// LinePs is how long a frame of n bytes (without FCS) occupies a line of rate bits per second, in picoseconds:
// at least 60 bytes, plus FCS 4, preamble 8 and gap 12.
func LinePs(n int, rate int64) int64 {
	b := int64(wire.LineBytes(n))
	return (b*psBits + rate - 1) / rate
}

const psBits = 8_000_000_000_000 // in a byte, picoseconds times bits per second

// Lookahead is the shortest time from an event at the sending node to the arrival of a frame that it sends over a link
// like this one: propagation plus the smallest frame, which is one ordered set where there is LLR. It holds under every impairment,
// since these only slow a link down.
func (p *Port) Lookahead() time.Duration {
	if p.sets {
		return p.cfg.Delay + time.Duration(setsPs(wire.CtlOSLen, p.cfg.Rate)/1000)
	}
	return p.cfg.Delay + time.Duration(LinePs(60, p.cfg.Rate)/1000)
}

// Offer queues the frame in queue q, or drops it when the queue is full.
func (p *Port) Offer(now vt.Time, q int, f *Frame) {
	if p.Up() && p.sched.q[q].bytes+int64(len(f.B)) > p.cfg.Queue {
		p.sched.stats[q].C[QDrop]++
		p.sched.stats[q].C[QDropBytes] += uint64(len(f.B))
		p.Drop(DropQueue, f)
		return
	}
	p.Enqueue(now, q, f)
}

// Enqueue queues the frame in queue q: the caller has decided that there is room. It is dropped when the link is down.
func (p *Port) Enqueue(now vt.Time, q int, f *Frame) bool {
	if !p.Up() {
		p.Drop(DropDown, f)
		return false
	}
	f.Queued = now
	p.sched.push(q, f)
	p.gauge(now)
	p.Kick(now)
	return true
}

// EnqueuePause queues a PAUSE or PFC frame.
func (p *Port) EnqueuePause(now vt.Time, f *Frame) {
	if !p.imp.Down {
		p.C[PauseTx]++
	}
	p.EnqueueControl(now, f)
}

// EnqueueControl queues a frame that goes before all that the scheduler has, and is never paused.
func (p *Port) EnqueueControl(now vt.Time, f *Frame) {
	if p.imp.Down {
		p.Drop(DropDown, f)
		return
	}
	p.ctlq.push(f)
	p.Kick(now)
}

func (p *Port) gauge(now vt.Time) {
	p.C[QueueBytes] = uint64(p.sched.bytes)
	p.C[QueuePeak] = max(p.C[QueuePeak], p.C[QueueBytes])
	if p.series != nil {
		p.series.wait(now, p.sched.bytes)
	}
}

// Drop counts a frame under its reason and releases it.
func (p *Port) Drop(why Counter, f *Frame) {
	p.C[why]++
	f.Release()
}

// QueueLen is the number of frames that wait.
func (p *Port) QueueLen() int { return p.sched.n }

// Idle says whether a frame handed over now would start at once.
func (p *Port) Idle(now vt.Time) bool {
	return !p.imp.Down && p.sched.n == 0 && p.freePs <= int64(now)*1000
}

// Kick starts sending if the serializer is free: call it when the source has something new.
func (p *Port) Kick(now vt.Time) {
	if p.armed == unarmed && !p.busy {
		p.busy = true
		p.run(now)
		p.busy = false
	}
}

// TxFree is the serializer's event, or the end of a pause.
func (p *Port) TxFree(now vt.Time) {
	if p.armed == now {
		p.armed = unarmed
	}
	p.Kick(now)
}

// run sends frames until the serializer is busy beyond now, and then asks to be called when it is free.
func (p *Port) run(now vt.Time) {
	for !p.imp.Down {
		if at := vt.Time((p.freePs + 999) / 1000); at > now {
			if p.cfg.Queued && p.sched.n == 0 && p.ctlq.n == 0 && (p.llr == nil || !p.pendingRetry()) && (p.crd == nil || !p.crd.due(now) && p.crd.tx.Draining() == 0) {
				return
			}
			p.armed = at
			p.host.TxFreeAt(p.Index, at)
			return
		}
		if p.llr != nil || p.crd != nil {
			f, wait := p.nextLink(now)
			if wait {
				return
			}
			if f != nil {
				p.send(now, f)
				continue
			}
		}
		f := p.ctlq.pop()
		if f == nil && p.sched.active != 0 {
			if p.crd != nil {
				p.sched.broke = p.crd.gate(now)
			}
			if f = p.sched.next(now); f != nil {
				p.gauge(now)
				f.settle()
				p.src.Dequeued(now, p.Index, f, true)
				c := &p.sched.stats[f.Queue].C
				c[QTxFrames]++
				c[QTxBytes] += uint64(len(f.B))
			}
		}
		if f == nil {
			f = p.src.NextFrame(now, p.Index)
		}
		if f == nil {
			if p.ctlq.n == 0 && p.sched.ready(now) == 0 {
				return
			}
			continue // the source has queued a frame instead
		}
		if p.llr != nil {
			if f = p.protect(now, f); f == nil {
				continue
			}
		}
		if p.crd != nil {
			p.crd.pay(now, f)
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
	if p.sets && f.kind == kindSets {
		p.freePs = start + setsPs(len(f.B)-wire.EthLen, p.rate)
	} else {
		p.freePs = start + LinePs(len(f.B), p.rate)
		p.C[TxFrames]++
		p.C[TxBytes] += uint64(len(f.B))
		if p.series != nil {
			p.series.send(now, len(f.B))
		}
	}
	due := vt.Time((p.freePs + 999) / 1000).Add(p.cfg.Delay)
	if p.sick {
		p.phy.frame(start, p.rate)
		p.sendSick(due, f)
		return
	}
	f.Due = max(p.last, due)
	p.last = f.Due
	p.host.Transmit(p.Index, f)
}

// sendSick sends a frame over a line with impairments.
func (p *Port) sendSick(due vt.Time, f *Frame) {
	x := p.fate(f)
	if x.lost {
		if x.why == LostSets { // none is left, and each is counted
			f.Release()
		} else {
			p.Drop(x.why, f)
		}
		return
	}
	due = max(p.last, due.Add(p.imp.Delay+x.late))
	p.last = due
	f.Due = due
	if p.llr == nil { // what LLR protects comes in order, as on every wire
		f.Due = due.Add(x.held)
	}
	var again *Frame
	if x.twice {
		p.C[TxTwice]++
		again = f.Copy()
	}
	p.host.Transmit(p.Index, f)
	if again != nil {
		p.host.Transmit(p.Index, again)
	}
}

// SetImpair changes what is wrong with the port at virtual time now. Going down drops what waits; coming up starts anew.
func (p *Port) SetImpair(now vt.Time, imp Impair) {
	was := p.imp
	p.imp = imp
	p.rate = p.cfg.Rate
	if imp.Rate > 0 {
		p.rate = max(1, int64(float64(p.rate)*imp.Rate))
	}
	p.dmg.set(&was, &imp, p.rate, p.cfg.MTU)
	p.phy.set(now, p.freePs, &was, &imp)
	p.sick = imp.touches()
	if imp.Down && !was.Down {
		if p.holds() {
			p.llr.held = true
		} else {
			p.goDown(now)
		}
	}
	if p.llr != nil {
		if !imp.Down {
			p.llr.held = false
		}
		p.signal(now)
	}
	if !imp.Down {
		if was.Down && p.crd != nil {
			p.crd.force(now)
		}
		p.Kick(now)
	}
}

// goDown drops what waits.
func (p *Port) goDown(now vt.Time) {
	for f := p.ctlq.pop(); f != nil; f = p.ctlq.pop() {
		p.Drop(DropDown, f)
	}
	p.Flush(now, 1<<NumQueues-1, DropDown)
	for m := p.sched.stopped(now); m != 0; m &= m - 1 { // a pause ends with its link
		p.sched.pause(bits.TrailingZeros8(m), now, now)
	}
}

// Flush drops what waits in the queues of a mask, for a reason.
func (p *Port) Flush(now vt.Time, queues uint8, why Counter) {
	for m := queues & p.sched.active; m != 0; m &= m - 1 {
		for q := bits.TrailingZeros8(m); p.sched.active>>q&1 != 0; {
			f := p.sched.take(q)
			p.src.Dequeued(now, p.Index, f, false)
			p.Drop(why, f)
		}
	}
	if p.crd != nil {
		p.crd.idle(now)
	}
	p.gauge(now)
}

// SetRxDown tells the receiving side that the link is down, or up again, from now on.
func (p *Port) SetRxDown(now vt.Time, down bool) {
	if down == p.rxDown {
		return
	}
	p.rxDown = down
	if down {
		p.cuts[p.nCuts%len(p.cuts)] = cut{now, vt.Never}
		p.nCuts++
	} else {
		p.cuts[(p.nCuts-1)%len(p.cuts)].to = now
	}
	if p.llr != nil {
		p.signal(now)
		p.Kick(now)
	}
}

// cut is an interval in which a link was down: what was due after from, and not after to, was lost.
type cut struct{ from, to vt.Time }

// wasCut says whether a frame that was due then was lost because the link was down.
func (p *Port) wasCut(due vt.Time) bool {
	for _, c := range p.cuts[:min(p.nCuts, len(p.cuts))] {
		if due > c.from && due <= c.to {
			return true
		}
	}
	return false
}

// Received counts an arrival and says whether the frame goes on to the core; otherwise it was dropped, or was meant for the
// port itself.
func (p *Port) Received(now vt.Time, f *Frame) bool {
	if p.nCuts > 0 && p.wasCut(f.Due) {
		p.Drop(DropCut, f)
		return false
	}
	if f.Flip != 0 {
		p.Drop(DropPreamble, f)
		return false
	}
	if p.llr != nil {
		if !p.receiveLLR(now, f) {
			return false
		}
	} else if f.Damaged {
		switch wire.FCS(f.B) ^ f.FCS {
		case 0:
		case poison:
			p.Drop(DropPoisoned, f)
			return false
		default:
			p.Drop(DropFCS, f)
			return false
		}
		f.Damaged = false // the frame that it is now is the one that goes on
	}
	if (p.sets || p.cfg.Negotiated) && !p.receiveLink(now, f) {
		return false
	}
	f.LLR = 0
	p.C[RxFrames]++
	p.C[RxBytes] += uint64(len(f.B))
	switch f.what() {
	case kindData:
		p.C[RxData]++
	case kindPause:
		m, _ := wire.ParsePause(f.B)
		f.Release()
		p.pause(now, &m)
		return false
	}
	return true
}
