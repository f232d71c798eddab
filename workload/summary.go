package workload

import (
	"math"
	"slices"

	"github.com/uetlab/uetlab/fabric/topology"
)

// Summarize makes the result of one run out of what its ranks and the fabric report. Without a plan, or where the plan
// has no answer, idealNs and ratio are 0.
func Summarize(spec Spec, ranks []RankResult, totals Totals, plan *topology.Plan) Result {
	per := slices.Clone(ranks)
	slices.SortFunc(per, func(a, b RankResult) int { return a.Rank - b.Rank })
	r := Result{
		Workload: spec.Workload, Ranks: spec.Ranks, SizeBytes: spec.Size, Iterations: spec.Iters,
		Packets: totals.Packets, PacketHops: totals.PacketHops, DataPacketHops: totals.DataPacketHops,
		Retransmits: totals.Retransmits, Trims: totals.Trims, Drops: totals.Drops,
		Fidelity: totals.Fidelity, WallSeconds: totals.WallSeconds, Seed: spec.Seed, PerRank: per, FEP: spec.FEP,
	}
	r.Correct = verdict(spec, per)
	whole := iterationTimes(spec, per)
	samples := whole
	worst := int64(0)
	switch {
	case spec.Workload == Matrix && spec.Matrix != nil:
		r.SizeBytes = spec.Matrix.Bytes()
		r.PerFlow, samples = perFlow(spec.Matrix, per, plan)
		worst = slices.Max(append(whole, 0))
	case spec.Flows():
		samples = flowTimes(per)
	}
	r.FCT = distribution(samples)
	worst = max(worst, r.FCT.Max)
	if plan != nil {
		if ns, _, err := IdealNs(spec, plan); err == nil && ns > 0 {
			r.IdealNs = ns
			r.Ratio = float64(worst) / float64(ns)
		}
	}
	if t := mean(whole); t > 0 {
		r.AlgBW = float64(r.SizeBytes) * 8 / t // bits per ns = Gb/s
		r.BusBW = r.AlgBW * busFactor(spec)
	}
	if end := lastEnd(per); end > 0 {
		r.Dilation = totals.WallSeconds * 1e9 / float64(end)
	}
	return r
}

// verdict says whether all data were right: false too if a rank failed or did not report, nil if nobody looked.
func verdict(spec Spec, per []RankResult) *bool {
	ok := len(per) == spec.Ranks
	for _, r := range per {
		ok = ok && r.Error == "" && r.Wrong == 0 && len(r.Iterations) == spec.Iters
	}
	if ok && !spec.Check {
		return nil
	}
	return &ok
}

// OK says whether the run did what it should: every rank finished, nothing that was checked is wrong, and the verdict on
// time is not invalid.
func (r *Result) OK() bool {
	for _, p := range r.PerRank {
		if p.Error != "" || p.Wrong > 0 {
			return false
		}
	}
	return (r.Correct == nil || *r.Correct) && r.Fidelity.valid()
}

// Wrong is the number of elements that differ from what must come out, over all ranks and iterations.
func (r *Result) Wrong() int64 {
	var n int64
	for _, p := range r.PerRank {
		n += p.Wrong
	}
	return n
}

// iterationTimes gives for every iteration that all ranks finished the time from the first rank's start to the last
// one's end. With a guard, or in iteration 0, all start together: it is then the largest over the ranks.
func iterationTimes(spec Spec, per []RankResult) []int64 {
	var out []int64
	for i := range spec.Iters {
		first, last := int64(math.MaxInt64), int64(0)
		for _, r := range per {
			if i >= len(r.Iterations) {
				return out
			}
			first, last = min(first, r.Iterations[i].StartNs), max(last, r.Iterations[i].EndNs)
		}
		if len(per) > 0 {
			out = append(out, last-first)
		}
	}
	return out
}

// flowTimes gives post to acknowledged of every flow.
func flowTimes(per []RankResult) []int64 {
	var out []int64
	for _, r := range per {
		for _, s := range r.Iterations {
			if s.AckedNs >= 0 {
				out = append(out, s.AckedNs-s.StartNs)
			}
		}
	}
	return out
}

func distribution(samples []int64) FCT {
	if len(samples) == 0 {
		return FCT{}
	}
	s := slices.Sorted(slices.Values(samples))
	return FCT{
		Min: s[0], Mean: int64(math.Round(mean(s))), P50: percentile(s, 50), P99: percentile(s, 99), Max: s[len(s)-1],
	}
}

// percentile is the nearest rank: the smallest sample such that p per cent of all are no larger.
func percentile(sorted []int64, p int) int64 {
	return sorted[max(0, (len(sorted)*p+99)/100-1)]
}

func mean(samples []int64) float64 {
	if len(samples) == 0 {
		return 0
	}
	var sum float64
	for _, v := range samples {
		sum += float64(v)
	}
	return sum / float64(len(samples))
}

func lastEnd(per []RankResult) int64 {
	var end int64
	for _, r := range per {
		for _, s := range r.Iterations {
			end = max(end, s.EndNs)
		}
	}
	return end
}

// busFactor turns algorithm bandwidth into what a link carries, as nccl-tests does; for incast it is what
// the receiver takes in.
func busFactor(spec Spec) float64 {
	n := float64(spec.Ranks)
	switch spec.Workload {
	case Allreduce:
		return 2 * (n - 1) / n
	case Allgather, Alltoall:
		return (n - 1) / n
	case Incast:
		return n - 1
	}
	return 1
}
