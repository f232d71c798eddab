package cms

import "github.com/uetlab/uetlab/internal/vt"

// nscc is the state of NSCC beyond the window (uet-cms.md 3).
type nscc struct {
	saved      float64 // window before a receiver's penalty, 0: none
	inc        float64 // bytes^2: increase to come, divided by the window when it is applied
	achieved   int64   // bytes of this Quick Adapt period
	received   int64   // bytes since the last adjustment
	idleBytes  int64   // fi_count: bytes in a row without delay
	toIgnore   int64
	ignored    int64
	qaEnd      vt.Time // 0: before the first period
	lastAdjust vt.Time
	lastDec    vt.Time
	increase   bool
	trigger    bool // a trim asks for Quick Adapt
}

func (n *nscc) init(now vt.Time) { n.lastAdjust, n.lastDec = now, now }

// nsccAck applies an ACK with newly bytes and the sample s of the RTT.
func (c *Context) nsccAck(now vt.Time, fb *Feedback, newly int64, ecn bool, s vt.Time, ok bool) {
	n, p := &c.nscc, &c.cfg.NSCC
	n.ignored += newly
	n.received += newly
	n.achieved += newly
	limited := c.penalty(fb, newly)
	var d vt.Time
	switch {
	case ok:
		c.lastRTT = s
		c.updateBase(s)
		d = s - c.baseRTT
		c.avgAdd(now, d, ecn)
	case p.Variant&VarNoSample != 0:
		d = vt.Time(c.avg.v)
	default:
		return
	}
	if c.quickAdapt(now, false, ecn, d) {
		return
	}
	target := vt.Time(p.TargetQDelay)
	switch {
	case ecn && d >= target:
		c.multDecrease(now)
	case ecn:
		c.decided(DecHold)
	case limited:
		c.decided(DecLimited)
	case d >= target:
		c.decided(DecFair)
		n.inc += float64(p.FI * float64(newly))
	default:
		c.propIncrease(newly, target-d, d)
	}
	if now-n.lastAdjust >= vt.Time(p.AdjustPeriod) || n.received > p.AdjustBytes {
		c.fulfill(now)
	}
}

// propIncrease adds in proportion to what is left below the target.
func (c *Context) propIncrease(newly int64, room, d vt.Time) {
	if c.fastIncrease(newly, d) {
		c.decided(DecFast)
		return
	}
	p := &c.cfg.NSCC
	c.decided(DecProp)
	c.nscc.inc += float64(p.Alpha * float64(newly) * (float64(room) * 1e-9))
}

// fastIncrease probes a path that has been without delay for a whole window.
func (c *Context) fastIncrease(newly int64, d vt.Time) bool {
	n, p := &c.nscc, &c.cfg.NSCC
	if d < vt.Time(p.FastDelay) {
		n.idleBytes += newly
		if n.increase || float64(n.idleBytes) > c.cwnd {
			c.cwnd = min(c.cwnd+float64(float64(newly)*p.FIScale), c.maxWnd)
			n.increase = true
			return true
		}
	} else {
		n.idleBytes = 0
	}
	n.increase = false
	return false
}

// fulfill applies what the ACKs have added up.
func (c *Context) fulfill(now vt.Time) {
	n, p := &c.nscc, &c.cfg.NSCC
	c.cwnd += n.inc / c.cwnd
	if now-n.lastAdjust >= vt.Time(p.AdjustPeriod) {
		n.lastAdjust = now
		c.cwnd += p.Eta
	}
	c.clamp()
	n.inc, n.received = 0, 0
}

// multDecrease shrinks the window by the average delay beyond the target, at most once per base RTT.
func (c *Context) multDecrease(now vt.Time) {
	n, p := &c.nscc, &c.cfg.NSCC
	c.decided(DecMult)
	n.increase, n.idleBytes = false, 0
	a, target := c.avg.v, float64(p.TargetQDelay)
	if a > target && now-n.lastDec > c.baseRTT {
		c.cwnd = max(c.mtu, c.cwnd*max(1-float64(p.Gamma*(a-target)/a), p.MaxMDJump))
		n.lastDec = now
		c.counts[decMultCuts]++
	}
}

// quickAdapt sets the window to what a period has really delivered, if that is little and something was lost. True says that
// the event is to have no other effect.
func (c *Context) quickAdapt(now vt.Time, loss, ecn bool, d vt.Time) bool {
	n, p := &c.nscc, &c.cfg.NSCC
	if p.NoQuickAdapt {
		return false
	}
	hit := false
	switch {
	case n.ignored < n.toIgnore && ecn:
		hit = true // of the flight that was accounted for
		c.decided(DecIgnored)
	case now > n.qaEnd || now == n.qaEnd && p.Variant&VarQAEnd == 0:
		if n.qaEnd != 0 && (n.trigger || loss || d > vt.Time(p.QAThreshold)) &&
			n.achieved < int64(c.maxWnd)>>p.QAGate {
			c.cwnd = min(max(float64(n.achieved), c.mtu), c.cwnd)
			n.toIgnore, n.ignored, n.trigger, hit = c.inflight, 0, false, true
			c.decided(DecQuick)
		}
		n.achieved = 0
		n.qaEnd = now + c.baseRTT + vt.Time(p.TargetQDelay)
	}
	if hit {
		n.inc, n.received = 0, 0
	}
	return hit
}

// nsccWake begins a Quick Adapt period with the first packet after a silence: what was delivered while there was nothing to send
// says nothing about the path, and the first trim of a burst would leave a window of one packet. (uet-cms.md 3 does not have this.)
func (c *Context) nsccWake(now vt.Time) {
	if n := &c.nscc; n.qaEnd != 0 && now >= n.qaEnd {
		n.achieved, n.trigger = 0, false
		n.qaEnd = now + c.baseRTT + vt.Time(c.cfg.NSCC.TargetQDelay)
	}
}

// nsccNack applies a NACK of a packet of size bytes.
func (c *Context) nsccNack(now vt.Time, size int64, s vt.Time, ok bool, why Refusal) {
	p := &c.cfg.NSCC
	if ok && p.Variant&VarNoNackBase == 0 {
		c.updateIf(s, ok)
	}
	if why == Refused {
		return
	}
	if c.cfg.NoTrim {
		c.lost(now, size, Inferred, DecLoss)
		return
	}
	c.avgTrim(now) // whoever trims has a full queue, one BDP
	c.nscc.ignored += size
	if why == TrimmedLastHop && c.rccc != nil {
		return // the receiver's credit deals with it
	}
	c.nscc.trigger = true
	if !c.quickAdapt(now, true, true, 0) {
		c.cwnd = max(c.cwnd-float64(size), c.mtu)
		c.decided(DecTrim)
	}
}

// penalty applies that of the destination (DFC, uet-cms.md 5). True says that the window must not grow. The window comes down from what
// is used of it: the flight as it was before the ACK, and a packet that may not have fit. From the flight after the ACK any penalty at
// all would leave no room for a packet until nothing is under way, and 64 would not halve.
func (c *Context) penalty(fb *Feedback, newly int64) bool {
	n := &c.nscc
	if fb.Pend > 0 {
		if n.saved == 0 {
			n.saved = c.cwnd
		}
		dec := int64(fb.Pend&127) * newly >> 7
		c.cwnd = max(c.mtu, min(c.cwnd, float64(c.inflight+newly)+c.mtu)-float64(dec))
		return true
	}
	if fb.Restore && n.saved > 0 {
		c.cwnd, n.saved = min(n.saved, c.maxWnd), 0
		c.decided(DecRestore)
	}
	return false
}

// delayAvg is the average queueing delay in ns.
type delayAvg struct {
	v    float64
	at   vt.Time
	some bool
}

// add weighs a delay by the time since the last one: a base RTT later nothing of the past is left.
func (a *delayAvg) add(now, base vt.Time, d float64) {
	w := 1.
	if a.some {
		w = min(1, float64(now-a.at)/float64(base))
	}
	a.at, a.some = now, true
	a.v += float64(w * (d - a.v))
}

const ewma = 0.0125 // htsim's

func (c *Context) avgAdd(now, d vt.Time, ecn bool) {
	x := float64(d)
	if c.cfg.NSCC.Variant&VarEWMA == 0 {
		c.avg.add(now, c.baseRTT, x)
		return
	}
	if !ecn && d > vt.Time(c.cfg.NSCC.TargetQDelay) {
		x = 0.25 * float64(c.baseRTT)
	}
	c.avg.v += float64(ewma * (x - c.avg.v))
}

func (c *Context) avgTrim(now vt.Time) {
	x := float64(c.cfg.Net.BaseRTT)
	if c.cfg.NSCC.Variant&VarEWMA == 0 {
		c.avg.add(now, c.baseRTT, x)
		return
	}
	c.avg.v += float64(ewma * (x - c.avg.v))
}
