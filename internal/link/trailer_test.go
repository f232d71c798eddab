package link

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/uetlab/uetlab/wire"
)

func TestFramesAreReadAsWritten(t *testing.T) {
	pool := NewPool(2000)
	for name, change := range map[string]func(f *Frame){
		"plain":            func(*Frame) {},
		"protected":        func(f *Frame) { f.LLR = wire.LLRWord(wire.LLREligible, wire.LLRFlagReplay, 0xABCDE) },
		"damaged":          func(f *Frame) { corrupt(f) },
		"poisoned":         func(f *Frame) { f.FCS, f.Damaged = wire.FCS(f.B)^poison, true },
		"damaged preamble": func(f *Frame) { f.LLR, f.Flip = wire.LLRWord(wire.LLREligible, 0, 7), 32 },
	} {
		f, g := pool.Get(), pool.Get()
		f.B, f.Due = append(f.B, bytes.Repeat([]byte{7}, 100)...), 12345
		change(f)
		b := f.Encode(false)
		if why, ok := g.Decode(b); !ok || !bytes.Equal(g.B, f.B) || g.Due != f.Due || g.Damaged != f.Damaged || g.Damaged && g.FCS != f.FCS || g.Flip != f.Flip || g.Flip == 0 && g.LLR != f.LLR {
			t.Errorf("%s: %v, %v: %+v, want %+v", name, ok, why, g, f)
		}
		if len(b) != 100+wire.TrailerLen {
			t.Errorf("%s: %d bytes", name, len(b))
		}
		f.Release()
		g.Release()
	}
	f, g := pool.Get(), pool.Get()
	f.B = append(f.B, make([]byte, 100)...)
	b := f.Encode(true)
	if tr := wire.TrailerOf(b); tr.FCS() != 0 || tr.LLR()>>28 != wire.LLRNoFCS {
		t.Errorf("unchecked: trailer %x", []byte(tr))
	}
	b[50]++ // nobody looks
	if _, ok := g.Decode(b); !ok || g.Damaged || g.LLR != 0 || g.B[50] != 1 {
		t.Errorf("unchecked: %+v", g)
	}
	f.Release()
	g.Release()
}

func TestWhatIsNoFrameIsRefused(t *testing.T) {
	pool := NewPool(100)
	rng := rand.New(rand.NewPCG(1, 1))
	for range 10_000 { // whatever it says, it does not panic
		b := make([]byte, rng.IntN(200))
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		f := pool.Get()
		if why, ok := f.Decode(b); ok || why != DropTrailer {
			t.Fatalf("%x: %v, %v", b, ok, why)
		}
		f.Release()
	}
	for n, want := range map[int]bool{0: true, 100: true, 101: false} {
		f := pool.Get()
		if why, ok := f.Decode(wire.AppendTrailer(make([]byte, n), 1, 0)); ok != want || !ok && why != DropPacket {
			t.Errorf("%d bytes: %v, %v", n, ok, why)
		}
		f.Release()
	}
}
