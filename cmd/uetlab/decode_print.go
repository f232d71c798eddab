package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/uetlab/uetlab/wire"
)

// packetPrinter prints packets one by one as they come, in one of the forms of uetlab decode.
type packetPrinter struct {
	w    *bufio.Writer
	note func(format string, args ...any) // of a packet that is wrong, where the form has no place for it; or nil
	live bool                             // whoever reads wants to see each packet at once
	n    int
	form packetForm
}

// packetForm is how packets are put down: each of them, what stands before, between and behind them, and in place of none.
type packetForm struct {
	text                     func(*decoded) (string, error)
	open, between, end, none string
}

func newPacketPrinter(c *call) *packetPrinter {
	p := &packetPrinter{w: bufio.NewWriterSize(c.out, 64<<10), live: len(c.args) == 0 || c.arg(0) == "-"}
	flat := c.Bool("flat")
	switch format := c.String("format"); {
	case format == formatJSON && flat:
		p.form = packetForm{text: flatJSON}
	case format == formatJSON:
		p.form = packetForm{text: viewJSON, open: "[\n  ", between: ",\n  ", end: "\n]\n", none: "[]\n"}
	case format == formatYAML && flat:
		p.form = packetForm{text: flatYAML, between: "---\n"}
	case format == formatYAML:
		p.form = packetForm{text: viewYAML, none: "[]\n"}
	case flat:
		p.form = packetForm{text: flatText, between: "\n"}
	case c.Bool("summary"):
		p.form = packetForm{text: summaryText}
	default:
		p.form = packetForm{text: treeText, between: "\n"}
	}
	if flat {
		p.note = c.note
	}
	return p
}

func (p *packetPrinter) packet(d *decoded) error {
	s, err := p.form.text(d)
	if err != nil {
		return fmt.Errorf("packet %d: %w", d.n, err)
	}
	before := p.form.between
	if p.n == 0 {
		before = p.form.open
	}
	p.n++
	if _, err := p.w.WriteString(before + s); err != nil {
		return err
	}
	if p.note != nil {
		for _, f := range d.faults() {
			p.note("uetlab: packet %d: %s", d.n, f.Message)
		}
	}
	if p.live {
		return p.w.Flush()
	}
	return nil
}

// end closes what is open.
func (p *packetPrinter) end() error {
	s := p.form.end
	if p.n == 0 {
		s = p.form.none
	}
	if _, err := p.w.WriteString(s); err != nil {
		return err
	}
	return p.w.Flush()
}

// flush closes what is open after an error of the input; of no packet it says nothing.
func (p *packetPrinter) flush() error {
	if p.n == 0 {
		return nil
	}
	return p.end()
}

// compact is the JSON of v in one line, without line end.
func compact(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}

func flatJSON(d *decoded) (string, error) {
	b, err := d.flat().MarshalJSON()
	return string(b) + "\n", err
}

func viewJSON(d *decoded) (string, error) {
	b, err := compact(d.view())
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	err = json.Indent(&out, b, "  ", "  ")
	return out.String(), err
}

func flatYAML(d *decoded) (string, error) { return yamlOf(d.flat()) }

func viewYAML(d *decoded) (string, error) { return yamlOf([]packetView{d.view()}) }

func yamlOf(v any) (string, error) {
	b, err := compact(v)
	if err != nil {
		return "", err
	}
	y, err := yaml.JSONToYAML(b)
	return string(y), err
}

// stampText is time and interface of a captured packet, with a blank after each.
func stampText(d *decoded) string {
	var b strings.Builder
	if d.raw.timed {
		sec, ns := d.raw.time/1e9, d.raw.time%1e9
		if ns < 0 {
			sec, ns = sec-1, ns+1e9
		}
		fmt.Fprintf(&b, "%02d.%09d ", sec, ns)
	}
	if d.raw.iface != "" {
		b.WriteString(strings.ReplaceAll(d.raw.iface, " ", "") + " ")
	}
	return b.String()
}

func summaryText(d *decoded) (string, error) {
	s := stampText(d) + d.summary()
	if d.raw.comment != "" {
		s += " [" + d.raw.comment + "]"
	}
	return s + "\n", nil
}

func flatText(d *decoded) (string, error) {
	var b strings.Builder
	for _, f := range d.flat() {
		fmt.Fprintf(&b, "%s=%v\n", f.name, f.value)
	}
	return b.String(), nil
}

// treeText shows a packet with a paragraph for each layer, and marks what is wrong with a !.
func treeText(d *decoded) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "packet %d  %s%d bytes\n", d.n, stampText(d), d.raw.length)
	fmt.Fprintf(&b, "  %s\n", d.summary())
	for _, l := range d.layers() {
		fmt.Fprintf(&b, "  %s", l.Title)
		if l.Name != l.Title && strings.ToLower(l.Title) != l.Name {
			fmt.Fprintf(&b, " (%s)", l.Name)
		}
		if l.Offset != nil {
			fmt.Fprintf(&b, "  at %d, %d bytes", *l.Offset, l.Length)
		}
		b.WriteString("\n")
		for _, f := range l.Fields {
			name := strings.TrimPrefix(f.name, l.Name+".")
			text := valueText(&d.p, f)
			if n := valueName(&d.p, f); n != "" {
				text += "  " + n
			}
			fmt.Fprintf(&b, "    %-24s %s\n", name, text)
		}
	}
	if derived := d.derived(); len(derived) > 0 {
		head := "  derived\n"
		for _, f := range derived {
			if !strings.HasPrefix(f.name, "flag_") {
				fmt.Fprintf(&b, "%s    %-24s %v\n", head, f.name, f.value)
				head = ""
			}
		}
	}
	for _, f := range d.faults() {
		fmt.Fprintf(&b, "  ! %s\n", f.Message)
	}
	if d.raw.comment != "" {
		fmt.Fprintf(&b, "  # %s\n", d.raw.comment)
	}
	return b.String(), nil
}

// Of values for people: how much hex of a payload is shown, and from where on numbers are shown in hex as well.
const (
	mostHex    = 64
	bigNumbers = 1 << 32
)

func valueText(p *wire.Packet, f field) string {
	switch v := f.value.(type) {
	case uint64:
		if d := described(p, f.name); d != nil && d.Signed {
			if shift := 64 - d.Bits; int64(v<<shift) < 0 {
				return fmt.Sprintf("%d  %d", v, int64(v<<shift)>>shift)
			}
		}
		if v >= bigNumbers {
			return fmt.Sprintf("%d  0x%x", v, v)
		}
	case string:
		if len(v) > mostHex {
			return fmt.Sprintf("%s… (%d bytes)", v[:mostHex], len(v)/2)
		}
	}
	return fmt.Sprint(f.value)
}
