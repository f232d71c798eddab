package pds

import (
	"github.com/uetlab/uetlab/fep/cms"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

func (m *Manager) nackReq(code wire.NackCode, a *arrival, r wire.Request, p *PDC) *ctlMsg {
	return m.nack(code, a, r.PSN(), r.SPDCID(), r.RETX(), p)
}

func modeOf(t wire.PDSType) Mode {
	if t.IsROD() {
		return ROD
	}
	return RUD
}

// onRequest handles a RUD or ROD Request (uet-pds-ses.md 6).
func (m *Manager) onRequest(now vt.Time, a *arrival) {
	r, err := wire.ParseRequest(a.uet)
	if err != nil || r.SPDCID() == 0 {
		m.C[Malformed]++
		return
	}
	p := m.receiver(now, a, r)
	if p == nil {
		return
	}
	p.lastUse = now
	switch {
	case p.state == Linger && p.errored:
		m.nackReq(wire.NackClosingInErr, a, r, p)
		return
	case p.state == Linger:
		m.nackReq(wire.NackClosing, a, r, p)
		return
	case modeOf(r.Type()) != p.mode:
		m.nackReq(wire.NackPDCModeMismatch, a, r, p)
		return
	case r.Next().IsRequest() == p.initiator || !r.Next().IsRequest() && r.Next() < wire.NextResponseData:
		m.nackReq(wire.NackPDCHdrMismatch, a, r, p)
		return
	}
	p.onClear(r.ClearPSN())
	p.wants(now, a, r, false, false)
	p.receive(now, a, r)
}

// receiver finds the PDC of a request, or opens it (uet-pds-ses.md 4.1). It answers and returns nil if it cannot.
func (m *Manager) receiver(now vt.Time, a *arrival, r wire.Request) *PDC {
	if !r.SYN() {
		p := m.pdcs.get(r.DPDCID())
		if p != nil && p.peer == a.src {
			p.learn(r.SPDCID()) // read data may overtake the first ACK
			p.settled = true
		}
		if p == nil || p.peer != a.src || p.peerID != r.SPDCID() || p.state == Pending {
			m.C[UnknownPDCID]++
			m.nackReq(wire.NackInvDPDCID, a, r, nil)
			return nil
		}
		return p
	}
	p := m.bySYN[synKey{a.src, r.SPDCID()}]
	switch {
	case p == nil:
		return m.openTarget(now, a, r)
	case p.state == Pending:
		if p.start(now, r.StartPSN()) {
			return p
		}
		m.demand(a, r, p)
		return nil
	case p.d.start != r.StartPSN():
		m.nackReq(wire.NackInvalidSYN, a, r, p)
		return nil
	}
	return p
}

// openTarget makes a PDC for a SYN of an unknown initiator, whichever packet of the burst it is.
func (m *Manager) openTarget(now vt.Time, a *arrival, r wire.Request) *PDC {
	if !r.Next().IsRequest() {
		m.nackReq(wire.NackPDCHdrMismatch, a, r, nil)
		return nil
	}
	p := m.newTarget(now, a, r.SPDCID(), modeOf(r.Type()))
	if p == nil {
		m.nackReq(wire.NackNoPDCAvail, a, r, nil)
		return nil
	}
	if !p.start(now, r.StartPSN()) {
		m.demand(a, r, p)
		return nil
	}
	return p
}

// newTarget makes a target's PDC without a start, nil if there is no room.
func (m *Manager) newTarget(now vt.Time, a *arrival, peerID uint16, mode Mode) *PDC {
	p := m.newPDC(now, a.src, mode, false)
	if p == nil && m.reclaim(now) {
		p = m.newPDC(now, a.src, mode, false)
	}
	if p == nil {
		return nil
	}
	p.peerID, p.state, p.s.ev = peerID, Pending, a.in.EV
	m.bySYN[synKey{a.src, peerID}] = p
	return p
}

// start establishes a target's PDC, unless security demands another start of it: then it waits for that one.
func (p *PDC) start(now vt.Time, start wire.PSN) bool {
	m := p.m
	if p.s.expected != 0 {
		if start != p.s.expected {
			return false
		}
	} else if m.cfg.Secure != nil {
		if want, ok := m.cfg.Secure.Accept(p.peer, p.job, start); !ok {
			p.s.expected = want
			m.arm(&p.life, now.Add(m.cfg.NewPDCTime))
			return false
		}
	}
	p.state = Established
	p.s.init(start, m.cfg.MPR)
	p.d.init(start, m.cfg.MPR)
	m.arm(&p.life, now.Add(m.cfg.TargetIdle))
	return true
}

// demand answers a SYN with the start that it must have.
func (m *Manager) demand(a *arrival, r wire.Request, p *PDC) {
	if c := m.nackReq(wire.NackNewStartPSN, a, r, p); c != nil {
		c.payload = uint32(p.s.expected)
	}
}

// reclaim ends the hold time of the PDC that has lingered for longest, if there is one; else it asks for the end of the
// target's PDC that was idle for longest. One whose initiator still sends SYNs is not ended: what it sends again would open
// another, and be delivered twice.
func (m *Manager) reclaim(now vt.Time) bool {
	var held, idle *PDC
	for _, p := range m.pdcs.slots {
		switch {
		case p == nil:
		case p.state == Linger && (held == nil || p.lastUse < held.lastUse):
			held = p
		case p.state == Established && !p.initiator && p.settled && p.s.idle() && len(p.d.kept) == 0 && (idle == nil || p.lastUse < idle.lastUse):
			idle = p
		}
	}
	if held != nil {
		held.gone(now)
		return true
	}
	if idle != nil && now-idle.lastUse > vt.Time(m.cfg.NackRetxTime) {
		idle.askClose(now)
	}
	return false
}

// receive runs a request through window, duplicate check and SES, and decides about the ACK.
func (p *PDC) receive(now vt.Time, a *arrival, r wire.Request) {
	m, d := p.m, &p.d
	psn := r.PSN()
	switch d.classify(psn, m.cfg.MPR) {
	case placeOut:
		p.outOfRange(now, a, r)
		return
	case placeDup:
		m.C[DupRx]++
		if p.answering(psn) {
			m.nackReq(wire.NackRcvdSESProcg, a, r, p)
			return
		}
		p.ackDuplicate(now, a.in.EV, a.ce() && p.notifies(now), r.RETX(), psn)
		return
	}
	if p.mode == ROD && psn != d.edge {
		p.outOfOrder(now, a, r)
		return
	}
	body := a.uet[len(r):]
	if len(body) < r.Next().HeaderLen() {
		m.C[Malformed]++
		return
	}
	full := m.C[GtdInUse] >= uint64(m.cfg.GtdSlots)
	blocks := full && p.blocks(psn) || p.shuts(psn)
	if !p.initiator && full && !blocks {
		m.nackReq(wire.NackNoGtdDelAvail, a, r, p)
		return
	}
	m.req = Request{PDC: p, Mode: p.mode, Return: p.initiator, Src: a.src, PSN: psn, Next: r.Next(), B: body, Ref: a.ref,
		Blocks: blocks, ev: a.in.EV, flags: uint8(r.Flags()), size: a.size}
	m.resp = Response{Job: p.job}
	code := m.up.Request(now, &m.req, &m.resp)
	if p.state == Closed || p.state == Linger {
		return // SES has had enough of it
	}
	if code != 0 {
		m.nackReq(code, a, r, p)
		return
	}
	p.accept(now, a, r, &m.resp)
}

// answering says whether SES still works on the packet.
func (p *PDC) answering(psn wire.PSN) bool {
	d := &p.d
	return d.nLate > 0 && psn.Diff(d.base) >= 0 && !psn.After(d.maxRx) && d.late.has(psn)
}

// outOfOrder drops an ordered packet that came too early, and says so once a gap.
func (p *PDC) outOfOrder(now vt.Time, a *arrival, r wire.Request) {
	d := &p.d
	p.m.C[RODDrop]++
	if d.gapNacked && d.gapPSN == d.edge && now < d.gapUntil {
		return
	}
	p.gap(now)
	if c := p.m.nackReq(wire.NackRODOOO, a, r, p); c != nil {
		c.payload = uint32(d.edge)
	}
}

// gap notes that the source has been told of the lowest missing packet.
func (p *PDC) gap(now vt.Time) {
	p.d.gapNacked, p.d.gapPSN, p.d.gapUntil = true, p.d.edge, now.Add(p.m.cfg.NackRetxTime)
}

func (p *PDC) outOfRange(now vt.Time, a *arrival, r wire.Request) {
	p.m.C[OutOfRange]++
	code := wire.NackPSNOORWindow
	if r.SYN() {
		code = wire.NackInvalidSYN
	} else if now < p.d.oorUntil {
		return
	}
	p.d.oorUntil = now.Add(p.m.cfg.RTOInit / 4)
	p.m.nackReq(code, a, r, p)
}

// accept marks a new packet as received and acknowledges it now or later (uet-pds-ses.md 5.7).
func (p *PDC) accept(now vt.Time, a *arrival, r wire.Request, resp *Response) {
	m, d := p.m, &p.d
	psn := r.PSN()
	p.job = resp.Job
	m.C[DataRx]++
	m.C[DataRxBytes] += uint64(resp.Bytes)
	if m.sig.seen {
		d.sig = m.sig
	}
	d.rcvd += uint64(a.size)
	ce := a.ce()
	if ce {
		m.C[CEMarked]++
		ce = p.notifies(now)
		d.ce = d.ce || ce
	}
	d.mark(m, psn, r.AR(), resp.Gtd && !resp.Later, resp.Later)
	if n := m.cfg.RcvrInfer; n > 0 && p.mode == RUD && int(d.ooo) >= n {
		p.inferGap(a, r)
	}
	if resp.Later {
		return
	}
	p.answered(now, psn, resp, a.in.EV, r.Flags(), now, ce && !m.cfg.NoAckOnECN)
}

// notifies says whether a mark is passed on with the flag M of an ACK. With DCQCN that flag is the congestion notification packet (CNP)
// of RoCE: a flow gets one in 50 us (uet-cms.md section 11), else each mark is passed on.
func (p *PDC) notifies(now vt.Time) bool {
	cc := p.m.cfg.CC
	if cc == nil || cc.Algorithm != cms.AlgDCQCN {
		return true
	}
	if !p.d.cnp.OnMark(now, cc.DCQCN.CNPEvery) {
		return false
	}
	p.m.C[CNPTx]++
	return true
}

// inferGap tells the source that the lowest missing packet must be lost, once a gap.
func (p *PDC) inferGap(a *arrival, r wire.Request) {
	d := &p.d
	if d.gapNacked && d.gapPSN == d.edge {
		return
	}
	d.gapNacked, d.gapPSN = true, d.edge
	p.m.nack(wire.NackRcvrInferLoss, a, d.edge, r.SPDCID(), false, p)
}

// answered decides when to acknowledge a packet whose response is known.
func (p *PDC) answered(now vt.Time, psn wire.PSN, resp *Response, ev uint16, fl wire.ReqFlags, arrived vt.Time, ce bool) {
	m, d := p.m, &p.d
	if resp.Gtd {
		p.keep(now, psn, resp)
	}
	if !m.cfg.NoDFC {
		d.pend, d.penal = resp.Pend, d.penal || resp.Pend > 0
	}
	if d.genCount == 0 && m.cfg.MaxAckDelay > 0 {
		d.firstDue = now.Add(m.cfg.MaxAckDelay)
	}
	d.genCount += max(resp.Bytes, m.cfg.AckGenMinAdd)
	d.ackPSN, d.ackEV, d.arrived = psn, ev, arrived
	if resp.Gtd || fl&(wire.ReqAR|wire.ReqSYN|wire.ReqRETX) != 0 || ce || d.needAck || d.genCount >= m.cfg.AckGenTrigger ||
		p.state == CloseWait { // with data unacknowledged the target would close in error
		p.ack(now, ev, fl&wire.ReqRETX != 0, psn, resp)
		return
	}
	if m.cfg.MaxAckDelay > 0 {
		p.arm(&p.ackT, d.firstDue)
	}
}

// Answer is tx_rsp for a request that SES took with Later.
func (m *Manager) Answer(now vt.Time, h Handle, resp *Response) {
	if h.mode == RUDI {
		m.respondRUDI(h.src, uint32(h.psn), h.ev, h.flags, resp)
		m.Kick(now)
		return
	}
	p := h.p
	if p == nil || p.m != m || h.epoch != m.epoch || p.gen != h.gen || p.state == Closed || p.state == Linger || !p.answering(h.psn) {
		return
	}
	p.d.late.unset(h.psn)
	p.d.nLate--
	if resp.Gtd {
		p.d.gtd.set(h.psn)
	}
	p.d.advance(m)
	p.answered(now, h.psn, resp, h.ev, wire.ReqFlags(h.flags), now, false)
	m.Kick(now)
}
