package switchd

import (
	"slices"
	"testing"
	"time"

	"github.com/uetlab/uetlab/internal/engine"
	"github.com/uetlab/uetlab/internal/vt"
)

// load makes a port's backlog at least so many bytes: a first frame keeps the line busy.
func load(n *engine.Node, port, bytes int) {
	for range 2 {
		f := n.Pool.Get()
		f.B = append(f.B, make([]byte, bytes)...)
		n.Ports[port].Enqueue(n.Now(), 0, f)
	}
}

// Adaptive: each packet goes to the least loaded port, in bands, ties by chance.
func TestAdaptiveTakesTheLeastLoaded(t *testing.T) {
	n, s := fan(t, "leaf0", 4, ECMP{Balance: BalanceAdaptive})
	g := s.groups[0]
	ip := ipOf("10.0.0.1", "10.9.0.1", 0, 7)
	seen := map[int]int{}
	for range 4000 {
		seen[s.choose(0, g, ip)]++
	}
	for p := range 4 {
		if seen[p] < 900 || seen[p] > 1100 {
			t.Errorf("idle ports share %v", seen)
		}
	}
	load(n, 0, 4000)
	load(n, 1, 2000)
	load(n, 3, 3000)
	for range 100 {
		if p := s.choose(0, g, ip); p != 2 {
			t.Fatalf("port %d, only 2 is idle", p)
		}
	}
	load(n, 2, 2500)
	if p := s.choose(0, g, ip); p != 1 {
		t.Errorf("port %d, 1 has the least", p)
	}
	cut(n, s, 1, true)
	if p := s.choose(0, g, ip); p != 2 {
		t.Errorf("port %d, 2 has the least of those that are up", p)
	}
}

// With bands, depths that lie in one band are equal: 100 000 bytes in 16 bands of 6250.
func TestAdaptiveComparesInBands(t *testing.T) {
	n, s := fan(t, "leaf0", 2, ECMP{Balance: BalanceAdaptive, Bands: 16})
	g, ip := s.groups[0], ipOf("10.0.0.1", "10.9.0.1", 0, 7)
	both := func() int {
		seen := map[int]bool{}
		for range 100 {
			seen[s.choose(0, g, ip)] = true
		}
		return len(seen)
	}
	load(n, 0, 4000) // 4000 wait
	if both() != 2 {
		t.Error("a backlog of 4000 bytes counts, within a band of 6250")
	}
	load(n, 0, 2000)
	if both() != 1 || s.choose(0, g, ip) != 1 {
		t.Error("a backlog of 8000 bytes does not count, beyond a band of 6250")
	}
	set := withECMP(s.ecmp.set)
	set.Queues[dataClass].Limit = 200_000 // bands of 12 500
	if err := s.setECMP(&set); err != nil {
		t.Fatal(err)
	}
	if both() != 2 {
		t.Error("bands do not follow the limit of the data queue")
	}
}

// A port of half the rate with the same backlog is more loaded.
func TestAdaptiveByRate(t *testing.T) {
	n, s := fan(t, "leaf0", 2, ECMP{Balance: BalanceAdaptive, Weights: WeightsRate})
	g, ip := s.groups[0], ipOf("10.0.0.1", "10.9.0.1", 0, 7)
	imp := n.Ports[0].Impair()
	imp.Rate = 0.25
	n.Ports[0].SetImpair(0, imp)
	s.LinksChanged()
	load(n, 0, 1000)
	load(n, 1, 3000)
	if p := s.choose(0, g, ip); p != 1 {
		t.Errorf("port %d: 3000 bytes at 400 Gb/s drain before 1000 at 100 Gb/s", p)
	}
}

// Flowlets: a flow stays while it sends without gaps longer than FlowletGap, and then goes to the least loaded port.
func TestFlowletMovesAfterAGap(t *testing.T) {
	const gap = 10 * time.Microsecond
	n, s := fan(t, "leaf0", 4, ECMP{Balance: BalanceFlowlet, FlowletGap: gap})
	g, ip := s.groups[0], ipOf("10.0.0.1", "10.9.0.1", 0, 7)
	now := vt.Time(1000)
	first := s.choose(now, g, ip)
	load(n, first, 4000) // the flow's own load does not move it
	for range 50 {
		now = now.Add(gap)
		if p := s.choose(now, g, ip); p != first {
			t.Fatalf("moves to %d without a longer gap", p)
		}
	}
	for p := range 4 {
		if p != first && p != (first+1)%4 {
			load(n, p, 4000)
		}
	}
	if p := s.choose(now.Add(gap+1), g, ip); p != (first+1)%4 {
		t.Errorf("after a gap it takes port %d, %d is idle", p, (first+1)%4)
	}
	cut(n, s, (first+1)%4, true)
	if p := s.choose(now.Add(gap+2), g, ip); p == (first+1)%4 {
		t.Error("stays on a dead port")
	}
	// A single live port still counts as use.
	_, s = fan(t, "leaf0", 1, ECMP{Balance: BalanceFlowlet, FlowletGap: gap})
	s.choose(77, s.groups[0], ip)
	if i := s.ecmp.hash(ip) % flowletSlots; s.ecmp.lets[i].last != 77 {
		t.Error("use of the only port is not noted")
	}
}

func TestRoundRobinTakesTurns(t *testing.T) {
	e := ECMP{Balance: BalanceRR}
	e.PortWeight[1] = 3
	_, s := fan(t, "leaf0", 3, e)
	ip := ipOf("10.0.0.1", "10.9.0.1", 0, 7)
	var got []int
	for range 10 {
		got = append(got, s.choose(0, s.groups[0], ip))
	}
	if want := []int{1, 0, 1, 2, 1, 1, 0, 1, 2, 1}; !slices.Equal(got, want) {
		t.Errorf("turns %v, want %v", got, want)
	}
}

// A run begins with nothing of the one before: the same packets take the same paths again.
func TestResetForgets(t *testing.T) {
	for _, e := range []ECMP{{Balance: BalanceFlowlet, FlowletGap: 500}, {Balance: BalanceAdaptive}, {Balance: BalanceRandom}, {Balance: BalanceRR},
		{Group: GroupResilient, IdleTimer: 1 << 40}} {
		n, s := fan(t, "leaf0", 4, e)
		run := func() (list []int) {
			n.StartRun(n.Now(), 42)
			ip := ipOf("10.0.0.1", "10.9.0.1", 0, 0)
			for i := range 2000 {
				if i == 500 || i == 900 {
					cut(n, s, 2, i == 500)
				}
				setEV(ip, uint16(i%300))
				list = append(list, s.choose(vt.Time(i*7), s.groups[0], ip))
			}
			return list
		}
		first := run()
		if second := run(); !slices.Equal(first, second) {
			t.Errorf("%+v: the second run differs from the first", e)
		}
		c := map[int]int{}
		for _, p := range first {
			c[p]++
		}
		if len(c) != 4 {
			t.Errorf("%+v: ports used %v", e, c)
		}
	}
}

func TestChooseDoesNotAllocate(t *testing.T) {
	ip := ipOf("10.0.0.1", "10.9.0.1", 0, 0)
	for _, e := range modes() {
		_, s := fan(t, "leaf0", 4, e)
		if n := testing.AllocsPerRun(100, func() { s.choose(5, s.groups[0], ip) }); n != 0 {
			t.Errorf("%+v: %v allocations", e, n)
		}
	}
}

func modes() map[string]ECMP {
	return map[string]ECMP{"mix": {}, "mix-label": {Fields: append([]string{"flowlabel"}, defaultFields...)}, "crc32": {Hash: HashCRC32}, "crc32_rot": {Hash: HashCRC32Rot}, "xor": {Hash: HashXOR},
		"modulo": {Group: GroupModulo}, "resilient": {Group: GroupResilient, IdleTimer: time.Millisecond}, "flowlet": {Balance: BalanceFlowlet, FlowletGap: time.Millisecond},
		"adaptive": {Balance: BalanceAdaptive, Bands: 8}, "random": {Balance: BalanceRandom}, "rr": {Balance: BalanceRR}}
}

// BenchmarkChoose measures hash and choice of one of 16 ports, with another entropy value for each packet.
func BenchmarkChoose(b *testing.B) {
	for name, e := range modes() {
		for v, addrs := range map[string][2]string{"v4": {"10.0.0.1", "10.9.0.1"}, "v6": {"fd00::1", "fd00:9::1"}} {
			b.Run(name+"/"+v, func(b *testing.B) {
				_, s := fan(b, "leaf0", 16, e)
				var ips [64][]byte
				for i := range ips {
					ips[i] = ipOf(addrs[0], addrs[1], 0, uint16(i))
				}
				g, i := s.groups[0], 0
				b.ReportAllocs()
				for b.Loop() {
					i++
					s.choose(5, g, ips[i%64])
				}
			})
		}
	}
}
