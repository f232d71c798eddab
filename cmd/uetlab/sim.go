package main

import (
	"time"

	"github.com/urfave/cli/v2"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/sim"
	"github.com/uetlab/uetlab/workload"
)

func simCommand() *cli.Command {
	return verb{name: "sim", args: "TOPOLOGY -- WORKLOAD", usage: "run a workload on a simulated fabric", min: 2, max: 2,
		text: "The same nodes, ports and workloads as in a lab, in one process: no rights, no kernel, the same figures. TOPOLOGY is what\n" +
			"up takes, WORKLOAD and its flags what run takes; the -- may be left out. Same flags, same output, to the byte: the time\n" +
			"that it took is printed only with --wall.\n\nWorkloads:\n" + workloadText() +
			"Exit codes are those of run.",
		examples: []string{"uetlab sim fat-tree-2x4 -- permutation --size 2MiB", "uetlab sim fat-tree-k8 -- allreduce --size 4MiB --check --format json",
			"uetlab sim my.yaml -- alltoall --size 8:128M:2 --wall"},
		flags: append(workloadFlags(),
			&cli.Uint64Flag{Name: "lab-seed", Value: 1, Usage: "of every random choice of the fabric: what up has as --seed"},
			&cli.BoolFlag{Name: "wall", Usage: "print how long it took, in wall time"},
			formatFlag(),
		), run: runSim}.command()
}

// simulation is one use of sim.
type simulation struct {
	c      *call
	req    api.RunRequest
	plan   *topology.Plan
	fabric *sim.Fabric
	t0     vt.Time // when the next run begins
}

func runSim(c *call) error {
	req, err := runRequest(c, c.arg(1))
	if err != nil {
		return err
	}
	s := &simulation{c: c, req: req}
	if s.plan, err = simPlan(c.arg(0)); err != nil {
		return err
	}
	if s.fabric, err = sim.New(s.plan, c.Uint64("lab-seed")); err != nil {
		return err
	}
	var results []workload.Result
	for _, size := range req.Sizes {
		res, err := s.run(size)
		if err != nil {
			return err
		}
		results = append(results, res)
	}
	if err := c.printResults(results, len(req.Sizes) > 1); err != nil {
		return err
	}
	return verdict(results)
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

// run simulates one size.
func (s *simulation) run(size int64) (workload.Result, error) {
	spec, err := s.req.Spec(s.plan, size, nil)
	if err != nil {
		return workload.Result{}, err
	}
	began := time.Now()
	res, err := s.fabric.Run(spec, s.t0)
	if err != nil {
		return res, api.Errorf(api.CodeFailure, "%w", err)
	}
	end, acked := ended(&res)
	if s.c.Bool("wall") {
		res.WallSeconds = time.Since(began).Seconds()
		if end > 0 {
			res.Dilation = res.WallSeconds / end.Seconds()
		}
	}
	s.t0 = s.t0.Add(max(end, acked) + workload.Settle + 1)
	return res, rankError(&res)
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
