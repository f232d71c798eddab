package pds

import (
	"math/rand/v2"
	"net/netip"

	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/internal/wheel"
	"github.com/uetlab/uetlab/wire"
)

// rudiPkt is a RUDI packet without a response.
type rudiPkt struct {
	k      Packet
	m      *Manager
	timer  wheel.Timer
	nextQ  *rudiPkt // in rudi.again, or in the pool
	nextIn *rudiPkt // of the same message
}

// rudi is the initiator's part of RUDI, and the queue of UUD (uet-pds-ses.md 9). There are no PDCs: a packet is known by its
// pkt_id alone.
type rudi struct {
	msgs  []*Msg // in the order of posting; the first is being cut
	out   map[uint32]*rudiPkt
	again *rudiPkt // to be sent again, FIFO
	tail  *rudiPkt
	pool  *rudiPkt
	id    uint32
	turn  bool        // RUDI and UUD before the next data of a PDC
	full  bool        // MaxRUDI packets are out
	told  bool        // SES knows that messages wait
	dead  wheel.Timer // looks whether the link is down while messages wait
}

func (r *rudi) reset(rng *rand.Rand) { *r = rudi{out: map[uint32]*rudiPkt{}, id: rng.Uint32()} }

// busy says whether something may be ready to leave.
func (r *rudi) busy() bool { return r.again != nil || len(r.msgs) > 0 && !r.full }

func (m *Manager) submitRUDI(now vt.Time, msg *Msg) {
	msg.since = now
	m.rudi.msgs = append(m.rudi.msgs, msg)
	if m.rudi.dead.At() == vt.Never {
		m.rudi.dead.Owner = m
		m.arm(&m.rudi.dead, now.Add(m.cfg.Patience()))
	}
	m.tellRUDI(now)
}

// Fire implements wheel.Owner: messages that cannot leave since the link is down fail after the time that a packet is given.
func (m *Manager) Fire(now vt.Time, t *wheel.Timer) {
	for len(m.rudi.msgs) > 0 && !m.port.Up() && m.cfg.MaxRTORetx != InfiniteRTO {
		msg := m.rudi.msgs[0]
		if due := msg.since.Add(m.cfg.Patience()); due > now {
			m.arm(t, due)
			return
		}
		m.failRUDI(now, msg, 0)
	}
	if len(m.rudi.msgs) > 0 {
		m.arm(t, now.Add(m.cfg.Patience()))
	}
}

// nextRUDI builds the next RUDI or UUD packet.
func (m *Manager) nextRUDI(now vt.Time) *link.Frame {
	r := &m.rudi
	if x := r.again; x != nil {
		if r.again = x.nextQ; r.again == nil {
			r.tail = nil
		}
		x.nextQ = nil
		x.k.flags &^= pktQueued
		m.C[RUDIRetx]++
		m.C[Retx]++
		m.C[x.k.cause.Counter()]++
		return m.buildRUDI(now, x, true)
	}
	if len(r.msgs) == 0 || r.full {
		return nil
	}
	msg := r.msgs[0]
	if msg.Mode == UUD {
		m.shift()
		return m.buildUUD(now, msg)
	}
	x := m.newRUDI(msg)
	if x.k.hdr, msg.whole = m.cut(msg, &x.k); msg.whole {
		m.shift()
	}
	r.full = len(r.out) >= m.cfg.MaxRUDI
	return m.buildRUDI(now, x, false)
}

func (m *Manager) cut(msg *Msg, k *Packet) (hdr wire.NextHdr, last bool) {
	_, hdr = msg.S.Next()
	return hdr, msg.S.Cut(k)
}

// shift ends the cutting of the first message.
func (m *Manager) shift() {
	r := &m.rudi
	r.msgs[0] = nil
	if r.msgs = r.msgs[1:]; len(r.msgs) == 0 {
		r.msgs = nil
		m.wheel.Cancel(&r.dead)
	}
}

func (m *Manager) newRUDI(msg *Msg) *rudiPkt {
	r := &m.rudi
	x := r.pool
	if x == nil {
		x = &rudiPkt{m: m}
		x.timer.Owner = x
	} else {
		r.pool = x.nextQ
	}
	for r.id++; r.out[r.id] != nil; r.id++ {
	}
	x.k = Packet{PSN: wire.PSN(r.id), msg: msg}
	x.nextQ, x.nextIn, msg.rudi = nil, msg.rudi, x
	r.out[r.id] = x
	msg.unacked++
	return x
}

func (m *Manager) buildRUDI(now vt.Time, x *rudiPkt, again bool) *link.Frame {
	k := &x.k
	k.sent, k.ev = now, m.randomEV()
	x.rearm(now)
	f := wire.RUDIFields{Type: wire.TypeRUDIReq, Next: k.hdr, PktID: uint32(k.PSN)}
	if again {
		f.Flags = wire.RUDIRETX
	}
	m.C[RUDITx]++
	m.C[DataTx]++
	m.C[DataTxBytes] += uint64(k.N)
	fr := m.begin(k.msg.Peer, k.ev, m.cfg.DSCPUnmanaged, wire.ECNNotECT)
	fr.B = wire.AppendRUDI(fr.B, &f)
	return m.load(fr, k)
}

func (m *Manager) buildUUD(now vt.Time, msg *Msg) *link.Frame {
	k := Packet{msg: msg}
	hdr, _ := m.cut(msg, &k)
	m.C[UUDTx]++
	fr := m.begin(msg.Peer, m.randomEV(), m.cfg.DSCPUnmanaged, wire.ECNNotECT)
	fr.B = wire.AppendUUD(fr.B, hdr)
	fr = m.load(fr, &k)
	msg.S.Done(now)
	return fr
}

// Fire implements wheel.Owner: nothing was heard of the packet, or a NACK asked to wait.
func (x *rudiPkt) Fire(now vt.Time, _ *wheel.Timer) {
	m, k := x.m, &x.k
	if k.flags&pktQueued != 0 && m.port.Up() {
		x.rearm(now) // it waits for the port; that is no sign of loss
		return
	}
	if k.flags&pktWait == 0 {
		m.C[RTO]++
		k.rtos++
		k.cause = CauseRTO
		if limit := m.cfg.MaxRTORetx; limit != InfiniteRTO && int(k.rtos) > limit {
			m.C[RTOExhausted]++
			m.failRUDI(now, k.msg, 0)
			return
		}
	}
	x.repeat()
	x.rearm(now)
}

// rearm gives the packet as long as one that timed out so often.
func (x *rudiPkt) rearm(now vt.Time) {
	c := &x.m.cfg
	x.m.arm(&x.timer, now+vt.Time(c.rto(x.k.rtos)))
}

func (x *rudiPkt) repeat() {
	r := &x.m.rudi
	x.k.flags &^= pktWait
	if x.k.flags&pktQueued != 0 {
		return
	}
	x.k.flags |= pktQueued
	if r.tail == nil {
		r.again = x
	} else {
		r.tail.nextQ = x
	}
	r.tail = x
}

// forget takes the packet out of everything.
func (x *rudiPkt) forget() {
	m := x.m
	r := &m.rudi
	m.wheel.Cancel(&x.timer)
	if x.k.flags&pktQueued != 0 {
		var before *rudiPkt
		for y := r.again; y != x; y = y.nextQ {
			before = y
		}
		if before == nil {
			r.again = x.nextQ
		} else {
			before.nextQ = x.nextQ
		}
		if r.tail == x {
			r.tail = before
		}
	}
	for y := &x.k.msg.rudi; *y != nil; y = &(*y).nextIn {
		if *y == x {
			*y = x.nextIn
			break
		}
	}
	delete(r.out, uint32(x.k.PSN))
	x.k = Packet{}
	x.nextIn, x.nextQ, r.pool = nil, r.pool, x
	r.full = false
}

// failRUDI ends a message: all its packets are forgotten.
func (m *Manager) failRUDI(now vt.Time, msg *Msg, code wire.NackCode) {
	for msg.rudi != nil {
		msg.rudi.forget()
	}
	if len(m.rudi.msgs) > 0 && m.rudi.msgs[0] == msg {
		m.shift()
	}
	msg.failed = true
	msg.S.Failed(now, &Error{Code: code})
}

// onRUDI handles a RUDI request or response.
func (m *Manager) onRUDI(now vt.Time, a *arrival) {
	r, err := wire.ParseRUDI(a.uet)
	if err != nil {
		m.C[Malformed]++
		return
	}
	body := a.uet[len(r):]
	if len(body) < r.Next().HeaderLen() || !r.Next().LegalFor(r.Type()) {
		m.C[Malformed]++
		return
	}
	if r.Type() == wire.TypeRUDIResp {
		m.onRUDIResponse(now, r, body, a.src)
		return
	}
	m.C[RUDIRx]++
	m.req = Request{Mode: RUDI, Src: a.src, Next: r.Next(), B: body, Ref: a.ref, pktID: r.PktID(), ev: a.in.EV,
		flags: uint8(r.Flags() & wire.RUDIRETX)}
	if a.ce() {
		m.req.flags |= uint8(wire.RUDIM)
	}
	m.resp = Response{}
	if code := m.up.Request(now, &m.req, &m.resp); code != 0 {
		m.nackRUDI(code, a, r)
		return
	}
	m.C[DataRx]++
	m.C[DataRxBytes] += uint64(m.resp.Bytes)
	if !m.resp.Later {
		m.respondRUDI(a.src, r.PktID(), a.in.EV, m.req.flags, &m.resp)
	}
}

func (m *Manager) respondRUDI(peer netip.Addr, id uint32, ev uint16, flags uint8, resp *Response) {
	if c := m.pushCtl(wire.TypeRUDIResp, peer, ev); c != nil {
		c.psn, c.flags, c.resp = wire.PSN(id), flags, *resp
	}
}

func (m *Manager) nackRUDI(code wire.NackCode, a *arrival, r wire.RUDI) {
	if c := m.nack(code, a, wire.PSN(r.PktID()), 0, r.Flags()&wire.RUDIRETX != 0, nil); c != nil {
		c.flags |= uint8(wire.NackNT)
	}
}

// rudiFor finds the packet that a peer speaks of.
func (m *Manager) rudiFor(id uint32, src netip.Addr) *rudiPkt {
	if x := m.rudi.out[id]; x != nil && x.k.msg.Peer == src {
		return x
	}
	m.C[RUDILate]++
	return nil
}

func (m *Manager) onRUDIResponse(now vt.Time, r wire.RUDI, resp []byte, src netip.Addr) {
	x := m.rudiFor(r.PktID(), src)
	if x == nil {
		return
	}
	m.C[RUDIRespRx]++
	msg, k := x.k.msg, x.k
	x.forget()
	if r.Next() != wire.NextNone && wire.RespHead(resp[:2]).Opcode() != wire.RespDefault {
		msg.S.Response(now, &k, r.Next(), resp)
	}
	msg.unacked--
	if msg.whole && msg.unacked == 0 && !msg.failed {
		msg.S.Done(now)
	}
	m.tellRUDI(now)
}

// tellRUDI tells SES when messages begin or cease to wait for room.
func (m *Manager) tellRUDI(now vt.Time) {
	if wait := m.rudi.full && len(m.rudi.msgs) > 0; wait != m.rudi.told {
		m.rudi.told = wait
		m.up.Pause(now, len(m.waiting) > 0, wait)
	}
}

// onRUDINack only makes a retransmission come sooner.
func (m *Manager) onRUDINack(now vt.Time, n wire.Nack, src netip.Addr) {
	x := m.rudiFor(n.PktID(), src)
	if x == nil {
		return
	}
	m.nacksRx[n.Code()]++
	k := &x.k
	switch act := nackActions[n.Code()]; {
	case isTrim(n.Code()):
		m.C[NackRxTrim]++
		k.cause = CauseTrim
		x.repeat()
		return
	case act == nackLater || act == nackNow:
		m.C[NackRxRes]++
		k.nacks++
		k.cause = CauseNack
		if limit := m.cfg.MaxNackRetx; limit != InfiniteNack && int(k.nacks) > limit {
			m.C[NackExhausted]++
			m.failRUDI(now, k.msg, n.Code())
			return
		}
		k.flags |= pktWait
		m.arm(&x.timer, now.Add(m.cfg.NackRetxTime))
	case act == nackClose:
		m.C[NackRxPDC]++
		m.failRUDI(now, k.msg, n.Code())
	default:
		m.C[NackRxOther]++
	}
}

// onUUD handles a UUD packet: SES takes it or it is gone.
func (m *Manager) onUUD(now vt.Time, a *arrival) {
	u, err := wire.ParseUUD(a.uet)
	if err != nil || !u.Next().IsRequest() || len(a.uet)-len(u) < u.Next().HeaderLen() {
		m.C[UUDDrop]++
		return
	}
	m.req = Request{Mode: UUD, Src: a.src, Next: u.Next(), B: a.uet[len(u):], Ref: a.ref, ev: a.in.EV}
	m.resp = Response{}
	if m.up.Request(now, &m.req, &m.resp) != 0 {
		m.C[UUDDrop]++
		return
	}
	m.C[UUDRx]++
}
