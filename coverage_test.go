package uetlab_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestCoverageIsTrue holds docs/coverage.md to the tree: the tests that a row names are in the packages that it names, and the sums at its
// head are those of its rows.
func TestCoverageIsTrue(t *testing.T) {
	page, err := os.ReadFile("docs/coverage.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile(`(?m)^\| (\d+) \| .* \| (?:core|baseline|tool) \| (.*) \|$`)
	test := regexp.MustCompile("`((?:Test|Fuzz|Example)[A-Z][A-Za-z0-9_]*)`")
	where := regexp.MustCompile(`(?:\(|of |, (?:all )?)(root|[a-z][a-z0-9]*(?:/[a-z0-9]+)*)\b`)
	var shown, part, open, named int
	for _, r := range row.FindAllStringSubmatch(string(page), -1) {
		switch text := r[2]; {
		case text == "open":
			open++
			continue
		case strings.HasPrefix(text, "in part: "):
			part++
		default:
			shown++
		}
		for _, at := range test.FindAllStringSubmatchIndex(r[2], -1) {
			name := r[2][at[2]:at[3]]
			named++
			dir := ""
			for _, m := range where.FindAllStringSubmatch(r[2][at[1]:], -1) {
				if dir = m[1]; isDir(dir) {
					break
				}
				dir = ""
			}
			if dir == "" {
				t.Errorf("row %s: %s: no package is named behind it", r[1], name)
			} else if !defines(t, dir, name) {
				t.Errorf("row %s: %s is not in %s", r[1], name, dir)
			}
		}
	}
	if want := fmt.Sprintf("Now: %d rows shown, %d in part, %d open, of %d.", shown, part, open, shown+part+open); !strings.Contains(string(page), want) {
		t.Errorf("the head should say %q", want)
	}
	if named < 100 {
		t.Errorf("only %d tests found", named)
	}
}

// isDir says whether a row's package is one of the tree.
func isDir(dir string) bool {
	if dir == "root" || dir == "topology" {
		return true
	}
	st, err := os.Stat(dir)
	return err == nil && st.IsDir()
}

// defines says whether a package has the test.
func defines(t *testing.T, dir, name string) bool {
	switch dir {
	case "root":
		dir = "."
	case "topology":
		dir = "fabric/topology"
	}
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	more, _ := filepath.Glob(filepath.Join(dir, "*", "*_test.go")) // scripts keep them one level down
	if strings.HasPrefix(dir, "scripts/") {
		files = append(files, more...)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(b), "func "+name+"(") {
			return true
		}
	}
	return false
}
