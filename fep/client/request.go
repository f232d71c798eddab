package client

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/uetlab/uetlab/internal/shm"
)

// request sends a control message and waits for the reply. more follows the payload, fd goes beside it unless it is -1; result is a pointer to
// what the reply's payload holds, or nil. The descriptors that come back are the caller's.
func (d *Domain) request(ctx context.Context, what string, kind shm.Request, payload any, more []byte, fd int, result any) ([]int, error) {
	d.reqMu.Lock()
	defer d.reqMu.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err != nil {
		return nil, d.err
	}
	d.reqID++
	d.replied = false
	b := append(shm.Append(nil, shm.Header{Kind: kind, ID: d.reqID}, payload), more...)
	var fds []int
	if fd >= 0 {
		fds = []int{fd}
	}
	if err := d.send(ctx, b, fds); err != nil {
		return nil, fmt.Errorf("client: %s: %w", what, err)
	}
	err := d.await(ctx, func() bool { return d.replied }, false)
	if err != nil {
		return nil, err
	}
	d.replied = false
	fds, d.fds = d.fds, nil
	h, rest, _ := shm.ParseHeader(d.reply) // receive has looked at it
	if s := shm.Status(h.Status); s != shm.StatusOK {
		shm.CloseAll(fds)
		return nil, refusal(what, s, string(rest))
	}
	if result != nil {
		if _, err := shm.Parse(rest, result); err != nil {
			shm.CloseAll(fds)
			return nil, fmt.Errorf("client: %s: %w", what, err)
		}
	}
	return fds, nil
}

// send sends a message; the FEP reads them quickly, so a full socket is one whose FEP stands still. Callers hold mu.
func (d *Domain) send(ctx context.Context, b []byte, fds []int) error {
	for {
		err := shm.Send(d.sock, b, fds...)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.EPIPE), errors.Is(err, unix.ECONNRESET):
			d.fail(ErrDetached)
			return d.err
		case !errors.Is(err, shm.ErrAgain):
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		d.mu.Unlock()
		yield()
		d.mu.Lock()
		if d.err != nil {
			return d.err
		}
	}
}

// closeObject ends a thing of the FEP's.
func (d *Domain) closeObject(what string, kind, id uint32) error {
	_, err := d.request(context.Background(), what, shm.ReqClose, &shm.Close{Kind: kind, ID: id}, nil, -1, nil)
	if errors.Is(err, ErrClosed) || errors.Is(err, ErrDetached) {
		return nil // it went with the domain
	}
	return err
}

// allowTrace lets the FEP at the other end of a socket reach this process' memory, where Yama asks for that.
func allowTrace(sock int) {
	c, err := unix.GetsockoptUcred(sock, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err == nil && c.Pid > 0 {
		_ = unix.Prctl(unix.PR_SET_PTRACER, uintptr(c.Pid), 0, 0, 0) // not with every kernel; ErrAccess tells
	}
}
