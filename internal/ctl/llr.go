package ctl

// LLRPort is a port in the answer to "llr". Times are virtual ns since the lab came up, or spans of them; deadlines that do not run are 0.
type LLRPort struct {
	Port     string            `json:"port"` // eth1
	NowNs    int64             `json:"nowNs"`
	On       bool              `json:"on"` // not turned off since the run began
	TX       LLRSender         `json:"tx"`
	RX       LLRReceiver       `json:"rx"`
	Counters map[string]uint64 `json:"counters"` // of llr.Counter, those that are not 0; since the node came up
}

// LLRSender is the sending side of a port: it numbers frames and keeps them until they are acknowledged.
type LLRSender struct {
	State      string           `json:"state"` // OFF, INIT, ADVANCE, REPLAY, FLUSH
	Next       uint32           `json:"nextSeq"`
	Acked      uint32           `json:"ackedSeq"`
	Frames     int              `json:"waitingFrames"` // without ACK
	Bytes      int64            `json:"waitingBytes"`
	Replays    int              `json:"replaysWithoutProgress"`
	Draining   bool             `json:"draining,omitempty"` // turned off; what waits is seen through
	NoSignal   bool             `json:"noSignal,omitempty"` // the link is down: timers stand still
	ReplayAtNs int64            `json:"replayAtNs,omitempty"`
	AgeAtNs    int64            `json:"ageAtNs,omitempty"`
	InitAtNs   int64            `json:"initAtNs,omitempty"`
	PCSAtNs    int64            `json:"pcsLostAtNs,omitempty"`
	RTTNs      uint64           `json:"rttNs,omitempty"` // of the latest handshake
	InNs       map[string]int64 `json:"inNs"`            // time in each state, since the run began or LLR was turned on
	Ack        LLRLatency       `json:"ack"`
}

// LLRReceiver is the receiving side of a port.
type LLRReceiver struct {
	State       string           `json:"state"` // OFF, SEND_ACKS, SEND_NACK, NACK_SENT
	Next        uint32           `json:"nextSeq"`
	Unacked     int64            `json:"unackedBytes"` // accepted since the latest ACK
	AckAtNs     int64            `json:"ackAtNs,omitempty"`
	RefreshAtNs int64            `json:"refreshAtNs,omitempty"` // the latest ACK is repeated then
	Spurious    uint64           `json:"spuriousReplays"`       // that brought nothing but duplicates, since the run began or LLR was turned on
	InNs        map[string]int64 `json:"inNs"`
}

// LLRLatency is how long frames waited for their ACK since they left first, in virtual ns, since the run began or LLR was turned on.
type LLRLatency struct {
	Count   uint64      `json:"count"`
	SumNs   int64       `json:"sumNs"`
	P50Ns   int64       `json:"p50Ns"` // up to an eighth too much
	P99Ns   int64       `json:"p99Ns"`
	MaxNs   int64       `json:"maxNs"`
	Buckets []LLRBucket `json:"buckets,omitempty"` // those that are not empty
}

// LLRBucket counts the frames that waited less than BelowNs, and not less than the bucket before it. The last one that there can be has all that waited
// longer, and Above set: BelowNs is where it begins.
type LLRBucket struct {
	BelowNs int64  `json:"belowNs"`
	Above   bool   `json:"above,omitempty"`
	Count   uint64 `json:"count"`
}
