// Command conformance writes docs/conformance.md: for every requirement of the checklists in docs/spec the tests that
// bear its id in their names, and how they ended in the run that the page is made from. It judges nothing by itself: a
// requirement passes when tests of its name pass.
//
// It runs those tests, or reads what `go test -json` said of them from a file (-tests).
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// pageFile is what is written, below the root of the tree.
const pageFile = "docs/conformance.md"

func main() {
	root := flag.String("root", ".", "root of the tree")
	from := flag.String("tests", "", "file with the output of go test -json; without it the tests are run")
	flag.Parse()
	failed, err := write(*root, *from)
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
	if failed > 0 {
		fmt.Fprintf(os.Stderr, "conformance: %d requirements fail: see %s\n", failed, pageFile)
		os.Exit(1)
	}
}

// write makes the page and says how many requirements fail.
func write(root, from string) (failed int, err error) {
	lists, err := readChecklists(root)
	if err != nil {
		return 0, err
	}
	tests, err := findTests(root, lists)
	if err != nil {
		return 0, err
	}
	out, err := output(root, from, tests)
	if err != nil {
		return 0, err
	}
	ended, err := readResults(out)
	if err != nil {
		return 0, err
	}
	page, err := makePage(lists, tests, ended)
	if err != nil {
		return 0, err
	}
	for _, r := range page.rows() {
		if r.verdict() == verdictFail {
			failed++
		}
	}
	return failed, os.WriteFile(filepath.Join(root, pageFile), page.markdown(), 0o644)
}

// output gives what go test -json says of the tests.
func output(root, from string, tests []test) (io.Reader, error) {
	if from != "" {
		b, err := os.ReadFile(from)
		return bytes.NewReader(b), err
	}
	var names, dirs []string
	for _, t := range tests {
		names = append(names, t.Name)
		dirs = append(dirs, "./"+t.Dir)
	}
	slices.Sort(names)
	slices.Sort(dirs)
	pattern := "^(" + strings.Join(slices.Compact(names), "|") + ")$"
	var out bytes.Buffer
	if err := run(&out, root, pattern, slices.Compact(dirs)); err != nil {
		return nil, err
	}
	if os.Geteuid() != 0 {
		fmt.Fprintln(os.Stderr, "conformance: nothing runs on veth pairs, nor in real labs: that needs root")
		return &out, nil
	}
	return &out, run(&out, root, pattern, vethDirs, "UETLAB_TEST_VETH=1")
}

// vethDirs have the tests that can run with their frames through veth pairs.
var vethDirs = []string{"./fep", "./internal/link", "./internal/link/cbfc", "./internal/lldp"}

// run runs tests of some packages; out gets what go test -json says.
func run(out io.Writer, root, pattern string, dirs []string, env ...string) error {
	cmd := exec.Command("go", append([]string{"test", "-json", "-count=1", "-p", "1", "-run", pattern}, dirs...)...)
	cmd.Dir, cmd.Env, cmd.Stderr = root, append(os.Environ(), env...), os.Stderr
	cmd.Stdout = io.MultiWriter(out, &progress{w: os.Stderr})
	err := cmd.Run()
	if _, failing := err.(*exec.ExitError); err != nil && !failing {
		return fmt.Errorf("run the tests: %w", err)
	}
	return nil
}
