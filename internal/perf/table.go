package perf

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Print says how rows are written: as perftest's tables, or with commas.
type Print struct {
	Metric string
	CSV    bool
	Gbits  bool // bandwidth in Gb/s, 10^9 bits
	Real   bool // the wall's time: two digits suffice
}

// column is a column of a table.
type column struct {
	name  string
	width int
	value func(*Row) string
}

func (p Print) columns() []column {
	digits := 4 // half of a nanosecond, in microseconds
	if p.Real {
		digits = 2
	}
	num := func(v float64, digits int) string { return strconv.FormatFloat(v, 'f', digits, 64) }
	cols := []column{
		{"#bytes", 10, func(r *Row) string { return strconv.FormatInt(r.Bytes, 10) }},
		{"#iterations", 11, func(r *Row) string { return strconv.Itoa(r.Iterations) }},
	}
	if p.Metric == Lat {
		us := func(f func(*Latency) float64) func(*Row) string {
			return func(r *Row) string { return num(f(r.Lat), digits) }
		}
		return append(cols,
			column{"t_min[usec]", 13, us(func(l *Latency) float64 { return l.Min })},
			column{"t_max[usec]", 13, us(func(l *Latency) float64 { return l.Max })},
			column{"t_typical[usec]", 15, us(func(l *Latency) float64 { return l.Typical })},
			column{"t_avg[usec]", 13, us(func(l *Latency) float64 { return l.Avg })},
			column{"t_stdev[usec]", 13, us(func(l *Latency) float64 { return l.Stdev })},
			column{"99% percentile[usec]", 20, us(func(l *Latency) float64 { return l.P99 })},
			column{"99.9% percentile[usec]", 22, us(func(l *Latency) float64 { return l.P999 })})
	}
	unit, peak, average := "MB/sec", func(b *Rate) float64 { return b.Peak }, func(b *Rate) float64 { return b.Average }
	if p.Gbits {
		unit, peak, average = "Gb/sec", func(b *Rate) float64 { return b.PeakGbps }, func(b *Rate) float64 { return b.Gbps }
	}
	return append(cols,
		column{"BW peak[" + unit + "]", 16, func(r *Row) string { return num(peak(r.BW), 2) }},
		column{"BW average[" + unit + "]", 19, func(r *Row) string { return num(average(r.BW), 2) }},
		column{"MsgRate[Mpps]", 14, func(r *Row) string { return num(r.BW.Mpps, 6) }})
}

// Head writes the names of the columns.
func (p Print) Head(w io.Writer) error {
	return p.line(w, func(c column) string { return c.name })
}

// Row writes one result.
func (p Print) Row(w io.Writer, r *Row) error {
	return p.line(w, func(c column) string { return c.value(r) })
}

func (p Print) line(w io.Writer, cell func(column) string) error {
	var cells []string
	for _, c := range p.columns() {
		text := cell(c)
		if !p.CSV {
			text = fmt.Sprintf("%*s", c.width, text)
		}
		cells = append(cells, text)
	}
	sep := "  "
	if p.CSV {
		sep = ","
	}
	_, err := io.WriteString(w, strings.Join(cells, sep)+"\n")
	return err
}
