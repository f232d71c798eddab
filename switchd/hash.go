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
type flowWords [5]uint64

// Places in the fifth word of the key, which holds source port, destination port, protocol and IP version.
const (
	sportBits  = 0xFFFF
	dportBits  = 0xFFFF << 16
	protoBits  = 0xFF << 32
	labelShift = 44 // above the four bits of the IP version
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
			n.mask[0], n.mask[1] = ^uint64(0), ^uint64(0)
		case "dst":
			n.mask[2], n.mask[3] = ^uint64(0), ^uint64(0)
		case "sport":
			n.mask[4] |= sportBits
		case "dport":
			n.mask[4] |= dportBits
		case "proto":
			n.mask[4] |= protoBits
		case "flowlabel":
			n.label = true
		default:
			return fmt.Errorf("ecmp field %q: use %v or flowlabel", f, defaultFields)
		}
	}
	if slices.Equal(fields, []string{"flowlabel"}) { // IPv4 has none: all of it would take one path
		return fmt.Errorf("ecmp fields: flowlabel alone says nothing of IPv4, add src and dst")
	}
	n.mask[4] |= 0xFF << 40 // the version of IP always counts
	*h = n
	return nil
}

// hash maps the flow of an IP packet to 32 bits. What is not IP counts as the flow of zeros.
func (h *hasher) hash(ip []byte) uint32 {
	k, _ := wire.Flow(ip)
	w := flowWords(k.Words())
	for i := range w {
		w[i] &= h.mask[i]
	}
	if h.label && len(ip) >= wire.IPv6Len && ip[0]>>4 == 6 {
		w[4] |= uint64(wire.IPv6(ip).FlowLabel()) << labelShift
	}
	return h.words(&w)
}

func (h *hasher) words(w *flowWords) uint32 {
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

// mixHash does not polarise across tiers: seeds change the order of flows, not only a constant that is XORed in, as with
// the linear hashes (uet-link-switch 9.2).
func mixHash(seed uint64, words *flowWords) uint32 {
	h := seed ^ 0x9e3779b97f4a7c15
	for _, w := range words {
		hi, lo := bits.Mul64(h^w, 0xd6e8feb86659fd93)
		h = hi ^ lo ^ bits.RotateLeft64(w, 23)
	}
	h ^= h >> 32
	h *= 0xd6e8feb86659fd93
	return uint32(h >> 32)
}

// crc is the CRC-32 of Ethernet over the key.
func (h *hasher) crc(words *flowWords) uint32 {
	for i, w := range words { // into the hasher: the table-driven CRC would move a local to the heap
		binary.LittleEndian.PutUint64(h.buf[i*8:], w)
	}
	return crc32.ChecksumIEEE(h.buf[:])
}

// xorHash folds the key to 16 bits, which stand twice: the upper half of the result is what selects.
func xorHash(seed uint64, words *flowWords) uint32 {
	x := seed
	for _, w := range words {
		x ^= w
	}
	x ^= x >> 32
	x ^= x >> 16
	return uint32(x&0xFFFF) * 0x10001
}
