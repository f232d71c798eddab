package sequence

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Text prints the diagram with characters of one width: times in µs, lanes, the PDC and the label of every packet. The
// error is that of w.
func (d *Diagram) Text(w io.Writer) error {
	out := bufio.NewWriter(w)
	step := d.step()
	head := strings.Repeat(" ", d.timeWidth())
	names := []byte{}
	for i, n := range d.lanes {
		pad := i*step + 4 - utf8.RuneCount(names)
		names = append(append(names, strings.Repeat(" ", max(pad, 0))...), n...)
	}
	fmt.Fprintf(out, "%s%s\n", head, strings.TrimRight(string(names), " "))
	fmt.Fprintln(out, strings.TrimRight(head+string(d.arrow(nil, step)), " "))
	for i := range d.rows {
		r := &d.rows[i]
		line := d.times(r, i) + string(d.arrow(r, step)) + " "
		if d.hasPDC() {
			line += fmt.Sprintf(" %-*s", d.pdcWidth(), r.pdc)
		}
		fmt.Fprintln(out, strings.TrimRight(line+" "+r.label, " "))
	}
	fmt.Fprintln(out)
	for _, n := range d.textNotes() {
		fmt.Fprintln(out, n)
	}
	return out.Flush()
}

// textNotes are the legend and what the columns mean.
func (d *Diagram) textNotes() []string {
	switch {
	case !d.timed:
		return append([]string{"first column: place in the order of the capture, which has no times"}, d.notes...)
	case d.ways:
		return append([]string{"times in us: captured first on its way, and how long after that last"}, d.notes...)
	}
	return append([]string{"times in us"}, d.notes...)
}

const (
	timeCol = 12 // of a time in µs, with its blanks
	wayCol  = 10 // of the time that a packet was on its way
	minStep = 10 // between two lanes
	twoStep = 16 // between the lanes of a diagram of two
)

func (d *Diagram) timeWidth() int {
	if d.ways && d.timed {
		return timeCol + wayCol
	}
	return timeCol
}

// times are the columns of time of a row.
func (d *Diagram) times(r *row, i int) string {
	if !d.timed {
		return fmt.Sprintf("%*s", timeCol, fmt.Sprintf("#%d", r.at+1))
	}
	s := fmt.Sprintf("%*s", timeCol, micros(r.at))
	switch {
	case !d.ways:
	case r.copies > 1:
		s += fmt.Sprintf("%*s", wayCol, "+"+micros(r.until-r.at))
	default:
		s += strings.Repeat(" ", wayCol)
	}
	return s
}

func (d *Diagram) hasPDC() bool { return d.pdcWidth() > 0 }

func (d *Diagram) pdcWidth() int {
	n := 0
	for i := range d.rows {
		n = max(n, len(d.rows[i].pdc))
	}
	return n
}

// step is the distance of two lanes, in characters: names must fit.
func (d *Diagram) step() int {
	n := minStep
	if len(d.lanes) == 2 {
		n = twoStep
	}
	for _, l := range d.lanes {
		n = max(n, utf8.RuneCountInString(l)+2)
	}
	return n
}

// left is where the first lane stands, in characters.
const left = 5

// arrow draws the lanes and the arrow of r.
func (d *Diagram) arrow(r *row, step int) []rune {
	line := []rune(strings.Repeat(" ", left+(len(d.lanes)-1)*step+2))
	for i := range d.lanes {
		line[left+i*step] = '│'
	}
	if r == nil {
		return line
	}
	stroke := '─'
	if r.folded {
		stroke = '┄'
	}
	from, to := left+r.from*step, left+r.to*step
	switch {
	case from < to:
		fill(line[from+1:to-1], stroke)
		line[to-1] = '>'
	case from > to:
		fill(line[to+2:from], stroke)
		line[to+1] = '<'
	default: // to itself
		line[from+1] = '<'
	}
	if r.hurt && from != to {
		line[(from+to)/2] = 'x'
	}
	return line
}

// fill draws a stroke; lanes that it crosses stay to be seen.
func fill(line []rune, stroke rune) {
	for i := range line {
		if line[i] == '│' {
			line[i] = '┼'
		} else {
			line[i] = stroke
		}
	}
}
