package main

import (
	"context"
	"encoding/json"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/uetlab/uetlab/fabric/api"
)

// Outcomes of a check.
const (
	checkOK      = "ok"
	checkWarning = "warning" // works, but something is worse than it could be or a choice is missing
	checkFailed  = "failed"  // no lab comes up
)

// check is one thing that doctor has looked at.
type check struct {
	Name   string `json:"name"`
	State  string `json:"state"`
	Detail string `json:"detail"`
	Remedy string `json:"remedy,omitempty"`
}

func ok(name, detail string) check { return check{Name: name, State: checkOK, Detail: detail} }

func warning(name, detail, remedy string) check {
	return check{Name: name, State: checkWarning, Detail: detail, Remedy: remedy}
}

func failed(name, detail, remedy string) check {
	return check{Name: name, State: checkFailed, Detail: detail, Remedy: remedy}
}

func doctorCommand() *cli.Command {
	return verb{name: "doctor", usage: "check what a lab needs of this machine, and say how to mend it",
		text:     "Checks kernel features by using them, rights, Docker, limits, memory for shared pages, and what labs have left behind.\nExit code 5 says that something is missing without which no lab comes up.",
		examples: []string{"uetlab doctor", "uetlab doctor --format json"},
		flags:    []cli.Flag{formatFlag()}, run: runDoctor}.command()
}

func runDoctor(c *call) error {
	checks := examine(c.ctx)
	err := c.render(checks, func() table {
		t := table{columns: []string{"CHECK", "STATE", "DETAIL"}}
		for _, k := range checks {
			t.add(k.Name, k.State, k.Detail)
		}
		return t
	})
	if err != nil {
		return err
	}
	missing := 0
	for _, k := range checks {
		if k.State == checkFailed {
			missing++
		}
		if k.Remedy != "" && c.String("format") == formatTable {
			c.note("%s: %s", k.Name, k.Remedy)
		}
	}
	if missing > 0 {
		return api.Errorf(api.CodePrecondition, "doctor: %d checks failed", missing).WithHint("mend those first, in this order")
	}
	return nil
}

// examine makes all checks, those that others depend on first.
func examine(ctx context.Context) []check {
	root := os.Geteuid() == 0
	checks := []check{kernelCheck(), rightsCheck(root)}
	checks = append(checks, featureChecks(ctx, root)...)
	checks = append(checks, dockerCheck(ctx, root))
	checks = append(checks, limitChecks()...)
	checks = append(checks, pagesCheck(), coresCheck())
	checks = append(checks, toolChecks()...)
	return append(checks, leftoverChecks(ctx, root)...)
}

// probeName is the hidden command that doctor runs in fresh namespaces.
const probeName = "__probe"

// probeResult says what went wrong with each kernel feature; empty means that it works.
type probeResult struct {
	Veth   string `json:"veth"`
	Packet string `json:"packet"`
	Mount  string `json:"mount"`
}

func probeCommand() *cli.Command {
	return verb{name: probeName, usage: "try kernel features in the namespaces that it was started in", hidden: true,
		run: func(c *call) error { return json.NewEncoder(c.out).Encode(probe()) }}.command()
}
