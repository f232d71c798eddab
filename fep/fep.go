package fep

import (
	"fmt"
	"math/rand/v2"
	"net/netip"

	"github.com/uetlab/uetlab/fep/pds"
	"github.com/uetlab/uetlab/internal/engine"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/internal/wheel"
	"github.com/uetlab/uetlab/wire"
)

// FEP is one fabric end point on port 0 of its node. It implements engine.Core and is not for concurrent use: its methods
// are called from the node's events.
type FEP struct {
	C   Counters
	RCs ReturnCodes

	node *engine.Node
	cfg  Config
	fa   netip.Addr

	m      *pds.Manager
	dir    directory
	tombs  []tomb // endpoints that were closed, the oldest first
	queues []*RecvQueue

	epoch      uint64     // of the latest Reset
	rng        *rand.Rand // backoffs
	tx         txPool
	mids       midPool
	reads      map[uint16]*txMsg // by message ID: reads that packet delivery has, or that wait for data
	smallReads map[smallRead]*txMsg
	rx         rxList
	lands      landList
	sends      tokens[*txMsg]      // deferrable sends, by the token that their target knows
	exposed    tokens[*txMsg]      // rendezvous sends: part of the keys of their buffers
	deferred   tokens[*landing]    // messages that were deferred, by the token that their sender knows
	driven     tokens[*drivenRecv] // receives that told their source, the same
	recvs      *recvOp             // pool
	rets       retPool
	kept       []byte // unused memory, see keep
	sweep      wheel.Timer
	loop       loop
	in         wire.Inbound // the packet being handled
	pkt        packet
}

// New makes an end point on the node and attaches it. It panics if the configuration is impossible on the node's port:
// that is a mistake of the caller, found before anything runs.
func New(node *engine.Node, cfg Config) *FEP {
	pc, err := cfg.resolve(node.Pool.MaxFrame(), node.Ports[0].Config())
	if err != nil {
		panic(fmt.Errorf("fep: %w", err))
	}
	f := &FEP{node: node, cfg: cfg, fa: cfg.fa(),
		dir: directory{procs: map[procKey][]*Endpoint{}, jobs: map[uint32]int{}}}
	f.m = pds.New(pc, pds.Host{Pool: node.Pool, Port: node.Ports[0], Timer: func(t vt.Time) { node.SetTimer(t, 0) },
		Rand: func() *rand.Rand { return node.Rand(f.component("fep-lb")) }}, f, f.C.pds())
	node.Attach(f)
	return f
}

// Check says what is wrong with a configuration for this end point: New and Configure would panic.
func (f *FEP) Check(cfg Config) error {
	if _, err := cfg.resolve(f.node.Pool.MaxFrame(), f.node.Ports[0].Config()); err != nil {
		return fmt.Errorf("fep: %w", err)
	}
	return nil
}

// Configure replaces the configuration, but for addresses and the payload MTU, which must stay. Check has accepted it. Reset comes before
// anything else happens.
func (f *FEP) Configure(cfg Config) {
	pc, err := cfg.resolve(f.node.Pool.MaxFrame(), f.node.Ports[0].Config())
	if err != nil {
		panic(fmt.Errorf("fep: %w", err))
	}
	f.cfg = cfg
	f.m.Configure(pc)
}

// Addr is the fabric address.
func (f *FEP) Addr() netip.Addr { return f.fa }

// Config is the configuration with all defaults filled in.
func (f *FEP) Config() Config { return f.cfg }

// Reset forgets all PDCs, messages and operations, without completions, and takes new random choices. Counters, endpoints, address
// vectors and registered memory stay.
func (f *FEP) Reset(now vt.Time) {
	f.epoch++
	f.m.Reset(now, f.node.Rand(f.component("fep")), f.node.Rand(f.component("fep-ev")))
	f.rng = f.node.Rand(f.component("fep-ses"))
	f.mids.reset()
	f.reads, f.smallReads = map[uint16]*txMsg{}, map[smallRead]*txMsg{}
	f.rx, f.rets, f.kept = rxList{}, retPool{}, nil
	f.loop.reset()
	f.sweep = wheel.Timer{Owner: f}
	f.forgetEarly()
	for _, t := range f.tombs {
		f.dir.remove(t.ep)
	}
	f.tombs = nil
	for _, ep := range f.dir.list {
		ep.reset()
		ep.q.reset()
	}
	for _, q := range f.queues {
		q.reset()
	}
}

// component names a generator. Until the first run begins it depends on the incarnation, so that a FEP that restarts does not take
// the identifiers again that its peers still know from the one before; a run is always the same.
func (f *FEP) component(name string) string {
	if f.epoch == 1 && f.cfg.Incarnation != 0 {
		return fmt.Sprintf("%s#%d", name, f.cfg.Incarnation)
	}
	return name
}

// Arrive implements engine.Core.
func (f *FEP) Arrive(now vt.Time, port int, fr *link.Frame) {
	var err error
	f.m.Untag(fr)
	in := &f.in // in the FEP, since a local would be allocated for every packet
	if *in, err = wire.ParseUET(fr.B, 0); err != nil && f.mended(fr.B) {
		*in, err = wire.ParseUET(fr.B, 0)
	}
	if err != nil || !f.ours(fr.B) {
		f.arriveOther(now, port, fr)
		return
	}
	src, dst := addrs(in)
	if dst != f.fa {
		f.node.Ports[port].Drop(link.DropPacket, fr)
		return
	}
	f.m.Packet(now, in, fr.Ref(), src)
	fr.Release()
	f.m.Kick(now)
}

// ours reports whether the Ethernet destination is this station, or a group.
func (f *FEP) ours(b []byte) bool {
	eth, err := wire.ParseEth(b)
	if err != nil {
		return false
	}
	dst := eth.Dst()
	return dst == f.cfg.MAC || dst[0]&1 != 0 || f.cfg.MAC == wire.MAC{}
}

func addrs(in *wire.Inbound) (src, dst netip.Addr) {
	if in.V6 {
		return wire.IPv6(in.IP).Src(), wire.IPv6(in.IP).Dst()
	}
	return wire.IPv4(in.IP).Src(), wire.IPv4(in.IP).Dst()
}

// arriveOther answers ICMP echo requests to our addresses and drops the rest.
func (f *FEP) arriveOther(now vt.Time, port int, fr *link.Frame) {
	p := f.node.Ports[port]
	eth, err := wire.ParseEth(fr.B)
	t, ip, err2 := wire.Network(fr.B)
	if err != nil || err2 != nil || !f.ours(fr.B) || !f.icmpTarget(t, ip) {
		p.Drop(link.DropPacket, fr)
		return
	}
	re := f.node.Pool.Get()
	b, ok := wire.AppendICMPEchoReply(wire.AppendEth(re.B, eth.Src(), f.cfg.MAC, t), ip)
	if !ok || len(b) > f.node.Pool.MaxFrame() {
		re.Release()
		p.Drop(link.DropPacket, fr)
		return
	}
	re.B = b
	fr.Release()
	p.Offer(now, 0, re)
}

func (f *FEP) icmpTarget(t wire.EtherType, ip []byte) bool {
	switch t {
	case wire.EtherIPv4:
		p, err := wire.ParseIPv4(ip)
		return err == nil && p.Dst() == f.cfg.Addr4
	case wire.EtherIPv6:
		p, err := wire.ParseIPv6(ip)
		return err == nil && p.Dst() == f.cfg.Addr6
	}
	return false
}

// Dequeued implements engine.Core.
func (f *FEP) Dequeued(vt.Time, int, *link.Frame, bool) {}

// NextFrame implements engine.Core.
func (f *FEP) NextFrame(now vt.Time, port int) *link.Frame {
	if port != 0 {
		return nil
	}
	for {
		fr := f.m.NextFrame(now)
		if fr == nil || fr.Group != pds.Local {
			return fr
		}
		f.turnBack(now, fr)
	}
}

// Timer implements engine.Core.
func (f *FEP) Timer(now vt.Time, id uint64) {
	if id == timerLoop {
		f.turned(now)
		return
	}
	f.m.Timer(now)
}

// PDCInfo describes a PDC in listings, State where it is in its life.
type (
	PDCInfo = pds.Info
	State   = pds.State
)

// PDCs appends a description of every PDC to buf, in the order of their slots.
func (f *FEP) PDCs(buf []PDCInfo) []PDCInfo { return f.m.PDCs(f.node.Now(), buf) }

// EndedPDCs appends to buf the latest PDCs that have ended, as they were then, the oldest first.
func (f *FEP) EndedPDCs(buf []PDCInfo) []PDCInfo { return f.m.Ended(buf) }

// PDS is the packet delivery below.
func (f *FEP) PDS() *pds.Manager { return f.m }

// mended gives a trimmed IP packet its real length where a switch has left the old one, as some do (uet-link-switch.md 5.3),
// and says whether it did.
func (f *FEP) mended(frame []byte) bool {
	t, ip, err := wire.Network(frame)
	if err != nil || len(ip) < wire.IPv4Len {
		return false
	}
	switch {
	case t == wire.EtherIPv4 && ip[0]>>4 == 4 && f.m.TrimmedDSCP(ip[1]>>2):
		if p := wire.IPv4(ip); p.TotalLen() > len(ip) {
			p.SetTotalLen(len(ip))
			return true
		}
	case t == wire.EtherIPv6 && len(ip) >= wire.IPv6Len && ip[0]>>4 == 6 && f.m.TrimmedDSCP(ip[0]<<2&0x3C|ip[1]>>6):
		if p := wire.IPv6(ip); p.TotalLen() > len(ip) {
			p.SetTotalLen(len(ip))
			return true
		}
	}
	return false
}
