package experiment

import (
	"encoding/json"
	"math"
	"slices"

	"github.com/uetlab/uetlab/workload"
)

// Number is a statistic. JSON has null where it has no finite value: the time of a flow that never finished.
type Number float64

// MarshalJSON implements json.Marshaler.
func (n Number) MarshalJSON() ([]byte, error) {
	if f := float64(n); math.IsInf(f, 0) || math.IsNaN(f) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

// Stats are the statistics of one variant. Completion times (FCT, ns of virtual time) are of all flows of all its runs: from
// post to last acknowledgement for permutation, incast, sendrecv and matrix; of whole iterations for a collective. A flow that
// has not finished takes for ever: what depends on its time is infinite. Times of ends count from the start of the run.
type Stats struct {
	Flows      int    `json:"flows"`      // that there should be
	Unfinished Number `json:"unfinished"` // of them, those that did not end in time
	Mean       Number `json:"mean"`
	P50        Number `json:"p50"` // percentiles are nearest rank
	P99        Number `json:"p99"`
	Min        Number `json:"min"`
	Max        Number `json:"max"`
	Ideal      Number `json:"ideal"`     // lower bound on an idle, healthy fabric, ns; mean over the runs
	MeanRatio  Number `json:"meanRatio"` // of FCT to the ideal of its run
	MaxRatio   Number `json:"maxRatio"`

	// Means over the runs, one a seed.
	First       Number `json:"first"`    // end of the first flow, ns
	Last        Number `json:"last"`     // end of the last one, ns
	Makespan    Number `json:"makespan"` // end of the last rank, ns
	Jain        Number `json:"jain"`     // Jain's index of the flows' rates (size / FCT; 0 for one that has not finished): 1 is fair, 1/n is all to one
	JainFCT     Number `json:"jainFct"`  // of their FCTs
	Goodput     Number `json:"goodput"`  // payload / makespan, Gb/s
	Packets     Number `json:"packets"`  // data packets sent, retransmissions included
	Trims       Number `json:"trims"`
	Drops       Number `json:"drops"`
	Retransmits Number `json:"retransmits"`
	Marks       Number `json:"marks"` // frames that queues marked

	PeakQueue Number `json:"peakQueue"` // the most that waited in one egress queue of a switch, bytes; the largest of all runs

	Sampled *Sampled `json:"sampled,omitempty"` // what runs were sampled for, if they were
}

// statistics are what expressions can ask for.
var statistics = []struct {
	key string
	of  func(*Stats) Number
}{
	{"mean", func(s *Stats) Number { return s.Mean }},
	{"p50", func(s *Stats) Number { return s.P50 }},
	{"p99", func(s *Stats) Number { return s.P99 }},
	{"min", func(s *Stats) Number { return s.Min }},
	{"max", func(s *Stats) Number { return s.Max }},
	{"ideal", func(s *Stats) Number { return s.Ideal }},
	{"meanRatio", func(s *Stats) Number { return s.MeanRatio }},
	{"maxRatio", func(s *Stats) Number { return s.MaxRatio }},
	{"first", func(s *Stats) Number { return s.First }},
	{"last", func(s *Stats) Number { return s.Last }},
	{"makespan", func(s *Stats) Number { return s.Makespan }},
	{"jain", func(s *Stats) Number { return s.Jain }},
	{"jainFct", func(s *Stats) Number { return s.JainFCT }},
	{"goodput", func(s *Stats) Number { return s.Goodput }},
	{"packets", func(s *Stats) Number { return s.Packets }},
	{"trims", func(s *Stats) Number { return s.Trims }},
	{"drops", func(s *Stats) Number { return s.Drops }},
	{"retransmits", func(s *Stats) Number { return s.Retransmits }},
	{"marks", func(s *Stats) Number { return s.Marks }},
	{"peakQueue", func(s *Stats) Number { return s.PeakQueue }},
	{"flows", func(s *Stats) Number { return Number(s.Flows) }},
	{"unfinished", func(s *Stats) Number { return s.Unfinished }},
}

// Keys lists the statistics that expressions can ask for.
func Keys() []string {
	var out []string
	for _, x := range statistics {
		out = append(out, x.key)
	}
	for _, x := range sampled {
		out = append(out, x.key)
	}
	return out
}

// numbers gives the statistics by key.
func (s *Stats) numbers() map[string]float64 {
	m := make(map[string]float64, len(statistics)+len(sampled))
	for _, x := range statistics {
		m[x.key] = float64(x.of(s))
	}
	for _, x := range sampled {
		if m[x.key] = math.NaN(); s.Sampled != nil {
			m[x.key] = float64(*x.of(s.Sampled))
		}
	}
	return m
}

// Run is one run of a variant.
type Run struct {
	Seed   uint64          `json:"seed"` // 0: that of the workload
	Flows  int             `json:"flows"`
	Result workload.Result `json:"result"`
}

// Flow is one flow, or one iteration of a collective.
type Flow struct {
	StartNs, EndNs int64 // since the start of the run
	Bytes          int64
}

// Flows gives the flows of a result that have finished.
func Flows(r *workload.Result) (list []Flow) {
	for _, f := range r.PerFlow {
		list = append(list, Flow{f.StartNs, f.EndNs, f.SizeBytes})
	}
	if r.Workload == workload.Matrix {
		return list
	}
	spec := workload.Spec{Workload: r.Workload}
	if spec.Flows() {
		for _, p := range r.PerRank {
			for _, s := range p.Iterations {
				if s.AckedNs >= 0 {
					list = append(list, Flow{s.StartNs, s.AckedNs, r.SizeBytes})
				}
			}
		}
		return list
	}
	for i := range r.Iterations {
		f, ranks := Flow{StartNs: math.MaxInt64, Bytes: r.SizeBytes}, 0
		for _, p := range r.PerRank {
			if i < len(p.Iterations) {
				f.StartNs, f.EndNs, ranks = min(f.StartNs, p.Iterations[i].StartNs), max(f.EndNs, p.Iterations[i].EndNs), ranks+1
			}
		}
		if ranks == r.Ranks && ranks > 0 {
			list = append(list, f)
		}
	}
	return list
}

// Count is how many flows a run of spec has, in the sense of Flows.
func Count(spec *workload.Spec) int {
	switch {
	case spec.Workload == workload.Matrix:
		return len(spec.Matrix.Flows) * spec.Iters
	case spec.Workload == workload.Incast:
		return (spec.Ranks - 1) * spec.Iters
	case spec.Flows():
		return spec.Ranks * spec.Iters
	}
	return spec.Iters
}

// Jain is Jain's index of fairness of some values, none of which is negative: (Σx)² / (n Σx²). It is 1 for none.
func Jain(values []float64) float64 {
	var sum, squares float64
	for _, v := range values {
		sum += v
		squares += v * v
	}
	if squares == 0 {
		return 1
	}
	return sum * sum / (float64(len(values)) * squares)
}

// statsOf works out the statistics of a variant's runs.
func statsOf(runs []Run) Stats {
	var s Stats
	var times, ratios []float64
	for i := range runs {
		r := &runs[i]
		t := s.add(r)
		for _, x := range t {
			if times = append(times, x); r.Result.IdealNs > 0 {
				ratios = append(ratios, x/float64(r.Result.IdealNs))
			}
		}
	}
	n := Number(max(1, len(runs)))
	for _, v := range []*Number{&s.Ideal, &s.First, &s.Last, &s.Makespan, &s.Jain, &s.JainFCT, &s.Goodput, &s.Packets, &s.Trims, &s.Drops, &s.Retransmits, &s.Marks} {
		*v /= n
	}
	slices.Sort(times)
	if len(times) > 0 {
		s.Mean, s.Min, s.Max = Number(mean(times)), Number(times[0]), Number(times[len(times)-1])
		s.P50, s.P99 = Number(percentile(times, 50)), Number(percentile(times, 99))
	}
	if len(ratios) > 0 {
		s.MeanRatio, s.MaxRatio = Number(mean(ratios)), Number(slices.Max(ratios))
	}
	return s
}

// add sums one run up and gives its flows' times.
func (s *Stats) add(run *Run) (times []float64) {
	r := &run.Result
	flows := Flows(r)
	missing := max(0, run.Flows-len(flows))
	s.Flows += len(flows) + missing
	s.Unfinished += Number(missing)
	first, last, makespan := math.Inf(1), 0.0, 0.0
	var bytes int64
	var rates []float64
	for _, f := range flows {
		t := float64(f.EndNs - f.StartNs)
		times = append(times, t)
		rates = append(rates, float64(f.Bytes)/max(t, 1))
		first, last = min(first, float64(f.EndNs)), max(last, float64(f.EndNs))
		bytes += f.Bytes
	}
	for _, p := range r.PerRank {
		for _, i := range p.Iterations {
			makespan = max(makespan, float64(i.EndNs), float64(i.AckedNs))
		}
	}
	s.JainFCT += Number(Jain(times))
	for range missing {
		times, rates = append(times, math.Inf(1)), append(rates, 0)
		last, makespan = math.Inf(1), math.Inf(1)
	}
	if !(&workload.Spec{Workload: r.Workload}).Flows() {
		bytes = 0
		for _, p := range r.PerRank {
			bytes += p.SentBytes
		}
	}
	if makespan > 0 {
		s.Goodput += Number(float64(bytes) * 8 / makespan)
	}
	s.First, s.Last, s.Makespan = s.First+Number(first), s.Last+Number(last), s.Makespan+Number(makespan)
	if len(flows) == 0 && missing > 0 { // nothing to be fair about
		s.Jain, s.JainFCT = Number(math.NaN()), Number(math.NaN())
	}
	s.Jain += Number(Jain(rates))
	s.Ideal += Number(r.IdealNs)
	s.Packets, s.Trims, s.Drops, s.Retransmits = s.Packets+Number(r.Packets), s.Trims+Number(r.Trims), s.Drops+Number(r.Drops), s.Retransmits+Number(r.Retransmits)
	for _, q := range r.Queues {
		s.Marks += Number(q.ECNMarked)
	}
	s.PeakQueue = max(s.PeakQueue, Number(r.PeakQueue))
	return times
}

func mean(v []float64) float64 {
	var sum float64
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}

// percentile is the nearest rank: the smallest value such that p per cent of all are no larger.
func percentile(sorted []float64, p int) float64 {
	return sorted[max(0, (len(sorted)*p+99)/100-1)]
}
