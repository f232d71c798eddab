package namespace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/uetlab/uetlab/fabric/runtime"
)

// Exit codes of commands that could not be run, as shells have them.
const (
	ExitNotExecutable = 126
	ExitNotFound      = 127
)

// Exec runs e.Argv in the namespaces of process e.Handle.Pid and returns its exit code. Network, PID, UTS and IPC
// namespaces are always the node's. The mount namespace is the node's if its root has the command; otherwise the
// host's binary runs with the host's files, and /proc then shows the host's processes. A command that is found nowhere gives
// ExitNotFound, one that cannot be executed ExitNotExecutable, both without error. When ctx ends the command's
// process group is killed. same is called with the process held fast, and may refuse it as not being the one meant.
func Exec(ctx context.Context, e runtime.Exec, same func() bool) (int, error) {
	if len(e.Argv) == 0 {
		return 0, errors.New("exec: no command given")
	}
	pidfd, err := unix.PidfdOpen(e.Handle.Pid, 0)
	if err != nil {
		return 0, fmt.Errorf("exec in %s: process %d: %w", e.Handle.Node, e.Handle.Pid, gone(err))
	}
	defer unix.Close(pidfd)
	if !same() {
		return 0, fmt.Errorf("exec in %s: process %d: %w", e.Handle.Node, e.Handle.Pid, ErrGone)
	}
	path, inNode, code := lookup(e)
	if code != 0 {
		complain(e, code)
		return code, nil
	}
	flags := unix.CLONE_NEWNET | unix.CLONE_NEWPID | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC
	if inNode {
		flags |= unix.CLONE_NEWNS
	}
	var p *Process
	err = OnThread(func() error {
		if err := unix.Setns(pidfd, flags); err != nil {
			return fmt.Errorf("exec in %s: enter namespaces of process %d: %w", e.Handle.Node, e.Handle.Pid, gone(err))
		}
		p, err = start(path, e)
		return err
	})
	if errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.ENOEXEC) {
		complain(e, ExitNotExecutable)
		return ExitNotExecutable, nil
	}
	if err != nil {
		return 0, err
	}
	for {
		select {
		case <-p.Done():
			return p.ExitCode(), nil
		case sig := <-e.Signals:
			p.KillGroup(sig)
		case <-ctx.Done():
			p.KillGroup(syscall.SIGKILL)
			<-p.Done()
			return p.ExitCode(), ctx.Err()
		}
	}
}

// complain says on the command's standard error, as a shell would, why it could not be run.
func complain(e runtime.Exec, code int) {
	if e.Files[2] == nil {
		return
	}
	why := "no such command, in the node or on this machine"
	if code == ExitNotExecutable {
		why = "cannot be executed"
	}
	fmt.Fprintf(e.Files[2], "uetlab: exec %s: %s\n", e.Argv[0], why)
}

// start starts the command in a session of its own, from whatever namespaces the thread is in.
func start(path string, e runtime.Exec) (*Process, error) {
	files := make([]uintptr, len(e.Files))
	for i, f := range e.Files {
		if f == nil {
			null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
			if err != nil {
				return nil, fmt.Errorf("exec in %s: %w", e.Handle.Node, err)
			}
			defer null.Close()
			f = null
		}
		files[i] = f.Fd()
	}
	p, err := Start(path, e.Argv, &syscall.ProcAttr{
		Dir:   "/",
		Env:   e.Env,
		Files: files,
		Sys:   &syscall.SysProcAttr{Setsid: true, Setctty: e.TTY, Ctty: 0},
	})
	if err != nil {
		return nil, fmt.Errorf("exec in %s: %s: %w", e.Handle.Node, path, err)
	}
	return p, nil
}

func gone(err error) error {
	if errors.Is(err, unix.ESRCH) {
		return ErrGone
	}
	return err
}
