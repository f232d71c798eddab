package fep

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/wire"
)

// Load balancers.
const (
	LBSpray = "spray" // a new random entropy value for every data packet
	LBFixed = "fixed" // one entropy value for each PDC
)

// MaxMessage is the longest message, in bytes.
const MaxMessage = 1 << 30

// Config fixes an end point. Every zero value stands for the default that its comment names (uet-pds-ses.md section 20).
type Config struct {
	MAC     wire.MAC // own address
	NextHop wire.MAC // address of the far port of the one link

	Addr4, Addr6 netip.Addr // both answer ICMP echo
	IPv6         bool       // the fabric address (FA) is Addr6; else Addr4

	PayloadMTU int    // SES payload bytes of a packet: 1024, 2048, 4096 or 8192; 0: the largest that fits the port
	Window     int64  // bytes in flight per PDC, in nominal bytes (uet-cms.md 1); 0: 150 000, 100 Gb/s x 12 us
	LB         string // LBSpray (default) or LBFixed
	NoCRC      bool   // leave out the CRC trailer (uet-wire.md 14)
	ByRef      bool   // payload stays in the sender's memory until it has arrived: all nodes share one address space

	CSIG string // CSIGOff (default), CSIGCompact or CSIGWide: tag data packets for switches to say how congested they are

	// EtherTypes of the tags; 0: 0xCCDD and 0xCCDE.
	CSIGCompactTPID, CSIGWideTPID wire.EtherType

	DSCPData    uint8 // 0: 10
	DSCPRetx    uint8 // 0: 12
	DSCPControl uint8 // 0: 46

	DSCPTrimmed        uint8 // of requests that a switch cut on its way, 0: 34
	DSCPTrimmedLastHop uint8 // … on the last link, 0: 36
	Class              uint8 // traffic class of data: PFC of that priority stops it; 0: 1

	RTOInit      time.Duration // 0: 1 ms; doubles with every retransmission of a packet
	RTOMax       time.Duration // 0: 4 s
	MaxRTORetx   int           // Max_RTO_Retx_Cnt, 0: 5
	NackRetxTime time.Duration // NACK_Retx_Time, 0: 1 ms
	MaxNackRetx  int           // Max_NACK_Retx_Cnt, 0: 5; trims do not count: with a fixed window nothing makes them stop

	MPR           uint8         // Default_MPR and the range we advertise, in 128 PSNs; 0: 8
	AckGenTrigger int           // bytes, 0: 16 KiB; negative: every packet is acknowledged
	AckGenMinAdd  int           // bytes that a packet counts at least, 0: 1 KiB
	MaxAckDelay   time.Duration // 0: the smaller of RTOInit/4 and 250 us

	IdleClose   time.Duration // initiator closes an idle PDC after this, 0: 2 s
	TargetIdle  time.Duration // target forgets a silent PDC after this, 0: 60 s
	Hold        time.Duration // target keeps a closed PDC for this long, 0: 100 ms
	ClearTime   time.Duration // PDS_Clear_Time, 0: 1 ms
	MessageIdle time.Duration // target gives up a silent message after this, 0: 5 s

	MaxPDCs    int // both roles together, 0: 1000
	PDCsPerKey int // PDCs to one peer and job, 0: 4
	GtdSlots   int // stored responses of the whole FEP, 0: 256

	RI            uint16 // resource index of all endpoints, 0: 15
	RejectTooLong bool   // answer TOO_LONG instead of truncating
}

func or[T int | int64 | uint8 | ~uint16 | time.Duration](v *T, def T) {
	if *v == 0 {
		*v = def
	}
}

// patience is how long a packet is tried: the sum of its timeouts.
func (c *Config) patience() time.Duration {
	var sum time.Duration
	for n := 0; n <= c.MaxRTORetx; n++ {
		sum += min(c.RTOInit<<min(n, 31), c.RTOMax)
	}
	return sum
}

// headers is what a data packet has around its payload: Ethernet, IP, UDP, PDS, SES, CRC.
func headers(v6 bool) int {
	ip := wire.IPv4Len
	if v6 {
		ip = wire.IPv6Len
	}
	return wire.EthLen + ip + wire.UDPLen + wire.TypeRUDReq.HeaderLen() + wire.NextRequestStd.HeaderLen() + wire.CRCLen
}

// nominal is the nominal size of a data packet with n bytes of payload: UDP length + 40 (uet-cms.md 1).
func (c *Config) nominal(n int) int {
	size := wire.UDPLen + wire.TypeRUDReq.HeaderLen() + wire.NextRequestStd.HeaderLen() + n + 40
	if !c.NoCRC {
		size += wire.CRCLen
	}
	return size
}

// resolve fills in the defaults. It fails on values that no packet could be built from.
func (c *Config) resolve(maxFrame int, port link.Config) error {
	or(&c.Window, 150_000)
	or(&c.DSCPData, 10)
	or(&c.DSCPRetx, 12)
	or(&c.DSCPControl, 46)
	or(&c.DSCPTrimmed, 34)
	or(&c.DSCPTrimmedLastHop, 36)
	or(&c.Class, 1)
	or(&c.CSIGCompactTPID, wire.EtherCSIG)
	or(&c.CSIGWideTPID, wire.EtherCSIGWide)
	or(&c.RTOInit, time.Millisecond)
	or(&c.RTOMax, 4*time.Second)
	or(&c.MaxRTORetx, 5)
	or(&c.NackRetxTime, time.Millisecond)
	or(&c.MaxNackRetx, 5)
	or(&c.MPR, 8)
	or(&c.AckGenTrigger, 16<<10)
	or(&c.AckGenMinAdd, 1<<10)
	or(&c.MaxAckDelay, min(c.RTOInit/4, 250*time.Microsecond))
	or(&c.IdleClose, 2*time.Second)
	or(&c.TargetIdle, time.Minute)
	or(&c.Hold, 100*time.Millisecond)
	or(&c.ClearTime, time.Millisecond)
	or(&c.MessageIdle, 5*time.Second)
	or(&c.MaxPDCs, 1000)
	or(&c.PDCsPerKey, 4)
	or(&c.GtdSlots, 256)
	or(&c.RI, 15)
	if c.LB == "" {
		c.LB = LBSpray
	}
	if c.LB != LBSpray && c.LB != LBFixed {
		return fmt.Errorf("load balancer %q: is neither %s nor %s", c.LB, LBSpray, LBFixed)
	}
	switch c.CSIG {
	case "", CSIGOff, CSIGCompact, CSIGWide:
	default:
		return fmt.Errorf("CSIG %q: is none of %s, %s, %s", c.CSIG, CSIGOff, CSIGCompact, CSIGWide)
	}
	if c.MaxPDCs < 1 || c.MaxPDCs > 0xFFFF {
		return fmt.Errorf("max PDCs %d: outside 1..65535", c.MaxPDCs)
	}
	return c.resolveAddr(maxFrame, port)
}

func (c *Config) resolveAddr(maxFrame int, port link.Config) error {
	if a := c.fa(); c.IPv6 && !a.Is6() || !c.IPv6 && !a.Is4() {
		return fmt.Errorf("fabric address %v: is not of the wanted family", a)
	}
	room := maxFrame
	if port.MTU > 0 {
		room = min(room, port.MTU+wire.EthLen)
	}
	room -= headers(c.IPv6)
	if c.PayloadMTU == 0 {
		for m := 1024; m <= 8192 && m <= room; m *= 2 {
			c.PayloadMTU = m
		}
	}
	switch c.PayloadMTU {
	case 1024, 2048, 4096, 8192:
	default:
		return fmt.Errorf("payload MTU %d: must be 1024, 2048, 4096 or 8192", c.PayloadMTU)
	}
	if c.PayloadMTU > room {
		return fmt.Errorf("payload MTU %d: the port has room for %d", c.PayloadMTU, room)
	}
	return nil
}

func (c *Config) fa() netip.Addr {
	if c.IPv6 {
		return c.Addr6
	}
	return c.Addr4
}
