package main

import (
	"github.com/urfave/cli/v2"

	"github.com/uetlab/uetlab/fabric/api"
)

func restartCommand() *cli.Command {
	return verb{name: "restart", args: "NODE", usage: "end a node and start it again with its links wired anew", min: 1, max: 1,
		text: "Works as well on a node that has died. Its links go down with it and come up when it is back; all impairments of these\n" +
			"links are gone then.",
		examples: []string{"uetlab restart leaf0"},
		flags:    labFlags(), run: func(c *call) error {
			cl, d, err := c.client()
			if err != nil {
				return err
			}
			defer cl.Close()
			n, err := cl.Restart(c.ctx, c.arg(0))
			if err != nil {
				return explain(d, err)
			}
			return c.render(n, func() table { return nodeTable([]api.NodeStatus{n}) })
		}}.command()
}
