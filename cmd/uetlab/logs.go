package main

import (
	"github.com/urfave/cli/v2"
)

func logsCommand() *cli.Command {
	return verb{name: "logs", args: "NODE", usage: "print what a node has written", min: 1, max: 1,
		examples: []string{"uetlab logs leaf0", "uetlab logs -f host0"},
		flags:    []cli.Flag{followFlag(), nameFlag()}, run: runLogs}.command()
}

func followFlag() cli.Flag {
	return &cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "go on until Ctrl-C"}
}

func runLogs(c *call) error {
	cl, d, err := c.client()
	if err != nil {
		return err
	}
	stream, err := cl.Logs(c.ctx, c.arg(0), c.Bool("follow"))
	if err != nil {
		return explain(d, err)
	}
	defer stream.Close()
	return copyLines(c.out, stream)
}
