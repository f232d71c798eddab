package wire

import (
	"fmt"
	"strconv"
	"strings"
)

// FieldError says which field of which header is wrong, and why. The errors of ParseX, Split and Validate are made once
// per cause, so that a receiver under attack allocates nothing; they do not say where (Off is -1). Decode, which knows
// the whole packet, wraps them in a FieldError with Off and Value: errors.Is still finds the cause.
type FieldError struct {
	Header string // the header, in the standard's words: "RUD/ROD request"
	Field  string // the field, as in the vectors without the layer: "spdcid", or "length"
	Why    string
	Off    int    // byte in the frame (DecodeUET: in the payload) at which the field, or what is missing, begins; -1: not known
	Value  string // what stands there: a number in decimal, octets in hex; of a length the bytes that are there
	cause  *FieldError
}

func fieldErr(header, field, why string) *FieldError {
	return &FieldError{Header: header, Field: field, Why: why, Off: -1}
}

// Error implements error.
func (e *FieldError) Error() string {
	s := "wire: " + e.Header + ": " + e.Field + ": " + e.Why
	if e.Off >= 0 {
		s += fmt.Sprintf(" (byte %d, value %s)", e.Off, e.Value)
	}
	return s
}

// Unwrap returns the error of which this one knows the place.
func (e *FieldError) Unwrap() error {
	if e.cause == nil {
		return nil
	}
	return e.cause
}

// check returns e if bad holds, else nil: a typed nil must not leak into an error.
func check(bad bool, e *FieldError) error {
	if bad {
		return e
	}
	return nil
}

// place is where a header stands: its offset, its table, and the bytes from its beginning to the end of the packet.
type place struct {
	off int
	tab *HeaderTable
	b   []byte
}

// note keeps what is wrong, located.
func (p *Packet) note(err error, at place) {
	if err == nil {
		return
	}
	if fe, ok := err.(*FieldError); ok {
		err = at.locate(fe)
	}
	p.Errs = append(p.Errs, err)
}

// noteRest keeps that rest, at off, does not belong there.
func (p *Packet) noteRest(e *FieldError, off int, rest []byte) {
	located := *e
	located.cause, located.Off, located.Value = e, off, byteCount(len(rest))
	p.Errs = append(p.Errs, &located)
}

// locate finds the place and the value of the field that e speaks of. What is not there is missing at the end of b.
func (at place) locate(e *FieldError) *FieldError {
	l := *e
	l.cause, l.Off, l.Value = e, at.off+len(at.b), byteCount(len(at.b))
	if at.tab == nil || len(at.b) < at.tab.Bytes {
		return &l
	}
	value := ""
	for part := range strings.SplitSeq(e.Field, "/") {
		f := at.find(part)
		if f == nil {
			continue
		}
		if value == "" {
			l.Off = at.off + f.Off/8
		} else {
			value += "/"
		}
		value += fmt.Sprint(f.Value(at.b))
	}
	if value != "" {
		l.Value = value
	}
	return &l
}

// find returns the field of that name, without the layer's; of reserved fields the first that is not 0.
func (at place) find(name string) *Field {
	if name == "req" {
		name = "flags" // two bits of them
	}
	for i := range at.tab.Fields {
		f := &at.tab.Fields[i]
		_, short, dotted := strings.Cut(f.Name, ".")
		if (short == name && dotted || f.Name == name) && f.Present(at.b) && (f.Kind != KindReserved || f.Uint(at.b) != 0) {
			return f
		}
	}
	return nil
}

func byteCount(n int) string { return strconv.Itoa(n) + " bytes" }
