package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestShapesOfHtsim plays some of the experiments whose figures docs/htsim.md has beside htsim's, with fewer seeds: load balancers keep their
// order and their bands on a full fabric and on one with a slow spine, and an incast its trims.
func TestShapesOfHtsim(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds")
	}
	data, err := filepath.Abs("../../labs/data")
	if err != nil {
		t.Fatal(err)
	}
	seeds := regexp.MustCompile(`(?m)^seeds: .*$`)
	for _, name := range []string{"permutation-16", "permutation-32", "incast-8", "degraded-25"} {
		text, err := os.ReadFile("../../labs/htsim/" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		file := experimentFile(t, seeds.ReplaceAllString(strings.ReplaceAll(string(text), "../data", data), "seeds: [1, 2, 3]"))
		o := runLine(t, context.Background(), "compare "+file+" --sim")
		if t.Log(o.out); o.code != 0 {
			t.Errorf("%s: exit code %d: %s", name, o.code, o.err)
		}
	}
}
