package capture

import (
	"net/netip"
	"testing"

	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// testDirections are the two of one link.
func testDirections(trailer bool) []Direction {
	return []Direction{
		{"leaf0", "eth3", "spine1", "eth1", "leaf0-spine1, 400Gbps", trailer},
		{"spine1", "eth1", "leaf0", "eth3", "leaf0-spine1, 400Gbps", trailer},
	}
}

// ackFrame is a UET acknowledgement of this PSN, without link trailer.
func ackFrame(t testing.TB, psn uint32) []byte {
	t.Helper()
	f := wire.AppendUDPFrame(nil, &wire.FrameFields{
		DstMAC: wire.MAC{2, 0, 0, 0, 0, 1}, SrcMAC: wire.MAC{2, 0, 0, 0, 0, 2},
		Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("10.0.0.2"), EV: 0xC000 + uint16(psn), // no port that a dissector knows
	})
	f = wire.AppendAck(f, &wire.AckFields{Type: wire.TypeAck, CACK: wire.PSN(psn), SPDCID: 0x123, DPDCID: 0x456})
	wire.FinishUDP(f)
	return f
}

func TestSplitTakesTheTrailerOff(t *testing.T) {
	frame := ackFrame(t, 7)
	whole := wire.AppendTrailer(append([]byte(nil), frame...), 12345, wire.LLRWord(wire.LLRPlain, 0, 0))
	flip := func(i int) []byte {
		b := append([]byte(nil), whole...)
		b[i] ^= 1
		return b
	}
	preamble := len(frame) + 14
	for _, c := range []struct {
		name    string
		raw     []byte
		length  int
		trailer bool
		want    Packet
	}{
		{"sound", whole, len(whole), true, Packet{Due: 12345, Timed: true, Data: frame, Len: len(frame)}},
		{"plain host", frame, len(frame), false, Packet{Data: frame, Len: len(frame)}},
		{"trailer not configured", whole, len(whole), false, Packet{Data: whole, Len: len(whole)}},
		{"no trailer", frame, len(frame), true, Packet{Data: frame, Len: len(frame), Comment: commentNone}},
		{"too short", frame[:10], 10, true, Packet{Data: frame[:10], Len: 10, Comment: commentNone}},
		{"empty", nil, 0, true, Packet{Comment: commentNone}},
		{"damaged frame", flip(20), len(whole), true, Packet{Due: 12345, Timed: true, Data: flip(20)[:len(frame)], Len: len(frame), Comment: commentFCS}},
		{"damaged preamble", flip(preamble), len(whole), true, Packet{Due: 12345, Timed: true, Data: frame, Len: len(frame), Comment: commentPreamble}},
		{"poisoned", wire.AppendTrailerFCS(append([]byte(nil), frame...), 12345, 7, wire.FCS(frame)^wire.FCSPoison), len(whole), true, Packet{Due: 12345, Timed: true, Data: frame, Len: len(frame), Comment: commentPoisoned}},
		{"cut short", whole[:40], len(whole), true, Packet{Data: whole[:40], Len: len(whole), Comment: "cut short: the link trailer is missing"}},
	} {
		p := split(c.raw, c.length, c.trailer)
		if p.Due != c.want.Due || p.Timed != c.want.Timed || p.Len != c.want.Len || p.Comment != c.want.Comment ||
			string(p.Data) != string(c.want.Data) {
			t.Errorf("%s: %+v, want %+v", c.name, p, c.want)
		}
	}
}

func FuzzSplit(f *testing.F) {
	f.Add(wire.AppendTrailer([]byte("frame"), 1, 2), 29)
	f.Add([]byte("UEL1"), 4)
	f.Fuzz(func(t *testing.T, raw []byte, length int) {
		p := split(raw, length, true)
		if p.Len < len(p.Data) || p.Due < 0 && p.Timed || len(p.Data) > len(raw) {
			t.Fatalf("%+v", p)
		}
	})
}

// collect is a Sink that keeps what it gets.
type collect struct{ packets []Packet }

func (c *collect) Packet(p *Packet) error {
	q := *p
	q.Data = append([]byte(nil), p.Data...)
	c.packets = append(c.packets, q)
	return nil
}

func (c *collect) Flush() error { return nil }

// dues lists the times of packets.
func dues(packets []Packet) []vt.Time {
	list := make([]vt.Time, len(packets))
	for i, p := range packets {
		list[i] = p.Due
	}
	return list
}
