package lb

import (
	"math"

	"github.com/uetlab/uetlab/internal/vt"
)

// uccl keeps a round-trip time of every EV. Each chunk of a message takes the shorter of two at random; one that was never
// measured counts as shortest. A loss counts as a round trip as long as the timeout, else an EV that leads nowhere would keep
// the time that it had.
type uccl struct {
	set
	cur  uint16
	left int32    // bytes of the chunk that are still to leave
	run  int32    // bytes of small messages that took cur after each other
	rtt  []uint32 // ns, averaged with weight 1/8; 0: never measured
}

func (b *uccl) Next(_ vt.Time, p Packet) uint16 {
	o := &b.pool.p
	if p.Again { // not in its chunk's turn
		return b.choose()
	}
	switch small := p.Msg > 0 && p.Msg <= int64(o.SmallMsg); {
	case small && b.cur != 0 && int64(b.run)+p.Msg <= int64(o.SmallRun):
		b.run += int32(p.Msg)
		b.left = int32(o.Chunk)
	case small:
		b.begin()
		b.run = int32(p.Msg)
	case p.Msg > 0 || b.left <= 0:
		b.begin()
		b.run = 0
	}
	b.left -= int32(min(max(p.Size, 0), maxBytes))
	return b.cur
}

func (b *uccl) begin() {
	b.cur = b.choose()
	b.left = int32(b.pool.p.Chunk)
}

func (b *uccl) choose() uint16 {
	r := b.pool.rng.Uint32()
	i, j := uint16(r)&b.pool.mask, uint16(r>>16)&b.pool.mask
	if b.rtt[j] < b.rtt[i] {
		i = j
	}
	return b.ev(i)
}

func (b *uccl) Feedback(_ vt.Time, f Feedback) {
	sample := f.RTT
	if f.Kind == Timeout {
		sample = b.pool.rto
	}
	if sample <= 0 || !b.has(f.EV) {
		return
	}
	r := &b.rtt[f.EV&b.pool.mask]
	s := int64(min(sample, math.MaxUint32))
	if *r == 0 {
		*r = uint32(s)
		return
	}
	*r = uint32(max(int64(*r)+(s-int64(*r))/8, 1))
}

func (b *uccl) Look(v *View) {
	v.begin(UCCL)
	for i, r := range b.rtt {
		p := v.path(b.ev(uint16(i)))
		p.State, p.Score = StateClear, int64(r)
		if p.EV == b.cur {
			p.State = StateCurrent
		}
	}
}
