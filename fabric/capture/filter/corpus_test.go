package filter

import (
	"encoding/binary"
	"math/rand/v2"
)

// corpusSeed makes the corpus the same on every run.
const corpusSeed = 4793

// corpus returns frames of all kinds that the filters ask about, whole and cut short.
func corpus() [][]byte {
	g := generator{rand.New(rand.NewPCG(corpusSeed, 0))}
	var frames [][]byte
	for range 30 {
		for _, inner := range []func() (byte, []byte){g.tcp, g.udp, g.icmp, g.sctp, g.other} {
			frames = append(frames, g.ipv4(inner), g.ipv6(inner))
		}
		frames = append(frames, g.arp(), g.llc(), g.tagged(g.ipv4(g.udp)), g.tagged(g.ipv6(g.tcp)), g.noise())
	}
	whole := len(frames)
	for i := 0; i < whole; i += 3 {
		frames = append(frames, frames[i][:g.IntN(len(frames[i])+1)])
	}
	for n := range 64 { // every length of a small frame
		frames = append(frames, frames[n%10][:min(n, len(frames[n%10]))])
	}
	return frames
}

type generator struct{ *rand.Rand }

func pick[T any](g generator, of ...T) T { return of[g.IntN(len(of))] }

func (g generator) bytes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(g.Uint32())
	}
	return b
}

func (g generator) mac() []byte {
	return pick(g, []byte{2, 0, 0, 0, 0, 1}, []byte{2, 0, 0, 0, 0, 2}, []byte{0x33, 0x33, 0, 0, 0, 1},
		[]byte{255, 255, 255, 255, 255, 255}, []byte{0, 0x11, 0x22, 0x33, 0x44, 0x55})
}

func (g generator) ether(typ uint16, payload []byte) []byte {
	f := append(append([]byte(nil), g.mac()...), g.mac()...)
	return append(binary.BigEndian.AppendUint16(f, typ), payload...)
}

func (g generator) addr4() []byte {
	return pick(g, []byte{10, 0, 0, 1}, []byte{10, 0, 0, 2}, []byte{10, 1, 2, 3}, []byte{192, 168, 1, 5}, []byte{224, 0, 0, 5},
		[]byte{0, 0, 0, 5}, []byte{255, 255, 255, 255}, []byte{172, 16, 0, 0})
}

func (g generator) addr6() []byte {
	b := make([]byte, 16)
	copy(b, pick(g, []byte{0x20, 1, 0xd, 0xb8}, []byte{0x20, 1, 0xd, 0xb8, 0, 1}, []byte{0xfe, 0x80}, []byte{0xff, 2}))
	b[15] = byte(1 + g.IntN(3))
	return b
}

func (g generator) port() uint16 {
	return pick[uint16](g, 22, 53, 80, 443, 4793, 4791, 5000, 5001, 5010, uint16(g.Uint32()))
}

func (g generator) tcp() (byte, []byte) {
	b := g.bytes(20 + 4*g.IntN(4) + g.IntN(40))
	binary.BigEndian.PutUint16(b, g.port())
	binary.BigEndian.PutUint16(b[2:], g.port())
	b[13] = pick[byte](g, 0x02, 0x12, 0x10, 0x18, 0x11, 0x04, 0xc2)
	return 6, b
}

func (g generator) udp() (byte, []byte) {
	b := g.bytes(8 + g.IntN(60))
	binary.BigEndian.PutUint16(b, g.port())
	binary.BigEndian.PutUint16(b[2:], g.port())
	return 17, b
}

func (g generator) sctp() (byte, []byte) {
	_, b := g.udp()
	return 132, b
}

func (g generator) icmp() (byte, []byte) {
	b := g.bytes(8 + g.IntN(20))
	b[0] = pick[byte](g, 0, 3, 8, 11, 128, 129, 135)
	b[1] = byte(g.IntN(3))
	return pick[byte](g, 1, 58), b
}

func (g generator) other() (byte, []byte) {
	return pick[byte](g, 2, 47, 50, 51, 89, 103, 112, 253), g.bytes(g.IntN(50))
}

func (g generator) ipv4(inner func() (byte, []byte)) []byte {
	proto, payload := inner()
	options := g.bytes(4 * pick(g, 0, 0, 0, 1, 3, 10))
	h := make([]byte, 20, 60)
	h[0] = 0x45 + byte(len(options)/4)
	h[1] = pick[byte](g, 0, 10<<2, 46<<2|2, 3)
	binary.BigEndian.PutUint16(h[2:], uint16(20+len(options)+len(payload)))
	binary.BigEndian.PutUint16(h[4:], uint16(g.Uint32()))
	binary.BigEndian.PutUint16(h[6:], pick[uint16](g, 0, 0x4000, 0x4000, 0x2000, 0x2005, 0x0017))
	h[8], h[9] = pick[byte](g, 1, 63, 64), proto
	copy(h[12:], g.addr4())
	copy(h[16:], g.addr4())
	return g.ether(0x0800, append(append(h, options...), payload...))
}

func (g generator) ipv6(inner func() (byte, []byte)) []byte {
	proto, payload := inner()
	if g.IntN(4) == 0 { // a fragment header
		payload = append([]byte{proto, 0, byte(g.Uint32()), byte(g.Uint32()), 0, 0, 0, 1}, payload...)
		proto = 44
	}
	h := make([]byte, 40, 40+len(payload))
	h[0] = 0x60
	binary.BigEndian.PutUint16(h[4:], uint16(len(payload)))
	h[6], h[7] = proto, 64
	copy(h[8:], g.addr6())
	copy(h[24:], g.addr6())
	return g.ether(0x86dd, append(h, payload...))
}

func (g generator) arp() []byte {
	b := append([]byte{0, 1, 8, 0, 6, 4, 0, byte(1 + g.IntN(2))}, g.mac()...)
	b = append(append(b, g.addr4()...), g.mac()...)
	b = append(b, g.addr4()...)
	return g.ether(pick[uint16](g, 0x0806, 0x0806, 0x8035), append(b, make([]byte, 18)...))
}

func (g generator) llc() []byte {
	b := pick(g, []byte{0x42, 0x42, 3}, []byte{0xfe, 0xfe, 3}, []byte{0xf0, 0xf0, 3}, []byte{0xe0, 0xe0, 3}, []byte{0xff, 0xff, 3},
		[]byte{0xaa, 0xaa, 3, 0, 0, 0, 0x81, 0x37}, []byte{0xaa, 0xaa, 3, 8, 0, 7, 0x80, 0x9b}, []byte{0x42, 0xfe, 3})
	b = append(b, g.bytes(40)...)
	return g.ether(pick(g, uint16(len(b)), 0x8137, 0x809b, 0x88cc, 0x88b5, 0x8808), b)
}

func (g generator) tagged(f []byte) []byte {
	for range 1 + g.IntN(2) {
		tag := binary.BigEndian.AppendUint16(nil, pick[uint16](g, 0x8100, 0x88a8, 0x9100))
		tag = binary.BigEndian.AppendUint16(tag, pick[uint16](g, 5, 0x2005, 7))
		f = append(append(append([]byte(nil), f[:12]...), tag...), f[12:]...)
	}
	return f
}

func (g generator) noise() []byte { return g.bytes(g.IntN(90)) }
