package link

import (
	"encoding/binary"

	"github.com/uetlab/uetlab/internal/link/llr"
	"github.com/uetlab/uetlab/wire"
)

// fate draws what happens to a frame on a line with impairments. What damage does comes first; in which order frames were counted, and what
// they are, is told by how they left.
func (p *Port) fate(f *Frame) fate {
	if !p.dmg.harm.on {
		return p.dmg.next(&p.imp, f)
	}
	if f.kind == kindSets {
		x := p.dmg.next(&p.imp, f)
		p.loseSets(f, &x)
		return x
	}
	h := &p.dmg.harm
	n, replay := p.ordinal(f)
	update := isCCUpdate(f.B)
	x := p.dmg.next(&p.imp, f)
	if update && h.hit(harmCC, p.imp.CCLoss) {
		x.lose(DropCC)
	}
	if c := &p.imp.Corrupt; h.hit(harmCorrupt, c.Share) {
		p.dmg.corrupt(f, c.Region, c.Bits, harmCorrupt)
	}
	if h.hit(harmPoison, p.imp.Poison) {
		f.poison()
	}
	for _, e := range p.imp.Exact {
		if e.Replay == replay && n > 0 && n >= e.First && n <= e.Last {
			p.dmg.do(e.Do, f, &x)
		}
	}
	return x
}

// lose has a frame lost for a reason, unless there is one already.
func (x *fate) lose(why Counter) {
	if !x.lost {
		x.lost, x.why = true, why
	}
}

// ordinal counts a frame for the hits: its number, or 0 if it is none that counts.
func (p *Port) ordinal(f *Frame) (n uint32, replay bool) {
	which := 0
	switch {
	case f.LLR>>28 == wire.LLREligible:
		if replay = uint8(f.LLR>>20)&wire.LLRFlagReplay != 0; replay {
			which = 1
		}
	case p.LLR() != nil || f.what() != kindData:
		return 0, false
	}
	p.dmg.harm.seen[which]++
	return p.dmg.harm.seen[which], replay
}

// do does what a hit says.
func (d *damage) do(what Deed, f *Frame, x *fate) {
	switch what {
	case DoDrop:
		x.lose(DropExact)
	case DoCorrupt:
		d.corrupt(f, "", 1, harmExact)
	case DoCorruptHeader:
		d.corrupt(f, RegionHeader, 1, harmExact)
	case DoCorruptPayload:
		d.corrupt(f, RegionPayload, 1, harmExact)
	case DoCorruptLLR:
		d.corrupt(f, RegionLLR, 1, harmExact)
	case DoCorruptFCS:
		d.corrupt(f, RegionFCS, 1, harmExact)
	case DoPoison:
		f.poison()
	case DoDuplicate:
		x.twice = true
	case DoSeqSkip:
		f.renumber(1)
	case DoSeqDup:
		f.renumber(llr.SeqMask) // one less
	}
}

// renumber adds to the number of a frame that has one.
func (f *Frame) renumber(by uint32) {
	if f.LLR != 0 {
		f.LLR = f.LLR&^llr.SeqMask | (f.LLR+by)&llr.SeqMask
	}
}

// poison marks a frame's FCS as that of one which was broken before this link (uet-link-switch.md 2.11).
func (f *Frame) poison() {
	f.Fill()
	f.FCS, f.Damaged = wire.FCS(f.B)^poison, true
}

// corrupt turns bits of a region that stand beside each other, from a drawn one on.
func (d *damage) corrupt(f *Frame, region Region, n int, k harmKind) {
	first, length := region.bits(f.B)
	at := d.harm.below(k, length)
	for i := range int64(max(n, 1)) {
		d.turn(f, first+(at+i)%length)
	}
}

// bits gives a region's first bit, as turn numbers them, and their number.
func (r Region) bits(b []byte) (first, n int64) {
	end, head := int64(8*len(b)), int64(8*headers(b))
	switch {
	case r == RegionLLR:
		return -preambleBits, preambleBits
	case r == RegionFCS:
		return end, 8 * fcsLen
	case r == RegionHeader && head > 0:
		return 0, head
	case r == RegionPayload && head < end:
		return head, end - head
	}
	return 0, end + 8*fcsLen
}

// headers is how many bytes of a frame are headers, up to UDP's.
func headers(b []byte) int {
	const udp, udpLen = 17, 8
	n := wire.EthLen
	if len(b) < n+wire.CSIGWideLen+wire.IPv4Len {
		return min(n, len(b))
	}
	switch wire.EtherType(binary.BigEndian.Uint16(b[12:])) {
	case wire.EtherCSIG:
		n += wire.CSIGCompactLen
	case wire.EtherCSIGWide:
		n += wire.CSIGWideLen
	}
	next := byte(0)
	switch wire.EtherType(binary.BigEndian.Uint16(b[n-2:])) {
	case wire.EtherIPv4:
		next, n = b[n+9], n+4*int(b[n]&15)
	case wire.EtherIPv6:
		next, n = b[n+6], n+wire.IPv6Len
	}
	if next == udp {
		n += udpLen
	}
	return min(n, len(b))
}

// loseSets takes ordered sets out of their frame. One that arrives broken loses all of them anyhow, and is left as it is.
func (p *Port) loseSets(f *Frame, x *fate) {
	l := &p.imp.SetLoss
	if l.Share == 0 {
		return
	}
	keep := wire.EthLen
	for i := wire.EthLen; i+wire.CtlOSLen <= len(f.B); i += wire.CtlOSLen {
		s := f.B[i : i+wire.CtlOSLen]
		if l.Kinds.has(wire.CtlOS(s).Type()) && p.dmg.harm.hit(harmSets, l.Share) && !f.Damaged && !x.lost {
			p.C[LostSets]++
			continue
		}
		copy(f.B[keep:], s)
		keep += wire.CtlOSLen
	}
	if f.B = f.B[:keep]; keep == wire.EthLen {
		x.lose(LostSets)
	}
}

// isCCUpdate says whether a frame is one of the MAC control extension frames by which CBFC tells what was used.
func isCCUpdate(b []byte) bool {
	return len(b) > wire.EthLen && wire.EtherType(binary.BigEndian.Uint16(b[12:])) == wire.EtherMACControl && wire.IsMACControlExtension(b[wire.EthLen:])
}
