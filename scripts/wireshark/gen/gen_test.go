package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "write uet.lua anew")

// TestCurrent holds the shipped uet.lua to the field tables of the Go codec.
func TestCurrent(t *testing.T) {
	file, want := filepath.Join("..", "uet.lua"), generate()
	if *update {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("uet.lua is not what the field tables make: run go generate ./scripts/wireshark")
	}
}
