package lldp

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/uetlab/uetlab/internal/vethtest"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

var both = Wish{LLR: true, CBFC: true, Rx: rx(1000)}

// say makes a frame as a neighbour with these options would.
func say(o wire.UEOptionsFields, ttl uint16) []byte {
	b := wire.AppendLLDP(nil, &wire.LLDPFields{Src: wire.MAC{4}, ChassisSubtype: wire.LLDPChassisMAC, Chassis: []byte{4, 0, 0, 0, 0, 0}, PortSubtype: wire.LLDPPortIfName, Port: []byte("swp1"), TTL: ttl})
	if ttl != 0 {
		b = wire.AppendUEOptions(b, &o)
	}
	return wire.AppendLLDPEnd(b)
}

func TestLLDP01_EnabledWhenBothWant(t *testing.T) {
	for local := range wire.LinkWish(4) {
		for remote := range wire.LinkWish(4) {
			for _, flags := range []uint8{0, wire.LabTrailer} {
				a := New(config(0))
				a.SetLink(0, true)
				a.SetWish(0, Wish{LLR: local == wire.WishBoth, CBFC: local == wire.WishBoth, Rx: rx(1000)})
				a.Receive(1, vethtest.Carry(t, say(wire.UEOptionsFields{LLRWanted: remote, CBFCWanted: 3 - remote, LabFlags: flags}, 4)))
				g := a.Agreement()
				if want := local == 3 && remote == 3 && flags != 0; g.LLR != want {
					t.Errorf("LLR: here %d, there %d, flags %d: %v, want %v", local, remote, flags, g.LLR, want)
				}
				if want := local == 3 && remote == 0 && flags != 0; g.CBFC != want {
					t.Errorf("CBFC: here %d, there %d, flags %d: %v, want %v", local, 3-remote, flags, g.CBFC, want)
				}
				b, ok, _ := a.Advance(1, nil)
				b = vethtest.Carry(t, b)
				list, err := wire.ParseLLDP(b[wire.EthLen:])
				if !ok || err != nil {
					t.Fatalf("%v, %v", ok, err)
				}
				o, err := wire.ParseUEOptions(list[slices.IndexFunc(list, func(t wire.TLV) bool { return t.Subtype() == wire.UESubtypeOptions && t.Type() == wire.LLDPOrg })])
				if err != nil || (o.LLREnabled() == wire.WishBoth) != g.LLR || (o.CBFCEnabled() == wire.WishBoth) != g.CBFC {
					t.Errorf("it says LLR %v, CBFC %v of %+v, %v", o.LLREnabled(), o.CBFCEnabled(), g, err)
				}
			}
		}
	}
	// Wishes that are set by hand ask nobody.
	cfg := config(0)
	cfg.Static = true
	a := New(cfg)
	a.SetWish(0, both)
	a.Receive(1, say(wire.UEOptionsFields{}, 4))
	if g := a.Agreement(); !g.LLR || !g.CBFC || g.Tx == nil {
		t.Errorf("static: %+v", g)
	}
}

func TestLLDP02_ExpiryDisables(t *testing.T) {
	c := newCable(t, both, both)
	c.works(t)
	heard := c.a.a.Neighbour().Heard
	dead := func() bool { return true }
	c.b.lose = dead
	c.a.changes = 0
	end := heard.Add(TTL)
	c.run(end - 1)
	if g := c.a.a.Agreement(); !g.LLR || c.a.a.Neighbour() == nil || c.a.changes != 0 {
		t.Errorf("just before it expires: %+v, changes %b", g, c.a.changes)
	}
	c.run(end)
	if g := c.a.a.Agreement(); g != (Agreement{}) || c.a.a.Neighbour() != nil || c.a.changes != NeighbourGone|AgreementChanged || c.a.s.On() != 0 || c.a.r.On() != 0 {
		t.Errorf("expired: %+v, changes %b, channels on %#x and %#x", g, c.a.changes, c.a.s.On(), c.a.r.On())
	}
	if c.a.a.C[Aged] != 1 || c.a.a.C[Deleted] != 1 {
		t.Errorf("counters %v", c.a.a.C)
	}
	c.a.waiting = 5000 // nothing hangs: best effort
	c.forth(time.Second)
	if c.a.waiting != 0 {
		t.Errorf("%d frames wait without a neighbour", c.a.waiting)
	}
	// The other end, which never lost sight of this one, follows: nobody counts what the other does not.
	c.b.lose = nil
	c.works(t)
	// A good-bye does it at once.
	c.a.put(c.now, c.a.a.Shutdown(nil))
	c.forth(time.Microsecond)
	if c.b.a.Neighbour() != nil || c.b.a.Agreement() != (Agreement{}) || c.b.a.C[Aged] != 0 {
		t.Errorf("good-bye: %+v, counters %v", c.b.a.Agreement(), c.b.a.C)
	}
}

func TestLLDP03_SenderHasTheReceiversLimits(t *testing.T) {
	w := both
	w.Rx = rx(700)
	c := newCable(t, both, w)
	c.works(t)
	limit := func() uint32 { return c.a.s.VC(c.now, 0).Limit }
	if limit() != 700 || c.b.s.VC(c.now, 0).Limit != 1000 {
		t.Errorf("limits %d and %d, want 700 and 1000", limit(), c.b.s.VC(c.now, 0).Limit)
	}
	consumed := c.a.s.VC(c.now, 0).Consumed
	c.a.waiting = 100_000
	w.Rx = rx(300)
	c.b.setWish(c.now, w)
	c.forth(5 * time.Microsecond)
	if limit() != 300 || c.a.s.VC(c.now, 0).Used > 300 {
		t.Errorf("changed live: %+v, want a limit of 300", c.a.s.VC(c.now, 0))
	}
	c.forth(10 * time.Millisecond)
	if got := c.a.s.VC(c.now, 0).Consumed; got == consumed {
		t.Error("the counts began anew, or nothing was sent")
	}
	// Another cell is a new beginning, and one that makes no sense is refused.
	w.Rx = rx(300)
	w.Rx.CreditSize = 100
	c.b.setWish(c.now, w)
	c.forth(5 * time.Microsecond)
	if c.a.follow == nil || !strings.Contains(c.a.follow.Error(), "credit size 100") {
		t.Errorf("credits of 100 bytes: %v", c.a.follow)
	}
}

// TestProfileThatIsMended: a port that sends without credits, because it cannot use what the neighbour announces, has them once it can.
func TestProfileThatIsMended(t *testing.T) {
	c := newCable(t, both, Wish{})
	w := both
	w.Rx = rx(1000)
	w.Rx.CreditSize = 100
	c.b.setWish(c.now, w)
	c.forth(time.Second)
	c.a.waiting = 500
	c.forth(time.Second)
	if c.a.follow == nil || c.a.waiting != 0 || c.b.came != 500 || c.a.s.On() != 0 {
		t.Fatalf("%v, %d frames wait, %d came", c.a.follow, c.a.waiting, c.b.came)
	}
	c.b.setWish(c.now, both)
	c.works(t)
}

func TestLLDP04_AnyBytesSurvive(t *testing.T) {
	good := say(wire.UEOptionsFields{LLRWanted: 3, LabFlags: wire.LabTrailer}, 4)
	fresh := func() *Agent {
		a := New(config(0))
		a.SetLink(0, true)
		a.SetWish(0, both)
		a.Receive(0, good)
		return a
	}
	unit := good[:len(good)-2]
	for name, x := range map[string]struct {
		b    []byte
		c    Counter
		keep bool // what was known stays
	}{
		"unknown type":         {wire.AppendLLDPEnd(wire.AppendTLV(slices.Clone(unit), 100, []byte("x"))), TLVUnknown, true},
		"unknown organisation": {wire.AppendLLDPEnd(wire.AppendTLV(slices.Clone(unit), wire.LLDPOrg, []byte{0, 0x80, 0xC2, 1, 0, 1})), TLVUnknown, true},
		"unknown UE subtype":   {wire.AppendLLDPEnd(wire.AppendTLV(slices.Clone(unit), wire.LLDPOrg, []byte{0xFA, 0x7A, 0xCB, 9, 0})), TLVUnknown, true},
		"options twice":        {wire.AppendLLDPEnd(wire.AppendUEOptions(slices.Clone(unit), &wire.UEOptionsFields{})), TLVBad, true},
		"CBFC cut short":       {wire.AppendLLDPEnd(wire.AppendTLV(slices.Clone(unit), wire.LLDPOrg, []byte{0xFA, 0x7A, 0xCB, 2, 0})), TLVBad, true},
		"beyond the frame":     {good[:len(good)-4], Discarded, true},
		"no TTL":               {good[:wire.EthLen+9], Discarded, true},
		"another EtherType":    {slices.Concat(good[:12], []byte{8, 0}, good[14:]), Discarded, true},
		"no Ethernet header":   {good[:13], Discarded, true},
		"no End":               {unit, Rx, true},
		"padding":              {append(slices.Clone(good), make([]byte, 40)...), Rx, true},
	} {
		a := fresh()
		was := a.C[x.c]
		a.Receive(5, vethtest.Carry(t, x.b))
		if a.C[x.c] != was+1 || a.Agreement().LLR != x.keep {
			t.Errorf("%s: counters %v, agreed %+v", name, a.C, a.Agreement())
		}
	}
	rng := rand.New(rand.NewPCG(4, 4))
	a := fresh()
	frame, _, _ := a.Advance(0, nil)
	for i := range 10_000 {
		b := slices.Clone(frame)
		for range rng.IntN(6) {
			b[rng.IntN(len(b))] = byte(rng.Uint32())
		}
		b = b[:rng.IntN(len(b)+1)]
		now := vt.Time(i) * 1_000_000
		a.Receive(now, vethtest.Carry(t, b))
		a.Advance(now, nil)
	}
	if a.C[Rx]+a.C[Discarded] != 10_001 || a.C[Discarded] < 1000 {
		t.Errorf("counters %v: want each of 10001 frames in one of two", a.C)
	}
}

func FuzzReceive(f *testing.F) {
	f.Add(say(wire.UEOptionsFields{LLRWanted: 3}, 4))
	a := New(config(1))
	a.SetWish(0, both)
	a.SetLink(0, true)
	b, _, _ := a.Advance(0, nil)
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		c := newPort(t, 0, 0, both)
		was := c.a.Agreement()
		c.obey(1, c.a.Receive(1, b), was)
		if n := c.a.Neighbour(); n != nil && strings.ContainsFunc(n.System+n.Port+n.Chassis+n.PortDesc+n.SystemDesc, func(r rune) bool { return r < ' ' || r == 0x7F }) {
			t.Errorf("%+v: not fit for a terminal", n)
		}
		c.step(2, newPort(t, 0, 1, both))
	})
}

func TestLLDP05_RestartBeginsAnew(t *testing.T) {
	c := newCable(t, both, both)
	c.works(t)
	for i := range 5 {
		c.a.waiting = 100_000
		c.b.waiting = 100_000
		c.forth(20 * time.Microsecond)
		c.a.changes = 0
		c.b.start(c.now)
		if i%2 == 1 {
			c.b.line = nil // nothing that it had sent arrives any more
		}
		c.forth(10 * time.Microsecond)
		if c.a.changes&(PeerRestarted|CreditsRestart) != PeerRestarted|CreditsRestart || c.a.a.C[Restarts] != uint64(i+1) {
			t.Errorf("changes %b, counters %v", c.a.changes, c.a.a.C)
		}
		c.a.waiting, c.b.waiting = 0, 0
		c.works(t)
	}
}

func TestFramesAreRegularAndComplete(t *testing.T) {
	a := New(config(0))
	if a.Deadline() != vt.Never {
		t.Errorf("link down: deadline %v", a.Deadline())
	}
	a.SetWish(5, both)
	a.SetLink(10, true)
	var at []vt.Time
	for range 4 {
		now := a.Deadline()
		if _, ok, _ := a.Advance(now, nil); ok {
			at = append(at, now)
		}
	}
	if want := []vt.Time{10, 1_000_000_010, 2_000_000_010, 3_000_000_010}; !slices.Equal(at, want) {
		t.Errorf("frames at %v, want %v", at, want)
	}
	a.SetWish(3_500_000_000, Wish{})
	b, ok, _ := a.Advance(3_500_000_000, nil)
	if !ok {
		t.Fatal("a changed wish is not told at once")
	}
	want := "0180c200000e" + "020000000001" + "88cc" + // to the nearest bridge
		"0207" + "04020000000000" + // chassis: MAC
		"0405" + "0565746833" + // port: eth3
		"0602" + "0004" + // 4 s
		"0808" + hex.EncodeToString([]byte("to leaf1")) +
		"0a05" + hex.EncodeToString([]byte("leaf0")) +
		"0e04" + "00140014" + // bridge and router
		"100c" + "05010a000000" + "0200000003" + "00" +
		"fe0c" + "fa7acb01" + "00" + "13" + "0001" + "00000064" +
		"0000"
	if got := hex.EncodeToString(vethtest.Carry(t, b)); got != want {
		t.Errorf("frame\n%s, want\n%s", got, want)
	}
	if b := a.Shutdown(nil); !strings.HasSuffix(hex.EncodeToString(b), "0602"+"0000"+"0000") || a.Deadline() != vt.Never {
		t.Errorf("good-bye %x, then %v", b, a.Deadline())
	}
}

func TestStormsAreAnsweredSlowly(t *testing.T) {
	a := New(config(0))
	a.SetLink(0, true)
	a.SetWish(0, both)
	sent := 0
	for i := range 10_000 {
		now := vt.Time(i) * 1_000_000
		a.Receive(now, say(wire.UEOptionsFields{BootID: uint32(i), LabFlags: wire.LabTrailer}, 4))
		if _, ok, _ := a.Advance(now, nil); ok {
			sent++
		}
	}
	if sent > burst+8+10 || sent < 10 { // at once, as urgent, and one a second
		t.Errorf("%d frames in 10 s", sent)
	}
}

func TestNeighbour(t *testing.T) {
	c := newCable(t, both, Wish{LLR: true})
	c.forth(time.Second)
	n := c.a.a.Neighbour()
	got := fmt.Sprintf("%s %s %s %q %v %v %d %v", n.Chassis, n.Port, n.System, n.PortDesc, n.TTL, n.Addresses, n.IfIndex, Capabilities(n.Enabled))
	if want := `02:00:00:00:01:00 eth3 leaf1 "to leaf1" 4s [10.0.0.1] 3 Bridge, Router`; got != want || n.Options == nil || n.CBFC != nil || n.Unknown != 0 {
		t.Errorf("%s, want %s; %+v", got, want, n)
	}
	if c.b.a.Neighbour().CBFC.VCs[0].Limit != 1000 {
		t.Errorf("%+v", c.b.a.Neighbour().CBFC)
	}
	if g := c.a.a.Agreement(); !g.LLR || g.CBFC {
		t.Errorf("%+v", g)
	}
	// Somebody else is plugged in.
	c.a.a.Receive(c.now, say(wire.UEOptionsFields{}, 4))
	if n := c.a.a.Neighbour(); n.Port != "swp1" || c.a.a.C[Inserted] != 2 || c.a.a.C[Deleted] != 1 || c.a.a.Agreement().LLR {
		t.Errorf("%+v, counters %v", n, c.a.a.C)
	}
	if got := Capabilities(1<<7 | 1<<12); got != "Station only, reserved 0x1000" {
		t.Error(got)
	}
}

func TestWiring(t *testing.T) {
	end := func(s string) End { node, port, _ := strings.Cut(s, " "); return End{node, port} }
	link := func(a, b string) Link { return Link{Local: end(a), Peer: end(b), Found: b != ""} }
	topology := []Link{link("leaf0 eth1", "host0 eth1"), link("leaf0 eth3", "leaf1 eth3"), link("leaf0 eth4", "leaf2 eth3")}
	heard := []Link{link("leaf0 eth1", "host0 eth1"), link("leaf0 eth3", "leaf0 eth3"), link("leaf0 eth4", ""), link("leaf0 eth5", ""), link("leaf0 eth6", "x y")}
	want := []string{"leaf0 eth3: LLDP neighbour leaf0 eth3, expected leaf1 eth3", "leaf0 eth4: no LLDP neighbour, expected leaf2 eth3",
		"leaf0 eth6: LLDP neighbour x y, but the topology has no link there"}
	var got []string
	for _, m := range CheckWiring(topology, heard) {
		got = append(got, m.String())
	}
	if !slices.Equal(got, want) {
		t.Errorf("mistakes:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestAgreementSurvivesAnything loses frames of all kinds, for long too, starts ends again and changes wishes: when all is well
// again both ends agree, and every credit comes back.
func TestAgreementSurvivesAnything(t *testing.T) {
	n := uint64(300)
	if testing.Short() {
		n = 40
	}
	for seed := range n {
		rng := rand.New(rand.NewPCG(seed, 0x88CC))
		c := newCable(t, both, both)
		loss := 0.0
		lose := func() bool { return rng.Float64() < loss }
		c.a.lose, c.b.lose = lose, func() bool { return rng.Float64() < loss*rng.Float64() }
		for range 30 {
			p := []*port{c.a, c.b}[rng.IntN(2)]
			switch rng.IntN(8) {
			case 0:
				p.start(c.now)
			case 1:
				p.setWish(c.now, Wish{LLR: rng.IntN(2) == 0, CBFC: rng.IntN(2) == 0, Rx: rx(100 + rng.Uint32N(1000))})
			case 2:
				p.setWish(c.now, both)
			case 3:
				loss = []float64{0, 0, 0.1, 0.5, 1}[rng.IntN(5)]
			case 4:
				p.a.SetLink(c.now, false)
				p.a.SetLink(c.now, true)
			default:
				p.waiting = rng.IntN(500)
			}
			c.forth(time.Duration(rng.Int64N([]int64{2000, 100_000, 3_000_000, 6_000_000_000}[rng.IntN(4)])))
		}
		loss = 0
		for _, p := range []*port{c.a, c.b} {
			p.waiting = 0
			p.setWish(c.now, both)
		}
		c.forth(10 * time.Second)
		c.works(t)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}
