package workload

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; got:\n%s\nwant:\n%s", path, got, want)
	}
}

func TestPercentile(t *testing.T) {
	upTo := func(n int) []int64 {
		s := make([]int64, n)
		for i := range s {
			s[i] = int64(i + 1)
		}
		return s
	}
	for _, c := range []struct {
		n, p int
		want int64
	}{
		{1, 50, 1}, {1, 99, 1}, {2, 50, 1}, {2, 51, 2}, {3, 50, 2}, {4, 50, 2}, {5, 50, 3}, {10, 99, 10}, {99, 99, 99},
		{100, 99, 99}, {101, 99, 100}, {200, 99, 198}, {1000, 99, 990}, {7, 0, 1}, {7, 100, 7},
	} {
		if got := percentile(upTo(c.n), c.p); got != c.want {
			t.Errorf("p%d of 1..%d: %d, want %d", c.p, c.n, got, c.want)
		}
	}
	if got := distribution([]int64{40, 10, 20, 31}); got != (FCT{10, 25, 20, 40, 40}) {
		t.Errorf("%+v", got)
	}
	if got := distribution(nil); got != (FCT{}) {
		t.Errorf("%+v", got)
	}
}

// spans gives a rank's iterations from start, end, acked triples.
func spans(rank int, v ...int64) RankResult {
	r := RankResult{Rank: rank, Checked: 4}
	for i := 0; i < len(v); i += 3 {
		r.Iterations = append(r.Iterations, Span{v[i], v[i+1], v[i+2]})
	}
	return r
}

func totals() Totals {
	return Totals{Packets: 12, PacketHops: 100, DataPacketHops: 60, Retransmits: 1, Trims: 0, Drops: 2, WallSeconds: 0.5,
		Fidelity: Fidelity{Frames: 100, Verdict: "exact"}}
}

func TestSummarize(t *testing.T) {
	s := Spec{Workload: Allreduce, Size: 64 << 10, Ranks: 2, Iters: 2, Check: true, Seed: 1}
	ranks := []RankResult{spans(1, 0, 5000, 4000, 9000, 15000, 15000), spans(0, 0, 6000, 6000, 8000, 14000, 13000)}
	r := Summarize(s, ranks, totals(), pairPlan())
	if r.FCT != (FCT{6000, 6500, 6000, 7000, 7000}) { // max over ranks, from the first start
		t.Errorf("collective: %+v", r.FCT)
	}
	if want := float64(64<<13) / 6500; r.AlgBW != want || r.BusBW != want {
		t.Errorf("bandwidth %v %v, want %v", r.AlgBW, r.BusBW, want)
	}
	if r.PerRank[0].Rank != 0 || r.Dilation != 0.5e9/15000 || r.Ratio != 7000/float64(r.IdealNs) || !r.OK() {
		t.Errorf("%+v", r)
	}
	s.Workload = Permutation
	if r := Summarize(s, ranks, totals(), nil); r.FCT != (FCT{4000, 5250, 5000, 6000, 6000}) || r.IdealNs != 0 {
		t.Errorf("flows: %+v", r.FCT) // acked - start of every rank and iteration
	}
	s.Workload, s.Ranks = Incast, 3
	inc := []RankResult{spans(0, 0, 90, -1), spans(1, 0, 80, 80), spans(2, 0, 100, 100)}
	s.Iters, s.Size = 1, 1000
	if r := Summarize(s, inc, totals(), nil); r.FCT.Min != 80 || r.FCT.P50 != 80 || r.AlgBW != 80 || r.BusBW != 160 {
		t.Errorf("incast: %+v", r)
	}
	if r := Summarize(s, inc[:2], totals(), nil); *r.Correct || r.OK() {
		t.Error("a run without one rank's report passes")
	}
	s.Check = false
	if r := Summarize(s, inc, totals(), nil); r.Correct != nil || !r.OK() {
		t.Errorf("unchecked: correct = %v", r.Correct)
	}
	bad := totals()
	bad.Fidelity.Verdict = "invalid: leaf0-spine0 lost a frame"
	if r := Summarize(s, inc, bad, nil); r.OK() {
		t.Error("an invalid run passes")
	}
	if r := Summarize(s, nil, Totals{}, nil); r.OK() || r.FCT.Max != 0 {
		t.Errorf("nothing: %+v", r)
	}
}

func sample() []Result {
	s := Spec{Workload: Allreduce, Size: 64 << 10, Ranks: 2, Iters: 2, Check: true, Seed: 1}
	ranks := []RankResult{spans(0, 0, 6000, 6000, 8000, 14000, 13000), spans(1, 0, 5000, 4000, 8000, 15000, 15000)}
	one := Summarize(s, ranks, totals(), pairPlan())
	s.Size *= 2
	wrong := []RankResult{ranks[0], ranks[1]}
	wrong[1].Wrong = 3
	t := totals()
	t.Fidelity = Fidelity{Frames: 70, Late: 2, WorstLateNs: 31, Verdict: "invalid: 2 late frames"}
	two := Summarize(s, wrong, t, pairPlan())
	return []Result{one, two}
}

// TestJSON pins the keys that scripts read.
func TestJSON(t *testing.T) {
	b, err := json.MarshalIndent(sample()[0], "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "result.json", append(b, '\n'))
	var back Result
	if err := json.Unmarshal(b, &back); err != nil || back.FCT != sample()[0].FCT || !*back.Correct {
		t.Errorf("%+v, %v", back, err)
	}
}

func TestTable(t *testing.T) {
	var b bytes.Buffer
	if err := WriteTable(&b, sample()); err != nil {
		t.Fatal(err)
	}
	golden(t, "table.txt", b.Bytes())
	b.Reset()
	s := Spec{Workload: Incast, Size: 4096, Ranks: 2, Iters: 1, Seed: 9}
	failed := spans(1, 0, 80, 80)
	failed.Error = "rank 1: iteration 0, send to rank 0: the peer is gone"
	if err := WriteTable(&b, []Result{
		Summarize(s, []RankResult{spans(0, 0, 90, -1), spans(1, 0, 80, 80)}, Totals{Fidelity: Fidelity{Verdict: "real"}}, nil),
	}); err != nil {
		t.Fatal(err)
	}
	s.Check = true
	if err := WriteTable(&b, []Result{Summarize(s, []RankResult{failed}, totals(), nil)}); err != nil {
		t.Fatal(err)
	}
	golden(t, "table-flows.txt", b.Bytes())
	b.Reset()
	if err := WriteTable(&b, nil); err != nil || b.Len() > 0 {
		t.Errorf("nothing: %q, %v", b.String(), err)
	}
}
