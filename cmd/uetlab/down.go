package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/cleanup"
	"github.com/uetlab/uetlab/fabric/labdir"
)

func downCommand() *cli.Command {
	return verb{name: "down", args: "[NAME]", usage: "take a lab down and remove all of it", max: 1,
		text: "Works as well on a lab whose daemon, nodes or files were killed or deleted, and does nothing where nothing is left.\n" +
			"Without a name it takes down the only lab there is.",
		examples: []string{"uetlab down", "uetlab down fat-tree-2x4", "uetlab down --all"},
		flags:    []cli.Flag{&cli.BoolFlag{Name: "all", Usage: "every lab of this user"}, nameFlag()}, run: runDown}.command()
}

func runDown(c *call) error {
	labs, err := doomed(c)
	if err != nil {
		return err
	}
	if len(labs) == 0 {
		c.note("no lab is up")
	}
	var errs []error
	for _, d := range labs {
		if err := c.takeDown(d); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) > 0 && len(labs) > 1 {
		return api.Errorf(api.CodePartial, "down: %d of %d labs: %w", len(errs), len(labs), errors.Join(errs...))
	}
	return errors.Join(errs...)
}

// doomed gives the labs that the command line means, there or not.
func doomed(c *call) ([]*labdir.Dir, error) {
	name := c.arg(0)
	if name == "" && !c.Bool("all") {
		name = c.String("name")
	}
	if name != "" && c.Bool("all") {
		return nil, usage("down: both --all and a name (%s)", name).WithHint("leave one of them out")
	}
	if name != "" {
		d, err := labdir.At(name)
		if errors.Is(err, labdir.ErrName) {
			return nil, usage("down: %w", err)
		}
		return []*labdir.Dir{d}, err
	}
	all, err := labdir.List()
	if err == nil && len(all) > 1 && !c.Bool("all") {
		return nil, usage("down: several labs are there (%s)", labNames(all)).WithHint("name one, or say --all")
	}
	return all, err
}

// takeDown asks the daemon first, and then removes what is left in any case.
func (c *call) takeDown(d *labdir.Dir) error {
	start, there := time.Now(), d.Exists()
	if there {
		ctx, cancel := context.WithTimeout(c.ctx, stopTime)
		cl := api.Unix(d.Sock())
		if err := cl.Down(ctx); err != nil && !errors.Is(err, api.ErrNoDaemon) {
			c.note("lab %s: its daemon: %v", d.Lab, err)
		}
		cl.Close()
		cancel()
	}
	ctx, cancel := context.WithTimeout(c.ctx, cleanTime)
	defer cancel()
	if err := cleanLab(ctx, d.Lab); err != nil {
		return api.Errorf(api.AsError(err).Code, "lab %s: %w", d.Lab, err)
	}
	if there {
		c.note("lab %s is down, %.2f s", d.Lab, time.Since(start).Seconds())
		return nil
	}
	others := "no lab is up"
	if all, err := labdir.List(); err == nil && len(all) > 0 {
		others = fmt.Sprintf("there are %s", labNames(all))
	}
	c.note("lab %s: not there; %s", d.Lab, others)
	return nil
}

// cleanLab removes what is left of a lab whose daemon has ended or does not answer.
func cleanLab(ctx context.Context, name string) error { return cleanup.Lab(ctx, name) }
