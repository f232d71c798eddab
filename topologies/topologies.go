// Package topologies carries the shipped topology files and their JSON schema inside the binary. It reads nothing
// else and knows nothing of what the files say.
package topologies

import (
	"embed"
	"io/fs"
	"strings"
)

//go:embed *.yaml
var files embed.FS

// Schema is the JSON schema (draft-07) of topology files, as schema.json has it.
//
//go:embed schema.json
var Schema []byte

// Names lists the shipped topologies, sorted.
func Names() []string {
	found, err := fs.Glob(files, "*.yaml")
	if err != nil {
		panic("topologies: " + err.Error()) // the pattern is a constant
	}
	for i, name := range found {
		found[i] = strings.TrimSuffix(name, ".yaml")
	}
	return found
}

// Read gives the text of a shipped topology; ok is false when there is none of that name.
func Read(name string) (text []byte, ok bool) {
	text, err := files.ReadFile(name + ".yaml")
	return text, err == nil
}
