package cms

import (
	"github.com/uetlab/uetlab/internal/vt"
)

// Context is a congestion control context (CCC): one per peer FEP and traffic class. Open makes it; the caller then reports every
// event of the PDCs that share it, each with the Flow of its PDC.
type Context struct {
	cfg *Config

	cwnd     float64 // bytes
	maxWnd   float64
	mtu      float64
	inflight int64 // nominal bytes, signed: the destination's count is rounded up, and may run ahead of marks
	baseRTT  vt.Time
	lastRTT  vt.Time
	avg      delayAvg

	backlog    int64
	rtxBacklog int64
	waitingRtx int32
	packets    int32 // in flight

	nscc  nscc
	rccc  *creditSource
	dctcp *dctcp
	swift *swift
	dcqcn *dcqcn

	probe  probing
	last   Decision
	counts [decisions]uint64
	stats  stats
	ecn    float64 // share of marked ACKs, average
	seen   float64 // cwnd that Hook has seen

	// Hook, if set, is called after every event that changed the window, or the rate.
	Hook func(now vt.Time, c *Context)
}

// probing is whether a Probe is to find the base RTT (uet-cms.md 4).
type probing uint8

const (
	probeEarly probing = iota // it cannot open a PDC, and so waits for the first ACK or NACK
	probeDue
	probeDone
)

type stats struct{ acks, marked, trims, trimsLast, nacks, losses, timeouts, grants uint64 }

// Flow is the share that a PDC has in its Context. The zero value is a new PDC.
type Flow struct {
	inflight int64
	marked   int64 // bytes that are to be sent again
	backlog  int64
	packets  int32
	marks    int32
	rcvd     uint32 // highest Rcvd_Bytes of the destination, 24 bits
}

// Newly takes Rcvd_Bytes of an ACK (24 bits, 256-byte units) and returns by how many bytes it is ahead of the highest before it,
// 0 if it is behind: that is the ACK clock of NSCC, whatever the order of ACKs (uet-cms.md 6).
func (f *Flow) Newly(rcvd uint32) int64 {
	d := ahead(rcvd, f.rcvd)
	if d <= 0 {
		return 0
	}
	f.rcvd = rcvd & mask24
	return int64(d) << 8
}

// InFlight is how many bytes of the PDC are under way.
func (f *Flow) InFlight() int64 { return f.inflight }

const mask24 = 1<<24 - 1

// ahead is the distance of two 24-bit counters, modulo 2^24 in -2^23 .. 2^23-1.
func ahead(a, b uint32) int32 { return int32((a-b)<<8) >> 8 }

// Feedback is what an ACK or a NACK says. The entropy value is for the load balancer, and not here.
type Feedback struct {
	Newly   int64   // ACK: bytes that have newly arrived, marked ones as well: Flow.Newly, or counted by the caller where ACKs have no NSCC state
	Packets int32   // ACK: packets that were in flight and are not any more
	Sent    vt.Time // start of serialization of the packet that it names, at the latest time
	Named   bool    // Sent and Rtx are those of the packet; false: no longer known, or nothing is named
	Rtx     uint8   // how often that packet was sent again
	Retx    bool    // RETX: it answers a retransmission
	ECN     bool    // M: the packet was marked
	Restore bool    // rc
	Pend    uint8   // rcv_cwnd_pend, 0..127
	Service uint16  // service_time, 128 ns
}

// Refusal says why a NACK refused a packet.
type Refusal uint8

// Refusals.
const (
	Refused        Refusal = iota // by the peer, for want of something: no sign of congestion
	Trimmed                       // inside the fabric
	TrimmedLastHop                // on the link to the destination
)

// Loss says how the caller knows that a packet is lost.
type Loss uint8

// Losses.
const (
	Inferred Loss = iota // from packets that came later, or from a Probe
	TimedOut
	GoBack // not lost: a packet before it was, and what follows is thrown away
)

// Open makes a context. The configuration was resolved, and is not changed any more. The base RTT is that of the network, or
// what an earlier context to the same peer has found, if that is less.
func Open(now vt.Time, cfg *Config, cachedRTT vt.Time) *Context {
	c := &Context{cfg: cfg, mtu: float64(cfg.Net.MTU), baseRTT: vt.Time(cfg.Net.BaseRTT)}
	switch cfg.Algorithm {
	case AlgNSCC, AlgNSCCRCCC:
		c.setWindow(cfg.NSCC.InitWnd, cfg.NSCC.MaxWnd)
		c.nscc.init(now)
	case AlgDCTCP:
		c.setWindow(cfg.DCTCP.MaxWnd, cfg.DCTCP.MaxWnd)
		c.dctcp = &dctcp{}
	case AlgMPRDMA:
		c.setWindow(cfg.MPRDMA.MaxWnd, cfg.MPRDMA.MaxWnd)
	case AlgSwift, AlgUCCL:
		c.setWindow(cfg.Swift.InitWnd, cfg.Swift.MaxWnd)
		c.swift = newSwift(&cfg.Swift)
	case AlgDCQCN:
		c.dcqcn = newDCQCN(now, cfg)
	case AlgRCCC, AlgEQDS:
		c.setWindow(cfg.RCCC.MaxWnd, cfg.RCCC.MaxWnd)
	default:
		c.setWindow(cfg.Window, cfg.Window)
	}
	if cfg.Algorithm.Credits() {
		c.rccc = newCreditSource(now, &cfg.RCCC)
	}
	if cachedRTT > 0 {
		c.updateBase(cachedRTT)
		c.probe = probeDone
	}
	c.seen = c.level()
	return c
}

func (c *Context) setWindow(wnd, most int64) { c.cwnd, c.maxWnd = float64(wnd), float64(most) }

// OnNewData counts n nominal bytes that wait to be sent for the first time.
func (c *Context) OnNewData(f *Flow, n int64) {
	f.backlog += n
	c.backlog += n
}

// OnSend counts a packet of so many nominal bytes that leaves now; again says that it was marked.
func (c *Context) OnSend(now vt.Time, f *Flow, size int, again bool) {
	n := int64(size)
	if again {
		c.unmark(f, n)
	} else {
		take := min(n, f.backlog) // the headers may come out different from what was guessed
		f.backlog -= take
		c.backlog -= take
	}
	if c.packets == 0 && !again {
		c.nsccWake(now)
	}
	f.inflight += n
	c.inflight += n
	f.packets++
	c.packets++
	if c.rccc != nil {
		c.rccc.credit -= n
	}
	switch {
	case c.swift != nil:
		c.swift.onSend(c, now, n)
	case c.dcqcn != nil:
		rate := c.dcqcn.rate
		c.dcqcn.onSend(now, n)
		c.moved(rate)
		c.changed(now)
	}
}

// mark takes a packet out of flight that has to be sent again.
func (c *Context) mark(f *Flow, n int64) {
	f.inflight -= n
	c.inflight -= n
	if f.packets > 0 {
		f.packets--
		c.packets--
	}
	f.marked += n
	c.rtxBacklog += n
	f.marks++
	c.waitingRtx++
}

func (c *Context) unmark(f *Flow, n int64) {
	n = min(n, f.marked)
	f.marked -= n
	c.rtxBacklog -= n
	if f.marks > 0 {
		f.marks--
		c.waitingRtx--
	}
}

// OnUnmark says that a marked packet is not to be sent again: it has arrived, and the same ACK's Newly counts it. Its bytes left
// the flight when it was marked, and now leave it a second time; so they first return.
func (c *Context) OnUnmark(f *Flow, size int) {
	n := min(int64(size), f.marked)
	c.unmark(f, n)
	f.inflight += n
	c.inflight += n
}

// OnAck applies an ACK. Marked packets that it covers are reported first, by OnUnmark.
func (c *Context) OnAck(now vt.Time, f *Flow, fb *Feedback) {
	ecn := fb.ECN && !c.cfg.NoECN
	c.stats.acks++
	if fb.ECN {
		c.stats.marked++
		c.ecn += 1. / 32
	}
	c.ecn -= c.ecn / 33
	// A peer cannot have received more than it was sent: without the bound it could open the window at will.
	n := max(0, min(fb.Newly, f.inflight+f.marked+255))
	f.inflight -= n
	c.inflight -= n
	k := min(max(fb.Packets, 0), f.packets)
	f.packets -= k
	c.packets -= k
	s, ok := c.sample(now, fb, vt.Time(fb.Service)*128)
	switch c.cfg.Algorithm {
	case AlgNSCC, AlgNSCCRCCC:
		c.nsccAck(now, fb, n, ecn, s, ok)
	case AlgDCTCP:
		c.updateIf(s, ok)
		c.dctcpAck(now, n, ecn)
	case AlgMPRDMA:
		c.updateIf(s, ok)
		c.mprdmaAck(n, ecn)
	case AlgSwift, AlgUCCL:
		c.updateIf(s, ok)
		if ok {
			c.swift.onAck(c, now, n, s)
		}
	case AlgDCQCN:
		c.updateIf(s, ok)
		if ecn { // a congestion notification: CNP at the destination chose which ACKs have the flag
			rate := c.dcqcn.rate
			c.dcqcn.onCNP(now)
			c.moved(rate)
		}
	default:
		c.updateIf(s, ok)
	}
	if c.rccc != nil {
		c.rccc.heard(now)
	}
	c.changed(now)
}

// OnNack applies a NACK of a packet that was in flight, and marks it. Where the packets behind it go back with it, in mode ROD,
// OnLoss reports each of them as GoBack.
func (c *Context) OnNack(now vt.Time, f *Flow, fb *Feedback, size int, why Refusal) {
	n := int64(size)
	c.mark(f, n)
	switch why {
	case Trimmed:
		c.stats.trims++
	case TrimmedLastHop:
		c.stats.trimsLast++
	default:
		c.stats.nacks++
	}
	s, ok := c.sample(now, fb, 0)
	switch c.cfg.Algorithm {
	case AlgNSCC, AlgNSCCRCCC:
		c.nsccNack(now, n, s, ok, why)
	default:
		c.updateIf(s, ok)
		if why == Trimmed || why == TrimmedLastHop {
			c.lost(now, n, Inferred, DecTrim)
		}
	}
	if c.rccc != nil {
		c.rccc.heard(now)
		c.rccc.starved = true
	}
	c.changed(now)
}

// OnLoss marks a packet that was in flight without any NACK of it.
func (c *Context) OnLoss(now vt.Time, f *Flow, size int, why Loss) {
	n := int64(size)
	c.mark(f, n)
	if c.rccc != nil {
		c.rccc.starved = true
	}
	switch why {
	case GoBack:
		return
	case TimedOut:
		c.stats.timeouts++
	default:
		c.stats.losses++
	}
	c.lost(now, n, why, DecLoss)
	c.changed(now)
}

// lost is what a loss does to the window, and a trim where the algorithm does not tell them apart.
func (c *Context) lost(now vt.Time, n int64, why Loss, d Decision) {
	switch c.cfg.Algorithm {
	case AlgNSCC, AlgNSCCRCCC, AlgDCTCP, AlgMPRDMA:
		c.nscc.ignored += n
		c.cwnd = max(c.cwnd-float64(n), c.mtu)
	case AlgSwift, AlgUCCL:
		c.swift.onLoss(c, now, why)
	default:
		return
	}
	c.decided(d)
}

// TakeProbe says, once in the life of a context that was opened without an earlier RTT, that a Probe should be sent on the control
// class now: after the first ACK or NACK, if an algorithm that goes by delay has data left. Late starters find standing queues, and
// would take their delay for the path's.
func (c *Context) TakeProbe() bool {
	if c.probe != probeDue || c.backlog == 0 || c.cfg.NoRTT || !c.cfg.Algorithm.Windows() && c.swift == nil {
		return false
	}
	c.probe = probeDone
	return true
}

// OnProbe takes the round-trip time of a Probe, which no data delays (uet-cms.md 4).
func (c *Context) OnProbe(now vt.Time, rtt vt.Time) {
	if rtt > 0 && !c.cfg.NoRTT {
		c.updateBase(rtt)
		c.changed(now)
	}
}

// Settle forgets what the flow has in flight, marked and waiting, once nothing of it is unacknowledged (what is left is rounding) or
// its PDC ends. Its count of received bytes stays; a new PDC begins with a new Flow.
func (c *Context) Settle(f *Flow) {
	c.inflight -= f.inflight
	c.packets -= f.packets
	c.rtxBacklog -= f.marked
	c.waitingRtx -= f.marks
	c.backlog -= f.backlog
	*f = Flow{rcvd: f.rcvd}
}

// CanSend says whether a packet of so many nominal bytes may leave now. Where the answer is no because of SendAt, it will be
// another one then; else only an event changes it.
func (c *Context) CanSend(now vt.Time, size int) bool {
	if c.rccc != nil && c.rccc.credit <= 0 {
		return false
	}
	switch c.cfg.Algorithm {
	case AlgNSCC, AlgNSCCRCCC:
		n := c.mtu
		if c.cfg.NSCC.Variant&VarPacketSize != 0 {
			n = float64(size)
		}
		return float64(c.inflight)+n <= c.cwnd
	case AlgRCCC, AlgEQDS:
		return true
	case AlgDCQCN:
		return c.dcqcn.next <= now
	case AlgSwift, AlgUCCL:
		if c.cwnd < c.mtu {
			return c.inflight <= 0 && c.swift.next <= now
		}
	}
	return float64(c.inflight)+float64(size) <= c.cwnd
}

// SendAt is when a rate lets the next packet leave, for a timer: at once where only a window counts.
func (c *Context) SendAt(now vt.Time) vt.Time {
	switch {
	case c.dcqcn != nil:
		return max(now, c.dcqcn.next)
	case c.swift != nil && c.cwnd < c.mtu:
		return max(now, c.swift.next)
	}
	return now
}

// AckRequest says whether the packet that OnSend has just counted asks for an ACK at once (AR): no full packet may follow it,
// or the destination's own trigger is out of reach.
func (c *Context) AckRequest() bool {
	switch {
	case c.dcqcn != nil:
		return false
	case c.cfg.Algorithm == AlgRCCC || c.cfg.Algorithm == AlgEQDS:
		return c.rccc.credit <= 0
	}
	return c.cwnd-float64(c.inflight) < c.mtu || c.cwnd < float64(c.cfg.NSCC.AckTrigger)
}

// Idle says that nothing waits and nothing is under way.
func (c *Context) Idle() bool { return c.packets == 0 && c.backlog == 0 && c.waitingRtx == 0 }

// BaseRTT is the least RTT so far: what to give to Open for the next context to the same peer.
func (c *Context) BaseRTT() vt.Time { return c.baseRTT }

// sample is the RTT that an ACK or a NACK gives, if it is not ambiguous (uet-cms.md 4).
func (c *Context) sample(now vt.Time, fb *Feedback, service vt.Time) (vt.Time, bool) {
	if c.probe == probeEarly {
		c.probe = probeDue
	}
	if !fb.Named || c.cfg.NoRTT || !(fb.Rtx == 0 && !fb.Retx || fb.Rtx == 1 && fb.Retx) {
		return 0, false
	}
	s := now - fb.Sent - service
	return s, s > 0 // a peer that claims more time than went by is not believed
}

func (c *Context) updateIf(s vt.Time, ok bool) {
	if ok {
		c.lastRTT = s
		c.updateBase(s)
	}
}

// updateBase lowers the base RTT, and the largest window of NSCC with it.
func (c *Context) updateBase(s vt.Time) {
	if s >= c.baseRTT {
		return
	}
	c.baseRTT = s
	if c.cfg.Algorithm.Windows() {
		c.maxWnd = max(c.mtu, float64(c.cfg.NSCC.MaxWnd)*float64(s)/float64(c.cfg.Net.BaseRTT))
		c.cwnd = min(c.cwnd, c.maxWnd)
	}
}

func (c *Context) clamp() { c.cwnd = min(max(c.cwnd, c.mtu), c.maxWnd) }

func (c *Context) decided(d Decision) {
	c.last = d
	c.counts[d]++
}

// moved notes what has become of DCQCN's rate.
func (c *Context) moved(before float64) {
	switch {
	case c.dcqcn.rate > before:
		c.decided(DecUp)
	case c.dcqcn.rate < before:
		c.decided(DecDown)
	}
}

// level is what Hook watches.
func (c *Context) level() float64 {
	if c.dcqcn != nil {
		return c.dcqcn.rate
	}
	return c.cwnd
}

func (c *Context) changed(now vt.Time) {
	if l := c.level(); c.Hook != nil && l != c.seen {
		c.seen = l
		c.Hook(now, c)
	}
}
