// Package topology reads topology files and generated names, checks them, and works them out into a Plan: the nodes,
// links, addresses and routes of a lab, down to the last byte of queue. It starts nothing, touches no network
// and reads no clock; the same file gives the same plan on every machine.
package topology

import (
	"net/netip"
	"time"

	"github.com/uetlab/uetlab/fep/cms"
	"github.com/uetlab/uetlab/fep/lb"
	"github.com/uetlab/uetlab/internal/link/cbfc"
	"github.com/uetlab/uetlab/internal/link/llr"
	"github.com/uetlab/uetlab/switchd"
)

// Kind says what runs in a node.
type Kind string

// Node kinds of a topology file.
const (
	KindFEP    Kind = "fep"    // a fabric end point
	KindSwitch Kind = "switch" // a software switch
	KindHost   Kind = "host"   // plain Linux; takes no part in virtual time
)

// Plan is a topology worked out to the last address: plain data, the same from run to run, from which a lab is
// built. Everything in it is derived from the topology file alone.
type Plan struct {
	Name        string        `json:"name"`
	Nodes       []Node        `json:"nodes"` // fixed order: switches tier by tier from the top, then hosts; index = node id
	Links       []Link        `json:"links"`
	Convergence time.Duration `json:"convergenceNs"` // how long the fabric needs to route around a failure; <0 = never
	BaseRTT     time.Duration `json:"baseRttNs"`     // longest idle RTT between two end points: one full packet out, one ACK back
	BDP         int64         `json:"bdpBytes"`      // host link rate × BaseRTT: the plane BDP
	DSCP        DSCP          `json:"dscp"`
	PayloadMTU  int           `json:"payloadMtu"` // SES payload bytes per packet, 1024, 2048, 4096 or 8192
}

// Node is one container of the lab.
type Node struct {
	ID      int               `json:"id"`
	Name    string            `json:"name"`
	Kind    Kind              `json:"kind"`
	Tier    int               `json:"tier"`  // 0 = end point, 1 = leaf/edge, 2 = spine/agg, 3 = core
	Ports   []Port            `json:"ports"` // eth1 is Ports[0]
	Addr4   netip.Addr        `json:"addr4"` // fabric address; switches have one too (for ICMP and traces)
	Addr6   netip.Addr        `json:"addr6"`
	Latency time.Duration     `json:"latencyNs"`         // constant pipeline latency of the node (switch.latency; 0 for end points)
	Gate4   netip.Addr        `json:"gateway4,omitzero"` // end points: the attached switch, on-link; zero where the peer is an end point
	Gate6   netip.Addr        `json:"gateway6,omitzero"`
	Seed    uint64            `json:"seed"`            // hash seed of a switch, derived from its name unless set
	Image   string            `json:"image,omitempty"` // host nodes on docker
	Command []string          `json:"command,omitempty"`
	Switch  *switchd.Settings `json:"switch,omitempty"`
	FEP     *FEPConfig        `json:"fep,omitempty"`
}

// Port is one end of a link.
type Port struct {
	Name    string        `json:"name"` // eth1, eth2, …
	MAC     [6]byte       `json:"mac"`
	Link    int           `json:"link"`     // index into Plan.Links
	Peer    int           `json:"peer"`     // node id at the other end
	PeerIdx int           `json:"peerPort"` // index into that node's Ports
	LLDP    bool          `json:"lldp,omitempty"`
	Rate    int64         `json:"rateBps"`    // bits per second
	Delay   time.Duration `json:"delayNs"`    // propagation
	MTU     int           `json:"mtu"`        // IP bytes
	Queue   int64         `json:"queueBytes"` // buffer of the egress queue, bytes: a switch's data queue; end points have the fabric's automatic size
	BER     float64       `json:"ber,omitempty"`
	LLR     *llr.Config   `json:"llr,omitempty"`  // link layer retry, nil: off
	CBFC    *cbfc.Setup   `json:"cbfc,omitempty"` // credit-based flow control, nil: off
	PHY

	Miswired *End `json:"miswired,omitempty"` // where the cable really ends, nil: at Peer, as it should; see Far

	// Negotiated says that the port has LLR and CBFC only while it agrees on them with the far end: they are parameters then, and Wish says
	// what this end wants.
	Negotiated bool `json:"negotiated,omitempty"`
	Wish       Wish `json:"wish,omitzero"`
}

// Link joins two ports. Name is "leaf0-spine1", a further parallel one "leaf0-spine1#2"; the lower tier stands first.
type Link struct {
	ID    int           `json:"id"`
	Name  string        `json:"name"`
	A     End           `json:"a"`
	B     End           `json:"b"`
	LLDP  bool          `json:"lldp,omitempty"` // both ports speak LLDP
	Rate  int64         `json:"rateBps"`
	Delay time.Duration `json:"delayNs"`
	MTU   int           `json:"mtu"`
	BER   float64       `json:"ber,omitempty"`  // probability that a bit arrives wrong
	LLR   *llr.Config   `json:"llr,omitempty"`  // link layer retry, nil: off
	CBFC  *cbfc.Setup   `json:"cbfc,omitempty"` // credit-based flow control, nil: off
	PHY

	Negotiated bool    `json:"negotiated,omitempty"` // see Port
	Wishes     [2]Wish `json:"wishes,omitzero"`      // of A and B
}

// PHY is what a link is like below FEC, and FEC itself.
type PHY struct {
	UCR        float64 `json:"ucr,omitempty"`        // probability that a codeword is uncorrectable
	RawBER     float64 `json:"rawBer,omitempty"`     // probability that a bit is wrong before FEC
	Interleave int     `json:"interleave,omitempty"` // codewords sent in turn; 0: as many as is usual at the rate
}

// End names a port.
type End struct {
	Node int `json:"node"`
	Port int `json:"port"` // index into Node.Ports
}

// DSCP is the code points of the classes of traffic, each from 0 to 63 and no two the same. What has another one is best
// effort, unless a switch is told otherwise.
type DSCP struct {
	Control    uint8 `json:"control"`    // ACK, NACK, CP
	Data       uint8 `json:"data"`       // DSCP_TRIMMABLE
	Retx       uint8 `json:"retx"`       // DSCP_TRIMMABLE_RTX
	Trimmed    uint8 `json:"trimmed"`    // DSCP_TRIMMED
	LastHop    uint8 `json:"lastHop"`    // DSCP_TRIMMED_LASTHOP
	Unreliable uint8 `json:"unreliable"` // RUDI and UUD data, trimmable
	RoCE       uint8 `json:"roce"`
}

// FEPConfig is what a topology file may say of an end point.
type FEPConfig struct {
	CC      string `json:"cc,omitempty"`      // congestion control, empty: the fixed window
	LB      string `json:"lb"`                // spray (an EV per packet) | fixed (an EV per PDC) | what lb.Parse knows
	AckEach bool   `json:"ackEach,omitempty"` // an ACK for each packet
	Ordered bool   `json:"ordered,omitempty"` // all messages in mode ROD
	Window  int64  `json:"windowBytes"`       // fixed congestion window; auto = one BDP
	CSIG    string `json:"csig"`              // off | compact | wide

	AckTrigger int64      `json:"ackTriggerBytes,omitempty"` // ACK_Gen_Trigger, 0: 16 KiB
	RTO        string     `json:"rto,omitempty"`             // htsim, or empty: as in the standard
	OwnPDC     bool       `json:"ownPDC,omitempty"`          // a PDC and a congestion control context for each message
	NoOOO      bool       `json:"noOOO,omitempty"`           // losses are not inferred from later packets
	NoDFC      bool       `json:"noDFC,omitempty"`           // no penalty for sources, however little room there is for messages without a receive
	Control    cms.Config `json:"control,omitzero"`          // what is said of congestion control; zero: defaults
	Balance    lb.Params  `json:"balance,omitzero"`          // of load balancing

	Profiles   []string `json:"profiles"`        // ai-base, ai-full, hpc; a pair of end points uses the highest that both have
	Eager      int64    `json:"eagerBytes"`      // HPC: what a longer send brings at once; the target reads the rest; 0: what the window has room for
	Threshold  int64    `json:"sendThreshold"`   // AI Full: bytes from which on sends are deferrable; -1: none are
	Unexpected int64    `json:"unexpectedBytes"` // HPC: kept of messages without a receive
	RTR        int      `json:"rtr"`             // AI Full: messages that wait for a receive
	TooLong    string   `json:"tooLong"`         // truncate | reject
	AckData    int64    `json:"ackDataBytes"`    // read data that goes with the ACK
}

// Route is one ECMP entry of a switch: packets to Prefix leave by one of Ports (indices into Node.Ports).
type Route struct {
	Prefix netip.Prefix `json:"prefix"`
	Ports  []int        `json:"ports"`
}
