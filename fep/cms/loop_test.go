package cms

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/uetlab/uetlab/internal/vt"
)

// The closed loop: n sources, one bottleneck as fast as each of their links in front of the destination. The queue there holds
// one BDP, trims what does not fit (or, one time in two, the packet at its tail), and marks at dequeue between 0.2 and 0.8 BDP.
// NACKs, ACKs and Credit CPs never wait. Every packet is acknowledged. The base RTT is that of the 100G leaf-spine, 9.348 us.
// Faster ones have the same.
const (
	loopMTU = 4150
	loopRTT = 9348
)

type loopKind uint8

const (
	evTry loopKind = iota
	evArrive
	evDequeue
	evAck
	evNack
	evGrant
	evCredit
)

type loopPkt struct {
	flow   int
	sent   vt.Time
	rtx    uint8
	ecn    bool
	target uint32
	rcvd   uint32
}

type loopEvent struct {
	at   vt.Time
	n    int
	kind loopKind
	p    loopPkt
}

type loopEvents []loopEvent

func (h loopEvents) Len() int { return len(h) }
func (h loopEvents) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].n < h[j].n
}
func (h loopEvents) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *loopEvents) Push(x any)   { *h = append(*h, x.(loopEvent)) }
func (h *loopEvents) Pop() any {
	x := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return x
}

type loopFlow struct {
	c         *Context
	f         Flow
	s         Source[int]
	rtx       []loopPkt
	free      vt.Time // of the link
	waiting   bool    // an evTry is under way
	rcvd      uint64
	delivered int64 // in the time that is measured
}

type loop struct {
	bdp   float64 // bytes
	ser   vt.Time // of a packet
	way   vt.Time // from a link's end to that of the other, and back
	now   vt.Time
	n     int
	h     loopEvents
	rng   *rand.Rand
	flows []loopFlow
	queue []loopPkt
	busy  bool
	pacer *Pacer[int]
	grant vt.Time
	from  vt.Time // of the measurement
	trims int
	pkts  int
	qSum  float64
	qN    int
	qMax  int
}

func (l *loop) at(t vt.Time, k loopKind, p loopPkt) {
	l.n++
	heap.Push(&l.h, loopEvent{t, l.n, k, p})
}

func newLoop(t *testing.T, cfg Config, gbit int64, flows int, seed uint64) *loop {
	t.Helper()
	cfg.Net = Network{Rate: gbit * 1e9, BaseRTT: loopRTT, MTU: loopMTU, MSS: 4086, Trimming: true}
	if err := cfg.Resolve(); err != nil {
		t.Fatal(err)
	}
	l := &loop{rng: rand.New(rand.NewPCG(seed, 7)), flows: make([]loopFlow, flows), grant: vt.Never}
	l.bdp, l.ser = cfg.Net.BDP(), vt.Time(loopMTU*8/gbit)
	l.way = (loopRTT - 2*l.ser) / 2
	if cfg.Algorithm.Credits() {
		p, err := NewPacer[int](&cfg, l.rng)
		if err != nil {
			t.Fatal(err)
		}
		l.pacer = p
	}
	for i := range l.flows {
		f := &l.flows[i]
		f.c = Open(0, &cfg, 0)
		f.c.OnNewData(&f.f, 1<<40)
		f.s.V = i
		l.try(i, vt.Time(l.rng.IntN(int(l.ser))))
	}
	return l
}

func (l *loop) try(i int, at vt.Time) {
	if f := &l.flows[i]; !f.waiting {
		f.waiting = true
		l.at(max(at, f.free), evTry, loopPkt{flow: i})
	}
}

func (l *loop) run(until vt.Time) {
	for l.now < until && len(l.h) > 0 {
		e := heap.Pop(&l.h).(loopEvent)
		l.now = e.at
		switch e.kind {
		case evTry:
			l.flows[e.p.flow].waiting = false
			l.send(e.p.flow)
		case evArrive:
			l.arrive(e.p)
		case evDequeue:
			l.busy = false
			l.deliver(e.p)
			l.dequeue()
		case evAck, evNack, evCredit:
			l.feedback(e.kind, e.p)
		case evGrant:
			l.grants()
		}
	}
}

func (l *loop) send(i int) {
	f := &l.flows[i]
	if !f.c.CanSend(l.now, loopMTU) {
		if at := f.c.SendAt(l.now); at > l.now && (len(f.rtx) > 0 || f.f.backlog > 0) {
			l.try(i, at)
		}
		return
	}
	p, again := loopPkt{flow: i}, len(f.rtx) > 0
	if again {
		p, f.rtx = f.rtx[0], f.rtx[1:]
	}
	f.c.OnSend(l.now, &f.f, loopMTU, again)
	p.sent, p.ecn, p.target = l.now, false, f.c.CreditTarget(1)
	f.free = l.now + l.ser
	l.at(f.free+l.way, evArrive, p)
	l.try(i, f.free)
}

func (l *loop) arrive(p loopPkt) {
	most := int(l.bdp / loopMTU)
	l.pkts++
	if l.now >= l.from {
		l.qSum += float64(len(l.queue))
		l.qN++
		l.qMax = max(l.qMax, len(l.queue))
	}
	if len(l.queue) >= most {
		cut := p
		if l.rng.IntN(2) == 0 {
			cut = l.queue[len(l.queue)-1]
			l.queue[len(l.queue)-1] = p
		}
		l.trims++
		cut.rtx++
		l.demand(cut, true)
		l.at(l.now+l.ser+l.way, evNack, cut)
		return
	}
	l.queue = append(l.queue, p)
	l.dequeue()
}

func (l *loop) dequeue() {
	if l.busy || len(l.queue) == 0 {
		return
	}
	q := float64(len(l.queue)*loopMTU) / l.bdp
	p := l.queue[0]
	l.queue = l.queue[1:]
	p.ecn = l.rng.Float64() < (q-0.2)/0.6
	l.busy = true
	l.at(l.now+l.ser, evDequeue, p)
}

func (l *loop) deliver(p loopPkt) {
	f := &l.flows[p.flow]
	f.rcvd += loopMTU
	if l.now >= l.from {
		f.delivered += loopMTU
	}
	l.demand(p, false)
	p.rcvd = RcvdBytes(f.rcvd)
	l.at(l.now+l.way, evAck, p)
}

// demand tells the pacer of a packet.
func (l *loop) demand(p loopPkt, cut bool) {
	if l.pacer == nil {
		return
	}
	s := &l.flows[p.flow].s
	l.pacer.OnTarget(l.now, s, p.target)
	if cut {
		l.pacer.OnTrim(l.now, s, loopMTU)
	}
	l.arm()
}

func (l *loop) arm() {
	if t := l.pacer.Next(l.now); t != vt.Never && (l.grant == vt.Never || l.grant < l.now) {
		l.grant = t
		l.at(t, evGrant, loopPkt{})
	}
}

func (l *loop) grants() {
	l.grant = vt.Never
	if s := l.pacer.Grant(l.now); s != nil {
		l.at(l.now+l.way, evCredit, loopPkt{flow: s.V, target: s.Credit()})
	}
	l.arm()
}

func (l *loop) feedback(k loopKind, p loopPkt) {
	f := &l.flows[p.flow]
	switch k {
	case evAck:
		fb := Feedback{Newly: f.f.Newly(p.rcvd), Packets: 1, Named: true, Sent: p.sent, Rtx: min(p.rtx, 2), Retx: p.rtx > 0, ECN: p.ecn}
		f.c.OnAck(l.now, &f.f, &fb)
	case evNack:
		why := Trimmed
		if l.pacer != nil {
			why = TrimmedLastHop
		}
		fb := Feedback{Named: true, Sent: p.sent, Rtx: min(p.rtx-1, 2), Retx: p.rtx > 1, ECN: p.ecn}
		f.c.OnNack(l.now, &f.f, &fb, loopMTU, why)
		f.rtx = append(f.rtx, p)
	case evCredit:
		f.c.OnCredit(l.now, p.target)
	}
	l.try(p.flow, l.now)
}

func (l *loop) jain() (index, share float64, least int64) {
	var sum, sq float64
	least = 1 << 62
	for i := range l.flows {
		d := l.flows[i].delivered
		sum += float64(d)
		sq += float64(d) * float64(d)
		least = min(least, d)
	}
	return sum * sum / (float64(len(l.flows)) * sq), sum / float64(l.now-l.from) * loopRTT / l.bdp, least
}

// TestIncastConverges runs n:1 until well after the first window, and then looks: shares are fair, the link is full, the queue is
// below its bound, nobody starves. Trims go down to few where windows of a packet each fit into path and queue.
func TestIncastConverges(t *testing.T) {
	const ms = time.Millisecond
	for _, x := range []struct {
		cfg           Config
		gbit          int64
		n             int
		jain, load    float64
		queue         float64 // average, BDP
		trims         float64 // share of packets in the second half
		warm, measure time.Duration
	}{
		{Config{}, 100, 2, 0.95, 0.99, 0.8, 0.001, ms, 2 * ms},
		{Config{}, 100, 8, 0.95, 0.99, 0.8, 0.001, ms, 2 * ms},
		{Config{NSCC: NSCC{Variant: VarHtsim}}, 100, 8, 0.93, 0.99, 0.85, 0.001, ms, 2 * ms},
		{Config{}, 800, 100, 0.95, 0.99, 1, 0.02, ms, ms}, // eta alone adds 0.4 BDP per round trip
		// 100 packets are almost twice what path and queue hold, 28 each: it trims on, but nobody starves.
		{Config{}, 100, 100, 0.95, 0.99, 1, 0.65, ms, 11 * ms},
		{Config{Algorithm: AlgNSCCRCCC}, 100, 8, 0.99, 0.98, 0.1, 0, ms, ms},
		{Config{Algorithm: AlgNSCCRCCC}, 100, 100, 0.99, 0.98, 0.1, 0, 2 * ms, 4 * ms},
		{Config{Algorithm: AlgRCCC}, 100, 100, 0.99, 0.98, 0.1, 0, 2 * ms, 4 * ms},
		{Config{Algorithm: AlgEQDS}, 100, 8, 0.99, 0.98, 0.1, 0, ms, ms},
		{Config{Algorithm: AlgDCTCP}, 100, 8, 0.95, 0.99, 0.6, 0.001, ms, 2 * ms},
		{Config{Algorithm: AlgSwift}, 100, 8, 0.95, 0.99, 1, 0.06, ms, 2 * ms},
		{Config{Algorithm: AlgMPRDMA}, 100, 8, 0.95, 0.99, 0.5, 0.001, ms, 2 * ms},
	} {
		name := fmt.Sprintf("%v/%dG/%d:1/%d", x.cfg.Algorithm, x.gbit, x.n, x.cfg.NSCC.Variant)
		t.Run(name, func(t *testing.T) {
			seeds := uint64(2)
			if x.n > 8 {
				seeds = 1
			}
			for seed := range seeds {
				l := newLoop(t, x.cfg, x.gbit, x.n, seed)
				l.from = vt.Time(x.warm)
				l.run(l.from)
				first := l.trims
				l.trims, l.pkts = 0, 0
				l.run(l.from + vt.Time(x.measure))
				j, load, least := l.jain()
				q := l.qSum / float64(l.qN) * loopMTU / l.bdp
				trims := float64(l.trims) / float64(l.pkts)
				s := fmt.Sprintf("seed %d: Jain %.3f, load %.3f, queue %.2f BDP on average, %d packets at most, trims %d then %.4f, least share %.2f", seed, j, load,
					q, l.qMax, first, trims, float64(least)*float64(x.n)/float64(l.now-l.from)*loopRTT/l.bdp)
				t.Log(s)
				if j < x.jain || load < x.load || q > x.queue || trims > x.trims || least == 0 {
					t.Error(s)
				}
			}
		})
	}
}
