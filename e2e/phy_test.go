package e2e

import (
	"context"
	"math"
	"strconv"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/workload"
)

// badCodewords has codewords go wrong everywhere, by their share and by the bit error rate of the line, with link layer retry and without.
const badCodewords = `
name: bad codewords
steps:
  - {at: +0, link: "host*-leaf*", set: "llr=on ucr=1e-4 rawber=1e-3"}
  - {at: +0, link: "leaf*-spine*", set: "ucr=1e-4"}
  - {at: +20us, link: leaf0-spine0, set: "rawber=2e-3 rate=50%"}
  - {at: +30us, link: leaf1-spine1, set: down}
  - {at: +40us, link: leaf1-spine1, set: down=off}
`

// TestPHYEqualsTheSimulation runs a permutation over lines with uncorrectable codewords, while somebody reads the statistics all the time.
// It equals the simulation to the nanosecond.
func TestPHYEqualsTheSimulation(t *testing.T) {
	l := sharedLab(t)
	l.freeClock(t)
	heal := func() {
		l.setAll(t, "llr=off")
		l.mend(t)
	}
	t.Cleanup(heal)
	file := write(t, badCodewords)
	spec := workload.Spec{Workload: workload.Permutation, Size: 1 << 20, Iters: 1, Check: true, Seed: 1}
	calm, want := simulate(t, &l.plan, spec, nil), simulate(t, &l.plan, spec, storming(t, l, badCodewords))
	if want.FCT == calm.FCT || want.Drops == 0 || want.Correct != "true" {
		t.Fatalf("the script does too little: %+v", want)
	}
	for range 2 {
		l.ok(t, "chaos", file)
		p := l.startRun(t, "permutation", "--size", "1MiB", "--check", "--seed", "1")
		for !p.ended() {
			l.ok(t, "phy", "leaf0-spine0", "host0-leaf0")
		}
		same(t, "a run over bad codewords", result(t, p), want)
		heal()
	}
	same(t, "a run after it", l.run(t, "permutation", "--size", "1MiB", "--check", "--seed", "1"), calm)
}

// TestPHY02_MetricsAgreeWithTheTotals scrapes the metrics of a real lab while nothing moves: histogram, totals, mean time between errors and
// estimates fit together and are what `uetlab phy` says.
func TestPHY02_MetricsAgreeWithTheTotals(t *testing.T) {
	l := sharedLab(t)
	l.freeClock(t)
	t.Cleanup(func() { l.mend(t) })
	l.ok(t, "link", "set", "leaf0-spine0", "ucr=1e-3", "rawber=1e-3")
	l.ok(t, "link", "set", "host0-leaf0", "ber=1e-6")
	l.run(t, "permutation", "--size", "1MiB", "--check", "--seed", "1")
	l.clockTo(t, "pause")
	list := decode[[]api.PHY](t, l.ok(t, "phy", "--format", "json"))
	page, err := l.api.Metrics(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer page.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(page)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 2*len(l.plan.Links) {
		t.Fatalf("%d directions of %d links", len(list), len(l.plan.Links))
	}
	for i := range list {
		d := &list[i]
		node, port := d.From.Node, d.From.Port
		labels := map[string]string{"lab": l.name, "node": node, "port": port, "link": d.Link}
		value := func(name string) float64 { return phyMetric(t, families, name, labels) }
		sum, symbols, words := 0.0, 0.0, value("codewords_total")
		for k := range d.Histogram {
			labels["symbols"] = strconv.Itoa(k)
			v := value("codewords_by_symbol_errors_total")
			if v != float64(d.Histogram[k]) {
				t.Errorf("%s from %s: S%d is %v in the metrics, %d by phy", d.Link, d.From, k, v, d.Histogram[k])
			}
			if sum += v; k < 16 {
				symbols += float64(k) * v
			}
		}
		last := value("codewords_by_symbol_errors_total")
		delete(labels, "symbols")
		if bad := value("uncorrectable_codewords_total"); sum != words || last != bad || symbols != value("symbol_errors_total") || words == 0 {
			t.Errorf("%s from %s: %v codewords, histogram %v; %v uncorrectable, S16 %v", d.Link, d.From, words, sum, bad, last)
		} else if bad > 0 && math.Abs(value("mtbpe_seconds")*bad/words*1e9-d.CodewordNs) > 1e-6 {
			t.Errorf("%s from %s: MTBPE %v s for %v of %v codewords of %v ns", d.Link, d.From, value("mtbpe_seconds"), bad, words, d.CodewordNs)
		}
		sick := d.Link == "leaf0-spine0" || d.Link == "host0-leaf0"
		if sick && (d.Uncorrectable == 0 || value("raw_ber") == 0 || value("post_fec_ber") == 0 || d.FCSErrors == 0 || value("fcs_errors_total") != float64(d.FCSErrors)) {
			t.Errorf("%+v", *d)
		}
	}
	l.clockTo(t, "resume")
}

func phyMetric(t *testing.T, families map[string]*dto.MetricFamily, name string, labels map[string]string) float64 {
	t.Helper()
	for _, m := range families["uetlab_phy_"+name].GetMetric() {
		if has(m, labels) {
			return m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	t.Errorf("no metric uetlab_phy_%s of %v", name, labels)
	return 0
}
