package main

import (
	"io"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/chaos"
	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/internal/faults"
	"github.com/uetlab/uetlab/internal/vt"
)

func chaosCommand() *cli.Command {
	return verb{name: "chaos", args: "FILE", usage: "schedule a script of faults", min: 1, max: 1,
		text: "FILE (- is standard input) lists steps, whose times count from the start of the run that runs, else of the next one; or\n" +
			"from --at. All of it is checked before anything is scheduled, and all is scheduled or nothing:\n\n" +
			"  steps:\n" +
			"    - {at: +20us, link: leaf0-spine0, fail: true}\n" +
			"    - {at: +50us, link: \"leaf*-spine1\", from: spine1, set: loss=0.1% delay=+2us}\n" +
			"    - {at: +60us, link: leaf1-spine0, flap: {down: 20us, period: 100us, count: 3}}\n" +
			"    - {at: +90us, link: leaf0-spine0, restore: true}\n" +
			"    - {at: +95us, switch: leaf*, set: {trim.enabled: false}}\n\n" +
			"A step has one action. For a link: fail, restore or blackhole: true, set (what link set takes) or flap; for a switch: set\n" +
			"(what switch set takes) or reset: true.",
		examples: []string{"uetlab chaos storm.yaml", "uetlab chaos storm.yaml --dry-run", "uetlab chaos storm.yaml --at +100us"},
		flags:    labFlags(atFlag(), &cli.BoolFlag{Name: "dry-run", Usage: "print what would happen when, and schedule nothing"}),
		run:      runChaos}.command()
}

func runChaos(c *call) error {
	cl, d, err := c.client()
	if err != nil {
		return err
	}
	plan, err := cl.Plan(c.ctx)
	if err != nil {
		return explain(d, err)
	}
	s, err := readChaos(c.arg(0), c.in, &plan)
	if err != nil {
		return err
	}
	if c.Bool("dry-run") {
		return c.rehearse(s, &plan)
	}
	req := api.FaultScript{At: c.String("at")}
	if req.At == "" {
		req.At = "+0s"
	}
	for _, x := range s.Steps {
		step := api.FaultStep{AtNs: int64(x.At)}
		if f := x.Fault; f != nil {
			step.Link, step.Op, step.From, step.Set, step.Flap = x.On, f.Op, x.From, f.Set, f.Flap
		} else {
			step.Switch, step.Assignments = x.On, x.Settings.Assign
		}
		req.Steps = append(req.Steps, step)
	}
	return c.script(req)
}

// readChaos reads a script and checks it against a plan. Its errors are usage errors.
func readChaos(name string, in io.Reader, plan *topology.Plan) (*chaos.Script, error) {
	var text []byte
	var err error
	if name == "-" {
		text, err = io.ReadAll(in)
	} else {
		text, err = os.ReadFile(name)
	}
	if err != nil {
		return nil, usage("script of faults: %w", err).WithHint("check the path")
	}
	s, err := chaos.Parse(name, text, plan)
	return s, topologyError(err)
}

// rehearsed is one change of a script.
type rehearsed struct {
	AtNs       int64  `json:"atNs"` // after the script's moment
	Link       string `json:"link,omitempty"`
	Switch     string `json:"switch,omitempty"` // instead of Link
	From       string `json:"from,omitempty"`
	Change     string `json:"change"`
	RoutesAtNs int64  `json:"routesAtNs"` // when the rest of the fabric follows; -1 = never, 0 = no change of routes
}

// rehearse prints what a script does to a fabric with which nothing is wrong.
func (c *call) rehearse(s *chaos.Script, plan *topology.Plan) error {
	b, err := faults.New(plan).Schedule(s.Faults(0)...)
	if err != nil {
		return faultError(err)
	}
	routes := map[vt.Time]int64{}
	for _, t := range b.Turns {
		if routes[t] = -1; plan.Convergence >= 0 {
			routes[t] = int64(t.Add(plan.Convergence))
		}
	}
	var list []rehearsed
	for _, x := range s.Timeline() {
		r := rehearsed{AtNs: int64(x.At), From: x.From, Change: x.Text()}
		if f := x.Fault; f == nil {
			r.Switch = x.On
		} else if r.Link = x.On; f.Op != faults.Blackhole && (f.Op != faults.Change || f.Set.Down != nil) {
			r.RoutesAtNs = routes[x.At]
		}
		list = append(list, r)
	}
	return c.render(list, func() table {
		t := table{columns: []string{"AT", "ON", "FROM", "CHANGE", "ROUTES AT"}}
		for _, r := range list {
			at := routesAt(r.RoutesAtNs)
			if r.RoutesAtNs > 0 {
				at = "+" + at
			}
			t.add("+"+nanos(r.AtNs), r.Link+r.Switch, dash(r.From), r.Change, at)
		}
		return t
	})
}
