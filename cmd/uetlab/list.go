package main

import (
	"time"

	"github.com/urfave/cli/v2"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/labdir"
)

func lsCommand() *cli.Command {
	return verb{name: "ls", usage: "list the labs on this machine",
		text:     "Lists the labs of this user. A lab whose daemon does not answer is shown as dead; uetlab down removes what is left of it.",
		examples: []string{"uetlab ls", "uetlab ls --format json"},
		flags:    []cli.Flag{formatFlag()}, run: runLs}.command()
}

// labDead is the state of a lab whose daemon does not answer.
const labDead = "dead"

func runLs(c *call) error {
	dirs, err := labdir.List()
	if err != nil {
		return err
	}
	var labs []api.Lab
	for _, d := range dirs {
		lab, err := describe(c.ctx, d)
		if err != nil {
			lab = api.Lab{Name: d.Lab, State: labDead, Dir: d.Path}
		}
		labs = append(labs, lab)
	}
	return c.render(labs, func() table { return labTable(labs) })
}

func labTable(labs []api.Lab) table {
	t := table{columns: []string{"NAME", "STATE", "TOPOLOGY", "RUNTIME", "TIME", "NODES", "LINKS", "SEED", "PID", "CREATED"}}
	for _, l := range labs {
		created := "-"
		if !l.CreatedAt.IsZero() {
			created = l.CreatedAt.UTC().Format(time.RFC3339)
		}
		t.add(l.Name, l.State, dash(l.Topology), dash(l.Runtime), dash(l.Time), l.Nodes, l.Links, l.Seed, l.Pid, created)
	}
	return t
}

func psCommand() *cli.Command {
	return verb{name: "ps", usage: "list the nodes of a lab",
		examples: []string{"uetlab ps", "uetlab ps --name two --format yaml"},
		flags:    labFlags(), run: runPs}.command()
}

func runPs(c *call) error {
	cl, d, err := c.client()
	if err != nil {
		return err
	}
	nodes, err := cl.Nodes(c.ctx)
	if err != nil {
		return explain(d, err)
	}
	return c.render(nodes, func() table { return nodeTable(nodes) })
}

func nodeTable(nodes []api.NodeStatus) table {
	t := table{columns: []string{"NODE", "KIND", "STATE", "PID", "CONTAINER", "IPV4", "IPV6", "PORTS", "HORIZON"}}
	for _, n := range nodes {
		t.add(n.Name, n.Kind, n.State, n.Pid, short(n.Container), n.Addr4, n.Addr6, n.Ports, nanos(n.HorizonNs))
	}
	return t
}

// short is a container's ID as Docker's own listings show it.
func short(id string) string {
	const most = 12
	return dash(id[:min(most, len(id))])
}
