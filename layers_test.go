// Package uetlab_test holds the rules of the whole tree: which package may import which, what the cores must not touch,
// and that every package says what it is for. docs/architecture.md has the picture.
package uetlab_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/uetlab/uetlab/"

// layers lists all packages from the bottom up. A package imports from lower rows only.
var layers = [][]string{
	{"wire", "internal/vt", "workload/matrix", "internal/pktio", "internal/shm", "internal/nearest", "topologies", "fabric/labdir", "fabric/yamltree", "fabric/capture/filter", "fabric/capture/pcapfile", "fabric/wiring/hostnet", "scripts/wireshark", "scripts/conformance", "scripts/labs"},
	{"internal/link/llr", "internal/link/cbfc", "internal/vethtest"},
	{"internal/link", "internal/lldp", "internal/wheel", "fabric/capture/sequence", "fep/amo", "fep/cms", "fep/lb", "fep/match", "fep/mr", "scripts/wireshark/gen"},
	{"internal/engine", "internal/clock", "fep/pds"},
	{"fep", "switchd"},
	{"fabric/topology", "internal/attach", "fep/client"},
	{"fabric/runtime", "internal/attach/attachtest"},
	{"workload", "fabric/runtime/namespace", "internal/perf"},
	{"internal/ctl", "internal/rankproc"},
	{"internal/nodecore", "fabric/runtime/docker", "fabric/runtime/embedded", "fabric/wiring", "fabric/capture"},
	{"internal/faults"},
	{"fabric/api", "fabric/chaos"},
	{"sim", "internal/nodeproc", "fabric/cleanup"},
	{"fabric/control", "fabric/experiment"},
	{"fabric/experiment/report"},
	{"cmd/uetlab", "scripts/htsim", "examples/late", "examples/pingpong"},
	{"e2e"}, // tests of real labs: nothing imports it
}

// cores are state machines without input and output: everything that decides a result. The same code runs in a node and
// in the simulator, so nothing in it may depend on the machine.
var cores = []string{"wire", "internal/vt", "internal/link/llr", "internal/link/cbfc", "internal/link", "internal/lldp", "internal/wheel", "fep/cms", "internal/engine", "fep", "switchd", "workload", "sim"}

// isCore says whether a package is a core or part of one. fep/client is the other side of the FEP: the processes that use it.
func isCore(dir string) bool {
	return dir != "fep/client" && slices.ContainsFunc(cores, func(c string) bool { return dir == c || strings.HasPrefix(dir, c+"/") })
}

// tree parses the packages of the module: directory, as in an import path, to files without tests.
func tree(t *testing.T) (*token.FileSet, map[string][]*ast.File) {
	t.Helper()
	fset, pkgs := token.NewFileSet(), map[string][]*ast.File{}
	err := filepath.WalkDir(".", func(path string, e fs.DirEntry, err error) error {
		name := e.Name()
		switch {
		case err != nil:
			return err
		case e.IsDir():
			if path != "." && (name == "testdata" || name == "bin" || name == "dist" || strings.HasPrefix(name, ".")) {
				return filepath.SkipDir
			}
			return nil
		case !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		f, err := parser.ParseFile(fset, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		dir := filepath.ToSlash(filepath.Dir(path))
		pkgs[dir] = append(pkgs[dir], f)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(pkgs["wire"]) == 0 || len(pkgs["cmd/uetlab"]) == 0 {
		t.Fatal("the tree was not found: this test runs at its root")
	}
	return fset, pkgs
}

// imports lists what a file imports: path to the name that it has in the file.
func imports(f *ast.File) map[string]string {
	m := map[string]string{}
	for _, s := range f.Imports {
		path, _ := strconv.Unquote(s.Path.Value)
		name := path[strings.LastIndex(path, "/")+1:]
		if name == "v2" {
			name = strings.TrimSuffix(path, "/v2")
			name = name[strings.LastIndex(name, "/")+1:]
		}
		if s.Name != nil {
			name = s.Name.Name
		}
		m[path] = name
	}
	return m
}

func TestImportsPointDownwards(t *testing.T) {
	row := map[string]int{}
	for i, l := range layers {
		for _, p := range l {
			row[p] = i
		}
	}
	_, pkgs := tree(t)
	for dir, files := range pkgs {
		mine, ok := row[dir]
		if !ok {
			t.Errorf("package %s is in no layer: add it to the table in this file", dir)
			continue
		}
		for _, f := range files {
			for path := range imports(f) {
				other, ours := strings.CutPrefix(path, module)
				if !ours {
					continue
				}
				if dir == "wire" {
					t.Errorf("wire imports %s: codecs know bytes and nothing else", other)
				}
				if other == "internal/vethtest" {
					t.Errorf("%s imports %s, which is for tests alone", dir, other)
				}
				if theirs, ok := row[other]; ok && theirs >= mine {
					t.Errorf("%s (layer %d) imports %s (layer %d): imports point downwards only", dir, mine, other, theirs)
				}
			}
		}
	}
	for p := range row {
		if len(pkgs[p]) == 0 {
			t.Errorf("layer table: there is no package %s", p)
		}
	}
}

// outside are imports through which a core would touch the machine.
var outside = []string{"os", "net", "syscall", "io/ioutil", "log", "log/slog", "math/rand", "runtime", "sync", "context", "golang.org/x/sys", module + "internal/pktio"}

// clocks are the functions of package time that read or wait for the wall's clock.
var clocks = []string{"Now", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker", "Since", "Until"}

// seeded are the names of math/rand/v2 that a core may use: all others draw from a generator that no seed rules.
var seeded = []string{"New", "NewPCG", "NewChaCha8", "NewZipf", "Rand", "PCG", "ChaCha8", "Zipf", "Source"}

func TestCoresDependOnNothingOutside(t *testing.T) {
	fset, pkgs := tree(t)
	found := 0
	for dir, files := range pkgs {
		if !isCore(dir) {
			continue
		}
		found++
		for _, f := range files {
			checkImports(t, dir, f)
			checkCalls(t, fset, f)
		}
	}
	if found < len(cores) {
		t.Errorf("%d core packages found, not the %d of the list", found, len(cores))
	}
}

func checkImports(t *testing.T, dir string, f *ast.File) {
	t.Helper()
	for path := range imports(f) {
		for _, bad := range outside {
			if (path == bad || strings.HasPrefix(path, bad+"/")) && path != "net/netip" && path != "math/rand/v2" {
				t.Errorf("core %s imports %s", dir, path)
			}
		}
	}
}

func checkCalls(t *testing.T, fset *token.FileSet, f *ast.File) {
	t.Helper()
	names := imports(f)
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			t.Errorf("%v: a core starts a goroutine", fset.Position(n.Pos()))
		case *ast.SelectorExpr:
			x, ok := n.X.(*ast.Ident)
			switch {
			case !ok:
			case x.Name == names["time"] && slices.Contains(clocks, n.Sel.Name):
				t.Errorf("%v: a core uses time.%s: all time is handed in", fset.Position(n.Pos()), n.Sel.Name)
			case x.Name == names["math/rand/v2"] && !slices.Contains(seeded, n.Sel.Name):
				t.Errorf("%v: a core uses rand.%s, which no seed rules", fset.Position(n.Pos()), n.Sel.Name)
			}
		}
		return true
	})
}

func TestEveryPackageSaysWhatItIsFor(t *testing.T) {
	_, pkgs := tree(t)
	for dir, files := range pkgs {
		docs := 0
		for _, f := range files {
			if f.Doc == nil {
				continue
			}
			docs++
			want := "Package " + f.Name.Name + " "
			if f.Name.Name == "main" {
				want = "Command "
			}
			if text := f.Doc.Text(); !strings.HasPrefix(text, want) {
				t.Errorf("%s: its comment begins %.30q, not %q", dir, text, want)
			}
		}
		if docs != 1 {
			t.Errorf("%s: %d files with a package comment, not one", dir, docs)
		}
	}
}
