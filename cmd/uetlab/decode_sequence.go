package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/capture/sequence"
	"github.com/uetlab/uetlab/internal/nearest"
)

// Formats of sequence diagrams beside text.
const (
	formatMermaid = "mermaid"
	formatSVG     = "svg"
)

// sequenceOnly are the flags that mean something with --sequence alone.
var sequenceOnly = []string{"names", "pdc", "between", "all", "absolute", "o"}

func sequenceFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "sequence", Usage: "draw a sequence diagram: a lane for every address, an arrow for every packet"},
		&cli.StringFlag{Name: "names", Usage: "with --sequence: names of lanes, `ADDRESS=NAME,…`"},
		&cli.StringFlag{Name: "pdc", Usage: "with --sequence: only this `PDC`, by its letter or a PDCID"},
		&cli.StringFlag{Name: "between", Usage: "with --sequence: only packets between two lanes, `A,B`"},
		&cli.BoolFlag{Name: "all", Usage: "with --sequence: an arrow for every packet, also of runs"},
		&cli.BoolFlag{Name: "absolute", Usage: "with --sequence: PSNs as they are on the wire"},
		&cli.StringFlag{Name: "o", Usage: "with --sequence: write to `FILE`"},
	}
}

// decodeFormats are the words of --format: without and with --sequence.
var decodeFormats = map[bool][]string{false: {formatTable, formatJSON, formatYAML}, true: {formatTable, formatMermaid, formatSVG}}

func decodeFormatFlag() cli.Flag {
	return &cli.StringFlag{Name: "format", Value: formatTable, Usage: "table, json or yaml; with --sequence table (text), mermaid or svg", Action: func(c *cli.Context, s string) error {
		valid := decodeFormats[c.Bool("sequence")]
		for _, w := range valid {
			if s == w {
				return nil
			}
		}
		e := usage("--format (%s): not a format of uetlab decode", s)
		if s == formatMermaid || s == formatSVG {
			return e.WithHint("it is one with --sequence")
		}
		if near := nearest.Word(s, valid); near != "" {
			return e.WithHint("did you mean %s?", near)
		}
		return e.WithHint("valid are %s", strings.Join(valid, ", "))
	}}
}

// sequenceOptions reads the flags of diagrams. on says that one is wanted.
func sequenceOptions(c *call) (opt sequence.Options, on bool, err error) {
	if !c.Bool("sequence") {
		for _, f := range sequenceOnly {
			if c.IsSet(f) {
				return opt, false, usage("%s: only with --sequence", dashed(f)).WithHint("add --sequence for a diagram")
			}
		}
		return opt, false, nil
	}
	if c.Bool("summary") || c.Bool("flat") {
		return opt, true, usage("--sequence: is a form of its own, without --summary and --flat").WithHint("leave one of them out")
	}
	opt = sequence.Options{All: c.Bool("all"), Absolute: c.Bool("absolute"), PDC: c.String("pdc")}
	if opt.Names, err = laneNames(c.String("names")); err != nil {
		return opt, true, err
	}
	if s := c.String("between"); s != "" {
		a, b, ok := strings.Cut(s, ",")
		if !ok || a == "" || b == "" || strings.Contains(b, ",") {
			return opt, true, usage("--between (%s): not two lanes", s).WithHint("write --between host0,host1 or two addresses")
		}
		opt.Between = [2]string{a, b}
	}
	return opt, true, nil
}

// laneNames reads --names.
func laneNames(s string) (map[netip.Addr]string, error) {
	names := map[netip.Addr]string{}
	for _, pair := range strings.FieldsFunc(s, func(r rune) bool { return r == ',' }) {
		addr, name, ok := strings.Cut(pair, "=")
		a, err := netip.ParseAddr(addr)
		if !ok || name == "" || err != nil {
			return nil, usage("--names (%s): not an address with a name", pair).WithHint("write --names 10.0.0.1=host0,10.0.0.2=host1")
		}
		names[a.Unmap()] = name
	}
	return names, nil
}

// sequence draws the diagram of all packets of the input. Of an input that is cut or damaged it draws what comes before.
func (c *call) sequence(o decodeOptions, opt sequence.Options) error {
	in, err := c.openPackets()
	if err != nil {
		return err
	}
	defer in.close()
	m := sequence.New(opt)
	var broken error
	for n := 1; o.count == 0 || n <= o.count; n++ {
		raw, err := in.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			broken = inputError(in.name, err)
			break
		}
		d := o.take(n, raw)
		m.Add(&d.p, sequence.Capture{Timed: raw.timed, Time: raw.time, Iface: raw.iface, Comment: raw.comment})
	}
	d, err := m.Diagram()
	switch {
	case err != nil && broken != nil:
		return broken
	case errors.Is(err, sequence.ErrNone):
		return api.Errorf(api.CodeFailure, "decode %s: %w", in.name, err).WithHint("uetlab decode --summary shows what is in it")
	case err != nil:
		return usage("decode %s: %w", in.name, err)
	}
	if err := c.draw(d); err != nil {
		return errors.Join(err, broken)
	}
	return broken
}

// draw prints a diagram, or writes it to the file of -o.
func (c *call) draw(d *sequence.Diagram) error {
	form := d.Text
	switch c.String("format") {
	case formatMermaid:
		form = d.Mermaid
	case formatSVG:
		form = d.SVG
	}
	name := c.String("o")
	if name == "" || name == "-" {
		w := bufio.NewWriter(c.out)
		return errors.Join(form(w), w.Flush())
	}
	f, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("-o: %w", err)
	}
	if err := errors.Join(form(f), f.Close()); err != nil {
		return fmt.Errorf("-o: %w", err)
	}
	c.note("%d rows written to %s", d.Rows(), name)
	return nil
}
