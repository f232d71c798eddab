package switchd

import (
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// local answers echo requests to the switch itself; there is nothing else to talk to.
func (s *Switch) local(now vt.Time, in *link.Port, f *link.Frame, l3 int) {
	r := s.reply(in)
	var ok bool
	if r.B, ok = wire.AppendICMPEchoReply(r.B, f.B[l3:]); !ok {
		r.Release()
		in.Drop(link.DropPacket, f)
		return
	}
	f.Release()
	s.finish(now, in, r)
}

// expired drops a packet whose TTL is used up and says so to its source; a UET packet dies silently, since end points
// do not listen to ICMP.
func (s *Switch) expired(now vt.Time, in *link.Port, f *link.Frame, l3 int) {
	ip := f.B[l3:]
	from := s.cfg.Addr4
	if ip[0]>>4 == 6 {
		from = s.cfg.Addr6
	}
	if !isUET(ip) {
		r := s.reply(in)
		var ok bool
		if r.B, ok = wire.AppendICMPError(r.B, ip, from, wire.ICMPTimeExceeded, 0); ok {
			s.finish(now, in, r)
		} else {
			r.Release()
		}
	}
	in.Drop(link.DropTTL, f)
}

// reply begins a frame that goes back out of the port where its cause came in.
func (s *Switch) reply(in *link.Port) *link.Frame {
	r := s.node.Pool.Get()
	p := s.cfg.Ports[in.Index]
	r.B = wire.AppendEth(r.B, p.Peer, p.MAC, wire.EtherIPv4)
	return r
}

func (s *Switch) finish(now vt.Time, in *link.Port, r *link.Frame) {
	if r.B[wire.EthLen]>>4 == 6 {
		wire.Eth(r.B).SetType(wire.EtherIPv6)
	}
	r.In = uint8(in.Index)
	s.enqueue(now, in, s.dscpOf(r.B), r)
}
