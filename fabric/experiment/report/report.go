// Package report writes comparisons as one page of HTML that needs nothing else: tables, and charts as SVG in it. It loads nothing,
// runs no script, and decides nothing: all figures are the experiment package's.
package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"
	"time"

	"github.com/uetlab/uetlab/fabric/experiment"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"join": strings.Join, "span": span, "ratio": ratio, "amount": amount, "assign": assignments,
	"bytes": bytesText, "flaw": func(n experiment.Number) bool { return n > 0 },
}).Parse(pageText))

// section is one comparison on the page.
type section struct {
	*experiment.Comparison
	Ranked  []*experiment.Outcome
	Figures []figure
	Ideal   experiment.Number
	Best    string
	Omitted int // variants that charts have no colour for
}

// Write writes comparisons as one page.
func Write(w io.Writer, list []*experiment.Comparison) error {
	var sections []section
	for _, c := range list {
		s := section{Comparison: c, Ranked: c.Ranked(), Omitted: -most}
		for _, o := range s.Ranked {
			if o.Error == "" {
				s.Omitted++
			}
		}
		if o := s.Ranked[0]; o.Error == "" {
			s.Best, s.Ideal = o.Name, o.Stats.Ideal
		}
		s.Omitted, s.Figures = max(0, s.Omitted), figures(c)
		sections = append(sections, s)
	}
	if err := page.Execute(w, sections); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// span writes a time in ns with four digits.
func span(n experiment.Number) string {
	f := float64(n)
	if !finite(n) {
		return "never"
	}
	for _, u := range []struct {
		size float64
		name string
	}{{float64(time.Second), "s"}, {float64(time.Millisecond), "ms"}, {float64(time.Microsecond), "µs"}} {
		if f >= u.size {
			return fmt.Sprintf("%.4g %s", f/u.size, u.name)
		}
	}
	return fmt.Sprintf("%.0f ns", f)
}

func ratio(n experiment.Number) string {
	if !finite(n) || n <= 0 {
		return "–"
	}
	return fmt.Sprintf("%.3f", float64(n))
}

// amount writes a count that may be a mean.
func amount(n experiment.Number) string {
	if f := float64(n); f != math.Trunc(f) && f < 1000 {
		return fmt.Sprintf("%.1f", f)
	}
	return fmt.Sprintf("%.0f", float64(n))
}

func bytesText(n experiment.Number) string {
	u := byteUnit(float64(n))
	if u.size == 1 {
		return fmt.Sprintf("%.0f B", float64(n))
	}
	return fmt.Sprintf("%.1f %s", float64(n)/u.size, u.name)
}

func assignments(m map[string]string) string { return strings.Join(experiment.Assign(m), ", ") }
