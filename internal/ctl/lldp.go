package ctl

// LLDPPort is a port in the answer to "lldp".
type LLDPPort struct {
	Port      string            `json:"port"`                // eth1
	Neighbour *LLDPNeighbour    `json:"neighbour,omitempty"` // nil: nobody was heard, or nobody lately
	LLR       bool              `json:"llr"`                 // what both ends have agreed on
	CBFC      bool              `json:"cbfc"`
	WantLLR   bool              `json:"wantLlr"` // what this end wants
	WantCBFC  bool              `json:"wantCbfc"`
	Limit     uint32            `json:"limit,omitempty"`   // credits of a channel that its sender may have out, as the neighbour says; 0: no credits
	Static    bool              `json:"static,omitempty"`  // its wishes hold without asking the neighbour
	Problem   string            `json:"problem,omitempty"` // why it sends without credits though both want them
	Counters  map[string]uint64 `json:"counters"`          // of lldp.Counter, those that are not 0
}

// LLDPEvent is what has come about at a port.
type LLDPEvent struct {
	Port int    `json:"port"`
	Text string `json:"text"`
}

// LLDPNeighbour is what the far end of a link says of itself. Times are virtual.
type LLDPNeighbour struct {
	Chassis    string        `json:"chassis"` // MAC address of the node's first port
	Port       string        `json:"port"`
	PortDesc   string        `json:"portDesc,omitempty"`
	System     string        `json:"system"`
	SystemDesc string        `json:"systemDesc,omitempty"`
	Can        string        `json:"capabilities"`
	Enabled    string        `json:"enabled"`
	Addresses  []string      `json:"addresses,omitempty"`
	AgeNs      int64         `json:"ageNs"`   // since it appeared
	HeardNs    int64         `json:"heardNs"` // since it was last heard of
	TTLSec     int           `json:"ttlSec"`
	UE         *LLDPOptions  `json:"ue,omitempty"`
	CBFC       *LLDPReceiver `json:"cbfcReceiver,omitempty"`
	Unknown    int           `json:"unknownTlvs,omitempty"`
}

// LLDPOptions are the UE link options of a neighbour.
type LLDPOptions struct {
	LLRWanted   string `json:"llrWanted"` // names of wire.LinkWish
	LLREnabled  string `json:"llrEnabled"`
	CBFCWanted  string `json:"cbfcWanted"`
	CBFCEnabled string `json:"cbfcEnabled"`
	Version     uint8  `json:"version"` // 0x13 is 1.0.3
	BootID      uint32 `json:"bootId"`
}

// LLDPReceiver is the CBFC receiver of a neighbour. Numbers of credits.
type LLDPReceiver struct {
	CreditSize int            `json:"creditSize"` // bytes
	Overhead   int            `json:"pktOverhead"`
	Method     string         `json:"method"`
	Total      uint32         `json:"total"`
	Lossless   uint32         `json:"lossless"` // bit i: channel i
	Limits     map[int]uint32 `json:"limits"`   // by channel
}
