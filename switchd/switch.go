// Package switchd is the software switch: an IP router with ECMP, sans-I/O. A frame that arrives is checked, looked up,
// given its new MAC addresses and one hop less to live, and queued by its class on one port of its ECMP group, which the
// configured balance chooses; the UDP source port of a UET packet is its entropy value, so end points choose paths by
// choosing it. What finds no room is trimmed or dropped. Queues, serialization and impairments are the port's
// (internal/link); how much a queue may hold, and ECN, are decided here.
//
//	arrival ─► Ethernet, IP checks ─► ours? ─► ICMP echo reply
//	                                    │
//	                                    ▼
//	              TTL ─► longest prefix ─► ECMP group ─► rewrite ─► class ─► room? ─► queue of the egress port ─► ECN, line
//	                                                                          │             ▲
//	                                                                          └─► trim ─────┘
package switchd

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"

	"github.com/uetlab/uetlab/internal/engine"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// Config describes a switch.
type Config struct {
	Addr4, Addr6 netip.Addr // the switch's own addresses
	Seed         uint64     // of the ECMP hash
	Ports        []Port
	Settings     Settings // to begin with; Configure changes them
}

// Port is what the switch knows of one of its ports.
type Port struct {
	MAC  wire.MAC // its own
	Peer wire.MAC // of the far end
	Host bool     // the far end is an end point, not a switch: what is trimmed here is on its last hop
}

// Switch implements engine.Core.
type Switch struct {
	table
	node *engine.Node
	cfg  Config
	set  Settings
	own4 uint32
	own6 [16]byte

	ecmp    ecmpState
	csig    csigState
	mirrors mirrorState
	ecn     *rand.Rand
	trim    trimmer
	buf     buffer
	dogs    [][link.NumQueues]watchdog // by egress port
}

// New makes the core of a switch on node n; routes come with SetRoutes.
func New(n *engine.Node, cfg Config) (*Switch, error) {
	s := &Switch{node: n, cfg: cfg}
	if len(cfg.Ports) != len(n.Ports) {
		return nil, fmt.Errorf("switch has %d ports, its node %d", len(cfg.Ports), len(n.Ports))
	}
	s.buf.in = make([][link.NumQueues]ingress, len(n.Ports))
	s.dogs = make([][link.NumQueues]watchdog, len(n.Ports))
	if err := s.Configure(0, cfg.Settings); err != nil {
		return nil, err
	}
	s.SetRoutes(nil)
	if cfg.Addr4.Is4() {
		a := cfg.Addr4.As4()
		s.own4 = binary.BigEndian.Uint32(a[:])
	}
	if cfg.Addr6.Is6() {
		s.own6 = cfg.Addr6.As16()
	}
	return s, nil
}

// Settings returns what is in force.
func (s *Switch) Settings() Settings { return s.set }

// Configure puts settings into force at now, all or, with an error, none. Frames that wait stay where they are, even where
// they would no longer be let in.
func (s *Switch) Configure(now vt.Time, set Settings) error {
	if err := set.Validate(len(s.node.Ports)); err != nil {
		return fmt.Errorf("switch settings: %w", err)
	}
	for _, apply := range []func(*Settings) error{s.setMirror, s.setCSIG, s.setECMP} {
		if err := apply(&set); err != nil {
			_, _ = s.setMirror(&s.set), s.setCSIG(&s.set)
			return fmt.Errorf("switch settings: %w", err)
		}
	}
	s.set = set
	s.trim.configure(&set.Trim)
	var services [link.NumQueues]link.Service
	for q := range services {
		services[q] = set.Queues[q].Service
	}
	for _, p := range s.node.Ports {
		p.Serve(services)
	}
	s.recount()
	s.reconsider(now)
	return nil
}

// Reset implements engine.Core: a switch keeps its routes and settings. The engine has emptied the ports.
func (s *Switch) Reset(vt.Time) {
	s.resetECMP()
	s.resetCSIG()
	s.resetMirror()
	s.ecn, s.trim.rng = s.node.Rand("ecn"), s.node.Rand("trim")
	clear(s.buf.in)
	clear(s.dogs)
	s.buf.total, s.buf.peak, s.buf.full = 0, 0, 0
	s.recount()
}

// Kinds of timers: the id of a timer is kind<<16 | port<<8 | queue.
const (
	timerPause = 1 + iota // repeat the pause of an ingress port's priority
	timerDog              // look at a lossless queue
)

func timerID(kind, port, queue int) uint64 { return uint64(kind<<16 | port<<8 | queue) }

// Timer implements engine.Core.
func (s *Switch) Timer(now vt.Time, id uint64) {
	port, q := int(id>>8&0xFF), int(id&0xFF)
	switch id >> 16 {
	case timerPause:
		s.repeatPause(now, port, q)
	case timerDog:
		s.watch(now, port, q)
	}
}

// NextFrame implements link.Source: a switch sends only what it has queued.
func (s *Switch) NextFrame(vt.Time, int) *link.Frame { return nil }

// Dequeued implements link.Source.
func (s *Switch) Dequeued(now vt.Time, port int, f *link.Frame, sent bool) {
	p, q := s.node.Ports[port], int(f.Queue)
	s.leave(now, p, f)
	if f.Group != 0 {
		c := link.QTrimDrop
		if sent {
			c = link.QTrimTx
		}
		p.Stats(int(f.Group) - 1).C[c]++
	}
	if sent {
		if s.set.Queues[q].Kmax > 0 {
			s.mark(p, f)
		}
		s.csigDeparts(now, port, f)
	}
}
