package main

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/experiment"
	"github.com/uetlab/uetlab/fabric/experiment/report"
)

// comparisons runs experiments and prints what becomes of them.
type comparisons struct {
	c    *call
	many bool
	done []*experiment.Comparison
}

func (x *comparisons) run(e *experiment.Experiment, r experiment.Runner) error {
	c := x.c
	bar := &jobBar{c: c, name: e.Name, total: len(e.Jobs(false))}
	res, err := e.Run(c.ctx, r, c.IsSet("html") || c.IsSet("every"), bar.step)
	bar.end()
	if cause := context.Cause(c.ctx); cause != nil {
		return cause
	}
	if err != nil {
		return err
	}
	res.Command, res.Version = c.commandLine(), version()
	x.done = append(x.done, res)
	if c.String("format") != formatTable {
		return nil
	}
	if len(x.done) > 1 {
		fmt.Fprintln(c.out)
	}
	return writeComparison(c, res)
}

// end prints what comes last, and makes an error of what did not come out.
func (x *comparisons) end() error {
	c := x.c
	if name := c.String("html"); name != "" {
		if err := writeReport(name, x.done); err != nil {
			return err
		}
		c.note("report: %s", name)
	}
	switch {
	case c.String("format") == formatTable && x.many:
		x.summary()
	case c.String("format") == formatTable:
	case x.many:
		if err := c.render(x.done, nil); err != nil {
			return err
		}
	default:
		if err := c.render(x.done[0], nil); err != nil {
			return err
		}
	}
	broken, unmet := 0, 0
	for _, d := range x.done {
		unmet += d.Failed()
		for i := range d.Variants {
			if d.Variants[i].Error != "" {
				broken++
			}
		}
	}
	switch {
	case broken > 0:
		return api.Errorf(api.CodePartial, "compare: %s failed", count(broken, "variant"))
	case unmet > 0:
		return api.Errorf(api.CodeCheck, "compare: %s did not come true", count(unmet, "expectation"))
	}
	return nil
}

// writeReport writes the page of --html.
func writeReport(name string, list []*experiment.Comparison) error {
	var b bytes.Buffer
	if err := report.Write(&b, list); err != nil {
		return err
	}
	if err := os.WriteFile(name, b.Bytes(), 0o644); err != nil {
		return fmt.Errorf("--html: %w", err)
	}
	return nil
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func (x *comparisons) summary() {
	t := table{columns: []string{"EXPERIMENT", "BEST", "EXPECTED", "HOLD", "VERDICT"}}
	for _, d := range x.done {
		verdict := "ok"
		if d.Failed() > 0 {
			verdict = "FAIL"
		}
		best := d.Ranked()[0]
		for i := range d.Variants {
			if d.Variants[i].Error != "" {
				verdict = "FAIL"
			}
		}
		t.add(d.Name, best.Name, len(d.Checks), len(d.Checks)-d.Failed(), verdict)
	}
	fmt.Fprintln(x.c.out)
	_ = t.write(x.c.out)
}

// writeComparison prints a comparison for people.
func writeComparison(c *call, d *experiment.Comparison) error {
	ranked := d.Ranked()
	fmt.Fprintf(c.out, "# %s", d.Name)
	if d.Claim != "" {
		fmt.Fprintf(c.out, ": %s", d.Claim)
	}
	fmt.Fprintf(c.out, "\n# %s on %s", strings.Join(d.Workload, " "), d.Topology)
	if len(d.Seeds) > 0 {
		fmt.Fprintf(c.out, ", seeds %s", strings.Trim(fmt.Sprint(d.Seeds), "[]"))
	}
	if s := &ranked[0].Stats; s.Flows > 0 {
		fmt.Fprintf(c.out, ", ideal %s; counts are of one run", span(s.Ideal))
	}
	fmt.Fprintln(c.out)
	t := table{columns: []string{"RANK", "VARIANT", "MEAN", "P50", "P99", "MAX", "RATIO", "TRIMS", "DROPS", "RETX", "PEAK QUEUE", "JAIN", "REMARK"}}
	for _, o := range ranked {
		if o.Error != "" {
			t.add("-", o.Name, "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "failed: "+o.Error)
			continue
		}
		s := &o.Stats
		t.add(o.Rank, o.Name, span(s.Mean), span(s.P50), span(s.P99), span(s.Max), ratio(s.MaxRatio), amount(s.Trims), amount(s.Drops), amount(s.Retransmits),
			amount(s.PeakQueue), ratio(s.Jain), remark(o))
	}
	if err := t.write(c.out); err != nil {
		return err
	}
	for _, x := range d.Checks {
		word := "ok  "
		if !x.OK {
			word = "FAIL"
		}
		fmt.Fprintf(c.out, "%s %s   (%s)\n", word, x.Text, x.Figures)
	}
	return nil
}

func remark(o *experiment.Outcome) string {
	switch {
	case o.Stats.Unfinished > 0:
		return fmt.Sprintf("%d of %d flows did not finish", int(o.Stats.Unfinished), o.Stats.Flows)
	case o.Rank == 1:
		return "best"
	}
	return "-"
}

// span writes a time in ns with four digits or more.
func span(n experiment.Number) string {
	f := float64(n)
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return "never"
	}
	d := time.Duration(math.Round(f))
	for _, unit := range []time.Duration{time.Second, time.Millisecond, time.Microsecond} {
		if d >= unit {
			d = d.Round(unit / 1000)
			break
		}
	}
	return nanos(int64(d))
}

func ratio(n experiment.Number) string {
	if f := float64(n); !math.IsInf(f, 0) && !math.IsNaN(f) && f > 0 {
		return fmt.Sprintf("%.3f", f)
	}
	return "-"
}

// amount writes a count that may be a mean.
func amount(n experiment.Number) string {
	if f := float64(n); f != math.Trunc(f) {
		return fmt.Sprintf("%.1f", f)
	}
	return fmt.Sprintf("%.0f", float64(n))
}

// jobBar shows on a terminal how many runs are done.
type jobBar struct {
	c     *call
	name  string
	total int
	mu    sync.Mutex
	bar   *progressbar.ProgressBar
}

func (b *jobBar) step(j experiment.Job) {
	if !terminal(b.c.err) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.bar == nil {
		b.bar = progressbar.NewOptions(b.total, progressbar.OptionSetWriter(b.c.err), progressbar.OptionSetWidth(30), progressbar.OptionShowCount(),
			progressbar.OptionClearOnFinish(), progressbar.OptionSetElapsedTime(true), progressbar.OptionSetPredictTime(true))
	}
	b.bar.Describe(b.name + ": " + jobText(j))
	_ = b.bar.Add(1) // a bar that cannot be drawn stops nothing
}

func (b *jobBar) end() {
	if b.bar != nil {
		_ = b.bar.Clear()
	}
}
