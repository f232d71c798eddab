package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/uetlab/uetlab/fabric/experiment"
	"github.com/uetlab/uetlab/workload"
)

// points is how many points a line of a chart has at most.
const points = 300

// unit is what an axis counts in.
type unit struct {
	name string
	size float64
}

func pick(most float64, units ...unit) unit {
	for _, u := range slices.Backward(units) {
		if most >= u.size {
			return u
		}
	}
	return units[0]
}

func timeUnit(ns float64) unit {
	return pick(ns, unit{"ns", 1}, unit{"µs", 1e3}, unit{"ms", 1e6}, unit{"s", 1e9})
}

func byteUnit(bytes float64) unit {
	return pick(bytes, unit{"bytes", 1}, unit{"KiB", 1 << 10}, unit{"MiB", 1 << 20})
}

// cdf is the share of flows that have finished by their time. Flows that never have keep it below 1.
func cdf(o *experiment.Outcome, u unit) []xy {
	var times []float64
	total := 0
	for i := range o.Runs {
		r := &o.Runs[i]
		flows := experiment.Flows(&r.Result)
		total += max(r.Flows, len(flows))
		for _, f := range flows {
			times = append(times, float64(f.EndNs-f.StartNs)/u.size)
		}
	}
	slices.Sort(times)
	every := max(1, len(times)/points)
	xys := []xy{{0, 0}}
	for i, t := range times {
		if i == 0 {
			xys = append(xys, xy{X: t, Y: 0})
		}
		if i%every == 0 || i == len(times)-1 {
			xys = append(xys, xy{X: t, Y: 100 * float64(i+1) / float64(total)})
		}
	}
	return xys
}

// thin joins steps of a series so that there are not too many: by their largest, or by their sum.
func thin(values []int64, largest bool) (out []int64, joined int) {
	joined = max(1, (len(values)+points-1)/points)
	for c := range slices.Chunk(values, joined) {
		v := slices.Max(c)
		if !largest {
			v = 0
			for _, x := range c {
				v += x
			}
		}
		out = append(out, v)
	}
	return out, joined
}

// highest gives for each step the most that waited at any of the ports.
func highest(ports []*workload.PortSeries) []int64 {
	return fold(ports, func(p *workload.PortSeries) []int64 { return p.Depth }, func(a, b int64) int64 { return max(a, b) })
}

// sent gives for each step what all of the ports sent.
func sent(ports []*workload.PortSeries) []int64 {
	return fold(ports, func(p *workload.PortSeries) []int64 { return p.Sent }, func(a, b int64) int64 { return a + b })
}

// fold joins what all ports have, step by step.
func fold(ports []*workload.PortSeries, of func(*workload.PortSeries) []int64, join func(a, b int64) int64) []int64 {
	var out []int64
	for _, p := range ports {
		for i, v := range of(p) {
			if i == len(out) {
				out = append(out, 0)
			}
			out[i] = join(out[i], v)
		}
	}
	return out
}

// busiest is the port where most waited at once.
func busiest(ports []*workload.PortSeries) *workload.PortSeries {
	return slices.MaxFunc(ports, func(a, b *workload.PortSeries) int {
		return cmp.Compare(slices.Max(append([]int64{0}, a.Depth...)), slices.Max(append([]int64{0}, b.Depth...)))
	})
}

// split gives the egress ports of switches and those of end points.
func split(s *workload.Series, endPoints []string) (switches, points []*workload.PortSeries) {
	for i := range s.Ports {
		if p := &s.Ports[i]; slices.Contains(endPoints, p.Node) {
			points = append(points, p)
		} else {
			switches = append(switches, p)
		}
	}
	return switches, points
}

// overTime makes a line of a series, each of whose values is multiplied by scale.
func overTime(values []int64, largest bool, everyNs int64, t unit, scale float64) []xy {
	thinned, joined := thin(values, largest)
	step := float64(everyNs) * float64(joined) / t.size
	if !largest {
		scale /= float64(joined)
	}
	xys := make([]xy, 0, len(thinned)+1)
	for i, v := range thinned {
		xys = append(xys, xy{X: float64(i) * step, Y: float64(v) * scale})
	}
	return append(xys, xy{X: float64(len(thinned)) * step, Y: 0})
}

// contexts is how many windows a chart shows.
const contexts = 4

// windows draws the windows of the contexts of a variant, those with the most changes first.
func windows(s *workload.Series, t, b unit) (curves []curve, keys []key) {
	list := slices.Clone(s.Contexts)
	slices.SortStableFunc(list, func(x, y workload.ContextSeries) int { return cmp.Compare(len(y.Points), len(x.Points)) })
	for i, c := range list[:min(contexts, len(list))] {
		every := max(1, len(c.Points)/points)
		var xys []xy
		for k, p := range c.Points {
			if k%every == 0 || k == len(c.Points)-1 {
				xys = append(xys, xy{X: float64(p.AtNs) / t.size, Y: float64(p.Cwnd) / b.size})
			}
		}
		if len(xys) == 0 {
			continue
		}
		curves, keys = append(curves, curve{xys, i, true}), append(keys, keyOf(i, fmt.Sprintf("%s to %s", c.Node, c.Peer)))
	}
	return curves, keys
}

// finite says whether a statistic can be drawn.
func finite(n experiment.Number) bool { return !math.IsInf(float64(n), 0) && !math.IsNaN(float64(n)) }
