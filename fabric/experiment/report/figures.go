package report

import (
	"fmt"
	"slices"

	"github.com/uetlab/uetlab/fabric/experiment"
	"github.com/uetlab/uetlab/workload"
)

// drawn is a variant that has something to draw, in its colour.
type drawn struct {
	*experiment.Outcome
	i      int
	series *workload.Series // of its first run; nil: none
}

// figures draws everything that there is to see of a comparison.
func figures(c *experiment.Comparison) (list []figure) {
	var all []drawn
	for _, o := range c.Ranked() {
		if o.Error == "" && len(all) < most {
			all = append(all, drawn{o, len(all), o.Runs[0].Result.Series})
		}
	}
	if len(all) == 0 {
		return nil
	}
	for _, draw := range []func([]drawn, *experiment.Comparison) []figure{completion, ratios, queues, rates, fairness, cwnds} {
		list = append(list, draw(all, c)...)
	}
	return list
}

func keysOf(all []drawn) (keys []key) {
	for _, d := range all {
		keys = append(keys, keyOf(d.i, d.Name))
	}
	return keys
}

func completion(all []drawn, c *experiment.Comparison) []figure {
	longest, ideal := 1.0, 0.0
	for _, d := range all {
		for i := range d.Runs {
			longest = max(longest, float64(d.Runs[i].Result.FCT.Max))
		}
		ideal = max(ideal, float64(d.Stats.Ideal))
	}
	u := timeUnit(longest)
	var curves []curve
	for _, d := range slices.Backward(all) { // the best on top
		curves = append(curves, curve{cdf(d.Outcome, u), d.i, true})
	}
	text := lines("flow completion time ("+u.name+")", "flows finished (%)", curves, ideal/u.size, 0, 100)
	return []figure{{Title: "Completion of flows", Note: fmt.Sprintf("All flows of all %d runs of each variant; the dashed line is the ideal.", len(all[0].Runs)),
		Keys: append(keysOf(all), idealKey), SVG: text}}
}

func ratios(all []drawn, _ *experiment.Comparison) []figure {
	var names []string
	rows := make([][]float64, 3)
	for _, d := range all {
		s := &d.Stats
		if s.Ideal <= 0 || !finite(s.Max) {
			continue
		}
		names = append(names, d.Name)
		for i, v := range []experiment.Number{s.Mean, s.P99, s.Max} {
			rows[i] = append(rows[i], float64(v/s.Ideal))
		}
	}
	if len(names) == 0 {
		return nil
	}
	text := bars("completion time / ideal", names, rows, 1)
	return []figure{{Title: "Compared with the ideal", Note: "The ideal bounds the last flow; single flows may be faster where others wait for them.",
		Keys: []key{keyOf(0, "mean"), keyOf(1, "p99"), keyOf(2, "slowest flow"), idealKey}, SVG: text}}
}

// sampled are the variants with a series, and its units.
func sampled(all []drawn, endPoints []string) (list []drawn, t unit, depth unit) {
	var end, deep float64
	for _, d := range all {
		if d.series == nil || len(d.series.Ports) == 0 {
			continue
		}
		list = append(list, d)
		switches, _ := split(d.series, endPoints)
		for _, p := range switches {
			for _, v := range p.Depth {
				deep = max(deep, float64(v))
			}
		}
		for i := range d.series.Ports {
			end = max(end, float64(int64(len(d.series.Ports[i].Depth))*d.series.EveryNs))
		}
	}
	return list, timeUnit(end), byteUnit(deep)
}

func queues(all []drawn, c *experiment.Comparison) []figure {
	list, t, b := sampled(all, c.EndPoints)
	var highs, busy []curve
	var keys []key
	for _, d := range slices.Backward(list) {
		switches, _ := split(d.series, c.EndPoints)
		if len(switches) == 0 {
			return nil
		}
		p := busiest(switches)
		highs = append(highs, curve{points: overTime(highest(switches), true, d.series.EveryNs, t, 1/b.size), i: d.i})
		busy = append(busy, curve{points: overTime(p.Depth, true, d.series.EveryNs, t, 1/b.size), i: d.i})
		keys = append(keys, keyOf(d.i, fmt.Sprintf("%s: %s %s", d.Name, p.Node, p.Port)))
	}
	if len(list) == 0 {
		return nil
	}
	slices.Reverse(keys)
	x := "time since the start of the run (" + t.name + ")"
	return []figure{
		{Title: "Highest queue", Note: "The most that waits at any egress port of a switch, first run of each variant.", Keys: keysOf(list), SVG: lines(x, "waiting ("+b.name+")", highs, 0, 0, 0)},
		{Title: "Busiest port", Note: "The port of a switch where most ever waits, first run of each variant.", Keys: keys, SVG: lines(x, "waiting ("+b.name+")", busy, 0, 0, 0)}}
}

func rates(all []drawn, c *experiment.Comparison) []figure {
	list, t, _ := sampled(all, c.EndPoints)
	var curves []curve
	for _, d := range slices.Backward(list) {
		if _, hosts := split(d.series, c.EndPoints); len(hosts) > 0 {
			curves = append(curves, curve{points: overTime(sent(hosts), false, d.series.EveryNs, t, 8/float64(d.series.EveryNs)), i: d.i})
		}
	}
	if len(curves) == 0 {
		return nil
	}
	text := lines("time since the start of the run ("+t.name+")", "sent (Gb/s)", curves, 0, 0, 0)
	return []figure{{Title: "Rate of all senders", Note: "What all end points together put on their links, retransmissions and acknowledgements included; first run.",
		Keys: keysOf(list), SVG: text}}
}

func fairness(all []drawn, _ *experiment.Comparison) []figure {
	var names []string
	rows := make([][]float64, 2)
	for _, d := range all {
		if !finite(d.Stats.Jain) || !finite(d.Stats.JainFCT) {
			continue
		}
		names = append(names, d.Name)
		rows[0], rows[1] = append(rows[0], float64(d.Stats.Jain)), append(rows[1], float64(d.Stats.JainFCT))
	}
	if len(names) == 0 {
		return nil
	}
	text := bars("Jain's index", names, rows, 1)
	return []figure{{Title: "Fairness", Note: "1: all flows fare alike; 1/n: one of n has everything. Mean over the runs.",
		Keys: []key{keyOf(0, "of rates (size / completion time)"), keyOf(1, "of completion times")}, SVG: text}}
}

// panels is of how many variants windows are drawn, the best first.
const panels = 6

func cwnds(all []drawn, _ *experiment.Comparison) (list []figure) {
	var end, high float64
	shown := slices.DeleteFunc(slices.Clone(all), func(d drawn) bool { return d.series == nil || len(d.series.Contexts) == 0 })
	shown = shown[:min(panels, len(shown))]
	for _, d := range shown {
		for _, c := range d.series.Contexts {
			for _, p := range c.Points {
				end, high = max(end, float64(p.AtNs)), max(high, float64(p.Cwnd))
			}
		}
	}
	t, b := timeUnit(end), byteUnit(high)
	for _, d := range shown {
		curves, keys := windows(d.series, t, b)
		if len(curves) == 0 {
			continue
		}
		text := lines("time since the start of the run ("+t.name+")", "cwnd ("+b.name+")", curves, 0, end/t.size, high/b.size) // all have the same axes
		list = append(list, figure{Title: "Windows: " + d.Name, Note: "Congestion windows of the contexts that change theirs most often, first run.", Keys: keys, SVG: text})
	}
	return list
}
