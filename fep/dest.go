package fep

import (
	"net/netip"

	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// bitmap holds one bit for each PSN of a ring of 2^n places.
type bitmap []uint64

func (b bitmap) has(p wire.PSN) bool {
	i := uint32(p) & uint32(len(b)*64-1)
	return b[i>>6]>>(i&63)&1 != 0
}
func (b bitmap) set(p wire.PSN)   { i := uint32(p) & uint32(len(b)*64-1); b[i>>6] |= 1 << (i & 63) }
func (b bitmap) unset(p wire.PSN) { i := uint32(p) & uint32(len(b)*64-1); b[i>>6] &^= 1 << (i & 63) }

// word returns the bits of p .. p+63, p lowest.
func (b bitmap) word(p wire.PSN) uint64 {
	i := uint32(p) & uint32(len(b)*64-1)
	w := b[i>>6] >> (i & 63)
	if i&63 != 0 {
		w |= b[(i>>6+1)&uint32(len(b)-1)] << (64 - i&63)
	}
	return w
}

// stored is a response that must not be lost, kept until its PSN is cleared.
type stored struct {
	psn  wire.PSN
	resp response
}

// dest is the receiving half of a PDC direction (uet-pds-ses.md 5, 6, 20.1). The rings are twice MP_RANGE, so that a SACK
// bitmap that reaches beyond the window reads zeros there.
type dest struct {
	start wire.PSN
	base  wire.PSN // CACK + 1
	edge  wire.PSN // first PSN not received: base, unless base waits for CLEAR
	maxRx wire.PSN // highest PSN received
	clear wire.PSN // latest CLEAR_PSN
	got   bitmap
	gtd   bitmap   // received, response kept until cleared
	ar    bitmap   // asked for an ACK above a gap, which is due again when the gap closes
	kept  []stored // of the PSNs in gtd

	genCount int      // bytes since the latest ACK
	ackPSN   wire.PSN // latest accepted since then
	ackEV    uint16
	arrived  vt.Time // of ackPSN
	firstDue vt.Time // when the oldest of them must be acknowledged
	ce       bool    // one of them had CE
	sig      csig
	needAck  bool   // a gap closed below a packet that wanted an ACK
	rcvd     uint64 // nominal bytes of new data packets
	ooo      int    // PSNs received above edge

	oorUntil vt.Time // no further PSN_OOR_WINDOW before
	clearTry int     // Clear Requests since the latest CLEAR

	msgs []*rxMsg // messages that have begun
}

func (d *dest) init(start wire.PSN, mpr uint8) {
	words := 4
	for int32(words*64) < 2*mpRange(mpr) {
		words *= 2
	}
	d.start, d.base, d.edge, d.maxRx, d.clear = start, start, start, start-1, start-1
	d.got, d.gtd, d.ar = make(bitmap, words), make(bitmap, words), make(bitmap, words)
}

// arrival is a packet being handled; it points into a frame that lives until the handling ends.
type arrival struct {
	in   *wire.Inbound
	uet  []byte // PDS header .. payload
	ref  []byte // the payload, where it has come by reference
	src  netip.Addr
	size int // nominal
}

// nack queues a NACK for the packet; p is nil if there is no PDC.
func (f *FEP) nack(code wire.NackCode, a *arrival, r wire.Request, p *pdc) {
	c := f.ctl.push()
	if c == nil {
		f.C[CtlOverflow]++
		return
	}
	c.kind, c.code, c.peer, c.psn, c.ev = wire.TypeNack, code, a.src, r.PSN(), a.in.EV
	c.dpdcid = r.SPDCID()
	if p != nil {
		c.spdcid = p.id
	}
	if a.in.ECN == wire.ECNCE {
		c.flags |= uint8(wire.NackM)
	}
	if r.RETX() {
		c.flags |= uint8(wire.NackRETX)
	}
}

// onRequest handles a RUD or ROD Request.
func (f *FEP) onRequest(now vt.Time, a *arrival) {
	r, err := wire.ParseRequest(a.uet)
	if err != nil || r.SPDCID() == 0 {
		f.C[Malformed]++
		return
	}
	p := f.target(now, a, r)
	if p == nil {
		return
	}
	p.lastUse = now
	switch {
	case p.state == Linger:
		f.nack(wire.NackClosing, a, r, p)
		return
	case r.Type().IsROD():
		f.nack(wire.NackPDCModeMismatch, a, r, p)
		return
	case !r.Next().IsRequest():
		f.nack(wire.NackPDCHdrMismatch, a, r, p)
		return
	}
	p.onClear(r.ClearPSN())
	p.receive(now, a, r)
}

// target finds the PDC of a request, or opens it (uet-pds-ses.md 4.1). It answers and returns nil if it cannot.
func (f *FEP) target(now vt.Time, a *arrival, r wire.Request) *pdc {
	if !r.SYN() {
		p := f.pdcs.get(r.DPDCID())
		switch {
		case p == nil || p.peer != a.src || p.peerID != r.SPDCID():
			f.C[UnknownPDCID]++
			f.nack(wire.NackInvDPDCID, a, r, nil)
			return nil
		case p.initiator:
			f.nack(wire.NackPDCHdrMismatch, a, r, p) // we read nothing, so nothing can come back
			return nil
		}
		return p
	}
	if p := f.bySYN[synKey{a.src, r.SPDCID()}]; p != nil {
		if p.d.start != r.StartPSN() {
			f.nack(wire.NackInvalidSYN, a, r, p)
			return nil
		}
		return p
	}
	return f.openTarget(now, a, r)
}

// openTarget makes a PDC for a SYN of an unknown initiator, whichever packet of the burst it is.
func (f *FEP) openTarget(now vt.Time, a *arrival, r wire.Request) *pdc {
	code := wire.NackCode(0)
	switch {
	case r.Type().IsROD():
		code = wire.NackUnexpEvent // ordered PDCs are not built
	case !r.Next().IsRequest():
		code = wire.NackPDCHdrMismatch
	}
	if code != 0 {
		f.nack(code, a, r, nil)
		return nil
	}
	p := f.newPDC(now, a.src, false)
	if p == nil && f.reclaim() {
		p = f.newPDC(now, a.src, false)
	}
	if p == nil {
		f.nack(wire.NackNoPDCAvail, a, r, nil)
		return nil
	}
	p.peerID, p.state = r.SPDCID(), Established
	p.d.init(r.StartPSN(), f.cfg.MPR)
	f.bySYN[synKey{a.src, r.SPDCID()}] = p
	p.arm(timerIdle, now.Add(f.cfg.TargetIdle))
	return p
}

// reclaim ends the hold time of the PDC that has lingered for longest, if there is one.
func (f *FEP) reclaim() bool {
	var best *pdc
	for _, p := range f.pdcs.slots {
		if p != nil && p.state == Linger && (best == nil || p.lastUse < best.lastUse) {
			best = p
		}
	}
	if best != nil {
		best.free(PDCClosed)
	}
	return best != nil
}

// receive runs a request through window, duplicate check and SES, and decides about the ACK.
func (p *pdc) receive(now vt.Time, a *arrival, r wire.Request) {
	f, d := p.f, &p.d
	psn := r.PSN()
	span := mpRange(f.cfg.MPR)
	off := psn.Diff(d.base)
	switch {
	case off < -span || off >= span:
		p.outOfRange(now, a, r)
		return
	case off < 0 || d.got.has(psn):
		f.C[DupRx]++
		p.ackDuplicate(now, a.in.EV, a.in.ECN == wire.ECNCE, r.RETX(), psn)
		return
	}
	req, payload, ok := parseSES(r.Next(), a.uet[len(r):], a.ref)
	if !ok {
		f.C[Malformed]++
		return
	}
	if f.C[GtdInUse] >= uint64(f.cfg.GtdSlots) {
		f.nack(wire.NackNoGtdDelAvail, a, r, p)
		return
	}
	resp := f.deliver(now, p, r.Next(), req, payload)
	p.accept(now, a, r, len(payload), resp)
}

func (p *pdc) outOfRange(now vt.Time, a *arrival, r wire.Request) {
	code := wire.NackPSNOORWindow
	if r.SYN() {
		code = wire.NackInvalidSYN
	} else if now < p.d.oorUntil {
		return
	}
	p.d.oorUntil = now.Add(p.f.cfg.RTOInit / 4)
	p.f.nack(code, a, r, p)
}

// accept marks a new packet as received and acknowledges it now or later (uet-pds-ses.md 5.7).
func (p *pdc) accept(now vt.Time, a *arrival, r wire.Request, n int, resp response) {
	f, d := p.f, &p.d
	psn := r.PSN()
	f.C[DataRx]++
	f.C[DataRxBytes] += uint64(n)
	if f.sig.seen {
		d.sig = f.sig
	}
	d.rcvd += uint64(a.size)
	ce := a.in.ECN == wire.ECNCE
	if ce {
		f.C[CEMarked]++
		d.ce = true
	}
	if psn.After(d.maxRx) {
		d.maxRx = psn
	}
	if r.AR() && psn != d.edge {
		d.ar.set(psn)
	}
	if resp.gtd {
		d.gtd.set(psn)
		d.kept = append(d.kept, stored{psn, resp})
		f.C[GtdInUse]++
		p.arm(timerClear, now.Add(f.cfg.ClearTime))
	}
	d.mark(psn)
	if d.genCount == 0 {
		d.firstDue = now.Add(f.cfg.MaxAckDelay)
	}
	d.genCount += max(n, f.cfg.AckGenMinAdd)
	d.ackPSN, d.ackEV, d.arrived = psn, a.in.EV, now
	if resp.gtd || r.AR() || r.SYN() || r.RETX() || ce || d.needAck || d.genCount >= f.cfg.AckGenTrigger {
		p.ack(now, a.in.EV, r.RETX(), psn, resp)
		return
	}
	p.arm(timerAck, d.firstDue)
}

// mark notes psn as received and moves edge and base as far as they go.
func (d *dest) mark(psn wire.PSN) {
	d.got.set(psn)
	if psn != d.edge {
		d.ooo++
		return
	}
	d.edge++
	for d.got.has(d.edge) && !d.edge.After(d.maxRx) {
		if d.ar.has(d.edge) {
			d.ar.unset(d.edge)
			d.needAck = true
		}
		d.edge++
		d.ooo--
	}
	d.advance()
}

// advance moves CACK over what is received and needs no clearing any more.
func (d *dest) advance() {
	for d.base != d.edge && (!d.gtd.has(d.base) || !d.base.After(d.clear)) {
		d.got.unset(d.base)
		d.gtd.unset(d.base)
		d.base++
	}
}

// onClear takes the initiator's CLEAR_PSN and drops the responses that it covers.
func (p *pdc) onClear(c wire.PSN) {
	d := &p.d
	if !c.After(d.clear) || c.After(d.maxRx) {
		return
	}
	d.clear, d.clearTry = c, 0
	kept := d.kept[:0]
	for _, k := range d.kept {
		if k.psn.After(c) {
			kept = append(kept, k)
		} else {
			p.f.C[GtdInUse]--
		}
	}
	d.kept = kept
	d.advance()
}

func (p *pdc) dropStored() {
	p.f.C[GtdInUse] -= uint64(len(p.d.kept))
	p.d.kept = nil
}

// onClearTime asks for CLEAR while responses are kept, a few times.
func (p *pdc) onClearTime(now vt.Time) {
	d := &p.d
	if len(d.kept) == 0 || p.state != Established || d.clearTry >= p.f.cfg.MaxRTORetx {
		return
	}
	d.clearTry++
	high := d.kept[0].psn
	for _, k := range d.kept {
		if k.psn.After(high) {
			high = k.psn
		}
	}
	if c := p.f.ctl.push(); c != nil {
		c.kind, c.ctl, c.payload = wire.TypeCtrl, wire.CtlClearRequest, uint32(high)
		c.peer, c.spdcid, c.dpdcid, c.ev = p.peer, p.id, p.peerID, d.ackEV
	}
	p.arm(timerClear, now.Add(p.f.cfg.ClearTime))
}

// onAckDelay acknowledges what has waited for too long.
func (p *pdc) onAckDelay(now vt.Time) {
	d := &p.d
	switch {
	case p.state != Established || d.genCount == 0:
	case d.firstDue > now:
		p.arm(timerAck, d.firstDue)
	default:
		p.ack(now, d.ackEV, false, d.ackPSN, response{op: wire.RespDefault, rc: wire.RCOK, job: p.job})
	}
}
