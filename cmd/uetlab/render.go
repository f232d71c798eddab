package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/urfave/cli/v2"

	"github.com/uetlab/uetlab/internal/nearest"
)

// Formats of a listing.
const (
	formatTable = "table"
	formatJSON  = "json"
	formatYAML  = "yaml"
)

func formatFlag() cli.Flag {
	return &cli.StringFlag{Name: "format", Value: formatTable, Usage: "table, json or yaml", Action: func(_ *cli.Context, s string) error {
		if s != formatTable && s != formatJSON && s != formatYAML {
			e := usage("--format (%s): not a format", s)
			if near := nearest.Word(s, []string{formatTable, formatJSON, formatYAML}); near != "" {
				return e.WithHint("did you mean %s?", near)
			}
			return e.WithHint("valid are table, json, yaml")
		}
		return nil
	}}
}

// table is a listing for people: stable column names, one row a thing.
type table struct {
	columns []string
	rows    [][]string
}

// add appends a row; cells are printed with %v.
func (t *table) add(cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = fmt.Sprint(c)
	}
	t.rows = append(t.rows, row)
}

// render prints a value in the format that the command line asks for: as a table, or as JSON or YAML with the same keys.
func (c *call) render(v any, tab func() table) error {
	switch c.String("format") {
	case formatJSON:
		return writeJSON(c.out, v)
	case formatYAML:
		return writeYAML(c.out, v)
	}
	return tab().write(c.out)
}

// list is v with an empty list where v is a nil slice: an empty answer is [], not null.
func list(v any) any {
	if r := reflect.ValueOf(v); r.Kind() == reflect.Slice && r.IsNil() {
		return []any{}
	}
	return v
}

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(list(v))
}

// writeYAML goes through JSON, so that both have the same keys in the same order.
func writeYAML(w io.Writer, v any) error {
	var b bytes.Buffer
	if err := writeJSON(&b, v); err != nil {
		return err
	}
	y, err := yaml.JSONToYAML(b.Bytes())
	if err != nil {
		return fmt.Errorf("write YAML: %w", err)
	}
	_, err = w.Write(y)
	return err
}

// write prints the table: two spaces between columns, numbers to the right, no blanks at the end of a line.
func (t table) write(w io.Writer) error {
	lines := append([][]string{t.columns}, t.rows...)
	width, right := make([]int, len(t.columns)), make([]bool, len(t.columns))
	for i := range t.columns {
		numbers, words := 0, 0
		for n, row := range lines {
			width[i] = max(width[i], utf8.RuneCountInString(row[i]))
			switch {
			case n == 0 || row[i] == "-":
			case numeric(row[i]):
				numbers++
			default:
				words++
			}
		}
		right[i] = numbers > 0 && words == 0
	}
	var b strings.Builder
	for _, row := range lines {
		var l strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell))
			if right[i] {
				cell = pad + cell
			} else {
				cell += pad
			}
			l.WriteString(cell + "  ")
		}
		b.WriteString(strings.TrimRight(l.String(), " ") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// numeric says whether a cell is a number, with or without a unit.
func numeric(cell string) bool {
	return cell != "" && (cell[0] >= '0' && cell[0] <= '9') && !strings.ContainsAny(cell, ":/") && strings.Count(cell, ".") < 2
}

// dash is the cell of a value that is not there.
func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// nanos writes a virtual time or duration exactly: 1.234us.
func nanos(ns int64) string {
	if ns < 0 {
		return "-"
	}
	return strings.Replace(time.Duration(ns).String(), "µ", "u", 1)
}

// rate writes bits per second in the largest unit that needs no fraction, as topology files do: 400Gbps.
func rate(bps int64) string {
	units := []struct {
		size int64
		name string
	}{{1e12, "Tbps"}, {1e9, "Gbps"}, {1e6, "Mbps"}, {1e3, "kbps"}}
	for _, u := range units {
		if bps >= u.size && bps%u.size == 0 {
			return strconv.FormatInt(bps/u.size, 10) + u.name
		}
	}
	return strconv.FormatInt(bps, 10) + "bps"
}
