package switchd

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"

	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// trimmer is what trimming keeps beside its settings.
type trimmer struct {
	on        bool
	trimmable uint64 // DSCPs, by bit
	trimmed   uint64
	off       []netip.Prefix // sources whose packets are dropped
	rng       *rand.Rand
}

// configure takes over validated settings.
func (t *trimmer) configure(set *Trim) {
	t.on, t.trimmable, t.trimmed = set.Enabled, 0, 0
	t.off, _ = set.prefixes()
	if t.on {
		for _, d := range set.Trimmable {
			t.trimmable |= 1 << (d & 63)
		}
		t.trimmed = 1<<(set.Trimmed&63) | 1<<(set.LastHop&63)
	}
}

func (s *Switch) isTrimmed(dscp uint8) bool { return s.trim.trimmed>>(dscp&63)&1 != 0 }
func (s *Switch) isRetx(dscp uint8) bool    { return s.trim.on && dscp == s.set.Trim.Retx }

// refuse handles a frame for which queue q of port o has no room: its packet, or by a toss that of the queue's last frame
// in its stead, is trimmed or dropped (uet-link-switch 5.2).
func (s *Switch) refuse(now vt.Time, o *link.Port, q int, dscp uint8, f *link.Frame) {
	if s.set.Trim.Coin && s.mayTrim(q, dscp, f) && s.swap(now, o, q, dscp, f) {
		dscp = s.dscpOf(f.B)
	}
	s.dropped(o, q, f)
	if s.set.Queues[q].Lossless {
		s.buf.in[f.In][q].lost++
	}
	if !s.mayTrim(q, dscp, f) {
		o.Drop(link.DropQueue, f)
		return
	}
	c := &o.Stats(q).C
	c[link.QTrim]++
	o.C[link.Trimmed]++
	to := s.set.Trim.Trimmed
	if s.cfg.Ports[o.Index].Host {
		to = s.set.Trim.LastHop
	}
	s.cut(f, to)
	tq := int(s.set.Classes[to&63])
	if !s.fits(tq, o.QueueBytes(tq), int64(len(f.B)), f.In, false) {
		c[link.QTrimDrop]++
		o.Drop(link.DropTrim, f)
		return
	}
	f.Group = uint8(q) + 1
	s.put(now, o, tq, f)
}

// swap tosses whether the last frame of the queue gives its place to f; f is then that frame. It must be one that may be
// trimmed, and leave room enough.
func (s *Switch) swap(now vt.Time, o *link.Port, q int, dscp uint8, f *link.Frame) bool {
	t := o.Tail(q)
	if t == nil || !s.mayTrim(q, s.dscpOf(t.B), t) {
		return false
	}
	rest := o.QueueBytes(q) - int64(len(t.B))
	if s.trim.rng.Uint64()>>63 == 0 {
		return false
	}
	s.exit(q, rest, t)
	ok := s.fits(q, rest, int64(len(f.B)), f.In, s.isRetx(dscp))
	if !ok {
		s.enter(q, rest, t)
		return false
	}
	s.enter(q, rest, f)
	f.Queued = now
	o.SwapTail(now, q, f)
	return true
}

// mayTrim says whether the packet of a frame that queue q has no room for is trimmed.
func (s *Switch) mayTrim(q int, dscp uint8, f *link.Frame) bool {
	if !s.set.Queues[q].Trim || s.trim.trimmable>>(dscp&63)&1 == 0 {
		return false
	}
	t, l3 := s.network(f.B)
	var src netip.Addr
	if t == wire.EtherIPv4 {
		ip := wire.IPv4(f.B[l3:])
		if ip.Dst4() >= 224<<24 { // group addresses, and broadcast
			return false
		}
		src = ip.Src()
	} else {
		ip := wire.IPv6(f.B[l3:])
		if ip[24] == 0xFF {
			return false
		}
		src = ip.Src()
	}
	for _, p := range s.trim.off {
		if p.Contains(src) {
			return false
		}
	}
	return true
}

// cut trims the packet of a frame and marks it with a DSCP. What is short enough is marked only.
func (s *Switch) cut(f *link.Frame, dscp uint8) {
	t, l3 := s.network(f.B)
	csigTrimmed(f.B, &s.set.CSIG)
	n := max(s.set.Trim.Size, l3+leastPacket(f.B[l3:]))
	total := 0
	if len(f.B) > n {
		f.Cut(n)
		total = n - l3
	}
	fix := total > 0 && s.set.Trim.FixIP
	if t == wire.EtherIPv4 {
		ip := wire.IPv4(f.B[l3:])
		if fix && ip.TotalLen() > total {
			ip.SetTotalLen(total)
		}
		ip.SetDSCP(dscp)
		return
	}
	ip := wire.IPv6(f.B[l3:])
	if fix && ip.TotalLen() > total {
		ip.SetTotalLen(total)
	}
	ip.SetDSCP(dscp)
}

const (
	pdsLen    = 16   // what of PDS a receiver needs to answer
	vxlanPort = 4789 // RFC 7348
	vxlanLen  = 8
)

// leastPacket is what trimming must leave of a valid IP packet: its header and MIN_TRIM_SIZE (uet-link-switch 5.1).
func leastPacket(p []byte) int {
	proto, hl, first := header(p)
	if proto != wire.ProtoUDP {
		return hl + entropyLen + pdsLen + tssLen(p[hl:], proto == wire.ProtoNative && first, entropyLen)
	}
	if l4 := p[hl:]; first && len(l4) >= wire.UDPLen && binary.BigEndian.Uint16(l4[2:]) == vxlanPort {
		const inner = wire.UDPLen + vxlanLen + wire.EthLen
		if n := leastInner(l4, inner); n > 0 {
			return hl + inner + n
		}
	}
	return hl + wire.UDPLen + pdsLen + tssLen(p[hl:], first && toUET(p[hl:]), wire.UDPLen)
}

// leastInner is leastPacket of the packet at an offset in a tunnel, 0 if there is none that could be UET.
func leastInner(b []byte, at int) int {
	if len(b) < at+wire.IPv6Len {
		return 0
	}
	p := b[at:]
	proto, hl, first := header(p)
	if !first || len(p) < hl+wire.UDPLen {
		return 0
	}
	switch {
	case proto == wire.ProtoUDP:
		return hl + wire.UDPLen + pdsLen + tssLen(p[hl:], toUET(p[hl:]), wire.UDPLen)
	case proto == wire.ProtoNative:
		return hl + entropyLen + pdsLen + tssLen(p[hl:], true, entropyLen)
	}
	return 0
}

const entropyLen = 4

// header reads protocol and length of an IP header, and whether what follows begins with a transport header.
func header(p []byte) (proto uint8, n int, first bool) {
	if p[0]>>4 == 6 {
		return p[6], wire.IPv6Len, true
	}
	ip := wire.IPv4(p)
	_, at := ip.Fragment()
	return ip.Proto(), ip.HeaderLen(), at == 0
}

// isUET says whether an IP packet is UET, over UDP or native.
func isUET(p []byte) bool {
	proto, hl, first := header(p)
	return proto == wire.ProtoNative || proto == wire.ProtoUDP && first && toUET(p[hl:])
}

func toUET(udp []byte) bool {
	return len(udp) >= 4 && binary.BigEndian.Uint16(udp[2:]) == wire.UDPPort
}

// tssLen is the length of the security header at an offset, if the packet is UET and has one.
func tssLen(l4 []byte, uet bool, at int) int {
	if !uet || len(l4) < at {
		return 0
	}
	h, err := wire.ParseTSS(l4[at:])
	if err != nil {
		return 0
	}
	return len(h)
}
