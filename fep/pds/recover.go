package pds

import (
	"net/netip"

	"github.com/uetlab/uetlab/fep/cms"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// onRTO is the source's timer: timeouts of packets, and what tailTimers looks after. Messages that cannot begin because the
// link is down fail after the time that a packet would be given.
func (p *PDC) onRTO(now vt.Time) {
	s := &p.s
	if s.dueAt <= now && !p.expireAll(now) {
		return
	}
	next := s.dueAt
	if s.hasNew() && s.unacked() == 0 && !p.m.port.Up() {
		if p.m.cfg.MaxRTORetx != InfiniteRTO && now >= p.lastUse.Add(p.m.cfg.Patience()) {
			p.fail(now, 0)
			return
		}
		next = now + p.rto(0)
	}
	if next = min(next, p.tailTimers(now)); next != vt.Never {
		p.arm(&p.rtx, next)
	}
	p.queueRetx()
	p.queueSend() // in case a window probe is due
}

// expireAll acts on every packet whose time is up (uet-pds-ses.md 10.5); false says that the PDC is no more.
func (p *PDC) expireAll(now vt.Time) bool {
	s := &p.s
	next := vt.Never
	lowest := true // nothing below is unacknowledged
	for q := s.clear + 1; q != s.next; q++ {
		k := s.at(q)
		if k.flags&pktDone != 0 || k.flags&(pktSent|pktCtl) == 0 {
			continue
		}
		if k.due <= now && !p.expire(now, k, lowest) {
			return false
		}
		lowest = false
		next = min(next, k.due)
	}
	s.dueAt = next
	return true
}

// expire handles one packet whose time is up; false says that the PDC is no more. Of the packets that arrived but are not
// acknowledged only the lowest is asked for: the others wait for that one, or for one that is missing.
func (p *PDC) expire(now vt.Time, k *Packet, lowest bool) bool {
	s, m := &p.s, p.m
	switch {
	case k.flags&pktWait != 0 && p.mode == ROD:
		p.rewind(now, k.PSN, k.cause) // what was sent after it cannot have been accepted, and must not keep the window from it
		return true
	case k.flags&pktWait != 0:
		p.again(now, k, now+p.rto(k.rtos), k.cause, cms.GoBack)
		return true
	case k.flags&pktSacked != 0 && !lowest:
		k.due = now + p.rto(0)
		return true
	case k.flags&pktQueued != 0 && m.port.Up():
		k.due = now + p.rto(k.rtos) // it waits for window or port; that is no sign of loss
		return true
	case p.mode == ROD && !lowest:
		k.due = now + p.rto(k.rtos) // it goes again with the lowest, or is acknowledged with it
		return true
	}
	m.C[RTO]++
	if k.rtos < 255 {
		k.rtos++
	}
	// The end of a PDC is not asked for without limit: the peer may have forgotten it, and says nothing then.
	if limit := m.cfg.MaxRTORetx; (limit != InfiniteRTO || k.flags&pktCtl != 0) && int(k.rtos) > limit {
		m.C[RTOExhausted]++
		p.fail(now, 0)
		return false
	}
	switch {
	case k.flags&pktSacked != 0 && k.rtos == 1:
		// It arrived, but its response is unknown: ask first.
		k.due = now + p.rto(k.rtos)
		p.control(wire.CtlAckRequest, wire.CtrlAR, k.PSN, 0)
	case p.mode == ROD:
		s.ev = m.randomEV() // this way leads nowhere
		p.rewind(now, k.PSN, CauseRTO)
	default:
		p.again(now, k, now+p.rto(k.rtos), CauseRTO, cms.TimedOut)
	}
	return true
}

// rewind makes an ordered PDC go back: everything from psn on is sent again, in order.
func (p *PDC) rewind(now vt.Time, psn wire.PSN, why Cause) {
	s := &p.s
	if !psn.After(s.clear) {
		psn = s.clear + 1
	}
	if s.back == psn {
		s.backs = min(s.backs+1, 16)
	}
	s.back = psn
	loss := cms.Inferred
	if why == CauseRTO {
		loss = cms.TimedOut
	}
	for q := psn; q != s.next; q++ {
		k := s.at(q)
		if k.flags&pktDone == 0 && k.flags&(pktSent|pktCtl) != 0 {
			p.again(now, k, now+p.rto(k.rtos), why, loss)
			why, loss = CauseGoBack, cms.GoBack
		}
	}
	p.queueRetx()
}

// What a source does on a NACK code (uet-pds-ses.md 11).
type nackAction uint8

const (
	nackIgnore  nackAction = iota // unknown: dropped and counted
	nackNow                       // send again at once
	nackLater                     // send again after NACK_Retx_Time
	nackClose                     // the PDC ends in error
	nackRestart                   // only the RTO begins anew
	nackBack                      // ROD: go back
	nackRebase                    // begin at another PSN
)

var nackActions = [256]nackAction{
	wire.NackTrimmed: nackNow, wire.NackTrimmedLastHop: nackNow, wire.NackTrimmedAck: nackNow,
	wire.NackNoPDCAvail: nackLater, wire.NackNoCCCAvail: nackLater, wire.NackNoBitmap: nackLater,
	wire.NackNoPktBuffer: nackLater, wire.NackNoGtdDelAvail: nackLater, wire.NackNoSESMsgAvail: nackLater,
	wire.NackNoResource: nackLater, wire.NackPSNOORWindow: nackLater, wire.NackExpNormal: nackLater,
	wire.NackInvDPDCID: nackClose, wire.NackPDCHdrMismatch: nackClose, wire.NackClosing: nackClose,
	wire.NackClosingInErr: nackClose, wire.NackGtdRespUnavail: nackClose, wire.NackInvalidSYN: nackClose,
	wire.NackPDCModeMismatch: nackClose, wire.NackUnexpEvent: nackClose, wire.NackExpErr: nackClose,
	wire.NackExpFatal: nackClose, wire.NackRODOOO: nackBack, wire.NackPktNotRcvd: nackNow, wire.NackAckWithData: nackNow,
	wire.NackRcvrInferLoss: nackNow, wire.NackRcvdSESProcg: nackRestart, wire.NackNewStartPSN: nackRebase,
}

func isTrim(c wire.NackCode) bool { return c >= wire.NackTrimmed && c <= wire.NackTrimmedAck }

// onNackPacket handles a NACK from src.
func (m *Manager) onNackPacket(now vt.Time, uet []byte, src netip.Addr) {
	n, err := wire.ParseNack(uet)
	if err != nil {
		m.C[Malformed]++
		return
	}
	if n.NT() {
		m.onRUDINack(now, n, src)
		return
	}
	p := m.pdcs.get(n.DPDCID())
	if p == nil || p.peer != src || n.SPDCID() != 0 && p.peerID != 0 && n.SPDCID() != p.peerID || p.state == Linger || p.state == Pending {
		m.C[UnknownPDCID]++
		return
	}
	psn := n.PSN()
	if n.Code() == wire.NackTrimmedAck && !p.s.has(psn) && p.d.received(psn) {
		m.C[NackRxTrim]++
		m.nacksRx[n.Code()]++
		p.ackDuplicate(now, m.randomEV(), false, true, psn)
		return
	}
	if !p.s.has(psn) || p.s.at(psn).flags&(pktDone|pktSent) != pktSent {
		m.C[StaleAck]++
		return
	}
	m.nacksRx[n.Code()]++
	act := nackActions[n.Code()]
	if n.Code() == wire.NackRODOOO && p.mode != ROD {
		act = nackClose // this PDC is not ordered, so the peer is confused
	}
	switch {
	case isTrim(n.Code()):
		m.C[NackRxTrim]++
	case act == nackLater:
		m.C[NackRxRes]++
	case act == nackClose:
		m.C[NackRxPDC]++
	default:
		m.C[NackRxOther]++
	}
	p.onNack(now, n, act)
}

func (p *PDC) onNack(now vt.Time, n wire.Nack, act nackAction) {
	s := &p.s
	k := s.at(n.PSN())
	p.lastUse, s.act, s.tails = now, now, 0
	if act != nackIgnore {
		p.nackRx = n.Code()
	}
	if act == nackNow || act == nackLater {
		p.refusal(now, n, k)
	}
	switch act {
	case nackClose:
		p.fail(now, n.Code())
		return
	case nackRebase:
		p.rebase(now, wire.PSN(n.Payload()))
		return
	case nackBack:
		from := wire.PSN(n.Payload()) // everything below has arrived; a peer need not say so (O-9)
		if !s.has(from) || from.After(k.PSN) {
			from = s.clear + 1
		}
		if s.at(from).flags&pktWait != 0 {
			break // it was refused for now, and so what came behind it: both wait
		}
		if p.exhausted(now, k, n.Code()) {
			return
		}
		if s.at(from).flags&pktQueued == 0 {
			p.rewind(now, from, CauseGoBack)
		}
	case nackNow, nackLater:
		p.learn(n.SPDCID())
		if !p.refused(now, k, n.Code(), act) {
			return
		}
	case nackRestart:
		p.learn(n.SPDCID())
		if k.flags&(pktQueued|pktWait) == 0 {
			k.rtos = 0
			s.setDue(k, now+p.rto(0))
			p.arm(&p.rtx, k.due)
		}
	}
	p.afterFeedback(now)
	p.after(now)
}

// exhausted counts a NACK for the packet, and ends the PDC if there were too many. Where room for responses was short the count begins
// anew when CLEAR has gone on since the packet was refused before, on this PDC or one beside it: there was room, and others were faster.
// It does too while they hold that room themselves.
func (p *PDC) exhausted(now vt.Time, k *Packet, code wire.NackCode) bool {
	switch {
	case isTrim(code) && !p.minds():
		return false
	case code == wire.NackNoGtdDelAvail && p.group != nil && (p.group.moved.Add(p.m.cfg.NackRetxTime) > k.sent || p.ownRoom(k)):
		k.nacks = 0
		return false
	}
	if k.nacks < 255 && k.flags&pktWait == 0 { // a copy of a NACK causes no further retransmission
		k.nacks++
	}
	if limit := p.m.cfg.MaxNackRetx; limit == InfiniteNack || int(k.nacks) <= limit {
		return false
	}
	p.m.C[NackExhausted]++
	p.fail(now, code)
	return true
}

// ownRoom says whether k, refused for want of room for responses, waits for responses to this PDC or one beside it: they are kept until
// a packet below them is repaired, which has limits of its own. That packet itself waits for none of them.
func (p *PDC) ownRoom(k *Packet) bool {
	if p.s.keeps() && k.PSN == p.s.clear+1 {
		return false
	}
	for _, q := range p.group.pdcs {
		if q.s.keeps() {
			return true
		}
	}
	return false
}

// refused sends a packet again now or later; false says that the PDC is no more.
func (p *PDC) refused(now vt.Time, k *Packet, code wire.NackCode, act nackAction) bool {
	s, m := &p.s, p.m
	if p.exhausted(now, k, code) {
		return false
	}
	why := CauseNack
	switch {
	case isTrim(code):
		why = CauseTrim
	case code == wire.NackPktNotRcvd:
		why = CauseProbe
	}
	switch {
	case p.mode == ROD && act == nackNow && code != wire.NackAckWithData:
		if k.flags&pktQueued == 0 {
			p.rewind(now, k.PSN, why)
		}
	case act == nackNow:
		p.again(now, k, now+p.rto(k.rtos), why, cms.GoBack)
	default:
		s.land(k)
		s.unqueue(k)
		k.flags = k.flags&^pktSacked | pktWait | pktRefused
		k.cause, k.rtos = why, 0 // an answer has come: the RTO begins anew (uet-pds-ses.md 10.6)
		s.setDue(k, now.Add(m.cfg.NackRetxTime))
		p.arm(&p.rtx, k.due)
		if code == wire.NackNoGtdDelAvail && s.owe {
			p.sendClear()
		}
	}
	return true
}

// rebase moves all PSNs of a PDC that is opening to the start that the target demands (uet-pds-ses.md 4.5).
func (p *PDC) rebase(now vt.Time, start wire.PSN) {
	s, m := &p.s, p.m
	if p.state != Opening || start == s.start {
		m.C[StaleAck]++
		return
	}
	if m.cfg.Secure != nil {
		m.cfg.Secure.Expected(p.peer, p.job, start)
	}
	delta := start - s.start
	old := *s
	s.ring = make([]Packet, len(old.ring))
	s.start, s.next, s.clear, s.cack, s.cursor = start, old.next+delta, old.clear+delta, old.cack+delta, old.cursor+delta
	s.nFly, s.inflight, s.nQueued, s.nRefused = 0, 0, 0, 0
	for q := old.clear + 1; q != old.next; q++ {
		k := old.at(q)
		p.vanishes(now, k, cms.GoBack)
		n := s.at(q + delta)
		*n = *k
		n.PSN = q + delta
		n.flags &^= pktFlying | pktQueued | pktTurn | pktWait | pktSacked
		n.rtos, n.nacks = 0, 0
		if n.flags&pktDone == 0 {
			p.again(now, n, now+p.rto(0), CauseRebase, cms.GoBack)
		}
	}
	clear(old.ring)
	m.rings.put(old.ring)
	p.d.init(start, m.cfg.MPR)
	p.after(now)
}
