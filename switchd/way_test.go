package switchd

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/vt"
)

// TestWayIsWhereThePacketGoes asks before every packet, on a healthy group and on one that has lost a port.
func TestWayIsWhereThePacketGoes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, e := range []ECMP{{}, {Hash: HashCRC32}, {Hash: HashXOR, Group: GroupModulo}, {Group: GroupResilient}, {Weights: WeightsRate, Hash: HashCRC32Rot},
		{Balance: BalanceFlowlet, FlowletGap: 1 << 40}} {
		node, s := fan(t, "leaf0", 5, e)
		g := s.lookup4(binary.BigEndian.Uint32([]byte{10, 9, 0, 1}))
		seen := map[int]int{}
		for i := range 600 {
			if i == 300 {
				node.Ports[2].SetImpair(vt.Time(i), link.Impair{Down: true})
				s.LinksChanged()
			}
			ev := uint16(1 + rng.IntN(1<<16-1))
			b := ipOf("10.0.0.1", "10.9.0.1", 0, ev)
			if i%2 == 1 {
				b = ipOf("fd00::1", "fd00:9::1", 0, ev)
			}
			asked := s.Way(b)
			if e.Balance == BalanceFlowlet && asked == WayAny {
				asked = s.choose(vt.Time(i), g, b) // a flow that was not there before has a port from now on
				if s.Way(b) != asked {
					t.Fatalf("%+v: the way of a flow is %d, it took %d", e, s.Way(b), asked)
				}
			}
			if got := s.choose(vt.Time(i), g, b); asked != got || i >= 300 && got == 2 {
				t.Fatalf("%+v: packet %d (EV %d) leaves by %d, the way was %d", e, i, ev, got, asked)
			}
			seen[asked]++
		}
		if len(seen) != 5 {
			t.Errorf("%+v: ways %v", e, seen)
		}
	}
}

func TestWayWithoutOne(t *testing.T) {
	node, s := fan(t, "leaf0", 2, ECMP{Balance: BalanceRandom})
	s.own4 = binary.BigEndian.Uint32([]byte{10, 9, 9, 9})
	s.own6 = netip.MustParseAddr("fd00:9::9").As16()
	for _, c := range []struct {
		src, dst string
		want     int
	}{
		{"10.0.0.1", "10.9.0.1", WayAny}, {"fd00::1", "fd00:9::1", WayAny}, {"10.0.0.1", "10.8.0.1", WayNone},
		{"10.0.0.1", "10.9.9.9", WayHere}, {"fd00::1", "fd00:9::9", WayHere},
	} {
		if got := s.Way(ipOf(c.src, c.dst, 0, 7)); got != c.want {
			t.Errorf("to %s: %d, want %d", c.dst, got, c.want)
		}
	}
	for _, b := range [][]byte{nil, make([]byte, 19), make([]byte, 40), append([]byte{0x60}, make([]byte, 30)...)} {
		if got := s.Way(b); got != WayHere {
			t.Errorf("%d bytes that are no packet: %d", len(b), got)
		}
	}
	node.Ports[0].SetImpair(1, link.Impair{Down: true})
	s.LinksChanged()
	if got := s.Way(ipOf("10.0.0.1", "10.9.0.1", 0, 7)); got != 1 {
		t.Errorf("one port is left: %d", got)
	}
	node.Ports[1].SetImpair(1, link.Impair{Down: true})
	s.LinksChanged()
	if got := s.Way(ipOf("10.0.0.1", "10.9.0.1", 0, 7)); got != WayNone {
		t.Errorf("no port is left: %d", got)
	}
}
