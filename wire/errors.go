package wire

// FieldError says which field of which header is wrong, and why. The values are made once per cause, so that a receiver
// under attack allocates nothing; test with errors.As, or compare with ==.
type FieldError struct {
	Header string // the header, in the standard's words: "RUD/ROD request"
	Field  string // the field, as in the vectors: "spdcid", or "length"
	Why    string
}

// Error implements error.
func (e *FieldError) Error() string {
	return "wire: " + e.Header + ": " + e.Field + ": " + e.Why
}

// check returns e if bad holds, else nil: a typed nil must not leak into an error.
func check(bad bool, e *FieldError) error {
	if bad {
		return e
	}
	return nil
}
