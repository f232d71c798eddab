package main

import (
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/uetlab/uetlab/fabric/experiment"
	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/workload"
)

// figure is what one of the two simulators measured. Times are in us; of a collective Mean is 0 and Max is its whole time.
type figure struct {
	Runs       int     `json:"runs"`
	Ideal      float64 `json:"ideal"`
	Mean       float64 `json:"mean,omitempty"`
	Max        float64 `json:"max,omitempty"`
	MeanRatio  float64 `json:"meanRatio,omitempty"`
	MaxRatio   float64 `json:"maxRatio,omitempty"`
	Trims      float64 `json:"trims"`
	Retx       float64 `json:"retransmits"`
	Unfinished string  `json:"finished,omitempty"` // where not all flows finish: how many of how many did
}

// row is a line of the table.
type row struct {
	Row        string  `json:"row"`
	Experiment string  `json:"experiment"`
	Variant    string  `json:"variant"`
	Run        string  `json:"htsimRun"`
	ACK        string  `json:"ack"`
	MSS        string  `json:"mss"` // of htsim / ours
	RTO        string  `json:"rto"`
	Htsim      figure  `json:"htsim"`
	Ours       figure  `json:"uetlab"`
	Whole      bool    `json:"makespan,omitempty"` // a collective: Max is its time, compared as a ratio to the ideal
	MeanOff    float64 `json:"meanOffPercent"`
	MaxOff     float64 `json:"maxOffPercent"`
	Far        bool    `json:"far,omitempty"` // more than the tolerance away
	Cause      string  `json:"cause,omitempty"`
	Spread     string  `json:"spread,omitempty"` // of our runs, for cause draws
	Command    string  `json:"command"`
}

// table is all of it.
type table struct {
	Rows []row `json:"rows"`
}

// htsimMSS is the payload of htsim's packets of 4150 bytes with 64 of headers.
const htsimMSS = 4086

// readCSV gives the lines of a file as maps by the names in its first line.
func readCSV(path string) ([]map[string]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	lines, err := csv.NewReader(f).ReadAll()
	_ = f.Close()
	if err != nil || len(lines) == 0 {
		return nil, fmt.Errorf("%s: empty, or %w", path, err)
	}
	var out []map[string]string
	for _, l := range lines[1:] {
		m := map[string]string{}
		for i, name := range lines[0] {
			m[name] = l[i]
		}
		out = append(out, m)
	}
	return out, nil
}

func number(s string) float64 {
	f, _ := strconv.ParseFloat(s, 64)
	return f
}

func newTable(list []*experiment.Comparison) (*table, error) {
	figures, err := readCSV(filepath.Join(dataDir, "figures.csv"))
	if err != nil {
		return nil, err
	}
	byName := map[string]map[string]string{}
	for _, f := range figures {
		byName[f["run"]] = f
	}
	rows, err := readCSV(filepath.Join(labDir, "rows.csv"))
	if err != nil {
		return nil, err
	}
	t := &table{}
	for _, m := range rows {
		c, o := find(list, m["experiment"], m["variant"])
		f := byName[m["htsim"]]
		if o == nil || f == nil || o.Error != "" {
			return nil, fmt.Errorf("row %s %s %s: no figures of one of the two", m["row"], m["experiment"], m["variant"])
		}
		r, err := newRow(m, f, c, o)
		if err != nil {
			return nil, err
		}
		t.Rows = append(t.Rows, *r)
	}
	return t, nil
}

func find(list []*experiment.Comparison, name, variant string) (*experiment.Comparison, *experiment.Outcome) {
	for _, c := range list {
		if c.Name != "htsim-"+name {
			continue
		}
		for i := range c.Variants {
			if c.Variants[i].Name == variant {
				return c, &c.Variants[i]
			}
		}
	}
	return nil, nil
}

func newRow(m, f map[string]string, c *experiment.Comparison, o *experiment.Outcome) (*row, error) {
	s, n := &o.Stats, number(f["runs"])
	r := &row{Row: m["row"], Experiment: m["experiment"], Variant: o.Name, Run: m["htsim"], Whole: f["figure"] == "makespan", Cause: m["cause"],
		Htsim:   figure{Runs: int(n), Ideal: number(f["ideal_us"]), Mean: number(f["mean_us"]), Max: number(f["max_us"]), Trims: number(f["trims"]), Retx: number(f["retransmits"]), Unfinished: f["done"]},
		Ours:    figure{Runs: len(o.Runs), Ideal: micro(s.Ideal), Trims: float64(s.Trims), Retx: float64(s.Retransmits)},
		Command: "uetlab compare " + filepath.Join(labDir, m["experiment"]+".yaml") + " --sim"}
	r.ACK = "16 KiB"
	if o.FEP["ack"] == "packet" {
		r.ACK = "packet"
	}
	if err := r.settings(c, o); err != nil {
		return nil, err
	}
	stretch := cmpOr(number(m["stretch"]), 1) // of the ideal, where a part of the fabric is missing
	r.Ours.Ideal *= stretch
	means, maxima := perRun(o)
	switch {
	case s.Unfinished > 0:
		r.Ours.Unfinished = fmt.Sprintf("%d/%d", int(float64(s.Flows)-float64(s.Unfinished))/len(o.Runs), s.Flows/len(o.Runs))
		r.Htsim.Mean, r.Htsim.Max = 0, 0
		return r, nil
	case r.Whole:
		r.Ours.Max = micro(s.Makespan)
		maxima = nil
		for i := range o.Runs {
			maxima = append(maxima, makespan(&o.Runs[i].Result)/1000*r.Htsim.Ideal/r.Ours.Ideal)
		}
	default:
		r.Ours.Mean, r.Ours.Max = micro(s.Mean), micro(s.Last)
	}
	for _, x := range []*figure{&r.Htsim, &r.Ours} {
		x.MeanRatio, x.MaxRatio = x.Mean/x.Ideal, x.Max/x.Ideal
	}
	r.compare(means, maxima)
	return r, nil
}

// compare says how far the two are from each other, and whether draws alone explain it.
func (r *row) compare(means, maxima []float64) {
	h, u := &r.Htsim, &r.Ours
	if r.Whole {
		r.MaxOff = 100 * (u.MaxRatio/h.MaxRatio - 1)
	} else {
		r.MeanOff, r.MaxOff = 100*(u.Mean/h.Mean-1), 100*(u.Max/h.Max-1)
	}
	meanFar, maxFar := math.Abs(r.MeanOff) > 100*tolerance, math.Abs(r.MaxOff) > 100*tolerance
	if r.Far = meanFar || maxFar; !r.Far || r.Cause != "" {
		return
	}
	if (!meanFar || within(h.Mean, means)) && (!maxFar || within(h.Max, maxima)) {
		r.Cause = "draws"
		low, high := bounds(maxima)
		r.Spread = fmt.Sprintf("%.0f to %.0f", low, high)
	}
}

func within(x float64, of []float64) bool {
	low, high := bounds(of)
	return low <= x && x <= high
}

func bounds(of []float64) (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, x := range of {
		low, high = min(low, x), max(high, x)
	}
	return low, high
}

// perRun are the mean and the largest FCT of each run, us.
func perRun(o *experiment.Outcome) (means, maxima []float64) {
	for i := range o.Runs {
		sum, most, n := 0.0, 0.0, 0
		for _, f := range experiment.Flows(&o.Runs[i].Result) {
			d := float64(f.EndNs-f.StartNs) / 1000
			sum, most, n = sum+d, max(most, d), n+1
		}
		means, maxima = append(means, sum/float64(max(1, n))), append(maxima, most)
	}
	return means, maxima
}

func makespan(r *workload.Result) (ns float64) {
	for _, p := range r.PerRank {
		for _, i := range p.Iterations {
			ns = max(ns, float64(i.EndNs), float64(i.AckedNs))
		}
	}
	return ns
}

func micro(n experiment.Number) float64 { return float64(n) / 1000 }

func cmpOr(a, b float64) float64 {
	if a != 0 {
		return a
	}
	return b
}

// settings works out what packets and timeouts are in the experiment's fabric.
func (r *row) settings(c *experiment.Comparison, o *experiment.Outcome) error {
	path := filepath.Join(labDir, c.Topology)
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	read := topology.Parse
	if strings.HasSuffix(path, ".topo") {
		read = topology.ParseHTSim
	}
	spec, err := read(path, text)
	if err != nil {
		return err
	}
	plan, err := topology.BuildPlan(spec)
	if err != nil {
		return err
	}
	for i := range plan.Nodes {
		if plan.Nodes[i].Kind != topology.KindFEP {
			continue
		}
		own, err := plan.OverrideFEP(i, o.FEP)
		if err != nil {
			return err
		}
		d, err := own.Resolved(plan.Around(i))
		if err != nil {
			return err
		}
		r.MSS = fmt.Sprintf("%d / %d", htsimMSS, d.CC.Net.MSS)
		r.RTO = fmt.Sprintf("%s / %.1f", htsimRTO(c.Topology), float64(d.RTOInit.Nanoseconds())/1000)
		return nil
	}
	return fmt.Errorf("%s: no end point", path)
}

// htsimRTO is what htsim printed for the fabric, us.
func htsimRTO(topo string) string {
	switch {
	case strings.Contains(topo, "-drops"):
		return "304"
	case strings.Contains(topo, "ft128"):
		return "100.7"
	}
	return "72.8"
}
