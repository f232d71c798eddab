package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/control"
	"github.com/uetlab/uetlab/fabric/labdir"
	"github.com/uetlab/uetlab/fabric/runtime"
	"github.com/uetlab/uetlab/fabric/runtime/docker"
	"github.com/uetlab/uetlab/fabric/runtime/embedded"
)

const labdName = "labd"

// progressFD is where up hands over the pipe that takes the daemon's progress.
const progressFD = 3

// labdCommand is the lab daemon: started by up with the write end of a pipe on descriptor 3, on which it reports its
// progress (api.Progress, one JSON value a line) until the lab is ready. What to bring up stands in the lab directory.
// With --foreground it makes the lab directory itself and reports on standard error, as in a container of its own.
func labdCommand() *cli.Command {
	return verb{name: labdName, usage: "run as the daemon of a lab", hidden: true,
		flags: []cli.Flag{
			nameFlag(),
			&cli.BoolFlag{Name: "adopt", Usage: "take over a lab whose daemon has died"},
			&cli.BoolFlag{Name: "foreground", Usage: "make a new lab and stay attached"},
			&cli.StringFlag{Name: "topology", Value: defaultTopology, Usage: "with --foreground: what to bring up"},
			&cli.StringFlag{Name: "runtime", Value: runtimeAuto, Usage: "with --foreground: auto, docker or embedded", Action: checkRuntime},
			&cli.StringFlag{Name: "time", Value: "auto", Usage: "with --foreground: auto, real or K", Action: checkTime},
			&cli.Uint64Flag{Name: "seed", Value: 1, Usage: "with --foreground: seed of the lab"},
			&cli.StringFlag{Name: "listen", Usage: "also serve the API on this TCP `ADDRESS`, with a bearer token"},
		},
		run: runLabd}.command()
}

func runLabd(c *call) error {
	opt := control.Options{Version: versionInfo().Version, Listen: c.String("listen"), Adopt: c.Bool("adopt")}
	keepDescriptors() // the progress pipe too: nodes would hold it open when this process dies, and up would wait for more
	var d *labdir.Dir
	var progress io.WriteCloser
	var err error
	if c.Bool("foreground") {
		if d, opt.UpOptions, err = foregroundLab(c); err != nil {
			return err
		}
	} else {
		progress = os.NewFile(progressFD, "progress")
		if d, err = labdir.Open(c.String("name")); err != nil {
			return err
		}
		b, err := os.ReadFile(d.Options())
		if err != nil {
			return fmt.Errorf("labd: %w", err)
		}
		if err := json.Unmarshal(b, &opt.UpOptions); err != nil {
			return fmt.Errorf("labd: %s: %w", d.Options(), err)
		}
	}
	lock, err := d.Lock() // one daemon a lab
	if err != nil {
		return err
	}
	defer lock.Unlock()
	rt, err := openRuntime(c.ctx, opt.Runtime)
	if err != nil {
		return err
	}
	return control.Main(opt, d, rt, progress)
}

func openRuntime(ctx context.Context, name string) (runtime.Runtime, error) {
	if name == runtimeDocker {
		return docker.New(ctx, docker.Config{Version: versionInfo().Version})
	}
	return embedded.New(), nil
}

// foregroundLab makes the directory of a lab that has no up in front of it. What an earlier one has left is removed: the
// daemon of a container that was killed starts again under the same name.
func foregroundLab(c *call) (*labdir.Dir, api.UpOptions, error) {
	opt := api.UpOptions{Lab: c.String("name"), Topology: c.String("topology"), Time: c.String("time"), Seed: c.Uint64("seed"), Rootless: os.Geteuid() != 0}
	var err error
	if opt.Plan, err = planOf(opt.Topology); err != nil {
		return nil, opt, err
	}
	if opt.Lab == "" {
		opt.Lab = opt.Plan.Name
	}
	if opt.Runtime, err = chooseRuntime(c.ctx, c.String("runtime")); err != nil {
		return nil, opt, err
	}
	if old, err := labdir.At(opt.Lab); err == nil && old.Exists() {
		if runs(c.ctx, old) {
			return nil, opt, labExists(old)
		}
		if err := cleanLab(c.ctx, opt.Lab); err != nil {
			return nil, opt, err
		}
	}
	d, err := createLab(opt.Lab)
	return d, opt, err
}
