package wire

import "fmt"

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
