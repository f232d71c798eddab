package sequence

import (
	"bufio"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Measures of the picture, in px.
const (
	charWidth  = 7.3 // of the label font, which has one width
	rowHeight  = 30
	laneMin    = 120 // between two lanes
	twoMin     = 320 // between the lanes of a picture of two
	gutterBare = 84  // for times
	gutterWays = 150 // for times of two captures
	headTop    = 16
	headHeight = 30
	noteHeight = 18
	edge       = 16
)

// style has the colours of both schemes.
const style = `    .bg { fill: #ffffff } .ink { fill: #1f2328 } .dim { fill: #59636e }
    .head { fill: #f6f8fa; stroke: #8c959f; stroke-width: 1.2 } .life { stroke: #afb8c1; stroke-width: 1.2; fill: none }
    .line { stroke-width: 1.6; fill: none } .fold { stroke-dasharray: 4 4 } .pdc { font-weight: 700 }
    .data { fill: #0a6bc9 } .line.data { stroke: #0a6bc9; fill: none } .ack { fill: #2b7a37 } .line.ack { stroke: #2b7a37; fill: none }
    .bad { fill: #c4232b } .line.bad { stroke: #c4232b; fill: none } .ctrl { fill: #7d4bc2 } .line.ctrl { stroke: #7d4bc2; fill: none }
    @media (prefers-color-scheme: dark) {
      .bg { fill: #0d1117 } .ink { fill: #e6edf3 } .dim { fill: #9198a1 }
      .head { fill: #161b22; stroke: #6e7681 } .life { stroke: #444c56 }
      .data { fill: #6cb6ff } .line.data { stroke: #6cb6ff; fill: none } .ack { fill: #7ee787 } .line.ack { stroke: #7ee787; fill: none }
      .bad { fill: #ff7b72 } .line.bad { stroke: #ff7b72; fill: none } .ctrl { fill: #d2a8ff } .line.ctrl { stroke: #d2a8ff; fill: none }
    }
`

// classes are the style's names of tones.
var classes = [toneCount]string{toneData: "data", toneAck: "ack", toneBad: "bad", toneCtrl: "ctrl"}

// canvas is a picture under construction.
type canvas struct {
	*bufio.Writer
	gutter, step, width, bottom float64
}

func (c *canvas) x(lane int) float64 { return c.gutter + float64(lane)*c.step }

// SVG draws the diagram as a picture that stands for itself: no script, no fonts, colours for light and dark. The error
// is that of w.
func (d *Diagram) SVG(w io.Writer) error {
	c := d.layout(w)
	height := c.bottom + edge + noteHeight*float64(len(d.textNotes()))
	fmt.Fprintf(c, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" height=\"%.0f\" role=\"img\" aria-labelledby=\"t\" "+
		"font-family=\"ui-monospace, 'SF Mono', Menlo, 'DejaVu Sans Mono', monospace\" font-size=\"12\">\n", c.width, height, c.width, height)
	fmt.Fprintf(c, "  <title id=\"t\">Sequence diagram of UET packets between %s</title>\n  <style>\n%s  </style>\n", text(strings.Join(d.lanes, ", ")), style)
	fmt.Fprintf(c, "  <rect class=\"bg\" width=\"%.0f\" height=\"%.0f\"/>\n", c.width, height)
	for i, l := range d.lanes {
		x, wide := c.x(i), charWidth*float64(utf8.RuneCountInString(l))+20
		fmt.Fprintf(c, "  <path class=\"life\" d=\"M%.1f %d V%.0f\"/>\n", x, headTop+headHeight, c.bottom)
		fmt.Fprintf(c, "  <rect class=\"head\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\" rx=\"5\"/>", x-wide/2, headTop, wide, headHeight)
		fmt.Fprintf(c, "<text class=\"ink\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\" font-weight=\"600\">%s</text>\n", x, headTop+headHeight/2+4, text(l))
	}
	for i := range d.rows {
		d.svgRow(c, i)
	}
	for i, n := range d.textNotes() {
		fmt.Fprintf(c, "  <text class=\"dim\" x=\"%d\" y=\"%.0f\">%s</text>\n", edge, c.bottom+edge+noteHeight*float64(i), text(n))
	}
	fmt.Fprintln(c, "</svg>")
	return c.Flush()
}

// layout finds the distances that names, labels and notes need.
func (d *Diagram) layout(w io.Writer) *canvas {
	c := &canvas{Writer: bufio.NewWriter(w), gutter: gutterBare, step: laneMin}
	if d.ways && d.timed {
		c.gutter = gutterWays
	}
	for _, l := range d.lanes {
		c.step = max(c.step, charWidth*float64(utf8.RuneCountInString(l))+36)
	}
	if len(d.lanes) == 2 {
		c.step = max(c.step, twoMin)
		for i := range d.rows {
			c.step = max(c.step, charWidth*float64(runes(&d.rows[i]))+40)
		}
	}
	first := charWidth*float64(utf8.RuneCountInString(d.lanes[0]))/2 + edge
	c.gutter += first
	last := charWidth*float64(utf8.RuneCountInString(d.lanes[len(d.lanes)-1]))/2 + 2*edge
	c.width = c.x(len(d.lanes)-1) + last
	for i := range d.rows {
		r := &d.rows[i]
		if len(d.lanes) != 2 || r.from == r.to {
			c.width = max(c.width, c.x(min(r.from, r.to))+charWidth*float64(runes(r))+40)
		}
	}
	for _, n := range d.textNotes() {
		c.width = max(c.width, charWidth*float64(utf8.RuneCountInString(n))+2*edge)
	}
	c.bottom = headTop + headHeight + rowHeight*float64(len(d.rows)) + edge
	return c
}

// runes is the length of a label with its PDC.
func runes(r *row) int { return utf8.RuneCountInString(r.label) + len(r.pdc) + 1 }

// svgRow draws a row: times, arrow, label.
func (d *Diagram) svgRow(c *canvas, i int) {
	r := &d.rows[i]
	y := headTop + headHeight + rowHeight*float64(i+1)
	fmt.Fprintf(c, "  <text class=\"dim\" x=\"%d\" y=\"%.0f\">%s</text>\n", edge, y+4, text(strings.Join(strings.Fields(d.times(r, i)), "  ")))
	c.arrow(r, y)
	c.label(r, y, len(d.lanes) == 2 && r.from != r.to)
	if r.hurt && r.from != r.to { // above all
		fmt.Fprintf(c, "  <path class=\"%s line\" d=\"M%.1f %.0f l10 10 m0 -10 l-10 10\"/>\n", classes[r.tone], (c.x(r.from)+c.x(r.to))/2-5, y-5)
	}
}

// arrow draws the arrow of a row at height y.
func (c *canvas) arrow(r *row, y float64) {
	from, to, class := c.x(r.from), c.x(r.to), classes[r.tone]
	line := class + " line"
	if r.folded {
		line += " fold"
	}
	if r.from == r.to {
		fmt.Fprintf(c, "  <path class=\"%s\" d=\"M%.1f %.0f h22 v8 h-14\"/>", line, from, y-4)
		fmt.Fprintf(c, "<path class=\"%s\" d=\"M%.1f %.0f l9 -4 v8 z\"/>\n", class, from, y+4)
		return
	}
	tip := 9.0 // the line ends inside the head
	if to < from {
		tip = -tip
	}
	fmt.Fprintf(c, "  <path class=\"%s\" d=\"M%.1f %.0f H%.1f\"/>", line, from, y, to-tip)
	fmt.Fprintf(c, "<path class=\"%s\" d=\"M%.1f %.0f l%.0f -4 v8 z\"/>\n", class, to, y, -tip)
}

// label writes the label of a row above its arrow: in its middle, or beginning at its left end, from where it may cross the
// lanes to the right.
func (c *canvas) label(r *row, y float64, middle bool) {
	from, to, class := c.x(r.from), c.x(r.to), classes[r.tone]
	x, anchor := min(from, to)+10, "start"
	if middle {
		x, anchor = (from+to)/2, "middle"
	}
	if r.from == r.to {
		x += 18
	}
	wide := charWidth*float64(runes(r)) + 4 // lanes pass behind a label
	back := x - 2
	if middle {
		back = x - wide/2
	}
	label := text(r.label)
	if r.pdc != "" {
		label = "<tspan class=\"pdc\">" + text(r.pdc) + "</tspan> " + label
	}
	fmt.Fprintf(c, "  <rect class=\"bg\" x=\"%.1f\" y=\"%.0f\" width=\"%.1f\" height=\"14\"/>", back, y-17, wide)
	fmt.Fprintf(c, "<text class=\"%s\" x=\"%.1f\" y=\"%.0f\" text-anchor=\"%s\">%s</text>\n", class, x, y-6, anchor, label)
}

// text escapes s for XML, and keeps blanks in a row.
func text(s string) string {
	var b strings.Builder
	s = strings.ReplaceAll(s, "  ", "\u00a0\u00a0")
	_ = xml.EscapeText(&b, []byte(s)) // a Builder takes everything
	return b.String()
}
