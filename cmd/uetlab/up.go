package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/labdir"
	"github.com/uetlab/uetlab/fabric/runtime/docker"
	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/internal/nearest"
)

// Runtimes of a lab, as typed.
const (
	runtimeAuto     = "auto"
	runtimeDocker   = "docker"
	runtimeEmbedded = "embedded"
)

const defaultTopology = "fat-tree-2x4"

func upCommand() *cli.Command {
	return verb{name: "up", args: "[TOPOLOGY|FILE]", usage: "bring a lab up", max: 1,
		text: "TOPOLOGY is a shipped or generated name (uetlab topo ls) or a file; without one it is " + defaultTopology + ". The lab is named after\n" +
			"the topology unless --name says otherwise. When it fails, or at Ctrl-C, everything is undone.\n" +
			"--time auto lets virtual time pass as fast as the nodes can go, --time 1000 at most at 1/1000 of the wall, --time real\n" +
			"makes an ordinary network without virtual time.",
		examples: []string{"uetlab up fat-tree-2x4", "uetlab up my.yaml --name two --seed 7", "uetlab up fat-tree-k8 --runtime embedded", "uetlab up pair --time real --format json"},
		flags: []cli.Flag{
			nameFlag(),
			&cli.StringFlag{Name: "runtime", Value: runtimeAuto, Usage: "auto, docker or embedded; auto takes docker where an engine answers to root", Action: checkRuntime},
			&cli.StringFlag{Name: "time", Value: "auto", Usage: "auto, real, or K: at most 1/K of the wall", Action: checkTime},
			&cli.Uint64Flag{Name: "seed", Value: 1, Usage: "of every random choice of the lab"},
			formatFlag(),
		}, run: runUp}.command()
}

func checkRuntime(_ *cli.Context, s string) error {
	valid := []string{runtimeAuto, runtimeDocker, runtimeEmbedded}
	for _, v := range valid {
		if s == v {
			return nil
		}
	}
	e := usage("--runtime (%s): not a runtime", s)
	if near := nearest.Word(s, valid); near != "" {
		return e.WithHint("did you mean %s?", near)
	}
	return e.WithHint("valid are auto, docker, embedded")
}

func checkTime(_ *cli.Context, s string) error {
	if s == "auto" || s == "real" {
		return nil
	}
	if _, err := parseCap(s); err != nil {
		return usage("--time (%s): not a way for time to pass", s).WithHint("valid are auto, real, or a number K of 1 or more")
	}
	return nil
}

// chooseRuntime settles auto.
func chooseRuntime(ctx context.Context, want string) (string, error) {
	root := os.Geteuid() == 0
	switch {
	case want == runtimeEmbedded || want == runtimeAuto && !root:
		return runtimeEmbedded, nil
	case !root:
		return "", api.Errorf(api.CodePrecondition, "--runtime docker: needs root, to wire the containers").WithHint("use sudo, or --runtime embedded")
	}
	rt, err := docker.New(ctx, docker.Config{})
	if err == nil {
		return runtimeDocker, rt.Close()
	}
	if want == runtimeAuto && ctx.Err() == nil {
		return runtimeEmbedded, nil
	}
	return "", api.Errorf(api.CodePrecondition, "--runtime docker: %w", err).WithHint("uetlab doctor tells more; --runtime embedded needs no Docker")
}

func runUp(c *call) error {
	start := time.Now()
	opt, err := upOptions(c)
	if err != nil {
		return err
	}
	d, err := createLab(opt.Lab)
	if err != nil {
		return err
	}
	if err := bringUp(c, d, opt); err != nil {
		c.note("undoing what was done")
		if uerr := undo(d); uerr != nil {
			c.note("uetlab: undo: %v\nhint: uetlab down %s tries again", uerr, d.Lab)
		}
		return err
	}
	lab, err := describe(context.WithoutCancel(c.ctx), d)
	if err != nil {
		return explain(d, err)
	}
	c.note("lab %s is up: %d nodes, %d links, %s, %.2f s", lab.Name, lab.Nodes, lab.Links, lab.Runtime, time.Since(start).Seconds())
	if cc := idleControl(&opt); cc != "" {
		c.note("cc: %s has no effect with --time real: round trips are the machine's, and windows fixed", cc)
	}
	if what := idleLinks(&opt); what != "" {
		c.note("%s: labs with --time real have none; with --time auto links are as the topology says", what)
	}
	if slices.ContainsFunc(opt.Plan.Links, func(l topology.Link) bool { return l.LLDP }) {
		noteWiring(c, d)
	}
	return c.render(lab, func() table { return labTable([]api.Lab{lab}) })
}

// upOptions works out what the command line asks for, before anything is made.
func upOptions(c *call) (api.UpOptions, error) {
	opt := api.UpOptions{Lab: c.String("name"), Topology: c.arg(0), Time: c.String("time"), Seed: c.Uint64("seed"), Rootless: os.Geteuid() != 0}
	if opt.Topology == "" {
		opt.Topology = defaultTopology
	}
	var err error
	if opt.Plan, err = planOf(opt.Topology); err != nil {
		return opt, err
	}
	if opt.Lab == "" {
		opt.Lab = opt.Plan.Name
	}
	if err = labdir.CheckName(opt.Lab); err != nil {
		return opt, usage("--name: %w", err)
	}
	if d, err := labdir.Open(opt.Lab); err == nil {
		return opt, labExists(d)
	}
	opt.Runtime, err = chooseRuntime(c.ctx, c.String("runtime"))
	return opt, err
}

// idleControl names the congestion control that somebody has chosen and a lab at the wall's pace does without; empty: there is none.
func idleControl(opt *api.UpOptions) string {
	for i := range opt.Plan.Nodes {
		if f := opt.Plan.Nodes[i].FEP; f != nil && f.CC != "" && f.CC != topology.DefaultCC && opt.Time == "real" {
			return f.CC
		}
	}
	return ""
}

// idleLinks names what the topology asks of links that a lab at the wall's pace does without; empty: nothing.
func idleLinks(opt *api.UpOptions) string {
	if opt.Time != "real" {
		return ""
	}
	var what []string
	if slices.ContainsFunc(opt.Plan.Links, func(l topology.Link) bool { return l.LLR != nil }) {
		what = append(what, "llr")
	}
	if slices.ContainsFunc(opt.Plan.Links, func(l topology.Link) bool { return l.CBFC != nil }) {
		what = append(what, "cbfc")
	}
	return strings.Join(what, ", ")
}

func labExists(d *labdir.Dir) error {
	return api.Errorf(api.CodeExists, "lab %s: exists already", d.Lab).WithHint("uetlab down %s removes it, --name NAME brings up another one", d.Lab)
}

func createLab(lab string) (*labdir.Dir, error) {
	d, err := labdir.Create(lab)
	if errors.Is(err, labdir.ErrExists) {
		if d, err := labdir.At(lab); err == nil {
			return nil, labExists(d)
		}
	}
	return d, err
}

// bringUp starts the daemon and waits until the lab is ready. On an error the daemon has ended, and the rest is to be
// undone.
func bringUp(c *call, d *labdir.Dir, opt api.UpOptions) error {
	b, err := json.Marshal(opt)
	if err != nil {
		return err
	}
	if err := os.WriteFile(d.Options(), b, 0o600); err != nil {
		return fmt.Errorf("up: %w", err)
	}
	if cause := context.Cause(c.ctx); cause != nil {
		return cause
	}
	p, err := spawn(d, opt.Rootless)
	if err != nil {
		return err
	}
	show := &stages{ui: c.ui}
	err = p.ready(c.ctx, show.add)
	show.end()
	if err == nil {
		err = context.Cause(c.ctx) // a signal that came just now counts as well: nobody waits for this lab
	}
	if err != nil {
		p.stop()
	}
	return err
}

// undo removes what a failed up has left. It does not stop for a signal that has come already.
func undo(d *labdir.Dir) error {
	ctx, cancel := context.WithTimeout(context.Background(), cleanTime)
	defer cancel()
	return cleanLab(ctx, d.Lab)
}

// stages shows how far up is: one line that changes on a terminal, else a line a stage.
type stages struct {
	ui   *ui
	last string
	open bool
}

func (s *stages) add(p api.Progress) {
	if p.Stage == "" || p.Stage == api.StageReady {
		return
	}
	text := p.Stage
	if p.Total > 0 {
		text += fmt.Sprintf(" %d/%d", p.Done, p.Total)
	}
	if p.Text != "" {
		text += " " + p.Text
	}
	switch {
	case terminal(s.ui.err):
		fmt.Fprintf(s.ui.err, "\r\x1b[K%s", text)
		s.open = true
	case p.Stage != s.last:
		s.ui.note("%s", text)
	}
	s.last = p.Stage
}

func (s *stages) end() {
	if s.open {
		fmt.Fprint(s.ui.err, "\r\x1b[K")
	}
}
