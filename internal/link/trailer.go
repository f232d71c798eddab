package link

import (
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// Encode returns the frame with its link trailer (wire.AppendTrailer), which takes the room that B has for it, as it goes to another node.
// The frame is whole (Fill). Where unchecked is set nothing turns bits under way, and the FCS is left out.
func (f *Frame) Encode(unchecked bool) []byte {
	word, fcs := f.LLR, f.FCS
	switch {
	case f.Damaged:
	case unchecked:
		word, fcs = wire.LLRWord(wire.LLRNoFCS, 0, 0), 0
	default:
		fcs = wire.FCS(f.B)
	}
	b := wire.AppendTrailerFCS(f.B, int64(f.Due), word, fcs)
	if f.Flip > 0 {
		wire.TrailerOf(b).FlipLLR(int(f.Flip) - 1)
	}
	return b
}

// Decode has f, which is empty, be what another node has written: its port drops it if it is damaged, when its time has come. If it cannot
// be a frame, the reason is DropTrailer or, for one longer than those of the pool, DropPacket.
func (f *Frame) Decode(b []byte) (why Counter, ok bool) {
	t := wire.TrailerOf(b)
	flip := uint8(0)
	if !t.OK() {
		if flip = uint8(1 + t.Flipped()); flip == 0 {
			return DropTrailer, false
		}
	}
	n := len(b) - wire.TrailerLen
	if n > f.pool.size {
		return DropPacket, false
	}
	f.B = append(f.B, b[:n]...)
	f.Due, f.FCS, f.Damaged, f.Flip = vt.Time(t.Due()), t.FCS(), !wire.FCSOK(b), flip
	if t.LLR()>>28 == wire.LLREligible {
		f.LLR = t.LLR()
	}
	return 0, true
}
