package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/workload"
	"github.com/uetlab/uetlab/workload/matrix"
)

const (
	htsimTopo   = "../../fabric/topology/testdata/htsim/ls16.topo"
	htsimMatrix = "../../workload/matrix/testdata/perm16_2000000_s1.cm"
)

// matrixFile writes a matrix of two hosts; lines follow its header.
func matrixFile(t *testing.T, header string, lines ...string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "x.cm")
	if err := os.WriteFile(name, []byte(header+"\n"+strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestSimOfHTSimFiles(t *testing.T) {
	var r workload.Result
	simResult(t, htsimTopo+" -- matrix --check --file "+htsimMatrix, &r)
	if r.Ranks != 16 || len(r.PerFlow) != 16 || r.SizeBytes != 32_000_000 || r.Correct == nil || !*r.Correct {
		t.Errorf("%d ranks, %d flows, %d bytes, correct %v", r.Ranks, len(r.PerFlow), r.SizeBytes, r.Correct)
	}
	o := runLine(t, context.Background(), "sim "+htsimTopo+" matrix --emit htsim --file "+htsimMatrix)
	if n := strings.Count(o.out, "\n"); n != 16 || strings.Count(o.out, " finished at ") != n || o.code != 0 {
		t.Errorf("%+v", o)
	}
	if o = runLine(t, context.Background(), "topo gen "+htsimTopo); o.code != 0 || !strings.Contains(o.out, "name: ls16\n") {
		t.Errorf("%+v", o)
	}
	if o = runLine(t, context.Background(), "topo validate "+htsimTopo); o.code != 0 {
		t.Errorf("%+v", o)
	}
}

func TestMatrixFlags(t *testing.T) {
	cm := matrixFile(t, "Nodes 2\nConnections 1", "0->1 start 0 size 1000")
	odd := matrixFile(t, "Nodes 2\nConnections 1", "0->1  start 0 size 1000 colour 3")
	far := matrixFile(t, "Nodes 2\nConnections 1", "0->1 start 3000000 size 1000")
	for _, c := range []struct {
		in, msg string
		code    int
	}{
		{"sim pair -- matrix --file " + cm, "", api.CodeOK},
		{"sim pair -- matrix", "name its file", api.CodeUsage},
		{"sim pair -- matrix --file " + cm + ".not", "--file: open", api.CodeUsage},
		{"sim pair -- matrix --file " + htsimTopo, "--file: ", api.CodeUsage},
		{"sim pair -- matrix --file " + htsimMatrix, "matrix: 16 hosts, the lab has 2 end points", api.CodeUsage},
		{"sim star-4 -- matrix --ranks 3 --file " + cm, "the matrix has 2 hosts", api.CodeUsage},
		{"sim star-4 -- matrix --ranks 3,1 --file " + cm, "", api.CodeOK},
		{"sim pair -- matrix --size 1M --file " + cm, "leave the flag out", api.CodeUsage},
		{"sim pair -- matrix --file " + odd, "colour", api.CodeUsage},
		{"sim pair -- matrix --cm-lenient --file " + odd, "colour", api.CodeOK},
		{"sim pair -- matrix --cm-start-unit ps --file " + far, "", api.CodeOK},
		{"sim pair -- matrix --cm-start-unit ns --file " + cm, "valid are us, ps", api.CodeUsage},
		{"sim pair -- matrix --emit csv --file " + cm, "valid is htsim", api.CodeUsage},
		{"sim pair -- matrix --emit htsim --format json --file " + cm, "--emit htsim", api.CodeUsage},
		{"sim pair -- incast --file " + cm, "--file: incast reads no matrix", api.CodeUsage},
		{"sim pair -- incast --cm-lenient", "--cm-lenient: incast reads no matrix", api.CodeUsage},
		{"sim nowhere.topo -- incast", "topology: open", api.CodeUsage},
	} {
		if o := runLine(t, context.Background(), c.in); o.code != c.code || !strings.Contains(o.err, c.msg) || c.msg == "" && o.err != "" {
			t.Errorf("%s: %+v, want code %d and %q", c.in, o, c.code, c.msg)
		}
	}
}

func TestRunSendsTheMatrix(t *testing.T) {
	here(t)
	f := fakeLab(t, "one")
	o := runLine(t, context.Background(), "run matrix --file "+matrixFile(t, "Nodes 2\nConnections 1", "0->1 start 0 size 1000"))
	want := `"matrix":{"nodes":2,"flows":[{"id":1,"src":0,"dst":1,"size":1000}]}`
	if o.code != 0 || len(f.got) != 1 || !strings.Contains(f.got[0], want) || !strings.Contains(f.got[0], `"sizes":[0]`) {
		t.Errorf("%+v, asked for %q", o, f.got)
	}
}

// failing is a matrix of 16 hosts for fat-tree-k4, with a failure.
func failing(t *testing.T, failure string) string {
	t.Helper()
	return matrixFile(t, "Nodes 16\nConnections 1\nFailures 1", "0->15 start 0 size 1000000", "failure "+failure)
}

// TestMatrixFailures holds links that a matrix wants down to carry nothing, and to be the ones that it names.
func TestMatrixFailures(t *testing.T) {
	all, some := filepath.Join(t.TempDir(), "all"), filepath.Join(t.TempDir(), "some")
	healthy := matrixFile(t, "Nodes 16\nConnections 1", "0->15 start 0 size 1000000")
	for name, file := range map[string]string{all: healthy, some: failing(t, "switch_type AGG switch_id 0 link_id 0")} {
		if o := runLine(t, context.Background(), "sim fat-tree-k4 -- matrix --trace "+name+" --file "+file); o.code != 0 {
			t.Fatalf("%+v", o)
		}
	}
	_, before := readTrace(t, all)
	_, after := readTrace(t, some)
	quiet := 0
	for iface := range before {
		if after[iface] == 0 {
			quiet++
		}
	}
	if quiet == 0 {
		t.Error("every link carries frames still")
	}
	plan, err := planOf("fat-tree-k4")
	if err != nil {
		t.Fatal(err)
	}
	m := &matrix.Matrix{Nodes: 16, Failures: []matrix.Failure{{Tier: "AGG", Switch: 2, Link: 1}, {Tier: "TOR", Switch: 3, Link: 0}}}
	ids, err := failures(plan, m)
	if err != nil || len(ids) != 2 {
		t.Fatalf("%v, %v", ids, err)
	}
	for i, tiers := range [][2]int{{2, 3}, {1, 2}} {
		l := &plan.Links[ids[i]]
		a, b := plan.Nodes[l.A.Node].Tier, plan.Nodes[l.B.Node].Tier
		if min(a, b) != tiers[0] || max(a, b) != tiers[1] {
			t.Errorf("%s joins tiers %d and %d", l.Name, a, b)
		}
	}
	for _, bad := range []string{"switch_type AGG switch_id 99 link_id 0", "switch_type AGG switch_id 0 link_id 2", "switch_type CORE switch_id 0 link_id 0"} {
		if o := runLine(t, context.Background(), "sim fat-tree-k4 -- matrix --file "+failing(t, bad)); o.code != api.CodeUsage || !strings.Contains(o.err, bad) {
			t.Errorf("%+v", o)
		}
	}
}

// TestRunWantsLinksDown has a lab of which a matrix wants a link down that is not.
func TestRunWantsLinksDown(t *testing.T) {
	here(t)
	f := fakeLab(t, "one")
	plan, err := planOf("fat-tree-k4")
	if err != nil {
		t.Fatal(err)
	}
	f.plan = plan
	o := runLine(t, context.Background(), "run matrix --file "+failing(t, "switch_type AGG switch_id 0 link_id 7"))
	if o.code != api.CodeUsage || !strings.Contains(o.err, "no such link upwards") {
		t.Errorf("%+v", o)
	}
}
