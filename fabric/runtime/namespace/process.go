package namespace

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Process is a child process held by descriptor. It costs no thread while it is waited for.
type Process struct {
	// Pid is the process in the caller's PID namespace.
	Pid int

	fd   *os.File // pidfd, in the runtime's poller
	done chan struct{}
	code int
}

// Start starts a child with attr and reaps it when it ends. The child inherits the calling thread's namespaces.
// attr.Sys must not be nil; its PidFD field is used.
func Start(path string, argv []string, attr *syscall.ProcAttr) (*Process, error) {
	fd := -1
	attr.Sys.PidFD = &fd
	pid, _, err := syscall.StartProcess(path, argv, attr)
	if err != nil {
		return nil, err
	}
	if fd < 0 { // only where CLONE_PIDFD is missing; nobody else reaps the child, so its number cannot be reused
		if fd, err = unix.PidfdOpen(pid, 0); err != nil {
			err = fmt.Errorf("pidfd of process %d: %w", pid, err)
		}
	}
	if err == nil {
		err = unix.SetNonblock(fd, true) // lets os.NewFile hand it to the poller
	}
	if err != nil {
		_ = syscall.Kill(pid, syscall.SIGKILL)
		var ws syscall.WaitStatus
		_, _ = syscall.Wait4(pid, &ws, 0, nil)
		return nil, err
	}
	p := &Process{Pid: pid, fd: os.NewFile(uintptr(fd), "pidfd"), done: make(chan struct{})}
	go p.reap() // ends with the child
	return p, nil
}

// reap waits for the end in the poller and collects the exit status.
func (p *Process) reap() {
	defer close(p.done)
	defer p.fd.Close()
	raw, err := p.fd.SyscallConn()
	if err == nil {
		err = raw.Read(func(uintptr) bool { return p.collect(syscall.WNOHANG) })
	}
	if err != nil { // the poller does not take this descriptor: block a thread instead
		p.collect(0)
	}
}

// collect takes the exit status and says whether the child has ended. A child that was reaped behind our back
// counts as killed.
func (p *Process) collect(options int) bool {
	var ws syscall.WaitStatus
	for {
		pid, err := syscall.Wait4(p.Pid, &ws, options, nil)
		switch {
		case err == syscall.EINTR:
			continue
		case err != nil:
			p.code = 128 + int(syscall.SIGKILL)
			return true
		case pid == 0:
			return false
		case ws.Signaled():
			p.code = 128 + int(ws.Signal())
		default:
			p.code = ws.ExitStatus()
		}
		return true
	}
}

// Done is closed when the process has ended and has been reaped.
func (p *Process) Done() <-chan struct{} { return p.done }

// ExitCode is the exit status, or 128+n for an end by signal n. It is valid once Done is closed.
func (p *Process) ExitCode() int { return p.code }

// KillGroup sends a signal to the process group that the process leads. Its number cannot have been reused
// before Done is closed.
func (p *Process) KillGroup(sig syscall.Signal) {
	select {
	case <-p.done:
	default:
		_ = syscall.Kill(-p.Pid, sig)
	}
}
