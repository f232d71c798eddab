// Package hostnet configures the network namespace that its caller is in: what a node process does to its own. Ports of fabric end points
// and switches are guarded, so that the kernel neither speaks on them nor answers what arrives; ports of plain hosts get
// addresses, static neighbours and routes, and finished checksums. It creates no links and enters no namespace.
package hostnet

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Neighbour is a host or switch at the other end of a host's link.
type Neighbour struct {
	Addr netip.Addr
	MAC  [6]byte
}

// Host is the configuration of a plain host with one port.
type Host struct {
	Port  string
	MTU   int          // IP bytes; 0 leaves the device's
	Addrs []netip.Addr // given as /32 and /128
	// Neighbours get permanent entries. If Gateways is set everything is routed to them, one per address family;
	// otherwise each is reached alone.
	Neighbours []Neighbour
	Gateways   bool
}

// PrepareLab readies a namespace whose ports will be guarded: loopback up, IPv6 and forwarding off. To be called before
// the links appear, so that the kernel says nothing at all on them. An error names what did not work (/proc/sys is read-only in
// some containers) and need not stop the node: Guard does what matters port by port without /proc.
func PrepareLab() error {
	return errors.Join(
		Up("lo"),
		// A new namespace inherits the machine's IPv4 settings, and machines with Docker forward.
		sysctl("ipv4/ip_forward", "0"),
		sysctl("ipv6/conf/all/disable_ipv6", "1"),
		sysctl("ipv6/conf/default/disable_ipv6", "1"),
	)
}

// PrepareHost readies a namespace whose port will be a plain host's: loopback up, no IPv6 addresses but the configured,
// no router solicitations or duplicate address detection. Errors are as with PrepareLab.
func PrepareHost() error {
	errs := []error{Up("lo")}
	for _, scope := range []string{"all", "default"} {
		for _, s := range [][2]string{
			{"disable_ipv6", "0"}, {"addr_gen_mode", "1"}, {"autoconf", "0"}, {"accept_ra", "0"},
			{"accept_dad", "0"}, {"router_solicitations", "0"},
		} {
			errs = append(errs, sysctl(filepath.Join("ipv6/conf", scope, s[0]), s[1]))
		}
	}
	return errors.Join(errs...)
}

func sysctl(name, value string) error {
	path := filepath.Join("/proc/sys/net", name)
	if now, err := os.ReadFile(path); err == nil && string(bytes.TrimSpace(now)) == value {
		return nil // read-only in a container, which has the right values from the start
	}
	err := os.WriteFile(path, []byte(value), 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil // a kernel without IPv6 has nothing to switch off
	}
	if err != nil {
		return fmt.Errorf("set %s to %s: %w", path, value, err)
	}
	return nil
}

// Down takes a link down; the other end loses its carrier.
func Down(name string) error {
	l, err := link(name)
	if err != nil {
		return err
	}
	if err := netlink.LinkSetDown(l); err != nil {
		return fmt.Errorf("take %s down: %w", name, err)
	}
	return nil
}

// Up brings a link up.
func Up(name string) error {
	l, err := link(name)
	if err != nil {
		return err
	}
	if err := netlink.LinkSetUp(l); err != nil {
		return fmt.Errorf("bring %s up: %w", name, err)
	}
	return nil
}

func link(name string) (netlink.Link, error) {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return nil, fmt.Errorf("link %s: %w", name, err)
	}
	return l, nil
}

// Guard keeps the kernel silent on a port whose node handles all frames itself: no ARP, no forwarding, no IPv6 address
// made by itself. With no address on the port either, the kernel drops what arrives without an answer. It uses netlink alone, so it
// works where /proc/sys is read-only; call it before Up.
func Guard(name string) error {
	l, err := link(name)
	if err != nil {
		return err
	}
	req := nl.NewNetlinkRequest(unix.RTM_SETLINK, unix.NLM_F_ACK)
	msg := nl.NewIfInfomsg(unix.AF_UNSPEC)
	msg.Index = int32(l.Attrs().Index)
	msg.Flags, msg.Change = unix.IFF_NOARP, unix.IFF_NOARP
	req.AddData(msg)
	spec := nl.NewRtAttr(unix.IFLA_AF_SPEC, nil)
	const (
		inetConf       = 1 // IFLA_INET_CONF: nested, attribute type = IPV4_DEVCONF_*
		forwarding     = 1 // IPV4_DEVCONF_FORWARDING
		inet6GenMode   = 8 // IFLA_INET6_ADDR_GEN_MODE
		inet6NoAddress = 1 // IN6_ADDR_GEN_MODE_NONE
	)
	spec.AddRtAttr(unix.AF_INET, nil).AddRtAttr(inetConf, nil).AddRtAttr(forwarding, nl.Uint32Attr(0))
	if hasIPv6(name) {
		spec.AddRtAttr(unix.AF_INET6, nil).AddRtAttr(inet6GenMode, nl.Uint8Attr(inet6NoAddress))
	}
	req.AddData(spec)
	if _, err := req.Execute(unix.NETLINK_ROUTE, 0); err != nil {
		return fmt.Errorf("guard %s against the kernel: %w", name, err)
	}
	return nil
}

// hasIPv6 says whether the kernel has IPv6 on a device; setting its options fails where it has not.
func hasIPv6(name string) bool {
	_, err := os.Stat("/proc/sys/net/ipv6/conf/" + name)
	return err == nil
}

// ConfigureHost sets up a plain host's port and brings it up.
func ConfigureHost(h Host) error {
	l, err := link(h.Port)
	if err != nil {
		return err
	}
	if err := OffloadsOff(h.Port); err != nil {
		return err
	}
	if h.MTU > 0 {
		if err := netlink.LinkSetMTU(l, h.MTU); err != nil {
			return fmt.Errorf("set the MTU of %s to %d: %w", h.Port, h.MTU, err)
		}
	}
	if err := netlink.LinkSetUp(l); err != nil {
		return fmt.Errorf("bring %s up: %w", h.Port, err)
	}
	for _, a := range h.Addrs {
		addr := &netlink.Addr{IPNet: single(a), Flags: unix.IFA_F_NODAD}
		if err := netlink.AddrReplace(l, addr); err != nil {
			return fmt.Errorf("add address %s to %s: %w", a, h.Port, err)
		}
	}
	for _, n := range h.Neighbours {
		if err := addNeighbour(l, n, h.Gateways, h.source(n.Addr)); err != nil {
			return err
		}
	}
	return nil
}

// source is the host's own address of the same family.
func (h *Host) source(to netip.Addr) netip.Addr {
	for _, a := range h.Addrs {
		if a.Is4() == to.Is4() {
			return a
		}
	}
	return netip.Addr{}
}

// addNeighbour makes a neighbour reachable: its MAC, and a route to it or through it.
func addNeighbour(l netlink.Link, n Neighbour, gateway bool, src netip.Addr) error {
	entry := &netlink.Neigh{
		LinkIndex: l.Attrs().Index, State: netlink.NUD_PERMANENT,
		IP: n.Addr.AsSlice(), HardwareAddr: n.MAC[:],
	}
	if err := netlink.NeighSet(entry); err != nil {
		return fmt.Errorf("add neighbour %s: %w", n.Addr, err)
	}
	route := &netlink.Route{LinkIndex: l.Attrs().Index, Scope: netlink.SCOPE_LINK, Dst: single(n.Addr)}
	if src.IsValid() {
		route.Src = src.AsSlice()
	}
	if gateway {
		route.Scope, route.Dst = netlink.SCOPE_UNIVERSE, everything(n.Addr)
		route.Gw, route.Flags = n.Addr.AsSlice(), int(netlink.FLAG_ONLINK)
	}
	if err := netlink.RouteReplace(route); err != nil {
		return fmt.Errorf("add route by way of %s: %w", n.Addr, err)
	}
	return nil
}

func single(a netip.Addr) *net.IPNet {
	return &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(a.BitLen(), a.BitLen())}
}

func everything(a netip.Addr) *net.IPNet {
	return &net.IPNet{IP: make(net.IP, a.BitLen()/8), Mask: net.CIDRMask(0, a.BitLen())}
}
