package fep

import (
	"net/netip"

	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// State is where a PDC is in its life (uet-pds-ses.md 4.2, 4.3).
type State uint8

// States of a PDC.
const (
	Closed      State = iota
	Opening           // initiator: no ACK yet, packets carry SYN
	Established       //
	Quiesce           // initiator: takes no new message, closes when all is acknowledged
	CloseWait         // initiator: Close Command is out
	Linger            // target: closed, answers stragglers
)

var stateNames = [...]string{"closed", "opening", "established", "quiesce", "close-wait", "linger"}

// String is the state's name in tables.
func (s State) String() string { return stateNames[s] }

// pdc is a packet delivery context. An initiator uses s, a target d; both lie here since the return direction of a PDC
// has a source and a destination too.
type pdc struct {
	f         *FEP
	id        uint16
	peerID    uint16 // 0: not learned yet
	gen       uint64
	initiator bool
	state     State
	peer      netip.Addr
	job       uint32
	lastUse   vt.Time
	at        [numTimers]vt.Time

	s source
	d dest
}

// groupKey says which requests may share a PDC: one mode and one traffic class are all there is.
type groupKey struct {
	peer netip.Addr
	job  uint32
}

type group struct{ pdcs []*pdc }

// newPDC takes an id for a PDC, or returns nil if there is none.
func (f *FEP) newPDC(now vt.Time, peer netip.Addr, initiator bool) *pdc {
	f.gen++
	p := &pdc{f: f, gen: f.gen, peer: peer, initiator: initiator, lastUse: now}
	for i := range p.at {
		p.at[i] = vt.Never
	}
	if !f.pdcs.add(p) {
		return nil
	}
	f.C[PDCOpened]++
	return p
}

// open makes an initiator PDC.
func (f *FEP) open(now vt.Time, peer netip.Addr, job uint32) *pdc {
	p := f.newPDC(now, peer, true)
	if p == nil {
		return nil
	}
	p.job, p.state = job, Opening
	last := f.pdcs.last[p.id&f.pdcs.mask()]
	start := wire.PSN(0)
	for start == 0 || start.Diff(last) < 1<<16 && last.Diff(start) < 1<<16 {
		start = wire.PSN(f.rng.Uint32())
	}
	p.s.init(start, f.cfg.MPR)
	p.s.ev = f.randomEV()
	p.arm(timerIdle, now.Add(f.cfg.IdleClose))
	return p
}

// free forgets the PDC and counts why.
func (p *pdc) free(why Counter) {
	f := p.f
	f.C[why]++
	if p.initiator {
		f.pdcs.last[p.id&f.pdcs.mask()] = p.s.next - 1
		f.ungroup(p)
	} else {
		p.dropStored()
		delete(f.bySYN, synKey{p.peer, p.peerID})
	}
	p.state = Closed
	f.pdcs.remove(p)
	f.resumeWaiting(f.node.Now())
}

func (f *FEP) ungroup(p *pdc) {
	g := f.groups[groupKey{p.peer, p.job}]
	for i, q := range g.pdcs {
		if q == p {
			g.pdcs = append(g.pdcs[:i], g.pdcs[i+1:]...)
			return
		}
	}
}

// submit gives the message to a PDC (uet-pds-ses.md 3.2): one without a message in progress, a new one, the least loaded
// one; it waits if there is none at all.
func (f *FEP) submit(now vt.Time, m *txMsg) {
	p := f.choose(now, m)
	if p == nil {
		f.waiting = append(f.waiting, m)
		f.quiesceIdle(now)
		return
	}
	p.enqueue(now, m)
}

func (f *FEP) choose(now vt.Time, m *txMsg) *pdc {
	k := groupKey{m.peer.addr, m.ep.job}
	g := f.groups[k]
	if g == nil {
		g = &group{}
		f.groups[k] = g
	}
	var least *pdc
	open := 0
	for _, p := range g.pdcs {
		if p.state != Opening && p.state != Established {
			continue
		}
		if !p.s.hasNew() {
			return p
		}
		open++
		if least == nil || p.s.backlog < least.s.backlog {
			least = p
		}
	}
	if open < f.cfg.PDCsPerKey {
		if p := f.open(now, k.peer, k.job); p != nil {
			g.pdcs = append(g.pdcs, p)
			return p
		}
	}
	return least
}

// quiesceIdle begins to close the PDC that was idle for longest, to make room.
func (f *FEP) quiesceIdle(now vt.Time) {
	var best *pdc
	for _, p := range f.pdcs.slots {
		if p != nil && p.initiator && p.state == Established && p.s.idle() && (best == nil || p.lastUse < best.lastUse) {
			best = p
		}
	}
	if best != nil {
		best.quiesce(now)
	}
}

// resumeWaiting submits messages that waited for a PDC, as far as there are any.
func (f *FEP) resumeWaiting(now vt.Time) {
	for len(f.waiting) > 0 {
		m := f.waiting[0]
		p := f.choose(now, m)
		if p == nil {
			return
		}
		f.waiting = f.waiting[1:]
		p.enqueue(now, m)
	}
}

// onIdle closes an initiator PDC that had nothing to do for long, and forgets a target PDC whose peer fell silent.
func (p *pdc) onIdle(now vt.Time) {
	limit := p.f.cfg.IdleClose
	if !p.initiator {
		limit = p.f.cfg.TargetIdle
	}
	switch due := p.lastUse.Add(limit); {
	case due > now:
		p.arm(timerIdle, due)
	case !p.initiator:
		if p.state == Established {
			p.abortMessages(now)
			p.free(PDCExpired)
		}
	case p.state == Established && p.s.idle():
		p.quiesce(now)
	case p.state == Opening || p.state == Established:
		p.arm(timerIdle, now.Add(limit))
	}
}

// quiesce stops the intake of new messages and closes the PDC as soon as it can. Messages not yet begun go elsewhere.
func (p *pdc) quiesce(now vt.Time) {
	if p.state != Established {
		return
	}
	p.state = Quiesce
	for m := p.s.popQueued(); m != nil; m = p.s.popQueued() {
		p.f.submit(now, m)
	}
	p.tryClose(now)
}

// tryClose sends the Close Command of a quiesced PDC that is done. It takes the next PSN and is sent again like data.
func (p *pdc) tryClose(now vt.Time) {
	if p.state != Quiesce || !p.s.idle() {
		return
	}
	p.state = CloseWait
	k := p.s.extend()
	k.kind, k.flags = kindClose, pktQueued
	p.s.queued(p.s.next - 1)
	p.queueRetx()
}

// fail closes an initiator PDC in error: every operation on it completes once. code 0 stands for used-up retries. The
// peer is told if it may still have the PDC.
func (p *pdc) fail(now vt.Time, code wire.NackCode) {
	f := p.f
	if p.state == CloseWait {
		p.free(PDCExpired)
		return
	}
	msgs := p.s.takeAll()
	if p.peerID != 0 && code != wire.NackInvDPDCID && code != wire.NackClosing && code != wire.NackClosingInErr {
		if c := f.ctl.push(); c != nil {
			c.kind, c.ctl, c.flags = wire.TypeCtrl, wire.CtlCloseCommand, uint8(wire.CtrlAR)
			c.peer, c.spdcid, c.dpdcid, c.psn, c.ev = p.peer, p.id, p.peerID, p.s.next, p.s.ev
		}
	}
	err := &PDCError{PDC: p.id, Code: code}
	p.free(PDCFailed)
	for _, m := range msgs {
		if code == wire.NackClosing && m.acked == 0 && m.err == nil {
			m.rewind()
			f.submit(now, m) // nothing of it arrived: it is safe on another PDC
			continue
		}
		f.complete(now, m, err)
	}
}

// PDCInfo describes a PDC in listings.
type PDCInfo struct {
	ID, PeerID uint16 // PeerID 0: not learned yet
	Peer       netip.Addr
	Job        uint32
	Initiator  bool
	State      State
	InFlight   int64    // initiator: nominal bytes
	Window     int64    // initiator: nominal bytes
	Next       wire.PSN // initiator: next new PSN; target: highest PSN seen + 1
	CACK       wire.PSN // initiator: latest received; target: latest told
	Retx       uint64   // initiator: packets sent again

	CSIG        bool   // target: packets come with CSIG tags; of the latest,
	CSIGSignal  uint32 // the share of bandwidth that is left at the narrowest hop, in the steps of the tag's form
	CSIGLocator uint16 // and that hop
}

// PDCs appends a description of every PDC to buf, in the order of their slots.
func (f *FEP) PDCs(buf []PDCInfo) []PDCInfo {
	for _, p := range f.pdcs.slots {
		if p == nil {
			continue
		}
		i := PDCInfo{ID: p.id, PeerID: p.peerID, Peer: p.peer, Job: p.job, Initiator: p.initiator, State: p.state}
		if p.initiator {
			i.InFlight, i.Window, i.Next, i.CACK, i.Retx = p.s.inflight, f.cfg.Window, p.s.next, p.s.cack, p.s.retx
		} else {
			i.Next, i.CACK = p.d.maxRx+1, p.d.base-1
			i.CSIG, i.CSIGSignal, i.CSIGLocator = p.d.sig.seen, p.d.sig.signal, p.d.sig.locator
		}
		buf = append(buf, i)
	}
	return buf
}
