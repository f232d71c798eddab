package experiment

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/uetlab/uetlab/workload"
)

// Job is one run: a variant with one seed.
type Job struct {
	Variant *Variant
	Seed    uint64
	Seeded  bool          // Seed counts; else that of the workload
	Series  bool          // what changed over time is wanted too
	Every   time.Duration // … in steps of this; 0: the runner chooses them
}

// Runner runs jobs. Where Parallel is more than 1, its methods are used by several goroutines at once.
type Runner interface {
	// Prepare checks a job before anything runs. It is asked once for each variant.
	Prepare(j Job) error
	// Run runs it and gives the result and how many flows there should be in it. Its error is that of this run, unless ctx has ended.
	Run(ctx context.Context, j Job) (workload.Result, int, error)
	// EndPoints names the nodes that are end points, after Prepare.
	EndPoints() []string
	// Parallel is how many runs may go on at once.
	Parallel() int
}

// Outcome is a variant with what became of it.
type Outcome struct {
	Variant
	Rank  int    `json:"rank"` // 1 is the best: by unfinished flows, then by the longest FCT, then by the mean; equals have the same
	Stats Stats  `json:"stats"`
	Runs  []Run  `json:"runs"`
	Error string `json:"error,omitempty"` // why a run of it failed; there are no statistics then
}

// Comparison is what became of an experiment.
type Comparison struct {
	Name     string    `json:"name,omitempty"`
	Claim    string    `json:"claim,omitempty"`
	Source   string    `json:"source,omitempty"`
	Topology string    `json:"topology"`
	Workload []string  `json:"workload"`
	Seeds    []uint64  `json:"seeds,omitempty"`
	Command  string    `json:"command"` // that made it
	Version  string    `json:"version"`
	Variants []Outcome `json:"variants"` // in the order of the experiment
	Checks   []Check   `json:"expect,omitempty"`

	EndPoints []string `json:"-"` // names of the nodes that are end points
}

// Jobs lists the runs of an experiment: all seeds of the first variant, then of the next. Unless the experiment samples all runs,
// only the first of each variant asks for series, where they are wanted at all.
func (e *Experiment) Jobs(series bool) (jobs []Job) {
	for i := range e.Variants {
		if len(e.Seeds) == 0 {
			jobs = append(jobs, Job{Variant: &e.Variants[i], Series: series || e.Every > 0, Every: e.Every})
		}
		for k, s := range e.Seeds {
			jobs = append(jobs, Job{Variant: &e.Variants[i], Seed: s, Seeded: true, Series: series && k == 0 || e.Every > 0, Every: e.Every})
		}
	}
	return jobs
}

// Prepare has the runner check all variants, and tells where in the file the first wrong one stands.
func (e *Experiment) Prepare(r Runner) error {
	jobs := e.Jobs(false)
	for i := 0; i < len(jobs); i += max(1, len(e.Seeds)) { // a seed is no reason to refuse anything
		if err := r.Prepare(jobs[i]); err != nil {
			return e.Problem(jobs[i].Variant, err)
		}
	}
	return nil
}

// Run runs everything. A run that fails takes only its variant out of the comparison; the error is that of ctx. done is called
// after every run, by any goroutine.
func (e *Experiment) Run(ctx context.Context, r Runner, series bool, done func(j Job)) (*Comparison, error) {
	c := &Comparison{Name: e.Name, Claim: e.Claim, Source: e.Source, Topology: e.Topology, Workload: e.Workload, Seeds: e.Seeds, EndPoints: r.EndPoints()}
	jobs := e.Jobs(series)
	runs, errs := make([]Run, len(jobs)), make([]error, len(jobs))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(max(1, r.Parallel()))
	for i, j := range jobs {
		g.Go(func() error {
			if err := gctx.Err(); err != nil {
				return err
			}
			runs[i].Seed = j.Seed
			runs[i].Result, runs[i].Flows, errs[i] = r.Run(gctx, j)
			done(j)
			return gctx.Err()
		})
	}
	if err := g.Wait(); err != nil {
		return nil, cmp.Or(context.Cause(ctx), err)
	}
	per := max(1, len(e.Seeds))
	for i := range e.Variants {
		o := outcome(e.Variants[i], runs[i*per:(i+1)*per], errs[i*per:(i+1)*per])
		if e.Every > 0 {
			o.Stats.Sampled = sampledOf(o.Runs, c.EndPoints, e.Settle)
		}
		for k := range o.Runs {
			if !series || k > 0 {
				o.Runs[k].Result.Series = nil // it has been used
			}
		}
		c.Variants = append(c.Variants, o)
	}
	rank(c.Variants)
	for _, x := range e.Expect {
		c.Checks = append(c.Checks, x.check(c.Variants))
	}
	return c, nil
}

func outcome(v Variant, runs []Run, errs []error) Outcome {
	o := Outcome{Variant: v}
	for _, err := range errs {
		if err != nil {
			o.Error = err.Error()
			return o
		}
	}
	o.Runs, o.Stats = runs, statsOf(runs)
	return o
}

// rank orders variants, the best first; those that failed have no rank.
func rank(list []Outcome) {
	better := func(a, b *Stats) int {
		return cmp.Or(cmp.Compare(a.Unfinished, b.Unfinished), cmp.Compare(a.Max, b.Max), cmp.Compare(a.Mean, b.Mean))
	}
	for i := range list {
		if list[i].Error != "" {
			continue
		}
		list[i].Rank = 1
		for k := range list {
			if list[k].Error == "" && better(&list[k].Stats, &list[i].Stats) < 0 {
				list[i].Rank++
			}
		}
	}
}

// Ranked gives the outcomes in the order of their ranks, those that failed last.
func (c *Comparison) Ranked() []*Outcome {
	var out []*Outcome
	for i := range c.Variants {
		out = append(out, &c.Variants[i])
	}
	place := func(o *Outcome) int {
		if o.Rank == 0 {
			return math.MaxInt
		}
		return o.Rank
	}
	slices.SortStableFunc(out, func(a, b *Outcome) int { return cmp.Compare(place(a), place(b)) })
	return out
}

// Failed lists expectations that do not hold.
func (c *Comparison) Failed() (n int) {
	for _, x := range c.Checks {
		if !x.OK {
			n++
		}
	}
	return n
}
