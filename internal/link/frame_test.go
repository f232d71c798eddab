package link

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unsafe"
)

func TestPoolHandsOutAndTakesBack(t *testing.T) {
	p := NewPool(1500)
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	var out []*Frame
	for i := range 2000 {
		if rng.IntN(5) < 2 && len(out) > 0 {
			j := rng.IntN(len(out))
			f := out[j]
			for _, b := range f.B {
				if b != f.B[0] {
					t.Fatalf("seed %d: two frames share memory", seed)
				}
			}
			f.Release()
			out[j] = out[len(out)-1]
			out = out[:len(out)-1]
			continue
		}
		f := p.Get()
		if len(f.B) != 0 || cap(f.B) < 1500+Room || f.Due != 0 {
			t.Fatalf("seed %d: a fresh frame has %d bytes, capacity %d, due %v", seed, len(f.B), cap(f.B), f.Due)
		}
		f.B, f.Due = f.B[:cap(f.B)], 7
		for j := range f.B {
			f.B[j] = byte(i)
		}
		out = append(out, f)
		if p.Out() != len(out) {
			t.Fatalf("seed %d: Out %d, want %d", seed, p.Out(), len(out))
		}
	}
	for _, f := range out {
		f.Release()
	}
	if p.Out() != 0 || p.MaxFrame() != 1500 {
		t.Errorf("Out %d, MaxFrame %d", p.Out(), p.MaxFrame())
	}
}

func TestReleasingTwicePanics(t *testing.T) {
	f := NewPool(100).Get()
	f.Release()
	defer func() {
		if s, _ := recover().(string); !strings.Contains(s, "twice") {
			t.Errorf("panic %q", s)
		}
	}()
	f.Release()
	t.Error("no panic")
}

func TestPoolAllocatesNothing(t *testing.T) {
	p := NewPool(4200)
	p.Get().Release()
	if n := testing.AllocsPerRun(100, func() {
		a, b := p.Get(), p.Get()
		a.Release()
		b.Release()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestCounterNames(t *testing.T) {
	seen := map[string]bool{}
	var all Counters
	drops := uint64(0)
	for c := range NumCounters {
		name := c.String()
		if name == "" || seen[name] {
			t.Errorf("counter %d: name %q", c, name)
		}
		seen[name] = true
		all[c] = 1 << c
		if c.IsDrop() {
			drops |= 1 << c
		}
		if c.IsDrop() != strings.HasPrefix(name, "drop_") || c.IsGauge() != (strings.HasPrefix(name, "queue_") || strings.HasPrefix(name, "llr_ring_") || name == "llr_tx_state" || name == "llr_rx_state" || name == "llr_round_trip_time_ns" || strings.HasSuffix(name, "_peak_credits")) {
			t.Errorf("%s: drop %v, gauge %v", name, c.IsDrop(), c.IsGauge())
		}
	}
	if all.Drops() != drops {
		t.Errorf("Drops gives %b, want %b", all.Drops(), drops)
	}
}

// packet makes an Ethernet frame with the first bytes of a PDS header of a type.
func packet(v6 bool, options int, proto byte, port uint16, pds byte) []byte {
	b := make([]byte, 14, 100)
	if v6 {
		b[12], b[13] = 0x86, 0xDD
		b = append(b, make([]byte, 40)...)
		b[14], b[14+6] = 0x60, proto
	} else {
		b[12], b[13] = 8, 0
		b = append(b, make([]byte, 20+options)...)
		b[14], b[14+9] = byte(0x45+options/4), proto
	}
	return append(b, 0xC0, 0, byte(port>>8), byte(port), 0, 20, 0, 0, pds<<3, 0, 0, 0)
}

func TestDataFramesAreTold(t *testing.T) {
	isRequest := map[byte]bool{2: true, 3: true, 4: true, 6: true, 13: true, 14: true}
	for pds := range byte(32) {
		for _, v6 := range []bool{false, true} {
			if got := isData(packet(v6, 0, 17, 4793, pds)); got != isRequest[pds] {
				t.Errorf("PDS type %d, IPv6 %v: %v", pds, v6, got)
			}
		}
	}
	for name, b := range map[string][]byte{
		"TCP": packet(false, 0, 6, 4793, 2), "another port": packet(true, 0, 17, 4794, 2), "ARP": append(make([]byte, 12), 8, 6), "empty": nil,
	} {
		if isData(b) {
			t.Errorf("%s counts as data", name)
		}
	}
	if b := packet(false, 8, 17, 4793, 3); !isData(b) || isData(b[:len(b)-4]) {
		t.Error("IPv4 options are not skipped, or the packet's end is not minded")
	}
}

func FuzzIsData(f *testing.F) {
	f.Add(packet(false, 4, 17, 4793, 2))
	f.Add(packet(true, 0, 17, 4793, 6))
	f.Fuzz(func(t *testing.T, b []byte) {
		if got := isData(b); got && len(b) < 14+20+9 {
			t.Errorf("%d bytes count as data", len(b))
		}
	})
}

// TestFrameIsTwoLines holds what a hop touches in one cache line.
func TestFrameIsTwoLines(t *testing.T) {
	var f Frame
	if hot := unsafe.Offsetof(f.ref); unsafe.Sizeof(f) != 128 || hot > 64 {
		t.Errorf("a frame has %d bytes, the first of them that are cold at %d", unsafe.Sizeof(f), hot)
	}
}
