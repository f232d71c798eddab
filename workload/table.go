package workload

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// valid says whether the run's times mean anything.
func (f *Fidelity) valid() bool { return !strings.HasPrefix(f.Verdict, "invalid") }

// WriteTable prints results for people: the layout of nccl-tests, one line a size, comments begin with #.
// Times are virtual; bandwidths are in Gb/s (10^9 bits per second).
func WriteTable(w io.Writer, results []Result) error {
	if len(results) == 0 {
		return nil
	}
	var b strings.Builder
	r := &results[0]
	what := "iterations"
	if s := (Spec{Workload: r.Workload}); s.Flows() {
		what = "flows (one a sender and iteration)"
	}
	if r.Workload == Matrix {
		what = "flows; size: of all of them together"
	}
	fmt.Fprintf(&b, "# %s: %d ranks, iterations: %d, seed: %d\n", r.Workload, r.Ranks, r.Iterations, r.Seed)
	if len(r.FEP) > 0 {
		b.WriteString("# end points:")
		for _, key := range slices.Sorted(maps.Keys(r.FEP)) {
			fmt.Fprintf(&b, " %s=%s", key, r.FEP[key])
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "# time: virtual, the slowest of all %s; mean: over them; bandwidth in Gb/s\n", what)
	fmt.Fprintf(&b, "#%11s %12s %12s %7s %9s %9s %7s %7s %7s  %s\n",
		"size", "time", "mean", "ratio", "algbw", "busbw", "#wrong", "retx", "drops", "verdict")
	fmt.Fprintf(&b, "#%11s %12s %12s %7s %9s %9s\n", "(B)", "(us)", "(us)", "", "(Gb/s)", "(Gb/s)")
	for i := range results {
		row(&b, &results[i])
	}
	footer(&b, results)
	_, err := io.WriteString(w, b.String())
	return err
}

func row(b *strings.Builder, r *Result) {
	wrong := "N/A"
	if r.Correct != nil {
		wrong = fmt.Sprint(r.Wrong())
	}
	ratio := "N/A"
	if r.IdealNs > 0 {
		ratio = fmt.Sprintf("%.3f", r.Ratio)
	}
	verdict, _, _ := strings.Cut(r.Fidelity.Verdict, ":")
	fmt.Fprintf(b, " %11d %12.3f %12.3f %7s %9.2f %9.2f %7s %7d %7d  %s\n", r.SizeBytes, us(r.FCT.Max), us(r.FCT.Mean),
		ratio, r.AlgBW, r.BusBW, wrong, r.Retransmits, r.Drops, verdict)
}

func footer(b *strings.Builder, results []Result) {
	var wrong, worst int64
	var bw, wall float64
	var frames, late uint64
	checked, failed, verdict := true, false, results[0].Fidelity.Verdict
	for i := range results {
		r := &results[i]
		checked = checked && r.Correct != nil
		failed = failed || r.Correct != nil && !*r.Correct
		wrong += r.Wrong()
		bw += r.BusBW
		wall += r.WallSeconds
		frames += r.Fidelity.Frames
		late += r.Fidelity.Late
		worst = max(worst, r.Fidelity.WorstLateNs)
		if !r.Fidelity.valid() {
			verdict = r.Fidelity.Verdict
		}
		for _, p := range r.PerRank {
			if p.Error != "" {
				fmt.Fprintf(b, "# failed: %s\n", p.Error)
			}
		}
	}
	switch {
	case !checked:
		fmt.Fprintf(b, "# Out of bounds values : N/A (not checked)\n")
	case failed:
		fmt.Fprintf(b, "# Out of bounds values : %d FAILED\n", wrong)
	default:
		fmt.Fprintf(b, "# Out of bounds values : 0 OK\n")
	}
	fmt.Fprintf(b, "# Avg bus bandwidth    : %.2f Gb/s\n", bw/float64(len(results)))
	fmt.Fprintf(b, "# fidelity: %s; %d frames, %d late", verdict, frames, late)
	if late > 0 {
		fmt.Fprintf(b, " (worst by %d ns)", worst)
	}
	if wall > 0 { // not measured by a simulation, whose output must not depend on the machine
		fmt.Fprintf(b, "; wall %.2f s, %.0f times virtual time", wall, dilation(results))
	}
	b.WriteByte('\n')
}

// dilation of all results together: wall time over virtual time.
func dilation(results []Result) float64 {
	var wall, virtual float64
	for i := range results {
		if r := &results[i]; r.Dilation > 0 {
			wall += r.WallSeconds
			virtual += r.WallSeconds / r.Dilation
		}
	}
	if virtual == 0 {
		return 0
	}
	return wall / virtual
}

func us(ns int64) float64 { return float64(ns) / 1000 }
