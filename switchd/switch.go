// Package switchd is the software switch: an IP router with ECMP, sans-I/O. A frame that arrives is checked, looked up,
// given its new MAC addresses and one hop less to live, and queued on one port of its ECMP group, chosen by a hash of the
// 5-tuple; the UDP source port of a UET packet is its entropy value, so end points choose paths by choosing it.
// Queueing, serialization and impairments are the port's (internal/link).
//
//	arrival ─► Ethernet, IP checks ─► ours? ─► ICMP echo reply
//	                                    │
//	                                    ▼
//	              TTL ─► longest prefix ─► ECMP group ─► rewrite ─► egress port
package switchd

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	"github.com/uetlab/uetlab/internal/engine"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// Config describes a switch.
type Config struct {
	Addr4, Addr6 netip.Addr // the switch's own addresses
	Hash         string     // mix (default) or crc32
	Seed         uint64     // of the ECMP hash
	Ports        []Port
}

// Port is what the switch knows of one of its ports.
type Port struct {
	MAC  wire.MAC // its own
	Peer wire.MAC // of the far end
}

// Route sends packets to any of Prefixes out of one of Ports, by hash.
type Route struct {
	Ports    []int
	Prefixes []netip.Prefix
}

// Switch implements engine.Core.
type Switch struct {
	node    *engine.Node
	cfg     Config
	ecmp    ecmpState
	csig    csigState
	mirrors mirrorState

	groups []*group
	len4   []int                 // prefix lengths in use, longest first
	v4     [33]map[uint32]*group // by masked destination
	len6   []int
	v6     [129]map[[16]byte]*group
	own4   uint32
	own6   [16]byte
}

// New makes the core of a switch on node n; routes come with SetRoutes.
func New(n *engine.Node, cfg Config) (*Switch, error) {
	s := &Switch{node: n, cfg: cfg}
	if err := s.setECMP(&Settings{ECMP: ECMP{Hash: cfg.Hash}}); err != nil {
		return nil, err
	}
	if len(cfg.Ports) != len(n.Ports) {
		return nil, fmt.Errorf("switch has %d ports, its node %d", len(cfg.Ports), len(n.Ports))
	}
	if cfg.Addr4.Is4() {
		a := cfg.Addr4.As4()
		s.own4 = binary.BigEndian.Uint32(a[:])
	}
	if cfg.Addr6.Is6() {
		s.own6 = cfg.Addr6.As16()
	}
	return s, nil
}

// Reset implements engine.Core: a switch keeps its routes.
func (s *Switch) Reset(vt.Time) { s.resetECMP() }

// Timer implements engine.Core.
func (s *Switch) Timer(vt.Time, uint64) {}

// Dequeued implements link.Source.
func (s *Switch) Dequeued(vt.Time, int, *link.Frame, bool) {}

// NextFrame implements link.Source: a switch sends only what it has queued.
func (s *Switch) NextFrame(vt.Time, int) *link.Frame { return nil }

// SetRoutes replaces the whole routing table.
func (s *Switch) SetRoutes(routes []Route) {
	s.groups = s.newGroups(routes)
	s.len4, s.len6 = nil, nil
	clear(s.v4[:])
	clear(s.v6[:])
	for i, r := range routes {
		g := s.groups[i]
		for _, p := range r.Prefixes {
			n := p.Bits()
			if p.Addr().Is4() {
				if s.v4[n] == nil {
					s.v4[n] = map[uint32]*group{}
					s.len4 = append(s.len4, n)
				}
				a := p.Masked().Addr().As4()
				s.v4[n][binary.BigEndian.Uint32(a[:])] = g
				continue
			}
			if s.v6[n] == nil {
				s.v6[n] = map[[16]byte]*group{}
				s.len6 = append(s.len6, n)
			}
			s.v6[n][p.Masked().Addr().As16()] = g
		}
	}
	slices.SortFunc(s.len4, func(a, b int) int { return b - a })
	slices.SortFunc(s.len6, func(a, b int) int { return b - a })
	s.LinksChanged()
}

// Arrive implements engine.Core.
func (s *Switch) Arrive(now vt.Time, port int, f *link.Frame) {
	in := s.node.Ports[port]
	if len(f.B) < wire.EthLen+wire.IPv4Len || wire.Eth(f.B).Dst() != s.cfg.Ports[port].MAC {
		in.Drop(link.DropPacket, f)
		return
	}
	switch wire.Eth(f.B).Type() {
	case wire.EtherIPv4:
		s.arrive4(now, in, f)
	case wire.EtherIPv6:
		s.arrive6(now, in, f)
	default:
		in.Drop(link.DropPacket, f)
	}
}

func (s *Switch) arrive4(now vt.Time, in *link.Port, f *link.Frame) {
	ip, err := wire.ParseIPv4(f.B[wire.EthLen:])
	if err != nil || !ip.ChecksumOK() {
		in.Drop(link.DropPacket, f)
		return
	}
	dst := ip.Dst4()
	if dst == s.own4 {
		s.local(now, in, f)
		return
	}
	if ip.TTL() <= 1 {
		s.expired(now, in, f)
		return
	}
	g := s.lookup4(dst)
	if g == nil || g.dead() {
		in.Drop(link.DropNoRoute, f)
		return
	}
	out := s.choose(now, g, f.B[wire.EthLen:])
	ip.DecTTL()
	s.forward(now, out, f)
}

func (s *Switch) arrive6(now vt.Time, in *link.Port, f *link.Frame) {
	ip, err := wire.ParseIPv6(f.B[wire.EthLen:])
	if err != nil {
		in.Drop(link.DropPacket, f)
		return
	}
	dst := ip.Dst16()
	if dst == s.own6 {
		s.local(now, in, f)
		return
	}
	if ip.HopLimit() <= 1 {
		s.expired(now, in, f)
		return
	}
	g := s.lookup6(dst)
	if g == nil || g.dead() {
		in.Drop(link.DropNoRoute, f)
		return
	}
	out := s.choose(now, g, f.B[wire.EthLen:])
	ip.DecHopLimit()
	s.forward(now, out, f)
}

func (s *Switch) lookup4(dst uint32) *group {
	for _, n := range s.len4 {
		if g := s.v4[n][dst&^(1<<(32-n)-1)]; g != nil {
			return g
		}
	}
	return nil
}

func (s *Switch) lookup6(dst [16]byte) *group {
	for _, n := range s.len6 {
		a := dst
		if n < 128 {
			a[n/8] &= ^byte(0xff >> (n % 8))
			clear(a[n/8+1:])
		}
		if g := s.v6[n][a]; g != nil {
			return g
		}
	}
	return nil
}

func (s *Switch) forward(now vt.Time, out int, f *link.Frame) {
	p := s.cfg.Ports[out]
	e := wire.Eth(f.B)
	e.SetDst(p.Peer)
	e.SetSrc(p.MAC)
	o := s.node.Ports[out]
	if len(f.B)-wire.EthLen > o.Config().MTU {
		o.Drop(link.DropPacket, f)
		return
	}
	o.Offer(now, 0, f)
}
