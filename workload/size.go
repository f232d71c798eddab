package workload

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// ParseSize reads a size in bytes: a whole number, alone or with B, K, KiB, M, MiB, G or GiB (binary, in either case).
func ParseSize(s string) (int64, error) {
	digits := strings.TrimLeft(s, "0123456789")
	num, unit := s[:len(s)-len(digits)], strings.ToLower(digits)
	var shift uint
	switch unit {
	case "", "b":
	case "k", "kib":
		shift = 10
	case "m", "mib":
		shift = 20
	case "g", "gib":
		shift = 30
	case "kb", "mb", "gb":
		return 0, fmt.Errorf("size %q: %s may mean powers of 1000 or of 1024; write %s%s (1024)", s, digits, num, digits[:1])
	default:
		return 0, fmt.Errorf("size %q: not a number of bytes; write 4096, 64K or 1MiB", s)
	}
	if num == "" {
		return 0, fmt.Errorf("size %q: there is no number; write 4096, 64K or 1MiB", s)
	}
	v, err := strconv.ParseInt(num, 10, 64)
	if err != nil || v > math.MaxInt64>>shift {
		return 0, fmt.Errorf("size %q: too big; at most %d bytes", s, int64(math.MaxInt64))
	}
	return v << shift, nil
}

// ParseSizes reads one size, or a sweep FROM:TO[:FACTOR] with a factor of 2 or more (2 if left out): FROM, FROM×FACTOR
// and so on up to and including TO.
func ParseSizes(s string) ([]int64, error) {
	parts := strings.Split(s, ":")
	from, err := ParseSize(parts[0])
	if err != nil {
		return nil, err
	}
	if len(parts) == 1 {
		return []int64{from}, nil
	}
	if len(parts) > 3 {
		return nil, fmt.Errorf("sizes %q: too many parts; write FROM:TO:FACTOR, as in 8:128M:2", s)
	}
	to, err := ParseSize(parts[1])
	if err != nil {
		return nil, err
	}
	factor := int64(2)
	if len(parts) == 3 {
		factor, err = strconv.ParseInt(parts[2], 10, 64)
		if err != nil || factor < 2 {
			return nil, fmt.Errorf("sizes %q: factor %q: give a whole number of 2 or more, as in 8:128M:2", s, parts[2])
		}
	}
	switch {
	case from == 0:
		return nil, fmt.Errorf("sizes %q: a sweep cannot grow from 0; begin at 1 or more", s)
	case from > to:
		return nil, fmt.Errorf("sizes %q: begins above its end; write the smaller size first", s)
	}
	var out []int64
	for v := from; ; v *= factor {
		out = append(out, v)
		if v > to/factor {
			return out, nil
		}
	}
}
