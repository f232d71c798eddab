package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/urfave/cli/v2"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/internal/nearest"
	"github.com/uetlab/uetlab/workload"
)

func runCommand() *cli.Command {
	return verb{name: "run", args: "WORKLOAD", usage: "run a workload on the lab's end points", min: 1, max: 1,
		text: "Workloads:\n" + workloadText() +
			"Figures are virtual time. Exit code 8 says that the data was wrong, 9 that the run's fidelity is invalid.",
		examples: []string{"uetlab run allreduce --size 4MiB --ranks 8 --check", "uetlab run permutation --size 2MiB --seed 1",
			"uetlab run alltoall --size 8:128M:2 --format json # a sweep", "uetlab run sendrecv --ranks 0,3,5 --iters 10",
			"uetlab run allreduce --per-node 2 --processes --check", "uetlab run matrix --file x.cm --emit htsim", "uetlab run incast --trace run.pcapng --links leaf0-spine0,host0-leaf0",
			"uetlab run incast --every 1us --series incast.csv"},
		flags: labFlags(slices.Concat(workloadFlags(), processFlags(), traceFlags(), seriesFlags())...), run: runWorkload}.command()
}

// workloadFlags are the flags that say what is run; run and sim have them in common.
func workloadFlags() []cli.Flag {
	return append([]cli.Flag{
		&cli.StringFlag{Name: "size", Value: "1MiB", Usage: "bytes per sender, or a sweep `FROM:TO:FACTOR`"},
		&cli.StringFlag{Name: "ranks", Usage: "how many `RANKS`, or the end points to take, rank 0 first: 0,3,5; default all"},
		&cli.IntFlag{Name: "per-node", Value: 1, Usage: "`N` ranks on each end point: rank i is process i mod N on end point i / N"},
		&cli.IntFlag{Name: "iters", Value: 1, Usage: "iterations"},
		&cli.BoolFlag{Name: "check", Usage: "compare every element of every result"},
		&cli.Uint64Flag{Name: "seed", Value: 1, Usage: "of data, permutation and every random choice"},
		&cli.BoolFlag{Name: "warm", Usage: "keep PDCs and state of the run before"},
		&cli.StringFlag{Name: "algo", Usage: "schedule of allreduce: ring or rd"},
		&cli.StringFlag{Name: "op", Usage: "send or write"},
		&cli.StringFlag{Name: "type", Usage: "element type of allreduce: uint32, int32 or float32"},
		&cli.IntFlag{Name: "root", Usage: "rank that broadcast sends from or incast sends to"},
		&cli.IntFlag{Name: "window", Usage: "sends of alltoall under way at one rank"},
		&cli.BoolFlag{Name: "ordered", Usage: "keep messages in order: mode ROD, one path and go-back-N, instead of RUD"},
	}, append(fepFlags(), matrixFlags()...)...)
}

// processFlags have ranks be processes.
func processFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "processes", Usage: "one process for each rank, which uses the FEP of its node like any application; same figures"},
		&cli.BoolFlag{Name: "free", Usage: "with --processes: FEPs do not wait for them, so that their speed counts; verdict free"},
	}
}

func workloadText() string {
	var b strings.Builder
	for _, w := range workload.Workloads() {
		fmt.Fprintf(&b, "  %-12s %s\n", w.Name, w.Text)
	}
	return b.String()
}

// runRequest reads the flags of workloadFlags.
func runRequest(c *call, name string) (api.RunRequest, error) {
	req := api.RunRequest{Workload: name, Iterations: c.Int("iters"), Check: c.Bool("check"), Seed: c.Uint64("seed"), Warm: c.Bool("warm"),
		Algo: c.String("algo"), Op: c.String("op"), Type: c.String("type"), Root: c.Int("root"), Window: c.Int("window"), Ordered: c.Bool("ordered")}
	var err error
	if err = knownWorkload(c.Command.Name, req.Workload); err != nil {
		return req, err
	}
	if req.Sizes, err = workload.ParseSizes(c.String("size")); err != nil {
		return req, usage("--size: %w", err)
	}
	if req.Ranks, req.RankCount, err = parseRanks(c.String("ranks")); err != nil {
		return req, err
	}
	if req.Iterations < 1 || req.Iterations > workload.MaxIters {
		return req, usage("--iters (%d): not a number of iterations", req.Iterations).WithHint("give 1 to %d", workload.MaxIters)
	}
	if n := c.Int("per-node"); n < 1 || n > workload.MaxPerNode {
		return req, usage("--per-node (%d): not a number of ranks", n).WithHint("give 1 to %d", workload.MaxPerNode)
	} else if n > 1 {
		req.PerNode = n
	}
	if req.FEP, err = c.overrides(); err != nil {
		return req, err
	}
	return req, c.readMatrix(&req)
}

func knownWorkload(command, name string) error {
	var names []string
	for _, w := range workload.Workloads() {
		if w.Name == name {
			return nil
		}
		names = append(names, w.Name)
	}
	e := usage("%s (%s): no such workload", command, name)
	if near := nearest.Word(name, names); near != "" {
		return e.WithHint("did you mean %s?", near)
	}
	return e.WithHint("valid are %s", strings.Join(names, ", "))
}

// parseRanks reads --ranks: a count, or a list of end points (host0 or 0) in rank order.
func parseRanks(s string) (list []int, count int, err error) {
	bad := func() ([]int, int, error) {
		return nil, 0, usage("--ranks (%s): neither a count nor a list of end points", s).WithHint("write --ranks 8 for the first eight, --ranks 0,3,5 or --ranks host0,host3,host5 for these")
	}
	if s == "" {
		return nil, 0, nil
	}
	if n, err := strconv.Atoi(s); err == nil {
		if n < 2 {
			return bad()
		}
		return nil, n, nil
	}
	seen := map[int]bool{}
	for _, word := range strings.Split(s, ",") {
		n, err := strconv.Atoi(strings.TrimPrefix(word, "host"))
		if err != nil || n < 0 {
			return bad()
		}
		if seen[n] {
			return nil, 0, usage("--ranks (%s): host%d stands there twice", s, n).WithHint("--per-node 2 puts two ranks on each end point")
		}
		seen[n] = true
		list = append(list, n)
	}
	return list, 0, nil
}

func runWorkload(c *call) error {
	req, err := runRequest(c, c.arg(0))
	if err != nil {
		return err
	}
	if req.Processes, req.Free = c.Bool("processes"), c.Bool("free"); req.Free && !req.Processes {
		return usage("--free: there are no processes to be free").WithHint("add --processes")
	}
	trace, err := c.tracing()
	if err != nil {
		return err
	}
	if err := c.askSeries(&req); err != nil {
		return err
	}
	cl, d, err := c.client()
	if err != nil {
		return err
	}
	series, err := c.openSeries()
	if err != nil {
		return err
	}
	if err := c.wantFailures(cl, req.Matrix); err != nil {
		return explain(d, err)
	}
	results, err := c.runSizes(cl, req, trace)
	if cause := context.Cause(c.ctx); cause != nil {
		return cause
	}
	if err == nil && len(results) < len(req.Sizes) {
		err = api.Errorf(api.CodeFailure, "run: the daemon ended it after %d of %d sizes", len(results), len(req.Sizes))
	}
	if serr := series.write(results); serr != nil && err == nil {
		err = serr
	}
	if len(results) > 0 {
		if perr := c.printResults(results, len(req.Sizes) > 1); perr != nil {
			return perr
		}
	}
	if err != nil {
		return explain(d, err)
	}
	return verdict(results)
}

// runSizes has the daemon run a request, and gives the results that there are, with an error too.
func (c *call) runSizes(cl *api.Client, req api.RunRequest, trace bool) (results []workload.Result, err error) {
	if trace {
		var t *runTrace
		if t, err = newRunTrace(c, cl); err != nil {
			return nil, err
		}
		defer func() {
			if terr := t.end(err != nil); err == nil {
				err = terr
			}
		}()
	}
	bar := &runBar{c: c, workload: req.Workload}
	defer bar.end()
	err = cl.Run(c.ctx, req, func(ev api.RunEvent) error {
		if ev.Progress != nil {
			bar.show(ev.Progress)
		}
		if ev.Result != nil {
			results = append(results, *ev.Result)
		}
		return nil
	})
	return results, err
}

// printResults prints one result, or an array of them for a sweep.
func (c *call) printResults(results []workload.Result, sweep bool) error {
	switch {
	case c.String("emit") != "":
		return c.emit(results)
	case c.String("format") == formatTable:
		return workload.WriteTable(c.out, results)
	case sweep:
		return c.render(results, nil)
	}
	return c.render(results[0], nil)
}

// verdict makes an error of wrong data or of figures that cannot be trusted.
func verdict(results []workload.Result) error {
	for _, r := range results {
		if r.Correct != nil && !*r.Correct {
			return api.Errorf(api.CodeCheck, "run %s of %d bytes: the data is wrong", r.Workload, r.SizeBytes).WithHint("--format json shows which ranks; uetlab events tells what happened")
		}
	}
	for _, r := range results {
		if v := r.Fidelity.Verdict; strings.HasPrefix(v, "invalid") {
			return api.Errorf(api.CodeFidelity, "run %s of %d bytes: fidelity is %s", r.Workload, r.SizeBytes, v).WithHint("do not use its figures; run it again")
		}
	}
	return nil
}

// redraw is how often the progress bar may change.
const redraw = 100 * time.Millisecond

// runBar is the progress bar of a run, on a terminal only.
type runBar struct {
	bar      *progressbar.ProgressBar
	c        *call
	workload string
}

func (b *runBar) show(p *api.RunProgressInfo) {
	if !terminal(b.c.err) || p.TotalBytes <= 0 {
		return
	}
	if b.bar == nil || b.bar.GetMax64() != p.TotalBytes {
		b.bar = progressbar.NewOptions64(p.TotalBytes, progressbar.OptionSetWriter(b.c.err), progressbar.OptionShowBytes(true),
			progressbar.OptionSetWidth(30), progressbar.OptionThrottle(redraw), progressbar.OptionClearOnFinish(), progressbar.OptionSetElapsedTime(true), progressbar.OptionSetPredictTime(false))
	}
	what := b.workload
	if p.SizeBytes > 0 { // a matrix has no one size
		what += " " + bytesText(p.SizeBytes)
	}
	b.bar.Describe(fmt.Sprintf("%s, iteration %d, %s virtual", what, p.Iteration, nanos(p.VirtualNs)))
	_ = b.bar.Set64(min(p.DoneBytes, p.TotalBytes)) // a bar that cannot be drawn stops nothing
}

func (b *runBar) end() {
	if b.bar != nil {
		_ = b.bar.Clear()
	}
}

// bytesText writes a size in its largest whole binary unit.
func bytesText(n int64) string {
	for _, u := range []struct {
		size int64
		name string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= u.size && n%u.size == 0 {
			return fmt.Sprintf("%d%s", n/u.size, u.name)
		}
	}
	return fmt.Sprintf("%dB", n)
}
