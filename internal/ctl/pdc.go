package ctl

// PDCs is a part of the answer to "pdcs": what an end point has in one message's worth of them.
type PDCs struct {
	List []PDC `json:"list"`           // those there are, then those that have ended of late
	Next int   `json:"next,omitempty"` // Message.From of the next part; 0: this was the last

	// NACKs sent and accepted since the node came up, by code; in the first part only.
	NacksTx map[string]uint64 `json:"nacksTx,omitempty"`
	NacksRx map[string]uint64 `json:"nacksRx,omitempty"`
	// Error responses given, and taken as a verdict, by return code; in the first part only.
	RCsTx map[string]uint64 `json:"rcsTx,omitempty"`
	RCsRx map[string]uint64 `json:"rcsRx,omitempty"`
}

// Roles of PDC.Role.
const (
	RoleInitiator = "initiator"
	RoleTarget    = "target"
)

// PDC describes one packet delivery context. Its numbers are those of fep/pds, times are virtual.
type PDC struct {
	ID       uint16 `json:"id"`
	PeerID   uint16 `json:"peerId"`   // 0: not learned yet
	PeerAddr string `json:"peerAddr"` // fabric address
	Role     string `json:"role"`
	Mode     string `json:"mode"` // RUD or ROD
	TC       uint8  `json:"tc"`
	Job      uint32 `json:"job"`
	State    string `json:"state"`           // one of its life, or the end's: closed, failed, expired
	Ended    bool   `json:"ended,omitempty"` // it is no more: all is as it was then
	Error    string `json:"error,omitempty"` // why it failed

	AgeNs   int64 `json:"ageNs"`             // since it was opened
	IdleNs  int64 `json:"idleNs"`            // since it was last used
	EndedNs int64 `json:"endedNs,omitempty"` // when it ended, since the lab came up

	StartPSN uint32  `json:"startPsn"` // of both directions
	Tx       PDCSend `json:"tx"`
	Rx       PDCRecv `json:"rx"`

	InFlight int64 `json:"inFlightBytes"` // nominal, as the window
	Window   int64 `json:"windowBytes"`
	RTTNs    int64 `json:"rttNs"` // the latest sample, 0: none
	RTTMinNs int64 `json:"rttMinNs"`

	Retx     uint64            `json:"retx"`             // packets sent again
	RetxBy   map[string]uint32 `json:"retxBy,omitempty"` // by cause
	NackTx   string            `json:"nackTx,omitempty"` // the latest sent
	NackRx   string            `json:"nackRx,omitempty"` // the latest received
	Locks    int               `json:"locks"`            // operations that keep it open
	Messages int               `json:"messages"`         // waiting or being sent

	CSIG *CSIG `json:"csig,omitempty"` // of the latest packet that came with a tag
}

// PDCSend is the half of a PDC that sends.
type PDCSend struct {
	Next       uint32 `json:"next"` // PSN of the next new packet
	CACK       uint32 `json:"cack"`
	Clear      uint32 `json:"clear"`
	MPR        int32  `json:"mpr"`     // PSNs beyond CACK that the peer permits
	Unacked    int32  `json:"unacked"` // packets
	Backlog    int64  `json:"backlogBytes"`
	Recovering bool   `json:"recovering"`
}

// PDCRecv is the half that receives.
type PDCRecv struct {
	Next       uint32 `json:"next"` // the highest PSN seen + 1
	CACK       uint32 `json:"cack"`
	Clear      uint32 `json:"clear"`
	MPR        int32  `json:"mpr"`        // PSNs beyond CACK that we permit
	OutOfOrder int32  `json:"outOfOrder"` // packets above a gap
	Stored     int    `json:"stored"`     // responses that wait to be cleared
}

// CSIG is what the switches on the way said.
type CSIG struct {
	Signal  uint32 `json:"signal"` // share of bandwidth left at the narrowest hop, in the steps of the tag's form
	Locator uint16 `json:"locator"`
}
