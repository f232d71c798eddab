package link

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"github.com/uetlab/uetlab/internal/link/llr"
	"github.com/uetlab/uetlab/wire"
)

// Requirements of LLR that are seen in the octets on the line.

func TestLLR01_EligibleFramesAreNumbered(t *testing.T) {
	l := newRetry(t, nil)
	numbered, plain := 0, 0
	l.tap = func(from int, b []byte) {
		frame, tr, ok := wire.SplitTrailer(b)
		arp := frame[13] == 0x06
		switch {
		case from != 0:
		case !ok || !tr.FCSOK(frame) || len(frame) != 200:
			t.Errorf("%d bytes with trailer %x", len(frame), b[len(frame):])
		case arp && tr.LLR == 0:
			plain++
		case !arp && tr.LLR == 1<<28|uint32(numbered):
			numbered++
		default:
			t.Errorf("ARP %v has LLR word %#x behind %d frames with a number", arp, tr.LLR, numbered)
		}
		if numbered == 8 && from == 0 && !arp { // octet by octet
			want := binary.BigEndian.AppendUint64([]byte("UEL1"), uint64(tr.Due))
			want = append(want, 0x10, 0, 0, 7)
			want = binary.BigEndian.AppendUint32(want, crc32.Checksum(want, crc32.MakeTable(crc32.Castagnoli)))
			want = binary.LittleEndian.AppendUint32(want, crc32.ChecksumIEEE(b[:200]))
			if !bytes.Equal(b[200:], want) {
				t.Errorf("trailer\n%x, want\n%x", b[200:], want)
			}
		}
	}
	for i := range uint32(1100) {
		l.ends[0].p.Offer(0, 0, l.frame(i, 200, i%11 == 10))
	}
	l.run(ms)
	if numbered != 1000 || plain != 100 {
		t.Fatalf("%d frames with a number, %d without", numbered, plain)
	}
	l.whole(0, 1100)
}

func TestLLR27_NoLLRWhereNobodyWantsIt(t *testing.T) {
	for _, bare := range []bool{false, true} { // between nodes of a lab, and towards a plain host
		l := newLine(t, nil, reach)
		l.bare = bare
		seen := 0
		l.tap = func(_ int, b []byte) {
			frame, tr, ok := wire.SplitTrailer(b)
			if seen++; !ok || len(frame) != 1000 || tr.LLRKind() != wire.LLRPlain || tr.LLR != 0 || frame[12] == 0x88 && frame[13] == 0xB5 {
				t.Errorf("%d bytes, trailer %v: %x", len(frame), ok, b[len(b)-wire.TrailerLen:])
			}
		}
		if bare {
			l.tap = func(_ int, b []byte) {
				if seen++; !bytes.Equal(b, l.image(uint32(seen-1), 1000)) {
					t.Errorf("frame %d is %d bytes: %x", seen-1, len(b), b)
				}
			}
		}
		l.offer(0, 1000, 1000)
		l.run(ms)
		l.whole(0, 1000)
		if len(l.words) != 0 || l.plain != 1000 || seen != 1000 || l.sets != [2][32]int{} {
			t.Errorf("%d frames with a number, %d seen, ordered sets %v", len(l.words), seen, l.sets)
		}
	}
}

// image is what a frame of offer is.
func (l *line) image(id uint32, n int) []byte {
	f := l.frame(id, n, false)
	defer f.Release()
	return bytes.Clone(f.B)
}

func TestLLR28_DamagedPreambleIsALoss(t *testing.T) {
	l := newRetry(t, nil)
	rng := rand.New(rand.NewPCG(28, 28))
	bad, harmed := uint8(0), uint64(0)
	l.meddle = func(from int, f *Frame) []*Frame {
		if bad = 0; from == 0 && rng.Float64() < 0.01 {
			harmed++
			bad = uint8(1 + rng.IntN(32))
		}
		f.Flip = bad
		return []*Frame{f}
	}
	l.tap = func(from int, b []byte) {
		if tr := wire.TrailerOf(b); tr.OK() != (bad == 0) || bad != 0 && tr.Flipped() != int(bad)-1 {
			t.Errorf("bit %d was to be turned: %x", int(bad)-1, []byte(tr))
		}
	}
	l.offer(0, 10_000, 1000)
	l.run(10 * ms)
	l.whole(0, 10_000)
	if n := l.ends[1].p.C[DropPreamble]; n != harmed || n < 80 {
		t.Errorf("%d damaged preambles, %d counted", harmed, n)
	}
}

func TestLLR06_BadFCSGivesOneNack(t *testing.T) {
	l := newRetry(t, nil)
	l.begin(1)
	wrong := 0
	l.tap = func(from int, b []byte) {
		if tr := wire.TrailerOf(b); from == 0 && tr.FCS() != wire.FCS(b[:len(b)-wire.TrailerLen]) {
			if wrong++; tr.LLR() != wire.LLRWord(wire.LLREligible, 0, 901) || !tr.OK() {
				t.Errorf("a wrong FCS on the line, of LLR word %#x", tr.LLR())
			}
		}
	}
	l.meddle = nackOf(t, 900, nth(901, corrupt))
	l.offer(1, 1000, 1000)
	l.run(ms)
	l.whole(1, 1000)
	l.want(1, map[llr.Counter]uint64{llr.TxNack: 1, llr.RxExpBad: 1, llr.RxBad: 1})
	if wrong != 1 {
		t.Errorf("%d frames with a wrong FCS on the line", wrong)
	}
}

func TestLLR08_ReplayBeginsBehindTheNack(t *testing.T) {
	l := gapped(t)
	first := uint32(0)
	l.tap = func(from int, b []byte) {
		if _, tr, ok := wire.SplitTrailer(b); ok && from == 0 && tr.LLRFlags()&wire.LLRFlagReplay != 0 && first == 0 {
			first = tr.LLRSeq()
		}
	}
	l.run(ms)
	if first != 901 {
		t.Errorf("the first frame marked as a replay has number %d", first)
	}
}
