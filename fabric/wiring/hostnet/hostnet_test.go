package hostnet_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/uetlab/uetlab/fabric/runtime/namespace"
	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/fabric/wiring"
	"github.com/uetlab/uetlab/fabric/wiring/hostnet"
)

const uetPort = 4793

// space is a network namespace without processes.
type space struct {
	t  *testing.T
	ns *os.File
}

func newSpace(t *testing.T) space {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root; the tests of fabric/runtime/embedded configure hosts as an ordinary user")
	}
	s := space{t: t}
	err := namespace.OnThread(func() (err error) {
		if err = unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		s.ns, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.ns.Close() })
	return s
}

// do runs the steps in the namespace and fails the test at the first error.
func (s space) do(steps ...func() error) {
	s.t.Helper()
	err := namespace.InNet(s.ns, func() error {
		for i, step := range steps {
			if err := step(); err != nil {
				return fmt.Errorf("step %d: %w", i, err)
			}
		}
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

func set(path, value string) func() error {
	return func() error { return os.WriteFile("/proc/sys/net/"+path, []byte(value), 0) }
}

func mac(node, port int) [6]byte { return [6]byte{2, 0, 0, 0, byte(node), byte(port)} }

// chain is a plan of nodes in a row: eth1 of the last one, and of the first; the others have eth1 and eth2.
func chain(kinds ...topology.Kind) *topology.Plan {
	plan := &topology.Plan{}
	for i, k := range kinds {
		plan.Nodes = append(plan.Nodes, topology.Node{ID: i, Name: fmt.Sprintf("n%d", i), Kind: k})
	}
	for i := range len(kinds) - 1 {
		a, b := &plan.Nodes[i], &plan.Nodes[i+1]
		pa := len(a.Ports)
		a.Ports = append(a.Ports, topology.Port{Name: fmt.Sprintf("eth%d", pa+1), MAC: mac(i, pa), Link: i, Peer: i + 1, MTU: 4500})
		b.Ports = append(b.Ports, topology.Port{Name: "eth1", MAC: mac(i+1, 0), Link: i, Peer: i, PeerIdx: pa, MTU: 4500})
		plan.Links = append(plan.Links, topology.Link{
			ID: i, Name: "l" + fmt.Sprint(i), A: topology.End{Node: i, Port: pa}, B: topology.End{Node: i + 1}, MTU: 4500,
		})
	}
	return plan
}

func wire(t *testing.T, plan *topology.Plan, spaces ...space) {
	t.Helper()
	var ns []*os.File
	for _, s := range spaces {
		ns = append(ns, s.ns)
	}
	if err := wiring.Wire(context.Background(), plan, ns); err != nil {
		t.Fatal(err)
	}
}

var (
	probeSrc4 = netip.MustParseAddr("10.0.0.1")
	probeDst4 = netip.MustParseAddr("10.0.0.2")
	probeSrc6 = netip.MustParseAddr("fd00::1")
	probeDst6 = netip.MustParseAddr("fd00::2")
)

// udp4 and udp6 are whole frames to port 4793; arp asks for probeDst4.
func udp4(to [6]byte) []byte {
	f := ethernet(to, unix.ETH_P_IP)
	ip := make([]byte, 20)
	ip[0], ip[8], ip[9] = 0x45, 64, unix.IPPROTO_UDP
	binary.BigEndian.PutUint16(ip[2:], 28)
	copy(ip[12:], probeSrc4.AsSlice())
	copy(ip[16:], probeDst4.AsSlice())
	var sum uint32
	for i := 0; i < 20; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(ip[i:]))
	}
	binary.BigEndian.PutUint16(ip[10:], ^uint16(sum+sum>>16))
	return append(append(f, ip...), udp(0)...) // IPv4 allows UDP without a checksum
}

func udp6(to [6]byte) []byte {
	f := ethernet(to, unix.ETH_P_IPV6)
	ip := make([]byte, 40)
	ip[0], ip[5], ip[6], ip[7] = 0x60, 8, unix.IPPROTO_UDP, 64
	copy(ip[8:], probeSrc6.AsSlice())
	copy(ip[24:], probeDst6.AsSlice())
	var sum uint32
	for i := 8; i < 40; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(ip[i:]))
	}
	sum += 8 + unix.IPPROTO_UDP + uetPort + uetPort + 8
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	return append(append(f, ip...), udp(^uint16(sum))...)
}

func udp(checksum uint16) []byte {
	b := make([]byte, 8)
	binary.BigEndian.PutUint16(b, uetPort)
	binary.BigEndian.PutUint16(b[2:], uetPort)
	binary.BigEndian.PutUint16(b[4:], 8)
	binary.BigEndian.PutUint16(b[6:], checksum)
	return b
}

func arp() []byte {
	f := ethernet([6]byte{255, 255, 255, 255, 255, 255}, unix.ETH_P_ARP)
	b := []byte{0, 1, 8, 0, 6, 4, 0, 1}
	m := mac(0, 0)
	b = append(append(append(b, m[:]...), probeSrc4.AsSlice()...), make([]byte, 6)...)
	return append(f, append(b, probeDst4.AsSlice()...)...)
}

func ethernet(to [6]byte, kind uint16) []byte {
	from := mac(0, 0)
	return binary.BigEndian.AppendUint16(append(to[:], from[:]...), kind)
}

// probe sends frames out of eth1 and returns what the other side has answered by the time its kernel has counted all of
// them as received. The caller is in the sender's namespace.
func probe(received func() (int, error), frames ...[]byte) (answers []string, err error) {
	eth, err := net.InterfaceByName("eth1")
	if err != nil {
		return nil, err
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(binary.NativeEndian.Uint16([]byte{0, unix.ETH_P_ALL})))
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1); err != nil {
		return nil, err
	}
	start, err := received()
	if err != nil {
		return nil, err
	}
	for _, f := range frames {
		if err := unix.Sendto(fd, f, 0, &unix.SockaddrLinklayer{Ifindex: eth.Index, Halen: 6}); err != nil {
			return nil, fmt.Errorf("send: %w", err)
		}
	}
	for deadline := time.Now().Add(60 * time.Second); ; {
		n, err := received()
		if err != nil {
			return nil, err
		}
		if n >= start+len(frames) {
			break
		}
		if time.Now().After(deadline) {
			return nil, errors.New("the frames do not arrive")
		}
	}
	buf := make([]byte, 2048)
	for {
		n, _, err := unix.Recvfrom(fd, buf, unix.MSG_DONTWAIT)
		if err != nil {
			return answers, nil
		}
		if n > 14 {
			answers = append(answers, fmt.Sprintf("% x", buf[:min(n, 64)]))
		}
	}
}

// carrier waits until eth1 can send.
func carrier() error {
	for deadline := time.Now().Add(60 * time.Second); time.Now().Before(deadline); {
		l, err := netlink.LinkByName("eth1")
		if err != nil {
			return err
		}
		if l.Attrs().OperState == netlink.OperUp {
			return nil
		}
	}
	return errors.New("eth1 has no carrier")
}

// rxPackets counts the frames that the kernel of namespace s has taken from its eth1. A veth's receiver handles a frame
// before it counts the next, so the last probe is a frame that nobody could answer.
func rxPackets(s space) func() (int, error) {
	return func() (n int, err error) {
		err = namespace.InNet(s.ns, func() error {
			l, err := netlink.LinkByName("eth1")
			if err == nil {
				n = int(l.Attrs().Statistics.RxPackets)
			}
			return err
		})
		return n, err
	}
}

func TestGuardSilencesTheKernel(t *testing.T) {
	up := func() error { return hostnet.Up("eth1") }
	guard := func() error { return hostnet.Guard("eth1") }
	address := func() error {
		l, err := netlink.LinkByName("eth1")
		if err != nil {
			return err
		}
		for _, a := range []string{"10.0.0.2/24", "fd00::2/64"} {
			addr, err := netlink.ParseAddr(a)
			if err != nil {
				return err
			}
			addr.Flags |= unix.IFA_F_NODAD
			if err := netlink.AddrAdd(l, addr); err != nil {
				return err
			}
		}
		return nil
	}
	forward := set("ipv4/ip_forward", "1")
	for _, c := range []struct {
		name   string
		before []func() error // ahead of the link
		after  []func() error
		silent bool
	}{
		{"an addressed port answers", nil, []func() error{up, address}, false},
		{"a forwarding kernel answers", []func() error{forward}, []func() error{up, routeBack}, false},
		{"prepared and guarded", []func() error{forward, hostnet.PrepareLab}, []func() error{guard, up}, true},
		{"guarded where /proc/sys cannot be written", []func() error{forward}, []func() error{guard, up}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := newSpace(t), newSpace(t)
			a.do(hostnet.PrepareLab)
			if c.before != nil {
				b.do(c.before...)
			}
			wire(t, chain(topology.KindFEP, topology.KindFEP), a, b)
			a.do(guard, up)
			b.do(c.after...)
			a.do(carrier) // the kernel drops what is sent before it has noticed that the peer is up
			unanswerable := ethernet(mac(9, 9), 0x88b5)
			a.do(func() error {
				answers, err := probe(rxPackets(b), udp4(mac(1, 0)), udp6(mac(1, 0)), arp(), unanswerable)
				if err != nil {
					return err
				}
				if c.silent != (len(answers) == 0) {
					t.Errorf("answers: %q", answers)
				}
				return nil
			})
		})
	}
}

// routeBack gives the kernel a way back to the prober, without an address in its network.
func routeBack() error {
	l, err := netlink.LinkByName("eth1")
	if err != nil {
		return err
	}
	addr, err := netlink.ParseAddr("10.9.9.9/32")
	if err != nil {
		return err
	}
	if err := netlink.AddrAdd(l, addr); err != nil {
		return err
	}
	_, subnet, err := net.ParseCIDR("10.0.0.1/32")
	if err != nil {
		return err
	}
	return netlink.RouteAdd(&netlink.Route{LinkIndex: l.Attrs().Index, Scope: netlink.SCOPE_LINK, Dst: subnet})
}

func TestGuardedPortsStaySilentByThemselves(t *testing.T) {
	a, b := newSpace(t), newSpace(t)
	a.do(hostnet.PrepareLab)
	b.do(hostnet.PrepareLab)
	wire(t, chain(topology.KindFEP, topology.KindSwitch), a, b)
	for _, s := range []space{a, b} {
		s.do(func() error { return hostnet.Guard("eth1") }, func() error { return hostnet.Up("eth1") }, func() error {
			addrs, err := netlink.AddrList(nil, unix.AF_UNSPEC)
			for _, addr := range addrs {
				if !addr.IP.IsLoopback() {
					t.Errorf("the kernel has address %s", addr)
				}
			}
			return err
		})
	}
	for _, s := range []space{a, b} {
		s.do(func() error {
			l, err := netlink.LinkByName("eth1")
			if err == nil && l.Attrs().Statistics.TxPackets != 0 {
				t.Errorf("the kernel has sent %d frames", l.Attrs().Statistics.TxPackets)
			}
			return err
		})
	}
}

// TestHostsTalkThroughARouter configures two plain hosts with their switch as gateway; a routing kernel stands for the
// switch.
func TestHostsTalkThroughARouter(t *testing.T) {
	a, r, b := newSpace(t), newSpace(t), newSpace(t)
	for _, s := range []space{a, r, b} {
		s.do(hostnet.PrepareHost)
	}
	wire(t, chain(topology.KindHost, topology.KindHost, topology.KindHost), a, r, b)
	addr := func(n int) []netip.Addr {
		return []netip.Addr{netip.AddrFrom4([4]byte{10, byte(n), 0, 1}), netip.MustParseAddr(fmt.Sprintf("fd00:%d::1", n))}
	}
	neighbours := func(n int, m [6]byte) (list []hostnet.Neighbour) {
		for _, x := range addr(n) {
			list = append(list, hostnet.Neighbour{Addr: x, MAC: m})
		}
		return list
	}
	host := func(h hostnet.Host) func() error { return func() error { return hostnet.ConfigureHost(h) } }
	a.do(host(hostnet.Host{Port: "eth1", MTU: 4000, Addrs: addr(1), Neighbours: neighbours(9, mac(1, 0)), Gateways: true}))
	b.do(host(hostnet.Host{Port: "eth1", Addrs: addr(2), Neighbours: neighbours(9, mac(1, 1)), Gateways: true}))
	r.do(set("ipv4/ip_forward", "1"), set("ipv6/conf/all/forwarding", "1"),
		host(hostnet.Host{Port: "eth1", Addrs: addr(9), Neighbours: neighbours(1, mac(0, 0))}),
		host(hostnet.Host{Port: "eth2", Neighbours: neighbours(2, mac(2, 0))}),
	)
	a.do(func() error {
		on, err := hostnet.Offloads("eth1")
		if err != nil || len(on) != 0 {
			t.Errorf("offloads still on: %v, %v", on, err)
		}
		l, err := netlink.LinkByName("eth1")
		if err == nil && l.Attrs().MTU != 4000 {
			t.Errorf("MTU %d", l.Attrs().MTU)
		}
		return err
	})
	for i := range addr(1) {
		talk(t, a, b, addr(1)[i], addr(2)[i])
	}
}

// talk sends datagrams from a to b until one arrives (the kernel drops some while it learns of the carrier) and checks
// whom b takes it to be from.
func talk(t *testing.T, a, b space, from, to netip.Addr) {
	t.Helper()
	var server *net.UDPConn
	var client net.Conn
	b.do(func() (err error) {
		server, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(to, uetPort)))
		return err
	})
	defer server.Close()
	a.do(func() (err error) {
		client, err = net.Dial("udp", netip.AddrPortFrom(to, uetPort).String())
		return err
	})
	defer client.Close()
	buf := make([]byte, 16)
	for range 600 {
		if _, err := client.Write([]byte("hello")); err != nil {
			t.Fatal(err)
		}
		_ = server.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		n, peer, err := server.ReadFromUDPAddrPort(buf)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			continue
		}
		if err != nil || string(buf[:n]) != "hello" || peer.Addr().Unmap() != from {
			t.Errorf("%s to %s: %q from %s, %v", from, to, buf[:n], peer, err)
		}
		return
	}
	t.Errorf("nothing arrives from %s at %s", from, to)
}

func TestOffloadsAreReadBack(t *testing.T) {
	a, b := newSpace(t), newSpace(t)
	wire(t, chain(topology.KindHost, topology.KindHost), a, b)
	a.do(func() error {
		before, err := hostnet.Offloads("eth1")
		if err != nil {
			return err
		}
		if !strings.Contains(strings.Join(before, " "), "tx checksum") {
			t.Errorf("a new veth has only %v on; the test shows nothing", before)
		}
		if err := hostnet.OffloadsOff("eth1"); err != nil {
			return err
		}
		after, err := hostnet.Offloads("eth1")
		if len(after) != 0 {
			t.Errorf("still on: %v", after)
		}
		return err
	})
	a.do(func() error {
		if err := hostnet.OffloadsOff("eth7"); err == nil || !strings.Contains(err.Error(), "eth7") {
			t.Errorf("OffloadsOff of a missing port: %v", err)
		}
		if err := hostnet.Guard("eth7"); err == nil || !strings.Contains(err.Error(), "eth7") {
			t.Errorf("Guard of a missing port: %v", err)
		}
		return nil
	})
}
