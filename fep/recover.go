package fep

import (
	"net/netip"

	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// onRTO acts on every packet whose time is up, and asks for the next call (uet-pds-ses.md 10.5). Messages that cannot
// begin because the link is down fail after the time that a packet would be given.
func (p *pdc) onRTO(now vt.Time) {
	s := &p.s
	next := vt.Never
	lowest := true // nothing below is unacknowledged
	for q := s.clear + 1; q != s.next; q++ {
		k := s.at(q)
		if k.flags&pktDone != 0 || k.flags&pktSent == 0 {
			continue
		}
		if k.due <= now {
			if !p.expire(now, q, k, lowest) {
				return
			}
		}
		lowest = false
		next = min(next, k.due)
	}
	if s.hasNew() && s.unacked() == 0 && !p.f.node.Ports[0].Up() {
		if now >= p.lastUse.Add(p.f.cfg.patience()) {
			p.fail(now, 0)
			return
		}
		next = now + p.rto(0)
	}
	if next != vt.Never {
		p.arm(timerRTO, next)
	}
	p.queueRetx()
	p.queueSend() // in case a window probe is due
}

// expire handles one packet whose time is up; false says that the PDC is no more. Of the packets that arrived but are not
// acknowledged only the lowest is asked for: the others wait for that one, or for one that is missing.
func (p *pdc) expire(now vt.Time, q wire.PSN, k *txPkt, lowest bool) bool {
	s, f := &p.s, p.f
	switch {
	case k.flags&pktWait != 0:
		s.again(q, k, now+p.rto(k.rtos))
		return true
	case k.flags&pktSacked != 0 && !lowest:
		k.due = now + p.rto(0)
		return true
	case k.flags&pktQueued != 0 && f.node.Ports[0].Up():
		k.due = now + p.rto(k.rtos) // it waits for window or port; that is no sign of loss
		return true
	}
	f.C[RTO]++
	k.rtos++
	if int(k.rtos) > f.cfg.MaxRTORetx {
		p.fail(now, 0)
		return false
	}
	if k.flags&pktSacked != 0 && k.rtos == 1 {
		// It arrived, but its response is unknown: ask first.
		k.due = now + p.rto(k.rtos)
		p.control(wire.CtlAckRequest, wire.CtrlAR, q, 0)
		return true
	}
	s.again(q, k, now+p.rto(k.rtos))
	return true
}

// What a source does on a NACK code (uet-pds-ses.md 11).
type nackAction uint8

const (
	nackIgnore  nackAction = iota // unknown: dropped and counted
	nackNow                       // send again at once
	nackLater                     // send again after NACK_Retx_Time
	nackClose                     // the PDC ends in error
	nackRestart                   // only the RTO begins anew
)

var nackActions = [256]nackAction{
	wire.NackTrimmed: nackNow, wire.NackTrimmedLastHop: nackNow, wire.NackTrimmedAck: nackNow,
	wire.NackNoPDCAvail: nackLater, wire.NackNoCCCAvail: nackLater, wire.NackNoBitmap: nackLater,
	wire.NackNoPktBuffer: nackLater, wire.NackNoGtdDelAvail: nackLater, wire.NackNoSESMsgAvail: nackLater,
	wire.NackNoResource: nackLater, wire.NackPSNOORWindow: nackLater, wire.NackExpNormal: nackLater,
	wire.NackInvDPDCID: nackClose, wire.NackPDCHdrMismatch: nackClose, wire.NackClosing: nackClose,
	wire.NackClosingInErr: nackClose, wire.NackGtdRespUnavail: nackClose, wire.NackInvalidSYN: nackClose,
	wire.NackPDCModeMismatch: nackClose, wire.NackUnexpEvent: nackClose, wire.NackExpErr: nackClose,
	wire.NackExpFatal: nackClose, wire.NackRODOOO: nackClose, // ROD_OOO: this PDC is RUD, so the peer is confused
	wire.NackPktNotRcvd: nackNow, wire.NackAckWithData: nackNow, wire.NackRcvrInferLoss: nackNow,
	wire.NackRcvdSESProcg: nackRestart,
}

// onNackPacket handles a NACK from src.
func (f *FEP) onNackPacket(now vt.Time, uet []byte, src netip.Addr) {
	n, err := wire.ParseNack(uet)
	if err != nil {
		f.C[Malformed]++
		return
	}
	if n.NT() {
		f.C[Unsupported]++
		return
	}
	p := f.pdcs.get(n.DPDCID())
	if p == nil || !p.initiator || p.peer != src || n.SPDCID() != 0 && p.peerID != 0 && n.SPDCID() != p.peerID {
		f.C[UnknownPDCID]++
		return
	}
	if psn := n.PSN(); !psn.After(p.s.clear) || !psn.Before(p.s.next) || p.s.at(psn).flags&(pktDone|pktSent) != pktSent {
		f.C[StaleAck]++
		return
	}
	act := nackActions[n.Code()]
	switch {
	case n.Code() >= wire.NackTrimmed && n.Code() <= wire.NackTrimmedAck:
		f.C[NackRxTrim]++
	case act == nackLater:
		f.C[NackRxRes]++
	case act == nackClose:
		f.C[NackRxPDC]++
	default:
		f.C[NackRxOther]++
	}
	p.onNack(now, n, act)
}

func (p *pdc) onNack(now vt.Time, n wire.Nack, act nackAction) {
	s, f := &p.s, p.f
	q := n.PSN()
	k := s.at(q)
	p.lastUse = now
	switch act {
	case nackClose:
		p.fail(now, n.Code())
		return
	case nackNow, nackLater:
		p.learn(n.SPDCID())
		if n.Code() < wire.NackTrimmed || n.Code() > wire.NackTrimmedAck {
			k.nacks++
		}
		if int(k.nacks) > f.cfg.MaxNackRetx {
			p.fail(now, n.Code())
			return
		}
		if act == nackNow {
			s.again(q, k, now+p.rto(k.rtos))
			break
		}
		s.land(k)
		s.unqueue(k)
		k.flags = k.flags&^pktSacked | pktWait
		k.due = now.Add(f.cfg.NackRetxTime)
		p.arm(timerRTO, k.due)
		if n.Code() == wire.NackNoGtdDelAvail && s.owe {
			p.sendClear()
		}
	case nackRestart:
		if k.flags&(pktQueued|pktWait) == 0 {
			k.due = now + p.rto(k.rtos)
		}
	}
	p.after(now)
}
