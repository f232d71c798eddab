package main

import (
	"github.com/uetlab/uetlab/fabric/experiment"
)

func newLabRunner(c *call, e *experiment.Experiment) (experiment.Runner, error) {
	return nil, usage("compare: on a lab").WithHint("--sim")
}
