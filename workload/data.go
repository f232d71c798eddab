package workload

import (
	"encoding/binary"
	"math"
)

// mix64 spreads x over 64 bits (a bijection: odd multiplications and shifted xors).
func mix64(x uint64) uint64 {
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	return x ^ x>>32
}

// key draws 32 bits from the run's seed and a few small numbers.
func key(seed uint64, parts ...int) uint32 {
	h := mix64(seed + 0x9e3779b97f4a7c15)
	for _, p := range parts {
		h = mix64(h ^ (uint64(p) + 0x9e3779b97f4a7c15))
	}
	return uint32(h >> 16)
}

// mix32 is element number i of the stream named by key.
func mix32(key uint32, i int64) uint32 {
	x := uint32(i)*0x9e3779b1 ^ key
	x ^= x >> 15
	x *= 0x85ebca6b
	return x ^ x>>13
}

// derangement draws a permutation without fixed points, each with the same probability: shuffle, and again until
// nobody is left with himself (e times on average).
func derangement(seed uint64, n int) []int {
	to := make([]int, n)
	state := mix64(seed ^ 0x7065726d)
	for {
		for i := range to {
			to[i] = i
		}
		for i := n - 1; i > 0; i-- {
			state += 0x9e3779b97f4a7c15
			j := int(mix64(state) % uint64(i+1))
			to[i], to[j] = to[j], to[i]
		}
		fixed := false
		for i, t := range to {
			fixed = fixed || i == t
		}
		if !fixed {
			return to
		}
	}
}

// pattern yields the elements of a block in one iteration. Plain data are a stream of their own for each pair of
// origin and destination. Where elements are summed, rank r contributes h·(2r+1) + g(r) in 32-bit arithmetic, h drawn
// per element and g per rank, so that the sum has a closed form and a part that is lost, doubled or misplaced shows. Floats
// are small whole numbers, h·(r mod 16 + 1) + g with h < 16 and g < 256: exact, in whatever order they are added.
type pattern struct {
	key      uint32
	mul, add uint32
	kind     patternKind
}

type patternKind uint8

const (
	plain patternKind = iota
	linear
	float
)

func (s *Spec) pattern(iter int, b block) pattern {
	if !s.reduces() {
		return pattern{key: key(s.Seed, iter, b.from, b.to)}
	}
	p := pattern{key: key(s.Seed, iter), kind: linear}
	if s.Type == Float32 {
		p.kind = float
	}
	from, to := b.from, b.from+1
	if b.sum {
		from, to = 0, s.Ranks
	}
	for r := from; r < to; r++ {
		g := key(s.Seed, iter, r)
		if p.kind == float {
			p.mul += uint32(r&15 + 1)
			p.add += g & 0xff
		} else {
			p.mul += uint32(2*r + 1)
			p.add += g
		}
	}
	return p
}

func (p pattern) at(i int64) uint32 {
	x := mix32(p.key, i)
	switch p.kind {
	case linear:
		return x*p.mul + p.add
	case float:
		return math.Float32bits(float32((x>>28)*p.mul + p.add))
	}
	return x
}

// write fills b with the elements from first on; the last one may be cut short.
func (p pattern) write(b []byte, first int64) {
	i := first
	for ; len(b) >= element; b = b[element:] {
		binary.LittleEndian.PutUint32(b, p.at(i))
		i++
	}
	if len(b) > 0 {
		var w [element]byte
		binary.LittleEndian.PutUint32(w[:], p.at(i))
		copy(b, w[:])
	}
}

// compare counts the elements of b that differ, and all.
func (p pattern) compare(b []byte, first int64) (wrong, all int64) {
	i := first
	for ; len(b) >= element; b = b[element:] {
		if binary.LittleEndian.Uint32(b) != p.at(i) {
			wrong++
		}
		i++
	}
	if len(b) > 0 {
		var w [element]byte
		binary.LittleEndian.PutUint32(w[:], p.at(i))
		if string(b) != string(w[:len(b)]) {
			wrong++
		}
		i++
	}
	return wrong, i - first
}

// addInto adds src to dst, element by element.
func addInto(dst, src []byte, floats bool) {
	for ; len(dst) >= element; dst, src = dst[element:], src[element:] {
		a, b := binary.LittleEndian.Uint32(dst), binary.LittleEndian.Uint32(src)
		if floats {
			a = math.Float32bits(math.Float32frombits(a) + math.Float32frombits(b))
		} else {
			a += b
		}
		binary.LittleEndian.PutUint32(dst, a)
	}
}
