package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/uetlab/uetlab/fabric/api"
)

func phyCommand() *cli.Command {
	return verb{name: "phy", args: "[LINK…]", usage: "show the physical layer of links: codewords, FEC, bit errors", max: -1,
		text: "A row for each direction of some links, by name or glob, or of all: codewords of RS(544,514) that have passed, idle or not, those\n" +
			"that FEC corrected (an expectation) and those that it could not; their share (UCR), the mean time between them (MTBPE, virtual), bit\n" +
			"error rates before and behind FEC, and what the receiving port found wrong. --detail has the codewords by wrong symbols.",
		examples: []string{"uetlab phy", "uetlab phy 'leaf*-spine0' leaf0-spine1", "uetlab phy leaf0-spine0 --detail", "uetlab phy --format json"},
		flags:    labFlags(&cli.BoolFlag{Name: "detail", Usage: "codewords by wrong symbols, as a chart"}, watchFlag()), run: runPHY}.command()
}

func runPHY(c *call) error { return watchLinks(c, (*api.Client).PHY, c.printPHY) }

func (c *call) printPHY(list []api.PHY) error {
	if err := c.render(list, func() table { return phyTable(list) }); err != nil {
		return err
	}
	if !c.Bool("detail") || c.String("format") != formatTable {
		return nil
	}
	for i := range list {
		fmt.Fprintf(c.out, "\n%s, %s to %s: codewords by wrong symbols, %d interleaved, %s each\n", list[i].Link, list[i].From, list[i].To, list[i].Interleave, ns1(list[i].CodewordNs))
		fmt.Fprint(c.out, phyChart(list[i].Histogram[:]))
	}
	return nil
}

func phyTable(list []api.PHY) table {
	t := table{columns: []string{"LINK", "FROM", "TO", "PCS", "FLAPS", "CODEWORDS", "CORRECTED", "UNCORRECTABLE", "UCR", "MTBPE", "RAW BER", "POST-FEC BER", "FCS ERRORS", "FRAME LOSS"}}
	for _, p := range list {
		t.add(p.Link, p.From, p.To, p.PCS, p.Flaps, p.Codewords, p.Corrected, p.Uncorrectable, ratio3(p.UCR), ns1(p.MTBPENs), ratio3(p.RawBER), ratio3(p.PostBER), p.FCSErrors, ratio3(p.FrameLoss))
	}
	return t
}

// ratio3 writes a share, - where there is none.
func ratio3(v float64) string {
	if v == 0 {
		return "-"
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// ns1 writes a time that has fractions of a nanosecond, - where there is none.
func ns1(ns float64) string {
	switch {
	case ns == 0:
		return "-"
	case ns < 1000:
		return strconv.FormatFloat(ns, 'g', 4, 64) + "ns"
	}
	return nanos(int64(ns))
}

const phyBar = 40

// phyChart draws a bar for each number of wrong symbols, by the logarithm of its share of the codewords: all of them fill it, and a share of
// 1e-9 is nothing. Numbers beyond the last that a codeword has are left out.
func phyChart(words []uint64) string {
	var b strings.Builder
	all, last := uint64(0), 0
	for k, n := range words {
		if all += n; n > 0 {
			last = k
		}
	}
	for k, n := range words[:last+1] {
		name := fmt.Sprintf("S%d", k)
		if k == len(words)-1 {
			name += "+"
		}
		bar, share := 0, "-"
		if n > 0 {
			part := float64(n) / float64(all)
			bar, share = max(1, int(math.Round(phyBar*(1+math.Log10(part)/9)))), ratio3(part)
		}
		fmt.Fprintln(&b, strings.TrimRight(fmt.Sprintf("  %-4s %16d  %-9s %s", name, n, share, strings.Repeat("#", bar)), " "))
	}
	return b.String()
}

// phyFact is a direction in one line.
func phyFact(p *api.PHY) string {
	s := fmt.Sprintf("PCS %s, %d codewords, %d corrected, %d uncorrectable, %d FCS errors", p.PCS, p.Codewords, p.Corrected, p.Uncorrectable, p.FCSErrors)
	if p.MTBPENs > 0 {
		s += ", MTBPE " + ns1(p.MTBPENs)
	}
	return s
}
