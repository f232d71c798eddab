package experiment

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/uetlab/uetlab/workload"
)

// sampledRun has two core ports, one that sent nothing, one towards an end point and one of an end point, in steps of 100 ns. The first flow ends
// in the fifth step.
func sampledRun() Run {
	r := incast(100, 400, 600, 700)
	port := func(node, link string, depth, sent []int64) workload.PortSeries {
		return workload.PortSeries{Node: node, Port: "eth1", Link: link, Depth: depth, Sent: sent}
	}
	window := func(node string, points ...int64) workload.ContextSeries {
		c := workload.ContextSeries{Node: node, Peer: "host0"}
		for i := 0; i < len(points); i += 2 {
			c.Points = append(c.Points, workload.ContextPoint{AtNs: points[i], Cwnd: points[i+1]})
		}
		return c
	}
	r.Result.Series = &workload.Series{EveryNs: 100,
		Ports: []workload.PortSeries{
			port("leaf0", "leaf0-spine0", []int64{9000, 1000, 3000, 2000, 9999}, []int64{2000, 1000, 1000, 1000, 1000}),
			port("spine0", "leaf0-spine0", []int64{0, 4000}, []int64{100, 1000}),
			port("spine0", "leaf1-spine0", []int64{0}, []int64{0}),
			port("leaf0", "host0-leaf0", []int64{50000, 5000, 6000, 4000}, []int64{1250, 250, 1000, 1125, 1}),
			port("host1", "host1-leaf0", []int64{99999, 99999, 99999, 99999}, []int64{9999, 9999, 9999, 9999}),
		},
		Contexts: []workload.ContextSeries{window("host1", 0, 6000, 250, 1000, 700, 9000), window("host2", 10, 5000, 150, 3000, 300, 4000)}}
	return r
}

// TestSampledStatistics compares with numbers that were worked out by hand. All flows run until 410 ns: steps 1 to 3 count from 100 ns on.
func TestSampledStatistics(t *testing.T) {
	run := func(s Settle) map[string]float64 {
		v := Stats{Sampled: sampledOf([]Run{sampledRun()}, []string{"host0", "host1", "host2", "host3"}, s)}
		return v.numbers()
	}
	got := run(Settle{Queue: 5999, Windows: 5000, Rate: 80, From: 100 * time.Nanosecond})
	for key, want := range map[string]float64{
		"coreQueueMean": (1000 + 3000 + 2000 + 4000) / 6.0, // the second port holds 4000, 0, 0
		"coreQueueSD":   (math.Sqrt(2e6/3) + math.Sqrt((2*math.Pow(4000/3.0, 2)+math.Pow(8000/3.0, 2))/3)) / 2,
		"coreQueueP99":  4000, "coreRate": 4000 * 8 / 600.0, "coreRateLow": 0,
		"queueSettled": 200, "windowsSettled": 150, "rateSettled": 100, "rateLow": 20,
	} {
		if !near(Number(got[key]), want) {
			t.Errorf("%s: %v, want %v", key, got[key], want)
		}
	}
	got = run(Settle{Queue: 3999, Windows: 4999, Rate: 91})
	for _, key := range []string{"queueSettled", "windowsSettled", "rateSettled"} {
		if !math.IsInf(got[key], 1) {
			t.Errorf("%s: %v, want never", key, got[key])
		}
	}
	if got = run(Settle{Queue: 50000, Windows: 11000, Rate: 20}); got["queueSettled"] != 0 || got["windowsSettled"] != 0 || got["rateSettled"] != 0 || got["rateLow"] != 20 {
		t.Errorf("bounds that always hold: %v", got)
	}
	two := sampledRun()
	two.Result.Series.Ports[3].Sent[1] = 500
	if s := sampledOf([]Run{sampledRun(), two}, []string{"host0", "host1"}, Settle{}); s.Low != 30 {
		t.Errorf("mean of the runs: %v, want 30", s.Low)
	}
	if s := sampledOf([]Run{sampledRun(), incast(100, 1)}, nil, Settle{}); s != nil {
		t.Errorf("a run was not sampled: %+v", s)
	}
}

func TestSampledKeysAreRead(t *testing.T) {
	e := parse(t, head+"every: 2us\nsettle: {queue: 1000, windows: 2000, rate: 300, from: 50us}\nseeds: [1, 2]\nlb: [reps, ecmp]\nexpect: [reps.queueSettled <= ecmp.queueSettled]\n")
	if want := (Settle{1000, 2000, 300, 50 * time.Microsecond}); e.Every != 2*time.Microsecond || e.Settle != want {
		t.Errorf("%v, %+v", e.Every, e.Settle)
	}
	for _, j := range e.Jobs(false) {
		if !j.Series || j.Every != e.Every {
			t.Errorf("%+v", j)
		}
	}
	for text, want := range map[string]string{
		"expect: [reps.coreQueueSD < 5]\n":                                 "coreQueueSD needs runs that are sampled",
		"every: 1us\nsettle: {queue: 5}\nexpect: [reps.rateSettled < 5]\n": "rateSettled needs a bound",
		"every: soon\n":                     "every (soon): not a time",
		"settle: {queue: 3KiB}\n":           "settle.queue (3KiB): not a number of bytes",
		"settle: {rate: -1}\n":              "settle.rate (-1): not a number of Gb/s",
		"settle: {frm: 1us}\n":              `did you mean "from"?`,
		"settle: {from: 0s}\n":              "settle.from (0s): not a time",
		"expect: [reps.coreQueueSDD < 5]\n": `did you mean "coreQueueSD"?`,
	} {
		if _, err := Parse("x.yaml", []byte(head+"lb: [reps, ecmp]\n"+text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
