package cms

import (
	"strconv"
	"time"

	"github.com/uetlab/uetlab/internal/vt"
)

// Decision is what the last feedback did to the window.
type Decision uint8

// Decisions. The four cases of NSCC are DecFair, DecProp with DecFast, DecMult, DecHold.
const (
	DecNone    Decision = iota
	DecFair             // no mark, delay above target: fair increase
	DecProp             // no mark, delay below target: proportional increase
	DecFast             // … without any delay for a window: fast increase
	DecMult             // mark, delay above target: multiplicative decrease, if none was just before
	DecHold             // mark, delay below target: the load balancer's business
	DecLimited          // the destination forbids increases
	DecRestore          // the destination has given the window back
	DecQuick            // Quick Adapt
	DecIgnored          // of the flight that Quick Adapt has accounted for
	DecTrim             // less for a trimmed packet
	DecLoss             // less for a lost packet
	DecUp               // the other algorithms: more
	DecDown             // … less
	decMultCuts
	decisions
)

var decNames = [decisions]string{"none", "fair increase", "proportional increase", "fast increase", "decrease", "hold",
	"limited by receiver", "restored", "quick adapt", "ignored", "trim", "loss", "up", "down"}

// String names the decision.
func (d Decision) String() string {
	if d < decMultCuts {
		return decNames[d]
	}
	return "decision " + strconv.Itoa(int(d))
}

// View is the state of a context, for people.
type View struct {
	Algorithm Algorithm
	Cwnd      int64 // bytes; for rates, that of one base RTT
	MaxWnd    int64
	InFlight  int64
	Packets   int // in flight
	Backlog   int64
	Marked    int64 // bytes to be sent again
	Saved     int64 // window before the penalty of the destination, 0: none

	BaseRTT time.Duration
	LastRTT time.Duration
	Delay   time.Duration // average queueing delay; Swift: of the last ACK
	Target  time.Duration // of the delay; Swift: of the RTT
	Rate    float64       // bit/s, DCQCN

	Credit      int64 // bytes that may be sent, RCCC
	Speculating bool
	Pull        uint32 // cumulative credit, 256 bytes

	ECNShare            float64 // of the latest ACKs
	Acks, ECN           uint64
	Trims, TrimsLastHop uint64
	Nacks               uint64 // of other reasons
	Losses, Timeouts    uint64
	Grants              uint64
	Decreases           uint64 // multiplicative ones that took place
	Last                Decision
	Counts              [decMultCuts]uint64 // by Decision
}

// View describes the context.
func (c *Context) View() View {
	s := &c.stats
	v := View{Algorithm: c.cfg.Algorithm, Cwnd: int64(c.cwnd), MaxWnd: int64(c.maxWnd), InFlight: c.inflight, Packets: int(c.packets),
		Backlog: c.backlog, Marked: c.rtxBacklog, Saved: int64(c.nscc.saved), BaseRTT: time.Duration(c.baseRTT),
		LastRTT: time.Duration(c.lastRTT), Delay: time.Duration(c.avg.v), ECNShare: c.ecn, Acks: s.acks, ECN: s.marked, Trims: s.trims,
		TrimsLastHop: s.trimsLast, Nacks: s.nacks, Losses: s.losses, Timeouts: s.timeouts, Grants: s.grants,
		Decreases: c.counts[decMultCuts], Last: c.last}
	copy(v.Counts[:], c.counts[:])
	switch {
	case c.cfg.Algorithm.Windows():
		v.Target = c.cfg.NSCC.TargetQDelay
	case c.swift != nil:
		v.Target = time.Duration(c.swift.target(c))
		v.Delay = max(0, time.Duration(c.lastRTT-c.baseRTT))
	case c.dcqcn != nil:
		v.Rate = c.dcqcn.rate
		v.Cwnd = int64(v.Rate / 8 * v.BaseRTT.Seconds())
		v.MaxWnd = int64(c.cfg.Net.BDP())
	}
	if r := c.rccc; r != nil {
		v.Credit, v.Speculating, v.Pull = r.credit, r.speculating, r.pull
	}
	return v
}

// Cwnd is the window in bytes and the rate in bit/s (0 unless the algorithm has one), for time series.
func (c *Context) Cwnd() (window, rate float64) {
	if c.dcqcn != nil {
		return 0, c.dcqcn.rate
	}
	return c.cwnd, 0
}

// InFlight is how many bytes are under way.
func (c *Context) InFlight() int64 { return c.inflight }

// Delay is the average queueing delay.
func (c *Context) Delay() vt.Time { return vt.Time(c.avg.v) }
