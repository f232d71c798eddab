package client

import (
	"errors"
	"fmt"

	"github.com/uetlab/uetlab/fep"
	"github.com/uetlab/uetlab/internal/shm"
	"github.com/uetlab/uetlab/wire"
)

// Errors of calls. Those of operations are package fep's.
var (
	// ErrDetached: the FEP is gone, or has ended the attachment.
	ErrDetached = errors.New("client: the FEP is gone: is the lab still up?")
	// ErrAgain: more operations are open than the completion queue has room for.
	ErrAgain = errors.New("client: too many operations are open: read completions, or open a larger CQ")
	// ErrReset: a run began, which forgets all operations.
	ErrReset = errors.New("client: a run began: the FEP forgot the operation")
	// ErrLimit: a limit of the process; see Info.Limits.
	ErrLimit = errors.New("client: limit of the process reached: close what is not needed")
	// ErrMemory: a buffer is not within memory that the FEP knows.
	ErrMemory = errors.New("client: buffer outside of registered memory")
	// ErrAccess: the system does not let the FEP reach this process' own memory.
	ErrAccess = errors.New("client: the FEP cannot reach memory of this process: use Domain.Alloc, or allow process_vm_readv (kernel.yama.ptrace_scope)")
	// ErrJob: the job is not known, or its token is another.
	ErrJob = errors.New("client: job not known, or wrong token: job 1 is open to all")
	// ErrPID: the PIDonFEP is taken.
	ErrPID = errors.New("client: PIDonFEP is taken: choose another, or AnyPID")
	// ErrBusy: something still uses the object.
	ErrBusy = errors.New("client: in use: close what uses it first")
	// ErrClosed: the object was closed.
	ErrClosed = errors.New("client: closed")
	// ErrOverflow: operations of peers had no room in the completion queue; CQ.Overflow tells how many.
	ErrOverflow = errors.New("client: completions of peers' operations were lost: open a larger CQ")
)

// Error is a refusal by the FEP that none of the other errors stands for.
type Error struct {
	What   string // the call
	Reason string // the FEP's words
}

// Error implements error.
func (e *Error) Error() string { return "client: " + e.What + ": " + e.Reason }

var statusErrors = map[shm.Status]error{
	shm.StatusTruncated: fep.ErrTruncated, shm.StatusAborted: fep.ErrAborted, shm.StatusCancelled: fep.ErrCancelled,
	shm.StatusClosed: fep.ErrClosed, shm.StatusNoData: fep.ErrNoData, shm.StatusAgain: fep.ErrAgain, shm.StatusPeer: fep.ErrPeer,
	shm.StatusTooLarge: fep.ErrTooLarge, shm.StatusDatagram: fep.ErrDatagram, shm.StatusMemory: ErrMemory, shm.StatusReset: ErrReset,
	shm.StatusLimit: ErrLimit, shm.StatusJob: ErrJob, shm.StatusPID: ErrPID, shm.StatusBusy: ErrBusy, shm.StatusAccess: ErrAccess,
	shm.StatusUnsupported: fep.ErrUnsupported, shm.StatusInvalid: fep.ErrInvalid,
	shm.StatusNoReceive: fep.ErrNoReceive, shm.StatusSource: fep.ErrSource,
}

// statusError makes an error of how an operation ended.
func statusError(s shm.Status, detail uint32) error {
	switch s {
	case shm.StatusOK:
		return nil
	case shm.StatusResponse:
		return &fep.ResponseError{Code: wire.ReturnCode(detail)}
	case shm.StatusPDC:
		return &fep.PDCError{PDC: uint16(detail), Code: wire.NackCode(detail >> 16)}
	}
	if err := statusErrors[s]; err != nil {
		return err
	}
	return &Error{"operation", s.String()}
}

// refusal makes an error of a reply to a request; text is what the FEP says about it.
func refusal(what string, s shm.Status, text string) error {
	if text == "" {
		text = s.String()
	}
	if err := statusErrors[s]; err != nil && s != shm.StatusInvalid {
		return fmt.Errorf("client: %s: %w", what, err)
	}
	return &Error{what, text}
}
