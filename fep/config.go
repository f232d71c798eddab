package fep

import (
	"fmt"
	"net/netip"
	"reflect"
	"time"

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

// MaxMessage is the longest message, in bytes.
const MaxMessage = 1 << 30

// Config fixes an end point. Every zero value stands for the default that its comment, or that of the same field of pds.Config,
// names (uet-pds-ses.md section 20).
type Config struct {
	MAC     wire.MAC // own address
	NextHop wire.MAC // address of the far port of the one link

	Addr4, Addr6 netip.Addr // both answer ICMP echo
	IPv6         bool       // the fabric address (FA) is Addr6; else Addr4

	PayloadMTU int    // SES payload bytes of a packet: 1024, 2048, 4096 or 8192; 0: the largest that fits the port
	Window     int64  // as in pds.Config, like all the others up to PSNLimit
	LB         string // LBSpray (default) or LBFixed
	NoCRC      bool
	ByRef      bool
	CSIG       string // CSIGOff (default), CSIGCompact or CSIGWide: tag data packets for switches to say how congested they are

	DSCPData           uint8
	DSCPRetx           uint8
	DSCPControl        uint8
	DSCPUnmanaged      uint8
	DSCPTrimmed        uint8
	DSCPTrimmedLastHop uint8
	Class              uint8
	ClassUnmanaged     uint8

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
	MaxRTORetx   int
	NackRetxTime time.Duration
	MaxNackRetx  int

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
	MaxMessages   int           // messages under way at the target; beyond it packets are refused with NO_SES_MSG_AVAIL; 0: no limit
	AnswerDelay   time.Duration // SES takes so long to answer a request; for tests of what PDS does meanwhile
	RI            uint16        // resource index of all endpoints, 0: 15
	RejectTooLong bool          // answer TOO_LONG instead of truncating
}

// headers is what a data packet has around its payload: Ethernet, IP, UDP, PDS, SES, CRC.
func headers(v6 bool) int {
	ip := wire.IPv4Len
	if v6 {
		ip = wire.IPv6Len
	}
	return wire.EthLen + ip + wire.UDPLen + wire.TypeRUDReq.HeaderLen() + wire.NextRequestStd.HeaderLen() + wire.CRCLen
}

// copyFields copies the fields that two structs have in common.
func copyFields(dst, src any) {
	d, s := reflect.ValueOf(dst).Elem(), reflect.ValueOf(src).Elem()
	for i := range d.NumField() {
		if f := s.FieldByName(d.Type().Field(i).Name); f.IsValid() {
			d.Field(i).Set(f)
		}
	}
}

// resolve fills in the defaults, and gives packet delivery its part. It fails on values that no packet could be built from.
func (c *Config) resolve(maxFrame int, port link.Config) (pc pds.Config, err error) {
	if c.MessageIdle == 0 {
		c.MessageIdle = 5 * time.Second
	}
	if c.RI == 0 {
		c.RI = 15
	}
	if err := c.resolveAddr(maxFrame, port); err != nil {
		return pc, err
	}
	copyFields(&pc, c)
	pc.FA = c.fa()
	if err := pc.Resolve(); err != nil {
		return pc, err
	}
	copyFields(c, &pc)
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
