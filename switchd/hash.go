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
	src, src2, dst, dst2, l4 := flowOf(ip)
	m := &h.mask
	src, src2, dst, dst2, l4 = src&m.src, src2&m.src2, dst&m.dst, dst2&m.dst2, l4&m.l4
	if h.label && l4>>versionShift == 6 {
		l4 |= uint64(wire.IPv6(ip).FlowLabel()) << labelShift
	}
	if h.kind == kindMix {
		return mixHash(h.seed, src, src2, dst, dst2, l4)
	}
	if h.kind == kindXOR {
		return xorHash(h.seed ^ src ^ src2 ^ dst ^ dst2 ^ l4)
	}
	c := h.crc(&flowWords{src, src2, dst, dst2, l4}) ^ uint32(h.seed)
	if h.kind == kindCRC32Rot {
		c = bits.RotateLeft32(c, int(h.seed>>32))
	}
	return c
}

// flowOf gives the words of the flow's key, as wire.Flow and FlowKey.Words do, without the bytes between and in registers: a
// fifth of the time.
func flowOf(ip []byte) (src, src2, dst, dst2, l4 uint64) {
	if len(ip) < wire.IPv4Len {
		return
	}
	le := binary.LittleEndian
	var ports []byte
	var proto uint8
	switch ip[0] >> 4 {
	case 4:
		n := int(ip[0]&0x0F) * 4
		if n < wire.IPv4Len || n > len(ip) {
			return
		}
		src, dst = uint64(le.Uint32(ip[12:])), uint64(le.Uint32(ip[16:]))
		proto, l4 = ip[9], 4<<versionShift
		if ip[6]&0x3F|ip[7] == 0 { // no fragment
			ports = ip[n:]
		}
	case 6:
		if len(ip) < wire.IPv6Len {
			return
		}
		src, src2, dst, dst2 = le.Uint64(ip[8:]), le.Uint64(ip[16:]), le.Uint64(ip[24:]), le.Uint64(ip[32:])
		proto, l4 = ip[6], 6<<versionShift
		ports = ip[wire.IPv6Len:]
	default:
		return
	}
	l4 |= uint64(proto) << protoShift
	if len(ports) >= 4 {
		switch proto {
		case wire.ProtoUDP, wire.ProtoTCP:
			l4 |= uint64(le.Uint32(ports))
		case wire.ProtoNative:
			l4 |= uint64(le.Uint16(ports))
		}
	}
	return
}

// mixHash does not polarise across tiers: seeds change the order of flows, not only a constant that is XORed in, as with
// the linear hashes (uet-link-switch 9.2). Each step is the two halves of a product, XORed.
func mixHash(seed, src, src2, dst, dst2, l4 uint64) uint32 {
	const k0, k1, k2, k3 = 0x9e3779b97f4a7c15, 0xd6e8feb86659fd93, 0xa0761d6478bd642f, 0xe7037ed1a0b428db
	h := fold(src^seed^k0, dst^k1) ^ fold(src2^k2, dst2^k3)
	h = fold(h^l4, k1) ^ bits.RotateLeft64(l4, 23)
	h ^= h >> 32
	return uint32(h * k1 >> 32)
}

func fold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

// crc is the CRC-32 of Ethernet over the key.
func (h *hasher) crc(w *flowWords) uint32 {
	le, b := binary.LittleEndian, &h.buf // in the hasher: the table-driven CRC would move a local to the heap
	le.PutUint64(b[0:], w.src)
	le.PutUint64(b[8:], w.src2)
	le.PutUint64(b[16:], w.dst)
	le.PutUint64(b[24:], w.dst2)
	le.PutUint64(b[32:], w.l4)
	return crc32.ChecksumIEEE(b[:])
}

// xorHash folds the words of the key, XORed, to 16 bits, which stand twice: the upper half of the result is what selects.
func xorHash(x uint64) uint32 {
	x ^= x >> 32
	x ^= x >> 16
	return uint32(x&0xFFFF) * 0x10001
}
