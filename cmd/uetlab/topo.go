package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/topologies"
)

func topoCommand() *cli.Command {
	return verb{name: "topo", usage: "list, show, check and make topologies",
		text:     "A TOPOLOGY is the name of a shipped one, a name that a topology is generated from, or a file: YAML, or .topo of htsim.",
		examples: []string{"uetlab topo ls", "uetlab topo show fat-tree-2x4", "uetlab topo gen fat-tree-k8 > big.yaml"},
		subs: []*cli.Command{
			verb{name: "ls", usage: "list the shipped topologies and the names that generate one",
				examples: []string{"uetlab topo ls", "uetlab topo ls --format json"}, flags: []cli.Flag{formatFlag()}, run: runTopoLs}.command(),
			verb{name: "show", args: "TOPOLOGY", usage: "show a topology worked out: nodes, addresses, links", min: 1, max: 1,
				examples: []string{"uetlab topo show fat-tree-2x4", "uetlab topo show big.yaml --format json"}, flags: []cli.Flag{formatFlag()}, run: runTopoShow}.command(),
			verb{name: "validate", args: "TOPOLOGY…", usage: "check topologies and report all that is wrong", min: 1, max: -1,
				examples: []string{"uetlab topo validate big.yaml", "uetlab topo validate a.yaml b.yaml --format json"}, flags: []cli.Flag{formatFlag()}, run: runTopoValidate}.command(),
			verb{name: "schema", usage: "print the JSON schema of topology files",
				examples: []string{"uetlab topo schema > uetlab.schema.json"}, run: func(c *call) error {
					_, err := c.out.Write(topology.Schema())
					return err
				}}.command(),
			verb{name: "gen", args: "NAME", usage: "print the topology file of a shipped or generated name, or of a file of htsim", min: 1, max: 1,
				examples: []string{"uetlab topo gen fat-tree-4x8x4 > my.yaml", "uetlab topo gen pair", "uetlab topo gen ls16.topo > ls16.yaml"}, run: runTopoGen}.command(),
		}}.command()
}

// topoView is one line of topo ls.
type topoView struct {
	Name        string `json:"name"`
	Source      string `json:"source"` // shipped | generated
	Description string `json:"description"`
}

func topoViews() []topoView {
	var views []topoView
	for _, name := range topologies.Names() {
		v := topoView{Name: name, Source: "shipped"}
		if s, err := topology.Resolve(name); err == nil {
			v.Description = s.Description
		}
		views = append(views, v)
	}
	for _, g := range topology.GeneratedNames() {
		views = append(views, topoView{g.Usage, "generated", g.Doc})
	}
	return views
}

func runTopoLs(c *call) error {
	views := topoViews()
	return c.render(views, func() table {
		t := table{columns: []string{"TOPOLOGY", "SOURCE", "DESCRIPTION"}}
		for _, v := range views {
			t.add(v.Name, v.Source, v.Description)
		}
		return t
	})
}

// planOf works a topology out; its errors are usage errors.
func planOf(arg string) (*topology.Plan, error) {
	s, err := resolve(arg)
	if err != nil {
		return nil, topologyError(err)
	}
	plan, err := topology.BuildPlan(s)
	return plan, topologyError(err)
}

// htsimFile ends the names of topology files of htsim.
const htsimFile = ".topo"

// resolve reads a topology: by name, of a file, or of a file of htsim.
func resolve(arg string) (*topology.Spec, error) {
	if !strings.HasSuffix(arg, htsimFile) {
		return topology.Resolve(arg)
	}
	text, err := os.ReadFile(arg)
	if err != nil {
		return nil, fmt.Errorf("topology: %w", err)
	}
	return topology.ParseHTSim(arg, text)
}

func runTopoShow(c *call) error {
	plan, err := planOf(c.arg(0))
	if err != nil {
		return err
	}
	if c.String("format") != formatTable {
		return c.render(plan, nil)
	}
	settings, err := settingFacts(plan)
	if err != nil {
		return err
	}
	return tables{facts(append([][2]string{{"topology", plan.Name}, {"nodes", fmt.Sprint(len(plan.Nodes))}, {"links", fmt.Sprint(len(plan.Links))},
		{"base RTT", nanos(int64(plan.BaseRTT))}, {"plane BDP", fmt.Sprintf("%d bytes", plan.BDP)},
		{"payload MTU", fmt.Sprintf("%d bytes", plan.PayloadMTU)}, {"convergence", convergence(plan)}}, settings...)),
		addressTable(plan), planLinkTable(plan)}.write(c)
}

// checkView is the outcome of topo validate for one topology.
type checkView struct {
	Topology string        `json:"topology"`
	Valid    bool          `json:"valid"`
	Nodes    int           `json:"nodes"`
	Links    int           `json:"links"`
	Problems []problemView `json:"problems"`
}

// problemView is one thing that is wrong.
type problemView struct {
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

func validate(arg string) checkView {
	v := checkView{Topology: arg, Problems: []problemView{}}
	plan, err := planOf(arg)
	var problems topology.Problems
	switch {
	case err == nil:
		v.Valid, v.Nodes, v.Links = true, len(plan.Nodes), len(plan.Links)
	case errors.As(err, &problems):
		for _, p := range problems {
			v.Problems = append(v.Problems, problemView{p.File, p.Line, p.Col, p.Msg, p.Hint})
		}
	default:
		v.Problems = append(v.Problems, problemView{Message: err.Error()})
	}
	return v
}

func runTopoValidate(c *call) error {
	var views []checkView
	bad := 0
	for _, arg := range c.args {
		v := validate(arg)
		if !v.Valid {
			bad++
		}
		views = append(views, v)
	}
	err := c.render(views, func() table {
		t := table{columns: []string{"TOPOLOGY", "VALID", "NODES", "LINKS", "PROBLEMS"}}
		for _, v := range views {
			t.add(v.Topology, v.Valid, v.Nodes, v.Links, len(v.Problems))
		}
		return t
	})
	if err != nil || bad == 0 {
		return err
	}
	if c.String("format") == formatTable {
		for _, v := range views {
			for _, p := range v.Problems {
				c.note("%s", strings.TrimSpace(topology.Problem{File: p.File, Line: p.Line, Col: p.Column, Msg: p.Message, Hint: p.Hint}.Error()))
			}
		}
	}
	return usage("topo validate: %d of %d topologies are wrong", bad, len(views))
}

// generate makes the topology of a name, or of a file of htsim.
func generate(arg string) (*topology.Spec, error) {
	if strings.HasSuffix(arg, htsimFile) {
		return resolve(arg)
	}
	return topology.Generate(arg)
}

func runTopoGen(c *call) error {
	if text, ok := topologies.Read(c.arg(0)); ok {
		_, err := c.out.Write(text)
		return err
	}
	s, err := generate(c.arg(0))
	if err != nil {
		return topologyError(err)
	}
	if _, err := topology.BuildPlan(s); err != nil {
		return topologyError(err)
	}
	_, err = c.out.Write(s.YAML())
	return err
}
