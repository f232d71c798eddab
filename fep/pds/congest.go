package pds

import (
	"net/netip"
	"slices"

	"github.com/uetlab/uetlab/fep/cms"
	"github.com/uetlab/uetlab/fep/lb"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/internal/wheel"
	"github.com/uetlab/uetlab/wire"
)

// congestion is what the sending half of a PDC has of congestion management, from its first message on. There is none where the
// window is fixed and entropy values are drawn without feedback.
type congestion struct {
	ctx    *ccc        // nil: a fixed window
	bal    lb.Balancer // nil: Config.LB chooses
	flow   cms.Flow
	told   int64 // of the backlog, nominal bytes that ctx knows of
	flying int32 // packets that ctx has in flight
	blocks bool  // is in ctx.blocked
	probes bool  // the Probe that is out is for the base RTT

	fb    cms.Feedback // of the ACK that is being handled
	ev    uint16       // of the packet that it names, 0: it names none
	rtt   vt.Time      // that it measured
	bytes int64        // of the packets that it covers
	msg   int64        // bytes of the message that begins with the packet being built, 0: none does
}

// ccc is a congestion control context with what PDS needs around it.
type ccc struct {
	*cms.Context
	m       *Manager
	key     cccKey
	id      uint8 // ccc_id
	users   int32 // PDCs
	flying  int32 // packets in flight
	asks    int32 // Credit Requests since the latest credit
	least   int   // bytes of the smallest packet that was refused since blocked was empty
	waiting int64 // nominal bytes that were not sent yet
	ready   bool  // something waits, and no PDC is blocked
	turns   turns
	blocked []*PDC
	timer   wheel.Timer
	last    vt.Time // a packet was sent
}

// cccKey says which PDCs share a context (uet-cms.md 1).
type cccKey struct {
	peer netip.Addr
	tc   uint8
	own  uint16 // with Config.OwnPDC the PDC that has it for itself, else 0
}

// most bounds what is kept of peers that there is no PDC with.
const most = 4096

// patience is how many Credit Requests in a row may stay without an answer: then the fixed window counts until credit comes, since the
// peer may give none at all, or be gone, which only the timeouts of packets find out. They leave ever slower, the last of so many some 60 base RTTs
// after the first: where a hundred sources take turns at a slow port the first grant comes after 15, and windows would flood it until then.
const patience = 7

// manage gives the PDC a context and a balancer when it is about to send for the first time.
func (p *PDC) manage(now vt.Time) {
	m := p.m
	if p.cg != nil || m.cfg.CC == nil && m.lbs == nil {
		return
	}
	p.cg = &congestion{}
	if m.cfg.CC != nil {
		key := cccKey{peer: p.peer, tc: p.tc}
		if m.cfg.OwnPDC {
			key.own = p.id
		}
		p.cg.ctx = m.context(now, key)
	}
	if m.lbs != nil && (p.mode != ROD || m.onePath) {
		p.cg.bal = m.lbs.New(now)
		if m.watched[p.peer] {
			p.countPaths()
		}
	}
}

// context finds or opens the context that a PDC shares.
func (m *Manager) context(now vt.Time, key cccKey) *ccc {
	c := m.cccs[key]
	if c == nil {
		m.cccID++
		c = &ccc{Context: cms.Open(now, m.cfg.CC, m.baseRTTs[key.peer]), m: m, key: key, id: m.cccID}
		c.timer = wheel.Timer{Owner: c}
		m.cccs[key] = c
		if m.windows != nil {
			m.hook(c)
			m.windows(now, key.peer, key.tc, c.Context, true)
		}
	}
	c.users++
	return c
}

// unmanage takes the PDC, which ends, from its context. That makes room for others.
func (p *PDC) unmanage(now vt.Time) {
	if p.cg == nil {
		return
	}
	p.settle()
	c := p.cg.ctx
	if p.cg.blocks {
		c.blocked = slices.DeleteFunc(c.blocked, func(q *PDC) bool { return q == p })
		c.recount()
	}
	p.cg = nil
	if c == nil {
		return
	}
	if c.users--; c.users > 0 {
		c.wake(now)
		return
	}
	m := p.m
	m.wheel.Cancel(&c.timer)
	delete(m.cccs, c.key)
	if len(m.baseRTTs) >= most {
		clear(m.baseRTTs)
	}
	m.baseRTTs[c.key.peer] = c.BaseRTT()
}

// settle takes whatever the context still counts of the PDC back: nothing of it is under way any more.
func (p *PDC) settle() {
	g := p.cg
	if g == nil || g.ctx == nil {
		return
	}
	g.ctx.flying -= g.flying
	g.flying = 0
	p.tell(-g.told)
	g.ctx.Settle(&g.flow)
}

// settleDone is for a PDC of which nothing is unacknowledged any more: what rounding has left makes room for others.
func (p *PDC) settleDone(now vt.Time) {
	if p.cg == nil || p.cg.ctx == nil {
		return
	}
	p.settle()
	p.onBacklog()
	p.cg.ctx.wake(now)
}

// tell corrects what the context believes to wait.
func (p *PDC) tell(n int64) {
	if n == 0 {
		return
	}
	c := p.cg.ctx
	p.cg.told += n
	c.OnNewData(&p.cg.flow, n)
	p.m.waits(c, n)
}

// waits counts what the context has to send.
func (m *Manager) waits(c *ccc, n int64) {
	c.waiting += n
	c.recount()
}

// recount keeps the number of contexts that have something to send and may: they share the link, and so credit that is asked for. Those that
// wait for credit are not among them (uet-cms.md 7; htsim counts sources that wait for the NIC).
func (c *ccc) recount() {
	is := c.waiting > 0 && len(c.blocked) == 0
	switch {
	case is && !c.ready:
		c.m.cccReady++
	case !is && c.ready:
		c.m.cccReady--
	}
	c.ready = is
}

// rivals is how many others have something to send now.
func (c *ccc) rivals() int {
	if c.ready {
		return c.m.cccReady - 1
	}
	return c.m.cccReady
}

// onBacklog tells the context how many nominal bytes wait: what is not cut into packets is taken to fill them.
func (p *PDC) onBacklog() {
	if p.cg == nil || p.cg.ctx == nil {
		return
	}
	want, m := int64(0), p.m
	if p.s.hasNew() {
		mtu := int64(m.cfg.PayloadMTU)
		want = p.s.backlog + max(1, (p.s.backlog+mtu-1)/mtu)*(int64(m.full)-mtu)
	}
	p.tell(want - p.cg.told)
}

// counts says whether the context counts the packet: not those without data, nor those whose arrival it knows of.
func (p *PDC) counts(k *Packet) bool {
	return p.cg != nil && p.cg.ctx != nil && k.flags&(pktCtl|pktKnown) == 0
}

// mayFly reports whether a packet of so many bytes may leave. If not, the PDC waits for whatever happens to its context.
func (p *PDC) mayFly(now vt.Time, k *Packet, size int, refused bool) bool {
	switch {
	case k != nil && k.flags&(pktCtl|pktKnown) != 0 && p.cg != nil:
		return true
	case p.cg == nil || p.cg.ctx == nil:
		open := p.windowOpen(size)
		p.s.turns.shut = p.s.turns.shut || !open && !refused
		return open
	}
	c := p.cg.ctx
	if p.mode == ROD && p.s.backs > 0 && p.s.inflight > 0 && p.s.inflight+int64(size) > p.m.cfg.Window>>p.s.backs {
		return false // its own ACK, NACK or timeout goes on: what follows a missing packet is thrown away, and takes the room of others
	}
	if c.ignored() && p.windowOpen(size) || c.CanSend(now, size) || c.stuck(now) || c.Credits() && p.state == Opening && p.s.nFly == 0 {
		return true
	}
	c.turns.shut = c.turns.shut || !refused
	p.block(now, size)
	return false
}

// Credits says whether the context waits for credit.
func (c *ccc) Credits() bool { return c.m.cfg.CC.Algorithm.Credits() }

// stuck says that it may take long until anything opens the window: nothing is in flight, since peers count as they like; or nothing
// was sent for a timeout, and a packet that vanished again and again, and whose own timeouts have become long, fills a small window.
func (c *ccc) stuck(now vt.Time) bool {
	return (c.flying == 0 || now >= c.stallAt()) && c.SendAt(now) <= now && c.windowed(now)
}

// stallAt is when a closed window no longer counts.
func (c *ccc) stallAt() vt.Time { return c.last.Add(c.m.cfg.RTOInit) }

// windowed says that the context does not wait for credit.
func (c *ccc) windowed(now vt.Time) bool { return !c.Credits() || c.CreditRequestAt(now) == vt.Never }

// ignored says that the peer does not give the credit that it was asked for.
func (c *ccc) ignored() bool { return c.asks > patience }

// block has the PDC wait for what happens to its context; where it has none all that happens to itself has it try again.
func (p *PDC) block(now vt.Time, size int) {
	if p.cg == nil || p.cg.ctx == nil {
		return
	}
	c := p.cg.ctx
	if len(c.blocked) == 0 {
		c.least = size
	}
	c.least = min(c.least, size)
	if !p.cg.blocks {
		p.cg.blocks = true
		c.blocked = append(c.blocked, p)
		c.recount()
	}
	c.arm(now)
}

// arm has the timer fire when a rate lets a packet out, or credit is to be asked for.
func (c *ccc) arm(now vt.Time) {
	at := c.SendAt(now)
	switch {
	case at > now:
	case c.windowed(now):
		at = c.stallAt()
	default:
		at = c.CreditRequestAt(now)
	}
	if at = max(at, now+1); at < c.timer.At() {
		c.m.arm(&c.timer, at)
	}
}

// Fire implements wheel.Owner.
func (c *ccc) Fire(now vt.Time, _ *wheel.Timer) {
	if c.CreditRequestAt(now) <= now {
		c.ask(now)
	}
	c.wake(now)
	if len(c.blocked) > 0 {
		c.arm(now)
	}
}

// ask sends a Credit Request on a PDC that waits.
func (c *ccc) ask(now vt.Time) {
	for _, p := range c.blocked {
		if p.peerID != 0 && p.state != Closed {
			p.control(wire.CtlCreditRequest, 0, 0, uint32(c.id)<<24|c.CreditTarget(c.rivals()))
			break
		}
	}
	c.asks++
	c.OnCreditRequest(now)
}

// wake has the PDCs that wait try again, in the order in which they came, if there is room for any of them.
func (c *ccc) wake(now vt.Time) {
	if len(c.blocked) == 0 || !c.ignored() && !c.CanSend(now, c.least) && !c.stuck(now) {
		return
	}
	for i, p := range c.blocked {
		c.blocked[i] = nil
		p.cg.blocks = false
		p.queueRetx()
		p.queueSend()
	}
	c.blocked = c.blocked[:0]
	c.turns.shut = false
	c.recount()
}

// sent counts a packet that leaves now.
func (p *PDC) sent(now vt.Time, k *Packet) {
	if k.sends < 255 {
		k.sends++
	}
	if !p.counts(k) {
		return
	}
	g := p.cg
	again := k.flags&pktMarked != 0
	k.flags &^= pktMarked
	if !again {
		n := min(int64(k.size), g.told)
		g.told -= n
		p.m.waits(g.ctx, -n)
	}
	g.flying++
	g.ctx.flying++
	g.ctx.last = now
	g.ctx.OnSend(now, &g.flow, int(k.size), again)
}

// arrives takes a packet that an ACK covers for the first time.
func (p *PDC) arrives(k *Packet) {
	if p.cg == nil {
		return
	}
	if k.flags&(pktCtl|pktKnown) == 0 {
		p.cg.bytes += int64(k.size)
	}
	if p.counts(k) {
		switch g := p.cg; {
		case k.flags&pktFlying != 0:
			g.fb.Packets++
			g.flying--
			g.ctx.flying--
		case k.flags&pktMarked != 0:
			k.flags &^= pktMarked
			g.ctx.OnUnmark(&g.flow, int(k.size))
		}
	}
	k.flags |= pktKnown
}

// vanishes takes a packet that has to be sent again, and was in flight until now.
func (p *PDC) vanishes(now vt.Time, k *Packet, why cms.Loss) {
	if p.cg == nil || k.flags&pktFlying == 0 || k.flags&pktCtl != 0 {
		return
	}
	if p.counts(k) {
		p.marks(k)
		p.cg.ctx.OnLoss(now, &p.cg.flow, int(k.size), why)
	}
	if p.cg.bal != nil && why != cms.GoBack {
		p.cg.bal.Feedback(now, lb.Feedback{EV: k.ev, Kind: lb.Timeout})
	}
}

func (p *PDC) marks(k *Packet) {
	k.flags |= pktMarked
	p.cg.flying--
	p.cg.ctx.flying--
}

// beginAck notes the packet that an ACK names, before anything is done with it. An ACK comes with the entropy value of the packet
// that it answers, for one that is no longer known.
func (p *PDC) beginAck(now vt.Time, a wire.Ack) {
	g := p.cg
	g.fb = cms.Feedback{Retx: a.RETX(), ECN: a.M()}
	g.ev, g.rtt, g.bytes = 0, 0, 0
	if a.P() {
		return
	}
	g.ev = p.m.arr.in.EV
	if psn := a.AckPSN(); p.s.has(psn) {
		if k := p.s.at(psn); k.flags&pktSent != 0 {
			g.ev = k.ev
			g.fb.Named, g.fb.Sent, g.fb.Rtx = true, k.sent, min(k.sends-1, 2)
			if k.sends == 1 && !a.RETX() && !p.m.cfg.NoRTT {
				g.rtt = now - k.sent
			}
		}
	}
}

// endAck reports what the ACK has brought.
func (p *PDC) endAck(now vt.Time, a wire.Ack) {
	g := p.cg
	g.fb.Newly = g.bytes
	if a.HasCC() && a.CCType() == wire.CCTypeNSCC {
		s := wire.UnpackNSCC(a.CCState())
		g.fb.Newly = g.flow.Newly(s.RcvdBytes)
		g.fb.Service, g.fb.Pend, g.fb.Restore = s.ServiceTime, s.RcvCwndPend, s.RC
		g.rtt = max(0, g.rtt-vt.Time(s.ServiceTime)*128)
	}
	if g.ctx != nil {
		if g.fb.ECN && p.m.cfg.CC.Algorithm == cms.AlgDCQCN {
			p.m.C[CNPRx]++
		}
		g.ctx.OnAck(now, &g.flow, &g.fb)
		if a.HasCC() && a.CCType() == wire.CCTypeCredit {
			p.onCredit(now, wire.UnpackCredit(a.CCState()).Credit)
		}
	}
	if g.bal != nil && g.ev != 0 {
		kind := lb.Good
		if a.M() && !p.m.cfg.NoECN {
			kind = lb.ECN
		}
		g.bal.Feedback(now, lb.Feedback{EV: g.ev, Kind: kind, RTT: g.rtt, Bytes: int(g.fb.Newly)})
	}
}

func (p *PDC) onCredit(now vt.Time, credit uint32) {
	p.cg.ctx.asks = 0
	p.cg.ctx.OnCredit(now, credit)
}

// refusal takes a NACK of a packet, which was in flight until now.
func (p *PDC) refusal(now vt.Time, n wire.Nack, k *Packet) {
	if p.cg == nil || k.flags&pktFlying == 0 || k.flags&pktCtl != 0 {
		return
	}
	why, kind := cms.Refused, lb.Good
	switch n.Code() {
	case wire.NackTrimmed:
		why = cms.Trimmed
	case wire.NackTrimmedLastHop:
		why = cms.TrimmedLastHop
	}
	switch {
	case why != cms.Refused && p.m.cfg.NoTrim:
		kind = lb.Timeout
	case why == cms.Trimmed:
		kind = lb.Nack
	case n.M() && !p.m.cfg.NoECN:
		kind = lb.ECN
	}
	if p.counts(k) {
		p.marks(k)
		fb := cms.Feedback{Named: true, Sent: k.sent, Rtx: min(k.sends-1, 2), Retx: n.RETX(), ECN: n.M()}
		p.cg.ctx.OnNack(now, &p.cg.flow, &fb, int(k.size), why)
	}
	if p.cg.bal != nil {
		p.cg.bal.Feedback(now, lb.Feedback{EV: k.ev, Kind: kind})
	}
	p.s.land(k)
}

// afterFeedback does what feedback has made possible or necessary for all PDCs of the context.
func (p *PDC) afterFeedback(now vt.Time) {
	if p.cg == nil || p.cg.ctx == nil {
		return
	}
	c := p.cg.ctx
	if p.peerID != 0 && p.s.probed == 0 && c.TakeProbe() {
		p.cg.probes = true
		p.probe(now)
	}
	c.wake(now)
	if len(c.blocked) > 0 {
		c.arm(now)
	}
}

// baseProbed gives the context the round-trip time of its Probe. A Probe is shorter than the packets whose times it is compared
// with, and so quicker at least by what its first and its last link take for the difference.
func (p *PDC) baseProbed(now, rtt vt.Time) {
	if p.cg == nil || !p.cg.probes {
		return
	}
	p.cg.probes = false
	n := &p.m.cfg.CC.Net
	p.cg.ctx.OnProbe(now, rtt+vt.Time(2*8*int64(n.MTU)*1e9/n.Rate))
}

// choose picks the entropy value of a data packet with what is known of the ways. What is sent again does not take the way on which
// it was lost, if it need not.
func (g *congestion) choose(now vt.Time, k *Packet, again, idle bool) uint16 {
	pk := lb.Packet{Size: int(k.N), Again: again, Idle: idle}
	if !again {
		pk.Msg, g.msg = g.msg, 0
	}
	ev := g.bal.Next(now, pk)
	for tries := 0; again && ev == k.ev && tries < 3; tries++ {
		ev = g.bal.Next(now, pk)
	}
	return ev
}

// threshold is how many packets have to arrive that were sent after one, before that one counts as lost: min(1.5 x cwnd, MaxWnd),
// which is the window where that is fixed, 2.25 BDP where credit counts, and few at least (uet-pds-ses.md 10.2).
func (p *PDC) threshold() uint32 {
	if p.cg == nil || p.cg.ctx == nil {
		return p.m.thresh
	}
	wnd, _ := p.cg.ctx.Cwnd()
	if wnd == 0 {
		return p.m.thresh // a rate has no window
	}
	if p.cg.ctx.Credits() && !p.m.cfg.CC.Algorithm.Windows() {
		return p.m.thresh // credit bounds nothing: as much more than a BDP may be under way as was granted
	}
	return uint32(max(few, int64(min(1.5*wnd, p.m.maxWnd))/int64(p.m.full)))
}

// window is the congestion window, for listings.
func (p *PDC) window() int64 {
	if p.cg == nil || p.cg.ctx == nil {
		return p.m.cfg.Window
	}
	return p.cg.ctx.View().Cwnd
}

// minds says that a packet is not trimmed for ever, since the window falls with each trim. Of the algorithms to compare with some do
// not see trims, and the others have no packet given up for them either where they were first described. In ROD a trim costs all that
// follows as well, and so wastes far more than the packet by which the window falls; rewind has means of its own.
func (p *PDC) minds() bool {
	return p.mode != ROD && p.cg != nil && p.cg.ctx != nil && p.m.cfg.CC.Algorithm.Windows()
}
