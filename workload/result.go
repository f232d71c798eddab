package workload

import "time"

// Settle is how long, in virtual time, a fabric goes on after the last rank's end before its counters are read: the last
// acknowledgements arrive.
const Settle = 500 * time.Microsecond

// Span is one iteration at one rank, in virtual nanoseconds since the start of the run.
type Span struct {
	StartNs int64 `json:"startNs"`
	EndNs   int64 `json:"endNs"`   // last operation done
	AckedNs int64 `json:"ackedNs"` // last send acknowledged; -1 where the rank sends nothing
}

// RankResult is what a node reports of its rank.
type RankResult struct {
	Rank       int    `json:"rank"`
	Iterations []Span `json:"iterations"`
	Wrong      int64  `json:"wrong"`         // elements that differ from what must come out; 0 too when nothing was checked
	Checked    int64  `json:"checked"`       // elements compared
	SentBytes  int64  `json:"sentBytes"`     // payload of the workload's own messages, barriers not counted
	RecvBytes  int64  `json:"receivedBytes"` // 0 for RMA writes, which the target does not see
	Messages   int64  `json:"messages"`      // sent
	Error      string `json:"error,omitempty"`

	Flows []FlowSpan `json:"flows,omitempty"` // matrix: of this sender; Result has them in PerFlow instead
}

// FlowSpan is when a flow of a matrix ran, in virtual nanoseconds since the start of the run.
type FlowSpan struct {
	Flow      int   `json:"flow"` // index into Matrix.Flows
	Iteration int   `json:"iteration,omitempty"`
	StartNs   int64 `json:"startNs"` // posted
	EndNs     int64 `json:"endNs"`   // last PSN acknowledged at the sender
}

// FlowResult is one flow of a matrix in one iteration.
type FlowResult struct {
	ID        int   `json:"id"`
	Msg       int   `json:"msg,omitempty"`
	Iteration int   `json:"iteration,omitempty"`
	Src       int   `json:"src"`
	Dst       int   `json:"dst"`
	SizeBytes int64 `json:"sizeBytes"`
	Packets   int64 `json:"packets,omitempty"` // that the size makes, retransmissions not counted
	StartNs   int64 `json:"startNs"`           // posted, since the start of the run
	EndNs     int64 `json:"endNs"`             // last PSN acknowledged at the sender
	FCTNs     int64 `json:"fctNs"`             // the difference
}

// Fidelity tells how far the figures can be trusted.
type Fidelity struct {
	Frames      uint64 `json:"frames"` // delivered over links
	Late        uint64 `json:"late"`   // that came after their due time
	WorstLateNs int64  `json:"worstLateNs"`
	Verdict     string `json:"verdict"` // exact, free, real, or "invalid: reason"
}

// Totals are the fabric's counters over a run.
type Totals struct {
	Packets        uint64 // data packets sent, retransmissions included
	PacketHops     uint64 // frames of any kind delivered over one link
	DataPacketHops uint64
	Retransmits    uint64
	Trims          uint64
	Drops          uint64
	Fidelity       Fidelity
	WallSeconds    float64
}

// FCT are completion times in virtual nanoseconds: of the flows of permutation, incast, sendrecv and matrix, of the
// iterations of a collective. Percentiles are nearest rank.
type FCT struct {
	Min  int64 `json:"min"`
	Mean int64 `json:"mean"`
	P50  int64 `json:"p50"`
	P99  int64 `json:"p99"`
	Max  int64 `json:"max"`
}

// Result is the outcome of one run of one size.
type Result struct {
	Workload       string   `json:"workload"`
	Ranks          int      `json:"ranks"`
	SizeBytes      int64    `json:"sizeBytes"` // matrix: of all its flows
	Iterations     int      `json:"iterations"`
	Correct        *bool    `json:"correct"` // null: not checked
	FCT            FCT      `json:"fctNs"`
	IdealNs        int64    `json:"idealNs"` // see Ideal
	Ratio          float64  `json:"ratio"`   // FCT.Max / IdealNs; matrix: its longest iteration / IdealNs
	AlgBW          float64  `json:"algbwGbps"`
	BusBW          float64  `json:"busbwGbps"`
	Packets        uint64   `json:"packets"`
	PacketHops     uint64   `json:"packetHops"`
	DataPacketHops uint64   `json:"dataPacketHops"`
	Retransmits    uint64   `json:"retransmits"`
	Trims          uint64   `json:"trims"`
	Drops          uint64   `json:"drops"`
	Fidelity       Fidelity `json:"fidelity"`
	Dilation       float64  `json:"dilation"`
	WallSeconds    float64  `json:"wallSeconds"`
	Seed           uint64   `json:"seed"`
	// FEP are the settings of end points that the run overrode, see Spec.
	FEP     map[string]string `json:"fep,omitempty"`
	PerRank []RankResult      `json:"perRank"`
	PerFlow []FlowResult      `json:"perFlow,omitempty"` // matrix, in the order of its file

	Queues []QueueResult `json:"queues,omitempty"` // where anything was marked, trimmed or dropped, in the order of the plan

	PeakQueue uint64 `json:"peakQueueBytes,omitempty"` // the most that waited in one egress queue of a switch

	Series *Series `json:"series,omitempty"` // what was sampled, where it was asked for
}

// QueueResult is what an egress queue did to frames in a run. The trimmed copy of a frame waits in another queue; both of
// its counters are kept at the one that the frame was meant for.
type QueueResult struct {
	Node        string `json:"node"`
	Port        string `json:"port"`
	Queue       int    `json:"queue"`       // number, also the traffic class
	ECNMarked   uint64 `json:"ecnMarked"`   // frames
	Trimmed     uint64 `json:"trimmed"`     // frames that found no room and were cut
	TrimDropped uint64 `json:"trimDropped"` // of them, those whose rest found no room either
	Dropped     uint64 `json:"dropped"`     // frames that were lost whole
	PeakBytes   uint64 `json:"peakBytes"`   // the most that ever waited
}
