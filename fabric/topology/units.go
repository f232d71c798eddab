package topology

import (
	"math/big"
	"strings"
	"time"
)

// What links can be. A delay of at least 1 ns is what lets a node look ahead in virtual time.
const (
	minRate  = int64(1_000_000)
	maxRate  = int64(3_200_000_000_000)
	minDelay = time.Nanosecond
	maxDelay = time.Second
	minMTU   = 1280
	maxMTU   = 9216

	rangeHint = "rates are 1Mbps to 3200Gbps, delays 1ns to 1s, an mtu 1280 to 9216"
)

// unit is one way to write a quantity: value × scale.
type unit struct {
	name  string
	scale int64
}

// measure is a kind of quantity: its units from small to large, and an example for error messages.
type measure struct {
	noun    string // "a rate"
	example string
	units   []unit
}

var (
	rates     = measure{noun: "a rate", example: "400Gbps", units: []unit{{"bps", 1}, {"kbps", 1e3}, {"Mbps", 1e6}, {"Gbps", 1e9}, {"Tbps", 1e12}}}
	durations = measure{noun: "a duration", example: "500ns", units: []unit{{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}}}
	sizes     = measure{noun: "a size", example: "2MiB", units: []unit{{"B", 1}, {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}}}
	percents  = measure{noun: "a percentage", example: "25%", units: []unit{{"%", 10_000}}} // in millionths
)

var quantityForm = lazily(`^([0-9]+(?:\.[0-9]+)?)(.*)$`)

// pattern is the regular expression of the quantity, without anchors.
func (m measure) pattern() string {
	names := m.unitNames()
	return `[0-9]+(\.[0-9]+)?(` + strings.Join(names, "|") + `)`
}

func (m measure) unitNames() []string {
	names := make([]string, len(m.units))
	for i, u := range m.units {
		names[i] = u.name
	}
	return names
}

// parse reads a quantity. formOK says whether it is written as one; ok, whether it is a whole number of the
// smallest unit that fits 63 bits as well.
func (m measure) parse(s string) (v int64, formOK, ok bool) {
	parts := quantityForm.FindStringSubmatch(s)
	if parts == nil {
		return 0, false, false
	}
	for _, u := range m.units {
		if u.name != parts[2] {
			continue
		}
		const most = 40
		if len(parts[1]) > most {
			return 0, true, false
		}
		r, _ := new(big.Rat).SetString(parts[1])
		r.Mul(r, new(big.Rat).SetInt64(u.scale))
		if !r.IsInt() || !r.Num().IsInt64() {
			return 0, true, false
		}
		return r.Num().Int64(), true, true
	}
	return 0, false, false
}

// hint tells how to write what s was meant to be.
func (m measure) hint(s string) string {
	write := "write it like " + m.example
	parts := quantityForm.FindStringSubmatch(strings.TrimSpace(s))
	if parts == nil {
		return write
	}
	got := strings.TrimSpace(parts[2])
	if got == "" {
		return write
	}
	if alias, ok := unitSlips[got]; ok {
		got = alias
	}
	for _, u := range m.units {
		if u.name == got {
			return "did you mean \"" + parts[1] + got + "\"?"
		}
	}
	if near := nearest(got, m.unitNames()); near != "" {
		return "did you mean \"" + parts[1] + near + "\"?"
	}
	return write
}

// unitSlips are units as people write them elsewhere.
var unitSlips = map[string]string{
	"G": "Gbps", "M": "Mbps", "T": "Tbps", "g": "Gbps", "Gb": "Gbps", "Gb/s": "Gbps", "Gbit": "Gbps", "gbit": "Gbps", "Gbit/s": "Gbps", "GbE": "Gbps",
	"Mb/s": "Mbps", "Mbit": "Mbps", "mbit": "Mbps", "Mbit/s": "Mbps", "Tb/s": "Tbps", "Tbit": "Tbps", "kbit": "kbps", "kb/s": "kbps",
	"nsec": "ns", "usec": "us", "µs": "us", "μs": "us", "msec": "ms", "sec": "s", "seconds": "s",
	"K": "KiB", "k": "KiB", "KB": "KiB", "kB": "KiB", "Ki": "KiB", "MB": "MiB", "Mi": "MiB", "GB": "GiB", "Gi": "GiB", "bytes": "B",
	"percent": "%", "pct": "%",
}

// format writes a quantity in the largest unit that gives a whole number.
func (m measure) format(v int64) string {
	best := m.units[0]
	for _, u := range m.units {
		if v%u.scale == 0 && (v != 0 || u.scale == 1) {
			best = u
		}
	}
	if v%best.scale != 0 { // percentages: their smallest unit is not 1
		f := new(big.Rat).SetFrac64(v, best.scale).FloatString(4)
		return strings.TrimRight(f, "0") + best.name
	}
	return big.NewInt(v/best.scale).String() + best.name
}
