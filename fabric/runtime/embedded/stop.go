package embedded

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/uetlab/uetlab/fabric/runtime"
)

// maxRounds bounds how often Stop looks again for nodes; each round ends all that the one before it left.
const maxRounds = 10

// startTime is how long Stop waits for processes that may turn out to be nodes; cloning and executing takes 10 ms, and more
// on a busy machine.
const startTime = time.Second

// pollSlice is how long a wait for dying nodes goes on before it looks at its context.
const pollSlice = 50 * time.Millisecond

// Stop kills the lab's nodes, by handle and by what /proc shows of this user, and waits until they are gone. All that
// ran inside them ends with them, as do their links. Nothing to stop is no error. A process that is not a
// node of the lab is never touched, whatever the handles say. If another process is the lab's daemon it must be dead.
func (r *Runtime) Stop(ctx context.Context, lab string, handles []runtime.Handle) error {
	var own []runtime.Handle
	for _, h := range handles {
		if id, ok := r.who(h.Pid); ok && id.lab == lab {
			own = append(own, h)
		}
	}
	if err := r.stopHandles(ctx, own); err != nil {
		return err
	}
	deadline := time.Now().Add(startTime)
	for range maxRounds {
		pids, err := settled(ctx, lab, deadline)
		if err != nil {
			return fmt.Errorf("stop lab %s: %w", lab, err)
		}
		if len(pids) == 0 {
			return nil
		}
		if err := r.kill(ctx, pids, func(pid int) bool {
			id, ok := r.who(pid)
			return ok && id.lab == lab
		}); err != nil {
			return fmt.Errorf("stop lab %s: %w", lab, err)
		}
	}
	return fmt.Errorf("stop lab %s: processes %v keep appearing: something starts nodes anew; end it first", lab, Leftovers(lab))
}

// settled lists the lab's nodes once no process that might become one is on its way, or when the deadline has passed.
func settled(ctx context.Context, lab string, deadline time.Time) ([]int, error) {
	for {
		inFlight := starting() // before the list: a process that has executed in between is in it
		pids := Leftovers(lab)
		if len(pids) > 0 || !inFlight || time.Now().After(deadline) {
			return pids, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
}

// stopHandles kills the processes of handles that are still the nodes they name.
func (r *Runtime) stopHandles(ctx context.Context, handles []runtime.Handle) error {
	byPid := make(map[int]runtime.Handle, len(handles))
	pids := make([]int, 0, len(handles))
	for _, h := range handles {
		byPid[h.Pid] = h
		pids = append(pids, h.Pid)
	}
	return r.kill(ctx, pids, func(pid int) bool { return r.is(byPid[pid]) })
}

// kill sends SIGKILL to those pids that ours confirms, then waits for all of them.
func (r *Runtime) kill(ctx context.Context, pids []int, ours func(pid int) bool) error {
	var errs []error
	var dying []unix.PollFd
	for _, pid := range pids {
		// The descriptor comes before the check: if the number is reused in between, the signal reaches nobody.
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			if !errors.Is(err, unix.ESRCH) {
				errs = append(errs, fmt.Errorf("process %d: pidfd_open: %w", pid, err))
			}
			continue
		}
		if !ours(pid) {
			unix.Close(fd)
			continue
		}
		if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
			errs = append(errs, fmt.Errorf("process %d: kill: %w", pid, err))
			unix.Close(fd)
			continue
		}
		dying = append(dying, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
	errs = append(errs, waitAll(ctx, dying), r.reaped(ctx, pids))
	return errors.Join(errs...)
}

// reaped waits until our own children among pids have been collected, so that not even a zombie is left.
func (r *Runtime) reaped(ctx context.Context, pids []int) error {
	for _, pid := range pids {
		r.mu.Lock()
		c, mine := r.children[pid]
		r.mu.Unlock()
		if !mine {
			continue
		}
		select {
		case <-c.proc.Done():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// waitAll waits until all pidfds have become readable, which is when their processes have ended, and closes them.
func waitAll(ctx context.Context, fds []unix.PollFd) error {
	defer func() {
		for _, f := range fds {
			unix.Close(int(f.Fd))
		}
	}()
	left := append([]unix.PollFd(nil), fds...)
	for len(left) > 0 {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("%d killed nodes are not gone yet: %w", len(left), err)
		}
		// One descriptor at a time: they all die, in any order, and each is waited for once.
		n, err := unix.Poll(left[:1], int(pollSlice/time.Millisecond))
		if err != nil && err != unix.EINTR {
			return fmt.Errorf("wait for killed nodes: poll: %w", err)
		}
		if n > 0 {
			left = left[1:]
		}
	}
	return nil
}

// who says which node pid is, if it is one.
func (r *Runtime) who(pid int) (identity, bool) {
	r.mu.Lock()
	c, mine := r.children[pid]
	r.mu.Unlock()
	if !mine {
		return nodeOf(pid)
	}
	select {
	case <-c.proc.Done():
		return identity{}, false
	default:
		return c.identity, true
	}
}

// is says whether a handle's process is still the node that it names.
func (r *Runtime) is(h runtime.Handle) bool {
	id, ok := r.who(h.Pid)
	return ok && id.node == h.Node && id.id == h.ID
}
