package experiment

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/uetlab/uetlab/workload"
	"github.com/uetlab/uetlab/workload/matrix"
)

func near(a Number, b float64) bool {
	return math.Abs(float64(a)-b) <= 1e-9*max(1, math.Abs(b)) || math.IsInf(b, 1) && math.IsInf(float64(a), 1)
}

func TestJain(t *testing.T) {
	for _, c := range []struct {
		of   []float64
		want float64
	}{
		{nil, 1}, {[]float64{5}, 1}, {[]float64{3, 3, 3}, 1}, {[]float64{1, 0}, 0.5}, {[]float64{0, 0, 0, 8}, 0.25},
		{[]float64{1, 2, 3}, 36.0 / 42}, {[]float64{0, 0}, 1},
	} {
		if got := Jain(c.of); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%v: %v, want %v", c.of, got, c.want)
		}
	}
}

// incast is a run of four ranks whose three senders take so long.
func incast(ideal int64, times ...int64) Run {
	r := workload.Result{Workload: workload.Incast, Ranks: 4, SizeBytes: 1000, Iterations: 1, IdealNs: ideal,
		PerRank: []workload.RankResult{{Rank: 0, Iterations: []workload.Span{{StartNs: 0, EndNs: 400, AckedNs: -1}}}}}
	for i, t := range times {
		r.PerRank = append(r.PerRank, workload.RankResult{Rank: i + 1, SentBytes: 1000, Iterations: []workload.Span{{StartNs: 10, EndNs: t + 5, AckedNs: t + 10}}})
	}
	return Run{Flows: 3, Result: r}
}

// TestStatistics compares with numbers that were worked out by hand.
func TestStatistics(t *testing.T) {
	a, b := incast(100, 100, 200, 300), incast(200, 400, 400, 400)
	a.Result.Trims, a.Result.Drops, a.Result.Retransmits, a.Result.Packets, a.Result.PeakQueue = 10, 2, 12, 30, 5000
	b.Result.Trims, b.Result.PeakQueue = 5, 7000
	a.Result.Queues = []workload.QueueResult{{ECNMarked: 3, PeakBytes: 9999}, {ECNMarked: 4}}
	s := statsOf([]Run{a, b})
	got := s.numbers()
	for key, want := range map[string]float64{
		"flows": 6, "unfinished": 0, "mean": 300, "p50": 300, "p99": 400, "min": 100, "max": 400, "ideal": 150,
		"meanRatio": (1 + 2 + 3 + 2 + 2 + 2) / 6.0, "maxRatio": 3,
		"first": (110 + 410) / 2.0, "last": (310 + 410) / 2.0, "makespan": (400 + 410) / 2.0,
		// rates 10, 5, 10/3: (55/3)² / (3 · (100 + 25 + 100/9)); of the second run 1
		"jain": (math.Pow(55.0/3, 2)/(3*(125+100.0/9)) + 1) / 2, "jainFct": (600.0*600/(3*140000) + 1) / 2,
		"goodput": (3000*8/400.0 + 3000*8/410.0) / 2, "packets": 15, "trims": 7.5, "drops": 1, "retransmits": 6, "marks": 3.5, "peakQueue": 7000,
	} {
		if !near(Number(got[key]), want) {
			t.Errorf("%s: %v, want %v", key, got[key], want)
		}
		delete(got, key)
	}
	for _, x := range sampled { // nothing was
		if v, ok := got[x.key]; !ok || !math.IsNaN(v) {
			t.Errorf("%s: %v", x.key, v)
		}
		delete(got, x.key)
	}
	if len(got) > 0 {
		t.Errorf("not looked at: %v", got)
	}
}

// TestUnfinishedFlowsCount holds flows that never end to be late, not absent.
func TestUnfinishedFlowsCount(t *testing.T) {
	s := statsOf([]Run{incast(100, 100, 200)})
	inf := math.Inf(1)
	for key, want := range map[string]float64{"flows": 3, "unfinished": 1, "mean": inf, "p50": 200, "p99": inf, "max": inf, "min": 100, "maxRatio": inf, "last": inf, "first": 110,
		"jain": 15.0 * 15 / (3 * 125), "goodput": 0} {
		if got := s.numbers()[key]; !near(Number(got), want) {
			t.Errorf("%s: %v, want %v", key, got, want)
		}
	}
	b, err := json.Marshal(&s)
	if err != nil || !strings.Contains(string(b), `"mean":null,"p50":200`) {
		t.Errorf("%s, %v", b, err)
	}
	if s = statsOf([]Run{incast(100)}); !math.IsNaN(float64(s.Jain)) || s.Unfinished != 3 {
		t.Errorf("nothing has finished: %+v", s)
	}
}

func TestFlowsOfEveryKind(t *testing.T) {
	m := workload.Result{Workload: workload.Matrix, Ranks: 2, PerFlow: []workload.FlowResult{{SizeBytes: 7, StartNs: 5, EndNs: 25, FCTNs: 20}},
		PerRank: []workload.RankResult{{Iterations: []workload.Span{{EndNs: 30, AckedNs: 25}}}}}
	if f := Flows(&m); len(f) != 1 || f[0] != (Flow{5, 25, 7}) {
		t.Errorf("matrix: %+v", f)
	}
	c := workload.Result{Workload: workload.Allreduce, Ranks: 2, SizeBytes: 9, Iterations: 2, PerRank: []workload.RankResult{
		{Iterations: []workload.Span{{StartNs: 1, EndNs: 10}, {StartNs: 12, EndNs: 20}}}, {Iterations: []workload.Span{{StartNs: 2, EndNs: 11}}}}}
	if f := Flows(&c); len(f) != 1 || f[0] != (Flow{1, 11, 9}) {
		t.Errorf("a collective of which the second iteration did not finish: %+v", f)
	}
	for _, x := range []struct {
		spec workload.Spec
		want int
	}{
		{workload.Spec{Workload: workload.Allreduce, Ranks: 8, Iters: 3}, 3}, {workload.Spec{Workload: workload.Incast, Ranks: 8, Iters: 2}, 14},
		{workload.Spec{Workload: workload.Permutation, Ranks: 8, Iters: 2}, 16}, {workload.Spec{Workload: workload.Matrix, Iters: 2, Matrix: &matrix.Matrix{Flows: make([]matrix.Flow, 5)}}, 10},
	} {
		if n := Count(&x.spec); n != x.want {
			t.Errorf("%s: %d flows, want %d", x.spec.Workload, n, x.want)
		}
	}
}
