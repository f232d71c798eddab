package pds

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/uetlab/uetlab/fep/cms"
	"github.com/uetlab/uetlab/fep/lb"
	"github.com/uetlab/uetlab/wire"
)

// Load balancers.
const (
	LBSpray = "spray" // a new random entropy value for every data packet of an unordered PDC
	LBFixed = "fixed" // one entropy value for each PDC
)

// Infinite turns off a retransmission limit: Max_RTO_Retx_Cnt 15, Max_NACK_Retx_Cnt 31.
const (
	InfiniteRTO  = 15
	InfiniteNack = 31
)

// Config fixes a manager. Every zero value stands for the default that its comment names (uet-pds-ses.md section 20).
type Config struct {
	MAC     wire.MAC   // own address
	NextHop wire.MAC   // of the far port of the one link
	FA      netip.Addr // fabric address

	PayloadMTU int         // SES payload bytes of a full packet
	Window     int64       // bytes in flight per PDC and direction, in nominal bytes (uet-cms.md 1); 0: 150 000, 100 Gb/s x 12 us
	LB         string      // LBSpray (default), LBFixed or what lb.Parse knows
	Balance    lb.Params   // parameters of the load balancer, but for those that its name has
	CC         *cms.Config // congestion control, nil: the fixed window. It need not be resolved, nor have an MTU
	NoCRC      bool        // leave out the CRC trailer (uet-wire.md 14)
	ByRef      bool        // payload stays in the sender's memory until it has arrived: all nodes share one address space
	CSIG       string      // CSIGOff (default), CSIGCompact or CSIGWide

	CSIGCompactTPID, CSIGWideTPID wire.EtherType // of the tags; 0: 0xCCDD and 0xCCDE

	DSCPData           uint8 // 0: 10
	DSCPRetx           uint8 // 0: 12
	DSCPControl        uint8 // 0: 46
	DSCPUnmanaged      uint8 // RUDI and UUD data, 0: 8
	DSCPTrimmed        uint8 // of requests that a switch cut on its way, 0: 34
	DSCPTrimmedLastHop uint8 // … on the last link, 0: 36
	Class              uint8 // traffic class of data: PFC of that priority stops it; 0: 1
	ClassUnmanaged     uint8 // of RUDI and UUD data, 0: class 0
	ClassControl       uint8 // of ACKs and other control packets, which wait for credits only; 0: class 0

	AckType       wire.PDSType  // of ACKs: TypeAckCC (default), TypeAck or TypeAckCCX
	AckEvery      bool          // Enb_ACK_Per_Pkt: ask for an ACK of every packet
	NoAckOnECN    bool          // ACK_On_ECN = 0: a CE mark alone is no reason for an ACK
	AckGenTrigger int           // bytes, 0: 16 KiB; negative: every packet is acknowledged
	AckGenMinAdd  int           // bytes that a packet counts at least, 0: 1 KiB
	MaxAckDelay   time.Duration // 0: the smaller of RTOInit/4 and 250 us; negative: off
	MaxAckData    int           // Max_ACK_Data_Size, bytes, 0: 16; negative: none
	TrimmableAck  int           // Trimmable_ACK_Size: an ACK with more data than this is in the data class, 0: 10 KiB
	MPR           uint8         // Default_MPR and the range we advertise, in 128 PSNs; 0: 8

	RTOInit      time.Duration // 0: 1 ms; doubles with every retransmission of a packet
	RTOMax       time.Duration // 0: 4 s
	RTOConstant  bool          // RTOInit does not double (uet-cms.md 10, htsim)
	MaxRTORetx   int           // Max_RTO_Retx_Cnt, 0: 5; 15: no limit
	NackRetxTime time.Duration // NACK_Retx_Time, 0: 1 ms
	MaxNackRetx  int           // Max_NACK_Retx_Cnt, 0: 5; 31: no limit; trims count with NSCC only, else nothing makes them stop, and in RUD only

	NoECN  bool // congestion management does not see marks: neither windows nor load balancing
	NoRTT  bool // … round-trip times
	NoTrim bool // … that a packet was trimmed: it counts as lost, and is sent again at once all the same

	NoDFC        bool          // destination flow control off: ACKs put no penalty on the source's window, however full SES is
	NoInfer      bool          // no inference of losses from later packets, and no probing of a silent tail (10.2)
	InferEV      bool          // inference from packets with the same entropy value (10.3)
	EVMargin     int           // later packets with the same entropy value that prove a loss, 0: 3
	RcvrInfer    int           // receiver: NACK a gap that so many later packets have jumped (10.4); 0: off
	TailLossTime time.Duration // ask for the highest packet after so long a silence (10.7); 0: off
	MaxTailLoss  int           // Max_Tail_Loss_Retx, 0: 5

	IdleClose    time.Duration // initiator closes an idle PDC after this, 0: 2 s
	TargetIdle   time.Duration // target asks to close a silent PDC after this, 0: 60 s
	CloseReqTime time.Duration // Close_REQ_Time, 0: 1 ms
	Hold         time.Duration // target keeps a closed PDC for this long, 0: 100 ms
	ClearTime    time.Duration // PDS_Clear_Time, 0: 1 ms
	NewPDCTime   time.Duration // New_PDC_Time: a PDC that waits for its demanded Start_PSN, 0: 5 ms
	Keepalive    time.Duration // initiator probes an idle PDC at this interval, three unanswered ones end it; 0: off

	MaxPDCs    int  // both roles together, of several one is left to peers, 0: 1000
	OwnPDC     bool // a message of mode RUD has a PDC and a congestion control context of its own, as simulators have a connection for each flow
	PDCsPerKey int  // PDCs to one peer, job and traffic class in mode RUD, 0: 4; in mode ROD it is 1
	GtdSlots   int  // stored responses of the whole FEP, 0: 256
	MaxRUDI    int  // RUDI packets outstanding, 0: 256

	Secure   Secure // start rules of TSS, nil: none
	PSNLimit uint32 // PSNs after which a PDC is replaced: 2^31 with TSS; 0: no limit
}

func or[T int | int64 | uint8 | ~uint16 | time.Duration | wire.PDSType](v *T, def T) {
	if *v == 0 {
		*v = def
	}
}

// Resolve fills in the defaults. It fails on values that mean nothing; each error names the field and what it takes.
func (c *Config) Resolve() error {
	or(&c.Window, 150_000)
	or(&c.DSCPData, 10)
	or(&c.DSCPRetx, 12)
	or(&c.DSCPControl, 46)
	or(&c.DSCPUnmanaged, 8)
	or(&c.DSCPTrimmed, 34)
	or(&c.DSCPTrimmedLastHop, 36)
	or(&c.Class, 1)
	or(&c.CSIGCompactTPID, wire.EtherCSIG)
	or(&c.CSIGWideTPID, wire.EtherCSIGWide)
	or(&c.AckType, wire.TypeAckCC)
	or(&c.AckGenTrigger, 16<<10)
	or(&c.AckGenMinAdd, 1<<10)
	or(&c.MaxAckData, 16)
	or(&c.TrimmableAck, 10<<10)
	or(&c.MPR, 8)
	or(&c.EVMargin, 3)
	or(&c.MaxTailLoss, 5)
	or(&c.MaxPDCs, 1000)
	or(&c.PDCsPerKey, 4)
	or(&c.GtdSlots, 256)
	or(&c.MaxRUDI, 256)
	c.resolveTimes()
	if c.LB == "" {
		c.LB = LBSpray
	}
	if err := c.resolveCongestion(); err != nil {
		return err
	}
	return c.check()
}

func (c *Config) resolveTimes() {
	or(&c.RTOInit, time.Millisecond)
	or(&c.RTOMax, 4*time.Second)
	or(&c.MaxRTORetx, 5)
	or(&c.NackRetxTime, time.Millisecond)
	or(&c.MaxNackRetx, 5)
	or(&c.MaxAckDelay, min(c.RTOInit/4, 250*time.Microsecond))
	if c.OwnPDC { // nothing comes after its message
		or(&c.IdleClose, c.RTOInit)
	}
	or(&c.IdleClose, 2*time.Second)
	or(&c.TargetIdle, time.Minute)
	or(&c.CloseReqTime, time.Millisecond)
	or(&c.Hold, 100*time.Millisecond)
	or(&c.ClearTime, time.Millisecond)
	or(&c.NewPDCTime, 5*time.Millisecond)
}

// balanced says whether entropy values are chosen by what became of packets.
func (c *Config) balanced() bool { return c.LB != LBSpray && c.LB != LBFixed }

func (c *Config) resolveCongestion() error {
	if c.balanced() {
		named, err := lb.Parse(c.LB)
		if err != nil {
			return err
		}
		c.Balance.Algorithm = named.Algorithm
		if named.SubPaths != 0 {
			c.Balance.SubPaths = named.SubPaths
		}
		if c.CC != nil {
			or(&c.Balance.RTT, c.CC.Net.BaseRTT)
		}
		if c.Balance.RTO == 0 {
			c.Balance.RTO = max(c.RTOInit, c.Balance.RTT)
		}
		if err := c.Balance.Resolve(); err != nil {
			return fmt.Errorf("load balancer: %w", err)
		}
	}
	if c.CC == nil {
		return nil
	}
	cc := *c.CC // the caller's own stays as it is
	c.CC = &cc
	cc.NoECN, cc.NoRTT, cc.NoTrim = cc.NoECN || c.NoECN, cc.NoRTT || c.NoRTT, cc.NoTrim || c.NoTrim
	if cc.Net.MTU == 0 {
		cc.Net.MTU = c.nominal(wire.NextRequestStd.HeaderLen(), c.PayloadMTU)
	}
	if cc.NSCC.AckTrigger == 0 && c.AckGenTrigger > 0 {
		cc.NSCC.AckTrigger = int64(c.AckGenTrigger)
	}
	if err := cc.Resolve(); err != nil {
		return fmt.Errorf("congestion control: %w", err)
	}
	return nil
}

func (c *Config) check() error {
	switch c.CSIG {
	case "", CSIGOff, CSIGCompact, CSIGWide:
	default:
		return fmt.Errorf("CSIG %q: is none of %s, %s, %s", c.CSIG, CSIGOff, CSIGCompact, CSIGWide)
	}
	if c.MaxPDCs < 1 || c.MaxPDCs > 0xFFFF {
		return fmt.Errorf("max PDCs %d: outside 1..65535", c.MaxPDCs)
	}
	if !c.AckType.IsAck() {
		return fmt.Errorf("ACK type %v: is none of ACK, ACK_CC, ACK_CCX", c.AckType)
	}
	if c.MaxRTORetx < 0 || c.MaxRTORetx > InfiniteRTO {
		return fmt.Errorf("Max_RTO_Retx_Cnt %d: outside 0..15", c.MaxRTORetx)
	}
	if c.MaxNackRetx < 0 || c.MaxNackRetx > InfiniteNack {
		return fmt.Errorf("Max_NACK_Retx_Cnt %d: outside 0..31", c.MaxNackRetx)
	}
	return nil
}

// nominal is the nominal size of a request packet with n bytes of payload: UDP length + 40 (uet-cms.md 1).
func (c *Config) nominal(ses, n int) int {
	size := wire.UDPLen + c.requestType(RUD).HeaderLen() + ses + n + 40
	if !c.NoCRC {
		size += wire.CRCLen
	}
	return size
}

// requestType is the type of data packets: those of a source that waits for credit say how much it wants.
func (c *Config) requestType(mode Mode) wire.PDSType {
	credit := c.CC != nil && c.CC.Algorithm.Credits()
	switch {
	case mode == ROD && credit:
		return wire.TypeRODCCReq
	case mode == ROD:
		return wire.TypeRODReq
	case credit:
		return wire.TypeRUDCCReq
	}
	return wire.TypeRUDReq
}

// Patience is how long a packet is tried before its PDC is given up: the sum of its timeouts.
func (c *Config) Patience() time.Duration {
	var sum time.Duration
	for n := 0; n <= c.MaxRTORetx; n++ {
		sum += c.rto(uint8(n))
	}
	return sum
}

// rto is how long a packet that timed out n times is given.
func (c *Config) rto(n uint8) time.Duration {
	if c.RTOConstant {
		return c.RTOInit
	}
	return min(c.RTOInit<<min(n, 31), c.RTOMax)
}

// Secure are the rules by which the security sublayer rules where PSNs begin (uet-pds-ses.md 4.5). All methods are called from
// the node's events.
type Secure interface {
	// Start is the first PSN of a PDC that we open to peer; ok false leaves the choice to chance.
	Start(peer netip.Addr, job uint32) (psn wire.PSN, ok bool)
	// Accept judges the Start_PSN of a PDC that peer opens: ok, or the start that it has to begin with.
	Accept(peer netip.Addr, job uint32, start wire.PSN) (want wire.PSN, ok bool)
	// Closed tells of a PDC of peer that ended, and its last PSN. Its result goes into the closing ACK: what the next PDC
	// may start with at the earliest.
	Closed(peer netip.Addr, job uint32, start, last wire.PSN) (expected wire.PSN)
	// Expected tells what peer wants the next start to be, from a NACK or a closing ACK.
	Expected(peer netip.Addr, job uint32, psn wire.PSN)
}
