package pds

import (
	"net/netip"

	"github.com/uetlab/uetlab/fep/lb"
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

	m              *Manager
	gen            uint64
	id             uint16
	peerID         uint16 // 0: not learned yet
	mode           Mode
	tc             uint8
	state          State
	initiator      bool
	errored        bool          // target, Linger: ended in error
	settled        bool          // target: the initiator knows our id, and so opens nothing anew with what it sends again
	keepalives     uint8         // Probes without an answer
	nackTx, nackRx wire.NackCode // the latest
	peer           netip.Addr
	job            uint32
	group          *group // initiator
	locks          []*Msg
	opened         vt.Time
	lastUse        vt.Time

	rtx  wheel.Timer
	ackT wheel.Timer
	life wheel.Timer

	s    source
	d    dest
	cg   *congestion   // of s; nil: a fixed window, and entropy values without feedback
	evs  *lb.Watch     // counts what is sent by entropy value; nil: nobody has asked
	src  *creditSource // the peer's context that gets credit from us
	retx [NumCauses]uint32
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
	key   groupKey
	pdcs  []*PDC
	moved vt.Time // CLEAR of one of them went on
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

// open makes an initiator PDC, nil if there is no room.
func (m *Manager) open(now vt.Time, g *group) *PDC {
	if m.pdcs.n == 1 && m.cfg.MaxPDCs > 1 && !m.serves() {
		return nil
	}
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

// serves says whether a peer has a PDC here. One of several is left to peers: two end points that open all that they have to each other
// at the same time would refuse each other for ever.
func (m *Manager) serves() bool {
	for _, p := range m.pdcs.slots {
		if p != nil && !p.initiator {
			return true
		}
	}
	return false
}

// startPSN is random, not 0, and far from the last PSN under the same id, unless security says what it is.
func (m *Manager) startPSN(p *PDC) wire.PSN {
	if m.cfg.Secure != nil {
		if psn, ok := m.cfg.Secure.Start(p.peer, p.job); ok {
			return psn
		}
	}
	last := m.pdcs.last[p.id]
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
	p.remember(now, why, err)
	if p.state == Quiesce || p.state == CloseWait {
		m.closing--
	}
	m.wheel.Cancel(&p.rtx)
	m.wheel.Cancel(&p.ackT)
	m.wheel.Cancel(&p.life)
	p.dropStored()
	p.unmanage(now)
	if p.src != nil {
		m.credits.leave(p)
	}
	p.s.forget()
	p.s.drop(m)
	p.d.drop(m)
	if p.initiator {
		m.pdcs.last[p.id] = p.s.next - 1
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
