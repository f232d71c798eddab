package link

import (
	"github.com/uetlab/uetlab/internal/link/cbfc"
	"github.com/uetlab/uetlab/internal/link/llr"
)

// Counter numbers a port's counters; Counters holds one value for each.
type Counter int

// The counters of a port. Drop counters count frames; each is a reason of its own, so that nothing is lost silently.
const (
	TxFrames     Counter                               = iota // frames whose serialization began
	TxBytes                                                   // their bytes, Ethernet header to payload
	RxFrames                                                  // frames that arrived and were accepted
	RxBytes                                                   // their bytes
	RxData                                                    // of them, UET data requests with payload
	TxTwice                                                   // frames that the duplicate impairment delivered once more
	LostSets                                                  // control ordered sets that the loss of these has taken out of their frames
	Marked                                                    // frames marked CE
	Trimmed                                                   // frames cut to their headers
	Mirrored                                                  // copies sent to this mirror port
	PauseTx                                                   // PAUSE and PFC frames sent
	PauseRx                                                   // PAUSE and PFC frames obeyed
	QueueBytes                                                // gauge: bytes that wait in the egress queue now
	QueuePeak                                                 // gauge: the most that ever waited since the run began
	DropQueue                                                 // egress queue full
	DropTrim                                                  // trimmed copy of a frame, whose queue was full
	DropWatchdog                                              // the queue was flushed by the pause storm watchdog
	DropDown                                                  // the link is down: not sent
	DropCut                                                   // the link went down while the frame was on its way
	DropBlack                                                 // blackhole impairment
	DropLoss                                                  // loss impairment
	DropBurst                                                 // burst loss impairment
	DropExact                                                 // exact impairment
	DropCC                                                    // CC_Updates that the loss of these has taken
	DropFCS                                                   // frame check sequence wrong
	DropPoisoned                                              // frame check sequence poisoned: broken before this link
	DropPreamble                                              // LLR word of the trailer damaged
	DropDiscard                                               // LLR is not up, and told to discard meanwhile
	DropTrailer                                               // no valid link trailer on a lab link
	DropWindow                                                // due time outside the sane window
	DropTTL                                                   // TTL or hop limit used up
	DropNoRoute                                               // no route to the destination
	DropPacket                                                // packet malformed or of a kind that the node does not handle
	DropKernel                                                // the kernel refused the frame (ENOBUFS, ENETDOWN, …)
	DropRing                                                  // the receive ring or socket overflowed
	Late                                                      // frames that arrived after their node had passed their due time
	FirstLLR                                                  // llr.Counter 0 and those behind it
	FirstCBFC    = FirstLLR + Counter(llr.NumCounters)        // cbfc.Counter 0 and those behind it
	NumCounters  = FirstCBFC + Counter(cbfc.NumCounters)
)

// Counters are a port's counters, indexed by Counter.
type Counters [NumCounters]uint64

var counterNames = [FirstLLR]string{
	"tx_frames", "tx_bytes", "rx_frames", "rx_bytes", "rx_data_frames", "tx_duplicates", "lost_ordered_sets", "ecn_marked", "trimmed",
	"mirrored", "pause_tx", "pause_rx", "queue_bytes", "queue_peak_bytes",
	"drop_queue_full", "drop_trimmed", "drop_watchdog", "drop_link_down", "drop_link_cut", "drop_blackhole", "drop_loss", "drop_burst", "drop_exact", "drop_cc_update", "drop_fcs", "drop_poisoned", "drop_preamble", "drop_llr_discard", "drop_trailer", "drop_due_window",
	"drop_ttl", "drop_no_route", "drop_bad_packet", "drop_kernel", "drop_ring", "late",
}

// String is the counter's name in tables and metrics.
func (c Counter) String() string {
	switch {
	case c >= FirstCBFC:
		return "cbfc_" + cbfc.Counter(c-FirstCBFC).String()
	case c >= FirstLLR:
		return "llr_" + llr.Counter(c-FirstLLR).String()
	}
	return counterNames[c]
}

// IsDrop says whether the counter counts lost frames.
func (c Counter) IsDrop() bool { return c >= DropQueue && c <= DropRing }

// IsGauge says whether the value can fall.
func (c Counter) IsGauge() bool {
	if c >= FirstCBFC {
		return cbfc.Counter(c - FirstCBFC).IsGauge()
	}
	return c == QueueBytes || c == QueuePeak || c >= FirstLLR && llr.Counter(c-FirstLLR).IsGauge()
}

// LLR are the counters of link layer retry.
func (c *Counters) LLR() *llr.Counters { return (*llr.Counters)(c[FirstLLR:]) }

// CBFC are the counters of credit-based flow control, of both directions of the link.
func (c *Counters) CBFC() *cbfc.Counters { return (*cbfc.Counters)(c[FirstCBFC:]) }

// Arrived is how many frames the line has brought, whatever became of them.
func (c *Counters) Arrived() uint64 {
	r := c.LLR()
	return c[RxFrames] + c[DropCut] + c[DropFCS] + c[DropPoisoned] + c[DropPreamble] + r[llr.RxMissing] + r[llr.RxDuplicate] + r[llr.RxCtl] + r[llr.CtlBad]
}

// Drops sums the drop counters.
func (c *Counters) Drops() uint64 {
	var n uint64
	for i := DropQueue; i <= DropRing; i++ {
		n += c[i]
	}
	return n
}
