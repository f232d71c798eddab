package switchd

import (
	"fmt"
	"hash/crc32"
	"math/bits"

	"github.com/uetlab/uetlab/wire"
)

type hasher struct {
	crc bool
	key wire.FlowKey
}

func (h *hasher) configure(set *ECMP) error {
	switch set.Hash {
	case "", HashMix:
	case HashCRC32:
		h.crc = true
	default:
		return fmt.Errorf("switch hash %q: use mix or crc32", set.Hash)
	}
	return nil
}

func (s *Switch) hash(ip []byte) uint32 {
	k, _ := wire.Flow(ip)
	return s.hashKey(&k)
}

// hashKey maps a flow to 32 bits. mix does not polarise across tiers: seeds change the order of flows, not only a constant
// that is XORed in, as they do with crc32 (uet-link-switch 9.2).
func (s *Switch) hashKey(k *wire.FlowKey) uint32 {
	if s.ecmp.crc {
		s.ecmp.key = *k // the table-driven CRC would move k to the heap
		return crc32.ChecksumIEEE(s.ecmp.key[:]) ^ uint32(s.cfg.Seed)
	}
	h := s.cfg.Seed ^ 0x9e3779b97f4a7c15
	for _, w := range k.Words() {
		hi, lo := bits.Mul64(h^w, 0xd6e8feb86659fd93)
		h = hi ^ lo ^ bits.RotateLeft64(w, 23)
	}
	h ^= h >> 32
	h *= 0xd6e8feb86659fd93
	return uint32(h >> 32)
}
