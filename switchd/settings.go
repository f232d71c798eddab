package switchd

import (
	"time"

	"github.com/uetlab/uetlab/internal/link"
)

// Settings is all that can be set of a switch, in the topology file and while it runs, with every size worked out in bytes.
type Settings struct {
	Classes [64]uint8             `json:"classes"` // traffic class of every DSCP; a class has the queue and the PFC priority of its number
	Queues  [link.NumQueues]Queue `json:"queues"`
	LastHop string                `json:"lastHopECN,omitempty"` // what is marked on ports to end points: MarkAuto, MarkOn (as on others; also ""), MarkOff
	Buffer  Buffer                `json:"buffer"`
	Trim    Trim                  `json:"trim"`
	ECMP    ECMP                  `json:"ecmp"`
	PFC     PFC                   `json:"pfc"`
	CSIG    CSIG                  `json:"csig"`
	Mirror  Mirror                `json:"mirror"`
}

// What is marked on the last hop.
const (
	MarkAuto = "auto" // all but the packets of sources that wait for their receiver's credit, which rules this link (uet-cms.md section 7.1)
	MarkOn   = "on"
	MarkOff  = "off"
)

// Queue is one egress queue of every port.
type Queue struct {
	link.Service
	Limit    int64   `json:"limitBytes"`         // what it may hold at one port; 0: no limit of its own
	Alpha    float64 `json:"alpha,omitempty"`    // dynamic threshold alpha × (free shared buffer); 0: none
	Kmin     int64   `json:"kminBytes"`          // ECN: marks begin above, certain from Kmax on; Kmax 0: no marks
	Kmax     int64   `json:"kmaxBytes"`          //
	Pmax     float64 `json:"pmax"`               // probability just below Kmax, 0..1; at Kmax and above every frame is marked
	WRED     bool    `json:"wred,omitempty"`     // what would be marked but is Not-ECT is dropped
	Trim     bool    `json:"trim,omitempty"`     // frames that do not fit are trimmed, if their DSCP is trimmable
	Lossless bool    `json:"lossless,omitempty"` // PFC keeps senders from overflowing it
}

// Buffer is the memory that all queues of a switch share.
type Buffer struct {
	Shared   int64 `json:"sharedBytes"`   // 0: no shared limit, only those of the queues
	Reserved int64 `json:"reservedBytes"` // of it, what each queue of each port has for itself whatever the threshold says
}

// Trim is packet trimming (uet-link-switch.md section 5).
type Trim struct {
	Enabled   bool     `json:"enabled"`
	Size      int      `json:"sizeBytes"` // Ethernet frame without FCS that is left; never below what MIN_TRIM_SIZE asks
	Trimmable []uint8  `json:"trimmable"` // DSCPs
	Trimmed   uint8    `json:"trimmed"`   // DSCP on a fabric port
	LastHop   uint8    `json:"lastHop"`   // DSCP on a port to an end point
	Retx      uint8    `json:"retx"`      // the trimmable DSCP of retransmissions, which are trimmed only beyond RetxLimit
	RetxLimit int64    `json:"retxLimitBytes"`
	FixIP     bool     `json:"fixIP"`    // update IP length and checksum; false is how a SONiC platform does it
	Coin      bool     `json:"coin"`     // toss between the arriving frame and the last one in the queue
	Disabled  []string `json:"disabled"` // source prefixes whose packets are dropped instead
}

// ECMP hashes and the ways to choose a port.
const (
	HashMix      = "mix"       // does not polarise across tiers
	HashCRC32    = "crc32"     // polarises
	HashCRC32Rot = "crc32_rot" // crc32, other bits of it at other seeds
	HashXOR      = "xor"

	GroupThreshold = "threshold" // RFC 2992: hash space in as many regions as live members
	GroupModulo    = "modulo"
	GroupResilient = "resilient" // a fixed table: only a dead member's buckets move

	BalanceHash     = "hash"     // the flow's hash decides
	BalanceFlowlet  = "flowlet"  // a flow that paused for FlowletGap may change to the least loaded port
	BalanceAdaptive = "adaptive" // every packet to the least loaded port
	BalanceRandom   = "random"   // every packet by chance
	BalanceRR       = "rr"       // every packet to the next port

	WeightsEqual = "equal"
	WeightsRate  = "rate" // by what each link carries now
)

// ECMP says how a port is chosen of several.
type ECMP struct {
	Hash       string               `json:"hash"`
	Fields     []string             `json:"fields"` // of the key: src, dst, proto, sport (the entropy value), dport, flowlabel
	Group      string               `json:"group"`
	Buckets    int                  `json:"buckets"`
	IdleTimer  time.Duration        `json:"idleTimerNs"` // resilient: a bucket goes back to a member that returned once idle for so long
	Weights    string               `json:"weights"`
	PortWeight [link.NumPorts]uint8 `json:"portWeight,omitzero"` // weight of a port in its groups, 0 counts as 1
	Balance    string               `json:"balance"`
	FlowletGap time.Duration        `json:"flowletGapNs"`
	Bands      int                  `json:"bands"` // adaptive, flowlet: queue depths are compared in bands of a queue's limit over Bands; 0: exactly
}

// PFC is priority flow control for the lossless queues.
type PFC struct {
	Xoff     int64         `json:"xoffBytes"`     // of one priority of one ingress port: pause the sender above
	Xon      int64         `json:"xonBytes"`      // resume at or below
	Headroom int64         `json:"headroomBytes"` // admitted above Xoff: what is under way when the pause takes effect
	Quanta   uint16        `json:"quanta"`        // of 512 bit times, in each PFC frame; repeated before half of it has passed
	Watchdog time.Duration `json:"watchdogNs"`    // detection interval, 0: off
	Restore  time.Duration `json:"restoreNs"`     // until a queue that it stopped works again
	Action   string        `json:"action"`        // what it does meanwhile: drop, forward, alert
}

// Actions of the PFC watchdog.
const (
	ActionDrop    = "drop"
	ActionForward = "forward" // ignore the pause
	ActionAlert   = "alert"   // only say so
)

// CSIG is in-band congestion signalling (uet-link-switch.md section 10).
type CSIG struct {
	Enabled  bool                `json:"enabled"`
	Compact  uint16              `json:"compactTPID"`
	Wide     uint16              `json:"wideTPID"`
	Interval time.Duration       `json:"intervalNs"`     // in which bandwidth is measured
	Strip    [link.NumPorts]bool `json:"strip,omitzero"` // ports whose far end does not speak it
}

// Mirror copies forwarded packets to a port.
type Mirror struct {
	To     int `json:"to"`     // port index, -1: off
	Sample int `json:"sample"` // one of so many, 1: all
	From   int `json:"from"`   // only what leaves by this port, -1: any
}
