package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/internal/nearest"
	"github.com/uetlab/uetlab/internal/perf"
	"github.com/uetlab/uetlab/workload"
)

const formatCSV = "csv"

func perfCommand() *cli.Command {
	return verb{name: "perf", args: "TEST lat|bw [NODE_A NODE_B]", usage: "measure latency or bandwidth between two end points", min: 2, max: 4,
		text: "Two processes attach to the FEPs of two nodes, the first two end points if none are named, and NODE_A's measures. Columns are those of\n" +
			"perftest; MB are 2^20 bytes. Tests:\n" +
			"  send, tsend  lat: half of the time from a message to its answer; bw: a window of messages is kept full\n" +
			"  write        lat: the same with writes, of which the other side is notified; --imm sends data with them\n" +
			"  read, atomic lat: from posting to completion; --op says which atomic\n" +
			"In a lab in virtual time results are virtual: exact, the same every time, whatever the machine does. With --time real they are the\n" +
			"wall's. The lines that begin with # say which, and between what. Exit code 8 says that the data was wrong (--check), 9 that times are\n" +
			"not exact because a side was too slow.",
		examples: []string{"uetlab perf tsend lat", "uetlab perf write bw host0 host4 --size 8:1M:2", "uetlab perf send bw -b --report-gbits",
			"uetlab perf read lat --size 64K --iters 1000 --format json", "uetlab perf atomic lat --op cas"},
		flags: perfFlags(), run: runPerf}.command()
}

func perfFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "size", Value: "", Usage: "bytes of a message, or a sweep `FROM:TO:FACTOR`; default 8, of bw 64KiB"},
		&cli.IntFlag{Name: "iters", Usage: "messages measured of each size; default as many as tell something in the lab's kind of time"},
		&cli.IntFlag{Name: "warmup", Value: perf.Auto, DefaultText: "10, with --time real 100", Usage: "messages before these"},
		&cli.IntFlag{Name: "window", Value: 128, Usage: "operations of bw that are open at once (tx depth)"},
		&cli.IntFlag{Name: "inline", Value: perf.Auto, DefaultText: "lat: all that can be, bw: none", Usage: "messages up to so many `BYTES` are injected"},
		&cli.Uint64Flag{Name: "tag", Usage: "of tsend"},
		&cli.StringFlag{Name: "op", Usage: "of atomic: add, fetch (adds and brings the old value, the default) or cas (compare and swap)"},
		&cli.BoolFlag{Name: "imm", Usage: "writes bring immediate data"},
		&cli.BoolFlag{Name: "bidirectional", Aliases: []string{"b"}, Usage: "bw: both sides send; the figures are of both together"},
		&cli.BoolFlag{Name: "ordered", Usage: "keep messages in order: mode ROD, one path and go-back-N, instead of RUD"},
		&cli.BoolFlag{Name: "check", Usage: "compare every byte that arrives, which with --time real takes time itself"},
		&cli.BoolFlag{Name: "report-gbits", Usage: "bandwidth in Gb/s instead of MB/s"},
		&cli.Uint64Flag{Name: "seed", Value: 1, Usage: "of every random choice in the fabric"},
		nameFlag(),
		&cli.StringFlag{Name: "format", Value: formatTable, Usage: "table, json or csv", Action: func(_ *cli.Context, s string) error {
			if s != formatTable && s != formatJSON && s != formatCSV {
				return usage("--format (%s): not a format of perf", s).WithHint("valid are table, json, csv")
			}
			return nil
		}},
	}
}

// perfSpec reads the command line.
func (c *call) perfSpec() (perf.Spec, error) {
	s := perf.Spec{Test: c.arg(0), Metric: c.arg(1), Iters: c.Int("iters"), Warmup: c.Int("warmup"), Window: c.Int("window"), Inject: c.Int("inline"),
		Tag: c.Uint64("tag"), Op: c.String("op"), Imm: c.Bool("imm"), Check: c.Bool("check"), Ordered: c.Bool("ordered"), Bidirectional: c.Bool("bidirectional")}
	if s.Test == perf.Atomic && s.Op == "" {
		s.Op = perf.Fetch
	}
	if !c.IsSet("iters") {
		s.Iters = perf.Auto
	}
	size := c.String("size")
	switch {
	case size != "":
	case s.Metric == perf.BW && s.Test != perf.Atomic:
		size = "64KiB"
	default:
		size = "8"
	}
	var err error
	if s.Sizes, err = workload.ParseSizes(size); err != nil {
		return s, usage("--size: %w", err)
	}
	if err := s.Validate(); err != nil {
		e := usage("%w", err)
		if near := nearest.Word(s.Test, perf.Tests); near != "" && near != s.Test {
			return s, e.WithHint("did you mean %s?", near)
		}
		return s, e
	}
	return s, nil
}

func runPerf(c *call) error {
	spec, err := c.perfSpec()
	if err != nil {
		return err
	}
	cl, d, err := c.client()
	if err != nil {
		return err
	}
	lab, err := cl.Lab(c.ctx)
	if err != nil {
		return explain(d, err)
	}
	plan, err := cl.Plan(c.ctx)
	if err != nil {
		return explain(d, err)
	}
	ends, err := perfEnds(&plan, c.args[2:])
	if err != nil {
		return err
	}
	r := &perfRun{c: c, spec: spec, lab: lab, dir: d, ends: ends, conditions: perfConditions(&plan, ends, lab)}
	if r.links, err = cl.Links(c.ctx); err != nil {
		return explain(d, err)
	}
	r.sick()
	err = cl.Measure(c.ctx, api.MeasureRequest{Seed: c.Uint64("seed")}, func() error {
		if err := errors.Join(r.head(), r.measure()); err != nil {
			return err
		}
		r.fidelity, err = cl.Fidelity(c.ctx)
		return err
	})
	if cause := context.Cause(c.ctx); cause != nil {
		return cause
	}
	if err != nil {
		return explain(d, err)
	}
	return r.tail()
}

// perfEnds finds the two end points.
func perfEnds(plan *topology.Plan, names []string) (ends [2]*topology.Node, err error) {
	switch len(names) {
	case 0:
		for i := range plan.Nodes {
			if n := &plan.Nodes[i]; n.Kind == topology.KindFEP && len(names) < 2 {
				names = append(names, n.Name)
			}
		}
		if len(names) < 2 {
			return ends, usage("perf: the lab has %d end points, two are needed", len(names))
		}
	case 1:
		return ends, usage("perf (%s): between that and what?", names[0]).WithHint("name two end points, or none for the first two")
	}
	for i := range ends {
		if ends[i], err = plan.Node(names[i]); err != nil {
			return ends, notFound(fmt.Errorf("perf: %w", err))
		}
		if ends[i].Kind != topology.KindFEP {
			return ends, usage("perf (%s): not an end point but a %s: it has no FEP", names[i], ends[i].Kind).WithHint("uetlab ps lists nodes and their kinds")
		}
	}
	if ends[0] == ends[1] {
		return ends, usage("perf (%s): both ends are the same", names[0]).WithHint("name two end points")
	}
	if err := workload.Talk(plan, ends[0].ID, ends[1].ID); err != nil {
		return ends, usage("perf: %w", err).WithHint(api.ProfileHint)
	}
	return ends, nil
}

// head writes what is measured where, and the names of the columns.
func (r *perfRun) head() error {
	c := r.c
	r.print = perf.Print{Metric: r.spec.Metric, Gbits: c.Bool("report-gbits"), Real: r.real(), CSV: c.String("format") == formatCSV}
	if c.String("format") == formatJSON {
		return nil
	}
	text := r.conditions.text(&r.spec)
	if r.print.CSV {
		for _, l := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
			c.note("%s", l)
		}
	} else if _, err := c.out.Write([]byte(text)); err != nil {
		return err
	}
	return r.print.Head(c.out)
}

func (r *perfRun) real() bool { return r.lab.Time == "real" }

// row takes a result in, and prints it unless all are printed at the end.
func (r *perfRun) row(row perf.Row) error {
	r.rows = append(r.rows, row)
	if r.c.String("format") == formatJSON {
		return nil
	}
	return r.print.Row(r.c.out, &row)
}

// tail prints JSON, and says whether the figures can be trusted.
func (r *perfRun) tail() error {
	if r.free && r.fidelity.Verdict == "exact" {
		r.fidelity.Verdict = "invalid: a side was too slow, and time went on without it"
	}
	if r.c.String("format") == formatJSON {
		out := perfReport{conditions: r.conditions, Spec: r.spec, Fidelity: r.fidelity, Results: r.rows}
		if err := writeJSON(r.c.out, out); err != nil {
			return err
		}
	}
	if v := r.fidelity.Verdict; strings.HasPrefix(v, "invalid") {
		return api.Errorf(api.CodeFidelity, "perf: fidelity is %s", v).WithHint("do not use the figures; run it again")
	}
	return nil
}

// perfReport is the answer as JSON.
type perfReport struct {
	conditions
	Spec     perf.Spec         `json:"spec"`
	Fidelity workload.Fidelity `json:"fidelity"`
	Results  []perf.Row        `json:"results"`
}

// perfSideName is the hidden command that runs in a node.
const perfSideName = "perf-side"

func perfSideCommand() *cli.Command {
	return verb{name: perfSideName, args: "SPEC [ADDRESS]", usage: "one side of perf", hidden: true, min: 1, max: 2,
		examples: []string{"uetlab perf-side {}"}, run: runPerfSide}.command()
}

// sideLine is a line that a side prints: its address first, then results, at last how it ended.
type sideLine struct {
	Address string    `json:"address,omitempty"`
	Row     *perf.Row `json:"row,omitempty"`
	Done    bool      `json:"done,omitempty"`
	Free    bool      `json:"free,omitempty"` // the FEP did not wait for it
	Error   string    `json:"error,omitempty"`
	Wrong   bool      `json:"wrong,omitempty"` // the data was
}

func runPerfSide(c *call) error {
	var spec perf.Spec
	if err := json.Unmarshal([]byte(c.arg(0)), &spec); err != nil {
		return usage("%s: %w", perfSideName, err)
	}
	var peer *perf.Address
	if a, err := hex.DecodeString(c.arg(1)); err != nil || c.arg(1) != "" && len(a) != len(peer) {
		return usage("%s (%s): not an address", perfSideName, c.arg(1))
	} else if len(a) > 0 {
		peer = (*perf.Address)(a)
	}
	out := json.NewEncoder(c.out)
	err := perfSide(c, spec, peer, out)
	if err != nil && c.ctx.Err() == nil {
		_ = out.Encode(sideLine{Error: err.Error(), Wrong: errors.Is(err, perf.ErrData)}) // the exit code says it as well
		return exitCode(api.CodeFailure)
	}
	return err
}

func perfSide(c *call, spec perf.Spec, peer *perf.Address, out *json.Encoder) error {
	s, err := perf.Open(c.ctx, "", spec)
	if err != nil {
		return err
	}
	defer s.Close()
	a := s.Address()
	if err := out.Encode(sideLine{Address: hex.EncodeToString(a[:])}); err != nil {
		return err
	}
	if err := s.Run(peer, func(r perf.Row) error { return out.Encode(sideLine{Row: &r}) }); err != nil {
		return err
	}
	return out.Encode(sideLine{Done: true, Free: s.Free()})
}
