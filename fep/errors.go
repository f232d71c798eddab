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
	// ErrPeer: the index is not in the address vector.
	ErrPeer = errors.New("fep: unknown peer: insert its address first")
	// ErrFamily: the peer's address is of the other IP version.
	ErrFamily = errors.New("fep: address of the other IP version than the end point's: give the peer one of the same")
	// ErrProfile: the peer and we have no profile in common.
	ErrProfile = errors.New("fep: no common profile: let both ends have one")
	// ErrMTU: the peer's packets have another size.
	ErrMTU = errors.New("fep: the peer has another payload MTU: set both to the same")
	// ErrUnsupported: the profile that is common with the peer, or that of the end point, lacks the operation.
	ErrUnsupported = errors.New("fep: operation not in the profile: use one that both ends have, see Profiles")
	// ErrWildcard: Ignore bits are for HPC.
	ErrWildcard = errors.New("fep: wildcard tags need the HPC profile: set Ignore to 0")
	// ErrInvalid: the operation contradicts itself.
	ErrInvalid = errors.New("fep: invalid operation: its kind, flags and buffers do not fit together")
	// ErrAddress: somebody else is reachable there.
	ErrAddress = errors.New("fep: address in use: close the endpoint that has it, or take another PID or resource index")
	// ErrTooLarge: the buffer is longer than MaxMessage, or than what the flags allow.
	ErrTooLarge = errors.New("fep: message too large: send less at once, see MaxMessage and InjectSize")
	// ErrNoData: the target took the read, but its data does not come.
	ErrNoData = errors.New("fep: read without data: the target accepted it and then fell silent")
	// ErrDatagram: a datagram is one packet.
	ErrDatagram = errors.New("fep: datagram too large: it must fit one packet, see Config.PayloadMTU")
	// ErrTruncated: the message was longer than the receive buffer; the buffer is full, the rest is lost.
	ErrTruncated = errors.New("fep: message truncated: the receive buffer was too small")
	// ErrAborted: the sender gave the message up, or fell silent in the middle of it.
	ErrAborted = errors.New("fep: message aborted by its sender")
	// ErrNoReceive: the message waited for a receive of its target, and there was none in time.
	ErrNoReceive = errors.New("fep: no receive at the target in time: post one earlier, or raise Config.MessageIdle")
	// ErrSource: a receive on a pair of AI Base tells its source where to write, so it has to name it.
	ErrSource = errors.New("fep: an AI Base receive must name its source, and serve one message: set Peer")
	// ErrCancelled: Cancel took the receive back.
	ErrCancelled = errors.New("fep: operation cancelled")
	// ErrClosed: the endpoint was closed.
	ErrClosed = errors.New("fep: endpoint closed")
	// ErrMemory: the operation's own buffer could not be read.
	ErrMemory = errors.New("fep: buffer not readable: the memory behind it is gone")
)

// ResponseError is the failure that a target's SES reported for an operation.
type ResponseError struct{ Code wire.ReturnCode }

// Error implements error.
func (e *ResponseError) Error() string { return "fep: the target answered " + e.Code.String() }

// PDCError is the failure of a PDC, or of a message without one, with operations under way.
type PDCError = pds.Error
