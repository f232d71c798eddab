package report

import (
	"fmt"
	"html/template"
	"math"
	"strings"
)

// Charts are drawn here, not by a library: those for Go bring fonts and rasterizers into every node process, some under licenses
// that are none for software; what is needed is lines, bars and axes.

// palette are colours that people who see colours differently tell apart on white (after Okabe and Ito, the yellow left out).
var palette = []template.CSS{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#5b4a9b", "#6b6b6b"}

// strokes tell lines apart once all colours are in use: as a style sheet calls them, and as SVG wants them.
var strokes = []struct{ name, dashes string }{{"solid", ""}, {"dashed", "6 3"}, {"dotted", "2 2.5"}}

// most is how many variants charts can show.
var most = len(palette) * len(strokes)

// key is an entry of a legend.
type key struct {
	Color template.CSS
	Line  string // solid, dashed, dotted
	Text  string
}

func keyOf(i int, text string) key {
	return key{palette[i%len(palette)], strokes[i/len(palette)%len(strokes)].name, text}
}

var idealKey = key{"#222222", "dashed", "ideal"}

// figure is a chart with what stands around it.
type figure struct {
	Title, Note string
	Keys        []key
	SVG         template.HTML
}

// xy is a point of a curve, in the units of the axes.
type xy struct{ X, Y float64 }

// curve is a line of a chart in the colour of variant i. A stepped one keeps a value until the next point.
type curve struct {
	points  []xy
	i       int
	stepped bool
}

// Size of a chart and of the margins around its area, in the units of the drawing.
const (
	width, height = 560.0, 300.0
	left, right   = 62.0, 14.0
	top, bottom   = 10.0, 48.0
)

// canvas is an area with axes from 0 to the ends.
type canvas struct {
	b          strings.Builder
	xMin, xMax float64
	yMax       float64
}

func newCanvas(xMin, xMax, yMax float64) *canvas {
	c := &canvas{xMin: xMin, xMax: max(xMax, xMin+1e-9), yMax: max(yMax, 1e-9)}
	fmt.Fprintf(&c.b, `<svg viewBox="0 0 %g %g" role="img">`, width, height)
	return c
}

func (c *canvas) x(v float64) float64 {
	return left + (v-c.xMin)/(c.xMax-c.xMin)*(width-left-right)
}

func (c *canvas) y(v float64) float64 { return height - bottom - v/c.yMax*(height-top-bottom) }

func (c *canvas) text(x, y float64, class, text string) {
	fmt.Fprintf(&c.b, `<text x="%.1f" y="%.1f" class="%s">%s</text>`, x, y, class, template.HTMLEscapeString(text))
}

func (c *canvas) segment(x1, y1, x2, y2 float64, class string) {
	fmt.Fprintf(&c.b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" class="%s"/>`, x1, y1, x2, y2, class)
}

// yAxis draws the axis to the left, with its grid.
func (c *canvas) yAxis(label string) {
	for _, t := range ticks(0, c.yMax) {
		c.segment(left, c.y(t.at), width-right, c.y(t.at), "grid")
		c.text(left-7, c.y(t.at)+4, "tick end", t.label)
	}
	mid := (top + height - bottom) / 2
	fmt.Fprintf(&c.b, `<text x="15" y="%.1f" class="label" transform="rotate(-90 15 %.1f)">%s</text>`, mid, mid, template.HTMLEscapeString(label))
}

func (c *canvas) base() { c.segment(left, c.y(0), width-right, c.y(0), "axis") }

// xAxis draws the axis below, with its grid.
func (c *canvas) xAxis(label string) {
	for _, t := range ticks(c.xMin, c.xMax) {
		c.segment(c.x(t.at), top, c.x(t.at), height-bottom, "grid")
		c.text(c.x(t.at), height-bottom+17, "tick", t.label)
	}
	c.text((left+width-right)/2, height-9, "label", label)
}

// draw draws a curve.
func (c *canvas) draw(l curve) {
	fmt.Fprintf(&c.b, `<path class="curve" stroke="%s"`, palette[l.i%len(palette)])
	if d := strokes[l.i/len(palette)%len(strokes)].dashes; d != "" {
		fmt.Fprintf(&c.b, ` stroke-dasharray="%s"`, d)
	}
	c.b.WriteString(` d="`)
	for k, p := range l.points {
		switch {
		case k == 0:
			fmt.Fprintf(&c.b, "M%.1f %.1f", c.x(p.X), c.y(p.Y))
		case l.stepped:
			fmt.Fprintf(&c.b, "H%.1fV%.1f", c.x(p.X), c.y(p.Y))
		default:
			fmt.Fprintf(&c.b, "L%.1f %.1f", c.x(p.X), c.y(p.Y))
		}
	}
	c.b.WriteString(`"/>`)
}

func (c *canvas) end() template.HTML {
	c.b.WriteString("</svg>")
	return template.HTML(c.b.String())
}

// lines draws curves; a vertical line stands at mark where that is more than 0. The axes reach as far as the curves, and at least to
// xMax and yMax.
func lines(x, y string, curves []curve, mark, xMax, yMax float64) template.HTML {
	xMax = max(xMax, mark)
	for _, l := range curves {
		for _, p := range l.points {
			xMax, yMax = max(xMax, p.X), max(yMax, p.Y)
		}
	}
	c := newCanvas(0, xMax*1.02, yMax*1.04)
	c.yAxis(y)
	c.xAxis(x)
	c.base()
	if mark > 0 {
		c.segment(c.x(mark), top, c.x(mark), height-bottom, "mark")
	}
	for _, l := range curves {
		c.draw(l)
	}
	return c.end()
}

// bars draws groups of bars: names below, one bar in a group for each of the rows; a horizontal line stands at mark.
func bars(y string, names []string, rows [][]float64, mark float64) template.HTML {
	high := mark
	for _, row := range rows {
		for _, v := range row {
			high = max(high, v)
		}
	}
	c := newCanvas(0, float64(len(names)), high*1.06)
	c.yAxis(y)
	wide := min(26, 0.76*(width-left-right)/float64(len(names)*len(rows)))
	for i, name := range names {
		mid := c.x(float64(i) + 0.5)
		for k, row := range rows {
			from := mid + wide*(float64(k)-float64(len(rows))/2)
			fmt.Fprintf(&c.b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"><title>%s: %.3f</title></rect>`,
				from, c.y(row[i]), wide-1, c.y(0)-c.y(row[i]), palette[k], template.HTMLEscapeString(name), row[i])
		}
		if room := (width - left - right) / float64(len(names)); float64(len(name))*6.5 < room {
			c.text(mid, height-bottom+17, "tick", name)
		} else {
			fmt.Fprintf(&c.b, `<text x="%.1f" y="%.1f" class="tick end" transform="rotate(-24 %.1f %.1f)">%s</text>`,
				mid+4, height-bottom+14, mid+4, height-bottom+14, template.HTMLEscapeString(clip(name)))
		}
	}
	c.base()
	c.segment(left, c.y(mark), width-right, c.y(mark), "mark")
	return c.end()
}

// clip shortens a name for which there is no room.
func clip(s string) string {
	const most = 16
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}

// tick is a labelled place on an axis.
type tick struct {
	at    float64
	label string
}

// ticks puts labels at multiples of 1, 2 or 5 times a power of ten, not too many of them.
func ticks(lo, hi float64) (list []tick) {
	step := nice((hi - lo) / 6)
	digits := max(0, -int(math.Floor(math.Log10(step))))
	for i := math.Ceil(lo / step); i*step <= hi*(1+1e-9); i++ {
		list = append(list, tick{i * step, fmt.Sprintf("%.*f", digits, i*step)})
	}
	return list
}

// nice is the least of 1, 2 and 5 times a power of ten that is no less than v.
func nice(v float64) float64 {
	if v <= 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return 1
	}
	base := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if m*base >= v*(1-1e-9) {
			return m * base
		}
	}
	return 10 * base
}
