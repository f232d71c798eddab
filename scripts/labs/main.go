// Command labs writes the table of experiments in labs/README.md: what each claims, who says so, and what came of it in the comparison that it reads, which is
// the JSON of `uetlab compare labs/*.yaml --sim --format json`. It runs and judges nothing itself.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// readme holds the table between two lines.
const (
	readme = "labs/README.md"
	begin  = "<!-- results: make labs-table writes them -->"
	end    = "<!-- end of results -->"
)

func main() {
	if err := write(os.Stdin, readme); err != nil {
		fmt.Fprintln(os.Stderr, "labs:", err)
		os.Exit(1)
	}
}

// comparison is what the table needs of one.
type comparison struct {
	Name     string `json:"name"`
	Claim    string `json:"claim"`
	Source   string `json:"source"`
	Variants []struct {
		Name  string `json:"name"`
		Error string `json:"error"`
	} `json:"variants"`
	Expect []struct {
		Text    string `json:"expect"`
		OK      bool   `json:"ok"`
		Figures string `json:"figures"`
	} `json:"expect"`
}

// write puts the table of what in says into a file.
func write(in io.Reader, file string) error {
	var list []comparison
	if err := json.NewDecoder(in).Decode(&list); err != nil {
		return fmt.Errorf("standard input: %w", err)
	}
	page, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	page, err = put(page, table(list))
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return os.WriteFile(file, page, 0o644)
}

// put replaces what stands between the two lines.
func put(page []byte, table string) ([]byte, error) {
	head, rest, ok := bytes.Cut(page, []byte(begin+"\n"))
	_, tail, closed := bytes.Cut(rest, []byte(end))
	if !ok || !closed {
		return nil, errors.New("the lines around the results are not there: " + begin + ", " + end)
	}
	return []byte(string(head) + begin + "\n" + table + end + string(tail)), nil
}

// table has one row an experiment, with the figures of each of its expectations.
func table(list []comparison) string {
	var b strings.Builder
	b.WriteString("| experiment | claim | source | result |\n|---|---|---|---|\n")
	for _, c := range list {
		var lines []string
		held := 0
		for _, x := range c.Expect {
			word := "**fails**"
			if x.OK {
				word = "holds"
				held++
			}
			lines = append(lines, fmt.Sprintf("%s: `%s` (%s)", word, x.Text, x.Figures))
		}
		verdict := "pass"
		if held < len(c.Expect) {
			verdict = "**FAIL**"
		}
		for _, v := range c.Variants {
			if v.Error != "" {
				verdict = "**FAIL**"
				lines = append(lines, v.Name+" failed: "+v.Error)
			}
		}
		fmt.Fprintf(&b, "| [%s](%s.yaml) | %s | %s | %s |\n", c.Name, c.Name, cell(c.Claim), cell(c.Source), cell(strings.Join(append([]string{verdict}, lines...), "<br>")))
	}
	return b.String()
}

// cell keeps a text within its cell.
func cell(s string) string { return strings.ReplaceAll(strings.ReplaceAll(s, "|", `\|`), "\n", " ") }
