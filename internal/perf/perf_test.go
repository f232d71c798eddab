package perf_test

import (
	"context"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/uetlab/uetlab/fep"
	"github.com/uetlab/uetlab/internal/attach/attachtest"
	"github.com/uetlab/uetlab/internal/perf"
)

func fabric(t testing.TB, cfg attachtest.Config) *attachtest.Fabric {
	t.Helper()
	f, err := attachtest.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

func spec(test, metric string, sizes ...int64) perf.Spec {
	s := perf.Spec{Test: test, Metric: metric, Sizes: sizes, Iters: 20, Warmup: 3, Window: 16, Inject: perf.Auto}
	if test == perf.Atomic {
		s.Op = perf.Fetch
	}
	return s
}

// measure runs both sides, and gives the rows of the one that starts and of the one that answers.
func measure(t testing.TB, f *attachtest.Fabric, s perf.Spec) (starting, answering []perf.Row) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second) // a guard against hanging
	defer cancel()
	b, err := perf.Open(ctx, f.Socket(1), s)
	if err != nil {
		t.Fatal(err)
	}
	addr, ended := b.Address(), make(chan error, 1)
	go func() {
		defer b.Close()
		ended <- b.Run(nil, func(r perf.Row) error { answering = append(answering, r); return nil })
	}()
	a, err := perf.Open(ctx, f.Socket(0), s)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if err := a.Run(&addr, func(r perf.Row) error { starting = append(starting, r); return nil }); err != nil {
		t.Fatal(err)
	}
	a.Close()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	return starting, answering
}

func TestEveryTestTwiceTheSameAndChecked(t *testing.T) {
	for _, test := range perf.Tests {
		for _, metric := range perf.Metrics {
			for _, op := range perf.Atomics {
				if test != perf.Atomic && op != perf.Add {
					continue
				}
				t.Run(fmt.Sprintf("%s %s %s", test, metric, op), func(t *testing.T) {
					t.Parallel()
					var rows [2][]perf.Row
					for i := range rows {
						s := spec(test, metric, 8, 64)
						if test == perf.Atomic {
							s.Op = op
							if op == perf.CAS {
								s.Sizes = []int64{8, 8}
							}
						} else {
							s.Sizes = append(s.Sizes, 1, 4096, 20_001)
						}
						s.Check = true
						rows[i], _ = measure(t, fabric(t, attachtest.Config{}), s)
					}
					if len(rows[0]) != len(rows[1]) || len(rows[0]) < 2 {
						t.Fatalf("%d and %d rows", len(rows[0]), len(rows[1]))
					}
					if !reflect.DeepEqual(rows[0], rows[1]) {
						t.Errorf("two runs differ:\n%s\n%s", text(rows[0]), text(rows[1]))
					}
					t.Log(text(rows[0]))
				})
			}
		}
	}
}

func text(rows []perf.Row) (s string) {
	for _, r := range rows {
		if r.Lat != nil {
			s += fmt.Sprintf("%d: %+v\n", r.Bytes, *r.Lat)
		} else {
			s += fmt.Sprintf("%d: %+v\n", r.Bytes, *r.BW)
		}
	}
	return s
}

func TestBothWays(t *testing.T) {
	s := spec(perf.Send, perf.BW, 4096, 64<<10)
	s.Bidirectional, s.Check, s.Ordered = true, true, true
	a, b := measure(t, fabric(t, attachtest.Config{}), s)
	if len(a) != 2 || len(b) != 2 {
		t.Fatalf("%d and %d rows", len(a), len(b))
	}
	for i := range a {
		if x, y := a[i].BW.Average, b[i].BW.Average; x < 0.5*y || y < 0.5*x {
			t.Errorf("%d bytes: %.0f MB/s there, %.0f back", a[i].Bytes, x, y)
		}
	}
}

func TestWritesWithData(t *testing.T) {
	for _, metric := range perf.Metrics {
		s := spec(perf.Write, metric, 8, 5000)
		s.Imm, s.Check = true, true
		if rows, _ := measure(t, fabric(t, attachtest.Config{}), s); len(rows) != 2 {
			t.Errorf("%s: %d rows", metric, len(rows))
		}
	}
}

func TestWallClock(t *testing.T) {
	f := fabric(t, attachtest.Config{Real: true, FEP: fep.Config{RTOInit: time.Second}}) // a machine that is busy is no loss
	for _, metric := range perf.Metrics {
		if rows, _ := measure(t, f, spec(perf.TSend, metric, 8, 70_000)); len(rows) != 2 {
			t.Errorf("%s: %d rows", metric, len(rows))
		}
	}
}

func TestAnEndWhileTheOtherSideWaits(t *testing.T) {
	f := fabric(t, attachtest.Config{})
	ctx, cancel := context.WithCancel(context.Background())
	b, err := perf.Open(ctx, f.Socket(1), spec(perf.Send, perf.Lat, 8))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- b.Run(nil, func(perf.Row) error { return nil }) }()
	cancel()
	if err := <-ended; err == nil {
		t.Error("a side that was ended found nothing wrong")
	}
	left := 1
	for left > 0 { // bounded by the test's own time
		f.Do(func() { left = int(f.Server(1).Stat().Processes) })
	}
}

func TestInjectBeyondTheFEP(t *testing.T) {
	s := spec(perf.Send, perf.Lat, 8)
	s.Inject = 1 << 20
	if _, err := perf.Open(context.Background(), fabric(t, attachtest.Config{}).Socket(0), s); err == nil {
		t.Error("1 MiB is injected")
	}
}

func BenchmarkPingPong(b *testing.B) {
	s := spec(perf.TSend, perf.Lat, 8)
	s.Iters = max(b.N, 10)
	measure(b, fabric(b, attachtest.Config{Real: true}), s)
}
