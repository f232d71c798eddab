package switchd

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/uetlab/uetlab/internal/engine"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// nameSeed makes a seed of a name as the topology does, so that tests use seeds as they occur.
func nameSeed(name string) uint64 {
	h := uint64(0xcbf29ce484222325)
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 0x100000001b3
	}
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// fan is a switch with one group of n ports to 10.9.0.0/16.
func fan(t testing.TB, name string, n int, e ECMP) (*engine.Node, *Switch) {
	t.Helper()
	var ports []link.Config
	cfg := Config{Seed: nameSeed(name)}
	r := Route{Prefixes: []netip.Prefix{netip.MustParsePrefix("10.9.0.0/16"), netip.MustParsePrefix("fd00:9::/32")}}
	for i := range n {
		ports = append(ports, link.Config{Rate: 400e9, Delay: 500, Queue: 100_000, MTU: 4500})
		cfg.Ports = append(cfg.Ports, Port{MAC: mac(i), Peer: peer(i)})
		r.Ports = append(r.Ports, i)
	}
	node := engine.New(engine.Config{Ports: ports, Latency: 500, MaxFrame: 4600}, &sink{})
	s, err := New(node, cfg)
	if err != nil {
		t.Fatal(err)
	}
	node.Attach(s)
	s.SetRoutes([]Route{r})
	set := withECMP(e)
	if err := s.setECMP(&set); err != nil {
		t.Fatal(err)
	}
	return node, s
}

func withECMP(e ECMP) Settings { return Settings{ECMP: e, Mirror: Mirror{To: -1}} }

// ipOf makes the IP packet of a flow.
func ipOf(src, dst string, native uint8, ev uint16) []byte {
	b := wire.AppendUDPFrame(nil, &wire.FrameFields{Src: netip.MustParseAddr(src), Dst: netip.MustParseAddr(dst), EV: ev, TTL: 64, Native: native})
	b = append(b, make([]byte, 40)...)
	wire.FinishUDP(b)
	return b[wire.EthLen:]
}

// setEV changes the entropy value of a packet made by ipOf.
func setEV(ip []byte, ev uint16) {
	l4 := wire.IPv4Len
	if ip[0]>>4 == 6 {
		l4 = wire.IPv6Len
	}
	ip[l4], ip[l4+1] = byte(ev>>8), byte(ev)
}

// count has the switch choose for EVs 0..n-1.
func count(s *Switch, ip []byte, n int) map[int]int {
	c := map[int]int{}
	for ev := range n {
		setEV(ip, uint16(ev))
		c[s.choose(0, s.groups[0], ip)]++
	}
	return c
}

// ECMP-01: 64k EVs spread within 5 % on 4 paths, of native UET as of UDP.
func TestECMP01_AllEVsSpreadWithinFivePercent(t *testing.T) {
	for _, name := range []string{HashMix, HashCRC32, HashCRC32Rot, HashXOR} {
		for _, group := range []string{GroupThreshold, GroupModulo, GroupResilient} {
			_, s := fan(t, "leaf0", 4, ECMP{Hash: name, Group: group})
			for what, ip := range map[string][]byte{"UDP": ipOf("10.0.0.1", "10.9.0.1", 0, 0), "native": ipOf("10.0.0.1", "10.9.0.1", wire.ProtoNative, 0),
				"IPv6": ipOf("fd00::1", "fd00:9::1", 0, 0), "native IPv6": ipOf("fd00::1", "fd00:9::1", wire.ProtoNative, 0)} {
				for p, n := range count(s, ip, 1<<16) {
					if math.Abs(float64(n)/(1<<14)-1) > 0.05 {
						t.Errorf("%s %s %s: path %d has %d of 65536", name, group, what, p, n)
					}
				}
			}
		}
	}
	_, s := fan(t, "leaf0", 4, ECMP{Fields: []string{"src", "dst", "sport"}})
	udp, native := ipOf("10.0.0.1", "10.9.0.1", 0, 0), ipOf("10.0.0.1", "10.9.0.1", wire.ProtoNative, 0)
	for ev := range 1 << 16 {
		setEV(udp, uint16(ev))
		setEV(native, uint16(ev))
		if a, b := s.choose(0, s.groups[0], udp), s.choose(0, s.groups[0], native); a != b {
			t.Fatalf("EV %d: UDP takes %d, native UET %d, by addresses and EV alone", ev, a, b)
		}
	}
}

// tiers counts the flows of 65536 EVs on the paths through switches one behind the other, the same two or more for all.
func tiers(switches []*Switch, evs int) map[string]int {
	ip, c := ipOf("10.0.0.1", "10.9.0.1", 0, 0), map[string]int{}
	path := make([]byte, len(switches))
	for ev := range evs {
		setEV(ip, uint16(ev))
		for i, s := range switches {
			path[i] = byte(s.choose(0, s.groups[0], ip))
		}
		c[string(path)]++
	}
	return c
}

// ECMP-02: two stages polarise with crc32, whatever the seeds, and do not with mix. The rows are those of uet-link-switch.md
// section 9.2.
func TestECMP02_PolarisationWithCRC32NotWithMix(t *testing.T) {
	for _, c := range []struct {
		hash, group  string
		first, other string // names of the switches, which give the seeds
		fan1, fan2   int
		used         int
		even         bool // within 5 %
	}{
		{HashCRC32, GroupThreshold, "leaf0", "leaf0", 4, 4, 4, false},
		{HashCRC32, GroupModulo, "leaf0", "leaf0", 4, 4, 4, false},
		{HashCRC32, GroupThreshold, "leaf0", "spine0", 4, 4, 4, false},
		{HashCRC32, GroupModulo, "leaf0", "spine0", 4, 4, 4, false},
		{HashCRC32, GroupThreshold, "leaf0", "spine0", 8, 8, 8, false},
		{HashCRC32, GroupModulo, "leaf0", "spine0", 3, 5, 15, false},
		{HashCRC32, GroupModulo, "leaf0", "spine0", 5, 5, 25, false},
		{HashCRC32Rot, GroupThreshold, "leaf0", "spine0", 4, 4, 16, false},
		{HashXOR, GroupThreshold, "leaf0", "spine0", 4, 4, 4, false},
		{HashMix, GroupThreshold, "leaf0", "leaf0", 4, 4, 4, false},
		{HashMix, GroupThreshold, "leaf0", "spine0", 4, 4, 16, true},
		{HashMix, GroupThreshold, "leaf0", "leaf1", 4, 4, 16, true},
		{HashMix, GroupModulo, "leaf0", "spine0", 4, 4, 16, true},
		{HashMix, GroupThreshold, "leaf0", "spine0", 8, 8, 64, false},
		{HashMix, GroupThreshold, "leaf0", "spine0", 3, 5, 15, true},
	} {
		_, a := fan(t, c.first, c.fan1, ECMP{Hash: c.hash, Group: c.group})
		_, b := fan(t, c.other, c.fan2, ECMP{Hash: c.hash, Group: c.group})
		paths := tiers([]*Switch{a, b}, 1<<16)
		what := fmt.Sprintf("%s %s, seeds of %s and %s, %d x %d", c.hash, c.group, c.first, c.other, c.fan1, c.fan2)
		if len(paths) != c.used {
			t.Errorf("%s: %d paths used, want %d", what, len(paths), c.used)
		}
		for p, n := range paths {
			if share := float64(n) * float64(c.fan1*c.fan2) / (1 << 16); c.even && math.Abs(share-1) > 0.05 {
				t.Errorf("%s: path %v has %.3f of its share", what, []byte(p), share)
			}
		}
	}
}

// Over the paths of two and of three tiers, 4096 EVs fall as by chance, whatever the seeds.
func TestMixIsUniformOverAllPaths(t *testing.T) {
	for _, names := range [][]string{{"leaf%d", "spine%d"}, {"edge%d", "agg%d", "core%d"}, {"a%d", "a%[1]d%[1]d", "b%d"}} {
		for _, n := range []int{2, 3, 4, 8} {
			sum, dof := 0.0, math.Pow(float64(n), float64(len(names)))-1
			for i := range 20 {
				var path []*Switch
				for _, f := range names {
					_, s := fan(t, fmt.Sprintf(f, i), n, ECMP{})
					path = append(path, s)
				}
				c, x := tiers(path, 4096), 0.0
				want := 4096 / (dof + 1)
				for _, have := range c {
					x += (float64(have) - want) * (float64(have) - want) / want
				}
				x += (dof + 1 - float64(len(c))) * want
				sum += x
				if limit := dof + 5*math.Sqrt(2*dof); x > limit+5 {
					t.Errorf("%v, fan-out %d, seed %d: chi-square %.1f with %.0f degrees of freedom", names, n, i, x, dof)
				}
			}
			// the mean of 20 has a standard deviation of sqrt(dof/10)
			if d := (sum/20 - dof) / math.Sqrt(dof/10); math.Abs(d) > 4 {
				t.Errorf("%v, fan-out %d: mean chi-square %.1f with %.0f degrees of freedom, %.1f sigma off", names, n, sum/20, dof, d)
			}
		}
	}
}

// ECMP-03: one EV takes one path while the members are the same, whatever else passes or is set meanwhile.
func TestECMP03_SameEVSamePath(t *testing.T) {
	for _, e := range []ECMP{{}, {Hash: HashCRC32}, {Group: GroupModulo}, {Group: GroupResilient, IdleTimer: time.Microsecond}} {
		_, s := fan(t, "leaf0", 4, e)
		ip := ipOf("10.0.0.1", "10.9.0.1", 0, 0)
		first := map[uint16]int{}
		for i := range 100_000 {
			ev := uint16(i * 7919 % 512)
			setEV(ip, ev)
			p := s.choose(vt.Time(i*1000), s.groups[0], ip)
			if was, met := first[ev]; met && p != was {
				t.Fatalf("%+v: packet %d with EV %d takes path %d, others took %d", e, i, ev, p, was)
			}
			first[ev] = p
			if i%1000 == 0 { // nothing of ECMP changes
				set := withECMP(e)
				set.Trim.Enabled = i%2000 == 0
				if err := s.setECMP(&set); err != nil {
					t.Fatal(err)
				}
				s.LinksChanged()
			}
		}
	}
}

// ECMP-06: the hash ignores what changes on the way, or by trimming: DSCP, ECN, TTL, length; CSIG tags stand before the packet.
func TestECMP06_HashIgnoresWhatChangesOnTheWay(t *testing.T) {
	for _, name := range []string{HashMix, HashCRC32, HashCRC32Rot, HashXOR} {
		_, s := fan(t, "leaf0", 4, ECMP{Hash: name, Fields: append([]string{"flowlabel"}, defaultFields...)})
		for _, addrs := range [][2]string{{"10.0.0.1", "10.9.0.1"}, {"fd00::1", "fd00:9::1"}} {
			for _, native := range []uint8{0, wire.ProtoNative} {
				for ev := range 64 {
					whole := ipOf(addrs[0], addrs[1], native, uint16(ev))
					want := s.ecmp.hash(whole)
					for dscp := range uint8(64) {
						b := append([]byte(nil), whole...)
						if b[0]>>4 == 4 {
							ip := wire.IPv4(b)
							ip.SetDSCP(dscp)
							ip.SetECN(dscp % 4)
							b[8] = 64 - dscp
							b = b[:44]
							ip.SetTotalLen(44)
							ip.SetChecksum()
						} else {
							ip := wire.IPv6(b)
							ip.SetDSCP(dscp)
							ip.SetECN(dscp % 4)
							b[7] = 64 - dscp
							b = b[:64]
							ip.SetTotalLen(64)
						}
						if got := s.ecmp.hash(b); got != want {
							t.Fatalf("%s %v native %d EV %d DSCP %d: hash %08x of the trimmed packet, %08x of the whole", name, addrs, native, ev, dscp, got, want)
						}
					}
				}
			}
		}
	}
}

// Each field of the key can be left out, and then does not matter; left in, it does.
func TestFieldsOfTheKey(t *testing.T) {
	base := ipOf("fd00::1", "fd00:9::1", 0, 7)
	for field, change := range map[string]func(b []byte){
		"src": func(b []byte) { b[23]++ }, "dst": func(b []byte) { b[39]++ }, "proto": func(b []byte) { b[6] = wire.ProtoTCP },
		"sport": func(b []byte) { b[41]++ }, "dport": func(b []byte) { b[43]++ }, "flowlabel": func(b []byte) { b[3]++ },
	} {
		other := append([]byte(nil), base...)
		change(other)
		for _, name := range []string{HashMix, HashCRC32, HashCRC32Rot, HashXOR} {
			var with, without hasher
			all := append([]string{"flowlabel"}, defaultFields...)
			var rest []string
			for _, f := range all {
				if f != field {
					rest = append(rest, f)
				}
			}
			if err := with.set(&ECMP{Hash: name, Fields: all}, 5); err != nil {
				t.Fatal(err)
			}
			if err := without.set(&ECMP{Hash: name, Fields: rest}, 5); err != nil {
				t.Fatal(err)
			}
			if with.hash(base) == with.hash(other) {
				t.Errorf("%s: %s does not count", name, field)
			}
			if without.hash(base) != without.hash(other) {
				t.Errorf("%s: %s counts though left out", name, field)
			}
		}
	}
}

func TestECMPSettingsAreChecked(t *testing.T) {
	_, s := fan(t, "leaf0", 2, ECMP{})
	for _, e := range []ECMP{{Hash: "md5"}, {Fields: []string{"dscp"}}, {Fields: []string{"flowlabel"}}, {Balance: "best"}, {Group: "ring"}, {Weights: "heavy"},
		{Buckets: -1}, {Buckets: maxTable + 1}, {Bands: -1}, {IdleTimer: -1}, {FlowletGap: -1}} {
		set := withECMP(e)
		if err := s.setECMP(&set); err == nil {
			t.Errorf("%+v is accepted", e)
		}
	}
	if s.ecmp.set.Hash != "" {
		t.Error("refused settings are in force")
	}
}

// flowOf reads what wire.Flow reads, of good packets and of any bytes.
func TestFlowOfIsTheFlowKey(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 20_000 {
		ip := ipOf("10.0.0.1", "10.9.0.1", []uint8{0, wire.ProtoNative}[r.IntN(2)], uint16(r.Uint32()))
		if r.IntN(2) == 0 {
			ip = ipOf("fd00::1", "fd00:9::1", []uint8{0, wire.ProtoNative}[r.IntN(2)], uint16(r.Uint32()))
		}
		for range r.IntN(4) {
			ip[r.IntN(len(ip))] = byte(r.Uint32())
		}
		ip = ip[:r.IntN(len(ip)+1)]
		k, _ := wire.Flow(ip)
		src, src2, dst, dst2, l4 := flowOf(ip)
		if w := [5]uint64{src, src2, dst, dst2, l4}; w != k.Words() {
			t.Fatalf("%x: %x, want %x", ip, w, k.Words())
		}
	}
}
