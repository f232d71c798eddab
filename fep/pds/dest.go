package pds

import (
	"math/bits"

	"github.com/uetlab/uetlab/fep/cms"
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
	resp Response
}

// maps are the bitmaps of a dest, all of one size.
type maps struct {
	log  int
	got  bitmap
	gtd  bitmap // received, response kept until cleared
	ar   bitmap // asked for an ACK above a gap, which is due again when the gap closes
	late bitmap // SES has not answered yet
}

// mapPool keeps empty bitmaps by the logarithm of their words.
type mapPool struct{ free [20][]*maps }

func (p *mapPool) get(log int) *maps {
	if l := p.free[log]; len(l) > 0 {
		b := l[len(l)-1]
		p.free[log] = l[:len(l)-1]
		return b
	}
	n := 1 << log
	w := make(bitmap, 4*n)
	return &maps{log, w[:n:n], w[n : 2*n : 2*n], w[2*n : 3*n : 3*n], w[3*n:]}
}

// put takes bitmaps back and empties them.
func (p *mapPool) put(b *maps) {
	clear(b.got)
	clear(b.gtd)
	clear(b.ar)
	clear(b.late)
	p.free[b.log] = append(p.free[b.log], b)
}

// dest is the receiving half of a PDC (uet-pds-ses.md 5, 6, 20.1). While nothing is out of order, uncleared or unanswered
// it has no bitmaps.
type dest struct {
	start wire.PSN
	base  wire.PSN // CACK + 1
	edge  wire.PSN // first PSN not received: base, unless base waits for CLEAR or for SES
	maxRx wire.PSN // highest PSN received
	clear wire.PSN // latest CLEAR_PSN
	limit wire.PSN // highest PSN that an announced MP_RANGE allowed

	*maps          // nil if all are empty
	kept  []stored // of the PSNs in gtd

	genCount int      // bytes since the latest ACK
	ackPSN   wire.PSN // latest accepted since then
	ackEV    uint16
	ce       bool    // one of them had CE, and that is passed on
	needAck  bool    // a gap closed below a packet that wanted an ACK
	clearTry uint8   // Clear Requests since the latest CLEAR
	pend     uint8   // rcv_cwnd_pend: penalty on the source's window
	penal    bool    // there is one, or was: once it has ended all ACKs say so, since some may be lost and a window is given back only once
	arrived  vt.Time // of ackPSN
	firstDue vt.Time // when the oldest of them must be acknowledged
	clearDue vt.Time // when the next Clear Request is due
	sig      csig
	nLate    int32  // bits in late
	ooo      int32  // PSNs received above edge
	rcvd     uint64 // nominal bytes of new data packets

	cnp cms.CNP // notifications of DCQCN

	oorUntil  vt.Time  // no further PSN_OOR_WINDOW before
	gapUntil  vt.Time  // no further ROD_OOO for gapPSN before
	gapPSN    wire.PSN // edge of the latest ROD_OOO or RCVR_INFER_LOSS
	gapNacked bool
}

func (d *dest) init(start wire.PSN, mpr uint8) {
	d.start, d.base, d.edge, d.maxRx, d.clear = start, start, start, start-1, start-1
	d.limit = start.Add(mpRange(mpr) - 1)
}

// need makes bitmaps that reach to psn and 64 beyond, so that a SACK word above the window reads zeros.
func (d *dest) need(m *Manager, psn wire.PSN) {
	span := int(max(psn.Diff(d.base), d.maxRx.Diff(d.base))) + 2*64
	old := d.maps
	if old != nil && len(old.got)*64 >= span {
		return
	}
	d.maps = m.maps.get(max(2, bits.Len(uint((span-1)/64))))
	if old == nil {
		return
	}
	for q := d.base; !q.After(d.maxRx); q++ {
		for i, b := range [...]bitmap{old.got, old.gtd, old.ar, old.late} {
			if b.has(q) {
				[...]bitmap{d.got, d.gtd, d.ar, d.late}[i].set(q)
			}
		}
	}
	m.maps.put(old)
}

// drop gives the bitmaps back.
func (d *dest) drop(m *Manager) {
	if d.maps != nil {
		m.maps.put(d.maps)
		d.maps = nil
	}
}

// received says whether the PSN has come, as far as it is still known.
func (d *dest) received(psn wire.PSN) bool {
	off := psn.Diff(d.base)
	return off < 0 && off >= -maxAge || off >= 0 && !psn.After(d.maxRx) && d.maps != nil && d.got.has(psn)
}

// Where a PSN lies.
type place uint8

const (
	placeNew place = iota
	placeDup
	placeOut
)

// classify finds out whether a PSN is new, a duplicate, or out of range (uet-pds-ses.md 5.4).
func (d *dest) classify(psn wire.PSN, mpr uint8) place {
	span := mpRange(mpr)
	off := psn.Diff(d.base)
	switch {
	case off >= max(span, d.limit.Diff(d.base)+1) || off < -span:
		return placeOut
	case off < 0 || !psn.After(d.maxRx) && d.maps != nil && d.got.has(psn):
		return placeDup
	}
	return placeNew
}

// mark notes psn as received and moves edge and base as far as they go.
func (d *dest) mark(m *Manager, psn wire.PSN, ar, gtd, late bool) {
	if psn == d.edge && psn == d.base && d.maps == nil && !gtd && !late {
		d.base, d.edge, d.maxRx = psn+1, psn+1, psn // the usual case
		return
	}
	d.need(m, psn)
	if psn.After(d.maxRx) {
		d.maxRx = psn
	}
	d.got.set(psn)
	if gtd {
		d.gtd.set(psn)
	}
	if late {
		d.late.set(psn)
		d.nLate++
	}
	if psn != d.edge {
		if ar {
			d.ar.set(psn)
		}
		d.ooo++
		return
	}
	d.edge++
	for !d.edge.After(d.maxRx) && d.got.has(d.edge) {
		if d.ar.has(d.edge) {
			d.ar.unset(d.edge)
			d.needAck = true
		}
		d.edge++
		d.ooo--
	}
	d.advance(m)
}

// advance moves CACK over what is received and answered and needs no clearing any more.
func (d *dest) advance(m *Manager) {
	if d.maps == nil {
		return
	}
	for d.base != d.edge && !d.late.has(d.base) && (!d.gtd.has(d.base) || !d.base.After(d.clear)) {
		d.got.unset(d.base)
		d.gtd.unset(d.base)
		d.base++
	}
	if d.base == d.maxRx+1 {
		d.drop(m)
	}
}

// blocks says whether a packet is the gap below a stored response: CLEAR reaches that, and its slot becomes free, only when the
// gap is filled. So it is let in even when all slots are taken.
func (p *PDC) blocks(psn wire.PSN) bool {
	if psn != p.d.edge {
		return false
	}
	for i := range p.d.kept {
		if p.d.kept[i].psn.After(psn) {
			return true
		}
	}
	return false
}

// shuts says whether a packet is the gap that keeps the source from sending on: everything that MP_RANGE allows beyond it has come.
func (p *PDC) shuts(psn wire.PSN) bool {
	return psn == p.d.edge && p.mode == RUD && !p.d.maxRx.Before(p.d.limit)
}

// onClear takes the peer's CLEAR_PSN and drops the responses that it covers.
func (p *PDC) onClear(c wire.PSN) {
	d := &p.d
	if !c.After(d.clear) || c.After(d.maxRx) {
		return
	}
	d.clear, d.clearTry = c, 0
	if len(d.kept) > 0 {
		kept := d.kept[:0]
		for _, k := range d.kept {
			if k.psn.After(c) {
				kept = append(kept, k)
			} else {
				p.m.C[GtdInUse]--
			}
		}
		clear(d.kept[len(kept):])
		if d.kept = kept; len(kept) == 0 {
			d.kept = nil
		}
	}
	d.advance(p.m)
}

func (p *PDC) dropStored() {
	p.m.C[GtdInUse] -= uint64(len(p.d.kept))
	p.d.kept = nil
}

// keep stores a response until it is cleared.
func (p *PDC) keep(now vt.Time, psn wire.PSN, r *Response) {
	d := &p.d
	d.kept = append(d.kept, stored{psn, *r})
	p.m.C[GtdInUse]++
	if len(d.kept) == 1 || d.clearDue < now {
		d.clearDue = now.Add(p.m.cfg.ClearTime)
	}
	p.arm(&p.ackT, d.clearDue)
}

// onAckTimer acknowledges what has waited for too long, and asks for CLEAR while responses are kept, a few times.
func (p *PDC) onAckTimer(now vt.Time) {
	d, c := &p.d, &p.m.cfg
	if p.state == Linger || p.state == Pending || p.state == Closed {
		return
	}
	if d.genCount > 0 && c.MaxAckDelay > 0 {
		if d.firstDue > now {
			p.arm(&p.ackT, d.firstDue)
		} else {
			p.ackAll(now)
		}
	}
	if len(d.kept) == 0 || int(d.clearTry) >= c.MaxRTORetx {
		return
	}
	if d.clearDue <= now {
		d.clearTry++
		high := d.kept[0].psn
		for _, k := range d.kept {
			if k.psn.After(high) {
				high = k.psn
			}
		}
		p.control(wire.CtlClearRequest, 0, 0, uint32(high))
		d.clearDue = now.Add(c.ClearTime)
	}
	p.arm(&p.ackT, d.clearDue)
}
