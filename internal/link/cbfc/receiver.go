package cbfc

import (
	"fmt"
	"math/bits"

	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// Receiver is the receiving side: it owns the room that credits stand for. Its channels are off until Enable; frames of
// channels that are off are not counted.
type Receiver struct {
	C *Counters

	cfg  Config
	cell Cell
	all  uint32 // lossless channels
	on   uint32
	ends uint32 // of those, channels that go off when their senders have drained them
	vc   [VCs]receiverVC
	held uint64 // taken on all channels: R_CC - R_CF

	dirty   uint32  // channels whose R_CF is to be told
	next    int     // the channel at which the next CF_Update begins to look
	last    vt.Time // of the last CF_Update, if sent
	sent    bool
	repeats int     // how often the counts are told once more
	again   vt.Time // when, if repeats > 0
}

type receiverVC struct {
	cc, cf uint32 // R_CC and R_CF
	old    uint32 // credits of frames that came in before the channel was disabled, and are still here
	peak   uint32
	behind uint32 // the last CC_Update's count, if it was behind cc
	isBack bool
}

// NewReceiver makes a receiver all of whose channels are off.
func NewReceiver(cfg Config, p *Profile) (*Receiver, error) {
	cfg.Fill()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("CBFC: %w", err)
	}
	r := &Receiver{C: new(Counters), cfg: cfg}
	return r, r.Attach(p)
}

// Cell says how frames are counted.
func (r *Receiver) Cell() Cell { return r.cell }

// Attach changes what the receiver announces; the size of a credit only while all channels are off.
func (r *Receiver) Attach(p *Profile) error {
	if err := CheckProfile(p, 0); err != nil {
		return fmt.Errorf("CBFC profile: %w", err)
	}
	if r.on != 0 && CellOf(p) != r.cell {
		return fmt.Errorf("CBFC profile: %w: the cell changes while channels are on: disable them first", ErrOrder)
	}
	r.cell, r.all = CellOf(p), p.Lossless
	return nil
}

// Disable turns channels off and clears their counts: the first step on the way up, and the last on the way down.
func (r *Receiver) Disable(vcs uint32) {
	for m := vcs; m != 0; m &= m - 1 {
		v := &r.vc[bits.TrailingZeros32(m)]
		r.held -= uint64(v.stored())
		*v = receiverVC{old: v.old + v.stored()}
	}
	r.on &^= vcs
	r.ends &^= vcs
	r.dirty &^= vcs
	if r.on == 0 {
		r.repeats, r.sent = 0, false
	}
}

// Enable turns channels on. Their counts are 0: it follows Disable.
func (r *Receiver) Enable(now vt.Time, vcs uint32) {
	r.on |= vcs
	if r.cfg.Steady {
		r.stir(now)
	}
}

// Close says that the sender has been told to remove channels: they go off when it says that it has, see Sender.Drained.
func (r *Receiver) Close(vcs uint32) { r.ends |= vcs & r.on }

// Lossless is the set of channels, by bit, that the profile has credits for.
func (r *Receiver) Lossless() uint32 { return r.all }

// On is the set of channels, by bit, that are on.
func (r *Receiver) On() uint32 { return r.on }

func (v *receiverVC) stored() uint32 { return (v.cc - v.cf) & countMask }

// Stored counts a good frame that was taken into the buffer. Frames with a wrong FCS are not told.
func (r *Receiver) Stored(now vt.Time, vc int, credits uint32) {
	if r.on&mask(vc) == 0 {
		return
	}
	v := &r.vc[vc]
	v.cc = (v.cc + credits) & countMask
	v.peak = max(v.peak, v.stored())
	r.held += uint64(credits)
	r.C[HeldPeak] = max(r.C[HeldPeak], r.held)
	r.stir(now)
}

// Freed counts a frame that has left the buffer, or whose place in it is free again for whatever reason.
func (r *Receiver) Freed(now vt.Time, vc int, credits uint32) {
	if uint(vc) >= VCs {
		return
	}
	v := &r.vc[vc]
	was := min(v.old, credits) // frames leave in order: those of before first
	v.old -= was
	credits = min(credits-was, v.stored()) // one that came in while the channel was off was not counted
	if credits == 0 || r.on&mask(vc) == 0 {
		return
	}
	v.cf = (v.cf + credits) & countMask
	r.held -= uint64(credits)
	r.dirty |= mask(vc)
}

// Dropped counts a good frame that goes no further: no route, hop limit used up.
func (r *Receiver) Dropped(now vt.Time, vc int, credits uint32) {
	r.Stored(now, vc, credits)
	if r.on&mask(vc) != 0 {
		v := &r.vc[vc]
		v.cf = (v.cf + credits) & countMask
		r.held -= uint64(credits)
		r.dirty |= mask(vc)
	}
}

// CCUpdate takes a MAC control frame that is no PAUSE, from its opcode on, of whatever bytes: it counts what it cannot use.
func (r *Receiver) CCUpdate(now vt.Time, body []byte) {
	c, err := wire.ParseCCUpdate(body)
	switch {
	case err != nil && wire.IsMACControlExtension(body):
		r.C[CCShort]++
		return
	case err != nil:
		r.C[CCBadOpcode]++
		return
	case c.CID() != wire.UECID:
		r.C[CCBadCID]++
		return
	case c.Validate() != nil:
		r.C[CCBadType]++
		return
	}
	r.C[CCRx]++
	first := int(c.FirstVC())
	for i := range wire.CCCounters {
		if r.on&mask(first+i) != 0 {
			r.consumed(first+i, c.Count(i))
		}
	}
	r.stir(now)
}

// consumed takes what the sender says to have consumed. What it is ahead was lost. A count that is behind is late, usually;
// but a line that doubles frames, or lets them be overtaken by a CC_Update, brings more frames than were sent and not yet
// given up as lost. When the next CC_Update, no older than that one, is behind too, the surplus is taken back.
func (r *Receiver) consumed(vc int, count uint32) {
	v := &r.vc[vc]
	switch d := (count - v.cc) & countMask; {
	case r.ends&mask(vc) != 0 && d >= farewell/2 && d < farewell/2*3:
		r.Disable(mask(vc))
	case d == 0:
		v.isBack = false
	case d < stale:
		v.cc = count
		v.cf = (v.cf + d) & countMask
		v.isBack = false
		r.C[LeakCredits] += uint64(d)
		r.dirty |= mask(vc)
	default:
		r.C[CCStale]++
		if again := v.isBack && (count-v.behind)&countMask < stale; !again {
			v.behind, v.isBack = count, true
			return
		}
		d = (v.cc - count) & countMask
		v.cc = count
		v.cf = (v.cf - d) & countMask
		v.isBack = false
		r.C[BackCredits] += uint64(d)
		r.dirty |= mask(vc)
	}
}

// stir begins the repeats anew: something has come in.
func (r *Receiver) stir(now vt.Time) {
	if r.on == 0 {
		return
	}
	if r.repeats == 0 {
		r.again = now.Add(r.cfg.lineTime(r.cfg.CFMax))
	}
	r.repeats = r.cfg.Repeats
}

// Deadline is when CFUpdate has something to write next, vt.Never if nothing.
func (r *Receiver) Deadline(now vt.Time) vt.Time {
	at := now
	switch {
	case r.dirty != 0:
	case r.repeats > 0:
		at = r.again
	default:
		return vt.Never
	}
	if r.sent {
		at = max(at, r.last.Add(r.cfg.lineTime(r.cfg.CFMin)))
	}
	return max(now, at)
}

// CFUpdate appends a CF_Update to dst if one is due at now: one ordered set, for the channels that have waited longest.
func (r *Receiver) CFUpdate(now vt.Time, dst []byte) ([]byte, bool) {
	if r.Deadline(now) > now {
		return dst, false
	}
	if r.repeats > 0 && r.again <= now {
		r.dirty |= r.on
		r.again = now.Add(r.cfg.lineTime(r.cfg.CFMax))
		if !r.cfg.Steady {
			r.repeats--
		}
	}
	if r.dirty == 0 {
		return dst, false
	}
	first := r.entry()
	second := first
	if r.dirty != 0 {
		second = r.entry()
	}
	r.last, r.sent = now, true
	r.C[CFTx]++
	return wire.AppendCFUpdate(dst, first, second), true
}

// entry takes the next channel that is to be told.
func (r *Receiver) entry() wire.CFEntry {
	vc := r.next + bits.TrailingZeros32(bits.RotateLeft32(r.dirty, -r.next))
	vc %= VCs
	r.dirty &^= mask(vc)
	r.next = (vc + 1) % VCs
	return wire.CFEntry{VC: uint8(vc), Count: uint16(r.vc[vc].cf & cfMask)}
}

// Held is how many credits are taken by frames in the buffer, on all channels.
func (r *Receiver) Held() uint64 { return r.held }

// VC tells of a channel. What came in before it was disabled is left aside.
func (r *Receiver) VC(vc int) VCStats {
	v := &r.vc[vc]
	return VCStats{Consumed: v.cc, Freed: v.cf, Used: v.stored(), Peak: v.peak}
}

// Stays is how many credits of frames are stored that came in while a channel was on, or before it was disabled.
func (r *Receiver) Stays(vc int) uint32 { return r.vc[vc].stored() + r.vc[vc].old }
