package main

import (
	"os"

	"github.com/urfave/cli/v2"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/cleanup"
	"github.com/uetlab/uetlab/fabric/labdir"
)

func adoptCommand() *cli.Command {
	return verb{name: "adopt", args: "[NAME]", usage: "give a lab whose daemon has died a new one", max: 1,
		text: "Nodes outlive their daemon. A run that was under way is dropped; links keep their state and virtual time goes on.\n" +
			"Labs without root cannot be adopted: nobody can enter their namespaces any more.",
		examples: []string{"uetlab adopt fat-tree-2x4"},
		flags:    labFlags(), run: runAdopt}.command()
}

func runAdopt(c *call) error {
	d, err := orphan(c)
	if err != nil {
		return err
	}
	if runs(c.ctx, d) || len(cleanup.Daemons(d.Lab)) > 0 {
		return api.Errorf(api.CodeExists, "adopt %s: its daemon lives", d.Lab)
	}
	if os.Geteuid() != 0 {
		return api.Errorf(api.CodePrecondition, "adopt %s: a lab without root cannot be adopted", d.Lab).WithHint("uetlab down %s removes it", d.Lab)
	}
	p, err := spawn(d, false, "--adopt")
	if err != nil {
		return err
	}
	show := &stages{ui: c.ui}
	err = p.ready(c.ctx, show.add)
	show.end()
	if err != nil {
		p.kill() // asked to stop, one that has become ready just now would take the lab down
		return err
	}
	lab, err := describe(c.ctx, d)
	if err != nil {
		return explain(d, err)
	}
	return c.render(lab, func() table { return labTable([]api.Lab{lab}) })
}

// orphan finds the lab to adopt: the one named, else the only one whose daemon is dead.
func orphan(c *call) (*labdir.Dir, error) {
	name := c.arg(0)
	if name == "" {
		name = c.String("name")
	}
	if name != "" {
		return openLab(name)
	}
	all, err := labdir.List()
	if err != nil {
		return nil, err
	}
	var found []*labdir.Dir
	for _, d := range all {
		if !runs(c.ctx, d) {
			found = append(found, d)
		}
	}
	switch len(found) {
	case 0:
		return nil, api.Errorf(api.CodeNotFound, "adopt: no lab is without its daemon")
	case 1:
		return found[0], nil
	}
	return nil, usage("adopt: several labs are without their daemons (%s)", labNames(found)).WithHint("name one")
}
