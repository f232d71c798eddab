package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/workload"
	"github.com/uetlab/uetlab/workload/matrix"
)

// emitHTSim is the value of --emit for htsim's lines of flows that finish.
const emitHTSim = "htsim"

// matrixFlags are the flags of the workload matrix.
func matrixFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "file", Usage: "matrix: the connection matrix, an htsim .cm `FILE`"},
		choiceFlag("cm-start-unit", "matrix: unit of the start times of --file", matrix.Microseconds, matrix.Picoseconds),
		&cli.BoolFlag{Name: "cm-lenient", Usage: "matrix: let unknown keys and runs of blanks in --file pass, with a warning"},
		&cli.StringFlag{Name: "emit", Usage: "matrix: print a line a flow as `htsim` does, in place of the result", Action: func(_ *cli.Context, s string) error {
			if s != emitHTSim {
				return usage("--emit (%s): not a form of output", s).WithHint("valid is %s", emitHTSim)
			}
			return nil
		}},
	}
}

// readMatrix reads the file of a matrix into a request.
func (c *call) readMatrix(req *api.RunRequest) error {
	if req.Workload != workload.Matrix {
		for _, f := range matrixFlags() {
			if name := f.Names()[0]; c.IsSet(name) {
				return usage("%s: %s reads no matrix", dashed(name), req.Workload).WithHint("leave it out, or run matrix")
			}
		}
		return nil
	}
	if c.String("emit") != "" && c.String("format") != formatTable {
		return usage("--emit %s: is text, without --format", c.String("emit")).WithHint("leave one of them out")
	}
	if !c.IsSet("size") {
		req.Sizes = []int64{0} // the matrix has them
	}
	name := c.String("file")
	if name == "" {
		return usage("%s matrix: which?", c.Command.Name).WithHint("name its file, as in --file a.cm")
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return usage("--file: %w", err)
	}
	m, warnings, err := matrix.Parse(name, text, matrix.Options{StartUnit: c.String("cm-start-unit"), Lenient: c.Bool("cm-lenient")})
	for _, w := range warnings {
		c.note("uetlab: %s", w)
	}
	if err != nil {
		return usage("--file: %w", err).WithHint("docs/workloads.md says what a matrix is")
	}
	req.Matrix = m
	return nil
}

// failures finds the links that a matrix wants down from the start: link l of a switch is its l-th towards the tier above.
func failures(plan *topology.Plan, m *matrix.Matrix) ([]int, error) {
	tiers := map[string]int{"TOR": 1, "AGG": 2, "CORE": 3}
	var links []int
	for _, f := range m.Failures {
		var switches, up []int
		for i := range plan.Nodes {
			if n := &plan.Nodes[i]; n.Kind == topology.KindSwitch && n.Tier == tiers[f.Tier] {
				switches = append(switches, i)
			}
		}
		if f.Switch < len(switches) {
			n := &plan.Nodes[switches[f.Switch]]
			for _, p := range n.Ports {
				if plan.Nodes[p.Peer].Tier > n.Tier {
					up = append(up, p.Link)
				}
			}
		}
		if f.Link >= len(up) {
			return nil, usage("--file: failure switch_type %s switch_id %d link_id %d: the fabric has no such link upwards", f.Tier, f.Switch, f.Link).
				WithHint("take it out of the file, or take the topology that it was made for")
		}
		links = append(links, up[f.Link])
	}
	return links, nil
}

// wantFailures says whether the links of a lab are down that a matrix wants down: run changes nothing in a lab.
func (c *call) wantFailures(cl *api.Client, m *matrix.Matrix) error {
	if m == nil || len(m.Failures) == 0 {
		return nil
	}
	plan, err := cl.Plan(c.ctx)
	if err != nil {
		return err
	}
	ids, err := failures(&plan, m)
	if err != nil {
		return err
	}
	links, err := cl.Links(c.ctx)
	if err != nil {
		return err
	}
	var up []string
	for _, id := range ids {
		for _, l := range links {
			if l.Name == plan.Links[id].Name && l.State != api.LinkDown {
				up = append(up, l.Name)
			}
		}
	}
	if len(up) > 0 {
		return usage("--file: the matrix wants %d links down that are up", len(up)).WithHint("uetlab link fail %s", strings.Join(up, " "))
	}
	return nil
}

// emit prints results as --emit says.
func (c *call) emit(results []workload.Result) error {
	for i := range results {
		if err := workload.WriteFinishLines(c.out, &results[i]); err != nil {
			return fmt.Errorf("--emit: %w", err)
		}
	}
	return nil
}
