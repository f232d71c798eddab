package wire

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestImports keeps the package free of everything but bytes: no clock, no sockets, nothing of ours.
func TestImports(t *testing.T) {
	allowed := []string{"encoding/binary", "encoding/hex", "errors", "fmt", "hash/crc32", "net/netip", "strconv", "strings"}
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatal("no files", err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, im := range f.Imports {
			if path := strings.Trim(im.Path.Value, `"`); !slices.Contains(allowed, path) {
				t.Errorf("%s imports %s", file, path)
			}
		}
	}
}
