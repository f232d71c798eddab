package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/uetlab/uetlab/fabric/experiment"
)

// TestLabsAreGood reads all experiments that come with uetlab and tries their settings on their topologies; each states claim and source, expects
// something, and is in the table of labs/README.md.
func TestLabsAreGood(t *testing.T) {
	files, err := filepath.Glob("../../labs/*.yaml")
	if err != nil || len(files) < 15 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	readme, err := os.ReadFile("../../labs/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		e, err := experiment.Parse(file, text)
		if err != nil {
			t.Error(err)
			continue
		}
		if e.Claim == "" || e.Source == "" || len(e.Expect) == 0 || e.Name+".yaml" != filepath.Base(file) {
			t.Errorf("%s: name, claim, source, expect: %+v", file, e)
		}
		if row := "| [" + e.Name + "](" + e.Name + ".yaml) | " + e.Claim + " | " + e.Source + " | pass<br>"; !strings.Contains(string(readme), row) {
			t.Errorf("labs/README.md lacks %s: make labs-table writes it", row)
		}
		for _, v := range e.Variants {
			if v.FEP["transport"] != "" {
				continue
			}
			for _, key := range []string{"cc", "lb", "ack"} {
				if v.FEP[key] == "" && e.Name != "roce-incast" {
					t.Errorf("%s: %s: leaves %s to a default that may change", file, v.Name, key)
				}
			}
		}
		inner, err := labsCall(t).runner(e)
		if err == nil {
			err = e.Prepare(inner)
		}
		if err != nil {
			t.Error(err)
		}
	}
}

// labsCall is the command line of compare --sim.
func labsCall(t *testing.T) *call {
	t.Helper()
	c := &call{ui: &ui{in: os.Stdin, out: &counter{Writer: new(strings.Builder)}, err: new(strings.Builder), signals: &signals{}}, ctx: context.Background()}
	got, err := c.readRun(c.ctx, compareCommand(), []string{"--sim=", "x.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestLabs plays the experiments that take a second or two: the published claims about load balancing, failures, incast and signals. `make labs` plays all.
func TestLabs(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds")
	}
	for _, name := range []string{"spraying", "reps-stable-queues", "slow-spine", "link-failure", "link-failure-routed", "incast-100", "cc-incast", "cc-oversubscribed", "signals"} {
		o := runLine(t, context.Background(), "compare ../../labs/"+name+".yaml --sim --jobs 1")
		if t.Log(o.out); o.code != 0 {
			t.Errorf("%s: exit code %d: %s", name, o.code, o.err)
		}
	}
}
