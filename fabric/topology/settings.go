package topology

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/link/llr"
	"github.com/uetlab/uetlab/switchd"
	"github.com/uetlab/uetlab/wire"
)

// What a switch of which a file says nothing gets (uet-link-switch.md sections 5 to 10).
const (
	defaultTrimSize  = 64
	defaultWeight    = 25 // of a queue; with trimmed:data 75:25
	trimmedWeight    = 75
	minSmallQueue    = 16 << 10         // of trimmed and control packets, where the plane BDP is less
	defaultKmin      = int64(200_000)   // millionths of the plane BDP
	defaultKmax      = int64(800_000)   //
	certain          = int64(1_000_000) // a probability of 1 in millionths
	defaultBuckets   = 256
	defaultIdleTimer = 100 * time.Microsecond
	defaultBands     = 8
	defaultWatchdog  = 200 * time.Millisecond
	defaultCompact   = 0xCCDD
	defaultWide      = 0xCCDE
	defaultCSIG      = 128 * time.Microsecond
	defaultAlpha     = 1.0
	pfcFrame         = 64 - 4    // MAC control frame without FCS
	retxOfLimit      = 1_500_000 // automatic limit of retransmissions, millionths of the data queue's
	framesInHeadroom = 3
)

// settler works the parameters of one switch out.
type settler struct {
	plan *Plan
	node *Node
	s    switchd.Settings
	p    *SwitchParams

	pfcWas bool // some queue was lossless before
}

// settle works out the settings of a switch of which links, base RTT and plane BDP are known.
func (d *draft) settle(p *Plan, n *draftNode) *settler {
	params := n.sw
	for _, unsaid := range []*Size{&params.Buffer, &params.Trim.RetxLimit, &params.PFC.Xoff, &params.PFC.Xon, &params.PFC.Headroom} {
		if *unsaid == (Size{}) {
			unsaid.Auto = true
		}
	}
	if params.ECMP.FlowletGap == nil {
		gap := autoTime
		params.ECMP.FlowletGap = &gap
	}
	c := &settler{plan: p, node: &p.Nodes[n.id], p: &params, s: p.basicSettings()}
	c.apply()
	return c
}

// basicSettings are those of a switch of which nothing is said, but for what is worked out from other settings.
func (p *Plan) basicSettings() switchd.Settings {
	s := switchd.Settings{
		Classes: p.DSCP.classes(), LastHop: switchd.MarkAuto,
		Trim: switchd.Trim{Enabled: true, Size: defaultTrimSize, Trimmable: []uint8{p.DSCP.Unreliable, p.DSCP.Data, p.DSCP.Retx},
			Trimmed: p.DSCP.Trimmed, LastHop: p.DSCP.LastHop, Retx: p.DSCP.Retx, FixIP: true},
		ECMP: switchd.ECMP{Hash: switchd.HashMix, Fields: slices.Clone(hashFields[:5]), Group: switchd.GroupThreshold, Buckets: defaultBuckets,
			IdleTimer: defaultIdleTimer, Weights: switchd.WeightsEqual, Balance: switchd.BalanceHash, Bands: defaultBands},
		PFC:    switchd.PFC{Quanta: maxQuanta, Watchdog: defaultWatchdog, Restore: defaultWatchdog, Action: switchd.ActionDrop},
		CSIG:   switchd.CSIG{Compact: defaultCompact, Wide: defaultWide, Interval: defaultCSIG},
		Mirror: switchd.Mirror{To: -1, Sample: 1, From: -1},
	}
	slices.Sort(s.Trim.Trimmable)
	for q := range s.Queues {
		s.Queues[q] = switchd.Queue{Service: link.Service{Weight: defaultWeight}, Pmax: 1}
		if marks(q) {
			s.Queues[q].Kmin, s.Queues[q].Kmax = Size{PPM: defaultKmin}.bytes(p.BDP, 0), Size{PPM: defaultKmax}.bytes(p.BDP, 0)
		} else {
			s.Queues[q].Limit = max(p.BDP, minSmallQueue)
		}
	}
	s.Queues[queueData].Trim, s.Queues[queueUnreliable].Trim = true, true
	s.Queues[queueTrimmed].Weight = trimmedWeight
	s.Queues[queueControl].Service = link.Service{Strict: true}
	return s
}

// marks says whether a queue is one of those that buffer and ecn speak of: all but those of trimmed and of control packets.
func marks(q int) bool { return q != queueTrimmed && q != queueControl }

// put sets what is said.
func put[T any](to *T, said *T) {
	if said != nil {
		*to = *said
	}
}

// putSet sets what is not the zero value.
func putSet[T comparable](to *T, said T) {
	var zero T
	if said != zero {
		*to = said
	}
}

// apply lays what the parameters say over the settings.
func (c *settler) apply() {
	c.trim()
	c.shared()
	before := c.s.Queues
	c.pfcQueues()
	for q := range c.s.Queues {
		c.queue(q, before[q].Lossless)
	}
	c.retxLimit()
	c.ecmp()
	c.pfc()
	c.rest()
}

func (c *settler) trim() {
	s, p := &c.s.Trim, &c.p.Trim
	put(&s.Enabled, p.Enabled)
	put(&s.FixIP, p.FixIP)
	putSet(&s.Size, int(p.Size.Bytes))
	if p.Victim != "" {
		s.Coin = p.Victim == "coin"
	}
	if p.Trimmable != nil {
		s.Trimmable = nil
		for _, dscp := range p.Trimmable {
			s.Trimmable = append(s.Trimmable, uint8(dscp))
		}
		slices.Sort(s.Trimmable)
	}
	if p.Disable != nil {
		s.Disabled = nil
		for _, prefix := range p.Disable {
			s.Disabled = append(s.Disabled, prefix.String())
		}
	}
}

// shared sets the memory that queues share, and with it the thresholds that make it shared fairly.
func (c *settler) shared() {
	s, p := &c.s.Buffer, &c.p.Shared
	had := s.Shared > 0
	if p.Size != (Size{}) {
		s.Shared = p.Size.bytes(c.plan.BDP, 0)
	}
	if p.Reserved != (Size{}) {
		s.Reserved = p.Reserved.bytes(c.plan.BDP, 0)
	}
	if s.Shared == 0 {
		s.Reserved = 0
	}
	for q := range c.s.Queues {
		switch {
		case s.Shared == 0:
			c.s.Queues[q].Alpha = 0
		case !had && q != queueControl:
			c.s.Queues[q].Alpha = defaultAlpha
		}
	}
}

// pfcQueues makes queues lossless where pfc.enabled alone decides.
func (c *settler) pfcQueues() {
	said := c.p.PFC.Enabled
	switch {
	case said == nil:
	case !*said:
		for q := range c.s.Queues {
			c.s.Queues[q].Lossless = false
		}
	case !c.anyLossless():
		c.s.Queues[queueRoCE].Lossless = true
	}
}

func (c *settler) anyLossless() bool {
	return slices.ContainsFunc(c.s.Queues[:], func(q switchd.Queue) bool { return q.Lossless })
}

func (c *settler) queue(q int, wasLossless bool) {
	s, p := &c.s.Queues[q], &c.p.Queues[q]
	if p.Strict != nil && *p.Strict != s.Strict {
		s.Strict, s.Weight = *p.Strict, 0
		if !s.Strict {
			s.Weight = defaultWeight
		}
	}
	putSet(&s.Weight, p.Weight)
	put(&s.Lossless, p.Lossless)
	if s.Lossless != wasLossless {
		s.Trim, s.WRED = !s.Lossless && (q == queueData || q == queueUnreliable), false
	}
	put(&s.Trim, p.Trim)
	put(&s.Alpha, p.Alpha)
	switch {
	case p.Limit.Auto:
		s.Limit = c.autoLimit(q)
	case p.Limit != Size{}:
		s.Limit = p.Limit.bytes(c.plan.BDP, 0)
	case marks(q) && c.p.Buffer.Auto && !s.Lossless:
		s.Limit = c.autoLimit(q)
	case marks(q) && c.p.Buffer != Size{} && !s.Lossless:
		s.Limit = c.p.Buffer.bytes(c.plan.BDP, 0)
	case s.Lossless != wasLossless:
		s.Limit = c.autoLimit(q)
	}
	c.ecn(q)
}

// autoLimit is what a queue holds unless told: a lossless one has no limit, since PFC stops what fills it.
func (c *settler) autoLimit(q int) int64 {
	s := &c.s.Queues[q]
	switch {
	case s.Lossless:
		return 0
	case !marks(q):
		return max(c.plan.BDP, minSmallQueue)
	case s.Trim && c.s.Trim.Enabled:
		return max(c.plan.BDP*trimBuffer, 2*c.largestFrame())
	}
	return c.plan.BDP * autoBuffer
}

func (c *settler) ecn(q int) {
	s, p, all := &c.s.Queues[q], &c.p.Queues[q], &ECNParams{}
	if marks(q) {
		all = &c.p.ECN
	}
	on := s.Kmax > 0
	put(&on, cmp.Or(p.ECN, all.Enabled))
	if ppm := cmp.Or(p.Pmax, all.Pmax); ppm != nil {
		s.Pmax = float64(*ppm) / float64(certain)
	}
	if s.Lossless {
		put(&s.WRED, p.WRED)
	} else {
		put(&s.WRED, cmp.Or(p.WRED, all.WRED))
	}
	if !on {
		s.Kmin, s.Kmax = 0, 0
		return
	}
	kmin, kmax := cmp.Or(p.Kmin, all.Kmin), cmp.Or(p.Kmax, all.Kmax)
	if s.Kmax == 0 {
		kmin, kmax = cmp.Or(kmin, Size{PPM: defaultKmin}), cmp.Or(kmax, Size{PPM: defaultKmax})
	}
	if kmin != (Size{}) {
		s.Kmin = kmin.bytes(c.plan.BDP, 0)
	}
	if kmax != (Size{}) {
		s.Kmax = kmax.bytes(c.plan.BDP, 0)
	}
}

func (c *settler) retxLimit() {
	switch p := c.p.Trim.RetxLimit; {
	case p.Auto:
		limit := c.s.Queues[queueData].Limit
		if limit == 0 {
			limit = c.plan.BDP
		}
		c.s.Trim.RetxLimit = Size{PPM: retxOfLimit}.bytes(limit, 0)
	case p != Size{}:
		c.s.Trim.RetxLimit = p.bytes(c.plan.BDP, 0)
	}
}

func (c *settler) ecmp() {
	s, p := &c.s.ECMP, &c.p.ECMP
	putSet(&s.Hash, cmp.Or(p.Hash, c.p.Hash))
	if p.Fields != nil {
		s.Fields = slices.DeleteFunc(slices.Clone(hashFields), func(f string) bool { return !slices.Contains(p.Fields, f) })
	}
	putSet(&s.Group, p.Group)
	putSet(&s.Buckets, p.Buckets)
	put(&s.IdleTimer, p.IdleTimer)
	putSet(&s.Weights, p.Weights)
	putSet(&s.Balance, p.Balance)
	put(&s.FlowletGap, p.FlowletGap)
	if s.FlowletGap == autoTime {
		s.FlowletGap = c.plan.BaseRTT / 2
	}
	put(&s.Bands, p.Bands)
	for i, w := range c.p.Weight {
		if w != nil && *w == 1 {
			s.PortWeight[i] = 0
		} else if w != nil {
			s.PortWeight[i] = uint8(*w)
		}
	}
}

func (c *settler) pfc() {
	s, p := &c.s.PFC, &c.p.PFC
	switch {
	case p.Xoff.Auto:
		s.Xoff = max(c.plan.BDP, 2*c.largestFrame())
	case p.Xoff != Size{}:
		s.Xoff = p.Xoff.bytes(c.plan.BDP, 0)
	}
	switch {
	case p.Xon.Auto:
		s.Xon = s.Xoff / 2
	case p.Xon != Size{}:
		s.Xon = p.Xon.bytes(c.plan.BDP, 0)
	}
	switch {
	case p.Headroom.Auto:
		s.Headroom = c.headroom()
	case p.Headroom != Size{}:
		s.Headroom = p.Headroom.bytes(c.plan.BDP, 0)
	}
	putSet(&s.Quanta, uint16(p.Quanta))
	put(&s.Watchdog, p.Watchdog)
	put(&s.Restore, p.Restore)
	putSet(&s.Action, p.Action)
}

// headroom is what may still come in at the most demanding port after the frame that crossed Xoff: that frame itself, all
// that was on the cable and in the pipeline of this switch and had to be admitted yet, one frame that this side is sending when the
// pause becomes due, the pause, the way to the peer, what the peer sends while the pause is in its pipeline, which PFC frames
// pass like all others, and the frame that it has begun to send by then. With link layer retry all that waits for an ACK may come once
// more, since a pause does not stop replays.
func (c *settler) headroom() int64 {
	most := int64(0)
	for i := range c.node.Ports {
		most = max(most, c.plan.headroom(c.node, i, c.node.Ports[i].LLR))
	}
	return most
}

// headroom is that of one port, with that retry.
func (p *Plan) headroom(n *Node, i int, retry *llr.Config) int64 {
	port := &n.Ports[i]
	under := mulDiv(port.Rate, int64(2*port.Delay+n.Latency+p.Nodes[port.Peer].Latency), 8*int64(time.Second))
	if retry != nil {
		under += retry.Bytes
	}
	return under + int64(framesInHeadroom*wire.LineBytes(port.MTU+ethernetHeader)+wire.LineBytes(pfcFrame))
}

// RetryNeeds is the headroom that lossless queues of a switch with settings s must have and have not if link layer retry is on at one of its ports: they have room for
// what is under way when a pause takes effect, but not for what may be sent again then. 0: they have it, or had no
// room for that before.
func (p *Plan) RetryNeeds(node, port int, s *switchd.Settings) int64 {
	n := &p.Nodes[node]
	need := p.headroom(n, port, p.Retry(n.Ports[port].Link))
	if !slices.ContainsFunc(s.Queues[:], func(q switchd.Queue) bool { return q.Lossless }) || s.PFC.Headroom >= need || s.PFC.Headroom < p.headroom(n, port, nil) {
		return 0
	}
	return need
}

// largestFrame is the longest that any port of the switch carries, without FCS.
func (c *settler) largestFrame() int64 {
	mtu := 0
	for _, port := range c.node.Ports {
		mtu = max(mtu, port.MTU)
	}
	return int64(mtu + ethernetHeader)
}

func (c *settler) rest() {
	putSet(&c.s.LastHop, c.p.ECN.LastHop)
	s, p := &c.s.CSIG, &c.p.CSIG
	put(&s.Enabled, p.Enabled)
	putSet(&s.Compact, uint16(p.Compact))
	putSet(&s.Wide, uint16(p.Wide))
	put(&s.Interval, p.Interval)
	if p.Strip != nil {
		s.Strip = [link.NumPorts]bool{}
		for _, name := range p.Strip {
			s.Strip[portIndex(name)] = true
		}
	}
	m := &c.p.Mirror
	if m.To != "" {
		c.s.Mirror.To = portIndex(m.To)
	}
	if m.From != "" {
		c.s.Mirror.From = portIndex(m.From)
	}
	putSet(&c.s.Mirror.Sample, m.Sample)
	put(&c.s.ByRate, c.p.ByRate)
	for dscp, q := range c.p.Classes {
		if q != nil {
			c.s.Classes[dscp] = uint8(*q)
		}
	}
}

// portIndex gives the index of the port "eth3", -1 for a word that is no port.
func portIndex(name string) int {
	_, port := splitEndpoint(":" + name)
	if port < 1 {
		return -1
	}
	return port - 1
}

// millionths gives a probability as it is written.
func millionths(p float64) int64 { return int64(math.Round(p * float64(certain))) }
