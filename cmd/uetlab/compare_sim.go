package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/experiment"
	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/sim"
	"github.com/uetlab/uetlab/workload"
)

// simRunner runs the jobs of an experiment in the simulator, each on a fabric of its own.
type simRunner struct {
	c        *call
	topology string
	dir      string // of the experiment's file: where the files lie that its workload names
	words    []string
	jobs     int
	every    time.Duration // of series; 0: by the ideal
	points   []string      // names of end points
}

func newSimRunner(c *call, e *experiment.Experiment) (*simRunner, error) {
	n := c.Int("jobs")
	if c.IsSet("jobs") && n < 1 {
		return nil, usage("--jobs (%d): not a number of simulations", n).WithHint("give 1 or more")
	}
	if n == 0 {
		n = runtime.GOMAXPROCS(0)
	}
	r := &simRunner{c: c, topology: e.Topology, words: e.Workload, jobs: n, every: c.Duration("every")}
	if e.File != "" {
		r.dir = filepath.Dir(e.File)
		if c.String("sim") == "" {
			r.topology = topologyOf(e)
		}
	}
	return r, nil
}

// Parallel implements experiment.Runner.
func (r *simRunner) Parallel() int { return r.jobs }

// EndPoints implements experiment.Runner.
func (r *simRunner) EndPoints() []string { return r.points }

// Prepare implements experiment.Runner.
func (r *simRunner) Prepare(j experiment.Job) error {
	s, err := r.simulation(r.c.ctx, j)
	if err != nil {
		return err
	}
	r.points = endPointNames(s.plan)
	_, err = s.req.Spec(s.plan, s.req.Sizes[0], nil)
	return err
}

// Run implements experiment.Runner.
func (r *simRunner) Run(ctx context.Context, j experiment.Job) (workload.Result, int, error) {
	s, err := r.simulation(ctx, j)
	if err != nil {
		return workload.Result{}, 0, err
	}
	defer s.memory.clear()
	spec, err := s.req.Spec(s.plan, s.req.Sizes[0], nil)
	if err != nil {
		return workload.Result{}, 0, err
	}
	if j.Series {
		s.req.EveryNs = int64(cmp.Or(j.Every, r.every, sampling(&spec, s.plan)))
	}
	res, err := s.run(s.req.Sizes[0])
	if errors.Is(err, sim.ErrUntil) { // what has not finished is counted
		err = nil
	}
	if err == nil {
		err = verdict([]workload.Result{res})
	}
	return res, experiment.Count(&spec), err
}

func endPointNames(plan *topology.Plan) (names []string) {
	for i := range plan.Nodes {
		if plan.Nodes[i].Kind == topology.KindFEP {
			names = append(names, plan.Nodes[i].Name)
		}
	}
	return names
}

// sampling is a step of series that makes some hundred of the ideal run.
func sampling(spec *workload.Spec, plan *topology.Plan) time.Duration {
	const steps, least = 400, 100 * time.Nanosecond
	ns, _, err := workload.IdealNs(*spec, plan)
	if err != nil {
		return time.Microsecond
	}
	return max(least, (time.Duration(ns/steps) + least - 1).Truncate(least))
}

// simulation reads a job as a command line of sim.
func (r *simRunner) simulation(ctx context.Context, j experiment.Job) (*simulation, error) {
	words := append([]string{r.topology, "--"}, jobWords(r.words, r.dir, j)...)
	for _, l := range j.Variant.Links {
		words = append(words, "--link", l)
	}
	inner, err := r.c.readRun(ctx, simCommand(), words)
	if err != nil {
		return nil, err
	}
	if err := onlyRuns(inner.Context); err != nil {
		return nil, err
	}
	s, err := newSimulation(inner)
	if err != nil {
		return nil, err
	}
	if len(s.req.Sizes) > 1 {
		return nil, usage("--size (%s): a sweep", inner.String("size")).WithHint("compare at one size at a time")
	}
	overrideFEP(&s.req, j.Variant.FEP)
	return s, overrideSwitches(s.plan, experiment.Assign(j.Variant.Switch))
}

// seedForm is where a workload wants the seed of the run: {seed}, or {seed%3} for 1, 2 and 3 by turns.
var seedForm = regexp.MustCompile(`\{seed(?:%([1-9][0-9]{0,5}))?\}`)

// seedIn puts the seed of a run into a word of its workload.
func seedIn(word string, seed uint64) string {
	return seedForm.ReplaceAllStringFunc(word, func(s string) string {
		n := seed
		if of := seedForm.FindStringSubmatch(s)[1]; of != "" {
			by, _ := strconv.ParseUint(of, 10, 64) // the expression has digits only
			n = 1 + (seed%by+by-1)%by
		}
		return strconv.FormatUint(n, 10)
	})
}

// fileFlags name files, which lie beside an experiment's.
var fileFlags = []string{"--file", "--chaos"}

// jobWords writes a workload for one job: with its seed, and with files where they lie.
func jobWords(words []string, dir string, j experiment.Job) []string {
	words = append(slices.Clone(words), j.Variant.Flags...)
	for i := range words {
		if j.Seeded {
			words[i] = seedIn(words[i], j.Seed)
		}
	}
	for i, w := range words {
		for _, f := range fileFlags {
			name, joined := strings.CutPrefix(w, f+"=")
			switch {
			case joined:
				words[i] = f + "=" + beside(dir, name)
			case w == f && i+1 < len(words):
				words[i+1] = beside(dir, words[i+1])
			}
		}
	}
	if j.Seeded {
		words = append(words, "--seed="+strconv.FormatUint(j.Seed, 10))
	}
	return words
}

// beside gives a file that lies in dir by a name that is good here; others stay.
func beside(dir, name string) string {
	if p := filepath.Join(dir, name); dir != "" && !filepath.IsAbs(name) && isFile(p) {
		return p
	}
	return name
}

// notRuns are flags of run and sim that are for one run alone.
var notRuns = []string{"trace", "links", "format", "emit", "wall", "cpuprofile", "warm", "every", "series"}

func onlyRuns(c *cli.Context) error {
	for _, f := range notRuns {
		if c.IsSet(f) {
			return usage("%s: of one run, not of many", dashed(f)).WithHint("leave it out of the comparison")
		}
	}
	return nil
}

// overrideFEP lays the settings of a variant over what the workload says.
func overrideFEP(req *api.RunRequest, fep map[string]string) {
	over := maps.Clone(req.FEP)
	if over == nil {
		over = map[string]string{}
	}
	maps.Copy(over, fep)
	req.FEP = over
}

// overrideSwitches changes settings of all switches of a plan.
func overrideSwitches(plan *topology.Plan, assign []string) error {
	for i := range plan.Nodes {
		n := &plan.Nodes[i]
		if n.Kind != topology.KindSwitch || len(assign) == 0 {
			continue
		}
		set, err := plan.SetSwitch(i, *n.Switch, assign)
		if err != nil {
			return api.Errorf(api.CodeUsage, "switch: %w", errors.New(strings.ReplaceAll(err.Error(), "\n", "; also: ")))
		}
		n.Switch = &set
	}
	return nil
}

// text of a job for messages.
func jobText(j experiment.Job) string {
	if j.Seeded {
		return fmt.Sprintf("%s, seed %d", j.Variant.Name, j.Seed)
	}
	return j.Variant.Name
}
