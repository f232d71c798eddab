package cbfc

import "time"

// Counter numbers what a side of a direction counts.
type Counter int

// Counters of a sender (CF_Updates received, CC_Updates sent) and of a receiver (the other way round). No counter is of both, so
// that the two sides of a port can count in one place.
const (
	CFTx        Counter = iota // CF_Updates written
	CCTx                       // CC_Updates written
	CFRx                       // CF_Updates taken
	CCRx                       // CC_Updates taken
	CFBad                      // ordered sets that are no CF_Update
	CFStale                    // entries that would free more than is out: late or wrong
	CFOff                      // entries of channels that are not on
	CCBadOpcode                // MAC control frames that are no extension
	CCBadCID                   // extensions of others than the UEC
	CCBadType                  // of neither type
	CCShort                    // cut short
	CCStale                    // counts behind what has arrived
	LeakCredits                // credits of lost frames that a CC_Update brought back
	BackCredits                // credits taken back: more had arrived than was ever sent (frames doubled or overtaken)
	Watchdogs                  // channels that waited too long without one CF_Update
	Peak                       // gauge: the most credits that were out at once (sender)
	HeldPeak                   // gauge: the most that were taken at once (receiver)
	NumCounters
)

// Counters are the counters of a side, indexed by Counter.
type Counters [NumCounters]uint64

var counterNames = [NumCounters]string{"cf_tx", "cc_tx", "cf_rx", "cc_rx", "cf_bad", "cf_stale", "cf_vc_off", "cc_bad_opcode", "cc_bad_cid", "cc_bad_type",
	"cc_short", "cc_stale", "leak_recovered_credits", "taken_back_credits", "watchdog", "used_peak_credits", "held_peak_credits"}

// IsGauge says whether the value can fall.
func (c Counter) IsGauge() bool { return c == Peak || c == HeldPeak }

// String is the counter's name in tables and metrics.
func (c Counter) String() string { return counterNames[c] }

// VCStats is what a side knows of a channel. All but Blocked is in credits.
type VCStats struct {
	Consumed uint32        // 20 bits, wrapping: S_CC or R_CC
	Freed    uint32        // 20 bits, wrapping: S_CF or R_CF
	Used     uint32        // the difference
	Limit    uint32        // of a sender, 0 in total mode
	Peak     uint32        // the most that was ever used
	Blocked  time.Duration // of a sender: how long its frames have waited for credits

	Watchdogs uint64 // of a sender: how often they have waited too long
}
