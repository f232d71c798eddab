package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/capture/pcapfile"
	"github.com/uetlab/uetlab/wire"
)

func traceCommand() *cli.Command {
	return verb{name: "trace", usage: "compare the frames of two runs",
		examples: []string{"uetlab trace diff run.pcapng sim.pcapng"},
		subs: []*cli.Command{
			verb{name: "diff", args: "A B", usage: "find where the frames of two runs part", min: 2, max: 2,
				text: "A and B are captures as run --trace, sim --trace and tcpdump -w write them. The packets of each direction are compared one\n" +
					"by one, bytes and virtual time, and the first that differs is shown for every direction, the earliest first: what comes\n" +
					"after it is mostly its consequence. Times count from the first packet of the directions that both files have. Ends with\n" +
					"exit code 1 where there is a difference.",
				examples: []string{"uetlab trace diff run.pcapng sim.pcapng", "uetlab trace diff a.pcapng b.pcapng --absolute --format json"},
				flags: []cli.Flag{
					&cli.BoolFlag{Name: "absolute", Usage: "compare times as they are"},
					formatFlag(),
				}, run: runTraceDiff}.command(),
		}}.command()
}

// Sides of a comparison.
const (
	sideA = iota
	sideB
	sides
)

// traceFile is one of the files that are compared.
type traceFile struct {
	name  string
	first map[string]int64 // due of each direction's first packet, ns; noPacket where there is none
	base  int64            // what times count from
	in    *packets
	now   int64 // of the packet read last, since base
	ended bool
}

const noPacket = int64(-1)

// traceDiff is a comparison: what programs get of it.
type traceDiff struct {
	Same        bool              `json:"same"`
	Directions  int               `json:"directions"` // that both files have
	Packets     int               `json:"packets"`    // compared and found equal
	OnlyA       []string          `json:"onlyA"`      // directions that B does not have
	OnlyB       []string          `json:"onlyB"`
	Differences []traceDifference `json:"differences"` // the first of each direction, the earliest first

	at map[string]*direction
}

// traceDifference is the first difference of one direction.
type traceDifference struct {
	Direction string     `json:"direction"`
	Packet    int        `json:"packet"` // of the direction, from 1
	What      []string   `json:"what"`
	A         *traceView `json:"a"` // null: A has no such packet
	B         *traceView `json:"b"`
}

// traceView is a packet of a difference.
type traceView struct {
	TimeNs  int64  `json:"timeNs"` // since the base of its file
	Summary string `json:"summary"`
	Comment string `json:"comment,omitempty"`
}

// direction is how far the comparison of one direction is.
type direction struct {
	waiting []*rawPacket // of one file, for those of the other
	of      int          // side of waiting
	equal   int
	parted  bool
}

func runTraceDiff(c *call) error {
	d, err := diffTraces(c.ctx, c.arg(sideA), c.arg(sideB), c.Bool("absolute"))
	if err != nil {
		return err
	}
	if c.String("format") == formatTable {
		err = d.print(c.out)
	} else {
		err = c.render(d, nil)
	}
	if err == nil && !d.Same {
		err = api.Errorf(api.CodeFailure, "trace diff: %d of %d directions differ", len(d.Differences), d.Directions)
	}
	return err
}

// diffTraces compares two files.
func diffTraces(ctx context.Context, a, b string, absolute bool) (*traceDiff, error) {
	var files [sides]*traceFile
	for side, name := range []string{a, b} {
		f, err := scanTrace(ctx, name)
		if err != nil {
			return nil, err
		}
		files[side] = f
	}
	d := newTraceDiff(files[sideA], files[sideB], absolute)
	for _, f := range files {
		if err := f.open(); err != nil {
			return nil, err
		}
		defer f.in.close()
	}
	for !files[sideA].ended || !files[sideB].ended {
		side := sideA
		if a, b := files[sideA], files[sideB]; a.ended || !b.ended && b.now < a.now { // whichever is behind
			side = sideB
		}
		if err := d.step(files[side], side); err != nil {
			return nil, err
		}
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
	}
	d.end(files)
	return d, nil
}

// openTrace opens a file as a capture.
func openTrace(name string) (*os.File, *pcapfile.Reader, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, fmt.Errorf("trace diff: %w", err)
	}
	r, err := pcapfile.NewReader(f)
	if err != nil {
		return nil, nil, errors.Join(usage("trace diff %s: %w", name, err).WithHint("give captures as --trace writes them"), f.Close())
	}
	return f, r, nil
}

// open begins to read packets.
func (f *traceFile) open() error {
	file, r, err := openTrace(f.name)
	if err != nil {
		return err
	}
	f.in = &packets{name: f.name, next: func() (*rawPacket, error) { return captured(r) }, close: func() { _ = file.Close() }} // it was only read
	return nil
}

// scanTrace finds out which directions a file has, and when each begins.
func scanTrace(ctx context.Context, name string) (*traceFile, error) {
	file, r, err := openTrace(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	f := &traceFile{name: name, first: map[string]int64{}}
	for {
		p, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, inputError(name, err)
		}
		if _, ok := f.first[p.Iface]; !ok {
			f.first[p.Iface] = p.Time
		}
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
	}
	for _, iface := range r.Interfaces() {
		if _, ok := f.first[iface]; !ok {
			f.first[iface] = noPacket
		}
	}
	return f, nil
}

// newTraceDiff says which directions are compared, and from where times count.
func newTraceDiff(a, b *traceFile, absolute bool) *traceDiff {
	d := &traceDiff{OnlyA: []string{}, OnlyB: []string{}, Differences: []traceDifference{}, at: map[string]*direction{}}
	for name := range a.first {
		if _, ok := b.first[name]; ok {
			d.at[name] = &direction{}
		} else {
			d.OnlyA = append(d.OnlyA, name)
		}
	}
	for name := range b.first {
		if d.at[name] == nil {
			d.OnlyB = append(d.OnlyB, name)
		}
	}
	slices.Sort(d.OnlyA)
	slices.Sort(d.OnlyB)
	d.Directions = len(d.at)
	if absolute {
		return d
	}
	for _, f := range []*traceFile{a, b} {
		f.base = noPacket
		for name := range d.at {
			if t := f.first[name]; t != noPacket && (f.base == noPacket || t < f.base) {
				f.base = t
			}
		}
	}
	return d
}

// step takes the next packet of one side.
func (d *traceDiff) step(f *traceFile, side int) error {
	p, err := f.in.next()
	if errors.Is(err, io.EOF) {
		f.ended = true
		return nil
	}
	if err != nil {
		return inputError(f.name, err)
	}
	p.time -= f.base
	f.now = p.time
	at := d.at[p.iface]
	switch {
	case at == nil || at.parted:
		return nil
	case len(at.waiting) == 0 || at.of == side:
		p.data = bytes.Clone(p.data) // the reader's own until now
		at.waiting, at.of = append(at.waiting, p), side
		return nil
	}
	other := at.waiting[0]
	at.waiting = at.waiting[1:]
	if side == sideA {
		d.compare(at, p, other)
	} else {
		d.compare(at, other, p)
	}
	return nil
}

// compare compares packets of the same number in one direction.
func (d *traceDiff) compare(at *direction, a, b *rawPacket) {
	if a.time == b.time && a.comment == b.comment && a.length == b.length && bytes.Equal(a.data, b.data) {
		at.equal++
		d.Packets++
		return
	}
	d.part(at, a, b)
}

// part notes the first difference of a direction; a or b may be nil.
func (d *traceDiff) part(at *direction, a, b *rawPacket) {
	at.parted, at.waiting = true, nil
	t := traceDifference{Packet: at.equal + 1, A: viewOf(a), B: viewOf(b)}
	switch {
	case a == nil:
		t.Direction, t.What = b.iface, []string{"only B has this packet"}
	case b == nil:
		t.Direction, t.What = a.iface, []string{"only A has this packet"}
	default:
		t.Direction, t.What = a.iface, differing(a, b)
	}
	d.Differences = append(d.Differences, t)
}

// end takes what waits in vain for a packet of the other file.
func (d *traceDiff) end(files [sides]*traceFile) {
	for _, at := range d.at {
		switch {
		case len(at.waiting) == 0:
		case at.of == sideA:
			d.part(at, at.waiting[0], nil)
		default:
			d.part(at, nil, at.waiting[0])
		}
	}
	slices.SortFunc(d.Differences, func(x, y traceDifference) int {
		return cmp.Or(cmp.Compare(x.time(), y.time()), strings.Compare(x.Direction, y.Direction))
	})
	d.Same = len(d.Differences) == 0
}

// time is that of the earlier of the two packets.
func (t *traceDifference) time() int64 {
	switch {
	case t.A == nil:
		return t.B.TimeNs
	case t.B == nil:
		return t.A.TimeNs
	}
	return min(t.A.TimeNs, t.B.TimeNs)
}

func decodeRaw(p *rawPacket) *decoded {
	o := decodeOptions{layer: layerGuess, trailer: trailerAuto, native: wire.ProtoNative}
	return o.take(1, p)
}

func viewOf(p *rawPacket) *traceView {
	if p == nil {
		return nil
	}
	return &traceView{TimeNs: p.time, Summary: decodeRaw(p).summary(), Comment: p.comment}
}

// differing says in what two packets differ: the time, and the fields, or where they have none the bytes.
func differing(a, b *rawPacket) (what []string) {
	if a.time != b.time {
		what = append(what, fmt.Sprintf("time: B is %+d ns", b.time-a.time))
	}
	if a.comment != b.comment {
		what = append(what, fmt.Sprintf("comment: %q, %q", a.comment, b.comment))
	}
	if bytes.Equal(a.data, b.data) && a.length == b.length {
		return what
	}
	before := len(what)
	x, y := decodeRaw(a), decodeRaw(b)
	theirs := map[string]string{}
	for _, f := range y.flat() {
		theirs[f.name] = valueText(&y.p, f)
	}
	for _, f := range x.flat() {
		v, ok := theirs[f.name]
		delete(theirs, f.name)
		if !ok {
			v = "none"
		}
		if mine := valueText(&x.p, f); mine != v {
			what = append(what, fmt.Sprintf("%s: %s, %s", f.name, mine, v))
		}
	}
	for _, f := range y.flat() {
		if v, ok := theirs[f.name]; ok {
			what = append(what, fmt.Sprintf("%s: none, %s", f.name, v))
		}
	}
	if len(what) == before {
		what = append(what, fmt.Sprintf("bytes, from %d on, of %d and %d", firstDifferent(a.data, b.data), a.length, b.length))
	}
	return what
}

// firstDifferent is the index of the first byte that differs.
func firstDifferent(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// print shows the comparison to people.
func (d *traceDiff) print(w io.Writer) error {
	var b strings.Builder
	for i := range d.Differences {
		t := &d.Differences[i]
		fmt.Fprintf(&b, "%s  packet %d\n", t.Direction, t.Packet)
		for _, s := range []struct {
			name string
			view *traceView
		}{{"A", t.A}, {"B", t.B}} {
			if s.view != nil {
				fmt.Fprintf(&b, "  %s %12s  %s\n", s.name, nanos(s.view.TimeNs), s.view.Summary)
			}
		}
		for _, what := range t.What {
			fmt.Fprintf(&b, "    %s\n", what)
		}
	}
	fmt.Fprintf(&b, "%d packets of %d directions are the same", d.Packets, d.Directions)
	if n := len(d.Differences); n > 0 {
		fmt.Fprintf(&b, "; %d directions part", n)
	}
	b.WriteString("\n")
	for _, only := range []struct {
		name string
		list []string
	}{{"A", d.OnlyA}, {"B", d.OnlyB}} {
		if len(only.list) > 0 {
			fmt.Fprintf(&b, "%d directions are only in %s and not compared: %s\n", len(only.list), only.name, enumerate(only.list))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// enumerate writes the first of a list.
func enumerate(list []string) string {
	const most = 4
	if len(list) > most {
		return strings.Join(list[:most], ", ") + ", …"
	}
	return strings.Join(list, ", ")
}
