// Command htsim puts what htsim and the simulator make of the same fabrics and flows side by side: docs/htsim.md, and docs/htsim.json with the
// figures alone. It reads comparisons (what uetlab compare --format json prints of labs/htsim) and the files beside it and in labs/data/htsim.
// It measures nothing itself, and fails where the two differ by more than a tenth and nobody has said why.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/uetlab/uetlab/fabric/experiment"
)

const (
	dataDir   = "labs/data/htsim"
	labDir    = "labs/htsim"
	tolerance = 0.10 // of a completion time, from which on a cause has to be named
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go run ./scripts/htsim COMPARISONS.json, in the directory of the repository")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "htsim:", err)
		os.Exit(1)
	}
}

func run(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("comparisons: %w", err)
	}
	var list []*experiment.Comparison
	if err := json.Unmarshal(text, &list); err != nil {
		return fmt.Errorf("comparisons (%s): %w", file, err)
	}
	t, err := newTable(list)
	if err != nil {
		return err
	}
	figures, err := json.MarshalIndent(t, "", "  ")
	if err != nil {
		return err
	}
	page, err := t.page(list)
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile("docs/htsim.json", append(figures, '\n'), 0o644), os.WriteFile("docs/htsim.md", page, 0o644), t.unexplained())
}

// unexplained is an error where a difference has no cause.
func (t *table) unexplained() error {
	var bad []string
	for i := range t.Rows {
		if r := &t.Rows[i]; r.Far && r.Cause == "" {
			bad = append(bad, fmt.Sprintf("%s %s %s (mean %+.1f %%, max %+.1f %%)", r.Row, r.Experiment, r.Variant, r.MeanOff, r.MaxOff))
		}
	}
	if bad == nil {
		return nil
	}
	return fmt.Errorf("differences without a cause in %s: %s", filepath.Join(labDir, "rows.csv"), strings.Join(bad, "; "))
}
