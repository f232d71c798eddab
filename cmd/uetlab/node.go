package main

import (
	"github.com/urfave/cli/v2"

	"github.com/uetlab/uetlab/internal/nodeproc"
)

const nodeName = "node"

// nodeMain is the program of a node.
func nodeMain(args []string) int { return nodeproc.Main(args) }

// nodeCommand stands for the node's program in the list of commands; main runs it before command lines are read.
func nodeCommand() *cli.Command {
	return verb{name: nodeName, usage: "run as the program of a node", hidden: true, max: -1,
		run: func(c *call) error { return exitCode(nodeMain(c.args)) }}.command()
}
