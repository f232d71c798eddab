package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const said = `[{"name":"a","claim":"x | y","source":"a talk","variants":[{"name":"v"}],"expect":[{"expect":"v.max < 5","ok":true,"figures":"4"},{"expect":"v.min > 3","ok":false,"figures":"2"}]},
{"name":"b","claim":"z","source":"","variants":[{"name":"w","error":"rank 0 gave up"}],"expect":[]},{"name":"c","variants":[{"name":"v"}],"expect":[{"expect":"v.max < 9","ok":true,"figures":"4"}]}]`

func TestTable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "README.md")
	if err := os.WriteFile(file, []byte("head\n"+begin+"\nold\n"+end+"\ntail\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // once more changes nothing
		if err := write(strings.NewReader(said), file); err != nil {
			t.Fatal(err)
		}
	}
	got, _ := os.ReadFile(file)
	want := "head\n" + begin + `
| experiment | claim | source | result |
|---|---|---|---|
` + "| [a](a.yaml) | x \\| y | a talk | **FAIL**<br>holds: `v.max < 5` (4)<br>**fails**: `v.min > 3` (2) |\n" + `| [b](b.yaml) | z |  | **FAIL**<br>w failed: rank 0 gave up |
` + "| [c](c.yaml) |  |  | pass<br>holds: `v.max < 9` (4) |\n" + end + "\ntail\n"
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if err := write(strings.NewReader("{"), file); err == nil {
		t.Error("half a comparison is taken")
	}
	if _, err := put([]byte("nothing"), ""); err == nil {
		t.Error("a page without the lines is taken")
	}
}
