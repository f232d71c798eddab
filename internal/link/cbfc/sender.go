package cbfc

import (
	"errors"
	"fmt"
	"math/bits"
	"time"

	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// ErrOrder is a step that is not next: see Sender and Receiver.
var ErrOrder = errors.New("step out of order")

// Sender is the sending side. A channel is best effort until it is brought up, in this order: the receiver disables it,
// Hold stops it and clears its counts, Attach sets the limits, the receiver enables it, Enable lets frames go. Of these,
// frames before Hold must have arrived when the receiver enables, and no frame may arrive before; a message behind them
// on the same line does it. Removal: Remove refuses new frames, those that wait still go, Drained makes the channel best
// effort and has some CC_Updates say so, at which the receiver, told of it by Close, disables it.
type Sender struct {
	C *Counters

	cfg   Config
	cell  Cell
	total bool // one limit for all
	whole bool // and no division
	limit uint32
	used  uint32 // S_CU of the port
	div   Division
	taken [MaxPools]uint32

	lossless           uint32 // what the receiver says
	held, on, draining uint32 // sets of channels, of which each is in one at most
	gone               uint32 // channels that were removed and are best effort now
	farewells          int    // how often CC_Updates say so once more
	blocked            uint32 // of those on or draining: a frame waits for credits
	vc                 [VCs]senderVC

	ccAt  vt.Time // when the next CC_Update is due
	ccFor uint8   // the halves of the channels that are due, by bit
	wdAt  vt.Time // when the first blocked channel has waited too long
}

type senderVC struct {
	cc, cf uint32 // S_CC and S_CF
	limit  uint32
	peak   uint32

	need  uint32        // what the frame that waits costs
	since vt.Time       // it waits since, where blocked
	heard vt.Time       // the last CF_Update since then, or since
	told  bool          // the watchdog has fired for this wait
	fired uint64        // how often it has
	waits time.Duration // how long frames have waited before
}

// NewSender makes a sender all of whose channels are best effort.
func NewSender(cfg Config) (*Sender, error) {
	cfg.Fill()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("CBFC: %w", err)
	}
	return &Sender{C: new(Counters), cfg: cfg, ccAt: vt.Never, wdAt: vt.Never}, nil
}

// Cell says how the receiver counts frames.
func (s *Sender) Cell() Cell { return s.cell }

func (v *senderVC) used() uint32 { return (v.cc - v.cf) & countMask }

// Hold stops channels and clears their counts, whatever their state: the first step on the way up. What the receiver holds of
// them is forgotten, so it must have cleared its counts too.
func (s *Sender) Hold(now vt.Time, vcs uint32) {
	for m := vcs; m != 0; m &= m - 1 {
		vc := bits.TrailingZeros32(m)
		s.unblock(now, vc)
		s.release(vc, s.vc[vc].used())
		s.vc[vc] = senderVC{waits: s.vc[vc].waits, fired: s.vc[vc].fired}
	}
	s.held |= vcs
	s.on &^= vcs
	s.draining &^= vcs
	s.gone &^= vcs
	s.settle(now)
}

// Attach sets what the receiver announced and how its total is divided, for frames of up to frame bytes; nil is no division.
// A channel that waits may be able to send then. Limits may change at any time; the size of a credit,
// the method, and whether a channel is lossless only while none of the channels that it concerns is on.
func (s *Sender) Attach(now vt.Time, p *Profile, d *Division, frame int) error {
	if err := CheckProfile(p, frame); err != nil {
		return fmt.Errorf("CBFC profile: %w", err)
	}
	total := p.Method == wire.CBFCTotal
	live := s.on | s.draining
	if live != 0 && (CellOf(p) != s.cell || total != s.total) || live&^p.Lossless != 0 {
		return fmt.Errorf("CBFC profile: %w: cell, method or lossless channels change while channels are on: hold them first", ErrOrder)
	}
	div := Division{}
	if d != nil {
		div = *d
	}
	whole, err := div.check(p.Total)
	if err != nil && total {
		return fmt.Errorf("CBFC division: %w", err)
	}
	s.cell, s.total, s.whole, s.lossless, s.limit, s.div = CellOf(p), total, whole, p.Lossless, p.Total, div
	for i := range s.vc {
		s.vc[i].limit = 0
	}
	for _, v := range p.VCs {
		s.vc[v.Index].limit = v.Limit
	}
	s.taken = [MaxPools]uint32{}
	for i := range s.vc {
		share := &s.div.VC[i]
		s.taken[share.Pool] += share.over(s.vc[i].used())
	}
	return nil
}

// Enable lets channels send that are held and lossless, their receiver being enabled; others that are held become best effort.
func (s *Sender) Enable(now vt.Time, vcs uint32) error {
	if vcs&^s.held != 0 || s.cell.Size == 0 {
		return fmt.Errorf("CBFC: enable channels %#x: %w: hold them and attach a profile first", vcs, ErrOrder)
	}
	s.held &^= vcs
	s.on |= vcs & s.lossless
	if s.cfg.Steady && s.on != 0 {
		s.arm(now)
	}
	return nil
}

// Release makes held channels best effort.
func (s *Sender) Release(vcs uint32) { s.held &^= vcs }

// Remove begins to take channels down: Accepts refuses new frames, what waits goes as credits allow.
func (s *Sender) Remove(vcs uint32) {
	s.draining |= vcs & s.on
	s.on &^= vcs
}

// Accepts says whether frames of a channel may be queued.
func (s *Sender) Accepts(vc int) bool { return s.draining&mask(vc) == 0 }

// Drained ends the removal of channels whose queues are empty: they are best effort now and their limits 0. The receiver reads it from CC_Updates, the first of
// which is due at once, behind the last frame that was paid for: half a turn of the counter is farther ahead than any channel that is on can be.
func (s *Sender) Drained(now vt.Time, vcs uint32) {
	vcs &= s.draining
	if vcs == 0 {
		return
	}
	was := s.vc
	s.Hold(now, vcs)
	s.held &^= vcs
	for m := vcs; m != 0; m &= m - 1 {
		vc := bits.TrailingZeros32(m)
		v := &s.vc[vc]
		v.cc = (was[vc].cc + farewell) & countMask
		v.cf, v.peak = v.cc, was[vc].peak
	}
	s.gone |= vcs
	s.farewells = farewells
	s.ccFor |= s.halves()
	s.arm(now)
}

// On is the set of channels, by bit, that need credits now.
func (s *Sender) On() uint32 { return s.on | s.draining }

// Draining is the set of channels, by bit, that are being removed.
func (s *Sender) Draining() uint32 { return s.draining }

// Blocked is the set of channels, by bit, in which a frame waits for credits.
func (s *Sender) Blocked() uint32 { return s.blocked }

// States of a channel.
const (
	Off      = "off" // best effort
	Held     = "held"
	On       = "on"
	Draining = "draining"
)

// State is the state of a channel.
func (s *Sender) State(vc int) string {
	switch bit := mask(vc); {
	case s.held&bit != 0:
		return Held
	case s.on&bit != 0:
		return On
	case s.draining&bit != 0:
		return Draining
	}
	return Off
}

// Ready says whether a frame of a channel, which costs so many credits, may be taken from its queue. If not, the channel
// waits from now on, until Consume, Idle, or credits for a frame that cheap.
func (s *Sender) Ready(now vt.Time, vc int, credits uint32) bool {
	bit := mask(vc)
	if (s.on|s.draining)&bit == 0 {
		return s.held&bit == 0
	}
	if s.fits(vc, credits) {
		if s.blocked&bit != 0 {
			s.unblock(now, vc)
		}
		return true
	}
	v := &s.vc[vc]
	if s.blocked&bit == 0 {
		s.blocked |= bit
		v.need, v.since, v.heard, v.told = credits, now, now, false
		s.wdAt = min(s.wdAt, now.Add(s.cfg.Watchdog))
	}
	v.need = min(v.need, credits)
	return false
}

// Room says whether a channel has credits for a frame that costs so many. It asks only: the channel does not wait for them.
func (s *Sender) Room(vc int, credits uint32) bool {
	bit := mask(vc)
	if (s.on|s.draining)&bit == 0 {
		return s.held&bit == 0
	}
	return s.fits(vc, credits)
}

func (s *Sender) fits(vc int, c uint32) bool {
	v := &s.vc[vc]
	use := v.used() + c
	if !s.total {
		return use <= v.limit
	}
	if use > MaxLimit || s.used+c > s.limit {
		return false
	}
	if s.whole {
		return true
	}
	share := &s.div.VC[vc]
	after := share.over(use)
	free := s.div.Pools[share.Pool] - min(s.taken[share.Pool], s.div.Pools[share.Pool])
	return share.allows(after-share.over(v.used()), after, free)
}

// Consume pays for a frame that Ready let go, when it is first sent. Whoever sends it again does not ask again.
func (s *Sender) Consume(now vt.Time, vc int, credits uint32) {
	if (s.on|s.draining)&mask(vc) == 0 {
		return
	}
	v, share := &s.vc[vc], &s.div.VC[vc]
	before := v.used()
	v.cc = (v.cc + credits) & countMask
	s.taken[share.Pool] += share.over(before+credits) - share.over(before)
	s.used += credits
	v.peak = max(v.peak, before+credits)
	s.C[Peak] = max(s.C[Peak], uint64(s.used))
	if s.ccAt == vt.Never {
		s.arm(now)
	}
}

// release gives credits of a channel back.
func (s *Sender) release(vc int, n uint32) {
	v, share := &s.vc[vc], &s.div.VC[vc]
	before := v.used()
	v.cf = (v.cf + n) & countMask
	s.taken[share.Pool] -= share.over(before) - share.over(before-n)
	s.used -= n
}

// Idle says that nothing of a channel waits any more, though nothing was sent: its queue was flushed.
func (s *Sender) Idle(now vt.Time, vc int) {
	if s.blocked&mask(vc) != 0 {
		s.unblock(now, vc)
	}
}

func (s *Sender) unblock(now vt.Time, vc int) {
	if s.blocked&mask(vc) == 0 {
		return
	}
	s.blocked &^= mask(vc)
	s.vc[vc].waits += now.Sub(s.vc[vc].since)
	if s.blocked == 0 {
		s.wdAt = vt.Never
	}
}

// CFUpdate takes an ordered set that was received, of whatever bytes, and says whether a channel that waited may send.
func (s *Sender) CFUpdate(now vt.Time, c wire.CtlOS) bool {
	if _, err := wire.ParseCtlOS(c); err != nil || c.Type() != wire.CtlOSCFUpdate {
		s.C[CFBad]++
		return false
	}
	s.C[CFRx]++
	a, b := c.CF()
	s.freed(now, a)
	if a != b {
		s.freed(now, b)
	}
	for m := s.blocked; m != 0; m &= m - 1 {
		if vc := bits.TrailingZeros32(m); s.fits(vc, s.vc[vc].need) {
			return true
		}
	}
	return false
}

func (s *Sender) freed(now vt.Time, e wire.CFEntry) {
	vc := int(e.VC)
	if (s.on|s.draining)&mask(vc) == 0 {
		if at := now.Add(s.cfg.CCEvery); s.gone&mask(vc) == 0 {
			s.C[CFOff]++
		} else if at < s.ccAt { // no farewell has been heard yet: once more
			s.farewells = min(s.farewells+1, farewells)
			s.ccAt = at
		}
		return
	}
	v := &s.vc[vc]
	v.heard = now
	d := (uint32(e.Count) - v.cf) & cfMask
	if d > v.used() {
		s.C[CFStale]++
		return
	}
	s.release(vc, d)
}

// Force has a CC_Update sent at once: after a link has come back, say, as the first frame.
func (s *Sender) Force(now vt.Time) {
	s.ccFor = s.halves()
	if s.on|s.draining != 0 { // farewells go on as they would
		s.arm(now)
	}
}

// halves are the halves of the channels in which some are on or have been, by bit.
func (s *Sender) halves() (h uint8) {
	live := s.on | s.draining | s.gone
	if live&0xFFFF != 0 {
		h |= 1
	}
	if live>>16 != 0 {
		h |= 2
	}
	return h
}

func (s *Sender) arm(now vt.Time) { s.ccAt = now.Add(s.cfg.CCEvery) }

// settle stops the timer once there is nothing to tell.
func (s *Sender) settle(now vt.Time) {
	if s.on|s.draining|s.gone == 0 {
		s.ccAt, s.ccFor = vt.Never, 0
	}
}

// CCUpdate appends a CC_Update to dst if one is due: a frame without FCS and trailer, with the counts as of now. Therefore
// it may be called only when the frame takes its place on the line, and the line must keep it behind all frames that were
// paid for before, those that link layer retry is about to send again among them: counts that overtake their frames free
// credits for frames that are still to come. Both halves of the channels may be due: call again until there is none.
func (s *Sender) CCUpdate(now vt.Time, dst []byte, to, from wire.MAC) ([]byte, bool) {
	if s.ccAt <= now {
		s.ccAt = vt.Never
		if s.used != 0 || s.cfg.Steady || s.farewells > 0 {
			s.farewells = max(0, s.farewells-1)
			s.ccFor |= s.halves()
			s.arm(now)
			if s.on|s.draining == 0 { // a line may be sick for longer than a few of them take
				s.ccAt = now.Add(s.cfg.CCEvery << min(farewells-s.farewells, 4))
			}
		}
	}
	if s.ccFor == 0 {
		return dst, false
	}
	half := bits.TrailingZeros8(s.ccFor)
	s.ccFor &= s.ccFor - 1
	var counts [wire.CCCounters]uint32
	for i := range counts {
		counts[i] = s.vc[half*wire.CCCounters+i].cc
	}
	s.C[CCTx]++
	return wire.AppendCCUpdate(dst, to, from, half == 1, &counts), true
}

// Watchdog returns the channels, by bit, that have waited too long without one CF_Update, each once for every wait. What to
// do is the port's: it may drop what waits and say so with Idle.
func (s *Sender) Watchdog(now vt.Time) (fired uint32) {
	if s.wdAt > now {
		return 0
	}
	s.wdAt = vt.Never
	for m := s.blocked; m != 0; m &= m - 1 {
		vc := bits.TrailingZeros32(m)
		v := &s.vc[vc]
		switch at := v.heard.Add(s.cfg.Watchdog); {
		case v.told:
		case at > now:
			s.wdAt = min(s.wdAt, at)
		default:
			v.told = true
			v.fired++
			s.C[Watchdogs]++
			fired |= mask(vc)
		}
	}
	return fired
}

// Deadline is when CCUpdate or Watchdog is to be called next, vt.Never if nothing is to come.
func (s *Sender) Deadline(now vt.Time) vt.Time {
	if s.ccFor != 0 {
		return now
	}
	return max(now, min(s.ccAt, s.wdAt))
}

// Used is how many credits are out on all channels.
func (s *Sender) Used() uint32 { return s.used }

// Total is how many credits the receiver has announced for all channels together, 0 unless they share them.
func (s *Sender) Total() uint32 {
	if !s.total {
		return 0
	}
	return s.limit
}

// VC tells of a channel.
func (s *Sender) VC(now vt.Time, vc int) VCStats {
	v := &s.vc[vc]
	waits := v.waits
	if s.blocked&mask(vc) != 0 {
		waits += now.Sub(v.since)
	}
	st := VCStats{Consumed: v.cc, Freed: v.cf, Used: v.used(), Limit: v.limit, Peak: v.peak, Blocked: waits, Watchdogs: v.fired}
	if s.gone&mask(vc) != 0 {
		st.Consumed = (v.cc - farewell) & countMask
		st.Freed = st.Consumed
	}
	return st
}
