package switchd

import (
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/uetlab/uetlab/wire"
)

// The longest prefix decides, asked for the first time or again.
func TestLongestPrefix(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 9))
		r := newRig(t, plan(), gig)
		any4 := func() netip.Addr {
			return netip.AddrFrom4([4]byte{10, byte(rng.IntN(2)), byte(rng.IntN(4)), byte(rng.IntN(16))})
		}
		any6 := func() netip.Addr {
			return netip.AddrFrom16([16]byte{0: 0xfd, 7: byte(rng.IntN(3)), 14: byte(rng.IntN(3)), 15: byte(rng.IntN(16))})
		}
		want := map[netip.Prefix]int{}
		var routes []Route
		for i := range 30 {
			p, q := netip.PrefixFrom(any4(), rng.IntN(33)).Masked(), netip.PrefixFrom(any6(), rng.IntN(129)).Masked()
			routes = append(routes, Route{Ports: []int{0}, Prefixes: []netip.Prefix{p, q}})
			want[p], want[q] = i, i
		}
		r.s.SetRoutes(routes)
		for range 2000 {
			var a netip.Addr
			var g *group
			if rng.IntN(2) == 0 {
				a = any4()
				b := a.As4()
				g = r.s.lookup4(uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3]))
			} else {
				a = any6()
				b := a.As16()
				ip := make(wire.IPv6, wire.IPv6Len)
				copy(ip[24:], b[:])
				g = r.s.lookup6(ip)
			}
			best, at := -1, -1
			for p, i := range want {
				if p.Contains(a) && p.Bits() > best {
					best, at = p.Bits(), i
				}
			}
			if at < 0 && g != nil || at >= 0 && g != r.s.groups[at] {
				t.Fatalf("seed %d: %v goes another way than by route %d", seed, a, at)
			}
		}
	}
}
