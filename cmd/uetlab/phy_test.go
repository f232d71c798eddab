package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/internal/link"
)

// fakePHY is one direction that has errors of all kinds, and one that has none.
func fakePHY(links []string) []api.PHY {
	if len(links) > 0 && !slices.ContainsFunc(links, func(l string) bool { return strings.HasPrefix(l, "host") }) {
		return []api.PHY{}
	}
	sick := link.PHY{Codewords: 1_001_003, Corrected: 1000, Uncorrectable: 3, SymbolErrors: 1100, CorrectedBits: 1100.5, WrongBits: 40, Flaps: 2, Up: true, Interleave: 2, CodewordNs: 12.85}
	sick.Histogram[0], sick.Histogram[1], sick.Histogram[2], sick.Histogram[16] = 1_000_000, 900, 100, 3
	well := link.PHY{Codewords: 500, Interleave: 2, CodewordNs: 12.85}
	well.Histogram[0] = 500
	a, b := api.PHYOf(sick, 2000, 8_000_000, 7, 1), api.PHYOf(well, 0, 0, 0, 0)
	one, other := api.End{Node: "host0", Port: "eth1"}, api.End{Node: "host1", Port: "eth1"}
	a.Link, a.From, a.To = "host0-host1", one, other
	b.Link, b.From, b.To = "host0-host1", other, one
	return []api.PHY{a, b}
}

// TestPHYChart draws shares by their logarithm, and leaves out what no codeword has beyond the last.
func TestPHYChart(t *testing.T) {
	for _, c := range []struct {
		words []uint64
		lines int
		bars  []int
	}{{make([]uint64, 17), 1, []int{0}}, {[]uint64{1_000_000, 10, 0, 1}, 4, []int{40, 18, 0, 13}}, {append(make([]uint64, 16), 5), 17, []int{0}}} {
		lines := strings.Split(strings.TrimSuffix(phyChart(c.words), "\n"), "\n")
		if len(lines) != c.lines {
			t.Errorf("%v: %d lines", c.words, len(lines))
		}
		for i, n := range c.bars {
			if got := strings.Count(lines[i], "#"); got != n {
				t.Errorf("%v: bar %d is %d long, not %d", c.words, i, got, n)
			}
		}
	}
}
