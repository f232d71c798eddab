package pds

import (
	"net/netip"

	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// ctlMsg describes an ACK, NACK, RUDI response or control packet that waits for the port. What may change until then (CACK,
// SACK) is read from the PDC when the packet is built.
type ctlMsg struct {
	kind    wire.PDSType // TypeAckCC for all ACKs, TypeNack, TypeRUDIResp or TypeCtrl
	p       *PDC         // the PDC whose end makes it void
	peer    netip.Addr
	spdcid  uint16
	dpdcid  uint16
	ev      uint16
	opaque  uint16
	psn     wire.PSN
	payload uint32
	code    wire.NackCode
	ctl     wire.CtlType
	flags   uint8 // AckFlags, NackFlags, RUDIFlags or CtrlFlags
	req     wire.AckReq
	hasResp bool
	arrived vt.Time // ACK: of the packet it answers
	resp    Response
}

// maxCtl bounds the control queue: whoever floods us with nonsense gets no answer to all of it.
const maxCtl = 8192

// ctlQueue is a FIFO of descriptors in a ring that grows to maxCtl.
type ctlQueue struct {
	ring []ctlMsg
	head int
	n    int
}

// push returns a cleared place, or nil if the queue is full.
func (q *ctlQueue) push() *ctlMsg {
	if q.n == len(q.ring) {
		if q.n == maxCtl {
			return nil
		}
		grown := make([]ctlMsg, max(32, 2*len(q.ring)))
		for i := range q.n {
			grown[i] = q.ring[(q.head+i)&(len(q.ring)-1)]
		}
		q.ring, q.head = grown, 0
	}
	c := &q.ring[(q.head+q.n)&(len(q.ring)-1)]
	*c = ctlMsg{}
	q.n++
	return c
}

func (q *ctlQueue) pop() ctlMsg {
	c := q.ring[q.head]
	q.ring[q.head].p, q.ring[q.head].resp.Data = nil, nil
	q.head = (q.head + 1) & (len(q.ring) - 1)
	q.n--
	return c
}

// pushCtl takes a place in the control queue, or counts that there is none.
func (m *Manager) pushCtl(kind wire.PDSType, peer netip.Addr, ev uint16) *ctlMsg {
	c := m.ctl.push()
	if c == nil {
		m.C[CtlOverflow]++
		return nil
	}
	c.kind, c.peer, c.ev = kind, peer, ev
	return c
}

// control queues a control packet to the peer.
func (p *PDC) control(ctl wire.CtlType, flags wire.CtrlFlags, psn wire.PSN, payload uint32) *ctlMsg {
	c := p.m.pushCtl(wire.TypeCtrl, p.peer, p.dataEV(nil, false))
	if c != nil {
		c.ctl, c.flags, c.psn, c.payload = ctl, uint8(flags), psn, payload
		c.spdcid, c.dpdcid = p.id, p.peerID
	}
	return c
}

// nack queues a NACK for a packet with this PSN; p is nil if there is no PDC, which the peer calls dpdcid.
func (m *Manager) nack(code wire.NackCode, a *arrival, psn wire.PSN, dpdcid uint16, retx bool, p *PDC) *ctlMsg {
	c := m.pushCtl(wire.TypeNack, a.src, a.in.EV)
	if c == nil {
		return nil
	}
	c.code, c.psn, c.dpdcid = code, psn, dpdcid
	if p != nil {
		c.spdcid, p.nackTx = p.id, code
	}
	if a.ce() {
		c.flags |= uint8(wire.NackM)
	}
	if retx {
		c.flags |= uint8(wire.NackRETX)
	}
	return c
}
