package pds

import (
	"net/netip"
	"time"

	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/internal/wheel"
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
	Pending           // target: the Start_PSN that was demanded has not come yet
	CloseSent         // target: has asked for the end
)

var stateNames = [...]string{"closed", "opening", "established", "quiesce", "close-wait", "linger", "pending", "close-sent"}

// String is the state's name in tables.
func (s State) String() string { return stateNames[s] }

// Kinds of timers.
const (
	timerRtx  uint8 = iota // source: retransmission, NACK wait, probes
	timerAck               // destination: delayed ACK, Clear Request
	timerLife              // idle, hold, close, keepalive
)

// PDC is a packet delivery context. Both directions lie in it: s is what we send, d what we receive.
type PDC struct {
	User any // SES's own

	m         *Manager
	gen       uint64
	id        uint16
	peerID    uint16 // 0: not learned yet
	mode      Mode
	tc        uint8
	state     State
	initiator bool
	errored   bool // target, Linger: ended in error
	settled   bool // target: the initiator knows our id, and so opens nothing anew with what it sends again
	peer      netip.Addr
	job       uint32
	group     *group // initiator
	locks     []*Msg
	opened    vt.Time
	lastUse   vt.Time

	rtx  wheel.Timer
	ackT wheel.Timer
	life wheel.Timer

	s    source
	d    dest
	retx [NumCauses]uint32

	nackTx, nackRx wire.NackCode // the latest
	keepalives     uint8         // Probes without an answer
}

// ID is the local PDCID.
func (p *PDC) ID() uint16 { return p.id }

// Initiator says whether we opened it.
func (p *PDC) Initiator() bool { return p.initiator }

// State is where it is in its life.
func (p *PDC) State() State { return p.state }

// Fire implements wheel.Owner.
func (p *PDC) Fire(now vt.Time, t *wheel.Timer) {
	switch t.Kind {
	case timerRtx:
		p.onRTO(now)
	case timerAck:
		p.onAckTimer(now)
	case timerLife:
		p.onLife(now)
	}
}

// arm asks for the timer at t unless it fires before that anyway.
func (p *PDC) arm(t *wheel.Timer, at vt.Time) {
	if t.At() > at {
		p.m.arm(t, at)
	}
}

// groupKey says which messages may share a PDC (uet-pds-ses.md 3.2).
type groupKey struct {
	peer netip.Addr
	job  uint32
	ctx  uint32
	tc   uint8
	mode Mode
}

type group struct {
	key  groupKey
	pdcs []*PDC
}

type synKey struct {
	peer netip.Addr
	id   uint16
}

// newPDC takes an id for a PDC, or returns nil if there is none.
func (m *Manager) newPDC(now vt.Time, peer netip.Addr, mode Mode, initiator bool) *PDC {
	if m.pdcs.n == 0 {
		return nil
	}
	m.gen++
	p := &PDC{m: m, gen: m.gen, peer: peer, mode: mode, initiator: initiator, opened: now, lastUse: now}
	p.rtx = wheel.Timer{Owner: p, Kind: timerRtx}
	p.ackT = wheel.Timer{Owner: p, Kind: timerAck}
	p.life = wheel.Timer{Owner: p, Kind: timerLife}
	m.pdcs.add(p)
	m.C[PDCOpened]++
	m.C[PDCs]++
	return p
}

// open makes an initiator PDC.
func (m *Manager) open(now vt.Time, g *group) *PDC {
	p := m.newPDC(now, g.key.peer, g.key.mode, true)
	if p == nil {
		return nil
	}
	p.job, p.tc, p.state, p.group = g.key.job, g.key.tc, Opening, g
	start := m.startPSN(p)
	p.s.init(start, m.cfg.MPR)
	p.d.init(start, m.cfg.MPR)
	p.s.ev = m.randomEV()
	p.arm(&p.life, now.Add(m.idleTime()))
	return p
}

// startPSN is random, not 0, and far from the last PSN under the same id, unless security says what it is.
func (m *Manager) startPSN(p *PDC) wire.PSN {
	if m.cfg.Secure != nil {
		if psn, ok := m.cfg.Secure.Start(p.peer, p.job); ok {
			return psn
		}
	}
	last := m.pdcs.last[p.id&m.pdcs.mask()]
	start := wire.PSN(0)
	for start == 0 || start.Diff(last) < 1<<16 && last.Diff(start) < 1<<16 {
		start = wire.PSN(m.rng.Uint32())
	}
	return start
}

// release forgets the PDC's messages' state, timers and memory, and counts why it ends.
func (p *PDC) release(now vt.Time, why Counter, err *Error) {
	m := p.m
	m.C[why]++
	if p.state == Quiesce || p.state == CloseWait {
		m.closing--
	}
	m.wheel.Cancel(&p.rtx)
	m.wheel.Cancel(&p.ackT)
	m.wheel.Cancel(&p.life)
	p.dropStored()
	p.s.forget()
	p.s.drop(m)
	p.d.drop(m)
	if p.initiator {
		m.pdcs.last[p.id&m.pdcs.mask()] = p.s.next - 1
		m.ungroup(p)
	}
	m.up.Closed(now, p, err)
}

// free forgets the PDC.
func (p *PDC) free(now vt.Time, why Counter, err *Error) {
	p.release(now, why, err)
	p.gone(now)
}

func (p *PDC) gone(now vt.Time) {
	m := p.m
	m.wheel.Cancel(&p.life)
	if !p.initiator {
		delete(m.bySYN, synKey{p.peer, p.peerID})
	}
	p.state = Closed
	m.pdcs.remove(p)
	m.C[PDCs]--
	m.resumeWaiting(now)
}

func (m *Manager) ungroup(p *PDC) {
	g := p.group
	for i, q := range g.pdcs {
		if q == p {
			g.pdcs = append(g.pdcs[:i], g.pdcs[i+1:]...)
			break
		}
	}
	if len(g.pdcs) == 0 {
		delete(m.groups, g.key)
	}
}

// Submit is tx_req: it gives the message to a PDC, one without a message in progress, a new one, or the least loaded one. The
// message waits if there is none at all.
func (m *Manager) Submit(now vt.Time, msg *Msg) {
	msg.m, msg.left = m, msg.Len
	if msg.Mode >= RUDI {
		m.submitRUDI(now, msg)
		return
	}
	if p := m.choose(now, msg); p != nil {
		p.enqueue(now, msg)
		return
	}
	m.waiting = append(m.waiting, msg)
	if len(m.waiting) == 1 {
		m.C[Paused]++
		m.up.Pause(now, true, m.rudi.told)
	}
	m.quiesceIdle(now)
}

// Return is tx_ret: data that goes back on the PDC of its request. If the PDC is ending, the message fails.
func (m *Manager) Return(now vt.Time, p *PDC, msg *Msg) {
	msg.m, msg.left = m, msg.Len
	if p.state != Established && p.state != CloseSent {
		msg.failed = true
		msg.S.Failed(now, &Error{PDC: p.id, Code: wire.NackClosing})
		return
	}
	p.enqueue(now, msg)
}

func (m *Manager) choose(now vt.Time, msg *Msg) *PDC {
	k := groupKey{peer: msg.Peer, job: msg.Job, tc: msg.TC, mode: msg.Mode}
	most := m.cfg.PDCsPerKey
	if k.mode == ROD {
		k.ctx, most = msg.Ctx, 1
	}
	g := m.groups[k]
	if g == nil {
		g = &group{key: k}
		m.groups[k] = g
	}
	var least *PDC
	open := 0
	for _, p := range g.pdcs {
		if p.state == Quiesce && p.mode == ROD && !p.s.idle() {
			return p // waits there for its turn, see handOver
		}
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
	if open < most {
		if p := m.open(now, g); p != nil {
			g.pdcs = append(g.pdcs, p)
			return p
		}
	}
	if len(g.pdcs) == 0 {
		delete(m.groups, k)
	}
	return least
}

// quiesceIdle begins to close the PDC that was idle for longest, to make room, unless enough are closing already.
func (m *Manager) quiesceIdle(now vt.Time) {
	if m.closing >= len(m.waiting) {
		return
	}
	var best *PDC
	for _, p := range m.pdcs.slots {
		if p != nil && p.initiator && p.state == Established && p.quiet() && (best == nil || p.lastUse < best.lastUse) {
			best = p
		}
	}
	if best != nil {
		best.quiesce(now)
	}
}

// quiet says that an initiator's PDC could be closed at once.
func (p *PDC) quiet() bool { return p.s.idle() && len(p.locks) == 0 }

// resumeWaiting submits messages that waited for a PDC, as far as there are any.
func (m *Manager) resumeWaiting(now vt.Time) {
	if len(m.waiting) == 0 {
		return
	}
	for len(m.waiting) > 0 {
		msg := m.waiting[0]
		p := m.choose(now, msg)
		if p == nil {
			return
		}
		m.waiting[0] = nil
		m.waiting = m.waiting[1:]
		p.enqueue(now, msg)
	}
	m.waiting = nil
	m.up.Pause(now, false, m.rudi.told)
}

// idleTime is when an initiator looks after an idle PDC.
func (m *Manager) idleTime() (d time.Duration) {
	d = m.cfg.IdleClose
	if m.cfg.Keepalive > 0 {
		d = min(d, m.cfg.Keepalive)
	}
	return d
}

// Close asks for the end of a PDC: an initiator closes it when all is done, a target asks its initiator to.
func (m *Manager) Close(now vt.Time, p *PDC) {
	if p.initiator {
		p.quiesce(now)
	} else {
		p.askClose(now)
	}
	m.Kick(now)
}

// onLife acts on the timer that rules the PDC's life, by its state.
func (p *PDC) onLife(now vt.Time) {
	c := &p.m.cfg
	switch {
	case p.state == Linger:
		p.gone(now)
	case p.state == Pending:
		p.m.C[NewPDCTimeout]++
		p.free(now, PDCExpired, nil)
	case p.state == CloseSent:
		p.m.C[CloseTimeout]++
		p.fail(now, 0)
	case !p.initiator:
		if due := p.lastUse.Add(c.TargetIdle); due > now {
			p.arm(&p.life, due)
		} else {
			p.askClose(now)
		}
	default:
		p.onIdle(now)
	}
}

// onIdle looks after an initiator's PDC: it closes one that had nothing to do for long, and probes a quiet one if asked to.
func (p *PDC) onIdle(now vt.Time) {
	c := &p.m.cfg
	due := p.lastUse.Add(c.IdleClose)
	if p.state != Opening && p.state != Established {
		return
	}
	if due <= now {
		if p.state == Established && p.quiet() {
			p.quiesce(now)
			return
		}
		due = now.Add(c.IdleClose)
	}
	if c.Keepalive > 0 {
		if p.keepalive(now) {
			return
		}
		due = min(due, now.Add(c.Keepalive))
	}
	p.arm(&p.life, due)
}

// keepalive sends a Probe on a PDC that waits for nothing from its peer but is not closed; true says that the PDC is given
// up since nobody answers.
func (p *PDC) keepalive(now vt.Time) bool {
	if p.state != Established || p.s.unacked() > 0 {
		p.keepalives = 0
		return false
	}
	if p.keepalives >= 3 {
		p.fail(now, 0)
		return true
	}
	p.keepalives++
	p.probe(now)
	return false
}

// quiesce stops the intake of new messages and closes the PDC as soon as it can.
func (p *PDC) quiesce(now vt.Time) {
	if p.state != Established || !p.initiator {
		return
	}
	p.state = Quiesce
	p.m.closing++
	p.handOver(now)
	p.tryClose(now)
}

// handOver gives the messages of a quiesced PDC that have not begun to others. Ordered ones must not overtake what is still
// under way, and wait until all of that has arrived.
func (p *PDC) handOver(now vt.Time) {
	if p.mode == ROD && (p.s.cur != nil || p.s.unacked() > 0) {
		return
	}
	var all []*Msg
	for msg := p.s.popQueued(); msg != nil; msg = p.s.popQueued() {
		msg.unlock()
		all = append(all, msg)
	}
	for _, msg := range all {
		p.m.Submit(now, msg)
	}
}

// tryClose sends the Close Command of a quiesced PDC that is done. It takes the next PSN and is sent again like data.
func (p *PDC) tryClose(now vt.Time) {
	if p.state != Quiesce || !p.quiet() {
		return
	}
	p.state = CloseWait
	p.sendClose(now, wire.CtlCloseCommand)
}

func (p *PDC) sendClose(now vt.Time, ctl wire.CtlType) {
	k := p.s.extend(p.m)
	k.ctl, k.flags = uint8(ctl), pktQueued|pktCtl
	p.s.queued(p.s.next - 1)
	p.s.setDue(k, now+p.rto(0))
	p.arm(&p.rtx, k.due)
	p.queueRetx()
}

// askClose sends a target's Close Request.
func (p *PDC) askClose(now vt.Time) {
	if p.state != Established || p.initiator {
		return
	}
	p.state = CloseSent
	p.sendClose(now, wire.CtlCloseRequest)
	p.m.arm(&p.life, now.Add(p.m.cfg.CloseReqTime))
}

// fail closes a PDC in error: every operation on it completes once. code 0 stands for used-up retries. The peer is told if it
// may still have the PDC: by an initiator at once, by a target when it sends something.
func (p *PDC) fail(now vt.Time, code wire.NackCode) {
	m := p.m
	err := &Error{PDC: p.id, Code: code}
	switch p.state {
	case Closed, Linger:
		return
	case CloseWait:
		if code == 0 {
			m.C[CloseTimeout]++
		}
		p.free(now, PDCExpired, nil)
		return
	}
	why, msgs := PDCFailed, p.s.takeAll(p)
	if p.state == CloseSent && len(msgs) == 0 {
		why = PDCExpired
	}
	if p.initiator {
		if p.peerID != 0 && code != wire.NackInvDPDCID && code != wire.NackClosing && code != wire.NackClosingInErr {
			p.control(wire.CtlCloseCommand, wire.CtrlAR, p.s.next, 0)
		}
		p.free(now, why, err)
	} else {
		known := p.state != CloseSent
		p.release(now, why, err)
		p.state, p.errored = Linger, true
		if known {
			m.arm(&p.life, now.Add(m.cfg.Hold))
		} else {
			p.gone(now)
		}
	}
	for _, msg := range msgs {
		if code == wire.NackClosing && p.initiator && msg.acked == 0 && msg.S.Rewind() {
			msg.reset()
			m.Submit(now, msg) // nothing of it arrived: it is safe on another PDC
			continue
		}
		msg.failed, msg.pdc = true, nil
		msg.S.Failed(now, err)
	}
}

// reset makes the message begin anew.
func (msg *Msg) reset() {
	msg.pdc, msg.whole, msg.unacked, msg.acked, msg.failed = nil, false, 0, 0, false
}
