package fep

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/uetlab/uetlab/fep/cms"
	"github.com/uetlab/uetlab/fep/lb"
	"github.com/uetlab/uetlab/fep/pds"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/wire"
)

// Load balancers and forms of CSIG tags.
const (
	LBSpray     = pds.LBSpray
	LBFixed     = pds.LBFixed
	CSIGOff     = pds.CSIGOff
	CSIGCompact = pds.CSIGCompact
	CSIGWide    = pds.CSIGWide
)

// Infinite counts of retransmissions, see pds.Config.
const (
	InfiniteRTO  = pds.InfiniteRTO
	InfiniteNack = pds.InfiniteNack
)

// InfiniteRestarts is a number of restarts.
const InfiniteRestarts = -1

// Config fixes an end point. Every zero value stands for the default that its comment, or that of the same field of pds.Config,
// names (uet-pds-ses.md section 20).
type Config struct {
	MAC     wire.MAC // own address
	NextHop wire.MAC // address of the far port of the one link

	Addr4, Addr6 netip.Addr // both answer ICMP echo
	IPv6         bool       // the fabric address (FA) is Addr6; else Addr4

	PayloadMTU int   // SES payload bytes of a packet: 1024, 2048, 4096 or 8192; 0: the largest that fits the port
	Window     int64 // as in pds.Config, like all the others up to PSNLimit
	LB         string
	Ordered    bool // messages of all endpoints keep their order (ROD), whatever the endpoint says: what RoCE does
	Balance    lb.Params
	CC         *cms.Config
	NoCRC      bool
	ByRef      bool
	CSIG       string // CSIGOff (default), CSIGCompact or CSIGWide: tag data packets for switches to say how congested they are

	CSIGCompactTPID, CSIGWideTPID wire.EtherType

	DSCPData           uint8
	DSCPRetx           uint8
	DSCPControl        uint8
	DSCPUnmanaged      uint8
	DSCPTrimmed        uint8
	DSCPTrimmedLastHop uint8
	Class              uint8
	ClassUnmanaged     uint8
	ClassControl       uint8

	AckType       wire.PDSType
	AckEvery      bool
	NoAckOnECN    bool
	AckGenTrigger int
	AckGenMinAdd  int
	MaxAckDelay   time.Duration
	MaxAckData    int
	TrimmableAck  int
	MPR           uint8

	RTOInit      time.Duration
	RTOMax       time.Duration
	RTOConstant  bool
	OwnPDC       bool
	MaxRTORetx   int
	NackRetxTime time.Duration
	MaxNackRetx  int

	NoECN        bool
	NoRTT        bool
	NoTrim       bool
	NoDFC        bool
	NoInfer      bool
	InferEV      bool
	EVMargin     int
	RcvrInfer    int
	TailLossTime time.Duration
	MaxTailLoss  int

	IdleClose    time.Duration
	TargetIdle   time.Duration
	CloseReqTime time.Duration
	Hold         time.Duration
	ClearTime    time.Duration
	NewPDCTime   time.Duration
	Keepalive    time.Duration

	MaxPDCs    int
	PDCsPerKey int
	GtdSlots   int
	MaxRUDI    int
	Secure     pds.Secure
	PSNLimit   uint32

	MessageIdle   time.Duration // target gives up a silent message after this, 0: 5 s
	MaxMessages   int           // messages under way at the target; beyond it packets are refused with NO_SES_MSG_AVAIL; 0: 65536
	MaxReturns    int           // packets of read data under way at the target; beyond it reads are acknowledged when their data is, and beyond 16 times it refused with NO_RESOURCE; 0: 4096
	MaxRestarts   int           // restarts of a message that its target could not take, 0: 5, InfiniteRestarts: no limit, see NoRestart
	NoRestart     bool          // such a message fails at once
	RestartWait   time.Duration // the first restart comes after once to twice this, each later one after twice as long; 0: 50 ms
	AnswerDelay   time.Duration // SES takes so long to answer a request; for tests of what PDS does meanwhile
	RI            uint16        // resource index of endpoints that do not choose, 0: 15
	RejectTooLong bool          // answer TOO_LONG instead of truncating, on all endpoints
	Profiles      Profiles      // 0: DefaultProfiles
	MaxRTR        int           // as in EndpointConfig, of endpoints that do not choose, like the next two
	Unexpected    int
	EagerSize     int
	SendThreshold int    // bytes from which on sends are deferrable (AI Full), 0: 8 KiB, -1: none
	SmallHeader   bool   // take optimized headers, and send them to those that do
	Incarnation   uint64 // another one for each start of the process; 0: starts need not differ
}

// headers is what a data packet has around its payload: Ethernet, IP, UDP, PDS, SES, in HPC the extension of a rendezvous, CRC.
func headers(v6, rendezvous bool) int {
	ip := wire.IPv4Len
	if v6 {
		ip = wire.IPv6Len
	}
	n := wire.EthLen + ip + wire.UDPLen + wire.TypeRUDReq.HeaderLen() + wire.NextRequestStd.HeaderLen() + wire.CRCLen
	if rendezvous {
		n += rendezvousLen
	}
	return n
}

// delivery is packet delivery's part of the configuration.
func (c *Config) delivery() pds.Config {
	return pds.Config{
		MAC: c.MAC, NextHop: c.NextHop, PayloadMTU: c.PayloadMTU, Window: c.Window, LB: c.LB, Balance: c.Balance, CC: c.CC, NoCRC: c.NoCRC, ByRef: c.ByRef,
		CSIG: c.CSIG, CSIGCompactTPID: c.CSIGCompactTPID, CSIGWideTPID: c.CSIGWideTPID, DSCPData: c.DSCPData,
		DSCPRetx: c.DSCPRetx, DSCPControl: c.DSCPControl, DSCPUnmanaged: c.DSCPUnmanaged, DSCPTrimmed: c.DSCPTrimmed,
		DSCPTrimmedLastHop: c.DSCPTrimmedLastHop, Class: c.Class, ClassUnmanaged: c.ClassUnmanaged, ClassControl: c.ClassControl, AckType: c.AckType,
		AckEvery: c.AckEvery, NoAckOnECN: c.NoAckOnECN, AckGenTrigger: c.AckGenTrigger, AckGenMinAdd: c.AckGenMinAdd,
		MaxAckDelay: c.MaxAckDelay, MaxAckData: c.MaxAckData, TrimmableAck: c.TrimmableAck, MPR: c.MPR, RTOInit: c.RTOInit,
		RTOMax: c.RTOMax, RTOConstant: c.RTOConstant, OwnPDC: c.OwnPDC, NoECN: c.NoECN, NoRTT: c.NoRTT, NoTrim: c.NoTrim, MaxRTORetx: c.MaxRTORetx, NackRetxTime: c.NackRetxTime, MaxNackRetx: c.MaxNackRetx, NoDFC: c.NoDFC, NoInfer: c.NoInfer,
		InferEV: c.InferEV, EVMargin: c.EVMargin, RcvrInfer: c.RcvrInfer, TailLossTime: c.TailLossTime,
		MaxTailLoss: c.MaxTailLoss, IdleClose: c.IdleClose, TargetIdle: c.TargetIdle, CloseReqTime: c.CloseReqTime, Hold: c.Hold,
		ClearTime: c.ClearTime, NewPDCTime: c.NewPDCTime, Keepalive: c.Keepalive, MaxPDCs: c.MaxPDCs, PDCsPerKey: c.PDCsPerKey,
		GtdSlots: c.GtdSlots, MaxRUDI: c.MaxRUDI, Secure: c.Secure, PSNLimit: c.PSNLimit,
		FA: c.fa(),
	}
}

// adopt takes over what packet delivery has filled in.
func (c *Config) adopt(p *pds.Config) {
	c.MAC, c.NextHop, c.PayloadMTU, c.Window, c.LB = p.MAC, p.NextHop, p.PayloadMTU, p.Window, p.LB
	c.NoCRC, c.ByRef, c.CSIG, c.CSIGCompactTPID, c.CSIGWideTPID = p.NoCRC, p.ByRef, p.CSIG, p.CSIGCompactTPID, p.CSIGWideTPID
	c.DSCPData, c.DSCPRetx, c.DSCPControl, c.DSCPUnmanaged, c.DSCPTrimmed = p.DSCPData, p.DSCPRetx, p.DSCPControl, p.DSCPUnmanaged, p.DSCPTrimmed
	c.DSCPTrimmedLastHop, c.Class, c.ClassUnmanaged, c.ClassControl, c.AckType, c.AckEvery = p.DSCPTrimmedLastHop, p.Class, p.ClassUnmanaged, p.ClassControl, p.AckType, p.AckEvery
	c.NoAckOnECN, c.AckGenTrigger, c.AckGenMinAdd, c.MaxAckDelay, c.MaxAckData = p.NoAckOnECN, p.AckGenTrigger, p.AckGenMinAdd, p.MaxAckDelay, p.MaxAckData
	c.TrimmableAck, c.MPR, c.RTOInit, c.RTOMax, c.MaxRTORetx = p.TrimmableAck, p.MPR, p.RTOInit, p.RTOMax, p.MaxRTORetx
	c.NackRetxTime, c.MaxNackRetx, c.NoDFC, c.NoInfer, c.InferEV, c.EVMargin = p.NackRetxTime, p.MaxNackRetx, p.NoDFC, p.NoInfer, p.InferEV, p.EVMargin
	c.RcvrInfer, c.TailLossTime, c.MaxTailLoss, c.IdleClose, c.TargetIdle = p.RcvrInfer, p.TailLossTime, p.MaxTailLoss, p.IdleClose, p.TargetIdle
	c.CloseReqTime, c.Hold, c.ClearTime, c.NewPDCTime, c.Keepalive = p.CloseReqTime, p.Hold, p.ClearTime, p.NewPDCTime, p.Keepalive
	c.MaxPDCs, c.PDCsPerKey, c.GtdSlots, c.MaxRUDI, c.Secure = p.MaxPDCs, p.PDCsPerKey, p.GtdSlots, p.MaxRUDI, p.Secure
	c.PSNLimit, c.Balance, c.CC = p.PSNLimit, p.Balance, p.CC
	c.OwnPDC, c.RTOConstant, c.NoECN, c.NoRTT, c.NoTrim = p.OwnPDC, p.RTOConstant, p.NoECN, p.NoRTT, p.NoTrim
}

// resolve fills in the defaults, and gives packet delivery its part. It fails on values that no packet could be built from.
func (c *Config) resolve(maxFrame int, port link.Config) (pc pds.Config, err error) {
	if c.MessageIdle == 0 {
		c.MessageIdle = 5 * time.Second
	}
	if c.RI == 0 {
		c.RI = defaultRI
	}
	if c.MaxMessages == 0 {
		c.MaxMessages = 1 << 16
	}
	if c.MaxReturns == 0 {
		c.MaxReturns = 1 << 12
	}
	switch {
	case c.NoRestart:
		c.MaxRestarts = 0
	case c.MaxRestarts == 0:
		c.MaxRestarts = 5
	}
	if c.RestartWait == 0 {
		c.RestartWait = 50 * time.Millisecond
	}
	if c.SendThreshold == 0 {
		c.SendThreshold = 8 << 10
	}
	if c.Profiles &= allProfiles; c.Profiles == 0 {
		c.Profiles = DefaultProfiles
	}
	if err := c.resolveAddr(maxFrame, port); err != nil {
		return pc, err
	}
	pc = c.delivery()
	if err := pc.Resolve(); err != nil {
		return pc, err
	}
	c.adopt(&pc)
	return pc, nil
}

func (c *Config) resolveAddr(maxFrame int, port link.Config) error {
	if a := c.fa(); c.IPv6 && !a.Is6() || !c.IPv6 && !a.Is4() {
		return fmt.Errorf("fabric address %v: is not of the wanted family", a)
	}
	room := maxFrame
	if port.MTU > 0 {
		room = min(room, port.MTU+wire.EthLen)
	}
	room -= headers(c.IPv6, c.Profiles&HPC != 0)
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
