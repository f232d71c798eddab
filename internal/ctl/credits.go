package ctl

// Credits is a virtual channel of a port in the answer to "cbfc": the sending side of the direction that begins here, and the receiving one of that which ends here.
// Counts are credits.
type Credits struct {
	Port      string `json:"port"` // eth1
	VC        int    `json:"vc"`
	Class     string `json:"class"`
	State     string `json:"state"` // off, held, on, draining
	Limit     uint32 `json:"limit"` // of the channel, or, if shared, of all together
	Shared    bool   `json:"shared,omitempty"`
	Used      uint32 `json:"used"`
	Peak      uint32 `json:"peak"`     // the most that were ever used since the run began
	Consumed  uint32 `json:"consumed"` // 20 bits, wrapping
	Freed     uint32 `json:"freed"`    // likewise
	BlockedNs int64  `json:"blockedNs"`
	Watchdogs uint64 `json:"watchdogs,omitempty"` // times that frames have waited too long without one CF_Update
	CreditsReceived
}

// CreditsReceived is the receiving side of a channel.
type CreditsReceived struct {
	Receives   bool   `json:"receives"`   // the receiving side counts
	RxHeld     uint32 `json:"rxHeld"`     // of frames that are stored
	RxPeak     uint32 `json:"rxPeak"`     // the most that ever were
	RxConsumed uint32 `json:"rxConsumed"` // 20 bits, wrapping
	RxFreed    uint32 `json:"rxFreed"`    // likewise
}
