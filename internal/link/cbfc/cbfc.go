// Package cbfc is credit-based flow control of one direction of a link (UE 1.0.2 §5.2; uet-link-switch.md section 3): the
// sender's gate and the receiver's accounts, each a state machine that is handed the time and the frames of the other. It
// queues nothing, sends nothing and knows no port: a port asks the Sender before it takes a frame from a queue, tells the
// Receiver what became of a frame, and carries the messages that both write.
//
// Credits are absolute counts that wrap, so lost and repeated messages do no harm:
//
//	consumed by the sender ≥ seen by the receiver ≥ freed there ≥ freed as far as the sender knows
//
// A lost frame widens the first gap until a CC_Update closes it; a lost CF_Update widens the last one until the next.
//
// A departure from hardware, which repeats its messages for ever: here a sender whose credits are all back is silent, and
// so is a receiver some repeats after the last arrival, so that an idle lab can rest. Config.Steady turns that off.
package cbfc

import (
	"fmt"
	"math/bits"
	"time"

	"github.com/uetlab/uetlab/wire"
)

const (
	// VCs is how many virtual channels a direction of a link has.
	VCs = wire.MaxCBFCVCs
	// NoVC is the channel of frames that belong to none: they need no credits.
	NoVC = 0xFF
	// MaxLimit is the most credits that a channel may have out: a CF_Update carries 15 bits of its count, which tell all
	// states apart as long as no more are out.
	MaxLimit = 1<<15 - 1
	// MaxTotal is the most credits that a port may have out.
	MaxTotal = 1<<20 - 1

	countMask = 1<<20 - 1 // counters have 20 bits
	cfMask    = 1<<15 - 1 // of which a CF_Update carries 15
	stale     = 1 << 19   // a CC_Update that far ahead is really behind
	farewell  = 1 << 19   // so far ahead is the count of a channel that its sender has removed
	farewells = 8         // how often CC_Updates say so
)

// Profile is what a receiver announces: size of a credit, limits, lossless channels, and what selects them. It is the
// UE CBFC receiver TLV of LLDP, whose channels may be listed several times, with the same limit, to give several selectors.
type Profile = wire.UECBFCFields

// Cell says how frames are counted in credits.
type Cell struct {
	Size     uint16 // bytes for which a credit stands
	Overhead int8   // bytes that are added to each frame first
}

// CellOf returns the cell of a profile.
func CellOf(p *Profile) Cell { return Cell{p.CreditSize, p.PktOvhd} }

// Credits is what a frame of n bytes, FCS not counted, costs: it is padded to 60 bytes and has an FCS of 4 on the line.
func (c Cell) Credits(n int) uint32 {
	size := uint32(c.Size)
	return (uint32(max(n, 60)+4+int(c.Overhead)) + size - 1) / size
}

// CheckProfile reports what is wrong with a profile for frames of up to frame bytes without FCS: a channel whose limit is
// below its longest frame would be blocked for ever.
func CheckProfile(p *Profile, frame int) error {
	switch {
	case bits.OnesCount16(p.CreditSize) != 1 || p.CreditSize < 32 || p.CreditSize > 2048:
		return fmt.Errorf("credit size %d: want a power of two from 32 to 2048 bytes", p.CreditSize)
	case p.PktOvhd < -16:
		return fmt.Errorf("packet overhead %d: want -16 to 127 bytes", p.PktOvhd)
	case p.Method > wire.CBFCPerVC:
		return fmt.Errorf("method %d: want 0 (a total) or 1 (a limit for each channel)", p.Method)
	case len(p.VCs) > VCs:
		return fmt.Errorf("%d channels: there are %d", len(p.VCs), VCs)
	case p.Total > MaxTotal:
		return fmt.Errorf("total of %d credits: want at most %d", p.Total, MaxTotal)
	}
	least := CellOf(p).Credits(frame)
	if p.Method == wire.CBFCTotal && p.Lossless != 0 && p.Total < least {
		return fmt.Errorf("total of %d credits: a frame of %d bytes needs %d", p.Total, frame, least)
	}
	return checkChannels(p, frame, least)
}

func checkChannels(p *Profile, frame int, least uint32) error {
	var limits [VCs]uint32
	for _, v := range p.VCs {
		if err := v.Validate(); err != nil {
			return err
		}
		if limits[v.Index] != 0 && limits[v.Index] != v.Limit {
			return fmt.Errorf("channel %d: two limits, %d and %d credits", v.Index, limits[v.Index], v.Limit)
		}
		limits[v.Index] = v.Limit
	}
	for m := p.Lossless; m != 0 && p.Method == wire.CBFCPerVC; m &= m - 1 {
		vc := bits.TrailingZeros32(m)
		if limit := limits[vc]; limit < least || limit > MaxLimit {
			return fmt.Errorf("channel %d: limit of %d credits: want %d (for a frame of %d bytes) to %d", vc, limit, least, frame, MaxLimit)
		}
	}
	return nil
}

// Config is what either side sets for itself. The zero value stands for the defaults.
type Config struct {
	// Rate is the line's rate in bits per second: the spacing of CF_Updates is counted in bytes that it carries meanwhile.
	Rate int64
	// CCEvery is the time between CC_Updates of a sender; 1 µs to 250 ms, 256 µs by default.
	CCEvery time.Duration
	// CFMin and CFMax are the least and the longest distance of CF_Updates in bytes of line time, 6400 and 262144 by default.
	CFMin, CFMax int
	// Repeats is how often a receiver repeats its counts, CFMax apart, after the last arrival; 64 by default.
	Repeats int
	// Steady has both sides repeat their messages for ever, as hardware does.
	Steady bool
	// Watchdog is how long a channel may wait for credits without one CF_Update before its sender says so; 2 s by default.
	Watchdog time.Duration
	// RaceDemo has CC_Updates overtake what link layer retry is about to send again, as before UE 1.0.3, to show what becomes of that (uet-link-switch.md
	// 3.8): whoever owns the line obeys.
	RaceDemo bool
}

// Setup is CBFC of a link, both directions alike.
type Setup struct {
	Config
	Profile Profile
}

// Fill puts the defaults in the place of zeros.
func (c *Config) Fill() {
	set := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	set(&c.CFMin, 6400)
	set(&c.CFMax, 262_144)
	set(&c.Repeats, 64)
	if c.CCEvery == 0 {
		c.CCEvery = 256 * time.Microsecond
	}
	if c.Watchdog == 0 {
		c.Watchdog = 2 * time.Second
	}
}

// Validate reports values outside the standard's ranges. Fill comes first.
func (c *Config) Validate() error {
	switch {
	case c.Rate <= 0:
		return fmt.Errorf("rate %d: want bits per second", c.Rate)
	case c.CCEvery < time.Microsecond || c.CCEvery > 250*time.Millisecond:
		return fmt.Errorf("CC_Update timer %v: want 1 µs to 250 ms", c.CCEvery)
	case c.CFMin < 768 || c.CFMin > 131_072:
		return fmt.Errorf("least distance of CF_Updates %d: want 768 to 131072 bytes", c.CFMin)
	case c.CFMax < 16<<10 || c.CFMax > 1<<20 || c.CFMax%(16<<10) != 0:
		return fmt.Errorf("longest distance of CF_Updates %d: want 16 KiB to 1 MiB in steps of 16 KiB", c.CFMax)
	case c.CFMin > c.CFMax:
		return fmt.Errorf("distance of CF_Updates: the least, %d bytes, is above the longest, %d", c.CFMin, c.CFMax)
	case c.Repeats < 1:
		return fmt.Errorf("repeats %d: want at least 1", c.Repeats)
	case c.Watchdog < 0:
		return fmt.Errorf("watchdog %v: want a time above 0", c.Watchdog)
	}
	return nil
}

// lineTime is how long n bytes take on the line.
func (c *Config) lineTime(n int) time.Duration {
	return time.Duration((int64(n)*8_000_000_000 + c.Rate - 1) / c.Rate)
}

// mask returns the set of one channel, by bit; channels that do not exist are in no set.
func mask(vc int) uint32 {
	if uint(vc) >= VCs {
		return 0
	}
	return 1 << vc
}
