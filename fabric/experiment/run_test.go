package experiment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/uetlab/uetlab/workload"
)

// fake is a runner whose flows take 100 times the seed, plus so much for each variant.
type fake struct {
	parallel int
	extra    map[string]int64
	fail     map[string]error
	started  atomic.Int32
	block    chan struct{} // runs wait for ctx where it is not nil
	running  chan struct{}
}

func (f *fake) Prepare(j Job) error {
	if _, ok := f.extra[j.Variant.Name]; !ok {
		return errors.New("fep (colour): not known")
	}
	return nil
}

func (f *fake) Parallel() int       { return f.parallel }
func (f *fake) EndPoints() []string { return []string{"host0"} }

func (f *fake) Run(ctx context.Context, j Job) (workload.Result, int, error) {
	f.started.Add(1)
	if f.block != nil {
		f.running <- struct{}{}
		<-ctx.Done()
		return workload.Result{}, 0, ctx.Err()
	}
	t := 100*int64(j.Seed) + f.extra[j.Variant.Name]
	return incast(100, t, t, t).Result, 3, f.fail[j.Variant.Name]
}

func experimentOf(t *testing.T, expect ...string) *Experiment {
	text := head + "seeds: [1, 2, 3]\nvary: [{name: a}, {name: b}, {name: c}]\n"
	for i, x := range expect {
		if i == 0 {
			text += "expect:\n"
		}
		text += "- '" + x + "'\n"
	}
	return parse(t, text)
}

func TestComparison(t *testing.T) {
	e := experimentOf(t, "a.max / ideal >= 2.5", "a.mean < b.mean and b.mean < 2 * a.mean", "not (a.max > 3)", "max(a.max, b.max) == 350", "c.max > 0", "a.unfinished == 0 ? true : false")
	f := &fake{parallel: 4, extra: map[string]int64{"a": 50, "b": 0, "c": 1}, fail: map[string]error{"c": errors.New("rank 3 gave up")}}
	var done atomic.Int32
	c, err := e.Run(context.Background(), f, false, func(Job) { done.Add(1) })
	if err != nil || done.Load() != 9 {
		t.Fatalf("%v, %d runs", err, done.Load())
	}
	for i, want := range []Check{{"a.max / ideal >= 2.5", true, "3.5"}, {"a.mean < b.mean and b.mean < 2 * a.mean", false, "250 and 200; 200 and 500"},
		{"not (a.max > 3)", false, "350"}, {"max(a.max, b.max) == 350", true, "350"}, {"c.max > 0", false, "c failed"}, {"a.unfinished == 0 ? true : false", true, ""}} {
		if c.Checks[i] != want {
			t.Errorf("%+v, want %+v", c.Checks[i], want)
		}
	}
	var order []string
	for _, o := range c.Ranked() {
		order = append(order, fmt.Sprint(o.Rank, o.Name, o.Error))
	}
	if got := strings.Join(order, " "); got != "1b 2a 0crank 3 gave up" || c.Failed() != 3 {
		t.Errorf("ranked %s, %d failed", got, c.Failed())
	}
}

func TestEqualsHaveOneRank(t *testing.T) {
	f := &fake{parallel: 1, extra: map[string]int64{"a": 5, "b": 1, "c": 1}}
	c, err := experimentOf(t).Run(context.Background(), f, false, func(Job) {})
	if err != nil || c.Variants[0].Rank != 3 || c.Variants[1].Rank != 1 || c.Variants[2].Rank != 1 {
		t.Errorf("%v: %+v", err, c)
	}
}

func TestResultsDoNotDependOnParallelism(t *testing.T) {
	var texts []string
	for _, n := range []int{1, 2, 9} {
		f := &fake{parallel: n, extra: map[string]int64{"a": 50, "b": 0, "c": 1}}
		c, err := experimentOf(t, "a.max > b.max").Run(context.Background(), f, true, func(Job) {})
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(b))
	}
	if texts[0] != texts[1] || texts[0] != texts[2] {
		t.Errorf("%s\n%s\n%s", texts[0], texts[1], texts[2])
	}
}

func TestCancel(t *testing.T) {
	f := &fake{parallel: 2, extra: map[string]int64{"a": 1, "b": 1, "c": 1}, block: make(chan struct{}), running: make(chan struct{}, 9)}
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(context.Background())
	go func() {
		<-f.running
		<-f.running
		cancel(cause)
	}()
	c, err := experimentOf(t).Run(ctx, f, false, func(Job) {})
	if c != nil || !errors.Is(err, cause) {
		t.Errorf("%v, %v", c, err)
	}
	if n := f.started.Load(); n != 2 {
		t.Errorf("%d runs began", n)
	}
}

func TestPrepareTellsWhere(t *testing.T) {
	f := &fake{extra: map[string]int64{"a": 1, "c": 1}}
	err := parse(t, head+"vary:\n- {name: a}\n- {name: b}\n").Prepare(f)
	if err == nil || err.Error() != "x.yaml:6:3: variant b: fep (colour): not known" {
		t.Errorf("%v", err)
	}
}
