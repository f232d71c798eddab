package sequence

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// Mermaid prints a sequenceDiagram of Mermaid. The legend stands in a note at its end. The error is that of w.
func (d *Diagram) Mermaid(w io.Writer) error {
	out := bufio.NewWriter(w)
	fmt.Fprintln(out, "sequenceDiagram")
	for i, l := range d.lanes {
		fmt.Fprintf(out, "    participant L%d as %s\n", i, escape(l))
	}
	for i := range d.rows {
		r := &d.rows[i]
		arrow := "->>"
		switch {
		case r.hurt:
			arrow = "-x"
		case r.tone == toneAck || r.folded:
			arrow = "-->>"
		}
		fmt.Fprintf(out, "    L%d%sL%d: %s\n", r.from, arrow, r.to, escape(d.caption(r)))
	}
	if len(d.notes) > 0 {
		over := "L0"
		if n := len(d.lanes); n > 1 {
			over = fmt.Sprintf("L0,L%d", n-1)
		}
		notes := make([]string, len(d.notes))
		for i, n := range d.notes {
			notes[i] = escape(n)
		}
		fmt.Fprintf(out, "    Note over %s: %s\n", over, strings.Join(notes, "<br/>"))
	}
	return out.Flush()
}

// caption is a label with time and PDC.
func (d *Diagram) caption(r *row) string {
	s := r.label
	if r.pdc != "" {
		s = r.pdc + ": " + s
	}
	if d.timed {
		s = micros(r.at) + " us  " + s
	}
	return s
}

// escape writes what Mermaid would read as something else as entities. Blanks in a row count as one there.
func escape(s string) string {
	return mermaidEscapes.Replace(s)
}

var mermaidEscapes = strings.NewReplacer("#", "#35;", ";", "#59;", "<", "#lt;", ">", "#gt;", "\"", "#quot;", "%", "#37;")
