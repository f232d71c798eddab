package ctl

// Paths is a part of the answer to "paths": what an end point knows of its entropy values (EV) towards a peer. Asking has it count.
type Paths struct {
	PDCs   []PDCPaths `json:"pdcs"`   // those that are open; a PDC may go on in the next part
	Counts bool       `json:"counts"` // packets to this peer are counted; false: of too many others already
	Next   int        `json:"next,omitempty"`
}

// PDCPaths is the sending half of a PDC.
type PDCPaths struct {
	PDC       uint16 `json:"pdc"`
	Mode      string `json:"mode"`
	TC        uint8  `json:"tc"`
	Algorithm string `json:"algorithm"` // of its load balancer
	Frozen    bool   `json:"frozen,omitempty"`
	Explore   int    `json:"explore,omitempty"` // packets that will leave with EVs of no history
	Moves     uint32 `json:"moves,omitempty"`   // changes of the EV, of algorithms that have one
	Packets   uint64 `json:"packets"`           // data packets since the count began
	Bytes     uint64 `json:"bytes"`             // … of payload
	EVs       []EV   `json:"evs,omitempty"`     // in order
}

// EV is what is known of an entropy value.
type EV struct {
	EV      uint16 `json:"ev"`
	State   string `json:"state"`           // of lb.State
	Score   int64  `json:"score,omitempty"` // see lb.Path
	Uses    int    `json:"uses,omitempty"`
	Packets uint64 `json:"packets"`
	Bytes   uint64 `json:"bytes"`
	Last    string `json:"last"`             // feedback, of lb.Kind
	LastNs  int64  `json:"lastNs,omitempty"` // virtual time of that
}
