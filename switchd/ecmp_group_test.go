package switchd

import (
	"math"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/uetlab/uetlab/internal/engine"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/vt"
)

// cut takes a port's link down, or up again.
func cut(n *engine.Node, s *Switch, port int, down bool) {
	n.Ports[port].SetImpair(n.Now(), link.Impair{Down: down})
	s.LinksChanged()
}

// moved counts the buckets that two maps have different, by the member of the first.
func moved(before, after []uint8) map[uint8]int {
	m := map[uint8]int{}
	for b, p := range before {
		if after[b] != p {
			m[p]++
		}
	}
	return m
}

func owned(tab []uint8) map[uint8]int {
	m := map[uint8]int{}
	for _, p := range tab {
		m[p]++
	}
	return m
}

// ECMP-04: of a resilient group only the buckets of the dead member move, evenly to the others, and they return.
func TestECMP04_OnlyBucketsOfTheDeadMemberMove(t *testing.T) {
	for _, buckets := range []int{0, 64, 256, 1000} {
		n, s := fan(t, "leaf0", 8, ECMP{Group: GroupResilient, Buckets: buckets})
		g := s.groups[0]
		size := len(g.tab)
		if buckets != 0 && size != buckets || buckets == 0 && size != 256 {
			t.Fatalf("%d buckets, configured %d", size, buckets)
		}
		before := append([]uint8(nil), g.tab...)
		cut(n, s, 3, true)
		if m := moved(before, g.tab); len(m) != 1 || m[3] != owned(before)[3] {
			t.Errorf("%d buckets: moved %v by owner, member 3 had %d", size, m, owned(before)[3])
		}
		for p, k := range owned(g.tab) {
			if k < size/7 || k > size/7+1 {
				t.Errorf("%d buckets: member %d has %d, want a seventh", size, p, k)
			}
		}
		once := append([]uint8(nil), g.tab...)
		cut(n, s, 5, true)
		if m := moved(once, g.tab); len(m) != 1 || m[5] != owned(once)[5] {
			t.Errorf("%d buckets: second failure moved %v", size, m)
		}
		cut(n, s, 3, false)
		cut(n, s, 5, false)
		if m := moved(before, g.tab); len(m) != 0 {
			t.Errorf("%d buckets: after the return %v are elsewhere", size, m)
		}
	}
}

// For comparison: what the other groups move when a member dies.
func TestThresholdAndModuloMoveMore(t *testing.T) {
	for _, c := range []struct {
		group    string
		low, top float64 // share of the surviving flows that move
	}{{GroupResilient, 0, 0}, {GroupThreshold, 0.2, 0.7}, {GroupModulo, 0.7, 0.95}} {
		n, s := fan(t, "leaf0", 8, ECMP{Group: c.group})
		where := func() (list []int) {
			ip := ipOf("10.0.0.1", "10.9.0.1", 0, 0)
			for ev := range 1 << 14 {
				setEV(ip, uint16(ev))
				list = append(list, s.choose(0, s.groups[0], ip))
			}
			return list
		}
		before := where()
		cut(n, s, 2, true)
		survivors, gone := 0, 0
		for i, p := range where() {
			if p == 2 {
				t.Fatalf("%s: a flow on the dead member", c.group)
			}
			if before[i] != 2 {
				survivors++
				if p != before[i] {
					gone++
				}
			}
		}
		if share := float64(gone) / float64(survivors); share < c.low || share > c.top {
			t.Errorf("%s: %.2f of the surviving flows move, want %.2f to %.2f", c.group, share, c.low, c.top)
		}
	}
}

// A bucket that is in use stays where it is when its home returns, until it was idle.
func TestBucketsReturnWhenIdle(t *testing.T) {
	n, s := fan(t, "leaf0", 4, ECMP{Group: GroupResilient, IdleTimer: 10 * time.Microsecond})
	g := s.groups[0]
	ip := ipOf("10.0.0.1", "10.9.0.1", 0, 0)
	var busy []uint16 // EVs that member 1 carries
	for ev := range uint16(400) {
		setEV(ip, ev)
		if s.choose(1000, g, ip) == 1 {
			busy = append(busy, ev)
		}
	}
	cut(n, s, 1, true)
	at := map[uint16]int{}
	var now vt.Time
	for now = 2000; now < 50_000; now += 5000 {
		if now == 22_000 {
			cut(n, s, 1, false)
		}
		for _, ev := range busy {
			setEV(ip, ev)
			p := s.choose(now, g, ip)
			if was, met := at[ev]; p == 1 || met && was != p {
				t.Fatalf("%v: EV %d goes to %d, was at %d", now, ev, p, was)
			}
			at[ev] = p
		}
	}
	now += 5001 // the latest use is 10.001 µs ago
	for _, ev := range busy {
		setEV(ip, ev)
		if p := s.choose(now, g, ip); p != 1 {
			t.Fatalf("EV %d goes to %d though its bucket was idle", ev, p)
		}
	}
}

// New routes without the dead member leave the other members' buckets where they are, and so do those with it again.
func TestResilientGroupOutlivesItsRoute(t *testing.T) {
	n, s := fan(t, "leaf0", 4, ECMP{Group: GroupResilient})
	prefix := []netip.Prefix{netip.MustParsePrefix("10.9.0.0/16"), netip.MustParsePrefix("fd00:9::/32")}
	before := append([]uint8(nil), s.groups[0].tab...)
	s.SetRoutes([]Route{{[]int{0}, []netip.Prefix{netip.MustParsePrefix("10.8.0.0/16")}}, {[]int{0, 1, 3}, prefix}})
	if m := moved(before, s.groups[1].tab); len(m) != 1 || m[2] != 64 {
		t.Errorf("a route without member 2 moves %v", m)
	}
	without := append([]uint8(nil), s.groups[1].tab...)
	s.SetRoutes([]Route{{[]int{0, 1, 2, 3}, prefix}})
	if m := moved(without, s.groups[0].tab); m[0]+m[1]+m[3] != 64 {
		t.Errorf("a route with member 2 again moves %v, want a quarter of all", m)
	}
	// A link that is down here first, and then in the routes, moves nothing twice.
	before = append([]uint8(nil), s.groups[0].tab...)
	cut(n, s, 1, true)
	down := append([]uint8(nil), s.groups[0].tab...)
	s.SetRoutes([]Route{{[]int{0, 2, 3}, prefix}})
	if m := moved(down, s.groups[0].tab); len(m) != 0 {
		t.Errorf("the route that follows the link moves %v", m)
	}
	if m := moved(before, s.groups[0].tab); len(m) != 1 || m[1] != 64 {
		t.Errorf("the link moves %v", m)
	}
}

// Whatever happens to links and rates, a resilient group has every bucket on a live member, and no more than its part.
func TestResilientInvariants(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		n, s := fan(t, "leaf0", 6, ECMP{Group: GroupResilient, Buckets: 128, Weights: WeightsRate})
		g := s.groups[0]
		for range 200 {
			port := r.IntN(6)
			n.Ports[port].SetImpair(n.Now(), link.Impair{Down: r.IntN(3) == 0, Rate: []float64{0, 0.5, 0.1}[r.IntN(3)]})
			before := append([]uint8(nil), g.tab...)
			live, weights := g.live, append([]int64(nil), g.weights...)
			s.LinksChanged()
			same := true
			for i, w := range weights {
				same = same && w == g.weights[i]
			}
			for b, p := range g.tab {
				if g.n > 0 && g.live>>p&1 == 0 {
					t.Fatalf("seed %d: bucket %d on dead member %d", seed, b, p)
				}
				if old := before[b]; same && g.n > 0 && p != old && live>>old&1 != 0 && g.live>>old&1 != 0 && g.home[b] != p {
					t.Fatalf("seed %d: bucket %d moved from %d to %d, which is not its home", seed, b, old, p)
				}
			}
		}
	}
}

// Shares follow weights within 5 %, for each kind of group and for chance and turns.
func TestWeightedShares(t *testing.T) {
	rates := []float64{0, 0.5, 0.25, 0.37}
	ports := [link.NumPorts]uint8{1, 2, 0, 5}
	for _, balance := range []string{BalanceHash, BalanceRandom, BalanceRR} {
		for _, group := range []string{GroupThreshold, GroupModulo, GroupResilient} {
			for what, e := range map[string]ECMP{
				"rates":        {Weights: WeightsRate},
				"port weights": {PortWeight: ports},
				"both":         {Weights: WeightsRate, PortWeight: ports},
			} {
				e.Group, e.Balance = group, balance
				n, s := fan(t, "leaf0", 4, e)
				for p, r := range rates {
					n.Ports[p].SetImpair(0, link.Impair{Rate: r})
				}
				s.LinksChanged()
				var want [4]float64
				sum := 0.0
				for p := range want {
					want[p] = 1
					if e.Weights != "" {
						want[p] = float64(n.Ports[p].Rate())
					}
					if e.PortWeight != [link.NumPorts]uint8{} {
						want[p] *= math.Max(float64(ports[p]), 1)
					}
					sum += want[p]
				}
				c := count(s, ipOf("10.0.0.1", "10.9.0.1", 0, 0), 1<<16)
				for p, w := range want {
					if share := float64(c[p]) / 65536; math.Abs(share*sum/w-1) > 0.05 {
						t.Errorf("%s %s %s: port %d has %.4f, want %.4f", balance, group, what, p, share, w/sum)
					}
				}
			}
		}
	}
}

// A rate that falls by an impairment moves flows at once, and back when it is whole again.
func TestRateWeightsFollowImpairments(t *testing.T) {
	n, s := fan(t, "leaf0", 4, ECMP{Weights: WeightsRate})
	g := s.groups[0]
	if len(g.tab) != 4 {
		t.Fatalf("equal rates take %d buckets", len(g.tab))
	}
	tab := &g.tab[0]
	s.LinksChanged()
	if tab != &g.tab[0] {
		t.Error("the table is made anew though nothing changed")
	}
	n.Ports[2].SetImpair(0, link.Impair{Rate: 0.5})
	s.LinksChanged()
	if m := owned(g.tab); m[0] != 2 || m[1] != 2 || m[2] != 1 || m[3] != 2 {
		t.Errorf("with one link at half its rate: %v", m)
	}
	n.Ports[2].SetImpair(0, link.Impair{})
	s.LinksChanged()
	if len(g.tab) != 4 {
		t.Errorf("whole again: %d buckets", len(g.tab))
	}
}

func TestApportion(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 2))
		w := make([]int64, 1+r.IntN(64))
		sum := int64(0)
		for i := range w {
			w[i] = 1 + r.Int64N(1<<r.IntN(40))
			sum += w[i]
		}
		n, total := 1+r.IntN(maxTable), 0
		for i, k := range apportion(w, n) {
			total += k
			if exact := float64(w[i]) / float64(sum) * float64(n); math.Abs(float64(k)-exact) > 1.0001 {
				t.Fatalf("seed %d: %d buckets for a share of %.2f", seed, k, exact)
			}
		}
		if total != n {
			t.Fatalf("seed %d: %d buckets given out of %d", seed, total, n)
		}
	}
}

// TestRouteWithoutPorts drops what has a route to nowhere, whatever the kind of group and balance.
func TestRouteWithoutPorts(t *testing.T) {
	for _, group := range []string{GroupThreshold, GroupModulo, GroupResilient} {
		for _, balance := range []string{BalanceHash, BalanceFlowlet, BalanceAdaptive, BalanceRandom, BalanceRR} {
			set := plan()
			set.ECMP.Group, set.ECMP.Balance = group, balance
			r := newRig(t, set, 400e9, 400e9)
			r.s.SetRoutes([]Route{{Prefixes: []netip.Prefix{netip.PrefixFrom(addr4(1, 0), 16)}}})
			r.send(1, pkt{from: 0, to: 1, size: 100})
			if n := r.Ports[0].C[link.DropNoRoute]; n != 1 {
				t.Errorf("%s, %s: %d dropped", group, balance, n)
			}
		}
	}
}
