package report

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/uetlab/uetlab/fabric/experiment"
	"github.com/uetlab/uetlab/workload"
)

// comparison is one of n variants and one that failed, with texts that are none of our friends.
func comparison(n int) *experiment.Comparison {
	c := &experiment.Comparison{Name: "x", Claim: `<script src="https://evil.example/x.js"></script>`, Source: "a & b", Topology: "pair<b>", Workload: []string{"incast", "--size", "1MiB"},
		Seeds: []uint64{1, 2}, Command: `uetlab compare '<img>'`, Version: "v<0>", EndPoints: []string{"host0", "host1"},
		Checks: []experiment.Check{{Text: "v0.max < 3", OK: true, Figures: "2"}, {Text: "v1.max < 3", Figures: "4 & more"}}}
	for i := range n {
		r := workload.Result{Workload: workload.Incast, Ranks: 3, SizeBytes: 1000, Iterations: 1, IdealNs: 1000, FCT: workload.FCT{Max: 2000},
			Series: &workload.Series{EveryNs: 100, Ports: []workload.PortSeries{
				{Node: "host0", Port: "eth1", Depth: []int64{1, 2}, Sent: []int64{1000, 500}},
				{Node: "leaf0", Port: "eth<1>", Depth: []int64{5, 4096, 7}, Sent: []int64{9, 9, 9}}, {Node: "leaf1", Port: "eth1", Depth: []int64{70}, Sent: []int64{9}}},
				Contexts: []workload.ContextSeries{{Node: "host0", Peer: "host<2>", Points: []workload.ContextPoint{{AtNs: 0, Cwnd: 9000}, {AtNs: 150, Cwnd: 4000}}}}}}
		c.Variants = append(c.Variants, experiment.Outcome{Variant: experiment.Variant{Name: fmt.Sprintf("v%d", i), FEP: map[string]string{"lb": "reps", "cc": "nscc"}, Links: []string{"l <x>"}},
			Rank: i + 1, Stats: experiment.Stats{Flows: 2, Mean: 1500, Max: 2000, P99: 2000, Ideal: 1000, MaxRatio: 2, Jain: 0.9, JainFCT: 0.8},
			Runs: []experiment.Run{{Flows: 2, Result: r}, {Flows: 2, Result: r}}})
	}
	c.Variants = append(c.Variants, experiment.Outcome{Variant: experiment.Variant{Name: "broken"}, Error: "rank 1: <gone>"})
	return c
}

func written(t *testing.T, list ...*experiment.Comparison) string {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, list); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestPageNeedsNothingElse(t *testing.T) {
	page := written(t, comparison(3), comparison(1))
	if bad := regexp.MustCompile(`(?i)<script|<link|<img|<iframe|@import|url\(|<[a-z]+[^>]* (src|href)=|xlink|pair<b>|<gone>|<x>|eth<`).FindString(page); bad != "" {
		t.Errorf("%s in it", bad)
	}
	if urls := regexp.MustCompile(`https?://[^ "&<]*`).FindAllString(page, -1); len(urls) != 2 || urls[0] != "https://evil.example/x.js" {
		t.Errorf("addresses: %q", urls) // the claim's, as text
	}
	for _, want := range []string{"&lt;script src=", "a &amp; b", "pair&lt;b&gt;", "v&lt;0&gt;", "uetlab compare &#39;&lt;img&gt;&#39;", "v0 (best)", ">v1<", ">v2<", "broken", "failed: rank 1: &lt;gone&gt;",
		"cc=nscc, lb=reps", "Completion of flows", "Compared with the ideal", "Highest queue", "leaf0 eth&lt;1&gt;", "Rate of all senders", "Fairness", "Windows: v2", "host0 to host&lt;2&gt;",
		`<span class="fail">FAIL</span><code>v1.max &lt; 3</code> <span class="note">4 &amp; more</span>`, "flow completion time (µs)", "sent (Gb/s)", "cwnd (KiB)", "waiting (KiB)"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q", want)
		}
	}
	if again := written(t, comparison(3), comparison(1)); again != page {
		t.Error("another page for the same figures")
	}
}

// TestChartsAreXML reads every chart, and wants every coordinate to be in it.
func TestChartsAreXML(t *testing.T) {
	c := comparison(40) // more than there are colours for
	inf := experiment.Number(math.Inf(1))
	c.Variants[0].Stats.Max, c.Variants[0].Stats.Unfinished, c.Variants[0].Stats.Jain = inf, 1, experiment.Number(math.NaN())
	charts := regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(written(t, c), -1)
	if len(charts) != 6+panels {
		t.Errorf("%d charts", len(charts))
	}
	number := regexp.MustCompile(`[ MLHV,"](-?[0-9.]+|NaN|[+-]Inf)`)
	for i, svg := range charts {
		d := xml.NewDecoder(strings.NewReader(svg))
		for {
			if _, err := d.Token(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("chart %d: %v", i, err)
			}
		}
		for _, m := range number.FindAllStringSubmatch(svg, -1) {
			var v float64
			if _, err := fmt.Sscan(m[1], &v); err != nil || math.IsNaN(v) || v > width || v < -90 {
				t.Fatalf("chart %d has %q", i, m[0])
			}
		}
	}
	if page := written(t, c); !strings.Contains(page, fmt.Sprintf("The last %d variants are left out", 40-most)) {
		t.Error("nothing is said of the variants that are not drawn")
	}
}

func TestNothingWorked(t *testing.T) {
	if page := written(t, comparison(0)); strings.Contains(page, "<svg") || !strings.Contains(page, "failed: rank 1") {
		t.Error("charts of nothing, or no word of why")
	}
}

func TestTicks(t *testing.T) {
	for _, c := range []struct {
		hi   float64
		want string
	}{{100, "0 20 40 60 80 100"}, {1.05, "0.0 0.2 0.4 0.6 0.8 1.0"}, {0.007, "0.000 0.002 0.004 0.006"}, {845, "0 200 400 600 800"}, {1e-9, "0.0000000000 0.0000000002 0.0000000004 0.0000000006 0.0000000008 0.0000000010"}} {
		var got []string
		for _, t := range ticks(0, c.hi) {
			got = append(got, t.label)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%v: %q", c.hi, got)
		}
	}
}

func TestThin(t *testing.T) {
	values := make([]int64, 1000)
	for i := range values {
		values[i] = int64(i % 10)
	}
	top, n := thin(values, true)
	sum, m := thin(values, false)
	if len(top) != 250 || n != 4 || m != 4 || top[0] != 3 || sum[0] != 6 || top[2] != 9 {
		t.Errorf("%d values of %d: %v; %v", len(top), n, top[:5], sum[:5])
	}
}

// TestCDFCountsWhatIsMissing wants a curve that stays below 100 % where flows did not finish.
func TestCDFCountsWhatIsMissing(t *testing.T) {
	r := workload.Result{Workload: workload.Incast, SizeBytes: 1, PerRank: []workload.RankResult{{Iterations: []workload.Span{{AckedNs: 3000}}}, {Iterations: []workload.Span{{AckedNs: 1000}}}}}
	got := cdf(&experiment.Outcome{Runs: []experiment.Run{{Flows: 4, Result: r}}}, unit{"µs", 1e3})
	if fmt.Sprint(got) != "[{0 0} {1 0} {1 25} {3 50}]" {
		t.Errorf("%v", got)
	}
}
