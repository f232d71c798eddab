package switchd

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
	"slices"
	"time"

	"github.com/uetlab/uetlab/internal/vt"
)

type groupKind uint8

const (
	bySpan   groupKind = iota // threshold
	byModulo                  // modulo
	byBucket                  // resilient
)

// maxTable is the most buckets of a group, and fineTable the buckets per member where weights have no small common measure.
const (
	maxTable       = 4096
	fineTable      = 64
	defaultBuckets = 256 // of a resilient group
)

// group is the ports of equal cost towards a set of prefixes. tab maps the hash space to them, a bucket after another; it is
// made anew only when members or weights have changed.
type group struct {
	all     []int
	live    uint64 // those whose link is up here, by bit
	n       int    // of them
	tab     []uint8
	weights []int64 // of all, when tab was made
	turn    int     // next bucket, round robin

	// remembers says that choosing leaves a trace: a resilient group has the same buckets for ever, home is the member that each
	// belongs to, last when it was used, and away says that a bucket whose home could have it is elsewhere. flowlets live in
	// the switch's table.
	remembers bool
	away      bool
	home      []uint8
	last      []vt.Time
}

// newGroups makes the groups of a new routing table, while the old one is still there: a resilient group goes on from the one
// that its first prefix had, so that a member that a new route leaves out moves only its own buckets.
func (s *Switch) newGroups(routes []Route) []*group {
	groups := make([]*group, len(routes))
	for i, r := range routes {
		g := &group{all: r.Ports}
		if old := s.groupOf(r.Prefixes); old != nil {
			g.tab, g.home, g.last = slices.Clone(old.tab), slices.Clone(old.home), slices.Clone(old.last)
		}
		groups[i] = g
	}
	return groups
}

// groupOf is the group that the first of prefixes has now, if it has buckets to remember.
func (s *Switch) groupOf(prefixes []netip.Prefix) *group {
	if len(prefixes) == 0 {
		return nil
	}
	var g *group
	if p := prefixes[0].Masked(); p.Addr().Is4() {
		a := p.Addr().As4()
		g = s.v4[p.Bits()][binary.BigEndian.Uint32(a[:])]
	} else {
		g = s.v6[p.Bits()][p.Addr().As16()]
	}
	if g == nil || g.home == nil {
		return nil
	}
	return g
}

// dead says that no port of the group can send.
func (g *group) dead() bool { return g.n == 0 }

// update makes the group's table if members or weights are others than before.
func (s *Switch) update(g *group) {
	var live uint64
	weights := make([]int64, len(g.all))
	for i, p := range g.all {
		weights[i] = s.weight(p)
		if s.node.Ports[p].Up() {
			live |= 1 << p
		}
	}
	if g.weights != nil && live == g.live && slices.Equal(weights, g.weights) {
		return
	}
	g.live, g.n, g.weights, g.turn = live, bits.OnesCount64(live), weights, 0
	g.remembers = s.ecmp.balance == byFlowlet
	switch {
	case len(g.all) == 0: // a route to nowhere has no buckets
	case s.ecmp.balance == byHash && s.ecmp.spread == byBucket:
		g.remembers = true
		s.resilient(g)
	case g.n > 0:
		g.tab = g.spread(s.ecmp.balance == byTurn)
	}
}

// spread gives every live member as many buckets as it weighs: in one piece, or, smooth, each as far apart as can be.
func (g *group) spread(smooth bool) []uint8 {
	var ports []uint8
	var w []int64
	for i, p := range g.all {
		if g.live>>p&1 != 0 {
			ports, w = append(ports, uint8(p)), append(w, g.weights[i])
		}
	}
	share := reduce(w)
	total := 0
	for _, n := range share {
		total += n
	}
	tab := make([]uint8, 0, total)
	if !smooth {
		for i, n := range share {
			for range n {
				tab = append(tab, ports[i])
			}
		}
		return tab
	}
	credit := make([]int, len(share)) // smooth weighted round robin
	for range total {
		best := 0
		for i, n := range share {
			if credit[i] += n; credit[i] > credit[best] {
				best = i
			}
		}
		credit[best] -= total
		tab = append(tab, ports[best])
	}
	return tab
}

// reduce turns weights into numbers of buckets: exact by the greatest common divisor if that gives few, else rounded.
func reduce(w []int64) []int {
	var div, sum int64
	for _, x := range w {
		for a := x; a != 0; {
			div, a = a, div%a
		}
		sum += x
	}
	if size := min(fineTable*len(w), maxTable); sum/div > int64(size) {
		return apportion(w, size)
	}
	share := make([]int, len(w))
	for i, x := range w {
		share[i] = int(x / div)
	}
	return share
}

// apportion gives out n buckets by weight, by the largest remainders; of equal ones the first are served first.
func apportion(w []int64, n int) []int {
	var sum int64
	for _, x := range w {
		sum += x
	}
	share, rest := make([]int, len(w)), make([]int64, len(w))
	left := n
	for i, x := range w {
		hi, lo := bits.Mul64(uint64(x), uint64(n))
		q, r := bits.Div64(hi, lo, uint64(sum))
		share[i], rest[i] = int(q), int64(r)
		left -= int(q)
	}
	for ; left > 0; left-- {
		best := 0
		for i := range rest {
			if rest[i] > rest[best] {
				best = i
			}
		}
		share[best]++
		rest[best] = -1
	}
	return share
}

// resilient moves as few buckets as it can. Members' fair parts are counted whether their link is up or not: that is where
// buckets are at home, and a bucket whose home is down lives with another member until then.
func (s *Switch) resilient(g *group) {
	n := s.ecmp.set.Buckets
	if n == 0 {
		n = defaultBuckets
	}
	if len(g.home) != n {
		g.home, g.tab, g.last = make([]uint8, n), make([]uint8, n), make([]vt.Time, n)
		for i := range g.home {
			g.home[i], g.tab[i], g.last[i] = nobody, nobody, unused
		}
	}
	g.settle(apportion(g.weights, n))
	g.away = false
	if g.n == 0 {
		return
	}
	var have [256]int
	var lost []int
	for b, p := range g.tab {
		home := g.home[b]
		switch {
		case g.isLive(home) && (!g.isLive(p) || s.ecmp.idle == 0):
			g.tab[b] = home
		case !g.isLive(p):
			lost = append(lost, b)
			continue
		}
		if g.tab[b] != home && g.isLive(home) {
			g.away = true
		}
		have[g.tab[b]]++
	}
	for _, b := range lost {
		p := g.neediest(&have)
		g.tab[b] = p
		have[p]++
	}
}

const (
	nobody = 0xFF
	unused = vt.Time(-1 << 62)
)

func (g *group) isLive(p uint8) bool { return p != nobody && g.live>>p&1 != 0 }

// settle gives each member as many buckets to call home as share says. It leaves those where they are that may stay, and
// prefers to call home where a bucket is.
func (g *group) settle(share []int) {
	var room [256]int
	for i, p := range g.all {
		room[p] = share[i]
	}
	take := func(b int, p uint8) bool {
		if room[p] == 0 {
			return false
		}
		room[p]--
		g.home[b] = p
		return true
	}
	for b, p := range g.home {
		if !take(b, p) {
			g.home[b] = nobody
		}
	}
	for b, p := range g.home {
		if p == nobody {
			take(b, g.tab[b])
		}
	}
	i := 0
	for b := range g.home {
		for g.home[b] == nobody && !take(b, uint8(g.all[i])) {
			i++
		}
	}
}

// neediest is the live member with the fewest buckets for its weight.
func (g *group) neediest(have *[256]int) uint8 {
	best, bestW := -1, int64(1)
	for i, p := range g.all {
		if g.live>>p&1 == 0 {
			continue
		}
		if best < 0 || int64(have[p]+1)*bestW < int64(have[best]+1)*g.weights[i] {
			best, bestW = p, g.weights[i]
		}
	}
	return uint8(best)
}

// touch notes that bucket b is used now; a bucket that is not at home goes there if it was idle for longer than the timer. Looking
// at the next use is as good as a timer, because nobody sees where an idle bucket is.
func (g *group) touch(b int, now vt.Time, idle time.Duration) {
	if g.away {
		if home := g.home[b]; g.tab[b] != home && g.isLive(home) && now.Sub(g.last[b]) > idle {
			g.tab[b] = home
		}
	}
	g.last[b] = now
}
