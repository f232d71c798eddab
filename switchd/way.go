package switchd

import "github.com/uetlab/uetlab/wire"

// What Way gives in the place of a port.
const (
	WayNone = -1 // no route, or none whose link is up
	WayAny  = -2 // the hash does not decide: any port of the group
	WayHere = -3 // the packet is for the switch, or is none that it forwards
)

// Way is the port by which the switch would send a packet that came now, of which b has the IP header and what follows as far as
// hashes look. It changes nothing.
func (s *Switch) Way(b []byte) int {
	var g *group
	if len(b) < wire.IPv4Len {
		return WayHere
	}
	switch v := b[0] >> 4; {
	case v == 4:
		dst := wire.IPv4(b).Dst4()
		if dst == s.own4 {
			return WayHere
		}
		g = s.lookup4(dst)
	case v == 6 && len(b) >= wire.IPv6Len:
		ip := wire.IPv6(b)
		if ip.Dst16() == s.own6 {
			return WayHere
		}
		g = s.lookup6(ip)
	default:
		return WayHere
	}
	switch {
	case g == nil || g.dead():
		return WayNone
	case g.n == 1 && !g.remembers:
		return int(g.tab[0])
	}
	x := &s.ecmp
	switch x.balance {
	case byLoad, byChance, byTurn:
		return WayAny
	}
	h := x.hash(b)
	switch {
	case x.balance == byFlowlet:
		if f := &x.lets[h%flowletSlots]; f.used && g.live>>f.port&1 != 0 {
			return int(f.port)
		}
		return WayAny
	case x.spread == byModulo:
		return int(g.tab[h%uint32(len(g.tab))])
	}
	return int(g.tab[uint64(h)*uint64(len(g.tab))>>32])
}
