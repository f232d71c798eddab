package ctl

// CCs is a part of the answer to "ccs": what an end point has in one message's worth of congestion control contexts.
type CCs struct {
	Algorithm string `json:"algorithm"` // in force, empty: a fixed window, and no contexts
	List      []CC   `json:"list"`
	Next      int    `json:"next,omitempty"` // Message.From of the next part; 0: this was the last
}

// CC describes one congestion control context. Its numbers are those of fep/cms, times are virtual.
type CC struct {
	ID        uint8  `json:"id"`       // ccc_id
	PeerAddr  string `json:"peerAddr"` // fabric address
	TC        uint8  `json:"tc"`
	Algorithm string `json:"algorithm"`
	PDCs      int    `json:"pdcs"`    // that share it
	Blocked   int    `json:"blocked"` // of them, those that wait for room or credit

	Cwnd     int64   `json:"cwndBytes"` // for rates, that of one base RTT
	MaxWnd   int64   `json:"maxBytes"`
	RateBps  float64 `json:"rateBps,omitempty"` // dcqcn
	InFlight int64   `json:"inFlightBytes"`
	Packets  int     `json:"inFlightPackets"`
	Waiting  int64   `json:"waitingBytes"` // not sent yet
	Marked   int64   `json:"againBytes"`   // to be sent again

	BaseRTTNs int64   `json:"baseRttNs"`
	RTTNs     int64   `json:"rttNs"`    // the latest sample, 0: none
	DelayNs   int64   `json:"delayNs"`  // average queueing delay; swift: of the latest ACK
	TargetNs  int64   `json:"targetNs"` // of the delay; swift: of the RTT; 0: the algorithm has none
	ECNShare  float64 `json:"ecnShare"` // of the latest ACKs, 0..1

	Credit      int64 `json:"creditBytes"` // that may be sent, where credit counts
	Speculating bool  `json:"speculating,omitempty"`

	Last      string            `json:"last"`      // what the latest feedback did to the window
	Decisions map[string]uint64 `json:"decisions"` // how often each took place; those that did

	Acks         uint64 `json:"acks"`
	ECN          uint64 `json:"ecn"` // ACKs with a mark
	Trims        uint64 `json:"trims"`
	TrimsLastHop uint64 `json:"trimsLastHop"`
	Nacks        uint64 `json:"nacks"` // of other reasons
	Losses       uint64 `json:"losses"`
	Timeouts     uint64 `json:"timeouts"`
	Grants       uint64 `json:"grants"` // of credit
}
