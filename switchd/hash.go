package switchd

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/bits"
	"slices"

	"github.com/uetlab/uetlab/wire"
)

type hashKind uint8

const (
	kindMix hashKind = iota
	kindCRC32
	kindCRC32Rot
	kindXOR
)

// flowWords is the key of a flow as the hashes eat it: wire.FlowKey's words with the fields that do not count masked out,
// and the IPv6 flow label in the bits that FlowKey leaves free. DSCP, ECN, TTL, lengths and CSIG tags are not in it, so that a
// trimmed packet takes the path of the whole one.
// A struct travels in registers, an array would not.
type flowWords struct {
	src, src2, dst, dst2 uint64 // an IPv4 address is the first half of the first word
	l4                   uint64
}

// Places in the last word, which holds source port, destination port, protocol and IP version.
const (
	sportBits    = 0xFFFF
	dportBits    = 0xFFFF << 16
	protoShift   = 32
	versionShift = 40
	labelShift   = 44 // above the four bits of the IP version
)

// hasher maps packets to 32 bits.
type hasher struct {
	kind  hashKind
	seed  uint64
	mask  flowWords
	label bool // the IPv6 flow label counts
	buf   [40]byte
}

// defaultFields is the 5-tuple.
var defaultFields = []string{"src", "dst", "proto", "sport", "dport"}

func (h *hasher) set(e *ECMP, seed uint64) error {
	n := hasher{seed: seed}
	switch e.Hash {
	case "", HashMix:
	case HashCRC32:
		n.kind = kindCRC32
	case HashCRC32Rot:
		n.kind = kindCRC32Rot
	case HashXOR:
		n.kind = kindXOR
	default:
		return fmt.Errorf("ecmp hash %q: use %s, %s, %s or %s", e.Hash, HashMix, HashCRC32, HashCRC32Rot, HashXOR)
	}
	fields := e.Fields
	if len(fields) == 0 {
		fields = defaultFields
	}
	for _, f := range fields {
		switch f {
		case "src":
			n.mask.src, n.mask.src2 = ^uint64(0), ^uint64(0)
		case "dst":
			n.mask.dst, n.mask.dst2 = ^uint64(0), ^uint64(0)
		case "sport":
			n.mask.l4 |= sportBits
		case "dport":
			n.mask.l4 |= dportBits
		case "proto":
			n.mask.l4 |= 0xFF << protoShift
		case "flowlabel":
			n.label = true
		default:
			return fmt.Errorf("ecmp field %q: use %v or flowlabel", f, defaultFields)
		}
	}
	if slices.Equal(fields, []string{"flowlabel"}) { // IPv4 has none: all of it would take one path
		return fmt.Errorf("ecmp fields: flowlabel alone says nothing of IPv4, add src and dst")
	}
	n.mask.l4 |= 0xFF << versionShift // the version of IP always counts
	*h = n
	return nil
}

// hash maps the flow of an IP packet to 32 bits. What is not IP counts as the flow of zeros.
func (h *hasher) hash(ip []byte) uint32 {
	w, m := flowOf(ip), &h.mask
	w = flowWords{w.src & m.src, w.src2 & m.src2, w.dst & m.dst, w.dst2 & m.dst2, w.l4 & m.l4}
	if h.label && w.l4>>versionShift == 6 {
		w.l4 |= uint64(wire.IPv6(ip).FlowLabel()) << labelShift
	}
	switch h.kind {
	case kindCRC32:
		return h.crc(w) ^ uint32(h.seed)
	case kindCRC32Rot:
		return bits.RotateLeft32(h.crc(w)^uint32(h.seed), int(h.seed>>32))
	case kindXOR:
		return xorHash(h.seed, w)
	}
	return mixHash(h.seed, w)
}

// flowOf is wire.Flow and FlowKey.Words in one, without the bytes between: a fifth of the time.
func flowOf(ip []byte) (w flowWords) {
	if len(ip) < wire.IPv4Len {
		return w
	}
	le := binary.LittleEndian
	var l4 []byte
	switch ip[0] >> 4 {
	case 4:
		n := int(ip[0]&0x0F) * 4
		if n < wire.IPv4Len || n > len(ip) {
			return w
		}
		w.src, w.dst = uint64(le.Uint32(ip[12:])), uint64(le.Uint32(ip[16:]))
		w.l4 = uint64(ip[9])<<protoShift | 4<<versionShift
		if ip[6]&0x3F|ip[7] == 0 { // no fragment
			l4 = ip[n:]
		}
	case 6:
		if len(ip) < wire.IPv6Len {
			return w
		}
		w.src, w.src2, w.dst, w.dst2 = le.Uint64(ip[8:]), le.Uint64(ip[16:]), le.Uint64(ip[24:]), le.Uint64(ip[32:])
		w.l4 = uint64(ip[6])<<protoShift | 6<<versionShift
		l4 = ip[wire.IPv6Len:]
	}
	if len(l4) >= 4 {
		switch uint8(w.l4 >> protoShift) {
		case wire.ProtoUDP, wire.ProtoTCP:
			w.l4 |= uint64(le.Uint32(l4))
		case wire.ProtoNative:
			w.l4 |= uint64(le.Uint16(l4))
		}
	}
	return w
}

// mixHash does not polarise across tiers: seeds change the order of flows, not only a constant that is XORed in, as with
// the linear hashes (uet-link-switch 9.2). Each step is the two halves of a product, XORed.
func mixHash(seed uint64, w flowWords) uint32 {
	const k0, k1, k2, k3 = 0x9e3779b97f4a7c15, 0xd6e8feb86659fd93, 0xa0761d6478bd642f, 0xe7037ed1a0b428db
	h := fold(w.src^seed^k0, w.dst^k1) ^ fold(w.src2^k2, w.dst2^k3)
	h = fold(h^w.l4, k1) ^ bits.RotateLeft64(w.l4, 23)
	h ^= h >> 32
	return uint32(h * k1 >> 32)
}

func fold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

// crc is the CRC-32 of Ethernet over the key.
func (h *hasher) crc(w flowWords) uint32 {
	le, b := binary.LittleEndian, &h.buf // in the hasher: the table-driven CRC would move a local to the heap
	le.PutUint64(b[0:], w.src)
	le.PutUint64(b[8:], w.src2)
	le.PutUint64(b[16:], w.dst)
	le.PutUint64(b[24:], w.dst2)
	le.PutUint64(b[32:], w.l4)
	return crc32.ChecksumIEEE(b[:])
}

// xorHash folds the key to 16 bits, which stand twice: the upper half of the result is what selects.
func xorHash(seed uint64, w flowWords) uint32 {
	x := seed ^ w.src ^ w.src2 ^ w.dst ^ w.dst2 ^ w.l4
	x ^= x >> 32
	x ^= x >> 16
	return uint32(x&0xFFFF) * 0x10001
}
