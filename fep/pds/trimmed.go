package pds

import (
	"net/netip"

	"github.com/uetlab/uetlab/fep/cms"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// TrimmedDSCP says whether a switch cut the payload off a packet with this code point.
func (m *Manager) TrimmedDSCP(d uint8) bool {
	return d == m.cfg.DSCPTrimmed || d == m.cfg.DSCPTrimmedLastHop
}

// onTrimmed answers a request whose payload a switch cut off (uet-pds-ses.md 10.1): it was lost, and its source is told so at
// once. Nobody has vouched for what is left of the packet, so it opens no PDC, moves no window and reaches no message.
func (m *Manager) onTrimmed(now vt.Time, in *wire.Inbound, src netip.Addr) {
	m.C[Trimmed]++
	code := wire.NackTrimmed
	if in.DSCP == m.cfg.DSCPTrimmedLastHop {
		code = wire.NackTrimmedLastHop
	}
	m.arr = arrival{in: in, uet: in.UET, src: src}
	a := &m.arr
	switch t := in.Type(); {
	case t.IsRequest():
		m.trimmedRequest(now, a, code)
	case t.IsAck():
		m.trimmedAck(now, a)
	case t == wire.TypeRUDIReq:
		if r, err := wire.ParseRUDI(in.UET); err == nil {
			m.nackRUDI(code, a, r)
		} else {
			m.C[Malformed]++
		}
	case t == wire.TypeRUDIResp:
		if r, err := wire.ParseRUDI(in.UET); err == nil {
			if x := m.rudiFor(r.PktID(), src); x != nil {
				x.k.cause = CauseTrim
				x.repeat()
			}
		}
	case t == wire.TypeUUDReq:
		m.C[UUDDrop]++
	}
}

func (m *Manager) trimmedRequest(now vt.Time, a *arrival, code wire.NackCode) {
	r, err := wire.ParseRequest(a.uet)
	if err != nil || r.SPDCID() == 0 {
		m.C[Malformed]++
		return
	}
	p := m.trimmedPDC(r, a.src)
	if p == nil {
		if r.SYN() {
			m.nackReq(code, a, r, nil)
		} else {
			m.C[UnknownPDCID]++
		}
		return
	}
	if p.state != Established && p.state != CloseSent && !p.initiator {
		m.C[StaleAck]++
		return
	}
	p.wants(now, a, r, true, code == wire.NackTrimmed)
	switch p.d.classify(r.PSN(), m.cfg.MPR) {
	case placeOut:
		m.C[StaleAck]++
	case placeDup:
		m.C[DupRx]++
		p.ackDuplicate(now, a.in.EV, a.ce() && p.notifies(now), r.RETX(), r.PSN())
	default:
		if p.mode == ROD {
			if r.PSN() != p.d.edge {
				p.outOfOrder(now, a, r) // its source goes back to before it
				return
			}
			p.gap(now) // what comes next is out of order, and need not be spoken of
		}
		m.nackReq(code, a, r, p)
	}
}

// trimmedPDC finds the PDC that a trimmed request belongs to, nil if there is none.
func (m *Manager) trimmedPDC(r wire.Request, src netip.Addr) *PDC {
	if r.SYN() {
		p := m.bySYN[synKey{src, r.SPDCID()}]
		if p == nil || p.d.start != r.StartPSN() {
			return nil
		}
		return p
	}
	p := m.pdcs.get(r.DPDCID())
	if p == nil || p.peer != src || p.peerID != r.SPDCID() || p.state == Pending || p.state == Linger {
		return nil
	}
	return p
}

// trimmedAck is an ACK that has lost the data it carried: its request is sent again, and the peer answers it from its store.
func (m *Manager) trimmedAck(now vt.Time, a *arrival) {
	k, err := wire.ParseAck(a.uet)
	if err != nil || k.P() {
		return
	}
	p := m.pdcs.get(k.DPDCID())
	if p == nil || p.peer != a.src || p.peerID != 0 && p.peerID != k.SPDCID() || !p.s.has(k.AckPSN()) {
		m.C[UnknownPDCID]++
		return
	}
	q := p.s.at(k.AckPSN())
	if q.flags&pktDone == 0 && q.flags&pktSent != 0 {
		p.again(now, q, now+p.rto(q.rtos), CauseTrim, cms.GoBack)
		p.queueRetx()
	}
}
