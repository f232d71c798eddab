package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/internal/faults"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/sim"
	"github.com/uetlab/uetlab/workload"
)

func simCommand() *cli.Command {
	return verb{name: "sim", args: "TOPOLOGY -- WORKLOAD", usage: "run a workload on a simulated fabric", min: 2, max: 2,
		text: "The same nodes, ports and workloads as in a lab, in one process: no rights, no kernel, the same figures. TOPOLOGY is what\n" +
			"up takes, WORKLOAD and its flags what run takes; the -- may be left out. Same flags, same output, to the byte: the time\n" +
			"that it took is printed only with --wall. Every size of a sweep has a fabric of its own. Times of --link count from the start\n" +
			"of the run; without one the fabric has converged before it. Exit codes are those of run.\n\nWorkloads:\n" + workloadText(),
		examples: []string{"uetlab sim fat-tree-2x4 -- permutation --size 2MiB", "uetlab sim fat-tree-k8 -- allreduce --size 4MiB --check --format json",
			"uetlab sim my.yaml -- alltoall --size 8:128M:2 --wall", "uetlab sim ls16.topo -- matrix --file x.cm --emit htsim",
			"uetlab sim fat-tree-2x4 --link 'leaf0-spine0 fail at=+30us' --link 'leaf1-spine0 loss=0.1%' -- permutation",
			"uetlab sim fat-tree-2x4 --chaos storm.yaml -- allreduce --size 4MiB", "uetlab sim fat-tree-2x4 -- incast --trace sim.pcapng --links leaf0-spine0,host0-leaf0"},
		flags: append(slices.Concat(workloadFlags(), traceFlags(), seriesFlags()),
			&cli.StringFlag{Name: "until", Usage: "stop `TIME` (virtual) after the start of a run, done or not"},
			&cli.StringSliceFlag{Name: "link", Usage: "do to a link what link set and link fail do: `'LINK SETTING… [from=NODE] [at=TIME]'`; may stand often"},
			&cli.StringFlag{Name: "chaos", Usage: "the script of faults in `FILE`, as chaos takes it, from the start of each run on"},
			&cli.Uint64Flag{Name: "lab-seed", Value: 1, Usage: "of every random choice of the fabric: what up has as --seed"},
			&cli.BoolFlag{Name: "wall", Usage: "print how long it took, in wall time"},
			&cli.StringFlag{Name: "cpuprofile", Usage: "write a profile for go tool pprof to `FILE`"},
			formatFlag(),
		), run: runSim}.command()
}

// simulation is one use of sim.
type simulation struct {
	c      *call
	req    api.RunRequest
	plan   *topology.Plan
	faults *simFaults
	traced bool
	trace  *simTrace // nil where not traced
	bar    runBar
	drawn  time.Time     // wall
	until  time.Duration // of one run; 0: its end
	memory arena         // of the fabric that is simulated
	t0     vt.Time       // when the next run begins
}

// gcPercent: a simulation makes little garbage, and what it has at its beginning it keeps.
const gcPercent = 800

func runSim(c *call) error {
	if os.Getenv("GOGC") == "" {
		defer debug.SetGCPercent(debug.SetGCPercent(gcPercent))
	}
	s, err := newSimulation(c)
	if err != nil {
		return err
	}
	series, err := c.openSeries()
	if err != nil {
		return err
	}
	stop, err := profile(c.String("cpuprofile"))
	if err != nil {
		return err
	}
	if s.traced {
		if s.trace, err = newSimTrace(c, s.plan); err != nil {
			return errors.Join(err, stop())
		}
	}
	results, err := s.sweep()
	s.bar.end()
	if s.trace != nil {
		packets, terr := s.trace.close()
		c.note("%d packets written to %s", packets, c.String("trace"))
		if terr != nil { // the reason for any other
			err = terr
		}
	}
	err = errors.Join(err, stop(), series.write(results))
	if cause := context.Cause(c.ctx); cause != nil {
		return cause
	}
	if len(results) > 0 {
		if perr := c.printResults(results, len(s.req.Sizes) > 1); perr != nil {
			return perr
		}
	}
	if err != nil {
		return err
	}
	return verdict(results)
}

// newSimulation reads the command line.
func newSimulation(c *call) (*simulation, error) {
	s := &simulation{c: c}
	var err error
	if s.req, err = runRequest(c, c.arg(1)); err != nil {
		return nil, err
	}
	s.bar = runBar{c: c, workload: s.req.Workload}
	if s.req.Warm {
		return nil, usage("--warm: every simulated run begins cold").WithHint("leave it out, or take --iters: only the first iteration finds no PDC")
	}
	if text := c.String("until"); text != "" {
		if s.until, err = time.ParseDuration(text); err != nil || s.until <= 0 {
			return nil, usage("--until (%s): not a virtual time", text).WithHint("for example 200us: after the start of the run")
		}
	}
	if s.traced, err = c.tracing(); err != nil {
		return nil, err
	}
	if err = c.askSeries(&s.req); err != nil {
		return nil, err
	}
	if s.plan, err = simPlan(c.arg(0)); err != nil {
		return nil, err
	}
	if s.faults, err = linkFaults(s.plan, c.StringSlice("link")); err != nil {
		return nil, err
	}
	if name := c.String("chaos"); name != "" {
		if s.faults.script, err = readChaos(name, c.in, s.plan); err != nil {
			return nil, err
		}
	}
	if s.req.Matrix == nil {
		return s, nil
	}
	down, err := failures(s.plan, s.req.Matrix)
	for _, id := range down {
		s.faults.before = append(s.faults.before, faults.Fault{Link: id, From: faults.Both, Op: faults.Fail})
	}
	return s, err
}

// profile starts a profile of the processor's time where a file is named, and gives what ends it.
func profile(name string) (stop func() error, err error) {
	if name == "" {
		return func() error { return nil }, nil
	}
	f, err := os.Create(name)
	if err != nil {
		return nil, fmt.Errorf("--cpuprofile: %w", err)
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(fmt.Errorf("--cpuprofile: %w", err), f.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		return f.Close()
	}, nil
}

// sweep runs every size in turn and gives the results there are, with an error too.
func (s *simulation) sweep() ([]workload.Result, error) {
	var results []workload.Result
	for _, size := range s.req.Sizes {
		res, err := s.run(size)
		if err == nil || errors.Is(err, sim.ErrUntil) {
			results = append(results, res)
		}
		if err != nil {
			return results, err
		}
	}
	return results, nil
}

// simPlan works out a topology that can be simulated.
func simPlan(arg string) (*topology.Plan, error) {
	plan, err := planOf(arg)
	if err != nil {
		return nil, err
	}
	for i := range plan.Nodes {
		if n := &plan.Nodes[i]; n.Kind == topology.KindHost {
			return nil, usage("sim (%s): %s is a plain host, whose programs cannot be simulated", arg, n.Name).WithHint("uetlab up %s runs it", arg)
		}
	}
	return plan, nil
}

// build makes a fabric for one run and prepares it; s.t0 becomes the start of the run.
func (s *simulation) build() (*sim.Fabric, error) {
	fabric, err := sim.New(s.plan, s.c.Uint64("lab-seed"))
	if err != nil {
		return nil, err
	}
	s.memory.clear() // the fabric before is gone
	fabric.Arena(s.memory.take)
	if s.trace != nil {
		s.trace.tap(fabric)
	}
	s.t0, err = s.faults.schedule(fabric, s.plan, s.t0)
	return fabric, err
}

// run simulates one size, on a fabric of its own.
func (s *simulation) run(size int64) (workload.Result, error) {
	spec, err := s.req.Spec(s.plan, size, nil)
	if err != nil {
		return workload.Result{}, err
	}
	fabric, err := s.build()
	if err != nil {
		return workload.Result{}, err
	}
	opt := sim.Options{Progress: func(now vt.Time, done, total int64) bool { return s.progress(&spec, now, done, total) }}
	if s.until > 0 {
		opt.Until = s.t0.Add(s.until)
	}
	began := time.Now()
	res, err := fabric.Run(spec, s.t0, opt)
	end, acked := ended(&res)
	if s.c.Bool("wall") {
		res.WallSeconds = time.Since(began).Seconds()
		if end > 0 {
			res.Dilation = res.WallSeconds / end.Seconds()
		}
	}
	if rerr := rankError(&res); rerr != nil {
		return res, rerr
	}
	if errors.Is(err, sim.ErrUntil) {
		if res.Wrong() == 0 {
			res.Correct = nil // nobody knows
		}
		return res, api.Errorf(api.CodePartial, "%w", err).WithHint("what is printed is what has happened so far")
	}
	s.t0 = s.t0.Add(max(end, acked) + workload.Settle + 1)
	return res, err
}

// progress is called now and then by a run; false ends it.
func (s *simulation) progress(spec *workload.Spec, now vt.Time, done, total int64) bool {
	if s.trace != nil {
		s.trace.upTo(now)
		if s.trace.err != nil {
			return false
		}
	}
	if wall := time.Now(); wall.Sub(s.drawn) >= redraw {
		s.drawn = wall
		p := &api.RunProgressInfo{DoneBytes: min(done, total), TotalBytes: total, VirtualNs: max(0, int64(now-s.t0)), SizeBytes: spec.Size}
		if total > 0 {
			p.Iteration = min(spec.Iters, 1+int(int64(spec.Iters)*p.DoneBytes/total))
		}
		s.bar.show(p)
	}
	return s.c.ctx.Err() == nil
}

// ended is how long after its start the last rank of a run had finished, and the last send was acknowledged.
func ended(res *workload.Result) (end, acked time.Duration) {
	for _, r := range res.PerRank {
		for _, span := range r.Iterations {
			end, acked = max(end, time.Duration(span.EndNs)), max(acked, time.Duration(span.AckedNs))
		}
	}
	return end, acked
}

// rankError tells of a rank that has given up.
func rankError(res *workload.Result) error {
	for _, r := range res.PerRank {
		if r.Error != "" {
			return api.Errorf(api.CodeCheck, "sim: rank %d: %s", r.Rank, r.Error)
		}
	}
	return nil
}
