package switchd

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/uetlab/uetlab/internal/engine"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

type sink struct {
	frames []*link.Frame
	ports  []int
}

func (s *sink) Transmit(port int, f *link.Frame) {
	s.frames, s.ports = append(s.frames, f), append(s.ports, port)
}

func mac(i int) wire.MAC  { return wire.MAC{2, 0, 0, 0, 0, byte(i)} }
func peer(i int) wire.MAC { return wire.MAC{2, 0, 0, 0, 1, byte(i)} }

// testSwitch has four ports: hosts behind 0 and 1, ECMP towards 10.9.0.0/16 and fd00:9::/32 over 2 and 3.
func testSwitch(t testing.TB, cfg Config) (*engine.Node, *Switch, *sink) {
	t.Helper()
	out := &sink{}
	var ports []link.Config
	for i := 0; i < 4; i++ {
		ports = append(ports, link.Config{Rate: 400e9, Delay: 500, Queue: 100_000, MTU: 4500})
		cfg.Ports = append(cfg.Ports, Port{MAC: mac(i), Peer: peer(i)})
	}
	n := engine.New(engine.Config{Ports: ports, Latency: 500 * time.Nanosecond, MaxFrame: 4600}, out)
	cfg.Addr4, cfg.Addr6 = netip.MustParseAddr("10.0.0.254"), netip.MustParseAddr("fd00::254")
	s, err := New(n, cfg)
	if err != nil {
		t.Fatal(err)
	}
	n.Attach(s)
	s.SetRoutes([]Route{
		{[]int{0}, []netip.Prefix{netip.MustParsePrefix("10.0.0.1/32"), netip.MustParsePrefix("fd00::1/128")}},
		{[]int{2, 3}, []netip.Prefix{netip.MustParsePrefix("10.9.0.0/16"), netip.MustParsePrefix("fd00:9::/32")}},
	})
	return n, s, out
}

func udpFrame(n *engine.Node, in int, src, dst string, ev uint16, ttl uint8, payload int) *link.Frame {
	f := n.Pool.Get()
	f.B = wire.AppendUDPFrame(f.B, &wire.FrameFields{DstMAC: mac(in), SrcMAC: peer(in),
		Src: netip.MustParseAddr(src), Dst: netip.MustParseAddr(dst), EV: ev, TTL: ttl})
	f.B = append(f.B, make([]byte, payload)...)
	wire.FinishUDP(f.B)
	return f
}

func TestForwardRewritesAndStampsDue(t *testing.T) {
	for _, dst := range []string{"10.0.0.1", "fd00::1"} {
		n, _, out := testSwitch(t, Config{})
		src := "10.9.1.1"
		if dst[0] == 'f' {
			src = "fd00:9::1"
		}
		f := udpFrame(n, 2, src, dst, 7, 64, 1000)
		size := len(f.B)
		f.Due = 1000
		n.Deliver(2, f)
		n.Advance(vt.Never - 1)
		if len(out.frames) != 1 || out.ports[0] != 0 {
			t.Fatalf("%s: frames %d ports %v", dst, len(out.frames), out.ports)
		}
		g := out.frames[0]
		// arrival 1000, pipeline 500, serialization rounded up, propagation 500
		want := vt.Time(1500*1000+link.LinePs(size, 400e9)+999)/1000 + 500
		if g.Due != want {
			t.Errorf("%s: due %v, want %v", dst, g.Due, want)
		}
		if e := wire.Eth(g.B); e.Dst() != peer(0) || e.Src() != mac(0) {
			t.Errorf("%s: MACs %v %v", dst, e.Dst(), e.Src())
		}
		if dst[0] == '1' {
			if ip := wire.IPv4(g.B[wire.EthLen:]); ip.TTL() != 63 || !ip.ChecksumOK() {
				t.Errorf("TTL %d, checksum %v", ip.TTL(), ip.ChecksumOK())
			}
		}
	}
}

func TestECMPUsesAllPortsAndFollowsLinks(t *testing.T) {
	for _, hash := range []string{"mix", "crc32"} {
		n, s, out := testSwitch(t, Config{Seed: 42, Settings: Settings{ECMP: ECMP{Hash: hash}}})
		count := func() map[int]int {
			out.frames, out.ports = nil, nil
			for ev := 0; ev < 1000; ev++ {
				f := udpFrame(n, 0, "10.0.0.1", "10.9.3.4", uint16(ev*7), 64, 10)
				f.Due = n.Now() + 1000
				n.Deliver(0, f)
				n.Advance(f.Due + 100_000)
			}
			c := map[int]int{}
			for _, p := range out.ports {
				c[p]++
			}
			return c
		}
		if c := count(); c[2] < 400 || c[3] < 400 || c[2]+c[3] != 1000 {
			t.Errorf("%s: spread %v", hash, c)
		}
		first := fmt.Sprint(out.ports)
		count()
		if first != fmt.Sprint(out.ports) {
			t.Errorf("%s: the same entropy values took other paths", hash)
		}
		n.Ports[2].SetImpair(n.Now(), link.Impair{Down: true})
		s.LinksChanged()
		if c := count(); c[3] != 1000 {
			t.Errorf("%s: with one link down %v", hash, c)
		}
		n.Ports[3].SetImpair(n.Now(), link.Impair{Down: true})
		s.LinksChanged()
		if c := count(); len(c) != 0 || n.Ports[0].C[link.DropNoRoute] != 1000 {
			t.Errorf("%s: with both links down %v, no-route %d", hash, c, n.Ports[0].C[link.DropNoRoute])
		}
	}
}

func TestDrops(t *testing.T) {
	n, _, out := testSwitch(t, Config{Settings: Settings{Queues: [link.NumQueues]Queue{{Limit: 100_000}}}})
	send := func(f *link.Frame) {
		f.Due = n.Now() + 1000
		n.Deliver(2, f)
		n.Advance(f.Due + 1_000_000)
	}
	send(udpFrame(n, 2, "10.9.1.1", "10.77.0.1", 7, 64, 10))
	if n.Ports[2].C[link.DropNoRoute] != 1 {
		t.Error("no route: not counted")
	}
	send(udpFrame(n, 1, "10.9.1.1", "10.0.0.1", 7, 64, 10)) // wrong MAC for port 2
	if n.Ports[2].C[link.DropPacket] != 1 {
		t.Error("foreign MAC: not counted")
	}
	send(udpFrame(n, 2, "10.9.1.1", "10.0.0.1", 7, 64, 4490)) // IP packet of 4518 bytes, MTU 4500
	if n.Ports[0].C[link.DropPacket] != 1 {
		t.Error("longer than the MTU: not counted")
	}
	send(udpFrame(n, 2, "10.9.1.1", "10.0.0.1", 7, 1, 10))
	if n.Ports[2].C[link.DropTTL] != 1 || len(out.frames) != 0 {
		t.Errorf("TTL: %d drops, %d frames sent: UET packets die silently", n.Ports[2].C[link.DropTTL], len(out.frames))
	}
	for i := 0; i < 40; i++ { // 40 × 4042 bytes at once into a queue of 100 000
		f := udpFrame(n, 2, "10.9.1.1", "10.0.0.1", 7, 64, 4000)
		f.Due = n.Now() + 1000
		n.Deliver(2, f)
	}
	n.Advance(vt.Never - 1)
	c := &n.Ports[0].C
	if c[link.DropQueue] != 15 || len(out.frames) != 25 || c[link.QueuePeak] > 100_000 {
		t.Errorf("drop-tail: %d dropped, %d sent, peak %d", c[link.DropQueue], len(out.frames), c[link.QueuePeak])
	}
	for _, f := range out.frames {
		f.Release()
	}
	if n.Pool.Out() != 0 {
		t.Errorf("%d frames leaked", n.Pool.Out())
	}
}

func TestPingAndTraceroute(t *testing.T) {
	n, _, out := testSwitch(t, Config{})
	ping := func(dst string, ttl byte) *link.Frame {
		f := n.Pool.Get()
		f.B = wire.AppendEth(f.B, mac(0), peer(0), wire.EtherIPv4)
		ip := append(f.B[len(f.B):], 0x45, 0, 0, 32, 0, 0, 0, 0, ttl, 1, 0, 0)
		s, d := netip.MustParseAddr("10.0.0.1").As4(), netip.MustParseAddr(dst).As4()
		ip = append(append(ip, s[:]...), d[:]...)
		ip = append(ip, 8, 0, 0, 0, 0, 1, 0, 1, 'p', 'i', 'n', 'g')
		sum := wire.ICMPSum(ip)
		ip[22], ip[23] = byte(sum>>8), byte(sum)
		wire.IPv4(ip).SetChecksum()
		f.B = append(f.B, ip...)
		f.Due = n.Now() + 1000
		n.Deliver(0, f)
		n.Advance(f.Due + 1_000_000)
		if len(out.frames) == 0 {
			t.Fatalf("%s: no answer", dst)
		}
		g := out.frames[0]
		out.frames = nil
		return g
	}
	if g := ping("10.0.0.254", 64); g.B[wire.EthLen+20] != wire.ICMP4EchoReply {
		t.Errorf("echo: type %d", g.B[wire.EthLen+20])
	}
	if g := ping("10.9.0.1", 1); g.B[wire.EthLen+20] != wire.ICMP4TimeExceeded {
		t.Errorf("TTL 1: type %d", g.B[wire.EthLen+20])
	}
}

// fullPlan is a switch without room for data: all of it is trimmed, tags and mirror and all.
func fullPlan() Settings {
	set := plan()
	set.CSIG.Enabled = true
	set.Mirror = Mirror{To: 1, Sample: 2, From: -1}
	set.Trim.Trimmable = nil
	for d := range uint8(64) {
		if d != dscpTrimmed && d != dscpLastHop {
			set.Trim.Trimmable = append(set.Trim.Trimmable, d)
		}
	}
	for q := range set.Queues {
		set.Queues[q].Trim = q != 2 && q != 4
		set.Queues[q].Limit = 1
	}
	set.Queues[2].Limit = 0
	return set
}

func FuzzArrive(f *testing.F) {
	n, _, out := testSwitch(f, Config{})
	full, _, out2 := testSwitch(f, Config{Settings: fullPlan()})
	for _, p := range []*link.Frame{udpFrame(n, 2, "10.9.1.1", "10.0.0.1", 7, 64, 10), udpFrame(n, 2, "fd00:9::1", "fd00::254", 7, 1, 10),
		udpFrame(n, 2, "fd00:9::1", "fd00::1", 7, 9, 300), udpFrame(n, 2, "10.9.1.1", "10.0.0.1", 7, 64, 300)} {
		f.Add(p.B, true)
		tagged, _ := wire.InsertCSIG(p.B, &wire.CSIGFields{Wide: true})
		f.Add(tagged, false)
	}
	f.Fuzz(func(t *testing.T, b []byte, sum bool) {
		for i, n := range []*engine.Node{n, full} {
			out := []*sink{out, out2}[i]
			before := n.Pool.Out()
			fr := n.Pool.Get()
			fr.B = append(fr.B, b[:min(len(b), n.Pool.MaxFrame())]...)
			if len(fr.B) >= 6 {
				copy(fr.B, []byte{2, 0, 0, 0, 0, 2})
			}
			if ip, err := wire.ParseIPv4(fr.B[min(wire.EthLen, len(fr.B)):]); sum && err == nil {
				ip.SetChecksum()
			}
			fr.Due = n.Now() + 1000
			n.Deliver(2, fr)
			n.Advance(fr.Due + 1_000_000)
			for _, g := range out.frames {
				if len(g.B) < wire.EthLen+wire.IPv4Len || len(g.B) > n.Pool.MaxFrame() {
					t.Errorf("a frame of %d bytes left", len(g.B))
				}
				g.Release()
			}
			out.frames, out.ports = out.frames[:0], out.ports[:0]
			if n.Pool.Out() != before {
				t.Fatalf("%d frames leaked", n.Pool.Out()-before)
			}
		}
	})
}
