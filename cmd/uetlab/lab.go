package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/labdir"
	"github.com/uetlab/uetlab/fabric/topology"
)

// labEnv is the environment variable that stands for --name.
const labEnv = "UETLAB_LAB"

func nameFlag() cli.Flag {
	return &cli.StringFlag{Name: "name", Aliases: []string{"n"}, EnvVars: []string{labEnv},
		Usage: "the `LAB`; needed when several run"}
}

// probeTime is how long a daemon may take to say that it is there.
const probeTime = 2 * time.Second

// client gives the daemon of the lab that the command line means: --name, else the only one that runs.
func (c *call) client() (*api.Client, *labdir.Dir, error) {
	d, err := c.lab(runs)
	if err != nil {
		return nil, nil, err
	}
	return api.Unix(d.Sock()), d, nil
}

// lab finds the lab that the command line means: --name, else the only one that is counted.
func (c *call) lab(counted func(context.Context, *labdir.Dir) bool) (*labdir.Dir, error) {
	if name := c.String("name"); name != "" {
		return openLab(name)
	}
	all, err := labdir.List()
	if err != nil {
		return nil, err
	}
	var found []*labdir.Dir
	for _, d := range all {
		if counted(c.ctx, d) {
			found = append(found, d)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return nil, usage("lab: several are up (%s)", labNames(found)).WithHint("say which with --name")
	case len(all) > 0:
		return nil, api.Errorf(api.CodeFailure, "lab: none answers; left over are %s", labNames(all)).WithHint("uetlab down --all removes them")
	}
	return nil, api.Errorf(api.CodeNotFound, "lab: none is up").WithHint("uetlab up fat-tree-2x4 starts one")
}

// openLab finds a lab by name.
func openLab(name string) (*labdir.Dir, error) {
	d, err := labdir.Open(name)
	switch {
	case errors.Is(err, labdir.ErrName):
		return nil, usage("--name: %w", err)
	case errors.Is(err, labdir.ErrMissing):
		e := api.Errorf(api.CodeNotFound, "lab %s: not there", name)
		if all, err := labdir.List(); err == nil && len(all) > 0 {
			return nil, e.WithHint("there are %s", labNames(all))
		}
		return nil, e.WithHint("no lab is up; uetlab up fat-tree-2x4 starts one")
	}
	return d, err
}

// runs says whether the lab's daemon answers.
func runs(ctx context.Context, d *labdir.Dir) bool {
	_, err := describe(ctx, d)
	return err == nil
}

// describe asks a lab's daemon what it is, and does not wait long.
func describe(ctx context.Context, d *labdir.Dir) (api.Lab, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	cl := api.Unix(d.Sock())
	defer cl.Close()
	return cl.Lab(ctx)
}

func labNames(dirs []*labdir.Dir) string {
	var names []string
	for _, d := range dirs {
		names = append(names, d.Lab)
	}
	return strings.Join(names, ", ")
}

// explain tells a daemon that is gone from other failures.
func explain(d *labdir.Dir, err error) error {
	if errors.Is(err, api.ErrNoDaemon) {
		return api.Errorf(api.CodeFailure, "lab %s: %w", d.Lab, err).WithHint("its log is %s; uetlab down %s removes what is left", d.DaemonLog(), d.Lab)
	}
	return err
}

// topologyError gives what is wrong with a topology the exit code of a usage error, one problem a line.
func topologyError(err error) error {
	if err == nil {
		return nil
	}
	e := usage("%w", err)
	var problems topology.Problems
	if errors.As(err, &problems) && len(problems) > 1 {
		return e.WithHint("%d problems; uetlab topo schema prints what is valid", len(problems))
	}
	if errors.Is(err, topology.ErrUnknown) {
		return e.WithHint("uetlab topo ls lists topologies")
	}
	return e
}

// notFound gives an unknown node or link its exit code.
func notFound(err error) error {
	if errors.Is(err, topology.ErrUnknown) {
		return api.Errorf(api.CodeNotFound, "%w", err)
	}
	return err
}

// labFlags are the flags of every command that prints something about a lab.
func labFlags(more ...cli.Flag) []cli.Flag { return append(more, nameFlag(), formatFlag()) }
