package switchd

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
	"slices"

	"github.com/uetlab/uetlab/wire"
)

// Route sends packets to any of Prefixes out of one of Ports.
type Route struct {
	Ports    []int
	Prefixes []netip.Prefix
}

// table is the forwarding table: maps by prefix length, longest first, behind small caches of what was asked last.
type table struct {
	groups []*group
	len4   []int                 // prefix lengths in use, longest first
	v4     [33]map[uint32]*group // by masked destination
	len6   []int
	v6     [129]map[[16]byte]*group
	near4  []near4 // 1 << (32 - shift4) slots
	near6  []near6 // 1 << (64 - shift6) slots
	shift4 int
	shift6 int
}

// nearBits is how many bits index a cache for so many destinations that they seldom meet in a slot.
func nearBits(prefixes int) int { return min(bits.Len(uint(prefixes))+1, 12) }

type near4 struct {
	dst uint32
	g   *group
}

type near6 struct {
	dst [16]byte
	g   *group
}

// SetRoutes replaces the whole routing table.
func (s *Switch) SetRoutes(routes []Route) {
	t := table{groups: s.newGroups(routes)}
	n := 0
	for i, r := range routes {
		n += len(r.Prefixes)
		for _, p := range r.Prefixes {
			t.add(p, t.groups[i])
		}
	}
	t.shift4, t.shift6 = 32-nearBits(n), 64-nearBits(n)
	t.near4, t.near6 = make([]near4, 1<<nearBits(n)), make([]near6, 1<<nearBits(n))
	longestFirst := func(a, b int) int { return b - a }
	slices.SortFunc(t.len4, longestFirst)
	slices.SortFunc(t.len6, longestFirst)
	s.table = t
	s.LinksChanged()
}

func (t *table) add(p netip.Prefix, g *group) {
	n := p.Bits()
	if p.Addr().Is4() {
		if t.v4[n] == nil {
			t.v4[n] = map[uint32]*group{}
			t.len4 = append(t.len4, n)
		}
		a := p.Masked().Addr().As4()
		t.v4[n][binary.BigEndian.Uint32(a[:])] = g
		return
	}
	if t.v6[n] == nil {
		t.v6[n] = map[[16]byte]*group{}
		t.len6 = append(t.len6, n)
	}
	t.v6[n][p.Masked().Addr().As16()] = g
}

func (t *table) lookup4(dst uint32) *group {
	c := &t.near4[dst*0x9E3779B1>>t.shift4]
	if c.dst == dst && c.g != nil {
		return c.g
	}
	for _, n := range t.len4 {
		if g := t.v4[n][dst&^(1<<(32-n)-1)]; g != nil {
			*c = near4{dst, g}
			return g
		}
	}
	return nil
}

func (t *table) lookup6(ip wire.IPv6) *group {
	dst := ip.Dst16()
	h := binary.BigEndian.Uint64(dst[:8]) ^ binary.BigEndian.Uint64(dst[8:])
	c := &t.near6[h*0x9E3779B97F4A7C15>>t.shift6]
	if c.dst == dst && c.g != nil {
		return c.g
	}
	for _, n := range t.len6 {
		a := dst
		if n < 128 {
			a[n/8] &= ^byte(0xff >> (n % 8))
			clear(a[n/8+1:])
		}
		if g := t.v6[n][a]; g != nil {
			*c = near6{dst, g}
			return g
		}
	}
	return nil
}
