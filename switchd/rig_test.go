package switchd

import (
	"net/netip"
	"testing"
	"time"

	"github.com/uetlab/uetlab/internal/engine"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// DSCPs of the lab's plan.
const (
	dscpBest, dscpUUD, dscpData, dscpRetx, dscpRoCE, dscpTrimmed, dscpLastHop, dscpControl = 0, 8, 10, 12, 26, 34, 36, 46
)

// plan are settings with the lab's classes: data is trimmed beyond 100 kB, RoCE lossless, the buffer unlimited.
func plan() Settings {
	s := Settings{Mirror: Mirror{To: -1}}
	for d, c := range map[int]uint8{dscpUUD: 5, dscpData: 1, dscpRetx: 1, dscpRoCE: 4, dscpTrimmed: 2, dscpLastHop: 2, dscpControl: 3} {
		s.Classes[d] = c
	}
	for q := range s.Queues {
		s.Queues[q] = Queue{Service: link.Service{Weight: 25}, Limit: 100_000}
	}
	s.Queues[1].Trim, s.Queues[5].Trim = true, true
	s.Queues[2] = Queue{Service: link.Service{Weight: 75}, Limit: 16_384}
	s.Queues[3] = Queue{Service: link.Service{Strict: true}, Limit: 16_384}
	s.Queues[4].Lossless, s.Queues[4].Limit = true, 0
	s.Trim = Trim{Enabled: true, Size: 64, Trimmable: []uint8{dscpUUD, dscpData, dscpRetx}, Trimmed: dscpTrimmed, LastHop: dscpLastHop,
		Retx: dscpRetx, RetxLimit: 150_000, FixIP: true}
	s.PFC = PFC{Xoff: 50_000, Xon: 40_000, Headroom: 50_000, Quanta: 65535}
	return s
}

// rig is a switch whose port 0 leads to 10.1.0.0/16 and fd01::/32, port 1 to 10.2.0.0/16, fd02::/32 and so on; the far ends of even
// ports are hosts.
type rig struct {
	*engine.Node
	s   *Switch
	out *sink
}

const rigMTU = 9216

func newRig(t testing.TB, set Settings, rates ...int64) *rig {
	t.Helper()
	r := &rig{out: &sink{}}
	var ports []link.Config
	var cfg Config
	var routes []Route
	for i, rate := range rates {
		ports = append(ports, link.Config{Rate: rate, Delay: 500, MTU: rigMTU, Queued: true})
		cfg.Ports = append(cfg.Ports, Port{MAC: mac(i), Peer: peer(i), Host: i%2 == 0})
		routes = append(routes, Route{Ports: []int{i}, Prefixes: []netip.Prefix{netip.PrefixFrom(addr4(i, 0), 16), netip.PrefixFrom(addr6(i, 0), 32)}})
	}
	r.Node = engine.New(engine.Config{Ports: ports, MaxFrame: rigMTU + 22}, r.out)
	cfg.Addr4, cfg.Addr6 = netip.MustParseAddr("10.0.0.254"), netip.MustParseAddr("fd00::254")
	cfg.Settings = set
	s, err := New(r.Node, cfg)
	if err != nil {
		t.Fatal(err)
	}
	r.s = s
	r.Attach(s)
	s.SetRoutes(routes)
	return r
}

// addr4 and addr6 are addresses of station n behind a port.
func addr4(port, n int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(port + 1), byte(n >> 8), byte(n)})
}
func addr6(port, n int) netip.Addr {
	return netip.AddrFrom16([16]byte{0: 0xfd, 1: byte(port + 1), 14: byte(n >> 8), 15: byte(n)})
}

// pkt is a packet from behind one port to behind another; size counts the frame from Ethernet header to payload.
type pkt struct {
	from, to int
	size     int
	dscp     uint8
	ecn      uint8
	v6       bool
	native   bool
	csig     bool
	ev       uint16
}

func (r *rig) frame(p pkt) *link.Frame {
	f := r.Pool.Get()
	x := wire.FrameFields{DstMAC: mac(p.from), SrcMAC: peer(p.from), Src: addr4(p.from, 1), Dst: addr4(p.to, 1), EV: p.ev, DSCP: p.dscp, ECN: p.ecn}
	if p.v6 {
		x.Src, x.Dst = addr6(p.from, 1), addr6(p.to, 1)
	}
	if p.native {
		x.Native = wire.ProtoNative
	}
	f.B = wire.AppendUDPFrame(f.B, &x)
	f.B = append(f.B, byte(wire.TypeRUDReq)<<3)
	for len(f.B) < p.size {
		f.B = append(f.B, byte(len(f.B)))
	}
	wire.FinishUDP(f.B)
	if p.csig {
		f.B, _ = wire.InsertCSIG(f.B, &wire.CSIGFields{Wide: p.ev&1 == 0, Type: wire.CSIGQueue})
	}
	return f
}

// send lets n packets arrive, each at a time of its own from the next nanosecond on.
func (r *rig) send(n int, p pkt) {
	for range n {
		r.deliver(p.from, r.frame(p))
	}
}

func (r *rig) deliver(port int, f *link.Frame) {
	f.Due = r.Now() + 1
	r.Deliver(port, f)
	r.Advance(f.Due)
}

// wait lets time pass.
func (r *rig) wait(d time.Duration) {
	to := r.Now().Add(d)
	r.Change(to, func(vt.Time) {})
	r.Advance(to)
}

// drain lets everything leave, and the last frame's line time pass.
func (r *rig) drain() {
	r.Advance(vt.Never - 1)
	r.wait(time.Millisecond)
}

// got takes the frames that have left by a port.
func (r *rig) got(port int) (list []*link.Frame) {
	var frames []*link.Frame
	var ports []int
	for i, f := range r.out.frames {
		if r.out.ports[i] == port {
			list = append(list, f)
		} else {
			frames, ports = append(frames, f), append(ports, r.out.ports[i])
		}
	}
	r.out.frames, r.out.ports = frames, ports
	return list
}

// pausePort lets the far end of a port stop a priority, with all the quanta there are.
func (r *rig) pausePort(port, priority int, quanta uint16) {
	f := r.Pool.Get()
	p := wire.Pause{Enabled: 1 << priority}
	p.Quanta[priority] = quanta
	f.B = wire.AppendPFC(f.B, peer(port), &p)
	r.deliver(port, f)
}

func (r *rig) stat(port, q int, c link.QueueCounter) uint64 { return r.Ports[port].Stats(q).C[c] }

func dscpIn(f *link.Frame) uint8 {
	if wire.Eth(f.B).Type() == wire.EtherIPv6 {
		return wire.IPv6(f.B[wire.EthLen:]).DSCP()
	}
	return wire.IPv4(f.B[wire.EthLen:]).DSCP()
}

func ecnIn(f *link.Frame) uint8 {
	if wire.Eth(f.B).Type() == wire.EtherIPv6 {
		return wire.IPv6(f.B[wire.EthLen:]).ECN()
	}
	return wire.IPv4(f.B[wire.EthLen:]).ECN()
}

// ofDSCP keeps the frames of a DSCP.
func ofDSCP(frames []*link.Frame, dscp uint8) (list []*link.Frame) {
	for _, f := range frames {
		if dscpIn(f) == dscp {
			list = append(list, f)
		}
	}
	return list
}
