package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"strings"
	"text/template"

	"github.com/uetlab/uetlab/fabric/experiment"
)

//go:embed page.md.tmpl
var pageText string

// page writes docs/htsim.md.
func (t *table) page(list []*experiment.Comparison) ([]byte, error) {
	tmpl, err := template.New("page").Funcs(template.FuncMap{"times": times, "off": off, "verdict": verdict, "figure": t.figureOf(list), "less": lessOf(list), "held": held, "cell": cell}).Parse(pageText)
	if err != nil {
		return nil, err
	}
	far := map[string]int{}
	near := 0
	for i := range t.Rows {
		switch r := &t.Rows[i]; {
		case r.Far:
			far[r.Cause]++
		case r.Ours.Unfinished == "":
			near++
		}
	}
	var b bytes.Buffer
	err = tmpl.Execute(&b, map[string]any{"Rows": t.Rows, "Comparisons": list, "Near": near, "Far": far})
	return b.Bytes(), err
}

// times writes completion times and their ratios to the ideal.
func times(f figure) string {
	switch {
	case f.Unfinished != "" && f.Mean == 0:
		return f.Unfinished + " finish"
	case f.Mean == 0:
		return fmt.Sprintf("%.1f (%.3f)", f.Max, f.MaxRatio)
	}
	return fmt.Sprintf("%.1f, %.1f (%.3f, %.3f)", f.Mean, f.Max, f.MeanRatio, f.MaxRatio)
}

func off(r row) string {
	switch {
	case r.Ours.Unfinished != "":
		return "-"
	case r.Whole:
		return fmt.Sprintf("%+.1f %%", r.MaxOff)
	}
	return fmt.Sprintf("%+.1f %%, %+.1f %%", r.MeanOff, r.MaxOff)
}

// verdict says whether a row is near, or why not.
func verdict(r row) string {
	switch {
	case !r.Far:
		return "ok"
	case r.Spread != "":
		return fmt.Sprintf("[draws](#causes): our runs %s", r.Spread)
	case r.Cause == "":
		return "**not explained**"
	}
	return fmt.Sprintf("[%s](#causes)", r.Cause)
}

// lessOf gives the template by how many per cent the mean of one variant is below that of another one of the same experiment.
func lessOf(list []*experiment.Comparison) func(name, variant, than string) (string, error) {
	return func(name, variant, than string) (string, error) {
		_, a := find(list, name, variant)
		_, b := find(list, name, than)
		if a == nil || b == nil || a.Error != "" || b.Error != "" {
			return "", fmt.Errorf("no figures of %s %s or %s", name, variant, than)
		}
		return fmt.Sprintf("%.1f %%", 100*(1-float64(a.Stats.Mean/b.Stats.Mean))), nil
	}
}

func held(ok bool) string {
	if ok {
		return "met"
	}
	return "**not met**"
}

func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

// figureOf gives the template "mean, max" in us of any variant, for what the text says of it.
func (t *table) figureOf(list []*experiment.Comparison) func(name, variant string) (string, error) {
	return func(name, variant string) (string, error) {
		c, o := find(list, name, variant)
		if o == nil || o.Error != "" {
			return "", fmt.Errorf("no figures of %s %s", name, variant)
		}
		s := &o.Stats
		if strings.HasPrefix(c.Name, "htsim-ring") || strings.HasPrefix(c.Name, "htsim-alltoall") {
			return fmt.Sprintf("%.3f", float64(s.Makespan/s.Ideal)), nil
		}
		return fmt.Sprintf("mean %.1f, max %.1f us", micro(s.Mean), micro(s.Last)), nil
	}
}
