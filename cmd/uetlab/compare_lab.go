package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"time"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/experiment"
	"github.com/uetlab/uetlab/fabric/labdir"
	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/internal/faults"
	"github.com/uetlab/uetlab/workload"
)

// labRunner runs the jobs of an experiment on a lab that is up, one after the other. What a variant changes holds for its runs only:
// settings of end points go with the run, and links are mended behind it.
type labRunner struct {
	c     *call
	cl    *api.Client
	d     *labdir.Dir
	plan  topology.Plan
	words []string
	dir   string
	every time.Duration
}

func newLabRunner(c *call, e *experiment.Experiment) (*labRunner, error) {
	if c.IsSet("jobs") {
		return nil, usage("--jobs: runs on a lab go one after the other").WithHint("leave it out, or add --sim")
	}
	cl, d, err := c.client()
	if err != nil {
		e := api.AsError(err)
		return nil, api.Errorf(e.Code, "compare: %w", e).WithHint("--sim runs it in the simulator; or %s", cmp.Or(e.Hint, "uetlab up TOPOLOGY first"))
	}
	r := &labRunner{c: c, cl: cl, d: d, words: e.Workload, every: c.Duration("every")}
	lab, err := cl.Lab(c.ctx)
	if err != nil {
		return nil, explain(d, err)
	}
	if r.plan, err = cl.Plan(c.ctx); err != nil {
		return nil, explain(d, err)
	}
	if e.File == "" {
		e.Topology = lab.Topology
		return r, nil
	}
	r.dir = filepath.Dir(e.File)
	return r, sameTopology(&r.plan, topologyOf(e), lab.Name)
}

// topologyOf is the topology of an experiment's file: one that lies beside it, or a name.
func topologyOf(e *experiment.Experiment) string {
	return beside(filepath.Dir(e.File), e.Topology)
}

// sameTopology wants a lab to be of a topology, whatever its name.
func sameTopology(have *topology.Plan, name, lab string) error {
	want, err := simPlan(name)
	if err != nil {
		return err
	}
	text := func(p topology.Plan) []byte {
		p.Name = ""
		b, _ := json.Marshal(p) // a plan has nothing that JSON has not
		return b
	}
	if !bytes.Equal(text(*have), text(*want)) {
		return usage("compare: lab %s is not of the topology %s, which the experiment asks for", lab, name).
			WithHint("uetlab up %s, or compare with --sim", name)
	}
	return nil
}

// Parallel implements experiment.Runner.
func (r *labRunner) Parallel() int { return 1 }

// EndPoints implements experiment.Runner.
func (r *labRunner) EndPoints() []string { return endPointNames(&r.plan) }

// Prepare implements experiment.Runner.
func (r *labRunner) Prepare(j experiment.Job) error {
	_, _, err := r.request(r.c.ctx, j)
	return err
}

// request reads a job as a command line of run.
func (r *labRunner) request(ctx context.Context, j experiment.Job) (req api.RunRequest, changes []faultChange, err error) {
	if len(j.Variant.Switch) > 0 {
		return req, nil, usage("switch (%s): a lab's switches are as its topology says", experiment.Assign(j.Variant.Switch)[0]).
			WithHint("compare with --sim, or bring up a lab of each topology")
	}
	inner, err := r.c.readRun(ctx, runCommand(), jobWords(r.words, r.dir, j))
	if err != nil {
		return req, nil, err
	}
	if err := onlyRuns(inner.Context); err != nil {
		return req, nil, err
	}
	if req, err = runRequest(inner, inner.arg(0)); err != nil {
		return req, nil, err
	}
	if req.Processes, req.Free = inner.Bool("processes"), inner.Bool("free"); len(req.Sizes) > 1 {
		return req, nil, usage("--size (%s): a sweep", inner.String("size")).WithHint("compare at one size at a time")
	}
	overrideFEP(&req, j.Variant.FEP)
	spec, err := req.Spec(&r.plan, req.Sizes[0], nil)
	if err != nil {
		return req, nil, err
	}
	if j.Series {
		req.EveryNs = int64(cmp.Or(j.Every, r.every, sampling(&spec, &r.plan)))
	}
	for _, text := range eachLink(&r.plan, j.Variant.Links) {
		f, timed, err := linkFault(&r.plan, text)
		if err != nil {
			return req, nil, err
		}
		changes = append(changes, faultChange{f, timed})
	}
	return req, changes, r.c.wantFailures(r.cl, req.Matrix)
}

// faultChange is what a variant does to a link: before its runs, or so long after the start of each.
type faultChange struct {
	faults.Fault
	timed bool
}

// Run implements experiment.Runner.
func (r *labRunner) Run(ctx context.Context, j experiment.Job) (res workload.Result, flows int, err error) {
	req, changes, err := r.request(ctx, j)
	if err != nil {
		return res, 0, err
	}
	spec, err := req.Spec(&r.plan, req.Sizes[0], nil)
	if err != nil {
		return res, 0, err
	}
	defer func() { // also when the run was broken off
		if herr := r.heal(context.WithoutCancel(ctx), changes); err == nil {
			err = herr
		}
	}()
	if err := r.damage(ctx, changes); err != nil {
		return res, 0, err
	}
	got := false
	err = r.cl.Run(ctx, req, func(ev api.RunEvent) error {
		if ev.Result != nil {
			res, got = *ev.Result, true
		}
		return nil
	})
	switch {
	case err != nil:
		return res, 0, explain(r.d, err)
	case !got:
		return res, 0, api.Errorf(api.CodeFailure, "run: the daemon ended it without a result")
	}
	return res, experiment.Count(&spec), verdict([]workload.Result{res})
}

// links names the links of changes, each once.
func (r *labRunner) links(changes []faultChange) (names []string) {
	for _, f := range changes {
		if name := r.plan.Links[f.Link].Name; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// damage does what a variant does to links, which have to be healthy before, and waits until the fabric has routed around it.
func (r *labRunner) damage(ctx context.Context, changes []faultChange) error {
	if len(changes) == 0 {
		return nil
	}
	links, err := r.cl.Links(ctx)
	if err != nil {
		return explain(r.d, err)
	}
	for _, name := range r.links(changes) {
		for _, l := range links {
			if l.Name == name && l.State != api.LinkUp {
				return usage("links (%s): the link is %s already", name, l.State).WithHint("uetlab link restore %s", name)
			}
		}
	}
	var routes int64
	for _, f := range changes {
		ch := api.LinkChange{Op: f.Op, Set: f.Set}
		if f.From != faults.Both {
			ch.From = r.plan.Nodes[f.From].Name
		}
		if f.timed {
			ch.At = "+" + time.Duration(f.At).String()
		}
		done, err := r.cl.ChangeLink(ctx, r.plan.Links[f.Link].Name, ch)
		if err != nil {
			return explain(r.d, err)
		}
		if !f.timed {
			routes = max(routes, done.AtNs, done.RoutesAtNs)
		}
	}
	return r.until(ctx, routes)
}

// heal mends the links of a variant, after the last of its changes.
func (r *labRunner) heal(ctx context.Context, changes []faultChange) error {
	if len(changes) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, healTime)
	defer cancel()
	clock, err := r.cl.Clock(ctx)
	if err != nil {
		return explain(r.d, err)
	}
	last := clock.NowNs
	for _, f := range changes {
		if f.timed {
			last = max(last, clock.NowNs+int64(f.At))
		}
	}
	if err := r.until(ctx, last); err != nil {
		return err
	}
	var routes int64
	for _, name := range r.links(changes) {
		done, err := r.cl.ChangeLink(ctx, name, api.LinkChange{Op: api.LinkOpRestore})
		if err != nil {
			return explain(r.d, err)
		}
		routes = max(routes, done.AtNs, done.RoutesAtNs)
	}
	return r.until(ctx, routes)
}

// healTime is how long, in wall time, mending may take.
const healTime = 30 * time.Second

// until waits for a virtual time, which a lab at rest comes to as the wall's time passes.
func (r *labRunner) until(ctx context.Context, ns int64) error {
	const often = 2 * time.Millisecond
	t := time.NewTicker(often)
	defer t.Stop()
	for {
		clock, err := r.cl.Clock(ctx)
		if err != nil {
			return explain(r.d, err)
		}
		if clock.NowNs >= ns {
			return nil
		}
		if clock.State == api.ClockPaused {
			return api.Errorf(api.CodeExists, "links: the lab's time stands still").WithHint("uetlab clock resume")
		}
		select {
		case <-ctx.Done():
			return api.Errorf(api.CodeTimeout, "links: virtual time did not come to %s: %w", nanos(ns), ctx.Err())
		case <-t.C:
		}
	}
}
