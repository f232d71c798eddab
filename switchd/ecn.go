package switchd

import (
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/wire"
)

// congested says whether queue q with a backlog of n bytes marks a frame: never up to Kmin, always from Kmax on, between
// them by chance along a line up to Pmax.
func (s *Switch) congested(q int, n int64) bool {
	set := &s.set.Queues[q]
	switch {
	case n >= set.Kmax:
		return set.Kmax > 0
	case n <= set.Kmin:
		return false
	}
	return s.ecn.Float64() < set.Pmax*float64(n-set.Kmin)/float64(set.Kmax-set.Kmin)
}

// mark marks a frame that leaves for the line if the backlog that it leaves behind says so. Only what is ECN-capable
// becomes CE; what is already stays so and is not counted again. Trimmed packets are never marked.
func (s *Switch) mark(p *link.Port, f *link.Frame) {
	q := int(f.Queue)
	if !s.congested(q, p.QueueBytes(q)) {
		return
	}
	t, l3 := s.network(f.B)
	if s.cfg.Ports[p.Index].Host && (s.set.LastHop == MarkOff || s.set.LastHop == MarkAuto && byCredit(f.B[l3:])) {
		return
	}
	if t == wire.EtherIPv4 {
		ip := wire.IPv4(f.B[l3:])
		if !marks(ip.ECN()) || s.isTrimmed(ip.DSCP()) {
			return
		}
		ip.SetECN(wire.ECNCE)
	} else {
		ip := wire.IPv6(f.B[l3:])
		if !marks(ip.ECN()) || s.isTrimmed(ip.DSCP()) {
			return
		}
		ip.SetECN(wire.ECNCE)
	}
	p.C[link.Marked]++
	c := &p.Stats(q).C
	c[link.QMarked]++
	c[link.QMarkedBytes] += uint64(len(f.B))
}

// byCredit says whether an IP packet is a UET request with a credit target: its source waits for what the receiver grants. A switch of
// silicon would know it by a class of traffic.
func byCredit(p []byte) bool {
	proto, hl, first := header(p)
	at := hl + entropyLen
	if proto == wire.ProtoUDP {
		at = hl + wire.UDPLen
	}
	if !isUET(p) || !first || len(p) < at {
		return false
	}
	pro, err := wire.ParsePrologue(p[at:])
	return err == nil && (pro.Type() == wire.TypeRUDCCReq || pro.Type() == wire.TypeRODCCReq)
}

func marks(ecn uint8) bool { return ecn == wire.ECNECT0 || ecn == wire.ECNECT1 }

// early says whether WRED drops a frame before it is queued: one that is not ECN-capable, by the backlog that it finds.
// It has to be before: what is queued already has its place on the line.
func (s *Switch) early(o *link.Port, q int, f *link.Frame) bool {
	t, l3 := s.network(f.B)
	ecn := f.B[l3+1] & 3
	if t == wire.EtherIPv6 {
		ecn = f.B[l3+1] >> 4 & 3
	}
	return ecn == wire.ECNNotECT && s.congested(q, o.QueueBytes(q))
}
