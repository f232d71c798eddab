package wiring

import (
	"os"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/uetlab/uetlab/fabric/topology"
)

// end is one end of a veth pair.
type end struct {
	ns   *os.File
	name string
	mac  [6]byte
	mtu  int
}

// pair is a veth pair to make; name is the link's.
type pair struct {
	name string
	a, b end
}

// message is a serialized netlink request whose sequence number is still to be set.
type message []byte

func makePair(plan *topology.Plan, l *topology.Link, a, b topology.End, ns []*os.File) pair {
	half := func(e topology.End) end {
		node := &plan.Nodes[e.Node]
		port := &node.Ports[e.Port]
		return end{ns: ns[e.Node], name: port.Name, mac: port.MAC, mtu: DeviceMTU(node.Kind, l.MTU)}
	}
	return pair{name: l.Name, a: half(a), b: half(b)}
}

// message is RTM_NEWLINK for the whole pair, both ends down.
func (p *pair) message() message {
	req := &nl.NetlinkRequest{NlMsghdr: unix.NlMsghdr{
		Len:   unix.SizeofNlMsghdr,
		Type:  unix.RTM_NEWLINK,
		Flags: unix.NLM_F_REQUEST | unix.NLM_F_ACK | unix.NLM_F_CREATE | unix.NLM_F_EXCL,
	}}
	req.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
	for _, attr := range p.a.attributes() {
		req.AddData(attr)
	}
	info := nl.NewRtAttr(unix.IFLA_LINKINFO, nil)
	info.AddRtAttr(nl.IFLA_INFO_KIND, nl.NonZeroTerminated("veth"))
	data := info.AddRtAttr(nl.IFLA_INFO_DATA, nil)
	peer := data.AddRtAttr(nl.VETH_INFO_PEER, nil)
	nl.NewIfInfomsgChild(peer, unix.AF_UNSPEC)
	for _, attr := range p.b.attributes() {
		peer.AddChild(attr)
	}
	req.AddData(info)
	return req.Serialize()
}

// attributes place and describe one end. One queue each way: more would let frames overtake each other when their
// sender changes CPU.
func (e *end) attributes() []*nl.RtAttr {
	return []*nl.RtAttr{
		nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(e.name)),
		nl.NewRtAttr(unix.IFLA_NET_NS_FD, nl.Uint32Attr(uint32(e.ns.Fd()))),
		nl.NewRtAttr(unix.IFLA_ADDRESS, e.mac[:]),
		nl.NewRtAttr(unix.IFLA_MTU, nl.Uint32Attr(uint32(e.mtu))),
		nl.NewRtAttr(unix.IFLA_NUM_TX_QUEUES, nl.Uint32Attr(1)),
		nl.NewRtAttr(unix.IFLA_NUM_RX_QUEUES, nl.Uint32Attr(1)),
	}
}

// deleteMessage is RTM_DELLINK by name.
func deleteMessage(name string) message {
	req := &nl.NetlinkRequest{NlMsghdr: unix.NlMsghdr{
		Len:   unix.SizeofNlMsghdr,
		Type:  unix.RTM_DELLINK,
		Flags: unix.NLM_F_REQUEST | unix.NLM_F_ACK,
	}}
	req.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
	req.AddData(nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(name)))
	return req.Serialize()
}
