package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// Exit codes of the uetlab command; every Error carries one, so that a failure in the daemon ends the client as if it had
// happened there.
const (
	CodeOK           = 0
	CodeFailure      = 1   // anything without a code of its own
	CodeUsage        = 2   // wrong command line, topology or argument
	CodeNotFound     = 3   // no such lab, node, link or workload
	CodeExists       = 4   // the lab exists already, or a conflict with what runs
	CodePrecondition = 5   // kernel, rights or an engine are missing
	CodeTimeout      = 6   // it did not happen in time
	CodePartial      = 7   // some nodes did, others did not
	CodeCheck        = 8   // a run ended with wrong data, or a check failed
	CodeFidelity     = 9   // a run's verdict is invalid
	CodeExec         = 125 // exec itself failed, not the command
	CodeExecDenied   = 126 // the command is there and cannot be executed
	CodeExecMissing  = 127 // the command is not there
	CodeInterrupted  = 130 // ended by SIGINT
	CodeTerminated   = 143 // ended by SIGTERM
)

// Error is a failure as the user sees it: what was wrong and why, and what to do about it.
type Error struct {
	Code    int    `json:"code"`           // exit code, one of the Code constants
	Message string `json:"message"`        // "what: why", one line
	Hint    string `json:"hint,omitempty"` // what to do
	cause   error
}

// Errorf makes an Error with the given exit code. An operand of %w stays reachable for errors.Is and errors.As.
func Errorf(code int, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Message: err.Error(), cause: errors.Unwrap(err)}
}

// WithHint gives a copy of the error that says what to do.
func (e *Error) WithHint(format string, args ...any) *Error {
	c := *e
	c.Hint = fmt.Sprintf(format, args...)
	return &c
}

// Error gives the message without the hint.
func (e *Error) Error() string { return e.Message }

// Unwrap gives the error that was wrapped on this side of the wire, if any.
func (e *Error) Unwrap() error { return e.cause }

// AsError finds the Error in err, or makes one with CodeFailure of it. It gives nil for nil.
func AsError(err error) *Error {
	if err == nil {
		return nil
	}
	var e *Error
	if !errors.As(err, &e) {
		return &Error{Code: CodeFailure, Message: err.Error(), cause: err}
	}
	if msg := err.Error(); msg != e.Message { // wrapped further: keep the longer story
		return &Error{Code: e.Code, Message: msg, Hint: e.Hint, cause: err}
	}
	return e
}

// errorBody is an Error as it stands in a response.
type errorBody struct {
	Error *Error `json:"error"`
}

// WriteError answers a request with err and the status that fits its code.
func WriteError(w http.ResponseWriter, err error) {
	e := AsError(err)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(e.Status())
	_ = json.NewEncoder(w).Encode(errorBody{e}) // the client may be gone: nobody is left to tell
}

// Status gives the HTTP status that fits the code.
func (e *Error) Status() int {
	switch e.Code {
	case CodeUsage:
		return http.StatusBadRequest
	case CodeNotFound:
		return http.StatusNotFound
	case CodeExists:
		return http.StatusConflict
	case CodePrecondition:
		return http.StatusPreconditionFailed
	case CodeTimeout:
		return http.StatusGatewayTimeout
	}
	return http.StatusInternalServerError
}
