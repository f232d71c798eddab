package topology

import (
	"cmp"
	"net/netip"
	"time"

	"github.com/uetlab/uetlab/fabric/yamltree"
)

// FabricKind names a generator of nodes and links.
type FabricKind string

// The fabrics a topology file can ask for in one line.
const (
	LeafSpine FabricKind = "leaf-spine" // every leaf joined to every spine
	FatTree   FabricKind = "fat-tree"   // k-ary, three tiers: edge, agg, core
	Dumbbell  FabricKind = "dumbbell"   // two leaves joined by one link
	Star      FabricKind = "star"       // one leaf
	Pair      FabricKind = "pair"       // two end points on one wire
)

// Spec is a topology file as its author wrote it: what is not said is zero (or nil) here and gets its default in
// BuildPlan.
type Spec struct {
	File        string // where it was read from; empty when generated
	Name        string
	Description string
	Fabric      *Fabric
	Defaults    Defaults
	Routing     Routing
	Addressing  Addressing
	DSCP        DSCPParams
	Nodes       []*NodeSpec // in file order
	Links       []*LinkSpec // in file order
	Miswired    []*Swap     // in file order

	where       map[any]position // pointer to a field above → where it stands in the file
	partial     bool             // some of the file could not be read; only the draft's checks of names make sense
	entryBroken bool             // that includes entries of nodes or links
}

// Fabric asks a generator for nodes and links. Which of the sizes count depends on Kind.
type Fabric struct {
	Kind         FabricKind
	Spines       int // leaf-spine
	Leaves       int // leaf-spine
	HostsPerLeaf int // leaf-spine; default 2
	Uplinks      int // leaf-spine: parallel links between each leaf and each spine; default 1
	K            int // fat-tree: ports of every switch, even
	Hosts        int // star: end points; dumbbell: end points on each side
}

// Defaults hold for every link or node that says nothing itself.
type Defaults struct {
	Link   LinkParams
	Switch SwitchParams
	FEP    FEPParams
	Host   HostParams
}

// LinkParams describe both directions of a link.
type LinkParams struct {
	LLDP  string        // off, on or static: both ports tell each other who they are, and with on negotiate LLR and CBFC; default off
	Rate  int64         // bits per second; default 400 Gb/s
	Delay time.Duration // propagation; default 500 ns
	MTU   int           // IP bytes; default 4500
	BER   *float64      // probability that a bit arrives wrong; default 0
	LLR   LLRParams     // link layer retry; default off
	CBFC  CBFCParams    // credit-based flow control; default off

	UCR    *float64  // probability that a codeword is uncorrectable; default 0
	RawBER *float64  // probability that a bit is wrong before FEC; default 0
	FEC    FECParams // forward error correction
}

// FEPParams describe a fabric end point.
type FEPParams struct {
	Transport string // uet, or roce; default uet

	CC     string // congestion control; default nscc
	LB     string // load balancer; default reps
	ACK    string // coalesced, or packet: one for each; default coalesced
	Window Size   // of cc fixed; set without CC it means that; default auto
	CSIG   string // off, or the tag that it puts on its packets: compact or wide; default off

	AckTrigger Size          // ACK_Gen_Trigger of coalesced ACKs; default 16 KiB
	RTO        string        // spec or htsim; default spec
	PDC        string        // shared or message; default shared
	Signals    SignalParams  // default all on
	NSCC       NSCCParams    // these and the following: default by packages cms and lb
	RCCC       RCCCParams    //
	DCTCP      DCTCPParams   //
	MPRDMA     MPRDMAParams  //
	Swift      SwiftParams   //
	DCQCN      DCQCNParams   //
	Balance    BalanceParams //

	Profiles   []string // of the standard that it speaks; default ai-base and ai-full
	Eager      Size     // bytes that a send beyond them brings at once (HPC); default auto: what the window has room for
	Threshold  Size     // bytes from which on sends are deferrable (AI Full); default 8 KiB
	Unexpected Size     // bytes kept of messages that no receive waits for (HPC); default 1 MiB
	RTR        *int     // messages that wait for a receive after a deferrable send (AI Full); default 8
	TooLong    string   // what becomes of a message longer than its receive: truncate or reject; default truncate
	AckData    Size     // read data up to so many bytes goes with the ACK; default 16 bytes
}

// HostParams describe a plain Linux node.
type HostParams struct {
	Image   string
	Command []string
}

// Size is a number of bytes, plain or relative to the plane BDP. The zero value says nothing.
type Size struct {
	Auto  bool
	None  bool // zero bytes, or no limit
	Bytes int64
	PPM   int64 // millionths of the plane BDP: 10000 is 1%
}

// Routing says how the fabric reacts to a failure.
type Routing struct {
	Convergence *time.Duration // until remote switches route around it; Never; default 500 us
}

// Never is the convergence time of a fabric that never routes around a failure.
const Never = time.Duration(-1)

// Addressing moves the address plan. Zero prefixes mean 10.0.0.0/8 and fd00::/48.
type Addressing struct {
	IPv4 netip.Prefix
	IPv6 netip.Prefix
}

// DSCPParams give the classes of traffic their code points. Defaults are those of DSCP.
type DSCPParams struct {
	Control, Data, Retx, Trimmed, LastHop, Unreliable, RoCE *int
}

// NodeSpec adds a node or changes some. Name may be a glob (path.Match) when it changes nodes of the fabric.
type NodeSpec struct {
	Name string
	Kind Kind
	SwitchParams
	Seed *uint64
	FEPParams
	HostParams

	broken bool // could not be read in full
}

// LinkSpec adds a link or changes some. An endpoint is "leaf0" or "leaf0:eth3", or a glob of node names when it
// changes links of the fabric.
type LinkSpec struct {
	Endpoints [2]string
	LinkParams

	broken bool // could not be read in full
}

// position is a place in the file, counted from 1; zero means not from a file.
type position = yamltree.Place

// at tells where the field that key points to stands in the file.
func (s *Spec) at(key any) position { return s.where[key] }

// DefaultCC is the congestion control of end points of which a file says nothing.
const DefaultCC = "nscc"

// What a file that says nothing gets. autoBuffer holds until trimming lets one BDP suffice.
const (
	defaultRate         = int64(400_000_000_000)
	defaultDelay        = 500 * time.Nanosecond
	defaultMTU          = 4500
	defaultLatency      = 500 * time.Nanosecond
	defaultHash         = "mix"
	defaultLB           = "reps"
	defaultACK          = "coalesced"
	defaultConvergence  = 500 * time.Microsecond
	defaultHostsPerLeaf = 2
	trimBuffer          = 1 // plane BDPs of a queue that trims
	autoBuffer          = 5 // of one that drops
)

// over lays the values set in p over those of base.
func (p LinkParams) over(base LinkParams) LinkParams {
	if p.LLDP != "" {
		base.LLDP = p.LLDP
	}
	if p.Rate != 0 {
		base.Rate = p.Rate
	}
	if p.Delay != 0 {
		base.Delay = p.Delay
	}
	if p.MTU != 0 {
		base.MTU = p.MTU
	}
	if p.BER != nil {
		base.BER = p.BER
	}
	if p.UCR != nil {
		base.UCR = p.UCR
	}
	if p.RawBER != nil {
		base.RawBER = p.RawBER
	}
	base.FEC.Interleave = cmp.Or(p.FEC.Interleave, base.FEC.Interleave)
	base.LLR, base.CBFC = p.LLR.over(base.LLR), p.CBFC.over(base.CBFC)
	return base
}

// bytes works the size out for a given plane BDP, rounding up.
func (s Size) bytes(bdp int64, autoBDPs int64) int64 {
	switch {
	case s.None:
		return 0
	case s.PPM > 0:
		return (bdp*s.PPM + 999_999) / 1_000_000
	case s.Bytes > 0:
		return s.Bytes
	}
	return bdp * autoBDPs
}
