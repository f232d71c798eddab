package main

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/internal/perf"
)

func TestPerfLinesThatAreWrong(t *testing.T) {
	here(t)
	check := func(cmd string, code int, parts ...string) {
		t.Helper()
		o := runLine(t, context.Background(), cmd)
		if o.code != code || o.out != "" {
			t.Errorf("%s: %+v, want code %d", cmd, o, code)
		}
		for _, p := range parts {
			if !strings.Contains(o.err, p) {
				t.Errorf("%s: %q has no %q", cmd, o.err, p)
			}
		}
	}
	check("perf send lat", api.CodeNotFound, "none is up", "uetlab up")
	fakeLab(t, "one")
	check("perf", api.CodeUsage, "TEST lat|bw")
	check("perf sned lat", api.CodeUsage, "sned", "did you mean send?")
	check("perf send speed", api.CodeUsage, "speed")
	check("perf send lat host0", api.CodeUsage, "host0", "between")
	check("perf send lat host0 nodeX", api.CodeNotFound, "nodeX")
	check("perf send lat host0 host0", api.CodeUsage, "the same")
	check("perf send lat host0 host1 host2", api.CodeUsage, "host2")
	check("perf send lat --size 8:", api.CodeUsage, "--size")
	check("perf send lat --size 2G", api.CodeUsage, "--size")
	check("perf send lat --iters 0", api.CodeUsage, "--iters")
	check("perf send lat -b", api.CodeUsage, "--bidirectional")
	check("perf atomic lat --op swap", api.CodeUsage, "swap", "cas")
	check("perf send lat --format yaml", api.CodeUsage, "yaml", "csv")
}

func TestPerfTellsItsConditions(t *testing.T) {
	spec, err := topology.Resolve("fat-tree-2x4")
	if err != nil {
		t.Fatal(err)
	}
	plan, err := topology.BuildPlan(spec)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := perfEnds(plan, []string{"host0", "leaf0"}); err == nil || !strings.Contains(err.Error(), "leaf0") || !strings.Contains(err.Error(), "switch") {
		t.Errorf("a switch as an end: %v", err)
	}
	if ends, err := perfEnds(plan, nil); err != nil || ends[0].Name != "host0" || ends[1].Name != "host1" {
		t.Errorf("no ends named: %v", err)
	}
	node := func(name string) *topology.Node {
		n, err := plan.Node(name)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	var b strings.Builder
	for _, to := range []string{"host1", "host5"} {
		c := perfConditions(plan, [2]*topology.Node{node("host0"), node(to)}, api.Lab{Name: "one", Runtime: "embedded", Time: "auto"})
		c.Faults = append(c.Faults, "leaf0-spine1 down")
		b.WriteString(c.text(&perf.Spec{Test: perf.Atomic, Metric: perf.BW, Op: perf.CAS, Bidirectional: true, Ordered: true}))
		c.Faults, c.Time, c.Machine = nil, "real", "2 processors, load 0.10"
		b.WriteString(c.text(&perf.Spec{Test: perf.Send, Metric: perf.Lat}))
	}
	golden(t, "testdata/perf-conditions.golden", b.String())
}

func TestPerfWordsAreCompleted(t *testing.T) {
	here(t)
	fakeLab(t, "one")
	for line, want := range map[string]string{"perf ": "tsend", "perf send ": "bw", "perf send lat ": "host0", "perf send lat host0 ": "host1",
		"perf atomic lat --op ": "cas", "perf send lat --format ": "csv"} {
		words := strings.Split(line, " ")
		if got := complete(context.Background(), words[:len(words)-1], ""); !slices.Contains(got, want) || slices.Contains(got, "leaf0") {
			t.Errorf("%s: %v, want %s among them", line, got, want)
		}
	}
}
