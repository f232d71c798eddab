package embedded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/uetlab/uetlab/fabric/runtime"
)

// maxRounds bounds how often Stop looks again for nodes; each round ends all that the one before it left.
const maxRounds = 10

// pollSlice is how long a wait for dying nodes goes on before it looks at its context.
const pollSlice = 50 * time.Millisecond

// Stop kills the lab's nodes, by handle and by what /proc shows of this user, and waits until they are gone. All that
// ran inside them ends with them, as do their links. Nothing to stop is no error. A process that is not a
// node of the lab is never touched, whatever the handles say.
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
	for range maxRounds {
		pids := Leftovers(lab)
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

// Leftovers lists the processes of this user that are nodes of the lab, or of any lab if it is "".
// It needs no state file: it reads the command lines in /proc.
func Leftovers(lab string) []int {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	var pids []int
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if id, ok := nodeOf(pid); ok && (lab == "" || id.lab == lab) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// identity is what a node's command line says.
type identity struct {
	lab, node string
	id        int
}

// who says which node pid is, if it is one.
func (r *Runtime) who(pid int) (identity, bool) {
	r.mu.Lock()
	c, mine := r.children[pid]
	r.mu.Unlock()
	if mine {
		return c.identity, true
	}
	return nodeOf(pid)
}

// is says whether a handle's process is still the node that it names.
func (r *Runtime) is(h runtime.Handle) bool {
	id, ok := r.who(h.Pid)
	return ok && id.node == h.Node && id.id == h.ID
}

// nodeOf reads who pid is; ok is false if it is no running node of this user.
func nodeOf(pid int) (id identity, ok bool) {
	if pid <= 1 {
		return id, false
	}
	proc := "/proc/" + strconv.Itoa(pid)
	cmdline, err := os.ReadFile(proc + "/cmdline") // empty for a zombie
	if err != nil {
		return id, false
	}
	if id, ok = parseArgv(cmdline); !ok {
		return id, false
	}
	st, err := os.Stat(proc)
	if err != nil {
		return id, false
	}
	sys, isStat := st.Sys().(*syscall.Stat_t)
	return id, isStat && int(sys.Uid) == os.Geteuid()
}

// parseArgv is the inverse of argv.
func parseArgv(cmdline []byte) (id identity, ok bool) {
	f := bytes.Split(bytes.TrimSuffix(cmdline, []byte{0}), []byte{0})
	if len(f) != 10 || string(f[0]) != argv0 || string(f[1]) != "node" || string(f[2]) != "--lab" || string(f[4]) != "--node" ||
		string(f[6]) != "--id" || string(f[8]) != "--dir" {
		return id, false
	}
	n, err := strconv.Atoi(string(f[7]))
	if err != nil {
		return id, false
	}
	return identity{lab: string(f[3]), node: string(f[5]), id: n}, true
}
