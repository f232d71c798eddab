// Package llr has the state machines of Link Layer Retry (UE 1.0.2 §5.1): TX numbers frames and knows what must be sent
// again, RX says what is to be delivered and acknowledged. They know sequence numbers, sizes and virtual times, but no
// frames: a port keeps these (package link). They read no clock and allocate nothing once they are made.
package llr

import (
	"fmt"
	"time"

	"github.com/uetlab/uetlab/internal/vt"
)

// SeqMask is the highest sequence number: numbers have 20 bits and wrap around.
const SeqMask = 1<<20 - 1

const (
	maxFrames = 1 << 19 // half of the numbers
	// Unlimited is the ReplayCount that never gives up.
	Unlimited = 255
)

// Behavior says what becomes of frames that are offered while a port has no LLR to offer: during the handshake (INIT), or after
// it has given up (FLUSH).
type Behavior string

// Behaviors, with the names of the standard.
const (
	BestEffort Behavior = "best_effort" // sent without protection
	Block      Behavior = "block"       // kept in the queue
	Discard    Behavior = "discard"     // dropped and counted
)

// Config has the parameters of both directions of a port. Durations are virtual.
type Config struct {
	Frames      int           `json:"frames"`      // most frames that wait for an ACK
	Bytes       int64         `json:"bytes"`       // most bytes of theirs, FCS included
	ReplayTimer time.Duration `json:"replayTimer"` // without progress for so long: send all again
	ReplayCount int           `json:"replayCount"` // so often without progress; then FLUSH; Unlimited: for ever
	DataAge     time.Duration `json:"dataAge"`     // age of the oldest frame without ACK that leads to FLUSH; 0: none does
	PCSLost     time.Duration `json:"pcsLost"`     // how long a link may be down before FLUSH; 0: not at all
	Init        Behavior      `json:"init"`        // in INIT
	Flush       Behavior      `json:"flush"`       // in FLUSH
	ReInit      bool          `json:"reInit"`      // leave FLUSH by a new handshake; else Reinit does
	AckEvery    int64         `json:"ackEvery"`    // an ACK at the latest after so many bytes …
	AckDelay    time.Duration `json:"ackDelay"`    // … and so long after a frame
}

const (
	initRepeat  = 10 * time.Microsecond // between two LLR_INIT; doubles up to maxRepeat while no echo comes
	maxRepeat   = initRepeat << 7
	ackRefresh  = 4 * time.Microsecond  // the latest ACK is repeated so long after it …
	refreshIdle = 40 * time.Microsecond // … while the latest eligible frame is not older than this
)

// Validate tells the first parameter that lies outside its range (uet-link-switch 2.3).
func (c *Config) Validate() error {
	for _, v := range []struct {
		name     string
		n        int64
		min, max int64
	}{
		{"frames", int64(c.Frames), 1, maxFrames}, {"bytes", c.Bytes, 1, 1<<31 - 1},
		{"replay timer (ns)", int64(c.ReplayTimer), 1, int64(time.Second)}, {"replay count", int64(c.ReplayCount), 0, Unlimited},
		{"data age (ns)", int64(c.DataAge), 0, 4_290_000_000}, {"PCS lost timer (ns)", int64(c.PCSLost), 0, 4_290_000_000},
		{"bytes per ACK", c.AckEvery, 1, 1<<31 - 1}, {"ACK delay (ns)", int64(c.AckDelay), 1, int64(time.Second)},
	} {
		if v.n < v.min || v.n > v.max {
			return fmt.Errorf("LLR %s: %d is not within %d to %d", v.name, v.n, v.min, v.max)
		}
	}
	for _, b := range []Behavior{c.Init, c.Flush} {
		if b != BestEffort && b != Block && b != Discard {
			return fmt.Errorf("LLR behavior: no %q, use %s, %s or %s", b, BestEffort, Block, Discard)
		}
	}
	return nil
}

// Counter numbers the counters of LLR; the names are those of SAI (uet-link-switch 2.10), with some of our own behind them.
type Counter int

// The counters.
const (
	TxInit        Counter = iota // LLR_INIT sent
	TxInitEcho                   // LLR_INIT_ECHO sent
	TxAck                        // LLR_ACK sent
	TxNack                       // LLR_NACK sent
	TxDiscard                    // frames that Discard has dropped
	TxOK                         // eligible frames sent for the first time
	TxPoisoned                   // of them, poisoned
	TxReplay                     // replays done
	RxInit                       // LLR_INIT received
	RxInitEcho                   // LLR_INIT_ECHO received
	RxAck                        // LLR_ACK received
	RxNack                       // LLR_NACK received
	RxSeqError                   // LLR_ACK and LLR_NACK with an impossible number
	RxOK                         // eligible frames received whose FCS is right
	RxPoisoned                   // … whose FCS is poisoned
	RxBad                        // … whose FCS is wrong
	RxExpected                   // the frame expected, FCS right
	RxExpPoisoned                // … poisoned
	RxExpBad                     // … wrong
	RxMissing                    // frames ahead of the one expected: at least one was lost
	RxDuplicate                  // frames that were received before
	RxReplay                     // replays received: the frame expected came after a NACK
	TxReplayed                   // frames sent again
	TxTimeouts                   // replays begun because the replay timer ran out
	TxFlushes                    // times that the port gave up: FLUSH
	TxFlushed                    // frames without ACK that were given up then
	TxBlocked                    // virtual µs for which a closed window or a replay held the scheduler up
	EchoMismatch                 // LLR_INIT_ECHO with another number or data than sent
	CtlBad                       // ordered-set frames lost to a wrong FCS
	RxCtl                        // ordered-set frames received, FCS right
	RxPlain                      // frames without number whose FCS is right
	RxPlainBad                   // … is wrong, or poisoned
	RingFrames                   // gauge: frames without ACK
	RingPeak                     // gauge: the most since the run began
	RoundTrip                    // gauge: ns from the latest LLR_INIT to its echo, 0 = never measured
	TxState                      // gauge: State
	RxState                      // gauge: RXState
	NumCounters
)

// Counters are a port's LLR counters.
type Counters [NumCounters]uint64

var counterNames = [NumCounters]string{"tx_init_ctl_os", "tx_init_echo_ctl_os", "tx_ack_ctl_os", "tx_nack_ctl_os", "tx_discard", "tx_ok",
	"tx_poisoned", "tx_replay", "rx_init_ctl_os", "rx_init_echo_ctl_os", "rx_ack_ctl_os", "rx_nack_ctl_os", "rx_ack_nack_seq_error", "rx_ok",
	"rx_poisoned", "rx_bad", "rx_expected_seq_good", "rx_expected_seq_poisoned", "rx_expected_seq_bad", "rx_missing_seq", "rx_duplicate_seq",
	"rx_replay", "replayed_frames", "replay_timeouts", "flushes", "flushed_frames", "blocked_us", "init_echo_mismatch", "ctl_os_bad",
	"rx_ctl_os_frames", "rx_ineligible_good", "rx_ineligible_bad", "ring_frames", "ring_peak_frames", "round_trip_time_ns", "tx_state", "rx_state"}

// String is the counter's name in tables and metrics, without the llr_ before it.
func (c Counter) String() string { return counterNames[c] }

// IsGauge says whether the value can fall.
func (c Counter) IsGauge() bool { return c >= RingFrames }

// FCS is what a frame's check sequence says.
type FCS uint8

// The three kinds. Poisoned marks a frame that was broken before this link: it is dropped, but not asked for again.
const (
	Good FCS = iota
	Poisoned
	Bad
)

// after is t plus d, or never.
func after(t vt.Time, d time.Duration) vt.Time {
	if d == 0 {
		return vt.Never
	}
	return t.Add(d)
}
