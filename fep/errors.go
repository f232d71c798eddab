package fep

import (
	"errors"

	"github.com/uetlab/uetlab/fep/pds"
	"github.com/uetlab/uetlab/wire"
)

// Errors of calls and completions.
var (
	// ErrAgain: too many operations are open; post again after a completion.
	ErrAgain = errors.New("fep: no message ID is free: wait for a completion")
	// ErrPeer: the index is not in the address vector, or its address is of the other IP version.
	ErrPeer = errors.New("fep: unknown peer: insert its address first, of the end point's IP version")
	// ErrTooLarge: the buffer is longer than MaxMessage.
	ErrTooLarge = errors.New("fep: message too large: send at most 1 GiB at once")
	// ErrNoData: the target took the read, but its data does not come.
	ErrNoData = errors.New("fep: read without data: the target accepted it and then fell silent")
	// ErrDatagram: a datagram is one packet.
	ErrDatagram = errors.New("fep: datagram too large: it must fit one packet, see Config.PayloadMTU")
	// ErrTruncated: the message was longer than the receive buffer; the buffer is full, the rest is lost.
	ErrTruncated = errors.New("fep: message truncated: the receive buffer was too small")
	// ErrAborted: the sender gave the message up, or fell silent in the middle of it.
	ErrAborted = errors.New("fep: message aborted by its sender")
)

// ResponseError is the failure that a target's SES reported for an operation.
type ResponseError struct{ Code wire.ReturnCode }

// Error implements error.
func (e *ResponseError) Error() string { return "fep: the target answered " + e.Code.String() }

// PDCError is the failure of a PDC, or of a message without one, with operations under way.
type PDCError = pds.Error
