package fep

import (
	"fmt"
	"math/rand/v2"
	"net/netip"

	"github.com/uetlab/uetlab/internal/engine"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// FEP is one fabric end point on port 0 of its node. It implements engine.Core and is not for concurrent use: its methods
// are called from the node's events.
type FEP struct {
	C Counters

	node *engine.Node
	cfg  Config
	fa   netip.Addr

	rng   *rand.Rand // Start_PSNs, PDCIDs
	evRng *rand.Rand // entropy values

	eps  map[epKey]*Endpoint
	list []*Endpoint

	pdcs    pdcTable
	bySYN   map[synKey]*pdc
	groups  map[groupKey]*group
	waiting []*txMsg // no PDC was free
	gen     uint64   // of the latest PDC
	epoch   uint64   // of the latest Reset

	ctl   ctlQueue
	rtxq  pdcQueue // PDCs with something to send again
	sendq pdcQueue // PDCs with new data
	mids  midPool
	msgs  rxPool
	sweep vt.Time // when the sweep of silent messages is due, vt.Never if it is not

	in   wire.Inbound // the packet being handled
	arr  arrival
	sig  csig             // of the frame being handled
	head wire.FrameFields // outer headers of the frame being built
}

type synKey struct {
	peer netip.Addr
	id   uint16
}

// New makes an end point on the node and attaches it. It panics if the configuration is impossible on the node's port:
// that is a mistake of the caller, found before anything runs.
func New(node *engine.Node, cfg Config) *FEP {
	if err := cfg.resolve(node.Pool.MaxFrame(), node.Ports[0].Config()); err != nil {
		panic(fmt.Errorf("fep: %w", err))
	}
	f := &FEP{node: node, cfg: cfg, fa: cfg.fa(), eps: map[epKey]*Endpoint{}}
	f.head = wire.FrameFields{DstMAC: cfg.NextHop, SrcMAC: cfg.MAC, Src: f.fa}
	node.Attach(f)
	return f
}

// Addr is the fabric address.
func (f *FEP) Addr() netip.Addr { return f.fa }

// Config is the configuration with all defaults filled in.
func (f *FEP) Config() Config { return f.cfg }

// Reset forgets all PDCs, messages and operations, without completions, and takes new random choices. Counters, endpoints, address
// vectors and registered memory stay.
func (f *FEP) Reset(now vt.Time) {
	f.epoch++
	f.rng, f.evRng = f.node.Rand("fep"), f.node.Rand("fep-ev")
	f.C[GtdInUse] = 0
	f.pdcs.reset(f.cfg.MaxPDCs, f.rng)
	f.bySYN, f.groups = map[synKey]*pdc{}, map[groupKey]*group{}
	f.waiting = nil
	f.ctl, f.rtxq, f.sendq = ctlQueue{}, pdcQueue{}, pdcQueue{}
	f.mids.reset()
	f.msgs = rxPool{}
	f.sweep = vt.Never
	for _, ep := range f.list {
		ep.tagged, ep.untagged = nil, nil
	}
}

// Arrive implements engine.Core.
func (f *FEP) Arrive(now vt.Time, port int, fr *link.Frame) {
	var err error
	f.untag(fr)
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
	f.packet(now, in, fr.Ref(), src)
	fr.Release()
	f.kick(now)
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

// packet handles a UET packet to us; in points into a frame that the caller releases. ref is its payload if that has come by
// reference: nothing can have damaged it.
func (f *FEP) packet(now vt.Time, in *wire.Inbound, ref []byte, src netip.Addr) {
	switch {
	case f.trimmedDSCP(in.DSCP):
		f.onTrimmed(now, in, src)
		return
	case in.Cut:
		f.C[Malformed]++
		return
	}
	size := wire.UDPLen + len(in.UET) + 40
	uet := in.UET
	if !f.cfg.NoCRC {
		if ref == nil && !wire.CheckUETCRC(in.IP) {
			f.C[CRCBad]++
			return
		}
		uet = uet[:max(0, len(uet)-wire.CRCLen)]
	}
	pro, err := wire.ParsePrologue(uet)
	if err != nil {
		f.C[Malformed]++
		return
	}
	switch t := pro.Type(); {
	case t.IsRequest():
		f.arr = arrival{in: in, uet: uet, ref: ref, src: src, size: size}
		f.onRequest(now, &f.arr)
	case t.IsAck():
		f.onAckPacket(now, uet, src)
	case t.IsNack():
		f.onNackPacket(now, uet, src)
	case t == wire.TypeCtrl:
		f.arr = arrival{in: in, uet: uet, src: src}
		f.onCtrl(now, &f.arr)
	default:
		f.C[Unsupported]++
	}
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

// NextFrame implements engine.Core: control packets first, then retransmissions, then new data.
func (f *FEP) NextFrame(now vt.Time, port int) *link.Frame {
	if port != 0 {
		return nil
	}
	for f.ctl.n > 0 {
		c := f.ctl.pop()
		if fr := f.buildCtl(now, &c); fr != nil {
			return fr
		}
	}
	if f.node.Ports[0].Paused(now)>>f.cfg.Class&1 != 0 {
		return nil
	}
	for p := f.rtxq.pop(); p != nil; p = f.rtxq.pop() {
		p.s.inRtx = false
		if fr := p.nextRetx(now); fr != nil {
			p.queueRetx()
			return fr
		}
	}
	for p := f.sendq.pop(); p != nil; p = f.sendq.pop() {
		p.s.inSend = false
		if fr := p.nextNew(now); fr != nil {
			p.queueSend()
			return fr
		}
	}
	return nil
}

// kick lets the port take what has become ready.
func (f *FEP) kick(now vt.Time) {
	if f.ctl.n > 0 || f.rtxq.n > 0 || f.sendq.n > 0 {
		f.node.Ports[0].Kick(now)
	}
}

// begin starts a frame to peer with the outer headers laid down.
func (f *FEP) begin(peer netip.Addr, ev uint16, dscp, ecn uint8) *link.Frame {
	fr := f.node.Pool.Get()
	f.head.Dst, f.head.EV, f.head.DSCP, f.head.ECN = peer, ev, dscp, ecn
	fr.B = wire.AppendUDPFrame(fr.B, &f.head)
	return fr
}

// finish sets lengths and CRC.
func (f *FEP) finish(fr *link.Frame) *link.Frame {
	if f.cfg.NoCRC {
		wire.FinishUDP(fr.B)
	} else {
		fr.B = wire.AppendUETCRC(fr.B)
	}
	return fr
}

// randomEV draws an entropy value; 0 is left out, since a UDP source port 0 means "none".
func (f *FEP) randomEV() uint16 {
	for {
		if ev := uint16(f.evRng.Uint32()); ev != 0 {
			return ev
		}
	}
}
