package perf

import (
	"bytes"
	"flag"
	"math"
	"os"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite golden files")

func TestTables(t *testing.T) {
	lat := Row{Bytes: 8, Iterations: 100, Lat: &Latency{Min: 1.508, Max: 12.5, Typical: 1.5085, Avg: 1.6, Stdev: 0.25, P99: 3, P999: 12.5}}
	bw := Row{Bytes: 1 << 20, Iterations: 32, BW: rateOf(1<<20, 32, 671_000)}
	bw.BW.Peak, bw.BW.PeakGbps = 50_000, 420
	var b bytes.Buffer
	for _, p := range []Print{{Metric: Lat}, {Metric: Lat, Real: true}, {Metric: BW}, {Metric: BW, Gbits: true}, {Metric: Lat, CSV: true}, {Metric: BW, CSV: true}} {
		row := &lat
		if p.Metric == BW {
			row = &bw
		}
		if err := p.Head(&b); err != nil {
			t.Fatal(err)
		}
		if err := p.Row(&b, row); err != nil {
			t.Fatal(err)
		}
	}
	const file = "testdata/tables.golden"
	if *update {
		if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || !bytes.Equal(want, b.Bytes()) {
		t.Errorf("%v; got:\n%swant:\n%s", err, b.Bytes(), want)
	}
}

func TestSumsOfTimes(t *testing.T) {
	h := newTimes()
	for i := 1; i <= 1000; i++ {
		h.add(time.Duration(i) * 10)
	}
	want := Latency{Min: 0.005, Max: 5, Typical: 2.5, Avg: 2.5025, Stdev: math.Sqrt((1000*1000-1)/12.0) / 200, P99: 4.95, P999: 4.995}
	got := h.latency(2)
	for i, p := range [][2]float64{{got.Min, want.Min}, {got.Max, want.Max}, {got.Typical, want.Typical}, {got.Avg, want.Avg}, {got.Stdev, want.Stdev},
		{got.P99, want.P99}, {got.P999, want.P999}} {
		if math.Abs(p[0]-p[1]) > 1e-6 {
			t.Errorf("figure %d: %v, want %v", i, p[0], p[1])
		}
	}
	one := newTimes()
	one.add(131_071)
	if l := one.latency(1); l.Min != 131.071 || l.Typical != 131.071 || l.P999 != 131.071 || l.Stdev != 0 {
		t.Errorf("one time: %+v", l)
	}
}

func TestPeakIsTheFastestStretch(t *testing.T) {
	r := newRates(4)
	r.posted = []time.Duration{0, 0, 0, 0}
	r.done = []time.Duration{1000, 1100, 1200, 3000}
	got := r.sum(100)
	if want := rateOf(100, 4, 3000); got.Average != want.Average || got.Mpps != want.Mpps {
		t.Errorf("average %+v, want %+v", got, want)
	}
	if want := rateOf(100, 3, 1200); math.Abs(got.Peak-want.Average) > 1e-9 {
		t.Errorf("peak %v, want %v", got.Peak, want.Average)
	}
	other := *got
	if other.Merge(got); other.Average != 2*got.Average || other.Peak != 2*got.Peak || other.Mpps != 2*got.Mpps || other.Gbps != 2*got.Gbps {
		t.Errorf("both ways: %+v of %+v", other, got)
	}
}

func TestBytesOfMessages(t *testing.T) {
	for _, size := range []int{0, 1, 7, 8, 9, 16, 100, 4097} {
		b := make([]byte, size)
		for _, n := range []int{0, 1, 500} {
			pattern(b, n)
			got, ok := numberIn(b)
			if want := n; !ok || size >= 8 && got != want {
				t.Errorf("%d bytes of message %d: %d, %v", size, n, got, ok)
			}
			for i := range b {
				b[i] ^= 4
				if got, ok := numberIn(b); ok && (size < 16 && i >= 8 || size < 8 || got == n) {
					t.Errorf("%d bytes: byte %d is wrong and nobody notices", size, i)
				}
				b[i] ^= 4
			}
		}
	}
}

func TestSpecsThatAreRefused(t *testing.T) {
	good := Spec{Test: Send, Metric: BW, Sizes: []int64{8}, Iters: Auto, Warmup: Auto, Window: 16, Inject: Auto}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Spec){
		"no such test":          func(s *Spec) { s.Test = "sned" },
		"neither lat nor bw":    func(s *Spec) { s.Metric = "latency" },
		"no size":               func(s *Spec) { s.Sizes = nil },
		"--size (1073741825)":   func(s *Spec) { s.Sizes = []int64{MaxSize + 1} },
		"at least one byte":     func(s *Spec) { s.Test, s.Sizes = Write, []int64{0} },
		"multiple of 8":         func(s *Spec) { s.Test, s.Op, s.Sizes = Atomic, Add, []int64{12} },
		"give 8":                func(s *Spec) { s.Test, s.Op, s.Sizes = Atomic, CAS, []int64{16} },
		"--iters (0)":           func(s *Spec) { s.Iters = 0 },
		"--warmup (-2)":         func(s *Spec) { s.Warmup = -2 },
		"--window (5000)":       func(s *Spec) { s.Window = 5000 },
		"--inline (-2)":         func(s *Spec) { s.Inject = -2 },
		"--bidirectional":       func(s *Spec) { s.Metric, s.Bidirectional = Lat, true },
		"--imm":                 func(s *Spec) { s.Imm = true },
		"--tag":                 func(s *Spec) { s.Tag = 5 },
		"--op: only atomic":     func(s *Spec) { s.Op = Add },
		"--op (swap): no such ": func(s *Spec) { s.Test, s.Op = Atomic, "swap" },
	} {
		s := good
		change(&s)
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", s, err, want)
		}
	}
}
