package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// module is the prefix of import paths in the output of go test.
const module = "github.com/uetlab/uetlab/"

// test is a test that shows a requirement.
type test struct {
	Dir, File, Name string // of the package and the file in it, below the root
	Req             string // group and number, without a dash
}

// String names a test as the page does.
func (t test) String() string { return t.Dir + "." + t.Name }

// where says what a test of a package runs on.
func (t test) where() string {
	switch t.Dir {
	case "e2e":
		return "real labs"
	case "sim":
		return "simulator"
	}
	return "unit"
}

// vethRun follows a test's name where it means the run of the test with every frame through veth pairs.
const vethRun = ", veth"

// nameForm is a test's name that begins with an id.
var nameForm = regexp.MustCompile(`^Test([A-Z]+[0-9]+)([^0-9].*)?$`)

// findTests looks through the tree for tests that bear the id of a requirement, in the order of their packages and names.
func findTests(root string, lists []checklist) (tests []test, err error) {
	known := map[string]bool{}
	for _, l := range lists {
		for _, g := range l.Groups {
			for _, r := range g.Reqs {
				known[r.Group+r.Number] = true
			}
		}
	}
	err = filepath.WalkDir(root, func(file string, e fs.DirEntry, err error) error {
		name := e.Name()
		switch {
		case err != nil:
			return err
		case e.IsDir():
			if file != root && (name == "testdata" || name == "bin" || name == "dist" || strings.HasPrefix(name, ".")) {
				return filepath.SkipDir
			}
			return nil
		case !strings.HasSuffix(name, "_test.go"):
			return nil
		}
		rel, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		names, err := testsOf(file)
		for _, n := range names {
			if m := nameForm.FindStringSubmatch(n); m != nil && known[m[1]] {
				rel = filepath.ToSlash(rel)
				tests = append(tests, test{Dir: path.Dir(rel), File: rel, Name: n, Req: m[1]})
			}
		}
		return err
	})
	slices.SortFunc(tests, func(a, b test) int { return strings.Compare(a.String(), b.String()) })
	return tests, err
}

// testsOf gives the names of the test functions of a file.
func testsOf(file string) (names []string, err error) {
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Test") && len(fn.Type.Params.List) == 1 {
			names = append(names, fn.Name.Name)
		}
	}
	return names, nil
}

// result is how a test ended.
type result string

// Results of a test; the first three are go test's words.
const (
	resultPass result = "pass"
	resultFail result = "fail"
	resultSkip result = "skip"
	resultNone result = "not run"
)

// readResults reads the output of go test -json, of one run or several: the name of a test, as test.String gives it, to its
// end, with vethRun where the test said by an attribute that its frames went through veth pairs. What failed in one run has
// failed. A package that fails without a test that fails has not been tested at all, which is an error.
func readResults(r io.Reader) (map[string]result, error) {
	ended := map[string]result{}
	failing := map[string]bool{} // packages with a test that failed
	veth := map[string]bool{}    // tests on veth pairs, in the run that is being read
	for d := json.NewDecoder(r); ; {
		var e struct{ Action, Package, Test, Key, Value string }
		switch err := d.Decode(&e); {
		case errors.Is(err, io.EOF):
			return ended, nil
		case err != nil:
			return nil, fmt.Errorf("output of go test -json: %w", err)
		}
		res := result(e.Action)
		top, _, part := strings.Cut(e.Test, "/")
		name := strings.TrimPrefix(e.Package, module) + "." + top
		switch {
		case e.Action == "attr" && e.Key == "link" && e.Value == "veth":
			veth[name] = true
		case res != resultPass && res != resultFail && res != resultSkip || part:
		case e.Test != "":
			failing[e.Package] = failing[e.Package] || res == resultFail
			run := name
			if veth[name] {
				run += vethRun
			}
			if ended[run] != resultFail {
				ended[run] = res
			}
			delete(veth, name)
		case res == resultFail && !failing[e.Package]:
			return nil, fmt.Errorf("package %s could not be tested: go test says why", e.Package)
		default:
			delete(failing, e.Package)
		}
	}
}

// progress shows on a terminal which tests end and what kept a package from being tested, from the lines of go test -json as they come.
type progress struct {
	w    io.Writer
	part []byte
}

// Write implements io.Writer.
func (p *progress) Write(b []byte) (int, error) {
	p.part = append(p.part, b...)
	for {
		i := slices.Index(p.part, '\n')
		if i < 0 {
			return len(b), nil
		}
		var e struct {
			Action, Package, Test, Output string
			Elapsed                       float64
		}
		if json.Unmarshal(p.part[:i], &e) == nil {
			switch {
			case e.Action == "build-output", e.Action == "output" && e.Test == "" && e.Output != "PASS\n" && !strings.HasPrefix(e.Output, "ok "):
				fmt.Fprint(p.w, e.Output)
			case e.Test != "" && !strings.Contains(e.Test, "/") && (e.Action == "pass" || e.Action == "fail" || e.Action == "skip"):
				fmt.Fprintf(p.w, "%s %7.2f s  %s.%s\n", e.Action, e.Elapsed, strings.TrimPrefix(e.Package, module), e.Test)
			}
		}
		p.part = p.part[i+1:]
	}
}
