package wire

import "testing"

// linkHot are what a port with link layer retry writes and reads: the trailer of every frame, and frames of ordered sets.
func linkHot() map[string][2]func() {
	frame := make([]byte, 4096, 4200)
	whole := AppendTrailer(append([]byte(nil), frame...), 1_000_000, LLRWord(LLREligible, 0, 0x4A2D3))
	sets := AppendLLRInit(AppendLLRSeq(AppendCtlOSHeader(nil, MAC{2, 0, 0, 0, 0, 1}), CtlOSAck, 0x4A2D3), CtlOSInit, 7, 9)
	buf := make([]byte, 0, 64)
	return map[string][2]func(){
		"trailer/4096B": {func() { frame = AppendTrailer(frame[:4096], 1_000_000, LLRWord(LLREligible, 0, 0x4A2D3))[:4096] }, func() {
			if _, t, ok := SplitTrailer(whole); ok {
				benchSink += uint64(t.LLRSeq())
			}
		}},
		"ack": {func() { buf = AppendLLRSeq(AppendCtlOSHeader(buf[:0], MAC{2, 0, 0, 0, 0, 1}), CtlOSAck, 0x4A2D3) }, func() {
			if c, err := ParseCtlOS(sets[EthLen:][:CtlOSLen]); err == nil {
				benchSink += uint64(c.Seq())
			}
		}},
		"sets/2": {func() {
			buf = AppendLLRInit(AppendLLRSeq(AppendCtlOSHeader(buf[:0], MAC{2, 0, 0, 0, 0, 1}), CtlOSAck, 0x4A2D3), CtlOSInit, 7, 9)
		}, func() {
			b, err := ParseCtlOSBundle(sets[EthLen:])
			if err != nil {
				panic(err)
			}
			for i := range b.Len() {
				if c, err := ParseCtlOS(b.At(i)); err == nil {
					benchSink += uint64(c.Seq())
				}
			}
		}},
	}
}

// BenchmarkLink writes and reads trailers and ordered sets.
func BenchmarkLink(b *testing.B) {
	for _, name := range []string{"trailer/4096B", "ack", "sets/2"} {
		do := linkHot()[name]
		for i, what := range []string{"encode", "decode"} {
			b.Run(name+"/"+what, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					do[i]()
				}
			})
		}
	}
}

func TestLinkAllocatesNothing(t *testing.T) {
	for name, do := range linkHot() {
		if n := testing.AllocsPerRun(100, func() { do[0](); do[1]() }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
