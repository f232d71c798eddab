package link

import (
	"encoding/hex"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/uetlab/uetlab/internal/link/cbfc"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// Requirements of CBFC that are seen in the octets on the line.

// TestCBFC01_PortPaysForEachSize sends frames of all sizes: both ends count what the formula says.
func TestCBFC01_PortPaysForEachSize(t *testing.T) {
	for _, cell := range []cbfc.Cell{{Size: 32, Overhead: -16}, {Size: 64, Overhead: -4}, {Size: 2048, Overhead: 127}} {
		setup := testCBFC(cbfc.MaxLimit)
		setup.Profile.CreditSize, setup.Profile.PktOvhd = cell.Size, cell.Overhead
		l := newLine(t, nil, reach)
		for i, e := range l.ends {
			cfg := e.p.cfg
			cfg.CBFC, cfg.MTU = setup, 9300
			e.p = NewPort(i, cfg, lineHost{l, i}, lineHost{l, i})
			e.p.Reset(rand.New(rand.NewPCG(uint64(i), 7)))
			e.p.Begin(0)
		}
		want, size := uint32(0), int(cell.Size)
		for n := 64; n <= 9217; n++ {
			want += uint32((n + int(cell.Overhead) + size - 1) / size)
			l.ends[0].p.Offer(l.now, testVC, l.frame(uint32(n), n-fcsLen, false))
		}
		l.run(5 * ms)
		want &= 1<<20 - 1
		if v := l.ends[0].p.crd.tx.VC(l.now, testVC); v.Consumed != want || v.Used != 0 {
			t.Errorf("%+v: %+v, want %d consumed", cell, v, want)
		}
		if v := l.ends[1].p.crd.rx.VC(testVC); v.Consumed != want || v.Freed != want {
			t.Errorf("%+v: %+v at the receiver, want %d", cell, v, want)
		}
	}
}

// TestCBFC08_PortSendsTheOctets looks at a CC_Update on the line.
func TestCBFC08_PortSendsTheOctets(t *testing.T) {
	setup := testCBFC(300)
	setup.CCEvery = time.Microsecond
	c := newCreditLine(t, nil, setup)
	c.stay = 20 * time.Microsecond
	c.meddling(nil)
	var got []string
	c.tap = func(from int, b []byte) {
		if frame, _, ok := wire.SplitTrailer(b); ok && isCC(frame) {
			got = append(got, hex.EncodeToString(frame))
		}
	}
	c.offer(25) // of 8 credits
	c.run(vt.Time(10 * time.Millisecond))
	c.taken(25)
	want := "0180c2000001" + "020000000000" + "8808" + "fffe" + "fa7acb" + "01" + strings.Repeat("00000", testVC) + "000c8" + strings.Repeat("00000", 15-testVC)
	if len(got) == 0 || got[len(got)-1] != want {
		t.Errorf("CC_Updates\n%s, want the last to be\n%s", strings.Join(got, "\n"), want)
	}
}

func isCC(b []byte) bool {
	return b[12] == 0x88 && b[13] == 0x08 && wire.IsMACControlExtension(b[wire.EthLen:])
}

// TestCBFC09_PortIgnoresBadCCUpdates sends a port three CC_Updates that are none.
func TestCBFC09_PortIgnoresBadCCUpdates(t *testing.T) {
	c := newCreditLine(t, nil, testCBFC(300))
	good := wire.AppendCCUpdate(nil, wire.LinkControlAddr, wire.MAC{2}, false, &[16]uint32{testVC: 100})
	hear := func(at int, v byte) cbfc.Counters {
		f := c.pool.Get()
		f.B = append(f.B, good...)
		f.B[at], f.Due = v, c.now
		if c.ends[1].p.Received(c.now, c.cross(0, f)) {
			t.Errorf("octet %d: the node has it", at)
		}
		return *c.ends[1].p.C.CBFC()
	}
	want := cbfc.Counters{}
	for _, x := range []struct {
		at int
		v  byte
		c  cbfc.Counter
	}{{16, 0xFB, cbfc.CCBadCID}, {15, 0xFD, cbfc.CCBadOpcode}, {19, 3, cbfc.CCBadType}} {
		want[x.c]++
		if got := hear(x.at, x.v); got != want || c.ends[1].p.crd.rx.VC(testVC) != (cbfc.VCStats{}) {
			t.Errorf("octet %d is %#x: counters %v, channel %+v", x.at, x.v, got, c.ends[1].p.crd.rx.VC(testVC))
		}
	}
	want[cbfc.CCRx], want[cbfc.LeakCredits] = 1, 100
	if got := hear(0, good[0]); got != want {
		t.Errorf("a good one: counters %v, want %v", got, want)
	}
	if slices.Max(c.ends[0].p.C[:]) != 0 {
		t.Errorf("the sender counts %v", c.ends[0].p.C)
	}
}

// TestCBFC07_PortLeaksUntilCCUpdate damages 100 frames while no CC_Update comes through.
func TestCBFC07_PortLeaksUntilCCUpdate(t *testing.T) {
	c := newCreditLine(t, nil, testCBFC(2000))
	c.stay = 200 * time.Nanosecond
	mute := true
	c.meddling(func(from int, f *Frame) bool { return from == 0 && mute && isCC(f.B) })
	lose := c.meddle
	c.meddle = func(from int, f *Frame) []*Frame {
		all := lose(from, f)
		if from == 0 && mute && len(all) == 1 {
			c.lost += c.ends[0].p.crd.tx.Cell().Credits(len(f.B))
			return corrupt(f)
		}
		return all
	}
	c.offer(100)
	c.run(vt.Time(time.Millisecond))
	if v := c.ends[0].p.crd.tx.VC(c.now, testVC); v.Freed != 0 || v.Used != 800 || c.ends[1].p.C[DropFCS] != 100 {
		t.Fatalf("%d frames damaged: %+v", c.ends[1].p.C[DropFCS], v)
	}
	mute = false
	c.run(vt.Time(2 * time.Millisecond))
	c.taken(0)
	if v := c.ends[0].p.crd.tx.VC(c.now, testVC); v.Freed != v.Consumed || v.Consumed != 800 || c.ends[1].p.C.CBFC()[cbfc.LeakCredits] != 800 {
		t.Errorf("CC_Updates come through again: %+v", v)
	}
}
